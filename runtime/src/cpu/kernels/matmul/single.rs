//! Products with a single panel, on the calling thread: what convolutions make their own blocks of.

use super::micro::{Native, Tile};

/// `c = a @ b` of f32, where `b` is one panel.
pub(in crate::cpu::kernels) struct PanelProduct {
    /// Rows of `a`, and of `c`.
    pub(in crate::cpu::kernels) rows: usize,
    /// Columns of `a`, side by side, and rows of `b`.
    pub(in crate::cpu::kernels) k: usize,
    pub(in crate::cpu::kernels) a: *const f32,
    pub(in crate::cpu::kernels) a_row: usize,
    /// `k` rows of [`PanelProduct::width`] elements.
    pub(in crate::cpu::kernels) b: *const f32,
    pub(in crate::cpu::kernels) c: *mut f32,
    pub(in crate::cpu::kernels) c_row: usize,
}

impl PanelProduct {
    /// Columns of a panel.
    pub(in crate::cpu::kernels) fn width() -> usize {
        f32::kernels().panel
    }

    /// Computes it.
    ///
    /// # Safety
    ///
    /// `a` and `b` are valid to read, `c` to write, for the sizes said; nothing overlaps `c`.
    pub(in crate::cpu::kernels) unsafe fn run(&self) {
        let kernels = f32::kernels();
        let tiles = self.rows.div_ceil(kernels.max_rows());
        for t in 0..tiles {
            let (row, end) = (self.rows * t / tiles, self.rows * (t + 1) / tiles);
            let tile = Tile {
                k: self.k,
                a: self.a.wrapping_add(row * self.a_row),
                a_row: self.a_row as isize,
                a_step: 1,
                b: self.b,
                b_step: kernels.panel as isize,
                b_panel: 0,
                c: self.c.wrapping_add(row * self.c_row),
                c_row: self.c_row as isize,
                resume: false,
                bias: std::ptr::null(),
                residual: std::ptr::null(),
                residual_row: 0,
                cols: kernels.panel,
                offsets: std::ptr::null(),
                ask: std::ptr::null(),
                ask_step: 0,
                ask_line: 0,
                copy: std::ptr::null_mut(),
                next: std::ptr::null(),
            };
            // SAFETY: the caller's contract; the table has a kernel of this height.
            unsafe { kernels.one[end - row - 1](&tile) };
        }
    }
}
