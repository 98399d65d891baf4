//! The negative log likelihood and its gradient, by operators that have loops.

use super::{Call, Kernel, Made, converted};
use crate::dispatch::Value;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::{DType, Op, Scalar, args};

/// PyTorch's numbers of the reductions.
const NONE: i64 = 0;
const MEAN: i64 = 1;

/// What an operator is made of.
pub(super) fn of(op: Op) -> Option<Kernel> {
    Some(match op {
        Op::nll_loss_forward | Op::nll_loss2d_forward => forward,
        Op::nll_loss_backward | Op::nll_loss2d_backward => backward,
        _ => return None,
    })
}

/// Targets as an index along the classes, and the factor of each: its class's weight, 0 where it is
/// ignored.
struct Targets {
    /// The dimension of the classes.
    dim: i64,
    index: Tensor,
    ignored: Tensor,
    weights: Option<Tensor>,
}

fn targets(x: &Tensor, target: &Tensor, weight: Option<&Tensor>, ignore: i64) -> Result<Targets> {
    let dim = i64::from(x.dim() > 1);
    let target = converted(target, DType::I64)?;
    // one row may have a target with or without a dimension
    let target = match x.dim() {
        1 => aten::reshape(&target, &[1])?,
        _ => aten::unsqueeze(&target, 1)?,
    };
    let ignored = aten::eq_scalar(&target, Scalar::Int(ignore))?;
    let index = aten::masked_fill_scalar(&target, &ignored, Scalar::Int(0))?;
    let weights = match weight {
        None => None,
        Some(w) => {
            let flat = aten::reshape(&index, &[-1])?;
            let of = aten::reshape(&aten::index_select(w, 0, &flat)?, index.sizes())?;
            Some(aten::masked_fill_scalar(&of, &ignored, Scalar::Int(0))?)
        }
    };
    Ok(Targets { dim, index, ignored, weights })
}

fn forward(call: &Call<'_>) -> Made {
    // both operators have these arguments
    let read = call.read::<args::nll_loss_forward<Tensor>>();
    let (Some(a), Some(types)) = (read, call.results()) else { return Ok(None) };
    let (x, reduction) = (a.self_, a.reduction);
    let [of_loss, of_total] = &types[..] else { return Ok(None) };
    if x.numel() == 0 {
        return Ok(None);
    }
    let wide = x.dtype().opmath();
    let to = targets(&x, &a.target, a.weight.as_ref(), a.ignore_index)?;
    let picked = converted(&aten::gather(&x, to.dim, &to.index, false)?, wide)?;
    let weights = match &to.weights {
        Some(w) => converted(w, wide)?,
        None => converted(&aten::logical_not(&to.ignored)?, wide)?,
    };
    let loss = aten::neg(&aten::mul_tensor(&picked, &weights)?)?;
    let loss = aten::masked_fill_scalar(&loss, &to.ignored, Scalar::Int(0))?;
    let (loss, total) = match reduction {
        NONE if x.dim() > 1 => {
            let total = aten::zeros(&[], Some(wide), None, Some(call.device), None)?;
            (aten::squeeze_dim(&loss, 1)?, total)
        }
        _ => {
            let (loss, total) = (aten::sum(&loss, None)?, aten::sum(&weights, None)?);
            let loss = if reduction == MEAN { aten::div_tensor(&loss, &total)? } else { loss };
            (loss, total)
        }
    };
    let finish = |t: &Tensor, m| call.deliver(converted(t, x.dtype())?, m);
    Ok(Some(vec![finish(&loss, of_loss)?, finish(&total, of_total)?]))
}

fn backward(call: &Call<'_>) -> Made {
    let read = call.read::<args::nll_loss_backward<Tensor>>();
    let (Some(a), Some(types)) = (read, call.results()) else { return Ok(None) };
    let (x, reduction) = (a.self_, a.reduction);
    let Some(wanted) = types.first() else { return Ok(None) };
    if x.numel() == 0 {
        return Ok(None);
    }
    let wide = x.dtype().opmath();
    let to = targets(&x, &a.target, a.weight.as_ref(), a.ignore_index)?;
    let grad = converted(&a.grad_output, wide)?;
    let grad = match reduction {
        NONE if x.dim() > 1 => aten::unsqueeze(&grad, 1)?,
        MEAN => {
            let grad = aten::div_tensor(&grad, &converted(&a.total_weight, wide)?)?;
            aten::expand(&aten::reshape(&grad, &[])?, to.index.sizes(), false)?
        }
        _ => aten::expand(&aten::reshape(&grad, &[])?, to.index.sizes(), false)?,
    };
    let grad = match &to.weights {
        Some(w) => aten::mul_tensor(&grad, &converted(w, wide)?)?,
        None => grad,
    };
    let minus = aten::masked_fill_scalar(&aten::neg(&grad)?, &to.ignored, Scalar::Int(0))?;
    let zeros = aten::zeros(x.sizes(), Some(x.dtype()), None, Some(call.device), None)?;
    let put = aten::scatter_src(&zeros, to.dim, &to.index, &converted(&minus, x.dtype())?)?;
    Ok(Some(vec![call.deliver(put, wanted)?]))
}

/// Whether the elements of the first operand are from 0 to 1, which the loops of `binary_cross_entropy`
/// take for granted. Waits for the device.
pub(in crate::cuda) fn are_probabilities(args: &[Value]) -> Result<bool> {
    let Some(x) = args.first().and_then(Value::as_tensor) else { return Ok(true) };
    let not_below = aten::ge_scalar(x, 0.into())?;
    let not_above = aten::le_scalar(x, 1.into())?;
    let all = aten::all(&aten::logical_and(&not_below, &not_above)?)?;
    Ok(aten::item(&all)?.as_bool())
}
