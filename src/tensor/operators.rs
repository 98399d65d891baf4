//! `+ - * /` and unary minus on tensors and references to them, with tensors and numbers. Each returns a
//! `Result`, and the operators are defined on results as well, so that expressions chain and the first error wins.

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
        impl $trait<Tensor> for &Tensor {
            type Output = Result<Tensor>;
            #[track_caller]
            fn $method(self, rhs: Tensor) -> Result<Tensor> { Tensor::$method(self, &rhs) }
        }
        impl $trait<&Tensor> for Tensor {
            type Output = Result<Tensor>;
            #[track_caller]
            fn $method(self, rhs: &Tensor) -> Result<Tensor> { Tensor::$method(&self, rhs) }
        }
        impl $trait<Tensor> for Tensor {
            type Output = Result<Tensor>;
            #[track_caller]
            fn $method(self, rhs: Tensor) -> Result<Tensor> { Tensor::$method(&self, &rhs) }
        }
        impl $trait<f64> for Tensor {
            type Output = Result<Tensor>;
            #[track_caller]
            fn $method(self, rhs: f64) -> Result<Tensor> { self.$scalar(Scalar::Float(rhs)) }
        }
        impl $trait<i64> for Tensor {
            type Output = Result<Tensor>;
            #[track_caller]
            fn $method(self, rhs: i64) -> Result<Tensor> { self.$scalar(Scalar::Int(rhs)) }
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

impl Neg for Tensor {
    type Output = Result<Tensor>;
    #[track_caller]
    fn neg(self) -> Result<Tensor> {
        Tensor::neg(&self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_references_of_every_kind() -> Result<()> {
        let x = Tensor::from_vec([1f32, 2.0])?;
        let of = |t: Result<Tensor>| t.unwrap().to_vec::<f32>().unwrap();
        assert_eq!(of(x.exp()?.log()? + 1.0), [2.0, 3.0]);
        assert_eq!(of(x.square()? * 2), [2.0, 8.0]);
        assert_eq!(of(x.square()? - &x), [0.0, 2.0]);
        assert_eq!(of(&x / x.square()?), [1.0, 0.5]);
        assert_eq!(of(x.square()? + x.square()?), [2.0, 8.0]);
        let negated = (-x.square()?)?;
        assert_eq!(of(Ok(negated)), [-1.0, -4.0]);
        assert!((x.square()? + Tensor::from_vec([1f32, 2.0, 3.0])?).is_err());
        Ok(())
    }
}
