//! Gradients of special functions.

use super::basics::{conj, div, mul, sub, where_};
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use std::f64::consts::PI;
use straightline_catalog::Scalar;

const ZERO: Scalar = Scalar::Int(0);
const ONE: Scalar = Scalar::Int(1);

pub(crate) use crate::ops::aten::{polygamma, special_bessel_j1, special_zeta};

/// The derivative of `polygamma(n, x)`.
pub(crate) fn next_polygamma(n: i64, x: &Tensor) -> Result<Tensor> {
    aten::polygamma(n + 1, x)
}

/// What a slope is, with its limit where `x` is 0.
fn with_limit(x: &Tensor, slope: impl Fn(&Tensor) -> Result<Tensor>, limit: f64) -> Result<Tensor> {
    let zero = aten::eq_scalar(x, ZERO)?;
    // not divided by 0 even where the quotient is not used: its own gradient would be NaN
    let safe = aten::masked_fill_scalar(x, &zero, ONE)?;
    let limit =
        aten::scalar_tensor(Scalar::Float(limit), Some(x.dtype()), None, Some(x.device()), None)?;
    where_(&zero, &limit, &slope(&safe)?)
}

pub(crate) fn i1_backward(grad: &Tensor, x: &Tensor, result: &Tensor) -> Result<Tensor> {
    let slope = |safe: &Tensor| sub(&aten::i0(x)?, &aten::div_tensor(result, safe)?);
    mul(grad, &with_limit(x, slope, 0.5)?)
}

pub(crate) fn i1e_backward(grad: &Tensor, x: &Tensor, result: &Tensor) -> Result<Tensor> {
    let slope = |safe: &Tensor| {
        let rate = aten::add_tensor(&aten::sgn(x)?, &aten::reciprocal(safe)?, ONE)?;
        sub(&aten::special_i0e(x)?, &mul(result, &rate)?)
    };
    mul(grad, &with_limit(x, slope, 0.5)?)
}

pub(crate) fn sinc_backward(grad: &Tensor, x: &Tensor) -> Result<Tensor> {
    let slope = |safe: &Tensor| {
        let turn = aten::mul_scalar(safe, Scalar::Float(PI))?;
        let rise = sub(&mul(&turn, &aten::cos(&turn)?)?, &aten::sin(&turn)?)?;
        aten::div_tensor(&rise, &mul(&turn, safe)?)
    };
    mul(grad, &conj(&with_limit(x, slope, 0.0)?)?)
}

/// Outside of the bounds that `eps` sets the function is flat; without `eps` it is not defined
/// outside of 0 to 1.
pub(crate) fn logit_backward(grad: &Tensor, x: &Tensor, eps: Option<f64>) -> Result<Tensor> {
    let (low, high, outside) = match eps {
        Some(eps) => (eps, 1.0 - eps, 0.0),
        None => (0.0, 1.0, f64::NAN),
    };
    let inside = aten::logical_and(
        &aten::ge_scalar(x, Scalar::Float(low))?,
        &aten::le_scalar(x, Scalar::Float(high))?,
    )?;
    let slope = aten::div_tensor(grad, &mul(x, &sub(1i64, x)?)?)?;
    where_(&inside, &slope, outside)
}

pub(crate) fn zeta_scalar_backward(grad: &Tensor, x: Scalar, other: &Tensor) -> Result<Tensor> {
    let next = aten::special_zeta_self_scalar(Scalar::Float(x.as_f64() + 1.0), other)?;
    mul(grad, &aten::mul_scalar(&next, Scalar::Float(-x.as_f64()))?)
}

/// The result has the sign of another number: what is 0 has no slope.
pub(crate) fn copysign_backward(grad: &Tensor, x: &Tensor, result: &Tensor) -> Result<Tensor> {
    let ratio = aten::div_tensor(result, x)?;
    let ratio = aten::masked_fill_scalar(&ratio, &aten::eq_scalar(x, ZERO)?, ZERO)?;
    mul(grad, &ratio)
}

/// `mvlgamma` is a sum of `lgamma` at `p` places half a unit apart.
pub(crate) fn mvlgamma_backward(grad: &Tensor, x: &Tensor, p: i64) -> Result<Tensor> {
    let first = 0.5 - p as f64 / 2.0;
    let places = aten::arange_start_step(
        Scalar::Float(first),
        Scalar::Float(0.5),
        Scalar::Float(0.5),
        Some(x.dtype()),
        None,
        Some(x.device()),
        None,
    )?;
    let all = aten::add_tensor(&aten::unsqueeze(x, -1)?, &places, ONE)?;
    mul(grad, &aten::sum_dim_int_list(&aten::digamma(&all)?, Some(&[-1]), false, None)?)
}

/// Of complex numbers the roots are taken one by one, each with its own branch.
pub(crate) fn acosh_backward(grad: &Tensor, x: &Tensor) -> Result<Tensor> {
    if !x.dtype().is_complex() {
        return mul(grad, &aten::rsqrt(&sub(&mul(x, x)?, 1i64)?)?);
    }
    let above = aten::rsqrt(&aten::add_scalar(x, ONE, ONE)?)?;
    let below = aten::rsqrt(&aten::sub_scalar(x, ONE, ONE)?)?;
    mul(grad, &conj(&mul(&above, &below)?)?)
}

/// The derivative of the Bessel function of the first kind and order 1; one half at 0.
pub(crate) fn bessel_j1_slope(x: &Tensor) -> Result<Tensor> {
    let slope =
        |x: &Tensor| sub(&aten::special_bessel_j0(x)?, &div(&aten::special_bessel_j1(x)?, x)?);
    with_limit(x, slope, 0.5)
}
