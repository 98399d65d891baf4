//! Gradients of running sums, products and extremes.

use super::basics::{conj, exp, mul, sub, where_};
use crate::autograd::grad_enabled;
use crate::error::Result;
use crate::ops::aten;
use crate::ops::common::wrap_dim;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

const ZERO: Scalar = Scalar::Int(0);

/// Running sums from the end.
pub(crate) fn cumsum_backward(grad: &Tensor, dim: i64) -> Result<Tensor> {
    if grad.dim() == 0 {
        return Ok(grad.clone());
    }
    aten::flip(&aten::cumsum(&aten::flip(grad, &[dim])?, dim, None)?, &[dim])
}

/// The gradient goes to where the extreme so far was found, each time that it still is.
pub(crate) fn cummaxmin_backward(
    grad: &Tensor,
    sizes: &[i64],
    indices: &Tensor,
    dim: i64,
) -> Result<Tensor> {
    let zeros = aten::new_zeros(grad, sizes, None, None, None, None)?;
    aten::scatter_add(&zeros, dim, indices, grad)
}

pub(crate) fn cumprod_backward(
    grad: &Tensor,
    x: &Tensor,
    dim: i64,
    result: &Tensor,
) -> Result<Tensor> {
    let x = &match x.dtype() == grad.dtype() {
        true => x.clone(),
        false => aten::to_dtype(x, grad.dtype(), false, false, None)?,
    };
    if x.dim() == 0 {
        return Ok(grad.clone());
    }
    match grad_enabled() {
        true => products_without_each(grad, x, dim),
        false => by_quotients(grad, x, dim, result),
    }
}

/// Where further gradients may follow: element `i` of a row of `n` has the gradients of the
/// products `k`, each of which is taken with 1 in place of element `i`.
fn products_without_each(grad: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    let rank = x.dim() as i64;
    let dim = wrap_dim(dim, x.dim())? as i64;
    let rows = aten::movedim_int(x, dim, rank - 1)?;
    let size = aten::size_int(x, dim)?;
    let own =
        aten::eye(size, Some(straightline_catalog::DType::Bool), None, Some(x.device()), None)?;
    let without = where_(&own, 1i64, &aten::unsqueeze(&rows, -2)?)?;
    let products = aten::triu(&aten::cumprod(&without, -1, None)?, 0)?;
    let grads = aten::unsqueeze(&aten::movedim_int(grad, dim, rank - 1)?, -2)?;
    let gradient =
        aten::sum_dim_int_list(&mul(&grads, &conj(&products)?)?, Some(&[-1]), false, None)?;
    aten::movedim_int(&gradient, rank - 1, dim)
}

/// The product up to `k` divided by element `i`, as far as no element is 0; the first 0 of a row
/// has the products with 1 in its place, and nothing behind it has a gradient.
fn by_quotients(grad: &Tensor, x: &Tensor, dim: i64, result: &Tensor) -> Result<Tensor> {
    let zero = aten::eq_scalar(x, ZERO)?;
    let zeros_so_far = aten::cumsum(&zero, dim, None)?;
    let first = aten::logical_and(&zero, &aten::eq_scalar(&zeros_so_far, Scalar::Int(1))?)?;
    let before = aten::eq_scalar(&zeros_so_far, ZERO)?;
    let sums = |products: &Tensor| cumsum_backward(&mul(grad, &conj(products)?)?, dim);
    let quotients = aten::div_tensor(&sums(result)?, &conj(x)?)?;
    let filled = aten::masked_fill_scalar(x, &first, Scalar::Int(1))?;
    let at_first = where_(&first, &sums(&aten::cumprod(&filled, dim, None)?)?, 0i64)?;
    where_(&before, &quotients, &at_first)
}

/// Running sums from the end of logarithms.
fn logcumsumexp_from_end(x: &Tensor, dim: i64) -> Result<Tensor> {
    aten::flip(&aten::logcumsumexp(&aten::flip(x, &[dim])?, dim)?, &[dim])
}

/// In logarithms, which neither overflow nor vanish; those of positive and of negative gradients
/// apart.
pub(crate) fn logcumsumexp_backward(
    grad: &Tensor,
    x: &Tensor,
    result: &Tensor,
    dim: i64,
) -> Result<Tensor> {
    if grad.dim() == 0 || grad.numel() == 0 {
        return Ok(grad.clone());
    }
    let back = |logs: &Tensor| {
        let sums = logcumsumexp_from_end(&sub(logs, result)?, dim)?;
        exp(&aten::add_tensor(&sums, x, Scalar::Int(1))?)
    };
    if grad.dtype().is_complex() {
        return conj(&back(&aten::log(&conj(grad)?)?)?);
    }
    by_sign(grad, &back)
}

/// The running sums of a tangent, weighted as `result` says, in logarithms likewise.
pub(crate) fn logcumsumexp_forward(
    tangent: &Tensor,
    x: &Tensor,
    result: &Tensor,
    dim: i64,
) -> Result<Tensor> {
    if tangent.dim() == 0 || tangent.numel() == 0 {
        return Ok(tangent.clone());
    }
    let along = |logs: &Tensor| {
        let sums = aten::logcumsumexp(&aten::add_tensor(logs, x, Scalar::Int(1))?, dim)?;
        exp(&sub(&sums, result)?)
    };
    match tangent.dtype().is_complex() {
        true => along(&aten::log(tangent)?),
        false => by_sign(tangent, &along),
    }
}

/// A linear function that is given the logarithms of its argument: of the positive part, and of the
/// negative one.
fn by_sign(of: &Tensor, f: &dyn Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let least = of.dtype().finite_bounds().map_or(f64::MIN, |(least, _)| least);
    let part = |of: &Tensor| {
        let positive = aten::gt_scalar(of, ZERO)?;
        f(&where_(&positive, &aten::log(of)?, least)?)
    };
    sub(&part(of)?, &part(&aten::neg(of)?)?)
}
