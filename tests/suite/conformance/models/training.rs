//! One step of training: the loss by the graph's calls, its gradients by the tape, the update by the
//! optimiser.
//!
//! A graph of a model's forward pass that has the loss is differentiated as it is (`train`: made
//! with composite operators kept, so that these are differentiated). Where there is none, the
//! calls that the loss depends on are cut out of `joint`, which has PyTorch's own backward pass
//! beside them.

use super::graph::{Graph, Output};
use super::model::{Model, close, numbers};
use super::outputs::calls;
use super::trouble::Trouble;
use super::{Way, compiled_only};
use serde_json::Value as Json;
use std::sync::Arc;
use straightline::nn::StateDict;
use straightline::optim::{AdamW, AdamWOptions, Optimizer};
use straightline::{DType, Tensor, compile};

type Outcome<T> = std::result::Result<T, Trouble>;

/// How far the worst numbers are off, as parts of the largest element of their tensors.
#[derive(Clone, Copy, Default)]
pub(crate) struct Worst {
    pub(crate) loss: f64,
    pub(crate) grad: f64,
    pub(crate) buffer: f64,
    pub(crate) parameter: f64,
}

/// A step that is to be made.
struct Step<'a> {
    model: &'a Model,
    graph: Arc<Graph>,
    /// What the graph reads, by key.
    given: StateDict,
    /// The parameters among it, by name.
    leaves: Vec<(String, Tensor)>,
    /// Which output is the loss.
    loss: usize,
    optimizer: Arc<AdamW>,
    rate: f64,
}

impl Model {
    /// The graphs that have the loss.
    pub(crate) fn losses(&self) -> Vec<&'static str> {
        let has = |name: &&str| {
            let outputs = self.graphs.get(*name).map(|g| &g.outputs);
            outputs.is_some_and(|o| o.iter().any(Output::is_loss))
        };
        ["train", "joint"].into_iter().filter(has).collect()
    }

    /// Makes the step with the loss of this graph, and compares.
    pub(crate) fn train(&self, graph: &str, way: Way) -> Outcome<Worst> {
        let graph = self.graphs.get(graph).ok_or_else(|| Trouble::Missing(graph.to_owned()))?;
        let forward = match graph.outputs.iter().any(|o| o.kind == "grad") {
            true => graph.cut(|o| o.is_loss() || o.kind == "buffer_after"),
            false => graph.clone(),
        };
        Step::new(self, forward)?.follow(way)
    }

    /// A setting of the optimiser.
    fn setting(&self, key: &str) -> Option<f64> {
        let train = &self.train;
        let nested = ["optimizer", "options", "args", "hyperparameters"].map(|o| &train[o][key]);
        [&train[key]].into_iter().chain(nested).find_map(|v| {
            v.as_f64()
                .or_else(|| v.as_str()?.parse().ok())
                .or_else(|| v["f"].as_str()?.parse().ok())
        })
    }

    fn options(&self) -> Outcome<AdamWOptions> {
        let train = &self.train;
        let name = train["optimizer"].as_str().or_else(|| train["optimizer"]["name"].as_str());
        if name.is_some_and(|n| n != "AdamW") {
            return Err(Trouble::Optimizer(name.unwrap_or_default().to_owned()));
        }
        let mut options = AdamWOptions::default();
        if let Some(lr) = self.setting("lr") {
            options = options.lr(lr);
        }
        if let Some(eps) = self.setting("eps") {
            options = options.eps(eps);
        }
        if let Some(decay) = self.setting("weight_decay") {
            options = options.weight_decay(decay);
        }
        let pair = |b: &Json| Some((b[0].as_f64()?, b[1].as_f64()?));
        let betas = [&train["betas"], &train["optimizer"]["betas"]].into_iter().find_map(pair);
        if let Some((mean, square)) = betas {
            options = options.betas(mean, square);
        }
        Ok(options)
    }

    /// Whether two names are of one parameter, since a tied weight is recorded under each of its
    /// names. Biases of branches that are added begin at 0 and get one gradient without being tied,
    /// layers may begin alike, but numbers that differ and get one gradient are one parameter's. Of
    /// a name that the loss does not use, equal ones (`alike`) are as good.
    fn tied(&self, a: &str, b: &str, alike: bool) -> Outcome<bool> {
        for key in ["param.", "train.grad."] {
            let [a, b] = [a, b].map(|name| self.tensors.get(&format!("{key}{name}")));
            let (Some(a), Some(b)) = (a, b) else { return Ok(false) };
            let (x, y) = (numbers(a)?, numbers(b)?);
            let constant = x.iter().all(|e| *e == x[0]);
            if a.sizes() != b.sizes() || x != y || (constant && !alike) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl<'a> Step<'a> {
    fn new(model: &'a Model, graph: Graph) -> Outcome<Step<'a>> {
        let loss = graph.outputs.iter().position(Output::is_loss).ok_or(Trouble::NoLoss)?;
        let mut given = model.copies(&graph)?;
        let mut leaves: Vec<(String, Tensor)> = Vec::new();
        let sources: Vec<String> = graph.sources().map(str::to_owned).collect();
        for key in &sources {
            let Some(name) = key.strip_prefix("param.") else { continue };
            if !given[key].dtype().is_floating() {
                continue;
            }
            let mut leaf = None;
            for (other, t) in &leaves {
                if model.tied(name, other, false)? {
                    leaf = Some(t.clone());
                }
            }
            let leaf = match leaf {
                Some(leaf) => leaf,
                None => {
                    let leaf = given[key].clone().requires_grad_(true)?;
                    leaves.push((name.to_owned(), leaf.clone()));
                    leaf
                }
            };
            given.insert(key.clone(), leaf);
        }
        let options = model.options()?;
        let parameters: Vec<Tensor> = leaves.iter().map(|(_, t)| t.clone()).collect();
        let optimizer = Arc::new(AdamW::new(parameters, options)?);
        let rate = model.setting("lr").unwrap_or(1e-3);
        Ok(Step { model, graph: Arc::new(graph), given, leaves, loss, optimizer, rate })
    }

    /// The inputs and labels, which a compiled function is given; it closes over the others.
    fn batch(&self) -> StateDict {
        let own = |key: &str| !key.starts_with("param.") && !key.starts_with("buffer.");
        self.given.iter().filter(|(k, _)| own(k)).map(|(k, t)| (k.clone(), t.clone())).collect()
    }

    /// The calls of the graph as a function of the batch.
    fn forward(&self) -> impl Fn(&StateDict) -> straightline::Result<Vec<Option<Tensor>>> + use<> {
        let (graph, state) = (self.graph.clone(), self.given.clone());
        move |batch| {
            let mut given = state.clone();
            given.extend(batch.iter().map(|(k, t)| (k.clone(), t.clone())));
            calls(&graph, &given)
        }
    }

    /// Everything that a step is.
    fn whole(&self) -> impl Fn(&StateDict) -> straightline::Result<Vec<Option<Tensor>>> + use<> {
        let (forward, optimizer, at) = (self.forward(), self.optimizer.clone(), self.loss);
        move |batch| {
            optimizer.zero_grad()?;
            let results = forward(batch)?;
            results.get(at).cloned().flatten().map_or(Ok(()), |loss| loss.backward())?;
            optimizer.step()?;
            results.iter().map(|r| r.as_ref().map(Tensor::detach).transpose()).collect()
        }
    }

    fn follow(&self, way: Way) -> Outcome<Worst> {
        let mut worst = Worst::default();
        let (batch, whole) = (self.batch(), self.whole());
        let f = compile(whole);
        let results = match way {
            Way::Eager => {
                let results = self.graph.run(&self.given)?;
                self.backward(&results)?;
                results
            }
            Way::Compiled => {
                let f = compile(self.forward());
                let results = f.call(&batch)?;
                compiled_only(&f)?;
                self.backward(&results)?;
                results
            }
            Way::Step => f.call(&batch)?,
        };
        let found = results[self.loss].as_ref().ok_or(Trouble::NoLoss)?;
        worst.loss = self.model.compare("train.loss", found)?;
        worst.grad = self.gradients()?;
        worst.buffer = self.buffers(&results)?;
        if way != Way::Step {
            self.optimizer.step()?;
        }
        worst.parameter = self.parameters()?;
        // as long as PyTorch's losses are known, these are followed
        let losses: Vec<f64> = self.model.train["losses"]
            .as_array()
            .map(|l| l.iter().filter_map(|x| x.as_f64()).collect())
            .unwrap_or_default();
        for (at, expected) in losses.iter().enumerate().skip(1) {
            let results = match way {
                Way::Step => f.call(&batch)?,
                _ => f.eager(&batch)?,
            };
            let found = results[self.loss].as_ref().ok_or(Trouble::NoLoss)?;
            let found = found.to_dtype(DType::F64)?.item::<f64>()?;
            let off = (found - expected).abs() / expected.abs().max(1e-3);
            // small differences of the first steps have grown
            if off.is_nan() || off > 2e-3 {
                let what = format!("{found}, PyTorch has {expected}");
                return Err(Trouble::Differs { at: format!("the loss of step {at}"), what });
            }
        }
        if way == Way::Step {
            compiled_only(&f)?;
        }
        Ok(worst)
    }

    fn backward(&self, results: &[Option<Tensor>]) -> Outcome<()> {
        let loss = results[self.loss].as_ref().ok_or(Trouble::NoLoss)?;
        Ok(loss.backward()?)
    }

    /// The parameter of a name, also of one that is tied to another.
    fn leaf(&self, name: &str) -> Outcome<&Tensor> {
        for (own, t) in &self.leaves {
            if own == name && t.grad().is_some() {
                return Ok(t);
            }
        }
        for (own, t) in &self.leaves {
            if t.grad().is_some() && self.model.tied(own, name, true)? {
                return Ok(t);
            }
        }
        Err(Trouble::Missing(format!("the parameter {name}, of which a gradient is recorded,")))
    }

    /// The recorded tensors whose keys begin so, by the rest.
    fn recorded(&self, prefix: &'static str) -> impl Iterator<Item = (&str, &str)> {
        let of = move |k: &'a String| Some((k.as_str(), k.strip_prefix(prefix)?));
        self.model.tensors.keys().filter_map(of)
    }

    fn gradients(&self) -> Outcome<f64> {
        let mut worst: f64 = 0.0;
        for (key, name) in self.recorded("train.grad.") {
            let grad = self.leaf(name)?.grad().ok_or_else(|| Trouble::Missing(key.to_owned()))?;
            worst = worst.max(self.model.compare(key, &grad)?);
        }
        for (name, leaf) in &self.leaves {
            let key = format!("train.grad.{name}");
            if leaf.grad().is_some() && !self.model.tensors.contains_key(&key) {
                let what = "there is one, PyTorch has none".to_owned();
                return Err(Trouble::Differs { at: key, what });
            }
        }
        Ok(worst)
    }

    /// Buffers that the step changes: results of the graph, or written by it.
    fn buffers(&self, results: &[Option<Tensor>]) -> Outcome<f64> {
        let mut worst: f64 = 0.0;
        for (key, name) in self.recorded("train.buffer.") {
            let mut outputs = self.graph.outputs.iter();
            let result = outputs.position(|o| o.key.as_deref() == Some(key));
            let written = || self.given.get(&format!("buffer.{name}")).cloned();
            let found = match result {
                Some(i) => results[i].clone(),
                None => written(),
            };
            let found = found.ok_or_else(|| Trouble::Missing(key.to_owned()))?;
            worst = worst.max(self.model.compare(key, &found)?);
        }
        Ok(worst)
    }

    /// The parameters after the step. AdamW's first step is as long for a small gradient as for a
    /// large one: where a gradient is rounding, so is its sign.
    fn parameters(&self) -> Outcome<f64> {
        let model = self.model;
        let mut worst: f64 = 0.0;
        for (key, name) in self.recorded("train.param_after.") {
            let grad = numbers(model.tensor(&format!("train.grad.{name}"))?)?;
            let allowed = |i: usize, x: f64| {
                let sign_is_known = grad[i].abs() > model.allowed(grad[i]);
                model.allowed(x) + if sign_is_known { 0.0 } else { 2.0 * self.rate }
            };
            worst = worst.max(close(key, self.leaf(name)?, model.tensor(key)?, allowed)?);
        }
        Ok(worst)
    }
}
