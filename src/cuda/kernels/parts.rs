//! Operators that are a few others, each of which has loops.

use super::{Call, Kernel, Made};
use crate::dispatch::Value;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::{Op, Scalar, args};

/// What an operator is made of.
pub(super) fn of(op: Op) -> Option<Kernel> {
    Some(match op {
        Op::aminmax => aminmax,
        Op::count_nonzero | Op::count_nonzero_dim_IntList => count_nonzero,
        Op::trace => trace,
        _ => return None,
    })
}

fn aminmax(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::aminmax<Tensor>>() else { return Ok(None) };
    if call.results().is_none() {
        return Ok(None);
    }
    let dims = a.dim.as_slice();
    let (least, most) =
        (aten::amin(&a.self_, dims, a.keepdim)?, aten::amax(&a.self_, dims, a.keepdim)?);
    Ok(Some(vec![Value::Tensor(least), Value::Tensor(most)]))
}

fn count_nonzero(call: &Call<'_>) -> Made {
    let read = match call.known {
        Op::count_nonzero => call
            .read::<args::count_nonzero<Tensor>>()
            .map(|a| (a.self_, a.dim.map_or_else(Vec::new, |dim| vec![dim]))),
        _ => call.read::<args::count_nonzero_dim_IntList<Tensor>>().map(|a| (a.self_, a.dim)),
    };
    let Some((x, dims)) = read else { return Ok(None) };
    if call.results().is_none() || x.dtype().is_complex() {
        return Ok(None);
    }
    let some = aten::ne_scalar(&x, Scalar::Int(0))?;
    Ok(Some(vec![Value::Tensor(aten::sum_dim_int_list(&some, Some(&dims), false, None)?)]))
}

fn trace(call: &Call<'_>) -> Made {
    let [x] = &call.tensors[..] else { return Ok(None) };
    if call.results().is_none() || x.dtype().is_complex() {
        return Ok(None);
    }
    let diagonal = aten::diagonal(x, 0, 0, 1)?;
    Ok(Some(vec![Value::Tensor(aten::sum(&diagonal, None)?)]))
}
