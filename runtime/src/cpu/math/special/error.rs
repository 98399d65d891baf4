//! Functions around the error function and the normal distribution.

use std::f64::consts::{FRAC_2_SQRT_PI, PI, SQRT_2};

/// `erf(x) e^(x^2)` for `|x| <= 2`: a series whose terms all have one sign.
fn scaled_erf(x: f64) -> f64 {
    let mut term = x;
    let mut sum = x;
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
        if term.abs() < 1e-17 * sum.abs() {
            break;
        }
    }
    sum * FRAC_2_SQRT_PI
}

/// `e^(x^2) erfc(x)`.
pub fn erfcx(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x < 0.0 {
        // twice the square is infinite long before erfcx(-x) matters
        return 2.0 * (x * x).exp() - erfcx(-x);
    }
    if x < 2.0 {
        return (x * x).exp() - scaled_erf(x);
    }
    if x > 1e8 {
        return 0.5 * FRAC_2_SQRT_PI / x;
    }
    // Laplace's continued fraction, from the far end
    let terms = if x < 4.0 { 120 } else { 40 };
    let mut f = x;
    for n in (1..=terms).rev() {
        f = x + 0.5 * f64::from(n) / f;
    }
    0.5 * FRAC_2_SQRT_PI / f
}

fn erfc(x: f64) -> f64 {
    (-x * x).exp() * erfcx(x)
}

/// `x` with `erfc(x) = q`, for `0 < q <= 1`.
fn erfc_inverse(q: f64) -> f64 {
    // Abramowitz and Stegun 26.2.23, to some three digits
    let t = (-2.0 * (0.5 * q).ln()).sqrt();
    let guess = t
        - (2.515_517 + t * (0.802_853 + t * 0.010_328))
            / (1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308)));
    let mut x = guess / SQRT_2;
    for _ in 0..4 {
        // Halley on the logarithm of nothing: the error relative to the slope stays finite in the
        // far tail
        let scaled = erfcx(x) - q * (x * x).exp();
        let step = scaled / FRAC_2_SQRT_PI;
        let next = x + step / (1.0 + x * step);
        if next == x || !next.is_finite() {
            break;
        }
        x = next;
    }
    x
}

/// The inverse of `erf`.
pub fn erfinv(y: f64) -> f64 {
    let a = y.abs();
    if y.is_nan() || a > 1.0 {
        return f64::NAN;
    }
    if a == 1.0 {
        return f64::INFINITY.copysign(y);
    }
    if a > 0.5 {
        return erfc_inverse(1.0 - a).copysign(y);
    }
    let mut x = y / FRAC_2_SQRT_PI * (1.0 + PI / 12.0 * y * y);
    for _ in 0..3 {
        let step = (y * (x * x).exp() - scaled_erf(x)) / FRAC_2_SQRT_PI;
        x += step / (1.0 - x * step);
    }
    x
}

/// The quantile of the standard normal distribution.
pub fn ndtri(p: f64) -> f64 {
    if p == 0.0 {
        return f64::NEG_INFINITY;
    }
    if p == 1.0 {
        return f64::INFINITY;
    }
    let inside = p > 0.0 && p < 1.0;
    if !inside {
        return f64::NAN;
    }
    if (p - 0.5).abs() < 0.25 {
        return SQRT_2 * erfinv(2.0 * (p - 0.5));
    }
    if p < 0.5 { -SQRT_2 * erfc_inverse(2.0 * p) } else { SQRT_2 * erfc_inverse(2.0 * (1.0 - p)) }
}

/// The logarithm of the standard normal distribution function.
pub fn log_ndtr(x: f64) -> f64 {
    let z = x / SQRT_2;
    if x < -1.0 { (erfcx(-z) / 2.0).ln() - z * z } else { (-erfc(z) / 2.0).ln_1p() }
}

/// `-x ln x`, 0 at 0, minus infinity below.
pub fn entr(x: f64) -> f64 {
    if x.is_nan() {
        x
    } else if x > 0.0 {
        -x * x.ln()
    } else if x == 0.0 {
        0.0
    } else {
        f64::NEG_INFINITY
    }
}
