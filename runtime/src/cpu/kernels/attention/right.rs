//! Keys and values of one head, as right factors of products.

use super::convert::load;
use super::task::{Heads, Task, Wide};
use crate::cpu::kernels::matmul::MatRef;
use crate::cpu::kernels::matmul::blocks::{self, BlockDots, BlockProduct};
use crate::cpu::kernels::real::Real;
use crate::cpu::kernels::strided::KernelError;
use crate::memory::{self, Block};

/// Queries of a head up to which keys and values are read where they are: packing them would take
/// longer than the products.
const FEW: usize = 4;

/// Keys and values.
pub(super) struct Right<W> {
    keys: *const W,
    values: *const W,
    /// Positions of either.
    count: usize,
    /// From one key and from one value to the next, where they are not packed.
    rows: Option<(usize, usize)>,
    /// Memory that one of them may lie in.
    _blocks: [Option<Block>; 2],
}

// SAFETY: read by the threads of one call.
unsafe impl<W: Sync> Sync for Right<W> {}

impl<W: Wide> Right<W> {
    /// Those of head `h` of batch `b`.
    ///
    /// # Safety
    ///
    /// As [`attention`](super::attention); `T` is the type of the dtype.
    pub(super) unsafe fn new<T: Real>(
        task: &Task,
        (b, h): (usize, usize),
    ) -> Result<Self, KernelError> {
        let few = task.sizes[2] <= FEW;
        // SAFETY: the caller's contract.
        let [keys, values] = unsafe {
            [
                Factor::new::<T>(task, task.k, (b, h), (few, true))?,
                Factor::new::<T>(task, task.v, (b, h), (few, false))?,
            ]
        };
        Ok(Right {
            keys: keys.ptr,
            values: values.ptr,
            count: task.keys,
            rows: few.then_some((keys.row, values.row)),
            _blocks: [keys.block, values.block],
        })
    }

    /// The scores of `m` queries and the `n` keys from `from` on.
    ///
    /// # Safety
    ///
    /// There are so many keys and queries of `features` numbers; `c` is valid to write.
    pub(super) unsafe fn scores(
        &self,
        (m, n, features): (usize, usize, usize),
        queries: *const W,
        from: usize,
        (c, c_row): (*mut W, usize),
    ) {
        let (a, a_row, k) = (queries, features, features);
        // SAFETY: the caller's contract; `from` is a multiple of a panel.
        unsafe {
            match self.rows {
                Some((row, _)) => {
                    let b = self.keys.wrapping_add(from * row);
                    BlockDots { m, n, k, a, a_row, b, b_col: row, c, c_row }.run();
                }
                None => {
                    let (b_step, b_panel) = (blocks::panel::<W>(), k * blocks::panel::<W>());
                    let b = self.keys.wrapping_add(from * k);
                    let add = false;
                    BlockProduct { m, n, k, a, a_row, b, b_step, b_panel, c, c_row, add }.run();
                }
            }
        }
    }

    /// The values from `from` on, weighted for `m` queries: dense rows, added to what is there if
    /// so said.
    ///
    /// # Safety
    ///
    /// As [`Right::scores`].
    pub(super) unsafe fn weigh(
        &self,
        (m, n, k): (usize, usize, usize),
        (a, a_row): (*const W, usize),
        from: usize,
        (c, c_row, add): (*mut W, usize, bool),
    ) {
        let panel = blocks::panel::<W>();
        let (first, b_step, b_panel) = match self.rows {
            Some((_, row)) => (from * row, row, panel),
            None => (from * panel, panel, self.count * panel),
        };
        let b = self.values.wrapping_add(first);
        // SAFETY: the caller's contract.
        unsafe { BlockProduct { m, n, k, a, a_row, b, b_step, b_panel, c, c_row, add }.run() }
    }
}

/// One of the two.
struct Factor<W> {
    ptr: *const W,
    /// From one position to the next, if it is not packed.
    row: usize,
    block: Option<Block>,
}

impl<W: Wide> Factor<W> {
    /// In rows, or packed, in the latter case perhaps transposed.
    ///
    /// # Safety
    ///
    /// As [`Right::new`].
    unsafe fn new<T: Real>(
        task: &Task,
        of: Heads,
        (b, h): (usize, usize),
        (rows, transposed): (bool, bool),
    ) -> Result<Self, KernelError> {
        let (keys, features, s) = (task.keys, task.sizes[3], of.strides);
        let first = of.ptr.cast::<T>().wrapping_offset(b as isize * s[0] + h as isize * s[1]);
        let same = size_of::<T>() == size_of::<W>();
        let mut view = MatRef::new(first.cast(), (keys, features), (s[2], s[3]));
        let mut wide = None;
        if !same || rows && (s[3] != 1 || s[2] < 0) {
            let block = memory::allocate(keys * features * size_of::<W>())?;
            let to = block.as_ptr().cast::<W>();
            for i in 0..keys {
                let row = first.wrapping_offset(i as isize * s[2]);
                // SAFETY: row `i` of the head and of its copy.
                unsafe {
                    load::<T, W>(task.dtype, (row, s[3]), to.add(i * features), features, 1.0)
                };
            }
            view = MatRef::row_major(block.as_ptr(), keys, features);
            wide = Some(block);
        }
        if rows {
            let (ptr, row) = (view.ptr.cast(), view.row_stride.unsigned_abs());
            return Ok(Factor { ptr, row, block: wide });
        }
        let view = if transposed { view.t() } else { view };
        let len = blocks::packed_len::<W>(view.rows, view.cols);
        let block = memory::allocate(len * size_of::<W>())?;
        let ptr = block.as_ptr().cast::<W>();
        // SAFETY: the view is valid as `W`; the room was just made.
        unsafe { blocks::pack_into::<W>(view, ptr) };
        Ok(Factor { ptr, row: 0, block: Some(block) })
    }
}
