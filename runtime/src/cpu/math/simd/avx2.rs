//! 256-bit vectors of AVX2 with FMA; masks are vectors of all-ones and all-zeros lanes.

use super::isa::Isa;
use super::table::{functions, implement, scalar_calls, transpose_in_memory};
use super::vector::{MAX_LANES, Simd};
use super::x86::{register, vectors, with_modes};
use crate::cpu::math::{Prims, ScalarFn1, ScalarFn2, Width};
use std::arch::x86_64::*;

vectors! {
    /// Eight lanes of `f32`.
    Avx2F32 in f32x8, Avx2, f32 as i32, 8, Width::W32, (__m256, __m256i, __m256), {}
}
vectors! {
    /// Four lanes of `f64`.
    Avx2F64 in f64x4, Avx2, f64 as i64, 4, Width::W64, (__m256d, __m256i, __m256d), {}
}

/// What takes more than one instruction, the same for both widths.
macro_rules! composed {
    ($elem:ty, $float:ty, $splat_i:ident, $xor:ident, $andnot:ident, $blend:ident, $igt:ident, $ieq:ident,
     $mload:ident, $mstore:ident, $movemask:ident) => {
        functions! {
            fn neg(a: $float) -> $float { $xor(a, splat(-0.0)) }
            fn abs(a: $float) -> $float { $andnot(splat(-0.0), a) }
            fn not(a: $float) -> $float { $xor(a, from_bits($splat_i(-1))) }
            fn select(m: $float, a: $float, b: $float) -> $float { $blend(b, a, m) }
            fn select_i(m: $float, a: __m256i, b: __m256i) -> __m256i {
                bits($blend(from_bits(b), from_bits(a), m))
            }
            fn ilt(a: __m256i, b: __m256i) -> $float { from_bits($igt(b, a)) }
            fn ieq(a: __m256i, b: __m256i) -> $float { from_bits($ieq(a, b)) }
            fn load_partial(ptr: *const $elem, n: usize) -> $float { $mload(ptr, first_i(n)) }
            fn store_partial(ptr: *mut $elem, n: usize, v: $float) { $mstore(ptr, first_i(n), v) }
            fn first(n: usize) -> $float { from_bits(first_i(n)) }
            fn any(m: $float) -> bool { $movemask(m) != 0 }
        }
    };
}

mod f32x8 {
    use super::*;
    pub(super) use std::arch::x86_64::{
        _mm256_add_epi32 as iadd, _mm256_add_ps as add, _mm256_and_ps as and,
        _mm256_and_si256 as iand, _mm256_castps_si256 as bits, _mm256_castsi256_ps as from_bits,
        _mm256_cvtepi32_ps as to_float, _mm256_cvttps_epi32 as to_int, _mm256_div_ps as div,
        _mm256_fmadd_ps as fma, _mm256_loadu_ps as load, _mm256_max_ps as max_raw,
        _mm256_min_ps as min_raw, _mm256_mul_ps as mul, _mm256_or_ps as or, _mm256_or_si256 as ior,
        _mm256_set1_epi32 as splat_i, _mm256_set1_ps as splat, _mm256_sqrt_ps as sqrt,
        _mm256_storeu_ps as store, _mm256_sub_epi32 as isub, _mm256_sub_ps as sub,
        _mm256_xor_si256 as ixor,
    };

    with_modes!(
        __m256,
        __m256i,
        __m256,
        _mm256_round_ps,
        _mm256_cmp_ps,
        _mm256_sll_epi32,
        _mm256_srl_epi32
    );
    composed!(
        f32,
        __m256,
        splat_i,
        _mm256_xor_ps,
        _mm256_andnot_ps,
        _mm256_blendv_ps,
        _mm256_cmpgt_epi32,
        _mm256_cmpeq_epi32,
        _mm256_maskload_ps,
        _mm256_maskstore_ps,
        _mm256_movemask_ps
    );
    functions! {
        fn transpose(rows: &mut [__m256; MAX_LANES]) {
            // squares of four within the halves, then the halves
            for four in rows[..8].chunks_exact_mut(4) {
                let (a, b) = (_mm256_unpacklo_ps(four[0], four[1]), _mm256_unpackhi_ps(four[0], four[1]));
                let (c, d) = (_mm256_unpacklo_ps(four[2], four[3]), _mm256_unpackhi_ps(four[2], four[3]));
                four[0] = _mm256_shuffle_ps::<0x44>(a, c);
                four[1] = _mm256_shuffle_ps::<0xee>(a, c);
                four[2] = _mm256_shuffle_ps::<0x44>(b, d);
                four[3] = _mm256_shuffle_ps::<0xee>(b, d);
            }
            for i in 0..4 {
                let (a, b) = (rows[i], rows[i + 4]);
                rows[i] = _mm256_permute2f128_ps::<0x20>(a, b);
                rows[i + 4] = _mm256_permute2f128_ps::<0x31>(a, b);
            }
        }
        fn ishr_s(a: __m256i, n: u32) -> __m256i { _mm256_sra_epi32(a, _mm_cvtsi32_si128(n as i32)) }
        fn first_i(n: usize) -> __m256i {
            let lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            _mm256_cmpgt_epi32(splat_i(n as i32), lane)
        }
    }
}

mod f64x4 {
    use super::*;
    pub(super) use std::arch::x86_64::{
        _mm256_add_epi64 as iadd, _mm256_add_pd as add, _mm256_and_pd as and,
        _mm256_and_si256 as iand, _mm256_castpd_si256 as bits, _mm256_castsi256_pd as from_bits,
        _mm256_div_pd as div, _mm256_fmadd_pd as fma, _mm256_loadu_pd as load,
        _mm256_max_pd as max_raw, _mm256_min_pd as min_raw, _mm256_mul_pd as mul,
        _mm256_or_pd as or, _mm256_or_si256 as ior, _mm256_set1_epi64x as splat_i,
        _mm256_set1_pd as splat, _mm256_sqrt_pd as sqrt, _mm256_storeu_pd as store,
        _mm256_sub_epi64 as isub, _mm256_sub_pd as sub, _mm256_xor_si256 as ixor,
    };

    /// The integer of a float of this magnitude ends in its low bits.
    const MAGIC: f64 = 6_755_399_441_055_744.0;

    with_modes!(
        __m256d,
        __m256i,
        __m256d,
        _mm256_round_pd,
        _mm256_cmp_pd,
        _mm256_sll_epi64,
        _mm256_srl_epi64
    );
    composed!(
        f64,
        __m256d,
        splat_i,
        _mm256_xor_pd,
        _mm256_andnot_pd,
        _mm256_blendv_pd,
        _mm256_cmpgt_epi64,
        _mm256_cmpeq_epi64,
        _mm256_maskload_pd,
        _mm256_maskstore_pd,
        _mm256_movemask_pd
    );
    transpose_in_memory!(__m256d, f64, 4);
    functions! {
        /// AVX2 lacks the instruction: the sign is filled in beside a logical shift.
        fn ishr_s(a: __m256i, n: u32) -> __m256i {
            if n == 0 {
                return a;
            }
            let negative = _mm256_cmpgt_epi64(_mm256_setzero_si256(), a);
            let high = _mm256_sll_epi64(negative, _mm_cvtsi32_si128(64 - n as i32));
            ior(ishr_u(a, n), high)
        }
        /// AVX2 lacks the instruction.
        fn to_int(a: __m256d) -> __m256i {
            let magic = splat(MAGIC);
            isub(bits(add(trunc(a), magic)), bits(magic))
        }
        /// The way back.
        fn to_float(a: __m256i) -> __m256d {
            let magic = splat(MAGIC);
            sub(from_bits(iadd(a, bits(magic))), magic)
        }
        fn first_i(n: usize) -> __m256i {
            let lane = _mm256_setr_epi64x(0, 1, 2, 3);
            _mm256_cmpgt_epi64(splat_i(n as i64), lane)
        }
    }
}
