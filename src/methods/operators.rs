//! The signs: `+ - * / % & | ^ << >>`, unary `-` and `!`, and `+=` and its like, on tensors and
//! numbers.
//!
//! A sign gives a tensor and panics where the method of the same meaning would return an error.
//! Rust leaves two choices. Signs that give a `Result` cannot be chained with numbers: `&x * 2.0 +
//! 1.0` would add a number to a `Result`, and an operator between two types of which neither is
//! this crate's may not be defined. Nor can `+=` return one. So formulas are written with signs,
//! which fail as Rust's own do (`1 / 0`, `v[7]`), and whoever cannot be sure of shapes and dtypes
//! writes words (`x.mul(2.0)?.add(1.0)?`), which return. While a function is captured a failing
//! sign ends the capture, and the call of the compiled function returns the error.

use crate::error::{Error, Result};
use crate::tensor::watcher;
use crate::tensor::{Other, Tensor};
use num_complex::Complex;
use std::ops::{
    Add, AddAssign, BitAnd, BitAndAssign, BitOr, BitOrAssign, BitXor, BitXorAssign, Div, DivAssign,
    Mul, MulAssign, Neg, Not, Rem, RemAssign, Shl, ShlAssign, Shr, ShrAssign, Sub, SubAssign,
};
use straightline_catalog::Scalar;

/// What a failing sign unwinds with while a function is captured.
struct Failed(Error);

/// The value of a sign.
#[track_caller]
#[inline]
fn value<T>(result: Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(e) => fail(e),
    }
}

#[cold]
#[track_caller]
fn fail(e: Error) -> ! {
    // the capture turns this into the call's error (`returned`): nothing to print
    if cfg!(panic = "unwind") && watcher::capture().is_some() {
        std::panic::resume_unwind(Box::new(Failed(e)));
    }
    panic!("{e}");
}

/// Runs `f`, and returns the error of a sign that failed in it while this thread captures.
pub(crate) fn returned<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    // what `f` leaves half done is the user's, as after any panic; ours is restored by guards
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)) {
        Ok(result) => result,
        Err(payload) => match payload.downcast::<Failed>() {
            Ok(failed) => Err(failed.0),
            Err(payload) => std::panic::resume_unwind(payload),
        },
    }
}

/// A sign between a tensor and what is right of it, and its assigning form.
macro_rules! signs {
    ($($trait:ident $method:ident, $assign:ident $assign_method:ident: $word:ident $word_:ident;)*) => {$(
        impl<'a, R: Into<Other<'a>>> $trait<R> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            #[inline]
            fn $method(self, other: R) -> Tensor {
                value(Tensor::$word(self, other))
            }
        }

        impl<'a, R: Into<Other<'a>>> $trait<R> for Tensor {
            type Output = Tensor;
            #[track_caller]
            #[inline]
            fn $method(self, other: R) -> Tensor {
                value(Tensor::$word(&self, other))
            }
        }

        impl<'a, R: Into<Other<'a>>> $assign<R> for Tensor {
            #[track_caller]
            #[inline]
            fn $assign_method(&mut self, other: R) {
                value(Tensor::$word_(self, other));
            }
        }
    )*};
}

signs! {
    Add add, AddAssign add_assign: add add_;
    Sub sub, SubAssign sub_assign: sub sub_;
    Mul mul, MulAssign mul_assign: mul mul_;
    Div div, DivAssign div_assign: div div_;
    Rem rem, RemAssign rem_assign: remainder remainder_;
    BitAnd bitand, BitAndAssign bitand_assign: bitwise_and bitwise_and_;
    BitOr bitor, BitOrAssign bitor_assign: bitwise_or bitwise_or_;
    BitXor bitxor, BitXorAssign bitxor_assign: bitwise_xor bitwise_xor_;
    Shl shl, ShlAssign shl_assign: bitwise_left_shift bitwise_left_shift_;
    Shr shr, ShrAssign shr_assign: bitwise_right_shift bitwise_right_shift_;
}

/// A sign between a number and a tensor right of it.
macro_rules! number_first {
    ($($number:ty: $($trait:ident $method:ident)*;)*) => {$($(
        impl $trait<&Tensor> for $number {
            type Output = Tensor;
            #[track_caller]
            #[inline]
            fn $method(self, tensor: &Tensor) -> Tensor {
                value(before::$method(self.into(), tensor))
            }
        }

        impl $trait<Tensor> for $number {
            type Output = Tensor;
            #[track_caller]
            #[inline]
            fn $method(self, tensor: Tensor) -> Tensor {
                value(before::$method(self.into(), &tensor))
            }
        }
    )*)*};
}

// One type of each kind of literal: were there an `f32` beside the `f64`, Rust could not tell what
// `2.0 * &x` is before the end of the function, and `(2.0 * &x).exp()` would not compile.
number_first! {
    f64: Add add Sub sub Mul mul Div div Rem rem;
    i64: Add add Sub sub Mul mul Div div Rem rem BitAnd bitand BitOr bitor BitXor bitxor;
    bool: BitAnd bitand BitOr bitor BitXor bitxor;
    Complex<f32>: Add add Sub sub Mul mul Div div;
    Complex<f64>: Add add Sub sub Mul mul Div div;
    Scalar: Add add Sub sub Mul mul Div div Rem rem BitAnd bitand BitOr bitor BitXor bitxor;
}

/// What the signs mean with a number before the tensor.
mod before {
    use crate::error::Result;
    use crate::ops::aten;
    use crate::tensor::Tensor;
    use straightline_catalog::Scalar;

    macro_rules! commutative {
        ($($sign:ident $word:ident),*) => {$(
            #[track_caller]
            pub(super) fn $sign(number: Scalar, tensor: &Tensor) -> Result<Tensor> {
                tensor.$word(number)
            }
        )*};
    }
    commutative!(add add, mul mul, bitand bitwise_and, bitor bitwise_or, bitxor bitwise_xor);

    #[track_caller]
    pub(super) fn sub(number: Scalar, tensor: &Tensor) -> Result<Tensor> {
        aten::rsub_scalar(tensor, number, Scalar::Int(1))
    }

    #[track_caller]
    pub(super) fn div(number: Scalar, tensor: &Tensor) -> Result<Tensor> {
        aten::div_tensor(&Tensor::wrapped_number(number)?, tensor)
    }

    #[track_caller]
    pub(super) fn rem(number: Scalar, tensor: &Tensor) -> Result<Tensor> {
        aten::remainder_tensor(&Tensor::wrapped_number(number)?, tensor)
    }
}

impl Neg for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        value(Tensor::neg(self))
    }
}

impl Neg for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        value(Tensor::neg(&self))
    }
}

/// The bits turned round; of `bool`, the other one.
impl Not for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn not(self) -> Tensor {
        value(self.bitwise_not())
    }
}

/// The bits turned round; of `bool`, the other one.
impl Not for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn not(self) -> Tensor {
        value(self.bitwise_not())
    }
}

#[cfg(test)]
#[path = "operators_tests.rs"]
mod tests;
