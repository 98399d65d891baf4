//! Scaled dot product attention: the choice of a way to compute it, and the fused kernel.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::copy;
use crate::tensor::Tensor;
use crate::tensor::launch;
use straightline_catalog::{DType, Dims, Scalar, layout};
use straightline_runtime::cpu::kernels::attention::{Attention, attention};

/// Whether the mask of an attention of 4-D operands is one that the fused kernel takes.
fn mask_fits(q: &Tensor, k: &Tensor, mask: &Tensor) -> bool {
    let n = mask.dim();
    let of = |t: &Tensor, d: usize| t.sizes()[t.dim() - d];
    let one_of = |d: usize, full: i64| mask.sizes()[n - d] == full || mask.sizes()[n - d] == 1;
    if !(one_of(2, of(q, 2)) && one_of(1, of(k, 2))) {
        return false;
    }
    match n {
        2 => true,
        4 => one_of(3, of(q, 3)) && (q.dim() < 4 && mask.sizes()[0] == 1 || one_of(4, of(q, 4))),
        _ => false,
    }
}

/// 1 where the fused kernel serves, 0 where attention is composed of matrix products.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(crate) fn fused_sdp_choice(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Option<&Tensor>,
    dropout: f64,
    _causal: bool,
    _scale: Option<f64>,
    gqa: bool,
) -> Result<i64> {
    let rank = q.dim();
    if let Some(m) = mask
        && m.dim() < 2
    {
        return Err(Error::index(format!(
            "Dimension out of range (expected to be in range of [{}, {}], but got -2)",
            -(m.dim().max(1) as i64),
            m.dim().max(1) - 1
        )));
    }
    if !(3..=4).contains(&rank) || k.dim() != rank || v.dim() != rank {
        return Ok(0);
    }
    let size = |t: &Tensor, d: usize| t.sizes()[rank - d];
    let (heads, kv) = (size(q, 3), size(k, 3));
    let heads_fit =
        kv == size(v, 3) && (heads == kv || (gqa && rank == 4 && kv > 0 && heads % kv == 0));
    let batch_fits = rank == 3 || (size(q, 4) == size(k, 4) && size(q, 4) == size(v, 4));
    let served = q.dtype().is_floating()
        && dropout == 0.0
        && heads_fit
        && batch_fits
        && size(q, 1) == size(k, 1)
        && size(q, 1) == size(v, 1)
        && size(k, 2) == size(v, 2)
        && size(q, 2) != 0
        && size(k, 2) != 0
        && [q, k, v].iter().all(|t| t.strides()[rank - 1] == 1)
        && mask.is_none_or(|m| !m.requires_grad() && mask_fits(q, k, m))
        // the fused kernel has no derivative in a direction
        && ![Some(q), Some(k), Some(v), mask].into_iter().flatten().any(Tensor::has_tangent);
    Ok(i64::from(served))
}

fn check_inputs(q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>) -> Result<()> {
    ensure_dtype!(
        q.dtype() == k.dtype() && q.dtype() == v.dtype(),
        "Expected query, key, and value to have the same dtype, but got query.dtype: {} key.dtype: {} and value.dtype: {} instead.",
        q.dtype(),
        k.dtype(),
        v.dtype()
    );
    ensure_dtype!(
        q.dtype().is_floating(),
        "attention is not implemented for {} tensors: convert them to a floating dtype first",
        q.dtype()
    );
    crate::ops::common::check_devices(&[q, k, v])?;
    ensure!(
        q.dim() >= 2 && k.dim() >= 2 && v.dim() >= 2,
        "Expected query, key, and value to all be at least 2 dimensional, but got query.dim: {} key.dim: {} and value.dim: {} instead.",
        q.dim(),
        k.dim(),
        v.dim()
    );
    if let Some(m) = mask
        && m.dtype() != DType::Bool
        && m.dtype() != DType::F32
        && m.dtype() != q.dtype()
    {
        return Err(Error::dtype(format!(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: {} and query.dtype: {} instead.",
            m.dtype(),
            q.dtype()
        )));
    }
    Ok(())
}

/// `softmax(q k^T * scale + mask) v`.
#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn scaled_dot_product_attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Option<&Tensor>,
    dropout: f64,
    causal: bool,
    scale: Option<f64>,
    gqa: bool,
) -> Result<Tensor> {
    check_inputs(q, k, v, mask)?;
    ensure!(
        mask.is_none() || !causal,
        "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
    );
    if q.dim() == 3 && k.dim() == 3 && v.dim() == 3 {
        let batched = |t: &Tensor| aten::unsqueeze(t, 0);
        let mask = match mask {
            Some(m) if m.dim() == 3 => Some(batched(m)?),
            Some(m) => Some(m.clone()),
            None => None,
        };
        let (q, k, v) = (batched(q)?, batched(k)?, batched(v)?);
        let out = with_mask(&q, &k, &v, mask.as_ref(), dropout, causal, scale, gqa)?;
        return aten::squeeze_dim(&out, 0);
    }
    with_mask(q, k, v, mask, dropout, causal, scale, gqa)
}

#[allow(clippy::too_many_arguments)] // the schema's own
fn with_mask(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Option<&Tensor>,
    dropout: f64,
    causal: bool,
    scale: Option<f64>,
    gqa: bool,
) -> Result<Tensor> {
    let mask = match mask {
        Some(m) if m.dtype() == DType::Bool => Some(bool_mask(m, q.dtype())?),
        other => other.cloned(),
    };
    let mask = mask.as_ref();
    if fused_sdp_choice(q, k, v, mask, dropout, causal, scale, gqa)? == 1 {
        return Ok(aten::_scaled_dot_product_flash_attention_for_cpu(
            q, k, v, dropout, causal, mask, scale,
        )?
        .0);
    }
    Ok(aten::_scaled_dot_product_attention_math(q, k, v, mask, dropout, causal, None, scale, gqa)?
        .0)
}

fn failed(text: impl std::fmt::Display) -> Error {
    Error::runtime(format!("scaled_dot_product_attention_flash_attention: {text}"))
}

/// Zeros where the mask is true, `-inf` where it is not.
pub(crate) fn bool_mask(mask: &Tensor, dtype: DType) -> Result<Tensor> {
    let zeros = aten::zeros(mask.sizes(), Some(dtype), None, Some(mask.device()), None)?;
    let hidden = aten::logical_not(mask)?;
    aten::masked_fill_scalar(&zeros, &hidden, Scalar::Float(f64::NEG_INFINITY))
}

/// What the fused kernel and its backward refuse.
pub(crate) fn check_flash(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Option<&Tensor>,
    dropout: f64,
) -> Result<()> {
    if !q.dtype().is_floating() {
        return Err(failed(format!(
            "Expected data type in FP32, FP64, BF16, FP16, but got {} instead.",
            q.dtype()
        )));
    }
    if q.dim() != 4 || k.dim() != 4 || v.dim() != 4 {
        return Err(failed("Accept only 4 dims inputs shape of {B, H, T, K}"));
    }
    if dropout != 0.0 {
        return Err(failed("Currently do not support dropout > 0"));
    }
    if q.dtype() != k.dtype() || q.dtype() != v.dtype() {
        return Err(failed("Q/K/V should have the same dtype"));
    }
    let (qs, ks, vs) = (q.sizes(), k.sizes(), v.sizes());
    if qs[3] != ks[3] || qs[3] != vs[3] {
        return Err(failed("Q/K/V should have the same head size"));
    }
    let heads_fit = ks[1] == vs[1] && (qs[1] == ks[1] || (ks[1] > 0 && qs[1] % ks[1] == 0));
    if qs[0] != ks[0] || ks[0] != vs[0] || ks[2] != vs[2] || !heads_fit {
        return Err(failed(format!(
            "query of sizes {qs:?}, key of sizes {ks:?} and value of sizes {vs:?} do not go together"
        )));
    }
    if let Some(m) = mask {
        let wide = q.dtype().opmath();
        if m.dtype() != q.dtype() && m.dtype() != wide {
            return Err(failed("Attention mask is the same data type as query"));
        }
        if m.dim() != 2 && m.dim() != 4 {
            return Err(failed("Attention mask dim in {2, 4}"));
        }
        if layout::broadcast(m.sizes(), &[qs[0], qs[1], qs[2], ks[2]]).as_deref()
            != Some(&[qs[0], qs[1], qs[2], ks[2]])
        {
            return Err(failed(format!(
                "the mask of sizes {:?} does not broadcast to {:?}",
                m.sizes(),
                [qs[0], qs[1], qs[2], ks[2]]
            )));
        }
    }
    crate::ops::common::check_devices(&[q, k, v])
}

/// The result in the layout of the queries, and the logarithms of the rows' sums as (batch, head,
/// query) over (batch, query, head).
pub(crate) fn flash_attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    dropout: f64,
    causal: bool,
    mask: Option<&Tensor>,
    scale: Option<f64>,
) -> Result<(Tensor, Tensor)> {
    check_flash(q, k, v, mask, dropout)?;
    let (qs, ks) = (q.sizes(), k.sizes());
    let strides = layout::preserved_strides(qs, q.strides());
    let mut out = Tensor::allocate(q.dtype(), q.device(), Dims::from_slice(qs), strides)?;
    let wide = q.dtype().opmath();
    let mut log = Tensor::allocate(
        wide,
        q.device(),
        Dims::from_slice(&qs[..3]),
        Dims::from_slice(&[qs[1] * qs[2], 1, qs[1]]),
    )?;
    if out.storage().has_data() && out.numel() > 0 {
        let mask = match mask {
            Some(m) => {
                let m = copy::to_dtype(m, wide)?;
                Some(crate::ops::view::expand(&m, &[qs[0], qs[1], qs[2], ks[2]], true)?)
            }
            None => None,
        };
        let (results, operands) = ([&mut out, &mut log], ([q, k, v], mask.as_ref()));
        launch::run(results, operands, |[out, logsumexp], ([q, k, v], mask)| {
            Ok(attention(Attention {
                q,
                k,
                v,
                mask,
                out,
                logsumexp,
                causal,
                scale: scale.unwrap_or(1.0 / (qs[3] as f64).sqrt()),
            })?)
        })?;
    }
    Ok((out, log))
}
