//! Gradients of normalisations, norms of weights, and batch norms that move their statistics, by operators that
//! have loops.

use super::{Call, Kernel, Made, contiguous, converted};
use crate::dispatch::Value;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::{Op, Scalar, TensorMeta, args, layout};

/// What an operator is made of.
pub(super) fn of(op: Op) -> Option<Kernel> {
    Some(match op {
        Op::native_batch_norm => batch_norm_of_repeats,
        Op::_native_batch_norm_legit_no_stats => batch_norm_of_batch,
        Op::_native_batch_norm_legit_functional => batch_norm,
        Op::native_batch_norm_backward => batch_norm_backward,
        Op::native_layer_norm_backward => layer_norm_backward,
        Op::native_group_norm_backward => group_norm_backward,
        Op::_weight_norm_interface => weight_norm,
        Op::_weight_norm_interface_backward => weight_norm_backward,
        _ => return None,
    })
}

fn sum(x: &Tensor, dims: &[i64], keepdim: bool) -> Result<Tensor> {
    aten::sum_dim_int_list(x, Some(dims), keepdim, None)
}

fn minus(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    aten::sub_tensor(a, b, Scalar::Int(1))
}

/// The results that are asked for, as they are to be.
fn wanted(call: &Call<'_>, types: &[Option<TensorMeta>], made: [Option<Tensor>; 3]) -> Made {
    let finish = |(t, m): (Option<Tensor>, &Option<TensorMeta>)| match (t, m) {
        (Some(t), Some(m)) => {
            let t = aten::reshape(&converted(&t, m.dtype)?, &m.sizes)?;
            call.deliver(t, m)
        }
        _ => Ok(Value::None),
    };
    made.into_iter().zip(types).map(finish).collect::<Result<Vec<Value>>>().map(Some)
}

/// All dimensions but the second.
fn but_channels(x: &Tensor) -> Vec<i64> {
    (0..x.dim() as i64).filter(|d| *d != 1).collect()
}

/// A value for each channel, beside elements.
fn by_channel(t: &Tensor, x: &Tensor) -> Result<Tensor> {
    let mut sizes = vec![1; x.dim()];
    if let Some(channels) = sizes.get_mut(1) {
        *channels = t.numel();
    }
    aten::reshape(&converted(t, x.dtype().opmath())?, &sizes)
}

/// What a statistic moves to.
fn moved(old: &Tensor, batch: &Tensor, momentum: f64) -> Result<Tensor> {
    let kept = aten::mul_scalar(&converted(old, batch.dtype())?, Scalar::Float(1.0 - momentum))?;
    let new = aten::mul_scalar(batch, Scalar::Float(momentum))?;
    aten::add_tensor(&new, &kept, Scalar::Int(1))
}

/// The variance of a batch that running statistics move to.
fn of_batch(x: &Tensor) -> Result<Tensor> {
    let wide = converted(x, x.dtype().opmath())?;
    aten::var_correction(&wide, Some(&but_channels(x)), Some(Scalar::Int(1)), false)
}

/// A batch norm by the statistics of the batch.
fn batch_norm_of_batch(call: &Call<'_>) -> Made {
    let read = call.read::<args::_native_batch_norm_legit_no_stats<Tensor>>();
    let (Some(a), Some(types)) = (read, call.outcomes()) else { return Ok(None) };
    let x = &a.input;
    if !a.training || x.numel() == 0 || x.dim() < 2 {
        return Ok(None);
    }
    let (wide, dims) = (converted(x, x.dtype().opmath())?, but_channels(x));
    let n = Scalar::Int(x.numel() / x.sizes()[1]);
    let mean = aten::div_scalar(&sum(&wide, &dims, true)?, n)?;
    let centred = minus(&wide, &mean)?;
    let var = aten::div_scalar(&sum(&aten::mul_tensor(&centred, &centred)?, &dims, true)?, n)?;
    let invstd = aten::rsqrt(&aten::add_scalar(&var, Scalar::Float(a.eps), Scalar::Int(1))?)?;
    let factor = match &a.weight {
        Some(w) => aten::mul_tensor(&invstd, &by_channel(w, x)?)?,
        None => invstd.clone(),
    };
    let mut out = aten::mul_tensor(&centred, &factor)?;
    if let Some(b) = &a.bias {
        out = aten::add_tensor(&out, &by_channel(b, x)?, Scalar::Int(1))?;
    }
    wanted(call, &types, [Some(out), Some(mean), Some(invstd)])
}

/// Where the statistics of several channels are one in memory, they move one after the other. All other calls
/// are what capture makes of them.
fn batch_norm_of_repeats(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::native_batch_norm<Tensor>>() else { return Ok(None) };
    let (Some(m), Some(v), x) = (&a.running_mean, &a.running_var, &a.input) else {
        return Ok(None);
    };
    let repeats = [m, v].iter().any(|t| layout::repeats(t.sizes(), t.strides()));
    if !a.training || !repeats || x.numel() == 0 || call.outcomes().is_none() {
        return Ok(None);
    }
    let (w, b) = (a.weight.as_ref(), a.bias.as_ref());
    let (out, mean, invstd) =
        aten::_native_batch_norm_legit_no_stats(x, w, b, true, a.momentum, a.eps)?;
    for (running, batch) in [(m, &mean), (v, &of_batch(x)?)] {
        for c in 0..running.numel() {
            let (old, new) = (aten::select_int(running, 0, c)?, aten::select_int(batch, 0, c)?);
            aten::copy_(&old, &moved(&old, &new, a.momentum)?, false)?;
        }
    }
    Ok(Some([out, mean, invstd].into_iter().map(Value::Tensor).collect()))
}

fn batch_norm(call: &Call<'_>) -> Made {
    let read = call.read::<args::_native_batch_norm_legit_functional<Tensor>>();
    let (Some(a), Some(types)) = (read, call.results()) else { return Ok(None) };
    let (x, weight, bias) = (&a.input, a.weight.as_ref(), a.bias.as_ref());
    if x.numel() == 0 {
        return Ok(None);
    }
    let (rm, rv) = (&a.running_mean, &a.running_var);
    let (out, mean, invstd, m, v) = match a.training {
        true => {
            let (t, m) = (true, a.momentum);
            let (out, mean, invstd) =
                aten::_native_batch_norm_legit_no_stats(x, weight, bias, t, m, a.eps)?;
            let (m, v) = (moved(rm, &mean, a.momentum)?, moved(rv, &of_batch(x)?, a.momentum)?);
            (out, mean, invstd, m, v)
        }
        false => {
            let (m, e) = (a.momentum, a.eps);
            let (out, mean, invstd) =
                aten::_native_batch_norm_legit_no_training(x, weight, bias, rm, rv, m, e)?;
            (out, mean, invstd, aten::clone(rm, None)?, aten::clone(rv, None)?)
        }
    };
    let made = [out, mean, invstd, m, v].into_iter().zip(&types);
    let finish = |(t, m): (Tensor, &TensorMeta)| call.deliver(converted(&t, m.dtype)?, m);
    made.map(finish).collect::<Result<Vec<Value>>>().map(Some)
}

fn batch_norm_backward(call: &Call<'_>) -> Made {
    let read = call.read::<args::native_batch_norm_backward<Tensor>>();
    let (Some(a), Some(types)) = (read, call.outcomes()) else { return Ok(None) };
    let x = &a.input;
    if x.numel() == 0 || x.dim() < 2 {
        return Ok(None);
    }
    let wide = x.dtype().opmath();
    let (g, dims) = (converted(&a.grad_out, wide)?, but_channels(x));
    let (mean, spread) = match a.train {
        true => (a.save_mean, a.save_invstd),
        false => (a.running_mean, a.running_var),
    };
    let (Some(mean), Some(spread)) = (mean, spread) else { return Ok(None) };
    let (mean, mut scale) = (by_channel(&mean, x)?, by_channel(&spread, x)?);
    if !a.train {
        let var = aten::add_scalar(&scale, Scalar::Float(a.eps), Scalar::Int(1))?;
        scale = aten::rsqrt(&var)?;
    }
    let centred = minus(&converted(x, wide)?, &mean)?;
    let total = sum(&g, &dims, true)?;
    let dot = sum(&aten::mul_tensor(&g, &centred)?, &dims, true)?;
    let factor = match &a.weight {
        Some(w) => aten::mul_tensor(&scale, &by_channel(w, x)?)?,
        None => scale.clone(),
    };
    let dx = match a.train {
        false => g,
        true => {
            let n = Scalar::Int(x.numel() / mean.numel().max(1));
            let square = aten::mul_tensor(&scale, &scale)?;
            let slope = aten::div_scalar(&aten::mul_tensor(&dot, &square)?, n)?;
            let g = minus(&g, &aten::div_scalar(&total, n)?)?;
            minus(&g, &aten::mul_tensor(&centred, &slope)?)?
        }
    };
    let dx = aten::mul_tensor(&dx, &factor)?;
    wanted(call, &types, [Some(dx), Some(aten::mul_tensor(&dot, &scale)?), Some(total)])
}

/// The gradient of rows that are normalised, where `g` is that of the normalised elements.
fn of_rows(g: &Tensor, normal: &Tensor, scale: &Tensor, count: i64) -> Result<Tensor> {
    let dims: Vec<i64> = (1..g.dim() as i64).collect();
    let n = Scalar::Int(count);
    let mean = aten::div_scalar(&sum(g, &dims, true)?, n)?;
    let slope = aten::div_scalar(&sum(&aten::mul_tensor(g, normal)?, &dims, true)?, n)?;
    let left = minus(&minus(g, &mean)?, &aten::mul_tensor(normal, &slope)?)?;
    aten::mul_tensor(&left, scale)
}

fn layer_norm_backward(call: &Call<'_>) -> Made {
    let read = call.read::<args::native_layer_norm_backward<Tensor>>();
    let (Some(a), Some(types)) = (read, call.outcomes()) else { return Ok(None) };
    let (x, columns) = (&a.input, a.normalized_shape.iter().product::<i64>());
    if x.numel() == 0 {
        return Ok(None);
    }
    let wide = x.dtype().opmath();
    let rows = x.numel() / columns;
    let shaped = |t: &Tensor, sizes: &[i64]| aten::reshape(&converted(t, wide)?, sizes);
    let (x, g) = (shaped(x, &[rows, columns])?, shaped(&a.grad_out, &[rows, columns])?);
    let (mean, scale) = (shaped(&a.mean, &[rows, 1])?, shaped(&a.rstd, &[rows, 1])?);
    let normal = aten::mul_tensor(&minus(&x, &mean)?, &scale)?;
    let weighted = match &a.weight {
        Some(w) => aten::mul_tensor(&g, &shaped(w, &[1, columns])?)?,
        None => g.clone(),
    };
    let dx = of_rows(&weighted, &normal, &scale, columns)?;
    let dw = sum(&aten::mul_tensor(&g, &normal)?, &[0], false)?;
    wanted(call, &types, [Some(dx), Some(dw), Some(sum(&g, &[0], false)?)])
}

fn group_norm_backward(call: &Call<'_>) -> Made {
    let read = call.read::<args::native_group_norm_backward<Tensor>>();
    let (Some(a), Some(types)) = (read, call.outcomes()) else { return Ok(None) };
    if a.input.numel() == 0 || a.group < 1 {
        return Ok(None);
    }
    let wide = a.input.dtype().opmath();
    let (n, c, group) = (a.N, a.C, a.group);
    let sizes = [n * group, c / group, a.HxW];
    let shaped =
        |t: &Tensor, sizes: &[i64]| aten::reshape(&converted(&contiguous(t)?, wide)?, sizes);
    let (x, g) = (shaped(&a.input, &sizes)?, shaped(&a.grad_out, &sizes)?);
    let (mean, scale) =
        (shaped(&a.mean, &[n * group, 1, 1])?, shaped(&a.rstd, &[n * group, 1, 1])?);
    let normal = aten::mul_tensor(&minus(&x, &mean)?, &scale)?;
    let all = [n, group, c / group, a.HxW];
    let weighted = match &a.weight {
        Some(w) => {
            let w = shaped(w, &[1, group, c / group, 1])?;
            aten::reshape(&aten::mul_tensor(&aten::reshape(&g, &all)?, &w)?, &sizes)?
        }
        None => g.clone(),
    };
    let dx = of_rows(&weighted, &normal, &scale, c / group * a.HxW)?;
    let of_channels = |t: &Tensor| sum(&aten::reshape(t, &[n, c, a.HxW])?, &[0, 2], false);
    let dw = of_channels(&aten::mul_tensor(&g, &normal)?)?;
    wanted(call, &types, [Some(dx), Some(dw), Some(of_channels(&g)?)])
}

/// What of a weight a factor is of: all dimensions but one, the first or the last; and factors beside it.
fn but(v: &Tensor, dim: i64) -> Option<(Vec<i64>, Vec<i64>)> {
    let last = v.dim() as i64 - 1;
    let dim = if dim < 0 { dim + last + 1 } else { dim };
    if v.numel() == 0 || (dim != 0 && dim != last) {
        return None;
    }
    let others: Vec<i64> = (0..=last).filter(|d| *d != dim).collect();
    let sizes = (0..).zip(v.sizes()).map(|(d, n)| if d == dim { *n } else { 1 }).collect();
    Some((others, sizes))
}

/// The sum of products over dimensions that stay; over none, the products.
fn dots(x: &Tensor, y: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let products = aten::mul_tensor(x, y)?;
    if dims.is_empty() { Ok(products) } else { sum(&products, dims, true) }
}

fn weight_norm(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::_weight_norm_interface<Tensor>>() else { return Ok(None) };
    let (Some(types), Some((dims, sizes))) = (call.results(), but(&a.v, a.dim)) else {
        return Ok(None);
    };
    let [of_weight, of_norms] = &types[..] else { return Ok(None) };
    let wide = a.v.dtype().opmath();
    let v = converted(&a.v, wide)?;
    let g = aten::reshape(&converted(&a.g, wide)?, &sizes)?;
    let norms = aten::sqrt(&dots(&v, &v, &dims)?)?;
    let weight = aten::mul_tensor(&v, &aten::div_tensor(&g, &norms)?)?;
    let norms = aten::reshape(&norms, &of_norms.sizes)?;
    Ok(Some(vec![
        call.deliver(converted(&weight, of_weight.dtype)?, of_weight)?,
        call.deliver(converted(&norms, of_norms.dtype)?, of_norms)?,
    ]))
}

fn weight_norm_backward(call: &Call<'_>) -> Made {
    let read = call.read::<args::_weight_norm_interface_backward<Tensor>>();
    let (Some(a), Some(types)) = (read, call.results()) else { return Ok(None) };
    let (Some((dims, sizes)), [of_v, of_g]) = (but(&a.saved_v, a.dim), &types[..]) else {
        return Ok(None);
    };
    let wide = a.saved_v.dtype().opmath();
    let (v, grad) = (converted(&a.saved_v, wide)?, converted(&a.grad_w, wide)?);
    let each = |t: &Tensor| aten::reshape(&converted(t, wide)?, &sizes);
    let (g, norms) = (each(&a.saved_g)?, each(&a.saved_norms)?);
    let of_both = aten::div_tensor(&dots(&v, &grad, &dims)?, &norms)?;
    let scale = aten::div_tensor(&g, &norms)?;
    // along the weight itself nothing changes
    let along = aten::mul_tensor(&v, &aten::div_tensor(&of_both, &norms)?)?;
    let by_v = aten::mul_tensor(&minus(&grad, &along)?, &scale)?;
    let by_g = aten::reshape(&of_both, &of_g.sizes)?;
    Ok(Some(vec![
        call.deliver(converted(&by_v, of_v.dtype)?, of_v)?,
        call.deliver(converted(&by_g, of_g.dtype)?, of_g)?,
    ]))
}
