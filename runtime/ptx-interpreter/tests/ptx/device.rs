//! A device for tests: buffers, parameters, launches in each order of warps.

use straightline_ptx_interpreter::{
    DeviceMemory, Fault, Launch, Loaded, Module, Options, Statistics, WarpOrder, launch,
};

/// Numbers that buffers hold.
pub(crate) trait Plain: Copy {
    const BYTES: usize;
    fn put(self, into: &mut Vec<u8>);
    fn get(from: &[u8]) -> Self;
}

macro_rules! plain {
    ($($t:ty)*) => {$(
        impl Plain for $t {
            const BYTES: usize = size_of::<$t>();
            fn put(self, into: &mut Vec<u8>) {
                into.extend(self.to_le_bytes());
            }
            fn get(from: &[u8]) -> $t {
                <$t>::from_le_bytes(from.try_into().unwrap())
            }
        }
    )*};
}
plain!(u8 u16 u32 u64 i32 i64 f32 f64 half::f16 half::bf16);

/// The bytes of parameters, each aligned to its size.
#[derive(Default, Clone)]
pub(crate) struct Args(Vec<u8>);

impl Args {
    pub(crate) fn with(mut self, value: impl Plain) -> Args {
        fn pad<T: Plain>(bytes: &mut Vec<u8>, _: &T) {
            bytes.resize(bytes.len().next_multiple_of(T::BYTES), 0);
        }
        pad(&mut self.0, &value);
        value.put(&mut self.0);
        self
    }
}

pub(crate) fn args() -> Args {
    Args::default()
}

pub(crate) struct Device {
    pub(crate) memory: DeviceMemory,
    pub(crate) loaded: Loaded,
    pub(crate) options: Options,
}

pub(crate) type Dim = [u32; 3];

pub(crate) const fn x(size: u32) -> Dim {
    [size, 1, 1]
}

impl Device {
    pub(crate) fn new(ptx: &str) -> Device {
        let module = Module::parse(ptx).unwrap();
        let mut memory = DeviceMemory::default();
        let loaded = module.load(&mut memory).unwrap();
        Device { memory, loaded, options: Options::default() }
    }

    pub(crate) fn upload<T: Plain>(&mut self, values: &[T]) -> u64 {
        let mut bytes = Vec::new();
        values.iter().for_each(|value| value.put(&mut bytes));
        let address = self.memory.allocate(bytes.len() as u64).unwrap();
        self.memory.write(address, &bytes).unwrap();
        address
    }

    pub(crate) fn allocate<T: Plain>(&mut self, count: usize) -> u64 {
        self.memory.allocate((count * T::BYTES) as u64).unwrap()
    }

    pub(crate) fn download<T: Plain>(&self, address: u64, count: usize) -> Vec<T> {
        let mut bytes = vec![0; count * T::BYTES];
        self.memory.read(address, &mut bytes).unwrap();
        bytes.chunks_exact(T::BYTES).map(T::get).collect()
    }

    pub(crate) fn attempt(
        &mut self,
        kernel: &str,
        grid: Dim,
        block: Dim,
        dynamic_shared: u32,
        args: &Args,
    ) -> Result<Statistics, Fault> {
        let shape = Launch { grid, block, dynamic_shared, params: &args.0 };
        launch(&self.loaded, kernel, &shape, &mut self.memory, &self.options)
    }

    #[track_caller]
    pub(crate) fn run(&mut self, kernel: &str, grid: Dim, block: Dim, args: &Args) -> Statistics {
        self.run_shared(kernel, grid, block, 0, args)
    }

    #[track_caller]
    pub(crate) fn run_shared(
        &mut self,
        kernel: &str,
        grid: Dim,
        block: Dim,
        dynamic_shared: u32,
        args: &Args,
    ) -> Statistics {
        match self.attempt(kernel, grid, block, dynamic_shared, args) {
            Ok(statistics) => statistics,
            Err(fault) => panic!("{fault}"),
        }
    }
}

/// The orders in which every kernel has to give the same.
pub(crate) const ORDERS: [WarpOrder; 3] =
    [WarpOrder::Forward, WarpOrder::Reverse, WarpOrder::Shuffled(7)];

/// Numbers that look random: the same ones each time.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// In [-1, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    pub(crate) fn floats(&mut self, count: usize, scale: f64) -> Vec<f32> {
        (0..count).map(|_| (self.unit() * scale) as f32).collect()
    }
}

/// The largest difference, relative to the largest reference.
pub(crate) fn error(ours: impl IntoIterator<Item = f64>, reference: &[f64]) -> f64 {
    let largest = reference.iter().fold(0f64, |largest, value| largest.max(value.abs()));
    let differences =
        ours.into_iter().zip(reference).map(|(ours, reference)| (ours - reference).abs());
    differences.fold(
        0f64,
        |worst, difference| if difference.is_nan() { f64::INFINITY } else { worst.max(difference) },
    ) / largest
}

/// Rounds to odd, so that a second rounding to fewer bits gives what one would.
fn odd(value: f64) -> f32 {
    let near = value as f32;
    let bits = near.to_bits();
    if f64::from(near) == value || value.is_nan() || bits & 1 == 1 {
        near
    } else if f64::from(near).abs() > value.abs() {
        f32::from_bits(bits - 1)
    } else {
        f32::from_bits(bits + 1)
    }
}

pub(crate) fn to_f16(value: f64) -> half::f16 {
    half::f16::from_f32(odd(value))
}

pub(crate) fn to_bf16(value: f64) -> half::bf16 {
    half::bf16::from_f32(odd(value))
}
