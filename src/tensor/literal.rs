//! Tensor literals: numbers, nested arrays of them, and progressions.

use super::{Element, Tensor};
use crate::error::{Error, Result};
use half::{bf16, f16};
use num_complex::Complex;
use std::ops::Range;
use straightline_catalog::{DType, Scalar};

/// A CPU tensor of a number, or of nested arrays, slices or `Vec`s of numbers: [`Tensor::literal`]
/// for short.
///
/// The numbers' type decides the dtype, and Rust's literals behave as Python's do in PyTorch. Rust
/// cannot tell `1.0` from `1.0f64` nor `1` from `1i32`, so the rule goes by type: `f64` makes a
/// tensor of the default floating-point dtype, `f32`, `Complex<f64>` one of the complex dtype that
/// goes with it, and `i32`, `u32` and `usize` make `i64`. All others keep their type: `f32`, `f16`,
/// `bf16`, `i64`, `i16`, `i8`, `u8`, `bool`, `Complex<f32>`. For another dtype ask for it,
/// [`Tensor::with`]`(DType::F64).literal(..)`, and values keep all their bits; data that has its
/// type already goes through [`Tensor::from_slice`], which never converts.
///
/// ```
/// use straightline::{DType, Tensor, tensor};
/// let x = tensor([[1.0, 2.0], [3.0, 4.0]])?;
/// assert_eq!((x.dtype(), x.sizes()), (DType::F32, &[2, 2][..]));
/// assert_eq!(tensor([1, 2, 3])?.dtype(), DType::I64);
/// assert_eq!(tensor([[true], [false]])?.dtype(), DType::Bool);
/// assert_eq!(tensor(2.5)?.dim(), 0);
/// assert_eq!(Tensor::with(DType::F64).literal([0.1])?.to_vec::<f64>()?, [0.1]);
/// let rows = vec![vec![1.0, 2.0], vec![3.0]];
/// assert!(tensor(rows).unwrap_err().to_string().contains("2 numbers in one row and 1 in another"));
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
/// Rows of different lengths, which only `Vec`s and slices can have.
#[track_caller]
pub fn tensor(values: impl Literal) -> Result<Tensor> {
    Tensor::literal(values)
}

/// A tensor literal: a number, or an array, a slice or a `Vec` of literals.
///
/// See [`tensor`](crate::tensor()).
#[diagnostic::on_unimplemented(
    message = "a tensor cannot be made of `{Self}`",
    label = "tensors are made of numbers, and of nested arrays, slices and `Vec`s of them"
)]
pub trait Literal {
    /// The numbers.
    type Number: Number;

    /// How many dimensions it has.
    const DIMS: usize;

    /// Records the size of each dimension, and fails if an earlier row had another.
    #[doc(hidden)]
    fn measure(&self, sizes: &mut [Option<i64>]) -> Result<()>;

    /// Appends the numbers in row-major order.
    #[doc(hidden)]
    fn collect(&self, into: &mut Vec<Self::Number>);
}

/// A number in a [`Literal`]: an [`Element`], or one of `u32` and `usize`.
pub trait Number: Copy {
    /// A tensor of these numbers; `None` asks for the type's own dtype.
    #[doc(hidden)]
    fn tensor(numbers: &[Self], sizes: &[i64], dtype: Option<DType>) -> Result<Tensor>;

    /// Its real part.
    #[doc(hidden)]
    fn real(self) -> f64;
}

/// A tensor of the elements, converted to the requested dtype.
fn elements<T: Element>(data: &[T], sizes: &[i64], dtype: DType) -> Result<Tensor> {
    let exact = Tensor::from_slice(data, sizes)?;
    match dtype == T::DTYPE {
        true => Ok(exact),
        false => exact.to_dtype(dtype),
    }
}

macro_rules! numbers {
    ($($t:ty: |$numbers:ident, $sizes:ident, $dtype:ident| $tensor:expr, |$n:ident| $real:expr;)*) => {$(
        impl Number for $t {
            fn tensor($numbers: &[$t], $sizes: &[i64], $dtype: Option<DType>) -> Result<Tensor> {
                $tensor
            }

            fn real(self) -> f64 {
                let $n = self;
                $real
            }
        }

        impl Literal for $t {
            type Number = $t;
            const DIMS: usize = 0;

            fn measure(&self, _sizes: &mut [Option<i64>]) -> Result<()> {
                Ok(())
            }

            fn collect(&self, into: &mut Vec<$t>) {
                into.push(*self);
            }
        }
    )*};
}

macro_rules! kept {
    ($($($t:ty),*: |$n:ident| $real:expr;)*) => {
        numbers! {$($(
            $t: |n, sizes, dtype| elements(n, sizes, dtype.unwrap_or(<$t as Element>::DTYPE)), |$n| $real;
        )*)*}
    };
}
kept! {
    f32, i16, i8, u8: |n| f64::from(n);
    f16, bf16: |n| n.to_f64();
    i64: |n| n as f64;
    bool: |n| f64::from(u8::from(n));
    Complex<f32>: |n| f64::from(n.re);
}

macro_rules! integers {
    ($($t:ty),*) => {
        numbers! {$($t: |n, sizes, dtype| {
            let n: Vec<i64> = n.iter().map(|n| *n as i64).collect();
            elements(&n, sizes, dtype.unwrap_or(DType::I64))
        }, |n| n as f64;)*}
    };
}
integers!(i32, u32, usize);

numbers! {
    f64: |n, sizes, dtype| match dtype.unwrap_or(Scalar::Float(0.0).default_dtype()) {
        // converted here, so that a captured function has a constant and no conversion of one
        DType::F32 => {
            let n: Vec<f32> = n.iter().map(|n| *n as f32).collect();
            elements(&n, sizes, DType::F32)
        }
        dtype => elements(n, sizes, dtype),
    }, |n| n;
    Complex<f64>: |n, sizes, dtype| {
        let dtype = dtype.unwrap_or(Scalar::Complex(0.0, 0.0).default_dtype());
        elements(n, sizes, dtype)
    }, |n| n.re;
}

impl<T: Literal> Literal for [T] {
    type Number = T::Number;
    const DIMS: usize = T::DIMS + 1;

    fn measure(&self, sizes: &mut [Option<i64>]) -> Result<()> {
        let [first, rest @ ..] = sizes else {
            return Ok(());
        };
        let length = self.len() as i64;
        match *first {
            Some(other) if other != length => {
                return Err(Error::shape(format!(
                    "a tensor has {other} numbers in one row and {length} in another of the same dimension"
                )));
            }
            _ => *first = Some(length),
        }
        self.iter().try_for_each(|row| row.measure(rest))
    }

    fn collect(&self, into: &mut Vec<T::Number>) {
        for row in self {
            row.collect(into);
        }
    }
}

/// Forwards to the implementation for slices.
macro_rules! slices {
    ($($(const $n:ident)? $ty:ty;)*) => {$(
        impl<T: Literal $(, const $n: usize)?> Literal for $ty {
            type Number = T::Number;
            const DIMS: usize = T::DIMS + 1;

            fn measure(&self, sizes: &mut [Option<i64>]) -> Result<()> {
                <[T]>::measure(self, sizes)
            }

            fn collect(&self, into: &mut Vec<T::Number>) {
                <[T]>::collect(self, into);
            }
        }
    )*};
}
slices! {
    const N [T; N];
    Vec<T>;
}

impl<T: Literal + ?Sized> Literal for &T {
    type Number = T::Number;
    const DIMS: usize = T::DIMS;

    fn measure(&self, sizes: &mut [Option<i64>]) -> Result<()> {
        T::measure(self, sizes)
    }

    fn collect(&self, into: &mut Vec<T::Number>) {
        T::collect(self, into);
    }
}

/// The tensor that is written as `values`.
pub(crate) fn make<L: Literal>(values: &L, dtype: Option<DType>) -> Result<Tensor> {
    let mut sizes = vec![None; L::DIMS];
    values.measure(&mut sizes)?;
    // sizes below an empty dimension are unknown
    let sizes: Vec<i64> = sizes.into_iter().map(|s| s.unwrap_or(0)).collect();
    let mut numbers = Vec::new();
    values.collect(&mut numbers);
    L::Number::tensor(&numbers, &sizes, dtype)
}

/// The numbers of a literal with at most one dimension, and whether it has one.
pub(crate) fn list<L: Literal>(values: &L) -> Option<(Vec<f64>, bool)> {
    let mut numbers = Vec::new();
    values.collect(&mut numbers);
    let real = numbers.into_iter().map(Number::real).collect();
    (L::DIMS <= 1).then_some((real, L::DIMS == 1))
}

/// What [`Tensor::arange`] counts: `end`, `start..end`, `(start, end)` or `(start, end, step)`.
pub trait Progression {
    /// Start, end and step.
    fn progression(self) -> (Scalar, Scalar, Scalar);
}

macro_rules! ends {
    ($($t:ty),*) => {$(
        impl Progression for $t {
            fn progression(self) -> (Scalar, Scalar, Scalar) {
                (Scalar::Int(0), self.into(), Scalar::Int(1))
            }
        }
    )*};
}
ends!(Scalar, f64, f32, i64, i32, u8, usize);

impl<N: Into<Scalar>> Progression for Range<N> {
    fn progression(self) -> (Scalar, Scalar, Scalar) {
        (self.start.into(), self.end.into(), Scalar::Int(1))
    }
}

impl<A: Into<Scalar>, B: Into<Scalar>> Progression for (A, B) {
    fn progression(self) -> (Scalar, Scalar, Scalar) {
        (self.0.into(), self.1.into(), Scalar::Int(1))
    }
}

impl<A: Into<Scalar>, B: Into<Scalar>, C: Into<Scalar>> Progression for (A, B, C) {
    fn progression(self) -> (Scalar, Scalar, Scalar) {
        (self.0.into(), self.1.into(), self.2.into())
    }
}
