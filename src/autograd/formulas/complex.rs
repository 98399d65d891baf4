//! Gradients of complex numbers: the conjugate of the derivative by the conjugate, as PyTorch has
//! it.

use super::basics::{conj, mul, where_, zeros_like};
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

const ZERO: Scalar = Scalar::Int(0);
const I: Scalar = Scalar::Complex(0.0, 1.0);

/// The real parts: of a real tensor, itself.
pub(crate) fn real(x: &Tensor) -> Result<Tensor> {
    aten::real(x)
}

/// The imaginary parts, also of a real tensor.
pub(crate) fn imag(x: &Tensor) -> Result<Tensor> {
    match x.dtype().is_complex() {
        true => aten::imag(x),
        false => zeros_like(x),
    }
}

pub(crate) fn view_as_complex(x: &Tensor) -> Result<Tensor> {
    aten::view_as_complex(&aten::contiguous(x, Default::default())?)
}

pub(crate) fn view_as_real(x: &Tensor) -> Result<Tensor> {
    let x = aten::contiguous(x, Default::default())?;
    aten::view_as_real(&aten::resolve_conj(&x)?)
}

/// The angle of a real number is flat.
pub(crate) fn angle_backward(grad: &Tensor, x: &Tensor) -> Result<Tensor> {
    if !x.dtype().is_complex() {
        return zeros_like(grad);
    }
    let none = aten::eq_scalar(x, ZERO)?;
    // nothing is divided by 0, so that the derivative of this is a number as well
    let squared = where_(&none, 1i64, &aten::square(&aten::abs(x)?)?)?;
    let along = aten::mul_scalar(&aten::div_tensor(&mul(grad, x)?, &squared)?, I)?;
    where_(&none, 0i64, &along)
}

/// The sign of a complex number turns with it; that of a real one is flat.
pub(crate) fn sgn_backward(grad: &Tensor, x: &Tensor, sgn: &Tensor) -> Result<Tensor> {
    if !x.dtype().is_complex() {
        return zeros_like(grad);
    }
    let abs = aten::abs(x)?;
    let none = aten::eq_scalar(&abs, ZERO)?;
    let (abs, turn) = (where_(&none, 1i64, &abs)?, where_(&none, 1i64, sgn)?);
    let radial = aten::real(&aten::div_tensor(grad, &turn)?)?;
    let away = aten::div_tensor(&mul(&radial, sgn)?, &abs)?;
    let along = aten::sub_tensor(&aten::div_tensor(grad, &abs)?, &away, Scalar::Int(1))?;
    where_(&none, 0i64, &along)
}

pub(crate) fn polar_form_backward(grad: &Tensor, result: &Tensor) -> Result<[Tensor; 2]> {
    let grad = conj(grad)?;
    let of_abs = aten::real(&mul(&grad, &aten::sgn(result)?)?)?;
    let of_angle = aten::real(&mul(&grad, &aten::mul_scalar(result, I)?)?)?;
    Ok([of_abs, of_angle])
}
