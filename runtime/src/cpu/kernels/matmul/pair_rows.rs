//! A few rows of bf16 by a right factor with contiguous rows, which is read where it is: where it is
//! read once, copying it takes longer than the product.

use super::drive;
use super::pack;
use super::view::MatRef;
use ::half::bf16;
use straightline_microkernels::pairs::{COLUMNS, PairKernels, RowBlock, STEPS};

/// Rows of the left factor up to which the right one is not copied.
pub(super) const ROWS: usize = 4;
/// Columns of a block.
const CHUNK: usize = 64;
/// Sums at a time, of all rows.
const SUMS: usize = 4096;
/// Blocks between what is read and what is asked for.
const AHEAD: usize = 4;

/// Takes finished sums: the first, from one row to the next, and the columns `begin..end`.
pub(super) type Store<'a> = &'a (dyn Fn(*mut f32, usize, (usize, usize)) + Sync);

/// Whether [`product`] serves these factors.
pub(super) fn serves(kernels: &PairKernels, a: MatRef, b: MatRef) -> bool {
    kernels.few.is_some() && a.rows <= ROWS && b.col_stride == 1 && b.cols >= CHUNK
}

/// The product, split over threads if `parallel`; `store` gets its columns in runs of `most` or
/// fewer.
///
/// # Safety
///
/// The factors are valid to read as bf16, and [`serves`] holds; the kernels fit the machine.
pub(super) unsafe fn product(
    kernels: &'static PairKernels,
    (a, b): (MatRef, MatRef),
    parallel: bool,
    most: usize,
    store: Store<'_>,
) {
    let (m, n) = (a.rows, b.cols);
    drive::split_tiles((COLUMNS, ROWS), parallel, (m, n), &|(m0, m1), (p0, p1)| {
        let (begin, end) = (p0 * COLUMNS, n.min(p1 * COLUMNS));
        let rows = MatRef { ptr: a.at::<bf16>(m0, 0).cast(), rows: m1 - m0, ..a };
        debug_assert!(rows.rows == m, "there is a single tile of rows");
        // SAFETY: the caller's contract, for these columns.
        unsafe { part(kernels, (rows, b), (begin, end), most, store) }
    });
}

/// Columns `begin..end`, on this thread.
///
/// # Safety
///
/// As [`product`].
unsafe fn part(
    kernels: &'static PairKernels,
    (a, b): (MatRef, MatRef),
    (begin, end): (usize, usize),
    most: usize,
    store: Store<'_>,
) {
    let Some(few) = kernels.few else { return };
    let (m, k) = (a.rows, a.cols);
    let width =
        (SUMS / m.max(1)).next_multiple_of(CHUNK).min((end - begin).next_multiple_of(CHUNK));
    pack::with_scratch((m * k + m * width) * size_of::<f32>() + 64, |scratch| {
        let sums: *mut f32 = scratch.cast();
        let wide: *mut f32 = sums.wrapping_add(m * width);
        for (i, p) in (0..m).flat_map(|i| (0..k).map(move |p| (i, p))) {
            // SAFETY: an element of the left factor, and its place.
            unsafe { *wide.add(i * k + p) = (*a.at::<bf16>(i, p)).to_f32() };
        }
        for from in (begin..end).step_by(width) {
            let to = end.min(from + width);
            // SAFETY: room for that many.
            unsafe { std::slice::from_raw_parts_mut(sums, m * width).fill(0.0) };
            let chunks = (to - from).div_ceil(CHUNK);
            let mut blocks = (0..k).step_by(STEPS).flat_map(|k0| {
                (0..chunks * m).map(move |at| {
                    let (chunk, i) = (at / m, at % m);
                    let col = from + chunk * CHUNK;
                    // past the end of the rows the next rows follow
                    let ask = match chunk + AHEAD < chunks {
                        true => b.at::<u16>(k0, col + AHEAD * CHUNK),
                        false => b.at(k0 + STEPS, col + AHEAD * CHUNK - chunks * CHUNK),
                    };
                    RowBlock {
                        a: wide.wrapping_add(i * k + k0),
                        b: b.at(k0, col),
                        b_row: b.row_stride,
                        ask,
                        steps: STEPS.min(k - k0),
                        cols: CHUNK.min(to - col),
                        c: sums.wrapping_add(i * width + chunk * CHUNK),
                    }
                })
            });
            // SAFETY: blocks within the factors, and 64 sums for each.
            unsafe {
                few(&mut blocks);
                (kernels.sort)(sums, m * width);
            }
            for col in (from..to).step_by(most) {
                store(sums.wrapping_add(col - from), width, (col, to.min(col + most)));
            }
        }
    });
}
