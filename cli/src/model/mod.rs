//! Model files: a program that PyTorch has exported, with inputs to call it on.
//!
//! | file | what |
//! |---|---|
//! | `options` | what the user says about the inputs |
//! | `inputs` | inputs from a file, or made up |
//! | `random` | made-up sizes and elements |
//! | `error` | what can be wrong with inputs |
//! | `show` | inputs and results as lines of text |

mod error;
mod inputs;
mod options;
mod random;
mod show;
#[cfg(test)]
mod tests;

pub(crate) use error::InputError;
pub(crate) use inputs::needed;
pub(crate) use options::ModelOptions;
pub(crate) use show::{bytes, count, line};

use crate::error::{CliError, Result, plain};
use std::io::Read;
use std::path::Path;
use straightline::autograd::no_grad;
use straightline::program::{Leaf, Program};
use straightline::{ErrorKind, Tensor, manual_seed, pt2};

/// Whether a name is that of a model file, whatever workloads are called: by its suffix, or since the
/// file is an archive.
pub(crate) fn is_model(name: &str) -> bool {
    let path = Path::new(name);
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("pt2"))
        || path.is_file() && is_archive(path).unwrap_or(false)
}

/// Whether a file begins as a zip archive does.
fn is_archive(path: &Path) -> std::io::Result<bool> {
    let mut beginning = Vec::new();
    std::fs::File::open(path)?.take(4).read_to_end(&mut beginning)?;
    Ok(beginning == b"PK\x03\x04")
}

/// Whether a name that no workload has may be meant as a file.
pub(crate) fn may_be_file(name: &str) -> bool {
    name.contains(std::path::MAIN_SEPARATOR) || Path::new(name).exists()
}

/// Reads a model file.
pub(crate) fn load(path: &str, options: &ModelOptions) -> Result<Program> {
    let failed = |message: String| CliError::File { path: path.to_owned(), message };
    if Path::new(path).is_dir() {
        return Err(failed(format!("this is a folder, and {EXPECTED}")));
    }
    pt2::load_with(path, &pt2::Options { model: options.model.clone() }).map_err(|e| {
        match e.kind() {
            ErrorKind::File { .. } => CliError::Library(e),
            ErrorKind::Archive(_) if !is_archive(Path::new(path)).unwrap_or(true) => {
                failed(format!("this is no zip archive, and {EXPECTED}"))
            }
            // these name the file
            ErrorKind::Archive(_) => CliError::Library(e),
            _ => failed(plain(&e)),
        }
    })
}

const EXPECTED: &str = "a model file is an archive that `torch.export.save` of PyTorch writes";

/// A program with its inputs.
pub(crate) struct Model {
    pub(crate) program: Program,
    pub(crate) inputs: Vec<Leaf>,
    pub(crate) start: Start,
}

impl Model {
    /// Inputs as the options say; made up where they say nothing.
    pub(crate) fn new(program: Program, options: &ModelOptions) -> Result<Model> {
        let inputs = inputs::make(&program, options)?;
        let start = Start::of(&program, &inputs, options.seed())?;
        Ok(Model { program, inputs, start })
    }
}

/// What a call finds: tensors that it writes with the values that they had at first, and the seed of
/// the random numbers that it draws.
#[derive(Clone)]
pub(crate) struct Start {
    written: Vec<Written>,
    seed: u64,
}

#[derive(Clone)]
struct Written {
    name: String,
    tensor: Tensor,
    /// Its values before the first call.
    before: Tensor,
}

impl Start {
    fn of(program: &Program, inputs: &[Leaf], seed: u64) -> Result<Start> {
        let weights = program.written_weights().map(|w| (w.name.clone(), w.tensor.clone()));
        let given = program.written_inputs().filter_map(|at| match inputs.get(at)? {
            Leaf::Tensor(t) => Some((program.inputs().get(at)?.name.clone(), t.clone())),
            _ => None,
        });
        let written = weights.chain(given).map(|(name, tensor)| {
            let before = tensor.detach()?.copied()?;
            Ok(Written { name, tensor, before })
        });
        Ok(Start { written: written.collect::<straightline::Result<_>>()?, seed })
    }

    /// Whether a call changes what the next one finds.
    pub(crate) fn is_written(&self) -> bool {
        !self.written.is_empty()
    }

    /// Everything as before the first call.
    pub(crate) fn restore(&self) -> straightline::Result<()> {
        no_grad(|| {
            for Written { tensor, before, .. } in &self.written {
                tensor.copy_(before)?;
            }
            manual_seed(self.seed);
            Ok(())
        })
    }

    /// What calls have written: names, and copies of the values now.
    pub(crate) fn written(&self) -> straightline::Result<Vec<(String, Tensor)>> {
        let now = |w: &Written| Ok((w.name.clone(), w.tensor.detach()?.copied()?));
        self.written.iter().map(now).collect()
    }

    /// [`Start::written`] without what is as it was: normalisations may write their statistics, and do
    /// so where they train.
    pub(crate) fn changed(&self) -> straightline::Result<Vec<(String, Tensor)>> {
        let mut all = Vec::new();
        for (written, now) in self.written.iter().zip(self.written()?) {
            if !now.1.equal(&written.before)? {
                all.push(now);
            }
        }
        Ok(all)
    }
}
