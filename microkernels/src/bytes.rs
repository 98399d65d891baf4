//! Products of bytes with sums of 32 bits: `i8` or `u8` by `i8`, exactly. A sum that does not fit
//! wraps around, so the order of terms, blocks and threads never changes a result.
//!
//! Both factors are copied into blocks of [`ByteKernels::steps`] steps of `k`, the last one filled
//! up with zeros. A block of the left factor is [`ByteKernels::height`] rows, one of the right
//! factor [`ByteKernels::columns`] columns; in what order it holds them is the kernels' own affair.
//!
//! | kernels | how a term is made |
//! |---|---|
//! | AMX | tiles of four steps of either sign |
//! | AVX512_VNNI | four steps of unsigned by signed bytes. A signed left factor is copied with 128 added; the sum of the right factor's steps, times 128, is kept beside the rows and taken off at the end |
//! | AVX2, portable | both sides copied as 16 bits; AVX2 takes two steps at a time. (Its byte form adds two terms in 16 bits and saturates.) |

/// A matrix of bytes to copy; distances in elements.
#[derive(Clone, Copy)]
pub struct Bytes {
    /// Its first element.
    pub ptr: *const u8,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// From one row to the next.
    pub row: isize,
    /// From one column to the next.
    pub col: isize,
    /// Whether the bytes are `u8`, which only a left factor may be.
    pub unsigned: bool,
}

/// One call of a kernel: `rows` of the left factor by a panel of the right one.
#[derive(Clone, Copy)]
pub struct ByteTile {
    /// Blocks of steps.
    pub blocks: usize,
    /// Rows that matter: at most [`ByteKernels::height`].
    pub rows: usize,
    /// Whether the left factor is `u8`.
    pub unsigned: bool,
    /// The copied left factor.
    pub a: *const u8,
    /// The copied right factor.
    pub b: *const u8,
    /// The sums.
    pub c: *mut i32,
    /// From one row to the next, in elements; what is added to an address, so that backwards it
    /// wraps around.
    pub c_row: usize,
    /// Whether `c` holds the sums of earlier blocks.
    pub resume: bool,
}

/// The functions of one instruction set.
pub struct ByteKernels {
    /// Its name.
    pub name: &'static str,
    /// Rows of a block of the left factor.
    pub height: usize,
    /// Columns of a block of the right factor.
    pub columns: usize,
    /// Steps of `k` in a block.
    pub steps: usize,
    /// Bytes of a block of the left factor: a multiple of 64.
    pub left: usize,
    /// Bytes of a block of the right factor: a multiple of 64.
    pub right: usize,
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
    pub tile: unsafe fn(&ByteTile),
    /// Copies the left factor, each `height` rows to a panel of blocks.
    ///
    /// # Safety
    ///
    /// The machine has the instructions; the source is valid to read, the target has the room.
    pub pack_left: unsafe fn(Bytes, *mut u8),
    /// Copies the right factor, each `columns` columns to a panel of blocks.
    ///
    /// # Safety
    ///
    /// As for `pack_left`.
    pub pack_right: unsafe fn(Bytes, *mut u8),
}

impl ByteKernels {
    /// Blocks of `k` steps.
    pub fn blocks(&self, k: usize) -> usize {
        k.div_ceil(self.steps)
    }
}

/// Steps in a block of 16-bit elements.
pub(crate) const WIDE_STEPS: usize = 32;

pub(crate) fn nothing() {}

/// Panels of `height` rows and blocks of `steps` steps, in the order of the source's memory, so that
/// reads stay within few pages: the target's block, and the part of the matrix.
pub(crate) fn parts(
    m: Bytes,
    (height, steps): (usize, usize),
) -> impl Iterator<Item = (usize, Bytes)> {
    let (panels, blocks) = (m.rows.div_ceil(height), m.cols.div_ceil(steps));
    (0..panels * blocks).map(move |i| {
        let (panel, block) = match m.row == 1 {
            true => (i % panels, i / panels),
            false => (i / blocks, i % blocks),
        };
        let (row, step) = (panel * height, block * steps);
        let part = Bytes {
            ptr: m.ptr.wrapping_offset(row as isize * m.row + step as isize * m.col),
            rows: (m.rows - row).min(height),
            cols: (m.cols - step).min(steps),
            ..m
        };
        (panel * blocks + block, part)
    })
}

/// Rows of the transposed matrix are its columns.
pub(crate) fn transposed(m: Bytes) -> Bytes {
    Bytes { rows: m.cols, cols: m.rows, row: m.col, col: m.row, ..m }
}

/// An element as 16 bits; zero beyond the end.
///
/// # Safety
///
/// The matrix is valid to read.
#[inline(always)]
pub(crate) unsafe fn wide(m: &Bytes, row: usize, col: usize) -> i16 {
    if row >= m.rows || col >= m.cols {
        return 0;
    }
    // SAFETY: inside the matrix.
    let byte = unsafe { *m.ptr.wrapping_offset(row as isize * m.row + col as isize * m.col) };
    if m.unsigned { i16::from(byte) } else { i16::from(byte as i8) }
}

/// Copies the left factor as 16 bits: rows of [`WIDE_STEPS`] steps.
///
/// # Safety
///
/// As [`ByteKernels::pack_left`].
pub(crate) unsafe fn left<const HEIGHT: usize>(a: Bytes, out: *mut u8) {
    for (block, a) in parts(a, (HEIGHT, WIDE_STEPS)) {
        let out = out.cast::<i16>().wrapping_add(block * HEIGHT * WIDE_STEPS);
        for i in 0..HEIGHT * WIDE_STEPS {
            // SAFETY: an element of the source, and of the block.
            unsafe { *out.add(i) = wide(&a, i / WIDE_STEPS, i % WIDE_STEPS) };
        }
    }
}

/// Copies the right factor as 16 bits: each so many steps, those of a column side by side.
///
/// # Safety
///
/// As [`ByteKernels::pack_right`].
pub(crate) unsafe fn right<const COLUMNS: usize, const SIDE: usize>(b: Bytes, out: *mut u8) {
    for (block, b) in parts(transposed(b), (COLUMNS, WIDE_STEPS)) {
        let out = out.cast::<i16>().wrapping_add(block * COLUMNS * WIDE_STEPS);
        for i in 0..COLUMNS * WIDE_STEPS {
            let (group, at) = (i / (SIDE * COLUMNS), i % (SIDE * COLUMNS));
            // SAFETY: as above.
            unsafe { *out.add(i) = wide(&b, at / SIDE, SIDE * group + at % SIDE) };
        }
    }
}

/// Rows and columns of a tile of the portable form.
const ROWS: usize = 4;
const COLUMNS: usize = 8;

/// Any machine.
pub static PORTABLE_BYTES: ByteKernels = ByteKernels {
    name: "portable",
    height: ROWS,
    columns: COLUMNS,
    steps: WIDE_STEPS,
    left: 2 * ROWS * WIDE_STEPS,
    right: 2 * COLUMNS * WIDE_STEPS,
    written: |rows| rows,
    enter: nothing,
    leave: nothing,
    tile,
    pack_left: left::<ROWS>,
    pack_right: right::<COLUMNS, 1>,
};

/// A step at a time: of two, as AVX2 has it, the compiler made no vectors.
///
/// # Safety
///
/// As [`ByteKernels::tile`].
#[allow(clippy::needless_range_loop)] // indices address the sums and the memory alike
unsafe fn tile(t: &ByteTile) {
    let mut sums = [[0i32; COLUMNS]; ROWS];
    let (mut a, mut b) = (t.a.cast::<i16>(), t.b.cast::<[i16; COLUMNS]>());
    // SAFETY: blocks of both factors, and the rows of `c`, by the caller's contract.
    unsafe {
        for _ in 0..t.blocks {
            for _ in 0..WIDE_STEPS {
                let y = b.read_unaligned();
                for i in 0..ROWS {
                    let x = i32::from(a.add(i * WIDE_STEPS).read_unaligned());
                    for j in 0..COLUMNS {
                        sums[i][j] = sums[i][j].wrapping_add(x * i32::from(y[j]));
                    }
                }
                (a, b) = (a.add(1), b.add(1));
            }
            a = a.add((ROWS - 1) * WIDE_STEPS);
        }
        for (i, sums) in sums.iter().enumerate().take(t.rows) {
            let c = t.c.wrapping_add(t.c_row.wrapping_mul(i));
            for (j, sum) in sums.iter().enumerate() {
                let before = if t.resume { *c.add(j) } else { 0 };
                *c.add(j) = before.wrapping_add(*sum);
            }
        }
    }
}
