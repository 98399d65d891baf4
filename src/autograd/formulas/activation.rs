//! Gradients of activations. What has an operator of its own for its gradient is a call of it, so
//! that the second derivative is that operator's formula.

use super::basics::{add, exp, mul, sigmoid, square, sub, where_, zeros_like};
use crate::autograd::grad_enabled;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

const ZERO: Scalar = Scalar::Int(0);

pub(crate) use crate::ops::aten::{
    elu_backward, gelu_backward, glu_backward, hardsigmoid_backward, hardswish_backward,
    hardtanh_backward, leaky_relu_backward, log_sigmoid_backward, sigmoid_backward,
    softplus_backward, softshrink_backward, tanh_backward,
};

pub(crate) use crate::ops::aten::{_prelu_kernel_backward as prelu_backward, hardshrink_backward};

pub(crate) fn threshold_backward(
    grad: &Tensor,
    x: &Tensor,
    threshold: impl Into<Scalar>,
) -> Result<Tensor> {
    aten::threshold_backward(grad, x, threshold.into())
}

pub(crate) fn celu_backward(
    grad: &Tensor,
    alpha: Scalar,
    is_result: bool,
    x: &Tensor,
) -> Result<Tensor> {
    let inverse = Scalar::Float(1.0 / alpha.as_f64());
    aten::elu_backward(grad, alpha, Scalar::Int(1), inverse, is_result, x)
}

/// Numbers where a condition holds, and 0 elsewhere, as factors of a gradient.
fn factors(condition: &Tensor, like: &Tensor) -> Result<Tensor> {
    aten::to_dtype(condition, like.dtype(), false, false, None)
}

pub(crate) fn elu_double_backward(
    grad: &Tensor,
    grad_output: &Tensor,
    alpha: Scalar,
    scale: Scalar,
    input_scale: Scalar,
    is_result: bool,
    x: &Tensor,
) -> Result<Tensor> {
    let negative = factors(&aten::lt_scalar(x, ZERO)?, grad)?;
    let both = aten::mul_scalar(&mul(grad, grad_output)?, input_scale)?;
    match is_result {
        true => mul(&both, &negative),
        false => {
            let curve = aten::elu_backward(&both, alpha, scale, input_scale, is_result, x)?;
            mul(&curve, &negative)
        }
    }
}

/// The second derivative of `gelu`.
pub(crate) fn gelu_double_backward(
    grad: &Tensor,
    grad_output: &Tensor,
    x: &Tensor,
    approximate: &str,
) -> Result<Tensor> {
    let both = mul(grad, grad_output)?;
    let squared = square(x)?;
    if approximate != "tanh" {
        // (2 - x^2) phi(x), with phi the normal density
        let density = mul(&exp(&mul(-0.5, &squared)?)?, 0.398_942_280_401_432_7)?;
        return mul(&both, &mul(&density, &sub(2i64, &squared)?)?);
    }
    // x (1 + t) / 2 with t = tanh(u): t' = (1 - t^2) u', t'' = (1 - t^2) (u'' - 2 t u'^2)
    const RATE: f64 = 0.797_884_560_802_865_4;
    const CUBIC: f64 = 0.044715;
    let u = mul(&mul(x, RATE)?, &add(1i64, &mul(&squared, CUBIC)?)?)?;
    let t = aten::tanh(&u)?;
    let slope = mul(&add(1i64, &mul(&squared, 3.0 * CUBIC)?)?, RATE)?;
    let bend = mul(x, 6.0 * CUBIC * RATE)?;
    let flat = sub(1i64, &square(&t)?)?;
    let inner = sub(&bend, &mul(&mul(2i64, &t)?, &square(&slope)?)?)?;
    let curve = mul(&flat, &add(&slope, &mul(&mul(0.5, x)?, &inner)?)?)?;
    mul(&both, &curve)
}

/// The halves of a tensor along a dimension.
fn halves(x: &Tensor, dim: i64) -> Result<(Tensor, Tensor)> {
    let size = aten::size_int(x, dim)? / 2;
    Ok((aten::narrow(x, dim, 0, size)?, aten::narrow(x, dim, size, size)?))
}

/// `glu` is `a s(b)` of the halves `a` and `b`: here `a`, `s(b)` and its slope `s(b) (1 - s(b))`.
fn gate(x: &Tensor, dim: i64) -> Result<(Tensor, Tensor, Tensor)> {
    let (a, b) = halves(x, dim)?;
    let s = sigmoid(&b)?;
    let slope = mul(&s, &sub(1i64, &s)?)?;
    Ok((a, s, slope))
}

pub(crate) fn glu_double_backward_grad(grad: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    let (a, s, slope) = gate(x, dim)?;
    let (of_a, of_b) = halves(grad, dim)?;
    add(&mul(&of_a, &s)?, &mul(&of_b, &mul(&a, &slope)?)?)
}

pub(crate) fn glu_double_backward(
    grad: &Tensor,
    grad_output: &Tensor,
    x: &Tensor,
    dim: i64,
) -> Result<Tensor> {
    let (a, s, slope) = gate(x, dim)?;
    let (of_a, of_b) = halves(grad, dim)?;
    let both = mul(grad_output, &slope)?;
    let first = mul(&of_b, &both)?;
    let bend = mul(&a, &sub(1i64, &mul(2i64, &s)?)?)?;
    let second = mul(&both, &add(&of_a, &mul(&of_b, &bend)?)?)?;
    aten::cat(&[first, second], dim)
}

pub(crate) fn hardswish_double_backward(
    grad: &Tensor,
    grad_output: &Tensor,
    x: &Tensor,
) -> Result<Tensor> {
    let three = Scalar::Int(3);
    let inside =
        aten::logical_and(&aten::gt_scalar(x, Scalar::Int(-3))?, &aten::lt_scalar(x, three)?)?;
    let both = aten::div_scalar(&mul(grad, grad_output)?, three)?;
    where_(&inside, &both, 0i64)
}

pub(crate) fn log_sigmoid_double_backward(both: &Tensor, x: &Tensor) -> Result<Tensor> {
    let s = sigmoid(x)?;
    mul(both, &mul(&sub(&s, 1i64)?, &s)?)
}

pub(crate) fn softplus_double_backward(
    both: &Tensor,
    x: &Tensor,
    beta: Scalar,
    threshold: Scalar,
) -> Result<Tensor> {
    let steep = aten::mul_scalar(x, beta)?;
    let curve = aten::sigmoid_backward(both, &sigmoid(&steep)?)?;
    let curved = factors(&aten::lt_scalar(&steep, threshold)?, both)?;
    aten::mul_scalar(&mul(&curve, &curved)?, beta)
}

/// The operator for this gradient has none itself, so that where more gradients may follow it is
/// an expression.
pub(crate) fn silu_backward(grad: &Tensor, x: &Tensor) -> Result<Tensor> {
    if !grad_enabled() {
        return aten::silu_backward(grad, x);
    }
    let s = sigmoid(x)?;
    let inner = add(1i64, &mul(x, &sub(1i64, &s)?)?)?;
    mul(grad, &mul(&s, &inner)?)
}

pub(crate) fn mish_backward(grad: &Tensor, x: &Tensor) -> Result<Tensor> {
    if !grad_enabled() {
        return aten::mish_backward(grad, x);
    }
    let s = sigmoid(x)?;
    let t = aten::tanh(&aten::softplus(x, Scalar::Int(1), Scalar::Int(20))?)?;
    let inner = mul(&mul(x, &s)?, &sub(1i64, &square(&t)?)?)?;
    mul(grad, &add(&t, &inner)?)
}

pub(crate) fn rrelu_with_noise_backward(
    grad: &Tensor,
    x: &Tensor,
    noise: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
) -> Result<Tensor> {
    aten::rrelu_with_noise_backward(grad, x, noise, lower, upper, training, false)
}

fn one_of(grads: &[Option<Tensor>], i: usize) -> Option<&Tensor> {
    grads.get(i).and_then(Option::as_ref)
}

/// `prelu` and its gradients by where an element is not negative. The gradients of its backward
/// operator come for both results, `x`'s and the weight's, or for one of them.
pub(crate) fn prelu_double_backward_grad(
    grads: &[Option<Tensor>],
    x: &Tensor,
    weight: &Tensor,
) -> Result<Option<Tensor>> {
    let positive = aten::ge_scalar(x, ZERO)?;
    let of_x = one_of(grads, 0);
    let of_weight = one_of(grads, 1).map(|g| mul(g, x)).transpose()?;
    let steep = of_x.map(|g| mul(g, weight)).transpose()?;
    Ok(Some(match (of_x, steep, of_weight) {
        (Some(g), Some(steep), Some(w)) => where_(&positive, g, &add(&steep, &w)?)?,
        (Some(g), Some(steep), None) => where_(&positive, g, &steep)?,
        (_, _, Some(w)) => where_(&positive, 0i64, &w)?,
        _ => return Ok(None),
    }))
}

pub(crate) fn prelu_double_backward_self(
    grads: &[Option<Tensor>],
    grad_output: &Tensor,
    x: &Tensor,
) -> Result<Tensor> {
    negative_part(one_of(grads, 1), grad_output, x)
}

pub(crate) fn prelu_double_backward_weight(
    grads: &[Option<Tensor>],
    grad_output: &Tensor,
    x: &Tensor,
) -> Result<Tensor> {
    negative_part(one_of(grads, 0), grad_output, x)
}

fn negative_part(grad: Option<&Tensor>, grad_output: &Tensor, x: &Tensor) -> Result<Tensor> {
    match grad {
        Some(grad) => where_(&aten::ge_scalar(x, ZERO)?, 0i64, &mul(grad_output, grad)?),
        None => zeros_like(x),
    }
}
