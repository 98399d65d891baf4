//! What a custom operator refuses.

use crate::dispatch::error::DispatchError;
use straightline_catalog::{DType, Device};

/// What a custom operator refuses.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages say what the fields are
pub enum CustomOpError {
    #[error("custom_op(\"{name}\"): the name must be `namespace::operator`, without an overload")]
    Name { name: String },
    #[error(
        "Attempted to create the custom op {op} with mutates_args={given:?} and schema={schema}. The schema suggests that the op \
         mutates {written:?}, which is different. Please make these consistent"
    )]
    MutatesArgs { op: String, schema: String, given: Vec<String>, written: Vec<String> },
    #[error(
        "{op}: {given} argument names for a kernel of {want} arguments; `CustomOpBuilder::args` wants one for each"
    )]
    ArgumentNames { op: String, given: usize, want: usize },
    #[error(
        "custom_op with kwarg-only Tensor args. Please make your tensors not kwarg-only. Got: {schema}"
    )]
    KeywordOnlyTensor { schema: String },
    #[error(
        "{op}: Functions without tensor inputs are required to have a `Device device` argument, by which the backend is chosen; \
         got {schema}"
    )]
    NoDeviceArgument { op: String, schema: String },
    #[error(
        "{op} does not have a kernel registered for {device}. Please use `CustomOp::register_kernel` to do so"
    )]
    NoKernelForDevice { op: String, device: Device },
    #[error(
        "There was no fake impl registered for {op}. This is necessary for `compile()` and for Meta tensors to work. Please use \
         `CustomOp::register_fake` to add one: a function of the same types that computes sizes and dtype and reads no data"
    )]
    NoFakeImpl { op: String },
    #[error(
        "{op}: The output of this custom operator (1) must not also be an input to this custom operator and (2) may not alias any \
         inputs to this custom operator or other returns. Output {output} shares memory with {with}. The most common way to trigger \
         this error is if we have y = custom_op(x) and y and x are the same Tensor. Please instead return a clone of the offending \
         output tensor(s) (e.g. return x.clone()) or refactor the custom operator to not return y"
    )]
    OutputAliases { op: String, output: usize, with: String },
    #[error(
        "{op}: output {output} must be the argument `{argument}` itself: the schema says that it is returned"
    )]
    MustReturnArgument { op: String, output: usize, argument: String },
    #[error(
        "Cannot register autograd formula for non-functional operator {op} with schema {schema}. Please create a functional \
         operator and register an autograd formula for that"
    )]
    NotFunctional { op: String, schema: String },
    #[error("{op}: device type '{device}' does not support autocast")]
    NoAutocast { op: String, device: Device },
    #[error("{op}: autocast casts to a floating point dtype, not {dtype}")]
    AutocastDType { op: String, dtype: DType },
    #[error(
        "{op}: the backward of {inputs} inputs gave {got} gradients; it must give one, or None, for each input"
    )]
    Gradients { op: String, inputs: usize, got: usize },
}

pub(super) fn refuse(error: CustomOpError) -> crate::Error {
    DispatchError::from(error).into()
}
