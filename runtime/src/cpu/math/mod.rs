//! Vector math functions, each defined once.
//!
//! [`prims`] has the primitives; a function is a builder over them ([`functions`]). [`scalar`] runs
//! a builder on one lane, [`simd`] on the vectors of the machine, and a code generator records it.
//! All give the same bits.

pub mod functions;
pub mod prims;
pub mod scalar;
pub mod simd;
pub mod special;

pub use functions::{Fn1, Fn2};
pub use prims::{Prims, ScalarFn1, ScalarFn2, Width};
pub use scalar::{Scalar32, Scalar64};
pub use simd::{Isa, Lane, Simd, SimdTask, isa};
