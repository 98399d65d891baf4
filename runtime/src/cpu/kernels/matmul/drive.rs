//! The loops around the microkernels: blocking, tiles, panels, threads.

use super::element::Float;
use super::micro::{Dot, Kernels, Tile};
use crate::cpu::threads;

/// Multiply-adds from which a product is split over threads: some 8 us of one core, twice what
/// waking a parked worker costs.
pub(super) const PARALLEL_WORK: usize = 1 << 19;

/// The multiply-adds of a product.
pub(super) fn work(m: usize, n: usize, k: usize) -> usize {
    m.saturating_mul(n).saturating_mul(k)
}

/// Steps at a time of a single tile over a right factor in place. Its rows may lie on a page each: the
/// panels pass over so many pages, which stay mapped, and which the machine fetches ahead from. One
/// row by 1024x4096 on a Zen 5, in us at AVX-512 and AVX2: 189 and 256 by 8 steps, 203 and 266 by 16,
/// 240 and 291 by 32, 251 and 357 by 128.
const IN_PLACE_K: usize = 16;
/// Steps between what a tile reads of a panel and what it asks for.
const AHEAD: isize = 16;

/// The right factor, as panels: packed, or a row-major matrix in place. Distances in elements.
#[derive(Clone, Copy)]
pub(super) struct Panels<T> {
    pub(super) ptr: *const T,
    /// From one row of a panel to the next.
    pub(super) step: isize,
    /// From one panel to the next.
    pub(super) panel: isize,
}

/// The left factor; any strides.
#[derive(Clone, Copy)]
pub(super) struct Left<T> {
    pub(super) ptr: *const T,
    pub(super) row: isize,
    pub(super) step: isize,
    /// Whether each tile of rows is a panel of its own, as [`tiles`] divides a block: the tile's
    /// rows side by side, step after step. The strides do not count then.
    pub(super) tiled: bool,
}

/// The result, its rows contiguous.
#[derive(Clone, Copy)]
pub(super) struct Target<T> {
    pub(super) ptr: *mut T,
    pub(super) row: isize,
}

/// Work on a finished tile: where it starts, its rows `begin..end` and its columns `begin..end`.
pub(super) type Finished<'a, T> = &'a (dyn Fn(Target<T>, (usize, usize), (usize, usize)) + Sync);

/// What is added to the sums while they are in registers, and how a finished tile is processed.
#[derive(Clone, Copy)]
pub(super) struct Ending<'a, T> {
    /// Per column; may be null.
    pub(super) bias: *const T,
    /// Per element; may be null.
    pub(super) residual: *const T,
    pub(super) residual_row: isize,
    /// Called on each tile once its sums are stored.
    pub(super) finished: Option<Finished<'a, T>>,
}

impl<T> Ending<'_, T> {
    pub(super) fn none() -> Self {
        Ending {
            bias: std::ptr::null(),
            residual: std::ptr::null(),
            residual_row: 0,
            finished: None,
        }
    }
}

/// A product over panels.
#[derive(Clone, Copy)]
pub(super) struct Product<'a, T: 'static> {
    pub(super) kernels: &'static Kernels<T>,
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) a: Left<T>,
    pub(super) b: Panels<T>,
    pub(super) c: Target<T>,
    pub(super) ending: Ending<'a, T>,
}

// SAFETY: the pointers are used by the threads of one call, on disjoint parts of the result.
unsafe impl<T: Sync> Sync for Product<'_, T> {}

/// Estimated nanoseconds of one core: multiply-adds at 64 a nanosecond, or the right factor at 64
/// bytes a nanosecond.
pub(super) fn estimate(m: usize, n: usize, k: usize, size: usize) -> usize {
    let area = n.saturating_mul(k);
    (area.saturating_mul(m).saturating_mul(size) / 256).max(area.saturating_mul(size) / 64)
}

/// Estimate from which a product is split over threads. Waking a parked worker costs 2-28 us,
/// handing a chunk to a spinning one well under 1 us: a small model that alternates short products
/// with other work finds it parked again at each.
pub(super) const PARALLEL_NS: usize = 12_000;

/// The heights of the tiles of a block of rows, of which none differs from another by more than
/// one.
pub(super) fn tiles(rows: usize, most: usize) -> impl Iterator<Item = usize> {
    let tiles = rows.div_ceil(most).max(1);
    let (base, extra) = (rows / tiles, rows % tiles);
    (0..tiles).map(move |t| base + (t < extra) as usize)
}

/// Calls `part` with rows and panels `begin..end` that cover a product of `m`, `n` and `k`, on the
/// threads if that is worth it.
pub(super) fn split<T>(
    kernels: &Kernels<T>,
    (m, n, k): (usize, usize, usize),
    part: &(impl Fn((usize, usize), (usize, usize)) + Sync),
) {
    let parallel = estimate(m, n, k, size_of::<T>()) >= PARALLEL_NS;
    split_tiles((kernels.panel, kernels.max_rows()), parallel, (m, n), part)
}

/// The same for tiles of at most `most` rows, and panels of `panel` columns.
pub(super) fn split_tiles(
    (panel, most): (usize, usize),
    parallel: bool,
    (m, n): (usize, usize),
    part: &(impl Fn((usize, usize), (usize, usize)) + Sync),
) {
    let panels = n.div_ceil(panel);
    let parts = if parallel { threads::num_threads() } else { 1 };
    if parts == 1 || threads::in_parallel() {
        return part((0, m), (0, panels));
    }
    // Two chunks a thread. Columns first: then each thread reads its own part of `b` only.
    let columns = panels.div_ceil(4).min(2 * parts).max(1);
    let width = panels.div_ceil(columns).next_multiple_of(if m <= 3 { 4 } else { 1 });
    let columns = panels.div_ceil(width);
    let rows = (2 * parts).div_ceil(columns).min(m.div_ceil(2 * most)).max(1);
    let height = m.div_ceil(rows).next_multiple_of(most);
    let rows = m.div_ceil(height);
    threads::parallel_for(rows * columns, &|chunk| {
        let (i, j) = (chunk / columns, chunk % columns);
        part((i * height, m.min((i + 1) * height)), (j * width, panels.min((j + 1) * width)));
    });
}

impl<T: Float> Product<'_, T> {
    /// Runs the product, split over threads if that is worth it.
    ///
    /// # Safety
    ///
    /// The views are valid: `a` for `m` rows and `k` steps, `b` for the panels that cover `n`
    /// columns (packed panels whole, in place the `n` columns), `c` for `m` rows of `n`, the ending
    /// likewise. The kernels fit the machine.
    pub(super) unsafe fn run(&self) {
        if self.m == 0 {
            return;
        }
        split(self.kernels, (self.m, self.n, self.k), &|rows, panels| {
            // SAFETY: the caller's contract; the parts are disjoint parts of `c`.
            unsafe { self.range(rows, panels) }
        });
    }

    /// Rows `m0..m1` of panels `p0..p1`, on this thread.
    ///
    /// # Safety
    ///
    /// As [`Self::run`].
    unsafe fn range(&self, (m0, m1): (usize, usize), (p0, p1): (usize, usize)) {
        // With one tile of rows a panel is used once: no blocking for the cache's sake.
        let in_place = self.b.step != self.kernels.panel as isize;
        let single = m1 - m0 <= self.kernels.max_rows();
        let block_k = if in_place && single { IN_PLACE_K } else { self.k.max(1) };
        let mut k0 = 0;
        loop {
            let k1 = self.k.min(k0 + block_k);
            let row = m0 as isize * self.a.row + k0 as isize * self.a.step;
            let a = Left { ptr: self.a.ptr.wrapping_offset(row), ..self.a };
            // SAFETY: the caller's contract; blocks of `k` in order.
            unsafe { self.block(a, (m0, m1), (p0, p1), (k0, k1), std::ptr::null_mut()) };
            k0 = k1;
            if k0 == self.k {
                break;
            }
        }
    }

    /// What tile `t` of a number asks the memory for: where, from a step to the next, and from the
    /// first to the second place of a step. The tile reads the panel at `first`, the next one, if
    /// any, begins at `next`.
    ///
    /// A single tile asks for what it reads itself some steps later. Several tiles read a packed
    /// panel from the first cache, and share the next one among them: the memory beyond the second
    /// cache does not keep up with one that asks for all.
    fn ask(
        &self,
        first: *const T,
        next: *const T,
        steps: usize,
        (t, tiles): (usize, usize),
    ) -> (*const T, isize, isize) {
        let panel = self.kernels.panel;
        let line = panel as isize / 2;
        if self.b.step != panel as isize {
            return match (tiles, t) {
                (1, _) => (next, self.b.step, line),
                (_, 0) => (first.wrapping_offset(AHEAD * self.b.step), self.b.step, line),
                _ => (std::ptr::null(), 0, 0),
            };
        }
        if tiles == 1 {
            return (first.wrapping_offset(AHEAD * self.b.step), self.b.step, line);
        }
        match next.is_null() {
            true => (next, 0, 0),
            false => {
                let begin = next.wrapping_add(t * steps * panel / tiles);
                (begin, panel.div_ceil(tiles) as isize, 0)
            }
        }
    }

    /// A block of rows, panels and steps; `a` starts at its first row and step. If `copy` is not
    /// null, there is one panel, which is whole, and more than one tile: the first one copies the
    /// panel to there, and the others read it there.
    ///
    /// # Safety
    ///
    /// As [`Self::run`]; if the steps do not begin at zero, `c` holds the sums so far. `copy` has
    /// room for the panel.
    pub(super) unsafe fn block(
        &self,
        a: Left<T>,
        (r0, r1): (usize, usize),
        (p0, p1): (usize, usize),
        (k0, k1): (usize, usize),
        copy: *mut T,
    ) {
        let kernels = self.kernels;
        let rows = r1 - r0;
        let tallest = rows.div_ceil(rows.div_ceil(kernels.max_rows()).max(1));
        let last = k1 == self.k;
        let null: *const T = std::ptr::null();
        let whole_panels = self.n / kernels.panel;
        let at = |row: usize, col: usize| {
            self.c.ptr.wrapping_offset(row as isize * self.c.row).wrapping_add(col)
        };
        let mut p = p0;
        while p < p1 {
            let left = p1.min(whole_panels).saturating_sub(p);
            let (table, count) = if left == 0 {
                (kernels.tail, 1)
            } else if left >= 4 && tallest <= kernels.four.len() {
                (kernels.four, 4)
            } else if left >= 2 && tallest <= kernels.two.len() {
                (kernels.two, 2)
            } else {
                (kernels.one, 1)
            };
            let col = p * kernels.panel;
            let cols = (self.n - col).min(count * kernels.panel);
            let first =
                self.b.ptr.wrapping_offset(p as isize * self.b.panel + k0 as isize * self.b.step);
            let mut row = r0;
            for (t, height) in tiles(rows, kernels.max_rows()).enumerate() {
                let above = (row - r0) as isize;
                let (from, a_row, a_step) = if a.tiled {
                    (above * (k1 - k0) as isize, 1, height as isize)
                } else {
                    (above * a.row, a.row, a.step)
                };
                let copied = !copy.is_null() && row > r0;
                let end = row + height;
                let distance = count as isize * self.b.panel;
                let next = if p + count < p1 { first.wrapping_offset(distance) } else { null };
                let of = (t, rows.div_ceil(kernels.max_rows()));
                let (ask, ask_step, ask_line) = match copied {
                    true => (null, 0, 0),
                    false => self.ask(first, next, k1 - k0, of),
                };
                let tile = Tile {
                    k: k1 - k0,
                    a: a.ptr.wrapping_offset(from),
                    a_row,
                    a_step,
                    b: if copied { copy } else { first },
                    b_step: if copied { kernels.panel as isize } else { self.b.step },
                    b_panel: self.b.panel,
                    c: at(row, col),
                    c_row: self.c.row,
                    resume: k0 > 0,
                    bias: if last && !self.ending.bias.is_null() {
                        self.ending.bias.wrapping_add(col)
                    } else {
                        null
                    },
                    residual: if last && !self.ending.residual.is_null() {
                        self.ending
                            .residual
                            .wrapping_offset(row as isize * self.ending.residual_row)
                            .wrapping_add(col)
                    } else {
                        null
                    },
                    residual_row: self.ending.residual_row,
                    cols,
                    offsets: null.cast(),
                    ask,
                    ask_step,
                    ask_line,
                    copy,
                    next: match end == r1 {
                        true => at(r0, col + cols),
                        false => at(end, col),
                    },
                };
                let table = match !copy.is_null() && row == r0 {
                    true => &kernels.copy[height - kernels.least_copied()],
                    false => &table[height - 1],
                };
                // SAFETY: the caller's contract; the tile lies inside the block, and the table has
                // its height.
                unsafe { table(&tile) };
                if let (true, Some(finished)) = (last, self.ending.finished) {
                    let done = Target { ptr: tile.c, row: tile.c_row };
                    finished(done, (row, end), (col, col + cols));
                }
                row = end;
            }
            p += count;
        }
    }
}

/// `c = a @ b` by dot products, for `b` whose columns are contiguous: `b_col` leads from one to the
/// next. Rows of `a` are contiguous. For few rows.
#[derive(Clone, Copy)]
pub(super) struct Dots<T: 'static> {
    pub(super) kernels: &'static Kernels<T>,
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) a: *const T,
    pub(super) a_row: isize,
    pub(super) b: *const T,
    pub(super) b_col: isize,
    pub(super) c: Target<T>,
}

// SAFETY: as for `Product`.
unsafe impl<T: Sync> Sync for Dots<T> {}

impl<T: Float> Dots<T> {
    /// # Safety
    ///
    /// The views are valid for `m`, `n` and `k`; the kernels fit the machine.
    pub(super) unsafe fn run(&self) {
        if self.m == 0 {
            return;
        }
        let parallel = estimate(self.m, self.n, self.k, size_of::<T>()) >= PARALLEL_NS;
        let parts =
            if parallel && !threads::in_parallel() { 2 * threads::num_threads() } else { 1 };
        if parts <= 2 {
            // SAFETY: the caller's contract.
            return unsafe { self.columns(0, self.n) };
        }
        let width = self.n.div_ceil(parts).next_multiple_of(8);
        threads::parallel_for(self.n.div_ceil(width), &|i| {
            // SAFETY: the caller's contract; the columns are disjoint.
            unsafe { self.columns(i * width, self.n.min((i + 1) * width)) }
        });
    }

    /// Columns `begin..end`, on this thread.
    ///
    /// # Safety
    ///
    /// As [`Self::run`].
    pub(super) unsafe fn columns(&self, begin: usize, end: usize) {
        let max = self.kernels.dot4.len();
        let tiles = self.m.div_ceil(max).max(1);
        let (base, extra) = (self.m / tiles, self.m % tiles);
        let mut j = begin;
        while j < end {
            let (table, count) = if end - j >= 8 && base + extra.min(1) <= self.kernels.dot8.len() {
                (self.kernels.dot8, 8)
            } else if end - j >= 4 {
                (self.kernels.dot4, 4)
            } else {
                (self.kernels.dot1, 1)
            };
            let mut row = 0;
            for t in 0..tiles {
                let height = base + (t < extra) as usize;
                let call = Dot {
                    k: self.k,
                    a: self.a.wrapping_offset(row as isize * self.a_row),
                    a_row: self.a_row,
                    b: self.b.wrapping_offset(j as isize * self.b_col),
                    b_col: self.b_col,
                    c: self.c.ptr.wrapping_offset(row as isize * self.c.row).wrapping_add(j),
                    c_row: self.c.row,
                };
                // SAFETY: the caller's contract; the table has the height.
                unsafe { table[height - 1](&call) };
                row += height;
            }
            j += count;
        }
    }
}
