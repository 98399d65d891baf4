//! Exchanges rows and columns of blocks of memory: squares are turned in registers.

use std::mem::size_of;

/// Each of `height` rows of `width` elements at `to` is a column at `from`: strides are in bytes, those
/// of neighbours in an output row and in a source column are the size of an element.
///
/// # Safety
///
/// The elements may be read and written, and do not overlap.
#[inline]
pub(crate) unsafe fn turn<T: Copy>(
    to: *mut u8,
    to_row: isize,
    from: *const u8,
    from_row: isize,
    width: usize,
    height: usize,
) {
    let size = size_of::<T>() as isize;
    let side = (16 / size_of::<T>()).min(8);
    let (whole_w, whole_h) = match cfg!(target_arch = "x86_64") {
        true => (width - width % side, height - height % side),
        false => (0, 0),
    };
    for j in (0..whole_w).step_by(side) {
        for i in (0..whole_h).step_by(side) {
            let (i, j) = (i as isize, j as isize);
            let to = to.wrapping_offset(i * to_row + j * size);
            let from = from.wrapping_offset(j * from_row + i * size);
            // SAFETY: a square within the block.
            unsafe {
                match size {
                    1 => square::of_bytes(to, to_row, from, from_row),
                    2 => square::of_words(to, to_row, from, from_row),
                    4 => square::of_32(to, to_row, from, from_row),
                    _ => square::of_64(to, to_row, from, from_row),
                }
            }
        }
    }
    for i in 0..height {
        for j in if i < whole_h { whole_w } else { 0 }..width {
            let (i, j) = (i as isize, j as isize);
            let to = to.wrapping_offset(i * to_row + j * size);
            let from = from.wrapping_offset(j * from_row + i * size);
            // SAFETY: an element of the block.
            unsafe { to.cast::<T>().write_unaligned(from.cast::<T>().read_unaligned()) };
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod square {
    use std::arch::x86_64::*;
    use std::array::from_fn;

    macro_rules! squares {
        ($($name:ident: $side:literal, $low:ident, $high:ident;)*) => {$(
            /// A square as wide as a register.
            ///
            /// # Safety
            ///
            /// Its elements may be read and written.
            #[inline(always)]
            pub(super) unsafe fn $name(
                to: *mut u8,
                to_row: isize,
                from: *const u8,
                from_row: isize,
            ) {
                let mut rows: [__m128i; $side] = from_fn(|r| {
                    let row = from.wrapping_offset(r as isize * from_row);
                    // SAFETY: as promised by the caller.
                    unsafe { _mm_loadu_si128(row.cast()) }
                });
                // each step puts the elements of one half of the rows between those of the other
                for _ in 0..usize::ilog2($side) {
                    rows = from_fn(|k| {
                        let (a, b) = (rows[k / 2], rows[k / 2 + $side / 2]);
                        // SAFETY: every x86-64 machine has SSE2.
                        unsafe { if k % 2 == 0 { $low(a, b) } else { $high(a, b) } }
                    });
                }
                for (r, row) in rows.into_iter().enumerate() {
                    let to = to.wrapping_offset(r as isize * to_row);
                    // SAFETY: as promised by the caller.
                    unsafe { _mm_storeu_si128(to.cast(), row) };
                }
            }
        )*};
    }

    /// A square of half a register: sixteen rows are more than compilers keep in registers.
    ///
    /// # Safety
    ///
    /// Its elements may be read and written.
    #[inline(always)]
    pub(super) unsafe fn of_bytes(to: *mut u8, to_row: isize, from: *const u8, from_row: isize) {
        // SAFETY: as promised by the caller; every x86-64 machine has SSE2.
        unsafe {
            let row = |r: usize| from.wrapping_offset(r as isize * from_row);
            let rows: [__m128i; 8] = from_fn(|r| _mm_loadl_epi64(row(r).cast()));
            let mut two: [__m128i; 4] = from_fn(|k| _mm_unpacklo_epi8(rows[k], rows[k + 4]));
            for _ in 0..2 {
                two = from_fn(|k| {
                    let (a, b) = (two[k / 2], two[k / 2 + 2]);
                    if k % 2 == 0 { _mm_unpacklo_epi8(a, b) } else { _mm_unpackhi_epi8(a, b) }
                });
            }
            for (k, two) in two.into_iter().enumerate() {
                let to = to.wrapping_offset(2 * k as isize * to_row);
                _mm_storel_epi64(to.cast(), two);
                _mm_storel_epi64(to.wrapping_offset(to_row).cast(), _mm_unpackhi_epi64(two, two));
            }
        }
    }

    squares! {
        of_words: 8, _mm_unpacklo_epi16, _mm_unpackhi_epi16;
        of_32: 4, _mm_unpacklo_epi32, _mm_unpackhi_epi32;
        of_64: 2, _mm_unpacklo_epi64, _mm_unpackhi_epi64;
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod square {
    macro_rules! none {
        ($($name:ident)*) => {$(
            pub(super) unsafe fn $name(_: *mut u8, _: isize, _: *const u8, _: isize) {
                unreachable!("squares are turned element by element")
            }
        )*};
    }
    none!(of_bytes of_words of_32 of_64);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Copy + PartialEq + std::fmt::Debug>(element: impl Fn(usize) -> T, zero: T) {
        for (width, height) in [(0, 3), (1, 1), (16, 16), (5, 33), (40, 7), (64, 48), (17, 50)] {
            let (from_row, to_row) = (height + 3, width + 1);
            let from: Vec<T> = (0..width * from_row + 1).map(element_of(&element)).collect();
            let mut to = vec![zero; height * to_row + 1];
            let size = size_of::<T>();
            // SAFETY: the block is within both.
            unsafe {
                turn::<T>(
                    to.as_mut_ptr().cast(),
                    (to_row * size) as isize,
                    from.as_ptr().cast(),
                    (from_row * size) as isize,
                    width,
                    height,
                );
            }
            for (at, &got) in to.iter().enumerate() {
                let (i, j) = (at / to_row, at % to_row);
                let inside = i < height && j < width;
                let want = if inside { from[j * from_row + i] } else { zero };
                assert_eq!(got, want, "{i}, {j} of {height}, {width}");
            }
        }
    }

    fn element_of<T>(f: &impl Fn(usize) -> T) -> impl Fn(usize) -> T {
        move |i| f(i + 1)
    }

    #[test]
    fn blocks_of_every_size_of_element() {
        check(|i| (i % 251) as u8, 0);
        check(|i| i as u16, 0);
        check(|i| i as u32, 0);
        check(|i| i as u64, 0);
    }
}
