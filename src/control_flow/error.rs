//! What can be wrong with a branch or a loop, with PyTorch's words where it has some.

/// A function that a branch or a loop cannot call, or arguments that do not fit.
///
/// ```
/// use straightline::control_flow::{ControlFlowError, cond};
/// use straightline::{ErrorKind, Tensor, tensor};
/// let x = tensor([1.0, 2.0])?;
/// let error = cond(&x, |x| x.sin(), |x| x.cos(), &x).unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::ControlFlow(e) if matches!(**e, ControlFlowError::Predicate { .. })));
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlFlowError {
    /// A predicate that is no truth value.
    #[error("{op}: Expected pred to be bool or single-element tensor, but got {found}.")]
    Predicate {
        /// Which operator.
        op: &'static str,
        /// What was given.
        found: String,
    },
    /// Functions that return different structures.
    #[error(
        "{op}: expected {function} to return what {other} does, but the structure differs: {what}"
    )]
    Structure {
        /// Which operator.
        op: &'static str,
        /// The function.
        function: &'static str,
        /// What it is compared with.
        other: &'static str,
        /// Where they differ.
        what: String,
    },
    /// Tensors of different dtypes or sizes.
    #[error(
        "{op}: expected each tensor to have same metadata but got: tensor {at} of {function} is {found}, and {expected} of {other}"
    )]
    Metadata {
        /// Which operator.
        op: &'static str,
        /// The function.
        function: &'static str,
        /// What it is compared with.
        other: &'static str,
        /// Which of its tensors.
        at: usize,
        /// What it is.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// A result that shares memory with an operand or another result.
    #[error(
        "{op}: {function} might be aliasing the input or the output: tensor {at} of what it returns shares memory with {with}. \
         Return a copy of it (`copied()`)"
    )]
    Aliased {
        /// Which operator.
        op: &'static str,
        /// The function.
        function: &'static str,
        /// Which of its results.
        at: usize,
        /// What it shares memory with.
        with: String,
    },
    /// An operand that was written.
    #[error(
        "{op}: {function} might be modifying the input: it writes tensor {at} of its operands, which a compiled call would not do. \
         Compute a new tensor and return it"
    )]
    Mutated {
        /// Which operator.
        op: &'static str,
        /// The function.
        function: &'static str,
        /// Which operand.
        at: usize,
    },
    /// Tensors to scan that do not go together, or none.
    #[error("{op}: {what}")]
    Slices {
        /// Which operator.
        op: &'static str,
        /// What is wrong.
        what: String,
    },
    /// A transform that has no rule for the operator.
    #[error("Batching rule not implemented for {op}: {why}")]
    Batched {
        /// Which operator.
        op: &'static str,
        /// What to do.
        why: &'static str,
    },
}

impl From<ControlFlowError> for crate::Error {
    #[cold]
    fn from(e: ControlFlowError) -> crate::Error {
        crate::Error::new(crate::ErrorKind::ControlFlow(Box::new(e)))
    }
}
