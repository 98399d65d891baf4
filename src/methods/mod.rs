//! The convenient form of the operators: `Tensor` methods with PyTorch's names and defaults.
//!
//! Each calls the typed wrapper of [`crate::ops::aten`] that its documentation names, which goes
//! through the dispatcher. Methods ending in `_` write in place and return a handle to the same
//! tensor. What calls one operator is generated from that operator's entry in `catalog/ops/`; what
//! does more is written here.
//!
//! **One rule for what PyTorch has defaults for.** The bare name takes what a call in PyTorch has
//! to give, and has its defaults for the rest: `topk(k)`, `flatten()`, `tril()`, `var()`,
//! `logsumexp(dim)`. The same name with a suffix takes the rest as well, in PyTorch's order: `_dim`
//! (or `_dims`) where what comes first is a dimension (`sum_dim(dims)`, `var_dim(dims)`,
//! `flatten_dims(start, end)`, `topk_dim(k, dim, largest)`), `_keepdim` where it is reduced and
//! stays, with size 1 (`sum_keepdim(dims)`, `max_keepdim(dim)`), `_with` otherwise
//! (`tril_with(diagonal)`, `var_with(dims, correction, keepdim)`, `layer_norm_with(shape, weight,
//! bias, eps)`). Where PyTorch has many keywords these are one value with defaults,
//! [`ConvOptions`], [`PoolOptions`], [`InterpolateOptions`] and [`CrossEntropyOptions`], made as
//! [`TensorOptions`] is.
//!
//! Given always is what a call says too little without, and what people write even where PyTorch
//! has a default for it: the dimension along which tensors are joined, cut, ordered or searched for
//! a position (`cat`, `stack`, `split`, `chunk`, `unbind`, `sort(dim, descending)`, `argmax(dim)`,
//! where `None` is the whole tensor), the numbers of a distribution or a histogram (`dropout(p)`,
//! `multinomial(samples, replacement)`, `normal_(mean, std)`, `histc(bins, min, max)`), the bias of
//! a layer, as `None` or a tensor, a convolution's stride and padding (`conv2d(&weight, None, 1,
//! 0)`), and whether `index_put_` accumulates.
//!
//! A second tensor is `impl AsRef<Tensor>`, so that `x.matmul(&w)` and `x.matmul(w.t()?)` both fit;
//! one that may be missing is `impl Into<Option<&Tensor>>`: `None`, `&t`, `Some(&t)` and
//! `&self.bias` of an `Option<Tensor>` all fit. Sizes and dimensions are [`Ints`](crate::Ints),
//! where one number may stand for all dimensions of a kernel; an operand that may be a number is
//! [`Other`](crate::Other).

mod casts;
mod compare;
pub(crate) mod convolution;
pub(crate) mod display;
pub(crate) mod display_layouts;
pub(crate) mod functions;
mod generated;
pub(crate) mod index;
pub(crate) mod losses;
pub(crate) mod operators;
mod options;
mod pooling;
mod quantiles;
mod read;
mod resample;
mod select;
mod shape;
mod sparse;
mod statistics;

pub use convolution::ConvOptions;
pub use index::{Bounds, Ellipsis, Index, Indices, NewAxis, step};
pub use losses::{CrossEntropyOptions, Reduction};
pub use options::TensorOptions;
pub use pooling::PoolOptions;
pub use read::Item;
pub use resample::InterpolateOptions;
