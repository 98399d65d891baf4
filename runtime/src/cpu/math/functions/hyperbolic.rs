//! Hyperbolic functions and their inverses.

use std::f64::consts::LN_2;

use super::exp::{expm1_clamped, half_exp};
use super::helpers::{by_width, clamp, horner, poly, with_sign};
use super::log::log1p;
use crate::cpu::math::{Prims, Width};

/// `tanh(x) / x` as a quotient of polynomials in `x^2`, up to where `tanh` rounds to one.
const TANH_NUM_W32: [f64; 7] = [
    1.0,
    0.13083063066005707,
    0.0031028983648866415,
    1.1143215488118585e-05,
    -2.017998745884597e-08,
    5.256002230669132e-11,
    -8.431851137441493e-14,
];
const TANH_DEN_W32: [f64; 4] =
    [1.0, 0.4641638994216919, 0.024490967392921448, 0.00025446031941100955];

/// `(sinh(x) - x) / x^3` in `x^2` for `|x| <= 1`.
const SINH_W32: [f64; 4] =
    [0.1666666716337204, 0.008333350531756878, 0.0001983606634894386, 2.8174395083624404e-06];
const SINH_W64: [f64; 7] = [
    0.16666666666666669,
    0.008333333333333139,
    0.0001984126984143768,
    2.755731915533708e-06,
    2.505212339852299e-08,
    1.605724034361667e-10,
    7.759312137579096e-13,
];

/// `tanh x`.
#[inline(always)]
pub fn tanh<P: Prims>(p: &mut P, x: P::F) -> P::F {
    let one = p.f(1.0);
    match p.width() {
        Width::W32 => {
            let lo = p.f(-9.02);
            let hi = p.f(9.02);
            let x = clamp(p, x, lo, hi);
            let z = p.mul(x, x);
            let num = horner(p, z, &TANH_NUM_W32);
            let num = p.mul(num, x);
            let den = horner(p, z, &TANH_DEN_W32);
            let y = p.div(num, den);
            // Rounding may end one ulp above one.
            let minus_one = p.f(-1.0);
            clamp(p, y, minus_one, one)
        }
        Width::W64 => {
            let two = p.f(2.0);
            let hi = p.f(44.0);
            let a = p.abs(x);
            let a = p.add(a, a);
            let a = p.min_raw(hi, a);
            let em = expm1_clamped(p, a);
            let den = p.add(em, two);
            let y = p.div(em, den);
            with_sign(p, y, x)
        }
    }
}

/// `sinh x`.
#[inline(always)]
pub fn sinh<P: Prims>(p: &mut P, x: P::F) -> P::F {
    let a = p.abs(x);
    let z = p.mul(x, x);
    let q = poly(p, z, &SINH_W32, &SINH_W64);
    let zx = p.mul(z, a);
    let small = p.fma(zx, q, a);
    let h = half_exp(p, a);
    let quarter = p.f(0.25);
    let other = p.div(quarter, h);
    let large = p.sub(h, other);
    let one = p.f(1.0);
    let m = p.lt(a, one);
    let y = p.select(m, small, large);
    with_sign(p, y, x)
}

/// `cosh x`.
#[inline(always)]
pub fn cosh<P: Prims>(p: &mut P, x: P::F) -> P::F {
    let a = p.abs(x);
    let h = half_exp(p, a);
    let quarter = p.f(0.25);
    let other = p.div(quarter, h);
    p.add(h, other)
}

/// Where `sqrt(x^2 + 1)` is `x` in all bits, and `x` still far from overflow.
#[inline(always)]
fn large<P: Prims>(p: &mut P) -> P::F {
    by_width(p, 30.0_f64.exp2(), 60.0_f64.exp2())
}

/// The inverse of `sinh`.
#[inline(always)]
pub fn asinh<P: Prims>(p: &mut P, x: P::F) -> P::F {
    // ln(a + sqrt(a^2 + 1)) = log1p(a + a^2 / (1 + sqrt(a^2 + 1)))
    let one = p.f(1.0);
    let zero = p.f(0.0);
    let ln2 = p.f(LN_2);
    let a = p.abs(x);
    let square = p.mul(a, a);
    let root = p.add(square, one);
    let root = p.sqrt(root);
    let den = p.add(root, one);
    let extra = p.div(square, den);
    let arg = p.add(a, extra);
    let bound = large(p);
    let m = p.gt(a, bound);
    let arg = p.select(m, a, arg);
    let more = p.select(m, ln2, zero);
    let y = log1p(p, arg);
    let y = p.add(y, more);
    with_sign(p, y, x)
}

/// The inverse of `cosh`; NaN below one.
#[inline(always)]
pub fn acosh<P: Prims>(p: &mut P, x: P::F) -> P::F {
    // With t = x - 1: log1p(t + sqrt(t^2 + 2 t)).
    let one = p.f(1.0);
    let zero = p.f(0.0);
    let ln2 = p.f(LN_2);
    let nan = p.f(f64::NAN);
    let t = p.sub(x, one);
    let twice = p.add(t, t);
    let square = p.fma(t, t, twice);
    let root = p.sqrt(square);
    let arg = p.add(t, root);
    let bound = large(p);
    let m = p.gt(x, bound);
    let arg = p.select(m, x, arg);
    let more = p.select(m, ln2, zero);
    let y = log1p(p, arg);
    let y = p.add(y, more);
    let below = p.lt(x, one);
    p.select(below, nan, y)
}

/// The inverse of `tanh`; infinite at one, NaN beyond.
#[inline(always)]
pub fn atanh<P: Prims>(p: &mut P, x: P::F) -> P::F {
    let one = p.f(1.0);
    let half = p.f(0.5);
    let a = p.abs(x);
    let num = p.add(a, a);
    let den = p.sub(one, a);
    let arg = p.div(num, den);
    let y = log1p(p, arg);
    let y = p.mul(y, half);
    with_sign(p, y, x)
}
