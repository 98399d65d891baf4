//! Tests of the scheduler.

mod build;
mod fusion;
