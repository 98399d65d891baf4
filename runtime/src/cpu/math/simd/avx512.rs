//! 512-bit vectors of AVX-512 F and DQ, with mask registers.

use std::arch::x86_64::*;

use super::{Isa, MAX_LANES, Simd};
use crate::cpu::math::{Prims, ScalarFn1, ScalarFn2, Width};

/// Runs intrinsics.
macro_rules! x86 {
    ($e:expr) => {
        // SAFETY: a value of these types exists only where the machine has the instructions, see `assume`.
        unsafe { $e }
    };
}

/// Sixteen lanes of `f32`.
#[derive(Clone, Copy, Debug)]
pub struct Avx512F32(());

/// Eight lanes of `f64`.
#[derive(Clone, Copy, Debug)]
pub struct Avx512F64(());

macro_rules! avx512 {
    (
        $name:ident, $elem:ty, $lanes:literal, $float:ty, $mask:ty, $width:expr,
        set1 $set1:ident, iset1 $iset1:ident $iset_as:ty, add $add:ident, sub $sub:ident, mul $mul:ident, div $div:ident,
        fma $fma:ident, abs $abs:ident, sqrt $sqrt:ident, min $min:ident, max $max:ident, scalef $scalef:ident,
        round $round:ident, cmp $cmp:ident, blend $blend:ident, iblend $iblend:ident,
        bits $bits:ident, from_bits $from_bits:ident, iadd $iadd:ident, isub $isub:ident,
        shl $shl:ident, shr_u $shr_u:ident, shr_s $shr_s:ident, ilt $ilt:ident, ieq $ieq:ident,
        to_int $to_int:ident, to_float $to_float:ident,
        load $load:ident, store $store:ident, mload $mload:ident, mstore $mstore:ident
    ) => {
        impl $name {
            /// Vectors of this kind.
            ///
            /// # Safety
            /// The machine has AVX-512 F, DQ, VL and BW.
            #[inline(always)]
            pub unsafe fn assume() -> Self {
                Self(())
            }

            /// Vectors of this kind if the machine has them.
            pub fn detect() -> Option<Self> {
                (Isa::Avx512.available() == Isa::Avx512).then_some(Self(()))
            }
        }

        impl Prims for $name {
            type F = $float;
            type I = __m512i;
            type M = $mask;

            #[inline(always)]
            fn width(&self) -> Width {
                $width
            }
            #[inline(always)]
            fn f(&mut self, v: f64) -> $float {
                x86!($set1(v as $elem))
            }
            #[inline(always)]
            fn i(&mut self, v: i64) -> __m512i {
                x86!($iset1(v as $iset_as))
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
                let sign = self.f(-0.0);
                x86!($from_bits(_mm512_xor_si512($bits(a), $bits(sign))))
            }
            #[inline(always)]
            fn abs(&mut self, a: $float) -> $float {
                x86!($abs(a))
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
            fn lt(&mut self, a: $float, b: $float) -> $mask {
                x86!($cmp::<_CMP_LT_OQ>(a, b))
            }
            #[inline(always)]
            fn le(&mut self, a: $float, b: $float) -> $mask {
                x86!($cmp::<_CMP_LE_OQ>(a, b))
            }
            #[inline(always)]
            fn eq(&mut self, a: $float, b: $float) -> $mask {
                x86!($cmp::<_CMP_EQ_OQ>(a, b))
            }
            #[inline(always)]
            fn ne(&mut self, a: $float, b: $float) -> $mask {
                x86!($cmp::<_CMP_NEQ_UQ>(a, b))
            }
            #[inline(always)]
            fn and(&mut self, a: $mask, b: $mask) -> $mask {
                a & b
            }
            #[inline(always)]
            fn or(&mut self, a: $mask, b: $mask) -> $mask {
                a | b
            }
            #[inline(always)]
            fn not(&mut self, a: $mask) -> $mask {
                !a
            }
            #[inline(always)]
            fn select(&mut self, m: $mask, a: $float, b: $float) -> $float {
                x86!($blend(m, b, a))
            }
            #[inline(always)]
            fn select_i(&mut self, m: $mask, a: __m512i, b: __m512i) -> __m512i {
                x86!($iblend(m, b, a))
            }
            #[inline(always)]
            fn bits(&mut self, a: $float) -> __m512i {
                x86!($bits(a))
            }
            #[inline(always)]
            fn from_bits(&mut self, a: __m512i) -> $float {
                x86!($from_bits(a))
            }
            #[inline(always)]
            fn iadd(&mut self, a: __m512i, b: __m512i) -> __m512i {
                x86!($iadd(a, b))
            }
            #[inline(always)]
            fn isub(&mut self, a: __m512i, b: __m512i) -> __m512i {
                x86!($isub(a, b))
            }
            #[inline(always)]
            fn iand(&mut self, a: __m512i, b: __m512i) -> __m512i {
                x86!(_mm512_and_si512(a, b))
            }
            #[inline(always)]
            fn ior(&mut self, a: __m512i, b: __m512i) -> __m512i {
                x86!(_mm512_or_si512(a, b))
            }
            #[inline(always)]
            fn ixor(&mut self, a: __m512i, b: __m512i) -> __m512i {
                x86!(_mm512_xor_si512(a, b))
            }
            #[inline(always)]
            fn ishl(&mut self, a: __m512i, n: u32) -> __m512i {
                x86!($shl(a, _mm_cvtsi32_si128(n as i32)))
            }
            #[inline(always)]
            fn ishr_u(&mut self, a: __m512i, n: u32) -> __m512i {
                x86!($shr_u(a, _mm_cvtsi32_si128(n as i32)))
            }
            #[inline(always)]
            fn ishr_s(&mut self, a: __m512i, n: u32) -> __m512i {
                x86!($shr_s(a, _mm_cvtsi32_si128(n as i32)))
            }
            #[inline(always)]
            fn ilt(&mut self, a: __m512i, b: __m512i) -> $mask {
                x86!($ilt(a, b))
            }
            #[inline(always)]
            fn ieq(&mut self, a: __m512i, b: __m512i) -> $mask {
                x86!($ieq(a, b))
            }
            #[inline(always)]
            fn to_int(&mut self, a: $float) -> __m512i {
                x86!($to_int(a))
            }
            #[inline(always)]
            fn to_float(&mut self, a: __m512i) -> $float {
                x86!($to_float(a))
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
            fn call1_where(&mut self, m: $mask, f: ScalarFn1, x: $float, fast: $float) -> $float {
                if m == 0 {
                    return fast;
                }
                let slow = self.call1(f, x);
                self.select(m, slow, fast)
            }
            #[inline(always)]
            fn scale(&mut self, x: $float, n: $float) -> $float {
                x86!($scalef(x, n))
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
                let m = self.first(n);
                x86!($mload(m, ptr))
            }
            #[inline(always)]
            unsafe fn store_partial(&mut self, ptr: *mut $elem, n: usize, v: $float) {
                let m = self.first(n);
                x86!($mstore(ptr, m, v))
            }
            #[inline(always)]
            fn first(&mut self, n: usize) -> $mask {
                debug_assert!(n <= $lanes && $lanes <= MAX_LANES);
                ((1_u32 << n) - 1) as $mask
            }
            #[inline(always)]
            fn any(&mut self, m: $mask) -> bool {
                m != 0
            }
        }
    };
}

avx512!(
    Avx512F32, f32, 16, __m512, __mmask16, Width::W32,
    set1 _mm512_set1_ps, iset1 _mm512_set1_epi32 i32, add _mm512_add_ps, sub _mm512_sub_ps, mul _mm512_mul_ps,
    div _mm512_div_ps, fma _mm512_fmadd_ps, abs _mm512_abs_ps, sqrt _mm512_sqrt_ps, min _mm512_min_ps,
    max _mm512_max_ps, scalef _mm512_scalef_ps, round _mm512_roundscale_ps, cmp _mm512_cmp_ps_mask,
    blend _mm512_mask_blend_ps, iblend _mm512_mask_blend_epi32, bits _mm512_castps_si512,
    from_bits _mm512_castsi512_ps, iadd _mm512_add_epi32, isub _mm512_sub_epi32, shl _mm512_sll_epi32,
    shr_u _mm512_srl_epi32, shr_s _mm512_sra_epi32, ilt _mm512_cmplt_epi32_mask, ieq _mm512_cmpeq_epi32_mask,
    to_int _mm512_cvttps_epi32, to_float _mm512_cvtepi32_ps, load _mm512_loadu_ps, store _mm512_storeu_ps,
    mload _mm512_maskz_loadu_ps, mstore _mm512_mask_storeu_ps
);

avx512!(
    Avx512F64, f64, 8, __m512d, __mmask8, Width::W64,
    set1 _mm512_set1_pd, iset1 _mm512_set1_epi64 i64, add _mm512_add_pd, sub _mm512_sub_pd, mul _mm512_mul_pd,
    div _mm512_div_pd, fma _mm512_fmadd_pd, abs _mm512_abs_pd, sqrt _mm512_sqrt_pd, min _mm512_min_pd,
    max _mm512_max_pd, scalef _mm512_scalef_pd, round _mm512_roundscale_pd, cmp _mm512_cmp_pd_mask,
    blend _mm512_mask_blend_pd, iblend _mm512_mask_blend_epi64, bits _mm512_castpd_si512,
    from_bits _mm512_castsi512_pd, iadd _mm512_add_epi64, isub _mm512_sub_epi64, shl _mm512_sll_epi64,
    shr_u _mm512_srl_epi64, shr_s _mm512_sra_epi64, ilt _mm512_cmplt_epi64_mask, ieq _mm512_cmpeq_epi64_mask,
    to_int _mm512_cvttpd_epi64, to_float _mm512_cvtepi64_pd, load _mm512_loadu_pd, store _mm512_storeu_pd,
    mload _mm512_maskz_loadu_pd, mstore _mm512_mask_storeu_pd
);
