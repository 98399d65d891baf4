//! The Mersenne twister MT19937 of Matsumoto and Nishimura: the engine of PyTorch's CPU generator.
//!
//! The state is 624 words, made anew all at once from the previous 624. Each new word depends on
//! words at least 227 places back, so that the pass and the tempering are loops that vectorise.

use crate::cpu::math;

/// Words of state.
pub const N: usize = 624;
/// How far ahead the word is that is mixed into each.
const M: usize = 397;
const MATRIX: u32 = 0x9908_b0df;
const UPPER: u32 = 0x8000_0000;
const LOWER: u32 = 0x7fff_ffff;

/// The engine.
///
/// ```
/// use straightline_runtime::rng::mt19937::Mt19937;
/// let mut engine = Mt19937::new(5489);
/// let mut numbers = [0; 3];
/// engine.fill(&mut numbers);
/// assert_eq!(numbers, [3499211612, 581869302, 3890346734]);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mt19937 {
    state: [u32; N],
    /// The words left in the state and one more; at 1 the next number makes a new state.
    left: u32,
    /// The word that the next number is made of.
    next: u32,
}

impl Mt19937 {
    /// The engine of a seed.
    pub fn new(seed: u32) -> Mt19937 {
        let mut state = [0; N];
        let mut x = seed;
        for (i, word) in state.iter_mut().enumerate() {
            if i > 0 {
                x = 1_812_433_253u32.wrapping_mul(x ^ (x >> 30)).wrapping_add(i as u32);
            }
            *word = x;
        }
        Mt19937 { state, left: 1, next: 0 }
    }

    /// The engine with this state: its words, one more than the number of words left, and the index
    /// of the next word. `None` if these are inconsistent.
    pub fn from_parts(state: [u32; N], left: u32, next: u32) -> Option<Mt19937> {
        let fits = (1..=N as u32).contains(&left) && next <= N as u32;
        let fits = fits && (left == 1 || left + next == N as u32 + 1);
        fits.then_some(Mt19937 { state, left, next })
    }

    /// What [`Mt19937::from_parts`] takes.
    pub fn parts(&self) -> (&[u32; N], u32, u32) {
        (&self.state, self.left, self.next)
    }

    /// The next number.
    #[inline]
    pub fn word(&mut self) -> u32 {
        if self.left == 1 {
            self.refill();
        }
        let word = self.state[self.next as usize];
        self.next += 1;
        self.left -= 1;
        temper(word)
    }

    /// The next numbers.
    pub fn fill(&mut self, out: &mut [u32]) {
        let mut out = out;
        while !out.is_empty() {
            if self.left == 1 {
                self.refill();
            }
            let first = self.next as usize;
            let n = out.len().min(N - first);
            let (head, tail) = out.split_at_mut(n);
            temper_all(head, &self.state[first..first + n]);
            self.next += n as u32;
            self.left -= n as u32;
            out = tail;
        }
    }

    /// The next 624 words of state.
    fn refill(&mut self) {
        let old = self.state;
        match math::isa() {
            #[cfg(target_arch = "x86_64")]
            math::Isa::Avx512 | math::Isa::Avx2 => {
                // SAFETY: this machine has the features.
                unsafe { twist_avx2(&mut self.state, &old) }
            }
            _ => twist(&mut self.state, &old),
        }
        self.next = 0;
        self.left = N as u32 + 1;
    }
}

/// The high bit of one word joined with the others of the next, times the matrix.
#[inline(always)]
fn mix(u: u32, v: u32) -> u32 {
    (((u & UPPER) | (v & LOWER)) >> 1) ^ (0u32.wrapping_sub(v & 1) & MATRIX)
}

/// Loops in which no word depends on another that the same loop makes.
#[inline(always)]
fn twist(new: &mut [u32; N], old: &[u32; N]) {
    const LAG: usize = N - M;
    #[inline(always)]
    fn pass(new: &mut [u32], far: &[u32], old: &[u32]) {
        for (((new, far), u), v) in new.iter_mut().zip(far).zip(old).zip(&old[1..]) {
            *new = far ^ mix(*u, *v);
        }
    }
    pass(&mut new[..LAG], &old[M..], old);
    let (done, rest) = new.split_at_mut(LAG);
    pass(&mut rest[..LAG], done, &old[LAG..]);
    let (done, rest) = new.split_at_mut(2 * LAG);
    pass(&mut rest[..N - 1 - 2 * LAG], &done[LAG..], &old[2 * LAG..]);
    new[N - 1] = new[M - 1] ^ mix(old[N - 1], new[0]);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn twist_avx2(new: &mut [u32; N], old: &[u32; N]) {
    twist(new, old);
}

#[inline(always)]
fn temper(mut y: u32) -> u32 {
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c_5680;
    y ^= (y << 15) & 0xefc6_0000;
    y ^ (y >> 18)
}

fn temper_all(out: &mut [u32], words: &[u32]) {
    match math::isa() {
        #[cfg(target_arch = "x86_64")]
        math::Isa::Avx512 | math::Isa::Avx2 => {
            // SAFETY: this machine has the features.
            unsafe { temper_avx2(out, words) }
        }
        _ => temper_body(out, words),
    }
}

#[inline(always)]
fn temper_body(out: &mut [u32], words: &[u32]) {
    for (out, word) in out.iter_mut().zip(words) {
        *out = temper(*word);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn temper_avx2(out: &mut [u32], words: &[u32]) {
    temper_body(out, words);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The recurrence as it is written down, one word after the other.
    fn plain(seed: u32, n: usize) -> Vec<u32> {
        let mut s = Mt19937::new(seed).state.to_vec();
        for i in N..N + n {
            s.push(s[i - N + M] ^ mix(s[i - N], s[i - N + 1]));
        }
        s[N..].iter().map(|w| temper(*w)).collect()
    }

    #[test]
    fn known_answers() {
        // the 10000th number of the seed 5489, which the C++ standard names
        let mut engine = Mt19937::new(5489);
        let mut numbers = vec![0; 10_000];
        engine.fill(&mut numbers);
        assert_eq!(numbers[9_999], 4_123_659_995);
        assert_eq!(numbers, plain(5489, 10_000));
    }

    #[test]
    fn pieces_and_single_words_are_the_same_stream() {
        let want = plain(7, 3000);
        let mut engine = Mt19937::new(7);
        let mut got = Vec::new();
        for n in [1, 0, 3, 620, 1, 623, 624, 625, 2].iter().cycle() {
            let mut piece = vec![0; *n];
            engine.fill(&mut piece);
            got.extend(piece);
            got.push(engine.word());
            if got.len() >= want.len() {
                break;
            }
        }
        assert_eq!(got[..3000], want);
    }

    #[test]
    fn a_state_is_checked() {
        let mut engine = Mt19937::new(1);
        for _ in 0..1300 {
            let (state, left, next) = engine.parts();
            let mut again = Mt19937::from_parts(*state, left, next).unwrap();
            assert_eq!(again.word(), engine.word());
            assert_eq!(again, engine);
        }
        for (left, next) in [(0, 0), (625, 0), (5, 700), (5, 5)] {
            assert_eq!(Mt19937::from_parts([0; N], left, next), None);
        }
    }
}
