//! Tests of the scheduler.

mod build;
mod called;
mod checks;
mod convolutions;
mod draws;
mod eval;
mod fusion;
mod gpu;
mod interp;
mod models;
mod random;
mod rules;
mod scatters;
