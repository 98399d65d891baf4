//! Matrix products with what follows them: by cuBLASLt where it is there and has the layout, else by a
//! kernel of our own.
//!
//! cuBLASLt is asked for what it promises to the bit of a dtype's own precision: `f32` is not rounded to
//! TF32, and what it does not say of an epilogue (whether its ReLU keeps NaN) is left to a kernel of our
//! own, unless [`Options`] allow it.
//!
//! Queueing neither allocates nor waits: [`workspace_bytes`] says what cuBLASLt's algorithm wants, and
//! prepares all that a first call needs; the caller has the memory. So a product may be captured in a
//! graph.

mod tiles;

use crate::blaslt::{self, BlasError};
use crate::driver::{Device, DriverError, Stream};
use crate::emit::Numeric;
use crate::programs::ProgramError;
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

/// Why a product is not queued.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProductError {
    /// Of a dtype that has none.
    #[error("products of {dtype} are not computed on GPUs")]
    DType {
        /// Which.
        dtype: DType,
    },
    /// Sizes below 0, or more elements than numbers of 64 bits count.
    #[error("a batch of {batch} products of sizes {sizes:?}")]
    Sizes {
        /// How many.
        batch: i64,
        /// Rows, columns, inner.
        sizes: [i64; 3],
    },
    /// The kernel of our own.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// cuBLASLt.
    #[error(transparent)]
    Blas(#[from] BlasError),
}

impl From<DriverError> for ProductError {
    fn from(e: DriverError) -> ProductError {
        ProgramError::from(e).into()
    }
}

/// Whether products of a dtype are computed here.
///
/// ```
/// use straightline_cuda::products::computes;
/// use straightline_passes::ir::DType;
/// assert!(computes(DType::BF16) && !computes(DType::Bool));
/// ```
pub fn computes(dtype: DType) -> bool {
    Numeric::of(dtype).is_some()
}

impl Product {
    /// The number of results.
    fn check(&self) -> Result<i64, ProductError> {
        if !computes(self.dtype) {
            return Err(ProductError::DType { dtype: self.dtype });
        }
        let [m, n, k] = self.sizes;
        let fits = [self.batch, m, n, k].iter().all(|s| *s >= 0);
        let count = self.batch.checked_mul(m).and_then(|c| c.checked_mul(n));
        let refused = ProductError::Sizes { batch: self.batch, sizes: self.sizes };
        count.filter(|_| fits).ok_or(refused)
    }
}

/// The workspace that [`product`] wants for products like this one (of the same sizes, strides and
/// alignment): 0 where cuBLASLt does not compute them.
///
/// # Errors
///
/// [`ProductError`].
pub fn workspace_bytes(
    device: &'static Device,
    p: &Product,
    options: Options,
) -> Result<usize, ProductError> {
    if p.check()? == 0 {
        return Ok(0);
    }
    Ok(blaslt::plan(device, p, options)?.map_or(0, |plan| plan.workspace_bytes()))
}

/// Queues products. With less workspace than [`workspace_bytes`] says, they are computed by the kernel
/// of our own.
///
/// # Safety
///
/// The matrices and the workspace are memory of the stream's device until it has come so far. Nothing
/// overlaps the results, but that a residual may be the results themselves.
///
/// # Errors
///
/// [`ProductError`].
pub unsafe fn product(
    stream: &Stream,
    p: &Product,
    options: Options,
    workspace: Workspace,
) -> Result<(), ProductError> {
    if p.check()? == 0 {
        return Ok(());
    }
    // what is added last must not have been written over before
    let kept = |rest: Epilogue| rest.residual.is_none_or(|r| r.address != p.c.address);
    let plan = blaslt::plan(stream.device(), p, options)?
        .filter(|plan| plan.workspace_bytes() <= workspace.bytes && kept(plan.rest(p.then)));
    let Some(plan) = plan else {
        // SAFETY: the caller's contract.
        return unsafe { tiles::product(stream, p) };
    };
    // SAFETY: the caller's contract; the plan is of this product.
    unsafe { plan.queue(stream, p, workspace)? };
    let rest = plan.rest(p.then);
    if rest != Epilogue::default() {
        // SAFETY: as above.
        unsafe { tiles::follow(stream, &Product { then: rest, ..*p })? };
    }
    Ok(())
}

#[cfg(test)]
mod tests;
