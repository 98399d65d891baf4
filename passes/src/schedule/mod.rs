//! From a rewritten graph to kernels, extern calls and a buffer plan.

pub mod loops;
