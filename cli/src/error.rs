//! What a command can fail with.

use thiserror::Error;

/// The message is what the user reads after `error:`.
#[derive(Debug, Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Library(#[from] straightline::Error),
    /// Writing to standard output failed; a closed pipe is not a failure (see
    /// [`CliError::is_closed_pipe`]).
    #[error("cannot write the output: {0}")]
    Output(#[from] std::io::Error),
    #[error("no workload matches `{pattern}`; the workloads are:\n{known}")]
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

pub(crate) type Result<T, E = CliError> = std::result::Result<T, E>;
