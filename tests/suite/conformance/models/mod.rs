//! Whole models that PyTorch has recorded: graphs of a model with its tensors, what came out of them,
//! and one step of training.
//!
//! A model is `NAME.json` and `NAME.safetensors`. Its graphs are run through the dispatcher and
//! compiled, and their results compared. The step is done by this library: the part of a graph that
//! computes the loss is differentiated by the tape, and loss, gradients, buffers and what the
//! optimiser makes of the parameters are compared.
//!
//! | file | what |
//! |---|---|
//! | `graph` | the nodes of a graph, and calling them |
//! | `model` | the two files |
//! | `outputs` | the results of the graphs |
//! | `training` | the step |
//! | `trouble` | what can be wrong |

mod graph;
mod model;
mod outputs;
mod training;
mod trouble;

pub(crate) use model::Model;
pub(crate) use trouble::Trouble;

use std::path::{Path, PathBuf};
use straightline::{CompileEvent, Compiled, TensorTree};

/// How a model is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// Call by call.
    Eager,
    /// Compiled; where gradients are asked for, the backward pass is asked for outside.
    Compiled,
    /// A whole step of training, compiled.
    Step,
}

impl Way {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Way::Eager => "eager",
            Way::Compiled => "compiled",
            Way::Step => "step",
        }
    }
}

/// The models of a folder, by the paths of their JSON files.
pub(crate) fn models_of(folder: &Path) -> Result<Vec<PathBuf>, Trouble> {
    let file = |source| Trouble::File { path: folder.to_owned(), source };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(file)? {
        let path = entry.map_err(file)?.path();
        if path.extension().is_some_and(|e| e == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.is_empty() { Err(Trouble::Empty(folder.to_owned())) } else { Ok(paths) }
}

/// That nothing of a compiled function ran eagerly.
fn compiled_only<I: TensorTree, O: TensorTree>(f: &Compiled<I, O>) -> Result<(), Trouble> {
    let other = |e: &CompileEvent| !matches!(e, CompileEvent::Compiled { .. });
    match f.events().iter().find(|e| other(e)) {
        Some(event) => Err(Trouble::Eagerly(event.to_string())),
        None => Ok(()),
    }
}
