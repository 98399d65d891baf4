//! Accuracy of the functions on the scalar reference.

use super::*;
use crate::cpu::math::{Scalar32, Scalar64};

/// Distance in units of the last place of `want`, for finite numbers.
fn ulps64(got: f64, want: f64) -> f64 {
    if got == want || (got.is_nan() && want.is_nan()) {
        return 0.0;
    }
    let ulp = f64::from_bits(want.abs().to_bits() + 1) - want.abs();
    (got - want).abs() / ulp
}

/// Distance of an `f32` from a precise value in units of the last place.
fn ulps32(got: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if got == rounded || (got.is_nan() && rounded.is_nan()) {
        return 0.0;
    }
    if rounded.is_infinite() || got.is_infinite() || got.is_nan() {
        return f64::INFINITY;
    }
    let ulp = f64::from(f32::from_bits(rounded.abs().to_bits() + 1)) - f64::from(rounded.abs());
    (f64::from(got) - want).abs() / ulp
}

fn by_name(name: &str) -> Fn1 {
    Fn1::ALL.iter().copied().find(|f| f.name() == name).expect("a known function")
}

/// `name bits(x) bits(f(x))`, the values computed with 250 bits and rounded once.
const REFERENCE: &str = include_str!("reference.tsv");

#[test]
fn f64_matches_precise_values() {
    let bits = |s: &str| f64::from_bits(u64::from_str_radix(s, 16).expect("hexadecimal bits"));
    let mut seen = 0;
    for line in REFERENCE.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [name, x, want] = fields[..] else {
            panic!("malformed line {line}");
        };
        let (f, x, want) = (by_name(name), bits(x), bits(want));
        let got = f.build(&mut Scalar64, x);
        let error = match f {
            // Cancels on the negative side by its definition.
            Fn1::GeluErf | Fn1::GeluTanh => (got - want).abs() / f64::EPSILON / want.abs().max(1.0),
            _ => ulps64(got, want),
        };
        assert!(error <= 4.0, "{name}({x:e}) = {got:e}, not {want:e}: {error} ulp");
        seen += 1;
    }
    assert!(seen > 600);
}

#[test]
fn f32_is_within_a_few_ulps() {
    for &f in Fn1::ALL {
        // Steps through all bit patterns: every sign, exponent, NaN.
        for b in (0..1_u64 << 32).step_by(65_537) {
            let x = f32::from_bits(b as u32);
            let got = f.build(&mut Scalar32, x);
            let wide = f64::from(x);
            let want = match f {
                // Held against the f64 builder, which the table above has verified.
                Fn1::Erf | Fn1::Erfc | Fn1::Sigmoid | Fn1::Silu | Fn1::GeluErf | Fn1::GeluTanh => {
                    f.build(&mut Scalar64, wide)
                }
                Fn1::Reciprocal => 1.0 / wide,
                Fn1::Rsqrt => 1.0 / wide.sqrt(),
                Fn1::Sign => f64::from(i8::from(x > 0.0) - i8::from(x < 0.0)),
                _ => in_std(f, wide),
            };
            let close = match f {
                Fn1::GeluErf | Fn1::GeluTanh => {
                    ulps32(got, want) <= 5.5 || (f64::from(got) - want).abs() <= 6e-7
                }
                // Subnormal quotients lose bits before the last product.
                Fn1::Silu => ulps32(got, want) <= 5.5 || (f64::from(got) - want).abs() <= 1e-36,
                _ => ulps32(got, want) <= 5.5,
            };
            assert!(close, "{}({x:e}) = {got:e}, not {want:e}", f.name());
        }
    }
}

#[test]
fn edges_follow_ieee() {
    const INF: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;
    let cases: &[(Fn1, f64, f64)] = &[
        (Fn1::Exp, INF, INF),
        (Fn1::Exp, -INF, 0.0),
        (Fn1::Exp, 0.0, 1.0),
        (Fn1::Exp2, -INF, 0.0),
        (Fn1::Exp2, 10.0, 1024.0),
        (Fn1::Expm1, -INF, -1.0),
        (Fn1::Expm1, INF, INF),
        (Fn1::Expm1, -0.0, -0.0),
        (Fn1::Log, 0.0, -INF),
        (Fn1::Log, -0.0, -INF),
        (Fn1::Log, -1.0, NAN),
        (Fn1::Log, -INF, NAN),
        (Fn1::Log, INF, INF),
        (Fn1::Log, 1.0, 0.0),
        (Fn1::Log2, 8.0, 3.0),
        (Fn1::Log2, 0.0, -INF),
        (Fn1::Log10, INF, INF),
        (Fn1::Log1p, -1.0, -INF),
        (Fn1::Log1p, -2.0, NAN),
        (Fn1::Log1p, INF, INF),
        (Fn1::Log1p, -0.0, -0.0),
        (Fn1::Tanh, INF, 1.0),
        (Fn1::Tanh, -INF, -1.0),
        (Fn1::Tanh, -0.0, -0.0),
        (Fn1::Sigmoid, INF, 1.0),
        (Fn1::Sigmoid, -INF, 0.0),
        (Fn1::Sigmoid, 0.0, 0.5),
        (Fn1::Erf, INF, 1.0),
        (Fn1::Erf, -INF, -1.0),
        (Fn1::Erf, -0.0, -0.0),
        (Fn1::Erfc, INF, 0.0),
        (Fn1::Erfc, -INF, 2.0),
        (Fn1::Sin, -0.0, -0.0),
        (Fn1::Sin, INF, NAN),
        (Fn1::Cos, 0.0, 1.0),
        (Fn1::Cos, -INF, NAN),
        (Fn1::Tan, -0.0, -0.0),
        (Fn1::Asin, -0.0, -0.0),
        (Fn1::Asin, 1.5, NAN),
        (Fn1::Acos, 1.0, 0.0),
        (Fn1::Acos, -1.5, NAN),
        (Fn1::Atan, -0.0, -0.0),
        (Fn1::Atan, INF, std::f64::consts::FRAC_PI_2),
        (Fn1::Sinh, -INF, -INF),
        (Fn1::Sinh, -0.0, -0.0),
        (Fn1::Cosh, -INF, INF),
        (Fn1::Asinh, -INF, -INF),
        (Fn1::Asinh, -0.0, -0.0),
        (Fn1::Acosh, 1.0, 0.0),
        (Fn1::Acosh, 0.5, NAN),
        (Fn1::Acosh, -3.0, NAN),
        (Fn1::Acosh, INF, INF),
        (Fn1::Atanh, 1.0, INF),
        (Fn1::Atanh, -1.0, -INF),
        (Fn1::Atanh, 1.5, NAN),
        (Fn1::Atanh, INF, NAN),
        (Fn1::Rsqrt, 0.0, INF),
        (Fn1::Rsqrt, INF, 0.0),
        (Fn1::Reciprocal, -0.0, -INF),
        (Fn1::Silu, INF, INF),
        (Fn1::GeluErf, INF, INF),
        (Fn1::GeluTanh, INF, INF),
        (Fn1::Sign, NAN, 0.0),
        (Fn1::Sign, -INF, -1.0),
    ];
    for &(f, x, want) in cases {
        let same32 = {
            let got = f.build(&mut Scalar32, x as f32);
            let want = want as f32;
            got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan())
        };
        let got = f.build(&mut Scalar64, x);
        let same64 = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
        assert!(same32 && same64, "{}({x}) is not {want}", f.name());
    }
    for &f in Fn1::ALL.iter().filter(|f| **f != Fn1::Sign) {
        assert!(f.build(&mut Scalar32, f32::NAN).is_nan(), "{}", f.name());
        assert!(f.build(&mut Scalar64, f64::NAN).is_nan(), "{}", f.name());
    }
}

#[test]
fn bounded_functions_stay_in_bounds() {
    for b in (0..1_u64 << 31).step_by(7919) {
        let x = f32::from_bits(b as u32);
        if x.is_nan() {
            continue;
        }
        assert!(tanh(&mut Scalar32, x) <= 1.0);
        assert!(erf(&mut Scalar32, -x) >= -1.0);
        assert_eq!(tanh(&mut Scalar32, x).to_bits(), (-tanh(&mut Scalar32, -x)).to_bits());
    }
}

#[test]
fn remainders_are_exact() {
    let mut state = 1u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ state >> 29
    };
    let check = |x: f64, y: f64| {
        let (got, want) = (fmod(&mut Scalar64, x, y), x % y);
        assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{x} % {y}");
        let (x, y) = (x as f32, y as f32);
        let (got, want) = (fmod(&mut Scalar32, x, y), x % y);
        assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{x} % {y}");
    };
    for k in 0..200_000 {
        let (x, y) = (f64::from_bits(next()), f64::from_bits(next()));
        check(x, y);
        // near each other, and of 32 bits
        let (a, b) = (f32::from_bits(next() as u32), f32::from_bits(next() as u32));
        check(a.into(), b.into());
        let scale = f64::from(k % 60) - 30.0;
        check(x.signum() * (next() as f64) * scale.exp2(), next() as f64);
        // multiples, whose quotients round to whole numbers, and their neighbours
        let whole = (next() % 5000) as f32 * b;
        for near in [whole, whole.next_up(), whole.next_down()] {
            check(near.into(), b.into());
        }
        let whole = (next() % 5_000_000) as f64 * y;
        for near in [whole, whole.next_up(), whole.next_down()] {
            check(near, y);
        }
    }
    let special =
        [0.0, 1.0, 5e-324, 1e-45, 8_388_607.0, 8_388_608.0, f64::INFINITY, f64::NAN, 1e300];
    for x in special {
        for y in special {
            for (x, y) in [(x, y), (-x, y), (x, -y), (-x, -y)] {
                check(x, y);
            }
        }
    }
}

#[test]
fn two_argument_functions() {
    let values = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        2.0,
        -3.0,
        5.25,
        -7.5,
        1e-30,
        -1e30,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    for &x in &values {
        for &y in &values {
            for &f in Fn2::ALL {
                let fmod = x % y;
                let want = match f {
                    Fn2::Pow => x.powf(y),
                    Fn2::Atan2 => x.atan2(y),
                    Fn2::Fmod => fmod,
                    Fn2::Remainder if fmod != 0.0 && (y < 0.0) != (fmod < 0.0) => fmod + y,
                    Fn2::Remainder => fmod,
                    Fn2::Copysign => x.copysign(y),
                    _ if x.is_nan() || y.is_nan() => f64::NAN,
                    Fn2::Maximum => x.max(y),
                    Fn2::Minimum => x.min(y),
                };
                let got = f.build(&mut Scalar64, x, y);
                let zero_of_either_sign =
                    matches!(f, Fn2::Maximum | Fn2::Minimum) && got == 0.0 && want == 0.0;
                assert!(
                    zero_of_either_sign
                        || (ulps64(got, want) <= 2.0
                            && (got.is_nan() || got.is_sign_negative() == want.is_sign_negative())),
                    "{}({x}, {y}) = {got}, not {want}",
                    f.name()
                );
                let got = f.build(&mut Scalar32, x as f32, y as f32);
                if f == Fn2::Atan2 {
                    assert!(ulps32(got, want) <= 2.0, "atan2({x}, {y}) = {got}");
                }
            }
        }
    }
}

/// The function as the standard library has it.
fn in_std(f: Fn1, x: f64) -> f64 {
    match f {
        Fn1::Exp => x.exp(),
        Fn1::Exp2 => x.exp2(),
        Fn1::Expm1 => x.exp_m1(),
        Fn1::Log => x.ln(),
        Fn1::Log2 => x.log2(),
        Fn1::Log10 => x.log10(),
        Fn1::Log1p => x.ln_1p(),
        Fn1::Tanh => x.tanh(),
        Fn1::Sin => x.sin(),
        Fn1::Cos => x.cos(),
        Fn1::Tan => x.tan(),
        Fn1::Asin => x.asin(),
        Fn1::Acos => x.acos(),
        Fn1::Atan => x.atan(),
        Fn1::Sinh => x.sinh(),
        Fn1::Cosh => x.cosh(),
        Fn1::Asinh => x.asinh(),
        Fn1::Acosh => x.acosh(),
        Fn1::Atanh => x.atanh(),
        _ => f64::NAN,
    }
}
