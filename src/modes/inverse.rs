//! Writing through a view: from the new value of a view to the new value of its base.

use crate::dispatch::Value;
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::Tensor;

/// The value of `base` after its view by `op(base, args)` has become `new`.
///
/// `args` are the arguments of the view operator after the tensor.
pub(super) fn inverse_view(
    op: &str,
    args: &[Value],
    base: &Tensor,
    new: &Tensor,
) -> Result<Tensor> {
    match (op, args) {
        ("aten::alias" | "aten::detach", _) => Ok(new.clone()),
        ("aten::view" | "aten::squeeze" | "aten::unsqueeze", _)
        | ("aten::squeeze.dim" | "aten::squeeze.dims", _) => aten::reshape(new, base.sizes()),
        ("aten::t", _) => aten::t(new),
        ("aten::transpose.int", [Value::Int(a), Value::Int(b)]) => aten::transpose_int(new, *a, *b),
        ("aten::permute", [Value::IntList(dims)]) => {
            let rank = dims.len() as i64;
            let mut back = vec![0; dims.len()];
            for (to, from) in dims.iter().enumerate() {
                back[from.rem_euclid(rank) as usize] = to as i64;
            }
            aten::permute(new, &back)
        }
        ("aten::slice.Tensor", [Value::Int(dim), start, end, Value::Int(step)]) => {
            aten::slice_scatter(base, new, *dim, optional(start), optional(end), *step)
        }
        ("aten::select.int", [Value::Int(dim), Value::Int(index)]) => {
            aten::select_scatter(base, new, *dim, *index)
        }
        ("aten::expand", _) if base.sizes() == new.sizes() => Ok(new.clone()),
        ("aten::expand", _) if base.numel() == new.numel() => aten::reshape(new, base.sizes()),
        ("aten::expand", _) => Err(Error::runtime(
            "unsupported operation: more than one element of the written-to tensor refers to a \
             single memory location. Please clone() the tensor before performing the operation.",
        )),
        _ => Err(Error::not_implemented(format!(
            "an in-place write through a `{op}` view cannot be captured: write through `slice`, \
             `select`, `transpose` or `view`, or compute a new tensor instead"
        ))),
    }
}

fn optional(v: &Value) -> Option<i64> {
    match v {
        Value::Int(i) => Some(*i),
        _ => None,
    }
}
