//! Roots, powers, remainders, signs, extrema.

use super::helpers::{by_width, sign_bit, with_sign};
use crate::cpu::math::Prims;

extern "C" fn pow_scalar(x: f64, y: f64) -> f64 {
    x.powf(y)
}

extern "C" fn fmod_scalar(x: f64, y: f64) -> f64 {
    x % y
}

/// `1 / sqrt(x)`, both steps rounded.
#[inline(always)]
pub fn rsqrt<P: Prims>(p: &mut P, x: P::F) -> P::F {
    let one = p.f(1.0);
    let root = p.sqrt(x);
    p.div(one, root)
}

/// `1 / x`.
#[inline(always)]
pub fn reciprocal<P: Prims>(p: &mut P, x: P::F) -> P::F {
    let one = p.f(1.0);
    p.div(one, x)
}

/// `x^y` as C's `pow`, lane by lane.
#[inline(always)]
pub fn pow<P: Prims>(p: &mut P, x: P::F, y: P::F) -> P::F {
    p.call2(pow_scalar, x, y)
}

/// The remainder of `x / y` with the sign of `x` (exact).
///
/// The quotient is a whole number below `2^(fraction bits)`, or one more where rounding reached it:
/// what is left is a multiple of the last place of `y` and no larger than it, so neither step rounds.
/// Larger quotients, an infinite divisor and NaN go to a scalar routine.
#[inline(always)]
pub fn fmod<P: Prims>(p: &mut P, x: P::F, y: P::F) -> P::F {
    let zero = p.f(0.0);
    let most = by_width(p, 23.0_f64.exp2(), 52.0_f64.exp2());
    let (a, b) = (p.abs(x), p.abs(y));
    let q = p.div(a, b);
    let q = p.trunc(q);
    let minus = p.neg(q);
    let r = p.fma(minus, b, a);
    let below = p.lt(r, zero);
    let next = p.add(r, b);
    let rest = p.select(below, next, r);
    let small = p.lt(q, most);
    let within = p.lt(r, b);
    let exact = p.and(small, within);
    let rare = p.not(exact);
    let fast = with_sign(p, rest, x);
    p.call2_where(rare, fmod_scalar, x, y, fast)
}

/// The remainder of `x / y` with the sign of `y`: `fmod`, plus `y` where the signs differ.
#[inline(always)]
pub fn remainder<P: Prims>(p: &mut P, x: P::F, y: P::F) -> P::F {
    let zero = p.f(0.0);
    let nothing = p.i(0);
    let r = fmod(p, x, y);
    let some = p.ne(r, zero);
    let rb = p.bits(r);
    let yb = p.bits(y);
    let signs = p.ixor(rb, yb);
    let differ = p.ilt(signs, nothing);
    let m = p.and(some, differ);
    let moved = p.add(r, y);
    p.select(m, moved, r)
}

/// -1, 0 or 1; zero for NaN, as PyTorch has it.
#[inline(always)]
pub fn sign<P: Prims>(p: &mut P, x: P::F) -> P::F {
    let zero = p.f(0.0);
    let one = p.f(1.0);
    let minus_one = p.f(-1.0);
    let positive = p.gt(x, zero);
    let negative = p.lt(x, zero);
    let y = p.select(positive, one, zero);
    p.select(negative, minus_one, y)
}

/// The magnitude of `x` with the sign of `y`.
#[inline(always)]
pub fn copysign<P: Prims>(p: &mut P, x: P::F, y: P::F) -> P::F {
    let a = p.abs(x);
    let a = p.bits(a);
    let sign = sign_bit(p, y);
    let r = p.ior(a, sign);
    p.from_bits(r)
}

/// The larger of two; NaN if either is.
#[inline(always)]
pub fn maximum<P: Prims>(p: &mut P, a: P::F, b: P::F) -> P::F {
    let m = p.max_raw(a, b);
    let nan = p.ne(a, a);
    p.select(nan, a, m)
}

/// The smaller of two; NaN if either is.
#[inline(always)]
pub fn minimum<P: Prims>(p: &mut P, a: P::F, b: P::F) -> P::F {
    let m = p.min_raw(a, b);
    let nan = p.ne(a, a);
    p.select(nan, a, m)
}
