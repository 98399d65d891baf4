//! What a step of each run computes.

use super::facts::Run;
use super::nets::{Bag, ConvNet, Gpt, LstmNet, Mlp};
use super::trouble::Trouble;
use super::words::Words;
use std::sync::Arc;
use straightline::autocast::autocast;
use straightline::autograd::{GradOptions, grad_with};
use straightline::nn::{Module, StateDict};
use straightline::{CrossEntropyOptions, DType, DeviceType, Reduction, Result, Tensor};

/// From a batch to what is recorded as `out0`, and the loss.
pub(super) type Forward = dyn Fn(&StateDict) -> Result<(Tensor, Tensor)> + Send + Sync;

pub(super) type Shared = Arc<dyn Module + Send + Sync>;

/// A model with its first values, and what a step computes.
pub(super) struct Program {
    pub(super) net: Shared,
    pub(super) forward: Arc<Forward>,
}

type Make = fn(&Run, DType) -> Result<Program, Trouble>;

/// The runs that train, by name.
pub(super) const MODELS: [(&str, Make); 7] = [
    ("mlp_sgd", mlp),
    ("mlp_autocast_bf16", mlp),
    ("conv_bn_adam", conv),
    ("gpt_adamw", gpt),
    ("lstm_rmsprop", lstm),
    ("grad_penalty_adam", grad_penalty),
    ("embedding_adagrad", bag),
];

/// A model of the run's first values.
fn program<N: Module + Send + Sync + 'static>(
    run: &Run,
    dtype: DType,
    mut net: N,
    batch: &[&str],
    forward: impl Fn(&N, &StateDict) -> Result<(Tensor, Tensor)> + Send + Sync + 'static,
) -> Result<Program, Trouble> {
    for i in 0..run.count("batches")? {
        for name in batch {
            run.tensor(&format!("batch{i}.{name}"))?;
        }
    }
    net.set_dtype(dtype)?;
    net.load_state_dict(&run.part("init.", dtype)?, true)?;
    let net = Arc::new(net);
    let own = net.clone();
    Ok(Program { net, forward: Arc::new(move |batch: &StateDict| forward(&own, batch)) })
}

/// The cross-entropy that is described.
fn cross_entropy(words: Words<'_>, dtype: DType) -> Result<CrossEntropyOptions, Trouble> {
    let mut options = CrossEntropyOptions::default();
    if let Some(weights) = words.list_after("class weights")? {
        options = options.weight(&Tensor::from_slice(&weights, [weights.len()])?.to_dtype(dtype)?);
    }
    if let Some(index) = words.count_after(&["ignore_index"])? {
        options = options.ignore_index(index);
    }
    if let Some(part) = words.after(&["label smoothing", "label_smoothing"])? {
        options = options.label_smoothing(part);
    }
    Ok(options)
}

fn mlp(run: &Run, dtype: DType) -> Result<Program, Trouble> {
    let words = run.words()?;
    let (between, loss) = (words.activation()?, cross_entropy(words, dtype)?);
    let half = match words.says(&["autocast(cpu, bfloat16)"]) {
        true => Some(DType::BF16),
        false => None,
    };
    let net = Mlp::of(run)?;
    let masks: Vec<String> = match words.says(&["mask_i"]) {
        true => (0..net.layers.len().saturating_sub(1)).map(|i| format!("mask{i}")).collect(),
        false => Vec::new(),
    };
    let mut given = vec!["x", "y"];
    given.extend(masks.iter().map(String::as_str));
    program(run, dtype, net, &given, {
        let masks = masks.clone();
        move |net, batch| {
            let _on = half.map(|half| autocast(DeviceType::Cpu, Some(half))).transpose()?;
            let out = net.forward(&batch["x"], |i, h| match masks.get(i) {
                Some(mask) => between(h)?.mul(&batch[mask]),
                None => between(h),
            })?;
            let loss = out.cross_entropy_with(&batch["y"], loss.clone())?;
            Ok((out, loss))
        }
    })
}

fn conv(run: &Run, dtype: DType) -> Result<Program, Trouble> {
    let loss = cross_entropy(run.words()?, dtype)?;
    program(run, dtype, ConvNet::of(run)?, &["x", "y"], move |net, batch| {
        let out = net.forward(&batch["x"])?;
        let loss = out.cross_entropy_with(&batch["y"], loss.clone())?;
        Ok((out, loss))
    })
}

fn bag(run: &Run, dtype: DType) -> Result<Program, Trouble> {
    let loss = cross_entropy(run.words()?, dtype)?;
    program(run, dtype, Bag::of(run)?, &["x", "y"], move |net, batch| {
        let out = net.forward(&batch["x"])?;
        let loss = out.cross_entropy_with(&batch["y"], loss.clone())?;
        Ok((out, loss))
    })
}

fn gpt(run: &Run, dtype: DType) -> Result<Program, Trouble> {
    let loss = cross_entropy(run.words()?, dtype)?;
    program(run, dtype, Gpt::of(run)?, &["x", "y"], move |net, batch| {
        let out = net.forward(&batch["x"])?;
        let rows = out.view([-1, out.size(-1)?])?;
        let loss = rows.cross_entropy_with(batch["y"].view([-1])?, loss.clone())?;
        Ok((out, loss))
    })
}

fn lstm(run: &Run, dtype: DType) -> Result<Program, Trouble> {
    let loss = distance(run.words()?)?;
    program(run, dtype, LstmNet::of(run)?, &["x", "y"], move |net, batch| {
        let out = net.forward(&batch["x"])?;
        let loss = loss(&out, &batch["y"])?;
        Ok((out, loss))
    })
}

type Distance = Box<dyn Fn(&Tensor, &Tensor) -> Result<Tensor> + Send + Sync>;

/// The mean distance that is described.
fn distance(words: Words<'_>) -> Result<Distance, Trouble> {
    let beta = words.after(&["beta"])?.unwrap_or(1.0);
    let delta = words.after(&["delta"])?.unwrap_or(1.0);
    let found: [(&[&str], Distance); 4] = [
        (&["mse", "mse_loss"], Box::new(|x, y| x.mse_loss(y))),
        (
            &["smooth_l1", "smooth_l1_loss"],
            Box::new(move |x, y| x.smooth_l1_loss_with(y, Reduction::Mean, beta)),
        ),
        (
            &["huber", "huber_loss"],
            Box::new(move |x, y| x.huber_loss_with(y, Reduction::Mean, delta)),
        ),
        (&["l1", "l1_loss"], Box::new(|x, y| x.l1_loss(y))),
    ];
    let mut found = found.into_iter().filter(|(names, _)| words.says(names));
    match (found.next(), found.next()) {
        (Some((_, f)), None) => Ok(f),
        _ => Err(Trouble::Description("not one loss: mse, smooth_l1, huber or l1".to_owned())),
    }
}

fn grad_penalty(run: &Run, dtype: DType) -> Result<Program, Trouble> {
    let words = run.words()?;
    let (between, weight) = (words.activation()?, words.before("mean((|gx|")?);
    program(run, dtype, Mlp::of(run)?, &["real", "fake", "eps"], move |net, batch| {
        let judge = |x: &Tensor| net.forward(x, |_, h| between(h));
        let (real, fake, part) = (&batch["real"], &batch["fake"], &batch["eps"]);
        let mixed = part.mul(real)?.add(part.neg()?.add(1.0)?.mul(fake)?)?;
        let mixed = mixed.detach()?.requires_grad_(true)?;
        let create = GradOptions { create_graph: true, ..GradOptions::default() };
        let slope = grad_with(&[judge(&mixed)?.sum()?], &[mixed], &create)?;
        let slope = slope.into_iter().flatten().next().expect("an input that is used");
        let length = slope.square()?.sum_dim(1)?.sqrt()?;
        let penalty = length.sub(1.0)?.square()?.mean()?.mul(weight)?;
        let loss = judge(fake)?.mean()?.sub(judge(real)?.mean()?)?.add(penalty)?;
        Ok((slope, loss))
    })
}
