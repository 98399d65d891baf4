//! Everything that touches bytes.
//!
//! Buffers and allocators, CPU kernels, the Cranelift JIT, the thread pool and the execution of a
//! plan. This crate never sees a `Tensor` or a dispatch key. It is internal to `straightline`.

pub mod cpu;
pub mod memory;
#[cfg(feature = "jit")]
pub mod plan;
pub mod rng;
pub mod stack;
