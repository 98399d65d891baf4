//! f32 and f64.

use super::element::Element;
use super::{Finish, MatMut, MatRef, PARALLEL_WORK, Scaling, work};
use crate::cpu::threads;

/// An element that the float kernels compute in.
pub(super) trait Float: Element<Acc = Self> {}
impl Float for f32 {}
impl Float for f64 {}

/// # Safety
///
/// As [`super::gemm`]; the sizes fit.
pub(super) unsafe fn gemm<T: Float>(a: MatRef, b: MatRef, out: MatMut, scaling: &Scaling) {
    let finish = Finish::<T>::new(scaling);
    // SAFETY: the caller's contract; the scratch is dense with the sizes of `out`.
    unsafe {
        if finish.is_plain() {
            product::<T>(a, b, out);
        } else if finish.reads(out) {
            let mut sums = Vec::<T>::with_capacity(out.rows * out.cols);
            let target = MatMut::row_major(sums.as_mut_ptr().cast(), out.rows, out.cols);
            product::<T>(a, b, target);
            finish.store(target.as_ref(), out);
        } else {
            product::<T>(a, b, out);
            finish.store(out.as_ref(), out);
        }
    }
}

/// `out = a @ b`.
///
/// # Safety
///
/// As [`super::gemm`]; the sizes fit.
pub(super) unsafe fn product<T: Float>(a: MatRef, b: MatRef, out: MatMut) {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    if m == 0 || n == 0 {
        return;
    }
    let parts = if work(m, n, k) < PARALLEL_WORK {
        1
    } else {
        threads::num_threads()
    };
    // SAFETY: the caller's contract; the parts are disjoint.
    unsafe {
        if parts == 1 {
            by_crate::<T>(a, b, out);
        } else if n >= m {
            let width = n.div_ceil(2 * parts).next_multiple_of(32);
            threads::parallel_for(n.div_ceil(width), &|i| {
                let cols = (i * width, n.min((i + 1) * width));
                by_crate::<T>(a, b.block::<T>((0, k), cols), out.block::<T>((0, m), cols));
            });
        } else {
            let height = m.div_ceil(2 * parts).next_multiple_of(24);
            threads::parallel_for(m.div_ceil(height), &|i| {
                let rows = (i * height, m.min((i + 1) * height));
                by_crate::<T>(a.block::<T>(rows, (0, k)), b, out.block::<T>(rows, (0, n)));
            });
        }
    }
}

/// One thread, crate `gemm`.
///
/// # Safety
///
/// As [`product`].
unsafe fn by_crate<T: Float>(a: MatRef, b: MatRef, out: MatMut) {
    // SAFETY: the views are valid by the caller's contract; `out` is not read.
    unsafe {
        gemm::gemm::<T>(
            out.rows,
            out.cols,
            a.cols,
            out.ptr.cast(),
            out.col_stride,
            out.row_stride,
            false,
            a.ptr.cast(),
            a.col_stride,
            a.row_stride,
            b.ptr.cast(),
            b.col_stride,
            b.row_stride,
            T::ZERO,
            T::ONE,
            false,
            false,
            false,
            gemm::Parallelism::None,
        )
    }
}
