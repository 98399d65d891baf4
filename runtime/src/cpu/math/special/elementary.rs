//! Small functions without vector code: of bits, of integers, logarithms of sums.

use super::gamma::sin_pi;
use half::{bf16, f16};
use std::f64::consts::PI;

/// `sin(pi x) / (pi x)`, 1 at 0.
pub fn sinc(x: f64) -> f64 {
    if x == 0.0 {
        1.0
    } else if x.is_infinite() {
        f64::NAN
    } else {
        sin_pi(x) / (PI * x)
    }
}

/// `ln(x / (1 - x))`.
pub fn logit(x: f64) -> f64 {
    (x / (1.0 - x)).ln()
}

/// `ln(e^a + e^b)`.
pub fn logaddexp(a: f64, b: f64) -> f64 {
    if a.is_infinite() && a == b {
        return a;
    }
    if a.is_nan() || b.is_nan() {
        return f64::NAN;
    }
    a.max(b) + (-(a - b).abs()).exp().ln_1p()
}

/// `log2(2^a + 2^b)`.
pub fn logaddexp2(a: f64, b: f64) -> f64 {
    if a.is_infinite() && a == b {
        return a;
    }
    if a.is_nan() || b.is_nan() {
        return f64::NAN;
    }
    a.max(b) + (-(a - b).abs()).exp2().ln_1p() * std::f64::consts::LOG2_E
}

/// The size of `a` with the sign of `b`.
pub fn copysign(a: f64, b: f64) -> f64 {
    a.copysign(b)
}

/// The larger; a number wins over NaN.
pub fn fmax(a: f64, b: f64) -> f64 {
    if a.is_nan() || b > a { b } else { a }
}

/// The smaller; a number wins over NaN.
pub fn fmin(a: f64, b: f64) -> f64 {
    if a.is_nan() || b < a { b } else { a }
}

/// 0 below 0, 1 above, `at_zero` at 0; 0 for NaN.
pub fn heaviside(x: f64, at_zero: f64) -> f64 {
    if x == 0.0 { at_zero } else { f64::from(u8::from(x > 0.0)) }
}

macro_rules! next {
    ($(#[$doc:meta])* $name:ident $t:ty, $bits:ty, $from:expr, $to:expr) => {
        $(#[$doc])*
        pub fn $name(a: f64, b: f64) -> f64 {
            if a.is_nan() || b.is_nan() {
                return f64::NAN;
            }
            if a == b {
                return b;
            }
            let number: fn(f64) -> $t = $from;
            let wide: fn($t) -> f64 = $to;
            if a == 0.0 {
                return wide(<$t>::from_bits(1)).copysign(b);
            }
            let bits: $bits = number(a).to_bits();
            // away from 0 the bits grow
            let away = (b > a) == (a > 0.0);
            wide(<$t>::from_bits(if away { bits + 1 } else { bits - 1 }))
        }
    };
}
next!(
    /// The next `f64` from `a` towards `b`.
    nextafter f64, u64, |x| x, |x| x
);
next!(
    /// The next `f32`.
    nextafter_f32 f32, u32, |x| x as f32, f64::from
);
next!(
    /// The next `f16`.
    nextafter_f16 f16, u16, |x| f16::from_f32(x as f32), f64::from
);
next!(
    /// The next `bf16`.
    nextafter_bf16 bf16, u16, |x| bf16::from_f32(x as f32), f64::from
);

/// A fraction of size `1/2 .. 1` and a power of 2 whose product is `x`; 0, infinities and NaN with
/// the power 0.
pub fn frexp(x: f64) -> (f64, i32) {
    if x == 0.0 || !x.is_finite() {
        return (x, 0);
    }
    let (x, shift) = if x.is_subnormal() { (x * 2f64.powi(64), -64) } else { (x, 0) };
    let bits = x.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1022;
    let fraction = f64::from_bits(bits & !(0x7ff << 52) | 1022 << 52);
    (fraction, exponent + shift)
}

/// The greatest common divisor, not negative (but for the smallest integer, which has no opposite).
pub fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.wrapping_abs(), b.wrapping_abs());
    while b != 0 {
        (a, b) = (b, a.wrapping_rem(b));
    }
    a.wrapping_abs()
}

/// The least common multiple; 0 with 0.
pub fn lcm(a: i64, b: i64) -> i64 {
    match gcd(a, b) {
        0 => 0,
        g => (a.wrapping_div(g)).wrapping_mul(b).wrapping_abs(),
    }
}
