//! Devices and their contexts.

use super::error::DriverError;
use super::graph;
use super::memory::Driver;
use super::stream::{Idle, Stream};
use crate::allocator::CachingAllocator;
use crate::loader::{Found, availability};
use cudarc::driver::sys::{self, CUdevice_attribute, CUresult};
use std::collections::VecDeque;
use std::ffi::CStr;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// So many launches are remembered for an error's sake.
const RECENT: usize = 8;

/// What a device says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Properties {
    /// Its name.
    pub name: String,
    /// Its compute capability: 9.0 is 90.
    pub capability: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Threads that a multiprocessor holds at once.
    pub threads_per_multiprocessor: u32,
    /// Shared memory that a block may ask for, in bytes.
    pub shared_per_block: u32,
}

/// A GPU, in this process' primary context; it stays for as long as the process.
pub struct Device {
    ordinal: u32,
    context: sys::CUcontext,
    properties: Properties,
    allocator: OnceLock<CachingAllocator<Driver>>,
    recent: Mutex<VecDeque<Arc<str>>>,
    idle_streams: Mutex<Vec<Idle>>,
    /// Whether each launch is waited for.
    blocking: bool,
}

// SAFETY: a context may be used by any thread that makes it current.
unsafe impl Send for Device {}
// SAFETY: as above; the driver's functions may be called by several threads at once.
unsafe impl Sync for Device {}

/// How many devices there are: 0 without a driver.
///
/// ```
/// let devices = straightline_cuda::driver::device_count();
/// assert_eq!(straightline_cuda::driver::device(devices).is_err(), true);
/// ```
pub fn device_count() -> u32 {
    static COUNT: OnceLock<u32> = OnceLock::new();
    *COUNT.get_or_init(|| {
        if !availability().driver.is_here() {
            return 0;
        }
        let mut count = 0;
        // SAFETY: the driver is there; it writes one number.
        let ok = unsafe {
            sys::cuInit(0) == CUresult::CUDA_SUCCESS
                && sys::cuDeviceGetCount(&mut count) == CUresult::CUDA_SUCCESS
        };
        if ok { count.max(0) as u32 } else { 0 }
    })
}

/// A device by its number; the first call makes its context.
///
/// # Errors
///
/// [`DriverError`]: without a driver its `code` says what is missing.
pub fn device(ordinal: u32) -> Result<&'static Device, DriverError> {
    static DEVICES: OnceLock<Vec<OnceLock<Device>>> = OnceLock::new();
    static MAKING: Mutex<()> = Mutex::new(());
    let slots = DEVICES.get_or_init(|| (0..device_count()).map(|_| OnceLock::new()).collect());
    let Some(slot) = slots.get(ordinal as usize) else {
        let code = match &availability().driver {
            Found::Missing { reason } => reason.clone(),
            Found::Here { .. } => format!("no such device: there are {}", slots.len()),
        };
        return Err(DriverError {
            call: "cuDeviceGet",
            code,
            device: Some(ordinal),
            recent: Vec::new(),
        });
    };
    if let Some(device) = slot.get() {
        return Ok(device);
    }
    let _one_at_a_time = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if slot.get().is_none() {
        let made = Device::new(ordinal)?;
        _ = slot.set(made);
    }
    slot.get().ok_or_else(|| {
        DriverError::new("cuDevicePrimaryCtxRetain", CUresult::CUDA_ERROR_UNKNOWN, Some(ordinal))
    })
}

impl Device {
    fn new(ordinal: u32) -> Result<Device, DriverError> {
        let of = |call: &'static str| {
            move |code: CUresult| match code {
                CUresult::CUDA_SUCCESS => Ok(()),
                code => Err(DriverError::new(call, code, Some(ordinal))),
            }
        };
        let mut raw = 0;
        let mut context = std::ptr::null_mut();
        let mut memory = 0;
        let mut name = [0u8; 128];
        // SAFETY: there is a device of this number; each call writes what it is given a place for.
        unsafe {
            of("cuDeviceGet")(sys::cuDeviceGet(&mut raw, ordinal as i32))?;
            of("cuDevicePrimaryCtxRetain")(sys::cuDevicePrimaryCtxRetain(&mut context, raw))?;
            of("cuDeviceTotalMem")(sys::cuDeviceTotalMem_v2(&mut memory, raw))?;
            let length = name.len() as i32 - 1;
            of("cuDeviceGetName")(sys::cuDeviceGetName(name.as_mut_ptr().cast(), length, raw))?;
        }
        let attribute = |which: CUdevice_attribute| -> Result<u32, DriverError> {
            let mut value = 0;
            // SAFETY: as above.
            let code = unsafe { sys::cuDeviceGetAttribute(&mut value, which, raw) };
            of("cuDeviceGetAttribute")(code).map(|()| value.max(0) as u32)
        };
        use CUdevice_attribute::*;
        let major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let properties = Properties {
            name: CStr::from_bytes_until_nul(&name)
                .map(|n| n.to_string_lossy().into_owned())
                .unwrap_or_default(),
            capability: major * 10 + minor,
            memory: memory as u64,
            multiprocessors: attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            threads_per_multiprocessor: attribute(
                CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
            )?,
            shared_per_block: attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        };
        Ok(Device {
            ordinal,
            context,
            properties,
            allocator: OnceLock::new(),
            recent: Mutex::default(),
            idle_streams: Mutex::default(),
            blocking: std::env::var("STRAIGHTLINE_CUDA_BLOCKING").is_ok_and(|v| v == "1"),
        })
    }

    /// Its number.
    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// What it is.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Free and total bytes, as the driver sees them.
    ///
    /// # Errors
    ///
    /// [`DriverError`].
    pub fn memory_info(&self) -> Result<(u64, u64), DriverError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: it writes two numbers.
        self.call("cuMemGetInfo", || unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) })?;
        Ok((free as u64, total as u64))
    }

    /// The allocator of its memory.
    pub fn allocator(&'static self) -> &'static CachingAllocator<Driver> {
        self.allocator.get_or_init(|| CachingAllocator::new(Driver(self)))
    }

    /// The stream on which this thread's work runs: the default one, until a
    /// [`StreamGuard`](super::StreamGuard) says otherwise.
    pub fn current_stream(&'static self) -> Stream {
        Stream::current(self)
    }

    /// The stream on which work runs that asks for no other.
    pub fn default_stream(&'static self) -> Stream {
        Stream::default_of(self)
    }

    /// A stream of its own.
    ///
    /// # Errors
    ///
    /// [`DriverError`].
    pub fn new_stream(&'static self) -> Result<Stream, DriverError> {
        Stream::create(self)
    }

    /// Waits for all work.
    ///
    /// # Errors
    ///
    /// [`DriverError`], also of the work itself.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        // SAFETY: the context is current.
        self.call("cuCtxSynchronize", || unsafe { sys::cuCtxSynchronize() })?;
        self.forget_launches();
        Ok(())
    }
}

impl Device {
    /// Queues that were made and that no stream has.
    pub(super) fn idle_streams(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle_streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn context(&self) -> sys::CUcontext {
        self.context
    }

    /// Whether each launch is waited for (`STRAIGHTLINE_CUDA_BLOCKING=1`).
    pub fn is_blocking(&self) -> bool {
        self.blocking
    }

    /// Calls the driver with this device's context.
    pub(super) fn call(
        &self,
        call: &'static str,
        f: impl FnOnce() -> CUresult,
    ) -> Result<(), DriverError> {
        // SAFETY: the context lives as long as the process.
        let code = match unsafe { sys::cuCtxSetCurrent(self.context) } {
            CUresult::CUDA_SUCCESS => f(),
            code => code,
        };
        if code == CUresult::CUDA_SUCCESS {
            return Ok(());
        }
        let mut e = DriverError::new(call, code, Some(self.ordinal));
        if e.is_of_work() {
            let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
            e.recent = recent.iter().map(|k| k.to_string()).collect();
        }
        Err(e)
    }

    /// Makes its context the thread's, for a library that works in it.
    pub(crate) fn make_current(&self) -> Result<(), DriverError> {
        self.call("cuCtxSetCurrent", || CUresult::CUDA_SUCCESS)
    }

    pub(super) fn launched(&self, kernel: &Arc<str>) {
        if graph::is_recorded(kernel) {
            return;
        }
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() == RECENT {
            recent.pop_front();
        }
        recent.push_back(kernel.clone());
    }

    pub(super) fn forget_launches(&self) {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cuda:{} ({})", self.ordinal, self.properties.name)
    }
}
