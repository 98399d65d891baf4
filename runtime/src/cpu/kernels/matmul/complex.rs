//! Complex numbers: a real product, then the scaling.
//!
//! A row of complex numbers is a row of twice as many real ones. Times a right factor in which each number `re + im i` stands as the two
//! by two matrix `[re, im; -im, re]`, it gives the row of the complex product: the same sums, of the terms in the same order,
//! and none is skipped. The matrices are written as the right factor is copied into panels, so nothing but panels holds them.

use super::blocked::{Blocked, Blocks, Source};
use super::drive::{Left, Target};
use super::micro::Native;
use super::{MatMut, MatRef, Scaling};
use num_complex::Complex;
use straightline_passes::ir::Scalar;

/// A type of the parts of complex numbers.
pub(super) trait Part: Native + std::ops::Neg<Output = Self> {
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

/// A complex right factor as a real one of twice the rows and columns.
struct Pairs(MatRef);

impl<P: Part> Source<P> for Pairs {
    unsafe fn pack(&self, rows: (usize, usize), cols: (usize, usize), panel: usize, out: *mut P) {
        debug_assert!([rows.0, rows.1, panel].iter().all(|x| x.is_multiple_of(2)));
        let b = self
            .0
            .block::<Complex<P>>((rows.0 / 2, rows.1 / 2), (cols.0 / 2, cols.1 / 2));
        let pairs = panel / 2;
        for (index, col) in (0..b.cols).step_by(pairs).enumerate() {
            let count = pairs.min(b.cols - col);
            let out = out.wrapping_add(index * 2 * b.rows * panel);
            for p in 0..b.rows {
                let row = b.at::<Complex<P>>(p, col);
                // SAFETY: two rows of the panel in `out`, row `p` of these columns in `b`.
                unsafe {
                    let (first, second) = (out.add(2 * p * panel), out.add((2 * p + 1) * panel));
                    for j in 0..count {
                        let x = *row.wrapping_offset(j as isize * b.col_stride);
                        first.add(2 * j).write(x.re);
                        first.add(2 * j + 1).write(x.im);
                        second.add(2 * j).write(-x.im);
                        second.add(2 * j + 1).write(x.re);
                    }
                    for j in 2 * count..panel {
                        first.add(j).write(P::ZERO);
                        second.add(j).write(P::ZERO);
                    }
                }
            }
        }
    }
}

/// `out = a @ b`, where the rows of `out` are dense.
///
/// # Safety
///
/// As [`super::gemm`]; the sizes fit.
pub(super) unsafe fn product<P: Part>(a: MatRef, b: MatRef, out: MatMut, blocks: Blocks) {
    let (m, k) = (a.rows, a.cols);
    let mut dense = Vec::<Complex<P>>::new();
    // The parts of a number lie side by side, so its neighbour in the row has to follow.
    let a = if a.col_stride == 1 || k <= 1 {
        a
    } else {
        dense.reserve_exact(m * k);
        for i in 0..m {
            // SAFETY: inside the sizes of a view that is valid to read.
            dense.extend((0..k).map(|p| unsafe { *a.at::<Complex<P>>(i, p) }));
        }
        MatRef::row_major(dense.as_ptr().cast(), m, k)
    };
    let product = Blocked {
        kernels: P::kernels(),
        m,
        n: 2 * out.cols,
        k: 2 * k,
        a: Left {
            ptr: a.ptr.cast::<P>(),
            row: 2 * a.row_stride,
            step: 1,
            tiled: false,
        },
        b: &Pairs(b),
        c: Target {
            ptr: out.ptr.cast::<P>(),
            row: 2 * out.row_stride,
        },
        blocks: Blocks {
            k: blocks.k.next_multiple_of(2),
            ..blocks
        },
    };
    // SAFETY: the caller's contract; a complex number is two parts, the real one first.
    unsafe { product.run() }
}

/// # Safety
///
/// As [`super::gemm`]; the sizes fit.
pub(super) unsafe fn gemm<P: Part>(a: MatRef, b: MatRef, out: MatMut, scaling: &Scaling) {
    let (m, n) = (out.rows, out.cols);
    if m == 0 || n == 0 {
        return;
    }
    let zero = number::<P>(Scalar::Int(0));
    let alpha = number::<P>(scaling.alpha);
    let addend = scaling
        .addend
        .filter(|(beta, _)| beta.as_bool())
        .map(|(beta, mat)| (number::<P>(beta), mat));
    let plain = scaling.alpha.as_complex() == (1.0, 0.0);
    if plain && addend.is_none() && (out.col_stride == 1 || n == 1) {
        // SAFETY: the caller's contract, and the rows are dense.
        return unsafe { product::<P>(a, b, out, Blocks::of::<P>()) };
    }
    let mut sums = Vec::<Complex<P>>::with_capacity(m * n);
    let target = MatMut::row_major(sums.as_mut_ptr().cast(), m, n);
    // SAFETY: the caller's contract; `sums` has m rows of n, all of which the product writes.
    unsafe {
        product::<P>(a, b, target, Blocks::of::<P>());
        sums.set_len(m * n);
    }
    for (i, row) in sums.chunks(n).enumerate() {
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
