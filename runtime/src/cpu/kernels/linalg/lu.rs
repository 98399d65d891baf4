//! LU factorisation with row exchanges.

use super::{FACTORED, Field, Form, finite, moderate, solve_triangular, subtract, two_columns};

/// LU with row exchanges, in place: `a` is `m` by `n`, `pivots` the row (from 1) exchanged with
/// each of the first `min(m, n)`. The result is the first column (from 1) whose pivot is zero,
/// or 0.
pub fn lu<T: Field>(a: &mut [T], m: usize, n: usize, pivots: &mut [i32]) -> i32 {
    if m.min(n) >= FACTORED && finite(a) {
        let given = a.to_vec();
        T::lu(a, m, n, pivots);
        // faer multiplies by reciprocals
        if (0..m.min(n)).all(|j| moderate(a[j * m + j])) {
            return 0;
        }
        a.copy_from_slice(&given);
    }
    lu_by_columns(a, m, n, pivots)
}

/// [`lu`] a column after another.
pub(super) fn lu_by_columns<T: Field>(a: &mut [T], m: usize, n: usize, pivots: &mut [i32]) -> i32 {
    let mut info = 0;
    for j in 0..m.min(n) {
        let mut best = j;
        for i in j + 1..m {
            // NaN stays where it is found first
            if a[j * m + i].taxi() > a[j * m + best].taxi() {
                best = i;
            }
        }
        pivots[j] = best as i32 + 1;
        let pivot = a[j * m + best];
        if pivot == T::default() {
            if info == 0 {
                info = j as i32 + 1;
            }
            continue;
        }
        if best != j {
            for c in 0..n {
                a.swap(c * m + j, c * m + best);
            }
        }
        for i in j + 1..m {
            a[j * m + i] = a[j * m + i].over(pivot);
        }
        for c in j + 1..n {
            let (left, right) = two_columns(a, m, j, c);
            let factor = right[j];
            if factor != T::default() {
                subtract(&mut right[j + 1..], factor, &left[j + 1..]);
            }
        }
    }
    info
}

/// Exchanges rows of `b` (`n` by `r`) as [`lu`] did, or back.
pub fn exchange<T: Field>(b: &mut [T], n: usize, pivots: &[i32], back: bool) {
    for column in b.chunks_exact_mut(n.max(1)) {
        let mut swap = |i: usize| {
            let to = pivots[i] as usize - 1;
            if to < n {
                column.swap(i, to);
            }
        };
        if back {
            (0..pivots.len()).rev().for_each(&mut swap);
        } else {
            (0..pivots.len()).for_each(&mut swap);
        }
    }
}

/// Solves `a x = b`, or with `a` transposed, in place from the factors of [`lu`].
pub fn lu_solve<T: Field>(lu: &[T], n: usize, pivots: &[i32], b: &mut [T], form: Form) {
    if form == Form::Plain {
        exchange(b, n, pivots, false);
        solve_triangular(lu, n, b, false, form, true);
        solve_triangular(lu, n, b, true, form, false);
    } else {
        solve_triangular(lu, n, b, true, form, false);
        solve_triangular(lu, n, b, false, form, true);
        exchange(b, n, pivots, true);
    }
}
