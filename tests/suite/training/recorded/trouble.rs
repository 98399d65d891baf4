//! What is wrong with a run, or with how it was followed.

use std::path::PathBuf;

/// Why a run was not followed to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{}: no JSON: {source}", path.display())]
    Json { path: PathBuf, source: serde_json::Error },
    #[error("{}: {source}", path.display())]
    Tensors { path: PathBuf, source: straightline::Error },
    #[error("{}: there are no recorded runs", .0.display())]
    Empty(PathBuf),
    #[error("no run is called `{name}`: they are {known}")]
    Unknown { name: String, known: String },
    #[error("`{0}` is missing")]
    Missing(String),
    #[error("`{key}` is {found}, which is not {wanted}")]
    Malformed { key: String, found: String, wanted: &'static str },
    #[error("the description says {0}")]
    Description(String),
    #[error("the optimiser's settings: {0}")]
    Settings(String),
    #[error("{at}: {found}, PyTorch has {expected}: off by {off:e}, allowed {allowed:e}")]
    Differs { at: String, found: f64, expected: f64, off: f64, allowed: f64 },
    #[error("{0}")]
    Shape(String),
    #[error("not compiled: {0}")]
    Eagerly(String),
    #[error("{0}")]
    Call(#[from] straightline::Error),
}

impl Trouble {
    pub(crate) fn malformed(
        key: impl Into<String>,
        found: &serde_json::Value,
        wanted: &'static str,
    ) -> Trouble {
        let found = found.to_string().chars().take(80).collect();
        Trouble::Malformed { key: key.into(), found, wanted }
    }
}
