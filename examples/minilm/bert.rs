//! BERT as sentence embeddings use it: tokens in, one vector of length 1 per sentence out.
//!
//! Plain eager code. Nothing here knows whether it runs eagerly or is being captured by
//! `compile()`.

use serde::Deserialize;
use std::collections::BTreeMap;
use straightline::{Result, Tensor};

/// The part of `config.json` that the network's shape depends on.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Config {
    pub(crate) num_hidden_layers: usize,
    pub(crate) num_attention_heads: i64,
    pub(crate) layer_norm_eps: f64,
}

/// A weight that the file should have and has not.
#[derive(Debug)]
pub(crate) struct Missing(pub(crate) String);

/// The network. Cloning it shares the weights.
#[derive(Clone)]
pub(crate) struct Bert {
    words: Tensor,
    positions: Tensor,
    /// The embedding of token type 0, the only one that single sentences use.
    token_type: Tensor,
    norm: LayerNorm,
    layers: Vec<Layer>,
    heads: i64,
}

#[derive(Clone)]
struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    attention_norm: LayerNorm,
    up: Linear,
    down: Linear,
    norm: LayerNorm,
}

#[derive(Clone)]
struct Linear {
    weight: Tensor,
    bias: Tensor,
}

#[derive(Clone)]
struct LayerNorm {
    weight: Tensor,
    bias: Tensor,
    eps: f64,
}

/// The tensors of `model.safetensors` by name.
struct Weights<'a>(&'a BTreeMap<String, Tensor>);

impl Weights<'_> {
    fn get(&self, name: &str) -> std::result::Result<Tensor, Missing> {
        let found = self.0.get(name).cloned();
        found.ok_or_else(|| Missing(name.to_owned()))
    }

    fn linear(&self, name: &str) -> std::result::Result<Linear, Missing> {
        Ok(Linear {
            weight: self.get(&format!("{name}.weight"))?,
            bias: self.get(&format!("{name}.bias"))?,
        })
    }

    fn norm(&self, name: &str, eps: f64) -> std::result::Result<LayerNorm, Missing> {
        Ok(LayerNorm {
            weight: self.get(&format!("{name}.weight"))?,
            bias: self.get(&format!("{name}.bias"))?,
            eps,
        })
    }
}

impl Bert {
    /// The network of a configuration, with weights under the names that Hugging Face gives them.
    pub(crate) fn new(
        config: &Config,
        weights: &BTreeMap<String, Tensor>,
    ) -> std::result::Result<Bert, Missing> {
        let (weights, eps) = (Weights(weights), config.layer_norm_eps);
        let layer = |i: usize| {
            let at = |part: &str| format!("encoder.layer.{i}.{part}");
            Ok(Layer {
                query: weights.linear(&at("attention.self.query"))?,
                key: weights.linear(&at("attention.self.key"))?,
                value: weights.linear(&at("attention.self.value"))?,
                output: weights.linear(&at("attention.output.dense"))?,
                attention_norm: weights.norm(&at("attention.output.LayerNorm"), eps)?,
                up: weights.linear(&at("intermediate.dense"))?,
                down: weights.linear(&at("output.dense"))?,
                norm: weights.norm(&at("output.LayerNorm"), eps)?,
            })
        };
        Ok(Bert {
            words: weights.get("embeddings.word_embeddings.weight")?,
            positions: weights.get("embeddings.position_embeddings.weight")?,
            token_type: weights.get("embeddings.token_type_embeddings.weight")?,
            norm: weights.norm("embeddings.LayerNorm", eps)?,
            layers: (0..config.num_hidden_layers)
                .map(layer)
                .collect::<std::result::Result<_, _>>()?,
            heads: config.num_attention_heads,
        })
    }

    /// Embeddings (batch, width) of token ids (batch, length) of dtype i64. The mask, f32 of the
    /// same sizes, is 1 at tokens and 0 at padding.
    pub(crate) fn embed(&self, ids: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let (batch, length) = (ids.size(0)?, ids.size(1)?);
        let positions = self.positions.narrow(0, 0, length)?;
        let token_type = self.token_type.select(0, 0)?;
        let x = self.words.embedding(ids)? + positions + token_type;
        let mut x = self.norm.apply(&x)?;

        // Added to the attention scores: 0 at tokens, and at padding so little that exp gives 0.
        let bias = ((mask - 1.0) * 1e9).view([batch, 1, 1, length])?;
        for layer in &self.layers {
            x = layer.apply(&x, &bias, self.heads)?;
        }

        // The mean over tokens, without padding, and then to length 1.
        let weights = mask.unsqueeze(-1)?;
        let sum = (&x * &weights).sum_dim(1)?;
        let mean = sum / mask.sum_keepdim(1)?;
        let length = (&mean * &mean).sum_keepdim(1)?.sqrt()?;
        Ok(mean / length)
    }
}

impl Layer {
    fn apply(&self, x: &Tensor, bias: &Tensor, heads: i64) -> Result<Tensor> {
        let (batch, length, width) = (x.size(0)?, x.size(1)?, x.size(2)?);
        let split = |x: Tensor| {
            x.view([batch, length, heads, width / heads])?
                .transpose(1, 2)
        };
        let q = split(self.query.apply(x)?)?;
        let k = split(self.key.apply(x)?)?;
        let v = split(self.value.apply(x)?)?;
        let mixed = q.scaled_dot_product_attention_with(&k, &v, Some(bias), false)?;
        let mixed = mixed.transpose(1, 2)?.reshape([batch, length, width])?;
        let x = self
            .attention_norm
            .apply(&(x + self.output.apply(&mixed)?))?;
        let inner = self.up.apply(&x)?.gelu()?;
        self.norm.apply(&(&x + self.down.apply(&inner)?))
    }
}

impl Linear {
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        x.linear(&self.weight, Some(&self.bias))
    }
}

impl LayerNorm {
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let width = x.size(-1)?;
        x.layer_norm_with([width], Some(&self.weight), Some(&self.bias), self.eps)
    }
}
