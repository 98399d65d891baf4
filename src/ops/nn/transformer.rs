//! Multi-head attention and a transformer's encoder layer as operators of their own (the fast path
//! of `torch.nn`).

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::nn::attention::bool_mask;
use crate::tensor::Tensor;
use straightline_catalog::{DType, MemoryFormat, Scalar};

const ONE: Scalar = Scalar::Int(1);

/// A mask that hides where it is true, as something to add to scores of (batch, head, query, key).
fn hiding(mask: &Tensor, kind: Option<i64>, dtype: DType, batch: i64) -> Result<Tensor> {
    let mask = aten::ne_scalar(mask, Scalar::Int(0))?;
    let mask = match (kind, mask.sizes()) {
        (Some(0), [t, s]) => aten::view(&mask, &[1, 1, *t, *s])?,
        (Some(1), [b, s]) if *b == batch => {
            aten::view(&aten::contiguous(&mask, MemoryFormat::Contiguous)?, &[*b, 1, 1, *s])?
        }
        (Some(2), [_, _, _, _]) => mask,
        (None, _) => return Err(Error::runtime("Mask Type should be defined")),
        (Some(kind), sizes) => {
            return Err(Error::runtime(format!(
                "Mask Type should be 0 (src_mask), 1 (src_key_padding_mask), or 2 (default_mask), and the mask as large as it says: got {kind} and sizes {sizes:?}"
            )));
        }
    };
    bool_mask(&aten::logical_not(&mask)?, dtype)
}

/// Queries, keys and values of all heads from one projection: the bias added, and the queries
/// scaled.
pub(crate) fn transform_bias_rescale_qkv(
    qkv: &Tensor,
    bias: &Tensor,
    heads: i64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (batch, length, width) = match (qkv.sizes(), bias.sizes()) {
        ([b, t, n], [m]) if n == m && n % 3 == 0 => (*b, *t, n / 3),
        (sizes, bias) => {
            return Err(Error::shape(format!(
                "expected `qkv` of three dimensions, the last as long as the bias and divisible by 3, got {sizes:?} and a bias of {bias:?}"
            )));
        }
    };
    ensure!(heads > 0 && width % heads == 0, "a width of {width} is no multiple of {heads} heads");
    ensure_dtype!(
        qkv.dtype().is_floating() && qkv.dtype() == bias.dtype(),
        "\"transform_bias_rescale_qkv\" is for floating-point tensors of one dtype, got {} and {}",
        qkv.dtype().torch_name(),
        bias.dtype().torch_name()
    );
    let per_head = width / heads;
    let all = aten::view(
        &aten::contiguous(&aten::add_tensor(qkv, bias, ONE)?, MemoryFormat::Contiguous)?,
        &[batch, length, 3, heads, per_head],
    )?;
    let all = aten::permute(&all, &[2, 0, 3, 1, 4])?;
    let part = |i: i64| aten::contiguous(&aten::select_int(&all, 0, i)?, MemoryFormat::Contiguous);
    let scale = Scalar::Float(1.0 / (per_head as f64).sqrt());
    Ok((aten::mul_scalar(&part(0)?, scale)?, part(1)?, part(2)?))
}

#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn multi_head_attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    width: i64,
    heads: i64,
    qkv_weight: &Tensor,
    qkv_bias: &Tensor,
    proj_weight: &Tensor,
    proj_bias: &Tensor,
    mask: Option<&Tensor>,
    need_weights: bool,
    average: bool,
    mask_kind: Option<i64>,
) -> Result<(Option<Tensor>, Option<Tensor>)> {
    for (name, t) in [("query", q), ("key", k), ("value", v)] {
        ensure!(t.dim() == 3, "expected 3-D `{name}`, got {}-D tensor", t.dim());
    }
    ensure!(
        q.sizes() == k.sizes() && q.sizes() == v.sizes(),
        "expected `query`/`key`/`value` shapes to match"
    );
    let [batch, length, last] = [q.sizes()[0], q.sizes()[1], q.sizes()[2]];
    ensure!(
        last == width && heads > 0 && width % heads == 0,
        "passed-in embed_dim {width} didn't match last dim of query {last}, or is no multiple of {heads} heads"
    );
    ensure!(
        qkv_weight.sizes() == [3 * width, width] && qkv_bias.sizes() == [3 * width],
        "expected `qkv_weight` and `qkv_bias` of {} rows of {width}, got {:?} and {:?}",
        3 * width,
        qkv_weight.sizes(),
        qkv_bias.sizes()
    );
    let (ws, bs) = (aten::chunk(qkv_weight, 3, 0)?, aten::chunk(qkv_bias, 3, 0)?);
    let per_head = width / heads;
    let split = |x: &Tensor, i: usize| -> Result<Tensor> {
        let x = aten::linear(x, &ws[i], Some(&bs[i]))?;
        aten::transpose_int(&aten::view(&x, &[batch, length, heads, per_head])?, 1, 2)
    };
    let (q, k, v) = (split(q, 0)?, split(k, 1)?, split(v, 2)?);
    let q = aten::mul_scalar(&q, Scalar::Float(1.0 / (per_head as f64).sqrt()))?;
    let mut scores = aten::matmul(&q, &aten::transpose_int(&k, -2, -1)?)?;
    if let Some(mask) = mask {
        let hidden = hiding(mask, mask_kind, scores.dtype(), batch)?;
        scores = aten::add_tensor(&scores, &hidden, ONE)?;
    }
    let weights = aten::softmax_int(&scores, -1, None)?;
    let out = aten::transpose_int(&aten::matmul(&weights, &v)?, 1, 2)?;
    let out = aten::reshape(&out, &[batch, length, width])?;
    let out = aten::linear(&out, proj_weight, Some(proj_bias))?;
    let weights = match (need_weights, average) {
        (false, _) => None,
        (true, false) => Some(weights),
        (true, true) => {
            let sum = aten::sum_dim_int_list(&weights, Some(&[1]), false, None)?;
            Some(aten::div_scalar(&sum, Scalar::Int(heads))?)
        }
    };
    Ok((Some(out), weights))
}

#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn encoder_layer(
    src: &Tensor,
    width: i64,
    heads: i64,
    qkv_weight: &Tensor,
    qkv_bias: &Tensor,
    proj_weight: &Tensor,
    proj_bias: &Tensor,
    gelu: bool,
    norm_first: bool,
    eps: f64,
    norm_weight_1: &Tensor,
    norm_bias_1: &Tensor,
    norm_weight_2: &Tensor,
    norm_bias_2: &Tensor,
    ffn_weight_1: &Tensor,
    ffn_bias_1: &Tensor,
    ffn_weight_2: &Tensor,
    ffn_bias_2: &Tensor,
    mask: Option<&Tensor>,
    mask_kind: Option<i64>,
) -> Result<Tensor> {
    let norm = |x: &Tensor, w: &Tensor, b: &Tensor| {
        aten::layer_norm(x, &[width], Some(w), Some(b), eps, true)
    };
    let attend = |x: &Tensor| -> Result<Tensor> {
        let (out, _) = multi_head_attention(
            x,
            x,
            x,
            width,
            heads,
            qkv_weight,
            qkv_bias,
            proj_weight,
            proj_bias,
            mask,
            false,
            true,
            mask_kind,
        )?;
        out.ok_or_else(|| Error::runtime("multi-head attention gave no result"))
    };
    let feed = |x: &Tensor| -> Result<Tensor> {
        let x = aten::linear(x, ffn_weight_1, Some(ffn_bias_1))?;
        let x = if gelu { aten::gelu(&x, "none")? } else { aten::relu(&x)? };
        aten::linear(&x, ffn_weight_2, Some(ffn_bias_2))
    };
    let src = &aten::contiguous(src, MemoryFormat::Contiguous)?;
    if norm_first {
        let x = attend(&norm(src, norm_weight_1, norm_bias_1)?)?;
        let x = aten::add_tensor(&x, src, ONE)?;
        let y = feed(&norm(&x, norm_weight_2, norm_bias_2)?)?;
        return aten::add_tensor(&y, &x, ONE);
    }
    let x = norm(&aten::add_tensor(&attend(src)?, src, ONE)?, norm_weight_1, norm_bias_1)?;
    norm(&aten::add_tensor(&feed(&x)?, &x, ONE)?, norm_weight_2, norm_bias_2)
}
