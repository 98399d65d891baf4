//! Graphs: work that is recorded once and queued as a whole.
//!
//! A graph has the addresses that its work was recorded with. Its launches follow one another, on
//! whichever streams, as the driver promises.

use super::device::Device;
use super::error::DriverError;
use super::stream::Stream;
use cudarc::driver::sys::{self, CUresult, CUstreamCaptureMode, CUstreamCaptureStatus};
use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

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

/// So many kernels of a graph are named in errors.
const NAMED: usize = 32;

thread_local! {
    /// The stream whose work this thread records, and the kernels so far.
    static RECORDED: RefCell<Option<(sys::CUstream, Vec<Arc<str>>)>> = const { RefCell::new(None) };
}

/// This thread records a stream's work as long as it lives.
struct Recording(Option<(sys::CUstream, Vec<Arc<str>>)>);

impl Recording {
    fn of(stream: &Stream) -> Recording {
        Recording(RECORDED.replace(Some((stream.raw(), Vec::new()))))
    }

    /// What errors call the graph of it.
    fn name(&self) -> String {
        let kernels = RECORDED.with_borrow_mut(|recorded| match recorded {
            Some((_, kernels)) => std::mem::take(kernels),
            None => Vec::new(),
        });
        let more = match kernels.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let kernels: Vec<&str> = kernels.iter().take(NAMED).map(|k| &**k).collect();
        format!("graph of {}{more}", kernels.join(", "))
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        RECORDED.replace(self.0.take());
    }
}

/// A kernel was launched: true if that was recorded.
pub(super) fn is_recorded(kernel: &Arc<str>) -> bool {
    RECORDED.with_borrow_mut(|recorded| match recorded {
        Some((_, kernels)) => {
            kernels.push(kernel.clone());
            true
        }
        None => false,
    })
}

impl Stream {
    /// Whether its work is recorded, and nothing has made that impossible. No work of the default stream is.
    ///
    /// # Errors
    ///
    /// [`DriverError`].
    pub fn is_recorded(&self) -> Result<bool, DriverError> {
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        let call = || {
            // SAFETY: the stream lives; it writes a number.
            unsafe { sys::cuStreamIsCapturing(self.raw(), &mut status) }
        };
        self.device().call("cuStreamIsCapturing", call)?;
        Ok(status == CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE)
    }

    /// Copies from and to memory of the host are no part of a graph: at a launch that memory is somebody
    /// else's.
    pub(super) fn check_host(&self, call: &'static str) -> Result<(), DriverError> {
        let recorded =
            RECORDED.with_borrow(|r| r.as_ref().is_some_and(|(raw, _)| *raw == self.raw()));
        match recorded {
            false => Ok(()),
            true => {
                let code = CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
                Err(DriverError::new(call, code, Some(self.ordinal())))
            }
        }
    }
}

impl Graph {
    /// Records what `queue` queues on a stream that is not the default one. Nothing of it runs, and
    /// nothing may wait, nor use memory of the host. Memory that it allocates for that stream and gives back
    /// is the graph's for as long as there is one: the stream is to be used for nothing but recording, and its
    /// memory [kept](crate::allocator::CachingAllocator::keep). Errors of the graph's work name its kernels.
    ///
    /// # Errors
    ///
    /// Those of `queue`; [`DriverError`] if it did what can not be recorded.
    pub fn record<E: From<DriverError>>(
        stream: &Stream,
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
        let (queued, name) = {
            let recording = Recording::of(stream);
            (queue(), recording.name())
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
