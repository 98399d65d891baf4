//! Batch, instance and group normalisation, and weight normalisation; what they share with their gradients.

use super::channels::{Order, suggested};
use super::copy;
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::{Tensor, access};
use straightline_passes::ir::{DType, Device, Dims, MemoryFormat, Scalar, layout};
use straightline_runtime::cpu::kernels::norm::{self, Channels};

/// Refuses dtypes that PyTorch has no kernel for.
pub(super) fn check_float(x: &Tensor, name: &str) -> Result<()> {
    if x.dtype().is_floating() {
        return Ok(());
    }
    Err(Error::not_implemented(format!(
        "\"{name}\" not implemented for '{}'",
        x.dtype().torch_name()
    )))
}

/// The dtype of parameters and statistics: the input's, or f32 beside a half input.
pub(super) fn parameter_dtype(x: &Tensor, parameters: &[Option<&Tensor>]) -> Result<DType> {
    let mut given = parameters.iter().flatten().map(|t| t.dtype());
    let Some(first) = given.next() else {
        return Ok(x.dtype());
    };
    let reduced = matches!(x.dtype(), DType::F16 | DType::BF16);
    if first != x.dtype() && !reduced {
        return Err(Error::dtype(
            "mixed dtype (CPU): all inputs must share same datatype.",
        ));
    }
    let want = if first == x.dtype() {
        first
    } else {
        DType::F32
    };
    if let Some(bad) = [first].into_iter().chain(given).find(|d| *d != want) {
        return Err(Error::dtype(format!(
            "mixed dtype (CPU): expect parameter to have scalar type of {}, got {}",
            want.torch_name(),
            bad.torch_name()
        )));
    }
    Ok(want)
}

/// The elements of a small tensor, row by row.
pub(super) fn numbers(t: &Tensor) -> Result<Vec<f64>> {
    let t = copy::to_contiguous(&copy::to_dtype(t, DType::F64)?)?;
    let n = t.numel() as usize;
    if n == 0 {
        return Ok(Vec::new());
    }
    let _read = access::read(&[&t])?;
    // SAFETY: the tensor is row-major, of f64 and held shared.
    Ok(unsafe { std::slice::from_raw_parts(t.data_ptr()?.cast::<f64>(), n) }.to_vec())
}

/// A tensor of these elements. The device may be Meta, then the elements do not matter.
pub(super) fn tensor_of(
    values: impl Iterator<Item = f64>,
    sizes: &[i64],
    dtype: DType,
    device: Device,
) -> Result<Tensor> {
    let t = Tensor::allocate_contiguous(DType::F64, device, sizes)?;
    if t.storage().has_data() {
        let to = t.data_ptr()?.cast::<f64>();
        for (i, v) in values.take(t.numel() as usize).enumerate() {
            // SAFETY: fresh memory for `numel` elements.
            unsafe { to.add(i).write(v) };
        }
    }
    copy::to_dtype(&t, dtype)
}

/// A tensor in dense memory of the dtype that kernels compute in, and where its channels are.
pub(super) struct Dense {
    pub(super) tensor: Tensor,
    pub(super) channels: Channels,
}

impl Dense {
    /// The tensor in an order of memory, with dimension 1 as the channels.
    pub(super) fn new(x: &Tensor, order: Order) -> Result<Dense> {
        let strides = order.strides(x.sizes());
        let wide = x.dtype().opmath();
        let fits = x.dtype() == wide
            && (0..x.dim()).all(|d| x.sizes()[d] == 1 || x.strides()[d] == strides[d]);
        let tensor = if fits {
            x.clone()
        } else {
            let t = Tensor::allocate(wide, x.device(), Dims::from_slice(x.sizes()), strides)?;
            copy_into(&t, x)?;
            t
        };
        let s = x.sizes();
        let inner = layout::numel(&s[2..]) as usize;
        let (n, c) = (s[0] as usize, s[1] as usize);
        let channels = match order {
            Order::Contiguous => Channels {
                outer: n,
                channels: c,
                inner,
            },
            Order::ChannelsLast => Channels {
                outer: n * inner,
                channels: c,
                inner: 1,
            },
        };
        Ok(Dense { tensor, channels })
    }

    /// The tensor as rows of elements in logical order.
    pub(super) fn rows(x: &Tensor, rows: usize) -> Result<Dense> {
        let tensor = copy::to_contiguous(&copy::to_dtype(x, x.dtype().opmath())?)?;
        let channels = Channels {
            outer: 1,
            channels: rows,
            inner: x.numel() as usize / rows.max(1),
        };
        Ok(Dense { tensor, channels })
    }

    pub(super) fn ptr(&self) -> Result<*const u8> {
        Ok(self.tensor.data_ptr()?.cast_const())
    }
}

fn copy_into(out: &Tensor, src: &Tensor) -> Result<()> {
    if out.storage().has_data() && out.numel() > 0 {
        let _read = access::read(&[src])?;
        // SAFETY: out is fresh and has src's sizes; src is held shared.
        unsafe { straightline_runtime::cpu::kernels::copy(out.strided()?, src.strided()?)? };
    }
    Ok(())
}

/// Fresh memory to compute in, and its conversion into the result. Sizes are `like`'s.
pub(super) struct Output {
    pub(super) computed: Tensor,
    result: Tensor,
}

impl Output {
    /// `order` of the result; the memory computed in has `inner_order`.
    pub(super) fn new(like: &Tensor, order: Order, inner_order: Order) -> Result<Output> {
        let sizes = || Dims::from_slice(like.sizes());
        let of = |dtype, order: Order| {
            Tensor::allocate(dtype, like.device(), sizes(), order.strides(like.sizes()))
        };
        let result = of(like.dtype(), order)?;
        let wide = like.dtype().opmath();
        let computed = if wide == like.dtype() && order == inner_order {
            result.clone()
        } else {
            of(wide, inner_order)?
        };
        Ok(Output { computed, result })
    }

    pub(super) fn has_data(&self) -> bool {
        self.result.storage().has_data()
    }

    pub(super) fn finish(self) -> Result<Tensor> {
        if !self.computed.is_same(&self.result) {
            copy_into(&self.result, &self.computed)?;
        }
        Ok(self.result)
    }
}

/// What a batch norm gives: the result, the statistics for the backward, those that the running ones move to.
struct BatchNorm {
    out: Tensor,
    mean: Tensor,
    invstd: Tensor,
    /// Mean and unbiased variance of each channel, where they were computed.
    batch: Vec<[f64; 2]>,
}

/// `1 / sqrt(variance + eps)`, 0 where there is nothing to divide by.
pub(super) fn invstd(variance: f64, eps: f64) -> f64 {
    if variance == 0.0 && eps == 0.0 {
        0.0
    } else {
        1.0 / (variance + eps).sqrt()
    }
}

pub(super) fn check_channels(x: &Tensor) -> Result<i64> {
    if x.dim() < 2 {
        return Err(Error::index(format!(
            "Dimension out of range (expected to be in range of [{}, {}], but got 1)",
            -(x.dim().max(1) as i64),
            x.dim().max(1) - 1
        )));
    }
    Ok(x.sizes()[1])
}

pub(super) fn check_count(t: Option<&Tensor>, name: &str, want: i64) -> Result<()> {
    match t {
        Some(t) if t.numel() != want => Err(Error::shape(format!(
            "{name} should contain {want} elements not {}",
            t.numel()
        ))),
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
    for (t, name) in [
        (weight, "weight"),
        (bias, "bias"),
        (rm, "running_mean"),
        (rv, "running_var"),
    ] {
        check_count(t, name, channels)?;
    }
    if !training && running.is_none() {
        return Err(Error::value(
            "running_mean must be defined in evaluation mode",
        ));
    }
    if training && x.numel() == 0 {
        return Err(Error::runtime(format!(
            "input tensor must have at least one element, but got input_sizes = {:?}",
            x.sizes()
        )));
    }
    let order = suggested(x);
    let out = Output::new(x, order, order)?;
    let saved = [if training { channels } else { 0 }];
    let device = x.device();
    let mut found: Vec<[f64; 2]> = Vec::new();
    let mut count = 0.0;
    let dense = if out.has_data() && x.numel() > 0 {
        Some(Dense::new(x, order)?)
    } else {
        None
    };
    if let Some(dense) = dense.as_ref().filter(|_| training) {
        let _read = access::read(&[&dense.tensor])?;
        count = dense.channels.each() as f64;
        // SAFETY: dense memory of these sizes, held shared.
        found = unsafe { norm::moments(dense.tensor.dtype(), dense.channels, dense.ptr()?)? };
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
        let factors: Vec<[f64; 2]> = (means.iter().zip(&scales).enumerate())
            .map(|(c, (mean, scale)): (usize, (&f64, &f64))| {
                let scale = scale * weight.as_ref().map_or(1.0, |w| w[c]);
                let shift = bias.as_ref().map_or(0.0, |b| b[c]) - mean * scale;
                [scale, shift]
            })
            .collect();
        batch = (means.iter().zip(&found))
            .map(|(mean, [_, var])| [*mean, var * count / (count - 1.0)])
            .collect();
        let _read = access::read(&[&dense.tensor])?;
        let to = out.computed.data_ptr()?;
        let wide = dense.tensor.dtype();
        // SAFETY: dense memory of these sizes, held shared; the result is fresh.
        unsafe { norm::affine(wide, dense.channels, dense.ptr()?, &factors, to)? };
    }
    Ok(BatchNorm {
        out: out.finish()?,
        mean,
        invstd: inverse,
        batch,
    })
}

/// Where a running statistic goes from `old`.
fn moved(old: f64, batch: f64, momentum: f64) -> f64 {
    momentum * batch + (1.0 - momentum) * old
}

/// Moves a running statistic in place, one channel after the other: the elements of an expanded one are the same memory, as
/// in PyTorch.
fn update(running: &Tensor, batch: &[[f64; 2]], which: usize, momentum: f64) -> Result<()> {
    if !running.storage().has_data() {
        return Ok(());
    }
    let overlapping = access::check_no_internal_overlap(running).is_err();
    if !overlapping {
        let values = (numbers(running)?.into_iter().zip(batch))
            .map(|(old, batch)| moved(old, batch[which], momentum))
            .collect::<Vec<_>>();
        let new = tensor_of(
            values.into_iter(),
            running.sizes(),
            running.dtype(),
            running.device(),
        )?;
        copy::copy_(running, &new, false)?;
        return Ok(());
    }
    for (c, batch) in batch.iter().enumerate() {
        let flat = super::view::reshape(running, &[running.numel()])?;
        let one = super::view::narrow(&flat, 0, c as i64, 1)?;
        let value = moved(numbers(&one)?[0], batch[which], momentum);
        let value = tensor_of([value].into_iter(), &[1], running.dtype(), running.device())?;
        copy::copy_(&one, &value, false)?;
    }
    Ok(())
}

/// Both running statistics or neither.
fn both<'a>(
    mean: Option<&'a Tensor>,
    var: Option<&'a Tensor>,
) -> Result<Option<(&'a Tensor, &'a Tensor)>> {
    if mean.is_some() != var.is_some() {
        return Err(Error::value(
            "running_mean and running_var must either both be None or neither be None",
        ));
    }
    Ok(mean.zip(var))
}

type Three = (Tensor, Tensor, Tensor);

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
    native_batch_norm(
        x, weight, bias, running.0, running.1, training, momentum, eps,
    )
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
    check_float(x, "GroupNormKernelImpl")?;
    let dtype = parameter_dtype(x, &[weight, bias])?;
    check_groups(x, &[("weight", weight), ("bias", bias)], (n, c, hw), group)?;
    let order = suggested(x);
    let out = Output::new(x, order, Order::Contiguous)?;
    let mut found = Vec::new();
    if out.has_data() && x.numel() > 0 {
        let dense = Dense::rows(x, (n * group) as usize)?;
        let _read = access::read(&[&dense.tensor])?;
        let wide = dense.tensor.dtype();
        // SAFETY: dense memory of these sizes, held shared.
        found = unsafe { norm::moments(wide, dense.channels, dense.ptr()?)? };
        let weight = weight.map(numbers).transpose()?;
        let bias = bias.map(numbers).transpose()?;
        let (c, per_group) = (c as usize, (c / group) as usize);
        let factors: Vec<[f64; 2]> = (0..n as usize * c)
            .map(|i| {
                let [mean, var] = found[i / per_group];
                let scale = invstd(var, eps) * weight.as_ref().map_or(1.0, |w| w[i % c]);
                let shift = bias.as_ref().map_or(0.0, |b| b[i % c]) - mean * scale;
                [scale, shift]
            })
            .collect();
        let s = Channels {
            outer: 1,
            channels: n as usize * c,
            inner: hw as usize,
        };
        let to = out.computed.data_ptr()?;
        // SAFETY: dense memory of these sizes; the result is fresh.
        unsafe { norm::affine(wide, s, dense.ptr()?, &factors, to)? };
    }
    let sizes = [n, group];
    let mean = tensor_of(found.iter().map(|[m, _]| *m), &sizes, dtype, x.device())?;
    let rstd = found.iter().map(|[_, v]| invstd(*v, eps));
    let rstd = tensor_of(rstd, &sizes, dtype, x.device())?;
    Ok((out.finish()?, mean, rstd))
}

pub(super) fn check_groups(
    x: &Tensor,
    parameters: &[(&str, Option<&Tensor>)],
    (n, c, hw): (i64, i64, i64),
    group: i64,
) -> Result<()> {
    if group <= 0 {
        return Err(Error::runtime(format!(
            "Expected num groups to be greater than 0, got {group}"
        )));
    }
    if hw <= 0 || n < 0 || c < 0 {
        return Err(Error::runtime(format!(
            "Expected HxW to be greater than 0, got {hw} (N {n}, C {c})"
        )));
    }
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
    if c % group != 0 {
        return Err(Error::shape(format!(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape \
             {:?} and num_groups={group}",
            x.sizes()
        )));
    }
    if n.checked_mul(c).and_then(|nc| nc.checked_mul(hw)) != Some(x.numel()) {
        return Err(Error::shape(format!(
            "an input of sizes {:?} does not have N * C * HxW = {n} * {c} * {hw} elements",
            x.sizes()
        )));
    }
    Ok(())
}

/// The direction of a weight norm: rows of the first dimension, or columns of the last.
pub(super) fn weight_channels(v: &Tensor, dim: i64) -> Result<Channels> {
    let rank = v.dim() as i64;
    if rank == 0 || (dim != 0 && dim != rank - 1) {
        return Err(Error::runtime(format!(
            "a weight norm's kernel works along the first or the last dimension, not along {dim} of sizes {:?}",
            v.sizes()
        )));
    }
    let n = v.sizes()[dim as usize] as usize;
    let rest = v.numel() as usize / n.max(1);
    Ok(if dim == 0 {
        Channels {
            outer: 1,
            channels: n,
            inner: rest,
        }
    } else {
        Channels {
            outer: rest,
            channels: n,
            inner: 1,
        }
    })
}

/// `v * g / |v|`, and the norms.
pub(crate) fn weight_norm_interface(v: &Tensor, g: &Tensor, dim: i64) -> Result<(Tensor, Tensor)> {
    check_float(v, "weight_norm_kernel")?;
    let s = weight_channels(v, dim)?;
    if g.dtype() != v.dtype() {
        return Err(Error::dtype(format!(
            "expected scalar type {} but found {}",
            v.dtype().torch_name(),
            g.dtype().torch_name()
        )));
    }
    check_count(Some(g), "g", s.channels as i64)?;
    let out = Output::new(v, Order::Contiguous, Order::Contiguous)?;
    let mut norms = Vec::new();
    if out.has_data() {
        let dense = Dense::rows(v, 1)?;
        let _read = access::read(&[&dense.tensor])?;
        let (wide, p) = (dense.tensor.dtype(), dense.ptr()?);
        // SAFETY: dense memory of these sizes, held shared; the result is fresh.
        unsafe {
            let sums = norm::dots(wide, s, p, p, &vec![0.0; s.channels])?;
            norms = sums
                .into_iter()
                .map(|[_, squares]| squares.sqrt())
                .collect();
            let factors: Vec<[f64; 2]> = (numbers(g)?.iter().zip(&norms))
                .map(|(g, n): (&f64, &f64)| [g / n, 0.0])
                .collect();
            norm::affine(wide, s, p, &factors, out.computed.data_ptr()?)?;
        }
    }
    let dtype = v.dtype().opmath();
    let norms = tensor_of(norms.into_iter(), g.sizes(), dtype, v.device())?;
    Ok((out.finish()?, norms))
}

// ---- composites: everything below goes through the dispatcher ---------------------------------

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
    let (out, mean, invstd, m, v) = aten::_native_batch_norm_legit_functional(
        x, weight, bias, rm, rv, training, momentum, eps,
    )?;
    aten::copy_(rm, &m, false)?;
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
    native_batch_norm_parts(
        x, weight, bias, running.0, running.1, training, momentum, eps,
    )
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
    let channels = check_channels(x)?;
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
        // PyTorch accumulates halves in f32, the others in f64
        let wide = match x.dtype() {
            DType::F16 | DType::BF16 => DType::F32,
            _ => DType::F64,
        };
        let none = || {
            aten::empty_memory_format(&[channels], Some(wide), None, Some(x.device()), None, None)
        };
        return Ok((out, none()?, none()?, reserve, 0));
    }
    check_channels(x)?;
    if !training && (running_mean.is_none() || running_var.is_none()) {
        return Err(Error::runtime(
            "running_mean must be defined in evaluation mode",
        ));
    }
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

#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn batch_norm(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    training: bool,
    momentum: f64,
    eps: f64,
    cudnn_enabled: bool,
) -> Result<Tensor> {
    Ok(aten::_batch_norm_impl_index(
        x,
        weight,
        bias,
        running_mean,
        running_var,
        training,
        momentum,
        eps,
        cudnn_enabled,
    )?
    .0)
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
    if !use_input_stats && (running_mean.is_none() || running_var.is_none()) {
        return Err(Error::runtime(
            "Expected running_mean and running_var to be defined when use_input_stats is false",
        ));
    }
    let c = check_channels(x)?;
    let b = x.sizes()[0];
    let repeated = |t: Option<&Tensor>| -> Result<Option<Tensor>> {
        let Some(t) = t else { return Ok(None) };
        let n = t.numel();
        let t = aten::expand(
            &aten::unsqueeze(&aten::reshape(t, &[n])?, 0)?,
            &[b, n],
            false,
        )?;
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
    check_float(x, "rms_norm")?;
    if shape.is_empty() || shape.len() > x.dim() {
        return Err(Error::shape(format!(
            "normalized_shape={shape:?} does not fit an input of sizes {:?}",
            x.sizes()
        )));
    }
    let dims: Vec<i64> = ((x.dim() - shape.len()) as i64..x.dim() as i64).collect();
    let wide = x.dtype().opmath();
    let eps = eps.unwrap_or(match wide {
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
        _ => super::common::wrap_dim(dim, v.dim())? as i64,
    };
    let dims: Vec<i64> = (0..=last).filter(|d| *d != dim).collect();
    let squares = aten::mul_tensor(&v, &v)?;
    let norm = aten::sqrt(&aten::sum_dim_int_list(&squares, Some(&dims), true, None)?)?;
    aten::mul_tensor(&v, &aten::div_tensor(&g, &norm)?)
}
