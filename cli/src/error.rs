//! What a command can fail with.

use crate::model::InputError;
use thiserror::Error;

/// The message is what the user reads after `error:`.
#[derive(Debug, Error)]
pub(crate) enum CliError {
    #[error("{}", plain(.0))]
    Library(#[from] straightline::Error),
    /// Inputs of a model file.
    #[error(transparent)]
    Input(#[from] InputError),
    /// Writing to standard output failed; a closed pipe is not a failure (see
    /// [`CliError::is_closed_pipe`]).
    #[error("cannot write the output: {0}")]
    Output(#[from] std::io::Error),
    #[error(
        "no workload matches `{pattern}`, and there is no model file of that name; the workloads are:\n{known}"
    )]
    UnknownWorkload { pattern: String, known: String },
    #[error(
        "`{pattern}` stands for {count} workloads, and this command takes one of them:\n{matches}"
    )]
    AmbiguousWorkload { pattern: String, count: usize, matches: String },
    /// The workload exists and cannot run here.
    #[error("{workload} cannot run: {reason}")]
    Unavailable { workload: String, reason: String },
    #[error("{path}: {message}")]
    File { path: String, message: String },
    #[error("stage `{stage}` has no {format} form: it can be printed as {available}")]
    NoSuchFormat { stage: String, format: String, available: String },
    #[error("{0}")]
    Usage(String),
    #[error("the compiled result of {0}")]
    Mismatch(String),
    #[error("{failed} of {total} workloads failed: {names}")]
    Failed { failed: usize, total: usize, names: String },
}

impl CliError {
    /// Whether the reader of our output has closed the pipe (`| head`).
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, CliError::Output(e) if e.kind() == std::io::ErrorKind::BrokenPipe)
    }
}

/// The message of an error of the library without the line of this program that made the call, which is
/// of no use to who runs it.
pub(crate) fn plain(e: &straightline::Error) -> String {
    let text = e.to_string();
    let Some(at) = e.location() else { return text };
    let suffix = format!(" (called at {}:{}:{})", at.file(), at.line(), at.column());
    text.strip_suffix(&suffix).unwrap_or(&text).to_owned()
}

pub(crate) type Result<T, E = CliError> = std::result::Result<T, E>;
