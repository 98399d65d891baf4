//! Tests of the scheduler.

mod build;
mod eval;
mod fusion;
mod interp;
mod models;
mod random;
mod rules;
