//! Tests of the scheduler.

mod build;
mod eval;
mod fusion;
mod interp;
mod random;
