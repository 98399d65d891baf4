//! Second derivatives of softmax and of its logarithm.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

pub(crate) use crate::ops::aten::{_log_softmax_backward_data, _softmax_backward_data};

const ONE: Scalar = Scalar::Int(1);

fn total(x: &Tensor, dim: i64) -> Result<Tensor> {
    aten::sum_dim_int_list(x, Some(&[dim]), true, None)
}

/// Of `y * (g - sum(g * y))` with respect to `y`: `grad * (g - sum(g * y)) - g * sum(grad * y)`.
pub(crate) fn softmax_backward_output(
    grad: &Tensor,
    g: &Tensor,
    y: &Tensor,
    dim: i64,
) -> Result<Tensor> {
    let centred = aten::sub_tensor(g, &total(&aten::mul_tensor(g, y)?, dim)?, ONE)?;
    let along = total(&aten::mul_tensor(grad, y)?, dim)?;
    aten::sub_tensor(&aten::mul_tensor(grad, &centred)?, &aten::mul_tensor(g, &along)?, ONE)
}

/// Of `g - exp(y) * sum(g)` with respect to `g`.
pub(crate) fn log_softmax_backward_grad(grad: &Tensor, y: &Tensor, dim: i64) -> Result<Tensor> {
    let along = total(&aten::mul_tensor(grad, &aten::exp(y)?)?, dim)?;
    aten::sub_tensor(grad, &along, ONE)
}

/// Of `g - exp(y) * sum(g)` with respect to `y`.
pub(crate) fn log_softmax_backward_output(
    grad: &Tensor,
    g: &Tensor,
    y: &Tensor,
    dim: i64,
) -> Result<Tensor> {
    let weights = aten::mul_tensor(&aten::exp(y)?, grad)?;
    aten::neg(&aten::mul_tensor(&weights, &total(g, dim)?)?)
}
