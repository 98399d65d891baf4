//! Vectors as arrays, for machines without an own implementation; the compiler turns the loops into what there is.

use super::{Lane, MAX_LANES, Simd};
use crate::cpu::math::{Prims, Scalar32, Scalar64, ScalarFn1, ScalarFn2, Width};

/// `N` lanes of `E`. `N` is a power of two of at most [`MAX_LANES`].
#[derive(Clone, Copy, Debug)]
pub struct Portable<E, const N: usize>(std::marker::PhantomData<E>);

impl<E: Lane, const N: usize> Portable<E, N> {
    const LANES_ARE_POSSIBLE: () = assert!(N.is_power_of_two() && N <= MAX_LANES);

    /// Vectors of this shape.
    #[inline(always)]
    pub fn new() -> Self {
        let () = Self::LANES_ARE_POSSIBLE;
        Self(std::marker::PhantomData)
    }
}

impl<E: Lane, const N: usize> Default for Portable<E, N> {
    fn default() -> Self {
        Self::new()
    }
}

macro_rules! lanewise {
    ($scalar:ident; $( $name:ident ( $($arg:ident : $t:ty),+ $(; $extra:ident : $et:ty)? ) -> $out:ty ),+ $(,)?) => {
        $(
            #[inline(always)]
            fn $name(&mut self, $($arg: [$t; N],)+ $($extra: $et)?) -> [$out; N] {
                std::array::from_fn(|k| $scalar.$name($($arg[k],)+ $($extra)?))
            }
        )+
    };
}

macro_rules! portable {
    ($elem:ty, $int:ty, $scalar:ident, $width:expr) => {
        impl<const N: usize> Prims for Portable<$elem, N> {
            type F = [$elem; N];
            type I = [$int; N];
            type M = [bool; N];

            #[inline(always)]
            fn width(&self) -> Width {
                $width
            }
            #[inline(always)]
            fn f(&mut self, v: f64) -> Self::F {
                [v as $elem; N]
            }
            #[inline(always)]
            fn i(&mut self, v: i64) -> Self::I {
                [v as $int; N]
            }
            lanewise! { $scalar;
                add(a: $elem, b: $elem) -> $elem,
                sub(a: $elem, b: $elem) -> $elem,
                mul(a: $elem, b: $elem) -> $elem,
                div(a: $elem, b: $elem) -> $elem,
                fma(a: $elem, b: $elem, c: $elem) -> $elem,
                neg(a: $elem) -> $elem,
                abs(a: $elem) -> $elem,
                sqrt(a: $elem) -> $elem,
                min_raw(a: $elem, b: $elem) -> $elem,
                max_raw(a: $elem, b: $elem) -> $elem,
                floor(a: $elem) -> $elem,
                ceil(a: $elem) -> $elem,
                trunc(a: $elem) -> $elem,
                round_even(a: $elem) -> $elem,
                lt(a: $elem, b: $elem) -> bool,
                le(a: $elem, b: $elem) -> bool,
                eq(a: $elem, b: $elem) -> bool,
                ne(a: $elem, b: $elem) -> bool,
                and(a: bool, b: bool) -> bool,
                or(a: bool, b: bool) -> bool,
                not(a: bool) -> bool,
                select(m: bool, a: $elem, b: $elem) -> $elem,
                select_i(m: bool, a: $int, b: $int) -> $int,
                bits(a: $elem) -> $int,
                from_bits(a: $int) -> $elem,
                iadd(a: $int, b: $int) -> $int,
                isub(a: $int, b: $int) -> $int,
                iand(a: $int, b: $int) -> $int,
                ior(a: $int, b: $int) -> $int,
                ixor(a: $int, b: $int) -> $int,
                ishl(a: $int; n: u32) -> $int,
                ishr_u(a: $int; n: u32) -> $int,
                ishr_s(a: $int; n: u32) -> $int,
                ilt(a: $int, b: $int) -> bool,
                ieq(a: $int, b: $int) -> bool,
                to_int(a: $elem) -> $int,
                to_float(a: $int) -> $elem,
            }
            #[inline(always)]
            fn call1(&mut self, f: ScalarFn1, x: Self::F) -> Self::F {
                x.map(|x| $scalar.call1(f, x))
            }
            #[inline(always)]
            fn call2(&mut self, f: ScalarFn2, x: Self::F, y: Self::F) -> Self::F {
                std::array::from_fn(|k| $scalar.call2(f, x[k], y[k]))
            }
            #[inline(always)]
            fn call1_where(
                &mut self,
                m: Self::M,
                f: ScalarFn1,
                x: Self::F,
                fast: Self::F,
            ) -> Self::F {
                std::array::from_fn(|k| $scalar.call1_where(m[k], f, x[k], fast[k]))
            }
        }

        impl<const N: usize> Simd for Portable<$elem, N> {
            type Elem = $elem;
            const LANES: usize = N;

            #[inline(always)]
            fn splat(&mut self, v: $elem) -> Self::F {
                [v; N]
            }
            #[inline(always)]
            unsafe fn load(&mut self, ptr: *const $elem) -> Self::F {
                // SAFETY: the caller vouches for `N` elements; an array needs no more alignment than they do, and
                // even that is not relied on.
                unsafe { ptr.cast::<[$elem; N]>().read_unaligned() }
            }
            #[inline(always)]
            unsafe fn store(&mut self, ptr: *mut $elem, v: Self::F) {
                // SAFETY: as for `load`.
                unsafe { ptr.cast::<[$elem; N]>().write_unaligned(v) }
            }
            #[inline(always)]
            unsafe fn load_partial(&mut self, ptr: *const $elem, n: usize) -> Self::F {
                std::array::from_fn(|k| {
                    if k < n {
                        // SAFETY: the caller vouches for `n` elements.
                        unsafe { ptr.add(k).read_unaligned() }
                    } else {
                        0.0
                    }
                })
            }
            #[inline(always)]
            unsafe fn store_partial(&mut self, ptr: *mut $elem, n: usize, v: Self::F) {
                for (k, v) in v.into_iter().enumerate().take(n) {
                    // SAFETY: the caller vouches for `n` elements.
                    unsafe { ptr.add(k).write_unaligned(v) }
                }
            }
            #[inline(always)]
            fn first(&mut self, n: usize) -> Self::M {
                std::array::from_fn(|k| k < n)
            }
            #[inline(always)]
            fn any(&mut self, m: Self::M) -> bool {
                m.contains(&true)
            }
        }
    };
}

portable!(f32, i32, Scalar32, Width::W32);
portable!(f64, i64, Scalar64, Width::W64);
