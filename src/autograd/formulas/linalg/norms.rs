//! Gradients of norms.

use super::{ONE, ZERO, minus};
use crate::error::Result;
use crate::ops::aten;
use crate::ops::common::wrap_dim;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

/// With 0 where a condition holds.
fn cleared(x: &Tensor, where_: &Tensor) -> Result<Tensor> {
    aten::masked_fill_scalar(x, where_, ZERO)
}

/// The gradient of a norm over some dimensions. A count of elements has none.
pub(crate) fn vector_norm_backward(
    grad: &Tensor,
    x: &Tensor,
    p: Scalar,
    norm: &Tensor,
    dims: Option<&[i64]>,
    keepdim: bool,
) -> Result<Option<Tensor>> {
    let p = p.as_f64();
    if p == 0.0 {
        return Ok(None);
    }
    let dims = match dims {
        Some(dims) if !dims.is_empty() => dims.to_vec(),
        _ => (0..x.dim() as i64).collect(),
    };
    let (mut grad, mut norm) = (grad.clone(), norm.clone());
    if !keepdim && x.dim() > 0 {
        let mut at: Vec<usize> =
            dims.iter().map(|d| wrap_dim(*d, x.dim())).collect::<Result<_>>()?;
        at.sort_unstable();
        for dim in at {
            grad = aten::unsqueeze(&grad, dim as i64)?;
            norm = aten::unsqueeze(&norm, dim as i64)?;
        }
    }
    let none = aten::eq_scalar(&norm, ZERO)?;
    let power = |t: &Tensor, e: f64| aten::pow_tensor_scalar(t, Scalar::Float(e));
    if p == 1.0 {
        return aten::mul_tensor(&aten::sgn(x)?, &grad).map(Some);
    }
    if p == 2.0 {
        let unit = cleared(&aten::div_tensor(x, &norm)?, &none)?;
        return aten::mul_tensor(&grad, &unit).map(Some);
    }
    let size = aten::abs(x)?;
    if p.is_infinite() {
        let unknown = aten::isnan(x)?;
        let there = aten::logical_or(&aten::eq_tensor(&size, &norm)?, &unknown)?;
        let count = match x.dim() {
            0 => aten::sum(&there, None)?,
            _ => aten::sum_dim_int_list(&there, Some(&dims), true, None)?,
        };
        let share = aten::mul_tensor(&aten::div_tensor(&grad, &count)?, &there)?;
        return aten::mul_tensor(&aten::sgn(x)?, &share).map(Some);
    }
    let (part, scale) = if p < 1.0 {
        let part = aten::mul_tensor(&aten::sgn(x)?, &power(&size, p - 1.0)?)?;
        let part = cleared(&part, &aten::eq_scalar(x, ZERO)?)?;
        (part, aten::mul_tensor(&grad, &power(&norm, 1.0 - p)?)?)
    } else {
        let part = match p < 2.0 {
            true => aten::mul_tensor(&aten::sgn(x)?, &power(&size, p - 1.0)?)?,
            false => aten::mul_tensor(x, &power(&size, p - 2.0)?)?,
        };
        let scale = aten::div_tensor(&grad, &power(&norm, p - 1.0)?)?;
        (part, cleared(&scale, &none)?)
    };
    aten::mul_tensor(&part, &scale).map(Some)
}

pub(crate) fn norm_backward(
    grad: &Tensor,
    x: &Tensor,
    p: Option<Scalar>,
    norm: &Tensor,
    dims: &[i64],
    keepdim: bool,
) -> Result<Option<Tensor>> {
    let p = p.unwrap_or(Scalar::Int(2));
    vector_norm_backward(grad, x, p, norm, Some(dims), keepdim)
}

pub(crate) fn norm_full_backward(
    grad: &Tensor,
    x: &Tensor,
    p: Scalar,
    norm: &Tensor,
) -> Result<Option<Tensor>> {
    vector_norm_backward(grad, x, p, norm, None, false)
}

pub(crate) fn norm_optional_backward(
    grad: &Tensor,
    x: &Tensor,
    p: Option<Scalar>,
    norm: &Tensor,
) -> Result<Option<Tensor>> {
    norm_backward(grad, x, p, norm, &[], false)
}

/// The gradient of slices that were made shorter where they were longer than `maxnorm`.
pub(crate) fn renorm_backward(
    grad: &Tensor,
    x: &Tensor,
    p: Scalar,
    dim: i64,
    maxnorm: Scalar,
) -> Result<Tensor> {
    let own = wrap_dim(dim, x.dim())?;
    let others: Vec<i64> = (0..x.dim()).filter(|d| *d != own).map(|d| d as i64).collect();
    let norm = aten::linalg_vector_norm(x, p, Some(&others), true, None)?;
    let along = aten::mul_tensor(&aten::conj(x)?, grad)?;
    let along = match along.dtype().is_complex() {
        true => aten::real(&along)?,
        false => along,
    };
    let along = aten::sum_dim_int_list(&along, Some(&others), true, None)?;
    let by_norm = vector_norm_backward(&along, x, p, &norm, Some(&others), true)?;
    // the forward pass divides by a little more than the norm
    let inverse = aten::reciprocal(&aten::add_scalar(&norm, Scalar::Float(1e-7), ONE)?)?;
    let moved = match by_norm {
        Some(by_norm) => minus(grad, &aten::mul_tensor(&inverse, &by_norm)?)?,
        None => grad.clone(),
    };
    let shorter = aten::mul_tensor(&aten::mul_scalar(&inverse, maxnorm)?, &moved)?;
    aten::where_self(&aten::gt_scalar(&norm, maxnorm)?, &shorter, grad)
}
