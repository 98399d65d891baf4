//! Memory of the first device for tests of kernels: a GPU, or the mock of one.

use crate::driver::{self, DeviceMemory, Stream};
use crate::nvrtc::{self, CompileError, Target};

/// The first device's stream; without a device a line that says why.
pub(crate) fn stream() -> Option<Stream> {
    if driver::device_count() == 0 || !crate::availability().nvrtc.is_here() {
        eprintln!("skipped, for want of a GPU:\n{}", crate::availability());
        return None;
    }
    Some(driver::device(0).expect("there is one").current_stream())
}

/// Elements on the device.
pub(crate) fn given<T: Copy>(stream: &Stream, elements: &[T]) -> DeviceMemory {
    let bytes = size_of_val(elements);
    let memory = DeviceMemory::new(stream, bytes).expect("memory");
    // SAFETY: both have so many bytes; pageable memory has been read when this returns.
    unsafe { stream.to_device(memory.address(), elements.as_ptr().cast(), bytes) }.expect("a copy");
    memory
}

/// Room for so many elements.
pub(crate) fn room<T>(stream: &Stream, count: usize) -> DeviceMemory {
    DeviceMemory::new(stream, count * size_of::<T>()).expect("memory")
}

/// The elements that are there when the stream has come so far.
pub(crate) fn taken<T: Copy + Default>(
    stream: &Stream,
    memory: &DeviceMemory,
    count: usize,
) -> Vec<T> {
    let mut all = vec![T::default(); count];
    // SAFETY: there is room, which lives until the stream has been waited for.
    unsafe { stream.to_host(all.as_mut_ptr().cast(), memory.address(), count * size_of::<T>()) }
        .expect("a copy");
    stream.synchronize().expect("the kernels run");
    all
}

/// Numbers that look random, the same in each run.
pub(crate) fn numbers(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        // splitmix64
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    })
}

/// Compiles a program for a GPU of compute capability 9.0 and says which kernels have too few registers.
pub(crate) fn assert_no_spills(text: &str) {
    match nvrtc::compile(text, Target::Cubin { capability: 90 }) {
        Ok(binary) => {
            for r in &binary.resources {
                assert_eq!(r.spilled, (0, 0), "{r:?}");
            }
        }
        Err(CompileError::Unavailable { reason }) => eprintln!("skipped: {reason}"),
        Err(e) => panic!("{e}\n{text}"),
    }
}
