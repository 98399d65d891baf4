//! NVIDIA GPUs: libraries that are found at run time, programs that NVRTC compiles, CUDA C from the
//! scheduler's loops.
//!
//! Internal to `straightline`. Nothing of CUDA is needed to build it or to link it; on a machine without
//! a driver [`availability`] has a reason, and nothing panics.

pub mod allocator;
pub mod attention;
pub mod bags;
mod blaslt;
pub mod compact;
pub mod convolution;
pub mod copies;
pub mod distance;
pub mod driver;
mod elements;
pub mod emit;
pub mod factors;
pub mod fourier;
mod goldens;
pub mod grid;
mod loader;
pub mod nccl;
pub mod nvrtc;
pub mod products;
pub mod programs;
pub mod random;
pub mod scan;
pub mod segments;
pub mod sort;
pub mod spatial;
pub mod special;
#[cfg(test)]
mod testing;
pub mod tune;

pub use blaslt::BlasError;
pub use loader::{Availability, Found, availability};
