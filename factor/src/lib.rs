//! Factorisations of dense matrices, through [`faer`].
//!
//! Internal to `straightline`. Matrices are column-major slices without gaps. Preconditions are the
//! caller's, which has its own algorithms for small matrices: elements have to be finite and,
//! except for [`Element::lu`], [`Element::cholesky`] and [`Element::solve`], of a size whose square
//! neither overflows nor underflows to zero. A result of `false` means that there is no
//! factorisation; methods for values and vectors then leave the matrix unchanged.
//!
//! faer is called on one thread. It chooses the instructions that the machine has.
//!
//! ```
//! use straightline_factor::Element;
//!
//! let (mut a, mut pivots) = ([1.0, 4.0, 2.0, 6.0], [0; 2]);
//! f64::lu(&mut a, 2, 2, &mut pivots);
//! assert_eq!((a, pivots), ([4.0, 0.25, 6.0, 0.5], [2, 2]));
//! ```

use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
use faer::linalg::cholesky::llt::factor as llt;
use faer::linalg::evd::{self, ComputeEigenvectors};
use faer::linalg::lu::partial_pivoting::factor as lu;
use faer::linalg::matmul::matmul_with_conj;
use faer::linalg::svd::{self, ComputeSvdVectors};
use faer::linalg::triangular_solve as triangular;
use faer::reborrow::{Reborrow, ReborrowMut};
use faer::traits::ComplexField;
use faer::{Accum, Conj, MatMut, MatRef, Par};
use num_complex::Complex;
use std::ops::{Add, Mul, Neg};

/// A triangular matrix in an equation.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // the names say it
pub struct Triangle {
    pub upper: bool,
    /// The diagonal counts as ones.
    pub unit: bool,
    pub transposed: bool,
    /// Each element is conjugated.
    pub conjugated: bool,
}

/// What matrices are made of: `f32`, `f64` and complex numbers of them.
///
/// LU, Cholesky's factor and triangular equations are computed in the dtype itself, values and
/// vectors of a matrix in double precision.
pub trait Element: Copy + Send + Sync + 'static {
    /// LU with row exchanges, in place: `a` is `m` by `n`, `pivots` the row (from 1) exchanged with
    /// each of the first `min(m, n)`. No pivot may be zero: the results would not be numbers.
    fn lu(a: &mut [Self], m: usize, n: usize, pivots: &mut [i32]);

    /// Cholesky's factor in place, `a = l l^H`, or `u^H u` of the upper half. The other half is not
    /// read, and undefined afterwards. `false` if a leading minor is not positive.
    fn cholesky(a: &mut [Self], n: usize, upper: bool) -> bool;

    /// Solves `a x = b` in place for the columns of `b`. The other half of `a` is not read.
    fn solve(a: &[Self], n: usize, b: &mut [Self], how: Triangle);

    /// `c := q c` or (`adjoint`) `q^H c` in place, `c` having columns of `m`. `q` is the product of
    /// the reflectors `1 - tau v v^H`, first to last, whose vectors are the columns of `v`, the
    /// first one from row `from` on, each a row lower than the one before. Their first elements
    /// count as 1; those and the elements above them are not read.
    fn reflect(v: &[Self], m: usize, from: usize, tau: &[Self], c: &mut [Self], adjoint: bool);

    /// The singular values of an `m` by `n` matrix, `m >= n`, largest first. `a` becomes the left
    /// vectors, `v` (`n` by `n`) the right ones; if `v` is empty, neither is computed.
    fn singular(a: &mut [Self], m: usize, n: usize, v: &mut [Self], values: &mut [f64]) -> bool;

    /// The eigenvalues of a Hermitian matrix, smallest first; only the lower half is read. `a`
    /// becomes the vectors, in columns, if they are requested.
    fn hermitian(a: &mut [Self], n: usize, values: &mut [f64], vectors: bool) -> bool;
}

/// Runs `body` with the scratch memory that it requires.
fn with_memory<R>(needed: StackReq, body: impl FnOnce(&mut MemStack) -> R) -> R {
    body(MemStack::new(&mut MemBuffer::new(needed)))
}

fn lu_in<T: ComplexField>(a: &mut [T], m: usize, n: usize, pivots: &mut [i32]) {
    let (mut order, mut back) = (vec![0u32; m], vec![0u32; m]);
    with_memory(lu::lu_in_place_scratch::<u32, T>(m, n, Par::Seq, Default::default()), |memory| {
        let a = MatMut::from_column_major_slice_mut(a, m, n);
        let params = Default::default();
        lu::lu_in_place(a, &mut order, &mut back, Par::Seq, memory, params);
    });
    // the exchanges, one after another, that put the rows into this order
    let mut rows: Vec<u32> = (0..m as u32).collect();
    let mut places = rows.clone();
    for (j, pivot) in pivots.iter_mut().enumerate() {
        let at = places[order[j] as usize] as usize;
        *pivot = at as i32 + 1;
        rows.swap(j, at);
        places[rows[j] as usize] = j as u32;
        places[rows[at] as usize] = at as u32;
    }
}

fn cholesky_in<T: ComplexField>(a: &mut [T], n: usize, upper: bool) -> bool {
    let a = match upper {
        // the conjugate of the factor of the conjugate matrix, whose lower half this is
        true => MatMut::from_row_major_slice_mut(a, n, n),
        false => MatMut::from_column_major_slice_mut(a, n, n),
    };
    let needed = llt::cholesky_in_place_scratch::<T>(n, Par::Seq, Default::default());
    with_memory(needed, |memory| {
        let (strictly, params) = (Default::default(), Default::default());
        llt::cholesky_in_place(a, strictly, Par::Seq, memory, params).is_ok()
    })
}

fn solve_in<T: ComplexField>(a: &[T], n: usize, b: &mut [T], how: Triangle) {
    let a = match how.transposed {
        true => MatRef::from_row_major_slice(a, n, n),
        false => MatRef::from_column_major_slice(a, n, n),
    };
    let columns = b.len() / n;
    let b = MatMut::from_column_major_slice_mut(b, n, columns);
    let conj = if how.conjugated { Conj::Yes } else { Conj::No };
    match (how.upper != how.transposed, how.unit) {
        (true, true) => {
            triangular::solve_unit_upper_triangular_in_place_with_conj(a, conj, b, Par::Seq);
        }
        (true, false) => {
            triangular::solve_upper_triangular_in_place_with_conj(a, conj, b, Par::Seq);
        }
        (false, true) => {
            triangular::solve_unit_lower_triangular_in_place_with_conj(a, conj, b, Par::Seq);
        }
        (false, false) => {
            triangular::solve_lower_triangular_in_place_with_conj(a, conj, b, Par::Seq);
        }
    }
}

/// Reflectors as one product, `1 - v t v^H` with an upper triangle `t` (Schreiber and Van Loan).
/// faer has such products as well, but of Hermitian reflectors alone, whose `tau` follows from `v`.
fn reflect_in<T>(v: &[T], m: usize, from: usize, tau: &[T], c: &mut [T], adjoint: bool)
where
    T: ComplexField + Copy + Default + Add<Output = T> + Mul<Output = T> + Neg<Output = T>,
{
    let (k, rows, columns) = (tau.len(), m - from, c.len() / m);
    if k == 0 || columns == 0 {
        return;
    }
    let (one, zero) = (T::one_impl(), T::default());
    let mut own = vec![zero; rows * k];
    for (j, (own, v)) in own.chunks_exact_mut(rows).zip(v.chunks_exact(m)).enumerate() {
        own[j] = one;
        own[j + 1..].copy_from_slice(&v[from + j + 1..]);
    }
    let v = MatRef::from_column_major_slice(&own, rows, k);
    let adjoint_v = v.transpose();
    let multiply = |to: MatMut<'_, T>, add, a: (MatRef<'_, T>, Conj), b: MatRef<'_, T>, by| {
        matmul_with_conj(to, add, a.0, a.1, b, Conj::No, by, Par::Seq);
    };
    let mut gram = vec![zero; k * k];
    let to = MatMut::from_column_major_slice_mut(&mut gram, k, k);
    multiply(to, Accum::Replace, (adjoint_v, Conj::Yes), v, one);
    let mut t = vec![zero; k * k];
    for (i, tau) in tau.iter().enumerate() {
        for r in 0..i {
            let sum = (r..i).fold(zero, |sum, l| sum + t[l * k + r] * gram[i * k + l]);
            t[i * k + r] = -(*tau * sum);
        }
        t[i * k + i] = *tau;
    }
    let t = MatRef::from_column_major_slice(&t, k, k);
    let t = match adjoint {
        true => (t.transpose(), Conj::Yes),
        false => (t, Conj::No),
    };
    let mut c = MatMut::from_column_major_slice_mut(c, m, columns).get_mut(from.., ..);
    let (mut first, mut second) = (vec![zero; k * columns], vec![zero; k * columns]);
    let mut first = MatMut::from_column_major_slice_mut(&mut first, k, columns);
    let mut second = MatMut::from_column_major_slice_mut(&mut second, k, columns);
    multiply(first.rb_mut(), Accum::Replace, (adjoint_v, Conj::Yes), c.rb(), one);
    multiply(second.rb_mut(), Accum::Replace, t, first.rb(), one);
    multiply(c.rb_mut(), Accum::Add, (v, Conj::No), second.rb(), -one);
}

/// An element of double precision.
trait Double: ComplexField + Copy + Default {
    fn re(self) -> f64;
    fn finite(&self) -> bool;
}

impl Double for f64 {
    fn re(self) -> f64 {
        self
    }

    fn finite(&self) -> bool {
        self.is_finite()
    }
}

impl Double for Complex<f64> {
    fn re(self) -> f64 {
        self.re
    }

    fn finite(&self) -> bool {
        self.re.is_finite() && self.im.is_finite()
    }
}

fn singular_in<T: Double>(
    a: &mut [T],
    m: usize,
    n: usize,
    v: &mut [T],
    values: &mut [f64],
) -> bool {
    let vectors = !v.is_empty();
    let (mut s, mut u) = (vec![T::default(); n], Vec::new());
    u.resize(if vectors { m * n } else { 0 }, T::default());
    let which = match vectors {
        true => ComputeSvdVectors::Thin,
        false => ComputeSvdVectors::No,
    };
    let params = Default::default();
    let needed = svd::svd_scratch::<T>(m, n, which, which, Par::Seq, params);
    let found = with_memory(needed, |memory| {
        let u = vectors.then(|| MatMut::from_column_major_slice_mut(&mut u, m, n));
        let v = vectors.then(|| MatMut::from_column_major_slice_mut(v, n, n));
        let (a, s) = (MatRef::from_column_major_slice(a, m, n), DiagMut::from_slice_mut(&mut s));
        svd::svd(a, s, u, v, Par::Seq, memory, params).is_ok()
    });
    if !found || !s.iter().chain(&u).all(Double::finite) {
        return false;
    }
    values.iter_mut().zip(&s).for_each(|(w, s)| *w = s.re());
    if vectors {
        a.copy_from_slice(&u);
    }
    true
}

fn hermitian_in<T: Double>(a: &mut [T], n: usize, values: &mut [f64], vectors: bool) -> bool {
    let (mut s, mut u) = (vec![T::default(); n], Vec::new());
    u.resize(if vectors { n * n } else { 0 }, T::default());
    let which = wanted(vectors);
    let params = Default::default();
    let needed = evd::self_adjoint_evd_scratch::<T>(n, which, Par::Seq, params);
    let found = with_memory(needed, |memory| {
        let u = vectors.then(|| MatMut::from_column_major_slice_mut(&mut u, n, n));
        let (a, s) = (MatRef::from_column_major_slice(a, n, n), DiagMut::from_slice_mut(&mut s));
        evd::self_adjoint_evd(a, s, u, Par::Seq, memory, params).is_ok()
    });
    if !found || !s.iter().chain(&u).all(Double::finite) {
        return false;
    }
    values.iter_mut().zip(&s).for_each(|(w, s)| *w = s.re());
    if vectors {
        a.copy_from_slice(&u);
    }
    true
}

fn wanted(vectors: bool) -> ComputeEigenvectors {
    match vectors {
        true => ComputeEigenvectors::Yes,
        false => ComputeEigenvectors::No,
    }
}

/// The eigenvalues of a general matrix: real and imaginary parts, those of a pair next to each
/// other. `a` becomes the vectors, not normalised, if they are requested: one column for a real
/// value; for a pair a column of real parts and one of imaginary parts, those of the pair's first
/// vector.
pub fn general(a: &mut [f64], n: usize, re: &mut [f64], im: &mut [f64], vectors: bool) -> bool {
    let mut u = vec![0.0; if vectors { n * n } else { 0 }];
    let (left, right) = (wanted(false), wanted(vectors));
    let params = Default::default();
    let needed = evd::evd_scratch::<f64>(n, left, right, Par::Seq, params);
    let found = with_memory(needed, |memory| {
        let u = vectors.then(|| MatMut::from_column_major_slice_mut(&mut u, n, n));
        let (re, im) = (DiagMut::from_slice_mut(re), DiagMut::from_slice_mut(im));
        let a = MatRef::from_column_major_slice(a, n, n);
        evd::evd_real(a, re, im, None, u, Par::Seq, memory, params).is_ok()
    });
    let trace = (0..n).map(|i| Complex::from(a[i * (n + 1)])).sum();
    let values = re.iter().zip(im.iter());
    let values = values.map(|(re, im)| Complex::new(*re, *im));
    if !found || !converged(values, trace) || !u.iter().all(|x| x.abs() < LARGE) {
        return false;
    }
    if vectors {
        a.copy_from_slice(&u);
    }
    true
}

/// The eigenvalues of a general complex matrix. `a` becomes the vectors, not normalised, in
/// columns, if they are requested.
pub fn general_complex(
    a: &mut [Complex<f64>],
    n: usize,
    values: &mut [Complex<f64>],
    vectors: bool,
) -> bool {
    let mut u = vec![Complex::default(); if vectors { n * n } else { 0 }];
    let (left, right) = (wanted(false), wanted(vectors));
    let params = Default::default();
    let needed = evd::evd_scratch::<Complex<f64>>(n, left, right, Par::Seq, params);
    let found = with_memory(needed, |memory| {
        let u = vectors.then(|| MatMut::from_column_major_slice_mut(&mut u, n, n));
        let s = DiagMut::from_slice_mut(values);
        let a = MatRef::from_column_major_slice(a, n, n);
        evd::evd_cplx(a, s, None, u, Par::Seq, memory, params).is_ok()
    });
    let trace = (0..n).map(|i| a[i * (n + 1)]).sum();
    let squared = u.iter().all(|x| x.re.abs().max(x.im.abs()) < LARGE);
    if !found || !converged(values.iter().copied(), trace) || !squared {
        return false;
    }
    if vectors {
        a.copy_from_slice(&u);
    }
    true
}

/// Where vectors of a matrix that has hardly enough of them grow further, they are not taken: they
/// are about to overflow, faer does not scale them meanwhile.
const LARGE: f64 = 1e140;

/// Whether these are eigenvalues of a matrix with this trace: faer does not report when its QR
/// iteration fails to converge, and then leaves some of the values unwritten.
fn converged(values: impl Iterator<Item = Complex<f64>>, trace: Complex<f64>) -> bool {
    let (sum, size) =
        values.fold((-trace, 0.0), |(sum, size), w| (sum + w, size + w.re.abs() + w.im.abs()));
    // NaN is not within
    sum.re.abs() + sum.im.abs() <= 1e-8 * size
}

/// Copies in double precision, and back.
macro_rules! through {
    ($t:ty, $wide:ty, $widen:expr, $narrow:expr) => {
        impl Element for $t {
            fn singular(
                a: &mut [Self],
                m: usize,
                n: usize,
                v: &mut [Self],
                values: &mut [f64],
            ) -> bool {
                let mut wide: Vec<$wide> = a.iter().map($widen).collect();
                let mut right: Vec<$wide> = v.iter().map($widen).collect();
                let found = singular_in(&mut wide, m, n, &mut right, values);
                if found {
                    a.iter_mut().zip(&wide).for_each($narrow);
                    v.iter_mut().zip(&right).for_each($narrow);
                }
                found
            }

            fn hermitian(a: &mut [Self], n: usize, values: &mut [f64], vectors: bool) -> bool {
                let mut wide: Vec<$wide> = a.iter().map($widen).collect();
                let found = hermitian_in(&mut wide, n, values, vectors);
                if found {
                    a.iter_mut().zip(&wide).for_each($narrow);
                }
                found
            }

            direct!();
        }
    };
}

/// What is computed in the dtype itself.
macro_rules! direct {
    () => {
        fn lu(a: &mut [Self], m: usize, n: usize, pivots: &mut [i32]) {
            lu_in(a, m, n, pivots);
        }

        fn cholesky(a: &mut [Self], n: usize, upper: bool) -> bool {
            cholesky_in(a, n, upper)
        }

        fn solve(a: &[Self], n: usize, b: &mut [Self], how: Triangle) {
            solve_in(a, n, b, how);
        }

        fn reflect(v: &[Self], m: usize, from: usize, tau: &[Self], c: &mut [Self], adjoint: bool) {
            reflect_in(v, m, from, tau, c, adjoint);
        }
    };
}

macro_rules! double {
    ($t:ty) => {
        impl Element for $t {
            fn singular(
                a: &mut [Self],
                m: usize,
                n: usize,
                v: &mut [Self],
                values: &mut [f64],
            ) -> bool {
                singular_in(a, m, n, v, values)
            }

            fn hermitian(a: &mut [Self], n: usize, values: &mut [f64], vectors: bool) -> bool {
                hermitian_in(a, n, values, vectors)
            }

            direct!();
        }
    };
}

through!(f32, f64, |x| f64::from(*x), |(x, y)| *x = *y as f32);
through!(Complex<f32>, Complex<f64>, |x| Complex::new(x.re.into(), x.im.into()), |(x, y)| *x =
    Complex::new(y.re as f32, y.im as f32));
double!(f64);
double!(Complex<f64>);
