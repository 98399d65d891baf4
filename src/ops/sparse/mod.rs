//! Sparse tensors: what they hold, and their kernels.
//!
//! A sparse tensor is an opaque tensor: it has sizes, a dtype and keys (`SparseCPU`,
//! `SparseCsrCPU`), and its payload is a few plain tensors. Index tensors are `i64`; every
//! constructor checks them, and the kernels that follow them check again, since an index tensor may
//! be written through another handle.
//!
//! | file | what |
//! |---|---|
//! | `coo` | coordinates: constructors, checks, accessors, coalescing |
//! | `csr` | compressed rows: constructors, checks, accessors |
//! | `convert` | dense, coordinates, compressed rows: each into each |
//! | `pointwise` | element-wise operators |
//! | `product` | matrix products, sums, transposes |
//! | `select` | one position of a dimension, new dimensions |

mod convert;
mod coo;
mod csr;
mod pointwise;
mod product;
mod sampled;
mod select;
#[cfg(test)]
mod tests;

pub(crate) use convert::*;
pub(crate) use coo::*;
pub(crate) use csr::*;
pub(crate) use pointwise::*;
pub(crate) use product::*;
pub(crate) use sampled::*;
pub(crate) use select::unbind;

use crate::dispatch::{BackendComponent, DispatchKey, DispatchKeySet};
use crate::error::{Error, Result};
use crate::ops::copy;
use crate::tensor::Tensor;
use straightline_catalog::{DType, Device, DeviceType};

/// The keys of a tensor of a functionality on a device: c10's, with autograd and autocast of the
/// backend.
pub(super) fn keys_on(functionality: DispatchKey, device: DeviceType) -> DispatchKeySet {
    let plain = DispatchKeySet::for_device(device);
    let key = functionality.on_backend(BackendComponent::of(device));
    plain.remove(DispatchKey::Dense) | DispatchKeySet::from(key)
}

/// The elements that a sparse tensor stores, as a plain tensor; none of a tensor that is not
/// sparse.
pub(crate) fn stored_values(t: &Tensor) -> Option<&Tensor> {
    let coo = t.payload::<Coo>().map(|c| &c.values);
    coo.or_else(|| t.payload::<Csr>().map(|c| &c.values))
}

/// A plain tensor as a vector of row-major `i64`.
pub(super) fn as_indices(t: &Tensor, name: &str) -> Result<Tensor> {
    ensure_dtype!(
        t.dtype().is_integral(),
        "{name} must be an int64 tensor, but got {}",
        t.dtype().torch_name()
    );
    copy::to_contiguous(&copy::to_dtype(t, DType::I64)?)
}

/// Reads row-major `i64` elements, held for the length of the call.
pub(super) fn with_indices<R>(t: &Tensor, f: impl FnOnce(&[i64]) -> Result<R>) -> Result<R> {
    f(&t.elements::<i64>()?)
}

/// `i64` data as a tensor.
pub(super) fn indices_tensor(data: &[i64], sizes: &[i64]) -> Result<Tensor> {
    Tensor::from_slice(data, sizes)
}

/// A zero-filled plain tensor.
pub(super) fn zeros_dense(dtype: DType, device: Device, sizes: &[i64]) -> Result<Tensor> {
    let t = Tensor::allocate_contiguous(dtype, device, sizes)?;
    copy::zero_(&t)
}

/// The error of an accessor that only one layout has.
#[cold]
pub(super) fn wrong_layout<T>(t: &Tensor, op: &str, expected: &str) -> Result<T> {
    let name = match t.layout() {
        straightline_catalog::Layout::Strided => "Strided",
        straightline_catalog::Layout::Sparse => "Sparse",
        straightline_catalog::Layout::SparseCsr => "SparseCsr",
        _ => "another layout",
    };
    Err(Error::runtime(format!("{op} expected {expected} tensor layout but got {name}")))
}
