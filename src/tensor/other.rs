//! The second operand of an operator: another tensor, or a number.

use super::Tensor;
use crate::error::Result;
use half::{bf16, f16};
use num_complex::Complex;
use straightline_catalog::Scalar;

/// The second operand of an operator: a tensor or a number.
///
/// Methods such as [`Tensor::add`] and [`Tensor::gt`] take `impl Into<Other>`, so one name serves
/// both. A tensor is passed by reference or by value; a number is any of Rust's number types, a
/// [`Scalar`] or a complex number. A number takes part in type promotion by its kind and not by its
/// width, as in PyTorch: an `f16` tensor plus `1.0f64` is `f16`, an `i32` tensor plus `1.0` is of
/// the default floating-point dtype.
///
/// ```
/// use straightline::tensor;
/// let x = tensor([1.0, 2.0, 3.0])?;
/// assert_eq!(x.gt(1.5)?.to_vec::<bool>()?, [false, true, true]);
/// assert_eq!(x.gt(&x.flip(0)?)?.to_vec::<bool>()?, [false, false, true]);
/// assert_eq!(x.add(1)?.mul(x.square()?)?.to_vec::<f32>()?, [2.0, 12.0, 36.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug)]
pub enum Other<'a> {
    /// A borrowed tensor.
    Tensor(&'a Tensor),
    /// An owned tensor.
    Owned(Tensor),
    /// A number.
    Number(Scalar),
}

impl Other<'_> {
    /// The tensor; a number becomes a 0-dim one that is promoted as a number
    /// ([`Tensor::wrapped_number`]).
    pub(crate) fn into_tensor(self) -> Result<Tensor> {
        match self {
            Other::Tensor(t) => Ok(t.clone()),
            Other::Owned(t) => Ok(t),
            Other::Number(n) => Tensor::wrapped_number(n),
        }
    }
}

/// Lets methods that need a second tensor take `x.matmul(&w)` as well as `x.matmul(w.t()?)`.
impl AsRef<Tensor> for Tensor {
    #[inline]
    fn as_ref(&self) -> &Tensor {
        self
    }
}

impl<'a> From<&'a Tensor> for Other<'a> {
    #[inline]
    fn from(t: &'a Tensor) -> Self {
        Other::Tensor(t)
    }
}

impl<'a> From<&&'a Tensor> for Other<'a> {
    #[inline]
    fn from(t: &&'a Tensor) -> Self {
        Other::Tensor(t)
    }
}

impl From<Tensor> for Other<'_> {
    #[inline]
    fn from(t: Tensor) -> Self {
        Other::Owned(t)
    }
}

macro_rules! numbers {
    ($($($t:ty),*: |$n:ident| $scalar:expr;)*) => {$($(
        impl From<$t> for Other<'_> {
            #[inline]
            fn from($n: $t) -> Self {
                Other::Number($scalar)
            }
        }
    )*)*};
}
numbers! {
    Scalar: |n| n;
    f64, f32, i64, i32, u8, usize, bool, Complex<f32>, Complex<f64>: |n| n.into();
    i16, i8, u32, u16: |n| Scalar::Int(n.into());
    f16, bf16: |n| Scalar::Float(n.to_f64());
}
