//! The integration tests, as one binary: each module is a file of tests, and one that is linked
//! by itself would cost a copy of the library.
//!
//! Tests that register kernels for operators of ours are in `tests/registrations`, models of the
//! lock-free parts in `tests/loom.rs`. `cargo test --test suite hostile` runs one module.

#![allow(
    clippy::approx_constant,
    clippy::clone_on_copy,
    clippy::cloned_ref_to_slice_refs,
    clippy::explicit_auto_deref,
    clippy::manual_is_multiple_of,
    clippy::type_complexity,
    clippy::unnecessary_to_owned,
    reason = "tests write operands and tables out"
)]

mod autograd;
mod checks_on_data;
mod compile;
mod compiled_training;
mod complex;
mod conformance;
mod control_flow;
mod default_dtype;
mod dependent;
mod dispatch_keys;
mod dispatch_tables;
mod effects;
mod errors;
mod fake;
mod functionalize;
mod fused_gathers;
mod fused_reductions;
mod fused_scatters;
mod graph_texts;
mod half;
mod hostile;
mod int_products;
mod kinds;
mod kinds_compiled;
mod lazy_bits;
mod margins;
mod natural;
mod nets;
mod numbers_in_place;
mod places;
mod products;
mod programs;
mod pt2;
mod random_stream;
mod shape_inplace;
mod sizes;
mod support;
mod threads;
mod training;
mod transformed_writes;
mod transforms;
mod updates;
mod values;
mod whole_calls;
