//! The error function and its complement.

use std::f64::consts::FRAC_2_SQRT_PI;

use super::exp::exp_neg_square_times;
use super::helpers::{by_width, clamp, horner, poly, with_sign};
use crate::cpu::math::{Prims, Width};

/// `erf(x) / x` as a quotient of polynomials in `x^2`, up to where `erf` rounds to one.
const ERF_NUM_W32: [f64; 6] = [
    FRAC_2_SQRT_PI,
    0.19080831110477448,
    0.052793316543102264,
    0.0037805938627570868,
    0.000284820853266865,
    2.041662810370326e-06,
];
const ERF_DEN_W32: [f64; 6] = [
    1.0,
    0.5024321675300598,
    0.11426745355129242,
    0.01499942410737276,
    0.0011654323898255825,
    3.8001497159712017e-05,
];

/// `erf(x) / x` in `x^2` for `|x| <= 1`.
const ERF_SMALL_W64: [f64; 12] = [
    FRAC_2_SQRT_PI,
    -0.3761263890318352,
    0.11283791670944185,
    -0.02686617064311147,
    0.005223977606118474,
    -0.000854832592931452,
    0.00012055293576901163,
    -1.4924712302017047e-05,
    1.6447131571352122e-06,
    -1.6206313759008548e-07,
    1.3710980400157533e-08,
    -7.779468492712961e-10,
];

/// `e^(a^2) erfc(a) (1 + 2 a)` in `t = (a - k) / (a + k)`, `k` = 2 and 4.
const ERFCX_W32: [f64; 10] = [
    1.2769783735275269,
    -0.0927639827132225,
    -0.16603146493434906,
    0.16405542194843292,
    -0.054203882813453674,
    -0.008060142397880554,
    0.00863009411841631,
    0.00131330790463835,
    -0.0012279987568035722,
    -0.0003994469007011503,
];
const ERFCX_W64: [f64; 23] = [
    1.2329951186255526,
    -0.13962111684056286,
    0.015379652102620036,
    0.06809705425473445,
    -0.10103906603631732,
    0.09373283499688782,
    -0.06633036581218586,
    0.03716751556104407,
    -0.016197734052944078,
    0.005031969768472329,
    -0.000757773373783087,
    -0.00019925557366793845,
    0.0001506223421946663,
    -2.440295224249685e-05,
    -1.1224954994240356e-05,
    5.717443334731209e-06,
    3.0147273539999477e-07,
    -8.346172338717836e-07,
    6.2740653730577e-08,
    1.1498754332505973e-07,
    -7.822014077527129e-09,
    -1.357302277109465e-08,
    -1.7762308887077081e-09,
];

/// `erf x`.
#[inline(always)]
pub fn erf<P: Prims>(p: &mut P, x: P::F) -> P::F {
    let one = p.f(1.0);
    match p.width() {
        Width::W32 => {
            let lo = p.f(-3.93);
            let hi = p.f(3.93);
            let x = clamp(p, x, lo, hi);
            let z = p.mul(x, x);
            let num = horner(p, z, &ERF_NUM_W32);
            let num = p.mul(num, x);
            let den = horner(p, z, &ERF_DEN_W32);
            let y = p.div(num, den);
            // Rounding may end one ulp above one.
            let minus_one = p.f(-1.0);
            clamp(p, y, minus_one, one)
        }
        Width::W64 => {
            let z = p.mul(x, x);
            let small = horner(p, z, &ERF_SMALL_W64);
            let small = p.mul(small, x);
            let a = p.abs(x);
            let hi = p.f(6.5);
            let c = p.min_raw(hi, a);
            let tail = erfc_positive(p, c);
            let large = p.sub(one, tail);
            let large = with_sign(p, large, x);
            let m = p.lt(a, one);
            p.select(m, small, large)
        }
    }
}

/// `erfc a` for `0 <= a`, not far above where it vanishes.
#[inline(always)]
fn erfc_positive<P: Prims>(p: &mut P, a: P::F) -> P::F {
    let k = by_width(p, 2.0, 4.0);
    let one = p.f(1.0);
    let two = p.f(2.0);
    let num = p.sub(a, k);
    let den = p.add(a, k);
    let t = p.div(num, den);
    let y = poly(p, t, &ERFCX_W32, &ERFCX_W64);
    let den = p.fma(a, two, one);
    let y = p.div(y, den);
    exp_neg_square_times(p, a, y)
}

/// `1 - erf x` without cancellation.
#[inline(always)]
pub fn erfc<P: Prims>(p: &mut P, x: P::F) -> P::F {
    let hi = by_width(p, 10.2, 27.5);
    let two = p.f(2.0);
    let zero = p.f(0.0);
    let a = p.abs(x);
    let a = p.min_raw(hi, a);
    let y = erfc_positive(p, a);
    let reflected = p.sub(two, y);
    let m = p.lt(x, zero);
    p.select(m, reflected, y)
}
