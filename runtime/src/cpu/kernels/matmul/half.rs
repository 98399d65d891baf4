//! f16 and bf16 without instructions of their own: widened to f32 as they are copied, accumulated
//! there, rounded once.
//!
//! The left factor is widened as a whole, the right one block by block into the panels that tiles
//! read. A finished tile is rounded to the result while it is in the first cache.

use super::blocked::{Blocked, Blocks, Right, Source};
use super::drive::{self, Dots, Ending, Left, PARALLEL_NS, Target};
use super::element::{Element, MatElement};
use super::micro::Native;
use super::pack::{pack, with_scratch};
use super::scaling::{Finish, Scaling};
use super::view::{MatMut, MatRef};
use crate::cpu::kernels::half;
use crate::cpu::threads;

/// Rows up to which a transposed right factor is multiplied by dot products.
const FEW_ROWS: usize = 8;
/// Bytes of widened columns at a time for them: most of a first cache.
const FEW_BYTES: usize = 32 << 10;
/// Elements from which a factor is widened by several threads.
const PARALLEL_ELEMENTS: usize = 1 << 17;

/// An element of half precision.
pub(super) trait Half: Element<Acc = f32> + MatElement {}
impl Half for ::half::f16 {}
impl Half for ::half::bf16 {}

/// # Safety
///
/// As [`super::gemm`]; the sizes fit.
pub(super) unsafe fn gemm<T: Half>(a: MatRef, b: MatRef, out: MatMut, scaling: &Scaling) {
    if out.col_stride != 1 && out.row_stride == 1 {
        let addend = scaling.addend.map(|(beta, mat)| (beta, mat.t()));
        let scaling = Scaling { addend, ..*scaling };
        // SAFETY: the same product, transposed.
        return unsafe { rows::<T>(b.t(), a.t(), out.t(), &scaling) };
    }
    // SAFETY: the caller's contract.
    unsafe { rows::<T>(a, b, out, scaling) }
}

/// # Safety
///
/// As [`gemm`].
unsafe fn rows<T: Half>(a: MatRef, b: MatRef, out: MatMut, scaling: &Scaling) {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    if m == 0 || n == 0 {
        return;
    }
    let finish = Finish::<T>::new(scaling);
    with_f32(m * k, |wide| {
        with_f32(m * n, |sums| {
            let c = Target { ptr: sums, row: n as isize };
            let end = |tile: Target<f32>, rows: (usize, usize), cols: (usize, usize)| {
                // SAFETY: finished sums, and their part of the result, which is nobody else's, and
                // of the addend, which is read before it is written.
                unsafe { end::<T>(&finish, tile, (rows, cols), out) }
            };
            // SAFETY: the caller's contract; the scratch memory has the sizes said.
            unsafe {
                let a = widen::<T>(a, wide);
                let columns = b.row_stride == 1 && b.col_stride != 1;
                if m <= FEW_ROWS && columns && a.col_stride == 1 {
                    few_rows::<T>(a, b, MatMut::row_major(sums.cast(), m, n));
                    return end(c, (0, m), (0, n));
                }
                let ending = Ending { finished: Some(&end), ..Ending::none() };
                let left =
                    Left { ptr: a.ptr.cast(), row: a.row_stride, step: a.col_stride, tiled: false };
                let kernels = f32::kernels();
                let halves = Halves::<T>::new(b);
                let b = Right::Source(&halves);
                let blocks = Blocks::of::<f32>(kernels.panel);
                Blocked { kernels, m, n, k, a: left, b, c, blocks, ending }.run();
            }
        });
    });
}

/// Elements of a row that are finished at a time.
const PIECE: usize = 128;

/// `beta * addend + alpha * sums`, rounded, for rows and columns `begin..end` of the result.
///
/// # Safety
///
/// The sums are those of these rows and columns; `out` is the whole result, of which nobody else has
/// this part; the addend as for [`super::gemm`].
unsafe fn end<T: Half>(
    finish: &Finish<T>,
    sums: Target<f32>,
    ((r0, r1), (c0, c1)): ((usize, usize), (usize, usize)),
    out: MatMut,
) {
    let plain = finish.is_plain();
    let mut row = [0f32; PIECE];
    let mut other = [0f32; PIECE];
    let mut rounded = [0u16; PIECE];
    for i in r0..r1 {
        for j in (c0..c1).step_by(PIECE) {
            let n = (c1 - j).min(PIECE);
            let mut from =
                sums.ptr.wrapping_offset((i - r0) as isize * sums.row).wrapping_add(j - c0);
            // SAFETY: `n` elements of the row of each matrix, by the caller's contract; pieces of
            // as many.
            unsafe {
                if !plain {
                    std::ptr::copy_nonoverlapping(from, row.as_mut_ptr(), n);
                    row.iter_mut().for_each(|x| *x *= finish.alpha);
                    if let Some((beta, mat)) = finish.addend {
                        if mat.col_stride == 1 {
                            half::widen(T::DTYPE, other.as_mut_ptr(), mat.at::<T>(i, j).cast(), n);
                        } else {
                            for (p, x) in other.iter_mut().enumerate().take(n) {
                                *x = (*mat.at::<T>(i, j + p)).widen();
                            }
                        }
                        row.iter_mut().zip(&other).for_each(|(x, y)| *x += beta * y);
                    }
                    from = row.as_mut_ptr();
                }
                if out.col_stride == 1 {
                    half::narrow(T::DTYPE, out.at::<T>(i, j).cast(), from, n);
                } else {
                    half::narrow(T::DTYPE, rounded.as_mut_ptr().cast(), from, n);
                    for (p, x) in rounded.iter().enumerate().take(n) {
                        *out.at::<u16>(i, j + p) = *x;
                    }
                }
            }
        }
    }
}

/// `c = a @ b` by dot products, for a `b` whose columns are contiguous, and widened some at a time.
///
/// # Safety
///
/// `a` is valid to read as f32, `b` as `T`; steps follow one another in both; `c` to write.
unsafe fn few_rows<T: Half>(a: MatRef, b: MatRef, c: MatMut) {
    let (m, n, k) = (a.rows, b.cols, b.rows);
    let width = (FEW_BYTES / (4 * k.max(1))).clamp(8, 64) / 8 * 8;
    let columns = |begin: usize, end: usize| {
        // (a method of the whole view: its pointer alone is not shared)
        let first: *const f32 = a.at(0, 0);
        with_f32(width * k, |wide| {
            for col in (begin..end).step_by(width) {
                let count = width.min(end - col);
                // SAFETY: the caller's contract; ranges of columns are disjoint.
                unsafe {
                    for j in 0..count {
                        let from = b.at::<T>(0, col + j).cast();
                        half::widen(T::DTYPE, wide.wrapping_add(j * k), from, k);
                    }
                    Dots {
                        kernels: f32::kernels(),
                        m,
                        n: count,
                        k,
                        a: first,
                        a_row: a.row_stride,
                        b: wide,
                        b_col: k as isize,
                        c: Target { ptr: c.at(0, col), row: c.row_stride },
                    }
                    .columns(0, count);
                }
            }
        });
    };
    if drive::estimate(m, n, k, 4) < PARALLEL_NS || threads::in_parallel() {
        return columns(0, n);
    }
    let parts = 2 * threads::num_threads();
    let each = n.div_ceil(parts).next_multiple_of(8);
    threads::parallel_for(n.div_ceil(each), &|i| columns(i * each, n.min((i + 1) * each)));
}

/// A right factor that is widened as it is copied into panels.
pub(super) struct Halves<T> {
    mat: MatRef,
    of: std::marker::PhantomData<T>,
}

impl<T: Half> Halves<T> {
    pub(super) fn new(mat: MatRef) -> Halves<T> {
        Halves { mat, of: std::marker::PhantomData }
    }
}

/// Rows that are packed before the next panel, so that reads stay within few pages.
const ROWS: usize = 8;
/// Steps of transposed columns that are widened at a time, and the most columns of a panel.
const COLUMN: usize = 64;
const PANEL: usize = 32;

impl<T: Half> Source<f32> for Halves<T> {
    unsafe fn pack(&self, rows: (usize, usize), cols: (usize, usize), panel: usize, out: *mut f32) {
        let b = self.mat.block::<T>(rows, cols);
        let step = if b.col_stride == 1 { ROWS } else { COLUMN };
        for p in (0..b.rows).step_by(step) {
            let count = step.min(b.rows - p);
            for (index, col) in (0..b.cols).step_by(panel).enumerate() {
                let n = panel.min(b.cols - col);
                let out = out.wrapping_add((index * b.rows + p) * panel);
                let b = b.block::<T>((p, p + count), (col, col + n));
                // SAFETY: these rows of the panel, in `b` and in `out`.
                unsafe {
                    if b.row_stride == 1 && n <= PANEL {
                        let mut wide = [0f32; PANEL * COLUMN];
                        for j in 0..n {
                            let to = wide[j * COLUMN..].as_mut_ptr();
                            half::widen(T::DTYPE, to, b.at::<T>(0, j).cast(), count);
                        }
                        let strides = (1, COLUMN as isize);
                        pack(MatRef::new(wide.as_ptr().cast(), (count, n), strides), panel, out);
                        continue;
                    }
                    for i in 0..count {
                        let out = out.wrapping_add(i * panel);
                        if b.col_stride == 1 {
                            half::widen(T::DTYPE, out, b.at::<T>(i, 0).cast(), n);
                        } else {
                            (0..n).for_each(|j| *out.add(j) = (*b.at::<T>(i, j)).widen());
                        }
                        (n..panel).for_each(|j| *out.add(j) = 0.0);
                    }
                }
            }
        }
    }
}

/// This thread's scratch memory for some numbers.
pub(super) fn with_f32<R>(len: usize, f: impl FnOnce(*mut f32) -> R) -> R {
    with_scratch(len * size_of::<f32>(), |memory| f(memory.cast()))
}

/// A dense copy in f32, in the order of the source, in `to`.
///
/// # Safety
///
/// `mat` is valid to read as `T`; `to` has room for as many elements.
pub(super) unsafe fn widen<T: Half>(mat: MatRef, to: *mut f32) -> MatRef {
    if mat.row_stride == 1 && mat.col_stride != 1 {
        // SAFETY: the caller's contract.
        return unsafe { widen::<T>(mat.t(), to) }.t();
    }
    let n = mat.cols;
    let target = MatMut::row_major(to.cast(), mat.rows, n);
    let rows = |begin: usize, end: usize| {
        for i in begin..end {
            let to: *mut f32 = target.at(i, 0);
            // SAFETY: a row of each side.
            unsafe {
                if mat.col_stride == 1 {
                    half::widen(T::DTYPE, to, mat.at::<T>(i, 0).cast(), n);
                } else {
                    (0..n).for_each(|j| *to.add(j) = (*mat.at::<T>(i, j)).widen());
                }
            }
        }
    };
    match mat.rows * n < PARALLEL_ELEMENTS {
        true => rows(0, mat.rows),
        false => threads::parallel_ranges(mat.rows, (PARALLEL_ELEMENTS / 2).div_ceil(n), &rows),
    }
    target.as_ref()
}
