//! All implementations give the bits of the scalar reference.

use super::*;
use crate::cpu::math::{Fn1, Fn2, Scalar32, Scalar64};

/// A small generator of random bits (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In `[-1, 1)`.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / 4_503_599_627_370_496.0 - 1.0
    }
}

const SPECIAL: [f64; 21] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    1.5,
    2.5,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    88.5,
    89.2,
    -103.5,
    709.5,
    -744.8,
    1e-40,
    -1e-310,
    1e9,
    -3.4e38,
];

/// Specials, then numbers near one, in the tens, in the hundreds, and random bits.
fn inputs<E>(n: usize, seed: u64, near: fn(f64) -> E, bits: fn(u64) -> E) -> Vec<E> {
    let mut r = Random(seed);
    let mut v: Vec<E> = SPECIAL.iter().map(|&x| near(x)).collect();
    while v.len() < n {
        v.push(near(r.unit()));
        v.push(near(r.unit() * 20.0));
        v.push(near(r.unit() * 800.0));
        v.push(bits(r.next()));
    }
    v.truncate(n);
    v
}

/// A function over a slice, the tail with partial access.
struct Apply1<'a, E>(Fn1, &'a [E], &'a mut [E]);

impl<E> SimdTask<E> for Apply1<'_, E> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd<Elem = E>>(self, mut s: S) {
        let Self(f, x, y) = self;
        let mut i = 0;
        while i < x.len() {
            let n = (x.len() - i).min(S::LANES);
            // SAFETY: `n` elements are left in both slices.
            unsafe {
                if n == S::LANES {
                    let v = s.load(x[i..].as_ptr());
                    let v = f.build(&mut s, v);
                    s.store(y[i..].as_mut_ptr(), v);
                } else {
                    let v = s.load_partial(x[i..].as_ptr(), n);
                    let v = f.build(&mut s, v);
                    s.store_partial(y[i..].as_mut_ptr(), n, v);
                }
            }
            i += n;
        }
    }
}

struct Apply2<'a, E>(Fn2, &'a [E], &'a [E], &'a mut [E]);

impl<E> SimdTask<E> for Apply2<'_, E> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd<Elem = E>>(self, mut s: S) {
        let Self(f, x, y, z) = self;
        for i in (0..x.len()).step_by(S::LANES) {
            let n = (x.len() - i).min(S::LANES);
            // SAFETY: `n` elements are left in all three slices.
            unsafe {
                let a = s.load_partial(x[i..].as_ptr(), n);
                let b = s.load_partial(y[i..].as_ptr(), n);
                let c = f.build(&mut s, a, b);
                s.store_partial(z[i..].as_mut_ptr(), n, c);
            }
        }
    }
}

macro_rules! agree {
    ($one:ident, $two:ident, $elem:ty, $scalar:ident, $near:expr, $bits:expr) => {
        #[test]
        fn $one() {
            // Not a multiple of any number of lanes.
            let x: Vec<$elem> = inputs(10_007, 1, $near, $bits);
            for &f in Fn1::ALL {
                let want: Vec<$elem> = x.iter().map(|&x| f.build(&mut $scalar, x)).collect();
                for &isa in Isa::ALL {
                    let mut got = vec![7.0; x.len() + 1];
                    <$elem>::dispatch_on(isa, Apply1(f, &x, &mut got[..x.len()]));
                    assert_eq!(got.pop(), Some(7.0), "wrote past the end");
                    for ((x, got), want) in x.iter().zip(&got).zip(&want) {
                        assert!(
                            got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()),
                            "{}({x:e}) = {got:e} on {isa:?}, {want:e} by the reference",
                            f.name()
                        );
                    }
                }
            }
        }

        #[test]
        fn $two() {
            let x: Vec<$elem> = inputs(3_001, 2, $near, $bits);
            let mut y: Vec<$elem> = inputs(3_001, 3, $near, $bits);
            y.rotate_left(5);
            for &f in Fn2::ALL {
                for &isa in Isa::ALL {
                    let mut got = vec![7.0; x.len()];
                    <$elem>::dispatch_on(isa, Apply2(f, &x, &y, &mut got));
                    for ((&x, &y), got) in x.iter().zip(&y).zip(&got) {
                        let want = f.build(&mut $scalar, x, y);
                        assert!(
                            got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()),
                            "{}({x:e}, {y:e}) = {got:e} on {isa:?}, {want:e} by the reference",
                            f.name()
                        );
                    }
                }
            }
        }
    };
}

agree!(
    unary_functions_agree_on_f32,
    binary_functions_agree_on_f32,
    f32,
    Scalar32,
    |x| x as f32,
    |b| f32::from_bits(b as u32)
);
agree!(
    unary_functions_agree_on_f64,
    binary_functions_agree_on_f64,
    f64,
    Scalar64,
    |x| x,
    f64::from_bits
);

/// The primitives that no function uses, and the horizontal ones.
struct Rest;

macro_rules! rest {
    ($elem:ty) => {
        impl SimdTask<$elem> for Rest {
            type Out = ();

            #[inline(always)]
            fn run<S: Simd<Elem = $elem>>(self, mut s: S) {
                let n = S::LANES;
                let x: Vec<$elem> = (0..n).map(|k| k as $elem * 1.75 - 5.0).collect();
                // SAFETY: `x` has `LANES` elements.
                let v = unsafe { s.load(x.as_ptr()) };
                let expect = |s: &mut S, got: S::F, f: &dyn Fn($elem) -> $elem| {
                    for (got, x) in s.to_array(got).iter().zip(&x) {
                        assert_eq!(*got, f(*x), "of {x}");
                    }
                };
                let i = s.to_int(v);
                let back = s.to_float(i);
                expect(&mut s, back, &|x| x.trunc());
                let shifted = s.ishr_s(i, 1);
                let back = s.to_float(shifted);
                expect(&mut s, back, &|x| (x.trunc() / 2.0).floor());
                let unshifted = s.ishr_s(i, 0);
                let back = s.to_float(unshifted);
                expect(&mut s, back, &|x| x.trunc());
                let y = s.floor(v);
                expect(&mut s, y, &|x| x.floor());
                let y = s.ceil(v);
                expect(&mut s, y, &|x| x.ceil());
                let y = s.trunc(v);
                expect(&mut s, y, &|x| x.trunc());
                let zero = s.splat(0.0);
                let one = s.splat(1.0);
                let low = s.le(v, zero);
                let high = s.ge(v, one);
                let outside = s.or(low, high);
                let inside = s.not(outside);
                let y = s.select(inside, one, zero);
                expect(&mut s, y, &|x| f64::from(x > 0.0 && x < 1.0) as $elem);
                let (a, b) = (s.i(-3), s.i(4));
                let m = s.lt(v, zero);
                let y = s.select_i(m, a, b);
                let y = s.to_float(y);
                expect(&mut s, y, &|x| if x < 0.0 { -3.0 } else { 4.0 });
                assert_eq!(s.reduce_add(v), x.iter().sum::<$elem>());
                assert_eq!(s.reduce_max(v), x[n - 1]);
                assert_eq!(s.reduce_min(v), -5.0);
                let nan = s.splat(<$elem>::NAN);
                let first = s.first(1);
                let y = s.select(first, nan, v);
                assert!(s.reduce_max(y).is_nan() && s.reduce_min(y).is_nan());
                let none = s.first(0);
                assert!(s.any(first) && !s.any(none));
                let mut rows = [zero; MAX_LANES];
                for (i, row) in rows.iter_mut().enumerate().take(n) {
                    let row_of: Vec<$elem> = (0..n).map(|k| (100 * i + k) as $elem).collect();
                    // SAFETY: `LANES` elements.
                    *row = unsafe { s.load(row_of.as_ptr()) };
                }
                s.transpose(&mut rows);
                for (i, row) in rows.into_iter().enumerate().take(n) {
                    let got = s.to_array(row);
                    let want: Vec<$elem> = (0..n).map(|k| (100 * k + i) as $elem).collect();
                    assert_eq!(got[..n], want, "row {i}");
                }
            }
        }
    };
}

rest!(f32);
rest!(f64);

#[test]
fn remaining_primitives() {
    for &isa in Isa::ALL {
        f32::dispatch_on(isa, Rest);
        f64::dispatch_on(isa, Rest);
    }
}
