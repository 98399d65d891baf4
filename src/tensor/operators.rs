//! `+ - * /` and unary minus on tensor references. Each returns a `Result`, and the operators are
//! defined on results as well, so that expressions chain and the first error wins.

use super::Tensor;
use crate::error::Result;
use std::ops::{Add, Div, Mul, Neg, Sub};
use straightline_passes::ir::Scalar;

macro_rules! binary {
    ($($trait:ident $method:ident $scalar:ident),* $(,)?) => {$(
        impl $trait<&Tensor> for &Tensor {
            type Output = Result<Tensor>;
            #[track_caller]
            fn $method(self, rhs: &Tensor) -> Result<Tensor> { Tensor::$method(self, rhs) }
        }
        impl $trait<Result<Tensor>> for &Tensor {
            type Output = Result<Tensor>;
            #[track_caller]
            fn $method(self, rhs: Result<Tensor>) -> Result<Tensor> { Tensor::$method(self, &rhs?) }
        }
        impl $trait<&Tensor> for Result<Tensor> {
            type Output = Result<Tensor>;
            #[track_caller]
            fn $method(self, rhs: &Tensor) -> Result<Tensor> { Tensor::$method(&self?, rhs) }
        }
        impl $trait<f64> for &Tensor {
            type Output = Result<Tensor>;
            #[track_caller]
            fn $method(self, rhs: f64) -> Result<Tensor> { self.$scalar(Scalar::Float(rhs)) }
        }
        impl $trait<i64> for &Tensor {
            type Output = Result<Tensor>;
            #[track_caller]
            fn $method(self, rhs: i64) -> Result<Tensor> { self.$scalar(Scalar::Int(rhs)) }
        }
    )*};
}
binary!(Add add add_scalar, Sub sub sub_scalar, Mul mul mul_scalar, Div div div_scalar);

impl Neg for &Tensor {
    type Output = Result<Tensor>;
    #[track_caller]
    fn neg(self) -> Result<Tensor> {
        Tensor::neg(self)
    }
}
