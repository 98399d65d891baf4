//! f32 and f64: which kernel computes a product.

use super::drive::{Dots, Ending, Left, Panels, Product, Target};
use super::element::Element;
use super::micro::Native;
use super::pack::{Lines, pack, packed_len};
use super::{Finish, MatMut, MatRef, Scaling, drive};
use crate::cpu::threads;
use std::cell::RefCell;

/// An element that the float kernels compute in.
pub(super) trait Float: Element<Acc = Self> + Default {}
impl Float for f32 {}
impl Float for f64 {}

/// The ways to compute a product whose result has contiguous rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Path {
    /// Tiles that read a row-major `b` where it is.
    InPlace,
    /// Dot products of contiguous rows of `a` with contiguous columns of `b`.
    Dots,
    /// Tiles over a packed copy of `b`.
    Pack,
    /// Crate `gemm`, which packs both sides.
    Crate,
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
        // Beyond the second-level cache a row-major `b` in place costs more than the crate's copies.
        if m > 1 && bytes > 512 << 10 {
            Path::Crate
        } else {
            Path::InPlace
        }
    } else if b.row_stride == 1 && a.col_stride == 1 && (m <= 6 || m <= 16 && bytes > 2048 << 10) {
        Path::Dots
    } else if bytes > 8 << 20 {
        Path::Crate
    } else {
        Path::Pack
    }
}

thread_local! {
    /// Packed right factors of one call.
    static SCRATCH: RefCell<Lines> = RefCell::new(Lines::new(0));
}

/// A product by a given path.
///
/// # Safety
///
/// As [`rows`], and the path serves the layout: [`Path::InPlace`] needs contiguous rows of `b`, [`Path::Dots`] contiguous columns of `b`
/// and contiguous rows of `a`.
pub(super) unsafe fn by<T: Native>(path: Path, a: MatRef, b: MatRef, out: MatMut) {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    let kernels = T::kernels();
    let c = Target {
        ptr: out.ptr.cast(),
        row: out.row_stride,
    };
    let product = |b: Panels<T>| Product {
        kernels,
        m,
        n,
        k,
        a: Left {
            ptr: a.ptr.cast(),
            row: a.row_stride,
            step: a.col_stride,
        },
        b,
        c,
        ending: Ending::none(),
    };
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
            Path::Pack => SCRATCH.with(|scratch| {
                // Taken out, so that a nested call on this thread finds an empty one instead of a borrowed one.
                let mut lines = scratch.replace(Lines::new(0));
                lines.grow(packed_len(k, n, kernels.panel) * size_of::<T>());
                pack::<T>(b, kernels.panel, lines.ptr_mut());
                product(Panels {
                    ptr: lines.ptr(),
                    step: kernels.panel as isize,
                    panel: (k * kernels.panel) as isize,
                })
                .run();
                scratch.replace(lines);
            }),
            Path::Crate => by_crate::<T>(a, b, out),
        }
    }
}

/// The crate, split over our threads.
///
/// # Safety
///
/// As [`product`].
unsafe fn by_crate<T: Float>(a: MatRef, b: MatRef, out: MatMut) {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    let parts = if drive::estimate(m, n, k, size_of::<T>()) < drive::PARALLEL_NS {
        1
    } else {
        2 * threads::num_threads()
    };
    // SAFETY: the caller's contract; the parts are disjoint.
    unsafe {
        if parts <= 2 || threads::in_parallel() {
            by_crate_alone::<T>(a, b, out);
        } else if n >= m {
            let width = n.div_ceil(parts).next_multiple_of(32);
            threads::parallel_for(n.div_ceil(width), &|i| {
                let cols = (i * width, n.min((i + 1) * width));
                by_crate_alone::<T>(a, b.block::<T>((0, k), cols), out.block::<T>((0, m), cols));
            });
        } else {
            let height = m.div_ceil(parts).next_multiple_of(24);
            threads::parallel_for(m.div_ceil(height), &|i| {
                let rows = (i * height, m.min((i + 1) * height));
                by_crate_alone::<T>(a.block::<T>(rows, (0, k)), b, out.block::<T>(rows, (0, n)));
            });
        }
    }
}

/// # Safety
///
/// As [`product`].
unsafe fn by_crate_alone<T: Float>(a: MatRef, b: MatRef, out: MatMut) {
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
