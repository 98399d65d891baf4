//! Exponentials: `x = n ln 2 + r` with `|r| <= ln(2) / 2`, a polynomial for `e^r`, and `2^n`
//! assembled from bits.

use std::f64::consts::{LN_2, LOG2_E};

use super::helpers::{by_width, clamp, fraction_bits, magic, poly};
use crate::cpu::math::Prims;

/// `ln 2` less its value rounded to the width.
pub(super) const LN2_LO: (f64, f64) = (-1.904_654_299_957_767_8e-9, 2.319_046_813_846_299_6e-17);

/// `(e^r - 1 - r) / r^2`, least relative error of `e^r`.
const EXP_W32: [f64; 5] = [
    0.4999999403953552,
    0.1666651964187622,
    0.041668400168418884,
    0.00836885068565607,
    0.0013814319390803576,
];
const EXP_W64: [f64; 10] = [
    0.5000000000000011,
    0.16666666666666408,
    0.0416666666665281,
    0.008333333333496928,
    0.0013888888944249254,
    0.00019841269502730006,
    2.480149238821015e-05,
    2.755758843110679e-06,
    2.7630523499108857e-07,
    2.49998551345487e-08,
];

/// The same, least relative error of `e^r - 1`.
const EXPM1_W32: [f64; 5] =
    [0.5, 0.16666541993618011, 0.04166628047823906, 0.008366710506379604, 0.0013946669641882181];
const EXPM1_W64: [f64; 11] = [
    0.5,
    0.16666666666666677,
    0.0416666666666667,
    0.008333333333321436,
    0.0013888888888866498,
    0.00019841269886673184,
    2.4801587361232868e-05,
    2.7557243609360315e-06,
    2.7557242176399563e-07,
    2.5109261756781432e-08,
    2.0924624761738412e-09,
];

/// `(2^r - 1) / r` on `[-0.5, 0.5]`.
const EXP2_W32: [f64; 6] = [
    LN_2,
    0.24022647738456726,
    0.055503323674201965,
    0.00961843691766262,
    0.0013398873852565885,
    0.00015353361959569156,
];
const EXP2_W64: [f64; 11] = [
    LN_2,
    0.2402265069591013,
    0.055504108664820084,
    0.00961812910759412,
    0.001333355814677462,
    0.00015403530457111996,
    1.5252733493125905e-05,
    1.3215435282353842e-06,
    1.0178199572798124e-07,
    7.073783241063141e-09,
    4.43477111989998e-10,
];

/// An argument reduced by multiples of `ln 2`.
struct Reduced<P: Prims> {
    /// `n + bias` in the low bits.
    sum: P::F,
    /// The integral multiple.
    n: P::F,
    /// What remains, `|r| <= ln(2) / 2`.
    r: P::F,
}

/// `n = round(x / ln 2)`, `r = x - n ln 2`. The first product is exact up to the last bit of `r`,
/// since `n` times a 24 (or
/// 53) bit constant cancels against `x` inside one fma.
#[inline(always)]
fn reduce<P: Prims>(p: &mut P, x: P::F, bias: f64) -> Reduced<P> {
    let magic = magic(p) + bias;
    let magic = p.f(magic);
    let log2e = p.f(LOG2_E);
    let hi = p.f(-LN_2);
    let lo = by_width(p, -LN2_LO.0, -LN2_LO.1);
    let sum = p.fma(x, log2e, magic);
    let n = p.sub(sum, magic);
    let r = p.fma(n, hi, x);
    let r = p.fma(n, lo, r);
    Reduced { sum, n, r }
}

/// `2^n` from a sum that holds `n + exponent bias` in its low bits, for results that are normal.
#[inline(always)]
fn pow2_of_sum<P: Prims>(p: &mut P, sum: P::F) -> P::F {
    let shift = fraction_bits(p);
    let bits = p.bits(sum);
    let bits = p.ishl(bits, shift);
    p.from_bits(bits)
}

/// The bias of the exponent field.
#[inline(always)]
fn exponent_bias<P: Prims>(p: &P) -> f64 {
    match fraction_bits(p) {
        23 => 127.0,
        _ => 1023.0,
    }
}

/// `e^r` for a reduced argument.
#[inline(always)]
fn exp_poly<P: Prims>(p: &mut P, r: P::F) -> P::F {
    let one = p.f(1.0);
    let y = poly(p, r, &EXP_W32, &EXP_W64);
    let y = p.fma(y, r, one);
    p.fma(y, r, one)
}

/// `e^x`.
#[inline(always)]
pub fn exp<P: Prims>(p: &mut P, x: P::F) -> P::F {
    // Just beyond these the result is zero and infinity.
    let lo = by_width(p, -104.0, -745.2);
    let hi = by_width(p, 89.0, 710.0);
    let x = clamp(p, x, lo, hi);
    let red = reduce(p, x, 0.0);
    let y = exp_poly(p, red.r);
    p.scale(y, red.n)
}

/// `e^x / 2` for `x >= 0`, finite as long as the hyperbolic functions are.
#[inline(always)]
pub(super) fn half_exp<P: Prims>(p: &mut P, x: P::F) -> P::F {
    let hi = by_width(p, 90.0, 711.0);
    let x = p.min_raw(hi, x);
    let red = reduce(p, x, 0.0);
    let y = exp_poly(p, red.r);
    let one = p.f(1.0);
    let n = p.sub(red.n, one);
    p.scale(y, n)
}

/// `e^(-a^2) * factor` for `0 <= a` small enough that the product is not below the last subnormal
/// by much. The rounding error of the square goes into the reduced argument.
#[inline(always)]
pub(super) fn exp_neg_square_times<P: Prims>(p: &mut P, a: P::F, factor: P::F) -> P::F {
    let square = p.mul(a, a);
    let minus = p.neg(square);
    let error = p.fma(a, a, minus);
    let red = reduce(p, minus, 0.0);
    let r = p.sub(red.r, error);
    let y = exp_poly(p, r);
    let y = p.mul(y, factor);
    p.scale(y, red.n)
}

/// `2^x`.
#[inline(always)]
pub fn exp2<P: Prims>(p: &mut P, x: P::F) -> P::F {
    let lo = by_width(p, -150.0, -1075.0);
    let hi = by_width(p, 128.0, 1024.0);
    let x = clamp(p, x, lo, hi);
    let magic = magic(p);
    let magic = p.f(magic);
    let sum = p.add(x, magic);
    let n = p.sub(sum, magic);
    let r = p.sub(x, n);
    let one = p.f(1.0);
    let y = poly(p, r, &EXP2_W32, &EXP2_W64);
    let y = p.fma(y, r, one);
    p.scale(y, n)
}

/// `e^x - 1` for `x` where `e^x` is neither much below one ulp of 1 nor far above the largest
/// float.
#[inline(always)]
pub(super) fn expm1_clamped<P: Prims>(p: &mut P, x: P::F) -> P::F {
    // Half of 2^n is used, so that n may be the exponent just above the largest float.
    let bias = exponent_bias(p) - 1.0;
    let red = reduce(p, x, bias);
    let half_pow = pow2_of_sum(p, red.sum);
    let q = poly(p, red.r, &EXPM1_W32, &EXPM1_W64);
    let r2 = p.mul(red.r, red.r);
    let em = p.fma(r2, q, red.r);
    let half = p.f(0.5);
    let rest = p.sub(half_pow, half);
    let y = p.fma(em, half_pow, rest);
    p.add(y, y)
}

/// `e^x - 1`, accurate near zero.
#[inline(always)]
pub fn expm1<P: Prims>(p: &mut P, x: P::F) -> P::F {
    let lo = by_width(p, -20.0, -40.0);
    let hi = by_width(p, 89.0, 710.0);
    let c = clamp(p, x, lo, hi);
    let y = expm1_clamped(p, c);
    // Keeps -0.0 and subnormals.
    let tiny = by_width(p, (-25.0_f64).exp2(), (-54.0_f64).exp2());
    let a = p.abs(x);
    let m = p.lt(a, tiny);
    p.select(m, x, y)
}

/// The logistic function `1 / (1 + e^-x)`.
#[inline(always)]
pub fn sigmoid<P: Prims>(p: &mut P, x: P::F) -> P::F {
    // Numerator and denominator are scaled by 2^-k: then e^-x never overflows before the quotient
    // is zero, and one multiplication by a normal power is enough.
    let k = by_width_f64(p, 24.0, 53.0);
    let lo = by_width(p, -104.0, -745.2);
    let hi = by_width(p, 70.0, 600.0);
    let x = clamp(p, x, lo, hi);
    let bias = exponent_bias(p) - k;
    let x = p.neg(x);
    let red = reduce(p, x, bias);
    let pow = pow2_of_sum(p, red.sum);
    let y = exp_poly(p, red.r);
    let unit = p.f((-k).exp2());
    let den = p.fma(y, pow, unit);
    p.div(unit, den)
}

#[inline(always)]
fn by_width_f64<P: Prims>(p: &P, w32: f64, w64: f64) -> f64 {
    match fraction_bits(p) {
        23 => w32,
        _ => w64,
    }
}
