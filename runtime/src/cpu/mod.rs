//! The CPU: kernels, math functions, code generation, threads.

pub mod jit;
pub mod kernels;
pub mod math;
pub mod threads;
