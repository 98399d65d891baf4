//! Streams: queues of a device's work.

use super::device::Device;
use super::error::DriverError;
use super::event::Event;
use crate::allocator::StreamId;
use cudarc::driver::sys::{self, CUresult, CUstream_flags};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// A queue of work of a device; clones are the same queue.
#[derive(Clone)]
pub struct Stream {
    device: &'static Device,
    /// `None` for the default one.
    queue: Option<Arc<Queue>>,
}

struct Queue {
    device: &'static Device,
    raw: sys::CUstream,
}

// SAFETY: streams may be used by any thread.
unsafe impl Send for Queue {}
// SAFETY: as above, by several at once.
unsafe impl Sync for Queue {}

impl Drop for Queue {
    /// The queue is kept for the next stream: memory knows it by its handle, and may still wait for it.
    fn drop(&mut self) {
        self.device.idle_streams().push(Idle(self.raw));
    }
}

/// A queue that no stream has.
pub(super) struct Idle(sys::CUstream);

// SAFETY: streams may be used by any thread.
unsafe impl Send for Idle {}

thread_local! {
    /// The streams that are current, by device, where they are not the default ones.
    static CURRENT: RefCell<BTreeMap<u32, Stream>> = const { RefCell::new(BTreeMap::new()) };
}

impl Stream {
    pub(super) fn default_of(device: &'static Device) -> Stream {
        Stream { device, queue: None }
    }

    pub(super) fn current(device: &'static Device) -> Stream {
        let set = CURRENT.with_borrow(|all| all.get(&device.ordinal()).cloned());
        set.unwrap_or_else(|| Stream::default_of(device))
    }

    pub(super) fn create(device: &'static Device) -> Result<Stream, DriverError> {
        let idle = device.idle_streams().pop();
        let raw = match idle {
            Some(Idle(raw)) => raw,
            None => {
                let mut raw = std::ptr::null_mut();
                let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
                let create = || {
                    // SAFETY: it writes a handle.
                    unsafe { sys::cuStreamCreate(&mut raw, flags) }
                };
                device.call("cuStreamCreate", create)?;
                raw
            }
        };
        Ok(Stream { device, queue: Some(Arc::new(Queue { device, raw })) })
    }

    pub(crate) fn raw(&self) -> sys::CUstream {
        self.queue.as_ref().map_or(std::ptr::null_mut(), |q| q.raw)
    }

    /// Its handle, for a library that queues work on it.
    pub(crate) fn handle(&self) -> *mut c_void {
        self.raw().cast()
    }

    /// Says that a library has queued work on it.
    pub(crate) fn queued(&self, name: &str) -> Result<(), DriverError> {
        self.device.launched(&Arc::from(name));
        if self.device.is_blocking() { self.synchronize() } else { Ok(()) }
    }

    /// The device whose work it queues.
    pub fn device(&self) -> &'static Device {
        self.device
    }

    /// The number of its device.
    pub fn ordinal(&self) -> u32 {
        self.device.ordinal()
    }

    /// Its identity for memory.
    pub fn id(&self) -> StreamId {
        StreamId(self.raw().addr() as u64)
    }

    /// Whether it is its device's default stream.
    pub fn is_default(&self) -> bool {
        self.queue.is_none()
    }

    /// Waits, on the host, for what has been queued.
    ///
    /// # Errors
    ///
    /// [`DriverError`], also of the work itself.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        let call = || {
            // SAFETY: the stream lives.
            unsafe { sys::cuStreamSynchronize(self.raw()) }
        };
        self.device.call("cuStreamSynchronize", call)?;
        self.device.forget_launches();
        Ok(())
    }

    /// Whether all that has been queued has ended.
    ///
    /// # Errors
    ///
    /// [`DriverError`], also of the work itself.
    pub fn is_done(&self) -> Result<bool, DriverError> {
        let mut done = true;
        self.device.call("cuStreamQuery", || {
            // SAFETY: the stream lives.
            match unsafe { sys::cuStreamQuery(self.raw()) } {
                CUresult::CUDA_ERROR_NOT_READY => {
                    done = false;
                    CUresult::CUDA_SUCCESS
                }
                code => code,
            }
        })?;
        Ok(done)
    }

    /// The point that its work has come to.
    ///
    /// # Errors
    ///
    /// [`DriverError`].
    pub fn record(&self) -> Result<Event, DriverError> {
        let event = Event::new(self.device, false)?;
        event.record(self)?;
        Ok(event)
    }

    /// What is queued from now on begins after an event, which may be another device's.
    ///
    /// # Errors
    ///
    /// [`DriverError`].
    pub fn wait(&self, event: &Event) -> Result<(), DriverError> {
        let call = || {
            // SAFETY: both live.
            unsafe { sys::cuStreamWaitEvent(self.raw(), event.raw(), 0) }
        };
        self.device.call("cuStreamWaitEvent", call)
    }

    /// What is queued from now on begins after what another stream has to do now.
    ///
    /// # Errors
    ///
    /// [`DriverError`].
    pub fn wait_for(&self, other: &Stream) -> Result<(), DriverError> {
        self.wait(&other.record()?)
    }

    /// Makes it this thread's current stream of its device until the guard is dropped.
    pub fn enter(&self) -> StreamGuard {
        let ordinal = self.ordinal();
        let before = CURRENT.with_borrow_mut(|all| all.insert(ordinal, self.clone()));
        StreamGuard { ordinal, before, on_one_thread: PhantomData }
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Stream) -> bool {
        (self.ordinal(), self.raw()) == (other.ordinal(), other.raw())
    }
}

impl Eq for Stream {}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {:#x} of cuda:{}", self.id().0, self.ordinal())
    }
}

/// Puts back the stream that was current.
#[must_use = "the stream is current as long as the guard lives"]
#[derive(Debug)]
pub struct StreamGuard {
    ordinal: u32,
    before: Option<Stream>,
    on_one_thread: PhantomData<*const ()>,
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(|all| match self.before.take() {
            Some(stream) => all.insert(self.ordinal, stream),
            None => all.remove(&self.ordinal),
        });
    }
}
