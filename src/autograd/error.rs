//! What can be wrong with a backward pass, with PyTorch's words.

use std::fmt;
use std::panic::Location;

type Line = &'static Location<'static>;

/// An operator's call: its name and the user's line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The operator, `aten::mul.Tensor`, or the name of a function of the user's.
    pub op: String,
    /// The line that called it.
    pub line: Option<Line>,
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.op)?;
        match self.line {
            Some(line) => write!(f, " at {line}"),
            None => Ok(()),
        }
    }
}

/// A backward pass that cannot be made, or a call that would make it impossible.
///
/// ```
/// use straightline::{ErrorKind, autograd::AutogradError, tensor};
/// let x = tensor([1.0, 2.0])?.requires_grad_(true)?;
/// let error = x.mul(2)?.backward().unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::Autograd(e) if matches!(**e, AutogradError::NotScalar { .. })));
/// assert!(error.to_string().contains("grad can be implicitly created only for scalar outputs"));
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AutogradError {
    /// A gradient was asked of a tensor with several elements, and none was given to start with.
    #[error(
        "grad can be implicitly created only for scalar outputs, and this one has sizes {sizes:?}: \
         reduce it to one number (`sum`, `mean`), or give its gradient with `backward_with`"
    )]
    NotScalar {
        /// The tensor's sizes.
        sizes: Vec<i64>,
    },
    /// The same of a complex tensor.
    #[error(
        "grad can be implicitly created only for real scalar outputs but got {dtype}: give the gradient with `backward_with`"
    )]
    NotReal {
        /// PyTorch's name of the dtype.
        dtype: &'static str,
    },
    /// A given gradient has other sizes than its tensor.
    #[error(
        "Mismatch in shape: grad_output[{index}] has a shape of {grad:?} and output[{index}] has a shape of {output:?}."
    )]
    GradShape {
        /// Which of the outputs.
        index: usize,
        /// The gradient's sizes.
        grad: Vec<i64>,
        /// The output's sizes.
        output: Vec<i64>,
    },
    /// A given gradient is complex and its tensor real, or the other way round.
    #[error(
        "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: \
         grad_output[{index}] has a dtype of {grad} and output[{index}] has a dtype of {output}."
    )]
    GradDType {
        /// Which of the outputs.
        index: usize,
        /// The gradient's dtype.
        grad: &'static str,
        /// The output's dtype.
        output: &'static str,
    },
    /// A pass would begin at an edge, and nothing says with which gradient.
    #[error(
        "grad can be implicitly created only for scalar outputs, and outputs[{index}] is a GradientEdge: give its gradient with \
         `grad_outputs`"
    )]
    EdgeWithoutGrad {
        /// Which of the outputs.
        index: usize,
    },
    /// The gradients of a batch do not fit their outputs.
    #[error(
        "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension. The sizes of the \
         remaining dimensions are expected to match the shape of corresponding output, but a mismatch was detected: \
         grad_output[{index}] has a shape of {grad:?} and output[{index}] has a shape of {output:?}. If you only want some tensors in \
         `grad_output` to be considered batched, consider using vmap."
    )]
    BatchedGradShape {
        /// Which of the outputs.
        index: usize,
        /// The gradients' sizes.
        grad: Vec<i64>,
        /// The output's sizes.
        output: Vec<i64>,
    },
    /// There are more or fewer gradients than outputs.
    #[error("{outputs} outputs, and {grads} gradients for them: give one for each, or none")]
    GradCount {
        /// How many outputs.
        outputs: usize,
        /// How many gradients.
        grads: usize,
    },
    /// The result does not depend on anything that wants a gradient.
    #[error(
        "element {index} of tensors does not require grad and does not have a grad_fn: nothing that it was computed from asks \
         for a gradient (`requires_grad_(true)`), or it was computed under `no_grad`"
    )]
    NoHistory {
        /// Which of the outputs.
        index: usize,
    },
    /// A gradient was asked for a tensor that wants none.
    #[error("One of the differentiated Tensors does not require grad (input {index})")]
    InputWithoutGrad {
        /// Which of the inputs.
        index: usize,
    },
    /// A gradient was asked for a tensor that the result does not depend on.
    #[error(
        "The differentiated Tensor at index {index} appears to not have been used in the graph. Set allow_unused=True if this is \
         the desired behavior."
    )]
    Unused {
        /// Which of the inputs.
        index: usize,
    },
    /// `.grad` would be written while a transform runs.
    #[error(
        "backward() called inside a functorch transform. This is not supported, please use func::grad or func::vjp instead or call \
         backward() outside of functorch transforms."
    )]
    InsideTransform,
    /// No inputs were given where some are needed.
    #[error("`inputs` argument to `{what}` cannot be empty.")]
    NoInputs {
        /// The function.
        what: &'static str,
    },
    /// Options that contradict each other.
    #[error(
        "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
    )]
    Contradiction,
    /// What a node saved is gone: a backward pass has used it.
    #[error(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already been \
         freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify \
         retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors \
         after calling backward. (node {node}{})", Of(.made.as_ref())
    )]
    Twice {
        /// The node.
        node: String,
        /// The call that made it.
        made: Option<Made>,
    },
    /// A tensor that a gradient needs was written after it was saved.
    #[error(
        "one of the variables needed for gradient computation has been modified by an inplace operation: [{tensor}]{}, is at \
         version {version}; expected version {expected} instead. It was saved by {saved_by}{}. Hint: use the operator without `_`, \
         or write into a copy; anomaly detection (autograd::detect_anomaly) shows the call whose gradient failed.",
        Output(.output.as_ref()), Wrote(.written_by.as_ref())
    )]
    Modified {
        /// PyTorch's type and the sizes, `torch.FloatTensor [2]`.
        tensor: String,
        /// The output number and the forward name of the node that the tensor comes out of now.
        output: Option<(u32, String)>,
        /// How often the memory has been written.
        version: u64,
        /// How often it had been when it was saved.
        expected: u64,
        /// The call whose gradient needs the tensor.
        saved_by: Made,
        /// The call that wrote it, where it was recorded.
        written_by: Option<Made>,
    },
    /// A saved tensor was cut from its history in place.
    #[error(
        "Trying to use a saved tensor that has been detached in-place, i.e. with `.detach_()`. This is not supported, please \
         use out-of-place `.detach()` instead"
    )]
    DetachedInPlace,
    /// A tensor of inference mode would have to be saved.
    #[error(
        "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in computation \
         tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in autograd, or use \
         `no_grad` instead of `inference_mode`."
    )]
    Inference,
    /// A tensor of inference mode would be written outside of it.
    #[error(
        "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a normal tensor \
         before doing inplace update. See https://github.com/pytorch/rfcs/pull/17 for more details."
    )]
    InferenceWrite,
    /// A leaf that wants a gradient would be overwritten.
    #[error("a {}leaf Variable that requires grad {} in an in-place operation.", if *.view { "view of a " } else { "" }, if *.dirty { "has been used" } else { "is being used" })]
    Leaf {
        /// It is a view of a leaf.
        view: bool,
        /// It was marked as written by a function of the user's.
        dirty: bool,
    },
    /// A view that must not be written while gradients are recorded.
    #[error("{0}")]
    View(String),
    /// An operand without a gradient formula wants a gradient.
    #[error(
        "The function '{function}' is not differentiable with respect to argument '{argument}'. This input cannot have \
         requires_grad True."
    )]
    NotDifferentiable {
        /// The operator.
        function: String,
        /// The argument's name in the schema.
        argument: &'static str,
    },
    /// An operator whose gradient nobody has written.
    #[error("derivative for {op} is not implemented{}", Of(.made.as_ref()))]
    NotImplemented {
        /// The operator, `aten::floor_divide`.
        op: String,
        /// The call.
        made: Option<Made>,
    },
    /// An operator from outside without an autograd kernel.
    #[error(
        "Trying to backward through {op} but no autograd formula was registered: `CustomOp::register_autograd` gives it one, or \
         a kernel at `Autograd`{}", Of(.made.as_ref())
    )]
    NoKernel {
        /// The operator.
        op: String,
        /// The call.
        made: Option<Made>,
    },
    /// A call with an `out` has no history.
    #[error(
        "{function}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires \
         grad."
    )]
    Out {
        /// The operator.
        function: String,
    },
    /// A function gave a gradient that does not fit.
    #[error("Function {node} returned an invalid gradient at index {index} - {what}")]
    InvalidGradient {
        /// The node.
        node: String,
        /// Which of its gradients.
        index: usize,
        /// What is wrong with it.
        what: String,
    },
    /// A function gave too many or too few gradients.
    #[error(
        "function {node} returned an incorrect number of gradients (expected {expected}, got {got})"
    )]
    GradientCount {
        /// The node.
        node: String,
        /// How many inputs have one.
        expected: usize,
        /// How many came.
        got: usize,
    },
    /// A hook of a node gave another number of gradients.
    #[error("hook has returned an incorrect number of values (got {got}, but expected {expected})")]
    HookCount {
        /// How many there were.
        expected: usize,
        /// How many came.
        got: usize,
    },
    /// A function of the user's is called on a batch whose samples are differentiated outside.
    #[error(
        "You tried to vmap over {function}, but it does not have vmap support, and what differentiates outside of the vmap would not \
         see its gradient. Let `vmap_rule` be `VmapRule::Generated`, or `VmapRule::Own` with `vmap` written"
    )]
    FunctionOfBatch {
        /// The function.
        function: String,
    },
    /// A hook gave a gradient of another shape, dtype or device.
    #[error("hook has changed the {what} of value: from {before} to {after}")]
    Hook {
        /// Size, type or device.
        what: &'static str,
        /// What it was.
        before: String,
        /// What it became.
        after: String,
    },
    /// A gradient is not a number.
    #[error("Function '{node}' returned nan values in its {index}th output.{}", Forward(.made.as_ref()))]
    Nan {
        /// The node.
        node: String,
        /// Which of its gradients.
        index: usize,
        /// The call that made the node.
        made: Option<Made>,
    },
    /// A setting of a tensor that has no meaning for it.
    #[error("{0}")]
    Setting(String),
    /// The second derivative of something that has a first one alone.
    #[error(
        "trying to differentiate twice a function that was marked with once_differentiable ({0})"
    )]
    OnceDifferentiable(String),
    /// The second derivative of a compiled function.
    #[error(
        "compile() does not support double backward: the gradients of a compiled function cannot be differentiated. Call the \
         function itself (`Compiled::eager`), or compile a function that computes its second derivatives inside"
    )]
    CompiledTwice,
    /// What was recomputed differs from what had been computed.
    #[error(
        "checkpoint: A different number of tensors was saved during the original forward and recomputation ({first} and {again}): \
         the function must do the same thing each time"
    )]
    Checkpoint {
        /// How many were saved first.
        first: usize,
        /// How many again.
        again: usize,
    },
    /// A second level of dual tensors was asked for while one lasts.
    #[error("Nested forward mode AD is not supported at the moment")]
    NestedForward,
    /// A dual tensor was to be made where there is no level.
    #[error(
        "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
    )]
    NoDualLevel,
    /// A dual tensor of integers.
    #[error("Expected {what} to be floating point or complex, but got: torch.{dtype}")]
    DualDType {
        /// Primal or tangent.
        what: &'static str,
        /// The dtype.
        dtype: &'static str,
    },
    /// A tangent of other sizes than its tensor.
    #[error(
        "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not supported. \
         Tensor is of size {tensor:?} while the given forward gradient is of size {tangent:?}."
    )]
    TangentSize {
        /// The tensor's sizes.
        tensor: Vec<i64>,
        /// The tangent's sizes.
        tangent: Vec<i64>,
    },
    /// A tensor that has a tangent was to get another one.
    #[error(
        "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not supported."
    )]
    AlreadyDual,
    /// Tangents do not go through an operator.
    #[error(
        "Trying to use forward AD with {op} that does not support it because it has not been implemented yet.\n\
         Call it on tensors without a tangent (`unpack_dual`), or use reverse mode"
    )]
    ForwardNotImplemented {
        /// The operator, `_cdist_forward`.
        op: String,
    },
    /// A call with an `out` on tensors with tangents.
    #[error(
        "Trying to use forward AD with {function}_out that does not support it because it is an out= function"
    )]
    ForwardOut {
        /// The operator.
        function: String,
    },
    /// A function of the user's has no rule for tangents.
    #[error(
        "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
    )]
    NoJvp,
    /// A function of the user's has no rule for batches, and says that it has.
    #[error("`vmap_rule` is `VmapRule::Own`, and the function does not write `vmap`")]
    NoVmap,
    /// A function of the user's, batched by its own rule, is differentiated inside of the `vmap`.
    #[error(
        "In order to differentiate a custom Function with a `vmap` of its own inside of vmap, it must write `setup_context`, which keeps \
         for the gradient what `forward` would have kept"
    )]
    NoSetupContext,
    /// A write through a view of a tensor that was taken out of a dual one.
    #[error(
        "a value with a tangent is written through a view of what `make_dual` or `unpack_dual` gave: write that tensor itself, or \
         a clone of it"
    )]
    ForwardView,
    /// Analytical and numerical gradients differ.
    #[error("{0}")]
    Gradcheck(String),
}

impl AutogradError {
    /// The class of PyTorch's exception.
    pub(crate) fn python_class(&self) -> &'static str {
        match self {
            AutogradError::Contradiction | AutogradError::DualDType { .. } => "ValueError",
            AutogradError::ForwardNotImplemented { .. }
            | AutogradError::ForwardOut { .. }
            | AutogradError::NoJvp => "NotImplementedError",
            _ => "RuntimeError",
        }
    }
}

struct Of<'a>(Option<&'a Made>);

impl fmt::Display for Of<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |made| write!(f, ", made by {made}"))
    }
}

struct Forward<'a>(Option<&'a Made>);

impl fmt::Display for Forward<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |made| write!(f, " The forward call was {made}."))
    }
}

struct Wrote<'a>(Option<&'a Made>);

impl fmt::Display for Wrote<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |made| write!(f, " and written by {made}"))
    }
}

struct Output<'a>(Option<&'a (u32, String)>);

impl fmt::Display for Output<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |(nr, name)| write!(f, ", which is output {nr} of {name}"))
    }
}

impl From<AutogradError> for crate::Error {
    #[cold]
    fn from(e: AutogradError) -> crate::Error {
        crate::Error::new(crate::ErrorKind::Autograd(Box::new(e)))
    }
}
