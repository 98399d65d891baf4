//! A small GPT: pre-norm, learned positions, causal attention written out, tied output matrix.
//!
//! ```text
//! x = wte[ids] + pos
//! for each layer:  x += proj(attention(qkv(ln1 x)));  x += fc2(gelu(fc1(ln2 x)))
//! logits = lnf(x) wte^T
//! ```
//!
//! It is workload W6, the model of `generate`, and what `train` trains.

use super::nn::{attention, merge_heads, split_heads};
use super::{Source, weight};
use straightline::nn::{Buffer, Embedding, Layer, LayerNorm, Linear, Module, Parameter, init};
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

#[derive(Module)]
struct Block {
    ln1: LayerNorm,
    qkv: Linear,
    proj: Linear,
    ln2: LayerNorm,
    fc1: Linear,
    fc2: Linear,
}

/// The model with its weights, the names of which are `wte.weight`, `pos.weight`,
/// `layers.I.{ln1,qkv,proj,ln2,fc1,fc2}.{weight,bias}` and `lnf.{weight,bias}`.
#[derive(Module)]
pub struct MiniGpt {
    #[module(skip)]
    config: Config,
    /// `[vocabulary, width]`, also the output matrix.
    wte: Embedding,
    /// `[context, width]`.
    pos: Embedding,
    layers: Vec<Block>,
    lnf: LayerNorm,
    /// `[context, context]`: 0 on and below the diagonal, -inf above it.
    mask: Buffer,
}

impl MiniGpt {
    /// Takes the weights from a source. The model is then frozen.
    ///
    /// # Errors
    /// A tensor that is missing, or that does not fit.
    pub fn load(config: Config, source: Source<'_>) -> Result<MiniGpt> {
        let model = MiniGpt::build(config, &mut |name, sizes| weight(source, name, sizes))?;
        model.requires_grad_(false)?;
        Ok(model)
    }

    /// A model that is to be trained, with random weights of the default generator, which
    /// [`manual_seed`](straightline::manual_seed) seeds.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(config: Config) -> Result<MiniGpt> {
        MiniGpt::build(config, &mut |name, sizes| {
            let part = name.rsplit('.').nth(1).unwrap_or(name);
            let normal = |std: f64| init::normal_(&Tensor::empty(sizes)?, 0.0, std);
            match (part, sizes) {
                ("wte", _) => normal(0.05),
                ("pos", _) => normal(0.02),
                // what a block adds is small at first
                ("proj" | "fc2", [_, inputs]) => normal(0.5 / (*inputs as f64).sqrt()),
                (_, [_, inputs]) => normal(1.0 / (*inputs as f64).sqrt()),
                _ if part.starts_with("ln") && name.ends_with("weight") => Tensor::ones(sizes),
                _ => Tensor::zeros(sizes),
            }
        })
    }

    fn build(config: Config, make: Make<'_>) -> Result<MiniGpt> {
        let (d, t) = (config.width, config.context);
        let wte = Embedding::from_pretrained(&make("wte.weight", &[config.vocabulary, d])?)?;
        let pos = Embedding::from_pretrained(&make("pos.weight", &[t, d])?)?;
        let mut layers = Vec::with_capacity(config.layers);
        for i in 0..config.layers {
            let name = |part: &str| format!("layers.{i}.{part}");
            layers.push(Block {
                ln1: layer_norm(make, &name("ln1"), d)?,
                qkv: linear(make, &name("qkv"), 3 * d, d)?,
                proj: linear(make, &name("proj"), d, d)?,
                ln2: layer_norm(make, &name("ln2"), d)?,
                fc1: linear(make, &name("fc1"), 4 * d, d)?,
                fc2: linear(make, &name("fc2"), d, 4 * d)?,
            });
        }
        let forbidden = Tensor::full([t, t], f64::NEG_INFINITY)?;
        let mask = forbidden.triu_with(1)?.to_dtype(wte.weight.dtype())?;
        let lnf = layer_norm(make, "lnf", d)?;
        Ok(MiniGpt { config, wte, pos, layers, lnf, mask: Buffer::unsaved(mask) })
    }

    /// The sizes.
    pub fn config(&self) -> Config {
        self.config
    }

    /// The embeddings of the tokens, `[vocabulary, width]`, which are the output matrix too.
    pub fn embeddings(&self) -> &Tensor {
        self.wte.weight.tensor()
    }

    /// The mean cross-entropy, in nats per token, of targets `[batch, length]`, of which those that
    /// are -100 do not count.
    ///
    /// # Errors
    /// The ids are none of the vocabulary's, or the sizes do not fit.
    pub fn loss(&self, ids: &Tensor, targets: &Tensor) -> Result<Tensor> {
        let logits = self.logits(ids)?.reshape([-1, self.config.vocabulary])?;
        logits.cross_entropy(&targets.reshape(-1)?)
    }

    /// Token ids `[batch, length]` to logits `[batch, length, vocabulary]`.
    pub fn logits(&self, ids: &Tensor) -> Result<Tensor> {
        self.hidden(ids)?.matmul(&self.wte.weight.t()?)
    }

    /// The state after the last normalisation, `[batch, length, width]`.
    pub fn hidden(&self, ids: &Tensor) -> Result<Tensor> {
        let length = ids.size(1)?;
        let (positions, mask) = if length == self.config.context {
            (self.pos.weight.tensor().clone(), self.mask.tensor().clone())
        } else {
            let mask = self.mask.narrow(0, 0, length)?.narrow(1, 0, length)?;
            (self.pos.weight.narrow(0, 0, length)?, mask)
        };
        let mut x = self.wte.weight.embedding(ids)? + positions;
        for block in &self.layers {
            x = self.block(block, &x, &mask)?;
        }
        self.lnf.forward(&x)
    }

    fn block(&self, block: &Block, x: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let Config { width, heads, .. } = self.config;
        let scale = 1.0 / ((width / heads) as f64).sqrt();
        let qkv = block.qkv.forward(&block.ln1.forward(x)?)?;
        let part = |i: i64| split_heads(&qkv.narrow(2, i * width, width)?, heads);
        let y = attention(&part(0)?, &part(1)?, &part(2)?, scale, Some(mask))?;
        let x = x + block.proj.forward(&merge_heads(&y)?)?;
        let y = block.fc1.forward(&block.ln2.forward(&x)?)?.gelu()?;
        Ok(&x + block.fc2.forward(&y)?)
    }
}

type Make<'a> = &'a mut dyn FnMut(&str, &[i64]) -> Result<Tensor>;

fn linear(make: Make<'_>, name: &str, outputs: i64, inputs: i64) -> Result<Linear> {
    Ok(Linear {
        weight: Parameter::new(&make(&format!("{name}.weight"), &[outputs, inputs])?)?,
        bias: Some(Parameter::new(&make(&format!("{name}.bias"), &[outputs])?)?),
    })
}

fn layer_norm(make: Make<'_>, name: &str, width: i64) -> Result<LayerNorm> {
    let mut layer = LayerNorm::new(width)?;
    layer.weight = Some(Parameter::new(&make(&format!("{name}.weight"), &[width])?)?);
    layer.bias = Some(Parameter::new(&make(&format!("{name}.bias"), &[width])?)?);
    Ok(layer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use straightline::manual_seed;
    use straightline::optim::{Adam, Optimizer};

    const TINY: Config = Config { vocabulary: 11, width: 8, layers: 1, heads: 2, context: 4 };

    #[test]
    fn a_new_model_guesses_and_learns() -> Result<()> {
        manual_seed(1);
        let model = MiniGpt::new(TINY)?;
        let ids = Tensor::from_slice(&[0i64, 3, 5, 7], [1, 4])?;
        let targets = Tensor::from_slice(&[3i64, 5, 7, -100], [1, 4])?;
        let first = model.loss(&ids, &targets)?;
        assert!((first.item::<f32>()? - 11f32.ln()).abs() < 0.2, "{first}");
        let optimizer = Adam::new(model.parameters(), 0.05)?;
        for _ in 0..20 {
            optimizer.zero_grad()?;
            model.loss(&ids, &targets)?.backward()?;
            optimizer.step()?;
        }
        let last = model.loss(&ids, &targets)?;
        assert!(last.item::<f32>()? < 0.5, "{last}");
        Ok(())
    }

    #[test]
    fn a_trained_model_is_loaded_frozen_by_its_names() -> Result<()> {
        let model = MiniGpt::new(TINY)?;
        let weights = model.state_dict()?;
        assert_eq!(weights.len(), 2 + 12 + 2);
        let loaded = MiniGpt::load(TINY, &mut |name| crate::find(&weights, name))?;
        assert!(loaded.parameters().iter().all(|p| !p.requires_grad()));
        let ids = Tensor::from_slice(&[0i64, 3], [1, 2])?;
        assert!(!loaded.logits(&ids)?.requires_grad());
        let (a, b) = (loaded.logits(&ids)?, model.logits(&ids)?);
        assert_eq!(a.to_vec::<f32>()?, b.to_vec::<f32>()?);
        Ok(())
    }
}
