//! Raw strided kernels, used by eager operators and by plans.

pub mod matmul;
