//! The commands that show what happens inside.

mod coverage;
pub(crate) mod dump;
pub(crate) mod explain;
mod export;
pub(crate) mod ops;
pub(crate) mod profile;
pub(crate) mod run;
pub(crate) mod trace;
