//! Gradients of batch, group, layer and weight norms.

use crate::error::{Error, Result};
use crate::ops::copy;
use crate::ops::nn::channels::{Order, suggested};
use crate::ops::nn::conv::backward::Gradients;
use crate::ops::nn::norm::memory::{
    Dense, Output, check_float, numbers, parameter_dtype, tensor_of,
};
use crate::ops::nn::norm::{check_channels, check_count, check_groups, invstd, weight_channels};
use crate::tensor::Tensor;
use crate::tensor::launch;
use straightline_catalog::layout;
use straightline_runtime::cpu::kernels::norm::{self, Channels, LayerGradient};

fn masks(mask: &[bool]) -> Result<[bool; 3]> {
    <[bool; 3]>::try_from(mask)
        .map_err(|_| Error::runtime(format!("output_mask must have three elements, got {mask:?}")))
}

fn check_gradient(grad: &Tensor, x: &Tensor) -> Result<()> {
    ensure_shape!(
        grad.sizes() == x.sizes() && grad.dtype() == x.dtype(),
        "the gradient of a result of {}{:?} cannot be {}{:?}",
        x.dtype(),
        x.sizes(),
        grad.dtype(),
        grad.sizes()
    );
    Ok(())
}

#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn native_batch_norm_backward(
    grad: &Tensor,
    x: &Tensor,
    weight: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    save_mean: Option<&Tensor>,
    save_invstd: Option<&Tensor>,
    train: bool,
    eps: f64,
    mask: &[bool],
) -> Result<Gradients> {
    let [want_x, want_w, want_b] = masks(mask)?;
    let channels = check_channels(x)?;
    check_float(x, "batch_norm_backward_cpu")?;
    check_gradient(grad, x)?;
    let (mean, spread) = if train { (save_mean, save_invstd) } else { (running_mean, running_var) };
    let (Some(mean), Some(spread)) = (mean, spread) else {
        return Err(Error::runtime(if train {
            "the backward of a batch norm in training needs save_mean and save_invstd"
        } else {
            "the backward of a batch norm in evaluation needs running_mean and running_var"
        }));
    };
    let dtype = parameter_dtype(x, &[weight, Some(mean), Some(spread)])?;
    check_count(weight, "weight", channels)?;
    check_count(Some(mean), "the mean", channels)?;
    check_count(Some(spread), "the variance", channels)?;
    let order = suggested(x);
    let mut dx = want_x.then(|| Output::new(x, order, order)).transpose()?;
    let mut dots = Vec::new();
    let mut scales = Vec::new();
    if x.storage().has_data() {
        let (dense, dy) = (Dense::new(x, order)?, Dense::new(grad, order)?);
        let s = dense.channels;
        let mean = numbers(mean)?;
        scales = numbers(spread)?;
        if !train {
            scales.iter_mut().for_each(|v| *v = invstd(*v, eps));
        }
        let weight = weight.map(numbers).transpose()?;
        dots = dense.dots(&dy, &mean)?;
        if let Some(out) = dx.as_mut().filter(|_| x.numel() > 0) {
            let n = s.each() as f64;
            let factors: Vec<[f64; 4]> = (0..s.channels)
                .map(|c| {
                    let a = scales[c] * weight.as_ref().map_or(1.0, |w| w[c]);
                    let [sum, dot] = dots[c];
                    if train {
                        let k = dot * scales[c] * scales[c] / n;
                        [mean[c], a, -k * a, -sum / n * a]
                    } else {
                        [0.0, a, 0.0, 0.0]
                    }
                })
                .collect();
            dense.combine(&dy, &factors, out)?;
        }
    }
    let sums = |f: &dyn Fn(usize) -> f64| {
        tensor_of((0..dots.len()).map(f), &[channels], dtype, x.device())
    };
    Ok((
        dx.map(Output::finish).transpose()?,
        want_w.then(|| sums(&|c| dots[c][1] * scales[c])).transpose()?,
        want_b.then(|| sums(&|c| dots[c][0])).transpose()?,
    ))
}

#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn native_group_norm_backward(
    grad: &Tensor,
    x: &Tensor,
    mean: &Tensor,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    n: i64,
    c: i64,
    hw: i64,
    group: i64,
    mask: &[bool],
) -> Result<Gradients> {
    let [want_x, want_w, want_b] = masks(mask)?;
    ensure_dtype!(grad.dtype() == x.dtype(), "Expected scalar types of X and dY are same.");
    if x.numel() > 0 {
        check_float(x, "GroupNormBackwardKernelImpl")?;
    }
    check_gradient(grad, x)?;
    let dtype = parameter_dtype(x, &[weight, Some(mean), Some(rstd)])?;
    check_groups(x, &[("weight", weight)], (n, c, hw), group)?;
    check_count(Some(mean), "the mean", n * group)?;
    check_count(Some(rstd), "rstd", n * group)?;
    let mut dx = want_x.then(|| Output::new(x, suggested(x), Order::Contiguous)).transpose()?;
    let (mut dw, mut db) = (vec![0.0; c as usize], vec![0.0; c as usize]);
    if x.storage().has_data() && x.numel() > 0 {
        let rows = (n * c) as usize;
        let (dense, dy) = (Dense::rows(x, rows)?, Dense::rows(grad, rows)?);
        let s = dense.channels;
        let (mean, rstd) = (numbers(mean)?, numbers(rstd)?);
        let weight = weight.map(numbers).transpose()?;
        let (c, per_group) = (c as usize, (c / group) as usize);
        let means: Vec<f64> = (0..rows).map(|i| mean[i / per_group]).collect();
        let dots = dense.dots(&dy, &means)?;
        for (i, [sum, dot]) in dots.iter().enumerate() {
            dw[i % c] += dot * rstd[i / per_group];
            db[i % c] += sum;
        }
        if let Some(out) = &mut dx {
            let gamma = |i: usize| weight.as_ref().map_or(1.0, |w| w[i % c]);
            let count = (per_group * s.inner) as f64;
            let of_group: Vec<[f64; 2]> = (0..rows / per_group)
                .map(|g| {
                    let mut total = [0.0; 2];
                    let first = g * per_group;
                    for (i, dot) in dots[first..first + per_group].iter().enumerate() {
                        total[0] += dot[0] * gamma(first + i);
                        total[1] += dot[1] * gamma(first + i);
                    }
                    total
                })
                .collect();
            let factors: Vec<[f64; 4]> = (0..rows)
                .map(|i| {
                    let g = i / per_group;
                    let ([sum, dot], r) = (of_group[g], rstd[g]);
                    let b = -dot * r * r * r / count;
                    [mean[g], gamma(i) * r, b, -sum * r / count]
                })
                .collect();
            dense.combine(&dy, &factors, out)?;
        }
    }
    let vector = |values: Vec<f64>| tensor_of(values.into_iter(), &[c], dtype, x.device());
    Ok((
        dx.map(Output::finish).transpose()?,
        want_w.then(|| vector(dw)).transpose()?,
        want_b.then(|| vector(db)).transpose()?,
    ))
}

#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn native_layer_norm_backward(
    grad: &Tensor,
    x: &Tensor,
    shape: &[i64],
    mean: &Tensor,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    mask: &[bool],
) -> Result<Gradients> {
    let [want_x, want_w, want_b] = masks(mask)?;
    let axis = crate::ops::nn::norm::layer::check_normalized(
        x,
        shape,
        &[("weight", weight), ("bias", bias)],
    )?;
    check_float(x, "LayerNormBackwardKernelImpl")?;
    check_gradient(grad, x)?;
    parameter_dtype(x, &[weight, bias])?;
    let rows = layout::numel(&x.sizes()[..axis]);
    check_count(Some(mean), "the mean", rows)?;
    check_count(Some(rstd), "rstd", rows)?;
    ensure!(
        (!want_w || weight.is_some()) && (!want_b || bias.is_some()),
        "the gradient of a weight or bias that is not there was asked for"
    );
    let wide = x.dtype().opmath();
    let vector = |like: Option<&Tensor>, want: bool| -> Result<Option<(Tensor, Tensor)>> {
        let Some(like) = like.filter(|_| want) else {
            return Ok(None);
        };
        let t = Tensor::allocate_contiguous(wide, x.device(), shape)?;
        Ok(Some((t, like.clone())))
    };
    let mut dx =
        want_x.then(|| Output::new(x, Order::Contiguous, Order::Contiguous)).transpose()?;
    let (mut dw, mut db) = (vector(weight, want_w)?, vector(bias, want_b)?);
    if x.storage().has_data() {
        let cols = layout::numel(shape) as usize;
        let plain = |t: &Tensor| copy::to_contiguous(&copy::to_dtype(t, wide)?);
        let (xc, dy) = (plain(x)?, plain(grad)?);
        let (mean, rstd) = (plain(mean)?, plain(rstd)?);
        let weight = weight.map(plain).transpose()?;
        let results = (
            dx.as_mut().map(|o| &mut o.computed),
            [dw.as_mut(), db.as_mut()].map(|o| o.map(|(t, _)| t)),
        );
        let operands = ([&dy, &xc, &mean, &rstd], weight.as_ref());
        launch::run(results, operands, |(dx, [dweight, dbias]), (ins, weight)| {
            let [dy, x, mean, rstd] = ins;
            let gradient = LayerGradient { dy, x, mean, rstd, weight, dx, dweight, dbias };
            Ok(norm::layer_norm_gradient((rows as usize, cols), gradient)?)
        })?;
    }
    let finish = |t: Option<(Tensor, Tensor)>| {
        t.map(|(t, like)| copy::to_dtype(&t, like.dtype())).transpose()
    };
    Ok((dx.map(Output::finish).transpose()?, finish(dw)?, finish(db)?))
}

/// The gradients of `v` and `g` in `v * g / |v|`.
pub(crate) fn weight_norm_interface_backward(
    grad: &Tensor,
    v: &Tensor,
    g: &Tensor,
    norms: &Tensor,
    dim: i64,
) -> Result<(Tensor, Tensor)> {
    check_float(v, "weight_norm_backward_kernel")?;
    for (name, t) in [("saved_v", v), ("saved_g", g), ("saved_norms", norms)] {
        ensure!(t.is_contiguous(), "{name} must be contiguous");
    }
    let s: Channels = weight_channels(v, dim)?;
    check_gradient(grad, v)?;
    ensure_dtype!(
        g.dtype() == v.dtype() && norms.dtype() == v.dtype().opmath(),
        "expected g of {} and norms of {}, found {} and {}",
        v.dtype().torch_name(),
        v.dtype().opmath().torch_name(),
        g.dtype().torch_name(),
        norms.dtype().torch_name()
    );
    check_count(Some(g), "g", s.channels as i64)?;
    check_count(Some(norms), "the norms", s.channels as i64)?;
    let mut out = Output::new(v, Order::Contiguous, Order::Contiguous)?;
    let mut dg = Vec::new();
    if out.has_data() {
        let (dense, dw) = (Dense::rows(v, 1)?, Dense::rows(grad, 1)?);
        let dense = Dense { channels: s, ..dense };
        let (g, norms) = (numbers(g)?, numbers(norms)?);
        let dots = dense.dots(&dw, &vec![0.0; s.channels])?;
        let factors: Vec<[f64; 4]> = (0..s.channels)
            .map(|c| {
                let (scale, n) = (g[c] / norms[c], norms[c]);
                [0.0, scale, -scale * dots[c][1] / (n * n), 0.0]
            })
            .collect();
        dg = (0..s.channels).map(|c| dots[c][1] / norms[c]).collect();
        dense.combine(&dw, &factors, &mut out)?;
    }
    let dg = tensor_of(dg.into_iter(), g.sizes(), g.dtype(), v.device())?;
    Ok((out.finish()?, dg))
}
