//! Sine, cosine, tangent: reduction by multiples of pi/2 in three fused steps, then two short
//! polynomials.
//!
//! The steps carry enough bits of pi for arguments up to [`LARGE`]; beyond, the scalar routine does
//! the work.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

use super::helpers::{by_width, flip, magic, poly, sign_bit, sign_position};
use crate::cpu::math::Prims;

/// The largest argument of the vector code.
const LARGE: (f64, f64) = (131_072.0, 1_073_741_824.0);

/// pi/2 in three parts, the first being the constant rounded to the width.
const PI_2_MIDDLE: (f64, f64) = (-4.371_139_000_186_242_6e-8, 6.123_233_995_736_766e-17);
const PI_2_LAST: (f64, f64) = (-1.715_124_499_442_883e-15, -1.497_384_904_859_169_8e-33);

/// `(sin(r) / r - 1) / z` with `z = r^2`.
const SIN_W32: [f64; 3] = [-0.16666653752326965, 0.00833214819431305, -0.0001951310405274853];
const SIN_W64: [f64; 6] = [
    -0.1666666666666663,
    0.008333333333321697,
    -0.0001984126982920932,
    2.755731347676481e-06,
    -2.5050723356822424e-08,
    1.5894724001726208e-10,
];

/// `(cos(r) - 1 + z / 2) / z^2` with `z = r^2`.
const COS_W32: [f64; 3] = [0.04166664555668831, -0.001388732809573412, 2.443375160510186e-05];
const COS_W64: [f64; 6] = [
    0.041666666666666595,
    -0.0013888888888873153,
    2.4801587288850044e-05,
    -2.755731416283896e-07,
    2.087569665909409e-09,
    -1.1358228934332655e-11,
];

extern "C" fn sin_scalar(x: f64) -> f64 {
    x.sin()
}

extern "C" fn cos_scalar(x: f64) -> f64 {
    x.cos()
}

extern "C" fn tan_scalar(x: f64) -> f64 {
    x.tan()
}

/// Sine and cosine of what remains, and the quadrant.
struct Quadrant<P: Prims> {
    sin: P::F,
    cos: P::F,
    /// The number of right angles taken off, in the low bits.
    n: P::I,
    /// The argument is too large for the vector code.
    large: P::M,
}

#[inline(always)]
fn reduce<P: Prims>(p: &mut P, a: P::F) -> Quadrant<P> {
    let magic = magic(p);
    let magic = p.f(magic);
    let two_over_pi = p.f(FRAC_2_PI);
    let c1 = p.f(-FRAC_PI_2);
    let c2 = by_width(p, -PI_2_MIDDLE.0, -PI_2_MIDDLE.1);
    let c3 = by_width(p, -PI_2_LAST.0, -PI_2_LAST.1);
    let sum = p.fma(a, two_over_pi, magic);
    let n = p.sub(sum, magic);
    let r = p.fma(n, c1, a);
    let r = p.fma(n, c2, r);
    let r = p.fma(n, c3, r);
    let z = p.mul(r, r);
    let s = poly(p, z, &SIN_W32, &SIN_W64);
    let zr = p.mul(z, r);
    let sin = p.fma(zr, s, r);
    let c = poly(p, z, &COS_W32, &COS_W64);
    let minus_half = p.f(-0.5);
    let one = p.f(1.0);
    let c = p.fma(z, c, minus_half);
    let cos = p.fma(z, c, one);
    let n = p.bits(sum);
    let bound = by_width(p, LARGE.0, LARGE.1);
    let large = p.ge(a, bound);
    Quadrant { sin, cos, n, large }
}

/// The number of quarter turns is even.
#[inline(always)]
fn is_even<P: Prims>(p: &mut P, n: P::I) -> P::M {
    let one = p.i(1);
    let zero = p.i(0);
    let low = p.iand(n, one);
    p.ieq(low, zero)
}

/// A sign bit from bit `bit` of `n`.
#[inline(always)]
fn sign_from<P: Prims>(p: &mut P, n: P::I, bit: u32) -> P::I {
    let mask = p.i(1 << bit);
    let low = p.iand(n, mask);
    let shift = sign_position(p) - bit;
    p.ishl(low, shift)
}

/// `sin x`.
#[inline(always)]
pub fn sin<P: Prims>(p: &mut P, x: P::F) -> P::F {
    let a = p.abs(x);
    let q = reduce(p, a);
    let even = is_even(p, q.n);
    let y = p.select(even, q.sin, q.cos);
    let turned = sign_from(p, q.n, 1);
    let sign = sign_bit(p, x);
    let sign = p.ixor(sign, turned);
    let y = flip(p, y, sign);
    p.call1_where(q.large, sin_scalar, x, y)
}

/// `cos x`.
#[inline(always)]
pub fn cos<P: Prims>(p: &mut P, x: P::F) -> P::F {
    let a = p.abs(x);
    let q = reduce(p, a);
    let even = is_even(p, q.n);
    let y = p.select(even, q.cos, q.sin);
    let one = p.i(1);
    let n = p.iadd(q.n, one);
    let sign = sign_from(p, n, 1);
    let y = flip(p, y, sign);
    p.call1_where(q.large, cos_scalar, x, y)
}

/// `tan x`.
#[inline(always)]
pub fn tan<P: Prims>(p: &mut P, x: P::F) -> P::F {
    let a = p.abs(x);
    let q = reduce(p, a);
    let even = is_even(p, q.n);
    let num = p.select(even, q.sin, q.cos);
    let den = p.select(even, q.cos, q.sin);
    let y = p.div(num, den);
    let turned = sign_from(p, q.n, 0);
    let sign = sign_bit(p, x);
    let sign = p.ixor(sign, turned);
    let y = flip(p, y, sign);
    p.call1_where(q.large, tan_scalar, x, y)
}
