//! Batch and group normalisation, and weight normalisation; what they share with their gradients.

pub(crate) mod backward;
pub(crate) mod composite;
pub(crate) mod layer;
pub(crate) mod memory;

use crate::error::{Error, Result};
use crate::ops::copy;
use crate::ops::copy::laid_out_like;
use crate::ops::nn::channels::{Order, suggested};
use crate::ops::nn::norm::memory::{
    Dense, Output, check_float, numbers, parameter_dtype, tensor_of,
};
use crate::tensor::{Tensor, access};
use straightline_catalog::DType;
use straightline_runtime::cpu::kernels::norm::Channels;

/// What a batch norm gives: the result, the statistics for the backward, those that the running
/// ones move to.
struct BatchNorm {
    out: Tensor,
    mean: Tensor,
    invstd: Tensor,
    /// Mean and unbiased variance of each channel, where they were computed.
    batch: Vec<[f64; 2]>,
}

/// `1 / sqrt(variance + eps)`, 0 where there is nothing to divide by.
pub(crate) fn invstd(variance: f64, eps: f64) -> f64 {
    if variance == 0.0 && eps == 0.0 { 0.0 } else { 1.0 / (variance + eps).sqrt() }
}

/// Arithmetic in the type that a kernel computes in, `f32` or `f64`.
#[derive(Clone, Copy)]
struct Arithmetic(DType);

impl Arithmetic {
    fn round(self, x: f64) -> f64 {
        if self.0 == DType::F32 { f64::from(x as f32) } else { x }
    }

    /// What a channel with these statistics is multiplied by, and what is then added. Each step is
    /// rounded, as PyTorch and compiled code do: of few or nearly equal elements the result is what
    /// rounding leaves of a difference.
    fn scale_and_shift(
        self,
        [mean, rstd]: [f64; 2],
        weight: Option<f64>,
        bias: Option<f64>,
    ) -> [f64; 3] {
        let scale = self.round(self.round(rstd) * weight.unwrap_or(1.0));
        let moved = self.round(self.round(mean) * scale);
        [0.0, scale, self.round(bias.unwrap_or(0.0) - moved)]
    }

    /// `1 / sqrt(variance + eps)`, of a sum of squares that may not fit the type.
    fn rstd(self, variance: f64, count: usize, eps: f64) -> f64 {
        let variance = self.round(variance * count as f64) / count as f64;
        1.0 / self.round(self.round(variance) + eps).sqrt()
    }
}

pub(crate) fn check_channels(x: &Tensor) -> Result<i64> {
    ensure_index!(
        x.dim() >= 2,
        "Dimension out of range (expected to be in range of [{}, {}], but got 1)",
        -(x.dim().max(1) as i64),
        x.dim().max(1) - 1
    );
    Ok(x.sizes()[1])
}

pub(crate) fn check_count(t: Option<&Tensor>, name: &str, want: i64) -> Result<()> {
    match t {
        Some(t) if name.starts_with("running") && t.numel() == want && t.dim() != 1 => Err(
            Error::runtime(format!("TensorAccessor expected 1 dims but tensor has {}", t.dim())),
        ),
        Some(t) if t.numel() != want => {
            Err(Error::shape(format!("{name} should contain {want} elements not {}", t.numel())))
        }
        _ => Ok(()),
    }
}

fn normalize_batch(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running: Option<(&Tensor, &Tensor)>,
    training: bool,
    eps: f64,
) -> Result<BatchNorm> {
    let channels = check_channels(x)?;
    check_float(x, "batch_norm")?;
    let (rm, rv) = running.unzip();
    let dtype = parameter_dtype(x, &[weight, bias, rm, rv])?;
    for (t, name) in [(weight, "weight"), (bias, "bias"), (rm, "running_mean"), (rv, "running_var")]
    {
        check_count(t, name, channels)?;
    }
    ensure_value!(training || running.is_some(), "running_mean must be defined in evaluation mode");
    ensure!(
        !training || x.numel() != 0,
        "input tensor must have at least one element, but got input_sizes = {:?}",
        x.sizes()
    );
    let order = suggested(x);
    let mut out = Output::new(x, order, order)?;
    let saved = [if training { channels } else { 0 }];
    let device = x.device();
    let mut found: Vec<[f64; 2]> = Vec::new();
    let mut count = 0.0;
    let dense = if out.has_data() && x.numel() > 0 { Some(Dense::new(x, order)?) } else { None };
    if let Some(dense) = dense.as_ref().filter(|_| training) {
        count = dense.channels.each() as f64;
        found = dense.moments()?;
    }
    let mean = tensor_of(found.iter().map(|[m, _]| *m), &saved, dtype, device)?;
    let inverse = found.iter().map(|[_, v]| invstd(*v, eps));
    let inverse = tensor_of(inverse, &saved, dtype, device)?;
    let mut batch = Vec::new();
    if let Some(dense) = &dense {
        // what is applied is what is saved, rounded
        let (means, scales) = match running {
            Some((mean, var)) if !training => {
                let scales = numbers(var)?.into_iter().map(|v| invstd(v, eps)).collect();
                (numbers(mean)?, scales)
            }
            _ => (numbers(&mean)?, numbers(&inverse)?),
        };
        let weight = weight.map(numbers).transpose()?;
        let bias = bias.map(numbers).transpose()?;
        let wide = dense.tensor.dtype();
        let factors: Vec<[f64; 3]> = (means.iter().zip(&scales).enumerate())
            .map(|(c, (mean, scale)): (usize, (&f64, &f64))| {
                let of = |t: &Option<Vec<f64>>| t.as_ref().map(|t| t[c]);
                Arithmetic(wide).scale_and_shift([*mean, *scale], of(&weight), of(&bias))
            })
            .collect();
        batch = (means.iter().zip(&found))
            .map(|(mean, [_, var])| [*mean, var * count / (count - 1.0)])
            .collect();
        dense.affine(&factors, &mut out)?;
    }
    Ok(BatchNorm { out: out.finish()?, mean, invstd: inverse, batch })
}

/// Where a running statistic goes from `old`.
fn moved(old: f64, batch: f64, momentum: f64) -> f64 {
    momentum * batch + (1.0 - momentum) * old
}

/// Moves a running statistic in place, one channel after the other: the elements of an expanded one
/// are the same memory, as in PyTorch.
fn update(running: &Tensor, batch: &[[f64; 2]], which: usize, momentum: f64) -> Result<()> {
    if !running.storage().has_data() {
        return Ok(());
    }
    let overlapping = access::check_no_internal_overlap(running).is_err();
    if !overlapping {
        let values = (numbers(running)?.into_iter().zip(batch))
            .map(|(old, batch)| moved(old, batch[which], momentum))
            .collect::<Vec<_>>();
        let new =
            tensor_of(values.into_iter(), running.sizes(), running.dtype(), running.device())?;
        copy::copy_(running, &new, false)?;
        return Ok(());
    }
    for (c, batch) in batch.iter().enumerate() {
        let flat = crate::ops::view::reshape(running, &[running.numel()])?;
        let one = crate::ops::view::narrow(&flat, 0, c as i64, 1)?;
        let value = moved(numbers(&one)?[0], batch[which], momentum);
        let value = tensor_of([value].into_iter(), &[1], running.dtype(), running.device())?;
        copy::copy_(&one, &value, false)?;
    }
    Ok(())
}

/// Both running statistics or neither.
pub(crate) fn both<'a>(
    mean: Option<&'a Tensor>,
    var: Option<&'a Tensor>,
) -> Result<Option<(&'a Tensor, &'a Tensor)>> {
    ensure_value!(
        mean.is_some() == var.is_some(),
        "running_mean and running_var must either both be None or neither be None"
    );
    Ok(mean.zip(var))
}

pub(crate) type Three = (Tensor, Tensor, Tensor);

/// Holds the operands of a batch norm for its length; training writes the running statistics.
pub(crate) fn hold_batch<'a>(
    read: [Option<&'a Tensor>; 3],
    statistics: [Option<&'a Tensor>; 2],
    training: bool,
) -> Result<access::Whole<'a>> {
    let statistics: Vec<&Tensor> = statistics.into_iter().flatten().collect();
    let mut read: Vec<&Tensor> = read.into_iter().flatten().collect();
    if training {
        return access::whole(&statistics, &read);
    }
    read.extend(statistics);
    access::whole(&[], &read)
}

#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn native_batch_norm(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<Three> {
    let running = both(running_mean, running_var)?;
    let _whole = hold_batch([Some(x), weight, bias], [running_mean, running_var], training)?;
    let r = normalize_batch(x, weight, bias, running, training, eps)?;
    if training && let Some((rm, rv)) = running {
        update(rm, &r.batch, 0, momentum)?;
        update(rv, &r.batch, 1, momentum)?;
    }
    Ok((r.out, r.mean, r.invstd))
}

#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn native_batch_norm_legit(
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
    native_batch_norm(x, weight, bias, running.0, running.1, training, momentum, eps)
}

/// Batch norm in training with running statistics; the last result is memory that this backend has
/// no use for.
pub(crate) fn batch_norm_with_update(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: &Tensor,
    running_var: &Tensor,
    momentum: f64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    use crate::ops::aten;
    let (y, mean, invstd) = aten::_native_batch_norm_legit(
        x,
        weight,
        bias,
        running_mean,
        running_var,
        true,
        momentum,
        eps,
    )?;
    let bytes = Some(straightline_catalog::DType::U8);
    let reserve = aten::empty_memory_format(&[0], bytes, None, Some(x.device()), None, None)?;
    Ok((y, mean, invstd, reserve))
}

pub(crate) fn native_batch_norm_no_stats(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<Three> {
    native_batch_norm(x, weight, bias, None, None, training, momentum, eps)
}

#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn native_batch_norm_functional(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: &Tensor,
    running_var: &Tensor,
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor, Tensor, Tensor)> {
    let running = Some((running_mean, running_var));
    let read = [Some(x), weight, bias, Some(running_mean), Some(running_var)];
    let read: Vec<&Tensor> = read.into_iter().flatten().collect();
    let _given = access::read(&read)?;
    let r = normalize_batch(x, weight, bias, running, training, eps)?;
    let next = |old: &Tensor, which: usize| -> Result<Tensor> {
        let has_data = old.storage().has_data();
        if !training || !has_data {
            return copy::clone(old, None);
        }
        let values = (numbers(old)?.into_iter().zip(&r.batch))
            .map(|(old, batch)| moved(old, batch[which], momentum))
            .collect::<Vec<_>>();
        tensor_of(values.into_iter(), old.sizes(), old.dtype(), old.device())
    };
    let (m, v) = (next(running_mean, 0)?, next(running_var, 1)?);
    Ok((r.out, r.mean, r.invstd, m, v))
}

pub(crate) fn native_batch_norm_no_training(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: &Tensor,
    running_var: &Tensor,
    _momentum: f64,
    eps: f64,
) -> Result<Three> {
    let running = Some((running_mean, running_var));
    let read = [Some(x), weight, bias, Some(running_mean), Some(running_var)];
    let read: Vec<&Tensor> = read.into_iter().flatten().collect();
    let _given = access::read(&read)?;
    let r = normalize_batch(x, weight, bias, running, false, eps)?;
    Ok((r.out, r.mean, r.invstd))
}

/// Group normalisation with the statistics that its backward needs: `(out, mean, rstd)`.
#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn native_group_norm(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    n: i64,
    c: i64,
    hw: i64,
    group: i64,
    eps: f64,
) -> Result<Three> {
    let dtype = parameter_dtype(x, &[weight, bias])?;
    if x.numel() > 0 {
        check_float(x, "GroupNormKernelImpl")?;
    }
    check_groups(x, &[("weight", weight), ("bias", bias)], (n, c, hw), group)?;
    let order = suggested(x);
    let mut out = Output::new(x, order, Order::Contiguous)?;
    let mut found = Vec::new();
    if out.has_data() && x.numel() > 0 {
        let dense = Dense::rows(x, (n * group) as usize)?;
        let wide = dense.tensor.dtype();
        let moments = dense.moments()?;
        let (c, per_group) = (c as usize, (c / group) as usize);
        let arithmetic = Arithmetic(wide);
        found = (moments.into_iter())
            .map(|[mean, var]| {
                let count = per_group * hw as usize;
                [arithmetic.round(mean), arithmetic.rstd(var, count, eps)]
            })
            .collect();
        let weight = weight.map(numbers).transpose()?;
        let bias = bias.map(numbers).transpose()?;
        let factors: Vec<[f64; 3]> = (0..n as usize * c)
            .map(|i| {
                let [mean, rstd] = found[i / per_group];
                if weight.is_none() && bias.is_none() {
                    // minus zero: what is added to nothing changes nothing
                    return [mean, rstd, -0.0];
                }
                let of = |t: &Option<Vec<f64>>| t.as_ref().map(|t| t[i % c]);
                arithmetic.scale_and_shift([mean, rstd], of(&weight), of(&bias))
            })
            .collect();
        let channels = Channels { outer: 1, channels: n as usize * c, inner: hw as usize };
        Dense { channels, ..dense }.affine(&factors, &mut out)?;
    }
    let sizes = [n, group];
    let mean = tensor_of(found.iter().map(|[m, _]| *m), &sizes, dtype, x.device())?;
    let rstd = tensor_of(found.iter().map(|[_, r]| *r), &sizes, dtype, x.device())?;
    Ok((out.finish()?, mean, rstd))
}

pub(crate) fn check_groups(
    x: &Tensor,
    parameters: &[(&str, Option<&Tensor>)],
    (n, c, hw): (i64, i64, i64),
    group: i64,
) -> Result<()> {
    ensure!(group > 0, "Expected num groups to be greater than 0, got {group}");
    ensure!(
        hw > 0 && n >= 0 && c >= 0,
        "Expected HxW to be greater than 0, got {hw} (N {n}, C {c})"
    );
    for (name, t) in parameters {
        if let Some(t) = t
            && t.sizes() != [c]
        {
            return Err(Error::shape(format!(
                "Expected {name} to be a vector of size equal to the number of channels in input, but got \
                 {name} of shape {:?} and input of shape {:?}",
                t.sizes(),
                x.sizes()
            )));
        }
    }
    ensure_shape!(
        c % group == 0,
        "Expected number of channels in input to be divisible by num_groups, but got input of shape \
             {:?} and num_groups={group}",
        x.sizes()
    );
    ensure_shape!(
        n.checked_mul(c).and_then(|nc| nc.checked_mul(hw)) == Some(x.numel()),
        "an input of sizes {:?} does not have N * C * HxW = {n} * {c} * {hw} elements",
        x.sizes()
    );
    Ok(())
}

/// The direction of a weight norm: rows of the first dimension, or columns of the last.
pub(crate) fn weight_channels(v: &Tensor, dim: i64) -> Result<Channels> {
    let rank = v.dim() as i64;
    ensure!(
        rank != 0 && (dim == 0 || dim == rank - 1),
        "a weight norm's kernel works along the first or the last dimension, not along {dim} of sizes {:?}",
        v.sizes()
    );
    let n = v.sizes()[dim as usize] as usize;
    let rest = v.numel() as usize / n.max(1);
    Ok(if dim == 0 {
        Channels { outer: 1, channels: n, inner: rest }
    } else {
        Channels { outer: rest, channels: n, inner: 1 }
    })
}

/// `v * g / |v|`, and the norms.
pub(crate) fn weight_norm_interface(v: &Tensor, g: &Tensor, dim: i64) -> Result<(Tensor, Tensor)> {
    check_float(v, "weight_norm_kernel")?;
    let s = weight_channels(v, dim)?;
    ensure_dtype!(
        g.dtype() == v.dtype(),
        "expected scalar type {} but found {}",
        v.dtype().torch_name(),
        g.dtype().torch_name()
    );
    check_count(Some(g), "g", s.channels as i64)?;
    let mut out = Output::new(v, Order::Contiguous, Order::Contiguous)?;
    let mut norms = Vec::new();
    if out.has_data() {
        let dense = Dense { channels: s, ..Dense::rows(v, 1)? };
        let sums = dense.dots(&dense, &vec![0.0; s.channels])?;
        norms = sums.into_iter().map(|[_, squares]| squares.sqrt()).collect();
        let factors: Vec<[f64; 3]> = (numbers(g)?.iter().zip(&norms))
            .map(|(g, n): (&f64, &f64)| [0.0, g / n, -0.0])
            .collect();
        dense.affine(&factors, &mut out)?;
    }
    let dtype = v.dtype().opmath();
    let norms = tensor_of(norms.into_iter(), g.sizes(), dtype, v.device())?;
    Ok((out.finish()?, laid_out_like(norms, g)?))
}
