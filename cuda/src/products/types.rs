//! Products as they are asked for.

use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::Activation;

/// A batch of matrices on a device: the distances, in elements, from one to the next, from row to row,
/// and from column to column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Matrices {
    /// The first element.
    pub address: u64,
    /// Distances.
    pub strides: [i64; 3],
}

/// A row of elements on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vector {
    /// The first element.
    pub address: u64,
    /// The distance, in elements, from one to the next.
    pub stride: i64,
}

/// What is done to each element of a product: `activation(c + bias) + residual`, each rounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Epilogue {
    /// Added per column.
    pub bias: Option<Vector>,
    /// Applied after the bias.
    pub activation: Activation,
    /// Added last. It may be the result itself.
    pub residual: Option<Matrices>,
}

/// A batch of products `c = a b`, of `m` x `k` by `k` x `n` matrices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Product {
    /// Of all operands.
    pub dtype: DType,
    /// How many.
    pub batch: i64,
    /// Rows of `a`, columns of `b`, columns of `a`.
    pub sizes: [i64; 3],
    /// The left factors.
    pub a: Matrices,
    /// The right factors.
    pub b: Matrices,
    /// The results.
    pub c: Matrices,
    /// What follows.
    pub then: Epilogue,
}

/// What cuBLASLt may do that it does not do by default.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Options {
    /// Factors of `f32` are rounded to TF32, ten bits, for tensor cores.
    pub tf32: bool,
    /// ReLU by cuBLASLt's epilogue, which does not promise that NaN stays NaN.
    pub relu: bool,
}

/// Memory of the device that a product uses while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Workspace {
    /// A multiple of 256.
    pub address: u64,
    /// How much.
    pub bytes: usize,
}
