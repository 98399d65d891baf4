//! Tensors made from nothing: `empty`, `full`, `arange`.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::check_sizes;
use crate::ops::copy;
use crate::tensor::Tensor;
use crate::tensor::launch;
use straightline_catalog::{
    DType, Device, Dims, Layout, MemoryFormat, Scalar, default_dtype, layout,
};
use straightline_runtime::cpu::kernels;

fn device_or_cpu(device: Option<Device>) -> Device {
    device.unwrap_or(Device::CPU)
}

/// A 0-dim CPU number on the device of a Meta tensor, so that shape functions see one device.
pub(crate) fn on_device_of(number: &Tensor, like: &Tensor) -> Result<Tensor> {
    if !like.device().is_meta() {
        return Ok(number.clone());
    }
    let t = Tensor::allocate_contiguous(number.dtype(), Device::META, number.sizes())?;
    Ok(if number.is_wrapped_number() { t.into_wrapped_number() } else { t })
}

pub(crate) fn empty(
    size: &[i64],
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    check_sizes(size)?;
    let dtype = dtype.unwrap_or_else(default_dtype);
    ensure!(
        format != Some(MemoryFormat::Preserve),
        "empty(): memory_format=preserve_format is for the *_like functions only"
    );
    let shape = Tensor::allocate_contiguous(dtype, Device::META, size)?;
    let strides = copy::format_strides(&shape, format)?;
    Tensor::allocate(dtype, device_or_cpu(device), Dims::from_slice(size), strides)
}

pub(crate) fn empty_strided(
    size: &[i64],
    stride: &[i64],
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    check_sizes(size)?;
    ensure!(
        size.len() == stride.len() && stride.iter().all(|s| *s >= 0),
        "empty_strided: strides {stride:?} must be non-negative and as many as sizes {size:?}"
    );
    Tensor::allocate(
        dtype.unwrap_or_else(default_dtype),
        device_or_cpu(device),
        Dims::from_slice(size),
        Dims::from_slice(stride),
    )
}

/// A tensor made on the CPU, on the device that was asked for.
pub(crate) fn on_device(t: Tensor, device: Option<Device>) -> Result<Tensor> {
    match device {
        Some(d) if !copy::has_memory_of_ours(d) => {
            aten::_to_copy(&t, None, None, Some(d), None, false, None)
        }
        _ => Ok(t),
    }
}

/// Where the elements of a factory are computed: on the device itself if its memory is ours.
pub(crate) fn computed_on(device: Option<Device>) -> Device {
    Some(device_or_cpu(device)).filter(|d| copy::has_memory_of_ours(*d)).unwrap_or(Device::CPU)
}

pub(crate) fn full(
    size: &[i64],
    value: Scalar,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let dtype = dtype.unwrap_or(value.default_dtype());
    let t = aten::empty_memory_format(size, Some(dtype), layout, device, pin_memory, None)?;
    aten::fill_scalar_(&t, value)
}

pub(crate) fn ones(
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let dtype = Some(dtype.unwrap_or_else(default_dtype));
    full(size, Scalar::Int(1), dtype, layout, device, pin_memory)
}

pub(crate) fn scalar_tensor(
    value: Scalar,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let dtype = dtype.unwrap_or_else(default_dtype);
    // unlike `full`, this takes numbers that half types have none for: they are infinite there
    let value = match value {
        Scalar::Bool(_) | Scalar::Int(_) | Scalar::Float(_) if dtype.opmath() != dtype => {
            value.cast(dtype)
        }
        _ => value,
    };
    full(&[], value, Some(dtype), layout, device, pin_memory)
}

pub(crate) fn empty_like(
    t: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let strides = copy::format_strides(t, format)?;
    let dtype = Some(dtype.unwrap_or(t.dtype()));
    let device = Some(device.unwrap_or(t.device()));
    aten::empty_strided(t.sizes(), &strides, dtype, layout, device, pin_memory)
}

pub(crate) fn full_like(
    t: &Tensor,
    value: Scalar,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let out = aten::empty_like(t, dtype, layout, device, pin_memory, format)?;
    aten::fill_scalar_(&out, value)
}

pub(crate) fn ones_like(
    t: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    full_like(t, Scalar::Int(1), dtype, layout, device, pin_memory, format)
}

fn all_integers(scalars: &[Scalar]) -> bool {
    scalars.iter().all(|s| !matches!(s, Scalar::Float(_) | Scalar::Complex(..)))
}

pub(crate) fn arange(
    end: Scalar,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let zero = Scalar::Int(0);
    aten::arange_start_step(
        zero,
        end,
        Scalar::Int(1),
        arange_dtype(&[end], dtype),
        layout,
        device,
        pin_memory,
    )
}

fn arange_dtype(scalars: &[Scalar], dtype: Option<DType>) -> Option<DType> {
    Some(dtype.unwrap_or(if all_integers(scalars) { DType::I64 } else { default_dtype() }))
}

pub(crate) fn arange_start(
    start: Scalar,
    end: Scalar,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let dtype = arange_dtype(&[start, end], dtype);
    aten::arange_start_step(start, end, Scalar::Int(1), dtype, layout, device, pin_memory)
}

pub(crate) fn arange_start_step(
    start: Scalar,
    end: Scalar,
    step: Scalar,
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    let dtype = arange_dtype(&[start, end, step], dtype).unwrap_or_else(default_dtype);
    ensure_not_implemented!(dtype != DType::Bool, "\"arange_cpu\" not implemented for 'Bool'");
    let (s, e, d) = (start.as_f64(), end.as_f64(), step.as_f64());
    ensure!(d != 0.0, "step must be nonzero");
    ensure!(s.is_finite() && e.is_finite() && !d.is_nan(), "unsupported range: {s} -> {e}");
    if (d > 0.0 && e < s) || (d < 0.0 && e > s) {
        return Err(Error::runtime("upper bound and lower bound inconsistent with step sign"));
    }
    let n = if all_integers(&[start, end, step]) {
        let (s, e, d) = (start.as_i64() as i128, end.as_i64() as i128, step.as_i64() as i128);
        ((e - s + d - d.signum()) / d) as f64
    } else {
        ((e - s) / d).ceil()
    };
    if n > i64::MAX as f64 / 16.0 {
        return Err(Error::runtime(format!("invalid size, possible overflow: {n}")));
    }
    let mut t = Tensor::allocate_contiguous(dtype, computed_on(device), &[n as i64])?;
    launch::run(&mut t, (), |t, ()| Ok(kernels::arange(t, start, step)?))?;
    on_device(t, device)
}

pub(crate) fn eye(
    n: i64,
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    check_sizes(&[n, n])?;
    let dtype = dtype.unwrap_or_else(default_dtype);
    let t = Tensor::allocate_contiguous(dtype, computed_on(device), &[n, n])?;
    copy::zero_(&t)?;
    let strides = layout::contiguous_strides(&[n, n]);
    let diagonal =
        t.with_geometry(Dims::from_slice(&[n]), Dims::from_slice(&[strides[0] + strides[1]]), 0);
    copy::fill_(&diagonal, Scalar::Int(1))?;
    on_device(t, device)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `torch.full` and `torch.scalar_tensor` have it: the one refuses what the other makes
    /// infinite.
    #[test]
    fn half_types_are_rounded_once_and_hold_what_fits() {
        let full =
            |number, dtype| aten::full(&[1], Scalar::Float(number), Some(dtype), None, None, None);
        let rounded = full(0.798_828_184_604_644_8, DType::BF16).unwrap();
        assert_eq!(rounded.item::<Scalar>().unwrap(), Scalar::Float(0.800_781_25));
        let e = full(70_000.0, DType::F16).unwrap_err();
        assert_eq!(e.python_class(), "RuntimeError");
        let number = Scalar::Float(70_000.0);
        let t = aten::scalar_tensor(number, Some(DType::F16), None, None, None).unwrap();
        assert_eq!(t.item::<Scalar>().unwrap(), Scalar::Float(f64::INFINITY));
    }
}
