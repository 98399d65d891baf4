//! Products of bf16 where the machine multiplies pairs of them: the loops around the kernels of
//! [`straightline_microkernels::pairs`], which copy both factors, and what follows the sums.
//!
//! The sums of a block of rows and columns are finished and rounded once all steps of `k` are in
//! them, so nothing is rounded twice.

use super::activate::Activate;
use super::activate::Epilogue;
use super::drive::{self, PARALLEL_NS};
use super::scaling::{Finish, Scaling};
use super::view::{MatMut, MatRef};
use super::{instructions, pack, pair_rows};
use crate::cpu::kernels::half;
use ::half::bf16;
use straightline_microkernels::pairs::{
    COLUMNS, PairKernels, PairTile, RIGHT, STEPS, Source, blocks,
};
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::Activation;

/// Blocks of 32 steps that are summed before the next rows. Fewer, so that a panel of rows stays in
/// the first cache, were slower: the sums are read and written more often.
const BLOCKS: usize = 128;
/// Rows of a block of sums.
const ROWS: usize = 32;
/// Rows up to which the steps are divided, not the columns, where the copied right factor would be
/// too large: then its rows are read in long runs. Also the rows of a block of sums where there are
/// several blocks of steps.
const FEW_ROWS: usize = 128;
/// Rows up to which a transposed right factor is read where it is.
const IN_PLACE_ROWS: usize = 32;
/// Panels of the right factor at a time, so that the rows of a block of sums are whole vectors in
/// an array.
const PANELS: usize = 16;
/// Bytes of the copied right factor at a time, half of a second cache.
const RIGHT_BYTES: usize = 1 << 20;
/// Columns of a block of sums.
const WIDTH: usize = PANELS * COLUMNS;
/// Elements between the rows of a block of sums beyond its columns: with a power of two they would
/// share a few sets of the first cache.
const PAD: usize = 16;

/// The right factor.
#[derive(Clone, Copy)]
pub(super) enum Right {
    /// A matrix of bf16, copied block by block.
    Matrix(MatRef),
    /// All panels, as [`pack_right`] makes them.
    Packed(*const u16),
}

/// Bytes that [`pack_right`] writes for a `k` by `n` matrix.
pub(super) fn packed_bytes(k: usize, n: usize) -> usize {
    n.div_ceil(COLUMNS) * blocks(k) * RIGHT * 2
}

/// Copies a right factor into panels.
///
/// # Safety
///
/// `b` is valid to read as bf16, `out` has room for [`packed_bytes`]; the kernels fit the machine.
pub(super) unsafe fn pack_right(kernels: &PairKernels, b: MatRef, out: *mut u16) {
    // SAFETY: the caller's contract.
    unsafe { (kernels.pack_right)(source(b), out) }
}

fn source(mat: MatRef) -> Source {
    Source {
        ptr: mat.ptr.cast(),
        rows: mat.rows,
        cols: mat.cols,
        row: mat.row_stride,
        col: mat.col_stride,
    }
}

/// Estimated nanoseconds of one core: the multiply-adds, and copies.
pub(super) fn estimate(m: usize, n: usize, k: usize) -> usize {
    let area = |x: usize, y: usize| x.saturating_mul(y) / 8;
    (drive::work(m, n, k) / 400)
        .saturating_add(area(n, k))
        .saturating_add(area(m, k))
        .saturating_add(area(m, n))
}

/// Finished sums: rows and columns `begin..end` of the product.
#[derive(Clone, Copy)]
struct Sums {
    ptr: *mut f32,
    /// From one row to the next.
    row: usize,
    rows: (usize, usize),
    cols: (usize, usize),
}

impl Sums {
    fn row(&self, i: usize) -> *mut f32 {
        self.ptr.wrapping_add(i * self.row)
    }

    fn height(&self) -> usize {
        self.rows.1 - self.rows.0
    }

    fn width(&self) -> usize {
        self.cols.1 - self.cols.0
    }

    /// `activation(sums) + other`, whose rows are at distance `other_row`; it may be null.
    ///
    /// # Safety
    ///
    /// The sums are valid to write, the other matrix to read in their sizes.
    unsafe fn add(&self, activation: Activation, (other, other_row): (*const f32, isize)) {
        let task = Activate {
            activation,
            c: self.ptr,
            c_row: self.row as isize,
            residual: other,
            residual_row: other_row,
            rows: self.height(),
            cols: self.width(),
        };
        // SAFETY: the caller's contract.
        unsafe { task.run() }
    }

    /// The same for a matrix of bf16 in whose rows the elements follow one another: the part of it
    /// that belongs to these sums.
    ///
    /// # Safety
    ///
    /// As [`Sums::add`], for the whole matrix.
    unsafe fn add_halves(&self, activation: Activation, other: MatRef) {
        let mut wide = [0f32; WIDTH];
        let at = |i: usize| other.at::<bf16>(self.rows.0 + i, self.cols.0).cast();
        let n = self.width();
        // SAFETY: the caller's contract; a row of sums is at most `WIDTH` long.
        unsafe {
            if other.row_stride == 0 {
                half::widen(DType::BF16, wide.as_mut_ptr(), at(0), n);
                return self.add(activation, (wide.as_ptr(), 0));
            }
            for i in 0..self.height() {
                half::widen(DType::BF16, wide.as_mut_ptr(), at(i), n);
                let row = (self.rows.0 + i, self.rows.0 + i + 1);
                Sums { ptr: self.row(i), rows: row, ..*self }.add(activation, (wide.as_ptr(), 0));
            }
        }
    }

    /// Rounds to `out`, in whose rows the elements follow one another.
    ///
    /// # Safety
    ///
    /// `out` is the whole result.
    unsafe fn round(&self, out: MatMut) {
        for i in 0..self.height() {
            let to = out.at::<u16>(self.rows.0 + i, self.cols.0).cast();
            // SAFETY: the caller's contract.
            unsafe { half::narrow(DType::BF16, to, self.row(i), self.width()) }
        }
    }
}

impl Sums {
    /// [`Sums::round`] of sums to which nothing was added: none is a denormal.
    ///
    /// # Safety
    ///
    /// As for that; the kernels fit the machine.
    unsafe fn round_by(&self, kernels: &PairKernels, out: MatMut) {
        for i in 0..self.height() {
            let to = out.at::<u16>(self.rows.0 + i, self.cols.0);
            // SAFETY: the caller's contract.
            unsafe { (kernels.narrow)(self.row(i), to, self.width()) }
        }
    }
}

/// A product of bf16 with sums in f32, which `store` takes block by block.
struct Product<'a, F> {
    kernels: &'static PairKernels,
    m: usize,
    n: usize,
    k: usize,
    a: MatRef,
    /// Whether rows of `a`, which are contiguous, are read where they are.
    in_place: bool,
    b: Right,
    store: &'a F,
}

// SAFETY: the pointers are used by the threads of one call, to read.
unsafe impl<F: Sync> Sync for Product<'_, F> {}

impl<F: Fn(Sums) + Sync> Product<'_, F> {
    /// Runs the product, split over threads if that is worth it.
    ///
    /// # Safety
    ///
    /// The factors are valid to read for `m`, `n` and `k`; the kernels fit the machine.
    unsafe fn run(&self) {
        if self.m == 0 || self.n == 0 {
            return;
        }
        let parallel = estimate(self.m, self.n, self.k) >= PARALLEL_NS;
        let tiles = (COLUMNS, self.kernels.height);
        drive::split_tiles(tiles, parallel, (self.m, self.n), &|rows, panels| {
            // SAFETY: the caller's contract.
            unsafe { self.part(rows, panels) }
        });
    }

    /// Rows `m0..m1` of panels `p0..p1`, on this thread.
    ///
    /// # Safety
    ///
    /// As [`Self::run`].
    unsafe fn part(&self, (m0, m1): (usize, usize), (p0, p1): (usize, usize)) {
        let height = self.kernels.height;
        let all = blocks(self.k);
        let copies = matches!(self.b, Right::Matrix(_));
        let few = copies && !self.in_place && m1 - m0 <= FEW_ROWS;
        // panels, and blocks of steps, of the right factor at a time
        let most = PANELS.min(p1 - p0);
        let (width, steps) = match few {
            true => (most, (RIGHT_BYTES / (2 * most * RIGHT)).min(all)),
            false => ((RIGHT_BYTES / (2 * all * RIGHT).max(1)).clamp(1, most), all),
        };
        let steps = steps.max(1);
        let several = few || all > BLOCKS && !self.in_place;
        let rows = if several { FEW_ROWS } else { ROWS };
        let rows = rows.min(m1 - m0).next_multiple_of(height);
        let c_row = width * COLUMNS + PAD;
        let of_a = 2 * rows * steps.min(BLOCKS) * STEPS;
        let of_c = (4 * rows * c_row).next_multiple_of(64);
        let of_b = if copies { 2 * width * steps * RIGHT } else { 0 };
        pack::with_scratch(of_a + of_b + of_c, |scratch| {
            let a: *mut u16 = scratch.cast();
            let c: *mut f32 = scratch.wrapping_add(of_a).cast();
            let room: *mut u16 = scratch.wrapping_add(of_a + of_c).cast();
            // SAFETY: the kernels fit the machine, and the guard's end comes after the last tile.
            let _tiles = unsafe { Entered::new(self.kernels) };
            for q0 in (p0..p1).step_by(width) {
                let q1 = p1.min(q0 + width);
                let cols = (q0 * COLUMNS, self.n.min(q1 * COLUMNS));
                let mut from = 0;
                loop {
                    let to = all.min(from + steps);
                    let panels = match self.b {
                        Right::Matrix(b) => {
                            let of_k = (from * STEPS, self.k.min(to * STEPS));
                            // SAFETY: these steps and columns of the factor; there is room for
                            // `width` panels of `steps` blocks.
                            unsafe {
                                pack_right(self.kernels, b.block::<bf16>(of_k, cols), room);
                            }
                            Panels { ptr: room, step: (to - from) * RIGHT, count: q1 - q0 }
                        }
                        Right::Packed(panels) => {
                            let step = all * RIGHT;
                            Panels { ptr: panels.wrapping_add(q0 * step), step, count: q1 - q0 }
                        }
                    };
                    for r0 in (m0..m1).step_by(rows) {
                        let r1 = m1.min(r0 + rows);
                        let sums = Sums { ptr: c, row: c_row, rows: (r0, r1), cols };
                        // SAFETY: the copied panels and the scratch of these sizes. Where there
                        // are several ranges of steps, there is a single block of rows.
                        unsafe { self.block(sums, a, panels, (from, to)) };
                        if to == all {
                            (self.store)(sums);
                        }
                    }
                    from = to;
                    if from == all {
                        break;
                    }
                }
            }
        });
    }

    /// The sums of a block of rows over blocks of steps `k0..k1`, which is where the panels begin
    /// and end; they are added to those before.
    ///
    /// # Safety
    ///
    /// As [`Self::run`]; `a` has room for the rows and the steps, [`BLOCKS`] at most, the sums for
    /// whole tiles.
    unsafe fn block(&self, sums: Sums, a: *mut u16, b: Panels, (k0, k1): (usize, usize)) {
        let PairKernels { height, tile, pack_left, .. } = *self.kernels;
        if self.in_place && sums.height() == height {
            // SAFETY: the caller's contract.
            return unsafe { self.block_in_place(sums, a, b, (k0, k1)) };
        }
        let mut from = k0;
        loop {
            let to = k1.min(from + BLOCKS);
            let steps = (from * STEPS, self.k.min(to * STEPS));
            // SAFETY: the caller's contract: these rows and steps of the left factor.
            unsafe { pack_left(source(self.a.block::<bf16>(sums.rows, steps)), a) };
            for row in (0..sums.height()).step_by(height) {
                for q in 0..b.count {
                    let call = PairTile {
                        blocks: to - from,
                        rows: height.min(sums.height() - row),
                        a: a.wrapping_add(row * (to - from) * STEPS),
                        a_row: STEPS as isize,
                        a_block: (height * STEPS) as isize,
                        b: b.ptr.wrapping_add(q * b.step + (from - k0) * RIGHT),
                        c: sums.row(row).wrapping_add(q * COLUMNS),
                        c_row: sums.row,
                        resume: from > 0,
                    };
                    // SAFETY: as above, and tiles were entered.
                    unsafe { tile(&call) };
                }
            }
            from = to;
            if from == k1 {
                break;
            }
        }
    }

    /// The same for one tile of rows, which are contiguous and read where they are, except for the
    /// last steps if they are no whole block.
    ///
    /// # Safety
    ///
    /// As [`Self::block`].
    unsafe fn block_in_place(&self, sums: Sums, a: *mut u16, b: Panels, (k0, k1): (usize, usize)) {
        let PairKernels { height, tile, pack_left, .. } = *self.kernels;
        let whole = (self.k / STEPS).clamp(k0, k1);
        let rest = (whole * STEPS, self.k.min(k1 * STEPS));
        if whole < k1 {
            // SAFETY: the caller's contract.
            unsafe { pack_left(source(self.a.block::<bf16>(sums.rows, rest)), a) };
        }
        for q in 0..b.count {
            let call = PairTile {
                blocks: whole - k0,
                rows: height,
                a: self.a.at::<u16>(sums.rows.0, k0 * STEPS),
                a_row: self.a.row_stride,
                a_block: STEPS as isize,
                b: b.ptr.wrapping_add(q * b.step),
                c: sums.ptr.wrapping_add(q * COLUMNS),
                c_row: sums.row,
                resume: k0 > 0,
            };
            let last = PairTile {
                blocks: k1 - whole,
                a,
                a_row: STEPS as isize,
                a_block: (height * STEPS) as isize,
                b: call.b.wrapping_add((whole - k0) * RIGHT),
                resume: true,
                ..call
            };
            // SAFETY: the caller's contract; whole blocks of rows of the factor, and the copy.
            unsafe {
                tile(&call);
                if whole < k1 {
                    tile(&last);
                }
            }
        }
    }
}

/// Panels of the right factor at a distance, in elements.
#[derive(Clone, Copy)]
struct Panels {
    ptr: *const u16,
    step: usize,
    count: usize,
}

/// A thread that may use the kernels' registers, until this is dropped.
struct Entered(&'static PairKernels);

impl Entered {
    /// # Safety
    ///
    /// The kernels fit the machine.
    unsafe fn new(kernels: &'static PairKernels) -> Entered {
        // SAFETY: the caller's contract.
        unsafe { (kernels.enter)() };
        Entered(kernels)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // SAFETY: entered on this thread, by the contract of `new`.
        unsafe { (self.0.leave)() }
    }
}

/// `out = beta * addend + alpha * (a @ b)` of bf16.
///
/// # Safety
///
/// As [`super::gemm`]; the sizes fit, the kernels fit the machine.
pub(super) unsafe fn gemm(
    kernels: &'static PairKernels,
    a: MatRef,
    b: MatRef,
    out: MatMut,
    scaling: &Scaling,
) {
    // columns of a large right factor that few rows read are rows in place
    let in_place = kernels.in_place
        && b.row_stride == 1
        && a.rows <= IN_PLACE_ROWS
        && b.cols >= kernels.height
        && b.rows >= STEPS;
    if in_place || out.col_stride != 1 && out.row_stride == 1 {
        let addend = scaling.addend.map(|(beta, mat)| (beta, mat.t()));
        let scaling = Scaling { addend, ..*scaling };
        // SAFETY: the same product, transposed.
        return unsafe { rows(kernels, b.t(), a.t(), out.t(), &scaling, in_place) };
    }
    // SAFETY: the caller's contract.
    unsafe { rows(kernels, a, b, out, scaling, false) }
}

/// # Safety
///
/// As [`gemm`]; if `in_place`, the rows of `a` are contiguous.
unsafe fn rows(
    kernels: &'static PairKernels,
    a: MatRef,
    b: MatRef,
    out: MatMut,
    scaling: &Scaling,
    in_place: bool,
) {
    let finish = Finish::<bf16>::new(scaling);
    let contiguous = out.col_stride == 1 || out.cols <= 1;
    let plain = finish.is_plain() && contiguous;
    // the whole addend, along rows
    let added = match finish.addend {
        Some((beta, mat)) if finish.alpha == 1.0 && beta == 1.0 && contiguous => {
            (mat.col_stride == 1 || out.cols <= 1).then_some(mat)
        }
        _ => None,
    };
    let store = |sums: Sums| {
        // SAFETY: the block's part of the result, which nobody else writes, and of the addend,
        // which is read before it is written.
        unsafe {
            if plain {
                sums.round_by(kernels, out);
            } else if let Some(addend) = added {
                sums.add_halves(Activation::None, addend);
                sums.round(out);
            } else {
                let addend = finish.addend;
                let part = Finish::<bf16> {
                    alpha: finish.alpha,
                    addend: addend.map(|(beta, m)| (beta, m.block::<bf16>(sums.rows, sums.cols))),
                };
                let size = (sums.height(), sums.width());
                let view = MatRef::new(sums.ptr.cast(), size, (sums.row as isize, 1));
                part.store(view, out.block::<bf16>(sums.rows, sums.cols));
            }
        }
    };
    let (m, n, k) = (out.rows, out.cols, a.cols);
    if pair_rows::serves(kernels, a, b) {
        let parallel = estimate(m, n, k) >= PARALLEL_NS;
        let store = |ptr, row, cols| store(Sums { ptr, row, rows: (0, m), cols });
        // SAFETY: the caller's contract.
        return unsafe { pair_rows::product(kernels, (a, b), parallel, WIDTH, &store) };
    }
    let product = Product { kernels, m, n, k, a, in_place, b: Right::Matrix(b), store: &store };
    // SAFETY: the caller's contract.
    unsafe { product.run() }
}

/// `c = activation(a @ b + bias) + residual` of bf16, for panels `b` of `a.cols` by `c.cols`.
///
/// # Safety
///
/// As [`super::matmul_packed_strided`]; `b` was packed by [`pack_right`], the kernels fit the
/// machine.
pub(super) unsafe fn packed(
    kernels: &'static PairKernels,
    a: MatRef,
    b: *const u16,
    c: MatMut,
    epilogue: Epilogue,
) {
    let (m, n, k) = (a.rows, c.cols, a.cols);
    let bias = epilogue.bias.map(|ptr| MatRef::new(ptr, (m, n), (0, 1)));
    let residual = epilogue.residual.map(|(ptr, row)| MatRef::new(ptr, (m, n), (row, 1)));
    let plain = bias.is_none() && residual.is_none() && epilogue.activation == Activation::None;
    let store = |sums: Sums| {
        // SAFETY: the block's part of the result, which nobody else writes, and of the residual,
        // which is read before it is written.
        unsafe {
            if plain {
                return sums.round_by(kernels, c);
            }
            if let Some(bias) = bias {
                sums.add_halves(Activation::None, bias);
            }
            match residual {
                Some(residual) => sums.add_halves(epilogue.activation, residual),
                None if epilogue.activation == Activation::None => {}
                None => sums.add(epilogue.activation, (std::ptr::null(), 0)),
            }
            sums.round(c);
        }
    };
    let product =
        Product { kernels, m, n, k, a, in_place: false, b: Right::Packed(b), store: &store };
    // SAFETY: the caller's contract.
    unsafe { product.run() }
}

/// The kernels for bf16 of this machine, at the instruction set in use.
#[inline]
pub(super) fn kernels() -> Option<&'static PairKernels> {
    instructions::chosen()
}
