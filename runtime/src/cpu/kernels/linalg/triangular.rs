//! Equations with triangular matrices.

use super::{Field, subtract};

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

/// Solves `a x = b` (or with `a` transposed) in place for a triangular `n` by `n` matrix of which the other half is not read.
pub fn solve_triangular<T: Field>(
    a: &[T],
    n: usize,
    b: &mut [T],
    upper: bool,
    form: Form,
    unit: bool,
) {
    let transposed = form != Form::Plain;
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
