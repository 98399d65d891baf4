//! What can be wrong with a function that is transformed, with PyTorch's words.

/// A transform that cannot be made, or a call that its function must not make.
///
/// ```
/// use straightline::{ErrorKind, Tensor, func::{TransformError, vmap}, tensor};
/// let error = vmap(|x: &Tensor| x.item::<f32>().map(|_| x.clone()))(&tensor([1.0, 2.0])?).unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::Transform(e) if matches!(**e, TransformError::Item)));
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransformError {
    /// A number was asked of a batched tensor.
    #[error(
        "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor, please \
         try to rewrite what you're doing with other operations."
    )]
    Item,
    /// A branch depends on a batched tensor.
    #[error(
        "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that: \
         select with `where`, or branch with `control_flow::cond`."
    )]
    ControlFlow,
    /// The sizes of an operator's result depend on the elements of a batched tensor.
    #[error(
        "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over {op}: \
         each sample would have a result of another size. Call it outside of `vmap`, or keep all elements and a mask."
    )]
    DynamicShape {
        /// The operator.
        op: String,
    },
    /// A mask selects elements of a batched tensor.
    #[error(
        "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow: {op} selects by a mask. \
         We do not support batching operators that can output dynamic shape. Attempting to batch over indexing with a boolean mask."
    )]
    Mask {
        /// The operator.
        op: String,
    },
    /// A random operator where `vmap` was not told what to do with it.
    #[error(
        "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness \
         flags on vmap or perform the randomness operation out of vmap"
    )]
    Random,
    /// The same random numbers for all samples, of an operator that depends on the sample.
    #[error(
        "Vmap does not currently support same randomness with a batched tensor input. \
         Draw the numbers outside of `vmap`, or with `Randomness::Different`"
    )]
    SameRandomness,
    /// Different random numbers for the samples in a tensor that all share.
    #[error(
        "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same randomness. Write \
         into a tensor that is batched, or draw out of place"
    )]
    DifferentInPlace,
    /// A tensor that all samples share was to be written with what differs among them.
    #[error(
        "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that has \
         more elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped over in a vmap. \
         Please try to use out-of-place operators instead of inplace arithmetic. The operator is {op}"
    )]
    InPlace {
        /// The operator.
        op: String,
    },
    /// An operator has no batching rule, and cannot be called for each sample.
    #[error("Batching rule not implemented for {op}. {why}")]
    NoRule {
        /// The operator.
        op: String,
        /// Why the loop is no way out.
        why: &'static str,
    },
    /// A batched tensor was kept longer than its `vmap` ran.
    #[error(
        "{op}: your tensor may have escaped from inside a function being vmapped and this is a user error: what `vmap` hands to its \
         function is of use in that function only"
    )]
    Escaped {
        /// The operator.
        op: String,
    },
    /// A tensor from outside of a function that is differentiated was to be written.
    #[error(
        "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation ({op}) that would \
         mutate a captured Tensor. This is not supported; please rewrite the function being transformed to explicitly accept the \
         mutated Tensor(s) as inputs."
    )]
    Captured {
        /// The operator.
        op: String,
    },
    /// The function has no number as its result.
    #[error(
        "{api}(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with {dims} dims. Maybe you wanted to use the vjp or \
         jacrev APIs instead?"
    )]
    NotScalar {
        /// Which transform.
        api: &'static str,
        /// How many dimensions the result has.
        dims: usize,
    },
    /// Tensors that cannot have a gradient.
    #[error(
        "{api}: only Tensors of floating point dtype can require gradients, got Tensor with dtype {dtype}"
    )]
    NotFloating {
        /// Which transform.
        api: &'static str,
        /// The dtype.
        dtype: straightline_catalog::DType,
    },
    /// Tangents or cotangents that do not fit.
    #[error("{api}: {what}")]
    Mismatch {
        /// Which transform.
        api: &'static str,
        /// What does not fit.
        what: String,
    },
    /// Arguments of `vmap` that do not fit.
    #[error("{0}")]
    Vmap(String),
}

impl TransformError {
    /// PyTorch's exception.
    pub(crate) fn python_class(&self) -> &'static str {
        match self {
            TransformError::Vmap(_) => "ValueError",
            _ => "RuntimeError",
        }
    }
}

impl From<TransformError> for crate::Error {
    #[cold]
    fn from(e: TransformError) -> crate::Error {
        crate::Error::new(crate::ErrorKind::Transform(Box::new(e)))
    }
}
