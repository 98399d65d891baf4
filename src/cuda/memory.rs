//! Devices, their memory and their streams, for users.

use super::copy::driver;
use crate::error::Result;
use crate::tensor::Tensor;
use crate::tensor::on_device::gpu;
use straightline_catalog::{Device, DeviceType};
use straightline_cuda::allocator::Statistics;
use straightline_cuda::driver::{DeviceMemory, Stream};

/// Whether there is a GPU that tensors can be made on, and the compiler for its kernels.
///
/// ```
/// use straightline::cuda;
/// assert!(!cuda::is_available() || cuda::device_count() > 0);
/// ```
pub fn is_available() -> bool {
    device_count() > 0 && straightline_cuda::programs::are_made()
}

/// How many GPUs there are; 0 without a driver.
///
/// ```
/// for i in 0..straightline::cuda::device_count() {
///     println!("{}", straightline::cuda::device(i as i8));
/// }
/// ```
pub fn device_count() -> u32 {
    straightline_cuda::driver::device_count()
}

/// The GPU of a number, as a device of tensors: `"cuda:0".parse()` is the same.
///
/// ```
/// use straightline::{Device, cuda};
/// assert_eq!("cuda:1".parse::<Device>().unwrap(), cuda::device(1));
/// ```
pub fn device(index: i8) -> Device {
    Device { index, ..Device::new(DeviceType::Cuda) }
}

/// Waits for all work of a GPU.
///
/// ```
/// use straightline::cuda;
/// if cuda::is_available() {
///     cuda::synchronize(cuda::device(0))?;
/// }
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
///
/// There is no such GPU, or work on it has failed.
pub fn synchronize(device: Device) -> Result<()> {
    gpu(device)?.synchronize().map_err(driver)
}

/// How much memory of a GPU there is in tensors, and how much is kept for others.
///
/// ```
/// use straightline::{Tensor, cuda};
/// if cuda::is_available() {
///     let before = cuda::memory_statistics(cuda::device(0))?.allocated.now;
///     let x = Tensor::with(cuda::device(0)).zeros([1000])?;
///     assert!(cuda::memory_statistics(cuda::device(0))?.allocated.now >= before + 4000);
/// }
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
///
/// There is no such GPU.
pub fn memory_statistics(device: Device) -> Result<Statistics> {
    Ok(gpu(device)?.allocator().statistics())
}

/// Lets the peaks of a GPU's statistics begin at what is now.
///
/// ```
/// use straightline::cuda;
/// if cuda::is_available() {
///     cuda::reset_peaks(cuda::device(0))?;
/// }
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
///
/// There is no such GPU.
pub fn reset_peaks(device: Device) -> Result<()> {
    gpu(device)?.allocator().reset_peaks();
    Ok(())
}

/// Gives memory of a GPU that no tensor is in back to the driver, for other processes.
///
/// ```
/// use straightline::cuda;
/// if cuda::is_available() {
///     cuda::empty_cache(cuda::device(0))?;
/// }
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
///
/// There is no such GPU.
pub fn empty_cache(device: Device) -> Result<()> {
    let gpu = gpu(device)?;
    super::program::forget_pools(gpu.ordinal());
    gpu.allocator().empty_cache();
    Ok(())
}

/// A new stream of a GPU, whose work runs beside that of others.
///
/// ```
/// use straightline::{Tensor, cuda};
/// if cuda::is_available() {
///     let side = cuda::stream(cuda::device(0))?;
///     let y = {
///         let _current = side.enter();
///         Tensor::with(cuda::device(0)).ones([4])?.exp()?
///     };
///     side.synchronize()?;
///     assert_eq!(y.sizes(), [4]);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// There is no such GPU, or the driver has no more.
pub fn stream(device: Device) -> Result<Stream> {
    gpu(device)?.new_stream().map_err(driver)
}

/// This thread's current stream of a GPU, on which calls queue their work.
///
/// ```
/// use straightline::cuda;
/// if cuda::is_available() {
///     let device = cuda::device(0);
///     let (now, side) = (cuda::current_stream(device)?, cuda::stream(device)?);
///     assert_ne!(now.id(), side.id());
///     let _current = side.enter();
///     assert_eq!(cuda::current_stream(device)?.id(), side.id());
/// }
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
///
/// There is no such GPU.
pub fn current_stream(device: Device) -> Result<Stream> {
    Ok(gpu(device)?.current_stream())
}

/// Says that work of a stream, other than the one a tensor was made on, uses it: its memory then serves
/// nobody before that work has ended, however early the tensor is dropped. Nothing on other devices.
///
/// ```
/// use straightline::{Tensor, cuda};
/// if cuda::is_available() {
///     let side = cuda::stream(cuda::device(0))?;
///     let x = Tensor::with(cuda::device(0)).ones([4])?;
///     cuda::record_stream(&x, &side);
/// }
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn record_stream(tensor: &Tensor, stream: &Stream) {
    if let Some(memory) = tensor.storage().owner::<DeviceMemory>() {
        memory.record_stream(stream);
    }
}
