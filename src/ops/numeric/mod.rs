//! Numerical analysis over whole tensors, all of it made of other operators: what programs of
//! PyTorch call by name, and what autograd and capture see through.

pub(crate) mod calculus;
pub(crate) mod signal;
pub(crate) mod statistics;

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

/// `a + b`, of one dtype or promoted.
pub(crate) fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    aten::add_tensor(a, b, Scalar::Int(1))
}

/// `a - b`, of one dtype or promoted.
pub(crate) fn sub(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    aten::sub_tensor(a, b, Scalar::Int(1))
}

/// The elements from `start` up to `end` along a dimension.
pub(crate) fn part(t: &Tensor, dim: i64, start: i64, end: Option<i64>) -> Result<Tensor> {
    aten::slice_tensor(t, dim, Some(start), end, 1)
}
