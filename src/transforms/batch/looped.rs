//! The way out for operators without a rule: a call for each sample.

use super::given::{Call, Results};
use crate::dispatch::Value;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::transforms::error::TransformError;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use straightline_catalog::MemoryFormat;

/// Operators that have been warned of.
static WARNED: Mutex<Option<HashSet<String>>> = Mutex::new(None);

fn warn(op: &str) {
    let mut warned = WARNED.lock().unwrap_or_else(PoisonError::into_inner);
    if warned.get_or_insert_default().insert(op.to_string()) {
        tracing::warn!(
            "There is a performance drop because we have not yet implemented the batching rule for {op}. \
             It is called for each sample (said once per operator)."
        );
    }
}

/// Calls the operator with one sample after the other, and stacks the results. Operators in place
/// write into the samples.
pub(super) fn run(call: &Call<'_>) -> Result<Results> {
    let op = call.op.name().to_string();
    let refuse = |why: &'static str| Err(TransformError::NoRule { op: op.clone(), why }.into());
    if call.size == 0 {
        return refuse("The fallback path does not support vmap over dims of size 0.");
    }
    if call.schema.is_view() {
        return refuse("The fallback path does not support operators whose results are views.");
    }
    if crate::dispatch::is_reshape(call.op) {
        return refuse(
            "The fallback path does not support operators that change a shape in place.",
        );
    }
    warn(&op);
    let writes = call.schema.is_mutable();
    let mut rows: Vec<Vec<Value>> = Vec::new();
    for at in 0..call.size {
        let args = call.mapped(|t| match call.front(t)? {
            // some operators want their operands row by row
            Some(value) if !writes => {
                aten::contiguous(&aten::select_int(&value, 0, at)?, MemoryFormat::Contiguous)
            }
            Some(value) => aten::select_int(&value, 0, at),
            None => Ok(t.clone()),
        })?;
        rows.push(call.again(args)?);
    }
    let count = rows.first().map_or(0, Vec::len);
    (0..count).map(|i| stacked(call, &rows, i)).collect()
}

/// One result of all samples.
fn stacked(call: &Call<'_>, rows: &[Vec<Value>], at: usize) -> Result<Value> {
    let first = &rows[0][at];
    Ok(match first {
        Value::Tensor(_) => {
            let all: Vec<Tensor> = rows.iter().filter_map(|r| r[at].as_tensor().cloned()).collect();
            Value::Tensor(aten::stack(&all, 0)?)
        }
        Value::TensorList(l) => {
            let column = |k: usize| {
                let of = |r: &Vec<Value>| match &r[at] {
                    Value::TensorList(l) => l.get(k).cloned(),
                    _ => None,
                };
                aten::stack(&rows.iter().filter_map(of).collect::<Vec<_>>(), 0)
            };
            Value::TensorList((0..l.len()).map(column).collect::<Result<_>>()?)
        }
        Value::None => Value::None,
        _ => {
            let op = call.op.name().to_string();
            let why = "The fallback path does not support operators whose results are no tensors.";
            return Err(TransformError::NoRule { op, why }.into());
        }
    })
}
