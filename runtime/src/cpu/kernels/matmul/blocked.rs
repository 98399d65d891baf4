//! Products of large factors, block by block.
//!
//! The loops are those of Goto and van de Geijn, as in BLIS and crate `gemm`: a block of the right
//! factor that the second cache holds is copied into panels, rows of the left factor pass over it,
//! and the next steps of `k` are added to what the result holds. The left factor is copied too
//! where many panels read it, so that its rows share no cache set and no page more than they must.
//! Each thread copies the blocks of its own part of the result.
//!
//! Each sum stays one chain of fused multiply-adds in the order of `k`: blocks and threads do not
//! change the bits.

use super::drive::{self, Ending, Left, Panels, Product, Target};
use super::element::Float;
use super::micro::Kernels;
use super::pack::{self, pack, packed_len};
use super::view::MatRef;

/// Sizes of the blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks {
    /// Steps; even, where a source says that steps come in pairs.
    pub(super) k: usize,
    /// Rows of the left factor.
    pub(super) rows: usize,
    /// Columns of the right factor; rounded up to panels.
    pub(super) cols: usize,
}

impl Blocks {
    /// The sizes for elements of `T`, as measured: with fewer steps the result is read and written
    /// too often, with more a panel and a tile of rows crowd each other out of the first cache. A
    /// block of rows takes 288 KiB of the second.
    pub(super) fn of<T>() -> Blocks {
        Blocks { k: 3072 / size_of::<T>(), rows: 96, cols: 4096 / size_of::<T>() }
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
    /// [`packed_len`].
    unsafe fn pack(&self, rows: (usize, usize), cols: (usize, usize), panel: usize, out: *mut T);
}

impl<T: Float> Source<T> for MatRef {
    unsafe fn pack(&self, rows: (usize, usize), cols: (usize, usize), panel: usize, out: *mut T) {
        // SAFETY: the caller's contract.
        unsafe { pack::<T>(self.block::<T>(rows, cols), panel, out) }
    }
}

/// A product whose factors are copied block by block.
#[derive(Clone, Copy)]
pub(super) struct Blocked<'a, T: 'static, S> {
    pub(super) kernels: &'static Kernels<T>,
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) a: Left<T>,
    pub(super) b: &'a S,
    pub(super) c: Target<T>,
    pub(super) blocks: Blocks,
}

// SAFETY: the pointers are used by the threads of one call, on disjoint parts of the result.
unsafe impl<T: Sync, S: Sync> Sync for Blocked<'_, T, S> {}

/// Elements between the rows of a copied block of the left factor beyond its steps: with a power of
/// two the rows of a tile would share one set of the first cache.
const PAD: usize = 16;

/// Panels from which a copy of the left factor is worth it.
const COPY_PANELS: usize = 4;

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
        let steps = self.blocks.k.min(self.k);
        let width = self.blocks.cols.div_ceil(panel).max(1).min(p1 - p0);
        let height = self.blocks.rows.min(m1 - m0);
        let line = 64 / size_of::<T>();
        let of_b = packed_len(steps, width * panel, panel).next_multiple_of(line);
        let of_a = height * (steps + PAD);
        pack::with_scratch((of_b + of_a) * size_of::<T>(), |scratch| {
            let b_block: *mut T = scratch.cast();
            let a_block = b_block.wrapping_add(of_b);
            for q0 in (p0..p1).step_by(width) {
                let q1 = p1.min(q0 + width);
                let cols = (q0 * panel, self.n.min(q1 * panel));
                let mut k0 = 0;
                loop {
                    let k1 = self.k.min(k0 + self.blocks.k);
                    // SAFETY: the caller's contract; the scratch has room for a block, and blocks
                    // of `k` come in order.
                    unsafe {
                        self.b.pack((k0, k1), cols, panel, b_block);
                        let product = self.over(b_block, q0, (k0, k1));
                        for r0 in (m0..m1).step_by(height) {
                            let r1 = m1.min(r0 + height);
                            let a = self.left((r0, r1), (k0, k1), q1 - q0, a_block);
                            product.block(a, (r0, r1), (q0, q1), (k0, k1));
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

    /// The product over a copied block, which begins at panel `q0` and step `k0`.
    fn over(&self, block: *const T, q0: usize, (k0, k1): (usize, usize)) -> Product<'static, T> {
        let panel = self.kernels.panel;
        let distance = (k1 - k0) * panel;
        Product {
            kernels: self.kernels,
            m: self.m,
            n: self.n,
            k: self.k,
            a: self.a,
            b: Panels {
                // Where the first panel would lie if all were there.
                ptr: block.wrapping_sub(q0 * distance + k0 * panel),
                step: panel as isize,
                panel: distance as isize,
            },
            c: self.c,
            ending: Ending::none(),
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
        if panels < COPY_PANELS {
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
