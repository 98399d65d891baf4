//! Windows of images as columns of a matrix, and back.

use super::super::KernelError;
use super::super::nest::{self, Shared};
use super::number::{Number, with_number};
use super::planes::{Planes, each_plane};
use straightline_passes::ir::DType;

/// Windows of `kernel` pixels over images of `image` pixels; height first everywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Columns {
    /// The image.
    pub image: [usize; 2],
    /// The window.
    pub kernel: [usize; 2],
    /// Between the taps of a window.
    pub dilation: [usize; 2],
    /// Zeros around the image.
    pub padding: [usize; 2],
    /// Between windows.
    pub stride: [usize; 2],
    /// How many windows there are.
    pub blocks: [usize; 2],
}

impl Columns {
    /// The window `block`'s tap `k` along an axis: a position of the image, unless it is padding.
    #[inline]
    fn position(&self, axis: usize, block: usize, k: usize) -> Option<usize> {
        // with one window, or one tap, the distance to the next may be as wide as numbers go
        let at = block
            .saturating_mul(self.stride[axis])
            .saturating_add(k.saturating_mul(self.dilation[axis]));
        at.checked_sub(self.padding[axis])
            .filter(|at| *at < self.image[axis])
    }

    /// Calls `f(element of the column matrix, pixel)` for all elements that are not padding.
    #[inline]
    fn each(&self, mut f: impl FnMut(usize, usize)) {
        let [rows, columns] = self.blocks;
        for kh in 0..self.kernel[0] {
            for kw in 0..self.kernel[1] {
                let base = (kh * self.kernel[1] + kw) * rows * columns;
                for bh in 0..rows {
                    let Some(h) = self.position(0, bh, kh) else {
                        continue;
                    };
                    for bw in 0..columns {
                        if let Some(w) = self.position(1, bw, kw) {
                            f(base + bh * columns + bw, h * self.image[1] + w);
                        }
                    }
                }
            }
        }
    }
}

/// For each channel, a matrix of `kernel` rows and `blocks` columns; padding is zeros.
///
/// # Safety
///
/// `input` is `count` images and may be read; `out` is as many matrices, may be written and
/// overlaps nothing; both have one dtype.
pub unsafe fn im2col(
    count: usize,
    out: Planes,
    input: Planes,
    columns: &Columns,
) -> Result<(), KernelError> {
    // SAFETY: as promised by the caller.
    unsafe {
        match out.dtype.size() {
            1 => expand::<u8>(count, out, input, columns),
            2 => expand::<u16>(count, out, input, columns),
            4 => expand::<u32>(count, out, input, columns),
            8 => expand::<u64>(count, out, input, columns),
            16 => expand::<u128>(count, out, input, columns),
            _ => return Err(KernelError::unsupported("im2col", out.dtype)),
        }
    }
    Ok(())
}

unsafe fn expand<T: Copy>(count: usize, out: Planes, input: Planes, columns: &Columns) {
    let (to, from) = (Shared(out.ptr), Shared(input.ptr));
    let (to_len, from_len, size) = (out.len, input.len, size_of::<T>());
    nest::parallel(count, to_len, &|first, last| {
        for plane in first..last {
            let to = to.at((plane * to_len * size) as isize);
            let from = from.at((plane * from_len * size) as isize);
            let from = from.cast_const().cast::<T>();
            // SAFETY: a plane of each; both positions are inside of theirs.
            unsafe {
                std::ptr::write_bytes(to, 0, to_len * size);
                columns.each(|element, pixel| {
                    let x = from.add(pixel).read_unaligned();
                    to.cast::<T>().add(element).write_unaligned(x);
                });
            }
        }
    });
}

/// Sums of half types round after each addition here, as PyTorch's do.
fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// The sum of the columns' elements at each pixel: the gradient of [`im2col`].
///
/// # Safety
///
/// As for [`im2col`], `input` being matrices and `out` images.
pub unsafe fn col2im(
    count: usize,
    out: Planes,
    input: Planes,
    columns: &Columns,
) -> Result<(), KernelError> {
    let (dtype, narrow) = (out.dtype, is_half(out.dtype));
    with_number!("col2im", out.dtype, A => {
        // SAFETY: as promised by the caller.
        unsafe {
            each_plane::<A, 1>(count, input.len, [input], out, &|_, [x], y| {
                columns.each(|element, pixel| {
                    let sum = y[pixel].plus(x[element]);
                    y[pixel] = if narrow { sum.held_as(dtype) } else { sum };
                });
            });
        }
        Ok(())
    })
}

/// The gradient of `unfold`: `grad` is `[windows, inner, size]` in each plane, `out` is `[n,
/// inner]`; window `w` begins at `w * step`.
///
/// # Safety
///
/// As for [`im2col`]; each window lies inside of `n`.
pub unsafe fn fold_windows(
    count: usize,
    out: Planes,
    grad: Planes,
    [inner, size, step]: [usize; 3],
) -> Result<(), KernelError> {
    let (dtype, narrow) = (out.dtype, is_half(out.dtype));
    with_number!("unfold_backward", out.dtype, A => {
        // SAFETY: as promised by the caller.
        unsafe {
            each_plane::<A, 1>(count, grad.len, [grad], out, &|_, [g], y| {
                for (k, taps) in g.chunks_exact(size.max(1)).enumerate() {
                    let (window, i) = (k / inner, k % inner);
                    for (t, v) in taps.iter().enumerate() {
                        let to = &mut y[(window * step + t) * inner + i];
                        let sum = to.plus(*v);
                        *to = if narrow { sum.held_as(dtype) } else { sum };
                    }
                }
            });
        }
        Ok(())
    })
}
