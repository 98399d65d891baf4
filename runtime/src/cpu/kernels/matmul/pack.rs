//! Copying a right factor into panels.
//!
//! A panel holds a fixed number of columns; its rows follow one another, and the panels follow one
//! another. The last panel is filled up with zeros.

use super::MatRef;
use std::cell::RefCell;

/// Zero-initialised memory on a cache-line boundary.
pub(super) struct Lines {
    data: Vec<Line>,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

impl Lines {
    pub(super) fn new(bytes: usize) -> Lines {
        Lines { data: vec![Line([0; 64]); bytes.div_ceil(64)] }
    }

    pub(super) fn bytes(&self) -> usize {
        self.data.len() * 64
    }

    /// Makes room for `bytes`; what was inside may be lost.
    pub(super) fn grow(&mut self, bytes: usize) {
        if self.bytes() < bytes {
            *self = Lines::new(bytes);
        }
    }

    pub(super) fn ptr<T>(&self) -> *const T {
        self.data.as_ptr().cast()
    }

    pub(super) fn ptr_mut<T>(&mut self) -> *mut T {
        self.data.as_mut_ptr().cast()
    }
}

thread_local! {
    /// Copies of factors for the length of one call; those of the outer calls last.
    static SCRATCH: RefCell<Vec<Lines>> = const { RefCell::new(Vec::new()) };
}

/// The largest scratch memory that a thread keeps, in bytes.
const KEPT: usize = 16 << 20;

/// Calls `f` with scratch memory of at least `bytes`, which this thread keeps for its next call and
/// which holds what it held. Calls may be nested: each gets memory of its own.
pub(super) fn with_scratch<R>(bytes: usize, f: impl FnOnce(*mut u8) -> R) -> R {
    let mut lines = SCRATCH.with_borrow_mut(Vec::pop).unwrap_or_else(|| Lines::new(0));
    lines.grow(bytes);
    let result = f(lines.ptr_mut());
    if lines.bytes() <= KEPT {
        SCRATCH.with_borrow_mut(|kept| kept.push(lines));
    }
    result
}

/// Elements of the packed form of a `k` by `n` matrix.
pub(super) fn packed_len(k: usize, n: usize, panel: usize) -> usize {
    k * n.next_multiple_of(panel)
}

/// Rows that are packed before the next panel.
const ROWS: usize = 64;
/// The same if the rows are contiguous; the number of streams is one that the processor can
/// prefetch.
const CONTIGUOUS_ROWS: usize = 8;

/// Packs `b` (elements `T`) into panels of `panel` columns.
///
/// # Safety
///
/// `b` is valid to read; `out` has room for [`packed_len`] elements.
pub(super) unsafe fn pack<T: Copy + Default>(b: MatRef, panel: usize, out: *mut T) {
    let (k, n) = (b.rows, b.cols);
    // A few rows at a time: reads stay within as many pages, and writes are runs of several cache
    // lines.
    let rows = if b.col_stride == 1 { CONTIGUOUS_ROWS } else { ROWS };
    for p0 in (0..k).step_by(rows) {
        let p1 = k.min(p0 + rows);
        for (index, col) in (0..n).step_by(panel).enumerate() {
            let cols = panel.min(n - col);
            let out = out.wrapping_add((index * k + p0) * panel);
            // SAFETY: these rows of the panel, in `b` and in `out`.
            unsafe {
                let block = b.block::<T>((p0, p1), (col, col + cols));
                if cols < panel {
                    for p in 0..p1 - p0 {
                        for j in cols..panel {
                            *out.add(p * panel + j) = T::default();
                        }
                    }
                }
                if b.col_stride == 1 && cols == panel && copy_whole(block, panel, out) {
                    continue;
                }
                if b.col_stride == 1 {
                    for p in 0..p1 - p0 {
                        let row = block.at::<T>(p, 0);
                        std::ptr::copy_nonoverlapping(row, out.add(p * panel), cols);
                    }
                } else {
                    transpose(block, panel, out);
                }
            }
        }
    }
}

/// Copies contiguous rows of whole panels, where a row is a number of bytes that the copy is
/// compiled for; says whether it did.
///
/// # Safety
///
/// `b` is valid to read, its rows contiguous and `panel` long; `out` has room for its rows.
unsafe fn copy_whole<T: Copy>(b: MatRef, panel: usize, out: *mut T) -> bool {
    /// # Safety
    ///
    /// As for `copy_whole`; a row is `N` bytes.
    unsafe fn rows<T: Copy, const N: usize>(b: MatRef, panel: usize, out: *mut T) {
        for p in 0..b.rows {
            // SAFETY: the caller's contract.
            unsafe {
                let row = b.at::<T>(p, 0).cast::<[u8; N]>().read_unaligned();
                out.add(p * panel).cast::<[u8; N]>().write_unaligned(row);
            }
        }
    }
    // SAFETY: the caller's contract.
    unsafe {
        match panel * size_of::<T>() {
            32 => rows::<T, 32>(b, panel, out),
            64 => rows::<T, 64>(b, panel, out),
            128 => rows::<T, 128>(b, panel, out),
            _ => return false,
        }
    }
    true
}

/// Writes the rows of `b` at distance `panel`; meant for a `b` whose columns are contiguous. Four
/// columns at a time, so that writes are whole vectors and reads come from four streams.
///
/// # Safety
///
/// `b` is valid to read; `out` has room for `b.rows` rows at that distance.
unsafe fn transpose<T: Copy>(b: MatRef, panel: usize, out: *mut T) {
    let (k, n) = (b.rows, b.cols);
    #[cfg(target_arch = "x86_64")]
    let eights = size_of::<T>() == 4 && b.row_stride == 1 && is_x86_feature_detected!("avx2");
    let mut j = 0;
    while j < n {
        let cols = (n - j).min(4);
        let mut p = 0;
        // SAFETY: indices stay below `k` and `n`.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if eights && n - j >= 8 {
                let (src, dst) = (b.at::<f32>(0, j), out.add(j).cast::<f32>());
                transpose_8(src, b.col_stride, dst, panel, k);
                j += 8;
                continue;
            }
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            if cols == 4 && size_of::<T>() == 4 && b.row_stride == 1 {
                while p + 4 <= k {
                    transpose_4x4(
                        b.at::<f32>(p, j),
                        b.col_stride,
                        out.add(p * panel + j).cast(),
                        panel,
                    );
                    p += 4;
                }
            }
            if cols == 4 {
                let base = [0, 1, 2, 3].map(|c| b.at::<T>(0, j + c));
                while p < k {
                    let at = p as isize * b.row_stride;
                    let row = base.map(|col| *col.wrapping_offset(at));
                    out.add(p * panel + j).cast::<[T; 4]>().write_unaligned(row);
                    p += 1;
                }
            }
            while p < k {
                for c in 0..cols {
                    *out.add(p * panel + j + c) = *b.at::<T>(p, j + c);
                }
                p += 1;
            }
        }
        j += cols;
    }
}

/// A block of four by four, in SSE, which every x86-64 has.
///
/// # Safety
///
/// Four elements at each of four distances on both sides.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn transpose_4x4(src: *const f32, src_step: isize, dst: *mut f32, dst_step: usize) {
    use std::arch::x86_64::*;
    // SAFETY: the caller's contract.
    unsafe {
        let load = |i: isize| _mm_loadu_ps(src.wrapping_offset(i * src_step));
        let (mut a, mut b, mut c, mut d) = (load(0), load(1), load(2), load(3));
        _MM_TRANSPOSE4_PS(&mut a, &mut b, &mut c, &mut d);
        for (i, row) in [a, b, c, d].into_iter().enumerate() {
            _mm_storeu_ps(dst.add(i * dst_step), row);
        }
    }
}

/// A block of four by four, in NEON, which every AArch64 has.
///
/// # Safety
///
/// Four elements at each of four distances on both sides.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn transpose_4x4(src: *const f32, src_step: isize, dst: *mut f32, dst_step: usize) {
    use std::arch::aarch64::*;
    // SAFETY: the caller's contract.
    unsafe {
        let load = |i: isize| vld1q_f32(src.wrapping_offset(i * src_step));
        let (a, b, c, d) = (load(0), load(1), load(2), load(3));
        // pairs of neighbouring columns, then the pairs combined
        let wide = vreinterpretq_f64_f32;
        let (ab_even, ab_odd) = (wide(vtrn1q_f32(a, b)), wide(vtrn2q_f32(a, b)));
        let (cd_even, cd_odd) = (wide(vtrn1q_f32(c, d)), wide(vtrn2q_f32(c, d)));
        let rows = [
            vtrn1q_f64(ab_even, cd_even),
            vtrn1q_f64(ab_odd, cd_odd),
            vtrn2q_f64(ab_even, cd_even),
            vtrn2q_f64(ab_odd, cd_odd),
        ];
        for (i, row) in rows.into_iter().enumerate() {
            vst1q_f32(dst.add(i * dst_step), vreinterpretq_f32_f64(row));
        }
    }
}

/// Eight columns of `k` contiguous elements become `k` rows of eight.
///
/// # Safety
///
/// As said, and AVX2 is there.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn transpose_8(src: *const f32, src_step: isize, dst: *mut f32, dst_step: usize, k: usize) {
    use std::arch::x86_64::*;
    // SAFETY: the caller's contract.
    unsafe {
        let col = |i: usize| src.wrapping_offset(i as isize * src_step);
        let mut p = 0;
        while p + 8 <= k {
            // Lane halves 0 and 1 hold rows p..p+4 and p+4..p+8 after the exchange of quarters,
            // which costs a load port instead of a shuffle.
            let mut low = [_mm256_setzero_ps(); 4];
            let mut high = [_mm256_setzero_ps(); 4];
            for i in 0..4 {
                let (a, b) = (col(i).wrapping_add(p), col(i + 4).wrapping_add(p));
                let quarter = |x: *const f32, y: *const f32| {
                    _mm256_insertf128_ps::<1>(
                        _mm256_castps128_ps256(_mm_loadu_ps(x)),
                        _mm_loadu_ps(y),
                    )
                };
                low[i] = quarter(a, b);
                high[i] = quarter(a.wrapping_add(4), b.wrapping_add(4));
            }
            for (half, q) in [low, high].into_iter().enumerate() {
                let (a, b) = (_mm256_unpacklo_ps(q[0], q[1]), _mm256_unpackhi_ps(q[0], q[1]));
                let (c, d) = (_mm256_unpacklo_ps(q[2], q[3]), _mm256_unpackhi_ps(q[2], q[3]));
                let rows = [
                    _mm256_shuffle_ps::<0x44>(a, c),
                    _mm256_shuffle_ps::<0xee>(a, c),
                    _mm256_shuffle_ps::<0x44>(b, d),
                    _mm256_shuffle_ps::<0xee>(b, d),
                ];
                for (i, row) in rows.into_iter().enumerate() {
                    _mm256_storeu_ps(dst.add((p + 4 * half + i) * dst_step), row);
                }
            }
            p += 8;
        }
        while p < k {
            for i in 0..8 {
                *dst.add(p * dst_step + i) = *col(i).wrapping_add(p);
            }
            p += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_hold_the_matrix_and_zeros() {
        for (k, n) in [(1, 1), (5, 3), (7, 8), (9, 21), (16, 32)] {
            for (row_stride, col_stride) in [(n, 1), (1, k), (1, k + 2), (2 * n, 2)] {
                let data: Vec<f32> = (0..2 * k * n + 2 * n + 64).map(|i| 1.0 + i as f32).collect();
                let strides = (row_stride as isize, col_stride as isize);
                let b = MatRef::new(data.as_ptr().cast(), (k, n), strides);
                let mut out = vec![f32::NAN; packed_len(k, n, 8)];
                // SAFETY: the buffers cover both forms.
                unsafe { pack(b, 8, out.as_mut_ptr()) };
                for (index, &got) in out.iter().enumerate() {
                    let (panel, rest) = (index / (8 * k), index % (8 * k));
                    let (p, j) = (rest / 8, panel * 8 + rest % 8);
                    let want = if j < n { data[p * row_stride + j * col_stride] } else { 0.0 };
                    assert_eq!(got, want, "{k}x{n} at {p},{j}");
                }
            }
        }
    }
}
