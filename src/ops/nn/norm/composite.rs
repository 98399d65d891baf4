//! Norms made of other operators: everything here goes through the dispatcher.

use crate::error::Result;
use crate::ops::aten;
use crate::ops::nn::channels::{Order, suggested};
use crate::ops::nn::norm::memory::check_float;
use crate::ops::nn::norm::{Three, both, check_channels, check_count, check_groups};
use crate::tensor::Tensor;
use crate::tensor::watcher::share_memory;
use straightline_catalog::{DType, Dims, MemoryFormat, Scalar, layout};

/// How capture takes a batch norm apart that writes its running statistics.
#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn native_batch_norm_parts(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<Three> {
    let Some((rm, rv)) = both(running_mean, running_var)? else {
        return aten::_native_batch_norm_legit_no_stats(x, weight, bias, training, momentum, eps);
    };
    if !training {
        return aten::_native_batch_norm_legit_no_training(x, weight, bias, rm, rv, momentum, eps);
    }
    let normalize = || {
        let (t, m) = (training, momentum);
        aten::_native_batch_norm_legit_functional(x, weight, bias, rm, rv, t, m, eps)
    };
    let (out, mean, invstd, m, mut v) = normalize()?;
    aten::copy_(rm, &m, false)?;
    if share_memory(rm, rv) {
        // what the variance moves from is what the mean has moved to
        v = normalize()?.4;
    }
    aten::copy_(rv, &v, false)?;
    Ok((out, mean, invstd))
}

#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn native_batch_norm_legit_parts(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: &Tensor,
    running_var: &Tensor,
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<Three> {
    let running = (Some(running_mean), Some(running_var));
    native_batch_norm_parts(x, weight, bias, running.0, running.1, training, momentum, eps)
}

/// A batch norm with the name of the backend that computed it, which here is always the first.
#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn _batch_norm_impl_index(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    training: bool,
    momentum: f64,
    eps: f64,
    _cudnn_enabled: bool,
) -> Result<(Tensor, Tensor, Tensor, Tensor, i64)> {
    let reserve =
        aten::empty_memory_format(&[0], Some(DType::U8), None, Some(x.device()), None, None)?;
    if x.numel() == 0 {
        let mut out = aten::clone(x, None)?;
        if let Some(w) = weight {
            out = aten::mul_tensor(&out, &aten::select_int(w, 0, 0)?)?;
        }
        if let Some(b) = bias {
            out = aten::add_tensor(&out, &aten::select_int(b, 0, 0)?, Scalar::Int(1))?;
        }
        // the dtypes that PyTorch accumulates in
        let wide = match x.dtype() {
            DType::Bool => DType::Bool,
            d if d.is_integral() => DType::I64,
            DType::F16 | DType::BF16 => DType::F32,
            _ => DType::F64,
        };
        let none = || {
            // PyTorch looks for channels in an empty vector too, and finds 0
            let channels = x.sizes().get(1).copied().unwrap_or(0);
            aten::empty_memory_format(&[channels], Some(wide), None, Some(x.device()), None, None)
        };
        return Ok((out, none()?, none()?, reserve, 0));
    }
    let channels = check_channels(x)?;
    ensure!(
        training || running_mean.is_some() && running_var.is_some(),
        "running_mean must be defined in evaluation mode"
    );
    for (t, name) in [
        (running_mean, "running_mean"),
        (running_var, "running_var"),
        (weight, "weight"),
        (bias, "bias"),
    ] {
        check_count(t, name, channels)?;
    }
    let (out, mean, invstd) = aten::native_batch_norm(
        x,
        weight,
        bias,
        running_mean,
        running_var,
        training,
        momentum,
        eps,
    )?;
    Ok((out, mean, invstd, reserve, 0))
}

/// A batch norm in which each image has channels of its own.
#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn instance_norm(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    use_input_stats: bool,
    momentum: f64,
    eps: f64,
    cudnn_enabled: bool,
) -> Result<Tensor> {
    ensure!(
        use_input_stats || running_mean.is_some() && running_var.is_some(),
        "Expected running_mean and running_var to be defined when use_input_stats is false"
    );
    // running statistics are written even where they are what normalises
    let _whole = crate::ops::nn::norm::hold_batch(
        [Some(x), weight, bias],
        [running_mean, running_var],
        true,
    )?;
    let c = check_channels(x)?;
    let b = x.sizes()[0];
    let repeated = |t: Option<&Tensor>| -> Result<Option<Tensor>> {
        let Some(t) = t else { return Ok(None) };
        ensure!(
            t.dim() <= 1,
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
        );
        let n = t.numel();
        let t = aten::expand(&aten::unsqueeze(&aten::reshape(t, &[n])?, 0)?, &[b, n], false)?;
        let t = aten::clone(&t, Some(MemoryFormat::Contiguous))?;
        Ok(Some(aten::reshape(&t, &[b * n])?))
    };
    let (weight, bias) = (repeated(weight)?, repeated(bias)?);
    let (mean, var) = (repeated(running_mean)?, repeated(running_var)?);
    let mut sizes = Dims::from_slice(x.sizes());
    (sizes[0], sizes[1]) = (1, b * c);
    let flat = aten::contiguous(x, MemoryFormat::Contiguous)?;
    let out = aten::batch_norm(
        &aten::view(&flat, &sizes)?,
        weight.as_ref(),
        bias.as_ref(),
        mean.as_ref(),
        var.as_ref(),
        use_input_stats,
        momentum,
        eps,
        cudnn_enabled,
    )?;
    for (running, all) in [(running_mean, mean), (running_var, var)] {
        if let (Some(running), Some(all)) = (running, all) {
            let mean = aten::mean_dim(&aten::view(&all, &[b, c])?, Some(&[0]), false, None)?;
            aten::copy_(running, &mean, false)?;
        }
    }
    aten::view(&out, x.sizes())
}

pub(crate) fn group_norm(
    x: &Tensor,
    groups: i64,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
    _cudnn_enabled: bool,
) -> Result<Tensor> {
    let c = check_channels(x)?;
    let n = x.sizes()[0];
    let hw = layout::numel(&x.sizes()[2..]);
    check_groups(x, &[("weight", weight), ("bias", bias)], (n, c, hw), groups)?;
    Ok(aten::native_group_norm(x, weight, bias, n, c, hw, groups, eps)?.0)
}

/// `x * rsqrt(mean(x^2) + eps) * weight` over the last dimensions, and the factor.
pub(crate) fn fused_rms_norm(
    x: &Tensor,
    shape: &[i64],
    weight: Option<&Tensor>,
    eps: Option<f64>,
) -> Result<(Tensor, Tensor)> {
    if !x.dtype().is_complex() {
        check_float(x, "rms_norm")?;
    }
    ensure_shape!(
        !shape.is_empty() && shape.len() <= x.dim(),
        "normalized_shape={shape:?} does not fit an input of sizes {:?}",
        x.sizes()
    );
    let dims: Vec<i64> = ((x.dim() - shape.len()) as i64..x.dim() as i64).collect();
    let wide = x.dtype().opmath();
    let eps = eps.unwrap_or(match wide.to_real() {
        DType::F64 => f64::EPSILON,
        _ => f64::from(f32::EPSILON),
    });
    let format = match (suggested(x), x.dim()) {
        (Order::Contiguous, _) => MemoryFormat::Contiguous,
        (_, 5) => MemoryFormat::ChannelsLast3d,
        _ => MemoryFormat::ChannelsLast,
    };
    let xw = aten::contiguous(x, format)?;
    let xw = aten::to_dtype(&xw, wide, false, false, None)?;
    let squares = aten::pow_tensor_scalar(&xw, Scalar::Int(2))?;
    let mean = aten::mean_dim(&squares, Some(&dims), true, None)?;
    let shifted = aten::add_scalar(&mean, Scalar::Float(eps), Scalar::Int(1))?;
    let rstd = aten::rsqrt(&shifted)?;
    let mut out = aten::mul_tensor(&xw, &rstd)?;
    if let Some(w) = weight {
        out = aten::mul_tensor(&out, w)?;
    }
    Ok((aten::to_dtype(&out, x.dtype(), false, false, None)?, rstd))
}

pub(crate) fn _weight_norm(v: &Tensor, g: &Tensor, dim: i64) -> Result<Tensor> {
    let last = v.dim() as i64 - 1;
    let format = MemoryFormat::Contiguous;
    let (v, g) = (aten::contiguous(v, format)?, aten::contiguous(g, format)?);
    if dim == 0 || dim == last {
        return Ok(aten::_weight_norm_interface(&v, &g, dim)?.0);
    }
    // -1 is the norm of everything
    let dim = match dim {
        -1 => -1,
        _ => crate::ops::common::wrap_dim(dim, v.dim())? as i64,
    };
    let dims: Vec<i64> = (0..=last).filter(|d| *d != dim).collect();
    let squares = aten::mul_tensor(&v, &v)?;
    let norm = aten::sqrt(&aten::sum_dim_int_list(&squares, Some(&dims), true, None)?)?;
    aten::mul_tensor(&v, &aten::div_tensor(&g, &norm)?)
}
