//! The guide: one page per subject, to be read in this order. Every piece of code on these pages is
//! a test.
//!
//! 1. [`tensors`]: making, reading, indexing and computing with them.
//! 2. [`dispatcher`]: how a call finds its kernel, and how to watch and change that.
#![cfg_attr(
    feature = "compile",
    doc = "3. [`compile`]: capturing a function once and running it as machine code.",
    doc = "4. [`training`]: compiled steps, and compiled functions on the tape.",
    doc = "5. [`custom_op`]: adding an operator of your own, eager and compiled."
)]
//! 6. [`backend`]: adding a device from outside the crate.
//! 7. [`gradients`]: gradients of what tensors compute.

pub mod backend;
#[cfg(feature = "compile")]
pub mod compile;
#[cfg(feature = "compile")]
pub mod custom_op;
pub mod dispatcher;
pub mod gradients;
pub mod tensors;
#[cfg(feature = "compile")]
pub mod training;
