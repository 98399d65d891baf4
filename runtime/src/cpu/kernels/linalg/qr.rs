//! Householder's reflectors, and the QR factorisation that they make.
//!
//! The reflectors are LAPACK's, since PyTorch shows them (`geqrf`) and the signs that they give: of
//! complex numbers, faer's leave a diagonal in `r` that is not real, and faer skips columns that
//! add no rank. What takes the time in a large matrix, reflecting the rest of it, is products of
//! matrices, and those are faer's.

use super::{Field, dot, squares, subtract, two_columns};

/// A reflector `h = 1 - tau v v^H`, `v[0] = 1`, whose adjoint takes `x` to a real multiple of the
/// first axis. `x` becomes that multiple and, behind it, the rest of `v`; the result is `tau`.
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

/// From this many reflectors on they are applied in blocks: one by one, QR with its first factor
/// takes 2 to 4 times as long at 64, 12 to 19 times at 512.
const BLOCKED: usize = 64;

/// The reflectors of a block.
const BLOCK: usize = 32;

/// Fewer columns than this are reflected one by one: a block has to be put together first.
const COLUMNS: usize = 16;

/// Reflectors that [`qr`] left in `a`, in blocks: the first column, columns and factors of each.
fn blocks<'a, T>(
    a: &'a [T],
    m: usize,
    tau: &'a [T],
) -> impl DoubleEndedIterator<Item = (usize, &'a [T], &'a [T])> {
    tau.chunks(BLOCK).enumerate().map(move |(b, tau)| {
        let begin = b * BLOCK;
        (begin, &a[begin * m..(begin + tau.len()) * m], tau)
    })
}

/// Householder's QR in place: `r` above the diagonal, the reflectors below it, their factors in
/// `tau`.
pub fn qr<T: Field>(a: &mut [T], m: usize, n: usize, tau: &mut [T]) {
    let k = m.min(n);
    if k < BLOCKED {
        return panel(a, m, 0, &mut tau[..k], n);
    }
    for (b, tau) in tau[..k].chunks_mut(BLOCK).enumerate() {
        let begin = b * BLOCK;
        let end = begin + tau.len();
        panel(a, m, begin, tau, end);
        let (done, rest) = a.split_at_mut(end * m);
        T::reflect(&done[begin * m..], m, begin, tau, rest, true);
    }
}

/// The reflectors from column `begin` on, applied to the columns up to `end`.
pub(super) fn panel<T: Field>(a: &mut [T], m: usize, begin: usize, tau: &mut [T], end: usize) {
    for (j, tau) in (begin..).zip(tau) {
        *tau = reflector(&mut a[j * m + j..(j + 1) * m]);
        for c in j + 1..end {
            let (v, x) = two_columns(a, m, j, c);
            reflect(&v[j..], tau.conj(), &mut x[j..]);
        }
    }
}

/// The first `columns` columns of the orthogonal (of complex numbers: unitary) matrix whose `k`
/// reflectors [`qr`] left in `a`.
pub fn orthogonal<T: Field>(a: &[T], m: usize, tau: &[T], q: &mut [T], columns: usize) {
    let blocked = tau.len() >= BLOCKED && columns >= COLUMNS;
    for c in 0..columns {
        let x = &mut q[c * m..(c + 1) * m];
        x.fill(T::default());
        x[c] = T::ONE;
        if blocked {
            continue;
        }
        for j in (0..tau.len()).rev() {
            reflect(&a[j * m + j..(j + 1) * m], tau[j], &mut x[j..]);
        }
    }
    if blocked {
        for (begin, v, tau) in blocks(a, m, tau).rev() {
            // the columns before have nothing in these rows yet
            if begin < columns {
                T::reflect(v, m, begin, tau, &mut q[begin * m..columns * m], false);
            }
        }
    }
}

/// Makes columns `from..` of the `m` by `columns` matrix `q`, whose columns before are orthonormal,
/// orthonormal to all of them.
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

/// `b := q b` or (`adjoint`) `q^H b` in place, `q` being the product of the reflectors that [`qr`]
/// left in `a`; `b` has columns of `m`.
pub fn reflect_all<T: Field>(a: &[T], m: usize, tau: &[T], b: &mut [T], adjoint: bool) {
    if tau.len() >= BLOCKED && b.len() >= COLUMNS * m {
        let mut apply = |(begin, v, tau)| T::reflect(v, m, begin, tau, b, adjoint);
        if adjoint {
            blocks(a, m, tau).for_each(&mut apply);
        } else {
            blocks(a, m, tau).rev().for_each(&mut apply);
        }
        return;
    }
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
