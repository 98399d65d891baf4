//! Kernels that NVRTC compiled, against references in double precision, and faults that are injected.
//! The CUDA sources and their PTX are in `tests/kernels`.

mod control;
mod convert;
mod coverage;
mod device;
mod faults;
mod gemm;
mod math;
mod parallel;
mod parser;
mod pointwise;
mod rows;
