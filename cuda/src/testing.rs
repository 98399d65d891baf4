//! For tests of kernels: a GPU, or the mock of one that `STRAIGHTLINE_CUDA` names; numbers on it, and the
//! same numbers on the host.

use crate::driver::{DeviceMemory, Stream, device, device_count};
use crate::loader::availability;
use crate::nvrtc::{self, CompileError, Target};
use half::{bf16, f16};
use std::sync::{Mutex, MutexGuard, PoisonError};
use straightline_passes::ir::DType;

/// The dtypes of kernels that are written by hand.
pub(crate) const FLOATS: [DType; 4] = [DType::F64, DType::F32, DType::F16, DType::BF16];

/// The first GPU, for one test at a time.
pub(crate) struct Gpu {
    pub(crate) stream: Stream,
    _alone: MutexGuard<'static, ()>,
}

/// Elements on a GPU.
pub(crate) struct Array {
    memory: DeviceMemory,
    dtype: DType,
    len: usize,
}

impl Array {
    pub(crate) fn address(&self) -> u64 {
        self.memory.address()
    }
}

/// `None`, with a line that says why, where there is no GPU or no compiler.
pub(crate) fn gpu() -> Option<Gpu> {
    static ALONE: Mutex<()> = Mutex::new(());
    let found = availability();
    if device_count() == 0 || !found.nvrtc.is_here() {
        assert!(std::env::var_os("STRAIGHTLINE_NEEDS_GPU").is_none(), "{}", availability());
        eprintln!("skipped, for want of a GPU:\n{found}");
        return None;
    }
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let device = device(0).expect("there is one");
    Some(Gpu { stream: device.new_stream().expect("a stream"), _alone: alone })
}

/// A number in the precision of a dtype.
pub(crate) fn rounded(dtype: DType, x: f64) -> f64 {
    match dtype {
        DType::F16 => f16::from_f32(x as f32).to_f64(),
        DType::BF16 => bf16::from_f32(x as f32).to_f64(),
        DType::F32 => f64::from(x as f32),
        _ => x,
    }
}

fn bytes(dtype: DType, x: f64) -> Vec<u8> {
    match dtype {
        DType::F64 => x.to_le_bytes().into(),
        DType::F32 => (x as f32).to_le_bytes().into(),
        DType::F16 => f16::from_f32(x as f32).to_le_bytes().into(),
        DType::BF16 => bf16::from_f32(x as f32).to_le_bytes().into(),
        _ => vec![u8::from(x != 0.0)],
    }
}

fn number(dtype: DType, b: &[u8]) -> f64 {
    match (dtype, b) {
        (DType::F16, &[a, b]) => f16::from_le_bytes([a, b]).to_f64(),
        (DType::BF16, &[a, b]) => bf16::from_le_bytes([a, b]).to_f64(),
        (_, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]).into(),
        (_, &[a, b, c, d, e, f, g, h]) => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => b[0].into(),
    }
}

impl Gpu {
    /// Memory with these numbers.
    pub(crate) fn put(&self, dtype: DType, numbers: &[f64]) -> Array {
        let all: Vec<u8> = numbers.iter().flat_map(|x| bytes(dtype, *x)).collect();
        let memory = DeviceMemory::new(&self.stream, all.len().max(1)).expect("memory");
        // SAFETY: there is room, and pageable memory has been read when it returns.
        unsafe { self.stream.to_device(memory.address(), all.as_ptr(), all.len()) }
            .expect("queued");
        Array { memory, dtype, len: numbers.len() }
    }

    /// The numbers in memory, when the stream has come so far.
    pub(crate) fn get(&self, of: &Array) -> Vec<f64> {
        let size = of.dtype.size();
        let mut all = vec![0u8; of.len * size];
        // SAFETY: there is room, and the stream is waited for.
        unsafe { self.stream.to_host(all.as_mut_ptr(), of.address(), all.len()) }.expect("queued");
        self.stream.synchronize().expect("nothing has failed");
        all.chunks(size).map(|b| number(of.dtype, b)).collect()
    }
}

/// So many numbers, eighths between -2 and 2: exact in all dtypes, and so are sums of their products
/// in `f32`.
pub(crate) fn eighths(count: i64, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) % 33
    };
    (0..count).map(|_| next() as f64 / 8.0 - 2.0).collect()
}

/// Equal, or as close as `tolerance` says of the larger one; NaN is equal to NaN.
pub(crate) fn assert_close(got: &[f64], want: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let same = g == w || g.is_nan() && w.is_nan();
        let close = (g - w).abs() <= tolerance * g.abs().max(w.abs()).max(1.0);
        assert!(same || close, "{what}: element {i} is {g}, not {w}");
    }
}

/// That the kernels of a program need no memory for want of registers, if there is a compiler.
pub(crate) fn assert_no_spills(text: &str, what: &str) {
    match nvrtc::compile(text, Target::Cubin { capability: 90 }) {
        Ok(binary) => {
            for r in &binary.resources {
                assert_eq!(r.spilled, (0, 0), "{what}: {r:?}");
            }
        }
        Err(CompileError::Unavailable { reason }) => eprintln!("skipped: {reason}"),
        Err(e) => panic!("{what}: {e}"),
    }
}

/// The first device's stream; without a device a line that says why.
pub(crate) fn stream() -> Option<Stream> {
    if device_count() == 0 || !availability().nvrtc.is_here() {
        assert!(std::env::var_os("STRAIGHTLINE_NEEDS_GPU").is_none(), "{}", availability());
        eprintln!("skipped, for want of a GPU:\n{}", availability());
        return None;
    }
    Some(device(0).expect("there is one").current_stream())
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
