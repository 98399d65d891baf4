//! f32 and f64: which kernel computes a product.

use super::blocked::{Blocked, Blocks, Right};
use super::caches::caches;
use super::drive::{Dots, Ending, Left, Panels, Product, Target};
use super::micro::Native;
use super::scaling::{Finish, Scaling};
use super::view::{MatMut, MatRef};

/// The ways to compute a product whose result has contiguous rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Path {
    /// Tiles that read a row-major `b` where it is.
    InPlace,
    /// Dot products of contiguous rows of `a` with contiguous columns of `b`.
    Dots,
    /// Tiles over copied blocks of both sides.
    Blocked,
}

/// # Safety
///
/// As [`super::gemm`]; the sizes fit.
pub(super) unsafe fn gemm<T: Native>(a: MatRef, b: MatRef, out: MatMut, scaling: &Scaling) {
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
pub(super) unsafe fn product<T: Native>(a: MatRef, b: MatRef, out: MatMut) {
    let (m, n) = (out.rows, out.cols);
    if m == 0 || n == 0 {
        return;
    }
    // SAFETY: the caller's contract.
    unsafe {
        if n == 1 && m > 1 && out.row_stride == 1 || out.col_stride != 1 && out.row_stride == 1 {
            // A matrix times a vector is a vector times the transposed matrix.
            rows::<T>(b.t(), a.t(), out.t());
        } else if out.col_stride == 1 || n == 1 {
            rows::<T>(a, b, out);
        } else {
            let mut dense = Vec::<T>::with_capacity(m * n);
            let target = MatMut::row_major(dense.as_mut_ptr().cast(), m, n);
            rows::<T>(a, b, target);
            for i in 0..m {
                for j in 0..n {
                    *out.at::<T>(i, j) = *target.at::<T>(i, j);
                }
            }
        }
    }
}

/// A product into contiguous rows.
///
/// # Safety
///
/// As [`product`], and `out.col_stride == 1` or one column.
unsafe fn rows<T: Native>(a: MatRef, b: MatRef, out: MatMut) {
    // SAFETY: the caller's contract; `choose` returns a path that serves the layout.
    unsafe { by::<T>(choose::<T>(a, b), a, b, out) }
}

/// The measurements behind this are in the documentation of [`super`].
fn choose<T: Native>(a: MatRef, b: MatRef) -> Path {
    let (m, n, k) = (a.rows, b.cols, b.rows);
    let bytes = n.saturating_mul(k).saturating_mul(size_of::<T>());
    if b.col_stride == 1 || n == 1 {
        // Several tiles of rows read a copy, unless all of `b` stays in the first cache. Two of them
        // read `b` where it is, if the rows of a panel do not lie in one set of that cache.
        let apart = |stride: isize| !(stride.unsigned_abs() * size_of::<T>()).is_multiple_of(4096);
        let tiles = m.div_ceil(T::kernels().max_rows());
        let few = tiles <= 1 || n == 1 || tiles == 2 && apart(b.row_stride);
        // So may the steps of a transposed `a`.
        let conflicts = a.row_stride == 1 && k >= 32 && !apart(a.col_stride);
        match (!few && bytes > caches().first / 2) || (tiles > 1 && n > 1 && conflicts) {
            true => Path::Blocked,
            false => Path::InPlace,
        }
    } else if b.row_stride == 1
        && a.col_stride == 1
        && (m <= 8 || m <= 16 && (k >= 128 || bytes > 2048 << 10))
    {
        Path::Dots
    } else {
        Path::Blocked
    }
}

/// A product by a given path.
///
/// # Safety
///
/// As [`rows`], and the path serves the layout: [`Path::InPlace`] needs contiguous rows of `b`,
/// [`Path::Dots`] contiguous columns of `b` and contiguous rows of `a`.
pub(super) unsafe fn by<T: Native>(path: Path, a: MatRef, b: MatRef, out: MatMut) {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    let kernels = T::kernels();
    let c = Target { ptr: out.ptr.cast(), row: out.row_stride };
    let left = Left { ptr: a.ptr.cast(), row: a.row_stride, step: a.col_stride, tiled: false };
    let product =
        |b: Panels<T>| Product { kernels, m, n, k, a: left, b, c, ending: Ending::none() };
    // SAFETY: the caller's contract.
    unsafe {
        match path {
            Path::InPlace => product(Panels {
                ptr: b.ptr.cast(),
                step: b.row_stride,
                panel: kernels.panel as isize,
            })
            .run(),
            Path::Dots => Dots {
                kernels,
                m,
                n,
                k,
                a: a.ptr.cast(),
                a_row: a.row_stride,
                b: b.ptr.cast(),
                b_col: b.col_stride,
                c,
            }
            .run(),
            Path::Blocked => Blocked {
                kernels,
                m,
                n,
                k,
                a: left,
                b: match b.col_stride == 1 {
                    true => Right::Rows(b.ptr.cast(), b.row_stride),
                    false => Right::Source(&b),
                },
                c,
                blocks: Blocks::of::<T>(kernels.panel),
                ending: Ending::none(),
            }
            .run(),
        }
    }
}
