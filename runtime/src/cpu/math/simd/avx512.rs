//! 512-bit vectors of AVX-512 F and DQ, with mask registers.

use super::isa::Isa;
use super::table::{functions, implement, scalar_calls, transpose_in_memory};
use super::vector::{MAX_LANES, Simd};
use super::x86::{register, vectors, with_modes};
use crate::cpu::math::{Prims, ScalarFn1, ScalarFn2, Width};
use std::arch::x86_64::*;

vectors! {
    /// Sixteen lanes of `f32`.
    Avx512F32 in f32x16, Avx512, f32 as i32, 16, Width::W32, (__m512, __m512i, __mmask16), {
        #[inline(always)]
        fn scale(&mut self, x: __m512, n: __m512) -> __m512 {
            register!(f32x16, scale, [x, n])
        }
    }
}
vectors! {
    /// Eight lanes of `f64`.
    Avx512F64 in f64x8, Avx512, f64 as i64, 8, Width::W64, (__m512d, __m512i, __mmask8), {
        #[inline(always)]
        fn scale(&mut self, x: __m512d, n: __m512d) -> __m512d {
            register!(f64x8, scale, [x, n])
        }
    }
}

/// Functions without an intrinsic for these operands, the same for both widths.
macro_rules! composed {
    ($elem:ty, $lanes:literal, $float:ty, $mask:ty, $blend:ident, $iblend:ident, $sra:ident, $mload:ident, $mstore:ident) => {
        functions! {
            fn neg(a: $float) -> $float { from_bits(ixor(bits(a), bits(splat(-0.0)))) }
            fn and(a: $mask, b: $mask) -> $mask { a & b }
            fn or(a: $mask, b: $mask) -> $mask { a | b }
            fn not(a: $mask) -> $mask { !a }
            fn select(m: $mask, a: $float, b: $float) -> $float { $blend(m, b, a) }
            fn select_i(m: $mask, a: __m512i, b: __m512i) -> __m512i { $iblend(m, b, a) }
            fn ishr_s(a: __m512i, n: u32) -> __m512i { $sra(a, _mm_cvtsi32_si128(n as i32)) }
            fn load_partial(ptr: *const $elem, n: usize) -> $float { $mload(first(n), ptr) }
            fn store_partial(ptr: *mut $elem, n: usize, v: $float) { $mstore(ptr, first(n), v) }
            fn first(n: usize) -> $mask {
                debug_assert!(n <= $lanes && $lanes <= MAX_LANES);
                ((1_u32 << n) - 1) as $mask
            }
            fn any(m: $mask) -> bool { m != 0 }
        }
    };
}

mod f32x16 {
    use super::*;
    pub(super) use std::arch::x86_64::{
        _mm512_abs_ps as abs, _mm512_add_epi32 as iadd, _mm512_add_ps as add,
        _mm512_and_si512 as iand, _mm512_castps_si512 as bits, _mm512_castsi512_ps as from_bits,
        _mm512_cmpeq_epi32_mask as ieq, _mm512_cmplt_epi32_mask as ilt,
        _mm512_cvtepi32_ps as to_float, _mm512_cvttps_epi32 as to_int, _mm512_div_ps as div,
        _mm512_fmadd_ps as fma, _mm512_loadu_ps as load, _mm512_max_ps as max_raw,
        _mm512_min_ps as min_raw, _mm512_mul_ps as mul, _mm512_or_si512 as ior,
        _mm512_scalef_ps as scale, _mm512_set1_epi32 as splat_i, _mm512_set1_ps as splat,
        _mm512_sqrt_ps as sqrt, _mm512_storeu_ps as store, _mm512_sub_epi32 as isub,
        _mm512_sub_ps as sub, _mm512_xor_si512 as ixor,
    };

    with_modes!(
        __m512,
        __m512i,
        __mmask16,
        _mm512_roundscale_ps,
        _mm512_cmp_ps_mask,
        _mm512_sll_epi32,
        _mm512_srl_epi32
    );
    composed!(
        f32,
        16,
        __m512,
        __mmask16,
        _mm512_mask_blend_ps,
        _mm512_mask_blend_epi32,
        _mm512_sra_epi32,
        _mm512_maskz_loadu_ps,
        _mm512_mask_storeu_ps
    );
    functions! {
        fn transpose(rows: &mut [__m512; MAX_LANES]) {
            // squares of four within the quarters, then the quarters
            for four in rows.chunks_exact_mut(4) {
                let (a, b) = (_mm512_unpacklo_ps(four[0], four[1]), _mm512_unpackhi_ps(four[0], four[1]));
                let (c, d) = (_mm512_unpacklo_ps(four[2], four[3]), _mm512_unpackhi_ps(four[2], four[3]));
                four[0] = _mm512_shuffle_ps::<0x44>(a, c);
                four[1] = _mm512_shuffle_ps::<0xee>(a, c);
                four[2] = _mm512_shuffle_ps::<0x44>(b, d);
                four[3] = _mm512_shuffle_ps::<0xee>(b, d);
            }
            for i in 0..4 {
                let (a, b, c, d) = (rows[i], rows[i + 4], rows[i + 8], rows[i + 12]);
                let (ab, cd) = (_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0x44>(c, d));
                rows[i] = _mm512_shuffle_f32x4::<0x88>(ab, cd);
                rows[i + 4] = _mm512_shuffle_f32x4::<0xdd>(ab, cd);
                let (ab, cd) = (_mm512_shuffle_f32x4::<0xee>(a, b), _mm512_shuffle_f32x4::<0xee>(c, d));
                rows[i + 8] = _mm512_shuffle_f32x4::<0x88>(ab, cd);
                rows[i + 12] = _mm512_shuffle_f32x4::<0xdd>(ab, cd);
            }
        }
    }
}

mod f64x8 {
    use super::*;
    pub(super) use std::arch::x86_64::{
        _mm512_abs_pd as abs, _mm512_add_epi64 as iadd, _mm512_add_pd as add,
        _mm512_and_si512 as iand, _mm512_castpd_si512 as bits, _mm512_castsi512_pd as from_bits,
        _mm512_cmpeq_epi64_mask as ieq, _mm512_cmplt_epi64_mask as ilt,
        _mm512_cvtepi64_pd as to_float, _mm512_cvttpd_epi64 as to_int, _mm512_div_pd as div,
        _mm512_fmadd_pd as fma, _mm512_loadu_pd as load, _mm512_max_pd as max_raw,
        _mm512_min_pd as min_raw, _mm512_mul_pd as mul, _mm512_or_si512 as ior,
        _mm512_scalef_pd as scale, _mm512_set1_epi64 as splat_i, _mm512_set1_pd as splat,
        _mm512_sqrt_pd as sqrt, _mm512_storeu_pd as store, _mm512_sub_epi64 as isub,
        _mm512_sub_pd as sub, _mm512_xor_si512 as ixor,
    };

    with_modes!(
        __m512d,
        __m512i,
        __mmask8,
        _mm512_roundscale_pd,
        _mm512_cmp_pd_mask,
        _mm512_sll_epi64,
        _mm512_srl_epi64
    );
    composed!(
        f64,
        8,
        __m512d,
        __mmask8,
        _mm512_mask_blend_pd,
        _mm512_mask_blend_epi64,
        _mm512_sra_epi64,
        _mm512_maskz_loadu_pd,
        _mm512_mask_storeu_pd
    );
    transpose_in_memory!(__m512d, f64, 8);
}
