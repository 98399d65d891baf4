//! What is known about a program without running it.
//!
//! The graph IR, rewrites, fusion and memory planning. This crate never
//! allocates tensor memory and contains no `unsafe`. It is internal to `straightline`, which
//! re-exports what users need.
#![forbid(unsafe_code)]

pub mod compose;
pub mod formula;
pub mod ir;
pub mod partition;
pub mod positions;
#[cfg(feature = "rewrite")]
pub mod rewrite;
pub mod schedule;
