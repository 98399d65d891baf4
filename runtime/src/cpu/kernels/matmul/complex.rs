//! Complex numbers: the crate's product, then the scaling.

use super::{MatMut, MatRef, Scaling};
use num_complex::Complex;
use straightline_passes::ir::Scalar;

/// A type of the parts of complex numbers.
pub(super) trait Part: Copy + 'static {
    fn of(x: f64) -> Self;
    fn mul_add(a: Complex<Self>, b: Complex<Self>, c: Complex<Self>) -> Complex<Self>;
}

macro_rules! part {
    ($($t:ty),*) => {$(
        impl Part for $t {
            fn of(x: f64) -> Self {
                x as $t
            }
            fn mul_add(a: Complex<Self>, b: Complex<Self>, c: Complex<Self>) -> Complex<Self> {
                a * b + c
            }
        }
    )*};
}
part!(f32, f64);

fn number<P: Part>(s: Scalar) -> Complex<P> {
    let (re, im) = s.as_complex();
    Complex::new(P::of(re), P::of(im))
}

/// # Safety
///
/// As [`super::gemm`]; the sizes fit.
pub(super) unsafe fn gemm<P: Part>(a: MatRef, b: MatRef, out: MatMut, scaling: &Scaling) {
    let (zero, one) = (number::<P>(Scalar::Int(0)), number::<P>(Scalar::Int(1)));
    let (m, n) = (out.rows, out.cols);
    let mut sums = vec![zero; m * n];
    if m * n > 0 && a.cols > 0 {
        // SAFETY: the views are valid by the caller's contract; `sums` has m rows of n and is not read.
        unsafe {
            gemm::gemm::<Complex<P>>(
                m,
                n,
                a.cols,
                sums.as_mut_ptr(),
                1,
                n as isize,
                false,
                a.ptr.cast(),
                a.col_stride,
                a.row_stride,
                b.ptr.cast(),
                b.col_stride,
                b.row_stride,
                zero,
                one,
                false,
                false,
                false,
                gemm::Parallelism::None,
            );
        }
    }
    let alpha = number::<P>(scaling.alpha);
    let addend = scaling
        .addend
        .filter(|(beta, _)| beta.as_bool())
        .map(|(beta, mat)| (number::<P>(beta), mat));
    let plain = scaling.alpha.as_complex() == (1.0, 0.0);
    for (i, row) in sums.chunks(n.max(1)).enumerate() {
        for (j, &sum) in row.iter().enumerate() {
            let scaled = if plain {
                sum
            } else {
                P::mul_add(alpha, sum, zero)
            };
            // SAFETY: element (i, j) of views that are valid by the caller's contract.
            unsafe {
                *out.at::<Complex<P>>(i, j) = match addend {
                    Some((beta, mat)) => P::mul_add(beta, *mat.at::<Complex<P>>(i, j), scaled),
                    None => scaled,
                };
            }
        }
    }
}
