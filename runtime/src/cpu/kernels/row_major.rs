//! Row-major operands with other sizes, as kernels of rows take them.

use super::KernelError;
use super::Strided;
use super::operand::{In, Out, ask};
use straightline_passes::ir::Dims;
use straightline_passes::ir::layout::{contiguous_strides, numel};

/// The sizes and strides of a row-major operand: arrays, or [`Dims`] where the number of
/// dimensions is not known.
///
/// ```
/// use straightline_runtime::cpu::kernels::RowMajor;
/// let rows = RowMajor::new([3, 4]);
/// assert_eq!((rows.sizes(), rows.strides()), (&[3, 4][..], &[4, 1][..]));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RowMajor<S> {
    sizes: S,
    strides: S,
}

impl RowMajor<Dims> {
    /// [`RowMajor::new`] for any number of dimensions.
    #[inline]
    pub fn of(sizes: Dims) -> RowMajor<Dims> {
        let strides = contiguous_strides(&sizes);
        RowMajor { sizes, strides }
    }
}

impl<const N: usize> RowMajor<[i64; N]> {
    /// Row-major strides for these sizes.
    #[inline]
    pub fn new(sizes: [i64; N]) -> RowMajor<[i64; N]> {
        let mut strides = [1; N];
        for d in (1..N).rev() {
            strides[d - 1] = sizes[d].max(1).saturating_mul(strides[d]);
        }
        RowMajor { sizes, strides }
    }
}

impl<S: AsRef<[i64]>> RowMajor<S> {
    /// The sizes.
    pub fn sizes(&self) -> &[i64] {
        self.sizes.as_ref()
    }

    /// The strides in elements.
    pub fn strides(&self) -> &[i64] {
        self.strides.as_ref()
    }

    /// An input in these sizes.
    ///
    /// # Errors
    /// It is not row-major, or has another number of elements.
    #[inline]
    pub fn input<'a>(&'a self, x: In<'a>) -> Result<In<'a>, KernelError> {
        let raw = self.seen(x.raw())?;
        // SAFETY: the same elements as those of `x`.
        Ok(unsafe {
            match x.is_upon() {
                true => In::upon(raw),
                false => In::new(raw),
            }
        })
    }

    /// An output in these sizes.
    ///
    /// # Errors
    /// It is not row-major, or has another number of elements.
    #[inline]
    pub fn output<'a>(&'a self, x: Out<'a>) -> Result<Out<'a>, KernelError> {
        // SAFETY: the same elements as those of `x`, which is used up.
        Ok(unsafe { Out::new(self.seen(x.raw())?) })
    }

    #[inline]
    fn seen<'a>(&'a self, raw: Strided<'a>) -> Result<Strided<'a>, KernelError> {
        let (sizes, strides) = (self.sizes(), self.strides());
        let fits = sizes.iter().all(|s| *s >= 0)
            && raw.is_contiguous()
            && numel(sizes) == numel(raw.sizes);
        ask("a row-major view", fits, "as many elements, row by row")?;
        Ok(Strided { sizes, strides, ..raw })
    }
}

#[cfg(test)]
mod tests {
    use super::super::operand::tests::{input, output};
    use super::*;

    #[test]
    fn as_many_elements_row_by_row() {
        let (x, mut y) = ([0f32; 6], [0f32; 6]);
        let (two, four) = (RowMajor::new([2, 3]), RowMajor::new([4]));
        assert_eq!(two.input(input(&x)).unwrap().strides(), [3, 1]);
        assert_eq!(two.output(output(&mut y)).unwrap().sizes(), [2, 3]);
        assert!(four.input(input(&x)).is_err());
        assert!(RowMajor::new([-2, -3]).input(input(&x)).is_err());
        let seen = two.input(input(&x)).unwrap();
        // a matrix on its side has its elements in another order
        let turned = Strided { sizes: &[3, 2], strides: &[1, 3], ..seen.raw() };
        // SAFETY: the same elements.
        let turned = unsafe { In::new(turned) };
        assert!(RowMajor::new([6]).input(turned).is_err());
    }
}
