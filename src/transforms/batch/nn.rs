//! Convolutions and norms.

use super::given::{Call, Results};
use crate::dispatch::{TlsKeySets, Value};
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::transforms::layer;
use straightline_catalog::{DType, Scalar};

/// `[samples, n, channels ...]` as `[n, samples * channels ...]`.
fn into_channels(t: &Tensor) -> Result<Tensor> {
    let mut dims = vec![1, 0];
    dims.extend(2..t.dim() as i64);
    let t = aten::permute(t, &dims)?;
    let mut sizes = vec![t.sizes()[0], t.sizes()[1] * t.sizes()[2]];
    sizes.extend(&t.sizes()[3..]);
    aten::reshape(&t, &sizes)
}

/// The way back.
fn out_of_channels(t: &Tensor, samples: i64) -> Result<Tensor> {
    let mut sizes = vec![t.sizes()[0], samples, t.sizes()[1] / samples.max(1)];
    sizes.extend(&t.sizes()[2..]);
    let t = aten::reshape(t, &sizes)?;
    let mut dims = vec![1, 0];
    dims.extend(2..t.dim() as i64);
    aten::permute(&t, &dims)
}

/// `[samples, n ...]` as `[samples * n ...]`.
fn folded(t: &Tensor) -> Result<Tensor> {
    let mut sizes = vec![t.sizes()[0] * t.sizes()[1]];
    sizes.extend(&t.sizes()[2..]);
    aten::reshape(t, &sizes)
}

fn unfolded(t: &Tensor, samples: i64) -> Result<Tensor> {
    let mut sizes = vec![samples, t.sizes()[0] / samples.max(1)];
    sizes.extend(&t.sizes()[1..]);
    aten::reshape(t, &sizes)
}

/// With one weight, samples are more of the batch; with one for each sample, they are groups of
/// channels.
pub(super) fn convolution(call: &Call<'_>) -> Result<Option<Results>> {
    let (input, weight) = (call.tensor(0)?, call.tensor(1)?);
    let bias = call.optional(2);
    let size = call.size;
    if size == 0 || input.dim() != weight.dim() {
        return Ok(None);
    }
    let mut args = call.args.clone();
    if !call.is_batched(weight) && !bias.is_some_and(|b| call.is_batched(b)) {
        args[0] = folded(&call.expanded(input)?)?.into();
        let out = call.again(args)?;
        return out
            .iter()
            .map(|v| v.map_tensors(|t| unfolded(t, size)))
            .collect::<Result<_>>()
            .map(Some);
    }
    args[0] = into_channels(&call.expanded(input)?)?.into();
    args[1] = folded(&call.expanded(weight)?)?.into();
    if let Some(b) = bias {
        args[2] = folded(&call.expanded(b)?)?.into();
    }
    args[8] = Value::Int(call.int(8)? * size);
    let out = call.again(args)?;
    out.iter().map(|v| v.map_tensors(|t| out_of_channels(t, size))).collect::<Result<_>>().map(Some)
}

/// `(grad, input, weight, bias_sizes, ..., groups, output_mask)`: each sample is a group.
pub(super) fn convolution_backward(call: &Call<'_>) -> Result<Option<Results>> {
    let (grad, input, weight) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let size = call.size;
    if size == 0 || input.dim() != weight.dim() {
        return Ok(None);
    }
    let mut args = call.args.clone();
    args[0] = into_channels(&call.expanded(grad)?)?.into();
    args[1] = into_channels(&call.expanded(input)?)?.into();
    args[2] = folded(&call.expanded(weight)?)?.into();
    if let Value::IntList(sizes) = &mut args[3]
        && let Some(first) = sizes.first_mut()
    {
        *first *= size;
    }
    let groups = args.len() - 2;
    args[groups] = Value::Int(call.int(groups)? * size);
    let mut out = call.again(args)?.into_iter();
    let mut next = |f: fn(&Tensor, i64) -> Result<Tensor>| match out.next() {
        Some(v) => v.map_tensors(|t| f(t, size)),
        None => Ok(Value::None),
    };
    Ok(Some(vec![next(out_of_channels)?, next(unfolded)?, next(unfolded)?]))
}

fn below<R>(call: &Call<'_>, f: impl FnOnce() -> Result<R>) -> Result<R> {
    layer::below(call.layer, TlsKeySets::current(), f)
}

fn scaled(y: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>) -> Result<Tensor> {
    let y = weight.map_or_else(|| Ok(y.clone()), |w| aten::mul_tensor(y, w))?;
    bias.map_or_else(|| Ok(y.clone()), |b| aten::add_tensor(&y, b, Scalar::Int(1)))
}

/// `(input, normalized_shape, weight, bias, eps)`.
pub(super) fn layer_norm(call: &Call<'_>) -> Result<Option<Vec<Value>>> {
    let input = call.tensor(0)?;
    let (weight, bias) = (call.optional(2), call.optional(3));
    let own = |t: Option<&Tensor>| t.is_some_and(|t| call.is_batched(t));
    if call.is_batched(input) && !own(weight) && !own(bias) {
        let results = below(call, || call.again(call.mapped(|t| call.front_or_own(t))?))?;
        return Ok(Some(call.wrapped(results)));
    }
    let shape = call.ints(1)?;
    let Some(Value::Double(eps)) = call.args.get(4) else { return Ok(None) };
    // rounded once
    let wide = |t: &Tensor| aten::to_dtype(t, DType::F32, false, false, None);
    let half = matches!(input.dtype(), DType::F16 | DType::BF16);
    let x = if half { wide(input)? } else { input.clone() };
    let (y, mean, rstd) = aten::native_layer_norm(&x, &shape, None, None, *eps)?;
    let y = scaled(&y, weight, bias)?;
    let back = |t: &Tensor, dtype| aten::to_dtype(t, dtype, false, false, None);
    let y = if half { back(&y, input.dtype())? } else { y };
    // statistics are kept as the operator keeps them
    let kept = weight.map_or(input.dtype(), Tensor::dtype);
    let (mean, rstd) = match half {
        true => (back(&mean, kept)?, back(&rstd, kept)?),
        false => (mean, rstd),
    };
    Ok(Some(vec![y.into(), mean.into(), rstd.into()]))
}

/// `(grad, input, normalized_shape, mean, rstd, weight, bias, output_mask)`.
pub(super) fn layer_norm_backward(call: &Call<'_>) -> Result<Option<Vec<Value>>> {
    let (grad, input) = (call.tensor(0)?, call.tensor(1)?);
    let (mean, rstd) = (call.tensor(3)?, call.tensor(4)?);
    let shape = call.ints(2)?;
    let mask = match call.args.get(7) {
        Some(Value::BoolList(m)) => m.clone(),
        _ => return Ok(None),
    };
    let wants = |at: usize| mask.get(at).copied().unwrap_or(false);
    let mut results = vec![Value::None, Value::None, Value::None];
    if wants(0) {
        let grad = scaled(grad, call.optional(5), None)?;
        let mut args = call.args.clone();
        args[0] = grad.into();
        args[5] = Value::None;
        args[6] = Value::None;
        args[7] = Value::BoolList(vec![true, false, false]);
        let each = |v: &Value| v.map_tensors(|t| call.expanded(t));
        let given = below(call, || call.again(args.iter().map(each).collect::<Result<_>>()?))?;
        results[0] = given.first().map_or(Value::None, |v| call.batched(v));
    }
    let leading: Vec<i64> = (0..input.dim().saturating_sub(shape.len()) as i64).collect();
    let summed = |t: &Tensor| match leading.is_empty() {
        true => Ok(t.clone()),
        false => aten::sum_dim_int_list(t, Some(&leading), false, None),
    };
    if wants(1) {
        let centred = aten::sub_tensor(input, mean, Scalar::Int(1))?;
        let hat = aten::mul_tensor(&centred, rstd)?;
        results[1] = summed(&aten::mul_tensor(grad, &hat)?)?.into();
    }
    if wants(2) {
        results[2] = summed(grad)?.into();
    }
    Ok(Some(results))
}

/// `(input, weight, bias, N, C, HxW, group, eps)`.
pub(super) fn group_norm(call: &Call<'_>) -> Result<Option<Vec<Value>>> {
    let input = call.tensor(0)?;
    let (weight, bias) = (call.optional(1), call.optional(2));
    let mut args = call.args.clone();
    let own = [weight, bias].into_iter().flatten().any(|t| call.is_batched(t));
    let (weight, bias) = if own { (weight, bias) } else { (None, None) };
    if own {
        args[1] = Value::None;
        args[2] = Value::None;
    }
    args[3] = Value::Int(call.int(3)? * call.size);
    if call.size == 0 || !call.is_batched(input) {
        return Ok(None);
    }
    let results = below(call, || {
        args[0] = folded(&call.expanded(input)?)?.into();
        let results = call.again(args)?;
        results.iter().map(|v| v.map_tensors(|t| unfolded(t, call.size))).collect::<Result<_>>()
    })?;
    let mut results = call.wrapped(results);
    let per_channel = |t: &Tensor| {
        let mut sizes = vec![1, t.numel()];
        sizes.extend(std::iter::repeat_n(1, input.dim().saturating_sub(2)));
        aten::reshape(t, &sizes)
    };
    let (weight, bias) = (weight.map(per_channel).transpose()?, bias.map(per_channel).transpose()?);
    if let Some(Value::Tensor(y)) = results.first_mut() {
        *y = scaled(y, weight.as_ref(), bias.as_ref())?;
    }
    Ok(Some(results))
}
