//! The CPU: kernels, math functions, code generation, threads.

#[cfg(feature = "jit")]
pub mod jit;
pub mod kernels;
pub mod math;
pub mod threads;
