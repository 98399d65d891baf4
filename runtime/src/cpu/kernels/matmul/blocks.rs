//! Products of small blocks by a right factor that the caller has packed, on this thread: the
//! inside of kernels that do more with a product than store it.

use super::MatRef;
use super::drive::{Dots, Left, Target};
use super::micro::{Native, Tile};
use super::pack;

/// An element type of block products: `f32` or `f64`.
#[expect(private_bounds, reason = "sealed: the microkernels stay inside of `matmul`")]
pub(crate) trait Block: Native {}
impl Block for f32 {}
impl Block for f64 {}

/// Elements of the packed form of a `k` by `n` matrix.
pub(crate) fn packed_len<T: Block>(k: usize, n: usize) -> usize {
    pack::packed_len(k, n, T::kernels().panel)
}

/// Columns of a panel. Blocks of columns begin at multiples of it.
pub(crate) fn panel<T: Block>() -> usize {
    T::kernels().panel
}

/// Packs `b` into `out`.
///
/// # Safety
///
/// `b` is valid to read as `T`; `out` has room for [`packed_len`] elements.
pub(crate) unsafe fn pack_into<T: Block + Default>(b: MatRef, out: *mut T) {
    // SAFETY: the caller's contract.
    unsafe { pack::pack(b, T::kernels().panel, out) }
}

/// `c = a @ b`, or `c += a @ b`.
#[derive(Clone, Copy)]
pub(crate) struct BlockProduct<T> {
    /// Rows of `a`.
    pub(crate) m: usize,
    /// Columns of `b`.
    pub(crate) n: usize,
    /// Steps.
    pub(crate) k: usize,
    /// The left factor: its rows at distance `a_row`, steps side by side.
    pub(crate) a: *const T,
    pub(crate) a_row: usize,
    /// The first panel, at the first step.
    pub(crate) b: *const T,
    /// From one step to the next: columns of a panel, if they are packed.
    pub(crate) b_step: usize,
    /// From one panel to the next.
    pub(crate) b_panel: usize,
    /// The result, rows at distance `c_row`.
    pub(crate) c: *mut T,
    pub(crate) c_row: usize,
    /// Whether the product is added to what `c` holds.
    pub(crate) add: bool,
}

impl<T: Block> BlockProduct<T> {
    /// Computes it.
    ///
    /// # Safety
    ///
    /// `a` is valid to read for `m` rows of `k`, `b` for the panels that cover `n` columns, `c` to
    /// write (and, if `add`, to read) for `m` rows of `n`.
    pub(crate) unsafe fn run(&self) {
        let kernels = T::kernels();
        let step = kernels.panel;
        let a = Left { ptr: self.a, row: self.a_row as isize, step: 1, tiled: false };
        let c = Target { ptr: self.c, row: self.c_row as isize };
        if self.m == 0 {
            return;
        }
        let tiles = self.m.div_ceil(kernels.max_rows());
        let (base, extra) = (self.m / tiles, self.m % tiles);
        let tallest = base + usize::from(extra > 0);
        let (whole, panels) = (self.n / step, self.n.div_ceil(step));
        let mut p = 0;
        while p < panels {
            let left = whole.saturating_sub(p);
            let (table, count) = if left == 0 {
                (kernels.tail, 1)
            } else if left >= 4 && tallest <= kernels.four.len() {
                (kernels.four, 4)
            } else if left >= 2 && tallest <= kernels.two.len() {
                (kernels.two, 2)
            } else {
                (kernels.one, 1)
            };
            let mut row = 0;
            for t in 0..tiles {
                let height = base + usize::from(t < extra);
                let tile = Tile {
                    k: self.k,
                    a: a.ptr.wrapping_offset(row as isize * a.row),
                    a_row: a.row,
                    a_step: a.step,
                    b: self.b.wrapping_add(p * self.b_panel),
                    b_step: self.b_step as isize,
                    b_panel: self.b_panel as isize,
                    c: c.ptr.wrapping_offset(row as isize * c.row).wrapping_add(p * step),
                    c_row: c.row,
                    resume: self.add,
                    bias: std::ptr::null(),
                    residual: std::ptr::null(),
                    residual_row: 0,
                    cols: (self.n - p * step).min(count * step),
                    offsets: std::ptr::null(),
                    ask: std::ptr::null(),
                    ask_step: 0,
                    ask_line: 0,
                    copy: std::ptr::null_mut(),
                    next: std::ptr::null(),
                };
                // SAFETY: the caller's contract; the tile lies inside the block, the table has its
                // height.
                unsafe { table[height - 1](&tile) };
                row += height;
            }
            p += count;
        }
    }
}

/// `c = a @ b`, where the columns of `b` are contiguous: for a few rows of `a`.
#[derive(Clone, Copy)]
pub(crate) struct BlockDots<T> {
    /// Rows of `a`.
    pub(crate) m: usize,
    /// Columns of `b`.
    pub(crate) n: usize,
    /// Steps.
    pub(crate) k: usize,
    /// The left factor: its rows at distance `a_row`, steps side by side.
    pub(crate) a: *const T,
    pub(crate) a_row: usize,
    /// The right factor: its columns at distance `b_col`.
    pub(crate) b: *const T,
    pub(crate) b_col: usize,
    /// The result, rows at distance `c_row`.
    pub(crate) c: *mut T,
    pub(crate) c_row: usize,
}

impl<T: Block> BlockDots<T> {
    /// Computes it.
    ///
    /// # Safety
    ///
    /// `a` is valid to read for `m` rows of `k`, `b` for `n` columns of `k`, `c` to write for `m`
    /// rows of `n`.
    pub(crate) unsafe fn run(&self) {
        let dots = Dots {
            kernels: T::kernels(),
            m: self.m,
            n: self.n,
            k: self.k,
            a: self.a,
            a_row: self.a_row as isize,
            b: self.b,
            b_col: self.b_col as isize,
            c: Target { ptr: self.c, row: self.c_row as isize },
        };
        // SAFETY: the caller's contract.
        unsafe { dots.columns(0, self.n) }
    }
}
