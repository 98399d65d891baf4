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
//! | w12 | all-MiniLM-L6-v2, whose weights are not part of this project (`--minilm`) |
//!
//! Names, data and formulas are fixed, so that results can be compared with those of other
//! programs. The numbers missing between w9 and w12 are matrix products and training, which are
//! measured elsewhere or do not exist yet. Weights are closed over; activations are inputs.

mod convolutions;
pub(crate) mod data;
mod minilm;
mod networks;
mod pointwise;
mod program;
mod reductions;
pub(crate) mod select;

pub(crate) use program::Program;

use crate::error::{CliError, Result};
use std::path::PathBuf;

/// What a workload may need from outside.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Setting {
    /// Folder with the weights of all-MiniLM-L6-v2 (config.json, model.safetensors), for w12; the
    /// default is the environment variable STRAIGHTLINE_MINILM
    #[arg(long, value_name = "PATH")]
    pub(crate) minilm: Option<PathBuf>,
}

impl Setting {
    /// The folder that was given, or the one that the environment names.
    fn minilm(&self) -> Option<PathBuf> {
        let from_environment = || std::env::var_os("STRAIGHTLINE_MINILM").map(PathBuf::from);
        self.minilm.clone().or_else(from_environment)
    }
}

/// How close the compiled output must be to the eager one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Agreement {
    /// Within this share of the element and of the root mean square.
    Within(f64),
    /// The elements are whatever was in memory: only sizes and dtype must agree.
    ShapeOnly,
}

/// Pointwise results: the same functions in the same order, except that products may be fused into
/// additions with one rounding.
const POINTWISE: Agreement = Agreement::Within(1e-5);
/// Sums and products of matrices: the order of additions differs.
const SUMS: Agreement = Agreement::Within(1e-4);

/// Why a workload could not be built.
pub(crate) enum Unready {
    /// It cannot run here, and that is not a failure.
    Unavailable(String),
    Failed(straightline::Error),
}

impl From<straightline::Error> for Unready {
    fn from(e: straightline::Error) -> Self {
        Unready::Failed(e)
    }
}

type Built = Result<Box<dyn Program>, Unready>;

/// One entry of the suite.
pub(crate) struct Workload {
    pub(crate) name: String,
    pub(crate) agreement: Agreement,
    build: Box<dyn Fn(&Setting) -> Built>,
}

impl Workload {
    fn new(
        name: impl Into<String>,
        agreement: Agreement,
        build: impl Fn(&Setting) -> Built + 'static,
    ) -> Workload {
        Workload {
            name: name.into(),
            agreement,
            build: Box::new(build),
        }
    }

    /// Makes its data and weights.
    pub(crate) fn build(&self, setting: &Setting) -> Built {
        (self.build)(setting)
    }

    /// [`Workload::build`] where it must run.
    pub(crate) fn require(&self, setting: &Setting) -> Result<Box<dyn Program>> {
        self.build(setting).map_err(|e| match e {
            Unready::Failed(e) => CliError::Library(e),
            Unready::Unavailable(reason) => CliError::Unavailable {
                workload: self.name.clone(),
                reason,
            },
        })
    }
}

/// The whole suite, in order.
pub(crate) fn all() -> Vec<Workload> {
    let mut suite = Vec::new();
    suite.extend(pointwise::workloads());
    suite.extend(reductions::workloads());
    suite.extend(networks::workloads());
    suite.extend(convolutions::workloads());
    suite.extend(minilm::workloads());
    suite
}

/// The workloads that any of the patterns matches (see [`select`]).
pub(crate) fn many(patterns: &[String]) -> Result<Vec<Workload>> {
    let suite = all();
    let names: Vec<&str> = suite.iter().map(|w| w.name.as_str()).collect();
    let wanted = select::many(patterns, &names)?;
    let chosen = suite
        .into_iter()
        .enumerate()
        .filter(|(i, _)| wanted.contains(i));
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
