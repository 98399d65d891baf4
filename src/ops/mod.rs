//! The operators: schemas in `native_functions/`, kernels in one file per family.
//!
//! A kernel function here serves the `CPU` and the `Meta` key alike: it works out the result's
//! dtype, sizes and strides (the shape function), allocates, and where there is memory calls the
//! raw kernel of the runtime. Composite operators call other operators through [`aten`], so that
//! every key sees the parts.
//!
//! | file | operators |
//! |---|---|
//! | `pointwise/` | arithmetic, comparison, mathematics, `where`, `clamp` |
//! | `formula` | operators whose arithmetic is a formula: activations and their derivatives (`formula_activation`), `lerp`, `xlogy` ... (`formula_arithmetic`) |
//! | `losses` | losses of elements |
//! | `reduce` | `sum`, `mean`, `amax`, `argmax`, `var` ... |
//! | `attention`, `attention_math` | scaled dot product attention and what is made of it |
//! | `class_loss`, `margin_loss`, `ctc` | losses over classes, and of sequences without alignment |
//! | `histogram` | histograms, reductions of segments |
//! | `nn` | softmax, layer norm, rms norm, dropout |
//! | `matmul` | `mm`, `bmm`, `addmm`, `matmul`, `linear` |
//! | `conv`, `conv_shape`, `conv_backward` | convolutions and their gradients |
//! | `norm`, `norm_composite`, `norm_backward`, `norm_memory` | batch, instance, group and weight norms and their gradients |
//! | `product`, `einsum` | products of vectors, outer products, `tensordot`, `einsum` |
//! | `linalg/`, `norms` | factorisations, solutions, determinants (`factor`, `composite`); eigenvalues, singular values, functions of matrices (`spectral`), `least_squares`; norms |
//! | `distance` | `cdist`, `pdist`, `cosine_similarity` |
//! | `recurrent` | LSTM, GRU and plain recurrent layers |
//! | `view` | views, `reshape`, `split`, `stack` |
//! | `alias` | `unfold`, `movedim`, `tensor_split`; inverses of views; functional forms of what overwrites |
//! | `view_copy` | views as copies |
//! | `blocks` | `block_diag`, `tril_indices`, selections by clamped indices |
//! | `compare` | `equal`, `isclose`, `allclose`, `dist` |
//! | `copy` | `copy_`, `clone`, `to`, `fill_`, `tril`, `cat` |
//! | `index` | `embedding`, `index_select`, `gather` |
//! | `variants` | the other variants that write, each made of its functional one |
//! | `shape_inplace` | `resize_`, `t_` and others that change a shape in place; `size`, `numel` |
//! | `sort` | `sort`, `topk`, `kthvalue`, `median`, `mode` |
//! | `scan` | `cumsum`, `cumprod`, `cummax`, `logcumsumexp`, `diff` |
//! | `search`, `repeat_interleave` | `searchsorted`, `isin`, `unique`, `bincount`, `histc`; `repeat_interleave` |
//! | `index_tensor`, `index_along`, `index_backward` | `index`, `index_put`; `index_add`, `take`, `put`; derivatives of selections |
//! | `scatter`, `masked` | the scatter family; `nonzero`, `masked_select`, `masked_scatter` |
//! | `embedding` | derivatives of embeddings, bags of embeddings |
//! | `structured` | variants that write into `out`, and what a backend gets for free by having them |
//! | `composite` | operators taken apart for tensors of backends from outside |
//! | `types` | `result_type` |
//! | `complex` | parts of complex tensors, angles, inner products |
//! | `fft` | Fourier transforms |
//! | `math_bits` | lazy negation and conjugation, zeros without memory |
//! | `sparse/` | tensors in coordinate and compressed-row form |
//! | `spatial/` | pooling, padding, resampling, grid sampling |
//! | `nested/` | batches of tensors of different sizes |
//! | `quantized/` | tensors of small integers with a scale, and the operators of `quantized::` |
//! | `shape_composite`, `diagonal`, `shape_factory` | `repeat`, `roll`; `diag_embed`, `kron`; `linspace`, `new_full` |
//! | `random`, `random_dropout`, `random_factory` | distributions, `multinomial`; dropout; `randint` |
//! | `polynomials` | orthogonal polynomials |
//! | `special`, `special_integer` | `lgamma`, `i0`, `zeta`, `frexp`; `gcd`, shifts |
//! | `factory` | `empty`, `full`, `arange`, random numbers |
//!
//! To add one: a schema entry in the family's yaml file, a function here, and a lowering (or a
//! decomposition) in the passes crate if it is to be fused. CONTRIBUTING.md walks through it.

pub(crate) mod alias;
pub(crate) mod attention;
pub(crate) mod attention_math;
pub(crate) mod blocks;
pub(crate) mod channels;
pub(crate) mod class_loss;
pub(crate) mod common;
pub(crate) mod compare;
pub(crate) mod complex;
pub(crate) mod complex_functions;
pub(crate) mod composite;
pub(crate) mod conv;
pub(crate) mod conv_backward;
pub(crate) mod conv_shape;
pub(crate) mod copy;
pub(crate) mod coverage;
pub(crate) mod cpu_fallback;
pub(crate) mod ctc;
pub(crate) mod dense;
pub(crate) mod diagonal;
pub(crate) mod distance;
pub(crate) mod einsum;
pub(crate) mod embedding;
pub(crate) mod factory;
pub(crate) mod fft;
pub(crate) mod formula;
pub(crate) mod formula_activation;
pub(crate) mod formula_arithmetic;
pub(crate) mod histogram;
pub(crate) mod index;
pub(crate) mod index_along;
pub(crate) mod index_backward;
pub(crate) mod index_tensor;
pub(crate) mod kinds;
#[cfg(test)]
mod launch_tests;
pub(crate) mod linalg;
pub(crate) mod losses;
pub(crate) mod margin_loss;
pub(crate) mod masked;
pub(crate) mod math_bits;
pub(crate) mod matmul;
pub(crate) mod nested;
pub(crate) mod nn;
pub(crate) mod norm;
pub(crate) mod norm_backward;
pub(crate) mod norm_composite;
pub(crate) mod norm_memory;
pub(crate) mod norms;
pub(crate) mod pointwise;
pub(crate) mod polynomials;
pub(crate) mod product;
pub mod quantized;
pub(crate) mod random;
pub(crate) mod random_choice;
pub(crate) mod random_dropout;
pub(crate) mod random_factory;
pub(crate) mod random_integers;
pub(crate) mod random_rrelu;
pub(crate) mod recurrent;
pub(crate) mod recurrent_mkldnn;
pub(crate) mod reduce;
pub(crate) mod registered;
pub(crate) mod repeat_interleave;
pub(crate) mod scan;
pub(crate) mod scatter;
pub(crate) mod search;
pub(crate) mod shape_composite;
pub(crate) mod shape_factory;
pub(crate) mod shape_inplace;
pub(crate) mod sort;
pub(crate) mod sparse;
pub(crate) mod spatial;
pub(crate) mod special;
pub(crate) mod special_integer;
pub(crate) mod structured;
pub(crate) mod transformer;
pub(crate) mod types;
pub(crate) mod variants;
pub(crate) mod view;
pub(crate) mod view_copy;

pub use coverage::{Coverage, Stages, coverage};
use straightline_catalog::Op;
pub use straightline_catalog::Tolerance;

/// How near to PyTorch's result that of one of our operators is, by its full name; `None` for names
/// that are not in the catalogue.
///
/// ```
/// use straightline::ops::{Tolerance, tolerance};
/// assert_eq!(tolerance("aten::exp"), Some(Tolerance::Pointwise));
/// assert_eq!(tolerance("aten::no_such_operator"), None);
/// ```
pub fn tolerance(operator: &str) -> Option<Tolerance> {
    let op = Op::named(operator).filter(|op| op.is_known())?;
    Some(op.facts().tolerance)
}

/// Defines the operators and registers their kernels; called once, by the dispatcher itself.
pub(crate) fn register() -> crate::Result<()> {
    let mut library = crate::dispatch::Library::new("aten")?;
    library.own();
    for row in aten::OPERATORS {
        row.register(&mut library)?;
    }
    library.leak();
    quantized::register()
}

/// A kernel at an autograd key that goes on below all of them. A fallthrough would stop at the
/// next, `AutogradCPU`, which for a composite with kernels for nested tensors is the composite.
fn below_autograd() -> crate::dispatch::Kernel {
    crate::dispatch::Kernel::boxed(|op, keys, stack| {
        op.redispatch_boxed(
            keys & crate::dispatch::DispatchKeySet::AFTER_AUTOGRAD,
            stack,
        )
    })
}

/// The operators as typed functions: `aten::add.Tensor` is [`aten::add_tensor`].
///
/// Each takes every argument of its schema and goes through the dispatcher. `Tensor`'s methods are
/// the convenient form.
///
/// ```
/// use straightline::{Scalar, Tensor, ops::aten};
/// let x = Tensor::from_vec([1f32, 2.0], 2)?;
/// let y = aten::add_tensor(&x, &x, Scalar::Int(10))?;
/// assert_eq!(y.to_vec::<f32>()?, [11.0, 22.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[allow(
    non_snake_case,
    clippy::let_unit_value,
    clippy::type_complexity,
    clippy::useless_conversion,
    reason = "generated: one form of code for all signatures"
)]
pub mod aten {
    use super::composite::is_foreign;
    use super::registered::{Registered, kernel};
    use super::variants;
    use crate::dispatch::{
        BackendComponent, DispatchKey, DispatchKeySet, Kernel, TlsKeySets, TypedOp,
    };
    use crate::error::{Error, Result};
    use crate::tensor::{Generator, Tensor};
    use std::panic::Location;
    use straightline_catalog::entry::ENTRIES;
    use straightline_catalog::prims::UnaryOp;
    #[allow(
        unused_imports,
        reason = "which of them the generated code names depends on the schemas"
    )]
    use straightline_catalog::{DType, Device, Layout, MemoryFormat, QScheme, Scalar};

    include!(concat!(env!("OUT_DIR"), "/aten.rs"));

    /// An argument of a call that has tensors.
    enum Given<'a> {
        One(&'a Tensor),
        Maybe(Option<&'a Tensor>),
        List(&'a [Tensor]),
        Holes(&'a [Option<Tensor>]),
    }

    /// Adds the operator, its operands and the caller's line to an error on its way out.
    #[cold]
    #[inline(never)]
    fn annotate(
        e: Error,
        op: &'static str,
        given: &[Given<'_>],
        at: &'static Location<'static>,
    ) -> Error {
        let tensors = given.iter().flat_map(|g| {
            let (one, list, holes): (_, &[Tensor], &[Option<Tensor>]) = match g {
                Given::One(t) => (Some(*t), &[], &[]),
                Given::Maybe(t) => (*t, &[], &[]),
                Given::List(list) => (None, list, &[]),
                Given::Holes(list) => (None, &[], list),
            };
            one.into_iter().chain(list).chain(holes.iter().flatten())
        });
        e.with_call(op, tensors).with_location(at)
    }

    /// The dispatch key that a factory's options send it to (c10's `computeDispatchKey`).
    #[inline]
    fn device_keys(
        dtype: Option<DType>,
        layout: Option<Layout>,
        device: Option<Device>,
    ) -> DispatchKeySet {
        let device = device.unwrap_or(Device::CPU);
        let functionality = match layout.unwrap_or_default() {
            Layout::Strided | Layout::Jagged if dtype.is_some_and(DType::is_quantized) => {
                DispatchKey::Quantized
            }
            Layout::Strided | Layout::Jagged => DispatchKey::Dense,
            Layout::Sparse => DispatchKey::Sparse,
            Layout::SparseCsr | Layout::SparseCsc | Layout::SparseBsr | Layout::SparseBsc => {
                DispatchKey::SparseCsr
            }
            Layout::Mkldnn => return DispatchKey::MkldnnCPU.into(),
        };
        functionality
            .on_backend(BackendComponent::of(device.kind))
            .into()
    }

    /// Where an operator with options sends a call that has tensors as well: below `BackendSelect`,
    /// to the highest backend of all of them.
    fn device_and_tensor_keys<'a>(
        options: DispatchKeySet,
        tensors: impl Iterator<Item = &'a Tensor>,
    ) -> DispatchKeySet {
        let keys = tensors.fold(options, |keys, t| keys | t.key_set());
        let thread = TlsKeySets::current();
        ((keys | thread.included) - thread.excluded)
            & DispatchKeySet::full_after(DispatchKey::BackendSelect)
    }
}
