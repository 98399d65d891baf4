//! W5 to W7: an MLP, a small GPT and a BERT-base block, with made-up weights.

use super::data::{ids, uniform};
use super::program::function;
use super::workload::{SUMS, Workload};
use straightline::{Result, Tensor};
use straightline_models::minigpt::{Config, MiniGpt};
use straightline_models::nn::{LayerNorm, Linear, attention, merge_heads, split_heads};

/// Made-up weights under a prefix: `NAME.weight` and `NAME.bias` of a linear layer are the data
/// `PREFIX NAME.w` and `PREFIX NAME.b` with scale 1/sqrt(inputs); those of a normalisation, whose
/// name starts with `ln`, are `.g`, around 1, and `.b`.
struct MadeUp<F> {
    prefix: String,
    sizes: F,
}

impl<F: Fn(&str) -> (i64, i64)> MadeUp<F> {
    /// `sizes` gives outputs and inputs of a layer by the last part of its name.
    fn new(prefix: impl Into<String>, sizes: F) -> MadeUp<F> {
        let prefix = prefix.into();
        MadeUp { prefix, sizes }
    }

    fn get(&self, name: &str) -> Result<Tensor> {
        let (layer, kind) = name.rsplit_once('.').unwrap_or((name, ""));
        let part = layer.rsplit('.').next().unwrap_or(layer);
        let (outputs, inputs) = (self.sizes)(part);
        let data = |suffix: &str| format!("{}{layer}.{suffix}", self.prefix);
        let scale = 1.0 / (inputs as f64).sqrt();
        match (part.starts_with("ln"), kind) {
            (true, "weight") => uniform(&data("g"), &[outputs], 0.1, 1.0),
            (true, _) => uniform(&data("b"), &[outputs], 0.1, 0.0),
            (false, "weight") => uniform(&data("w"), &[outputs, inputs], scale, 0.0),
            (false, _) => uniform(&data("b"), &[outputs], scale, 0.0),
        }
    }
}

/// `l3(LayerNorm(l2(gelu(l1(x)))))`.
pub(super) struct Mlp {
    l1: Linear,
    l2: Linear,
    ln: LayerNorm,
    l3: Linear,
}

impl Mlp {
    /// `each` sees the weights as they are made.
    pub(super) fn made_up(
        width: i64,
        mut each: impl FnMut(Tensor) -> Result<Tensor>,
    ) -> Result<Mlp> {
        let weights = MadeUp::new(format!("w5.h{width}."), move |_| (width, width));
        let mut source = |name: &str| each(weights.get(name)?);
        Ok(Mlp {
            l1: Linear::load(&mut source, "l1", width, width)?,
            l2: Linear::load(&mut source, "l2", width, width)?,
            ln: LayerNorm::load(&mut source, "ln", width, 1e-5)?,
            l3: Linear::load(&mut source, "l3", width, width)?,
        })
    }

    pub(super) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.l2.forward(&self.l1.forward(x)?.gelu()?)?;
        self.l3.forward(&self.ln.forward(&x)?)
    }
}

/// The weights of W6 under the names that [`MiniGpt`] uses.
pub(super) fn gpt_weight(name: &str) -> Result<Tensor> {
    match name {
        "wte.weight" => return uniform("w6.wte", &[600, 64], 0.2, 0.0),
        "pos.weight" => return uniform("w6.pos", &[16, 64], 0.2, 0.0),
        _ => {}
    }
    let source = MadeUp::new("w6.", |part| match part {
        "qkv" => (192, 64),
        "fc1" => (256, 64),
        "fc2" => (64, 256),
        _ => (64, 64),
    });
    source.get(name.strip_prefix("layers.").unwrap_or(name))
}

/// A post-norm encoder layer, width 768, 12 heads: `x = ln1(x + o(attention(x)))`,
/// `ln2(x + fc2(gelu(fc1 x)))`.
struct Block {
    q: Linear,
    k: Linear,
    v: Linear,
    o: Linear,
    ln1: LayerNorm,
    fc1: Linear,
    fc2: Linear,
    ln2: LayerNorm,
    /// Attention by its own operator instead of two products and a softmax.
    fused: bool,
}

impl Block {
    fn made_up(fused: bool) -> Result<Block> {
        let weights = MadeUp::new("w7.", |part| match part {
            "fc1" => (3072, 768),
            "fc2" => (768, 3072),
            _ => (768, 768),
        });
        let mut source = |name: &str| weights.get(name);
        let source = &mut source;
        Ok(Block {
            q: Linear::load(source, "q", 768, 768)?,
            k: Linear::load(source, "k", 768, 768)?,
            v: Linear::load(source, "v", 768, 768)?,
            o: Linear::load(source, "o", 768, 768)?,
            ln1: LayerNorm::load(source, "ln1", 768, 1e-5)?,
            fc1: Linear::load(source, "fc1", 3072, 768)?,
            fc2: Linear::load(source, "fc2", 768, 3072)?,
            ln2: LayerNorm::load(source, "ln2", 768, 1e-5)?,
            fused,
        })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let q = split_heads(&self.q.forward(x)?, 12)?;
        let k = split_heads(&self.k.forward(x)?, 12)?;
        let v = split_heads(&self.v.forward(x)?, 12)?;
        let y = if self.fused {
            q.scaled_dot_product_attention(&k, &v)?
        } else {
            attention(&q, &k, &v, 0.125, None)?
        };
        let x = self.ln1.forward(&(x + self.o.forward(&merge_heads(&y)?)?))?;
        let y = self.fc2.forward(&self.fc1.forward(&x)?.gelu()?)?;
        self.ln2.forward(&(x + y))
    }
}

pub(super) fn workloads() -> Vec<Workload> {
    let mut suite = Vec::new();
    for (batch, width) in [(1, 64), (8, 256), (64, 1024)] {
        suite.push(Workload::new(format!("w5.mlp_{batch}x{width}"), SUMS, move |_| {
            let mlp = Mlp::made_up(width, Ok)?;
            // row-major: fewer rows are a prefix of the same data
            let x = uniform(&format!("w5.h{width}.x"), &[batch, width], 1.0, 0.0)?;
            function(x, move |x: &Tensor| mlp.forward(x))
        }));
    }
    for batch in [1, 8] {
        suite.push(Workload::new(format!("w6.minigpt_b{batch}"), SUMS, move |_| {
            let gpt = MiniGpt::load(Config::SMALL, &mut gpt_weight)?;
            let tokens = ids("w6.tok", &[batch, 16], 0, 600)?;
            function(tokens, move |ids: &Tensor| gpt.logits(ids))
        }));
    }
    for (name, fused) in [("w7.block_eager", false), ("w7.block_sdpa", true)] {
        suite.push(Workload::new(name, SUMS, move |_| {
            let block = Block::made_up(fused)?;
            let x = uniform("w7.x", &[1, 128, 768], 1.0, 0.0)?;
            function(x, move |x: &Tensor| block.forward(x))
        }));
    }
    for length in [128, 1024] {
        for (suffix, causal) in [("", false), ("_causal", true)] {
            suite.push(Workload::new(format!("w8.sdpa_{length}{suffix}"), SUMS, move |_| {
                let operand =
                    |name| uniform(&format!("w8.{length}.{name}"), &[1, 12, length, 64], 1.0, 0.0);
                let inputs = (operand("q")?, operand("k")?, operand("v")?);
                function(inputs, move |(q, k, v): &(Tensor, Tensor, Tensor)| {
                    q.scaled_dot_product_attention_with(k, v, None, causal)
                })
            }));
        }
    }
    suite
}
