//! Gradients of operators that draw numbers.

use crate::autograd::grad_enabled;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

/// The gradient of dropout; in a form that has all derivatives where it is recorded itself.
pub(crate) fn dropout_backward(
    grad: &Tensor,
    kept: &Tensor,
    p: f64,
    train: Option<bool>,
) -> Result<Tensor> {
    let scale = match train {
        Some(true) if p == 1.0 => 0.0,
        Some(true) => 1.0 / (1.0 - p),
        _ => 1.0,
    };
    match grad_enabled() {
        true => dropout_double_backward(grad, kept, scale),
        false => aten::native_dropout_backward(grad, kept, scale),
    }
}

pub(crate) fn dropout_double_backward(grad: &Tensor, kept: &Tensor, scale: f64) -> Result<Tensor> {
    aten::mul_scalar(&aten::mul_tensor(grad, kept)?, Scalar::Float(scale))
}

pub(crate) fn rrelu_backward(
    grad: &Tensor,
    x: &Tensor,
    noise: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    is_result: bool,
) -> Result<Tensor> {
    aten::rrelu_with_noise_backward(grad, x, noise, lower, upper, training, is_result)
}
