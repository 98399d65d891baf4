//! The regularised incomplete gamma functions `P(a, x)` and `Q(a, x) = 1 - P(a, x)`.

use super::gamma::{lgamma, stirling_rest};

/// Terms after which a series or a fraction is taken as it is; large `a` need some `5 sqrt(a)`.
const MOST_TERMS: usize = 200_000;

/// `x^a e^-x / gamma(a)`, without the cancellation that large `a` bring.
fn prefix(a: f64, x: f64) -> f64 {
    if a < 20.0 {
        return (a * x.ln() - x - lgamma(a)).exp();
    }
    // relative to the maximum near x = a
    let m = (x - a) / a;
    let exponent = if m.abs() < 0.5 { a * ln_1p_minus(m) } else { a * (x / a).ln() - (x - a) };
    (exponent - stirling_rest(a)).exp() * (a / std::f64::consts::TAU).sqrt()
}

/// `ln(1 + m) - m` without cancellation.
fn ln_1p_minus(m: f64) -> f64 {
    if m.abs() > 0.1 {
        return m.ln_1p() - m;
    }
    let mut power = m;
    let mut sum = 0.0;
    for k in 2..40 {
        power *= -m;
        let term = power / f64::from(k);
        sum += term;
        if term.abs() < 1e-18 * sum.abs() {
            break;
        }
    }
    sum
}

/// `P` by its power series, for `x` up to about `a`.
fn series(a: f64, x: f64) -> f64 {
    let mut term = a.recip();
    let mut sum = term;
    for n in 1..MOST_TERMS {
        term *= x / (a + n as f64);
        sum += term;
        if term < 1e-17 * sum {
            break;
        }
    }
    sum * prefix(a, x)
}

/// `Q` by Legendre's continued fraction, for `x` above about `a`; Lentz's evaluation.
fn fraction(a: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let mut b = x + 1.0 - a;
    let mut c = TINY.recip();
    let mut d = b.recip();
    let mut h = d;
    for n in 1..MOST_TERMS {
        let n = n as f64;
        let an = -n * (n - a);
        b += 2.0;
        d = an * d + b;
        if d.abs() < TINY {
            d = TINY;
        }
        c = b + an / c;
        if c.abs() < TINY {
            c = TINY;
        }
        d = d.recip();
        let step = d * c;
        h *= step;
        if (step - 1.0).abs() < 1e-16 {
            break;
        }
    }
    h * prefix(a, x)
}

/// For small `x` and `a` below 1 or so, where `Q` is a small difference: `1 - x^a / gamma(a + 1)`
/// and the rest of the series apart.
fn upper_by_difference(a: f64, x: f64) -> f64 {
    let mut term = 1.0;
    let mut sum = 0.0;
    for n in 1..200 {
        let n = f64::from(n);
        term *= -x / n;
        let step = term / (a + n);
        sum += step;
        if step.abs() < 1e-17 * sum.abs() {
            break;
        }
    }
    let log = a * x.ln() - lgamma(1.0 + a);
    -log.exp_m1() - log.exp() * a * sum
}

/// The values at the borders of the domain, `(P, Q)`; `None` inside. As in PyTorch, a border
/// decides before NaN does.
fn border(a: f64, x: f64) -> Option<(f64, f64)> {
    let nan = Some((f64::NAN, f64::NAN));
    if a < 0.0 || x < 0.0 {
        return nan;
    }
    if a == 0.0 {
        return if x > 0.0 { Some((1.0, 0.0)) } else { nan };
    }
    if x == 0.0 {
        return Some((0.0, 1.0));
    }
    if a.is_infinite() {
        return if x.is_infinite() { nan } else { Some((0.0, 1.0)) };
    }
    if x.is_infinite() {
        return Some((1.0, 0.0));
    }
    if a.is_nan() || x.is_nan() { nan } else { None }
}

/// `P(a, x)`, from 0 at `x = 0` to 1.
pub fn lower(a: f64, x: f64) -> f64 {
    match border(a, x) {
        Some((p, _)) => p,
        None if x < a + 1.0 => series(a, x).min(1.0),
        None => 1.0 - fraction(a, x),
    }
}

/// `Q(a, x)`, from 1 at `x = 0` to 0.
pub fn upper(a: f64, x: f64) -> f64 {
    match border(a, x) {
        Some((_, q)) => q,
        None if x >= a + 1.0 => fraction(a, x),
        None if x < 1.1 && a < 1.0 => upper_by_difference(a, x),
        None => (1.0 - series(a, x)).max(0.0),
    }
}
