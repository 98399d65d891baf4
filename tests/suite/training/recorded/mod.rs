//! Trainings that PyTorch has recorded, step by step: weights, batches and dropout masks are given,
//! and losses, gradients and what comes out are compared.
//!
//! A run is `NAME.json` and `NAME.safetensors`. Its name says what kind of program it is; sizes,
//! biases and depths come from its tensors, settings of the optimiser from its `optimizer`, and the
//! rest from its description. What is not understood is an error. `tools/conformance` follows all
//! runs of a folder with the same code.
//!
//! | file | what |
//! |---|---|
//! | `facts`, `words` | the two files, and what a description says |
//! | `nets`, `models`, `optimizers` | the program |
//! | `train` | the steps |
//! | `derivatives` | runs that train nothing |
//! | `compare`, `trouble` | numbers that differ, and what else can be wrong |

mod compare;
mod derivatives;
mod facts;
mod models;
mod nets;
mod optimizers;
mod train;
mod trouble;
mod words;

pub(crate) use facts::Run;
pub(crate) use trouble::Trouble;

use std::path::{Path, PathBuf};
use straightline::{CompileEvent, Compiled, DType, TensorTree};

/// How a run is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Eager,
    /// The first gradients through a compiled function whose backward pass is asked for outside, and
    /// then whole steps, compiled.
    Compiled,
}

impl Mode {
    pub(crate) const ALL: [Mode; 2] = [Mode::Eager, Mode::Compiled];
}

/// The runs of a folder, by the paths of their JSON files.
pub(crate) fn runs_of(folder: &Path) -> Result<Vec<PathBuf>, Trouble> {
    let file = |source| Trouble::File { path: folder.to_owned(), source };
    let entries = std::fs::read_dir(folder).map_err(file)?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(file)?.path();
        if path.extension().is_some_and(|e| e == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.is_empty() { Err(Trouble::Empty(folder.to_owned())) } else { Ok(paths) }
}

impl Run {
    /// The dtypes in which the run was recorded.
    pub(crate) fn dtypes(&self) -> Vec<DType> {
        let trained = |bits: &str| self.has(&format!("loss_{bits}"));
        match (trained("f32"), trained("f64")) {
            (true, true) => vec![DType::F32, DType::F64],
            (true, false) => vec![DType::F32],
            (false, true) => vec![DType::F64],
            // as its tensors are
            (false, false) if self.tensor("x0").is_ok_and(|t| t.dtype() == DType::F64) => {
                vec![DType::F64]
            }
            (false, false) => vec![DType::F32],
        }
    }

    /// Does what the run did, and compares.
    pub(crate) fn follow(&self, dtype: DType, mode: Mode) -> Result<(), Trouble> {
        match self.name() {
            "per_sample_grads" => return derivatives::per_sample(self, dtype, mode),
            "hessian" => return derivatives::hessians(self, dtype, mode),
            _ => {}
        }
        match models::MODELS.iter().find(|(name, _)| *name == self.name()) {
            Some((_, make)) => train::follow(self, dtype, mode, *make),
            None => {
                let known = models::MODELS.iter().map(|(name, _)| *name);
                let known: Vec<&str> = known.chain(["per_sample_grads", "hessian"]).collect();
                let name = self.name().to_owned();
                Err(Trouble::Unknown { name, known: known.join(", ") })
            }
        }
    }
}

#[cfg(test)]
#[allow(dead_code, reason = "the tool shares this file, and has no tests of its own")]
impl Run {
    /// What a run without records would record: the loss of each step, and the last parameters.
    pub(crate) fn losses(
        &self,
        dtype: DType,
        mode: Mode,
    ) -> Result<(Vec<f64>, Vec<Vec<f64>>), Trouble> {
        let make = models::MODELS.iter().find(|(name, _)| *name == self.name());
        let (_, make) = make.ok_or_else(|| Trouble::Missing("a training".to_owned()))?;
        train::losses(self, dtype, mode, *make)
    }
}

/// That nothing of a compiled function ran eagerly.
fn compiled_only<I: TensorTree, O: TensorTree>(f: &Compiled<I, O>) -> Result<(), Trouble> {
    let other = |e: &CompileEvent| !matches!(e, CompileEvent::Compiled { .. });
    match f.events().iter().find(|e| other(e)) {
        Some(event) => Err(Trouble::Eagerly(event.to_string())),
        None => Ok(()),
    }
}
