//! Gradients of arithmetic, comparisons and selection.

use super::basics::{conj, div, mul, neg, sub, where_, zeros_like};
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

const ZERO: Scalar = Scalar::Int(0);
const ONE: Scalar = Scalar::Int(1);

/// The conjugate of a number.
fn conjugate(n: Scalar) -> Scalar {
    match n {
        Scalar::Complex(re, im) => Scalar::Complex(re, -im),
        real => real,
    }
}

/// A gradient times the conjugate of a number, which often is 1.
pub(crate) fn maybe_multiply(grad: &Tensor, by: impl Into<Scalar>) -> Result<Tensor> {
    let by = by.into();
    match by.as_complex() {
        (1.0, 0.0) => Ok(grad.clone()),
        _ => aten::mul_scalar(grad, conjugate(by)),
    }
}

pub(crate) fn div_scalar_backward(grad: &Tensor, other: Scalar) -> Result<Tensor> {
    aten::div_scalar(grad, conjugate(other))
}

/// A quotient that is rounded: `trunc` or `floor`.
pub(crate) fn div_mode(a: &Tensor, b: &Tensor, mode: &str) -> Result<Tensor> {
    aten::div_tensor_mode(a, b, Some(mode))
}

/// A rounded quotient is flat.
pub(crate) fn div_mode_self_backward(
    grad: &Tensor,
    other: &Tensor,
    mode: Option<&str>,
) -> Result<Tensor> {
    match mode {
        Some(_) => zeros_like(grad),
        None => div(grad, &conj(other)?),
    }
}

pub(crate) fn div_mode_other_backward(
    grad: &Tensor,
    x: &Tensor,
    other: &Tensor,
    mode: Option<&str>,
) -> Result<Tensor> {
    match mode {
        Some(_) => zeros_like(grad),
        None => mul(&neg(grad)?, &conj(&div(&div(x, other)?, other)?)?),
    }
}

pub(crate) fn div_mode_scalar_backward(
    grad: &Tensor,
    other: Scalar,
    mode: Option<&str>,
) -> Result<Tensor> {
    match mode {
        Some(_) => zeros_like(grad),
        None => div_scalar_backward(grad, other),
    }
}

/// A power with a number as the exponent.
pub(crate) fn pow(x: &Tensor, exponent: impl Into<Scalar>) -> Result<Tensor> {
    aten::pow_tensor_scalar(x, exponent.into())
}

/// One less, of the same kind.
fn less_one(n: Scalar) -> Scalar {
    match n {
        Scalar::Complex(re, im) => Scalar::Complex(re - 1.0, im),
        Scalar::Float(x) => Scalar::Float(x - 1.0),
        n => Scalar::Int(n.as_i64().wrapping_sub(1)),
    }
}

pub(crate) fn pow_backward(grad: &Tensor, x: &Tensor, exponent: Scalar) -> Result<Tensor> {
    if exponent.as_complex() == (0.0, 0.0) {
        return zeros_like(grad);
    }
    let slope = aten::mul_scalar(&pow(x, less_one(exponent))?, exponent)?;
    mul(grad, &conj(&slope)?)
}

pub(crate) fn pow_backward_self(grad: &Tensor, x: &Tensor, exponent: &Tensor) -> Result<Tensor> {
    let less = aten::sub_scalar(exponent, ONE, ONE)?;
    let slope = mul(exponent, &aten::pow_tensor_tensor(x, &less)?)?;
    let flat = aten::eq_scalar(exponent, ZERO)?;
    where_(&flat, 0i64, &mul(grad, &conj(&slope)?)?)
}

/// Where an exponent is real and not negative.
fn not_negative(exponent: &Tensor) -> Result<Tensor> {
    if !exponent.dtype().is_complex() {
        return aten::ge_scalar(exponent, ZERO);
    }
    let real = aten::eq_scalar(&aten::imag(exponent)?, ZERO)?;
    aten::logical_and(&real, &aten::ge_scalar(&aten::real(exponent)?, ZERO)?)
}

pub(crate) fn pow_backward_exponent(
    grad: &Tensor,
    x: &Tensor,
    exponent: &Tensor,
    result: &Tensor,
) -> Result<Tensor> {
    let flat = aten::logical_and(&aten::eq_scalar(x, ZERO)?, &not_negative(exponent)?)?;
    let slope = mul(result, &aten::log(x)?)?;
    where_(&flat, 0i64, &mul(grad, &conj(&slope)?)?)
}

pub(crate) fn pow_scalar_backward_exponent(
    grad: &Tensor,
    base: Scalar,
    exponent: &Tensor,
    result: &Tensor,
) -> Result<Tensor> {
    let log = match base.as_complex() {
        (re, 0.0) if re >= 0.0 => Scalar::Float(re.ln()),
        // of a negative number there is none, unless the result is complex
        (_, 0.0) if !result.dtype().is_complex() => Scalar::Float(f64::NAN),
        (re, im) => Scalar::Complex(re.hypot(im).ln(), im.atan2(re)),
    };
    let along = mul(grad, &conj(&aten::mul_scalar(result, log)?)?)?;
    match base.as_complex() {
        (0.0, 0.0) => where_(&not_negative(exponent)?, 0i64, &along),
        _ => Ok(along),
    }
}

pub(crate) fn atan2_backward(
    grad: &Tensor,
    y: &Tensor,
    x: &Tensor,
    mask: &[bool],
) -> Result<[Option<Tensor>; 2]> {
    let square = aten::add_tensor(&mul(y, y)?, &mul(x, x)?, ONE)?;
    let origin = aten::eq_scalar(&square, ZERO)?;
    let factor = aten::masked_fill_scalar(&aten::reciprocal(&square)?, &origin, ZERO)?;
    let wanted = |i: usize| mask.get(i).copied().unwrap_or(false);
    let of_y = wanted(0).then(|| mul(grad, &mul(x, &factor)?));
    let of_x = wanted(1).then(|| mul(grad, &mul(&neg(y)?, &factor)?));
    Ok([of_y.transpose()?, of_x.transpose()?])
}

/// The gradient of the greater of two, for the first of them: half where they are equal.
pub(crate) fn maximum_backward(grad: &Tensor, own: &Tensor, other: &Tensor) -> Result<Tensor> {
    let less = aten::lt_tensor(own, other)?;
    shared(grad, own, other, &less)
}

/// The same for the lesser of two.
pub(crate) fn minimum_backward(grad: &Tensor, own: &Tensor, other: &Tensor) -> Result<Tensor> {
    let greater = aten::gt_tensor(own, other)?;
    shared(grad, own, other, &greater)
}

fn shared(grad: &Tensor, own: &Tensor, other: &Tensor, without: &Tensor) -> Result<Tensor> {
    let half = aten::div_scalar(grad, Scalar::Int(2))?;
    let parts = aten::where_self(&aten::eq_tensor(own, other)?, &half, grad)?;
    aten::masked_fill_scalar(&parts, without, ZERO)
}

/// The gradient of the greater of two, of which one may be NaN, for one of them: half where they
/// are equal. Of two NaN, the first has it all.
pub(crate) fn fmax_backward(
    grad: &Tensor,
    own: &Tensor,
    other: &Tensor,
    first: bool,
) -> Result<Tensor> {
    part_of_chosen(grad, own, other, &aten::gt_tensor(own, other)?, first)
}

/// The same for the lesser of two.
pub(crate) fn fmin_backward(
    grad: &Tensor,
    own: &Tensor,
    other: &Tensor,
    first: bool,
) -> Result<Tensor> {
    part_of_chosen(grad, own, other, &aten::lt_tensor(own, other)?, first)
}

fn part_of_chosen(
    grad: &Tensor,
    own: &Tensor,
    other: &Tensor,
    better: &Tensor,
    first: bool,
) -> Result<Tensor> {
    let half = aten::div_scalar(grad, Scalar::Int(2))?;
    let mut alone = aten::isnan(other)?;
    if !first {
        alone = aten::logical_and(&alone, &aten::eq_tensor(own, own)?)?;
    }
    let chosen = aten::logical_or(better, &alone)?;
    let rest = where_(&aten::eq_tensor(own, other)?, &half, 0i64)?;
    where_(&chosen, grad, &rest)
}

pub(crate) fn lerp_scalar_backward(grad: &Tensor, weight: Scalar) -> Result<Tensor> {
    let rest = match conjugate(weight) {
        Scalar::Complex(re, im) => Scalar::Complex(1.0 - re, -im),
        real => Scalar::Float(1.0 - real.as_f64()),
    };
    aten::mul_scalar(grad, rest)
}

/// The gradient of `x * log(y + shift)` with respect to `x`: none where `x` is 0 and the logarithm
/// is not finite.
fn of_factor(slope: &Tensor, x: &Tensor, y: &Tensor, least: Scalar) -> Result<Tensor> {
    let flat = aten::logical_and(&aten::eq_scalar(x, ZERO)?, &aten::le_scalar(y, least)?)?;
    aten::masked_fill_scalar(slope, &flat, ZERO)
}

pub(crate) fn xlogy_backward_self(grad: &Tensor, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    of_factor(&aten::xlogy_tensor(grad, y)?, x, y, ZERO)
}

pub(crate) fn xlogy_scalar_backward_self(grad: &Tensor, x: &Tensor, y: Scalar) -> Result<Tensor> {
    let slope = aten::xlogy_scalar_other(grad, y)?;
    match y.as_f64() > 0.0 {
        true => Ok(slope),
        false => aten::masked_fill_scalar(&slope, &aten::eq_scalar(x, ZERO)?, ZERO),
    }
}

pub(crate) fn xlog1py_backward_self(grad: &Tensor, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    of_factor(&aten::special_xlog1py(grad, y)?, x, y, Scalar::Int(-1))
}

pub(crate) fn xlog1py_scalar_backward_self(grad: &Tensor, x: &Tensor, y: Scalar) -> Result<Tensor> {
    let slope = aten::special_xlog1py_other_scalar(grad, y)?;
    match y.as_f64() > -1.0 {
        true => Ok(slope),
        false => aten::masked_fill_scalar(&slope, &aten::eq_scalar(x, ZERO)?, ZERO),
    }
}

/// Bounds that are numbers: nothing passes at a bound itself.
pub(crate) fn clamp_backward(
    grad: &Tensor,
    x: &Tensor,
    min: Option<Scalar>,
    max: Option<Scalar>,
) -> Result<Tensor> {
    let above = min.map(|min| aten::gt_scalar(x, min)).transpose()?;
    let below = max.map(|max| aten::lt_scalar(x, max)).transpose()?;
    let inside = match (above, below) {
        (Some(above), Some(below)) => aten::logical_and(&above, &below)?,
        (Some(inside), None) | (None, Some(inside)) => inside,
        (None, None) => return Ok(grad.clone()),
    };
    where_(&inside, grad, 0i64)
}

pub(crate) fn clamp_min_backward(grad: &Tensor, x: &Tensor, min: Scalar) -> Result<Tensor> {
    clamp_backward(grad, x, Some(min), None)
}

pub(crate) fn clamp_max_backward(grad: &Tensor, x: &Tensor, max: Scalar) -> Result<Tensor> {
    clamp_backward(grad, x, None, Some(max))
}

/// The gradient of what a lower bound gives, from that of the whole clamp.
fn below_max(grad: &Tensor, raised: &Tensor, max: Option<&Tensor>) -> Result<Tensor> {
    match max {
        Some(max) => minimum_backward(grad, raised, max),
        None => Ok(grad.clone()),
    }
}

fn raise(x: &Tensor, min: Option<&Tensor>) -> Result<Tensor> {
    match min {
        Some(min) => aten::maximum(x, min),
        None => Ok(x.clone()),
    }
}

/// Bounds that are tensors: at a bound each has half.
pub(crate) fn clamp_tensor_backward(
    grad: &Tensor,
    x: &Tensor,
    min: Option<&Tensor>,
    max: Option<&Tensor>,
) -> Result<Tensor> {
    let grad = below_max(grad, &raise(x, min)?, max)?;
    match min {
        Some(min) => maximum_backward(&grad, x, min),
        None => Ok(grad),
    }
}

pub(crate) fn clamp_bounds_backward(
    grad: &Tensor,
    x: &Tensor,
    min: Option<&Tensor>,
    max: Option<&Tensor>,
    mask: &[bool],
) -> Result<[Option<Tensor>; 2]> {
    let wanted = |i: usize| mask.get(i).copied().unwrap_or(false);
    let raised = raise(x, min)?;
    let of_min = min.filter(|_| wanted(0));
    let of_min = of_min.map(|min| maximum_backward(&below_max(grad, &raised, max)?, min, x));
    let of_max = max.filter(|_| wanted(1)).map(|max| minimum_backward(grad, max, &raised));
    Ok([of_min.transpose()?, of_max.transpose()?])
}

/// The norm of a difference.
pub(crate) fn dist_backward(
    grad: &Tensor,
    x: &Tensor,
    other: &Tensor,
    p: Scalar,
    result: &Tensor,
) -> Result<Option<Tensor>> {
    super::norm_full_backward(grad, &sub(x, other)?, p, result)
}

pub(crate) fn dist_other_backward(
    grad: &Tensor,
    x: &Tensor,
    other: &Tensor,
    p: Scalar,
    result: &Tensor,
) -> Result<Option<Tensor>> {
    dist_backward(grad, x, other, p, result)?.map(|of_x| neg(&of_x)).transpose()
}

pub(crate) fn nan_to_num_backward(grad: &Tensor, x: &Tensor) -> Result<Tensor> {
    let replaced = aten::logical_or(&aten::isnan(x)?, &aten::isinf(x)?)?;
    mul(grad, &aten::logical_not(&replaced)?)
}
