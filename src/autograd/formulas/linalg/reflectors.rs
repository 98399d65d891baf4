//! Gradients of products of reflectors, `I - tau v v^H` with `v` from the columns of a matrix below
//! its diagonal and 1 on it.

use super::{ONE, ZERO, adjoint, minus, shape, times, wanted};
use crate::autograd::formulas::basics::conj;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;

/// The reflectors of a matrix: vectors, and factors as matrices of one element.
fn reflectors(a: &Tensor, tau: &Tensor) -> Result<Vec<(Tensor, Tensor)>> {
    let (m, count) = (shape(a).0, tau.sizes().last().copied().unwrap_or(0));
    let (dtype, device) = (Some(a.dtype()), Some(a.device()));
    let ones = aten::eye_m(m, count, dtype, None, device, None)?;
    let below = aten::tril(&aten::narrow(a, -1, 0, count)?, -1)?;
    let vectors = aten::add_tensor(&below, &ones, ONE)?;
    (0..count)
        .map(|i| {
            let factor = aten::narrow(tau, -1, i, 1)?;
            Ok((aten::narrow(&vectors, -1, i, 1)?, aten::unsqueeze(&factor, -1)?))
        })
        .collect()
}

/// `x - factor v (v^H x)`
fn reflected(x: &Tensor, v: &Tensor, factor: &Tensor) -> Result<Tensor> {
    let along = times(&adjoint(v)?, x)?;
    minus(x, &aten::mul_tensor(factor, &times(v, &along)?)?)
}

/// The gradients of the matrix and of the factors, of that of the product, of which the first
/// `columns` columns were taken.
fn product_backward(
    grad: &Tensor,
    a: &Tensor,
    tau: &Tensor,
    columns: i64,
) -> Result<(Tensor, Tensor)> {
    let m = shape(a).0;
    let all = reflectors(a, tau)?;
    let (dtype, device) = (Some(a.dtype()), Some(a.device()));
    // what each reflector is multiplied with, the last one's first
    let mut partial = aten::eye_m(m, columns, dtype, None, device, None)?;
    let mut multiplied = Vec::with_capacity(all.len());
    for (v, factor) in all.iter().rev() {
        multiplied.push(partial.clone());
        partial = reflected(&partial, v, factor)?;
    }
    let mut grad = grad.clone();
    let (mut of_vectors, mut of_factors) = (Vec::new(), Vec::new());
    for ((v, factor), x) in all.iter().zip(multiplied.iter().rev()) {
        let along = times(&adjoint(v)?, x)?;
        let turned = conj(factor)?;
        let by_along = times(&grad, &adjoint(&along)?)?;
        of_factors.push(aten::neg(&aten::squeeze_dim(&times(&adjoint(v)?, &by_along)?, -1)?)?);
        let first = aten::mul_tensor(&turned, &by_along)?;
        let second = times(x, &times(&adjoint(&grad)?, v)?)?;
        let second = aten::mul_tensor(factor, &second)?;
        of_vectors.push(aten::neg(&aten::add_tensor(&first, &second, ONE)?)?);
        grad = reflected(&grad, v, &turned)?;
    }
    if all.is_empty() {
        let zeros = |t: &Tensor| aten::zeros_like(t, None, None, None, None, None);
        return Ok((zeros(a)?, zeros(tau)?));
    }
    let of_a = aten::tril(&aten::cat(&of_vectors, -1)?, -1)?;
    let missing = shape(a).1 - shape(&of_a).1;
    let of_a = match missing > 0 {
        true => aten::constant_pad_nd(&of_a, &[0, missing], ZERO)?,
        false => of_a,
    };
    Ok((of_a, aten::cat(&of_factors, -1)?))
}

pub(crate) fn householder_product_backward(
    grad: &Tensor,
    a: &Tensor,
    tau: &Tensor,
) -> Result<(Tensor, Tensor)> {
    product_backward(grad, a, tau, shape(grad).1)
}

/// The gradients of the product of reflectors times a matrix: of the matrix that they are in, of
/// their factors, and of the other matrix.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(crate) fn ormqr_backward(
    grad: &Tensor,
    a: &Tensor,
    tau: &Tensor,
    other: &Tensor,
    left: bool,
    transpose: bool,
    mask: &[bool],
) -> Result<[Option<Tensor>; 3]> {
    let of_other = match wanted(mask, 2) {
        true => Some(aten::ormqr(a, tau, grad, left, !transpose)?),
        false => None,
    };
    if !wanted(mask, 0) && !wanted(mask, 1) {
        return Ok([None, None, of_other]);
    }
    let of_product = match (left, transpose) {
        (true, false) => times(grad, &adjoint(other)?)?,
        (true, true) => times(other, &adjoint(grad)?)?,
        (false, false) => times(&adjoint(other)?, grad)?,
        (false, true) => times(&adjoint(grad)?, other)?,
    };
    let (of_a, of_tau) = product_backward(&of_product, a, tau, shape(a).0)?;
    Ok([wanted(mask, 0).then_some(of_a), wanted(mask, 1).then_some(of_tau), of_other])
}
