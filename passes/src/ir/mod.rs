//! The graph IR, built on the types of `straightline-catalog`.

pub mod control;
pub mod graph;
pub mod text;
pub mod verify;

pub use straightline_catalog::*;
