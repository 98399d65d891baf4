//! Random number generators: a seed and a position in Philox's stream.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A random number generator.
///
/// The stream is Philox-4x32-10 with PyTorch's counter layout: the seed is the key, the position
/// the low half of the counter. Cloning shares the state.
///
/// ```
/// use straightline::Generator;
/// let g = Generator::new(42);
/// assert_eq!(g.seed(), 42);
/// ```
#[derive(Clone, Debug)]
pub struct Generator(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    seed: u64,
    offset: u64,
}

impl Generator {
    /// A generator at the start of a seed's stream.
    pub fn new(seed: u64) -> Generator {
        Generator(Arc::new(Mutex::new(State { seed, offset: 0 })))
    }

    /// The generator that operators use when none is given.
    pub fn default_cpu() -> &'static Generator {
        static DEFAULT: OnceLock<Generator> = OnceLock::new();
        // PyTorch's default seed
        DEFAULT.get_or_init(|| Generator::new(67_280_421_310_721))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.lock().seed
    }

    /// Starts the stream of a seed anew.
    pub fn set_seed(&self, seed: u64) {
        *self.lock() = State { seed, offset: 0 };
    }

    /// Takes `count` positions of the stream: the seed and the first position.
    pub(crate) fn advance(&self, count: u64) -> (u64, u64) {
        let mut s = self.lock();
        let at = s.offset;
        s.offset = s.offset.wrapping_add(count);
        (s.seed, at)
    }
}

/// Seeds the default generator.
///
/// ```
/// use straightline::{DType, Device, Tensor, manual_seed};
/// manual_seed(7);
/// let a = Tensor::randn(&[4], DType::F32, Device::CPU)?;
/// manual_seed(7);
/// let b = Tensor::randn(&[4], DType::F32, Device::CPU)?;
/// assert_eq!(a.to_vec::<f32>()?, b.to_vec::<f32>()?);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn manual_seed(seed: u64) {
    Generator::default_cpu().set_seed(seed);
}
