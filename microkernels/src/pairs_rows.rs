//! A few rows of bf16 by a right factor in place, in the order of AMX: vectors of f32 that give the
//! same bits.

use super::pairs::RowBlock;
use std::arch::asm;
use std::arch::x86_64::*;

/// What the tiles of AMX know no other mode than: rounding to nearest, denormal factors and sums as
/// zero, no exceptions.
const MODE: u32 = 0x9fc0;

/// [`PairKernels::few`](super::pairs::PairKernels::few) for AMX.
///
/// # Safety
///
/// As said there.
pub(super) unsafe fn few_rows(blocks: &mut dyn Iterator<Item = RowBlock>) {
    for block in blocks {
        // SAFETY: the caller's contract.
        unsafe { add(&block) }
    }
}

/// Adds the sums of a block. All of its arithmetic is in one piece of assembly, which changes the
/// mode and restores it.
///
/// # Safety
///
/// The machine has AVX512 F and BW; the block is valid.
unsafe fn add(block: &RowBlock) {
    let mask = |from: usize| match block.cols.saturating_sub(from) {
        n @ 0..32 => (1u32 << n) - 1,
        _ => u32::MAX,
    };
    let mut modes = [MODE, 0];
    // SAFETY: rows of `cols` elements, which the masks do not exceed, as many factors as steps,
    // and 64 sums, by the caller's contract.
    unsafe {
        asm!(
            "stmxcsr [{modes} + 4]",
            "ldmxcsr [{modes}]",
            "kmovd k1, {first:e}",
            "kmovd k2, {second:e}",
            "mov {first:e}, 0xffff0000",
            "vpbroadcastd zmm16, {first:e}",
            // sums of the even steps, then of the odd ones
            ".irp i, 24, 25, 26, 27, 28, 29, 30, 31",
            "vpxord zmm\\i, zmm\\i, zmm\\i",
            ".endr",
            "mov {second}, {pairs}",
            "test {second}, {second}",
            "jz 3f",
            "2:",
            "vmovdqu16 zmm17{{k1}}{{z}}, [{b}]",
            "vmovdqu16 zmm18{{k2}}{{z}}, [{b} + 64]",
            "vbroadcastss zmm19, [{a}]",
            "vpslld zmm20, zmm17, 16",
            "vpandd zmm17, zmm17, zmm16",
            "vpslld zmm21, zmm18, 16",
            "vpandd zmm18, zmm18, zmm16",
            "vfmadd231ps zmm24, zmm20, zmm19",
            "vfmadd231ps zmm25, zmm17, zmm19",
            "vfmadd231ps zmm26, zmm21, zmm19",
            "vfmadd231ps zmm27, zmm18, zmm19",
            "prefetcht0 [{ask}]",
            "prefetcht0 [{ask} + 64]",
            "vmovdqu16 zmm17{{k1}}{{z}}, [{b} + {row}]",
            "vmovdqu16 zmm18{{k2}}{{z}}, [{b} + {row} + 64]",
            "vbroadcastss zmm19, [{a} + 4]",
            "vpslld zmm20, zmm17, 16",
            "vpandd zmm17, zmm17, zmm16",
            "vpslld zmm21, zmm18, 16",
            "vpandd zmm18, zmm18, zmm16",
            "vfmadd231ps zmm28, zmm20, zmm19",
            "vfmadd231ps zmm29, zmm17, zmm19",
            "vfmadd231ps zmm30, zmm21, zmm19",
            "vfmadd231ps zmm31, zmm18, zmm19",
            "prefetcht0 [{ask} + {row}]",
            "prefetcht0 [{ask} + {row} + 64]",
            "lea {b}, [{b} + 2*{row}]",
            "lea {ask}, [{ask} + 2*{row}]",
            "add {a}, 8",
            "dec {second}",
            "jnz 2b",
            "3:",
            // a last even step
            "test {single:e}, {single:e}",
            "jz 4f",
            "vmovdqu16 zmm17{{k1}}{{z}}, [{b}]",
            "vmovdqu16 zmm18{{k2}}{{z}}, [{b} + 64]",
            "vbroadcastss zmm19, [{a}]",
            "vpslld zmm20, zmm17, 16",
            "vpandd zmm17, zmm17, zmm16",
            "vpslld zmm21, zmm18, 16",
            "vpandd zmm18, zmm18, zmm16",
            "vfmadd231ps zmm24, zmm20, zmm19",
            "vfmadd231ps zmm25, zmm17, zmm19",
            "vfmadd231ps zmm26, zmm21, zmm19",
            "vfmadd231ps zmm27, zmm18, zmm19",
            "4:",
            "vaddps zmm24, zmm24, zmm28",
            "vaddps zmm25, zmm25, zmm29",
            "vaddps zmm26, zmm26, zmm30",
            "vaddps zmm27, zmm27, zmm31",
            "vaddps zmm24, zmm24, [{c}]",
            "vaddps zmm25, zmm25, [{c} + 64]",
            "vaddps zmm26, zmm26, [{c} + 128]",
            "vaddps zmm27, zmm27, [{c} + 192]",
            "vmovups [{c}], zmm24",
            "vmovups [{c} + 64], zmm25",
            "vmovups [{c} + 128], zmm26",
            "vmovups [{c} + 192], zmm27",
            "ldmxcsr [{modes} + 4]",
            modes = in(reg) modes.as_mut_ptr(),
            first = inout(reg) u64::from(mask(0)) => _,
            second = inout(reg) u64::from(mask(32)) => _,
            pairs = in(reg) block.steps / 2,
            single = in(reg) block.steps % 2,
            a = inout(reg) block.a => _,
            b = inout(reg) block.b => _,
            ask = inout(reg) block.ask => _,
            row = in(reg) 2 * block.b_row,
            c = in(reg) block.c,
            out("k1") _, out("k2") _,
            out("zmm16") _, out("zmm17") _, out("zmm18") _, out("zmm19") _,
            out("zmm20") _, out("zmm21") _, out("zmm24") _, out("zmm25") _,
            out("zmm26") _, out("zmm27") _, out("zmm28") _, out("zmm29") _,
            out("zmm30") _, out("zmm31") _,
            options(nostack),
        );
    }
}

/// [`PairKernels::sort`](super::pairs::PairKernels::sort).
///
/// # Safety
///
/// As said there.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn sort(sums: *mut f32, count: usize) {
    let low: [i32; 16] = std::array::from_fn(|i| (i / 2 + 16 * (i % 2)) as i32);
    // SAFETY: the array has sixteen elements; both halves of each pair of vectors lie within the
    // sums.
    unsafe {
        let low = _mm512_loadu_si512(low.as_ptr().cast());
        let high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
        for i in (0..count).step_by(32) {
            let (at, next) = (sums.wrapping_add(i), sums.wrapping_add(i + 16));
            let (even, odd) = (_mm512_loadu_ps(at), _mm512_loadu_ps(next));
            _mm512_storeu_ps(at, _mm512_permutex2var_ps(even, low, odd));
            _mm512_storeu_ps(next, _mm512_permutex2var_ps(even, high, odd));
        }
    }
}
