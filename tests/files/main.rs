//! Files of weights: those that PyTorch wrote, with what it says is in them, and the same ones damaged.
//!
//! A binary of its own, because it counts what is allocated.

mod counting;
mod hostile;
#[path = "../../src/files/made.rs"]
mod made;
mod recorded;

use std::path::PathBuf;

/// The files that `tests/data/checkpoints.py` wrote.
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/checkpoints")
}
