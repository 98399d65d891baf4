//! Signs, and operators under the names that formulas use.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

/// The error of a gradient that PyTorch does not implement either.
pub(crate) fn not_implemented(what: &str, reason: &str) -> Error {
    Error::not_implemented(
        format!("the derivative for '{what}' is not implemented. {reason}").trim_end(),
    )
}

/// An operand of a sign: a tensor or a number.
pub(crate) trait Operand<'a> {
    /// What it is.
    fn operand(self) -> Either<'a>;
}

/// A tensor or a number.
pub(crate) enum Either<'a> {
    Tensor(&'a Tensor),
    Number(Scalar),
}

impl<'a> Operand<'a> for &'a Tensor {
    fn operand(self) -> Either<'a> {
        Either::Tensor(self)
    }
}

macro_rules! numbers {
    ($($t:ty)*) => {$(
        impl<'a> Operand<'a> for $t {
            fn operand(self) -> Either<'a> {
                Either::Number(self.into())
            }
        }
    )*};
}

numbers! { i64 f64 Scalar }

const ONE: Scalar = Scalar::Int(1);

fn two_numbers() -> Error {
    Error::runtime("a sign between two numbers in a derivative formula")
}

/// `a + b`
pub(crate) fn add<'a>(a: impl Operand<'a>, b: impl Operand<'a>) -> Result<Tensor> {
    match (a.operand(), b.operand()) {
        (Either::Tensor(a), Either::Tensor(b)) => aten::add_tensor(a, b, ONE),
        (Either::Tensor(t), Either::Number(n)) | (Either::Number(n), Either::Tensor(t)) => {
            aten::add_scalar(t, n, ONE)
        }
        _ => Err(two_numbers()),
    }
}

/// `a - b`
pub(crate) fn sub<'a>(a: impl Operand<'a>, b: impl Operand<'a>) -> Result<Tensor> {
    match (a.operand(), b.operand()) {
        (Either::Tensor(a), Either::Tensor(b)) => aten::sub_tensor(a, b, ONE),
        (Either::Tensor(a), Either::Number(b)) => aten::sub_scalar(a, b, ONE),
        (Either::Number(a), Either::Tensor(b)) => aten::rsub_scalar(b, a, ONE),
        _ => Err(two_numbers()),
    }
}

/// `a * b`
pub(crate) fn mul<'a>(a: impl Operand<'a>, b: impl Operand<'a>) -> Result<Tensor> {
    match (a.operand(), b.operand()) {
        (Either::Tensor(a), Either::Tensor(b)) => aten::mul_tensor(a, b),
        (Either::Tensor(t), Either::Number(n)) | (Either::Number(n), Either::Tensor(t)) => {
            aten::mul_scalar(t, n)
        }
        _ => Err(two_numbers()),
    }
}

/// `a / b`
pub(crate) fn div<'a>(a: impl Operand<'a>, b: impl Operand<'a>) -> Result<Tensor> {
    match (a.operand(), b.operand()) {
        (Either::Tensor(a), Either::Tensor(b)) => aten::div_tensor(a, b),
        (Either::Tensor(a), Either::Number(b)) => aten::div_scalar(a, b),
        (Either::Number(a), Either::Tensor(b)) => aten::mul_scalar(&aten::reciprocal(b)?, a),
        _ => Err(two_numbers()),
    }
}

/// One where a condition holds, the other elsewhere.
pub(crate) fn where_<'a>(
    condition: &Tensor,
    a: impl Operand<'a>,
    b: impl Operand<'a>,
) -> Result<Tensor> {
    match (a.operand(), b.operand()) {
        (Either::Tensor(a), Either::Tensor(b)) => aten::where_self(condition, a, b),
        (Either::Tensor(a), Either::Number(b)) => aten::where_self(condition, a, &like(b, a)?),
        (Either::Number(a), Either::Tensor(b)) => aten::where_self(condition, &like(a, b)?, b),
        _ => Err(two_numbers()),
    }
}

/// A number as a tensor of another one's dtype and device.
fn like(n: Scalar, other: &Tensor) -> Result<Tensor> {
    aten::scalar_tensor(n, Some(other.dtype()), None, Some(other.device()), None)
}

/// `-x`
pub(crate) fn neg(x: &Tensor) -> Result<Tensor> {
    aten::neg(x)
}

/// The conjugate, without a call where the tensor is real.
pub(crate) fn conj(x: &Tensor) -> Result<Tensor> {
    match x.dtype().is_complex() {
        true => aten::conj(x),
        false => Ok(x.clone()),
    }
}

/// Zeros of a tensor's sizes, dtype and device.
pub(crate) fn zeros_like(x: &Tensor) -> Result<Tensor> {
    aten::zeros_like(x, None, None, None, None, None)
}

/// Operators of one tensor under their own names.
macro_rules! unary {
    ($($name:ident)*) => {$(
        #[doc = concat!("The operator `", stringify!($name), "`.")]
        pub(crate) fn $name(x: &Tensor) -> Result<Tensor> {
            aten::$name(x)
        }
    )*};
}

unary! {
    cos cosh digamma exp exp2 lgamma log rsqrt sgn sigmoid sin sinh special_erfcx special_i1
    special_i1e square
}

/// The tensor with all its elements.
pub(crate) fn dense(x: &Tensor) -> Result<Tensor> {
    match x.layout() {
        straightline_catalog::Layout::Strided => Ok(x.clone()),
        _ => aten::to_dense(x, None, None),
    }
}
