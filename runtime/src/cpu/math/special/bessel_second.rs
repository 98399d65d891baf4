//! Bessel functions of the second kind and of the orders 0 and 1, and Airy's function.

use super::bessel::{self, FAR, far_terms, hankel_parts, miller_all};
use std::f64::consts::{FRAC_PI_2, PI};

/// Euler and Mascheroni's constant.
const EULER: f64 = 0.577_215_664_901_532_9;

/// Below this, series at 0 converge fast and lose no more than a digit.
const NEAR: f64 = 2.0;

/// `sum of sign^k (f(k) x^2 / 4)^k / (k! (k + order)!)` with the harmonic numbers that belong to
/// it.
fn harmonic_series(order: u32, x: f64, sign: f64) -> f64 {
    let quarter = sign * x * x / 4.0;
    let (mut term, mut sum) = (1.0, 0.0);
    let (mut harmonic, mut shifted) = (0.0, if order == 0 { 0.0 } else { 1.0 });
    for k in 1..40 {
        // psi(k) + psi(k + order), less twice psi(1)
        sum += term * (harmonic + shifted);
        term *= quarter / (f64::from(k) * f64::from(k + order));
        harmonic += 1.0 / f64::from(k);
        shifted += 1.0 / f64::from(k + order);
    }
    sum
}

/// `Y_0`, `Y_1` between the series and the expansion at infinity, by Neumann's sums over `J`.
fn neumann(order: usize, x: f64) -> f64 {
    let j = miller_all(x);
    let log = (x / 2.0).ln() + EULER;
    let (mut sum, mut sign) = (0.0, -1.0);
    for k in 1..(j.len() - order) / 2 {
        let weight = (2 * k + order) as f64 / (k * (k + order)) as f64;
        sum += sign * weight * j[2 * k + order];
        sign = -sign;
    }
    match order {
        0 => 2.0 / PI * (log * j[0] - sum),
        _ => 2.0 / PI * ((log - 1.0) * j[1] - sum - j[0] / x),
    }
}

fn y(order: u32, x: f64) -> f64 {
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x < 0.0 || x.is_nan() {
        return f64::NAN;
    }
    if x.is_infinite() {
        return f64::NAN;
    }
    if x >= FAR {
        let (p, q, phase) = hankel_parts(order, x);
        return (2.0 / (PI * x)).sqrt() * (p * phase.sin() + q * phase.cos());
    }
    if x >= NEAR {
        return neumann(order as usize, x);
    }
    let log = (x / 2.0).ln() + EULER;
    match order {
        0 => 2.0 / PI * (log * bessel::j0(x) - harmonic_series(0, x, -1.0) / 2.0),
        _ => {
            let sum = x / 2.0 * harmonic_series(1, x, -1.0);
            2.0 / PI * (log * bessel::j1(x) - 1.0 / x) - sum / PI
        }
    }
}

/// The Bessel function of the second kind and order 0; NaN below 0.
pub fn y0(x: f64) -> f64 {
    y(0, x)
}

/// The Bessel function of the second kind and order 1; NaN below 0.
pub fn y1(x: f64) -> f64 {
    y(1, x)
}

/// `e^x K_order(x)` for `x >= 1`: the integral of `exp(-x (cosh t - 1)) cosh(order t)`, by the
/// trapezoidal rule, which converges as fast as the integrand falls.
fn scaled_k_integral(order: f64, x: f64) -> f64 {
    let step = 0.1 / x.max(1.0).sqrt();
    let mut sum = 0.5;
    for i in 1..400 {
        let t = f64::from(i) * step;
        let half = (t / 2.0).sinh();
        let term = (-2.0 * x * half * half).exp() * (order * t).cosh();
        sum += term;
        if term < 1e-18 * sum {
            break;
        }
    }
    sum * step
}

/// `e^x K_order(x)`.
fn scaled_k(order: u32, x: f64) -> f64 {
    if x == 0.0 {
        return f64::INFINITY;
    }
    if x < 0.0 || x.is_nan() {
        return f64::NAN;
    }
    if x >= FAR {
        let sum: f64 = far_terms(order, x).sum();
        return (FRAC_PI_2 / x).sqrt() * sum;
    }
    if x >= NEAR {
        return scaled_k_integral(f64::from(order), x);
    }
    near_k(order, x) * x.exp()
}

fn near_k(order: u32, x: f64) -> f64 {
    let log = (x / 2.0).ln() + EULER;
    match order {
        0 => harmonic_series(0, x, 1.0) / 2.0 - log * bessel::i0(x),
        _ => 1.0 / x + log * bessel::i1(x) - x / 4.0 * harmonic_series(1, x, 1.0),
    }
}

fn k(order: u32, x: f64) -> f64 {
    if x > 0.0 && x < NEAR {
        return near_k(order, x);
    }
    scaled_k(order, x) * (-x).exp()
}

/// The modified Bessel function of the second kind and order 0; NaN below 0.
pub fn k0(x: f64) -> f64 {
    k(0, x)
}

/// The modified Bessel function of the second kind and order 1; NaN below 0.
pub fn k1(x: f64) -> f64 {
    k(1, x)
}

/// `e^x` times [`k0`].
pub fn k0e(x: f64) -> f64 {
    scaled_k(0, x)
}

/// `e^x` times [`k1`].
pub fn k1e(x: f64) -> f64 {
    scaled_k(1, x)
}

/// Airy's function of the first kind; NaN at infinity, as PyTorch's.
pub fn airy_ai(x: f64) -> f64 {
    if !x.is_finite() {
        return f64::NAN;
    }
    let zeta = 2.0 / 3.0 * x.abs() * x.abs().sqrt();
    if x > 1.0 {
        return (x / 3.0).sqrt() / PI
            * scaled_k_integral(1.0 / 3.0, zeta.max(2.0 / 3.0))
            * (-zeta).exp();
    }
    if x < -10.0 {
        // Ai(-x) = (cos(zeta - pi / 4) p + sin(zeta - pi / 4) q) / (sqrt(pi) x^(1/4))
        let (mut p, mut q, mut term) = (0.0, 0.0, 1.0f64);
        for k in 0..20 {
            match k % 4 {
                0 => p += term,
                1 => q += term,
                2 => p -= term,
                _ => q -= term,
            }
            let n = f64::from(k + 1);
            let next = term * (6.0 * n - 5.0) * (6.0 * n - 3.0) * (6.0 * n - 1.0)
                / (216.0 * n * (2.0 * n - 1.0) * zeta);
            if next.abs() >= term.abs() || next.abs() < 1e-18 {
                break;
            }
            term = next;
        }
        let phase = zeta - PI / 4.0;
        return (phase.cos() * p + phase.sin() * q) / (PI.sqrt() * (-x).sqrt().sqrt());
    }
    // Taylor series of y'' = x y, in steps of at most 1 from 0
    let (mut at, mut value, mut slope) = (0.0, 0.355_028_053_887_817_2, -0.258_819_403_792_806_8);
    while at != x {
        let to = if x < 0.0 { x.max(at - 1.0) } else { x.min(at + 1.0) };
        (value, slope) = taylor(at, value, slope, to - at);
        at = to;
    }
    value
}

/// A solution of `y'' = x y` and its derivative, `h` further.
fn taylor(at: f64, value: f64, slope: f64, h: f64) -> (f64, f64) {
    // a_(n+2) = (at a_n + a_(n-1)) / ((n + 1) (n + 2))
    let (mut before, mut here, mut next) = (0.0, value, slope);
    let (mut sum, mut derivative, mut power) = (value, 0.0, 1.0);
    for n in 0..40 {
        let m = f64::from(n);
        derivative += (m + 1.0) * next * power;
        power *= h;
        sum += next * power;
        let after = (at * here + before) / ((m + 1.0) * (m + 2.0));
        (before, here, next) = (here, next, after);
    }
    (sum, derivative)
}
