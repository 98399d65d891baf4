//! Views, joins, and operators along dimensions.

use super::given::{Call, Results};
use super::lists;
use crate::dispatch::Value;
use crate::error::Result;
use crate::ops::aten;
use crate::ops::common::wrap_dim;
use crate::tensor::Tensor;

/// Moves the dimensions that arguments name by one.
fn shift(call: &Call<'_>, args: &mut [Value], names: &[&str], rank: usize) -> Result<()> {
    for name in names {
        let Some(at) = call.position(name) else { continue };
        match &mut args[at] {
            Value::Int(dim) => *dim = call.shifted(*dim, rank)?,
            Value::IntList(dims) => {
                for dim in dims {
                    *dim = call.shifted(*dim, rank)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Operators along dimensions, on operands of which each has samples.
pub(super) fn along(call: &Call<'_>) -> Result<Option<Results>> {
    let Some(dims) = lists::along(&call.name) else { return Ok(None) };
    let rank = call.rank();
    if rank == 0 && !dims.new {
        // what dimension 0 of a number is, the operator knows
        if matches!(&*call.name, "squeeze.dim" | "squeeze.dims" | "transpose.int") {
            return Ok(Some(vec![call.front_or_own(call.tensor(0)?)?.into()]));
        }
        return Ok(None);
    }
    if call.args.iter().flat_map(Value::tensors).any(|t| t.dim() == 0)
        && call.name != "glu"
        && rank != 0
    {
        // an index or a source that is a number
        return Ok(None);
    }
    let more = if dims.new { 1 } else { 0 };
    let mut args = call.mapped(|t| call.expanded(t))?;
    shift(call, &mut args, dims.arguments, rank + more)?;
    call.again(args).map(Some)
}

/// Operators on the last dimensions.
pub(super) fn leading(call: &Call<'_>) -> Result<Option<Results>> {
    let ranks: Vec<usize> = call.args.iter().flat_map(Value::tensors).map(Tensor::dim).collect();
    let rank = call.rank();
    if call.name == "_cdist_forward" {
        // what comes before the last dimensions broadcasts
        let rank = ranks.iter().copied().max().unwrap_or(0);
        let args = call.mapped(|t| super::pointwise::aligned(call, t, rank))?;
        return call.again(args).map(Some);
    }
    if ranks.iter().any(|r| *r != rank) && call.name != "lu_unpack" {
        return Ok(None);
    }
    let args = call.mapped(|t| call.expanded(t))?;
    call.again(args).map(Some)
}

/// Operators on batches: the samples are more of the batch.
pub(super) fn folded(call: &Call<'_>) -> Result<Option<Results>> {
    let Some(wanted) = lists::folded(&call.name) else { return Ok(None) };
    let rank = call.rank();
    if rank + 1 == wanted && !call.name.contains("upsample") && !call.name.contains("grid") {
        // the samples are the batch
        let args = call.mapped(|t| call.expanded(t))?;
        return call.again(args).map(Some);
    }
    if rank != wanted {
        return Ok(None);
    }
    if call.position("attn_mask").is_some_and(|at| call.optional(at).is_some()) {
        // it broadcasts
        return Ok(None);
    }
    let fold = |t: &Tensor| {
        let t = call.expanded(t)?;
        let mut sizes = vec![t.sizes()[0] * t.sizes()[1]];
        sizes.extend(&t.sizes()[2..]);
        aten::reshape(&t, &sizes)
    };
    if call.args.iter().flat_map(Value::tensors).any(|t| t.dim() == 0) {
        return Ok(None);
    }
    let mut args = call.mapped(fold)?;
    if let Some(at) = call.position("input_size")
        && let Value::IntList(sizes) = &mut args[at]
        && let Some(first) = sizes.first_mut()
    {
        *first *= call.size;
    }
    let results = call.again(args)?;
    let unfold = |t: &Tensor| {
        let mut sizes = vec![call.size, t.sizes()[0] / call.size.max(1)];
        sizes.extend(&t.sizes()[1..]);
        aten::reshape(t, &sizes)
    };
    results.iter().map(|v| v.map_tensors(unfold)).collect::<Result<_>>().map(Some)
}

/// Operators that are told the sizes of their result.
pub(super) fn sized(call: &Call<'_>) -> Result<Option<Results>> {
    let Some(at) = lists::sized(&call.name).and_then(|name| call.position(name)) else {
        return Ok(None);
    };
    let mut args = call.mapped(|t| call.front_or_own(t))?;
    let mut sizes = call.ints(at)?;
    if matches!(&*call.name, "view" | "_unsafe_view") {
        // with no elements in the batch, -1 would mean anything
        let t = call.tensor(0)?;
        sizes = straightline_catalog::view::infer_sizes(&sizes, t.numel())?.to_vec();
    }
    sizes.insert(0, call.size);
    if call.name == "_unsafe_view" {
        // of a copy, if the samples are in the way
        return Ok(Some(vec![aten::reshape(&call.front_or_own(call.tensor(0)?)?, &sizes)?.into()]));
    }
    args[at] = Value::IntList(sizes);
    call.again(args).map(Some)
}

pub(super) fn permute(call: &Call<'_>) -> Result<Option<Results>> {
    let t = call.tensor(0)?;
    let mut dims = vec![0];
    for dim in call.ints(1)? {
        dims.push(call.shifted(dim, t.dim())?);
    }
    Ok(Some(vec![aten::permute(&call.front_or_own(t)?, &dims)?.into()]))
}

pub(super) fn t(call: &Call<'_>) -> Result<Option<Results>> {
    let t = call.tensor(0)?;
    let value = call.front_or_own(t)?;
    ensure!(t.dim() <= 2, "t() expects a tensor with <= 2 dimensions, but self is {}D", t.dim());
    let turned =
        if t.dim() == 2 { aten::transpose_int(&value, 1, 2)? } else { aten::alias(&value)? };
    Ok(Some(vec![turned.into()]))
}

pub(super) fn expand(call: &Call<'_>) -> Result<Option<Results>> {
    let t = call.tensor(0)?;
    let mut sizes = call.ints(1)?;
    if sizes.len() < t.dim() {
        return Ok(None);
    }
    let value = super::pointwise::aligned(call, t, sizes.len())?;
    sizes.insert(0, call.size);
    Ok(Some(vec![aten::expand(&value, &sizes, call.flag(2))?.into()]))
}

pub(super) fn squeeze(call: &Call<'_>) -> Result<Option<Results>> {
    let t = call.tensor(0)?;
    let ones = t.sizes().iter().enumerate().filter(|(_, s)| **s == 1);
    let dims: Vec<i64> = ones.map(|(d, _)| d as i64 + 1).collect();
    Ok(Some(vec![aten::squeeze_dims(&call.front_or_own(t)?, &dims)?.into()]))
}

pub(super) fn repeat(call: &Call<'_>) -> Result<Option<Results>> {
    let t = call.tensor(0)?;
    let mut times = call.ints(1)?;
    if times.len() < t.dim() {
        return Ok(None);
    }
    let value = super::pointwise::aligned(call, t, times.len())?;
    times.insert(0, 1);
    Ok(Some(vec![aten::repeat(&value, &times)?.into()]))
}

/// Gradients of views: `(grad, sizes of the operand, dimensions ...)`.
pub(super) fn view_gradient(call: &Call<'_>) -> Result<Option<Results>> {
    let mut sizes = call.ints(1)?;
    let rank = sizes.len();
    let mut args = call.mapped(|t| call.front_or_own(t))?;
    sizes.insert(0, call.size);
    args[1] = Value::IntList(sizes);
    shift(call, &mut args, &["dim", "dim1", "dim2"], rank)?;
    call.again(args).map(Some)
}

/// `cat` and `stack`.
pub(super) fn join(call: &Call<'_>) -> Result<Option<Results>> {
    let more = usize::from(call.name == "stack");
    // an empty list of numbers joins anything, as it always did
    let ranks = call.args.iter().flat_map(Value::tensors).filter(|t| more == 1 || t.sizes() != [0]);
    let rank = ranks.map(Tensor::dim).max().unwrap_or(0);
    let mut args = match &call.args[0] {
        Value::TensorList(l) => {
            let kept = l.iter().filter(|t| more == 1 || rank == 1 || t.sizes() != [0]);
            vec![Value::TensorList(kept.map(|t| call.expanded(t)).collect::<Result<_>>()?)]
        }
        _ => return Ok(None),
    };
    args.push(Value::Int(call.shifted(call.int(1)?, rank + more)?));
    call.again(args).map(Some)
}

pub(super) fn roll(call: &Call<'_>) -> Result<Option<Results>> {
    let dims = call.ints(2)?;
    if dims.is_empty() || call.rank() == 0 {
        return Ok(None);
    }
    let mut args = call.mapped(|t| call.expanded(t))?;
    shift(call, &mut args, &["dims"], call.rank())?;
    call.again(args).map(Some)
}

/// At the layer.
pub(super) fn trace(call: &Call<'_>) -> Result<Option<Vec<Value>>> {
    let diagonal = aten::diagonal(call.tensor(0)?, 0, 0, 1)?;
    Ok(Some(vec![aten::sum(&diagonal, None)?.into()]))
}

/// Operators that change a shape in place: that of what is inside, and then that of the wrapper.
pub(super) fn in_place(call: &Call<'_>) -> Result<Option<Results>> {
    let t = call.tensor(0)?;
    let (value, Some(0)) = call.inside(t) else { return Ok(None) };
    let rank = t.dim();
    let shift = |at: usize, rank: usize| call.shifted(call.int(at)?, rank);
    match &*call.name {
        "t" if rank == 2 => drop(aten::transpose_(&value, 1, 2)?),
        "t" if rank < 2 => {}
        "transpose" if rank == 0 => {}
        "detach" => {}
        "transpose" => drop(aten::transpose_(&value, shift(1, rank)?, shift(2, rank)?)?),
        "unsqueeze" => drop(aten::unsqueeze_(&value, shift(1, rank + 1)?)?),
        _ => return Ok(None),
    }
    t.set_geometry(&value.sizes()[1..], &value.strides()[1..], value.offset())?;
    Ok(Some(vec![value.into()]))
}

/// A dimension of a tensor of `rank` dimensions.
pub(super) fn wrapped(dim: i64, rank: usize) -> Result<usize> {
    wrap_dim(dim, rank)
}
