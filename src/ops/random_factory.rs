//! Factories of random tensors: an empty tensor and an operator that fills it.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::{Generator, Tensor};
use straightline_passes::ir::{DType, Device, Layout, MemoryFormat};

#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(crate) fn randint_low_generator(
    low: i64,
    high: i64,
    size: &[i64],
    generator: Option<&Generator>,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let dtype = Some(dtype.unwrap_or(DType::I64));
    let t = aten::empty_memory_format(size, dtype, layout, device, pin_memory, None)?;
    aten::random_from_(&t, low, Some(high), generator)
}

pub(crate) fn randint_low(
    low: i64,
    high: i64,
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    randint_low_generator(low, high, size, None, dtype, layout, device, pin_memory)
}

pub(crate) fn randint_generator(
    high: i64,
    size: &[i64],
    generator: Option<&Generator>,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    randint_low_generator(0, high, size, generator, dtype, layout, device, pin_memory)
}

pub(crate) fn randint(
    high: i64,
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    randint_low_generator(0, high, size, None, dtype, layout, device, pin_memory)
}

#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(crate) fn randint_like_low_generator(
    t: &Tensor,
    low: i64,
    high: i64,
    generator: Option<&Generator>,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let out = aten::empty_like(t, dtype, layout, device, pin_memory, format)?;
    aten::random_from_(&out, low, Some(high), generator)
}

#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(crate) fn randint_like_low(
    t: &Tensor,
    low: i64,
    high: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let options = (dtype, layout, device, pin_memory, format);
    randint_like_of(t, [low, high], None, options)
}

type Options = (
    Option<DType>,
    Option<Layout>,
    Option<Device>,
    Option<bool>,
    Option<MemoryFormat>,
);

fn randint_like_of(
    t: &Tensor,
    [low, high]: [i64; 2],
    generator: Option<&Generator>,
    (dtype, layout, device, pin_memory, format): Options,
) -> Result<Tensor> {
    randint_like_low_generator(
        t, low, high, generator, dtype, layout, device, pin_memory, format,
    )
}

#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(crate) fn randint_like_generator(
    t: &Tensor,
    high: i64,
    generator: Option<&Generator>,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let options = (dtype, layout, device, pin_memory, format);
    randint_like_of(t, [0, high], generator, options)
}

pub(crate) fn randint_like(
    t: &Tensor,
    high: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let options = (dtype, layout, device, pin_memory, format);
    randint_like_of(t, [0, high], None, options)
}

#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(crate) fn randint_like_tensor_generator(
    t: &Tensor,
    high: &Tensor,
    generator: Option<&Generator>,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    if high.numel() != 1 || high.dim() != 0 {
        return Err(Error::runtime("high must be a scalar tensor and on CPU"));
    }
    let high = aten::item(high)?.as_i64();
    let options = (dtype, layout, device, pin_memory, format);
    randint_like_of(t, [0, high], generator, options)
}

#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(crate) fn randint_like_tensor(
    t: &Tensor,
    high: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    randint_like_tensor_generator(t, high, None, dtype, layout, device, pin_memory, format)
}

#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(crate) fn rand_like_generator(
    t: &Tensor,
    generator: Option<&Generator>,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let out = aten::empty_like(t, dtype, layout, device, pin_memory, format)?;
    aten::uniform_(&out, 0.0, 1.0, generator)
}

#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(crate) fn randn_like_generator(
    t: &Tensor,
    generator: Option<&Generator>,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let out = aten::empty_like(t, dtype, layout, device, pin_memory, format)?;
    aten::normal_(&out, 0.0, 1.0, generator)
}
