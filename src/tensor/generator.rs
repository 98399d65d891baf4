//! Random number generators: a stream of random bits, and the lock that fills hold.

use super::Tensor;
use super::watcher;
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use straightline_catalog::{DType, Device, DeviceType};
use straightline_runtime::rng::Stream;

/// PyTorch's default seed.
const SEED: u64 = 67_280_421_310_721;

/// A random number generator. Cloning shares the state.
///
/// Its engine is the Mersenne twister that PyTorch's CPU generator has, and operators take its
/// numbers as PyTorch's CPU kernels do: the same seed gives the same tensors, bit for bit but for
/// the last digits of logarithms and cosines in `normal_`. [`Generator::philox`] has PyTorch's
/// other engine, the one of its accelerators.
///
/// An operator that fills a tensor holds the generator until it is done; threads that share one
/// take turns. In a compiled function each call draws anew, in the order in which the function was
/// written.
///
/// ```
/// use straightline::{Generator, Tensor};
/// let g = Generator::new(42);
/// assert_eq!(g.initial_seed(), 42);
/// let first = Tensor::with(&g).randn([4])?;
/// g.set_seed(42);
/// let again = Tensor::with(&g).randn([4])?;
/// assert_eq!(first.to_vec::<f32>()?, again.to_vec::<f32>()?);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Generator(Arc<Mutex<Stream>>);

impl Generator {
    /// A generator of PyTorch's CPU stream, MT19937, at the start of a seed's numbers. The engine
    /// takes the low 32 bits of the seed.
    pub fn new(seed: u64) -> Generator {
        Generator::of(Stream::mt19937(seed))
    }

    /// A generator with Philox-4x32-10 as its engine: the seed is the key, and the numbers
    /// of counter 0, 1, 2, ... come one after another.
    ///
    /// ```
    /// use straightline::{Generator, Tensor};
    /// let (philox, twister) = (Generator::philox(0), Generator::new(0));
    /// let draw = |g| Tensor::with(g).randn([4])?.to_vec::<f32>();
    /// assert_ne!(draw(&philox)?, draw(&twister)?);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn philox(seed: u64) -> Generator {
        Generator::of(Stream::philox(seed))
    }

    fn of(stream: Stream) -> Generator {
        Generator(Arc::new(Mutex::new(stream)))
    }

    /// The generator that operators use when none is given.
    pub fn default_cpu() -> &'static Generator {
        static DEFAULT: OnceLock<Generator> = OnceLock::new();
        DEFAULT.get_or_init(|| Generator::new(SEED))
    }

    /// The generator that operators on a device use when none is given: the CPU's, or one of
    /// [Philox](Generator::philox) for each accelerator. [`manual_seed`] seeds them all.
    ///
    /// ```
    /// use straightline::{Device, DeviceType, Generator, manual_seed};
    /// let gpu = Device::new(DeviceType::Cuda);
    /// manual_seed(3);
    /// assert_eq!(Generator::default_of(gpu).initial_seed(), 3);
    /// assert_eq!(Generator::default_of(Device::CPU).initial_seed(), 3);
    /// ```
    pub fn default_of(device: Device) -> Generator {
        if device.is_cpu() {
            return Generator::default_cpu().clone();
        }
        let mut all = accelerators();
        let seed = all.seed;
        let of = (device.kind as u8, device.index.max(0));
        all.generators.entry(of).or_insert_with(|| Generator::philox(seed)).clone()
    }

    /// Takes words of all subsequences for a kernel of an accelerator: seed and offset.
    #[cfg(feature = "cuda")]
    pub(crate) fn take(&self, words: u64) -> Result<(u64, u64)> {
        self.lock().take(words).ok_or_else(|| {
            Error::runtime(
                "expected a generator of an accelerator, as `Generator::philox` makes them, but found one of the CPU",
            )
        })
    }

    /// Whether it is the one that operators on a device use when none is given. Of devices that compute
    /// nothing it is the CPU's.
    pub(crate) fn is_default_of(&self, device: Device) -> bool {
        match device.kind == DeviceType::Cuda {
            true => Arc::ptr_eq(&self.0, &Generator::default_of(device).0),
            false => Arc::ptr_eq(&self.0, &Generator::default_cpu().0),
        }
    }

    /// The stream, held for the length of a fill.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Stream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The seed that the numbers began with. Like the methods below, it cannot be captured by
    /// `compile()`.
    #[track_caller]
    pub fn initial_seed(&self) -> u64 {
        let _ = captured("initial_seed() of a generator");
        self.lock().seed()
    }

    /// Starts the numbers of a seed from the beginning (PyTorch's `Generator.manual_seed`).
    #[track_caller]
    pub fn set_seed(&self, seed: u64) {
        if captured("seeding a generator").is_ok() {
            self.reseed(seed);
        }
    }

    fn reseed(&self, seed: u64) {
        self.lock().reseed(seed);
    }

    /// Seeds the generator unpredictably, and returns the seed.
    ///
    /// ```
    /// use straightline::Generator;
    /// let g = Generator::new(42);
    /// let seed = g.seed();
    /// assert_eq!(g.initial_seed(), seed);
    /// ```
    #[track_caller]
    pub fn seed(&self) -> u64 {
        if captured("seeding a generator").is_err() {
            return self.lock().seed();
        }
        // the standard library keys its hashes with randomness of the system
        let seed = std::hash::RandomState::new().build_hasher().finish();
        self.reseed(seed);
        seed
    }

    /// The complete state of the generator, as bytes. Those of the Mersenne twister are
    /// PyTorch's: `torch.set_rng_state` takes them, and [`Generator::set_state`] takes those of
    /// `torch.get_rng_state`.
    ///
    /// ```
    /// use straightline::{Generator, Tensor};
    /// let g = Generator::new(1);
    /// let state = g.state()?;
    /// let draw = || Tensor::with(&g).randn([3])?.to_vec::<f32>();
    /// let first = draw()?;
    /// g.set_state(&state)?;
    /// assert_eq!(first, draw()?);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is no memory for it; a function is being captured.
    #[track_caller]
    pub fn state(&self) -> Result<Tensor> {
        captured("state() of a generator")?;
        let bytes = self.lock().state();
        Tensor::from_vec(bytes, -1)
    }

    /// Restores a saved state.
    ///
    /// # Errors
    /// The bytes are not a state of a generator with this engine; the generator is then unchanged.
    /// A function is being captured.
    #[track_caller]
    pub fn set_state(&self, state: &Tensor) -> Result<()> {
        captured("set_state() of a generator")?;
        ensure_dtype!(
            state.dtype() == DType::U8,
            "a generator's state is a tensor of bytes, not of {}",
            state.dtype().torch_name()
        );
        let bytes = state.to_vec::<u8>()?;
        let outcome = self.lock().set_state(&bytes);
        outcome.map_err(|e| Error::runtime(e.to_string()))
    }
}

/// The generators of accelerators that operators use when none is given.
struct Accelerators {
    /// What those begin with that are not there yet.
    seed: u64,
    generators: BTreeMap<(u8, i8), Generator>,
}

fn accelerators() -> MutexGuard<'static, Accelerators> {
    static ALL: Mutex<Accelerators> =
        Mutex::new(Accelerators { seed: SEED, generators: BTreeMap::new() });
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Seeds the default generators of all devices. Random operators then give what PyTorch's give on the CPU after
/// `torch.manual_seed`; see [`Generator`].
///
/// ```
/// use straightline::{Tensor, manual_seed};
/// manual_seed(0);
/// let a = Tensor::rand([3])?;
/// assert_eq!(a.to_vec::<f32>()?, [0.4962566, 0.7682218, 0.08847743]);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// A function that does so cannot be captured by [`compile()`](crate::compile()): seed before the
/// call.
#[track_caller]
pub fn manual_seed(seed: u64) {
    if captured("seeding a generator").is_err() {
        return;
    }
    Generator::default_cpu().reseed(seed);
    let mut all = accelerators();
    all.seed = seed;
    all.generators.values().for_each(|g| g.reseed(seed));
}

/// Fails while a function is captured, which also ends the capture.
#[track_caller]
fn captured(what: &str) -> Result<()> {
    watcher::check(what, "a compiled call draws numbers and does not seed: do it before the call")
}
