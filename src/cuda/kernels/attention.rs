//! The fused kernel of attention, and its gradients.

use super::{Call, Made, with_workspace};
use crate::dispatch::Value;
use crate::error::{Error, Result};
use crate::ops::nn::attention::flash_attention;
use crate::ops::nn::attention_math::check_flash_backward;
use crate::ops::view::expand;
use crate::tensor::{Tensor, access};
use straightline_catalog::{Dims, args, layout};
use straightline_cuda::attention::{
    Attention, AttentionError, Gradients, Heads, Logarithms, Mask, attention, computes, gradients,
    gradients_workspace_bytes,
};

/// The operands that both directions have.
struct Operands<'a> {
    q: &'a Tensor,
    k: &'a Tensor,
    v: &'a Tensor,
    mask: Option<Tensor>,
    causal: bool,
    scale: Option<f64>,
}

fn strides<const N: usize>(t: &Tensor) -> Result<[i64; N]> {
    let wrong = || Error::runtime(format!("a tensor of {} dimensions, not of {N}", t.dim()));
    t.strides().try_into().map_err(|_| wrong())
}

fn heads(t: &Tensor) -> Result<Heads> {
    Ok(Heads { address: t.device_address()?, strides: strides(t)? })
}

fn failed(e: AttentionError) -> Error {
    Error::device(e.to_string())
}

impl Operands<'_> {
    /// A mask for each score.
    fn expanded(mask: Option<&Tensor>, q: &Tensor, k: &Tensor) -> Result<Option<Tensor>> {
        let (qs, ks) = (q.sizes(), k.sizes());
        mask.map(|m| expand(m, &[qs[0], qs[1], qs[2], ks[2]], true)).transpose()
    }

    fn attention(&self, out: &Tensor, log: &Tensor) -> Result<Attention> {
        let &[batch, heads_of_q, queries, features] = self.q.sizes() else {
            return Err(Error::runtime("attention of four dimensions"));
        };
        let mask = match &self.mask {
            Some(m) => {
                Some(Mask { address: m.device_address()?, strides: strides(m)?, dtype: m.dtype() })
            }
            None => None,
        };
        Ok(Attention {
            dtype: self.q.dtype(),
            batch,
            heads: heads_of_q,
            kv_heads: self.k.sizes()[1],
            queries,
            keys: self.k.sizes()[2],
            features,
            q: heads(self.q)?,
            k: heads(self.k)?,
            v: heads(self.v)?,
            mask,
            out: heads(out)?,
            logarithms: Some(Logarithms { address: log.device_address()?, strides: strides(log)? }),
            causal: self.causal,
            scale: self.scale.unwrap_or(1.0 / (features as f64).sqrt()),
        })
    }

    fn tensors(&self) -> Vec<&Tensor> {
        [self.q, self.k, self.v].into_iter().chain(&self.mask).collect()
    }
}

/// Whether a kernel is there for it; what is no attention at all is for the checks.
fn is_served(q: &Tensor) -> bool {
    q.dim() != 4 || !q.dtype().is_floating() || computes(q.dtype(), q.sizes()[3])
}

pub(super) fn forward(call: &Call<'_>) -> Made {
    let read = call.read::<args::_scaled_dot_product_flash_attention_for_cpu<Tensor>>();
    let Some(a) = read else { return Ok(None) };
    let (q, k, v, attn_mask) = (&a.query, &a.key, &a.value, a.attn_mask.as_ref());
    if !is_served(q) {
        return Ok(None);
    }
    let (causal, scale) = (a.is_causal, a.scale);
    let (out, log) = flash_attention(q, k, v, a.dropout_p, causal, attn_mask, scale)?;
    if out.numel() != 0 {
        let mask = Operands::expanded(attn_mask, q, k)?;
        let operands = Operands { q, k, v, mask, causal, scale };
        let all = operands.tensors();
        let _held = access::read(&all)?;
        let stream = call.stream()?;
        // SAFETY: operands are held while it is queued, and results are fresh; their memory serves
        // others on this stream only after it.
        unsafe { attention(&stream, &operands.attention(&out, &log)?) }.map_err(failed)?;
    }
    Ok(Some(vec![Value::Tensor(out), Value::Tensor(log)]))
}

/// A gradient as (batch, head, position, feature) over (batch, position, head, feature).
fn fresh(like: &Tensor) -> Result<Tensor> {
    let sizes = like.sizes();
    let mut strides = layout::contiguous_strides(&[sizes[0], sizes[2], sizes[1], sizes[3]]);
    strides.swap(1, 2);
    Tensor::allocate(like.dtype(), like.device(), Dims::from_slice(sizes), strides)
}

pub(super) fn backward(call: &Call<'_>) -> Made {
    let read = call.read::<args::_scaled_dot_product_flash_attention_for_cpu_backward<Tensor>>();
    let Some(a) = read else { return Ok(None) };
    let (q, k, v, attn_mask) = (&a.query, &a.key, &a.value, a.attn_mask.as_ref());
    if !is_served(q) {
        return Ok(None);
    }
    let (grad, out, log) = (&a.grad_out, &a.out, &a.logsumexp);
    check_flash_backward([grad, q, k, v, out], log, a.dropout_p, attn_mask)?;
    let all = [fresh(q)?, fresh(k)?, fresh(v)?];
    let [gq, gk, gv] = &all;
    let mask = Operands::expanded(attn_mask, q, k)?;
    let operands = Operands { q, k, v, mask, causal: a.is_causal, scale: a.scale };
    let mut read = operands.tensors();
    read.extend([grad, out, log]);
    let _held = access::read(&read)?;
    let stream = call.stream()?;
    let work = operands.attention(out, log)?;
    let to = Gradients { out: heads(grad)?, q: heads(gq)?, k: heads(gk)?, v: heads(gv)? };
    let bytes = gradients_workspace_bytes(&work).map_err(failed)?;
    with_workspace(&stream, call.device, bytes, |workspace| {
        // SAFETY: as above.
        unsafe { gradients(&stream, &work, &to, workspace) }.map_err(failed)
    })?;
    Ok(Some(all.map(Value::Tensor).into()))
}
