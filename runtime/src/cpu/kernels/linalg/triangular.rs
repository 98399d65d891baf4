//! Equations with triangular matrices.

use super::{Field, finite, moderate, subtract};
use straightline_factor::Triangle;

/// How a matrix stands in an equation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// As it is.
    Plain,
    /// Transposed.
    Transposed,
    /// Transposed, and each element conjugated.
    Adjoint,
}

/// From this order on, and this many right sides, equations are faer's: by hand they take 3 to 12
/// times as long. At 4, complex ones are slower with the checks that faer needs; of a single right
/// side neither is faster.
const SOLVED: (usize, usize) = (8, 2);

/// Solves `a x = b` (or with `a` transposed) in place for a triangular `n` by `n` matrix of which
/// the other half is not read.
pub fn solve_triangular<T: Field>(
    a: &[T],
    n: usize,
    b: &mut [T],
    upper: bool,
    form: Form,
    unit: bool,
) {
    let transposed = form != Form::Plain;
    let many = n >= SOLVED.0 && b.len() >= SOLVED.1 * n;
    if many && divides(a, n, upper, unit) && finite(b) {
        let how = Triangle { upper, unit, transposed, conjugated: form == Form::Adjoint };
        return T::solve(a, n, b, how);
    }
    let element = |x: T| if form == Form::Adjoint { x.conj() } else { x };
    let diagonal = |i: usize| element(a[i * n + i]);
    for x in b.chunks_exact_mut(n.max(1)) {
        let forward = upper == transposed;
        let mut step = |i: usize| {
            let column = &a[i * n..(i + 1) * n];
            if transposed {
                let known = if upper { 0..i } else { i + 1..n };
                let sum = (column[known.clone()].iter().zip(&x[known]))
                    .fold(T::default(), |sum, (a, x)| sum + element(*a) * *x);
                x[i] = x[i] - sum;
                if !unit {
                    x[i] = x[i].over(diagonal(i));
                }
            } else {
                if !unit {
                    x[i] = x[i].over(diagonal(i));
                }
                let factor = x[i];
                let rest = if upper { 0..i } else { i + 1..n };
                subtract(&mut x[rest.clone()], factor, &column[rest]);
            }
        };
        if forward {
            (0..n).for_each(&mut step);
        } else {
            (0..n).rev().for_each(&mut step);
        }
    }
}

/// Whether a triangle has finite elements, and a diagonal whose reciprocals serve as well.
fn divides<T: Field>(a: &[T], n: usize, upper: bool, unit: bool) -> bool {
    a.chunks_exact(n).enumerate().all(|(j, column)| {
        let rest = if upper { &column[..j] } else { &column[j + 1..] };
        finite(rest) && (unit || moderate(column[j]))
    })
}
