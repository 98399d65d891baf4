//! Integers: sums wrap, so any order of terms gives the same result.

use super::drive::{PARALLEL_WORK, work};
use super::element::Element;
use super::scaling::{Finish, Scaling};
use super::view::{MatMut, MatRef};
use crate::cpu::threads;

/// # Safety
///
/// As [`super::gemm`]; the sizes fit.
pub(super) unsafe fn gemm<T: Element<Acc = T>>(
    a: MatRef,
    b: MatRef,
    out: MatMut,
    scaling: &Scaling,
) {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    let finish = Finish::<T>::new(scaling);
    let mut copy = Vec::new();
    let b = if b.col_stride == 1 || n == 0 {
        b
    } else {
        copy.reserve_exact(k * n);
        for p in 0..k {
            // SAFETY: inside the sizes.
            copy.extend((0..n).map(|j| unsafe { *b.at::<T>(p, j) }));
        }
        MatRef::row_major(copy.as_ptr().cast(), k, n)
    };
    let rows = |begin: usize, end: usize| {
        let mut sums = vec![T::ZERO; n];
        for i in begin..end {
            sums.fill(T::ZERO);
            // SAFETY: the caller's contract; ranges of rows are disjoint.
            unsafe {
                row(a, b, i, &mut sums);
                let one = out.block::<T>((i, i + 1), (0, n));
                let finish = Finish::<T> {
                    alpha: finish.alpha,
                    addend: finish
                        .addend
                        .map(|(beta, mat)| (beta, mat.block::<T>((i, i + 1), (0, n)))),
                };
                finish.store(MatRef::row_major(sums.as_ptr().cast(), 1, n), one);
            }
        }
    };
    if work(m, n, k) < PARALLEL_WORK {
        rows(0, m);
    } else {
        threads::parallel_ranges(m, (PARALLEL_WORK / 2).div_ceil((n * k).max(1)), &rows);
    }
}

/// Adds row `i` of the product to `sums`. Four rows of `b` at a time, so that `sums` is loaded a
/// quarter as often.
///
/// # Safety
///
/// `a` and `b` are valid to read, and the columns of `b` follow one another.
unsafe fn row<T: Element<Acc = T>>(a: MatRef, b: MatRef, i: usize, sums: &mut [T]) {
    let n = sums.len();
    // SAFETY: `p < k` at each use.
    let left = |p: usize| unsafe { *a.at::<T>(i, p) };
    // SAFETY: a row of `b` has `n` elements that follow one another.
    let right = |p: usize| unsafe { std::slice::from_raw_parts(b.at::<T>(p, 0), n) };
    let mut p = 0;
    while p + 4 <= a.cols {
        let x = [left(p), left(p + 1), left(p + 2), left(p + 3)];
        let y = [right(p), right(p + 1), right(p + 2), right(p + 3)];
        for (j, sum) in sums.iter_mut().enumerate() {
            let low = T::add(T::mul(x[0], y[0][j]), T::mul(x[1], y[1][j]));
            let high = T::add(T::mul(x[2], y[2][j]), T::mul(x[3], y[3][j]));
            *sum = T::add(*sum, T::add(low, high));
        }
        p += 4;
    }
    for p in p..a.cols {
        let (x, y) = (left(p), right(p));
        for (sum, &y) in sums.iter_mut().zip(y) {
            *sum = T::add(*sum, T::mul(x, y));
        }
    }
}
