//! Small sequences that several functions share.

use crate::cpu::math::{Prims, Width};

/// A constant that depends on the width.
#[inline(always)]
pub(super) fn by_width<P: Prims>(p: &mut P, w32: f64, w64: f64) -> P::F {
    match p.width() {
        Width::W32 => p.f(w32),
        Width::W64 => p.f(w64),
    }
}

/// Bits in the fraction of a float.
#[inline(always)]
pub(super) fn fraction_bits<P: Prims>(p: &P) -> u32 {
    match p.width() {
        Width::W32 => 23,
        Width::W64 => 52,
    }
}

/// The position of the sign bit.
#[inline(always)]
pub(super) fn sign_position<P: Prims>(p: &P) -> u32 {
    match p.width() {
        Width::W32 => 31,
        Width::W64 => 63,
    }
}

/// `1.5 * 2^(fraction bits)`: adding it to a small float rounds that to an integer (ties to even),
/// which then sits in the low bits of the sum.
#[inline(always)]
pub(super) fn magic<P: Prims>(p: &P) -> f64 {
    match p.width() {
        Width::W32 => 12_582_912.0,
        Width::W64 => 6_755_399_441_055_744.0,
    }
}

/// `c[0] + c[1] x + c[2] x^2 + ...` by Horner's rule.
#[inline(always)]
pub(super) fn horner<P: Prims>(p: &mut P, x: P::F, c: &[f64]) -> P::F {
    let (last, rest) = c.split_last().expect("a polynomial has coefficients");
    let mut y = p.f(*last);
    for &k in rest.iter().rev() {
        let k = p.f(k);
        y = p.fma(y, x, k);
    }
    y
}

/// The polynomial of the width at hand.
#[inline(always)]
pub(super) fn poly<P: Prims>(p: &mut P, x: P::F, w32: &[f64], w64: &[f64]) -> P::F {
    match p.width() {
        Width::W32 => horner(p, x, w32),
        Width::W64 => horner(p, x, w64),
    }
}

/// `x` limited to `[lo, hi]`; a NaN stays.
#[inline(always)]
pub(super) fn clamp<P: Prims>(p: &mut P, x: P::F, lo: P::F, hi: P::F) -> P::F {
    let x = p.min_raw(hi, x);
    p.max_raw(lo, x)
}

/// The sign bit of `x`, all other bits clear.
#[inline(always)]
pub(super) fn sign_bit<P: Prims>(p: &mut P, x: P::F) -> P::I {
    let zero = p.f(-0.0);
    let mask = p.bits(zero);
    let x = p.bits(x);
    p.iand(x, mask)
}

/// `x` with its sign flipped where `sign` has the sign bit set.
#[inline(always)]
pub(super) fn flip<P: Prims>(p: &mut P, x: P::F, sign: P::I) -> P::F {
    let x = p.bits(x);
    let x = p.ixor(x, sign);
    p.from_bits(x)
}

/// Non-negative `magnitude` with the sign of `sign`.
#[inline(always)]
pub(super) fn with_sign<P: Prims>(p: &mut P, magnitude: P::F, sign: P::F) -> P::F {
    let sign = sign_bit(p, sign);
    let magnitude = p.bits(magnitude);
    let y = p.ior(magnitude, sign);
    p.from_bits(y)
}
