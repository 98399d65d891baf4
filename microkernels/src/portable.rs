//! The microkernels without intrinsics, in 16-byte vectors that compilers map to SSE2 or NEON.

use super::{Dot, Tile, Vector, kernels};

/// `LANES` floats that the compiler keeps in a vector register.
#[derive(Clone, Copy)]
pub(crate) struct Lanes<T, const N: usize>([T; N]);

trait Fused: Copy + Default + std::ops::Add<Output = Self> {
    fn fused(a: Self, b: Self, c: Self) -> Self;
}

macro_rules! fused {
    ($t:ty) => {
        impl Fused for $t {
            #[inline(always)]
            fn fused(a: $t, b: $t, c: $t) -> $t {
                // Without an FMA instruction `mul_add` is a function call, about fifty times
                // slower.
                if cfg!(any(target_feature = "fma", not(target_arch = "x86_64"))) {
                    a.mul_add(b, c)
                } else {
                    a * b + c
                }
            }
        }
    };
}
fused!(f32);
fused!(f64);

#[allow(private_bounds)]
impl<T: Fused, const N: usize> Vector for Lanes<T, N> {
    type Elem = T;
    type Mask = usize;
    const LANES: usize = N;
    #[inline(always)]
    unsafe fn zero() -> Self {
        Lanes([T::default(); N])
    }
    #[inline(always)]
    unsafe fn splat(x: T) -> Self {
        Lanes([x; N])
    }
    #[inline(always)]
    unsafe fn load(p: *const T) -> Self {
        // SAFETY: `p` is valid for all lanes.
        Lanes(unsafe { p.cast::<[T; N]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut T) {
        // SAFETY: `p` is valid for all lanes.
        unsafe { p.cast::<[T; N]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn mask(count: usize) -> usize {
        count
    }
    #[inline(always)]
    unsafe fn load_mask(p: *const T, mask: usize) -> Self {
        let mut out = [T::default(); N];
        for (i, x) in out.iter_mut().enumerate().take(mask) {
            // SAFETY: `p` is valid for the lanes of the mask.
            *x = unsafe { *p.add(i) };
        }
        Lanes(out)
    }
    #[inline(always)]
    unsafe fn store_mask(self, p: *mut T, mask: usize) {
        for (i, x) in self.0.into_iter().enumerate().take(mask) {
            // SAFETY: `p` is valid for the lanes of the mask.
            unsafe { *p.add(i) = x };
        }
    }
    #[inline(always)]
    unsafe fn fma(self, a: Self, b: Self) -> Self {
        let mut out = self.0;
        for (i, x) in out.iter_mut().enumerate() {
            *x = T::fused(a.0[i], b.0[i], *x);
        }
        Lanes(out)
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        let mut out = self.0;
        for (i, x) in out.iter_mut().enumerate() {
            *x = *x + other.0[i];
        }
        Lanes(out)
    }
    #[inline(always)]
    unsafe fn sums(v: [Self; 4]) -> [T; 4] {
        v.map(|x| x.0.into_iter().fold(T::default(), |a, b| a + b))
    }
}

macro_rules! functions {
    ($tile:ident, $dot:ident, $t:ty, $v:ty) => {
        unsafe fn $tile<const R: usize, const P: usize, const TAIL: bool, const COPY: bool>(
            t: &Tile<$t>,
        ) {
            // SAFETY: the caller's contract.
            unsafe { super::tile::<$v, R, P, TAIL, COPY>(t) }
        }
        unsafe fn $dot<const R: usize, const C: usize>(d: &Dot<$t>) {
            // SAFETY: the caller's contract.
            unsafe { super::dot::<$v, R, C>(d) }
        }
    };
}
functions!(tile_f32, dot_f32, f32, Lanes<f32, 4>);
functions!(tile_f64, dot_f64, f64, Lanes<f64, 2>);

kernels!(
    /// `f32` for any machine.
    PORTABLE_F32, f32, Lanes<f32, 4>, tile_f32, dot_f32,
    one: [1 2 3 4 5 6], copy: [4 5 6], two: [1 2 3], four: [1], dot: [1 2 3], dot8: [1]);
kernels!(
    /// `f64` for any machine.
    PORTABLE_F64, f64, Lanes<f64, 2>, tile_f64, dot_f64,
    one: [1 2 3 4 5 6], copy: [4 5 6], two: [1 2 3], four: [1], dot: [1 2 3], dot8: [1]);
