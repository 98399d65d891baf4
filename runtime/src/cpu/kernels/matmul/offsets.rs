//! Products with a right factor whose rows begin anywhere: the columns of a convolution, where they
//! are.
//!
//! Row `p` of the right factor is the run of elements that begins at `offsets[p]`; runs may
//! overlap. So the taps of a convolution over a padded image need no copy.

use super::micro::{Native, Tile};

/// The product `a @ b`, in tiles that are handed out instead of stored.
pub(in crate::cpu::kernels) struct OffsetProduct<'a, T> {
    /// Dense rows of `offsets.len()` elements.
    pub(in crate::cpu::kernels) a: *const T,
    /// Whether each of the [`tiles`](OffsetProduct::tiles) has its rows innermost instead.
    pub(in crate::cpu::kernels) packed: bool,
    /// Where the offsets count from.
    pub(in crate::cpu::kernels) b: *const T,
    /// In elements.
    pub(in crate::cpu::kernels) offsets: &'a [u32],
    /// Columns of `b`.
    pub(in crate::cpu::kernels) n: usize,
}

/// A finished tile: its sums, the distance of its rows, its rows `begin..end` and its columns
/// `begin..end`.
pub(in crate::cpu::kernels) type Store<'a, T> =
    &'a dyn Fn(*const T, usize, (usize, usize), (usize, usize));

/// An element type with microkernels.
#[allow(private_bounds)] // the bound is for this module's use, the name for others
pub(in crate::cpu::kernels) trait Panelled: Native {}
impl Panelled for f32 {}
impl Panelled for f64 {}

/// Most rows and columns of a tile, for the memory that it is handed out in.
const TILE: usize = 12 * 128;

impl<T: Panelled> OffsetProduct<'_, T> {
    /// Columns of a panel.
    pub(in crate::cpu::kernels) fn panel() -> usize {
        T::kernels().panel
    }

    /// Calls `f` for the tiles that rows `m0..m1` are computed in: `begin..end`.
    pub(in crate::cpu::kernels) fn tiles(
        (m0, m1): (usize, usize),
        mut f: impl FnMut(usize, usize),
    ) {
        let rows = m1 - m0;
        let tiles = rows.div_ceil(T::kernels().max_rows()).max(1);
        let (base, extra) = (rows / tiles, rows % tiles);
        let mut row = m0;
        for t in 0..tiles {
            let height = base + (t < extra) as usize;
            if height > 0 {
                f(row, row + height);
            }
            row += height;
        }
    }

    /// Computes panels `p0..p1` of rows `m0..m1`, each tile of which goes to `store`.
    ///
    /// # Safety
    ///
    /// `a` and `b` are valid to read for the sizes said.
    pub(in crate::cpu::kernels) unsafe fn run(
        &self,
        (m0, m1): (usize, usize),
        (p0, p1): (usize, usize),
        store: Store<'_, T>,
    ) {
        #[repr(align(64))]
        struct Sums<T>([T; TILE]);
        let kernels = T::kernels();
        let panel = kernels.panel;
        let k = self.offsets.len();
        let tallest = (m1 - m0).div_ceil((m1 - m0).div_ceil(kernels.max_rows()).max(1));
        let whole = self.n / panel;
        let mut sums = Sums([T::ZERO; TILE]);
        let width = 4 * panel;
        debug_assert!(kernels.max_rows() * panel <= TILE && kernels.four.len() * width <= TILE);
        let mut p = p0;
        while p < p1 {
            let left = p1.min(whole).saturating_sub(p);
            let (table, count) = if left == 0 {
                (kernels.tail, 1)
            } else if left >= 4 && tallest <= kernels.four.len() {
                (kernels.four, 4)
            } else if left >= 2 && tallest <= kernels.two.len() {
                (kernels.two, 2)
            } else {
                (kernels.one, 1)
            };
            let col = p * panel;
            let cols = (self.n - col).min(count * panel);
            Self::tiles((m0, m1), |row, end| {
                let height = end - row;
                let (a_row, a_step) = if self.packed { (1, height) } else { (k, 1) };
                let tile = Tile {
                    k,
                    a: self.a.wrapping_add(row * k),
                    a_row: a_row as isize,
                    a_step: a_step as isize,
                    b: self.b.wrapping_add(col),
                    b_step: 0,
                    b_panel: panel as isize,
                    c: sums.0.as_mut_ptr(),
                    c_row: (count * panel) as isize,
                    resume: false,
                    bias: std::ptr::null(),
                    residual: std::ptr::null(),
                    residual_row: 0,
                    cols,
                    offsets: self.offsets.as_ptr(),
                    ask: std::ptr::null(),
                    ask_step: 0,
                    ask_line: 0,
                    copy: std::ptr::null_mut(),
                    next: std::ptr::null(),
                };
                // SAFETY: the caller's contract; the tile fits `sums`, and the table has its
                // height.
                unsafe { table[height - 1](&tile) };
                store(sums.0.as_ptr(), count * panel, (row, end), (col, col + cols));
            });
            p += count;
        }
    }
}
