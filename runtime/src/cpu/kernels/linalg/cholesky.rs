//! Cholesky's factor.

use super::{FACTORED, Field, Form, finite, solve_triangular};

/// Cholesky's factor in place, `a = l l^H` (`upper`: `a = u^H u`), the other half zeroed; of the
/// diagonal the real part is read. The result is 0, or the order of the leading minor that is not
/// positive.
pub fn cholesky<T: Field>(a: &mut [T], n: usize, upper: bool) -> i32 {
    // (row, column) of the lower factor; the upper one is its mirror image
    let at = |i: usize, j: usize| if upper { i * n + j } else { j * n + i };
    let clear = |a: &mut [T]| {
        for i in 0..n {
            for j in i + 1..n {
                a[at(i, j)] = T::default();
            }
        }
    };
    clear(a);
    if n >= FACTORED && finite(a) {
        let given = a.to_vec();
        a.iter_mut().step_by(n + 1).for_each(|x| *x = T::of(x.re()));
        if T::cholesky(a, n, upper) {
            clear(a);
            return 0;
        }
        // which minor it was, and what LAPACK leaves of the others
        a.copy_from_slice(&given);
    }
    for j in 0..n {
        let mut pivot = a[at(j, j)].re();
        for k in 0..j {
            let x = a[at(j, k)];
            pivot = pivot - (x * x.conj()).re();
        }
        let positive = pivot > Default::default();
        if !positive {
            a[at(j, j)] = T::of(pivot);
            return j as i32 + 1;
        }
        let root = T::of(pivot.root());
        a[at(j, j)] = root;
        for i in j + 1..n {
            let mut sum = a[at(i, j)];
            for k in 0..j {
                sum = sum - a[at(i, k)] * a[at(j, k)].conj();
            }
            a[at(i, j)] = sum.over(root);
        }
    }
    0
}

/// Solves `a x = b` in place from the factor that [`cholesky`] made of `a`.
pub fn cholesky_solve<T: Field>(factor: &[T], n: usize, b: &mut [T], upper: bool) {
    let (first, second) = match upper {
        true => (Form::Adjoint, Form::Plain),
        false => (Form::Plain, Form::Adjoint),
    };
    solve_triangular(factor, n, b, upper, first, false);
    solve_triangular(factor, n, b, upper, second, false);
}
