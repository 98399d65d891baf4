//! Devices, streams, events, programs in the driver, copies, graphs of work.
//!
//! All of it goes through [`device`]: a [`Device`] exists only where there is a driver, so that nothing
//! else has to ask. A call of the driver is made in the device's context, which is made current for
//! the thread first; what is asynchronous says so, and is ordered by its [`Stream`].

mod device;
mod error;
mod event;
mod graph;
mod memory;
mod module;
mod stream;

pub use device::{Device, Properties, device, device_count};
pub use error::DriverError;
pub use event::Event;
pub use graph::Graph;
pub use memory::{DeviceMemory, PinnedMemory};
pub use module::{Argument, Function, Launch, Module};
pub use stream::{Stream, StreamGuard};
