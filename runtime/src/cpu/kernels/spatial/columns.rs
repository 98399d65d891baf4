//! Windows of images as columns of a matrix, and back.

use super::super::KernelError;
use super::super::nest;
use super::super::operand::{In, Out, ask};
use super::number::{Number, rounding, with_number};
use super::planes::{Planes, product};

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
    /// The sizes of a matrix: its rows, and its columns in two dimensions.
    fn matrix(&self, kernel: &'static str) -> Result<[usize; 3], KernelError> {
        Ok([product(kernel, self.kernel)?, self.blocks[0], self.blocks[1]])
    }

    fn pixels(&self) -> [usize; 3] {
        [1, self.image[0], self.image[1]]
    }

    /// The window `block`'s tap `k` along an axis: a position of the image, unless it is padding.
    #[inline]
    fn position(&self, axis: usize, block: usize, k: usize) -> Option<usize> {
        // with one window, or one tap, the distance to the next may be as wide as numbers go
        let at = block
            .saturating_mul(self.stride[axis])
            .saturating_add(k.saturating_mul(self.dilation[axis]));
        at.checked_sub(self.padding[axis]).filter(|at| *at < self.image[axis])
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
/// # Errors
///
/// Operands that are not as many images and matrices of these sizes, not row-major, or not of one
/// dtype.
pub fn im2col(out: Out<'_>, input: In<'_>, columns: &Columns) -> Result<(), KernelError> {
    const NAME: &str = "im2col";
    let p = Planes::new(NAME, out, input, columns.matrix(NAME)?, columns.pixels())?;
    match p.dtype().size() {
        1 => expand::<1>(p, columns),
        2 => expand::<2>(p, columns),
        4 => expand::<4>(p, columns),
        8 => expand::<8>(p, columns),
        16 => expand::<16>(p, columns),
        _ => Err(KernelError::unsupported(NAME, p.dtype())),
    }
}

fn expand<const N: usize>(p: Planes<'_>, columns: &Columns) -> Result<(), KernelError> {
    let (out_len, input_len) = (p.out_len, p.input_len);
    let from = p.input.bytes()?.as_chunks::<N>().0;
    let to = (p.out.bytes()?.as_chunks_mut::<N>().0, out_len);
    nest::parallel_chunks(p.count, out_len, to, &|planes, to| {
        for (plane, to) in planes.zip(to.chunks_exact_mut(out_len)) {
            let from = &from[plane * input_len..][..input_len];
            to.fill([0; N]);
            columns.each(|element, pixel| {
                // SAFETY: an element of the matrix, and a pixel of the image.
                unsafe { *to.get_unchecked_mut(element) = *from.get_unchecked(pixel) }
            });
        }
    });
    Ok(())
}

/// The sum of the columns' elements at each pixel: the gradient of [`im2col`].
///
/// # Errors
///
/// As for [`im2col`], `input` being matrices and `out` images.
pub fn col2im(out: Out<'_>, input: In<'_>, columns: &Columns) -> Result<(), KernelError> {
    const NAME: &str = "col2im";
    let p = Planes::new(NAME, out, input, columns.pixels(), columns.matrix(NAME)?)?;
    let (dtype, cost) = (p.dtype(), p.input_len);
    let rounding = rounding(dtype);
    with_number!(NAME, dtype, A => {
        p.each::<A>(cost, &|_, x, y| {
            columns.each(|element, pixel| {
                y[pixel] = y[pixel].plus_in(rounding, x[element]);
            });
        })
    })
}

/// The gradient of `unfold` along `dim`: window `w` begins at `w * step`, and its `size` elements
/// are the last dimension of `grad`. A tensor without dimensions has one of size 1.
///
/// # Errors
///
/// Operands whose sizes are not those of `unfold`, not row-major, or not of one dtype.
pub fn fold_windows(
    out: Out<'_>,
    grad: In<'_>,
    dim: usize,
    [size, step]: [usize; 2],
) -> Result<(), KernelError> {
    const NAME: &str = "unfold_backward";
    let sizes = out.sizes();
    let n = sizes.get(dim).map_or(1, |n| *n as usize);
    let inner = sizes.iter().skip(dim + 1).map(|n| *n as usize);
    let inner = product(NAME, inner)?;
    ask(NAME, step > 0 && size <= n, "windows within a dimension")?;
    let windows = (n - size) / step + 1;
    let p = Planes::new(NAME, out, grad, [1, n, inner], [windows, inner, size])?;
    let (dtype, cost) = (p.dtype(), p.input_len);
    let rounding = rounding(dtype);
    with_number!(NAME, dtype, A => {
        p.each::<A>(cost, &|_, g, y| {
            for (k, taps) in g.chunks_exact(size.max(1)).enumerate() {
                let (window, i) = (k / inner, k % inner);
                for (t, v) in taps.iter().enumerate() {
                    let to = &mut y[(window * step + t) * inner + i];
                    *to = to.plus_in(rounding, *v);
                }
            }
        })
    })
}
