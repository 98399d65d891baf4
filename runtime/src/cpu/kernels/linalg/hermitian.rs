//! Eigenvalues and eigenvectors of symmetric matrices, and of Hermitian ones, in double precision:
//! Householder's tridiagonal form, which is real, and QL steps with implicit shifts.

use super::general::STEPS;
use super::qr::{reflect, reflector};
use super::{Field, dot, identity, rotate, squarable, two_columns};

/// From this order on the eigenvalues are faer's: with vectors, by hand they take 0.9 to 1.6 times
/// as long at 32, 1.8 to 3.8 times at 512.
const DIVIDED: usize = 128;

/// The eigenvalues of a Hermitian (of real numbers: symmetric) matrix of which the lower triangle
/// is read, least first; `a` becomes the vectors, in columns, where they are wanted. The result is
/// 0, or where the iteration failed the place (from 1) of the eigenvalue.
pub fn hermitian<T: Field<Part = f64>>(
    a: &mut [T],
    n: usize,
    values: &mut [f64],
    vectors: bool,
) -> i32 {
    if n >= DIVIDED && squarable(a) && T::hermitian(a, n, values, vectors) {
        return 0;
    }
    let (mut off, mut tau) = (vec![0.0; n], vec![T::default(); n]);
    tridiagonal(a, n, values, &mut off, &mut tau);
    let mut z = Vec::new();
    if vectors {
        z = identity(n);
        for i in (0..n.saturating_sub(1)).rev() {
            let v = &a[i * n + i + 1..(i + 1) * n];
            for column in z[(i + 1) * n..].chunks_exact_mut(n) {
                reflect(v, tau[i], &mut column[i + 1..]);
            }
        }
    }
    let failed = implicit_ql(values, &mut off, &mut z, n);
    if failed > 0 {
        return failed;
    }
    for i in 0..n {
        let least = (i..n).fold(i, |b, j| if values[j] < values[b] { j } else { b });
        if least != i {
            values.swap(i, least);
            if vectors {
                let (x, y) = two_columns(&mut z, n, i, least);
                x.swap_with_slice(y);
            }
        }
    }
    if vectors {
        a.copy_from_slice(&z);
    }
    0
}

/// Diagonal and off-diagonal of the tridiagonal form; the reflectors stay below the diagonal of
/// `a`.
fn tridiagonal<T: Field<Part = f64>>(
    a: &mut [T],
    n: usize,
    d: &mut [f64],
    e: &mut [f64],
    tau: &mut [T],
) {
    for i in 0..n {
        d[i] = a[i * n + i].re();
        if i + 1 == n {
            break;
        }
        let t = reflector(&mut a[i * n + i + 1..(i + 1) * n]);
        (e[i], tau[i]) = (a[i * n + i + 1].re(), t);
        if t == T::default() {
            continue;
        }
        let m = n - i - 1;
        let mut v = a[i * n + i + 1..(i + 1) * n].to_vec();
        v[0] = T::ONE;
        // w = tau A v - (tau / 2) (w^H v) v, of the lower triangle of the rest
        let at = |r: usize, c: usize| (i + 1 + c) * n + i + 1 + r;
        let mut w = vec![T::default(); m];
        for c in 0..m {
            w[c] = w[c] + (t * v[c]).scaled(a[at(c, c)].re());
            for r in c + 1..m {
                let x = a[at(r, c)];
                w[r] = w[r] + t * x * v[c];
                w[c] = w[c] + t * x.conj() * v[r];
            }
        }
        let half = (t * dot(&w, &v)).scaled(0.5);
        for (w, v) in w.iter_mut().zip(&v) {
            *w = *w - half * *v;
        }
        for c in 0..m {
            for r in c..m {
                let less = v[r] * w[c].conj() + w[r] * v[c].conj();
                a[at(r, c)] = a[at(r, c)] - less;
            }
        }
    }
}

/// QL steps with implicit shifts on a tridiagonal matrix, whose rotations `z` takes part in.
fn implicit_ql<T: Field<Part = f64>>(d: &mut [f64], e: &mut [f64], z: &mut [T], n: usize) -> i32 {
    for l in 0..n {
        let mut steps = 0;
        loop {
            let small = |m: &usize| {
                let size = d[*m].abs() + d[*m + 1].abs();
                e[*m].abs() <= f64::EPSILON * size
            };
            let m = (l..n - 1).find(small).unwrap_or(n - 1);
            if m == l {
                break;
            }
            steps += 1;
            // NaN is never small
            if steps > STEPS {
                return l as i32 + 1;
            }
            let mut g = (d[l + 1] - d[l]) / (2.0 * e[l]);
            g = d[m] - d[l] + e[l] / (g + g.hypot(1.0).copysign(g));
            let (mut s, mut c, mut p) = (1.0, 1.0, 0.0);
            let mut split = false;
            for i in (l..m).rev() {
                let (f, b) = (s * e[i], c * e[i]);
                let mut r = f.hypot(g);
                e[i + 1] = r;
                if r == 0.0 {
                    d[i + 1] -= p;
                    e[m] = 0.0;
                    split = true;
                    break;
                }
                (s, c) = (f / r, g / r);
                g = d[i + 1] - p;
                r = (d[i] - g) * s + 2.0 * c * b;
                p = s * r;
                d[i + 1] = g + p;
                g = c * r - b;
                if !z.is_empty() {
                    let (x, y) = two_columns(z, n, i, i + 1);
                    rotate(x, y, c, s);
                }
            }
            if !split {
                d[l] -= p;
                e[l] = g;
                e[m] = 0.0;
            }
        }
    }
    0
}
