//! f16 and bf16: widened to f32, accumulated there, rounded once.

use super::element::Element;
use super::float;
use super::scaling::{Finish, Scaling};
use super::view::{MatMut, MatRef};

/// # Safety
///
/// As [`super::gemm`]; the sizes fit.
pub(super) unsafe fn gemm<T: Element<Acc = f32>>(
    a: MatRef,
    b: MatRef,
    out: MatMut,
    scaling: &Scaling,
) {
    let (m, n) = (a.rows, b.cols);
    // SAFETY: the caller's contract.
    let (wide_a, wide_b) = unsafe { (widen::<T>(a), widen::<T>(b)) };
    let mut sums = Vec::<f32>::with_capacity(m * n);
    // SAFETY: the three vectors are dense and have the room their sizes need; `product` writes all
    // of `sums`.
    unsafe {
        let target = MatMut::row_major(sums.as_mut_ptr().cast(), m, n);
        float::product::<f32>(view(&wide_a, a), view(&wide_b, b), target);
        Finish::<T>::new(scaling).store(target.as_ref(), out);
    }
}

/// Whether the rows of the copy are the columns of the matrix, so that copying reads memory in
/// order.
fn transposed(mat: MatRef) -> bool {
    mat.row_stride == 1 && mat.col_stride != 1
}

/// A dense copy in f32, in the order of the source.
///
/// # Safety
///
/// `mat` is valid to read as `T`.
pub(super) unsafe fn widen<T: Element<Acc = f32>>(mat: MatRef) -> Vec<f32> {
    let mat = if transposed(mat) { mat.t() } else { mat };
    let mut out = Vec::with_capacity(mat.rows * mat.cols);
    for i in 0..mat.rows {
        if mat.col_stride == 1 && mat.cols > 0 {
            // SAFETY: a row of `cols` elements that follow one another.
            let row = unsafe { std::slice::from_raw_parts(mat.at::<T>(i, 0), mat.cols) };
            out.extend(row.iter().map(|x| x.widen()));
        } else {
            // SAFETY: inside the sizes.
            out.extend((0..mat.cols).map(|j| unsafe { *mat.at::<T>(i, j) }.widen()));
        }
    }
    out
}

/// The view of the copy that [`widen`] made of `mat`.
pub(super) fn view(copy: &[f32], mat: MatRef) -> MatRef {
    if transposed(mat) {
        MatRef::row_major(copy.as_ptr().cast(), mat.cols, mat.rows).t()
    } else {
        MatRef::row_major(copy.as_ptr().cast(), mat.rows, mat.cols)
    }
}
