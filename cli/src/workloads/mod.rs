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
//! Names, data and formulas are fixed, so that results can be compared with those of other
//! programs (`benches/peers`). Weights are closed over; activations are inputs.

mod convolutions;
pub(crate) mod data;
mod minilm;
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

use crate::error::Result;

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

/// The workloads that any of the patterns matches (see [`select`]).
pub(crate) fn many(patterns: &[String]) -> Result<Vec<Workload>> {
    let suite = all();
    let names: Vec<&str> = suite.iter().map(|w| w.name.as_str()).collect();
    let wanted = select::many(patterns, &names)?;
    let chosen = suite.into_iter().enumerate().filter(|(i, _)| wanted.contains(i));
    Ok(chosen.map(|(_, w)| w).collect())
}

/// The one workload that a pattern matches.
pub(crate) fn one(pattern: &str) -> Result<Workload> {
    let mut suite = all();
    let names: Vec<&str> = suite.iter().map(|w| w.name.as_str()).collect();
    let at = select::one(pattern, &names)?;
    Ok(suite.swap_remove(at))
}

#[cfg(test)]
mod tests;
