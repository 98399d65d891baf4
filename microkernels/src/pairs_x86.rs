//! The kernels of bf16 for x86: AMX, and AVX512_BF16.

use super::pairs::{COLUMNS, PairKernels, PairTile, RIGHT, STEPS, Source, blocks};
use super::pairs_rows::{few_rows, sort};
use super::tiles::{self, Tiles};
use super::unroll;
use std::arch::x86_64::*;

/// Tiles of 32 rows by 32 columns in the registers of AMX.
///
/// They need AMX-TILE and AMX-BF16, AVX512 F, BW and BF16, and the permission of the operating
/// system for the tiles.
pub static AMX_BF16: PairKernels = PairKernels {
    name: "amx",
    height: 32,
    in_place: true,
    written: |rows| if rows > 16 { 32 } else { 16 },
    enter: tiles::configure,
    leave: tiles::release,
    tile: tile_amx,
    few: Some(few_rows),
    sort,
    pack_left: left::<32>,
    pack_right: right,
    narrow,
};

/// Tiles of twelve rows by 32 columns in vectors.
///
/// They need AVX512 F, BW and BF16.
pub static AVX512_BF16: PairKernels = PairKernels {
    name: "avx512_bf16",
    height: VECTOR_ROWS,
    in_place: false,
    written: |rows| rows,
    enter: nothing,
    leave: nothing,
    tile: tile_vectors,
    few: None,
    sort,
    pack_left: left::<VECTOR_ROWS>,
    pack_right: right,
    narrow,
};

/// Rows of a tile in vectors: with two sums each, 24 of the 32 registers.
const VECTOR_ROWS: usize = 12;

fn nothing() {}

/// # Safety
///
/// As [`PairKernels::tile`], where AMX is configured.
unsafe fn tile_amx(t: &PairTile) {
    let call = Tiles {
        blocks: t.blocks,
        a: t.a.cast(),
        a_row: 2 * t.a_row,
        a_block: 2 * t.a_block,
        b: t.b.cast(),
        c: t.c.cast(),
        c_row: 4 * t.c_row,
        resume: t.resume,
    };
    // SAFETY: the caller's contract: blocks of 2 KiB of either factor, and 16 or 32 rows of `c`.
    unsafe { if t.rows > 16 { tiles::bf16_32(&call) } else { tiles::bf16_16(&call) } }
}

/// # Safety
///
/// As [`PairKernels::tile`], where AVX512_BF16 is.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn tile_vectors(t: &PairTile) {
    // SAFETY: the caller's contract.
    unsafe {
        match t.rows {
            1 => rows::<1>(t),
            2 => rows::<2>(t),
            3 => rows::<3>(t),
            4 => rows::<4>(t),
            5 => rows::<5>(t),
            6 => rows::<6>(t),
            7 => rows::<7>(t),
            8 => rows::<8>(t),
            9 => rows::<9>(t),
            10 => rows::<10>(t),
            11 => rows::<11>(t),
            _ => rows::<12>(t),
        }
    }
}

/// # Safety
///
/// As [`tile_vectors`], for `R` rows.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
#[allow(clippy::needless_range_loop)] // indices address the sums and the memory alike
unsafe fn rows<const R: usize>(t: &PairTile) {
    // SAFETY: blocks of 2 KiB of the right factor, of twelve rows of the left one, and `R` rows of
    // `c`, by the caller's contract.
    unsafe {
        let mut sums = [[_mm512_setzero_ps(); 2]; R];
        let at = |i: usize, half: usize| t.c.wrapping_add(i * t.c_row + 16 * half);
        if t.resume {
            unroll!(i < R {
                sums[i] = [_mm512_loadu_ps(at(i, 0)), _mm512_loadu_ps(at(i, 1))];
            });
        }
        let pairs = |x: __m512i| std::mem::transmute::<__m512i, __m512bh>(x);
        let mut a = t.a.cast::<i32>();
        let mut b = t.b.cast::<i32>();
        for _ in 0..t.blocks {
            for _ in 0..STEPS / 2 {
                let low = pairs(_mm512_loadu_si512(b.cast()));
                let high = pairs(_mm512_loadu_si512(b.wrapping_add(RIGHT / 4).cast()));
                unroll!(i < R {
                    let x = pairs(_mm512_set1_epi32(*a.wrapping_add(i * STEPS / 2)));
                    sums[i][0] = _mm512_dpbf16_ps(sums[i][0], x, low);
                    sums[i][1] = _mm512_dpbf16_ps(sums[i][1], x, high);
                });
                a = a.wrapping_add(1);
                b = b.wrapping_add(16);
            }
            a = a.wrapping_add((VECTOR_ROWS - 1) * STEPS / 2);
            b = b.wrapping_add(RIGHT / 4);
        }
        unroll!(i < R {
            _mm512_storeu_ps(at(i, 0), sums[i][0]);
            _mm512_storeu_ps(at(i, 1), sums[i][1]);
        });
    }
}

/// The first `n` of 32 lanes.
fn first(n: usize) -> __mmask32 {
    if n >= 32 { u32::MAX } else { (1 << n) - 1 }
}

/// Panels and blocks in the order of the source's memory, so that reads stay within few pages: all
/// blocks of a panel, where `along` says that its steps are contiguous, or one of each panel.
fn order(panels: usize, blocks: usize, along: bool) -> impl Iterator<Item = (usize, usize)> {
    let inner = if along { blocks } else { panels };
    (0..panels * blocks).map(move |i| match along {
        true => (i / inner, i % inner),
        false => (i % inner, i / inner),
    })
}

/// Copies rows of the left factor.
///
/// # Safety
///
/// As [`PairKernels::pack_left`].
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn left<const HEIGHT: usize>(a: Source, out: *mut u16) {
    let count = blocks(a.cols);
    for (panel, block) in order(a.rows.div_ceil(HEIGHT), count, a.col == 1) {
        let (k, first_row) = (block * STEPS, panel * HEIGHT);
        let steps = (a.cols - k).min(STEPS);
        let out = out.wrapping_add((panel * count + block) * HEIGHT * STEPS);
        let from = a.ptr.wrapping_offset(first_row as isize * a.row + k as isize * a.col);
        let a = Source { rows: (a.rows - first_row).min(HEIGHT), ..a };
        // SAFETY: these rows and steps of the source, and a block of the room.
        unsafe {
            if a.col == 1 {
                for i in 0..a.rows {
                    let row = from.wrapping_offset(i as isize * a.row);
                    let row = _mm512_maskz_loadu_epi16(first(steps), row.cast());
                    _mm512_storeu_si512(out.wrapping_add(i * STEPS).cast(), row);
                }
            } else if a.row == 1 {
                for i in (0..a.rows).step_by(16) {
                    let some = (a.rows - i).min(16);
                    let from = from.wrapping_add(i);
                    let step = |p: usize| {
                        let mask = if p < steps { first(some) as __mmask16 } else { 0 };
                        let at = from.wrapping_offset(p as isize * a.col);
                        let lanes = _mm512_castsi256_si512(_mm256_setzero_si256());
                        let lanes = _mm512_mask_loadu_epi16(lanes, mask.into(), at.cast());
                        _mm512_cvtepu16_epi32(_mm512_castsi512_si256(lanes))
                    };
                    let mut pairs = [_mm512_setzero_si512(); 16];
                    for (p, pair) in pairs.iter_mut().enumerate() {
                        let odd = _mm512_slli_epi32::<16>(step(2 * p + 1));
                        *pair = _mm512_or_si512(step(2 * p), odd);
                    }
                    for (j, row) in transposed(pairs).into_iter().enumerate() {
                        if i + j < HEIGHT {
                            let to = out.wrapping_add((i + j) * STEPS);
                            _mm512_storeu_si512(to.cast(), row);
                        }
                    }
                }
            } else {
                for i in 0..a.rows {
                    let row = out.wrapping_add(i * STEPS);
                    for p in 0..STEPS {
                        let at = i as isize * a.row + p as isize * a.col;
                        *row.wrapping_add(p) =
                            if p < steps { *from.wrapping_offset(at) } else { 0 };
                    }
                }
            }
            for i in a.rows..HEIGHT {
                let to = out.wrapping_add(i * STEPS);
                _mm512_storeu_si512(to.cast(), _mm512_setzero_si512());
            }
        }
    }
}

/// Copies columns of the right factor.
///
/// # Safety
///
/// As [`PairKernels::pack_right`].
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn right(b: Source, out: *mut u16) {
    let count = blocks(b.rows);
    for (panel, block) in order(b.cols.div_ceil(COLUMNS), count, b.row == 1) {
        let (k, column) = (block * STEPS, panel * COLUMNS);
        let steps = (b.rows - k).min(STEPS);
        let out = out.wrapping_add((panel * count + block) * RIGHT);
        let from = b.ptr.wrapping_offset(k as isize * b.row + column as isize * b.col);
        let b = Source { cols: (b.cols - column).min(COLUMNS), ..b };
        // SAFETY: these steps and columns of the source, and a block of the room.
        unsafe {
            if b.col == 1 {
                interleave(from, b.row, steps, b.cols, out);
            } else if b.row == 1 {
                for half in 0..2 {
                    let mut columns = [_mm512_setzero_si512(); 16];
                    for (j, column) in columns.iter_mut().enumerate() {
                        let j = 16 * half + j;
                        let mask = if j < b.cols { first(steps) } else { 0 };
                        let at = from.wrapping_offset(j as isize * b.col);
                        *column = _mm512_maskz_loadu_epi16(mask, at.cast());
                    }
                    for (p, row) in transposed(columns).into_iter().enumerate() {
                        let to = out.wrapping_add(half * RIGHT / 2 + p * STEPS);
                        _mm512_storeu_si512(to.cast(), row);
                    }
                }
            } else {
                let mut dense = [0u16; RIGHT];
                for p in 0..steps {
                    for j in 0..b.cols {
                        let at = p as isize * b.row + j as isize * b.col;
                        dense[p * 32 + j] = *from.wrapping_offset(at);
                    }
                }
                interleave(dense.as_ptr(), 32, steps, 32, out);
            }
        }
    }
}

/// A block of a right factor whose rows are contiguous.
///
/// # Safety
///
/// `steps` rows of `cols` elements at distance `row`, at most 32; room for a block.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn interleave(from: *const u16, row: isize, steps: usize, cols: usize, out: *mut u16) {
    // the first sixteen columns of two rows, alternating; the others come sixteen later
    let mut order = [0u16; 32];
    for (i, at) in order.iter_mut().enumerate() {
        *at = (i / 2 + 32 * (i % 2)) as u16;
    }
    // SAFETY: the array has 32 elements; the rest by the caller's contract.
    unsafe {
        let low = _mm512_loadu_si512(order.as_ptr().cast());
        let high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
        for p in 0..STEPS / 2 {
            let step = |p: usize| {
                let mask = if p < steps { first(cols) } else { 0 };
                let at = from.wrapping_offset(p as isize * row);
                _mm512_maskz_loadu_epi16(mask, at.cast())
            };
            let (even, odd) = (step(2 * p), step(2 * p + 1));
            for (half, order) in [low, high].into_iter().enumerate() {
                let pairs = _mm512_permutex2var_epi16(even, order, odd);
                let to = out.wrapping_add(half * RIGHT / 2 + p * STEPS);
                _mm512_storeu_si512(to.cast(), pairs);
            }
        }
    }
}

/// Sixteen rows of sixteen pairs, or other elements of 32 bits, become columns.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn transposed(rows: [__m512i; 16]) -> [__m512i; 16] {
    // within each quarter of four lanes: pairs, then fours
    let mut fours = [_mm512_setzero_si512(); 16];
    for i in 0..4 {
        let [a, b, c, d] = [0, 1, 2, 3].map(|j| rows[4 * i + j]);
        let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
        let (ab_high, cd_high) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
        fours[4 * i] = _mm512_unpacklo_epi64(ab, cd);
        fours[4 * i + 1] = _mm512_unpackhi_epi64(ab, cd);
        fours[4 * i + 2] = _mm512_unpacklo_epi64(ab_high, cd_high);
        fours[4 * i + 3] = _mm512_unpackhi_epi64(ab_high, cd_high);
    }
    // `fours[4 * i + j]` holds, in quarter `q`, column `4 * q + j` of rows `4 * i..4 * i + 4`
    let mut out = [_mm512_setzero_si512(); 16];
    for j in 0..4 {
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| fours[4 * i + j]);
        let (ab_even, ab_odd) =
            (_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0xdd>(a, b));
        let (cd_even, cd_odd) =
            (_mm512_shuffle_i32x4::<0x88>(c, d), _mm512_shuffle_i32x4::<0xdd>(c, d));
        out[j] = _mm512_shuffle_i32x4::<0x88>(ab_even, cd_even);
        out[8 + j] = _mm512_shuffle_i32x4::<0xdd>(ab_even, cd_even);
        out[4 + j] = _mm512_shuffle_i32x4::<0x88>(ab_odd, cd_odd);
        out[12 + j] = _mm512_shuffle_i32x4::<0xdd>(ab_odd, cd_odd);
    }
    out
}

/// # Safety
///
/// As [`PairKernels::narrow`].
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn narrow(from: *const f32, to: *mut u16, n: usize) {
    for i in (0..n).step_by(32) {
        let left = (n - i).min(32);
        let (low, high) = (first(left) as __mmask16, (first(left) >> 16) as __mmask16);
        // SAFETY: the caller's contract; the masks leave out what is beyond the end.
        unsafe {
            let x = _mm512_maskz_loadu_ps(low, from.wrapping_add(i));
            let y = _mm512_maskz_loadu_ps(high, from.wrapping_add(i + 16));
            let both = std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(y, x));
            _mm512_mask_storeu_epi16(to.wrapping_add(i).cast(), first(left), both);
        }
    }
}
