//! The workloads' data: every number follows from a name, so that nothing is read from disk and
//! any program that knows the rule computes with the same values.
//!
//! `u(name, i)` for i = 1, 2, ... is SplitMix64 started at the FNV-1a hash of the name; the upper
//! 24 bits of each output make a number in [0, 1) that is exact in `f32`.

use super::numbers::{floats, indices};
use straightline::{Result, Tensor};

fn count(sizes: &[i64]) -> usize {
    sizes.iter().product::<i64>() as usize
}

/// `offset + scale * (2u - 1)` in `f32`, row-major.
pub(crate) fn uniform(name: &str, sizes: &[i64], scale: f64, offset: f64) -> Result<Tensor> {
    Tensor::from_slice(&floats(name, count(sizes), scale, offset), sizes)
}

/// Integers in `low..high`.
pub(crate) fn ids(name: &str, sizes: &[i64], low: i64, high: i64) -> Result<Tensor> {
    Tensor::from_slice(&indices(name, count(sizes), low, high), sizes)
}
