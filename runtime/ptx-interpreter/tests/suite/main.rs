//! Kernels that NVRTC compiled, against references in double precision, and faults that are injected.
//! The CUDA sources and their PTX are in `tests/kernels`.

mod device;
mod rows;
