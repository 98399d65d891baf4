//! Copies from, to and between GPUs.

use crate::dispatch::{OperatorHandle, Stack, Value};
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::forms::structured::arguments;
use crate::ops::pointwise::complex;
use crate::ops::view;
use crate::tensor::on_device::gpu;
use crate::tensor::{Tensor, access};
use straightline_catalog::{DType, Device, Dims, Scalar, layout};
use straightline_cuda::copies::{self, Strided};
use straightline_cuda::driver::{DeviceMemory, DriverError, Stream};
use straightline_cuda::programs::ProgramError;

pub(super) fn driver(e: DriverError) -> Error {
    Error::device(e.to_string())
}

pub(super) fn program(e: ProgramError) -> Error {
    Error::device(e.to_string())
}

/// `_copy_from`: writes `self` into `dst`, of which one at least is on a GPU.
pub(super) fn copy_from(op: OperatorHandle, stack: &mut Stack) -> Result<()> {
    let args = arguments(op, stack)?;
    let tensors: Vec<Tensor> = args.iter().flat_map(Value::tensors).cloned().collect();
    let [from, to] = tensors.as_slice() else {
        return Err(Error::runtime("_copy_from takes two tensors"));
    };
    let non_blocking = args.iter().any(|v| matches!(v, Value::Bool(true)));
    let wide = aten::expand(from, to.sizes(), false)?;
    match (wide.device().is_cpu(), to.device().is_cpu()) {
        (true, _) => {
            upload(&wide, to)?;
            // as in PyTorch: whichever stream uses it finds it there
            if !non_blocking {
                stream_of(to.device())?.synchronize().map_err(driver)?;
            }
        }
        (_, true) => download(&wide, to)?,
        _ if wide.device() == to.device() => on_one(&wide, to)?,
        _ => between(&wide, to)?,
    }
    stack.push(Value::Tensor(to.clone()));
    Ok(())
}

/// The number in a tensor of one element: waits for the stream.
pub(super) fn item(op: OperatorHandle, stack: &mut Stack) -> Result<()> {
    let args = arguments(op, stack)?;
    let on_host = |t: &Tensor| t.to_device(Device::CPU);
    let mut moved = args.iter().map(|v| v.map_tensors(on_host)).collect::<Result<Stack>>()?;
    op.call_boxed(&mut moved)?;
    stack.extend(moved);
    Ok(())
}

fn strided(t: &Tensor) -> Result<Strided<'_>> {
    Ok(Strided {
        address: t.device_address()?,
        dtype: t.dtype(),
        sizes: t.sizes(),
        strides: t.strides(),
    })
}

/// Whether the elements follow one another without gaps, in some order that both have.
fn alike(a: &Tensor, b: &Tensor) -> bool {
    a.dtype() == b.dtype()
        && a.sizes() == b.sizes()
        && a.strides() == b.strides()
        && layout::is_non_overlapping_and_dense(a.sizes(), a.strides())
}

fn bytes(t: &Tensor) -> usize {
    t.numel() as usize * t.dtype().size()
}

fn stream_of(device: Device) -> Result<Stream> {
    Ok(gpu(device)?.current_stream())
}

/// A tensor of the same sizes without gaps, on a device.
fn dense(like: &Tensor, dtype: DType, device: Device) -> Result<Tensor> {
    let strides = layout::contiguous_strides(like.sizes());
    Tensor::allocate(dtype, device, Dims::from_slice(like.sizes()), strides)
}

/// A tensor of the CPU for work on the current stream of a GPU, which is not waited for.
pub(super) fn there(from: &Tensor, device: Device) -> Result<Tensor> {
    let to = dense(from, from.dtype(), device)?;
    upload(from, &to)?;
    Ok(to)
}

fn upload(from: &Tensor, to: &Tensor) -> Result<()> {
    if to.numel() == 0 {
        return Ok(());
    }
    let from = match alike(from, to) {
        true => from.clone(),
        // converted here, where any dtype can be
        false => aten::copy_(&dense(from, to.dtype(), Device::CPU)?, from, false)?,
    };
    if !alike(&from, to) {
        let there = dense(&from, to.dtype(), to.device())?;
        upload(&from, &there)?;
        return on_one(&there, to);
    }
    let stream = stream_of(to.device())?;
    let (_from, _to) = (from.read()?, to.write()?);
    // SAFETY: both have as many bytes and are held; pageable memory has been read when this returns.
    unsafe { stream.to_device(to.device_address()?, from.data_ptr()?, bytes(&from)) }
        .map_err(driver)
}

fn download(from: &Tensor, to: &Tensor) -> Result<()> {
    if to.numel() == 0 {
        return Ok(());
    }
    if !layout::is_non_overlapping_and_dense(from.sizes(), from.strides()) {
        let there = dense(from, from.dtype(), from.device())?;
        on_one(from, &there)?;
        return download(&there, to);
    }
    if !alike(from, to) {
        let strides = Dims::from_slice(from.strides());
        let sizes = Dims::from_slice(from.sizes());
        let here = Tensor::allocate(from.dtype(), Device::CPU, sizes, strides)?;
        download(from, &here)?;
        aten::copy_(to, &here, false)?;
        return Ok(());
    }
    let stream = stream_of(from.device())?;
    let (_from, _to) = (from.read()?, to.write()?);
    // SAFETY: both have as many bytes and are held until the copy is over.
    unsafe { stream.to_host(to.data_ptr()?, from.device_address()?, bytes(from)) }
        .map_err(driver)?;
    stream.synchronize().map_err(driver)
}

/// Converts from or to complex numbers: their real and imaginary parts are elements like others.
fn by_parts(from: &Tensor, to: &Tensor) -> Result<()> {
    let parts = complex::view_as_real;
    let part = |x: &Tensor, i: i64| view::select(&parts(x)?, -1, i);
    match (from.dtype().is_complex(), to.dtype().is_complex()) {
        (true, true) => on_one(&parts(from)?, &parts(to)?),
        (false, _) => {
            on_one(from, &part(to, 0)?)?;
            aten::zero_(&part(to, 1)?).map(drop)
        }
        // a number is true if it is not 0
        (true, false) if to.dtype() == DType::Bool => {
            let some = |i| aten::ne_scalar(&part(from, i)?, Scalar::Int(0));
            on_one(&aten::logical_or(&some(0)?, &some(1)?)?, to)
        }
        (true, false) => on_one(&part(from, 0)?, to),
    }
}

/// Within a GPU.
fn on_one(from: &Tensor, to: &Tensor) -> Result<()> {
    let converts = from.dtype() != to.dtype();
    if converts && (from.dtype().is_complex() || to.dtype().is_complex()) {
        return by_parts(from, to);
    }
    access::check_no_partial_overlap(to, from)?;
    let from = match access::is_detached(to, from) {
        true => {
            let fresh = dense(from, from.dtype(), from.device())?;
            on_one(from, &fresh)?;
            fresh
        }
        false => from.clone(),
    };
    let stream = stream_of(to.device())?;
    let _held = access::write(to, &[&from])?;
    // SAFETY: both are held while the copy is queued, and their memory serves others on this stream
    // only after it; no element is another's.
    unsafe { copies::copy(&stream, strided(to)?, strided(&from)?) }.map_err(program)
}

/// Copies elements within a GPU, or a number from or to it; not dispatched, and nothing is checked.
///
/// # Safety
///
/// The caller has both tensors, `to` alone; they have the same sizes and dtype and do not overlap.
pub(crate) unsafe fn copy_elements(to: &Tensor, from: &Tensor) -> Result<()> {
    let one = to.numel() == 1;
    match (from.device().is_cpu(), to.device().is_cpu()) {
        (true, false) if one => {
            let (stream, at) = (stream_of(to.device())?, to.device_address()?);
            // SAFETY: the caller's contract; pageable memory has been read when this returns.
            unsafe { stream.to_device(at, from.data_ptr()?, to.dtype().size()) }.map_err(driver)
        }
        (false, true) if one => {
            let (stream, at) = (stream_of(from.device())?, from.device_address()?);
            // SAFETY: the caller's contract; the stream is waited for.
            unsafe { stream.to_host(to.data_ptr()?, at, to.dtype().size()) }.map_err(driver)?;
            stream.synchronize().map_err(driver)
        }
        _ => {
            let stream = stream_of(to.device())?;
            // SAFETY: the caller's contract; memory serves others on this stream only after the copy.
            unsafe { copies::copy(&stream, strided(to)?, strided(from)?) }.map_err(program)
        }
    }
}

/// From one GPU to another.
fn between(from: &Tensor, to: &Tensor) -> Result<()> {
    let there = dense(from, from.dtype(), from.device())?;
    on_one(from, &there)?;
    let here = dense(from, from.dtype(), to.device())?;
    let (of_from, of_to) = (stream_of(from.device())?, stream_of(to.device())?);
    of_to.wait_for(&of_from).map_err(driver)?;
    {
        let (_from, _to) = (there.read()?, here.write()?);
        let source = (gpu(from.device())?, there.device_address()?);
        let (address, count) = (here.device_address()?, bytes(&there));
        // SAFETY: both have as many bytes; the source's memory waits for this stream, see below.
        unsafe { of_to.copy_from(address, source, count) }.map_err(driver)?;
        if let Some(memory) = there.storage().owner::<DeviceMemory>() {
            memory.record_stream(&of_to);
        }
        // what is queued there from now on may write the source
        of_from.wait_for(&of_to).map_err(driver)?;
    }
    on_one(&here, to)
}
