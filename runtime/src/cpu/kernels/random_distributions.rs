//! Random numbers of further distributions, and choices: permutations, samples of categories.
//!
//! As in [`super::random`], element `i` depends on the seed and its position alone. Each takes 64 bits of the stream.

use super::copy::copy;
use super::random::{self, PIECE, join};
use super::{KernelError, Strided};
use crate::rng::Philox;
use straightline_passes::ir::DType;

/// The counter values that a draw of `n` numbers of 64 bits uses up.
pub fn draw_counters(n: usize) -> u64 {
    random::counters(DType::F64, n)
}

/// 64 random bits for each of `n` choices.
fn words(seed: u64, offset: u64, n: usize) -> impl Iterator<Item = u64> {
    let stream = Philox::new(seed, 0, offset);
    (0..n.div_ceil(2) as u64)
        .flat_map(move |i| {
            let [a, b, c, d] = stream.block(i);
            [join(&[a, b]), join(&[c, d])]
        })
        .take(n)
}

/// A number in `[0, 1)` with 53 bits, of 64 random ones.
pub fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

macro_rules! draws {
    ($(#[$doc:meta])* $name:ident $t:ty, $dtype:expr) => {
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// The memory of `out` is what it says and may be written.
        pub unsafe fn $name(
            out: Strided<'_>,
            seed: u64,
            offset: u64,
            make: &(dyn Fn(u64) -> $t + Sync),
        ) -> Result<(), KernelError> {
            let dtype = out.dtype;
            let stream = Philox::new(seed, 0, offset);
            random::generate(out, stream, 2, &|numbers, p, m| {
                let mut x = [0 as $t; PIECE];
                for (x, pair) in x[..m].iter_mut().zip(numbers.chunks_exact(2)) {
                    *x = make(join(pair));
                }
                let (sizes, one) = ([m as i64], [1]);
                let view = |ptr, dtype| Strided { ptr, dtype, sizes: &sizes, strides: &one };
                // SAFETY: m elements each. A conversion exists for every dtype, so the result is always Ok.
                let _ = unsafe { copy(view(p, dtype), view(x.as_mut_ptr().cast(), $dtype)) };
            })
        }
    };
}
draws!(
    /// Fills with `make` of 64 random bits each, converted to the dtype of `out`.
    draw f64, DType::F64
);
draws!(
    /// [`draw`] for integers, which `f64` does not hold.
    draw_integers i64, DType::I64
);

/// An integer in `low .. low + range`; a range of 0 stands for all 2^64.
pub fn integer_in(bits: u64, low: i64, range: u64) -> i64 {
    low.wrapping_add(bits.checked_rem(range).unwrap_or(bits) as i64)
}

/// The numbers `0..n` in random order; uses up [`draw_counters`] of `n`.
pub fn permutation(n: usize, seed: u64, offset: u64) -> Vec<i64> {
    let mut out: Vec<i64> = (0..n as i64).collect();
    for (i, bits) in words(seed, offset, n).enumerate() {
        let j = i + (bits % (n - i) as u64) as usize;
        out.swap(i, j);
    }
    out
}

/// `samples` categories for each row of weights (not negative, finite, their sum above 0), drawn with or without
/// replacement, in the order drawn.
///
/// Uses up [`draw_counters`] of a number per sample with replacement, of one per weight without.
pub fn multinomial(
    weights: &[f64],
    categories: usize,
    samples: usize,
    replacement: bool,
    seed: u64,
    offset: u64,
) -> Vec<i64> {
    if categories == 0 {
        return Vec::new();
    }
    let rows = weights.len() / categories;
    let mut out = Vec::with_capacity(rows * samples);
    let per_row = if replacement { samples } else { categories };
    let mut bits = words(seed, offset, rows * per_row);
    for row in weights.chunks_exact(categories) {
        if replacement {
            let mut total = 0.0;
            let sums: Vec<f64> = row
                .iter()
                .map(|w| {
                    total += w;
                    total
                })
                .collect();
            let last = row.iter().rposition(|w| *w > 0.0).unwrap_or(0);
            out.extend(bits.by_ref().take(samples).map(|b| {
                let at = unit(b) * total;
                sums.partition_point(|s| *s <= at).min(last) as i64
            }));
        } else {
            // a race: category i arrives after an exponential time of rate w_i
            let mut arrivals: Vec<(f64, i64)> = row
                .iter()
                .zip(bits.by_ref().take(categories))
                .enumerate()
                .map(|(i, (w, b))| (-(-unit(b)).ln_1p() / w, i as i64))
                .map(|(t, i)| (if t.is_nan() { f64::INFINITY } else { t }, i))
                .collect();
            arrivals.sort_by(|a, b| a.0.total_cmp(&b.0));
            out.extend(arrivals.iter().take(samples).map(|a| a.1));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations_hold_every_number_once() {
        for n in [0, 1, 2, 33, 1000] {
            let p = permutation(n, 5, 7);
            let mut sorted = p.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..n as i64).collect::<Vec<_>>());
            assert_eq!(p, permutation(n, 5, 7));
        }
        assert_ne!(permutation(33, 5, 7), permutation(33, 6, 7));
        // each of the six orders of three about as often
        let mut seen = std::collections::HashMap::new();
        for seed in 0..6000 {
            *seen.entry(permutation(3, seed, 0)).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|n| (850..1150).contains(n)), "{seen:?}");
    }

    #[test]
    fn categories_come_as_often_as_their_weights() {
        let weights = [1.0, 0.0, 3.0, 6.0];
        let drawn = multinomial(&weights, 4, 20_000, true, 1, 0);
        let mut counts = [0; 4];
        for c in drawn {
            counts[c as usize] += 1;
        }
        assert_eq!(counts[1], 0);
        for (n, w) in counts.iter().zip(weights) {
            assert!(
                (f64::from(*n) / 20_000.0 - w / 10.0).abs() < 0.015,
                "{counts:?}"
            );
        }
        let mut first = [0; 4];
        for seed in 0..5000 {
            let drawn = multinomial(&weights, 4, 3, false, seed, 0);
            let mut sorted = drawn.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 2, 3]);
            first[drawn[0] as usize] += 1;
        }
        assert!(
            (f64::from(first[3]) / 5000.0 - 0.6).abs() < 0.03,
            "{first:?}"
        );
    }
}
