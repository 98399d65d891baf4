//! Programs in the driver, and their launches.

use super::device::Device;
use super::error::DriverError;
use super::stream::Stream;
use crate::nvrtc::{Binary, Target};
use cudarc::driver::sys::{self, CUfunction_attribute};
use std::ffi::{CString, c_void};
use std::fmt;
use std::sync::Arc;

/// Shared memory that a block has without being asked.
const SHARED: u32 = 48 << 10;

/// A program that a device has loaded.
#[derive(Clone)]
pub struct Module(Arc<Loaded>);

struct Loaded {
    device: &'static Device,
    raw: sys::CUmodule,
}

// SAFETY: modules may be used by any thread.
unsafe impl Send for Loaded {}
// SAFETY: as above, by several at once.
unsafe impl Sync for Loaded {}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: it was loaded; whoever launches its functions holds it until they have run.
        let _ = self.device.call("cuModuleUnload", || unsafe { sys::cuModuleUnload(self.raw) });
    }
}

impl Module {
    /// Loads a program.
    ///
    /// # Errors
    ///
    /// [`DriverError`], if it is for another kind of device for example.
    pub fn load(device: &'static Device, binary: &Binary) -> Result<Module, DriverError> {
        let mut image = binary.code.clone();
        if let Target::Ptx { .. } = binary.target {
            image.push(0);
        }
        let mut raw = std::ptr::null_mut();
        let call = || {
            // SAFETY: the image is whole, text with a zero at its end.
            unsafe { sys::cuModuleLoadData(&mut raw, image.as_ptr().cast()) }
        };
        device.call("cuModuleLoadData", call)?;
        Ok(Module(Arc::new(Loaded { device, raw })))
    }

    /// One of its kernels.
    ///
    /// # Errors
    ///
    /// [`DriverError`], if there is none of this name for example.
    pub fn function(&self, name: &str) -> Result<Function, DriverError> {
        let text = CString::new(name).unwrap_or_default();
        let mut raw = std::ptr::null_mut();
        let call = || {
            // SAFETY: the module lives; it writes a handle.
            unsafe { sys::cuModuleGetFunction(&mut raw, self.0.raw, text.as_ptr()) }
        };
        self.0.device.call("cuModuleGetFunction", call)?;
        Ok(Function { module: self.clone(), raw, name: name.into() })
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a program of {:?}", self.0.device)
    }
}

/// A kernel of a program that is loaded.
#[derive(Clone)]
pub struct Function {
    module: Module,
    raw: sys::CUfunction,
    name: Arc<str>,
}

// SAFETY: functions may be used by any thread.
unsafe impl Send for Function {}
// SAFETY: as above, by several at once.
unsafe impl Sync for Function {}

/// Blocks, threads of each, and the bytes of shared memory that a block has beside what the function
/// declares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Launch {
    /// Blocks.
    pub blocks: [u32; 3],
    /// Threads of a block.
    pub threads: [u32; 3],
    /// Bytes.
    pub shared_bytes: u32,
}

/// An argument of a kernel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Argument<'a> {
    /// An address.
    Pointer(u64),
    /// A structure of numbers.
    Numbers(&'a [i64]),
    /// One number.
    U32(u32),
    /// One number.
    U64(u64),
}

impl Function {
    /// The kernel's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Queues the kernel.
    ///
    /// # Safety
    ///
    /// The arguments are those of the kernel, which reads and writes only what they lead to; that is
    /// memory of the device until the stream has come so far, and so long the program stays loaded.
    ///
    /// # Errors
    ///
    /// [`DriverError`].
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        launch: Launch,
        arguments: &[Argument<'_>],
    ) -> Result<(), DriverError> {
        let device = stream.device();
        let Launch { blocks, threads, shared_bytes } = launch;
        if shared_bytes > SHARED {
            let which = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let call = || {
                // SAFETY: the function is there.
                unsafe { sys::cuFuncSetAttribute(self.raw, which, shared_bytes as i32) }
            };
            device.call("cuFuncSetAttribute", call)?;
        }
        let mut places: Vec<*mut c_void> = arguments
            .iter()
            .map(|argument| match argument {
                Argument::Pointer(n) | Argument::U64(n) => std::ptr::from_ref(n).cast(),
                Argument::U32(n) => std::ptr::from_ref(n).cast(),
                Argument::Numbers(all) => all.as_ptr().cast::<c_void>(),
            })
            .map(<*const c_void>::cast_mut)
            .collect();
        let call = || {
            let ([x, y, z], [a, b, c]) = (blocks, threads);
            // SAFETY: the caller's contract; the driver copies the arguments before it returns.
            unsafe {
                sys::cuLaunchKernel(
                    self.raw,
                    x,
                    y,
                    z,
                    a,
                    b,
                    c,
                    shared_bytes,
                    stream.raw(),
                    places.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            }
        };
        device.call("cuLaunchKernel", call)?;
        device.launched(&self.name);
        if device.is_blocking() {
            stream.synchronize()?;
        }
        Ok(())
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}` of {:?}", self.name, self.module.0.device)
    }
}
