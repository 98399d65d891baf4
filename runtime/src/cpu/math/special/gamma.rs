//! The logarithm of the gamma function, its derivatives, and the Hurwitz zeta function.

use std::f64::consts::PI;
use std::sync::LazyLock;

/// Bernoulli numbers `B_2, B_4, ..., B_24`.
const BERNOULLI: [f64; 12] = [
    1.0 / 6.0,
    -1.0 / 30.0,
    1.0 / 42.0,
    -1.0 / 30.0,
    5.0 / 66.0,
    -691.0 / 2730.0,
    7.0 / 6.0,
    -3617.0 / 510.0,
    43867.0 / 798.0,
    -174611.0 / 330.0,
    854513.0 / 138.0,
    -236364091.0 / 2730.0,
];

/// From here on the asymptotic series are exact to `f64` with the terms above.
const FAR: f64 = 12.0;

/// What Stirling's formula leaves: `ln(gamma(x)) - ((x - 1/2) ln x - x + ln(2 pi) / 2)`, for `x >=
/// FAR`.
pub(super) fn stirling_rest(x: f64) -> f64 {
    let square = (x * x).recip();
    let mut power = x.recip();
    let mut sum = 0.0;
    for (k, b) in BERNOULLI.iter().take(9).enumerate() {
        let n = 2.0 * (k + 1) as f64;
        sum += b / (n * (n - 1.0)) * power;
        power *= square;
    }
    sum
}

/// `ln |gamma(x)|`; infinite at 0 and the negative integers.
pub fn lgamma(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x.is_infinite() || (x <= 0.0 && x == x.floor()) {
        return f64::INFINITY;
    }
    if x < 0.5 {
        if x.abs() < 1e-300 {
            return -x.abs().ln();
        }
        // gamma(x) gamma(1 - x) = pi / sin(pi x)
        let sine = sin_pi(x).abs();
        return (PI / sine).ln() - lgamma(1.0 - x);
    }
    if (0.9..=1.1).contains(&x) || (1.9..=2.1).contains(&x) {
        return near_zero_of_lgamma(x);
    }
    let mut product = 1.0;
    let mut y = x;
    while y < FAR {
        product *= y;
        y += 1.0;
    }
    let ln_root_two_pi = 0.918_938_533_204_672_8;
    (y - 0.5) * y.ln() - y + ln_root_two_pi + stirling_rest(y) - product.ln()
}

/// Around 1 and 2, where the logarithm is 0: the Taylor series at 1, whose coefficients are zeta
/// values.
fn near_zero_of_lgamma(x: f64) -> f64 {
    let (e, rest) = if x > 1.5 { (x - 2.0, (x - 2.0).ln_1p()) } else { (x - 1.0, 0.0) };
    const EULER: f64 = 0.577_215_664_901_532_9;
    // `zeta(k) / k` with `zeta(k) = 1 + 2^-k + ...`, from k = 2
    static TERMS: LazyLock<[f64; 22]> = LazyLock::new(|| {
        std::array::from_fn(|i| {
            let k = (i + 2) as f64;
            zeta(k, 1.0) / k
        })
    });
    let mut sum = -EULER * e;
    let mut power = e;
    for term in &*TERMS {
        power *= -e;
        sum -= term * power;
    }
    sum + rest
}

/// `sin(pi x)` with the multiple of the period taken off first.
pub(super) fn sin_pi(x: f64) -> f64 {
    let r = x - 2.0 * (x / 2.0).round();
    // r is in [-1, 1]
    let folded = if r > 0.5 {
        1.0 - r
    } else if r < -0.5 {
        -1.0 - r
    } else {
        r
    };
    (PI * folded).sin()
}

/// The derivative of [`lgamma`]: minus infinity at 0, NaN at the negative integers.
pub fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        return f64::INFINITY.copysign(-x);
    }
    if x.is_nan() || x == f64::INFINITY {
        return x;
    }
    if x < 0.0 {
        if x == x.floor() {
            return f64::NAN;
        }
        let r = x - x.trunc();
        return digamma(1.0 - x) - PI / (PI * r).tan();
    }
    let mut sum = 0.0;
    let mut y = x;
    while y < FAR {
        sum -= y.recip();
        y += 1.0;
    }
    let square = (y * y).recip();
    let mut power = square;
    let mut rest = 0.0;
    for (k, b) in BERNOULLI.iter().take(9).enumerate() {
        rest += b / (2.0 * (k + 1) as f64) * power;
        power *= square;
    }
    sum + y.ln() - 0.5 / y - rest
}

/// The Hurwitz zeta function: the sum over `k >= 0` of `(q + k)^-x`, by Euler and Maclaurin.
pub fn zeta(x: f64, q: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    if x < 1.0 {
        return f64::NAN;
    }
    if q <= 0.0 {
        if q == q.floor() {
            return f64::INFINITY;
        }
        if x != x.floor() {
            return f64::NAN;
        }
        // the terms below 0 are those of two series on the other side
        let (below, fraction) = (q.floor(), q - q.floor());
        let sign = if x % 2.0 == 0.0 { 1.0 } else { -1.0 };
        let mirrored = zeta(x, 1.0 - fraction) - zeta(x, 1.0 - fraction - below);
        return zeta(x, fraction) + sign * mirrored;
    }
    if x.is_nan() || q.is_nan() {
        return f64::NAN;
    }
    let mut sum = 0.0;
    let mut at = q;
    // the head, until the tail is smooth
    let mut terms = 0;
    while terms < 10 || at <= 10.0 {
        let term = at.powf(-x);
        sum += term;
        at += 1.0;
        terms += 1;
        if term < 1e-17 * sum {
            return sum;
        }
    }
    // the tail from `at`: integral, half the first term, derivatives
    let first = at.powf(-x);
    sum += first * at / (x - 1.0) + 0.5 * first;
    let mut factor = x * first / at;
    let mut factorial = 2.0;
    for (k, b) in BERNOULLI.iter().enumerate() {
        let term = b / factorial * factor;
        sum += term;
        if term.abs() < 1e-17 * sum.abs() {
            break;
        }
        let n = 2.0 * (k + 1) as f64;
        factor *= (x + n - 1.0) * (x + n) / (at * at);
        factorial *= (n + 1.0) * (n + 2.0);
    }
    sum
}

/// The `n`-th derivative of [`digamma`].
pub fn polygamma(n: i64, x: f64) -> f64 {
    match n {
        0 => digamma(x),
        1 => trigamma(x),
        _ => {
            let sign = if n % 2 == 0 { -1.0 } else { 1.0 };
            sign * lgamma(n as f64 + 1.0).exp() * zeta(n as f64 + 1.0, x)
        }
    }
}

/// [`polygamma`] of a number of single precision, as far as its bounds show: factors that overflow,
/// and poles, where PyTorch has the square of the quotient of pi and the sine of a rounded multiple
/// of pi.
pub fn polygamma_of_single(n: i64, x: f64) -> f64 {
    if n == 1 && x <= 0.0 && x.fract() == 0.0 {
        let sine = f64::from((std::f32::consts::PI * x as f32).sin());
        return (PI / sine) * (PI / sine) + zeta(2.0, 1.0 - x);
    }
    if n < 2 {
        return polygamma(n, x);
    }
    let sign = if n % 2 == 0 { -1.0 } else { 1.0 };
    let (factor, sum) = (lgamma(n as f64 + 1.0).exp(), zeta(n as f64 + 1.0, x));
    sign * f64::from(factor as f32) * f64::from(sum as f32)
}

fn trigamma(x: f64) -> f64 {
    if x == f64::INFINITY {
        return 0.0;
    }
    if x < 0.5 {
        // at a pole PyTorch has the sine of a rounded multiple of pi, and so a finite number
        let sine = if x.fract() == 0.0 { (PI * x).sin() } else { sin_pi(x) };
        return (PI / sine) * (PI / sine) - zeta(2.0, 1.0 - x);
    }
    zeta(2.0, x)
}
