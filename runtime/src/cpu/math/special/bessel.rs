//! Bessel functions of the orders 0 and 1.

use std::f64::consts::{FRAC_PI_4, PI, TAU};

/// Beyond this, the asymptotic expansions are exact to `f64`.
pub(super) const FAR: f64 = 30.0;

/// The power series of `I_order` (`sign` 1) or `J_order` (`sign` -1).
fn power_series(order: u32, x: f64, sign: f64) -> f64 {
    let quarter = sign * x * x / 4.0;
    let mut term = if order == 0 { 1.0 } else { x / 2.0 };
    let mut sum = term;
    for k in 1..200 {
        term *= quarter / (f64::from(k) * f64::from(k + order));
        sum += term;
        if term.abs() < 1e-18 * sum.abs() {
            break;
        }
    }
    sum
}

/// The terms `a_k / x^k` of the expansions at infinity, down to the smallest.
pub(super) fn far_terms(order: u32, x: f64) -> impl Iterator<Item = f64> {
    let m = 4.0 * f64::from(order * order);
    let mut term = 1.0;
    (0..).map_while(move |k: u32| {
        let this = term;
        let odd = f64::from(2 * k + 1);
        term *= (m - odd * odd) / (8.0 * f64::from(k + 1) * x);
        (k < 40 && this.abs() > 1e-18).then_some(this)
    })
}

/// `e^-|x| I_order(|x|)`.
fn scaled_i(order: u32, x: f64) -> f64 {
    if x < FAR {
        return power_series(order, x, 1.0) * (-x).exp();
    }
    let mut sum = 0.0;
    let mut sign = 1.0;
    for term in far_terms(order, x) {
        sum += sign * term;
        sign = -sign;
    }
    sum / (TAU * x).sqrt()
}

/// `I_order(|x|)`; NaN at infinity, as PyTorch's product of an infinity and 0 is.
fn unscaled_i(order: u32, x: f64) -> f64 {
    if x.is_infinite() {
        return f64::NAN;
    }
    if x < FAR {
        return power_series(order, x, 1.0);
    }
    // in two steps, so that the result overflows no sooner than it must
    let half = (x / 2.0).exp();
    scaled_i(order, x) * half * half
}

/// The modified Bessel function of the first kind and order 0.
pub fn i0(x: f64) -> f64 {
    unscaled_i(0, x.abs())
}

/// `e^-|x|` times [`i0`].
pub fn i0e(x: f64) -> f64 {
    if x.is_infinite() {
        return 0.0;
    }
    scaled_i(0, x.abs())
}

/// The modified Bessel function of the first kind and order 1.
pub fn i1(x: f64) -> f64 {
    let y = unscaled_i(1, x.abs());
    if x < 0.0 { -y } else { y }
}

/// `e^-|x|` times [`i1`].
pub fn i1e(x: f64) -> f64 {
    let y = if x.is_infinite() { 0.0 } else { scaled_i(1, x.abs()) };
    if x < 0.0 { -y } else { y }
}

/// `J_0` and `J_1` by Miller's recurrence downwards, normalised by `J_0 + 2 J_2 + 2 J_4 + ... = 1`.
fn miller(x: f64) -> (f64, f64) {
    let (mut above, mut here) = (0.0, 1e-200);
    let mut sum = 0.0;
    let mut n = 2 * ((x as u32 + 60) / 2);
    while n > 0 {
        if n.is_multiple_of(2) {
            sum += 2.0 * here;
        }
        let below = 2.0 * f64::from(n) / x * here - above;
        (above, here) = (here, below);
        n -= 1;
    }
    sum += here;
    (here / sum, above / sum)
}

/// [`miller`] with all orders up to where they vanish.
pub(super) fn miller_all(x: f64) -> Vec<f64> {
    let top = 2 * ((x as usize + 60) / 2);
    let mut all = vec![0.0; top + 1];
    let (mut above, mut here) = (0.0, 1e-200);
    let mut sum = 0.0;
    for n in (1..=top).rev() {
        all[n] = here;
        if n.is_multiple_of(2) {
            sum += 2.0 * here;
        }
        let below = 2.0 * n as f64 / x * here - above;
        (above, here) = (here, below);
    }
    all[0] = here;
    sum += here;
    all.iter_mut().for_each(|j| *j /= sum);
    all
}

/// The sums of Hankel's expansion, and its phase.
pub(super) fn hankel_parts(order: u32, x: f64) -> (f64, f64, f64) {
    let (mut p, mut q) = (0.0, 0.0);
    for (k, term) in far_terms(order, x).enumerate() {
        match k % 4 {
            0 => p += term,
            1 => q += term,
            2 => p -= term,
            _ => q -= term,
        }
    }
    let phase = x - f64::from(order) * PI / 2.0 - FRAC_PI_4;
    (p, q, phase)
}

/// `J_order(x)` by Hankel's expansion.
fn hankel(order: u32, x: f64) -> f64 {
    let (p, q, phase) = hankel_parts(order, x);
    (2.0 / (PI * x)).sqrt() * (p * phase.cos() - q * phase.sin())
}

fn j(order: u32, x: f64) -> f64 {
    if x.is_infinite() {
        f64::NAN
    } else if x < 4.0 {
        power_series(order, x, -1.0)
    } else if x < FAR {
        let (j0, j1) = miller(x);
        if order == 0 { j0 } else { j1 }
    } else {
        hankel(order, x)
    }
}

/// The Bessel function of the first kind and order 0.
pub fn j0(x: f64) -> f64 {
    j(0, x.abs())
}

/// The Bessel function of the first kind and order 1.
pub fn j1(x: f64) -> f64 {
    let y = j(1, x.abs());
    if x < 0.0 { -y } else { y }
}

/// The spherical Bessel function of order 0, `sin(x) / x`.
pub fn spherical_j0(x: f64) -> f64 {
    if x.is_infinite() {
        return 0.0;
    }
    if x.abs() < 1e-4 {
        return 1.0 - x * x / 6.0;
    }
    x.sin() / x
}
