//! Integration tests that register kernels for operators of ours, or backends: they would change
//! what the tests of `tests/suite` see in the same process.

mod backends;
mod compiled;
mod seeds;
mod structured;
mod sweep;
