//! Moves elements of any type without converting them.

use super::Strided;
use super::nest::{self, GRAIN, Nest, step};

/// Moves `n` elements of type `T` between two strides (in bytes).
///
/// # Safety
///
/// Both sides have `n` elements at their strides.
#[inline(always)]
pub(super) unsafe fn move_strided<T: Copy>(
    dst: *mut u8,
    dst_step: isize,
    src: *const u8,
    src_step: isize,
    n: usize,
) {
    for i in 0..n as isize {
        // SAFETY: element i of each side.
        unsafe {
            let x = src.offset(i * src_step).cast::<T>().read_unaligned();
            dst.offset(i * dst_step).cast::<T>().write_unaligned(x);
        }
    }
}

/// [`move_strided`] for elements of `size` bytes.
///
/// # Safety
///
/// As for [`move_strided`].
pub(super) unsafe fn move_elements(
    size: usize,
    dst: *mut u8,
    dst_step: isize,
    src: *const u8,
    src_step: isize,
    n: usize,
) {
    // SAFETY: as promised by the caller.
    unsafe {
        if dst_step == size as isize && src_step == dst_step {
            std::ptr::copy(src, dst, n * size);
            return;
        }
        match size {
            1 => move_strided::<u8>(dst, dst_step, src, src_step, n),
            2 => move_strided::<u16>(dst, dst_step, src, src_step, n),
            4 => move_strided::<u32>(dst, dst_step, src, src_step, n),
            16 => move_strided::<u128>(dst, dst_step, src, src_step, n),
            _ => move_strided::<u64>(dst, dst_step, src, src_step, n),
        }
    }
}

/// `out = a`, of one dtype.
///
/// # Safety
///
/// The sizes are equal; the memory of both is what they say and may be accessed; the elements of
/// `out` are distinct and do not overlap `a`.
pub(super) unsafe fn copy_same(out: Strided<'_>, a: Strided<'_>) {
    let size = out.dtype.size();
    let numel = out.numel();
    if numel == 0 {
        return;
    }
    if numel <= GRAIN && out.is_contiguous() && a.is_contiguous() {
        // SAFETY: as promised by the caller.
        unsafe { std::ptr::copy(a.ptr, out.ptr, numel * size) };
        return;
    }
    let nest = Nest::new(&[out, a]);
    let [to, from] = nest.inner().strides;
    let across = nest.dims.iter().position(|d| d.strides[1] == size as isize);
    if let (true, Some(across @ 1..)) = (to == size as isize && from != 0, across) {
        // SAFETY: as promised by the caller.
        unsafe { transpose(&nest, across, size) };
        return;
    }
    // SAFETY: as promised by the caller.
    unsafe { nest.run(GRAIN, &|p, n| move_elements(size, p[0], to, p[1], from, n)) };
}

/// Sides of the squares that a transposition goes by: two squares of 8-byte elements fit the first
/// cache, and each line of the source is used whole before it is evicted.
pub(super) const SQUARE: usize = 32;

/// Copies where the output runs along the innermost dimension and the source along another one.
///
/// # Safety
///
/// As for [`copy_same`]; both strides named are those of neighbouring elements.
unsafe fn transpose(nest: &Nest<2>, across: usize, size: usize) {
    let inner = *nest.inner();
    let outer = nest.dims[across];
    let mut rest = nest.clone();
    rest.dims.remove(across);
    rest.dims.remove(0);
    let rows = outer.size.div_ceil(SQUARE);
    let others: usize = rest.dims.iter().map(|d| d.size).product();
    let element_work = inner.size * SQUARE;
    nest::parallel(others * rows, element_work, &|begin, end| {
        for item in begin..end {
            let (index, strip) = (item / rows, item % rows);
            let mut at = rest.element(index);
            let first = strip * SQUARE;
            let height = SQUARE.min(outer.size - first);
            step(&mut at, &outer.strides, first as isize);
            for start in (0..inner.size).step_by(SQUARE) {
                let width = SQUARE.min(inner.size - start);
                let to = at[0].wrapping_offset(start as isize * inner.strides[0]);
                let from = at[1].wrapping_offset(start as isize * inner.strides[1]);
                // SAFETY: a square within the bounds of both dimensions.
                unsafe {
                    match size {
                        1 => square::<u8>(
                            to,
                            outer.strides[0],
                            from,
                            inner.strides[1],
                            width,
                            height,
                        ),
                        2 => square::<u16>(
                            to,
                            outer.strides[0],
                            from,
                            inner.strides[1],
                            width,
                            height,
                        ),
                        4 => square::<u32>(
                            to,
                            outer.strides[0],
                            from,
                            inner.strides[1],
                            width,
                            height,
                        ),
                        16 => square::<u128>(
                            to,
                            outer.strides[0],
                            from,
                            inner.strides[1],
                            width,
                            height,
                        ),
                        _ => square::<u64>(
                            to,
                            outer.strides[0],
                            from,
                            inner.strides[1],
                            width,
                            height,
                        ),
                    }
                }
            }
        }
    });
}

/// One square: each of `height` output rows of `width` elements is a column of the source.
#[inline(always)]
unsafe fn square<T: Copy>(
    to: *mut u8,
    to_row: isize,
    from: *const u8,
    from_row: isize,
    width: usize,
    height: usize,
) {
    /// Blocks small enough to be turned in registers, and for their lines to share a set of the
    /// first cache.
    const B: usize = 8;
    let size = std::mem::size_of::<T>() as isize;
    let (whole_w, whole_h) = (width - width % B, height - height % B);
    for j in (0..whole_w).step_by(B) {
        for i in (0..whole_h).step_by(B) {
            // SAFETY: a block within the square.
            unsafe {
                let from = from.offset(j as isize * from_row + i as isize * size);
                let to = to.offset(i as isize * to_row + j as isize * size);
                let block: [[T; B]; B] = std::array::from_fn(|r| {
                    from.offset(r as isize * from_row).cast::<[T; B]>().read_unaligned()
                });
                #[allow(clippy::needless_range_loop)] // c is a column of the block
                for c in 0..B {
                    let turned: [T; B] = std::array::from_fn(|r| block[r][c]);
                    to.offset(c as isize * to_row).cast::<[T; B]>().write_unaligned(turned);
                }
            }
        }
    }
    // SAFETY: the rest of the square: a strip on the right of each row, and the rows below.
    unsafe {
        for i in 0..height {
            let start = if i < whole_h { whole_w } else { 0 };
            let to = to.offset(i as isize * to_row + start as isize * size);
            let from = from.offset(i as isize * size + start as isize * from_row);
            move_strided::<T>(to, size, from, from_row, width - start);
        }
    }
}
