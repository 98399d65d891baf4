//! Householder's reflectors, and the QR factorisation that they make.

use super::{Field, dot, squares, subtract, two_columns};

/// A reflector `h = 1 - tau v v^H`, `v[0] = 1`, whose adjoint takes `x` to a real multiple of the first axis. `x` becomes that multiple and,
/// behind it, the rest of `v`; the result is `tau`.
pub(super) fn reflector<T: Field>(x: &mut [T]) -> T {
    let Some((alpha, rest)) = x.split_first_mut() else {
        return T::default();
    };
    let zero = <T::Part as Default>::default();
    let below = squares(rest);
    let im = alpha.im();
    if below == zero && im == zero {
        return T::default();
    }
    let re = alpha.re();
    let norm = (re * re + im * im + below).root();
    let beta = if re < zero { norm } else { -norm };
    let tau = (T::of(beta) - *alpha).over(T::of(beta));
    let divisor = *alpha - T::of(beta);
    rest.iter_mut().for_each(|v| *v = v.over(divisor));
    *alpha = T::of(beta);
    tau
}

/// `x -= tau v (v^H x)`, where `v[0]` counts as 1.
pub(super) fn reflect<T: Field>(v: &[T], tau: T, x: &mut [T]) {
    if tau == T::default() || x.is_empty() {
        return;
    }
    let sum = tau * (x[0] + dot(&v[1..], &x[1..]));
    x[0] = x[0] - sum;
    subtract(&mut x[1..], sum, &v[1..]);
}

/// Householder's QR in place: `r` above the diagonal, the reflectors below it, their factors in `tau`.
pub fn qr<T: Field>(a: &mut [T], m: usize, n: usize, tau: &mut [T]) {
    for j in 0..m.min(n) {
        tau[j] = reflector(&mut a[j * m + j..(j + 1) * m]);
        for c in j + 1..n {
            let (v, x) = two_columns(a, m, j, c);
            reflect(&v[j..], tau[j].conj(), &mut x[j..]);
        }
    }
}

/// The first `columns` columns of the orthogonal (of complex numbers: unitary) matrix whose `k` reflectors [`qr`] left in `a`.
pub fn orthogonal<T: Field>(a: &[T], m: usize, tau: &[T], q: &mut [T], columns: usize) {
    for c in 0..columns {
        let x = &mut q[c * m..(c + 1) * m];
        x.fill(T::default());
        x[c] = T::ONE;
        for j in (0..tau.len()).rev() {
            reflect(&a[j * m + j..(j + 1) * m], tau[j], &mut x[j..]);
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

/// `b := q b` or (`adjoint`) `q^H b` in place, `q` being the product of the reflectors that [`qr`] left in `a`; `b` has columns of `m`.
pub fn reflect_all<T: Field>(a: &[T], m: usize, tau: &[T], b: &mut [T], adjoint: bool) {
    for x in b.chunks_exact_mut(m.max(1)) {
        if adjoint {
            for j in 0..tau.len() {
                reflect(&a[j * m + j..(j + 1) * m], tau[j].conj(), &mut x[j..]);
            }
        } else {
            for j in (0..tau.len()).rev() {
                reflect(&a[j * m + j..(j + 1) * m], tau[j], &mut x[j..]);
            }
        }
    }
}
