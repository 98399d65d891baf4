//! Products of bytes with sums of 32 bits: the loops around the kernels of
//! [`straightline_microkernels::bytes`].
//!
//! Tiles write where the result is, those at its margins by way of the scratch memory. The steps are
//! divided where the copies would be too large, and the parts' sums added, which is exact.

use super::pack::{self, Lines};
use super::view::{MatMut, MatRef};
use super::{MatmulError, drive, instructions};
use crate::cpu::kernels::operand::{self, In, Out};
use straightline_microkernels::bytes::{ByteKernels, ByteTile, Bytes};
use straightline_passes::ir::DType;

/// Steps that are summed before the next panel.
const STEPS: usize = 4096;
/// Bytes of the copied right factor at a time, half of a second cache.
const RIGHT_BYTES: usize = 1 << 20;
/// Estimate from which a product is split over threads: see [`drive::PARALLEL_NS`].
const PARALLEL_NS: usize = drive::PARALLEL_NS;

/// The right factor.
#[derive(Clone, Copy)]
enum Right {
    /// A matrix of `i8`, copied block by block.
    Matrix(MatRef),
    /// All panels.
    Packed(*const u8),
}

/// A matrix of `i8` in panels, the right factor of many products.
pub(in crate::cpu::kernels) struct PackedBytes {
    kernels: &'static ByteKernels,
    k: usize,
    n: usize,
    data: Lines,
}

impl std::fmt::Debug for PackedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PackedBytes({}, {} by {})", self.kernels.name, self.k, self.n)
    }
}

impl PackedBytes {
    /// Packs the columns of a transposed matrix: `n` rows of `k` elements.
    ///
    /// # Panics
    ///
    /// If there are fewer elements.
    pub(in crate::cpu::kernels) fn transposed(rows: &[i8], n: usize, k: usize) -> PackedBytes {
        assert!(n.checked_mul(k).is_some_and(|len| len <= rows.len()));
        let kernels = kernels();
        let mut data = Lines::new(n.div_ceil(kernels.columns) * kernels.blocks(k) * kernels.right);
        let b = MatRef::row_major(rows.as_ptr().cast(), n, k).t();
        // SAFETY: the slice covers the matrix, and the room was just made.
        unsafe { (kernels.pack_right)(source(b, false), data.ptr_mut()) };
        PackedBytes { kernels, k, n, data }
    }

    /// `out = x @ self` for as many dense rows of `x` as `out` has; on this thread.
    ///
    /// # Panics
    ///
    /// If the slices are shorter than the rows.
    pub(in crate::cpu::kernels) fn rows(&self, x: &[u8], out: &mut [i32]) {
        let m = out.len().checked_div(self.n).unwrap_or(0);
        assert!(m * self.k <= x.len());
        let product = Product {
            kernels: self.kernels,
            a: MatRef::row_major(x.as_ptr(), m, self.k),
            unsigned: true,
            b: Right::Packed(self.data.ptr()),
            out: MatMut::row_major(out.as_mut_ptr().cast(), m, self.n),
        };
        // SAFETY: the slices cover the matrices, the panels are those of these kernels.
        unsafe { product.part((0, m), (0, self.n.div_ceil(self.kernels.columns))) }
    }
}

/// A product of bytes, whose result has contiguous rows.
struct Product {
    kernels: &'static ByteKernels,
    a: MatRef,
    /// Whether the left factor is `u8`.
    unsigned: bool,
    b: Right,
    out: MatMut,
}

// SAFETY: the pointers are used by the threads of one call, on disjoint parts of the result.
unsafe impl Sync for Product {}

impl Product {
    /// Runs the product, split over threads if that is worth it.
    ///
    /// # Safety
    ///
    /// The factors are valid to read and the result to write; the kernels fit the machine.
    unsafe fn run(&self) {
        let (m, n, k) = (self.out.rows, self.out.cols, self.a.cols);
        if m == 0 || n == 0 {
            return;
        }
        let tiles = (self.kernels.columns, self.kernels.height);
        let parallel = estimate(m, n, k) >= PARALLEL_NS;
        drive::split_tiles(tiles, parallel, (m, n), &|rows, panels| {
            // SAFETY: the caller's contract; the parts are apart.
            unsafe { self.part(rows, panels) }
        });
    }

    /// Rows `m0..m1` of panels `p0..p1`, on this thread.
    ///
    /// # Safety
    ///
    /// As [`Self::run`].
    unsafe fn part(&self, (m0, m1): (usize, usize), (p0, p1): (usize, usize)) {
        let ByteKernels { height, columns, steps, left, right, .. } = *self.kernels;
        let all = self.kernels.blocks(self.a.cols);
        let depth = all.clamp(1, STEPS / steps);
        let width = (RIGHT_BYTES / (depth * right)).clamp(1, (p1 - p0).max(1));
        let of_a = depth * left;
        let of_c = height * columns * size_of::<i32>();
        let of_b = match self.b {
            Right::Matrix(_) => width * depth * right,
            Right::Packed(_) => 0,
        };
        pack::with_scratch(of_a + of_c + of_b, |a| {
            let c: *mut i32 = a.wrapping_add(of_a).cast();
            let room = a.wrapping_add(of_a + of_c);
            // SAFETY: the kernels fit the machine, and the guard's end comes after the last tile.
            let _tiles = unsafe { Entered::new(self.kernels) };
            for q0 in (p0..p1).step_by(width) {
                let q1 = p1.min(q0 + width);
                let mut from = 0;
                loop {
                    let to = all.min(from + depth);
                    let of_k = (from * steps, self.a.cols.min(to * steps));
                    let (panels, step) = match self.b {
                        Right::Matrix(b) => {
                            let cols = (q0 * columns, b.cols.min(q1 * columns));
                            let b = source(b.block::<u8>(of_k, cols), false);
                            // SAFETY: these steps and columns of the factor; there is room for
                            // `width` panels of `depth` blocks.
                            unsafe { (self.kernels.pack_right)(b, room) };
                            (room.cast_const(), (to - from) * right)
                        }
                        Right::Packed(b) => {
                            (b.wrapping_add((q0 * all + from) * right), all * right)
                        }
                    };
                    for row in (m0..m1).step_by(height) {
                        let rows = (row, m1.min(row + height));
                        let part = source(self.a.block::<u8>(rows, of_k), self.unsigned);
                        // SAFETY: these rows and steps of the factor; there is room for `depth`
                        // blocks.
                        unsafe { (self.kernels.pack_left)(part, a) };
                        for q in q0..q1 {
                            let call = ByteTile {
                                blocks: to - from,
                                rows: rows.1 - rows.0,
                                unsigned: self.unsigned,
                                a,
                                b: panels.wrapping_add((q - q0) * step),
                                c,
                                c_row: columns,
                                resume: from > 0,
                            };
                            // SAFETY: the copied panels, and tiles were entered.
                            unsafe { self.tile(call, m1 - row, (row, q * columns)) };
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

    /// A tile that begins at a row, of which there are `left` for this thread, and a column. The
    /// call has the scratch memory for its sums.
    ///
    /// # Safety
    ///
    /// As [`Self::run`]; the tiles of this thread were entered.
    unsafe fn tile(&self, call: ByteTile, left: usize, (row, col): (usize, usize)) {
        let cols = self.kernels.columns.min(self.out.cols - col);
        let c: *mut i32 = self.out.at(row, col);
        let c_row = self.out.row_stride;
        // SAFETY: the caller's contract: what a tile writes is this thread's, or scratch memory.
        unsafe {
            if cols == self.kernels.columns && (self.kernels.written)(call.rows) <= left {
                return (self.kernels.tile)(&ByteTile { c, c_row: c_row as usize, ..call });
            }
            (self.kernels.tile)(&ByteTile { resume: false, ..call });
            for i in 0..call.rows {
                let to = c.wrapping_offset(i as isize * c_row);
                for j in 0..cols {
                    let sum = *call.c.add(i * call.c_row + j);
                    let before = if call.resume { *to.add(j) } else { 0 };
                    *to.add(j) = sum.wrapping_add(before);
                }
            }
        }
    }
}

/// A thread that may use the kernels' registers, until this is dropped.
struct Entered(&'static ByteKernels);

impl Entered {
    /// # Safety
    ///
    /// The kernels fit the machine.
    unsafe fn new(kernels: &'static ByteKernels) -> Entered {
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

fn source(mat: MatRef, unsigned: bool) -> Bytes {
    Bytes {
        ptr: mat.ptr,
        rows: mat.rows,
        cols: mat.cols,
        row: mat.row_stride,
        col: mat.col_stride,
        unsigned,
    }
}

/// Estimated nanoseconds of one core: the multiply-adds, and copies.
fn estimate(m: usize, n: usize, k: usize) -> usize {
    let area = |x: usize, y: usize| x.saturating_mul(y) / 16;
    (drive::work(m, n, k) / 400)
        .saturating_add(area(n, k))
        .saturating_add(area(m, k))
        .saturating_add(area(m, n))
}

/// `out = a @ b` in `i32`, for `i8` or, where `unsigned`, `u8` by `i8`.
///
/// # Safety
///
/// As [`super::gemm`], of these dtypes; the sizes fit, the kernels fit the machine.
pub(super) unsafe fn product(
    kernels: &'static ByteKernels,
    (a, unsigned): (MatRef, bool),
    b: MatRef,
    out: MatMut,
) {
    let run = |out| {
        let product = Product { kernels, a, unsigned, b: Right::Matrix(b), out };
        // SAFETY: the caller's contract.
        unsafe { product.run() }
    };
    if out.col_stride == 1 || out.cols <= 1 {
        return run(out);
    }
    let mut dense = vec![0i32; out.rows * out.cols];
    let target = MatMut::row_major(dense.as_mut_ptr().cast(), out.rows, out.cols);
    run(target);
    for (i, j) in (0..out.rows).flat_map(|i| (0..out.cols).map(move |j| (i, j))) {
        // SAFETY: elements of both.
        unsafe { *out.at::<i32>(i, j) = *target.at::<i32>(i, j) };
    }
}

/// `out = a @ b` of matrices: `out` is `i32`, `a` `i8` or `u8`, `b` `i8`. Sums are exact, and wrap
/// around beyond 32 bits.
///
/// # Errors
/// Sizes that do not fit, other dtypes, operands that are not aligned or lie on the result.
pub fn int_product(out: Out<'_>, a: In<'_>, b: In<'_>) -> Result<(), MatmulError> {
    const NAME: &str = "a product of bytes";
    operand::apart(NAME, &[a, b])?;
    let (out, a, b) = (out.raw(), a.raw(), b.raw());
    let byte = a.dtype == DType::I8 || a.dtype == DType::U8;
    let dtypes = byte && b.dtype == DType::I8 && out.dtype == DType::I32;
    operand::ask(NAME, dtypes, "i8 or u8 by i8 into i32")?;
    let matrices = [&out, &a, &b].iter().all(|t| t.sizes.len() == 2 && t.is_aligned());
    operand::ask(NAME, matrices, "aligned matrices")?;
    let sizes = |t: &super::Strided<'_>| (t.sizes[0] as usize, t.sizes[1] as usize);
    let strides = |t: &super::Strided<'_>| (t.strides[0] as isize, t.strides[1] as isize);
    let left = MatRef::new(a.ptr, sizes(&a), strides(&a));
    let right = MatRef::new(b.ptr, sizes(&b), strides(&b));
    let to = MatMut::new(out.ptr, sizes(&out), strides(&out));
    super::check(left, right, to, &super::Scaling::default())?;
    // SAFETY: operands apart, aligned and of these dtypes and sizes.
    unsafe { product(kernels(), (left, a.dtype == DType::U8), right, to) };
    Ok(())
}

/// The kernels for bytes of this machine, at the instruction set in use.
#[inline]
pub(super) fn kernels() -> &'static ByteKernels {
    instructions::chosen_bytes()
}
