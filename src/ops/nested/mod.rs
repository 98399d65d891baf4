//! Nested tensors (strided): a batch of tensors of different sizes, and their kernels.
//!
//! A nested tensor is an opaque tensor with the key `NestedTensorCPU`; its payload is the component
//! tensors. Those that are made from a list lie in one buffer, one after another, as PyTorch's do.
//! It shows the sizes that all components share; a dimension in which they differ is -1.
//!
//! c10 lets `CompositeImplicitAutograd` kernels reach nested tensors, and
//! `CompositeExplicitAutograd` kernels not: those would treat the shape as regular.

mod pointwise;
mod product;
#[cfg(test)]
mod tests;

pub(crate) use pointwise::*;
pub(crate) use product::*;

use crate::dispatch::DispatchKey;
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common;
use crate::ops::copy;
use crate::ops::sparse::{indices_tensor, keys_on};
use crate::ops::view;
use crate::tensor::Tensor;
use straightline_catalog::{DType, Device, Dims, Layout, MemoryFormat, default_dtype};

/// The payload of a nested tensor.
pub(crate) struct Nested {
    /// Plain tensors of one rank, dtype and device.
    components: Vec<Tensor>,
}

impl Nested {
    /// The tensors of the batch.
    pub(crate) fn components(&self) -> &[Tensor] {
        &self.components
    }

    /// Of plain tensors of one rank, dtype and device.
    pub(crate) fn of_components(components: Vec<Tensor>) -> Nested {
        Nested { components }
    }
}

/// The sizes that all components fit in; `None` without components.
pub(crate) fn padded_sizes(t: &Tensor) -> Result<Option<Vec<i64>>> {
    let parts = components(t)?;
    let mut sizes = vec![parts.len() as i64];
    sizes.extend(largest(parts));
    Ok((!parts.is_empty()).then_some(sizes))
}

/// The components of a nested tensor.
pub(crate) fn components(t: &Tensor) -> Result<&[Tensor]> {
    match t.payload::<Nested>() {
        Some(n) => Ok(&n.components),
        None => Err(Error::runtime("expected a nested tensor: make it with `Tensor::nested`")),
    }
}

/// The sizes that a batch shows: -1 where the components differ.
fn shared_sizes(components: &[Tensor]) -> Dims {
    let mut sizes = Dims::from_slice(&[components.len() as i64]);
    if let Some((first, rest)) = components.split_first() {
        for (d, size) in first.sizes().iter().enumerate() {
            let regular = rest.iter().all(|t| t.sizes()[d] == *size);
            sizes.push(if regular { *size } else { -1 });
        }
    }
    sizes
}

/// A nested tensor around components of one rank, dtype and device.
pub(super) fn build(components: Vec<Tensor>, dtype: DType, device: Device) -> Tensor {
    let sizes = shared_sizes(&components);
    let keys =
        keys_on(DispatchKey::NestedTensor, device.kind).add(DispatchKey::AutogradNestedTensor);
    let numel = components.iter().map(Tensor::numel).sum();
    Tensor::irregular(&sizes, numel, dtype, device, keys, Nested { components })
}

/// The same for each component.
pub(super) fn map(t: &Tensor, f: impl FnMut(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let made: Vec<Tensor> = components(t)?.iter().map(f).collect::<Result<_>>()?;
    let dtype = made.first().map_or(t.dtype(), Tensor::dtype);
    Ok(build(made, dtype, t.device()))
}

/// Copies of tensors, one after another in one buffer.
fn packed(list: &[Tensor], dtype: DType, device: Device) -> Result<Vec<Tensor>> {
    let total = list.iter().map(Tensor::numel).sum();
    let buffer = Tensor::allocate_contiguous(dtype, device, &[total])?;
    let mut at = 0;
    list.iter()
        .map(|t| {
            let strides = straightline_catalog::layout::contiguous_strides(t.sizes());
            let part = buffer.with_geometry(Dims::from_slice(t.sizes()), strides, at);
            at += t.numel();
            copy::copy_(&part, t, false)?;
            Ok(part)
        })
        .collect()
}

pub(crate) fn from_list(
    list: &[Tensor],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    if let Some(other) = layout.filter(|l| *l != Layout::Strided) {
        return Err(Error::not_implemented(format!(
            "nested tensors have the layout torch.strided here, and not {other}"
        )));
    }
    let first = list.first();
    for (i, t) in list.iter().enumerate() {
        let rank = list[0].dim();
        ensure!(
            t.dim() == rank,
            "All Tensors given to nested_tensor must have the same dimension. Found dimension {} for Tensor at index \
                 {i} and dimension {rank} for Tensor at index 0.",
            t.dim()
        );
        if t.kind_without_memory().is_some() {
            return Err(t.no_memory_error("_nested_tensor_from_tensor_list"));
        }
    }
    let dtype = dtype.or(first.map(Tensor::dtype)).unwrap_or_else(default_dtype);
    let device = device.or(first.map(Tensor::device)).unwrap_or(Device::CPU);
    Ok(build(packed(list, dtype, device)?, dtype, device))
}

/// The largest size of each dimension of the components.
fn largest(components: &[Tensor]) -> Vec<i64> {
    let rank = components.first().map_or(0, Tensor::dim);
    let of = |d: usize| components.iter().map(|t| t.sizes()[d]).max().unwrap_or(0);
    (0..rank).map(of).collect()
}

pub(crate) fn to_padded(t: &Tensor, padding: f64, output_size: Option<&[i64]>) -> Result<Tensor> {
    let parts = components(t)?;
    let mut least = vec![parts.len() as i64];
    least.extend(largest(parts));
    let sizes = output_size.unwrap_or(&least);
    ensure!(
        sizes.len() == least.len(),
        "Length of output_size does not match NestedTensor dims. Broadcasting is not supported. Got {sizes:?} for {} dimensions",
        least.len()
    );
    ensure!(
        sizes.iter().zip(&least).all(|(s, l)| s >= l),
        "Value in output_size is less than NestedTensor padded size. Truncation is not supported."
    );
    let out = Tensor::allocate_contiguous(t.dtype(), t.device(), sizes)?;
    copy::fill_(&out, padding.into())?;
    for (i, part) in parts.iter().enumerate() {
        let mut place = view::select(&out, 0, i as i64)?;
        for (d, size) in part.sizes().iter().enumerate() {
            place = view::slice(&place, d as i64, Some(0), Some(*size), 1)?;
        }
        copy::copy_(&place, part, false)?;
    }
    Ok(out)
}

pub(crate) fn to_padded_composite(
    t: &Tensor,
    padding: f64,
    output_size: Option<&[i64]>,
) -> Result<Tensor> {
    aten::to_padded_tensor(t, padding, output_size)
}

/// A row of numbers for each component.
fn table<'a>(t: &'a Tensor, of: impl Fn(&'a Tensor) -> &'a [i64]) -> Result<Tensor> {
    let parts = components(t)?;
    let data: Vec<i64> = parts.iter().flat_map(of).copied().collect();
    let rank = parts.first().map_or(0, Tensor::dim) as i64;
    indices_tensor(&data, &[parts.len() as i64, rank])
}

pub(crate) fn sizes_tensor(t: &Tensor) -> Result<Tensor> {
    table(t, Tensor::sizes)
}

pub(crate) fn strides_tensor(t: &Tensor) -> Result<Tensor> {
    table(t, Tensor::strides)
}

pub(crate) fn offsets_tensor(t: &Tensor) -> Result<Tensor> {
    let parts = components(t)?;
    let data: Vec<i64> = parts.iter().map(Tensor::storage_offset).collect();
    indices_tensor(&data, &[parts.len() as i64])
}

/// All elements, one component after the other.
pub(crate) fn values(t: &Tensor) -> Result<Tensor> {
    let parts = components(t)?;
    let flat: Vec<Tensor> =
        parts.iter().map(|p| view::view(&copy::to_contiguous(p)?, &[-1])).collect::<Result<_>>()?;
    if flat.is_empty() {
        return Tensor::allocate_contiguous(t.dtype(), t.device(), &[0]);
    }
    copy::cat(&flat, 0)
}

pub(crate) fn unbind(t: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
    let dim = common::wrap_dim(dim, t.dim())?;
    ensure!(
        dim == 0,
        "NestedTensor can only be unbound along dimension 0 got dimension {dim} instead."
    );
    Ok(components(t)?.to_vec())
}

pub(crate) fn select(t: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    let dim = common::wrap_dim(dim, t.dim())?;
    let parts = components(t)?;
    if dim != 0 {
        return map(t, |p| view::select(p, dim as i64 - 1, index));
    }
    let n = parts.len() as i64;
    let at = if index < 0 { index + n } else { index };
    match usize::try_from(at).ok().and_then(|i| parts.get(i)) {
        Some(part) => Ok(part.clone()),
        None => Err(Error::index(format!(
            "index {index} is out of bounds for dimension 0 with size {n}"
        ))),
    }
}

pub(crate) fn clone(t: &Tensor, _format: Option<MemoryFormat>) -> Result<Tensor> {
    Ok(build(packed(components(t)?, t.dtype(), t.device())?, t.dtype(), t.device()))
}

pub(crate) fn same(t: &Tensor) -> Result<Tensor> {
    Ok(t.clone())
}

pub(crate) fn to_copy(
    t: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    _non_blocking: bool,
    _format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let dtype = dtype.or(Some(t.dtype()));
    from_list(components(t)?, dtype, layout, device, pin_memory)
}

/// The components as they print.
pub(crate) fn texts(t: &Tensor) -> Option<Vec<String>> {
    Some(components(t).ok()?.iter().map(Tensor::to_string).collect())
}
