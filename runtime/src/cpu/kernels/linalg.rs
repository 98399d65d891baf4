//! Factorisations and solves of small dense matrices, `f32` and `f64`, each in its own type.
//!
//! Matrices are column-major slices, as LAPACK has them; pivots and failures count from 1.

use super::real::Real;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// What the algorithms ask of an element.
pub trait Field:
    Real
    + PartialOrd
    + PartialEq
    + Default
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// 1.
    const ONE: Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// The size.
    fn abs(self) -> Self;
}

macro_rules! field {
    ($($t:ty)*) => {$(
        impl Field for $t {
            const ONE: Self = 1.0;
            fn sqrt(self) -> Self {
                <$t>::sqrt(self)
            }
            fn abs(self) -> Self {
                <$t>::abs(self)
            }
        }
    )*};
}
field!(f32 f64);

/// `y -= factor * x`.
fn subtract<T: Field>(y: &mut [T], factor: T, x: &[T]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = *y - factor * *x;
    }
}

fn dot<T: Field>(x: &[T], y: &[T]) -> T {
    x.iter()
        .zip(y)
        .fold(T::default(), |sum, (x, y)| sum + *x * *y)
}

/// Two different columns of `n` elements.
fn two_columns<T>(a: &mut [T], n: usize, first: usize, second: usize) -> (&mut [T], &mut [T]) {
    debug_assert!(first < second);
    let (low, high) = a.split_at_mut(second * n);
    (&mut low[first * n..(first + 1) * n], &mut high[..n])
}

/// LU with row exchanges, in place: `a` is `m` by `n`, `pivots` the row (from 1) exchanged with each of the first `min(m, n)`.
/// The result is the first column (from 1) whose pivot is zero, or 0.
pub fn lu<T: Field>(a: &mut [T], m: usize, n: usize, pivots: &mut [i32]) -> i32 {
    let mut info = 0;
    for j in 0..m.min(n) {
        let mut best = j;
        for i in j + 1..m {
            // NaN stays where it is found first
            if a[j * m + i].abs() > a[j * m + best].abs() {
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
            a[j * m + i] = a[j * m + i] / pivot;
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

/// Solves `a x = b` (or `a^T x = b`) in place for a triangular `n` by `n` matrix of which the other half is not read.
pub fn solve_triangular<T: Field>(
    a: &[T],
    n: usize,
    b: &mut [T],
    upper: bool,
    transposed: bool,
    unit: bool,
) {
    let diagonal = |i: usize| a[i * n + i];
    for x in b.chunks_exact_mut(n.max(1)) {
        let forward = upper == transposed;
        let mut step = |i: usize| {
            let column = &a[i * n..(i + 1) * n];
            if transposed {
                let known = if upper { 0..i } else { i + 1..n };
                x[i] = x[i] - dot(&column[known.clone()], &x[known]);
                if !unit {
                    x[i] = x[i] / diagonal(i);
                }
            } else {
                if !unit {
                    x[i] = x[i] / diagonal(i);
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

/// Solves `a x = b` (or `a^T x = b`) in place from the factors of [`lu`].
pub fn lu_solve<T: Field>(lu: &[T], n: usize, pivots: &[i32], b: &mut [T], transposed: bool) {
    if transposed {
        solve_triangular(lu, n, b, true, true, false);
        solve_triangular(lu, n, b, false, true, true);
        exchange(b, n, pivots, true);
    } else {
        exchange(b, n, pivots, false);
        solve_triangular(lu, n, b, false, false, true);
        solve_triangular(lu, n, b, true, false, false);
    }
}

/// Cholesky's factor in place, `a = l l^T` (`upper`: `a = u^T u`), the other half zeroed. The result is 0, or the order of the leading
/// minor that is not positive.
pub fn cholesky<T: Field>(a: &mut [T], n: usize, upper: bool) -> i32 {
    // (row, column) of the lower factor; the upper one is its mirror image
    let at = |i: usize, j: usize| if upper { i * n + j } else { j * n + i };
    for i in 0..n {
        for j in i + 1..n {
            a[at(i, j)] = T::default();
        }
    }
    for j in 0..n {
        let mut pivot = a[at(j, j)];
        for k in 0..j {
            pivot = pivot - a[at(j, k)] * a[at(j, k)];
        }
        let positive = pivot > T::default();
        if !positive {
            a[at(j, j)] = pivot;
            return j as i32 + 1;
        }
        let root = pivot.sqrt();
        a[at(j, j)] = root;
        for i in j + 1..n {
            let mut sum = a[at(i, j)];
            for k in 0..j {
                sum = sum - a[at(i, k)] * a[at(j, k)];
            }
            a[at(i, j)] = sum / root;
        }
    }
    0
}

/// Householder's QR in place: `r` above the diagonal, the reflectors below it, their factors in `tau`.
pub fn qr<T: Field>(a: &mut [T], m: usize, n: usize, tau: &mut [T]) {
    for j in 0..m.min(n) {
        let column = &mut a[j * m..(j + 1) * m];
        let rest = dot(&column[j + 1..], &column[j + 1..]);
        let alpha = column[j];
        if rest == T::default() {
            tau[j] = T::default();
            continue;
        }
        let norm = (alpha * alpha + rest).sqrt();
        let beta = if alpha < T::default() { norm } else { -norm };
        tau[j] = (beta - alpha) / beta;
        for x in &mut column[j + 1..] {
            *x = *x / (alpha - beta);
        }
        column[j] = beta;
        for c in j + 1..n {
            let (v, x) = two_columns(a, m, j, c);
            let sum = (x[j] + dot(&v[j + 1..], &x[j + 1..])) * tau[j];
            x[j] = x[j] - sum;
            subtract(&mut x[j + 1..], sum, &v[j + 1..]);
        }
    }
}

/// The first `columns` columns of the orthogonal matrix whose `k` reflectors [`qr`] left in `a`.
pub fn orthogonal<T: Field>(a: &[T], m: usize, tau: &[T], q: &mut [T], columns: usize) {
    for c in 0..columns {
        let x = &mut q[c * m..(c + 1) * m];
        x.fill(T::default());
        x[c] = T::ONE;
        for j in (0..tau.len()).rev() {
            let v = &a[j * m..(j + 1) * m];
            let sum = (x[j] + dot(&v[j + 1..], &x[j + 1..])) * tau[j];
            x[j] = x[j] - sum;
            subtract(&mut x[j + 1..], sum, &v[j + 1..]);
        }
    }
}

/// The singular values of an `m` by `n` matrix, `m >= n`, largest first, by rotations of pairs of columns (one-sided Jacobi). `a` becomes the
/// left singular vectors times the values, `v` (`n` by `n`, may be empty) the right ones.
pub fn singular_values<T: Field>(a: &mut [T], m: usize, n: usize, v: &mut [T], values: &mut [T]) {
    let with_v = !v.is_empty();
    for (i, x) in v.iter_mut().enumerate() {
        *x = if i % (n + 1) == 0 {
            T::ONE
        } else {
            T::default()
        };
    }
    let small = if size_of::<T>() == 4 { 1e-7 } else { 1e-15 };
    for _ in 0..60 {
        let mut turned = false;
        for p in 0..n {
            for q in p + 1..n {
                let (x, y) = two_columns(a, m, p, q);
                let (alpha, beta, gamma) = (dot(x, x).wide(), dot(y, y).wide(), dot(x, y).wide());
                let significant = gamma.abs() > small * (alpha * beta).sqrt();
                if !significant || !gamma.is_finite() {
                    continue;
                }
                turned = true;
                let zeta = (beta - alpha) / (2.0 * gamma);
                let t = zeta.signum() / (zeta.abs() + (1.0 + zeta * zeta).sqrt());
                let c = 1.0 / (1.0 + t * t).sqrt();
                let (c, s) = (T::narrow(c), T::narrow(c * t));
                rotate(x, y, c, s);
                if with_v {
                    let (x, y) = two_columns(v, n, p, q);
                    rotate(x, y, c, s);
                }
            }
        }
        if !turned {
            break;
        }
    }
    for j in 0..n {
        values[j] = dot(&a[j * m..(j + 1) * m], &a[j * m..(j + 1) * m]).sqrt();
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

/// Makes columns `from..` of the `m` by `columns` matrix `q`, whose columns before are orthonormal, orthonormal to all of them.
pub fn complete<T: Field>(q: &mut [T], m: usize, from: usize, columns: usize) {
    if from >= columns {
        return;
    }
    let (mut known, mut tau) = (q[..from * m].to_vec(), vec![T::default(); from]);
    qr(&mut known, m, from, &mut tau);
    let mut all = vec![T::default(); m * columns];
    orthogonal(&known, m, &tau, &mut all, columns);
    q[from * m..columns * m].copy_from_slice(&all[from * m..]);
}

/// `b := q b` or `q^T b` in place, `q` being the product of the reflectors that [`qr`] left in `a`; `b` has columns of `m`.
pub fn reflect_all<T: Field>(a: &[T], m: usize, tau: &[T], b: &mut [T], transposed: bool) {
    for x in b.chunks_exact_mut(m.max(1)) {
        let mut step = |j: usize| {
            let v = &a[j * m..(j + 1) * m];
            let sum = (x[j] + dot(&v[j + 1..], &x[j + 1..])) * tau[j];
            x[j] = x[j] - sum;
            subtract(&mut x[j + 1..], sum, &v[j + 1..]);
        };
        if transposed {
            (0..tau.len()).for_each(&mut step);
        } else {
            (0..tau.len()).rev().for_each(&mut step);
        }
    }
}

fn rotate<T: Field>(x: &mut [T], y: &mut [T], c: T, s: T) {
    for (x, y) in x.iter_mut().zip(y) {
        (*x, *y) = (c * *x - s * *y, s * *x + c * *y);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: [f64; 9] = [2.0, 1.0, -1.0, 0.5, 3.0, 4.0, 7.0, -2.0, 1.5];

    /// Column-major product of 3 by 3 matrices.
    fn times(a: &[f64], b: &[f64]) -> Vec<f64> {
        (0..9)
            .map(|e| (0..3).map(|k| a[k * 3 + e % 3] * b[e / 3 * 3 + k]).sum())
            .collect()
    }

    fn near(a: &[f64], b: &[f64]) {
        for (x, y) in a.iter().zip(b) {
            assert!((x - y).abs() < 1e-12, "{a:?} {b:?}");
        }
    }

    #[test]
    fn lu_solves_both_ways_and_finds_zero_pivots() {
        let (mut f, mut p) = (A, [0; 3]);
        assert_eq!(lu(&mut f, 3, 3, &mut p), 0);
        let mut x = A;
        lu_solve(&f, 3, &p, &mut x, false);
        near(&x, &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
        let mut y = [1.0, 2.0, 3.0];
        lu_solve(&f, 3, &p, &mut y, true);
        let back: Vec<f64> = (0..3).map(|j| dot(&A[j * 3..j * 3 + 3], &y)).collect();
        near(&back, &[1.0, 2.0, 3.0]);
        assert_eq!(lu(&mut [1.0, 2.0, 2.0, 4.0], 2, 2, &mut [0; 2]), 2);
    }

    #[test]
    fn cholesky_of_a_product_and_of_what_is_none() {
        let t: Vec<f64> = (0..9).map(|e| A[e % 3 * 3 + e / 3]).collect();
        let s = times(&A, &t);
        let mut l = s.clone();
        assert_eq!(cholesky(&mut l, 3, false), 0);
        let lt: Vec<f64> = (0..9).map(|e| l[e % 3 * 3 + e / 3]).collect();
        near(&times(&l, &lt), &s);
        let mut u = s.clone();
        assert_eq!(cholesky(&mut u, 3, true), 0);
        near(&u, &lt);
        assert_eq!(cholesky(&mut [1.0, 2.0, 2.0, 1.0], 2, false), 2);
    }

    #[test]
    fn qr_and_singular_values() {
        let (mut f, mut tau, mut q) = (A, [0.0; 3], [0.0; 9]);
        qr(&mut f, 3, 3, &mut tau);
        orthogonal(&f, 3, &tau, &mut q, 3);
        let r: Vec<f64> = (0..9)
            .map(|e| if e % 3 <= e / 3 { f[e] } else { 0.0 })
            .collect();
        near(&times(&q, &r), &A);
        let (mut u, mut v, mut s) = (A, [0.0; 9], [0.0; 3]);
        singular_values(&mut u, 3, 3, &mut v, &mut s);
        let vt: Vec<f64> = (0..9).map(|e| v[e % 3 * 3 + e / 3]).collect();
        near(&times(&u, &vt), &A);
        assert!(s[0] >= s[1] && s[1] >= s[2]);
    }
}
