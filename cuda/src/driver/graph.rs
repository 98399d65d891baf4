//! Graphs: work that is recorded once and queued as a whole.
//!
//! A graph has the addresses that its work was recorded with. Its launches follow one another, on
//! whichever streams, as the driver promises.

use super::device::Device;
use super::error::DriverError;
use super::stream::Stream;
use cudarc::driver::sys::{self, CUstreamCaptureMode};
use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

thread_local! {
    /// The handle of the stream that this thread records, as a number.
    static RECORDED: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Whether this thread records the stream.
pub(super) fn is_recorded(stream: &Stream) -> bool {
    RECORDED.get() == Some(stream.raw().addr())
}

/// Puts back which stream was recorded, also where `queue` panics.
struct Before(Option<usize>);

impl Drop for Before {
    fn drop(&mut self) {
        RECORDED.set(self.0);
    }
}

/// Work that a device can be given at once.
pub struct Graph {
    device: &'static Device,
    /// Launches are one after the other: the driver does not take one handle from several threads.
    raw: Mutex<Handle>,
    /// What errors call it.
    name: Arc<str>,
}

struct Handle(sys::CUgraphExec);

// SAFETY: a graph may be launched by any thread, by one at a time.
unsafe impl Send for Handle {}

impl Drop for Graph {
    fn drop(&mut self) {
        let Handle(raw) = self.raw.get_mut().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: it was instantiated; the driver keeps it for launches that have not ended.
        let _ = self.device.call("cuGraphExecDestroy", || unsafe { sys::cuGraphExecDestroy(*raw) });
    }
}

impl Graph {
    /// Records what `queue` queues on a stream that is not the default one. Nothing of it runs, and
    /// nothing may wait, or read memory of the host, which would be read again by each launch. Memory that it allocates for that stream and gives back is the graph's for as
    /// long as there is one: the stream is to be used for nothing but recording, and its memory
    /// [kept](crate::allocator::CachingAllocator::keep).
    ///
    /// # Errors
    ///
    /// Those of `queue`; [`DriverError`] if it did what can not be recorded.
    pub fn record<E: From<DriverError>>(
        stream: &Stream,
        name: &str,
        queue: impl FnOnce() -> Result<(), E>,
    ) -> Result<Graph, E> {
        let device = stream.device();
        // memory may be allocated, and what other threads do meanwhile is their business
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        let begin = || {
            // SAFETY: the stream lives, and is nobody else's.
            unsafe { sys::cuStreamBeginCapture_v2(stream.raw(), mode) }
        };
        device.call("cuStreamBeginCapture", begin)?;
        let queued = {
            let _before = Before(RECORDED.replace(Some(stream.raw().addr())));
            queue()
        };
        let mut recorded = std::ptr::null_mut();
        let end = || {
            // SAFETY: the stream is recording; it writes a handle.
            unsafe { sys::cuStreamEndCapture(stream.raw(), &mut recorded) }
        };
        let ended = device.call("cuStreamEndCapture", end);
        let made = queued.and_then(|()| Ok(ended?)).and_then(|()| {
            let mut raw = std::ptr::null_mut();
            let make = || {
                // SAFETY: the recorded graph is whole; it writes a handle.
                unsafe { sys::cuGraphInstantiateWithFlags(&mut raw, recorded, 0) }
            };
            device.call("cuGraphInstantiate", make)?;
            Ok(Graph { device, raw: Mutex::new(Handle(raw)), name: name.into() })
        });
        if !recorded.is_null() {
            // SAFETY: it was recorded above, and what is made of it is a copy.
            let drop = || unsafe { sys::cuGraphDestroy(recorded) };
            device.call("cuGraphDestroy", drop)?;
        }
        made
    }

    /// Queues all of it.
    ///
    /// # Safety
    ///
    /// What the work reads and writes is memory of the device until the stream has come so far, and
    /// its programs are loaded as long as the graph.
    ///
    /// # Errors
    ///
    /// [`DriverError`].
    pub unsafe fn launch(&self, stream: &Stream) -> Result<(), DriverError> {
        let raw = self.raw.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the caller's contract; the graph lives.
        self.device.call("cuGraphLaunch", || unsafe { sys::cuGraphLaunch(raw.0, stream.raw()) })?;
        self.device.launched(&self.name);
        Ok(())
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "graph `{}` of {:?}", self.name, self.device)
    }
}
