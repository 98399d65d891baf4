//! The microkernels for AVX-512 (tiles of up to 12 rows by 32 f32) and for AVX2 with FMA (6 by 16).

use super::{Dot, Tile, Vector, kernels};
use std::arch::x86_64::*;

/// Sixteen f32.
#[derive(Clone, Copy)]
pub(crate) struct Wide32(__m512);
/// Eight f64.
#[derive(Clone, Copy)]
pub(crate) struct Wide64(__m512d);
/// Eight f32.
#[derive(Clone, Copy)]
pub(crate) struct Half32(__m256);
/// Four f64.
#[derive(Clone, Copy)]
pub(crate) struct Half64(__m256d);

/// Lane sums of four eight-lane vectors.
///
/// # Safety
///
/// AVX is enabled.
#[inline(always)]
unsafe fn sums_ps(v: [__m256; 4]) -> [f32; 4] {
    // SAFETY: AVX by the caller; the store fills the array.
    unsafe {
        let low = _mm256_hadd_ps(v[0], v[1]);
        let high = _mm256_hadd_ps(v[2], v[3]);
        let both = _mm256_hadd_ps(low, high);
        let sum = _mm_add_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps::<1>(both));
        let mut out = [0.0; 4];
        _mm_storeu_ps(out.as_mut_ptr(), sum);
        out
    }
}

/// Lane sums of four four-lane vectors.
///
/// # Safety
///
/// AVX is enabled.
#[inline(always)]
unsafe fn sums_pd(v: [__m256d; 4]) -> [f64; 4] {
    // SAFETY: AVX by the caller; the stores fill the array.
    unsafe {
        let low = _mm256_hadd_pd(v[0], v[1]);
        let high = _mm256_hadd_pd(v[2], v[3]);
        let fold = |x| _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd::<1>(x));
        let mut out = [0.0; 4];
        _mm_storeu_pd(out.as_mut_ptr(), fold(low));
        _mm_storeu_pd(out.as_mut_ptr().add(2), fold(high));
        out
    }
}

/// # Safety
///
/// AVX-512F is enabled.
#[inline(always)]
unsafe fn halve_ps(x: __m512) -> __m256 {
    // SAFETY: AVX-512F by the caller.
    unsafe {
        let high = _mm512_extractf64x4_pd::<1>(_mm512_castps_pd(x));
        _mm256_add_ps(_mm512_castps512_ps256(x), _mm256_castpd_ps(high))
    }
}

/// # Safety
///
/// AVX-512F is enabled.
#[inline(always)]
unsafe fn halve_pd(x: __m512d) -> __m256d {
    // SAFETY: AVX-512F by the caller.
    unsafe { _mm256_add_pd(_mm512_castpd512_pd256(x), _mm512_extractf64x4_pd::<1>(x)) }
}

/// Ones then zeros: a window into it is a lane mask.
static WINDOW_32: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
static WINDOW_64: [i64; 8] = [-1, -1, -1, -1, 0, 0, 0, 0];

macro_rules! vector {
    ($v:ident, $t:ty, $lanes:literal, $m:ty, $zero:ident, $splat:ident, $load:ident, $store:ident,
     $fma:ident, $add:ident,
     |$count:ident| $mask:expr, |$lp:ident, $lm:ident| $load_mask:expr,
     |$sp:ident, $sm:ident, $sx:ident| $store_mask:expr, |$sv:ident| $sums:expr) => {
        impl Vector for $v {
            type Elem = $t;
            type Mask = $m;
            const LANES: usize = $lanes;
            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: the instruction set is enabled where vectors are used.
                $v(unsafe { $zero() })
            }
            #[inline(always)]
            unsafe fn splat(x: $t) -> Self {
                // SAFETY: as above.
                $v(unsafe { $splat(x) })
            }
            #[inline(always)]
            unsafe fn load(p: *const $t) -> Self {
                // SAFETY: as above; valid for all lanes.
                $v(unsafe { $load(p) })
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut $t) {
                // SAFETY: as above; valid for all lanes.
                unsafe { $store(p, self.0) }
            }
            #[inline(always)]
            unsafe fn mask($count: usize) -> $m {
                $mask
            }
            #[inline(always)]
            unsafe fn load_mask($lp: *const $t, $lm: $m) -> Self {
                // SAFETY: as above; valid for the lanes of the mask, the others are not touched.
                $v(unsafe { $load_mask })
            }
            #[inline(always)]
            unsafe fn store_mask(self, $sp: *mut $t, $sm: $m) {
                let $sx = self.0;
                // SAFETY: as above.
                unsafe { $store_mask }
            }
            #[inline(always)]
            unsafe fn fma(self, a: Self, b: Self) -> Self {
                // SAFETY: as above.
                $v(unsafe { $fma(a.0, b.0, self.0) })
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                // SAFETY: as above.
                $v(unsafe { $add(self.0, other.0) })
            }
            #[inline(always)]
            unsafe fn sums(v: [Self; 4]) -> [$t; 4] {
                let $sv = [v[0].0, v[1].0, v[2].0, v[3].0];
                // SAFETY: as above.
                unsafe { $sums }
            }
            #[inline(always)]
            fn prefetch(p: *const $t) {
                // SAFETY: a hint, which is right for any address.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
            }
        }
    };
}

vector!(
    Wide32,
    f32,
    16,
    __mmask16,
    _mm512_setzero_ps,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_fmadd_ps,
    _mm512_add_ps,
    |count| ((1u32 << count) - 1) as __mmask16,
    |p, mask| _mm512_maskz_loadu_ps(mask, p),
    |p, mask, x| _mm512_mask_storeu_ps(p, mask, x),
    |v| sums_ps([halve_ps(v[0]), halve_ps(v[1]), halve_ps(v[2]), halve_ps(v[3])])
);
vector!(
    Wide64,
    f64,
    8,
    __mmask8,
    _mm512_setzero_pd,
    _mm512_set1_pd,
    _mm512_loadu_pd,
    _mm512_storeu_pd,
    _mm512_fmadd_pd,
    _mm512_add_pd,
    |count| ((1u32 << count) - 1) as __mmask8,
    |p, mask| _mm512_maskz_loadu_pd(mask, p),
    |p, mask, x| _mm512_mask_storeu_pd(p, mask, x),
    |v| sums_pd([halve_pd(v[0]), halve_pd(v[1]), halve_pd(v[2]), halve_pd(v[3])])
);
vector!(
    Half32,
    f32,
    8,
    __m256i,
    _mm256_setzero_ps,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_fmadd_ps,
    _mm256_add_ps,
    |count| // SAFETY: AVX is enabled where vectors are used; `count` is at most the number of lanes.
    unsafe { _mm256_loadu_si256(WINDOW_32.as_ptr().add(8 - count).cast()) },
    |p, mask| _mm256_maskload_ps(p, mask),
    |p, mask, x| _mm256_maskstore_ps(p, mask, x),
    |v| sums_ps(v)
);
vector!(
    Half64,
    f64,
    4,
    __m256i,
    _mm256_setzero_pd,
    _mm256_set1_pd,
    _mm256_loadu_pd,
    _mm256_storeu_pd,
    _mm256_fmadd_pd,
    _mm256_add_pd,
    |count| // SAFETY: AVX is enabled where vectors are used; `count` is at most the number of lanes.
    unsafe { _mm256_loadu_si256(WINDOW_64.as_ptr().add(4 - count).cast()) },
    |p, mask| _mm256_maskload_pd(p, mask),
    |p, mask, x| _mm256_maskstore_pd(p, mask, x),
    |v| sums_pd(v)
);

macro_rules! functions {
    ($features:literal, $tile:ident, $dot:ident, $t:ty, $v:ty) => {
        #[target_feature(enable = $features)]
        unsafe fn $tile<const R: usize, const P: usize, const TAIL: bool, const COPY: bool>(
            t: &Tile<$t>,
        ) {
            // SAFETY: the caller's contract, and this function enables the instruction set.
            unsafe { super::tile::<$v, R, P, TAIL, COPY>(t) }
        }
        #[target_feature(enable = $features)]
        unsafe fn $dot<const R: usize, const C: usize>(d: &Dot<$t>) {
            // SAFETY: as above.
            unsafe { super::dot::<$v, R, C>(d) }
        }
    };
}
functions!("avx512f", tile_wide32, dot_wide32, f32, Wide32);
functions!("avx512f", tile_wide64, dot_wide64, f64, Wide64);
functions!("avx2,fma", tile_half32, dot_half32, f32, Half32);
functions!("avx2,fma", tile_half64, dot_half64, f64, Half64);

kernels!(
    /// `f32` for AVX-512F.
    AVX512_F32, f32, Wide32, tile_wide32, dot_wide32,
    one: [1 2 3 4 5 6 7 8 9 10 11 12], copy: [7 8 9 10 11 12], two: [1 2 3 4 5 6], four: [1 2 3], dot: [1 2 3 4], dot8: [1 2]);
kernels!(
    /// `f64` for AVX-512F.
    AVX512_F64, f64, Wide64, tile_wide64, dot_wide64,
    one: [1 2 3 4 5 6 7 8 9 10 11 12], copy: [7 8 9 10 11 12], two: [1 2 3 4 5 6], four: [1 2 3], dot: [1 2 3 4], dot8: [1 2]);
kernels!(
    /// `f32` for AVX2 with FMA.
    AVX2_F32, f32, Half32, tile_half32, dot_half32,
    one: [1 2 3 4 5 6], copy: [4 5 6], two: [1 2 3], four: [1], dot: [1 2 3], dot8: [1]);
kernels!(
    /// `f64` for AVX2 with FMA.
    AVX2_F64, f64, Half64, tile_half64, dot_half64,
    one: [1 2 3 4 5 6], copy: [4 5 6], two: [1 2 3], four: [1], dot: [1 2 3], dot8: [1]);
