//! The cost of the functions: the operations that they record, as an emitter would see them.

use super::*;
use crate::cpu::math::{ScalarFn1, ScalarFn2, Width};

/// Counts operations. Constants are free, since they are hoisted out of loops.
struct Count {
    width: Width,
    simple: u32,
    slow: u32,
    calls: u32,
}

macro_rules! count {
    ($field:ident: $( $name:ident ( $($t:ident),+ $(; $extra:ty)? ) -> $out:ident ),+ $(,)?) => {
        $(
            fn $name(&mut self, $(_: count!(@ $t),)+ $(_: $extra)?) -> Self::$out {
                self.$field += 1;
            }
        )+
    };
    (@ $t:ident) => { Self::$t };
}

impl Prims for Count {
    type F = ();
    type I = ();
    type M = ();

    fn width(&self) -> Width {
        self.width
    }
    fn f(&mut self, _: f64) {}
    fn i(&mut self, _: i64) {}
    fn bits(&mut self, (): ()) {}
    fn from_bits(&mut self, (): ()) {}
    count! { slow: div(F, F) -> F, sqrt(F) -> F }
    count! { simple:
        add(F, F) -> F, sub(F, F) -> F, mul(F, F) -> F, fma(F, F, F) -> F, neg(F) -> F, abs(F) -> F,
        min_raw(F, F) -> F, max_raw(F, F) -> F, floor(F) -> F, ceil(F) -> F, trunc(F) -> F, round_even(F) -> F,
        lt(F, F) -> M, le(F, F) -> M, eq(F, F) -> M, ne(F, F) -> M, and(M, M) -> M, or(M, M) -> M, not(M) -> M,
        select(M, F, F) -> F, select_i(M, I, I) -> I, iadd(I, I) -> I, isub(I, I) -> I, iand(I, I) -> I,
        ior(I, I) -> I, ixor(I, I) -> I, ishl(I; u32) -> I, ishr_u(I; u32) -> I, ilt(I, I) -> M, ieq(I, I) -> M,
    }
    count! { calls:
        ishr_s(I; u32) -> I, to_int(F) -> I, to_float(I) -> F,
    }
    fn call1(&mut self, _: ScalarFn1, (): ()) {
        self.calls += 1;
    }
    fn call2(&mut self, _: ScalarFn2, (): (), (): ()) {
        self.calls += 1;
    }
    fn call1_where(&mut self, (): (), _: ScalarFn1, (): (), (): ()) {}
    fn call2_where(&mut self, (): (), _: ScalarFn2, (): (), (): (), (): ()) {}
}

fn count(f: Fn1, width: Width) -> Count {
    let mut c = Count { width, simple: 0, slow: 0, calls: 0 };
    f.build(&mut c, ());
    c
}

#[test]
fn hot_functions_stay_short() {
    // Without the instruction that replaces `scale`, which takes seven.
    for (f, simple, slow) in [
        (Fn1::Exp, 19, 0),
        (Fn1::Tanh, 15, 1),
        (Fn1::Sigmoid, 16, 1),
        (Fn1::Silu, 17, 1),
        (Fn1::Erf, 16, 1),
        (Fn1::GeluErf, 19, 1),
        (Fn1::GeluTanh, 20, 1),
        (Fn1::Log, 31, 0),
        (Fn1::Sin, 24, 0),
    ] {
        let c = count(f, Width::W32);
        assert!(
            c.simple <= simple && c.slow <= slow,
            "{}: {} and {} slow",
            f.name(),
            c.simple,
            c.slow
        );
    }
}

#[test]
fn no_unary_function_needs_calls_or_conversions() {
    for &f in Fn1::ALL {
        for width in [Width::W32, Width::W64] {
            assert_eq!(count(f, width).calls, 0, "{}", f.name());
        }
    }
}
