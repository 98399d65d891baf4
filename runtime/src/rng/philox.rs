//! Counter-based random numbers: Philox-4x32-10.
//!
//! The numbers are a function of seed and position, with no state between them: any thread can make
//! any part of a stream, on any vectors, and it is the same stream. The layout is that of PyTorch's
//! engine: the seed is the key, the offset the low half of the counter, the subsequence the high
//! half, and each counter value gives four 32-bit numbers.

const MULTIPLIER_0: u32 = 0xd251_1f53;
const MULTIPLIER_1: u32 = 0xcd9e_8d57;
const WEYL_0: u32 = 0x9e37_79b9;
const WEYL_1: u32 = 0xbb67_ae85;
const ROUNDS: usize = 10;

/// Counter values that [`Philox::fill`] computes side by side.
const WIDTH: usize = 16;

/// The numbers of a seed, by position.
///
/// ```
/// use straightline_runtime::rng::Philox;
/// let stream = Philox::new(42, 0, 0);
/// let mut all = [0; 12];
/// stream.fill(0, &mut all);
/// assert_eq!(all[8..], stream.block(2));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Philox {
    seed: u64,
    subsequence: u64,
    offset: u64,
}

impl Philox {
    /// The stream of a seed, from counter value `offset` of a subsequence on.
    pub fn new(seed: u64, subsequence: u64, offset: u64) -> Philox {
        Philox { seed, subsequence, offset }
    }

    /// The four numbers of the `index`-th counter value from the offset on. The counter is 128 bits
    /// wide, so running past the offset's 64 carries into the subsequence.
    pub fn block(&self, index: u64) -> [u32; 4] {
        let (low, carry) = self.offset.overflowing_add(index);
        let high = self.subsequence.wrapping_add(u64::from(carry));
        let counter = [low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32];
        philox([self.seed as u32, (self.seed >> 32) as u32], counter)
    }

    /// The numbers of the counter values from the `index`-th on, in order; the last may be used in
    /// part.
    pub fn fill(&self, index: u64, out: &mut [u32]) {
        match crate::cpu::math::isa() {
            #[cfg(target_arch = "x86_64")]
            crate::cpu::math::Isa::Avx512 | crate::cpu::math::Isa::Avx2 => {
                // SAFETY: this machine has the features.
                unsafe { self.fill_avx2(index, out) }
            }
            _ => self.fill_body(index, out),
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn fill_avx2(&self, index: u64, out: &mut [u32]) {
        self.fill_body(index, out);
    }

    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // k is a lane of several arrays
    fn fill_body(&self, index: u64, out: &mut [u32]) {
        let mut index = index;
        let mut chunks = out.chunks_exact_mut(4 * WIDTH);
        for chunk in &mut chunks {
            let mut c = [[0u32; WIDTH]; 4];
            for k in 0..WIDTH {
                let (low, carry) = self.offset.overflowing_add(index.wrapping_add(k as u64));
                let high = self.subsequence.wrapping_add(u64::from(carry));
                c[0][k] = low as u32;
                c[1][k] = (low >> 32) as u32;
                c[2][k] = high as u32;
                c[3][k] = (high >> 32) as u32;
            }
            let mut key = [self.seed as u32, (self.seed >> 32) as u32];
            for _ in 0..ROUNDS {
                // a loop over lanes, which the compiler turns into vectors
                for k in 0..WIDTH {
                    let p0 = u64::from(MULTIPLIER_0) * u64::from(c[0][k]);
                    let p1 = u64::from(MULTIPLIER_1) * u64::from(c[2][k]);
                    c[0][k] = (p1 >> 32) as u32 ^ c[1][k] ^ key[0];
                    c[2][k] = (p0 >> 32) as u32 ^ c[3][k] ^ key[1];
                    c[1][k] = p1 as u32;
                    c[3][k] = p0 as u32;
                }
                key = bump(key);
            }
            for k in 0..WIDTH {
                for (lane, c) in c.iter().enumerate() {
                    chunk[4 * k + lane] = c[k];
                }
            }
            index = index.wrapping_add(WIDTH as u64);
        }
        for piece in chunks.into_remainder().chunks_mut(4) {
            piece.copy_from_slice(&self.block(index)[..piece.len()]);
            index = index.wrapping_add(1);
        }
    }
}

/// [`Philox`] as an engine: its numbers one after another.
#[derive(Clone, Debug)]
pub(super) struct Words {
    seed: u64,
    /// How many numbers were taken; after 2^64 of them the stream starts anew.
    position: u64,
}

impl Words {
    pub(super) fn new(seed: u64, position: u64) -> Words {
        Words { seed, position }
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn fill(&mut self, out: &mut [u32]) {
        let stream = Philox::new(self.seed, 0, 0);
        let (block, used) = (self.position / 4, (self.position % 4) as usize);
        self.position = self.position.wrapping_add(out.len() as u64);
        let mut out = out;
        let mut next = block;
        if used > 0 {
            // the rest of a block that an earlier call began
            let n = out.len().min(4 - used);
            let (head, tail) = out.split_at_mut(n);
            head.copy_from_slice(&stream.block(block)[used..used + n]);
            (out, next) = (tail, block + 1);
        }
        stream.fill(next, out);
    }
}

#[inline(always)]
fn bump(key: [u32; 2]) -> [u32; 2] {
    [key[0].wrapping_add(WEYL_0), key[1].wrapping_add(WEYL_1)]
}

/// Ten rounds on one counter value.
fn philox(mut key: [u32; 2], mut c: [u32; 4]) -> [u32; 4] {
    for _ in 0..ROUNDS {
        let p0 = u64::from(MULTIPLIER_0) * u64::from(c[0]);
        let p1 = u64::from(MULTIPLIER_1) * u64::from(c[2]);
        c = [
            (p1 >> 32) as u32 ^ c[1] ^ key[0],
            p1 as u32,
            (p0 >> 32) as u32 ^ c[3] ^ key[1],
            p0 as u32,
        ];
        key = bump(key);
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published test vectors of Random123: counter, key, result.
    #[test]
    fn known_answers() {
        for (counter, key, want) in [
            ([0; 4], [0; 2], [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]),
            (
                [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
                [0xa4093822, 0x299f31d0],
                [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
            ),
        ] {
            assert_eq!(philox(key, counter), want);
            let join = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
            let stream = Philox::new(
                join(key[0], key[1]),
                join(counter[2], counter[3]),
                join(counter[0], counter[1]),
            );
            assert_eq!(stream.block(0), want);
            let mut many = [0; 200];
            stream.fill(0, &mut many);
            assert_eq!(many[..4], want);
        }
    }

    #[test]
    fn any_part_is_the_same_stream() {
        // the offset overflows on the way
        let stream = Philox::new(7, 3, u64::MAX - 20);
        let mut all = vec![0; 4 * 150];
        stream.fill(0, &mut all);
        for first in [0, 1, 15, 16, 17, 40, 149] {
            for n in [1, 4, 5, 63, 64, 65, 200] {
                let from = 4 * first as usize;
                let n = n.min(all.len() - from);
                let mut part = vec![0; n];
                stream.fill(first, &mut part);
                assert_eq!(part, all[from..from + n]);
            }
        }
    }
}
