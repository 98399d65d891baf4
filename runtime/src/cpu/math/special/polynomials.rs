//! Orthogonal polynomials by their recurrences, or where those take many steps by trigonometry; 0
//! for negative degrees.

use super::bessel::{i0, j0};

/// Degrees beyond which a recurrence is not run to its end but its limit taken.
const MANY: i64 = 1_000_000;

/// The type in which a recurrence runs, and in which it overflows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Precision {
    /// `f32`.
    Single,
    /// `f64`.
    Double,
}

impl Precision {
    fn round(self, x: f64) -> f64 {
        match self {
            Precision::Single => f64::from(x as f32),
            Precision::Double => x,
        }
    }

    /// The degree beyond which the coefficients of Hermite's polynomials overflow.
    fn hermite_limit(self) -> i64 {
        match self {
            Precision::Single => 128,
            Precision::Double => 512,
        }
    }
}

/// `p_0 = 1`, `p_1`, and from then on `step(k, p_k, p_(k-1))`, up to degree `n`; NaN ends it early.
fn recurrence(n: i64, first: f64, p: Precision, step: impl Fn(f64, f64, f64) -> f64) -> f64 {
    let (mut before, mut here) = (1.0, first);
    if n == 0 {
        return before;
    }
    let mut k = 1;
    while k < n && !here.is_nan() {
        (before, here) = (here, p.round(step(k as f64, here, before)));
        k += 1;
    }
    here
}

fn even(n: i64) -> bool {
    n % 2 == 0
}

/// The kinds of Chebyshev polynomials: how they begin, at which degree trigonometry takes over, and
/// their values at 1 and -1.
struct Chebyshev {
    first: fn(f64) -> f64,
    beyond: i64,
    by_angle: fn(f64, f64, f64) -> f64,
    at_one: fn(f64) -> f64,
    at_minus_one: fn(f64) -> f64,
}

impl Chebyshev {
    fn of(&self, x: f64, n: i64, p: Precision) -> f64 {
        let degree = n as f64;
        if n < 0 {
            return 0.0;
        }
        if x == 1.0 {
            return (self.at_one)(degree);
        }
        if x == -1.0 {
            let size = (self.at_minus_one)(degree);
            return if even(n) { size } else { -size };
        }
        if n > self.beyond && x.abs() < 1.0 {
            return (self.by_angle)(degree, x.acos(), x);
        }
        recurrence(n, (self.first)(x), p, |_, here, before| (x + x) * here - before)
    }
}

fn two_and_one(n: f64) -> f64 {
    n + n + 1.0
}

const T: Chebyshev = Chebyshev {
    first: |x| x,
    beyond: 6,
    by_angle: |n, angle, _| (n * angle).cos(),
    at_one: |_| 1.0,
    at_minus_one: |_| 1.0,
};
const U: Chebyshev = Chebyshev {
    first: |x| x + x,
    beyond: 8,
    by_angle: |n, angle, x| match angle.sin() {
        0.0 => (n + 1.0) * ((n + 1.0) * angle).cos() / x,
        sine => ((n + 1.0) * angle).sin() / sine,
    },
    at_one: |n| n + 1.0,
    at_minus_one: |n| n + 1.0,
};
const V: Chebyshev = Chebyshev {
    first: |x| x + x - 1.0,
    beyond: 8,
    by_angle: |n, angle, _| ((n + 0.5) * angle).cos() / (angle / 2.0).cos(),
    at_one: |_| 1.0,
    at_minus_one: two_and_one,
};
const W: Chebyshev = Chebyshev {
    first: |x| x + x + 1.0,
    beyond: 8,
    by_angle: |n, angle, _| ((n + 0.5) * angle).sin() / (angle / 2.0).sin(),
    at_one: two_and_one,
    at_minus_one: |_| 1.0,
};

/// Chebyshev's polynomial of the first kind.
pub fn chebyshev_t(x: f64, n: i64, p: Precision) -> f64 {
    T.of(x, n, p)
}

/// Chebyshev's polynomial of the second kind.
pub fn chebyshev_u(x: f64, n: i64, p: Precision) -> f64 {
    U.of(x, n, p)
}

/// Chebyshev's polynomial of the third kind.
pub fn chebyshev_v(x: f64, n: i64, p: Precision) -> f64 {
    V.of(x, n, p)
}

/// Chebyshev's polynomial of the fourth kind.
pub fn chebyshev_w(x: f64, n: i64, p: Precision) -> f64 {
    W.of(x, n, p)
}

/// [`chebyshev_t`] on the interval from 0 to 1.
pub fn shifted_chebyshev_t(x: f64, n: i64, p: Precision) -> f64 {
    T.of(x + x - 1.0, n, p)
}

/// [`chebyshev_u`] on the interval from 0 to 1.
pub fn shifted_chebyshev_u(x: f64, n: i64, p: Precision) -> f64 {
    U.of(x + x - 1.0, n, p)
}

/// [`chebyshev_v`] on the interval from 0 to 1.
pub fn shifted_chebyshev_v(x: f64, n: i64, p: Precision) -> f64 {
    V.of(x + x - 1.0, n, p)
}

/// [`chebyshev_w`] on the interval from 0 to 1.
pub fn shifted_chebyshev_w(x: f64, n: i64, p: Precision) -> f64 {
    W.of(x + x - 1.0, n, p)
}

/// Hermite's polynomial, as physics has it; NaN beyond the degree where its coefficients overflow.
pub fn hermite_h(x: f64, n: i64, p: Precision) -> f64 {
    if n < 0 {
        return 0.0;
    }
    if n > p.hermite_limit() {
        return f64::NAN;
    }
    recurrence(n, x + x, p, |k, here, before| (x + x) * here - (k + k) * before)
}

/// Hermite's polynomial, as probability theory has it.
pub fn hermite_he(x: f64, n: i64, p: Precision) -> f64 {
    if n < 0 {
        return 0.0;
    }
    if n > p.hermite_limit() {
        return f64::NAN;
    }
    recurrence(n, x, p, |k, here, before| x * here - k * before)
}

/// Laguerre's polynomial.
pub fn laguerre_l(x: f64, n: i64, p: Precision) -> f64 {
    if n < 0 {
        return 0.0;
    }
    if x == 0.0 {
        return 1.0;
    }
    if n > MANY {
        let wave = 2.0 * ((n as f64 + 0.5) * x.abs()).sqrt();
        return (x / 2.0).exp() * if x > 0.0 { j0(wave) } else { i0(wave) };
    }
    recurrence(n, 1.0 - x, p, |k, here, before| {
        ((k + k + (1.0 - x)) * here - k * before) / (k + 1.0)
    })
}

/// Legendre's polynomial.
pub fn legendre_p(x: f64, n: i64, p: Precision) -> f64 {
    if n < 0 {
        return 0.0;
    }
    if x.abs() == 1.0 {
        return if x > 0.0 || even(n) { 1.0 } else { -1.0 };
    }
    if n > MANY && x.abs() < 1.0 {
        let angle = x.abs().acos();
        let size = (angle / angle.sin()).sqrt() * j0((n as f64 + 0.5) * angle);
        return if x > 0.0 || even(n) { size } else { -size };
    }
    recurrence(n, x, p, |k, here, before| ((k + k + 1.0) * x * here - k * before) / (k + 1.0))
}
