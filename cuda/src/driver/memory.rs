//! Memory of devices, pinned memory of the host, and copies.

use super::device::Device;
use super::error::DriverError;
use super::event::Event;
use super::graph;
use super::stream::Stream;
use crate::allocator::{AllocationError, Block, Source, StreamId};
use cudarc::driver::sys::{self, CUresult};
use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;

/// The driver, as a source of memory.
pub struct Driver(pub(super) &'static Device);

/// The stream of an identity.
fn stream_of(id: StreamId) -> sys::CUstream {
    std::ptr::with_exposed_provenance_mut(id.0 as usize)
}

impl Source for Driver {
    type Event = Event;
    type Error = DriverError;

    fn allocate(&self, bytes: u64) -> Result<Option<u64>, DriverError> {
        let (mut address, mut none) = (0, false);
        self.0.call("cuMemAlloc", || {
            // SAFETY: it writes an address.
            match unsafe { sys::cuMemAlloc_v2(&mut address, bytes as usize) } {
                CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                    none = true;
                    CUresult::CUDA_SUCCESS
                }
                code => code,
            }
        })?;
        Ok((!none).then_some(address))
    }

    fn free(&self, address: u64) {
        // SAFETY: it was allocated, and nothing uses it any more.
        if let Err(e) = self.0.call("cuMemFree", || unsafe { sys::cuMemFree_v2(address) }) {
            tracing::debug!("{e}");
        }
    }

    fn record(&self, stream: StreamId) -> Result<Event, DriverError> {
        let event = Event::new(self.0, false)?;
        let call = || {
            // SAFETY: who told of the stream has it for as long as its work.
            unsafe { sys::cuEventRecord(event.raw(), stream_of(stream)) }
        };
        self.0.call("cuEventRecord", call)?;
        Ok(event)
    }

    fn is_done(&self, event: &Event) -> bool {
        // where work has failed, nothing runs any more
        event.is_done().unwrap_or(true)
    }

    fn wait(&self, event: &Event) {
        if let Err(e) = event.synchronize() {
            tracing::debug!("{e}");
        }
    }
}

/// Memory of a device, given back when it is dropped.
pub struct DeviceMemory {
    device: &'static Device,
    held: Held,
}

enum Held {
    /// The allocator's; `None` when it has been given back.
    Block(Option<Block>),
    /// Somebody else's.
    Lent { address: u64, bytes: usize },
}

impl DeviceMemory {
    /// Memory for work on a stream; its contents are unspecified.
    ///
    /// # Errors
    ///
    /// [`AllocationError`].
    pub fn new(stream: &Stream, bytes: usize) -> Result<DeviceMemory, AllocationError> {
        let device = stream.device();
        let block = device.allocator().allocate(bytes as u64, stream.id())?;
        Ok(DeviceMemory { device, held: Held::Block(Some(block)) })
    }

    /// A part of memory that somebody else keeps, until all work with it is queued.
    pub fn lent(device: &'static Device, address: u64, bytes: usize) -> DeviceMemory {
        DeviceMemory { device, held: Held::Lent { address, bytes } }
    }

    /// Where it is.
    pub fn address(&self) -> u64 {
        match &self.held {
            Held::Block(block) => block.as_ref().map_or(0, Block::address),
            Held::Lent { address, .. } => *address,
        }
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        match &self.held {
            Held::Block(block) => block.as_ref().map_or(0, |b| b.bytes() as usize),
            Held::Lent { bytes, .. } => *bytes,
        }
    }

    /// Its device.
    pub fn device(&self) -> &'static Device {
        self.device
    }

    /// Says that work on another stream uses it. (Of what is lent, its owner has to.)
    pub fn record_stream(&self, stream: &Stream) {
        if let Held::Block(Some(block)) = &self.held {
            self.device.allocator().record_stream(block, stream.id());
        }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if let Held::Block(held) = &mut self.held
            && let Some(block) = held.take()
        {
            self.device.allocator().free(block);
        }
    }
}

impl fmt::Debug for DeviceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:#x} of {:?}", self.bytes(), self.address(), self.device)
    }
}

/// Memory of the host that a device reads and writes by itself, so that copies need not wait.
pub struct PinnedMemory {
    device: &'static Device,
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it is memory like any other.
unsafe impl Send for PinnedMemory {}
// SAFETY: as above.
unsafe impl Sync for PinnedMemory {}

impl PinnedMemory {
    /// So many bytes, zero.
    ///
    /// # Errors
    ///
    /// [`DriverError`].
    pub fn new(device: &'static Device, bytes: usize) -> Result<PinnedMemory, DriverError> {
        let mut at: *mut c_void = std::ptr::null_mut();
        // portable: pinned for all devices
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE;
        let call = || {
            // SAFETY: it writes an address.
            unsafe { sys::cuMemHostAlloc(&mut at, bytes.max(1), flags) }
        };
        device.call("cuMemHostAlloc", call)?;
        let Some(at) = NonNull::new(at.cast::<u8>()) else {
            let code = CUresult::CUDA_ERROR_OUT_OF_MEMORY;
            return Err(DriverError::new("cuMemHostAlloc", code, Some(device.ordinal())));
        };
        // SAFETY: the memory is fresh and has that many bytes.
        unsafe { at.as_ptr().write_bytes(0, bytes) };
        Ok(PinnedMemory { device, at, bytes })
    }

    /// The first byte.
    pub fn as_ptr(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        let at = self.at.as_ptr().cast();
        // SAFETY: it was allocated; copies from and to it have ended, as their callers promise.
        let _ = self.device.call("cuMemFreeHost", || unsafe { sys::cuMemFreeHost(at) });
    }
}

impl fmt::Debug for PinnedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pinned bytes", self.bytes)
    }
}

impl Stream {
    /// Copies bytes of the host to the device. What lies in pageable memory has been read when this
    /// returns; pinned memory is read when the stream comes to it.
    ///
    /// # Safety
    ///
    /// `from` has that many bytes, pinned ones until the copy is over; `to` is memory of the device with
    /// room for them, for as long.
    ///
    /// # Errors
    ///
    /// [`DriverError`].
    pub unsafe fn to_device(
        &self,
        to: u64,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), DriverError> {
        if bytes == 0 {
            return Ok(());
        }
        if graph::is_recorded(self) {
            let code = sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
            let device = Some(self.device().ordinal());
            return Err(DriverError::new("cuMemcpyHtoDAsync", code, device));
        }
        let call = || {
            // SAFETY: the caller's contract.
            unsafe { sys::cuMemcpyHtoDAsync_v2(to, from.cast(), bytes, self.raw()) }
        };
        self.device().call("cuMemcpyHtoDAsync", call)
    }

    /// Copies bytes of the device to the host. They are there when the stream has come so far:
    /// wait for it, or for an event.
    ///
    /// # Safety
    ///
    /// `to` has room for that many bytes, which nobody else uses until the copy is over; `from` is
    /// memory of the device, for as long.
    ///
    /// # Errors
    ///
    /// [`DriverError`].
    pub unsafe fn to_host(&self, to: *mut u8, from: u64, bytes: usize) -> Result<(), DriverError> {
        if bytes == 0 {
            return Ok(());
        }
        let call = || {
            // SAFETY: the caller's contract.
            unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from, bytes, self.raw()) }
        };
        self.device().call("cuMemcpyDtoHAsync", call)
    }

    /// Copies bytes within the device.
    ///
    /// # Safety
    ///
    /// Both are memory of the device, of that many bytes, until the stream has come so far.
    ///
    /// # Errors
    ///
    /// [`DriverError`].
    pub unsafe fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), DriverError> {
        if bytes == 0 {
            return Ok(());
        }
        let call = || {
            // SAFETY: the caller's contract.
            unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, self.raw()) }
        };
        self.device().call("cuMemcpyDtoDAsync", call)
    }

    /// Copies bytes of another device to this stream's.
    ///
    /// # Safety
    ///
    /// `to` is memory of this stream's device and `from` of the other one, of that many bytes, until the
    /// stream has come so far.
    ///
    /// # Errors
    ///
    /// [`DriverError`].
    pub unsafe fn copy_from(
        &self,
        to: u64,
        (other, from): (&'static Device, u64),
        bytes: usize,
    ) -> Result<(), DriverError> {
        if bytes == 0 {
            return Ok(());
        }
        let [mine, theirs] = [self.device().context(), other.context()];
        let call = || {
            // SAFETY: the caller's contract.
            unsafe { sys::cuMemcpyPeerAsync(to, mine, from, theirs, bytes, self.raw()) }
        };
        self.device().call("cuMemcpyPeerAsync", call)
    }

    /// Sets bytes of the device.
    ///
    /// # Safety
    ///
    /// `to` is memory of the device, of that many bytes, until the stream has come so far.
    ///
    /// # Errors
    ///
    /// [`DriverError`].
    pub unsafe fn fill(&self, to: u64, byte: u8, bytes: usize) -> Result<(), DriverError> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller's contract.
        let call = || unsafe { sys::cuMemsetD8Async(to, byte, bytes, self.raw()) };
        self.device().call("cuMemsetD8Async", call)
    }
}
