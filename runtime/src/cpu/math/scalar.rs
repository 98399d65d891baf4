//! The primitives on one lane: the reference that every other implementation is held against.

use super::prims::{Prims, ScalarFn1, ScalarFn2, Width};

/// One `f32` lane.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scalar32;

/// One `f64` lane.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scalar64;

macro_rules! scalar_prims {
    ($name:ident, $f:ty, $i:ty, $u:ty, $width:expr) => {
        impl Prims for $name {
            type F = $f;
            type I = $i;
            type M = bool;

            #[inline(always)]
            fn width(&self) -> Width {
                $width
            }
            #[inline(always)]
            fn f(&mut self, v: f64) -> $f {
                v as $f
            }
            #[inline(always)]
            fn i(&mut self, v: i64) -> $i {
                v as $i
            }
            #[inline(always)]
            fn add(&mut self, a: $f, b: $f) -> $f {
                a + b
            }
            #[inline(always)]
            fn sub(&mut self, a: $f, b: $f) -> $f {
                a - b
            }
            #[inline(always)]
            fn mul(&mut self, a: $f, b: $f) -> $f {
                a * b
            }
            #[inline(always)]
            fn div(&mut self, a: $f, b: $f) -> $f {
                a / b
            }
            #[inline(always)]
            fn fma(&mut self, a: $f, b: $f, c: $f) -> $f {
                a.mul_add(b, c)
            }
            #[inline(always)]
            fn neg(&mut self, a: $f) -> $f {
                -a
            }
            #[inline(always)]
            fn abs(&mut self, a: $f) -> $f {
                a.abs()
            }
            #[inline(always)]
            fn sqrt(&mut self, a: $f) -> $f {
                a.sqrt()
            }
            #[inline(always)]
            fn floor(&mut self, a: $f) -> $f {
                a.floor()
            }
            #[inline(always)]
            fn ceil(&mut self, a: $f) -> $f {
                a.ceil()
            }
            #[inline(always)]
            fn trunc(&mut self, a: $f) -> $f {
                a.trunc()
            }
            #[inline(always)]
            fn round_even(&mut self, a: $f) -> $f {
                a.round_ties_even()
            }
            #[inline(always)]
            fn lt(&mut self, a: $f, b: $f) -> bool {
                a < b
            }
            #[inline(always)]
            fn le(&mut self, a: $f, b: $f) -> bool {
                a <= b
            }
            #[inline(always)]
            fn eq(&mut self, a: $f, b: $f) -> bool {
                a == b
            }
            #[inline(always)]
            fn ne(&mut self, a: $f, b: $f) -> bool {
                a != b
            }
            #[inline(always)]
            fn and(&mut self, a: bool, b: bool) -> bool {
                a & b
            }
            #[inline(always)]
            fn or(&mut self, a: bool, b: bool) -> bool {
                a | b
            }
            #[inline(always)]
            fn not(&mut self, a: bool) -> bool {
                !a
            }
            #[inline(always)]
            fn select(&mut self, m: bool, a: $f, b: $f) -> $f {
                if m { a } else { b }
            }
            #[inline(always)]
            fn select_i(&mut self, m: bool, a: $i, b: $i) -> $i {
                if m { a } else { b }
            }
            #[inline(always)]
            fn bits(&mut self, a: $f) -> $i {
                a.to_bits() as $i
            }
            #[inline(always)]
            fn from_bits(&mut self, a: $i) -> $f {
                <$f>::from_bits(a as $u)
            }
            #[inline(always)]
            fn iadd(&mut self, a: $i, b: $i) -> $i {
                a.wrapping_add(b)
            }
            #[inline(always)]
            fn isub(&mut self, a: $i, b: $i) -> $i {
                a.wrapping_sub(b)
            }
            #[inline(always)]
            fn iand(&mut self, a: $i, b: $i) -> $i {
                a & b
            }
            #[inline(always)]
            fn ior(&mut self, a: $i, b: $i) -> $i {
                a | b
            }
            #[inline(always)]
            fn ixor(&mut self, a: $i, b: $i) -> $i {
                a ^ b
            }
            #[inline(always)]
            fn ishl(&mut self, a: $i, n: u32) -> $i {
                a << n
            }
            #[inline(always)]
            fn ishr_u(&mut self, a: $i, n: u32) -> $i {
                ((a as $u) >> n) as $i
            }
            #[inline(always)]
            fn ishr_s(&mut self, a: $i, n: u32) -> $i {
                a >> n
            }
            #[inline(always)]
            fn ilt(&mut self, a: $i, b: $i) -> bool {
                a < b
            }
            #[inline(always)]
            fn ieq(&mut self, a: $i, b: $i) -> bool {
                a == b
            }
            #[inline(always)]
            fn to_int(&mut self, a: $f) -> $i {
                a as $i
            }
            #[inline(always)]
            fn to_float(&mut self, a: $i) -> $f {
                a as $f
            }
            #[inline(always)]
            fn call1(&mut self, f: ScalarFn1, x: $f) -> $f {
                f(f64::from(x)) as $f
            }
            #[inline(always)]
            fn call2(&mut self, f: ScalarFn2, x: $f, y: $f) -> $f {
                f(f64::from(x), f64::from(y)) as $f
            }
            #[inline(always)]
            fn call1_where(&mut self, m: bool, f: ScalarFn1, x: $f, fast: $f) -> $f {
                if m { self.call1(f, x) } else { fast }
            }
            #[inline(always)]
            fn call2_where(&mut self, m: bool, f: ScalarFn2, x: $f, y: $f, fast: $f) -> $f {
                if m { self.call2(f, x, y) } else { fast }
            }
        }
    };
}

scalar_prims!(Scalar32, f32, i32, u32, Width::W32);
scalar_prims!(Scalar64, f64, i64, u64, Width::W64);
