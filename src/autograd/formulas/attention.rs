//! Gradients of attention.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;

/// Of query, key and value.
#[allow(clippy::too_many_arguments, reason = "the schema's arguments")]
pub(crate) fn flash_attention_backward(
    grad: &Tensor,
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    output: &Tensor,
    logsumexp: &Tensor,
    dropout: f64,
    causal: bool,
    mask: Option<&Tensor>,
    scale: Option<f64>,
) -> Result<[Option<Tensor>; 3]> {
    let (q, k, v) = aten::_scaled_dot_product_flash_attention_for_cpu_backward(
        grad, query, key, value, output, logsumexp, dropout, causal, mask, scale,
    )?;
    Ok([Some(q), Some(k), Some(v)])
}
