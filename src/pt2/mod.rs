//! Exported programs: the `.pt2` archives that `torch.export.save` writes.
//!
//! ```no_run
//! use straightline::{pt2, tensor};
//! let program = pt2::load("model.pt2")?;
//! let y = program.run([&tensor([[1.0, 2.0]])?])?;
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! An archive has the graph of a model, its weights and what it promises about sizes. Neither PyTorch
//! nor Python is needed to run it. **Weights stay in the file**: it is mapped into memory and read
//! where it lies, so that loading takes no copy; what the program itself writes (running statistics,
//! a cache) is copied. The file must not change while the program lives.
//!
//! Read: programs as `torch.export.export` gives them (`TRAINING` IR, with composite and in-place
//! operators) and after `run_decompositions()`, of schema 8 (PyTorch 2.8 and later); sizes that are
//! symbols; nested arguments, as one list of leaves; buffers and inputs that are written; constants;
//! the calls of higher order `cond`, `while_loop`, `map`, `scan`, `invoke_subgraph`,
//! `wrap_with_set_grad_enabled`, `wrap_with_autocast`. Everything else is a typed error that names
//! the entry, the node and the reason ([`ProgramError`]).
//!
//! | file | what |
//! |---|---|
//! | `schema` | what the JSON of an archive holds |
//! | `json` | an entry that is JSON |
//! | `codes` | the format's numbers for dtypes and the like |
//! | `expressions` | sizes written as sympy writes them |
//! | `graph` | the format's graph as a program's |
//! | `weights` | weights in place |
//! | `load` | all of it |

mod codes;
mod expressions;
mod graph;
mod json;
mod load;
mod schema;
mod weights;

use crate::error::Result;
use crate::program::Program;
#[cfg(doc)]
use crate::program::ProgramError;
pub use load::Options;
use std::path::Path;

/// Opens an archive and reads the program in it.
///
/// # Errors
/// [`ErrorKind::Program`](crate::ErrorKind::Program) for a description that makes no sense or asks for
/// what this crate does not have, and errors of the archive: no such file, damaged, of another kind.
///
/// ```no_run
/// let program = straightline::pt2::load("model.pt2")?;
/// println!("{program}");
/// # Ok::<(), straightline::Error>(())
/// ```
#[track_caller]
pub fn load(path: impl AsRef<Path>) -> Result<Program> {
    load_with(path, &Options::default())
}

/// [`load`] with options: which of several programs of an archive.
///
/// # Errors
/// As [`load`].
#[track_caller]
pub fn load_with(path: impl AsRef<Path>, options: &Options) -> Result<Program> {
    let at = std::panic::Location::caller();
    load::load(path.as_ref(), options).map_err(|e| e.with_location(at))
}
