//! The guide: one page per subject, to be read in this order. Every piece of code on these pages is
//! a test.
//!
//! 1. [`tensors`]: making, reading, indexing and computing with them.
//! 2. [`dispatcher`]: how a call finds its kernel, and how to watch and change that.
//! 3. [`gradients`]: gradients of what tensors compute.
//! 4. [`transforms`]: gradients and batches of functions.
#![cfg_attr(
    feature = "compile",
    doc = "5. [`compile`]: capturing a function once and running it as machine code.",
    doc = "6. [`control_flow`]: branches and loops on data that a compiled function keeps.",
    doc = "7. [`training`]: compiled steps, and compiled functions on the tape.",
    doc = "8. [`custom_op`]: adding an operator of your own, eager and compiled."
)]
//! 9. [`backend`]: adding a device from outside the crate.
#![cfg_attr(
    feature = "cuda",
    doc = "10. [`gpu`]: NVIDIA's GPUs: what they need, streams, compiled functions."
)]
#![cfg_attr(
    feature = "compile",
    doc = "11. [`models`]: models that PyTorch has exported, and memory of other libraries.",
    doc = "12. [`from_pytorch`]: what PyTorch's names are called here."
)]
//!
//! Beside these, [`files`]: weights from files of PyTorch and safetensors.

pub mod backend;
#[cfg(feature = "compile")]
pub mod compile;
#[cfg(feature = "compile")]
pub mod control_flow;
#[cfg(feature = "compile")]
pub mod custom_op;
pub mod dispatcher;
pub mod files;
#[cfg(feature = "compile")]
pub mod from_pytorch;
#[cfg(feature = "cuda")]
pub mod gpu;
pub mod gradients;
#[cfg(feature = "compile")]
pub mod models;
pub mod tensors;
#[cfg(feature = "compile")]
pub mod training;
pub mod transforms;
