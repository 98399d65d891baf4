//! Operators that are made of others, and those that only answer questions.

use crate::dispatch::schema::{FunctionSchema, SchemaType};
use crate::dispatch::{DispatchKey, OperatorHandle, Value};
use crate::error::Result;
use crate::ops::aten;
use straightline_catalog::Op;

/// Whether an operator is made of others at all layers.
pub(super) fn is_composite(op: OperatorHandle) -> bool {
    let own = [DispatchKey::CPU, DispatchKey::CompositeExplicitAutograd];
    op.registers(DispatchKey::CompositeImplicitAutograd) && !own.iter().any(|k| op.registers(*k))
}

/// Calls the parts of a composite, which come to the layers one by one.
pub(super) fn decompose(op: OperatorHandle, mut args: Vec<Value>) -> Result<Vec<Value>> {
    if op.op() == Some(Op::trace_backward) {
        // its own parts write a gradient of each sample into zeros that all share
        return trace_backward(&args);
    }
    op.call_boxed_for_key(DispatchKey::CompositeImplicitAutograd, &mut args)?;
    Ok(args)
}

fn has_tensors(ty: &SchemaType) -> bool {
    match ty.unwrap_optional() {
        SchemaType::Tensor => true,
        SchemaType::List(inner, _) => has_tensors(inner),
        _ => false,
    }
}

/// Whether an operator only answers a question.
pub(super) fn answers(schema: &FunctionSchema) -> bool {
    !schema.is_mutable() && !schema.returns.iter().any(|r| has_tensors(&r.ty))
}

/// `(grad, sizes)`, at any layer.
fn trace_backward(args: &[Value]) -> Result<Vec<Value>> {
    let (Some(Value::Tensor(grad)), Some(Value::IntList(sizes))) = (args.first(), args.get(1))
    else {
        return Err(crate::Error::runtime("trace_backward needs a gradient and sizes"));
    };
    let length = sizes.iter().copied().min().unwrap_or(0);
    let diagonal = aten::expand(&aten::unsqueeze(grad, 0)?, &[length], false)?;
    Ok(vec![aten::diagonal_backward(&diagonal, sizes, 0, 0, 1)?.into()])
}
