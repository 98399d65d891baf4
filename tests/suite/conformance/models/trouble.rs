//! What is wrong with a recorded model, or with what came of it.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{}: no JSON: {source}", path.display())]
    Json { path: PathBuf, source: serde_json::Error },
    #[error("{}: {source}", path.display())]
    Tensors { path: PathBuf, source: straightline::Error },
    #[error("{}: there are no recorded models", .0.display())]
    Empty(PathBuf),
    #[error("`{0}` is missing")]
    Missing(String),
    #[error("{at}: {what}")]
    Malformed { at: String, what: String },
    #[error("the optimiser is {0}, which is not followed: it has to be AdamW")]
    Optimizer(String),
    #[error("no graph has the loss: there is neither `train` nor `joint`")]
    NoLoss,
    #[error("{at}: {what}")]
    Differs { at: String, what: String },
    #[error("not compiled: {0}")]
    Eagerly(String),
    #[error("{at}: {source}")]
    Node { at: String, source: straightline::Error },
    #[error("{0}")]
    Call(#[from] straightline::Error),
}
