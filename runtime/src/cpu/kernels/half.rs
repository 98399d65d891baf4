//! Rows of `f16` and `bf16` to `f32` and back, rounding to nearest even.

use crate::cpu::math::{Isa, isa};
use straightline_passes::ir::DType;

/// `n` half-precision numbers widened. `dtype` is `f16` or `bf16`.
///
/// # Safety
///
/// `src` has `n` numbers, `dst` room for as many; they do not overlap.
pub(super) unsafe fn widen(dtype: DType, dst: *mut f32, src: *const u8, n: usize) {
    // SAFETY: as promised by the caller; the feature-gated versions run only where the CPU has the
    // features.
    unsafe {
        match (dtype, isa()) {
            #[cfg(target_arch = "x86_64")]
            (DType::F16, Isa::Avx512 | Isa::Avx2) => x86::widen_f16(dst, src, n),
            #[cfg(target_arch = "x86_64")]
            (_, Isa::Avx512 | Isa::Avx2) => x86::widen_bf16(dst, src, n),
            #[cfg(target_arch = "aarch64")]
            (DType::F16, Isa::Neon) => neon::widen_f16(dst, src, n),
            (DType::F16, _) => widen_f16(dst, src, n),
            (_, _) => widen_bf16(dst, src, n),
        }
    }
}

/// `n` numbers rounded to half precision.
///
/// # Safety
///
/// As for [`widen`].
pub(super) unsafe fn narrow(dtype: DType, dst: *mut u8, src: *const f32, n: usize) {
    // SAFETY: as in `widen`.
    unsafe {
        match (dtype, isa()) {
            #[cfg(target_arch = "x86_64")]
            (DType::F16, Isa::Avx512 | Isa::Avx2) => x86::narrow_f16(dst, src, n),
            #[cfg(target_arch = "x86_64")]
            (_, Isa::Avx512 | Isa::Avx2) => x86::narrow_bf16(dst, src, n),
            #[cfg(target_arch = "aarch64")]
            (DType::F16, Isa::Neon) => neon::narrow_f16(dst, src, n),
            (DType::F16, _) => narrow_f16(dst, src, n),
            (_, _) => narrow_bf16(dst, src, n),
        }
    }
}

unsafe fn widen_f16(dst: *mut f32, src: *const u8, n: usize) {
    for i in 0..n {
        // SAFETY: i < n.
        unsafe {
            let bits = src.cast::<u16>().add(i).read_unaligned();
            dst.add(i).write_unaligned(::half::f16::from_bits(bits).to_f32());
        }
    }
}

unsafe fn narrow_f16(dst: *mut u8, src: *const f32, n: usize) {
    for i in 0..n {
        // SAFETY: i < n.
        unsafe {
            let x = src.add(i).read_unaligned();
            let bits = ::half::f16::from_f32(x).to_bits();
            dst.cast::<u16>().add(i).write_unaligned(bits);
        }
    }
}

#[inline(always)]
unsafe fn widen_bf16(dst: *mut f32, src: *const u8, n: usize) {
    for i in 0..n {
        // SAFETY: i < n.
        unsafe {
            let bits = u32::from(src.cast::<u16>().add(i).read_unaligned()) << 16;
            dst.add(i).write_unaligned(f32::from_bits(bits));
        }
    }
}

/// Branch-free, so that it vectorises.
#[inline(always)]
fn bf16_bits(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let quiet = (bits >> 16) | 0x40;
    (if x.is_nan() { quiet } else { rounded }) as u16
}

#[inline(always)]
unsafe fn narrow_bf16(dst: *mut u8, src: *const f32, n: usize) {
    for i in 0..n {
        // SAFETY: i < n.
        unsafe {
            let x = src.add(i).read_unaligned();
            dst.cast::<u16>().add(i).write_unaligned(bf16_bits(x));
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn widen_f16(dst: *mut f32, src: *const u8, n: usize) {
        let whole = n & !7;
        for i in (0..whole).step_by(8) {
            // SAFETY: i + 8 <= n.
            unsafe {
                let h = _mm_loadu_si128(src.add(i * 2).cast());
                _mm256_storeu_ps(dst.add(i), _mm256_cvtph_ps(h));
            }
        }
        // SAFETY: the rest of the row.
        unsafe { super::widen_f16(dst.add(whole), src.add(whole * 2), n - whole) }
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn narrow_f16(dst: *mut u8, src: *const f32, n: usize) {
        let whole = n & !7;
        for i in (0..whole).step_by(8) {
            // SAFETY: i + 8 <= n.
            unsafe {
                let h = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(src.add(i)));
                _mm_storeu_si128(dst.add(i * 2).cast(), h);
            }
        }
        // SAFETY: the rest of the row.
        unsafe { super::narrow_f16(dst.add(whole * 2), src.add(whole), n - whole) }
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn widen_bf16(dst: *mut f32, src: *const u8, n: usize) {
        let whole = n & !7;
        for i in (0..whole).step_by(8) {
            // SAFETY: i + 8 <= n.
            unsafe {
                let h = _mm256_cvtepu16_epi32(_mm_loadu_si128(src.add(i * 2).cast()));
                _mm256_storeu_si256(dst.add(i).cast(), _mm256_slli_epi32::<16>(h));
            }
        }
        // SAFETY: the rest of the row.
        unsafe { super::widen_bf16(dst.add(whole), src.add(whole * 2), n - whole) }
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn narrow_bf16(dst: *mut u8, src: *const f32, n: usize) {
        let whole = n & !7;
        for i in (0..whole).step_by(8) {
            // SAFETY: i + 8 <= n.
            unsafe {
                let x = _mm256_loadu_ps(src.add(i));
                let bits = _mm256_castps_si256(x);
                let top = _mm256_srli_epi32::<16>(bits);
                let odd = _mm256_and_si256(top, _mm256_set1_epi32(1));
                let sum = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
                let rounded = _mm256_srli_epi32::<16>(sum);
                let quiet = _mm256_or_si256(top, _mm256_set1_epi32(0x40));
                let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x));
                let r = _mm256_blendv_epi8(rounded, quiet, nan);
                let r =
                    _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256::<1>(r));
                _mm_storeu_si128(dst.add(i * 2).cast(), r);
            }
        }
        // SAFETY: the rest of the row.
        unsafe { super::narrow_bf16(dst.add(whole * 2), src.add(whole), n - whole) }
    }
}

/// For `f16` only: of the loops for `bf16` the compiler makes the same vectors. The conversions are
/// NEON's own; only arithmetic on halves is an extension.
#[cfg(target_arch = "aarch64")]
mod neon {
    use std::arch::aarch64::*;

    pub(super) unsafe fn widen_f16(dst: *mut f32, src: *const u8, n: usize) {
        let whole = n & !7;
        for i in (0..whole).step_by(8) {
            // SAFETY: i + 8 <= n; bytes are loaded because the source need not be aligned.
            unsafe {
                let h = vreinterpretq_f16_u8(vld1q_u8(src.add(i * 2)));
                vst1q_f32(dst.add(i), vcvt_f32_f16(vget_low_f16(h)));
                vst1q_f32(dst.add(i + 4), vcvt_high_f32_f16(h));
            }
        }
        // SAFETY: the rest of the row.
        unsafe { super::widen_f16(dst.add(whole), src.add(whole * 2), n - whole) }
    }

    pub(super) unsafe fn narrow_f16(dst: *mut u8, src: *const f32, n: usize) {
        let whole = n & !7;
        for i in (0..whole).step_by(8) {
            // SAFETY: i + 8 <= n.
            unsafe {
                let low = vcvt_f16_f32(vld1q_f32(src.add(i)));
                let h = vcvt_high_f16_f32(low, vld1q_f32(src.add(i + 4)));
                vst1q_u8(dst.add(i * 2), vreinterpretq_u8_f16(h));
            }
        }
        // SAFETY: the rest of the row.
        unsafe { super::narrow_f16(dst.add(whole * 2), src.add(whole), n - whole) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives_and_rounding_is_that_of_the_half_crate() {
        for dtype in [DType::F16, DType::BF16] {
            let all: Vec<u16> = (0..=u16::MAX).collect();
            let mut wide = vec![0f32; all.len()];
            // SAFETY: both have 65536 elements.
            unsafe { widen(dtype, wide.as_mut_ptr(), all.as_ptr().cast(), all.len()) };
            let reference = |bits: u16| match dtype {
                DType::F16 => ::half::f16::from_bits(bits).to_f32(),
                _ => ::half::bf16::from_bits(bits).to_f32(),
            };
            for (&bits, &x) in all.iter().zip(&wide) {
                let want = reference(bits);
                assert!(x == want || x.is_nan() && want.is_nan(), "{dtype} {bits:04x}");
            }
            let probes: Vec<f32> = (0..200_003u32)
                .map(|i| f32::from_bits(i.wrapping_mul(21_473)))
                .chain([
                    0.0,
                    -0.0,
                    f32::INFINITY,
                    f32::NEG_INFINITY,
                    f32::NAN,
                    65520.0,
                    65519.9,
                    3.4e38,
                ])
                .collect();
            let mut got = vec![0u16; probes.len()];
            // SAFETY: both have the same number of elements.
            unsafe { narrow(dtype, got.as_mut_ptr().cast(), probes.as_ptr(), probes.len()) };
            for (&x, &bits) in probes.iter().zip(&got) {
                let want = match dtype {
                    DType::F16 => ::half::f16::from_f32(x).to_bits(),
                    _ => ::half::bf16::from_f32(x).to_bits(),
                };
                assert!(bits == want || x.is_nan() && reference(bits).is_nan(), "{dtype} {x:e}");
            }
        }
    }
}
