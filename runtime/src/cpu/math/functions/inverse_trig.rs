//! Arc sine, arc cosine, arc tangent.

use std::f64::consts::{FRAC_PI_2, PI};

use super::helpers::{by_width, poly, with_sign};
use crate::cpu::math::Prims;

/// pi/2 less its value rounded to the width; twice that for pi.
const PI_2_LO: (f64, f64) = (-4.371_139_000_186_242_6e-8, 6.123_233_995_736_766e-17);
const PI_LO: (f64, f64) = (2.0 * PI_2_LO.0, 2.0 * PI_2_LO.1);

/// `(asin(x) / x - 1) / x^2` in `x^2` for `|x| <= 1/2`.
const ASIN_W32: [f64; 5] = [
    0.16666753590106964,
    0.07495232671499252,
    0.04547834396362305,
    0.024140985682606697,
    0.042230553925037384,
];
const ASIN_W64: [f64; 12] = [
    0.16666666666665375,
    0.07500000000344832,
    0.04464285682195297,
    0.03038195939629286,
    0.022371751921316577,
    0.01735979585376073,
    0.013884348606317678,
    0.012174953572518596,
    0.006503473466204452,
    0.019594465999324656,
    -0.0163268847517795,
    0.03198181869594869,
];

/// `(atan(t) / t - 1) / t^2` in `t^2` for `|t| <= 1`.
const ATAN_W32: [f64; 8] = [
    -0.3333316743373871,
    0.19994136691093445,
    -0.14214208722114563,
    0.10678941011428833,
    -0.07580579817295074,
    0.04355354979634285,
    -0.016581188887357712,
    0.0029745909851044416,
];
const ATAN_W64: [f64; 19] = [
    -0.33333333333331994,
    0.1999999999977488,
    -0.14285714272357902,
    0.11111110705612681,
    -0.09090901658916449,
    0.07692217327810046,
    -0.06665892233458479,
    0.058774753910881605,
    -0.05239889742182622,
    0.046758999344049895,
    -0.040970735443408464,
    0.034145367260177216,
    -0.025930853390618357,
    0.01708418174886153,
    -0.009265378697859598,
    0.0039004401532894925,
    -0.0011807653948791852,
    0.00022684822054021438,
    -2.0662243087696253e-05,
];

/// What arc sine and arc cosine share.
struct Asin<P: Prims> {
    /// `|x| > 1/2`.
    big: P::M,
    /// `asin |x|`, or for big arguments `asin(sqrt((1 - |x|) / 2))`, which is half the angle from
    /// the other side.
    v: P::F,
}

#[inline(always)]
fn asin_parts<P: Prims>(p: &mut P, x: P::F) -> Asin<P> {
    let half = p.f(0.5);
    let one = p.f(1.0);
    let a = p.abs(x);
    let big = p.gt(a, half);
    let square = p.mul(a, a);
    let rest = p.sub(one, a);
    let rest = p.mul(rest, half);
    let root = p.sqrt(rest);
    let z = p.select(big, rest, square);
    let s = p.select(big, root, a);
    let q = poly(p, z, &ASIN_W32, &ASIN_W64);
    let zs = p.mul(z, s);
    let v = p.fma(zs, q, s);
    Asin { big, v }
}

/// The arc sine; NaN outside `[-1, 1]`.
#[inline(always)]
pub fn asin<P: Prims>(p: &mut P, x: P::F) -> P::F {
    let parts = asin_parts(p, x);
    let hi = p.f(FRAC_PI_2);
    let lo = by_width(p, PI_2_LO.0, PI_2_LO.1);
    let minus_two = p.f(-2.0);
    let y = p.fma(parts.v, minus_two, lo);
    let y = p.add(y, hi);
    let y = p.select(parts.big, y, parts.v);
    with_sign(p, y, x)
}

/// The arc cosine; NaN outside `[-1, 1]`.
#[inline(always)]
pub fn acos<P: Prims>(p: &mut P, x: P::F) -> P::F {
    let parts = asin_parts(p, x);
    let zero = p.f(0.0);
    let negative = p.lt(x, zero);
    // Middle: pi/2 - asin x.
    let hi = p.f(FRAC_PI_2);
    let lo = by_width(p, PI_2_LO.0, PI_2_LO.1);
    let v = with_sign(p, parts.v, x);
    let y = p.sub(lo, v);
    let middle = p.add(y, hi);
    // Near one the doubled half angle, near minus one what is left of pi.
    let near = p.add(parts.v, parts.v);
    let hi = p.f(PI);
    let lo = by_width(p, PI_LO.0, PI_LO.1);
    let y = p.sub(lo, near);
    let far = p.add(y, hi);
    let outer = p.select(negative, far, near);
    p.select(parts.big, outer, middle)
}

/// `atan t` for `|t| <= 1`.
#[inline(always)]
fn atan_poly<P: Prims>(p: &mut P, t: P::F) -> P::F {
    let z = p.mul(t, t);
    let q = poly(p, z, &ATAN_W32, &ATAN_W64);
    let zt = p.mul(z, t);
    p.fma(zt, q, t)
}

/// The arc tangent.
#[inline(always)]
pub fn atan<P: Prims>(p: &mut P, x: P::F) -> P::F {
    let one = p.f(1.0);
    let minus_one = p.f(-1.0);
    let zero = p.f(0.0);
    let a = p.abs(x);
    // Above one: pi/2 + atan(-1 / a).
    let big = p.gt(a, one);
    let num = p.select(big, minus_one, a);
    let den = p.select(big, a, one);
    let t = p.div(num, den);
    let v = atan_poly(p, t);
    let hi = p.f(FRAC_PI_2);
    let lo = by_width(p, PI_2_LO.0, PI_2_LO.1);
    let hi = p.select(big, hi, zero);
    let lo = p.select(big, lo, zero);
    let v = p.add(v, lo);
    let v = p.add(v, hi);
    with_sign(p, v, x)
}

/// The angle of the point `(x, y)`, with the signs of zeros and the infinities as C has them.
#[inline(always)]
pub fn atan2<P: Prims>(p: &mut P, y: P::F, x: P::F) -> P::F {
    let zero = p.f(0.0);
    let one = p.f(1.0);
    let ax = p.abs(x);
    let ay = p.abs(y);
    let steep = p.gt(ay, ax);
    let large = p.select(steep, ay, ax);
    let small = p.select(steep, ax, ay);
    let t = p.div(small, large);
    // inf / inf and 0 / 0.
    let diagonal = p.eq(ax, ay);
    let origin = p.eq(large, zero);
    let corner = p.select(origin, zero, one);
    let t = p.select(diagonal, corner, t);
    let v = atan_poly(p, t);
    let hi = p.f(FRAC_PI_2);
    let lo = by_width(p, PI_2_LO.0, PI_2_LO.1);
    let from_axis = p.sub(lo, v);
    let from_axis = p.add(from_axis, hi);
    let v = p.select(steep, from_axis, v);
    let hi = p.f(PI);
    let lo = by_width(p, PI_LO.0, PI_LO.1);
    let from_left = p.sub(lo, v);
    let from_left = p.add(from_left, hi);
    let x = p.bits(x);
    let nothing = p.i(0);
    let left = p.ilt(x, nothing);
    let v = p.select(left, from_left, v);
    with_sign(p, v, y)
}
