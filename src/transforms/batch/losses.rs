//! Losses, taken apart at the layer.

use super::given::Call;
use crate::dispatch::Value;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

const MEAN: i64 = 1;
const SUM: i64 = 2;

fn reduced(t: &Tensor, reduction: i64) -> Result<Tensor> {
    match reduction {
        MEAN => aten::mean(t, None),
        SUM => aten::sum(t, None),
        _ => Ok(t.clone()),
    }
}

fn reduction(call: &Call<'_>) -> Result<(usize, i64)> {
    let at = call.position("reduction").unwrap_or(2);
    Ok((at, call.int(at)?))
}

/// The loss of each element by the rule of operators by element, then the reduction.
pub(super) fn loss(call: &Call<'_>) -> Result<Option<Vec<Value>>> {
    let (at, how) = reduction(call)?;
    let mut args = call.args.clone();
    args[at] = Value::Int(0);
    let each = each(call, args)?;
    Ok(Some(vec![reduced(&each, how)?.into()]))
}

/// The call without a reduction, by element.
fn each(call: &Call<'_>, args: Vec<Value>) -> Result<Tensor> {
    let part = Call {
        layer: call.layer,
        op: call.op,
        name: call.name.clone(),
        schema: call.schema,
        args,
        size: call.size,
    };
    let keys = crate::dispatch::TlsKeySets::current();
    let rank = part.args.iter().flat_map(Value::tensors).map(Tensor::dim).max().unwrap_or(0);
    let done = super::layer::below(call.layer, keys, || {
        part.again(part.mapped(|t| match part.is_batched(t) || t.dim() < rank {
            true => super::pointwise::aligned(&part, t, rank),
            false => part.expanded(t),
        })?)
    })?;
    match part.wrapped(done).pop() {
        Some(Value::Tensor(t)) => Ok(t),
        _ => Err(crate::Error::runtime(format!("`{}` gave no tensor", call.op.name()))),
    }
}

/// `(grad, self, target, ...)`: of a mean, the gradient of each element is that of the sum over
/// their number.
pub(super) fn loss_gradient(call: &Call<'_>) -> Result<Option<Vec<Value>>> {
    let (at, how) = reduction(call)?;
    let mut args = call.args.clone();
    args[at] = Value::Int(0);
    if how == MEAN {
        let count = call.tensor(1)?.numel().max(call.tensor(2)?.numel());
        args[0] = aten::div_scalar(call.tensor(0)?, Scalar::Float(count as f64))?.into();
    }
    Ok(Some(vec![each(call, args)?.into()]))
}

/// The target without what is ignored, which counts 0; and the weight of each row.
fn targets(call: &Call<'_>, at: usize) -> Result<(Tensor, Tensor)> {
    let (own, target) = (call.tensor(at)?, call.tensor(at + 1)?);
    let ignored = call.int(call.position("ignore_index").unwrap_or(at + 4))?;
    let kept = aten::ne_scalar(target, Scalar::Int(ignored))?;
    let target = aten::mul_tensor(target, &kept)?;
    let weight = match call.optional(at + 2) {
        Some(w) => {
            let flat = aten::index_select(w, 0, &aten::reshape(&target, &[-1])?)?;
            aten::reshape(&flat, target.sizes())?
        }
        None => aten::ones_like(&aten::select_int(own, -1, 0)?, None, None, None, None, None)?,
    };
    let weight = aten::mul_tensor(&weight, &kept)?;
    Ok((target, weight))
}

pub(super) fn nll_loss_forward(call: &Call<'_>) -> Result<Option<Vec<Value>>> {
    let own = call.tensor(0)?;
    let (target, weight) = targets(call, 0)?;
    let picked = aten::gather(own, -1, &aten::unsqueeze(&target, -1)?, false)?;
    let picked = aten::neg(&aten::squeeze_dim(&picked, -1)?)?;
    let losses = aten::mul_tensor(&picked, &weight)?;
    let how = call.int(3)?;
    if how != MEAN && how != SUM && own.dim() > 1 {
        let none = aten::mul_scalar(&aten::sum(&weight, None)?, Scalar::Int(0))?;
        return Ok(Some(vec![losses.into(), none.into()]));
    }
    let (sum, total) = (aten::sum(&losses, None)?, aten::sum(&weight, None)?);
    let loss = if how == MEAN { aten::div_tensor(&sum, &total)? } else { sum };
    Ok(Some(vec![loss.into(), total.into()]))
}

/// `(grad, self, target, weight, reduction, ignore_index, total_weight)`.
pub(super) fn nll_loss_backward(call: &Call<'_>) -> Result<Option<Vec<Value>>> {
    let (grad, own) = (call.tensor(0)?, call.tensor(1)?);
    let (target, weight) = targets(call, 1)?;
    let how = call.int(4)?;
    let grad = match how {
        MEAN => aten::div_tensor(grad, call.tensor(6)?)?,
        _ => grad.clone(),
    };
    let each = aten::neg(&aten::mul_tensor(&weight, &grad)?)?;
    let zeros = aten::zeros_like(own, None, None, None, None, None)?;
    let (index, each) = (aten::unsqueeze(&target, -1)?, aten::unsqueeze(&each, -1)?);
    // adding keeps the zeros of what is batched less than the target
    Ok(Some(vec![aten::scatter_add(&zeros, -1, &index, &each)?.into()]))
}
