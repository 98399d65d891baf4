//! The graph, over the vocabulary of `straightline-catalog`.

pub mod effects;
pub mod graph;
pub mod text;
pub mod verify;

pub use straightline_catalog::*;
