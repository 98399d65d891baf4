//! 256-bit vectors of AVX2 with FMA; masks are vectors of all-ones and all-zeros lanes.

use std::arch::x86_64::*;

use super::{Isa, Simd};
use crate::cpu::math::{Prims, ScalarFn1, ScalarFn2, Width};

/// Runs intrinsics.
macro_rules! x86 {
    ($e:expr) => {
        // SAFETY: a value of these types exists only where the machine has the instructions, see `assume`.
        unsafe { $e }
    };
}

/// Eight lanes of `f32`.
#[derive(Clone, Copy, Debug)]
pub struct Avx2F32(());

/// Four lanes of `f64`.
#[derive(Clone, Copy, Debug)]
pub struct Avx2F64(());

/// An arithmetic shift of 64-bit lanes, which AVX2 lacks: the sign is filled in beside a logical one.
#[inline(always)]
fn shift_right_signed_64(a: __m256i, n: u32) -> __m256i {
    if n == 0 {
        return a;
    }
    x86!({
        let negative = _mm256_cmpgt_epi64(_mm256_setzero_si256(), a);
        let low = _mm256_srl_epi64(a, _mm_cvtsi32_si128(n as i32));
        let high = _mm256_sll_epi64(negative, _mm_cvtsi32_si128(64 - n as i32));
        _mm256_or_si256(low, high)
    })
}

#[inline(always)]
fn shift_right_signed_32(a: __m256i, n: u32) -> __m256i {
    x86!(_mm256_sra_epi32(a, _mm_cvtsi32_si128(n as i32)))
}

/// Truncation to 64-bit integers, which AVX2 lacks: the integer ends in the low bits of a float of magnitude 2^52.
#[inline(always)]
fn to_int_64(a: __m256d) -> __m256i {
    x86!({
        let magic = _mm256_set1_pd(6_755_399_441_055_744.0);
        let whole = _mm256_round_pd::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(a);
        let sum = _mm256_castpd_si256(_mm256_add_pd(whole, magic));
        _mm256_sub_epi64(sum, _mm256_castpd_si256(magic))
    })
}

/// The way back.
#[inline(always)]
fn to_float_64(a: __m256i) -> __m256d {
    x86!({
        let magic = _mm256_set1_pd(6_755_399_441_055_744.0);
        let sum = _mm256_add_epi64(a, _mm256_castpd_si256(magic));
        _mm256_sub_pd(_mm256_castsi256_pd(sum), magic)
    })
}

#[inline(always)]
fn to_int_32(a: __m256) -> __m256i {
    x86!(_mm256_cvttps_epi32(a))
}

#[inline(always)]
fn to_float_32(a: __m256i) -> __m256 {
    x86!(_mm256_cvtepi32_ps(a))
}

/// The first `n` of eight lanes.
#[inline(always)]
fn first_32(n: usize) -> __m256i {
    x86!({
        let lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), lane)
    })
}

/// The first `n` of four lanes.
#[inline(always)]
fn first_64(n: usize) -> __m256i {
    x86!({
        let lane = _mm256_setr_epi64x(0, 1, 2, 3);
        _mm256_cmpgt_epi64(_mm256_set1_epi64x(n as i64), lane)
    })
}

macro_rules! avx2 {
    (
        $name:ident, $elem:ty, $int:ty, $lanes:literal, $float:ty, $width:expr,
        set1 $set1:ident, iset1 $iset1:ident, add $add:ident, sub $sub:ident, mul $mul:ident, div $div:ident,
        fma $fma:ident, and $and:ident, or $or:ident, xor $xor:ident, andnot $andnot:ident, sqrt $sqrt:ident,
        min $min:ident, max $max:ident, round $round:ident, cmp $cmp:ident, blend $blend:ident,
        bits $bits:ident, from_bits $from_bits:ident, iadd $iadd:ident, isub $isub:ident,
        shl $shl:ident, shr_u $shr_u:ident, shr_s $shr_s:ident, igt $igt:ident, ieq $ieq:ident,
        to_int $to_int:ident, to_float $to_float:ident, load $load:ident, store $store:ident,
        mload $mload:ident, mstore $mstore:ident, first $first:ident, movemask $movemask:ident
    ) => {
        impl $name {
            /// Vectors of this kind.
            ///
            /// # Safety
            /// The machine has AVX2 and FMA.
            #[inline(always)]
            pub unsafe fn assume() -> Self {
                Self(())
            }

            /// Vectors of this kind if the machine has them.
            pub fn detect() -> Option<Self> {
                (Isa::Avx2.available() == Isa::Avx2).then_some(Self(()))
            }
        }

        impl Prims for $name {
            type F = $float;
            type I = __m256i;
            type M = $float;

            #[inline(always)]
            fn width(&self) -> Width {
                $width
            }
            #[inline(always)]
            fn f(&mut self, v: f64) -> $float {
                x86!($set1(v as $elem))
            }
            #[inline(always)]
            fn i(&mut self, v: i64) -> __m256i {
                x86!($iset1(v as $int))
            }
            #[inline(always)]
            fn add(&mut self, a: $float, b: $float) -> $float {
                x86!($add(a, b))
            }
            #[inline(always)]
            fn sub(&mut self, a: $float, b: $float) -> $float {
                x86!($sub(a, b))
            }
            #[inline(always)]
            fn mul(&mut self, a: $float, b: $float) -> $float {
                x86!($mul(a, b))
            }
            #[inline(always)]
            fn div(&mut self, a: $float, b: $float) -> $float {
                x86!($div(a, b))
            }
            #[inline(always)]
            fn fma(&mut self, a: $float, b: $float, c: $float) -> $float {
                x86!($fma(a, b, c))
            }
            #[inline(always)]
            fn neg(&mut self, a: $float) -> $float {
                x86!($xor(a, $set1(-0.0)))
            }
            #[inline(always)]
            fn abs(&mut self, a: $float) -> $float {
                x86!($andnot($set1(-0.0), a))
            }
            #[inline(always)]
            fn sqrt(&mut self, a: $float) -> $float {
                x86!($sqrt(a))
            }
            #[inline(always)]
            fn min_raw(&mut self, a: $float, b: $float) -> $float {
                x86!($min(a, b))
            }
            #[inline(always)]
            fn max_raw(&mut self, a: $float, b: $float) -> $float {
                x86!($max(a, b))
            }
            #[inline(always)]
            fn floor(&mut self, a: $float) -> $float {
                x86!($round::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(a))
            }
            #[inline(always)]
            fn ceil(&mut self, a: $float) -> $float {
                x86!($round::<{ _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC }>(a))
            }
            #[inline(always)]
            fn trunc(&mut self, a: $float) -> $float {
                x86!($round::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(a))
            }
            #[inline(always)]
            fn round_even(&mut self, a: $float) -> $float {
                x86!($round::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(
                    a
                ))
            }
            #[inline(always)]
            fn lt(&mut self, a: $float, b: $float) -> $float {
                x86!($cmp::<_CMP_LT_OQ>(a, b))
            }
            #[inline(always)]
            fn le(&mut self, a: $float, b: $float) -> $float {
                x86!($cmp::<_CMP_LE_OQ>(a, b))
            }
            #[inline(always)]
            fn eq(&mut self, a: $float, b: $float) -> $float {
                x86!($cmp::<_CMP_EQ_OQ>(a, b))
            }
            #[inline(always)]
            fn ne(&mut self, a: $float, b: $float) -> $float {
                x86!($cmp::<_CMP_NEQ_UQ>(a, b))
            }
            #[inline(always)]
            fn and(&mut self, a: $float, b: $float) -> $float {
                x86!($and(a, b))
            }
            #[inline(always)]
            fn or(&mut self, a: $float, b: $float) -> $float {
                x86!($or(a, b))
            }
            #[inline(always)]
            fn not(&mut self, a: $float) -> $float {
                x86!($xor(a, $from_bits($iset1(-1))))
            }
            #[inline(always)]
            fn select(&mut self, m: $float, a: $float, b: $float) -> $float {
                x86!($blend(b, a, m))
            }
            #[inline(always)]
            fn select_i(&mut self, m: $float, a: __m256i, b: __m256i) -> __m256i {
                x86!($bits($blend($from_bits(b), $from_bits(a), m)))
            }
            #[inline(always)]
            fn bits(&mut self, a: $float) -> __m256i {
                x86!($bits(a))
            }
            #[inline(always)]
            fn from_bits(&mut self, a: __m256i) -> $float {
                x86!($from_bits(a))
            }
            #[inline(always)]
            fn iadd(&mut self, a: __m256i, b: __m256i) -> __m256i {
                x86!($iadd(a, b))
            }
            #[inline(always)]
            fn isub(&mut self, a: __m256i, b: __m256i) -> __m256i {
                x86!($isub(a, b))
            }
            #[inline(always)]
            fn iand(&mut self, a: __m256i, b: __m256i) -> __m256i {
                x86!(_mm256_and_si256(a, b))
            }
            #[inline(always)]
            fn ior(&mut self, a: __m256i, b: __m256i) -> __m256i {
                x86!(_mm256_or_si256(a, b))
            }
            #[inline(always)]
            fn ixor(&mut self, a: __m256i, b: __m256i) -> __m256i {
                x86!(_mm256_xor_si256(a, b))
            }
            #[inline(always)]
            fn ishl(&mut self, a: __m256i, n: u32) -> __m256i {
                x86!($shl(a, _mm_cvtsi32_si128(n as i32)))
            }
            #[inline(always)]
            fn ishr_u(&mut self, a: __m256i, n: u32) -> __m256i {
                x86!($shr_u(a, _mm_cvtsi32_si128(n as i32)))
            }
            #[inline(always)]
            fn ishr_s(&mut self, a: __m256i, n: u32) -> __m256i {
                $shr_s(a, n)
            }
            #[inline(always)]
            fn ilt(&mut self, a: __m256i, b: __m256i) -> $float {
                x86!($from_bits($igt(b, a)))
            }
            #[inline(always)]
            fn ieq(&mut self, a: __m256i, b: __m256i) -> $float {
                x86!($from_bits($ieq(a, b)))
            }
            #[inline(always)]
            fn to_int(&mut self, a: $float) -> __m256i {
                $to_int(a)
            }
            #[inline(always)]
            fn to_float(&mut self, a: __m256i) -> $float {
                $to_float(a)
            }
            #[inline(always)]
            fn call1(&mut self, f: ScalarFn1, x: $float) -> $float {
                let mut lanes = self.to_array(x);
                for v in &mut lanes[..$lanes] {
                    *v = f(f64::from(*v)) as $elem;
                }
                // SAFETY: the array has room for all lanes.
                unsafe { self.load(lanes.as_ptr()) }
            }
            #[inline(always)]
            fn call2(&mut self, f: ScalarFn2, x: $float, y: $float) -> $float {
                let mut lanes = self.to_array(x);
                let others = self.to_array(y);
                for (v, w) in lanes[..$lanes].iter_mut().zip(others) {
                    *v = f(f64::from(*v), f64::from(w)) as $elem;
                }
                // SAFETY: the array has room for all lanes.
                unsafe { self.load(lanes.as_ptr()) }
            }
            #[inline(always)]
            fn call1_where(&mut self, m: $float, f: ScalarFn1, x: $float, fast: $float) -> $float {
                if !self.any(m) {
                    return fast;
                }
                let slow = self.call1(f, x);
                self.select(m, slow, fast)
            }
        }

        impl Simd for $name {
            type Elem = $elem;
            const LANES: usize = $lanes;

            #[inline(always)]
            fn splat(&mut self, v: $elem) -> $float {
                x86!($set1(v))
            }
            #[inline(always)]
            unsafe fn load(&mut self, ptr: *const $elem) -> $float {
                x86!($load(ptr))
            }
            #[inline(always)]
            unsafe fn store(&mut self, ptr: *mut $elem, v: $float) {
                x86!($store(ptr, v))
            }
            #[inline(always)]
            unsafe fn load_partial(&mut self, ptr: *const $elem, n: usize) -> $float {
                x86!($mload(ptr, $first(n)))
            }
            #[inline(always)]
            unsafe fn store_partial(&mut self, ptr: *mut $elem, n: usize, v: $float) {
                x86!($mstore(ptr, $first(n), v))
            }
            #[inline(always)]
            fn first(&mut self, n: usize) -> $float {
                x86!($from_bits($first(n)))
            }
            #[inline(always)]
            fn any(&mut self, m: $float) -> bool {
                x86!($movemask(m)) != 0
            }
        }
    };
}

avx2!(
    Avx2F32, f32, i32, 8, __m256, Width::W32,
    set1 _mm256_set1_ps, iset1 _mm256_set1_epi32, add _mm256_add_ps, sub _mm256_sub_ps, mul _mm256_mul_ps,
    div _mm256_div_ps, fma _mm256_fmadd_ps, and _mm256_and_ps, or _mm256_or_ps, xor _mm256_xor_ps,
    andnot _mm256_andnot_ps, sqrt _mm256_sqrt_ps, min _mm256_min_ps, max _mm256_max_ps, round _mm256_round_ps,
    cmp _mm256_cmp_ps, blend _mm256_blendv_ps, bits _mm256_castps_si256, from_bits _mm256_castsi256_ps,
    iadd _mm256_add_epi32, isub _mm256_sub_epi32, shl _mm256_sll_epi32, shr_u _mm256_srl_epi32,
    shr_s shift_right_signed_32, igt _mm256_cmpgt_epi32, ieq _mm256_cmpeq_epi32, to_int to_int_32,
    to_float to_float_32, load _mm256_loadu_ps, store _mm256_storeu_ps, mload _mm256_maskload_ps,
    mstore _mm256_maskstore_ps, first first_32, movemask _mm256_movemask_ps
);

avx2!(
    Avx2F64, f64, i64, 4, __m256d, Width::W64,
    set1 _mm256_set1_pd, iset1 _mm256_set1_epi64x, add _mm256_add_pd, sub _mm256_sub_pd, mul _mm256_mul_pd,
    div _mm256_div_pd, fma _mm256_fmadd_pd, and _mm256_and_pd, or _mm256_or_pd, xor _mm256_xor_pd,
    andnot _mm256_andnot_pd, sqrt _mm256_sqrt_pd, min _mm256_min_pd, max _mm256_max_pd, round _mm256_round_pd,
    cmp _mm256_cmp_pd, blend _mm256_blendv_pd, bits _mm256_castpd_si256, from_bits _mm256_castsi256_pd,
    iadd _mm256_add_epi64, isub _mm256_sub_epi64, shl _mm256_sll_epi64, shr_u _mm256_srl_epi64,
    shr_s shift_right_signed_64, igt _mm256_cmpgt_epi64, ieq _mm256_cmpeq_epi64, to_int to_int_64,
    to_float to_float_64, load _mm256_loadu_pd, store _mm256_storeu_pd, mload _mm256_maskload_pd,
    mstore _mm256_maskstore_pd, first first_64, movemask _mm256_movemask_pd
);
