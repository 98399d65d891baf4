//! Attention of several heads, and the layer of a transformer that is made of it.

use super::activation::Dropout;
use super::init;
use super::linear::Linear;
use super::mode::Mode;
use super::module::Layer;
use super::norm::LayerNorm;
use super::parameter::Parameter;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Tensor};
use straightline_catalog::DType;

/// Attention of several heads: each sees a part of the projected queries, keys and values.
///
/// ```
/// use straightline::{Tensor, nn::MultiheadAttention};
/// let attention = MultiheadAttention::new(8, 2)?.batch_first(true);
/// let x = Tensor::randn([3, 5, 8])?;
/// assert_eq!(attention.forward(&x, &x, &x)?.sizes(), [3, 5, 8]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, straightline_derive::Module)]
pub struct MultiheadAttention {
    /// `[3 width, width]`: the projections of queries, keys and values.
    pub in_proj_weight: Parameter,
    /// `[3 width]`.
    pub in_proj_bias: Parameter,
    /// What the heads' results go through.
    pub out_proj: Linear,
    width: i64,
    heads: i64,
    dropout: f64,
    batch_first: bool,
    #[module(training)]
    training: Mode,
}

/// What an attention does not look at.
///
/// ```
/// use straightline::{Tensor, nn::{AttentionMask, MultiheadAttention}};
/// let attention = MultiheadAttention::new(8, 2)?.batch_first(true);
/// let x = Tensor::randn([1, 3, 8])?;
/// let later = Tensor::ones([3, 3])?.triu_with(1)?.to_dtype(straightline::DType::Bool)?;
/// let mask = AttentionMask { positions: Some(&later), ..Default::default() };
/// let (_, weights) = attention.forward_with(&x, &x, &x, mask)?;
/// assert_eq!(weights.i((0, 0))?.to_vec::<f32>()?, [1.0, 0.0, 0.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionMask<'a> {
    /// `[queries, keys]` or `[batch * heads, queries, keys]`: `true` where a query may not see a
    /// key, or numbers that are added to the scores.
    pub positions: Option<&'a Tensor>,
    /// `[batch, keys]`: `true` for keys that are padding, or numbers that are added.
    pub padding: Option<&'a Tensor>,
}

impl MultiheadAttention {
    /// With vectors of `width` numbers, which the heads divide. The batch is the second dimension
    /// (see [`batch_first`](MultiheadAttention::batch_first)). It begins as PyTorch's.
    ///
    /// # Errors
    /// The heads do not divide the width.
    #[track_caller]
    pub fn new(width: impl Int, heads: impl Int) -> Result<MultiheadAttention> {
        let (width, heads) = (width.to_i64(), heads.to_i64());
        ensure_value!(
            width > 0 && heads > 0,
            "embed_dim and num_heads must be greater than 0, got embed_dim={width} and num_heads={heads} instead"
        );
        ensure_value!(width % heads == 0, "embed_dim must be divisible by num_heads");
        let in_proj = Tensor::empty([3 * width, width])?;
        // in PyTorch's order of random numbers
        let out_proj = Linear::new(width, width)?;
        init::xavier_uniform_(&in_proj, 1.0)?;
        if let Some(bias) = &out_proj.bias {
            init::zeros_(bias)?;
        }
        Ok(MultiheadAttention {
            in_proj_weight: Parameter::new(&in_proj)?,
            in_proj_bias: Parameter::new(&Tensor::zeros([3 * width])?)?,
            out_proj,
            width,
            heads,
            dropout: 0.0,
            batch_first: false,
            training: Mode::training(),
        })
    }

    /// With sequences `[batch, length, width]` instead of `[length, batch, width]`.
    #[must_use]
    pub fn batch_first(mut self, first: bool) -> Self {
        self.batch_first = first;
        self
    }

    /// With a part of the attention weights that becomes zero in training.
    #[must_use]
    pub fn dropout(mut self, p: f64) -> Self {
        self.dropout = p;
        self
    }

    /// What each query gets from the values, all of which it sees.
    #[track_caller]
    pub fn forward(&self, query: &Tensor, key: &Tensor, value: &Tensor) -> Result<Tensor> {
        self.forward_masked(query, key, value, AttentionMask::default())
    }

    /// What each query gets from the values that the mask leaves.
    #[track_caller]
    pub fn forward_masked(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        mask: AttentionMask<'_>,
    ) -> Result<Tensor> {
        let [q, k, v] = self.project(query, key, value)?;
        let mask = self.merge(mask, &q, &k)?;
        let y = aten::scaled_dot_product_attention(
            &q,
            &k,
            &v,
            mask.as_ref(),
            self.dropout_now(),
            false,
            None,
            false,
        )?;
        self.merge_heads(&y)
    }

    /// [`MultiheadAttention::forward_masked`] with the attention weights `[batch, queries, keys]`,
    /// averaged over the heads.
    #[track_caller]
    pub fn forward_with(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        mask: AttentionMask<'_>,
    ) -> Result<(Tensor, Tensor)> {
        let [q, k, v] = self.project(query, key, value)?;
        let mask = self.merge(mask, &q, &k)?;
        let scale = (1.0 / q.size(-1)? as f64).sqrt();
        let mut scores = q.mul(scale)?.matmul(k.transpose(-2, -1)?)?;
        if let Some(mask) = &mask {
            scores = scores.add(mask)?;
        }
        let weights = aten::dropout(&scores.softmax(-1)?, self.dropout_now(), true)?;
        let y = self.merge_heads(&weights.matmul(&v)?)?;
        Ok((y, weights.mean_dim(1)?))
    }

    fn dropout_now(&self) -> f64 {
        if self.training.is_training() { self.dropout } else { 0.0 }
    }

    /// Queries, keys and values `[batch, heads, length, width / heads]`.
    #[track_caller]
    fn project(&self, query: &Tensor, key: &Tensor, value: &Tensor) -> Result<[Tensor; 3]> {
        for t in [query, key, value] {
            ensure_value!(
                t.dim() == 3 && t.size(2)? == self.width,
                "an attention of width {} takes [length, batch, {0}] (or batch first), not {:?}",
                self.width,
                t.sizes()
            );
        }
        let (weight, bias) = (self.in_proj_weight.tensor(), self.in_proj_bias.tensor());
        let parts = if query.is_same(key) && key.is_same(value) {
            query.linear(weight, bias)?.chunk(3, -1)?
        } else {
            let (weights, biases) = (weight.chunk(3, 0)?, bias.chunk(3, 0)?);
            let inputs = [query, key, value].into_iter().zip(weights.iter().zip(&biases));
            inputs.map(|(x, (w, b))| x.linear(w, b)).collect::<Result<Vec<_>>>()?
        };
        let split = |x: &Tensor| {
            let x = if self.batch_first { x.clone() } else { x.transpose(0, 1)? };
            x.unflatten(-1, [self.heads, self.width / self.heads])?.transpose(1, 2)
        };
        match &parts[..] {
            [q, k, v] => Ok([split(q)?, split(k)?, split(v)?]),
            _ => Err(crate::Error::shape("an attention has three projections")),
        }
    }

    /// One mask of numbers that fits `[batch, heads, queries, keys]`.
    fn merge(&self, mask: AttentionMask<'_>, q: &Tensor, k: &Tensor) -> Result<Option<Tensor>> {
        let (batch, keys) = (q.size(0)?, k.size(2)?);
        let numbers = |mask: &Tensor| match mask.dtype() {
            DType::Bool => {
                let zeros = Tensor::with(q).zeros(mask.sizes())?;
                zeros.masked_fill(mask, f64::NEG_INFINITY)
            }
            _ => Ok(mask.clone()),
        };
        let positions = mask.positions.map(|m| match m.dim() {
            3 => numbers(m)?.view([batch, self.heads, m.size(1)?, m.size(2)?]),
            _ => numbers(m),
        });
        let padding = mask.padding.map(|m| numbers(m)?.view([batch, 1, 1, keys]));
        match (positions.transpose()?, padding.transpose()?) {
            (Some(a), Some(b)) => a.add(&b).map(Some),
            (a, b) => Ok(a.or(b)),
        }
    }

    fn merge_heads(&self, y: &Tensor) -> Result<Tensor> {
        let y = y.transpose(1, 2)?.flatten_dims(2, 3)?;
        let y = if self.batch_first { y } else { y.transpose(0, 1)? };
        self.out_proj.forward(&y)
    }
}

/// What a [`TransformerEncoderLayer`] and a
/// [`TransformerDecoderLayer`](super::TransformerDecoderLayer) can be told.
///
/// ```
/// use straightline::nn::{TransformerEncoderLayer, TransformerOptions};
/// let options = TransformerOptions::default().hidden(64).dropout(0.0).norm_first(true);
/// let layer = TransformerEncoderLayer::new_with(16, 4, options)?;
/// assert_eq!(layer.linear1.weight.sizes(), [64, 16]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TransformerOptions {
    pub(super) hidden: i64,
    pub(super) dropout: f64,
    pub(super) activation: fn(&Tensor) -> Result<Tensor>,
    pub(super) norm_first: bool,
    pub(super) batch_first: bool,
    pub(super) eps: f64,
}

impl Default for TransformerOptions {
    fn default() -> Self {
        TransformerOptions {
            hidden: 2048,
            dropout: 0.1,
            activation: |x| x.relu(),
            norm_first: false,
            batch_first: false,
            eps: 1e-5,
        }
    }
}

impl TransformerOptions {
    /// The width between the two linear layers; 2048.
    #[must_use]
    pub fn hidden(mut self, hidden: impl Int) -> Self {
        self.hidden = hidden.to_i64();
        self
    }

    /// The part of everything that becomes zero in training; 0.1.
    #[must_use]
    pub fn dropout(mut self, p: f64) -> Self {
        self.dropout = p;
        self
    }

    /// What is between the two linear layers; a ReLU.
    #[must_use]
    pub fn activation(mut self, activation: fn(&Tensor) -> Result<Tensor>) -> Self {
        self.activation = activation;
        self
    }

    /// Whether normalisation comes before attention and linear layers; it comes after them.
    #[must_use]
    pub fn norm_first(mut self, first: bool) -> Self {
        self.norm_first = first;
        self
    }

    /// Whether sequences are `[batch, length, width]`; they are `[length, batch, width]`.
    #[must_use]
    pub fn batch_first(mut self, first: bool) -> Self {
        self.batch_first = first;
        self
    }

    /// What normalisations add to the variance; 1e-5.
    #[must_use]
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }
}

/// Attention of a sequence to itself, then two linear layers, each with normalisation, dropout and
/// a way around.
///
/// ```
/// use straightline::{Tensor, nn::{Layer, TransformerEncoderLayer}};
/// let layer = TransformerEncoderLayer::new(16, 4)?;
/// assert_eq!(layer.forward(&Tensor::randn([5, 2, 16])?)?.sizes(), [5, 2, 16]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, straightline_derive::Module)]
pub struct TransformerEncoderLayer {
    /// The attention.
    pub self_attn: MultiheadAttention,
    /// The first linear layer.
    pub linear1: Linear,
    dropout: Dropout,
    /// The second one.
    pub linear2: Linear,
    /// The normalisation of the attention.
    pub norm1: LayerNorm,
    /// That of the linear layers.
    pub norm2: LayerNorm,
    #[module(skip)]
    activation: fn(&Tensor) -> Result<Tensor>,
    norm_first: bool,
}

impl TransformerEncoderLayer {
    /// With vectors of `width` numbers, which the heads divide.
    #[track_caller]
    pub fn new(width: impl Int, heads: impl Int) -> Result<TransformerEncoderLayer> {
        TransformerEncoderLayer::new_with(width, heads, TransformerOptions::default())
    }

    /// With [`TransformerOptions`].
    ///
    /// # Errors
    /// The heads do not divide the width; a dropout outside of 0 to 1.
    #[track_caller]
    pub fn new_with(
        width: impl Int,
        heads: impl Int,
        options: TransformerOptions,
    ) -> Result<TransformerEncoderLayer> {
        let (width, o) = (width.to_i64(), options);
        let attention = MultiheadAttention::new(width, heads)?;
        Ok(TransformerEncoderLayer {
            self_attn: attention.batch_first(o.batch_first).dropout(o.dropout),
            linear1: Linear::new(width, o.hidden)?,
            dropout: Dropout::new(o.dropout)?,
            linear2: Linear::new(o.hidden, width)?,
            norm1: LayerNorm::new_with(width, o.eps, true)?,
            norm2: LayerNorm::new_with(width, o.eps, true)?,
            activation: o.activation,
            norm_first: o.norm_first,
        })
    }

    /// The layer where an attention may not look at everything.
    #[track_caller]
    pub fn forward_masked(&self, x: &Tensor, mask: AttentionMask<'_>) -> Result<Tensor> {
        let attend =
            |x: &Tensor| self.dropout.forward(&self.self_attn.forward_masked(x, x, x, mask)?);
        let feed = |x: &Tensor| {
            let hidden = (self.activation)(&self.linear1.forward(x)?)?;
            let hidden = self.dropout.forward(&hidden)?;
            self.dropout.forward(&self.linear2.forward(&hidden)?)
        };
        if self.norm_first {
            let x = x.add(attend(&self.norm1.forward(x)?)?)?;
            x.add(feed(&self.norm2.forward(&x)?)?)
        } else {
            let x = self.norm1.forward(&x.add(attend(x)?)?)?;
            self.norm2.forward(&x.add(feed(&x)?)?)
        }
    }
}

impl Layer for TransformerEncoderLayer {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.forward_masked(x, AttentionMask::default())
    }
}
