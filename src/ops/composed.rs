//! Composites eagerly: each call of a definition goes through the dispatcher.
//!
//! The kernel of an entry that says `composed` runs the definition of its operator's name in
//! [`straightline_passes::compose`].

use crate::error::Error;
use crate::ops::aten;
use crate::ops::common::promote_scalar;
use crate::tensor::Tensor;
use straightline_catalog::{DType, Dims, MemoryFormat, Scalar};
use straightline_passes::compose::{Composer, Made};

/// Makes calls of the dispatcher.
pub(crate) struct Eager;

impl Composer for Eager {
    type Value = Tensor;
    type Error = Error;

    fn sizes(&self, x: &Tensor) -> Dims {
        Dims::from_slice(x.sizes())
    }
    fn dtype(&self, x: &Tensor) -> DType {
        x.dtype()
    }

    fn to(&mut self, x: &Tensor, dtype: DType) -> Made<Self> {
        match x.dtype() == dtype {
            true => Ok(x.clone()),
            false => aten::to_dtype(x, dtype, false, false, None),
        }
    }
    fn number_beside(&mut self, number: Scalar, x: &Tensor) -> Made<Self> {
        let dtype = promote_scalar(x, number);
        aten::scalar_tensor(number, Some(dtype), None, Some(x.device()), None)
    }

    fn t(&mut self, x: &Tensor) -> Made<Self> {
        aten::t(x)
    }
    fn unsqueeze(&mut self, x: &Tensor, dim: i64) -> Made<Self> {
        aten::unsqueeze(x, dim)
    }
    fn squeeze(&mut self, x: &Tensor, dims: &[i64]) -> Made<Self> {
        match dims {
            [dim] => aten::squeeze_dim(x, *dim),
            dims => aten::squeeze_dims(x, dims),
        }
    }
    fn expand(&mut self, x: &Tensor, sizes: &[i64]) -> Made<Self> {
        aten::expand(x, sizes, false)
    }
    fn view(&mut self, x: &Tensor, sizes: &[i64]) -> Made<Self> {
        aten::view(x, sizes)
    }
    fn unsafe_view(&mut self, x: &Tensor, sizes: &[i64]) -> Made<Self> {
        aten::_unsafe_view(x, sizes)
    }
    fn reshape(&mut self, x: &Tensor, sizes: &[i64]) -> Made<Self> {
        aten::reshape(x, sizes)
    }
    fn contiguous(&mut self, x: &Tensor) -> Made<Self> {
        match x.is_contiguous() {
            true => Ok(x.clone()),
            false => aten::contiguous(x, MemoryFormat::Contiguous),
        }
    }
    fn cat(&mut self, parts: &[Tensor], dim: i64) -> Made<Self> {
        aten::cat(parts, dim)
    }

    fn real(&mut self, x: &Tensor) -> Made<Self> {
        aten::real(x)
    }
    fn abs(&mut self, x: &Tensor) -> Made<Self> {
        aten::abs(x)
    }
    fn exp(&mut self, x: &Tensor) -> Made<Self> {
        aten::exp(x)
    }
    fn log(&mut self, x: &Tensor) -> Made<Self> {
        aten::log(x)
    }
    fn sqrt(&mut self, x: &Tensor) -> Made<Self> {
        aten::sqrt(x)
    }
    fn add(&mut self, a: &Tensor, b: &Tensor) -> Made<Self> {
        aten::add_tensor(a, b, Scalar::Int(1))
    }
    fn sub(&mut self, a: &Tensor, b: &Tensor) -> Made<Self> {
        aten::sub_tensor(a, b, Scalar::Int(1))
    }
    fn mul(&mut self, a: &Tensor, b: &Tensor) -> Made<Self> {
        aten::mul_tensor(a, b)
    }
    fn pow(&mut self, x: &Tensor, power: f64) -> Made<Self> {
        aten::pow_tensor_scalar(x, Scalar::Float(power))
    }
    fn eq(&mut self, x: &Tensor, number: f64) -> Made<Self> {
        aten::eq_scalar(x, Scalar::Float(number))
    }
    fn ne(&mut self, x: &Tensor, number: f64) -> Made<Self> {
        aten::ne_scalar(x, Scalar::Float(number))
    }
    fn masked_fill(&mut self, x: &Tensor, mask: &Tensor, number: f64) -> Made<Self> {
        aten::masked_fill_scalar(x, mask, Scalar::Float(number))
    }
    fn select(&mut self, condition: &Tensor, a: &Tensor, b: &Tensor) -> Made<Self> {
        aten::where_self(condition, a, b)
    }

    fn sum(&mut self, x: &Tensor, dims: &[i64], keepdim: bool) -> Made<Self> {
        aten::sum_dim_int_list(x, Some(dims), keepdim, None)
    }
    fn amax(&mut self, x: &Tensor, dims: &[i64], keepdim: bool) -> Made<Self> {
        aten::amax(x, dims, keepdim)
    }
    fn amin(&mut self, x: &Tensor, dims: &[i64], keepdim: bool) -> Made<Self> {
        aten::amin(x, dims, keepdim)
    }
    fn softmax(&mut self, x: &Tensor, dim: i64) -> Made<Self> {
        aten::_softmax(x, dim, false)
    }
    fn log_softmax(&mut self, x: &Tensor, dim: i64) -> Made<Self> {
        aten::_log_softmax(x, dim, false)
    }

    fn matmul(&mut self, a: &Tensor, b: &Tensor) -> Made<Self> {
        aten::matmul(a, b)
    }
    fn mm(&mut self, a: &Tensor, b: &Tensor) -> Made<Self> {
        aten::mm(a, b)
    }
    fn bmm(&mut self, a: &Tensor, b: &Tensor) -> Made<Self> {
        aten::bmm(a, b)
    }
    fn addmm(&mut self, addend: &Tensor, a: &Tensor, b: &Tensor) -> Made<Self> {
        aten::addmm(addend, a, b, Scalar::Int(1), Scalar::Int(1))
    }
}

#[cfg(test)]
mod tests {
    use crate::{DType, ErrorKind, MetaError, Scalar, Tensor};
    use crate::{ops::aten, tensor};
    use straightline_catalog::Dims;

    fn zeros(sizes: &[i64], dtype: DType) -> Tensor {
        aten::zeros(sizes, Some(dtype), None, None, None).unwrap()
    }

    #[test]
    fn no_dimensions_of_logsumexp_are_all() {
        let x = zeros(&[2, 3], DType::F64);
        let y = aten::logsumexp(&x, &[], false).unwrap();
        assert!(y.sizes().is_empty());
        assert_eq!(y.to_vec::<f64>().unwrap(), [6f64.ln()]);
        assert_eq!(aten::logsumexp(&x, &[], true).unwrap().sizes(), [1, 1]);
    }

    #[test]
    fn a_bias_is_added_to_a_vector_in_place() {
        let (x, w) = (zeros(&[3], DType::F32), zeros(&[4, 3], DType::F32));
        let y = aten::linear(&x, &w, Some(&zeros(&[4], DType::F64))).unwrap();
        assert_eq!((y.dtype(), y.sizes()), (DType::F32, &[4][..]));
        let error = aten::linear(&x, &w, Some(&zeros(&[2, 4], DType::F32))).unwrap_err();
        let ErrorKind::Meta(MetaError::Enlarged { sizes, broadcast }) = error.kind() else {
            panic!("{error}")
        };
        assert_eq!((&sizes[..], &broadcast[..]), (&[4][..], &[2, 4][..]));
    }

    #[test]
    fn masks_are_of_truth_values_and_what_is_filled_lies_in_rows() {
        let x = aten::t(&zeros(&[2, 3], DType::F32)).unwrap();
        let value = tensor(1f32).unwrap();
        let error = aten::masked_fill_tensor(&x, &zeros(&[3, 2], DType::U8), &value).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Meta(MetaError::MaskDType { .. })), "{error}");
        let mask = zeros(&[3, 2], DType::Bool);
        let filled = aten::masked_fill_tensor(&x, &mask, &value).unwrap();
        assert_eq!(filled.strides(), [2, 1]);
    }

    #[test]
    fn an_empty_list_makes_no_stack() {
        let error = aten::stack(&[], 0).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Meta(MetaError::EmptyList { .. })), "{error}");
        let parts = [zeros(&[2], DType::F32), zeros(&[3], DType::F32)];
        let error = aten::stack(&parts, 0).unwrap_err();
        let ErrorKind::Meta(MetaError::Stacked { other, position, .. }) = error.kind() else {
            panic!("{error}")
        };
        assert_eq!((other, *position), (&Dims::from_slice(&[3]), 1));
    }

    #[test]
    fn an_order_of_a_norm_is_real() {
        let x = zeros(&[2], DType::F32);
        let order = Scalar::Complex(1.0, 2.0);
        assert!(aten::linalg_vector_norm(&x, order, None, false, None).is_err());
    }
}
