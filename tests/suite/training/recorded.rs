//! Trainings that PyTorch has recorded, step by step: weights, batches and dropout masks are given,
//! and losses, gradients and what comes out are compared, in `f32` and in `f64`.
//!
//! The files of two runs are in `tests/data/training`. Others are read from the folder that
//! `STRAIGHTLINE_TRAINING` names, or from where they lie beside the repository, and left out where
//! they are not.

use serde_json::Value;
use std::path::PathBuf;
use straightline::autograd::{GradOptions, grad_with};
use straightline::nn::{
    BatchNorm2d, Conv2d, Embedding, Layer, LayerNorm, Linear, Lstm, Module, RnnOptions, StateDict,
};
use straightline::optim::{
    Adagrad, AdagradOptions, Adam, AdamOptions, AdamW, AdamWOptions, Optimizer, RmsProp, Sgd,
    SgdOptions, clip_grad_norm_,
};
use straightline::{ConvOptions, CrossEntropyOptions, DType, Result, Tensor, load_safetensors};

/// A recorded training.
struct Run {
    facts: Value,
    tensors: StateDict,
    dtype: DType,
}

fn folder(name: &str) -> Option<PathBuf> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let given = std::env::var_os("STRAIGHTLINE_TRAINING").map(PathBuf::from);
    let folders = [
        Some(here.join("tests/data/training")),
        given,
        Some(here.join("../shared/conformance/training")),
    ];
    folders.into_iter().flatten().find(|f| f.join(format!("{name}.json")).exists())
}

fn numbers(values: &Value) -> Vec<f64> {
    values.as_array().unwrap().iter().map(|v| v.as_str().unwrap().parse().unwrap()).collect()
}

fn number(value: &Value) -> f64 {
    value.as_str().map_or_else(|| value.as_f64().unwrap(), |text| text.parse().unwrap())
}

impl Run {
    fn open(name: &str, dtype: DType) -> Option<Run> {
        let Some(folder) = folder(name) else {
            println!("{name} is not here");
            return None;
        };
        let facts = std::fs::read(folder.join(format!("{name}.json"))).unwrap();
        let facts = serde_json::from_slice(&facts).unwrap();
        let tensors = load_safetensors(folder.join(format!("{name}.safetensors"))).unwrap();
        Some(Run { facts, tensors, dtype })
    }

    /// The tensors whose names begin so.
    fn part(&self, prefix: &str) -> StateDict {
        let convert = |t: &Tensor| match t.dtype().is_floating() {
            true => t.to_dtype(self.dtype).unwrap(),
            false => t.clone(),
        };
        let named = self.tensors.iter();
        named.filter_map(|(k, t)| Some((k.strip_prefix(prefix)?.to_owned(), convert(t)))).collect()
    }

    fn fact(&self, name: &str) -> &Value {
        let bits = if self.dtype == DType::F64 { "f64" } else { "f32" };
        &self.facts[format!("{name}_{bits}")]
    }

    /// What is allowed, as recorded or, in `f64`, hardly anything.
    fn tolerance(&self, name: &str) -> f64 {
        if self.dtype == DType::F64 { 1e-10 } else { self.facts["tol"][name].as_f64().unwrap() }
    }

    /// Trains, and compares. A step gives what is recorded as `out0`, and the loss.
    fn train<N: Module>(
        &self,
        mut net: N,
        optimizer: impl FnOnce(&N) -> Box<dyn Optimizer>,
        clip: Option<f64>,
        forward: impl Fn(&N, &StateDict) -> Result<(Tensor, Tensor)>,
    ) {
        net.set_dtype(self.dtype).unwrap();
        net.load_state_dict(&self.part("init."), true).unwrap();
        let optimizer = optimizer(&net);
        let (losses, norms) = (numbers(self.fact("loss")), numbers(self.fact("grad_norm")));
        let batches = self.facts["batches"].as_u64().unwrap() as usize;
        for (step, (expected, norm)) in losses.iter().zip(&norms).enumerate() {
            for (group, lr) in self.lr(step).into_iter().enumerate() {
                optimizer.set_lr(group, lr).unwrap();
            }
            let batch = self.part(&format!("batch{}.", step % batches));
            optimizer.zero_grad().unwrap();
            let (out, loss) = forward(&net, &batch).unwrap();
            loss.backward().unwrap();
            let found = loss.to_dtype(DType::F64).unwrap().item::<f64>().unwrap();
            let allowed = self.tolerance(if step == 0 { "loss_step0_rel" } else { "loss_max_rel" });
            let off = (found - expected).abs();
            assert!(off <= allowed * expected.abs(), "step {step}: {found}, not {expected}");
            if step == 0 {
                self.compare_first(&net, &out);
            }
            let total = clip_grad_norm_(&net.parameters(), clip.unwrap_or(f64::INFINITY)).unwrap();
            let total = total.to_dtype(DType::F64).unwrap().item::<f64>().unwrap();
            assert!((total - norm).abs() <= 1e-4 * norm, "step {step}: norm {total}, not {norm}");
            optimizer.step().unwrap();
        }
        let expected = self.fact("final").as_object().unwrap().iter();
        let buffers = self.fact("final_buffers").as_object().unwrap().iter();
        let state = net.state_dict().unwrap();
        for (name, facts) in expected.chain(buffers) {
            self.compare_last(name, &state[name], facts);
        }
    }

    /// The learning rate of each group; one list, or one number for all.
    fn lr(&self, step: usize) -> Vec<f64> {
        match &self.facts["lr"][step] {
            Value::Array(groups) => groups.iter().map(number).collect(),
            one => vec![number(one)],
        }
    }

    /// Output and gradients of the first step, which are recorded in `f32`.
    fn compare_first(&self, net: &dyn Module, out: &Tensor) {
        let allowed = self.facts["tol"]["grad0_max_over_max"].as_f64().unwrap();
        let grads = self.part("grad0.");
        let named = net.named_parameters();
        assert_eq!(named.len(), grads.len());
        let found = named.iter().map(|(name, p)| (name.as_str(), p.grad().unwrap(), &grads[name]));
        let out0 = self.part("out0").remove("").unwrap();
        for (name, found, expected) in found.chain([("out0", out.detach().unwrap(), &out0)]) {
            let largest = |t: &Tensor| {
                t.abs().unwrap().max().unwrap().to_dtype(DType::F64).unwrap().item::<f64>().unwrap()
            };
            let off = largest(&found.sub(expected).unwrap());
            // a gradient that is zero in theory is noise
            let limit = (allowed * largest(expected)).max(1e-7);
            assert!(off <= limit, "{name}: off by {off}, of {}", largest(expected));
        }
    }

    fn compare_last(&self, name: &str, found: &Tensor, facts: &Value) {
        let values = found.to_dtype(DType::F64).unwrap().to_vec::<f64>().unwrap();
        let l2 = values.iter().map(|v| v * v).sum::<f64>().sqrt();
        let expected = number(&facts["l2"]);
        let allowed = self.tolerance("final_param_l2_rel") * expected + 1e-12;
        assert!((l2 - expected).abs() <= allowed, "{name}: norm {l2}, not {expected}");
        let (first, last) = (numbers(&facts["first"]), numbers(&facts["last"]));
        let ends = first.iter().zip(&values).chain(last.iter().rev().zip(values.iter().rev()));
        for (expected, found) in ends {
            let off = (expected - found).abs();
            assert!(off <= self.tolerance("final_value_abs"), "{name}: {found}, not {expected}");
        }
    }
}

/// In both precisions, where the files are.
fn both(name: &str, check: impl Fn(&Run)) {
    for dtype in [DType::F32, DType::F64] {
        if let Some(run) = Run::open(name, dtype) {
            check(&run);
        }
    }
}

#[derive(Module)]
struct Mlp {
    layers: Vec<Linear>,
}

impl Mlp {
    fn new(sizes: &[i64]) -> Mlp {
        let layers = sizes.windows(2).map(|s| Linear::new(s[0], s[1]).unwrap());
        Mlp { layers: layers.collect() }
    }

    fn forward(
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

#[test]
fn mlp_sgd() {
    both("mlp_sgd", |run| {
        let options = SgdOptions::default().lr(0.05).momentum(0.9).weight_decay(1e-4);
        run.train(
            Mlp::new(&[32, 64, 48, 10]),
            |net| Box::new(Sgd::new(net.parameters(), options).unwrap()),
            None,
            |net, batch| {
                let masked = |i, h: &Tensor| h.relu()?.mul(&batch[&format!("mask{i}")]);
                let out = net.forward(&batch["x"], masked)?;
                let loss = out.cross_entropy(&batch["y"])?;
                Ok((out, loss))
            },
        );
    });
}

#[derive(Module)]
struct ConvNet {
    conv1: Conv2d,
    bn1: BatchNorm2d,
    conv2: Conv2d,
    bn2: BatchNorm2d,
    fc: Linear,
}

#[test]
fn conv_bn_adam() {
    both("conv_bn_adam", |run| {
        let padded = ConvOptions::default().padding(1);
        let net = ConvNet {
            conv1: Conv2d::new_with(1, 8, 3, padded.clone(), false).unwrap(),
            bn1: BatchNorm2d::new(8).unwrap(),
            conv2: Conv2d::new_with(8, 16, 3, padded.stride(2), false).unwrap(),
            bn2: BatchNorm2d::new(16).unwrap(),
            fc: Linear::new(16, 5).unwrap(),
        };
        run.train(
            net,
            |net| Box::new(Adam::new(net.parameters(), 0.003).unwrap()),
            None,
            |net, batch| {
                let h = net.bn1.forward(&net.conv1.forward(&batch["x"])?)?;
                let h = h.relu()?.max_pool2d(2)?;
                let h = net.bn2.forward(&net.conv2.forward(&h)?)?.relu()?;
                let out = net.fc.forward(&h.mean_dim([2, 3])?)?;
                let loss = out.cross_entropy(&batch["y"])?;
                Ok((out, loss))
            },
        );
    });
}

#[derive(Module)]
struct LstmNet {
    rnn: Lstm,
    fc: Linear,
}

#[test]
fn lstm_rmsprop() {
    both("lstm_rmsprop", |run| {
        let batch_first = RnnOptions::default().batch_first(true);
        let net = LstmNet {
            rnn: Lstm::new_with(8, 24, batch_first).unwrap(),
            fc: Linear::new(24, 2).unwrap(),
        };
        run.train(
            net,
            |net| Box::new(RmsProp::new(net.parameters(), 0.003).unwrap()),
            None,
            |net, batch| {
                let out = net.fc.forward(&net.rnn.forward(&batch["x"], None)?.0)?;
                let loss = out.mse_loss(&batch["y"])?;
                Ok((out, loss))
            },
        );
    });
}

#[derive(Module)]
struct Bag {
    emb: Embedding,
    norm: LayerNorm,
    fc: Linear,
}

#[test]
fn embedding_adagrad() {
    both("embedding_adagrad", |run| {
        let net = Bag {
            emb: Embedding::with_padding(30, 12, 0).unwrap(),
            norm: LayerNorm::new(12).unwrap(),
            fc: Linear::new(12, 4).unwrap(),
        };
        let options = AdagradOptions::default().lr(0.05).lr_decay(0.01);
        let classes = Tensor::with(run.dtype).literal([1.0, 2.0, 0.5, 1.5]).unwrap();
        let weighted = CrossEntropyOptions::default().weight(&classes).ignore_index(-100);
        run.train(
            net,
            |net| Box::new(Adagrad::new(net.parameters(), options).unwrap()),
            None,
            |net, batch| {
                let sum = net.emb.forward(&batch["x"])?.sum_dim(1)?;
                let out = net.fc.forward(&net.norm.forward(&sum)?)?;
                let loss = out.cross_entropy_with(&batch["y"], weighted.clone())?;
                Ok((out, loss))
            },
        );
    });
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

#[derive(Module)]
struct Gpt {
    wte: Embedding,
    wpe: Embedding,
    blocks: Vec<Block>,
    lnf: LayerNorm,
}

impl Block {
    fn new(width: i64) -> Result<Block> {
        Ok(Block {
            ln1: LayerNorm::new(width)?,
            qkv: Linear::without_bias(width, 3 * width)?,
            proj: Linear::new(width, width)?,
            ln2: LayerNorm::new(width)?,
            fc: Linear::new(width, 4 * width)?,
            out: Linear::new(4 * width, width)?,
        })
    }

    fn forward(&self, x: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let (batch, length, width) = (x.size(0)?, x.size(1)?, x.size(2)?);
        let parts = self.qkv.forward(&self.ln1.forward(x)?)?.split(width, -1)?;
        let heads = |t: &Tensor| t.view([batch, length, 4, width / 4])?.transpose(1, 2);
        let (q, k, v) = (heads(&parts[0])?, heads(&parts[1])?, heads(&parts[2])?);
        let scores = q.matmul(k.transpose(-2, -1)?)?.div(((width / 4) as f64).sqrt())?;
        let y = scores.masked_fill(mask, f64::NEG_INFINITY)?.softmax(-1)?.matmul(v)?;
        let y = y.transpose(1, 2)?.reshape([batch, length, width])?;
        let x = x.add(self.proj.forward(&y)?)?;
        let hidden = self.fc.forward(&self.ln2.forward(&x)?)?.gelu_tanh()?;
        x.add(self.out.forward(&hidden)?)
    }
}

impl Gpt {
    fn forward(&self, ids: &Tensor) -> Result<Tensor> {
        let length = ids.size(1)?;
        let mask = Tensor::ones([length, length])?.triu_with(1)?.to_dtype(DType::Bool)?;
        let positions = self.wpe.forward(&Tensor::arange(length)?)?;
        let mut x = self.wte.forward(ids)?.add(positions)?;
        for block in &self.blocks {
            x = block.forward(&x, &mask)?;
        }
        self.lnf.forward(&x)?.linear(&self.wte.weight, None)
    }
}

#[test]
fn gpt_adamw() {
    both("gpt_adamw", |run| {
        let net = Gpt {
            wte: Embedding::new(96, 64).unwrap(),
            wpe: Embedding::new(32, 64).unwrap(),
            blocks: vec![Block::new(64).unwrap(), Block::new(64).unwrap()],
            lnf: LayerNorm::new(64).unwrap(),
        };
        let groups = |net: &Gpt| {
            let options = AdamWOptions::default().betas(0.9, 0.95);
            let (decayed, others): (Vec<_>, Vec<_>) =
                net.parameters().into_iter().partition(|p| p.dim() >= 2);
            let mut optimizer = AdamW::new(decayed, options.weight_decay(0.1)).unwrap();
            optimizer.add_group(others, options.weight_decay(0.0)).unwrap();
            Box::new(optimizer) as Box<dyn Optimizer>
        };
        run.train(net, groups, Some(1.0), |net, batch| {
            let out = net.forward(&batch["x"])?;
            let loss = out.view([-1, 96])?.cross_entropy(batch["y"].view([-1])?)?;
            Ok((out, loss))
        });
    });
}

#[test]
fn grad_penalty_adam() {
    both("grad_penalty_adam", |run| {
        let options = AdamOptions::default().lr(0.005).betas(0.5, 0.9);
        run.train(
            Mlp::new(&[6, 32, 24, 1]),
            |net| Box::new(Adam::new(net.parameters(), options).unwrap()),
            None,
            |net, batch| {
                let judge = |x: &Tensor| net.forward(x, |_, h| h.tanh());
                let (real, fake, part) = (&batch["real"], &batch["fake"], &batch["eps"]);
                let between = part.mul(real)?.add(part.neg()?.add(1.0)?.mul(fake)?)?;
                let between = between.detach()?.requires_grad_(true)?;
                let create = GradOptions { create_graph: true, ..GradOptions::default() };
                let judged = judge(&between)?.sum()?;
                let slope = grad_with(&[judged], &[between], &create)?.remove(0).unwrap();
                let length = slope.square()?.sum_dim(1)?.sqrt()?;
                let penalty = length.sub(1.0)?.square()?.mean()?.mul(10.0)?;
                let loss = judge(fake)?.mean()?.sub(judge(real)?.mean()?)?.add(penalty)?;
                Ok((slope, loss))
            },
        );
    });
}
