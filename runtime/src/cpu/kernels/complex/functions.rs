//! Functions of one complex number, in double precision.

use num_complex::Complex;
use straightline_passes::schedule::loops::UnaryOp;

type C = Complex<f64>;

/// The function of an operation that complex numbers have.
pub(super) fn function(op: UnaryOp) -> Option<fn(C) -> C> {
    Some(match op {
        UnaryOp::Sqrt => |x| x.sqrt(),
        UnaryOp::Rsqrt => |x| over(ONE, x.sqrt()),
        UnaryOp::Exp => |x| x.exp(),
        UnaryOp::Exp2 => |x| (x * std::f64::consts::LN_2).exp(),
        UnaryOp::Expm1 => expm1,
        UnaryOp::Log => |x| x.ln(),
        UnaryOp::Log2 => |x| x.ln() / std::f64::consts::LN_2,
        UnaryOp::Log10 => |x| x.ln() / std::f64::consts::LN_10,
        UnaryOp::Log1p => log1p,
        UnaryOp::Sin => |x| x.sin(),
        UnaryOp::Cos => |x| x.cos(),
        UnaryOp::Tan => |x| turned_back(tanh(turned(x))),
        UnaryOp::Sinh => |x| x.sinh(),
        UnaryOp::Cosh => |x| x.cosh(),
        UnaryOp::Tanh => tanh,
        UnaryOp::Asin => |x| turned_back(asinh(turned(x))),
        UnaryOp::Acos => acos,
        UnaryOp::Atan => |x| turned_back(atanh(turned(x))),
        UnaryOp::Asinh => asinh,
        UnaryOp::Acosh => acosh,
        UnaryOp::Atanh => atanh,
        UnaryOp::Sigmoid => |x| over(ONE, ONE + (-x).exp()),
        UnaryOp::Silu => |x| over(x, ONE + (-x).exp()),
        _ => return None,
    })
}

const ONE: C = C::new(1.0, 0.0);

/// `i x`; circular functions are hyperbolic ones of that.
fn turned(x: C) -> C {
    C::new(-x.im, x.re)
}

/// `-i x`.
fn turned_back(x: C) -> C {
    C::new(x.im, -x.re)
}

/// A quotient that does not overflow where the result does not.
fn over(x: C, by: C) -> C {
    super::Number::div(x, by)
}

/// `exp(x) - 1` without cancellation near 0.
fn expm1(x: C) -> C {
    let half = (x.im / 2.0).sin();
    let e = x.re.exp_m1();
    // (e + 1) cos(b) - 1, the cosine as 1 - 2 sin(b/2)^2
    C::new(e * x.im.cos() - 2.0 * half * half, x.re.exp() * x.im.sin())
}

/// `log(1 + x)` without cancellation near 0.
fn log1p(x: C) -> C {
    let shifted = C::new(1.0 + x.re, x.im);
    // |1 + x|^2 - 1
    let excess = x.re * (2.0 + x.re) + x.im * x.im;
    let size = if excess.abs() < 0.5 {
        excess.ln_1p() / 2.0
    } else {
        shifted.re.hypot(shifted.im).ln()
    };
    C::new(size, shifted.im.atan2(shifted.re))
}

fn tanh(x: C) -> C {
    if x.re.abs() > 20.0 && x.im.is_finite() {
        // the next terms are below the last digit
        let tail = 4.0 * (-2.0 * x.re.abs()).exp() * x.im.sin() * x.im.cos();
        return C::new(1f64.copysign(x.re), tail);
    }
    // both parts over one denominator without cancellation
    let (s, c) = x.im.sin_cos();
    let (sh, ch) = (x.re.sinh(), x.re.cosh());
    let d = sh * sh + c * c;
    C::new(sh * ch / d, s * c / d)
}

/// By the square roots of `1 + ix` and `1 - ix`, which keep both branch cuts and do not cancel (Kahan's forms).
fn asinh(x: C) -> C {
    let ix = turned(x);
    let (plus, minus) = ((ONE + ix).sqrt(), (ONE - ix).sqrt());
    if !(plus.re.is_finite() && minus.re.is_finite()) || x.re.hypot(x.im) > 1e150 {
        let far = C::new(x.re.abs(), x.im).ln() + std::f64::consts::LN_2;
        return C::new(far.re.copysign(x.re), far.im);
    }
    let re = (plus.re * minus.im - plus.im * minus.re).asinh();
    let im = x.im.atan2((plus * minus).re);
    // odd, and each part has the sign of the argument's
    C::new(re.abs().copysign(x.re), im.abs().copysign(x.im))
}

fn acos(x: C) -> C {
    let (minus, plus) = ((ONE - x).sqrt(), (ONE + x).sqrt());
    let re = 2.0 * minus.re.atan2(plus.re);
    let im = (plus.re * minus.im - plus.im * minus.re).asinh();
    C::new(re, im)
}

fn acosh(x: C) -> C {
    let (minus, plus) = ((x - ONE).sqrt(), (x + ONE).sqrt());
    let re = (minus.re * plus.re + minus.im * plus.im).asinh();
    let im = 2.0 * minus.im.atan2(plus.re);
    C::new(re, im)
}

fn atanh(x: C) -> C {
    let (a, b) = (x.re, x.im);
    let square = b * b;
    let re = (4.0 * a / ((1.0 - a) * (1.0 - a) + square)).ln_1p() / 4.0;
    let im = (2.0 * b).atan2((1.0 - a) * (1.0 + a) - square) / 2.0;
    C::new(re, im)
}

/// `x^y`, the principal value; 1 for an exponent of 0.
pub(super) fn pow(x: C, y: C) -> C {
    if y.re == 0.0 && y.im == 0.0 {
        return ONE;
    }
    if x.re == 0.0 && x.im == 0.0 && y.re > 0.0 && y.im == 0.0 {
        return C::new(0.0, 0.0);
    }
    if y.im == 0.0 && y.re.fract() == 0.0 && y.re.abs() <= 64.0 {
        return x.powi(y.re as i32);
    }
    (y * x.ln()).exp()
}
