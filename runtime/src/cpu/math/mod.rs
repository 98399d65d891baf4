//! Vector math functions, each defined once.
//!
//! [`prims`] has the primitives; a function is a builder over them ([`functions`]). [`scalar`] runs a builder on one lane.

pub mod functions;
pub mod prims;
pub mod scalar;

pub use functions::{Fn1, Fn2};
pub use prims::{Prims, ScalarFn1, ScalarFn2, Width};
pub use scalar::{Scalar32, Scalar64};
