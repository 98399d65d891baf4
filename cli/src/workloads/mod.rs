//! The suite: what `bench` measures and what `dump`, `trace` and `explain` take as examples.
//!
//! | group | what |
//! |---|---|
//! | w1 | one operator on almost nothing: the fixed cost of a call |
//! | w2 | a chain of 100 operators on small tensors |
//! | w3 | pointwise expressions |
//! | w4 | reductions, softmax, normalisation |
//! | w5 | a multi-layer perceptron |
//! | w6 | a small GPT |
//! | w7 | a BERT-base block |
//! | w8 | attention |
//! | w9 | convolutions |
//! | w10 | products of matrices |
//! | w11 | training steps: of the perceptron of w5, and forward and backward of the GPT of w6 |
//! | w12 | all-MiniLM-L6-v2, whose weights are not part of this project (`--minilm`) |
//!
//! A model file (FILE.pt2) stands where a workload's name may stand (`model`).
//!
//! Names, data and formulas are fixed, so that results can be compared with those of other
//! programs (`benches/peers`). Weights are closed over; activations are inputs.

mod convolutions;
pub(crate) mod data;
mod minilm;
mod model;
mod networks;
mod numbers;
mod pointwise;
mod products;
mod program;
mod reductions;
pub(crate) mod select;
mod training;
mod workload;

pub(crate) use program::{Program, Unready};
pub(crate) use workload::{Agreement, Setting, Workload};

use crate::error::{CliError, Result};
use crate::model::{is_model, may_be_file};

/// The whole suite, in order.
pub(crate) fn all() -> Vec<Workload> {
    let mut suite = Vec::new();
    suite.extend(pointwise::workloads());
    suite.extend(reductions::workloads());
    suite.extend(networks::workloads());
    suite.extend(convolutions::workloads());
    suite.extend(products::workloads());
    suite.extend(training::workloads());
    suite.extend(minilm::workloads());
    suite
}

/// The workloads that any of the patterns matches (see [`select`]), then the model files among them.
pub(crate) fn many(patterns: &[String], setting: &Setting) -> Result<Vec<Workload>> {
    let suite = all();
    let names: Vec<&str> = suite.iter().map(|w| w.name.as_str()).collect();
    let known = |p: &str| names.iter().any(|name| select::matches(p, name));
    let (files, patterns): (Vec<_>, Vec<_>) =
        patterns.iter().cloned().partition(|p| is_model(p) || !known(p) && may_be_file(p));
    let wanted = match (&files[..], &patterns[..]) {
        ([_, ..], []) => Vec::new(),
        _ => select::many(&patterns, &names)?,
    };
    let chosen = suite.into_iter().enumerate().filter(|(i, _)| wanted.contains(i));
    let mut chosen: Vec<Workload> = chosen.map(|(_, w)| w).collect();
    if files.is_empty() {
        no_model_options(setting)?;
    }
    chosen.extend(files.iter().map(|path| model::workload(path)));
    Ok(chosen)
}

/// The one workload that a pattern matches, or a model file.
pub(crate) fn one(pattern: &str, setting: &Setting) -> Result<Workload> {
    if is_model(pattern) {
        return Ok(model::workload(pattern));
    }
    let mut suite = all();
    let names: Vec<&str> = suite.iter().map(|w| w.name.as_str()).collect();
    match select::one(pattern, &names) {
        Ok(at) => {
            no_model_options(setting)?;
            Ok(suite.swap_remove(at))
        }
        Err(CliError::UnknownWorkload { .. }) if may_be_file(pattern) => {
            Ok(model::workload(pattern))
        }
        Err(e) => Err(e),
    }
}

/// The suite's data are fixed.
fn no_model_options(setting: &Setting) -> Result<()> {
    match setting.model.given() {
        Some(flag) => Err(CliError::Usage(format!(
            "{flag} is for model files (FILE.pt2), and the data of the workloads are fixed"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
