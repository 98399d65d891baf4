//! The kernels of bytes for x86: AMX, AVX512_VNNI and AVX2.

use super::bytes::{self, ByteKernels, ByteTile, Bytes, WIDE_STEPS, nothing, parts};
use super::pairs_x86;
use super::tiles::{self, Tiles};
use super::unroll;
use std::arch::x86_64::*;

/// Tiles of 32 rows by 32 columns in the registers of AMX.
///
/// They need AMX-TILE and AMX-INT8, AVX512 F and BW, and the permission of the operating system for
/// the tiles.
pub static AMX_INT8: ByteKernels = ByteKernels {
    name: "amx",
    height: 32,
    columns: COLUMNS,
    steps: STEPS,
    left: 32 * STEPS,
    right: RIGHT,
    written: |rows| if rows > 16 { 32 } else { 16 },
    enter: tiles::configure,
    leave: tiles::release,
    tile: tile_amx,
    pack_left: left::<32, 0>,
    pack_right: right,
};

/// Tiles of twelve rows by 32 columns in vectors.
///
/// They need AVX512 F, BW and VNNI.
pub static AVX512_VNNI: ByteKernels = ByteKernels {
    name: "avx512_vnni",
    height: VNNI_ROWS,
    columns: COLUMNS,
    steps: STEPS,
    left: VNNI_ROWS * STEPS,
    right: RIGHT,
    written: |rows| rows,
    enter: nothing,
    leave: nothing,
    tile: tile_vnni,
    pack_left: left::<VNNI_ROWS, 0x80>,
    pack_right: right,
};

/// Tiles of six rows by sixteen columns in vectors of 16-bit elements.
pub static AVX2_BYTES: ByteKernels = ByteKernels {
    name: "avx2",
    height: AVX2_ROWS,
    columns: AVX2_COLUMNS,
    steps: WIDE_STEPS,
    left: 2 * AVX2_ROWS * WIDE_STEPS,
    right: 2 * AVX2_COLUMNS * WIDE_STEPS,
    written: |rows| rows,
    enter: nothing,
    leave: nothing,
    tile: tile_avx2,
    pack_left: left_avx2,
    pack_right: right_avx2,
};

/// Steps of a block.
const STEPS: usize = 64;
/// Columns of a panel.
const COLUMNS: usize = 32;
/// Bytes of a block of the right factor: for each sixteen columns, sixteen rows of four steps of
/// each column.
const RIGHT: usize = STEPS * COLUMNS;
/// Rows of a tile in vectors of AVX-512: with the sums of the right factor, 26 of the 32 registers.
const VNNI_ROWS: usize = 12;
/// Rows of a tile in vectors of AVX2: with two sums each, twelve of the sixteen registers.
const AVX2_ROWS: usize = 6;
const AVX2_COLUMNS: usize = 16;

/// # Safety
///
/// As [`ByteKernels::tile`], where AMX is configured.
unsafe fn tile_amx(t: &ByteTile) {
    let call = Tiles {
        blocks: t.blocks,
        a: t.a,
        a_row: STEPS as isize,
        a_block: 32 * STEPS as isize,
        b: t.b,
        c: t.c.cast(),
        c_row: t.c_row.wrapping_mul(4),
        resume: t.resume,
    };
    // SAFETY: the caller's contract: blocks of 2 KiB of either factor, and 16 or 32 rows of `c`.
    unsafe {
        match (t.rows > 16, t.unsigned) {
            (true, false) => tiles::signed_32(&call),
            (true, true) => tiles::unsigned_32(&call),
            (false, false) => tiles::signed_16(&call),
            (false, true) => tiles::unsigned_16(&call),
        }
    }
}

/// # Safety
///
/// As [`ByteKernels::tile`], where AVX512_VNNI is.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn tile_vnni(t: &ByteTile) {
    // SAFETY: the caller's contract.
    unsafe {
        match t.rows {
            1 => vnni::<1>(t),
            2 => vnni::<2>(t),
            3 => vnni::<3>(t),
            4 => vnni::<4>(t),
            5 => vnni::<5>(t),
            6 => vnni::<6>(t),
            7 => vnni::<7>(t),
            8 => vnni::<8>(t),
            9 => vnni::<9>(t),
            10 => vnni::<10>(t),
            11 => vnni::<11>(t),
            _ => vnni::<12>(t),
        }
    }
}

/// # Safety
///
/// As [`tile_vnni`], for `R` rows.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
#[allow(clippy::needless_range_loop)] // indices address the sums and the memory alike
unsafe fn vnni<const R: usize>(t: &ByteTile) {
    // SAFETY: blocks of 2 KiB of the right factor, of twelve rows of the left one, and `R` rows of
    // `c`, by the caller's contract.
    unsafe {
        let mut sums = [[_mm512_setzero_si512(); 2]; R];
        let at = |i: usize, half: usize| {
            t.c.wrapping_add(t.c_row.wrapping_mul(i)).wrapping_add(16 * half)
        };
        if t.resume {
            unroll!(i < R {
                let load = |half| _mm512_loadu_si512(at(i, half).cast());
                sums[i] = [load(0), load(1)];
            });
        }
        // 128 times the right factor's columns, which a signed left factor has too much
        let mut excess = [_mm512_setzero_si512(); 2];
        let offset = _mm512_set1_epi8(if t.unsigned { 0 } else { -128 });
        let (mut a, mut b) = (t.a.cast::<i32>(), t.b);
        for _ in 0..t.blocks {
            for _ in 0..STEPS / 4 {
                let low = _mm512_loadu_si512(b.cast());
                let high = _mm512_loadu_si512(b.wrapping_add(RIGHT / 2).cast());
                // the form that wraps, not the one that saturates
                excess[0] = _mm512_dpbusd_epi32(excess[0], offset, low);
                excess[1] = _mm512_dpbusd_epi32(excess[1], offset, high);
                unroll!(i < R {
                    let x = _mm512_set1_epi32(a.wrapping_add(i * STEPS / 4).read_unaligned());
                    sums[i][0] = _mm512_dpbusd_epi32(sums[i][0], x, low);
                    sums[i][1] = _mm512_dpbusd_epi32(sums[i][1], x, high);
                });
                a = a.wrapping_add(1);
                b = b.wrapping_add(64);
            }
            a = a.wrapping_add((VNNI_ROWS - 1) * STEPS / 4);
            b = b.wrapping_add(RIGHT / 2);
        }
        unroll!(i < R {
            for half in 0..2 {
                let sum = _mm512_sub_epi32(sums[i][half], excess[half]);
                _mm512_storeu_si512(at(i, half).cast(), sum);
            }
        });
    }
}

/// The first `n` of 64 lanes.
fn first(n: usize) -> __mmask64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

/// Copies rows of the left factor; the bits of `FLIP` are turned over in signed elements.
///
/// # Safety
///
/// As [`ByteKernels::pack_left`].
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn left<const HEIGHT: usize, const FLIP: u8>(a: Bytes, out: *mut u8) {
    let flip = if a.unsigned { 0 } else { FLIP };
    let flips = _mm512_set1_epi8(flip as i8);
    for (block, a) in parts(a, (HEIGHT, STEPS)) {
        let out = out.wrapping_add(block * HEIGHT * STEPS);
        let row = |i: usize| a.ptr.wrapping_offset(i as isize * a.row);
        // SAFETY: rows and steps of the source, and a block of the room.
        unsafe {
            if a.col == 1 {
                for i in 0..a.rows {
                    let steps = _mm512_maskz_loadu_epi8(first(a.cols), row(i).cast());
                    let to = out.wrapping_add(i * STEPS);
                    _mm512_storeu_si512(to.cast(), _mm512_xor_si512(steps, flips));
                }
            } else if a.row == 1 {
                for i in (0..a.rows).step_by(16) {
                    let rows = (a.rows - i).min(16);
                    let mut fours = [_mm512_setzero_si512(); 16];
                    for (p, four) in fours.iter_mut().enumerate() {
                        *four = interleaved(row(i), a.col, (4 * p, a.cols), rows);
                    }
                    let columns = pairs_x86::transposed(fours);
                    for (j, steps) in columns.into_iter().enumerate().take(rows) {
                        let to = out.wrapping_add((i + j) * STEPS);
                        _mm512_storeu_si512(to.cast(), _mm512_xor_si512(steps, flips));
                    }
                }
            } else {
                for i in 0..a.rows {
                    for p in 0..STEPS {
                        let from = row(i).wrapping_offset(p as isize * a.col);
                        let x = if p < a.cols { *from } else { 0 };
                        *out.wrapping_add(i * STEPS + p) = x ^ flip;
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
/// As [`ByteKernels::pack_right`].
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn right(b: Bytes, out: *mut u8) {
    // rows are columns here
    for (block, b) in parts(bytes::transposed(b), (COLUMNS, STEPS)) {
        let out = out.wrapping_add(block * RIGHT);
        for half in 0..2 {
            let out = out.wrapping_add(half * RIGHT / 2);
            let columns = b.rows.saturating_sub(16 * half).min(16);
            let from = b.ptr.wrapping_offset(16 * half as isize * b.row);
            // SAFETY: these steps and columns of the source, and half of a block of the room.
            unsafe {
                if b.col == 1 && b.row != 1 {
                    let mut steps = [_mm512_setzero_si512(); 16];
                    for (j, steps) in steps.iter_mut().enumerate().take(columns) {
                        let column = from.wrapping_offset(j as isize * b.row);
                        *steps = _mm512_maskz_loadu_epi8(first(b.cols), column.cast());
                    }
                    for (p, fours) in pairs_x86::transposed(steps).into_iter().enumerate() {
                        _mm512_storeu_si512(out.wrapping_add(64 * p).cast(), fours);
                    }
                    continue;
                }
                let (mut from, mut step) = (from, b.col);
                let mut dense;
                if b.row != 1 {
                    dense = [0u8; RIGHT / 2];
                    for i in 0..b.cols * columns {
                        let (p, j) = (i / columns, i % columns);
                        let at = p as isize * b.col + j as isize * b.row;
                        dense[16 * p + j] = *from.wrapping_offset(at);
                    }
                    (from, step) = (dense.as_ptr(), 16);
                }
                for p in 0..STEPS / 4 {
                    let fours = interleaved(from, step, (4 * p, b.cols), columns);
                    _mm512_storeu_si512(out.wrapping_add(64 * p).cast(), fours);
                }
            }
        }
    }
}

/// Four steps of at most sixteen columns, those of each column side by side: steps from `p` on, of
/// which there are `steps`. The columns of a step are contiguous.
///
/// # Safety
///
/// The columns and steps are valid to read; steps are at distance `step`.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
unsafe fn interleaved(
    from: *const u8,
    step: isize,
    (p, steps): (usize, usize),
    columns: usize,
) -> __m512i {
    // columns 4q..4q + 4 of each step into quarter q
    let gather = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    let order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    let order = _mm512_broadcast_i32x4(order);
    let at = |i: usize| from.wrapping_offset((p + i) as isize * step);
    // SAFETY: the caller's contract: steps and columns beyond the end are not read.
    let all = unsafe {
        if columns == 16 && p + 4 <= steps {
            let row = |i: usize| _mm_loadu_si128(at(i).cast());
            let all = _mm512_castsi128_si512(row(0));
            let all = _mm512_inserti32x4::<1>(all, row(1));
            let all = _mm512_inserti32x4::<2>(all, row(2));
            _mm512_inserti32x4::<3>(all, row(3))
        } else {
            let row = |i: usize| {
                let mask = if p + i < steps { first(columns) } else { 0 };
                _mm512_castsi512_si128(_mm512_maskz_loadu_epi8(mask, at(i).cast()))
            };
            let all = _mm512_castsi128_si512(row(0));
            let all = _mm512_inserti32x4::<1>(all, row(1));
            let all = _mm512_inserti32x4::<2>(all, row(2));
            _mm512_inserti32x4::<3>(all, row(3))
        }
    };
    _mm512_shuffle_epi8(_mm512_permutexvar_epi32(gather, all), order)
}

/// # Safety
///
/// As [`ByteKernels::tile`], where AVX2 is.
#[target_feature(enable = "avx2")]
unsafe fn tile_avx2(t: &ByteTile) {
    // SAFETY: the caller's contract.
    unsafe {
        match t.rows {
            1 => avx2::<1>(t),
            2 => avx2::<2>(t),
            3 => avx2::<3>(t),
            4 => avx2::<4>(t),
            5 => avx2::<5>(t),
            _ => avx2::<6>(t),
        }
    }
}

/// # Safety
///
/// As [`tile_avx2`], for `R` rows.
#[target_feature(enable = "avx2")]
#[allow(clippy::needless_range_loop)] // as above
unsafe fn avx2<const R: usize>(t: &ByteTile) {
    // SAFETY: blocks of both factors, and `R` rows of `c`, by the caller's contract.
    unsafe {
        let mut sums = [[_mm256_setzero_si256(); 2]; R];
        let at = |i: usize, half: usize| {
            t.c.wrapping_add(t.c_row.wrapping_mul(i)).wrapping_add(8 * half)
        };
        if t.resume {
            unroll!(i < R {
                let load = |half| _mm256_loadu_si256(at(i, half).cast());
                sums[i] = [load(0), load(1)];
            });
        }
        let (mut a, mut b) = (t.a.cast::<i32>(), t.b);
        for _ in 0..t.blocks {
            for _ in 0..WIDE_STEPS / 2 {
                let low = _mm256_loadu_si256(b.cast());
                let high = _mm256_loadu_si256(b.wrapping_add(32).cast());
                unroll!(i < R {
                    let x = a.wrapping_add(i * WIDE_STEPS / 2).read_unaligned();
                    let x = _mm256_set1_epi32(x);
                    sums[i][0] = _mm256_add_epi32(sums[i][0], _mm256_madd_epi16(x, low));
                    sums[i][1] = _mm256_add_epi32(sums[i][1], _mm256_madd_epi16(x, high));
                });
                a = a.wrapping_add(1);
                b = b.wrapping_add(64);
            }
            a = a.wrapping_add((AVX2_ROWS - 1) * WIDE_STEPS / 2);
        }
        unroll!(i < R {
            for half in 0..2 {
                _mm256_storeu_si256(at(i, half).cast(), sums[i][half]);
            }
        });
    }
}

/// Copies the left factor as 16 bits.
///
/// # Safety
///
/// As [`ByteKernels::pack_left`].
#[target_feature(enable = "avx2")]
unsafe fn left_avx2(a: Bytes, out: *mut u8) {
    if a.col != 1 {
        // SAFETY: the caller's contract.
        return unsafe { bytes::left::<AVX2_ROWS>(a, out) };
    }
    for (block, a) in parts(a, (AVX2_ROWS, WIDE_STEPS)) {
        let out = out.wrapping_add(2 * block * AVX2_ROWS * WIDE_STEPS);
        for i in 0..AVX2_ROWS {
            let to = out.wrapping_add(2 * i * WIDE_STEPS);
            // SAFETY: a row of the block, and of the source where there is one.
            unsafe {
                if i < a.rows && a.cols == WIDE_STEPS {
                    let from = a.ptr.wrapping_offset(i as isize * a.row);
                    for p in [0, 16] {
                        let x = _mm_loadu_si128(from.wrapping_add(p).cast());
                        let x = match a.unsigned {
                            true => _mm256_cvtepu8_epi16(x),
                            false => _mm256_cvtepi8_epi16(x),
                        };
                        _mm256_storeu_si256(to.wrapping_add(2 * p).cast(), x);
                    }
                } else {
                    for p in 0..WIDE_STEPS {
                        *to.cast::<i16>().wrapping_add(p) = bytes::wide(&a, i, p);
                    }
                }
            }
        }
    }
}

/// Copies the right factor as 16 bits.
///
/// # Safety
///
/// As [`ByteKernels::pack_right`].
#[target_feature(enable = "avx2")]
unsafe fn right_avx2(b: Bytes, out: *mut u8) {
    // rows are columns here
    for (block, b) in parts(bytes::transposed(b), (AVX2_COLUMNS, WIDE_STEPS)) {
        let out = out.wrapping_add(2 * block * AVX2_COLUMNS * WIDE_STEPS);
        // SAFETY: these columns and steps of the source, a block of the room.
        unsafe {
            if b.rows < AVX2_COLUMNS || b.cols < WIDE_STEPS || (b.row != 1 && b.col != 1) {
                bytes::right::<AVX2_COLUMNS, 2>(bytes::transposed(b), out);
            } else if b.row == 1 {
                for p in 0..WIDE_STEPS / 2 {
                    let step = |p: usize| {
                        _mm_loadu_si128(b.ptr.wrapping_offset(p as isize * b.col).cast())
                    };
                    let (even, odd) = (step(2 * p), step(2 * p + 1));
                    let low = _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(even, odd));
                    let high = _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(even, odd));
                    let to = out.wrapping_add(64 * p);
                    _mm256_storeu_si256(to.cast(), low);
                    _mm256_storeu_si256(to.wrapping_add(32).cast(), high);
                }
            } else {
                for (column, p) in [(0, 0), (0, 16), (8, 0), (8, 16)] {
                    let mut steps = [_mm256_setzero_si256(); 8];
                    for (j, steps) in steps.iter_mut().enumerate() {
                        let from = b.ptr.wrapping_offset((column + j) as isize * b.row);
                        let from = from.wrapping_add(p);
                        *steps = _mm256_cvtepi8_epi16(_mm_loadu_si128(from.cast()));
                    }
                    for (i, pairs) in turned(steps).into_iter().enumerate() {
                        let to = out.wrapping_add(64 * (p / 2 + i) + 4 * column);
                        _mm256_storeu_si256(to.cast(), pairs);
                    }
                }
            }
        }
    }
}

/// Eight rows of eight elements of 32 bits become columns.
#[target_feature(enable = "avx2")]
#[inline]
fn turned(rows: [__m256i; 8]) -> [__m256i; 8] {
    // within each half: pairs, then fours
    let mut fours = [_mm256_setzero_si256(); 8];
    for i in 0..2 {
        let [a, b, c, d] = [0, 1, 2, 3].map(|j| rows[4 * i + j]);
        let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
        let (ab_high, cd_high) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
        fours[4 * i] = _mm256_unpacklo_epi64(ab, cd);
        fours[4 * i + 1] = _mm256_unpackhi_epi64(ab, cd);
        fours[4 * i + 2] = _mm256_unpacklo_epi64(ab_high, cd_high);
        fours[4 * i + 3] = _mm256_unpackhi_epi64(ab_high, cd_high);
    }
    let mut out = [_mm256_setzero_si256(); 8];
    for j in 0..4 {
        out[j] = _mm256_permute2x128_si256::<0x20>(fours[j], fours[4 + j]);
        out[4 + j] = _mm256_permute2x128_si256::<0x31>(fours[j], fours[4 + j]);
    }
    out
}
