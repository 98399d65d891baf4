//! Random bits: engines, and a stream of numbers from one of them.
//!
//! A [`Stream`] is what fills draw from, one after another. Its engine is [`mt19937`], as in
//! PyTorch's CPU generator, or [`philox`], as in PyTorch's generators of accelerators; how the bits
//! are used does not depend on the engine.

pub mod mt19937;
pub mod philox;

use mt19937::{Mt19937, N};
pub use philox::Philox;

/// Where the bits come from.
#[derive(Clone, Debug)]
enum Engine {
    Mt19937(Box<Mt19937>),
    Philox(philox::Words),
}

/// A stream of random numbers: an engine at some point of its sequence, and the normal number that
/// was made but not asked for yet.
///
/// ```
/// use straightline_runtime::rng::Stream;
/// let mut stream = Stream::mt19937(0);
/// // what PyTorch's `rand(1)` gives after `manual_seed(0)`
/// assert_eq!(stream.unit_f32(), 0.496_256_6);
/// ```
#[derive(Clone, Debug)]
pub struct Stream {
    engine: Engine,
    seed: u64,
    next_normal: Option<f64>,
    /// A sample that saved states of PyTorch can carry and that no operator here takes.
    next_normal_f32: Option<f32>,
}

/// Bytes that are not a generator's state.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StateError {
    /// The state of another engine, or none.
    #[error("a state of this generator has {expected} bytes, not {found}")]
    Size {
        /// The bytes of a state.
        expected: usize,
        /// The bytes given.
        found: usize,
    },
    /// The bytes contradict each other.
    #[error("the bytes are not a state of a Mersenne twister")]
    Invalid,
}

/// The size of a saved state of [`Stream::mt19937`].
const MT19937_STATE: usize = 5056;
/// The size of a saved state of [`Stream::philox`].
const PHILOX_STATE: usize = 32;
/// The size of a state that PyTorch's generators of CUDA save.
const CUDA_STATE: usize = 16;

impl Stream {
    /// The stream of the Mersenne twister. The engine is seeded with the seed's low 32 bits.
    pub fn mt19937(seed: u64) -> Stream {
        Stream::of(Engine::Mt19937(Box::new(Mt19937::new(seed as u32))), seed)
    }

    /// The stream of Philox-4x32-10 with the seed as key.
    pub fn philox(seed: u64) -> Stream {
        Stream::of(Engine::Philox(philox::Words::new(seed, 0)), seed)
    }

    fn of(engine: Engine, seed: u64) -> Stream {
        Stream { engine, seed, next_normal: None, next_normal_f32: None }
    }

    /// The seed that the stream began with.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The stream of another seed, from its beginning, of the same engine.
    pub fn reseed(&mut self, seed: u64) {
        *self = match self.engine {
            Engine::Mt19937(_) => Stream::mt19937(seed),
            Engine::Philox(_) => Stream::philox(seed),
        };
    }

    /// The next 32 bits.
    #[inline]
    pub fn word(&mut self) -> u32 {
        match &mut self.engine {
            Engine::Mt19937(engine) => engine.word(),
            Engine::Philox(words) => {
                let mut word = [0];
                words.fill(&mut word);
                word[0]
            }
        }
    }

    /// The next 64 bits: two words, the higher first.
    #[inline]
    pub fn pair(&mut self) -> u64 {
        let high = self.word();
        join(high, self.word())
    }

    /// The next words, as many as there is room for.
    pub fn fill(&mut self, out: &mut [u32]) {
        match &mut self.engine {
            Engine::Mt19937(engine) => engine.fill(out),
            Engine::Philox(words) => words.fill(out),
        }
    }

    /// A number in `[0, 1)` of the low 24 bits of a word.
    #[inline]
    pub fn unit_f32(&mut self) -> f32 {
        unit_f32(self.word())
    }

    /// A number in `[0, 1)` of the low 53 bits of a pair.
    #[inline]
    pub fn unit_f64(&mut self) -> f64 {
        unit_f64(self.pair())
    }

    /// A normal number of mean 0 and deviation 1, by Box-Muller. Numbers are made in pairs, and the
    /// second waits for the next call.
    pub fn normal(&mut self) -> f64 {
        if let Some(x) = self.next_normal.take() {
            return x;
        }
        let angle = std::f64::consts::TAU * self.unit_f64();
        let length = (-2.0 * (-self.unit_f64()).ln_1p()).sqrt();
        self.next_normal = Some(length * angle.sin());
        length * angle.cos()
    }

    /// Takes words of all subsequences at once, for kernels that draw on many threads: the seed, and the
    /// offset from which so many words are theirs, a multiple of four. `None` for the Mersenne twister,
    /// which has no subsequences.
    ///
    /// ```
    /// use straightline_runtime::rng::Stream;
    /// let mut stream = Stream::philox(7);
    /// assert_eq!((stream.take(8), stream.take(4)), (Some((7, 0)), Some((7, 8))));
    /// assert_eq!(Stream::mt19937(7).take(4), None);
    /// ```
    pub fn take(&mut self, words: u64) -> Option<(u64, u64)> {
        let Engine::Philox(engine) = &mut self.engine else { return None };
        let from = engine.position().checked_next_multiple_of(4).unwrap_or(0);
        *engine = philox::Words::new(self.seed, from.wrapping_add(words));
        Some((self.seed, from))
    }

    /// All that the stream's future depends on. For the Mersenne twister these are the bytes that
    /// PyTorch's CPU generator saves.
    pub fn state(&self) -> Vec<u8> {
        match &self.engine {
            Engine::Mt19937(engine) => {
                let (words, left, next) = engine.parts();
                let mut bytes = Vec::with_capacity(MT19937_STATE);
                bytes.extend(self.seed.to_le_bytes());
                bytes.extend(left.to_le_bytes());
                bytes.extend(1u32.to_le_bytes());
                bytes.extend(u64::from(next).to_le_bytes());
                for word in words {
                    bytes.extend(u64::from(*word).to_le_bytes());
                }
                // of the four fields of the normal number, two are not in use
                bytes.extend(0f64.to_le_bytes());
                bytes.extend(self.next_normal.unwrap_or(0.0).to_le_bytes());
                bytes.extend(0f64.to_le_bytes());
                bytes.extend(u64::from(self.next_normal.is_some()).to_le_bytes());
                bytes.extend(self.next_normal_f32.unwrap_or(0.0).to_le_bytes());
                bytes.extend(u32::from(self.next_normal_f32.is_some()).to_le_bytes());
                bytes
            }
            Engine::Philox(words) => [
                self.seed,
                words.position(),
                self.next_normal.unwrap_or(0.0).to_bits(),
                u64::from(self.next_normal.is_some()),
            ]
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .collect(),
        }
    }

    /// Goes on where a saved state was. A stream of Philox also takes the 16 bytes that PyTorch's generators
    /// of CUDA save: seed and offset.
    ///
    /// # Errors
    /// The bytes are not a state of this engine. The stream is as it was then.
    pub fn set_state(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        let expected = match self.engine {
            Engine::Mt19937(_) => MT19937_STATE,
            Engine::Philox(_) => PHILOX_STATE,
        };
        let theirs = expected == PHILOX_STATE && bytes.len() == CUDA_STATE;
        if bytes.len() != expected && !theirs {
            return Err(StateError::Size { expected, found: bytes.len() });
        }
        let bytes = &[bytes, &[0; PHILOX_STATE - CUDA_STATE][..]].concat()[..];
        let int = |at: usize, size: usize| {
            let bytes = bytes[at..at + size].iter().rev();
            bytes.fold(0u64, |x, byte| x << 8 | u64::from(*byte))
        };
        let (seed, normal, has_normal) = match self.engine {
            Engine::Mt19937(_) => (int(0, 8), int(5024, 8), int(5040, 4) != 0),
            Engine::Philox(_) => (int(0, 8), int(16, 8), int(24, 8) != 0),
        };
        let (engine, single) = match self.engine {
            Engine::Mt19937(_) => {
                let words = std::array::from_fn::<u32, N, _>(|i| int(24 + 8 * i, 8) as u32);
                let seeded = int(12, 4) != 0;
                let next = u32::try_from(int(16, 8)).map_err(|_| StateError::Invalid)?;
                let engine = Mt19937::from_parts(words, int(8, 4) as u32, next);
                let engine = engine.filter(|_| seeded).ok_or(StateError::Invalid)?;
                let single = f32::from_bits(int(5048, 4) as u32);
                let single = (int(5052, 1) != 0).then_some(single);
                (Engine::Mt19937(Box::new(engine)), single)
            }
            Engine::Philox(_) => (Engine::Philox(philox::Words::new(seed, int(8, 8))), None),
        };
        *self = Stream {
            engine,
            seed,
            next_normal: has_normal.then_some(f64::from_bits(normal)),
            next_normal_f32: single,
        };
        Ok(())
    }
}

/// 64 bits of two words.
#[inline]
pub(crate) fn join(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// A number in `[0, 1)` of the low 24 bits.
#[inline]
pub(crate) fn unit_f32(word: u32) -> f32 {
    // through i32, which vectors convert in one step
    (word & 0xff_ffff) as i32 as f32 * (1.0 / (1u32 << 24) as f32)
}

/// A number in `[0, 1)` of the low 53 bits.
#[inline]
pub(crate) fn unit_f64(bits: u64) -> f64 {
    (bits & ((1 << 53) - 1)) as i64 as f64 * (1.0 / (1u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_saved_whole() {
        for mut stream in [Stream::mt19937(1 << 40 | 9), Stream::philox(9)] {
            for n in [0, 1, 2, 700] {
                for _ in 0..n {
                    stream.word();
                }
                for _ in 0..3 {
                    let state = stream.state();
                    let mut again = stream.clone();
                    again.reseed(3);
                    again.set_state(&state).unwrap();
                    assert_eq!(again.seed(), stream.seed());
                    assert_eq!(again.state(), state);
                    assert_eq!(again.normal(), stream.normal());
                    assert_eq!(again.pair(), stream.pair());
                }
            }
            let state = stream.state();
            assert!(matches!(stream.set_state(&state[1..]), Err(StateError::Size { .. })));
            assert_eq!(stream.state(), state);
        }
        let mut stream = Stream::mt19937(0);
        let mut state = stream.state();
        state[8] = 0;
        assert_eq!(stream.set_state(&state), Err(StateError::Invalid));
    }

    #[test]
    fn a_state_of_cuda_is_a_seed_and_an_offset() {
        let mut stream = Stream::philox(1);
        let bytes = [9u64, 40].map(u64::to_le_bytes).concat();
        stream.set_state(&bytes).unwrap();
        assert_eq!(stream.take(4), Some((9, 40)));
        stream.word();
        assert_eq!(stream.take(4), Some((9, 48)));
        assert!(matches!(Stream::mt19937(0).set_state(&bytes), Err(StateError::Size { .. })));
    }

    #[test]
    fn words_of_philox_come_in_order() {
        let mut want = [0; 40];
        Philox::new(5, 0, 0).fill(0, &mut want);
        let mut stream = Stream::philox(5);
        let mut got = Vec::new();
        for n in [1, 2, 3, 0, 5, 1, 1, 1, 9, 17] {
            let mut piece = vec![0; n];
            stream.fill(&mut piece);
            got.extend(piece);
        }
        assert_eq!(got, want);
        stream.reseed(5);
        assert_eq!(stream.pair(), join(want[0], want[1]));
    }
}
