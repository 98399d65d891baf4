//! The models, of the sizes and with the biases that a run's tensors have.

use super::facts::Run;
use super::trouble::Trouble;
use super::words::{Activation, Words};
use straightline::nn::{
    BatchNorm2d, Conv2d, Embedding, Layer, LayerNorm, Linear, Lstm, Module, RnnOptions, Visitor,
    VisitorMut,
};
use straightline::{ConvOptions, DType, Result, Tensor};

/// So many sizes.
fn sizes<const N: usize>(run: &Run, parameter: &str) -> Result<[i64; N], Trouble> {
    let sizes = run.sizes(parameter)?;
    sizes.try_into().map_err(|_| {
        Trouble::Shape(format!("`{parameter}` has sizes {sizes:?}, and not {N} of them"))
    })
}

fn linear(run: &Run, name: &str) -> Result<Linear, Trouble> {
    let [outputs, inputs] = sizes(run, &format!("{name}.weight"))?;
    Ok(match run.has_parameter(&format!("{name}.bias")) {
        true => Linear::new(inputs, outputs)?,
        false => Linear::without_bias(inputs, outputs)?,
    })
}

fn embedding(run: &Run, name: &str, padding: Option<i64>) -> Result<Embedding, Trouble> {
    let [count, width] = sizes(run, &format!("{name}.weight"))?;
    Ok(match padding {
        Some(padding) => Embedding::with_padding(count, width, padding)?,
        None => Embedding::new(count, width)?,
    })
}

fn layer_norm(run: &Run, name: &str, words: Words<'_>) -> Result<LayerNorm, Trouble> {
    let [width] = sizes(run, &format!("{name}.weight"))?;
    let eps = words.after(&["layernorm eps", "layer_norm eps", "eps"])?.unwrap_or(1e-5);
    Ok(LayerNorm::new_with(width, eps, run.has_parameter(&format!("{name}.bias")))?)
}

/// How many there are of `name.0`, `name.1` and so on, for a name with `{}` in it.
fn count(run: &Run, name: &str) -> usize {
    (0..).take_while(|i| run.has_parameter(&name.replace("{}", &i.to_string()))).count()
}

#[derive(Module)]
pub(super) struct Mlp {
    pub(super) layers: Vec<Linear>,
}

impl Mlp {
    pub(super) fn of(run: &Run) -> Result<Mlp, Trouble> {
        let layers =
            (0..count(run, "layers.{}.weight")).map(|i| linear(run, &format!("layers.{i}")));
        Ok(Mlp { layers: layers.collect::<Result<_, _>>()? })
    }

    pub(super) fn forward(
        &self,
        x: &Tensor,
        between: impl Fn(usize, &Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let mut h = x.clone();
        for (i, layer) in self.layers.iter().enumerate() {
            h = layer.forward(&h)?;
            if i + 1 < self.layers.len() {
                h = between(i, &h)?;
            }
        }
        Ok(h)
    }
}

#[derive(Module)]
pub(super) struct ConvNet {
    conv1: Conv2d,
    bn1: BatchNorm2d,
    conv2: Conv2d,
    bn2: BatchNorm2d,
    fc: Linear,
    #[module(skip)]
    activation: Activation,
    pool: i64,
}

/// A convolution of so many channels; its groups are what the weight's sizes say.
fn conv(run: &Run, name: &str, channels: i64, words: Words<'_>) -> Result<Conv2d, Trouble> {
    let [outputs, inputs, high, wide] = sizes(run, &format!("{name}.weight"))?;
    let call = words.call(name)?;
    let groups = channels / inputs.max(1);
    if groups * inputs != channels || call.count_after(&["groups"])?.is_some_and(|g| g != groups) {
        return Err(Trouble::Shape(format!(
            "`{name}.weight` takes {inputs} of {channels} channels, and the description says \
             `{}`",
            call.0
        )));
    }
    let mut options = ConvOptions::default().groups(groups);
    if let Some(pad) = call.count_after(&["padding", "pad"])? {
        options = options.padding(pad);
    }
    if let Some(stride) = call.count_after(&["stride"])? {
        options = options.stride(stride);
    }
    if let Some(dilation) = call.count_after(&["dilation"])? {
        options = options.dilation(dilation);
    }
    let bias = run.has_parameter(&format!("{name}.bias"));
    Ok(Conv2d::new_with(channels, outputs, [high, wide], options, bias)?)
}

impl ConvNet {
    pub(super) fn of(run: &Run) -> Result<ConvNet, Trouble> {
        let words = run.words()?;
        let norm = |name: &str| -> Result<BatchNorm2d, Trouble> {
            let [channels] = sizes(run, &format!("{name}.weight"))?;
            let eps = words.after(&["batchnorm eps", "eps"])?.unwrap_or(1e-5);
            let momentum = words.after(&["momentum"])?.unwrap_or(0.1);
            Ok(BatchNorm2d::new_with(channels, eps, momentum)?)
        };
        let [first, ..] = sizes::<4>(run, "conv1.weight")?;
        let seen = run.tensor("batch0.x")?.sizes().get(1).copied().unwrap_or(1);
        Ok(ConvNet {
            conv1: conv(run, "conv1", seen, words)?,
            bn1: norm("bn1")?,
            conv2: conv(run, "conv2", first, words)?,
            bn2: norm("bn2")?,
            fc: linear(run, "fc")?,
            activation: words.activation()?,
            pool: words.last_argument("max_pool2d")?,
        })
    }

    pub(super) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let h = (self.activation)(&self.bn1.forward(&self.conv1.forward(x)?)?)?;
        let h = self.conv2.forward(&h.max_pool2d(self.pool)?)?;
        let h = (self.activation)(&self.bn2.forward(&h)?)?;
        self.fc.forward(&h.mean_dim([2, 3])?)
    }
}

#[derive(Module)]
pub(super) struct LstmNet {
    rnn: Lstm,
    fc: Linear,
}

impl LstmNet {
    pub(super) fn of(run: &Run) -> Result<LstmNet, Trouble> {
        let [_, hidden] = sizes(run, "rnn.weight_hh_l0")?;
        let [_, inputs] = sizes(run, "rnn.weight_ih_l0")?;
        let options = RnnOptions::default()
            .layers(count(run, "rnn.weight_hh_l{}") as i64)
            .bias(run.has_parameter("rnn.bias_ih_l0"))
            .bidirectional(run.has_parameter("rnn.weight_hh_l0_reverse"))
            .batch_first(run.words()?.says(&["batch first", "batch_first"]));
        Ok(LstmNet { rnn: Lstm::new_with(inputs, hidden, options)?, fc: linear(run, "fc")? })
    }

    pub(super) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.fc.forward(&self.rnn.forward(x, None)?.0)
    }
}

#[derive(Module)]
pub(super) struct Bag {
    emb: Embedding,
    norm: LayerNorm,
    fc: Linear,
    mean: bool,
}

impl Bag {
    pub(super) fn of(run: &Run) -> Result<Bag, Trouble> {
        let words = run.words()?;
        let (sum, mean) = (words.says(&["sum over"]), words.says(&["mean over"]));
        if sum == mean {
            return Err(Trouble::Description(
                "neither `sum over` nor `mean over` positions".to_owned(),
            ));
        }
        Ok(Bag {
            emb: embedding(run, "emb", words.count_after(&["padding_idx"])?)?,
            norm: layer_norm(run, "norm", words)?,
            fc: linear(run, "fc")?,
            mean,
        })
    }

    pub(super) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let h = self.emb.forward(x)?;
        let h = if self.mean { h.mean_dim(1)? } else { h.sum_dim(1)? };
        self.fc.forward(&self.norm.forward(&h)?)
    }
}

#[derive(Module)]
struct Block {
    ln1: LayerNorm,
    qkv: Linear,
    proj: Linear,
    ln2: LayerNorm,
    fc: Linear,
    out: Linear,
}

/// A decoder. Its head is the table of words, or a layer by a name of its own.
pub(super) struct Gpt {
    wte: Embedding,
    wpe: Embedding,
    blocks: Vec<Block>,
    lnf: LayerNorm,
    head: Option<(String, Linear)>,
    heads: i64,
    activation: Activation,
}

impl Module for Gpt {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'a, '_>) {
        visitor.child("wte", &self.wte);
        visitor.child("wpe", &self.wpe);
        visitor.child("blocks", &self.blocks);
        visitor.child("lnf", &self.lnf);
        if let Some((name, head)) = &self.head {
            visitor.child(name, head);
        }
    }

    fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        visitor.child(&mut self.wte);
        visitor.child(&mut self.wpe);
        visitor.child(&mut self.blocks);
        visitor.child(&mut self.lnf);
        if let Some((_, head)) = &mut self.head {
            visitor.child(head);
        }
    }
}

impl Block {
    fn of(run: &Run, at: usize, words: Words<'_>) -> Result<Block, Trouble> {
        let name = |part: &str| format!("blocks.{at}.{part}");
        Ok(Block {
            ln1: layer_norm(run, &name("ln1"), words)?,
            qkv: linear(run, &name("qkv"))?,
            proj: linear(run, &name("proj"))?,
            ln2: layer_norm(run, &name("ln2"), words)?,
            fc: linear(run, &name("fc"))?,
            out: linear(run, &name("out"))?,
        })
    }

    fn forward(&self, x: &Tensor, mask: &Tensor, of: &Gpt) -> Result<Tensor> {
        let (batch, length, width) = (x.size(0)?, x.size(1)?, x.size(2)?);
        let each = width / of.heads;
        let parts = self.qkv.forward(&self.ln1.forward(x)?)?.split(width, -1)?;
        let heads = |t: &Tensor| t.view([batch, length, of.heads, each])?.transpose(1, 2);
        let (q, k, v) = (heads(&parts[0])?, heads(&parts[1])?, heads(&parts[2])?);
        let scores = q.matmul(k.transpose(-2, -1)?)?.div((each as f64).sqrt())?;
        let y = scores.masked_fill(mask, f64::NEG_INFINITY)?.softmax(-1)?.matmul(v)?;
        let y = y.transpose(1, 2)?.reshape([batch, length, width])?;
        let x = x.add(self.proj.forward(&y)?)?;
        let hidden = (of.activation)(&self.fc.forward(&self.ln2.forward(&x)?)?)?;
        x.add(self.out.forward(&hidden)?)
    }
}

impl Gpt {
    pub(super) fn of(run: &Run) -> Result<Gpt, Trouble> {
        let words = run.words()?;
        let blocks = (0..count(run, "blocks.{}.ln1.weight")).map(|i| Block::of(run, i, words));
        let heads = words.count_before(" heads", "n_head")?;
        let [_, width] = sizes(run, "wte.weight")?;
        if heads < 1 || width % heads != 0 {
            return Err(Trouble::Description(format!("{heads} heads of {width} numbers")));
        }
        let known = ["wte.", "wpe.", "blocks.", "lnf."];
        let others = |name: &&str| !known.iter().any(|k| name.starts_with(k));
        let head = run.parameters().filter(others).find_map(|name| name.strip_suffix(".weight"));
        let head = match head {
            Some(name) => Some((name.to_owned(), linear(run, name)?)),
            None => None,
        };
        Ok(Gpt {
            wte: embedding(run, "wte", None)?,
            wpe: embedding(run, "wpe", None)?,
            blocks: blocks.collect::<Result<_, _>>()?,
            lnf: layer_norm(run, "lnf", words)?,
            head,
            heads,
            activation: words.activation()?,
        })
    }

    pub(super) fn forward(&self, ids: &Tensor) -> Result<Tensor> {
        let length = ids.size(1)?;
        let mask = Tensor::ones([length, length])?.triu_with(1)?.to_dtype(DType::Bool)?;
        let positions = self.wpe.forward(&Tensor::arange(length)?)?;
        let mut x = self.wte.forward(ids)?.add(positions)?;
        for block in &self.blocks {
            x = block.forward(&x, &mask, self)?;
        }
        let x = self.lnf.forward(&x)?;
        match &self.head {
            Some((_, head)) => head.forward(&x),
            None => x.linear(&self.wte.weight, None),
        }
    }
}
