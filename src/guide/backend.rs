//! A backend of your own.
//!
//! A backend is a device whose tensors hold their elements in a place that this crate knows nothing
//! about. It can live in a separate crate. The keys `PrivateUse1`, `PrivateUse2` and `PrivateUse3`
//! are there for this; [`rename_backend`](crate::dispatch::rename_backend) gives the first of them
//! a name.
//!
//! # What it needs
//!
//! 1. *A tensor.* [`Tensor::opaque`](crate::Tensor::opaque) builds a tensor with a payload of your
//!    own in place of memory.
//! 2. *Three kernels* at its key: `empty.memory_format` and `empty_strided` allocate, `_copy_from`
//!    moves elements between the device and the CPU.
//! 3. *Views.* If your tensors wrap CPU tensors,
//!    [`wrapped_views`](crate::dispatch::wrapped_views) registers all view operators; otherwise
//!    register your own.
//! 4. *The rest.* [`cpu_fallback`](crate::dispatch::cpu_fallback) runs every operator without a
//!    kernel on the CPU and copies the results back. A backend is complete from the start, and
//!    becomes faster with each kernel that you write.
//!
//! ```
//! use straightline::dispatch::{DispatchKey, Library, cpu_fallback, wrapped_views};
//! use straightline::ops::aten;
//! use straightline::{DType, Device, DeviceType, Layout, MemoryFormat, Result, Tensor, tensor};
//! use std::sync::atomic::{AtomicUsize, Ordering};
//!
//! // the payload: here a private CPU tensor
//! struct Memory(Tensor);
//!
//! const KIND: DeviceType = DeviceType::PrivateUse1;
//!
//! fn wrap(cpu: Tensor, device: Device) -> Result<Tensor> {
//!     let (sizes, strides, dtype) = (cpu.sizes().to_vec(), cpu.strides().to_vec(), cpu.dtype());
//!     Tensor::opaque(Memory(cpu), &sizes, dtype, device).strides(&strides).build()
//! }
//!
//! fn memory(t: &Tensor) -> &Tensor {
//!     t.payload::<Memory>().map_or(t, |m| &m.0)
//! }
//!
//! let key = DispatchKey::PrivateUse1;
//! let mut kernels = Library::implementation("aten", key)?;
//! kernels.impl_(
//!     "empty_strided",
//!     |size: &[i64],
//!      stride: &[i64],
//!      dtype: Option<DType>,
//!      layout: Option<Layout>,
//!      device: Option<Device>,
//!      pin: Option<bool>| {
//!         let cpu = aten::empty_strided(size, stride, dtype, layout, Some(Device::CPU), pin)?;
//!         wrap(cpu, device.unwrap_or(Device::new(KIND)))
//!     },
//! )?;
//! kernels.impl_(
//!     "empty.memory_format",
//!     |size: &[i64],
//!      dtype: Option<DType>,
//!      layout: Option<Layout>,
//!      device: Option<Device>,
//!      pin: Option<bool>,
//!      format: Option<MemoryFormat>| {
//!         let cpu =
//!             aten::empty_memory_format(size, dtype, layout, Some(Device::CPU), pin, format)?;
//!         wrap(cpu, device.unwrap_or(Device::new(KIND)))
//!     },
//! )?;
//! kernels.impl_("_copy_from", |from: &Tensor, to: &Tensor, non_blocking: bool| {
//!     aten::copy_(memory(to), memory(from), non_blocking)?;
//!     Ok(to.clone())
//! })?;
//! let _views = wrapped_views(key, |t| t.payload::<Memory>().map(|m| m.0.clone()), wrap)?;
//! let mut rest = Library::fallbacks(key)?;
//! rest.fallback(cpu_fallback())?;
//!
//! // every operator works, through the CPU fallback
//! let device = Device::new(KIND);
//! let x = tensor([[1.0, -2.0], [3.0, -4.0]])?.to_device(device)?;
//! let y = x.t()?.matmul(&x)?.relu()?;
//! assert_eq!(y.device(), device);
//! assert_eq!(y.to_vec2::<f32>()?, [[10.0, 0.0], [0.0, 20.0]]);
//!
//! // a kernel of its own takes over from the fallback
//! static CALLS: AtomicUsize = AtomicUsize::new(0);
//! kernels.impl_("relu", |x: &Tensor| {
//!     CALLS.fetch_add(1, Ordering::Relaxed);
//!     wrap(memory(x).relu()?, x.device())
//! })?;
//! assert_eq!(x.relu()?.sum()?.item::<f32>()?, 4.0);
//! assert_eq!(CALLS.load(Ordering::Relaxed), 1);
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! # Further
//!
//! The crate `examples/lazy_backend` in the repository is a whole backend: a device that records
//! operators, compiles what is pending when elements are wanted, and replays it around a loop.
//!
//! `compile()` refuses tensors of other devices by name: code generation is for the CPU so far.
//! `PrivateUse2` and `PrivateUse3` have no autograd fallback, as in c10; register one if your
//! operators are to be called through the autograd keys.
