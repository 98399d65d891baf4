//! Attention as matrix products and a softmax, and the gradient of the fused kernel.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::nn::attention::{bool_mask, check_flash};
use crate::tensor::Tensor;
use straightline_catalog::{DType, Dims, MemoryFormat, Scalar};

const ONE: Scalar = Scalar::Int(1);

fn causal_mask(q: &Tensor, rows: i64, cols: i64, dtype: DType) -> Result<Tensor> {
    let ones = aten::ones(&[rows, cols], Some(DType::Bool), None, Some(q.device()), None)?;
    bool_mask(&aten::tril(&ones, 0)?, dtype)
}

fn cast(t: &Tensor, dtype: DType) -> Result<Tensor> {
    aten::to_dtype(t, dtype, false, false, None)
}

/// Grouped-query attention: each key/value head serves several query heads.
fn repeat_heads(t: &Tensor, want: i64) -> Result<Tensor> {
    let d = t.dim() - 3;
    let heads = t.sizes()[d];
    if heads == want {
        return Ok(t.clone());
    }
    ensure!(
        heads != 0 && want % heads == 0,
        "Number of heads in key and value must divide the number of heads in query"
    );
    let mut expanded = Dims::from_slice(t.sizes());
    expanded.insert(d + 1, want / heads);
    let mut merged = Dims::from_slice(t.sizes());
    merged[d] = want;
    let t = aten::unsqueeze(t, d as i64 + 1)?;
    aten::reshape(&aten::expand(&t, &expanded, false)?, &merged)
}

/// The result and the weights.
#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn attention_math(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Option<&Tensor>,
    dropout: f64,
    causal: bool,
    dropout_mask: Option<&Tensor>,
    scale: Option<f64>,
    gqa: bool,
) -> Result<(Tensor, Tensor)> {
    ensure!(
        mask.is_none() || !causal,
        "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
    );
    if let Some(t) = [k, v].into_iter().find(|t| t.dtype() != q.dtype()) {
        return Err(Error::dtype(format!(
            "expected scalar type {} but found {}",
            q.dtype(),
            t.dtype()
        )));
    }
    let rank = q.dim();
    ensure_index!(
        !gqa || rank >= 3 && k.dim() >= 3 && v.dim() >= 3,
        "Dimension out of range (expected to be in range of [{}, {}], but got -3)",
        -(rank as i64),
        rank as i64 - 1
    );
    ensure!(
        rank >= 2 && k.dim() >= 2 && v.dim() >= 2,
        "attention wants query, key and value of at least two dimensions"
    );
    // half types: in f32, the weights rounded before they meet the values
    let (dtype, wide) = (q.dtype(), q.dtype().opmath());
    let (q, k, v) = (cast(q, wide)?, cast(k, wide)?, cast(v, wide)?);
    let (k, v) = if gqa {
        let want = q.sizes()[rank - 3];
        (repeat_heads(&k, want)?, repeat_heads(&v, want)?)
    } else {
        (k, v)
    };
    let scale = scale.unwrap_or(1.0 / (q.sizes()[rank - 1] as f64).sqrt());
    // half of the scale on either side, so that products of large numbers do not overflow
    let root = scale.abs().sqrt();
    let q_scaled = aten::mul_scalar(&q, Scalar::Float(root.copysign(scale)))?;
    let kt = aten::mul_scalar(&aten::transpose_int(&k, -2, -1)?, Scalar::Float(root))?;
    let mut scores = aten::matmul(&q_scaled, &kt)?;
    if causal {
        let (rows, cols) = (q.sizes()[rank - 2], k.sizes()[k.dim() - 2]);
        scores = aten::add_tensor(&scores, &causal_mask(&q, rows, cols, wide)?, ONE)?;
    }
    if let Some(mask) = mask {
        let sum = aten::add_tensor(&scores, mask, ONE)?;
        scores = cast(&sum, wide)?;
    }
    let weights = aten::_safe_softmax(&scores, -1, None)?;
    if dropout > 0.0 {
        if let Some(kept) = dropout_mask {
            // the weights that are handed back are those before the factor
            let hidden = aten::logical_not(kept)?;
            let weights = aten::masked_fill_scalar(&weights, &hidden, Scalar::Float(0.0))?;
            let scaled = aten::mul_scalar(&v, Scalar::Float(1.0 / (1.0 - dropout)))?;
            let out = aten::matmul(&weights, &scaled)?;
            return Ok((cast(&out, dtype)?, cast(&weights, dtype)?));
        }
        let weights = aten::dropout(&weights, dropout, true)?;
        let out = aten::matmul(&weights, &v)?;
        return Ok((cast(&out, dtype)?, cast(&weights, dtype)?));
    }
    let out = aten::matmul(&weights, &v)?;
    Ok((cast(&out, dtype)?, cast(&weights, dtype)?))
}

/// What the gradients of the fused kernel refuse.
pub(crate) fn check_flash_backward(
    [grad, q, k, v, out]: [&Tensor; 5],
    logsumexp: &Tensor,
    dropout: f64,
    mask: Option<&Tensor>,
) -> Result<()> {
    check_flash(q, k, v, mask, dropout)?;
    ensure_dtype!(
        grad.dtype() == q.dtype(),
        "expected scalar type {} but found {}",
        q.dtype(),
        grad.dtype()
    );
    ensure_shape!(
        grad.sizes() == q.sizes()
            && out.sizes() == q.sizes()
            && logsumexp.sizes() == &q.sizes()[..3],
        "the gradient of an attention of queries {:?} got grad_out {:?}, out {:?} and logsumexp {:?}",
        q.sizes(),
        grad.sizes(),
        out.sizes(),
        logsumexp.sizes()
    );
    let wide = q.dtype().opmath();
    ensure_dtype!(
        logsumexp.dtype() == wide,
        "expected scalar type {wide} but found {}",
        logsumexp.dtype()
    );
    Ok(())
}

/// The gradients of query, key and value, as (batch, head, position, feature) over (batch,
/// position, head, feature).
#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn flash_attention_backward(
    grad: &Tensor,
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    out: &Tensor,
    logsumexp: &Tensor,
    dropout: f64,
    causal: bool,
    mask: Option<&Tensor>,
    scale: Option<f64>,
) -> Result<(Tensor, Tensor, Tensor)> {
    check_flash_backward([grad, q, k, v, out], logsumexp, dropout, mask)?;
    let (dtype, wide) = (q.dtype(), q.dtype().opmath());
    let (heads, kv_heads) = (q.sizes()[1], k.sizes()[1]);
    let scale = Scalar::Float(scale.unwrap_or(1.0 / (q.sizes()[3] as f64).sqrt()));
    let (qw, gw, ow) = (cast(q, wide)?, cast(grad, wide)?, cast(out, wide)?);
    let kw = repeat_heads(&cast(k, wide)?, heads)?;
    let vw = repeat_heads(&cast(v, wide)?, heads)?;
    let turned = |t: &Tensor| aten::transpose_int(t, -2, -1);
    let mut scores = aten::mul_scalar(&aten::matmul(&qw, &turned(&kw)?)?, scale)?;
    if let Some(mask) = mask {
        scores = aten::add_tensor(&scores, &cast(mask, wide)?, ONE)?;
    }
    if causal {
        let hidden = causal_mask(q, q.sizes()[2], k.sizes()[2], wide)?;
        scores = aten::add_tensor(&scores, &hidden, ONE)?;
    }
    let log = aten::unsqueeze(&cast(logsumexp, wide)?, -1)?;
    let weights = aten::exp(&aten::sub_tensor(&scores, &log, ONE)?)?;
    let grad_v = aten::matmul(&turned(&weights)?, &gw)?;
    let grad_weights = aten::matmul(&gw, &turned(&vw)?)?;
    let dots = aten::sum_dim_int_list(&aten::mul_tensor(&gw, &ow)?, Some(&[-1]), true, None)?;
    let centred = aten::sub_tensor(&grad_weights, &dots, ONE)?;
    let grad_scores = aten::mul_scalar(&aten::mul_tensor(&weights, &centred)?, scale)?;
    let grad_q = aten::matmul(&grad_scores, &kw)?;
    let grad_k = aten::matmul(&turned(&grad_scores)?, &qw)?;
    let finish = |t: &Tensor, kv: bool| -> Result<Tensor> {
        let mut t = t.clone();
        if kv && kv_heads != heads {
            let s = t.sizes();
            let grouped = [s[0], kv_heads, heads / kv_heads.max(1), s[2], s[3]];
            t = aten::sum_dim_int_list(&aten::reshape(&t, &grouped)?, Some(&[2]), false, None)?;
        }
        let t = aten::transpose_int(&cast(&t, dtype)?, 1, 2)?;
        let t = aten::clone(&t, Some(MemoryFormat::Contiguous))?;
        aten::transpose_int(&t, 1, 2)
    };
    Ok((finish(&grad_q, false)?, finish(&grad_k, true)?, finish(&grad_v, true)?))
}
