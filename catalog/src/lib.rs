//! What operators are, without data: every operator is declared once, in the files of `ops/`, and
//! everything above asks here.
//!
//! [`Op`] names an operator, [`OpInfo`] has what is known of it; an operator from outside
//! ([`Op::define`]) has the same. The crate knows neither graphs nor memory. It is internal to
//! `straightline`, which re-exports what users need.
#![forbid(unsafe_code)]

pub mod args;
pub mod arguments;
pub mod composite;
pub mod entry;
pub mod meta;
pub mod op;
pub mod prims;
pub mod rules;
mod similar;
mod tolerance;
pub mod view;

pub use arguments::ArgumentError;
pub use meta::MetaError;
pub use op::{Facts, Op, OpInfo, Outside, listed_in_modes, modes_of};
pub use rules::{Kind, Tolerance};
pub use similar::similar_operators;
pub use straightline_words::*;
