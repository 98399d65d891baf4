//! Logarithms: `x = 2^e m` with `m` in `[sqrt(1/2), sqrt(2))`, and `ln m` from `f = m - 1`.

use std::f64::consts::{LN_2, LOG2_E, LOG10_2, LOG10_E};

use super::exp::LN2_LO;
use super::helpers::{by_width, fraction_bits, horner};
use crate::cpu::math::{Prims, Width};

/// `(ln(1 + f) - f) / f^2`.
const LOG_W32: [f64; 9] = [
    -0.49999988079071045,
    0.33333325386047363,
    -0.25001585483551025,
    0.20001983642578125,
    -0.1660899966955185,
    0.14181581139564514,
    -0.13243472576141357,
    0.12906323373317719,
    -0.07622932642698288,
];

/// `(2 atanh(s) / s - 2) / z` with `z = s^2`, `s = f / (2 + f)`.
const ATANH_W64: [f64; 7] = [
    0.6666666666666735,
    0.3999999999941295,
    0.28571428742809624,
    0.22222198526293768,
    0.18183566938643186,
    0.153139794444535,
    0.147967020033306,
];

/// log10(2) less its value rounded to the width.
const LOG10_2_LO: (f64, f64) = (-1.432_098_889_755_97e-8, -2.803_728_127_785_170_4e-18);

/// A positive normal number taken apart.
struct Parts<P: Prims> {
    /// The exponent plus [`Layout::offset`], as an integer.
    biased: P::I,
    /// The exponent.
    e: P::F,
    /// The fraction in `[sqrt(1/2), sqrt(2))` less one; exact.
    f: P::F,
}

/// Constants of taking a float apart.
struct Layout {
    /// The bits of `sqrt(1/2)`.
    root_half: i64,
    /// Added to exponents to keep the intermediate integer non-negative.
    offset: i64,
    /// The bits of `2^(fraction bits)`, below which an integer can be placed to convert it.
    convert: i64,
}

#[inline(always)]
fn layout<P: Prims>(p: &P) -> Layout {
    match p.width() {
        Width::W32 => Layout { root_half: 0x3f35_04f3, offset: 128, convert: 0x4b00_0000 },
        Width::W64 => Layout {
            root_half: 0x3fe6_a09e_667f_3bcd,
            offset: 1024,
            convert: 0x4330_0000_0000_0000,
        },
    }
}

#[inline(always)]
fn take_apart<P: Prims>(p: &mut P, x: P::F) -> Parts<P> {
    let shift = fraction_bits(p);
    let l = layout(p);
    let bits = p.bits(x);
    let rebase = p.i((l.offset << shift).wrapping_sub(l.root_half));
    let shifted = p.iadd(bits, rebase);
    let biased = p.ishr_u(shifted, shift);
    let convert = p.i(l.convert);
    let e = p.ior(biased, convert);
    let e = p.from_bits(e);
    let zero = p.f((f64::from(shift)).exp2() + l.offset as f64);
    let e = p.sub(e, zero);
    let mask = p.i((1_i64 << shift) - 1);
    let fraction = p.iand(shifted, mask);
    let root_half = p.i(l.root_half);
    let m = p.iadd(fraction, root_half);
    let m = p.from_bits(m);
    let one = p.f(1.0);
    let f = p.sub(m, one);
    Parts { biased, e, f }
}

/// `ln(1 + f) - f`.
#[inline(always)]
fn log1p_tail<P: Prims>(p: &mut P, f: P::F) -> P::F {
    match p.width() {
        Width::W32 => {
            let q = horner(p, f, &LOG_W32);
            let f2 = p.mul(f, f);
            p.mul(f2, q)
        }
        Width::W64 => {
            let two = p.f(2.0);
            let half = p.f(0.5);
            let den = p.add(f, two);
            let s = p.div(f, den);
            let z = p.mul(s, s);
            let q = horner(p, z, &ATANH_W64);
            let f2 = p.mul(f, f);
            let half_square = p.mul(f2, half);
            let t = p.fma(z, q, half_square);
            let minus = p.neg(half_square);
            p.fma(s, t, minus)
        }
    }
}

/// `e ln 2 + ln(1 + f)`.
#[inline(always)]
fn natural<P: Prims>(p: &mut P, e: P::F, f: P::F) -> P::F {
    let tail = log1p_tail(p, f);
    let lo = by_width(p, LN2_LO.0, LN2_LO.1);
    let hi = p.f(LN_2);
    let y = p.fma(e, lo, tail);
    let y = p.add(y, f);
    p.fma(e, hi, y)
}

/// Exponent and fraction of any positive finite number, subnormals included.
#[inline(always)]
fn take_apart_any<P: Prims>(p: &mut P, x: P::F) -> (P::F, P::F) {
    let smallest = by_width(p, f64::from(f32::MIN_POSITIVE), f64::MIN_POSITIVE);
    let up = by_width(p, 24.0_f64.exp2(), 54.0_f64.exp2());
    let less = by_width(p, -24.0, -54.0);
    let zero = p.f(0.0);
    let m = p.lt(x, smallest);
    let scaled = p.mul(x, up);
    let x = p.select(m, scaled, x);
    let less = p.select(m, less, zero);
    let parts = take_apart(p, x);
    let e = p.add(parts.e, less);
    (e, parts.f)
}

/// Puts in the results at zero, below zero, at infinity and NaN.
#[inline(always)]
fn special<P: Prims>(p: &mut P, x: P::F, y: P::F) -> P::F {
    let inf = p.f(f64::INFINITY);
    let minus_inf = p.f(f64::NEG_INFINITY);
    let nan = p.f(f64::NAN);
    let zero = p.f(0.0);
    let finite = p.lt(x, inf);
    let y = p.select(finite, y, x);
    let negative = p.lt(x, zero);
    let y = p.select(negative, nan, y);
    let is_zero = p.eq(x, zero);
    p.select(is_zero, minus_inf, y)
}

/// `ln x`.
#[inline(always)]
pub fn log<P: Prims>(p: &mut P, x: P::F) -> P::F {
    let (e, f) = take_apart_any(p, x);
    let y = natural(p, e, f);
    special(p, x, y)
}

/// The logarithm to base 2; exact at powers of two.
#[inline(always)]
pub fn log2<P: Prims>(p: &mut P, x: P::F) -> P::F {
    let (e, f) = take_apart_any(p, x);
    let tail = log1p_tail(p, f);
    let ln = p.add(f, tail);
    let log2e = p.f(LOG2_E);
    let y = p.fma(ln, log2e, e);
    special(p, x, y)
}

/// The logarithm to base 10.
#[inline(always)]
pub fn log10<P: Prims>(p: &mut P, x: P::F) -> P::F {
    let (e, f) = take_apart_any(p, x);
    let tail = log1p_tail(p, f);
    let ln = p.add(f, tail);
    let log10e = p.f(LOG10_E);
    let hi = p.f(LOG10_2);
    let lo = by_width(p, LOG10_2_LO.0, LOG10_2_LO.1);
    let y = p.mul(ln, log10e);
    let y = p.fma(e, lo, y);
    let y = p.fma(e, hi, y);
    special(p, x, y)
}

/// `ln(1 + x)`, accurate near zero.
#[inline(always)]
pub fn log1p<P: Prims>(p: &mut P, x: P::F) -> P::F {
    // u + error = 1 + x exactly.
    let one = p.f(1.0);
    let u = p.add(x, one);
    let x_part = p.sub(u, one);
    let one_part = p.sub(u, x_part);
    let a = p.sub(one, one_part);
    let b = p.sub(x, x_part);
    let error = p.add(a, b);
    let parts = take_apart(p, u);
    // error * 2^-e joins the fraction. For large x it is lost in u, and 2^-e might not be a normal
    // number.
    let shift = fraction_bits(p);
    let bias = match p.width() {
        Width::W32 => 127,
        Width::W64 => 1023,
    };
    let offset = layout(p).offset;
    let top = p.i(bias + offset);
    let field = p.isub(top, parts.biased);
    let pow = p.ishl(field, shift);
    let pow = p.from_bits(pow);
    let large = by_width(p, 30.0_f64.exp2(), 60.0_f64.exp2());
    let zero = p.f(0.0);
    let moderate = p.lt(x, large);
    let pow = p.select(moderate, pow, zero);
    let f = p.fma(error, pow, parts.f);
    let y = natural(p, parts.e, f);
    let y = special(p, u, y);
    // Keeps -0.0.
    let is_zero = p.eq(x, zero);
    p.select(is_zero, x, y)
}
