//! Products of bf16 by instructions that multiply pairs and sum in f32: the tiles of AMX and the
//! dot products of AVX512_BF16.
//!
//! Both factors are copied into blocks of 32 steps of `k`, the last one filled up with zeros. A
//! block of the left factor is rows of 32 elements, [`PairKernels::height`] of them. A block of the
//! right factor is 32 columns: for the first sixteen and then for the others, sixteen rows that
//! hold two steps of each column side by side.
//!
//! **Numerics.** The products are exact and summed in f32, in an order that depends on neither the
//! number of rows nor the blocking: of AMX, each block of 32 steps in two chains, the even and the
//! odd steps, whose sum is then added; of AVX512_BF16, pair by pair. Both instructions take
//! denormal factors as zero, and give zero for a denormal sum, whatever the mode of the thread.

/// Steps of `k` in a block.
pub const STEPS: usize = 32;
/// Columns of a panel.
pub const COLUMNS: usize = 32;
/// Elements of a block of the right factor.
pub const RIGHT: usize = STEPS * COLUMNS;

/// Blocks of `k` steps.
pub fn blocks(k: usize) -> usize {
    k.div_ceil(STEPS)
}

/// A matrix of bf16 to copy, as bits; distances in elements.
#[derive(Clone, Copy)]
pub struct Source {
    /// Its first element.
    pub ptr: *const u16,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// From one row to the next.
    pub row: isize,
    /// From one column to the next.
    pub col: isize,
}

/// One call of a kernel: `rows` of the left factor by a panel of the right one.
#[derive(Clone, Copy)]
pub struct PairTile {
    /// Blocks of 32 steps.
    pub blocks: usize,
    /// Rows that matter: at most [`PairKernels::height`].
    pub rows: usize,
    /// The left factor.
    pub a: *const u16,
    /// From one of its rows to the next, in elements: 32, where it is copied.
    pub a_row: isize,
    /// From one of its blocks to the next, in elements: `height` times 32, where it is copied.
    pub a_block: isize,
    /// The copied right factor.
    pub b: *const u16,
    /// The sums, in rows of 32.
    pub c: *mut f32,
    /// From one row to the next, in elements.
    pub c_row: usize,
    /// Whether `c` holds the sums of earlier blocks.
    pub resume: bool,
}

/// One call of [`PairKernels::few`]: a block of 32 steps of one row, or fewer at the end, and 64
/// columns at most.
#[derive(Clone, Copy)]
pub struct RowBlock {
    /// The row, in f32.
    pub a: *const f32,
    /// The first of the steps' rows of the right factor, whose columns are contiguous.
    pub b: *const u16,
    /// From one of them to the next, in elements.
    pub b_row: isize,
    /// Columns that are read later, which each step asks the memory for; they need not be valid.
    pub ask: *const u16,
    /// Steps: 32, if more follow.
    pub steps: usize,
    /// Columns.
    pub cols: usize,
    /// Room for 64 sums, to which those of the block are added: 32 of even and odd columns after
    /// one another, sixteen each, twice.
    pub c: *mut f32,
}

/// The functions of one instruction set.
pub struct PairKernels {
    /// Its name.
    pub name: &'static str,
    /// Rows of a block of the left factor.
    pub height: usize,
    /// Whether a tile takes rows of the left factor at any distance, or copied ones only.
    pub in_place: bool,
    /// Rows of `c` that a tile of some rows may write.
    pub written: fn(usize) -> usize,
    /// Called on a thread before its first tile.
    ///
    /// # Safety
    ///
    /// The machine has the instructions, and the process is allowed to use them.
    pub enter: unsafe fn(),
    /// Called on the thread after its last tile.
    ///
    /// # Safety
    ///
    /// As for `enter`.
    pub leave: unsafe fn(),
    /// Computes a tile.
    ///
    /// # Safety
    ///
    /// Between `enter` and `leave`; the factors hold the blocks, `c` the rows that are written.
    pub tile: unsafe fn(&PairTile),
    /// Computes the sums of a few rows by a right factor that is not copied, for each block that it
    /// is given, to the same bits as `tile`.
    ///
    /// # Safety
    ///
    /// The machine has the instructions; the blocks are valid.
    pub few: Option<unsafe fn(&mut dyn Iterator<Item = RowBlock>)>,
    /// Sums in the order of their columns from those of [`RowBlock::c`].
    ///
    /// # Safety
    ///
    /// The machine has the instructions; both sides have a multiple of 64 elements, and are apart or
    /// the same.
    pub sort: unsafe fn(*mut f32, usize),
    /// Copies the left factor, each `height` rows to a panel of `blocks(cols)` blocks.
    ///
    /// # Safety
    ///
    /// The machine has the instructions; the source is valid to read.
    pub pack_left: unsafe fn(Source, *mut u16),
    /// Copies the right factor, each 32 columns to a panel of `blocks(rows)` blocks.
    ///
    /// # Safety
    ///
    /// As for `pack_left`.
    pub pack_right: unsafe fn(Source, *mut u16),
    /// Rounds sums to bf16, to nearest even; they are no denormals, as those of a tile never are.
    ///
    /// # Safety
    ///
    /// The machine has the instructions; both sides have this many elements.
    pub narrow: unsafe fn(*const f32, *mut u16, usize),
}
