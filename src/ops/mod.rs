//! The operators: schemas in `catalog/ops/`, kernels here, in folders of the same names.
//!
//! A kernel function here serves the `CPU` and the `Meta` key alike: it works out the result's
//! dtype, sizes and strides (the shape function), allocates, and where there is memory launches a
//! kernel of the runtime. Composite operators call other operators through [`aten`], so that every
//! key sees the parts; those that are an expression stand in the catalogue and not here.
//!
//! | family | operators |
//! |---|---|
//! | `pointwise/` | arithmetic, comparison, mathematics, activations, `where`, `clamp` |
//! | `reduce/` | `sum`, `mean`, `amax`, `var` ...; scans, sorting, histograms |
//! | `view/` | views, `reshape`, `split`, `stack`; inverses of views; changes of shape in place |
//! | `shape/` | `repeat`, `roll`, `hstack`, `diag_embed`, `block_diag`, `repeat_interleave`; products and combinations of tensors |
//! | `create/` | `empty`, `full`, `arange`, `linspace`, `new_full` |
//! | `index/` | `index_select`, `gather`, `index`, `index_put`, the scatter family, masks, embeddings, searches |
//! | `matmul/` | `mm`, `bmm`, `addmm`, `matmul`, `linear`; outer products, `einsum`; distances |
//! | `linalg/` | factorisations, solutions, eigenvalues, functions of matrices, norms |
//! | `nn/` | softmax, normalisation, convolution, losses, attention, recurrent layers |
//! | `spatial/` | pooling, padding, resampling, grid sampling |
//! | `random/` | distributions, `multinomial`, dropout |
//! | `fft` | Fourier transforms |
//! | `numeric/` | quantiles, covariances; differences and integrals; windows, spectra over time: made of others |
//! | `sparse/`, `nested/`, `quantized/` | tensors in coordinate and compressed-row form; batches of tensors of different sizes; small integers with a scale |
//! | `forms/` | the variants that write into `out` or in place, each made of its functional one |
//!
//! Beside the families: `common` (dtypes, broadcasting, checks), `copy` (`copy_`, `clone`, `to`,
//! `cat`), `by_dtype` (code by element type), `math_bits` (lazy negation and conjugation),
//! `foreign` (operators taken apart for tensors of backends from outside), `cpu_fallback`, `kinds`
//! (the parts of sparse, nested and quantized tensors), `registered` (what the generated table
//! registers).
//!
//! CONTRIBUTING.md walks through adding an operator.

pub(crate) mod by_dtype;
pub(crate) mod common;
pub(crate) mod composed;
pub(crate) mod copy;
pub(crate) mod cpu_fallback;
pub(crate) mod create;
pub(crate) mod fft;
pub(crate) mod foreign;
pub(crate) mod forms;
pub(crate) mod index;
pub(crate) mod kinds;
#[cfg(test)]
mod launch_tests;
pub(crate) mod linalg;
pub(crate) mod math_bits;
pub(crate) mod matmul;
pub(crate) mod nested;
pub(crate) mod nn;
pub(crate) mod numeric;
pub(crate) mod pointwise;
pub mod quantized;
pub(crate) mod random;
pub(crate) mod reduce;
pub(crate) mod registered;
pub(crate) mod shape;
pub(crate) mod sparse;
pub(crate) mod spatial;
pub(crate) mod view;

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
        op.redispatch_boxed(keys & crate::dispatch::DispatchKeySet::AFTER_AUTOGRAD, stack)
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
    use super::foreign::is_foreign;
    use super::forms::variants;
    use super::registered::{Registered, kernel};
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
        #[cfg(feature = "cuda")]
        if device.kind == straightline_catalog::DeviceType::Cuda {
            crate::tensor::on_device::used();
        }
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
        functionality.on_backend(BackendComponent::of(device.kind)).into()
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
