//! Gradients of losses, as far as they are no operators of their own, and their second derivatives.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

pub(crate) use crate::ops::aten::{
    _ctc_loss_backward, _ctc_loss_backward_tensor, binary_cross_entropy_backward,
    huber_loss_backward, mse_loss_backward, multi_margin_loss_backward,
    multilabel_margin_loss_backward, nll_loss, nll_loss_backward, nll_loss2d, nll_loss2d_backward,
    smooth_l1_loss_backward, soft_margin_loss_backward,
};

const ONE: Scalar = Scalar::Int(1);

/// PyTorch's numbers for no reduction and for the mean.
const NONE: i64 = 0;
const MEAN: i64 = 1;

/// What the probabilities' distances from 0 and 1 are at least, where they divide.
const EPS: f64 = 1e-12;

/// The share of each element of `x` in a loss of this reduction.
fn share(grad: Tensor, x: &Tensor, reduction: i64) -> Result<Tensor> {
    match reduction {
        MEAN => aten::div_scalar(&grad, Scalar::Float(x.numel() as f64)),
        _ => Ok(grad),
    }
}

/// The same of a loss with a weight for each element.
fn weighted(grad: Tensor, weight: Option<&Tensor>, x: &Tensor, reduction: i64) -> Result<Tensor> {
    match weight {
        Some(w) => share(aten::mul_tensor(&grad, w)?, x, reduction),
        None => share(grad, x, reduction),
    }
}

/// `1 - x`.
fn one_less(x: &Tensor) -> Result<Tensor> {
    aten::rsub_scalar(x, ONE, ONE)
}

fn sub(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    aten::sub_tensor(a, b, ONE)
}

/// `log(1 - p) - log(p)`: what a target's growth costs.
pub(crate) fn binary_cross_entropy_target_backward(
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let slope = sub(&aten::log(&one_less(x)?)?, &aten::log(x)?)?;
    weighted(aten::mul_tensor(grad, &slope)?, weight, target, reduction)
}

pub(crate) fn binary_cross_entropy_double_backward_grad(
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let above = aten::add_scalar(x, Scalar::Float(EPS), ONE)?;
    let below = aten::rsub_scalar(x, Scalar::Float(1.0 + EPS), ONE)?;
    let slope = aten::div_tensor(&sub(x, target)?, &aten::mul_tensor(&above, &below)?)?;
    weighted(aten::mul_tensor(grad, &slope)?, weight, x, reduction)
}

/// `(x^2 - 2 x t + t) / (x^2 (1 - x)^2)`.
pub(crate) fn binary_cross_entropy_double_backward(
    grad: &Tensor,
    grad_output: &Tensor,
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let above = aten::add_scalar(x, Scalar::Float(EPS), ONE)?;
    let below = aten::rsub_scalar(x, Scalar::Float(1.0 + EPS), ONE)?;
    let product = aten::mul_tensor(&above, &below)?;
    let square = aten::mul_tensor(x, x)?;
    let cross = aten::mul_tensor(&aten::mul_scalar(x, Scalar::Int(2))?, target)?;
    let numerator = aten::add_tensor(&sub(&square, &cross)?, target, ONE)?;
    let curve = aten::div_tensor(&numerator, &aten::mul_tensor(&product, &product)?)?;
    let both = aten::mul_tensor(grad, grad_output)?;
    weighted(aten::mul_tensor(&both, &curve)?, weight, x, reduction)
}

/// `-1 / (x (1 - x))`.
pub(crate) fn binary_cross_entropy_double_backward_target(
    grad: &Tensor,
    grad_output: &Tensor,
    x: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let product = aten::clamp_min(&aten::mul_tensor(x, &one_less(x)?)?, Scalar::Float(EPS))?;
    let both = aten::neg(&aten::mul_tensor(grad, grad_output)?)?;
    weighted(aten::div_tensor(&both, &product)?, weight, x, reduction)
}

/// `sigmoid(x) - t`, with a weight of the positive class `(p t + 1 - t) sigmoid(x) - p t`.
pub(crate) fn logits_cross_entropy_backward(
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    pos_weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let p = aten::sigmoid(x)?;
    let slope = match pos_weight {
        Some(w) => {
            let positive = aten::mul_tensor(w, target)?;
            let factor = aten::add_tensor(&one_less(target)?, &positive, ONE)?;
            sub(&aten::mul_tensor(&factor, &p)?, &positive)?
        }
        None => sub(&p, target)?,
    };
    weighted(aten::mul_tensor(&slope, grad)?, weight, x, reduction)
}

/// `-x`, with a weight of the positive class `log_sigmoid(-x) - p log_sigmoid(x)`.
pub(crate) fn logits_cross_entropy_target_backward(
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    pos_weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let slope = match pos_weight {
        Some(w) => {
            let positive = aten::mul_tensor(w, &aten::log_sigmoid(x)?)?;
            sub(&aten::log_sigmoid(&aten::neg(x)?)?, &positive)?
        }
        None => aten::neg(x)?,
    };
    weighted(aten::mul_tensor(&slope, grad)?, weight, target, reduction)
}

pub(crate) fn mse_loss_double_backward(
    grad: &Tensor,
    x: &Tensor,
    reduction: i64,
) -> Result<Tensor> {
    share(aten::mul_scalar(grad, Scalar::Int(2))?, x, reduction)
}

/// `grad` where the difference is below a bound.
fn where_near(grad: &Tensor, x: &Tensor, target: &Tensor, bound: f64) -> Result<Tensor> {
    let near = aten::lt_scalar(&aten::abs(&sub(x, target)?)?, Scalar::Float(bound))?;
    aten::mul_tensor(grad, &near)
}

pub(crate) fn smooth_l1_loss_double_backward(
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    reduction: i64,
    beta: f64,
) -> Result<Tensor> {
    if beta == 0.0 {
        return aten::zeros_like(grad, None, None, None, None, None);
    }
    let near = where_near(grad, x, target, beta)?;
    share(aten::div_scalar(&near, Scalar::Float(beta))?, x, reduction)
}

pub(crate) fn huber_loss_double_backward(
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    reduction: i64,
    delta: f64,
) -> Result<Tensor> {
    share(where_near(grad, x, target, delta)?, x, reduction)
}

/// The gradient of a loss is linear in the gradient that comes in: what comes back of it, which is
/// one number where the loss was one.
fn of_incoming(
    grad: &Tensor,
    grad_output: &Tensor,
    reduction: i64,
    backward: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    if reduction == NONE {
        return backward(grad);
    }
    let slope = backward(&aten::ones_like(grad_output, None, None, None, None, None)?)?;
    aten::sum(&aten::mul_tensor(&slope, grad)?, None)
}

pub(crate) fn huber_loss_double_backward_grad(
    grad: &Tensor,
    grad_output: &Tensor,
    x: &Tensor,
    target: &Tensor,
    reduction: i64,
    delta: f64,
) -> Result<Tensor> {
    of_incoming(grad, grad_output, reduction, |g| {
        aten::huber_loss_backward(g, x, target, reduction, delta)
    })
}

pub(crate) fn soft_margin_loss_double_backward_grad(
    grad: &Tensor,
    grad_output: &Tensor,
    x: &Tensor,
    target: &Tensor,
    reduction: i64,
) -> Result<Tensor> {
    of_incoming(grad, grad_output, reduction, |g| {
        aten::soft_margin_loss_backward(g, x, target, reduction)
    })
}

/// `t^2 s (1 - s)` with `s = sigmoid(-x t)`.
pub(crate) fn soft_margin_loss_double_backward(
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    reduction: i64,
) -> Result<Tensor> {
    let s = aten::sigmoid(&aten::neg(&aten::mul_tensor(x, target)?)?)?;
    let curve = aten::mul_tensor(&s, &one_less(&s)?)?;
    let curve = aten::mul_tensor(&curve, &aten::mul_tensor(target, target)?)?;
    share(aten::mul_tensor(grad, &curve)?, x, reduction)
}
