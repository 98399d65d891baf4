//! Vectors as arrays, for machines without their own implementation; the compiler vectorises the
//! loops if it can.

use super::table::{functions, implement, transpose_in_memory};
use super::vector::{Lane, MAX_LANES, Simd};
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

/// A method of the scalar on each lane.
macro_rules! lanewise {
    ($module:ident, $op:ident, [$($arg:ident),+] $($n:ident)?) => {
        std::array::from_fn(|k| $module::One.$op($($arg[k],)+ $($n)?))
    };
}

macro_rules! portable {
    ($module:ident, $elem:ty, $int:ty, $scalar:ident, $width:expr) => {
        implement! {
            $module, lanewise, Portable<$elem, N> where const N: usize, $elem as $int, N, $width,
            ([$elem; N], [$int; N], [bool; N]),
            {
                #[inline(always)]
                fn min_raw(&mut self, a: Self::F, b: Self::F) -> Self::F {
                    lanewise!($module, min_raw, [a, b])
                }
                #[inline(always)]
                fn max_raw(&mut self, a: Self::F, b: Self::F) -> Self::F {
                    lanewise!($module, max_raw, [a, b])
                }
                #[inline(always)]
                fn call1(&mut self, f: ScalarFn1, x: Self::F) -> Self::F {
                    x.map(|x| $module::One.call1(f, x))
                }
                #[inline(always)]
                fn call2(&mut self, f: ScalarFn2, x: Self::F, y: Self::F) -> Self::F {
                    std::array::from_fn(|k| $module::One.call2(f, x[k], y[k]))
                }
                #[inline(always)]
                fn call1_where(&mut self, m: Self::M, f: ScalarFn1, x: Self::F, fast: Self::F) -> Self::F {
                    std::array::from_fn(|k| $module::One.call1_where(m[k], f, x[k], fast[k]))
                }
                #[inline(always)]
                fn call2_where(
                    &mut self,
                    m: Self::M,
                    f: ScalarFn2,
                    x: Self::F,
                    y: Self::F,
                    fast: Self::F,
                ) -> Self::F {
                    std::array::from_fn(|k| $module::One.call2_where(m[k], f, x[k], y[k], fast[k]))
                }
            }
        }

        mod $module {
            use super::*;

            pub(super) use super::$scalar as One;

            functions! {
                fn splat[N](v: $elem) -> [$elem; N] { [v; N] }
                fn splat_i[N](v: $int) -> [$int; N] { [v; N] }
                fn load[N](ptr: *const $elem) -> [$elem; N] { ptr.cast::<[$elem; N]>().read_unaligned() }
                fn store[N](ptr: *mut $elem, v: [$elem; N]) { ptr.cast::<[$elem; N]>().write_unaligned(v) }
                fn load_partial[N](ptr: *const $elem, n: usize) -> [$elem; N] {
                    std::array::from_fn(|k| if k < n { ptr.add(k).read_unaligned() } else { 0.0 })
                }
                fn store_partial[N](ptr: *mut $elem, n: usize, v: [$elem; N]) {
                    for (k, v) in v.into_iter().enumerate().take(n) {
                        ptr.add(k).write_unaligned(v);
                    }
                }
                fn first[N](n: usize) -> [bool; N] { std::array::from_fn(|k| k < n) }
                fn any[N](m: [bool; N]) -> bool { m.contains(&true) }
            }
            transpose_in_memory!([$elem; N], $elem, N, N);
        }
    };
}

portable!(lane32, f32, i32, Scalar32, Width::W32);
portable!(lane64, f64, i64, Scalar64, Width::W64);
