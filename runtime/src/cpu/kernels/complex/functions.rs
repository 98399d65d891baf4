//! Functions of one complex number, in double precision. What they give at zeros, infinities and
//! NaN is what C's Annex G says (of signs that it leaves open, glibc's).

use super::number::Number;
use num_complex::Complex;
use straightline_passes::schedule::loops::UnaryOp;

type C = Complex<f64>;

/// The function of an operation that complex numbers have.
pub(super) fn function(op: UnaryOp) -> Option<fn(C) -> C> {
    Some(match op {
        UnaryOp::Sqrt => sqrt,
        UnaryOp::Rsqrt => |x| over(ONE, sqrt(x)),
        UnaryOp::Exp => exp,
        UnaryOp::Exp2 => |x| exp(x * std::f64::consts::LN_2),
        UnaryOp::Expm1 => expm1,
        UnaryOp::Log => ln,
        UnaryOp::Log2 => |x| ln(x) / std::f64::consts::LN_2,
        UnaryOp::Log10 => |x| ln(x) / std::f64::consts::LN_10,
        UnaryOp::Log1p => log1p,
        UnaryOp::Sin => |x| turned_back(sinh(turned(x))),
        UnaryOp::Cos => |x| cosh(turned(x)),
        UnaryOp::Tan => |x| turned_back(tanh(turned(x))),
        UnaryOp::Sinh => sinh,
        UnaryOp::Cosh => cosh,
        UnaryOp::Tanh => tanh,
        UnaryOp::Asin => |x| turned_back(asinh(turned(x))),
        UnaryOp::Acos => acos,
        UnaryOp::Atan => |x| turned_back(atanh(turned(x))),
        UnaryOp::Asinh => asinh,
        UnaryOp::Acosh => acosh,
        UnaryOp::Atanh => atanh,
        UnaryOp::Sigmoid => |x| over(ONE, ONE + exp(-x)),
        UnaryOp::Silu => |x| over(x, ONE + exp(-x)),
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

/// A quotient that overflows only if the result does.
fn over(x: C, by: C) -> C {
    Number::div(x, by)
}

fn exp(x: C) -> C {
    if x.im == 0.0 {
        return C::new(x.re.exp(), x.im);
    }
    if x.re == f64::NEG_INFINITY && !x.im.is_finite() {
        return C::new(0.0, 0.0);
    }
    if x.re == f64::INFINITY && !x.im.is_finite() {
        return C::new(f64::INFINITY, f64::NAN);
    }
    let size = x.re.exp();
    C::new(size * x.im.cos(), size * x.im.sin())
}

fn ln(x: C) -> C {
    // near 1 the logarithm of the size cancels: by what its square exceeds 1
    let (a, b) = (x.re.abs().max(x.im.abs()), x.re.abs().min(x.im.abs()));
    let size = x.re.hypot(x.im);
    let log = if (0.5..2.0).contains(&size) {
        ((a - 1.0) * (a + 1.0) + b * b).ln_1p() / 2.0
    } else {
        size.ln()
    };
    C::new(log, x.im.atan2(x.re))
}

/// The root in the right half plane; on the cut the side is that of the imaginary part's sign.
pub(in crate::cpu::kernels) fn sqrt(x: C) -> C {
    if x.re == 0.0 && x.im == 0.0 {
        return C::new(0.0, x.im);
    }
    if x.im.is_infinite() {
        return C::new(f64::INFINITY, x.im);
    }
    if x.re.is_infinite() {
        let small = match x.im.is_nan() {
            true => f64::NAN,
            false => 0.0,
        };
        return match x.re > 0.0 {
            true => C::new(f64::INFINITY, small.copysign(x.im)),
            false => C::new(small, f64::INFINITY.copysign(x.im)),
        };
    }
    // scaled, so that the size does not overflow
    let scale = x.re.abs().max(x.im.abs());
    let (re, im) = (x.re / scale, x.im / scale);
    let t = ((re.abs() + re.hypot(im)) / 2.0).sqrt();
    let root = scale.sqrt();
    if re >= 0.0 {
        C::new(t * root, im / (2.0 * t) * root)
    } else {
        C::new(im.abs() / (2.0 * t) * root, t.copysign(im) * root)
    }
}

fn sinh(x: C) -> C {
    if x.im == 0.0 {
        return C::new(x.re.sinh(), x.im);
    }
    if !x.im.is_finite() && (x.re == 0.0 || x.re.is_infinite()) {
        return C::new(x.re, f64::NAN);
    }
    C::new(x.re.sinh() * x.im.cos(), x.re.cosh() * x.im.sin())
}

fn cosh(x: C) -> C {
    if x.im == 0.0 {
        return C::new(x.re.cosh(), x.im * 1f64.copysign(x.re));
    }
    if !x.im.is_finite() && x.re == 0.0 {
        return C::new(f64::NAN, x.re);
    }
    if !x.im.is_finite() && x.re.is_infinite() {
        return C::new(f64::INFINITY, f64::NAN);
    }
    C::new(x.re.cosh() * x.im.cos(), x.re.sinh() * x.im.sin())
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
    if x.re.is_nan() || x.im.is_nan() {
        return C::new(f64::NAN, f64::NAN);
    }
    let shifted = C::new(1.0 + x.re, x.im);
    // |1 + x|^2 - 1
    let excess = x.re * (2.0 + x.re) + x.im * x.im;
    let size =
        if excess.abs() < 0.5 { excess.ln_1p() / 2.0 } else { shifted.re.hypot(shifted.im).ln() };
    C::new(size, shifted.im.atan2(shifted.re))
}

fn tanh(x: C) -> C {
    if x.re.is_infinite() && !x.im.is_finite() {
        return C::new(1f64.copysign(x.re), 0f64.copysign(x.im));
    }
    if x.im == 0.0 || x.re == 0.0 && !x.im.is_finite() {
        return C::new(x.re.tanh(), if x.re == 0.0 && x.im != 0.0 { f64::NAN } else { x.im });
    }
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

/// By the square roots of `1 + ix` and `1 - ix`, which keep both branch cuts and do not cancel
/// (Kahan's forms).
fn asinh(x: C) -> C {
    if x.re.is_nan() && x.im == 0.0 {
        return x;
    }
    let ix = turned(x);
    let (plus, minus) = (sqrt(C::new(1.0 + ix.re, ix.im)), sqrt(C::new(1.0 - ix.re, -ix.im)));
    if !(plus.re.is_finite() && minus.re.is_finite()) || x.re.hypot(x.im) > 1e150 {
        let far = ln(C::new(x.re.abs(), x.im)) + std::f64::consts::LN_2;
        return C::new(far.re.copysign(x.re), far.im);
    }
    let re = (plus.re * minus.im - plus.im * minus.re).asinh();
    let im = x.im.atan2((plus * minus).re);
    // odd, and each part has the sign of the argument's
    C::new(re.abs().copysign(x.re), im.abs().copysign(x.im))
}

fn acos(x: C) -> C {
    if x.re.is_infinite() || x.im.is_infinite() {
        return C::new(x.im.abs().atan2(x.re), f64::INFINITY.copysign(-x.im));
    }
    if x.re == 0.0 && x.im.is_nan() {
        return C::new(std::f64::consts::FRAC_PI_2, x.im);
    }
    let (minus, plus) = (sqrt(C::new(1.0 - x.re, -x.im)), sqrt(C::new(1.0 + x.re, x.im)));
    let re = 2.0 * minus.re.atan2(plus.re);
    let im = (plus.re * minus.im - plus.im * minus.re).asinh();
    C::new(re, im)
}

fn acosh(x: C) -> C {
    if x.re.is_infinite() || x.im.is_infinite() {
        return C::new(f64::INFINITY, x.im.atan2(x.re));
    }
    if x.re == 0.0 && x.im.is_nan() {
        return C::new(x.im, std::f64::consts::FRAC_PI_2);
    }
    let (minus, plus) = (sqrt(C::new(x.re - 1.0, x.im)), sqrt(C::new(x.re + 1.0, x.im)));
    let re = (minus.re * plus.re + minus.im * plus.im).asinh();
    let im = 2.0 * minus.im.atan2(plus.re);
    C::new(re, im)
}

fn atanh(x: C) -> C {
    if x.im.is_nan() && (x.re == 0.0 || x.re.is_infinite()) {
        return C::new(0f64.copysign(x.re), x.im);
    }
    let far = x.re.hypot(x.im);
    if far > 1e150 {
        let turn = std::f64::consts::FRAC_PI_2.copysign(x.im);
        let rest = match far.is_finite() {
            true => x.re / far / far,
            false => 0f64.copysign(x.re),
        };
        return C::new(rest, turn);
    }
    // odd: on the right side the logarithm does not cancel
    let (a, b) = (x.re.abs(), x.im);
    let square = b * b;
    let re = (4.0 * a / ((1.0 - a) * (1.0 - a) + square)).ln_1p() / 4.0;
    let im = (2.0 * b).atan2((1.0 - a) * (1.0 + a) - square) / 2.0;
    C::new(re.copysign(x.re), im)
}

/// `x^y`, the principal value; 1 for an exponent of 0, but NaN for 0 to the 0, as PyTorch has it.
pub(super) fn pow(x: C, y: C) -> C {
    if y.re == 0.0 && y.im == 0.0 {
        let zero = x.re == 0.0 && x.im == 0.0;
        return if zero { C::new(f64::NAN, f64::NAN) } else { ONE };
    }
    if x.re == 0.0 && x.im == 0.0 && y.re > 0.0 && y.im == 0.0 {
        return C::new(0.0, 0.0);
    }
    if y.im == 0.0 && y.re.fract() == 0.0 && y.re.abs() <= 64.0 {
        return x.powi(y.re as i32);
    }
    exp(y * ln(x))
}

/// `ln(exp(x) + exp(y))` by what the one with the smaller real part adds to the other; NaN in
/// either makes both parts NaN.
pub(super) fn log_add_exp(x: C, y: C) -> C {
    let is_nan = |x: C| x.re.is_nan() || x.im.is_nan();
    if is_nan(x) || is_nan(y) {
        return C::new(f64::NAN, f64::NAN);
    }
    let (low, high) = if x.re < y.re { (x, y) } else { (y, x) };
    if !low.re.is_finite() && low.re == high.re {
        // of two minus infinities nothing is left but one of them
        return match low.re < 0.0 {
            true => low,
            false => ln(exp(low) + exp(high)),
        };
    }
    log1p(exp(low - high)) + high
}
