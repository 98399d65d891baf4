//! The microkernels for NEON, whose 32 registers hold tiles of up to 12 rows by 8 f32.

use super::{Dot, Tile, Vector, kernels};
use std::arch::aarch64::*;

/// Four f32.
#[derive(Clone, Copy)]
pub(crate) struct Neon32(float32x4_t);
/// Two f64.
#[derive(Clone, Copy)]
pub(crate) struct Neon64(float64x2_t);

/// The same number, so that the compiler no longer sees that it was loaded. A factor is then read
/// as a scalar and multiplied by element (`fmla v, v, v.s[0]`), which leaves the vector pipes to
/// the products; the load that fills a vector (`ld1r`), which the compiler prefers, takes a turn of
/// such a pipe on many cores.
macro_rules! scalar {
    ($x:ident: $t:ty) => {{
        let mut x: $t = $x;
        #[cfg(not(miri))]
        // SAFETY: the empty instruction changes nothing.
        unsafe {
            std::arch::asm!("/* {0:v} */", inlateout(vreg) x, options(pure, nomem, nostack, preserves_flags));
        }
        x
    }};
}

impl Vector for Neon32 {
    type Elem = f32;
    type Mask = usize;
    const LANES: usize = 4;
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: every AArch64 has NEON.
        Neon32(unsafe { vdupq_n_f32(0.0) })
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        let x = scalar!(x: f32);
        // SAFETY: every AArch64 has NEON.
        Neon32(unsafe { vdupq_n_f32(x) })
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: valid for all lanes.
        Neon32(unsafe { vld1q_f32(p) })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: valid for all lanes.
        unsafe { vst1q_f32(p, self.0) }
    }
    #[inline(always)]
    unsafe fn mask(count: usize) -> usize {
        count
    }
    #[inline(always)]
    unsafe fn load_mask(p: *const f32, mask: usize) -> Self {
        // SAFETY: valid for the lanes of the mask; the others are not touched.
        Neon32(unsafe {
            let zero = vdupq_n_f32(0.0);
            match mask {
                0 => zero,
                1 => vld1q_lane_f32::<0>(p, zero),
                2 => vcombine_f32(vld1_f32(p), vdup_n_f32(0.0)),
                3 => vcombine_f32(vld1_f32(p), vld1_lane_f32::<0>(p.add(2), vdup_n_f32(0.0))),
                _ => vld1q_f32(p),
            }
        })
    }
    #[inline(always)]
    unsafe fn store_mask(self, p: *mut f32, mask: usize) {
        // SAFETY: as for `load_mask`.
        unsafe {
            match mask {
                0 => {}
                1 => vst1q_lane_f32::<0>(p, self.0),
                2 => vst1_f32(p, vget_low_f32(self.0)),
                3 => {
                    vst1_f32(p, vget_low_f32(self.0));
                    vst1q_lane_f32::<2>(p.add(2), self.0);
                }
                _ => vst1q_f32(p, self.0),
            }
        }
    }
    #[inline(always)]
    unsafe fn fma(self, a: Self, b: Self) -> Self {
        // SAFETY: every AArch64 has NEON.
        Neon32(unsafe { vfmaq_f32(self.0, a.0, b.0) })
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: every AArch64 has NEON.
        Neon32(unsafe { vaddq_f32(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn sums(v: [Self; 4]) -> [f32; 4] {
        let mut out = [0.0; 4];
        // SAFETY: the store fills the array.
        unsafe {
            let low = vpaddq_f32(v[0].0, v[1].0);
            let high = vpaddq_f32(v[2].0, v[3].0);
            vst1q_f32(out.as_mut_ptr(), vpaddq_f32(low, high));
        }
        out
    }
}

impl Vector for Neon64 {
    type Elem = f64;
    type Mask = usize;
    const LANES: usize = 2;
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: every AArch64 has NEON.
        Neon64(unsafe { vdupq_n_f64(0.0) })
    }
    #[inline(always)]
    unsafe fn splat(x: f64) -> Self {
        let x = scalar!(x: f64);
        // SAFETY: every AArch64 has NEON.
        Neon64(unsafe { vdupq_n_f64(x) })
    }
    #[inline(always)]
    unsafe fn load(p: *const f64) -> Self {
        // SAFETY: valid for all lanes.
        Neon64(unsafe { vld1q_f64(p) })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f64) {
        // SAFETY: valid for all lanes.
        unsafe { vst1q_f64(p, self.0) }
    }
    #[inline(always)]
    unsafe fn mask(count: usize) -> usize {
        count
    }
    #[inline(always)]
    unsafe fn load_mask(p: *const f64, mask: usize) -> Self {
        // SAFETY: valid for the lanes of the mask; the others are not touched.
        Neon64(unsafe {
            let zero = vdupq_n_f64(0.0);
            match mask {
                0 => zero,
                1 => vld1q_lane_f64::<0>(p, zero),
                _ => vld1q_f64(p),
            }
        })
    }
    #[inline(always)]
    unsafe fn store_mask(self, p: *mut f64, mask: usize) {
        // SAFETY: as for `load_mask`.
        unsafe {
            match mask {
                0 => {}
                1 => vst1q_lane_f64::<0>(p, self.0),
                _ => vst1q_f64(p, self.0),
            }
        }
    }
    #[inline(always)]
    unsafe fn fma(self, a: Self, b: Self) -> Self {
        // SAFETY: every AArch64 has NEON.
        Neon64(unsafe { vfmaq_f64(self.0, a.0, b.0) })
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: every AArch64 has NEON.
        Neon64(unsafe { vaddq_f64(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn sums(v: [Self; 4]) -> [f64; 4] {
        let mut out = [0.0; 4];
        // SAFETY: the stores fill the array.
        unsafe {
            vst1q_f64(out.as_mut_ptr(), vpaddq_f64(v[0].0, v[1].0));
            vst1q_f64(out.as_mut_ptr().add(2), vpaddq_f64(v[2].0, v[3].0));
        }
        out
    }
}

macro_rules! functions {
    ($tile:ident, $dot:ident, $t:ty, $v:ty) => {
        unsafe fn $tile<const R: usize, const P: usize, const TAIL: bool, const COPY: bool>(
            t: &Tile<$t>,
        ) {
            // SAFETY: the caller's contract; every AArch64 has NEON.
            unsafe { super::tile::<$v, R, P, TAIL, COPY>(t) }
        }
        unsafe fn $dot<const R: usize, const C: usize>(d: &Dot<$t>) {
            // SAFETY: as above.
            unsafe { super::dot::<$v, R, C>(d) }
        }
    };
}
functions!(tile_neon32, dot_neon32, f32, Neon32);
functions!(tile_neon64, dot_neon64, f64, Neon64);

// With more rows of dot products the compiler spills the sums to memory.
kernels!(
    /// `f32` for NEON.
    NEON_F32, f32, Neon32, tile_neon32, dot_neon32,
    one: [1 2 3 4 5 6 7 8 9 10 11 12], copy: [7 8 9 10 11 12], two: [1 2 3 4 5 6], four: [1 2 3], dot: [1 2 3], dot8: [1]);
kernels!(
    /// `f64` for NEON.
    NEON_F64, f64, Neon64, tile_neon64, dot_neon64,
    one: [1 2 3 4 5 6 7 8 9 10 11 12], copy: [7 8 9 10 11 12], two: [1 2 3 4 5 6], four: [1 2 3], dot: [1 2 3], dot8: [1]);
