//! Tensors in the memory of a GPU.
//!
//! Their storages have no bytes that code of the host could reach: a kernel of the CPU that is given
//! one finds a tensor without data. Borrow states and versions count as those of other storages, for
//! as long as a call queues its work; the work itself is ordered by streams.

use super::Tensor;
use super::storage::Storage;
use crate::error::{Error, ErrorKind, Result};
use std::any::Any;
use std::sync::{Once, OnceLock};
use straightline_catalog::{Device, DeviceType};
use straightline_cuda::allocator::AllocationError;
use straightline_cuda::driver::{self, DeviceMemory, Stream};

/// What is done before the first call on a GPU: its kernels are registered.
static FIRST: OnceLock<fn()> = OnceLock::new();

/// Says what is to be done before the first call on a GPU.
pub(crate) fn before_first_use(f: fn()) {
    FIRST.get_or_init(|| f);
}

/// A call on a GPU follows. (Programs without one do not pay for its kernels.)
pub(crate) fn used() {
    static USED: Once = Once::new();
    USED.call_once(|| {
        if let Some(first) = FIRST.get() {
            first();
        }
    });
}

/// The device with its number: without one it is the current device.
pub(crate) fn numbered(device: Device) -> Device {
    let index = device.index.max(0);
    Device { index, ..device }
}

/// The GPU of a device.
pub(crate) fn gpu(device: Device) -> Result<&'static driver::Device> {
    let ordinal = numbered(device).index.unsigned_abs().into();
    driver::device(ordinal).map_err(|e| Error::device(format!("`{device}` can not be used: {e}")))
}

/// Fresh memory, its contents unspecified, for work on the current stream.
pub(crate) fn allocate(device: Device, bytes: usize) -> Result<Storage> {
    used();
    let memory = memory(device, &gpu(device)?.current_stream(), bytes)?;
    Storage::elsewhere(bytes, Box::new(memory))
}

/// Fresh memory for the work of a stream of a device, which errors name.
pub(crate) fn memory(device: Device, stream: &Stream, bytes: usize) -> Result<DeviceMemory> {
    DeviceMemory::new(stream, bytes).map_err(|e| no_memory(device, e))
}

fn device_of(memory: &DeviceMemory) -> Device {
    let index = i8::try_from(memory.device().ordinal()).unwrap_or_default();
    Device { index, ..Device::new(DeviceType::Cuda) }
}

/// The error of memory that can not be had.
pub(crate) fn no_memory(device: Device, e: AllocationError) -> Error {
    match e {
        AllocationError::OutOfMemory { .. } => {
            Error::new(ErrorKind::DeviceMemory { device, what: e.to_string() })
        }
        AllocationError::Driver { .. } => Error::device(format!("`{device}`: {e}")),
    }
}

/// More memory for a storage of a GPU, with the bytes that it has.
pub(super) fn grown(storage: &Storage, bytes: usize) -> Result<Option<Box<dyn Any + Send + Sync>>> {
    let Some(old) = storage.owner::<DeviceMemory>() else { return Ok(None) };
    let stream = old.device().current_stream();
    let new = memory(device_of(old), &stream, bytes)?;
    // SAFETY: both have so many bytes; the old memory serves others on this stream only after the copy.
    unsafe { stream.copy(new.address(), old.address(), old.bytes().min(bytes)) }
        .map_err(|e| Error::device(e.to_string()))?;
    old.record_stream(&stream);
    Ok(Some(Box::new(new)))
}

/// Writes all bytes of a fresh, dense tensor of a GPU. They are there when this returns.
pub(crate) fn upload(to: &Tensor, data: &[u8]) -> Result<()> {
    let room = to.storage().bytes();
    ensure!(data.len() <= room, "{} bytes for a tensor of {room}", data.len());
    let stream = gpu(to.device())?.current_stream();
    // SAFETY: there is room, and nobody else has the tensor; what it is filled with is not pinned.
    unsafe { stream.to_device(to.device_address()?, data.as_ptr(), data.len()) }
        .and_then(|()| stream.synchronize())
        .map_err(|e| Error::device(e.to_string()))
}

/// A tensor of a GPU with the elements of a contiguous one of the CPU, which nobody writes meanwhile.
pub(crate) fn copy_of(from: &Tensor, device: Device) -> Result<Tensor> {
    let to = Tensor::allocate_contiguous(from.dtype(), numbered(device), from.sizes())?;
    let bytes = from.numel() as usize * from.dtype().size();
    if bytes != 0 {
        // SAFETY: a contiguous tensor has so many bytes from its first element on; the caller's contract.
        upload(&to, unsafe { std::slice::from_raw_parts(from.data_ptr()?, bytes) })?;
    }
    Ok(to)
}

impl Tensor {
    /// Where its first element is on its device.
    pub(crate) fn device_address(&self) -> Result<u64> {
        let memory = self.storage().owner::<DeviceMemory>().filter(|_| !self.has_math_bits());
        let memory = memory.ok_or_else(|| self.no_memory_error("the memory of a GPU"))?;
        Ok(memory.address().wrapping_add_signed(self.byte_offset()))
    }
}
