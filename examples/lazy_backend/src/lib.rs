//! A lazy device, added to straightline from outside: the library does not know about it.
//!
//! Operators on its tensors compute nothing. One boxed kernel records them (`record.rs`): shapes
//! come from the operator's Meta kernel, the call becomes a node that points to its operands. When
//! elements are needed - by a copy to the CPU, `item`, printing, or [`LazyDevice::sync`] -
//! everything pending becomes one function, which `straightline::compile` turns into machine code.
//! The second time around a loop the same program is found again and is replayed.
//!
//! - **Views** share a storage and remember the view operators from it (`graph.rs`).
//! - **Writes** give the storage a new content; nothing is overwritten. In the function they are
//!   the same in-place operators, on a copy, and `compile` makes them functional.
//! - **What cannot be recorded** - random numbers, results whose shape depends on data, operators
//!   without a Meta kernel - runs on the CPU at once, through the library's own CPU fallback.
//!
//! ```
//! use lazy_backend::LazyDevice;
//! use straightline::{DeviceType, Tensor};
//!
//! let lazy = LazyDevice::install(DeviceType::PrivateUse1)?;
//! let x = Tensor::with(lazy.device()).ones([2, 2])?;
//! for _ in 0..3 {
//!     let y = (x.matmul(&x)? + 1.0).relu()?;
//!     assert_eq!(y.to_vec::<f32>()?, [3.0; 4]);
//! }
//! // `x` itself was pending in the first program
//! assert_eq!((lazy.stats().compiled, lazy.stats().replayed), (2, 1));
//! # Ok::<(), straightline::Error>(())
//! ```

mod graph;
mod kernels;
mod program;
mod record;
mod runtime;

pub use runtime::Stats;

use runtime::Runtime;
use std::sync::Arc;
use straightline::dispatch::{Library, rename_backend};
use straightline::{Device, DeviceType, Result};

/// A lazy device. Its registrations last as long as it does.
#[derive(Debug)]
pub struct LazyDevice {
    device: Device,
    runtime: Arc<Runtime>,
    registrations: Vec<Library>,
}

impl LazyDevice {
    /// Makes all devices of a type lazy: `PrivateUse1` to `3`, `Lazy`, `Xla`, or any other without
    /// kernels.
    ///
    /// # Errors
    ///
    /// The type has a fallback already.
    pub fn install(kind: DeviceType) -> Result<LazyDevice> {
        let runtime = Arc::new(Runtime::default());
        let device = Device { kind, index: 0 };
        let registrations = kernels::register(&runtime, device)?;
        Ok(LazyDevice { device, runtime, registrations })
    }

    /// Makes `PrivateUse1` lazy and gives it a name.
    ///
    /// # Errors
    ///
    /// As [`LazyDevice::install`] and [`rename_backend`].
    pub fn install_as(name: &str) -> Result<LazyDevice> {
        rename_backend(name)?;
        LazyDevice::install(DeviceType::PrivateUse1)
    }

    /// The first device of the type.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Runs everything that has been recorded and is still needed.
    ///
    /// # Errors
    ///
    /// Errors of operators that depend on data. Tensors that do not depend on the failed operator
    /// are still computed.
    pub fn sync(&self) -> Result<()> {
        self.runtime.sync()
    }

    /// How often the device has done what.
    pub fn stats(&self) -> Stats {
        self.runtime.stats()
    }

    /// How many blocks of registrations make up the device.
    pub fn registrations(&self) -> usize {
        self.registrations.len()
    }
}
