//! Loading and storing the vectors that float rows compute on.

use crate::cpu::math::{Prims, Scalar32, Scalar64};

/// A vector unit: the math primitives, and memory.
pub(super) trait Vector: Prims + Copy + Default {
    /// What a lane holds.
    type Elem: Copy + PartialOrd;
    /// Lanes of a vector.
    const LANES: usize;

    /// Reads `LANES` elements.
    ///
    /// # Safety
    ///
    /// They are readable.
    unsafe fn load(&mut self, p: *const Self::Elem) -> Self::F;
    /// Reads `n < LANES` elements; the other lanes are 0.
    ///
    /// # Safety
    ///
    /// The `n` are readable.
    unsafe fn load_some(&mut self, p: *const Self::Elem, n: usize) -> Self::F;
    /// Writes `LANES` elements.
    ///
    /// # Safety
    ///
    /// They are writable.
    unsafe fn store(&mut self, p: *mut Self::Elem, x: Self::F);
    /// Writes the first `n < LANES` elements.
    ///
    /// # Safety
    ///
    /// The `n` are writable.
    unsafe fn store_some(&mut self, p: *mut Self::Elem, x: Self::F, n: usize);
    /// Every lane this element.
    fn splat(&mut self, x: Self::Elem) -> Self::F;
}

macro_rules! scalar_vector {
    ($name:ty, $t:ty) => {
        impl Vector for $name {
            type Elem = $t;
            const LANES: usize = 1;

            #[inline(always)]
            unsafe fn load(&mut self, p: *const $t) -> $t {
                // SAFETY: as promised by the caller.
                unsafe { p.read_unaligned() }
            }
            #[inline(always)]
            unsafe fn load_some(&mut self, _p: *const $t, _n: usize) -> $t {
                0.0
            }
            #[inline(always)]
            unsafe fn store(&mut self, p: *mut $t, x: $t) {
                // SAFETY: as promised by the caller.
                unsafe { p.write_unaligned(x) }
            }
            #[inline(always)]
            unsafe fn store_some(&mut self, _p: *mut $t, _x: $t, _n: usize) {}
            #[inline(always)]
            fn splat(&mut self, x: $t) -> $t {
                x
            }
        }
    };
}
scalar_vector!(Scalar32, f32);
scalar_vector!(Scalar64, f64);
