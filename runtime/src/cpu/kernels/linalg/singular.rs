//! Singular values and vectors.

use super::{Field, dot, identity, rotate, squarable, squares, two_columns};
use crate::cpu::kernels::real::Real;

/// From this order on singular values are faer's: with vectors, by hand they take 0.6 times as long
/// at 4, 1.4 to 2.4 times at 8, 9 to 14 times at 256. Single precision is computed in double.
const BIDIAGONAL: usize = 8;

/// The singular values of an `m` by `n` matrix, `m >= n`, largest first, and vectors. `a` becomes
/// the left singular vectors times the values, `v` (`n` by `n`, may be empty) the right ones.
pub fn singular_values<T: Field>(
    a: &mut [T],
    m: usize,
    n: usize,
    v: &mut [T],
    values: &mut [T::Part],
) {
    if n >= BIDIAGONAL && squarable(a) {
        let mut s = vec![0.0; n];
        if T::singular(a, m, n, v, &mut s) {
            for ((x, value), s) in a.chunks_exact_mut(m).zip(values).zip(s) {
                *value = T::Part::narrow(s);
                x.iter_mut().for_each(|x| *x = x.scaled(*value));
            }
            return;
        }
    }
    jacobi(a, m, n, v, values);
}

/// [`singular_values`] by rotations of pairs of columns (one-sided Jacobi).
fn jacobi<T: Field>(a: &mut [T], m: usize, n: usize, v: &mut [T], values: &mut [T::Part]) {
    let with_v = !v.is_empty();
    if with_v {
        v.copy_from_slice(&identity(n));
    }
    let small = if size_of::<T::Part>() == 4 { 1e-7 } else { 1e-15 };
    for _ in 0..60 {
        let mut turned = false;
        for p in 0..n {
            for q in p + 1..n {
                let (x, y) = two_columns(a, m, p, q);
                let (gamma, phase) = dot(x, y).polar();
                let (alpha, beta, gamma) = (squares(x).wide(), squares(y).wide(), gamma.wide());
                let significant = gamma.abs() > small * (alpha * beta).sqrt();
                if !significant || !gamma.is_finite() {
                    continue;
                }
                turned = true;
                let zeta = (beta - alpha) / (2.0 * gamma);
                let t = zeta.signum() / (zeta.abs() + (1.0 + zeta * zeta).sqrt());
                let c = 1.0 / (1.0 + t * t).sqrt();
                let (c, s) = (T::Part::narrow(c), T::Part::narrow(c * t));
                turn(x, y, phase, c, s);
                if with_v {
                    let (x, y) = two_columns(v, n, p, q);
                    turn(x, y, phase, c, s);
                }
            }
        }
        if !turned {
            break;
        }
    }
    for j in 0..n {
        values[j] = squares(&a[j * m..(j + 1) * m]).root();
    }
    for i in 0..n {
        let largest = (i..n).fold(i, |b, j| if values[j] > values[b] { j } else { b });
        if largest != i {
            values.swap(i, largest);
            let (x, y) = two_columns(a, m, i, largest);
            x.swap_with_slice(y);
            if with_v {
                let (x, y) = two_columns(v, n, i, largest);
                x.swap_with_slice(y);
            }
        }
    }
}

/// Takes `phase` from the second column, so that their inner product is real, and turns both.
fn turn<T: Field>(x: &mut [T], y: &mut [T], phase: T, c: T::Part, s: T::Part) {
    if phase != T::ONE {
        let back = phase.conj();
        y.iter_mut().for_each(|y| *y = *y * back);
    }
    rotate(x, y, c, s);
}
