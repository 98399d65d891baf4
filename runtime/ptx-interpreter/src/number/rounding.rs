//! Arithmetic with the rounding that an instruction names.
//!
//! Results of single precision are computed in double precision and rounded to odd there: what is
//! inexact ends in a one, so that a second rounding, in any direction, gives what one rounding would.

use super::narrow::Rounding;

/// `sum` with its error, rounded to odd.
#[inline(always)]
fn odd(rounded: f64, error: f64) -> f64 {
    let bits = rounded.to_bits();
    let towards_zero = (error > 0.0) != (rounded > 0.0);
    let inexact = error != 0.0 && error.is_finite() && bits & 1 == 0;
    let moved = if towards_zero { bits.wrapping_sub(1) } else { bits + 1 };
    if inexact { f64::from_bits(moved) } else { rounded }
}

/// The error of `a + b = sum`.
#[inline(always)]
fn sum_error(a: f64, b: f64, sum: f64) -> f64 {
    let b_part = sum - a;
    (a - (sum - b_part)) + (b - b_part)
}

#[inline(always)]
pub(crate) fn add_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    odd(sum, sum_error(a, b, sum))
}

/// `a * b + c`, rounded to odd; the product of two numbers of single precision is exact.
#[inline(always)]
pub(crate) fn fma_odd(a: f32, b: f32, c: f32) -> f64 {
    add_odd(f64::from(a) * f64::from(b), f64::from(c))
}

#[inline(always)]
pub(crate) fn fma_32(a: f32, b: f32, c: f32) -> f32 {
    fma_odd(a, b, c) as f32
}

pub(crate) fn divide_odd(a: f32, b: f32) -> f64 {
    let (a, b) = (f64::from(a), f64::from(b));
    let quotient = a / b;
    let rest = (-quotient).mul_add(b, a);
    odd(quotient, if b < 0.0 { -rest } else { rest })
}

pub(crate) fn sqrt_odd(a: f32) -> f64 {
    let a = f64::from(a);
    let root = a.sqrt();
    odd(root, (-root).mul_add(root, a))
}

/// Rounds what was rounded to odd.
#[inline(always)]
pub(crate) fn to_single(value: f64, rounding: Rounding) -> f32 {
    let nearest = value as f32;
    let below = f64::from(nearest) < value;
    let above = f64::from(nearest) > value;
    match rounding {
        Rounding::Nearest | Rounding::Away => nearest,
        Rounding::Down if above => nearest.next_down(),
        Rounding::Up if below => nearest.next_up(),
        Rounding::Zero if above && value > 0.0 => nearest.next_down(),
        Rounding::Zero if below && value < 0.0 => nearest.next_up(),
        _ => nearest,
    }
}

/// The sign of an exact sum: an expansion without overlaps, whose last part decides.
fn sign_of_sum(terms: &[f64]) -> f64 {
    let mut expansion: Vec<f64> = Vec::with_capacity(terms.len());
    for &term in terms {
        let mut carried = term;
        for part in &mut expansion {
            let sum = carried + *part;
            *part = sum_error(carried, *part, sum);
            carried = sum;
        }
        expansion.push(carried);
    }
    expansion.iter().rev().copied().find(|&part| part != 0.0).unwrap_or(0.0)
}

/// A result to nearest, moved by the sign of what is missing from it.
fn direct(nearest: f64, missing: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Down if missing < 0.0 => nearest.next_down(),
        Rounding::Up if missing > 0.0 => nearest.next_up(),
        Rounding::Zero if missing < 0.0 && nearest > 0.0 => nearest.next_down(),
        Rounding::Zero if missing > 0.0 && nearest < 0.0 => nearest.next_up(),
        _ => nearest,
    }
}

pub(crate) fn add_64(a: f64, b: f64, rounding: Rounding) -> f64 {
    let sum = a + b;
    match rounding {
        Rounding::Nearest => sum,
        _ => direct(sum, sign_of_sum(&[a, b, -sum]), rounding),
    }
}

pub(crate) fn mul_64(a: f64, b: f64, rounding: Rounding) -> f64 {
    let product = a * b;
    match rounding {
        Rounding::Nearest => product,
        _ => direct(product, a.mul_add(b, -product), rounding),
    }
}

pub(crate) fn fma_64(a: f64, b: f64, c: f64, rounding: Rounding) -> f64 {
    let result = a.mul_add(b, c);
    if rounding == Rounding::Nearest {
        return result;
    }
    let product = a * b;
    let error = a.mul_add(b, -product);
    direct(result, sign_of_sum(&[product, error, c, -result]), rounding)
}

pub(crate) fn div_64(a: f64, b: f64, rounding: Rounding) -> f64 {
    let quotient = a / b;
    let rest = (-quotient).mul_add(b, a);
    direct(quotient, if b < 0.0 { -rest } else { rest }, rounding)
}

pub(crate) fn sqrt_64(a: f64, rounding: Rounding) -> f64 {
    let root = a.sqrt();
    direct(root, (-root).mul_add(root, a), rounding)
}

/// A sign for subnormal numbers, which flush to zero.
#[inline(always)]
pub(crate) fn flush(value: f32) -> f32 {
    let bits = value.to_bits();
    if bits & 0x7f80_0000 == 0 { f32::from_bits(bits & 0x8000_0000) } else { value }
}

/// Between 0 and 1, where a NaN is 0.
#[inline(always)]
pub(crate) fn saturate(value: f32) -> f32 {
    if value > 0.0 { if value < 1.0 { value } else { 1.0 } } else { 0.0 }
}

#[inline(always)]
pub(crate) fn saturate_64(value: f64) -> f64 {
    if value > 0.0 { if value < 1.0 { value } else { 1.0 } } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_double_precision_loses_still_counts() {
        let a = 1.0 + 2f32.powi(-12);
        let (tie, tiny) = (1.0 + 2f32.powi(-11), 2f32.powi(-60));
        assert_eq!(fma_32(a, a, 0.0), tie);
        assert_eq!(fma_32(a, a, -tiny), tie);
        assert_eq!(fma_32(a, a, tiny), tie.next_up());
        assert_eq!(to_single(add_odd(1.0, tiny.into()), Rounding::Up), 1f32.next_up());
        assert_eq!(to_single(add_odd(1.0, -f64::from(tiny)), Rounding::Zero), 1f32.next_down());
        assert_eq!(to_single(divide_odd(1.0, 3.0), Rounding::Down), 1.0f32 / 3.0 - 2f32.powi(-25));
    }

    proptest! {
        #[test]
        fn fma_is_that_of_the_machine(a: u32, b: u32, c: u32) {
            let [a, b, c] = [a, b, c].map(f32::from_bits);
            let (ours, reference) = (fma_32(a, b, c), a.mul_add(b, c));
            prop_assert!(ours == reference || (ours.is_nan() && reference.is_nan()), "{ours:e} {reference:e}");
        }

        #[test]
        fn fma_cancels_exactly(a in 1.0f32..2.0, b in 1.0f32..2.0, ulps in -4i32..4) {
            let c = -f32::from_bits(((a * b).to_bits() as i32 + ulps) as u32);
            prop_assert_eq!(fma_32(a, b, c), a.mul_add(b, c));
        }

        #[test]
        fn directions_bracket(a: f32, b: f32) {
            prop_assume!(a.is_finite() && b.is_finite() && b != 0.0);
            for value in [add_odd(a.into(), b.into()), fma_odd(a, b, 0.0), divide_odd(a, b), sqrt_odd(a.abs())] {
                let (down, up) = (to_single(value, Rounding::Down), to_single(value, Rounding::Up));
                prop_assert!(f64::from(down) <= value && value <= f64::from(up));
                prop_assert!(down == up || down.next_up() == up);
                let nearest = to_single(value, Rounding::Nearest);
                prop_assert!(nearest == down || nearest == up);
            }
            prop_assert_eq!(to_single(divide_odd(a, b), Rounding::Nearest), a / b);
            prop_assert_eq!(to_single(sqrt_odd(a.abs()), Rounding::Nearest), a.abs().sqrt());
            prop_assert_eq!(to_single(add_odd(a.into(), b.into()), Rounding::Nearest), a + b);
        }

        #[test]
        fn doubles_bracket(a in -1e100f64..1e100, b in 1e-100f64..1e100, c in -1e150f64..1e150) {
            type Operation = fn(f64, f64, f64, Rounding) -> f64;
            let operations: [Operation; 5] = [
                |a, b, _, r| add_64(a, b, r),
                |a, b, _, r| mul_64(a, b, r),
                |a, b, c, r| fma_64(a, b, c, r),
                |a, b, _, r| div_64(a, b, r),
                |a, _, _, r| sqrt_64(a.abs(), r),
            ];
            for operation in operations {
                let [nearest, down, up, zero] = [Rounding::Nearest, Rounding::Down, Rounding::Up, Rounding::Zero]
                    .map(|rounding| operation(a, b, c, rounding));
                prop_assert!(down <= nearest && nearest <= up);
                prop_assert!(down == up || down.next_up() == up);
                prop_assert_eq!(zero, if nearest > 0.0 { down } else { up });
            }
        }
    }
}
