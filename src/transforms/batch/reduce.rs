//! Reductions.

use super::given::{Call, Results};
use crate::dispatch::Value;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

/// Reduces dimensions of the samples; all of them where none is named.
pub(super) fn reduce(call: &Call<'_>) -> Result<Option<Results>> {
    let t = call.tensor(0)?;
    let rank = t.dim();
    let Some(value) = call.front(t)? else { return Ok(None) };
    let Some(at) = call.position("dim") else { return all(call, &value).map(Some) };
    // a number is a list of one
    let value = if rank == 0 { aten::unsqueeze(&value, 1)? } else { value };
    let mut args = call.args.clone();
    let list = call.schema.args[at].ty.unwrap_optional().to_string().contains('[');
    let everything = match &call.args[at] {
        Value::Int(_) => false,
        Value::IntList(dims) => dims.is_empty(),
        _ => true,
    };
    let keep = call.position("keepdim").is_some_and(|k| call.flag(k));
    let mut sizes = vec![call.size];
    sizes.extend(std::iter::repeat_n(1, rank));
    if everything && !list {
        args[0] = Value::Tensor(flat(&value)?);
        args[at] = Value::Int(1);
        let results = call.again(args)?;
        if !keep {
            return Ok(Some(results));
        }
        let kept = results.iter().map(|v| v.map_tensors(|t| aten::reshape(t, &sizes)));
        return kept.collect::<Result<_>>().map(Some);
    }
    args[0] = Value::Tensor(value);
    let shifted = |dim: i64| call.shifted(dim, rank.max(1));
    args[at] = match &call.args[at] {
        Value::Int(dim) => Value::Int(shifted(*dim)?),
        Value::IntList(dims) if !everything => {
            Value::IntList(dims.iter().map(|d| shifted(*d)).collect::<Result<_>>()?)
        }
        _ => Value::IntList((1..=rank.max(1) as i64).collect()),
    };
    let results = call.again(args)?;
    if rank == 0 && keep {
        let kept = results.iter().map(|v| v.map_tensors(|t| aten::reshape(t, &sizes)));
        return kept.collect::<Result<_>>().map(Some);
    }
    Ok(Some(results))
}

/// A row for each sample.
fn flat(value: &Tensor) -> Result<Tensor> {
    let row = value.sizes()[1..].iter().product();
    aten::reshape(value, &[value.sizes()[0], row])
}

/// The operators that have no dimensions.
fn all(call: &Call<'_>, value: &Tensor) -> Result<Results> {
    let rows = flat(value)?;
    let dtype = match call.position("dtype").and_then(|at| call.args.get(at)) {
        Some(Value::DType(d)) => Some(*d),
        _ => None,
    };
    let dim = [1];
    let one = |t: Tensor| vec![Value::Tensor(t)];
    Ok(match &*call.name {
        "sum" => one(aten::sum_dim_int_list(&rows, Some(&dim), false, dtype)?),
        "mean" => one(aten::mean_dim(&rows, Some(&dim), false, dtype)?),
        "prod" => one(aten::prod_dim_int(&rows, 1, false, dtype)?),
        "max" => one(aten::amax(&rows, &dim, false)?),
        "min" => one(aten::amin(&rows, &dim, false)?),
        "any" => one(aten::any_dim(&rows, 1, false)?),
        "all" => one(aten::all_dim(&rows, 1, false)?),
        "median" => one(aten::median_dim(&rows, 1, false)?.0),
        "nanmedian" => one(aten::nanmedian_dim(&rows, 1, false)?.0),
        _ => {
            let p = call.args.get(1).and_then(Value::as_scalar).unwrap_or(Scalar::Int(2));
            one(aten::linalg_vector_norm(&rows, p, Some(&dim), false, dtype)?)
        }
    })
}
