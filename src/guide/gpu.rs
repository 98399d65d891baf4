//! GPUs: what they need, tensors there, streams, compiled functions as one launch.
//!
//! NVIDIA's driver (580 or newer) and NVRTC 13 are looked for when a tensor is first made on a `cuda` device;
//! cuBLASLt 13 makes products quicker, NCCL 2 serves several GPUs. All but the driver are in a CUDA 13 toolkit,
//! or in the Python packages `nvidia-cuda-nvrtc`, `nvidia-cublas` and `nvidia-nccl-cu13`. Where they lie
//! elsewhere, `STRAIGHTLINE_CUDA` names their folders, separated by colons; what NVRTC has compiled is kept in
//! the folder that `STRAIGHTLINE_CUDA_CACHE` names, or in the user's cache.
//!
//! ```
//! use straightline::{Device, Tensor, cuda};
//! // on a machine without a GPU, the same on the CPU
//! let device = if cuda::is_available() { cuda::device(0) } else { Device::CPU };
//! let x = Tensor::with(device).ones([2, 3])?;
//! let y = Tensor::arange(3)?.to_device(device)?;
//! assert_eq!(x.add(&y)?.to_device(Device::CPU)?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! [`cuda::availability`] prints what was found, and what is missing. Operands are on one device, but numbers
//! (tensors without dimensions) may be on the CPU. `Module::set_device` moves a model,
//! [`load_safetensors_on`] reads weights to a device.
//!
//! # Streams
//!
//! A call queues its work on the thread's current stream and returns. Reading data waits, copies from and to the
//! CPU wait (unless `aten::copy_` is told not to), and so does [`cuda::synchronize`]. Work of another stream waits
//! where it is told to; memory that it uses is noted with [`cuda::record_stream`].
//!
//! ```
//! use straightline::{Tensor, cuda};
//! if cuda::is_available() {
//!     let device = cuda::device(0);
//!     let x = Tensor::with(device).ones([4])?;
//!     let (here, side) = (cuda::current_stream(device)?, cuda::stream(device)?);
//!     let y = {
//!         let _current = side.enter();
//!         side.wait_for(&here).expect("it is queued");
//!         cuda::record_stream(&x, &side);
//!         x.exp()?
//!     };
//!     here.wait_for(&side).expect("it is queued");
//!     assert_eq!(y.sum()?.item::<f32>()?, 4.0 * 1f32.exp());
//! }
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! # Compiled functions
//!
//! [`compile()`] works as on the CPU, training steps included. Loops become CUDA C, whose text
//! `Lowered` and `straightline dump --stage cuda` print; sizes are arguments, so that few of them are compiled.
//! From the second call with the same tensors on, what need not be waited for is one CUDA graph, random
//! numbers included. `CompileOptions::autotune` measures arrangements of each kernel instead of
//! predicting the quickest.
//!
//! # What can be asked for
//!
//! - [`use_deterministic_algorithms`]: scatters in one order, so that runs agree to the bit.
//! - [`set_float32_matmul_precision`]: factors of `f32` rounded to TF32.
//! - [`autocast`]: products in half precision.
//! - [`cuda::memory_statistics`], [`cuda::empty_cache`]: what the allocator holds. Out of memory is an error that
//!   says what holds it, and the next call works.
//! - [`cuda::ways`]: which operators ran on the GPU by what means; those without a kernel there run on the CPU and
//!   say so once.
//!
//! [`compile()`]: crate::compile()
//! [`autocast`]: crate::autocast
//! [`cuda::availability`]: crate::cuda::availability
//! [`cuda::synchronize`]: crate::cuda::synchronize
//! [`cuda::record_stream`]: crate::cuda::record_stream
//! [`cuda::memory_statistics`]: crate::cuda::memory_statistics
//! [`cuda::empty_cache`]: crate::cuda::empty_cache
//! [`cuda::ways`]: crate::cuda::ways
//! [`load_safetensors_on`]: crate::load_safetensors_on
//! [`use_deterministic_algorithms`]: crate::use_deterministic_algorithms
//! [`set_float32_matmul_precision`]: crate::set_float32_matmul_precision
