//! f32 and f64: which kernel computes a product.

use super::blocked::{Blocked, Blocks};
use super::drive::{Dots, Ending, Left, Panels, Product, Target};
use super::micro::Native;
use super::pack::{pack, packed_len, with_scratch};
use super::scaling::{Finish, Scaling};
use super::view::{MatMut, MatRef};

/// The ways to compute a product whose result has contiguous rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Path {
    /// Tiles that read a row-major `b` where it is.
    InPlace,
    /// Dot products of contiguous rows of `a` with contiguous columns of `b`.
    Dots,
    /// Tiles over a packed copy of `b`.
    Pack,
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
        // Beyond the second-level cache a row-major `b` in place costs more than its copy, if
        // enough rows use the copy.
        // The steps of a transposed `a` may all lie in one set of the first-level cache.
        let step = a.col_stride.unsigned_abs() * size_of::<T>();
        let conflicts = a.row_stride == 1 && k >= 32 && step.is_multiple_of(4096);
        match m > 16 && n > 1 && (bytes > 512 << 10 || conflicts) {
            true => Path::Blocked,
            false => Path::InPlace,
        }
    } else if b.row_stride == 1
        && a.col_stride == 1
        && (m <= 8 || m <= 16 && (k >= 128 || bytes > 2048 << 10))
    {
        Path::Dots
    } else if bytes > 8 << 20 {
        Path::Blocked
    } else {
        Path::Pack
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
            Path::Pack => {
                let bytes = packed_len(k, n, kernels.panel) * size_of::<T>();
                with_scratch(bytes, |scratch| {
                    pack::<T>(b, kernels.panel, scratch.cast());
                    product(Panels {
                        ptr: scratch.cast_const().cast(),
                        step: kernels.panel as isize,
                        panel: (k * kernels.panel) as isize,
                    })
                    .run();
                });
            }
            Path::Blocked => {
                Blocked { kernels, m, n, k, a: left, b: &b, c, blocks: Blocks::of::<T>() }.run()
            }
        }
    }
}
