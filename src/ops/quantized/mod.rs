//! Quantized tensors: the operators of `quantized::` as functions.
//!
//! Quantized tensors are integers that stand for `(q - zero_point) * scale`.
//!
//! A quantized tensor is an opaque tensor with the key `QuantizedCPU`; its payload is the integers,
//! a plain row-major tensor, and the quantizer. Operators of the namespace `quantized` are
//! registered by `library`.
//!
//! | file | what |
//! |---|---|
//! | `mod` | the payload, making and reading quantized tensors |
//! | `pointwise` | `add`, `mul`, `relu`, `clamp` on integers; views |
//! | `layers` | packed weights and linear layers |
//! | `library` | the operators of `quantized::` |

mod layers;
mod library;
mod pointwise;
#[cfg(test)]
mod tests;

pub use layers::PackedLinear;
pub use library::{
    add, add_relu, linear, linear_dynamic, linear_prepack, linear_relu, linear_unpack, mul,
    mul_relu,
};
pub(crate) use pointwise::{clamp, clone, of_ints, relu, view_op};

use crate::dispatch::DispatchKey;
use crate::error::{Error, Result};
use crate::ops::common::python_float;
use crate::ops::copy;
use crate::ops::copy::to_aligned;
use crate::ops::sparse::keys_on;
use crate::tensor::{Tensor, launch};
use straightline_catalog::{DType, Device, Layout, MemoryFormat, QScheme};
use straightline_runtime::cpu::kernels::quantized::{self as kernels, Affine, Channels, Quantum};

pub(crate) use library::register;

/// How the integers stand for real numbers.
#[derive(Clone)]
pub(crate) enum Quantizer {
    /// One scale and zero point.
    PerTensor { scale: f64, zero_point: i64 },
    /// One for each index of a dimension: `f64` and `i64` vectors.
    PerChannel { scales: Tensor, zero_points: Tensor, axis: usize },
}

/// The payload of a quantized tensor.
pub(crate) struct Quantized {
    /// Row-major, of the dtype that [`DType::int_repr`] says.
    pub(super) ints: Tensor,
    pub(super) quantizer: Quantizer,
}

impl Quantized {
    /// The integers.
    pub(crate) fn ints(&self) -> &Tensor {
        &self.ints
    }

    /// What they stand for.
    pub(crate) fn quantizer(&self) -> &Quantizer {
        &self.quantizer
    }

    /// Of row-major integers.
    pub(crate) fn of_parts(ints: Tensor, quantizer: Quantizer) -> Quantized {
        Quantized { ints, quantizer }
    }
}

/// The integers of a quantized tensor, and what they stand for.
pub(crate) fn parts(t: &Tensor) -> Result<(&Tensor, &Quantizer)> {
    let q = quantized(t)?;
    Ok((&q.ints, &q.quantizer))
}

/// What a quantized tensor holds.
pub(crate) fn quantized(t: &Tensor) -> Result<&Quantized> {
    t.payload::<Quantized>().ok_or_else(|| {
        Error::runtime(format!(
            "expected a quantized tensor, but got one of dtype {}: make it with `quantize_per_tensor`",
            t.dtype().torch_name()
        ))
    })
}

/// Builds the tensor around its integers, which are row-major.
pub(super) fn build(ints: Tensor, dtype: DType, quantizer: Quantizer) -> Result<Tensor> {
    debug_assert!(ints.dtype() == dtype.int_repr() && ints.is_contiguous());
    let (sizes, device) = (ints.sizes().to_vec(), ints.device());
    Tensor::opaque(Quantized { ints, quantizer }, &sizes, dtype, device)
        .keys(keys_on(DispatchKey::Quantized, device.kind))
        .build()
}

/// The scale and zero point of a tensor that has one of each.
pub(super) fn per_tensor(q: &Quantized) -> Result<(f64, i64)> {
    match &q.quantizer {
        Quantizer::PerTensor { scale, zero_point } => Ok((*scale, *zero_point)),
        Quantizer::PerChannel { .. } => Err(Error::runtime(
            "Expected quantizer->qscheme() == kPerTensorAffine to be true, but got false: the tensor has a scale per channel",
        )),
    }
}

pub(super) fn affine(scale: f64, zero_point: i64) -> Affine {
    Affine { scale: scale as f32, zero_point: zero_point as i32 }
}

/// The quantizers of the channels, and the elements behind each index of the axis.
fn channels(
    sizes: &[i64],
    scales: &Tensor,
    zero_points: &Tensor,
    axis: usize,
) -> Result<(Vec<Affine>, usize)> {
    let (scales, zeros) = (scales.to_vec::<f64>()?, zero_points.to_vec::<i64>()?);
    let affine = scales.iter().zip(&zeros).map(|(s, z)| affine(*s, *z)).collect();
    Ok((affine, sizes[axis + 1..].iter().product::<i64>() as usize))
}

/// Runs code with `T` as the integer type of a quantized dtype.
macro_rules! with_quantum {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype.int_repr() {
            DType::I8 => {
                type $t = i8;
                $body
            }
            DType::U8 => {
                type $t = u8;
                $body
            }
            _ => {
                type $t = i32;
                $body
            }
        }
    };
}
pub(super) use with_quantum;

fn check_dtype(dtype: DType) -> Result<()> {
    if dtype.is_quantized() {
        return Ok(());
    }
    Err(Error::dtype(format!(
        "ScalarType {} is not supported in new_qtensor: give qint8, quint8 or qint32",
        dtype.torch_name()
    )))
}

fn check_zero_point(dtype: DType, zero_point: i64, what: &str) -> Result<()> {
    let (min, max) = with_quantum!(dtype, T => (<T as Quantum>::MIN, <T as Quantum>::MAX));
    if zero_point > max {
        return Err(Error::runtime(format!(
            "{what} zero_point {zero_point} is above upper bound."
        )));
    }
    if zero_point < min {
        return Err(Error::runtime(format!(
            "{what} zero_point {zero_point} is below lower bound."
        )));
    }
    Ok(())
}

/// A plain `f32` CPU tensor, row-major.
fn as_float(t: &Tensor) -> Result<Tensor> {
    ensure_dtype!(
        t.dtype() == DType::F32,
        "Quantize only works on Float Tensor, got {}: convert with `to_dtype` first",
        t.dtype().torch_name()
    );
    to_aligned(t)
}

pub(crate) fn quantize_per_tensor(
    t: &Tensor,
    scale: f64,
    zero_point: i64,
    dtype: DType,
) -> Result<Tensor> {
    check_dtype(dtype)?;
    let x = as_float(t)?;
    check_zero_point(dtype, zero_point, "quantize_tensor_per_tensor_affine")?;
    let mut ints = Tensor::allocate_contiguous(dtype.int_repr(), x.device(), x.sizes())?;
    launch::run(&mut ints, &x, |ints, x| {
        with_quantum!(dtype, T => {
            kernels::quantize(ints.slice::<T>()?, x.slice()?, affine(scale, zero_point));
        });
        Ok(())
    })?;
    build(ints, dtype, Quantizer::PerTensor { scale, zero_point })
}

/// `copy_` of floats into a quantized tensor: they are quantized as it is.
pub(crate) fn copy_from_float(into: &Tensor, src: &Tensor) -> Result<()> {
    let refuse = |why: String| Err(Error::runtime(format!("Quantized copy only works with {why}")));
    if src.dtype() != DType::F32 {
        return refuse(format!("kFloat as source Tensor, and this is {}", src.dtype()));
    }
    if src.sizes() != into.sizes() {
        return refuse(format!(
            "Tensors with the same shape, and these have {:?} and {:?}",
            into.sizes(),
            src.sizes()
        ));
    }
    if !src.is_contiguous() {
        return refuse("contiguous and NHWC Tensors: call `contiguous()` on the source".into());
    }
    let (ints, quantizer) = parts(into)?;
    let new = match quantizer {
        Quantizer::PerTensor { scale, zero_point } => {
            quantize_per_tensor(src, *scale, *zero_point, into.dtype())?
        }
        Quantizer::PerChannel { scales, zero_points, axis } => {
            quantize_per_channel(src, scales, zero_points, *axis as i64, into.dtype())?
        }
    };
    copy::copy_(ints, parts(&new)?.0, false)?;
    Ok(())
}

pub(crate) fn quantize_per_channel(
    t: &Tensor,
    scales: &Tensor,
    zero_points: &Tensor,
    axis: i64,
    dtype: DType,
) -> Result<Tensor> {
    check_dtype(dtype)?;
    let x = as_float(t)?;
    let quantizer = per_channel(&x, scales, zero_points, axis, dtype)?;
    let mut ints = Tensor::allocate_contiguous(dtype.int_repr(), x.device(), x.sizes())?;
    if let Quantizer::PerChannel { scales, zero_points, axis } = &quantizer {
        let (affine, inner) = channels(x.sizes(), scales, zero_points, *axis)?;
        let channels = Channels { affine: &affine, inner };
        launch::run(&mut ints, &x, |ints, x| {
            with_quantum!(dtype, T => {
                kernels::quantize_channels(ints.slice::<T>()?, x.slice()?, channels);
            });
            Ok(())
        })?;
    }
    build(ints, dtype, quantizer)
}

fn per_channel(
    t: &Tensor,
    scales: &Tensor,
    zero_points: &Tensor,
    axis: i64,
    dtype: DType,
) -> Result<Quantizer> {
    let rank = t.dim() as i64;
    ensure!(
        axis >= 0 && axis < rank,
        "Channel axis out of range in per channel affine quantization: axis {axis}, {rank} dimensions"
    );
    let n = t.sizes()[axis as usize];
    for (name, v) in [("scale", scales), ("zero_point", zero_points)] {
        ensure!(
            v.dim() == 1 && v.numel() == n,
            "number of elements in {name}s must match the channel's: got sizes {:?} for a channel of size {n}",
            v.sizes()
        );
    }
    ensure_not_implemented!(
        !zero_points.dtype().is_floating(),
        "quantize_per_channel: zero points that are floating-point numbers are not there; give integers"
    );
    let zero_points = copy::clone_contiguous(&copy::to_dtype(zero_points, DType::I64)?)?;
    for z in zero_points.to_vec::<i64>()? {
        check_zero_point(dtype, z, "quantize_tensor_per_channel_affine")?;
    }
    Ok(Quantizer::PerChannel {
        scales: copy::clone_contiguous(&copy::to_dtype(scales, DType::F64)?)?,
        zero_points,
        axis: axis as usize,
    })
}

/// A quantized tensor around a copy of integers that are there already.
fn around(ints: &Tensor, quantizer: Quantizer) -> Result<Tensor> {
    let dtype = DType::QUANTIZED.into_iter().find(|d| d.int_repr() == ints.dtype());
    let Some(dtype) = dtype else {
        return Err(Error::dtype(format!(
            "a quantized tensor is made of int8, uint8 or int32, not of {}",
            ints.dtype().torch_name()
        )));
    };
    build(copy::clone_contiguous(ints)?, dtype, quantizer)
}

pub(crate) fn make_per_tensor(ints: &Tensor, scale: f64, zero_point: i64) -> Result<Tensor> {
    around(ints, Quantizer::PerTensor { scale, zero_point })
}

pub(crate) fn make_per_channel(
    ints: &Tensor,
    scales: &Tensor,
    zero_points: &Tensor,
    axis: i64,
) -> Result<Tensor> {
    let dtype = DType::QUANTIZED.into_iter().find(|d| d.int_repr() == ints.dtype());
    let quantizer = per_channel(ints, scales, zero_points, axis, dtype.unwrap_or(DType::QInt32))?;
    around(ints, quantizer)
}

#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(crate) fn empty_affine(
    size: &[i64],
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
    scale: f64,
    zero_point: i64,
    _format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let dtype = dtype.unwrap_or(DType::F32);
    check_dtype(dtype)?;
    crate::ops::common::check_sizes(size)?;
    let ints = Tensor::allocate_contiguous(dtype.int_repr(), device.unwrap_or(Device::CPU), size)?;
    build(ints, dtype, Quantizer::PerTensor { scale, zero_point })
}

/// The real numbers that a quantized tensor stands for.
pub(crate) fn dequantize(t: &Tensor) -> Result<Tensor> {
    let q = quantized(t)?;
    let mut out = Tensor::allocate_contiguous(DType::F32, t.device(), t.sizes())?;
    let spread;
    let per_channel = match &q.quantizer {
        Quantizer::PerTensor { .. } => None,
        Quantizer::PerChannel { scales, zero_points, axis } => {
            spread = channels(t.sizes(), scales, zero_points, *axis)?;
            Some(Channels { affine: &spread.0, inner: spread.1 })
        }
    };
    launch::run(&mut out, &q.ints, |out, ints| {
        with_quantum!(t.dtype(), T => {
            let (out, ints) = (out.slice()?, ints.slice::<T>()?);
            match per_channel {
                Some(channels) => kernels::dequantize_channels(out, ints, channels),
                None => {
                    let (scale, zero_point) = per_tensor(q)?;
                    kernels::dequantize(out, ints, affine(scale, zero_point));
                }
            }
        });
        Ok(())
    })?;
    Ok(out)
}

/// `dequantize` of a plain tensor: its values as `f32`.
pub(crate) fn dequantize_plain(t: &Tensor) -> Result<Tensor> {
    copy::to_dtype(t, DType::F32)
}

pub(crate) fn q_scale(t: &Tensor) -> Result<f64> {
    Ok(per_tensor(quantized(t)?)?.0)
}

pub(crate) fn q_zero_point(t: &Tensor) -> Result<i64> {
    Ok(per_tensor(quantized(t)?)?.1)
}

pub(crate) fn qscheme(t: &Tensor) -> Result<QScheme> {
    Ok(match quantized(t)?.quantizer {
        Quantizer::PerTensor { .. } => QScheme::PerTensorAffine,
        Quantizer::PerChannel { .. } => QScheme::PerChannelAffine,
    })
}

/// Scales, zero points and axis of a tensor that has them per channel.
fn channel_parts(t: &Tensor) -> Result<(&Tensor, &Tensor, usize)> {
    match &quantized(t)?.quantizer {
        Quantizer::PerChannel { scales, zero_points, axis } => Ok((scales, zero_points, *axis)),
        Quantizer::PerTensor { .. } => Err(Error::runtime(
            "Expected quantizer->qscheme() == kPerChannelAffine || quantizer->qscheme() == kPerChannelAffineFloatQParams \
             to be true, but got false: the tensor has one scale; read it with `q_scale`",
        )),
    }
}

pub(crate) fn q_per_channel_scales(t: &Tensor) -> Result<Tensor> {
    copy::clone_contiguous(channel_parts(t)?.0)
}

pub(crate) fn q_per_channel_zero_points(t: &Tensor) -> Result<Tensor> {
    copy::clone_contiguous(channel_parts(t)?.1)
}

pub(crate) fn q_per_channel_axis(t: &Tensor) -> Result<i64> {
    Ok(channel_parts(t)?.2 as i64)
}

/// A copy of the integers.
pub(crate) fn int_repr(t: &Tensor) -> Result<Tensor> {
    copy::clone_contiguous(&quantized(t)?.ints)
}

/// For printing: the real numbers, and what is said of the quantizer.
pub(crate) fn describe(t: &Tensor) -> Option<(Tensor, Vec<String>)> {
    let q = quantized(t).ok()?;
    let real = dequantize(t).ok()?;
    let scheme = format!("quantization_scheme={}", qscheme(t).ok()?);
    let mut how = vec![scheme];
    match &q.quantizer {
        Quantizer::PerTensor { scale, zero_point } => {
            how.push(format!("scale={}", python_float(*scale)));
            how.push(format!("zero_point={zero_point}"));
        }
        Quantizer::PerChannel { scales, zero_points, axis } => {
            how.push(format!("scale={scales}"));
            how.push(format!("zero_point={zero_points}"));
            how.push(format!("axis={axis}"));
        }
    }
    Some((real, how))
}
