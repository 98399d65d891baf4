//! Random numbers of further distributions, and choices: permutations, samples of categories.
//!
//! All are made in `f64`, of one uniform or normal number each.

use super::KernelError;
use super::random::{Made, draw};
use crate::cpu::kernels::operand::Out;
use crate::rng::Stream;
use std::collections::TryReserveError;
use std::f64::consts::PI;
use straightline_passes::ir::DType;

/// A distribution with its parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Distribution {
    /// The time until an event of this rate.
    Exponential {
        /// The rate.
        lambda: f64,
    },
    /// How many trials until one of this probability succeeds.
    Geometric {
        /// The probability.
        p: f64,
    },
    /// `e` to the power of a normal number.
    LogNormal {
        /// Of the normal number.
        mean: f64,
        /// Of the normal number.
        std: f64,
    },
    /// The quotient of two normal numbers, scaled and moved.
    Cauchy {
        /// Half of the numbers are below.
        median: f64,
        /// The scale.
        sigma: f64,
    },
}

impl Distribution {
    fn draw(self, stream: &mut Stream) -> f64 {
        match self {
            Distribution::Exponential { lambda } => -1.0 / lambda * (-stream.unit_f64()).ln_1p(),
            Distribution::Geometric { p } => (stream.unit_f64().ln() / (-p).ln_1p()).ceil(),
            Distribution::LogNormal { mean, std } => (stream.normal() * std + mean).exp(),
            Distribution::Cauchy { median, sigma } => {
                median + sigma * (PI * (stream.unit_f64() - 0.5)).tan()
            }
        }
    }
}

/// Fills with numbers of a distribution, converted to the dtype of `out`.
pub fn fill(out: Out<'_>, stream: &mut Stream, distribution: Distribution) {
    let out = out.raw();
    // SAFETY: as promised by the caller.
    unsafe { draw(out, stream, |stream| distribution.draw(stream)) };
}

/// The numbers `0..n` in random order, by Fisher and Yates' shuffle.
///
/// # Errors
///
/// There is no memory for them.
pub fn permutation(n: usize, stream: &mut Stream) -> Result<Vec<i64>, TryReserveError> {
    let mut out: Vec<i64> = Vec::new();
    out.try_reserve_exact(n)?;
    out.extend(0..n as i64);
    // where the remainder of 32 bits would be skewed, 64 are drawn and the shuffle goes the other
    // way
    if n < (u32::MAX / 20) as usize {
        for i in 0..n.saturating_sub(1) {
            let j = i + stream.word() as usize % (n - i);
            out.swap(i, j);
        }
    } else {
        for i in 0..n {
            let j = (stream.pair() % (i as u64 + 1)) as usize;
            out.swap(i, j);
        }
    }
    Ok(out)
}

/// The sum of weights as an accumulator of their dtype has it.
trait Sum: Made {
    fn of(x: f64) -> Self;
    fn add(self, x: Self) -> Self;
    /// Of a sum, as `f64`.
    fn part(self, total: Self) -> f64;
}

macro_rules! sums {
    ($($t:ty),*) => {$(
        impl Sum for $t {
            fn of(x: f64) -> $t {
                x as $t
            }
            fn add(self, x: $t) -> $t {
                self + x
            }
            #[allow(clippy::useless_conversion, reason = "one of the two is f64")]
            fn part(self, total: $t) -> f64 {
                f64::from(self / total)
            }
        }
    )*};
}
sums!(f32, f64);

/// `samples` categories for each row of weights (not negative, finite, their sum above 0), drawn
/// with replacement: the first whose share of the running sum reaches a uniform number. Sums are
/// made in `f64` for `f64` weights, else in `f32`.
///
/// # Errors
/// Weights that are not floating-point.
pub fn with_replacement(
    weights: &[f64],
    dtype: DType,
    categories: usize,
    samples: usize,
    stream: &mut Stream,
) -> Result<Vec<i64>, KernelError> {
    if !dtype.is_floating() {
        return Err(KernelError::unsupported("multinomial", dtype));
    }
    let mut out = Vec::new();
    if categories > 0 {
        for row in weights.chunks_exact(categories) {
            let mut shares =
                if dtype == DType::F64 { shares::<f64>(row) } else { shares::<f32>(row) };
            shares[categories - 1] = 1.0;
            for _ in 0..samples {
                let at = stream.unit_f64();
                out.push(shares.partition_point(|share| *share < at) as i64);
            }
        }
    }
    Ok(out)
}

fn shares<T: Sum>(row: &[f64]) -> Vec<f64> {
    let mut total = T::default();
    let sums: Vec<T> = row
        .iter()
        .map(|w| {
            total = total.add(T::of(*w));
            total
        })
        .collect();
    sums.into_iter().map(|sum| sum.part(total)).collect()
}

/// Slopes for the elements of a row-major tensor: a uniform number of `[lower, upper)` for those
/// that are not positive, 1 for the others, which draw none.
pub fn slopes(
    positive: impl Iterator<Item = bool>,
    stream: &mut Stream,
    lower: f64,
    upper: f64,
) -> Vec<f64> {
    positive
        .map(|positive| if positive { 1.0 } else { stream.unit_f64() * (upper - lower) + lower })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::Data;
    use super::*;

    #[test]
    fn distributions_have_their_means() {
        let mut stream = Stream::mt19937(3);
        for (distribution, want) in [
            (Distribution::Exponential { lambda: 0.5 }, 2.0),
            (Distribution::Geometric { p: 0.25 }, 4.0),
            (Distribution::LogNormal { mean: 0.0, std: 0.5 }, 0.125f64.exp()),
        ] {
            let mut x = Data::contiguous(DType::F32, &[40_000]);
            fill(x.out(), &mut stream, distribution);
            let mean = x.values().iter().map(|x| x.as_f64()).sum::<f64>() / 40_000.0;
            assert!((mean / want - 1.0).abs() < 0.03, "{distribution:?} {mean}");
        }
        // a Cauchy distribution has no mean, but quartiles
        let (median, sigma) = (1.0, 2.0);
        let mut x = Data::contiguous(DType::F64, &[40_000]);
        fill(x.out(), &mut stream, Distribution::Cauchy { median, sigma });
        let values = x.values();
        let below = |limit| values.iter().filter(|x| x.as_f64() < limit).count() as f64 / 40_000.0;
        assert!((below(1.0) - 0.5).abs() < 0.02 && (below(3.0) - 0.75).abs() < 0.02);
    }

    #[test]
    fn permutations_hold_every_number_once() {
        let mut stream = Stream::mt19937(3);
        for n in [0, 1, 2, 33, 1000] {
            let mut p = permutation(n, &mut stream).unwrap();
            p.sort_unstable();
            assert_eq!(p, (0..n as i64).collect::<Vec<_>>());
        }
        // each of the six orders of three about as often
        let mut seen = std::collections::HashMap::new();
        for _ in 0..6000 {
            *seen.entry(permutation(3, &mut stream).unwrap()).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|n| (850..1150).contains(n)), "{seen:?}");
    }

    #[test]
    fn categories_come_as_often_as_their_weights() {
        let weights = [1.0, 0.0, 3.0, 6.0];
        for dtype in [DType::F32, DType::F64, DType::F16] {
            let mut stream = Stream::mt19937(3);
            let drawn = with_replacement(&weights, dtype, 4, 20_000, &mut stream).unwrap();
            let mut counts = [0; 4];
            for c in drawn {
                counts[c as usize] += 1;
            }
            assert_eq!(counts[1], 0);
            for (n, w) in counts.iter().zip(weights) {
                assert!((f64::from(*n) / 20_000.0 - w / 10.0).abs() < 0.015, "{counts:?}");
            }
        }
    }

    #[test]
    fn slopes_are_drawn_for_what_is_not_positive() {
        let mut stream = Stream::mt19937(3);
        let drawn = slopes([true, false, true, false].into_iter(), &mut stream, 0.1, 0.3);
        let mut again = Stream::mt19937(3);
        let want: Vec<f64> = (0..2).map(|_| again.unit_f64() * (0.3 - 0.1) + 0.1).collect();
        assert_eq!(drawn, [1.0, want[0], 1.0, want[1]]);
    }
}
