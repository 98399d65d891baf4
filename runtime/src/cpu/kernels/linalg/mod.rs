//! Linear algebra of dense matrices, of real and of complex numbers, each in its own dtype.
//!
//! Matrices are column-major slices, as LAPACK has them; pivots and failures count from 1.
//!
//! Large matrices are `faer`'s ([`straightline_factor`]). What is done here by hand is
//!
//! - small matrices, of which batches have thousands: faer's setup costs more than they do. Each
//!   threshold says what was measured (one thread of an x86-64 with AVX-512, random matrices);
//! - matrices that faer does not take or has no result for: those with NaN, infinities, or pivots
//!   that are zero or nearly so, where LAPACK's numbers and `info` are promised;
//! - Householder's QR, which has to be LAPACK's (`qr.rs`); Bunch and Kaufman's factors, whose
//!   pivots LAPACK numbers in a way of its own; the exponential, which faer does not have.

mod cholesky;
mod exponential;
mod general;
mod hermitian;
mod indefinite;
mod lu;
mod qr;
mod schur;
mod singular;
mod triangular;

use super::complex::{self, Number};
use super::real::Real;
use num_complex::Complex;
use std::ops::{Add, Div, Mul, Neg, Sub};
use straightline_factor::Element;

pub use cholesky::{cholesky, cholesky_solve};
pub use exponential::exponential;
pub use general::general;
pub use hermitian::hermitian;
pub use indefinite::{ldl, ldl_solve};
pub use lu::{exchange, lu, lu_solve};
pub use qr::{complete, orthogonal, qr, reflect_all};
pub use schur::general_complex;
pub use singular::singular_values;
pub use triangular::{Form, solve_triangular};

/// What the algorithms ask of an element: a real or a complex number.
pub trait Field:
    Element
    + Copy
    + PartialEq
    + Default
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
{
    /// What its parts are; itself where it is real.
    type Part: Part;
    /// 1.
    const ONE: Self;
    /// The number without an imaginary part.
    fn of(part: Self::Part) -> Self;
    /// The conjugate.
    fn conj(self) -> Self;
    /// The real part.
    fn re(self) -> Self::Part;
    /// The imaginary part.
    fn im(self) -> Self::Part;
    /// The size.
    fn abs(self) -> Self::Part;
    /// A size that is cheaper than [`Field::abs`], and by which LAPACK compares pivots: the sum of
    /// the parts' sizes.
    fn taxi(self) -> Self::Part;
    /// The quotient, no part of which overflows on the way.
    fn over(self, divisor: Self) -> Self;
    /// The product with a real number.
    fn scaled(self, factor: Self::Part) -> Self;
    /// A real number and one of size 1 that it is the product of.
    fn polar(self) -> (Self::Part, Self);
    /// The number of size 1 that it is a positive multiple of, or 0.
    fn sign(self) -> Self;
    /// The square root with the real part that is not negative.
    fn root(self) -> Self;
    /// Neither infinite nor NaN.
    fn is_finite(self) -> bool;
}

/// A real [`Field`].
pub trait Part: Field<Part = Self> + Real + PartialOrd + Div<Output = Self> {
    /// The distance between 1 and the next number.
    const EPSILON: Self;
    /// The least number that is not subnormal.
    const LEAST: Self;
}

macro_rules! field {
    ($($t:ident)*) => {$(
        impl Field for $t {
            type Part = $t;
            const ONE: Self = 1.0;
            fn of(part: $t) -> Self {
                part
            }
            fn conj(self) -> Self {
                self
            }
            fn re(self) -> $t {
                self
            }
            fn im(self) -> $t {
                0.0
            }
            fn abs(self) -> $t {
                <$t>::abs(self)
            }
            fn taxi(self) -> $t {
                <$t>::abs(self)
            }
            fn over(self, divisor: Self) -> Self {
                self / divisor
            }
            fn scaled(self, factor: $t) -> Self {
                self * factor
            }
            fn polar(self) -> ($t, Self) {
                (self, 1.0)
            }
            fn sign(self) -> Self {
                if self == 0.0 { 0.0 } else { self.signum() }
            }
            fn root(self) -> Self {
                self.sqrt()
            }
            fn is_finite(self) -> bool {
                <$t>::is_finite(self)
            }
        }

        impl Part for $t {
            const EPSILON: Self = $t::EPSILON;
            const LEAST: Self = $t::MIN_POSITIVE;
        }

        impl Field for Complex<$t> {
            type Part = $t;
            const ONE: Self = Complex::new(1.0, 0.0);
            fn of(part: $t) -> Self {
                Complex::new(part, 0.0)
            }
            fn conj(self) -> Self {
                Complex::new(self.re, -self.im)
            }
            fn re(self) -> $t {
                self.re
            }
            fn im(self) -> $t {
                self.im
            }
            fn abs(self) -> $t {
                self.re.hypot(self.im)
            }
            fn taxi(self) -> $t {
                self.re.abs() + self.im.abs()
            }
            fn over(self, divisor: Self) -> Self {
                Number::div(self, divisor)
            }
            fn scaled(self, factor: $t) -> Self {
                Complex::new(self.re * factor, self.im * factor)
            }
            fn polar(self) -> ($t, Self) {
                let size = Field::abs(self);
                if size == 0.0 {
                    return (0.0, Self::ONE);
                }
                (size, Complex::new(self.re / size, self.im / size))
            }
            fn sign(self) -> Self {
                if self == Self::default() { self } else { self.polar().1 }
            }
            fn root(self) -> Self {
                Number::narrow(complex::sqrt(self.wide()))
            }
            fn is_finite(self) -> bool {
                self.re.is_finite() && self.im.is_finite()
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

/// The inner product, of the conjugate of `x`.
fn dot<T: Field>(x: &[T], y: &[T]) -> T {
    x.iter().zip(y).fold(T::default(), |sum, (x, y)| sum + x.conj() * *y)
}

/// The sum of the squares of the sizes.
fn squares<T: Field>(x: &[T]) -> T::Part {
    dot(x, x).re()
}

/// Two different columns of `n` elements.
fn two_columns<T>(a: &mut [T], n: usize, first: usize, second: usize) -> (&mut [T], &mut [T]) {
    debug_assert!(first < second);
    let (low, high) = a.split_at_mut(second * n);
    (&mut low[first * n..(first + 1) * n], &mut high[..n])
}

/// Columns turned by a rotation.
fn rotate<T: Field>(x: &mut [T], y: &mut [T], c: T::Part, s: T::Part) {
    for (x, y) in x.iter_mut().zip(y) {
        (*x, *y) = (x.scaled(c) - y.scaled(s), x.scaled(s) + y.scaled(c));
    }
}

fn identity<T: Field>(n: usize) -> Vec<T> {
    let mut z = vec![T::default(); n * n];
    z.iter_mut().step_by(n + 1).for_each(|x| *x = T::ONE);
    z
}

/// The product of `n` by `n` matrices.
fn product<T: Field>(a: &[T], b: &[T], n: usize) -> Vec<T> {
    let mut out = vec![T::default(); n * n];
    if n == 0 {
        return out;
    }
    for (out, b) in out.chunks_exact_mut(n).zip(b.chunks_exact(n)) {
        for (column, factor) in a.chunks_exact(n).zip(b) {
            for (o, x) in out.iter_mut().zip(column) {
                *o = *o + *x * *factor;
            }
        }
    }
    out
}

/// From this order on (the least of rows and columns) LU and Cholesky's factor are faer's: at 16
/// they take 0.7 to 1.5 times as long by hand, at 32 1.3 to 3.6 times, at 512 6 to 54 times.
const FACTORED: usize = 32;

/// Neither NaN nor infinite.
fn finite<T: Field>(x: &[T]) -> bool {
    x.iter().all(|x| x.is_finite())
}

/// Whether a pivot and its reciprocal can be squared.
fn moderate<T: Field>(pivot: T) -> bool {
    let least = T::Part::LEAST.root();
    let size = pivot.taxi();
    size > least && size < T::Part::ONE / least
}

/// Whether sums of squares of these elements are safe in double precision. LAPACK scales matrices
/// where they are not; faer does not.
fn squarable<T: Field>(a: &[T]) -> bool {
    let most = a.iter().fold(0.0, |most: f64, x| {
        let size = x.taxi().wide();
        // NaN stays
        if size <= most { most } else { size }
    });
    (1e-100..1e100).contains(&most)
}

/// Each element's conjugate in its place.
pub fn conjugate<T: Field>(x: &mut [T]) {
    x.iter_mut().for_each(|x| *x = x.conj());
}

#[cfg(test)]
mod tests;
