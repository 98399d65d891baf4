//! How finished sums are scaled: factors and an addend.

use super::element::Element;
use super::view::{MatMut, MatRef};
use straightline_passes::ir::Scalar;

/// The result for a sum of products: `beta * addend + alpha * sum`.
#[derive(Clone, Copy, Debug)]
pub struct Scaling {
    /// Factor of the product.
    pub alpha: Scalar,
    /// The addend and its factor. It has the sizes of the result (broadcast by zero strides) and is
    /// either the result itself, element for element, or does not overlap it.
    pub addend: Option<(Scalar, MatRef)>,
}

impl Default for Scaling {
    /// The plain product.
    fn default() -> Self {
        Scaling { alpha: Scalar::Int(1), addend: None }
    }
}

/// The scaling in the accumulator type; no addend when `beta` is zero.
pub(super) struct Finish<T: Element> {
    pub(super) alpha: T::Acc,
    pub(super) addend: Option<(T::Acc, MatRef)>,
}

impl<T: Element> Finish<T> {
    pub(super) fn new(scaling: &Scaling) -> Self {
        Finish {
            alpha: T::scalar(scaling.alpha),
            addend: scaling
                .addend
                .map(|(beta, mat)| (T::scalar(beta), mat))
                .filter(|&(beta, _)| !T::is_zero(beta)),
        }
    }

    /// Whether the sum is the result.
    pub(super) fn is_plain(&self) -> bool {
        self.addend.is_none() && T::is_one(self.alpha)
    }

    /// Whether the addend is read from the memory that is written.
    pub(super) fn reads(&self, out: MatMut) -> bool {
        self.addend.is_some_and(|(_, mat)| std::ptr::eq(mat.ptr, out.ptr))
    }

    /// Writes `beta * addend + alpha * sum` to `out`.
    ///
    /// # Safety
    ///
    /// `sums` holds accumulators in the sizes of `out`, and may be `out` itself where both types
    /// are one; addend and `out` as for [`gemm()`](super::gemm()).
    pub(super) unsafe fn store(&self, sums: MatRef, out: MatMut) {
        let dense = sums.col_stride == 1 && out.col_stride == 1;
        for i in 0..out.rows {
            // SAFETY: the caller's contract for row `i`; with constant strides of one the loop
            // vectorises.
            unsafe {
                match self.addend {
                    Some((_, mat)) if dense && mat.col_stride == 1 => {
                        self.store_row(i, sums, out, [1, 1, 1])
                    }
                    None if dense => self.store_row(i, sums, out, [1, 1, 1]),
                    Some((_, mat)) => {
                        let steps = [sums.col_stride, out.col_stride, mat.col_stride];
                        self.store_row(i, sums, out, steps)
                    }
                    None => self.store_row(i, sums, out, [sums.col_stride, out.col_stride, 0]),
                }
            }
        }
    }

    /// Row `i`, with the column strides of sums, result and addend.
    ///
    /// # Safety
    ///
    /// As [`Self::store`].
    #[inline(always)]
    unsafe fn store_row(&self, i: usize, sums: MatRef, out: MatMut, steps: [isize; 3]) {
        let sum = sums.at::<T::Acc>(i, 0);
        let target = out.at::<T>(i, 0);
        let at = |j: usize, stride: isize| j as isize * stride;
        match self.addend {
            Some((beta, mat)) => {
                let term = mat.at::<T>(i, 0);
                for j in 0..out.cols {
                    // SAFETY: column `j` of each row.
                    unsafe {
                        let value = T::mul(self.alpha, *sum.wrapping_offset(at(j, steps[0])));
                        let term = (*term.wrapping_offset(at(j, steps[2]))).widen();
                        *target.wrapping_offset(at(j, steps[1])) =
                            T::round(T::add(value, T::mul(beta, term)));
                    }
                }
            }
            None => {
                for j in 0..out.cols {
                    // SAFETY: as above.
                    unsafe {
                        let value = *sum.wrapping_offset(at(j, steps[0]));
                        *target.wrapping_offset(at(j, steps[1])) =
                            T::round(T::mul(self.alpha, value));
                    }
                }
            }
        }
    }
}
