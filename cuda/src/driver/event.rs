//! Events: points in the work of a stream.

use super::device::Device;
use super::error::DriverError;
use super::stream::Stream;
use cudarc::driver::sys::{self, CUevent_flags, CUresult};
use std::fmt;

/// A point in the work of a stream.
pub struct Event {
    device: &'static Device,
    raw: sys::CUevent,
}

// SAFETY: events may be used by any thread.
unsafe impl Send for Event {}
// SAFETY: as above, by several at once.
unsafe impl Sync for Event {}

impl Event {
    pub(super) fn new(device: &'static Device, timed: bool) -> Result<Event, DriverError> {
        let flags = match timed {
            true => CUevent_flags::CU_EVENT_DEFAULT,
            false => CUevent_flags::CU_EVENT_DISABLE_TIMING,
        };
        let mut raw = std::ptr::null_mut();
        // SAFETY: it writes a handle.
        device.call("cuEventCreate", || unsafe { sys::cuEventCreate(&mut raw, flags as u32) })?;
        Ok(Event { device, raw })
    }

    /// One that knows when it was: for [`Event::elapsed`].
    ///
    /// # Errors
    ///
    /// [`DriverError`].
    pub fn timed(stream: &Stream) -> Result<Event, DriverError> {
        let event = Event::new(stream.device(), true)?;
        event.record(stream)?;
        Ok(event)
    }

    pub(super) fn raw(&self) -> sys::CUevent {
        self.raw
    }

    /// Moves it to the point that a stream's work has come to.
    ///
    /// # Errors
    ///
    /// [`DriverError`].
    pub fn record(&self, stream: &Stream) -> Result<(), DriverError> {
        // SAFETY: both live.
        self.device.call("cuEventRecord", || unsafe { sys::cuEventRecord(self.raw, stream.raw()) })
    }

    /// Whether the work before it has ended.
    ///
    /// # Errors
    ///
    /// [`DriverError`], also of the work itself.
    pub fn is_done(&self) -> Result<bool, DriverError> {
        let mut done = true;
        self.device.call("cuEventQuery", || {
            // SAFETY: the event lives.
            match unsafe { sys::cuEventQuery(self.raw) } {
                CUresult::CUDA_ERROR_NOT_READY => {
                    done = false;
                    CUresult::CUDA_SUCCESS
                }
                code => code,
            }
        })?;
        Ok(done)
    }

    /// Waits, on the host, for the work before it.
    ///
    /// # Errors
    ///
    /// [`DriverError`], also of the work itself.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        // SAFETY: the event lives.
        self.device.call("cuEventSynchronize", || unsafe { sys::cuEventSynchronize(self.raw) })
    }

    /// The milliseconds from an earlier event to this one; both were made by [`Event::timed`].
    ///
    /// # Errors
    ///
    /// [`DriverError`], also if one of them has not come yet.
    pub fn elapsed(&self, since: &Event) -> Result<f32, DriverError> {
        let mut ms = 0.0;
        let call = || {
            // SAFETY: both live.
            unsafe { sys::cuEventElapsedTime_v2(&mut ms, since.raw, self.raw) }
        };
        self.device.call("cuEventElapsedTime", call)?;
        Ok(ms)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: it was created, and nobody has it any more.
        let _ = self.device.call("cuEventDestroy", || unsafe { sys::cuEventDestroy_v2(self.raw) });
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an event of cuda:{}", self.device.ordinal())
    }
}
