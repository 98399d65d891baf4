//! The integration tests, as one binary: each module is a file of tests, and one that is linked
//! by itself would cost a copy of the library.
//!
//! Tests that register kernels for operators of ours are in `tests/registrations`, models of the
//! lock-free parts in `tests/loom.rs`. `cargo test --test suite hostile` runs one module.

mod checks_on_data;
mod compile;
mod complex;
mod conformance;
mod dispatch_keys;
mod dispatch_tables;
mod effects;
mod functionalize;
mod fused_gathers;
mod fused_scatters;
mod hostile;
mod kinds;
mod margins;
mod minilm;
mod natural;
mod programs;
mod random_stream;
mod shape_inplace;
mod support;
mod threads;
mod values;
