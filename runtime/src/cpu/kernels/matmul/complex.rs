//! Complex numbers: a real product, then the scaling.
//!
//! A row of complex numbers is a row of twice as many real ones. Times a right factor in which each
//! number `re + im i` stands as the two by two matrix `[re, im; -im, re]`, it gives the row of the
//! complex product: the same sums, of the terms in the same order, and none is skipped. The
//! matrices are written as the right factor is copied into panels, so nothing but panels holds
//! them.

use super::blocked::{Blocked, Blocks, Right, Source};
use super::drive::{Ending, Left, Target};
use super::micro::Native;
use super::scaling::Scaling;
use super::view::{MatMut, MatRef};
use num_complex::Complex;
use std::ops::{Add, Neg, Sub};
use straightline_passes::ir::Scalar;

/// A type of the parts of complex numbers.
pub(super) trait Part:
    Native + Neg<Output = Self> + Add<Output = Self> + Sub<Output = Self>
{
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
        let b = self.0.block::<Complex<P>>((rows.0 / 2, rows.1 / 2), (cols.0 / 2, cols.1 / 2));
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

/// So many rows are not worth a copy of `b`.
const FEW: usize = 4;

/// [`product`] of few rows with a `b` that has contiguous rows or columns, which is read where it
/// is: its real and imaginary parts as the columns, or the rows, of a real matrix, and `a` in two
/// real rows for each of its own.
///
/// # Safety
///
/// As [`product`].
unsafe fn few_rows<P: Part>(a: MatRef, b: MatRef, out: MatMut) {
    let (m, k, n) = (a.rows, a.cols, out.cols);
    let by_rows = b.col_stride == 1;
    // SAFETY: inside the sizes of a view that is valid to read.
    let at = |i, p| unsafe { *a.at::<Complex<P>>(i, p) };
    let mut left = Vec::<P>::with_capacity(4 * m * k);
    for turned in [false, true] {
        for (i, p) in (0..m).flat_map(|i| (0..k).map(move |p| (i, p))) {
            let x = at(i, p);
            match (by_rows, turned) {
                (true, false) => left.push(x.re),
                (true, true) => left.push(x.im),
                (false, false) => left.extend([x.re, -x.im]),
                (false, true) => left.extend([x.im, x.re]),
            }
        }
    }
    let (inner, width) = if by_rows { (k, 2 * n) } else { (2 * k, n) };
    let right = MatRef {
        ptr: b.ptr,
        rows: inner,
        cols: width,
        row_stride: if by_rows { 2 * b.row_stride } else { 1 },
        col_stride: if by_rows { 1 } else { 2 * b.col_stride },
    };
    let mut sums = vec![P::ZERO; 2 * m * width];
    // SAFETY: the same memory as `b`, in parts; `left` and `sums` have these sizes.
    unsafe {
        super::float::product::<P>(
            MatRef::row_major(left.as_ptr().cast(), 2 * m, inner),
            right,
            MatMut::row_major(sums.as_mut_ptr().cast(), 2 * m, width),
        );
    }
    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
        let (of, turned) = (&sums[i * width..], &sums[(m + i) * width..]);
        let x = match by_rows {
            true => Complex::new(of[2 * j] - turned[2 * j + 1], of[2 * j + 1] + turned[2 * j]),
            false => Complex::new(of[j], turned[j]),
        };
        // SAFETY: the caller's contract.
        unsafe { *out.at::<Complex<P>>(i, j) = x };
    }
}

/// `out = a @ b`, where the rows of `out` are dense.
///
/// # Safety
///
/// As [`super::gemm`]; the sizes fit.
pub(super) unsafe fn product<P: Part>(a: MatRef, b: MatRef, out: MatMut, blocks: Blocks) {
    let (m, k) = (a.rows, a.cols);
    if m <= FEW && (b.col_stride == 1 || b.row_stride == 1) {
        // SAFETY: the caller's contract.
        return unsafe { few_rows::<P>(a, b, out) };
    }
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
        a: Left { ptr: a.ptr.cast::<P>(), row: 2 * a.row_stride, step: 1, tiled: false },
        b: Right::Source(&Pairs(b)),
        c: Target { ptr: out.ptr.cast::<P>(), row: 2 * out.row_stride },
        blocks,
        ending: Ending::none(),
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
        return unsafe { product::<P>(a, b, out, Blocks::of::<P>(P::kernels().panel)) };
    }
    let mut sums = Vec::<Complex<P>>::with_capacity(m * n);
    let target = MatMut::row_major(sums.as_mut_ptr().cast(), m, n);
    // SAFETY: the caller's contract; `sums` has m rows of n, all of which the product writes.
    unsafe {
        product::<P>(a, b, target, Blocks::of::<P>(P::kernels().panel));
        sums.set_len(m * n);
    }
    for (i, row) in sums.chunks(n).enumerate() {
        for (j, &sum) in row.iter().enumerate() {
            let scaled = if plain { sum } else { P::mul_add(alpha, sum, zero) };
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
