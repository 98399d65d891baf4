//! A small GPT: pre-norm, learned positions, causal attention written out, tied output matrix.
//!
//! ```text
//! x = wte[ids] + pos
//! for each layer:  x += proj(attention(qkv(ln1 x)));  x += fc2(gelu(fc1(ln2 x)))
//! logits = lnf(x) wte^T
//! ```
//!
//! It is workload W6, and the model of `generate`.

use super::nn::{LayerNorm, Linear, attention, merge_heads, split_heads};
use super::{Source, weight};
use straightline::{Result, Tensor};

/// The sizes of a model.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How many tokens there are.
    pub vocabulary: i64,
    /// The numbers that a token is.
    pub width: i64,
    /// The number of blocks.
    pub layers: usize,
    /// The heads of an attention, which divide the width.
    pub heads: i64,
    /// The longest sequence.
    pub context: i64,
}

impl Config {
    /// Vocabulary 600, width 64, two layers of two heads, context 16.
    pub const SMALL: Config =
        Config { vocabulary: 600, width: 64, layers: 2, heads: 2, context: 16 };
}

struct Layer {
    ln1: LayerNorm,
    qkv: Linear,
    proj: Linear,
    ln2: LayerNorm,
    fc1: Linear,
    fc2: Linear,
}

/// The model with its weights.
pub struct MiniGpt {
    config: Config,
    /// `[vocabulary, width]`, also the output matrix.
    words: Tensor,
    /// `[context, width]`.
    positions: Tensor,
    layers: Vec<Layer>,
    last: LayerNorm,
    /// `[context, context]`: 0 on and below the diagonal, -inf above it.
    mask: Tensor,
}

impl MiniGpt {
    /// Reads `wte.weight`, `pos.weight`, `layers.I.{ln1,qkv,proj,ln2,fc1,fc2}.{weight,bias}` and
    /// `lnf.{weight,bias}`.
    pub fn load(config: Config, source: Source<'_>) -> Result<MiniGpt> {
        let (d, t) = (config.width, config.context);
        let mut layers = Vec::with_capacity(config.layers);
        for i in 0..config.layers {
            let name = |part: &str| format!("layers.{i}.{part}");
            layers.push(Layer {
                ln1: LayerNorm::load(source, &name("ln1"), d, 1e-5)?,
                qkv: Linear::load(source, &name("qkv"), 3 * d, d)?,
                proj: Linear::load(source, &name("proj"), d, d)?,
                ln2: LayerNorm::load(source, &name("ln2"), d, 1e-5)?,
                fc1: Linear::load(source, &name("fc1"), 4 * d, d)?,
                fc2: Linear::load(source, &name("fc2"), d, 4 * d)?,
            });
        }
        let words = weight(source, "wte.weight", &[config.vocabulary, d])?;
        let forbidden = Tensor::full([t, t], f64::NEG_INFINITY)?;
        Ok(MiniGpt {
            positions: weight(source, "pos.weight", &[t, d])?,
            mask: forbidden.triu_with(1)?.to_dtype(words.dtype())?,
            last: LayerNorm::load(source, "lnf", d, 1e-5)?,
            config,
            words,
            layers,
        })
    }

    /// Token ids `[batch, length]` to logits `[batch, length, vocabulary]`.
    pub fn logits(&self, ids: &Tensor) -> Result<Tensor> {
        self.hidden(ids)?.matmul(&self.words.t()?)
    }

    /// The state after the last normalisation, `[batch, length, width]`.
    pub fn hidden(&self, ids: &Tensor) -> Result<Tensor> {
        let length = ids.size(1)?;
        let (positions, mask) = if length == self.config.context {
            (self.positions.clone(), self.mask.clone())
        } else {
            let mask = self.mask.narrow(0, 0, length)?.narrow(1, 0, length)?;
            (self.positions.narrow(0, 0, length)?, mask)
        };
        let mut x = self.words.embedding(ids)? + positions;
        for layer in &self.layers {
            x = self.layer(layer, &x, &mask)?;
        }
        self.last.forward(&x)
    }

    fn layer(&self, layer: &Layer, x: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let Config { width, heads, .. } = self.config;
        let scale = 1.0 / ((width / heads) as f64).sqrt();
        let qkv = layer.qkv.forward(&layer.ln1.forward(x)?)?;
        let part = |i: i64| split_heads(&qkv.narrow(2, i * width, width)?, heads);
        let y = attention(&part(0)?, &part(1)?, &part(2)?, scale, Some(mask))?;
        let x = x + layer.proj.forward(&merge_heads(&y)?)?;
        let y = layer.fc1.forward(&layer.ln2.forward(&x)?)?.gelu()?;
        Ok(&x + layer.fc2.forward(&y)?)
    }
}
