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

mod error;
mod tiles;
mod types;

pub use error::ProductError;
pub use types::{Epilogue, Matrices, Options, Product, Vector, Workspace};

use crate::blaslt;
use crate::driver::{Device, Stream};
use crate::emit::Numeric;
use straightline_passes::ir::DType;

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

/// The number of results.
fn check(p: &Product) -> Result<i64, ProductError> {
    if !computes(p.dtype) {
        return Err(ProductError::DType { dtype: p.dtype });
    }
    let [m, n, k] = p.sizes;
    let fits = [p.batch, m, n, k].iter().all(|s| *s >= 0);
    let count = p.batch.checked_mul(m).and_then(|c| c.checked_mul(n));
    let refused = ProductError::Sizes { batch: p.batch, sizes: p.sizes };
    count.filter(|_| fits).ok_or(refused)
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
    if check(p)? == 0 {
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
    if check(p)? == 0 {
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
