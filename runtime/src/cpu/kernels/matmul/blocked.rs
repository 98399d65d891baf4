//! Products of large factors, block by block.
//!
//! The loops are those of Goto and van de Geijn, as in BLIS and crate `gemm`: a block of the right
//! factor that the second cache holds is copied into panels, rows of the left factor pass over it,
//! and the next steps of `k` are added to what the result holds. Each panel stays in the first cache
//! while a block of rows passes. Contiguous rows of the right factor are copied by the first tile
//! that reads them, so that the copy costs no pass of its own; panels that were made before are read
//! where they are. The left factor is copied where many panels read it, so that its rows share no
//! cache set and no page more than they must. Each thread copies the blocks of its own part of the
//! result.
//!
//! While tiles compute they ask the memory for what comes next (`drive::Product::ask`).
//!
//! Each sum stays one chain of fused multiply-adds in the order of `k`: blocks and threads do not
//! change the bits.

use super::caches::{Caches, caches};
use super::drive::{self, Ending, Left, Panels, Product, Target};
use super::element::Float;
use super::micro::Kernels;
use super::pack::{self, pack};
use super::view::MatRef;

/// Sizes of the blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks {
    /// Steps; rounded up to a multiple of eight.
    pub(super) k: usize,
    /// Rows of the left factor, more or less.
    pub(super) rows: usize,
    /// Columns of the right factor.
    pub(super) cols: usize,
}

impl Blocks {
    /// The sizes for elements of `T` in panels of `panel` columns: a panel takes two thirds of the
    /// first cache, which leaves room for a tile of rows; a block of the right factor takes half of
    /// the second one. Rows are fewer than would fit beside it: they lie on as many pages of the
    /// result, and 1024 of them took 5 % longer than 120.
    pub(super) fn of<T>(panel: usize) -> Blocks {
        let Caches { first, second } = caches();
        let k = (first * 2 / 3 / (panel * size_of::<T>())).max(8);
        let step = k * size_of::<T>();
        Blocks { k, rows: (second / 8 / step).clamp(48, 120), cols: (second / 2 / step).max(panel) }
    }
}

/// Where the blocks of the right factor come from.
pub(super) trait Source<T>: Sync {
    /// Copies rows and columns `begin..end` into panels, as [`pack()`] does. The columns begin at a
    /// panel, the rows at a block.
    ///
    /// # Safety
    ///
    /// The range lies within the factor, which is valid to read; `out` has room for its
    /// [`packed_len`](pack::packed_len).
    unsafe fn pack(&self, rows: (usize, usize), cols: (usize, usize), panel: usize, out: *mut T);
}

impl<T: Float> Source<T> for MatRef {
    unsafe fn pack(&self, rows: (usize, usize), cols: (usize, usize), panel: usize, out: *mut T) {
        // SAFETY: the caller's contract.
        unsafe { pack::<T>(self.block::<T>(rows, cols), panel, out) }
    }
}

/// The right factor.
pub(super) enum Right<'a, T, S> {
    /// All panels.
    Panels(Panels<T>),
    /// Contiguous rows, at this distance.
    Rows(*const T, isize),
    /// Any other.
    Source(&'a S),
}

/// A product whose factors are read block by block.
pub(super) struct Blocked<'a, T: 'static, S> {
    pub(super) kernels: &'static Kernels<T>,
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) a: Left<T>,
    pub(super) b: Right<'a, T, S>,
    pub(super) c: Target<T>,
    pub(super) blocks: Blocks,
    pub(super) ending: Ending<'a, T>,
}

// SAFETY: the pointers are used by the threads of one call, on disjoint parts of the result.
unsafe impl<T: Sync, S: Sync> Sync for Blocked<'_, T, S> {}

/// Elements between the rows of a copied block of the left factor beyond its steps: with a power of
/// two the rows of a tile would share one set of the first cache.
const PAD: usize = 16;

/// Panels from which a copy of the left factor is worth it: 12 of 384 columns took as long with one
/// as without.
const COPY_PANELS: usize = 16;
/// The same where the rows of a tile share sets of the first cache.
const CONFLICT_PANELS: usize = 4;

impl<T: Float, S: Source<T>> Blocked<'_, T, S> {
    /// Runs the product, split over threads if that is worth it.
    ///
    /// # Safety
    ///
    /// `a` is valid to read for `m` rows of `k` steps, `b` for `k` rows of `n` columns, `c` to
    /// write for `m` rows of `n`. The kernels fit the machine.
    pub(super) unsafe fn run(&self) {
        drive::split(self.kernels, (self.m, self.n, self.k), &|rows, panels| {
            // SAFETY: the caller's contract; the parts of `c` are disjoint.
            unsafe { self.part(rows, panels) }
        });
    }

    /// Rows `m0..m1` of panels `p0..p1`, on this thread.
    ///
    /// # Safety
    ///
    /// As [`Self::run`].
    unsafe fn part(&self, (m0, m1): (usize, usize), (p0, p1): (usize, usize)) {
        let panel = self.kernels.panel;
        // blocks of about one size
        let steps = self.k.div_ceil(self.k.div_ceil(self.blocks.k).max(1)).next_multiple_of(8);
        let count = ((m1 - m0 + self.blocks.rows / 2) / self.blocks.rows).max(1);
        let height = (m1 - m0).div_ceil(count).next_multiple_of(self.kernels.max_rows()).max(1);
        let width = (self.blocks.cols / panel).clamp(1, (p1 - p0).max(1));
        let copies = !matches!(self.b, Right::Panels(_));
        let line = 64 / size_of::<T>();
        let of_b = if copies { (width * steps * panel).next_multiple_of(line) } else { 0 };
        let of_a = height * (steps + PAD);
        pack::with_scratch((of_b + of_a) * size_of::<T>(), |scratch| {
            let b_block: *mut T = scratch.cast();
            let a_block = b_block.wrapping_add(of_b);
            for q0 in (p0..p1).step_by(width) {
                let q1 = p1.min(q0 + width);
                let mut k0 = 0;
                loop {
                    let k1 = self.k.min(k0 + steps);
                    for r0 in (m0..m1).step_by(height) {
                        let r1 = m1.min(r0 + height);
                        // SAFETY: the caller's contract; the scratch has room for a block of each
                        // factor, and blocks of `k` come in order.
                        unsafe {
                            let a = self.left((r0, r1), (k0, k1), q1 - q0, a_block);
                            if r0 == m0 && copies {
                                self.copy(b_block, a, (r0, r1), (q0, q1), (k0, k1));
                                continue;
                            }
                            let b = match self.b {
                                Right::Panels(b) => b,
                                _ => self.copied(b_block, q0, (k0, k1)),
                            };
                            let none = std::ptr::null_mut();
                            self.over(b).block(a, (r0, r1), (q0, q1), (k0, k1), none);
                        }
                    }
                    k0 = k1;
                    if k0 == self.k {
                        break;
                    }
                }
            }
        });
    }

    /// Rows `r0..r1` of panels `q0..q1` over steps `k0..k1`, which are copied to `block`.
    ///
    /// # Safety
    ///
    /// As [`Self::run`]; the block has room for the panels.
    unsafe fn copy(
        &self,
        block: *mut T,
        a: Left<T>,
        (r0, r1): (usize, usize),
        (q0, q1): (usize, usize),
        (k0, k1): (usize, usize),
    ) {
        let panel = self.kernels.panel;
        let tiles = r1 - r0 > self.kernels.max_rows();
        for p in q0..q1 {
            let cols = (p * panel, self.n.min((p + 1) * panel));
            let to = block.wrapping_add((p - q0) * (k1 - k0) * panel);
            // SAFETY: the caller's contract.
            unsafe {
                match self.b {
                    Right::Rows(ptr, step) if cols.1 - cols.0 == panel && tiles => {
                        let b = Panels { ptr, step, panel: panel as isize };
                        self.over(b).block(a, (r0, r1), (p, p + 1), (k0, k1), to);
                        continue;
                    }
                    Right::Rows(ptr, step) => {
                        let all = MatRef::new(ptr.cast(), (self.k, self.n), (step, 1));
                        all.pack((k0, k1), cols, panel, to);
                    }
                    Right::Source(b) => b.pack((k0, k1), cols, panel, to),
                    Right::Panels(_) => {}
                }
                let b = self.copied(block, q0, (k0, k1));
                let none = std::ptr::null_mut();
                self.over(b).block(a, (r0, r1), (p, p + 1), (k0, k1), none);
            }
        }
    }

    /// Copied panels, of which the first is `q0` and begins at step `k0`.
    fn copied(&self, block: *const T, q0: usize, (k0, k1): (usize, usize)) -> Panels<T> {
        let panel = self.kernels.panel;
        let distance = (k1 - k0) * panel;
        Panels {
            // Where the first panel would lie if all were there.
            ptr: block.wrapping_sub(q0 * distance + k0 * panel),
            step: panel as isize,
            panel: distance as isize,
        }
    }

    /// The product over panels.
    fn over(&self, b: Panels<T>) -> Product<'_, T> {
        Product {
            kernels: self.kernels,
            m: self.m,
            n: self.n,
            k: self.k,
            a: self.a,
            b,
            c: self.c,
            ending: self.ending,
        }
    }

    /// Rows and steps `begin..end` of the left factor: where they are, or copied to `out`.
    ///
    /// # Safety
    ///
    /// As [`Self::run`]; `out` has room for the rows at distance `steps + PAD`.
    unsafe fn left(
        &self,
        (r0, r1): (usize, usize),
        (k0, k1): (usize, usize),
        panels: usize,
        out: *mut T,
    ) -> Left<T> {
        let from = Left {
            ptr: self.a.ptr.wrapping_offset(r0 as isize * self.a.row + k0 as isize * self.a.step),
            ..self.a
        };
        let conflicts = self.a.step != 1
            || (self.a.row.unsigned_abs() * size_of::<T>()).is_multiple_of(2 << 10);
        if panels < if conflicts { CONFLICT_PANELS } else { COPY_PANELS } {
            return from;
        }
        let (rows, steps) = (r1 - r0, k1 - k0);
        // SAFETY: the caller's contract.
        unsafe {
            if self.a.step == 1 {
                let row = steps + PAD;
                for i in 0..rows {
                    let source = from.ptr.wrapping_offset(i as isize * from.row);
                    std::ptr::copy_nonoverlapping(source, out.add(i * row), steps);
                }
                return Left { ptr: out, row: row as isize, step: 1, tiled: false };
            }
            // Each tile becomes a panel of its rows.
            let mut row = 0;
            for height in drive::tiles(rows, self.kernels.max_rows()) {
                let tile = MatRef::new(
                    from.ptr.wrapping_offset(row as isize * from.row).cast(),
                    (steps, height),
                    (from.step, from.row),
                );
                pack::<T>(tile, height, out.add(row * steps));
                row += height;
            }
            Left { ptr: out, row: 1, step: 0, tiled: true }
        }
    }
}
