//! Coordinates: constructors, checks, accessors, coalescing.

use super::{as_indices, indices_tensor, keys_on, with_indices, wrong_layout, zeros_dense};
use crate::dispatch::DispatchKey;
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::check_sizes;
use crate::ops::copy;
use crate::ops::view;
use crate::tensor::{Tensor, launch};
use std::sync::atomic::{AtomicBool, Ordering};
use straightline_catalog::{DType, Device, Dims, Layout, MemoryFormat, default_dtype};
use straightline_runtime::cpu::kernels::sparse;

/// The payload of a tensor in coordinate form.
pub(crate) struct Coo {
    /// `[sparse_dim, nnz]`, `i64`, row-major.
    pub(super) indices: Tensor,
    /// `[nnz, dense sizes ...]`, row-major.
    pub(super) values: Tensor,
    /// Whether the coordinates are sorted and different.
    coalesced: AtomicBool,
}

impl Coo {
    /// Indices and values.
    pub(crate) fn parts(&self) -> [&Tensor; 2] {
        [&self.indices, &self.values]
    }

    /// The same with other indices and values of these shapes.
    pub(crate) fn with_parts(&self, [indices, values]: [Tensor; 2]) -> Coo {
        Coo { indices, values, coalesced: AtomicBool::new(self.is_coalesced()) }
    }

    pub(super) fn nnz(&self) -> i64 {
        self.indices.sizes()[1]
    }

    pub(super) fn sparse_dim(&self) -> usize {
        self.indices.sizes()[0] as usize
    }

    pub(crate) fn is_coalesced(&self) -> bool {
        self.coalesced.load(Ordering::Relaxed)
    }

    /// Elements of one value.
    pub(super) fn width(&self) -> usize {
        self.values.sizes()[1..].iter().product::<i64>() as usize
    }
}

/// What a tensor in coordinate form holds.
pub(crate) fn coo(t: &Tensor) -> Result<&Coo> {
    match t.payload::<Coo>() {
        Some(c) => Ok(c),
        None => wrong_layout(t, "this operator", "sparse coordinate"),
    }
}

/// Builds the tensor; the parts fit together, as the callers have checked or seen to.
pub(super) fn build(
    indices: Tensor,
    values: Tensor,
    sizes: &[i64],
    coalesced: bool,
) -> Result<Tensor> {
    debug_assert_eq!(indices.sizes()[1], values.sizes()[0]);
    debug_assert_eq!(indices.sizes()[0] as usize + values.dim() - 1, sizes.len());
    let (dtype, device) = (values.dtype(), values.device());
    let values = copy::to_contiguous(&values)?;
    let payload = Coo { indices, values, coalesced: AtomicBool::new(coalesced) };
    Tensor::opaque(payload, sizes, dtype, device)
        // as PyTorch: no strides, and so never taken for row-major
        .strides(&vec![0; sizes.len()])
        .keys(keys_on(DispatchKey::Sparse, device.kind))
        .build()
}

/// Whether coordinates are sorted and different.
fn in_order(indices: &[i64], sizes: &[i64], nnz: usize) -> bool {
    let linear = sparse::linear(indices, sizes, nnz);
    linear.windows(2).all(|w| w[0] < w[1])
}

/// Checks that indices, values and sizes fit together, as `torch.sparse_coo_tensor(..,
/// check_invariants=True)`.
fn check(indices: &Tensor, values: &Tensor, sizes: &[i64]) -> Result<()> {
    ensure!(indices.dim() == 2, "indices must be sparse_dim x nnz, but got: {:?}", indices.sizes());
    ensure!(
        values.dim() != 0,
        "values must have a dimension of nnz elements, but got a 0-dim tensor"
    );
    check_sizes(sizes)?;
    let (sparse_dim, nnz) = (indices.sizes()[0] as usize, indices.sizes()[1]);
    let dense_dim = values.dim() - 1;
    ensure!(
        sizes.len() == sparse_dim + dense_dim,
        "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {}, sparse_dim = {sparse_dim}, dense_dim = {dense_dim}",
        sizes.len()
    );
    ensure_shape!(
        values.sizes()[0] == nnz,
        "indices and values must have same nnz, but got nnz from indices: {nnz}, nnz from values: {}",
        values.sizes()[0]
    );
    if values.sizes()[1..] != sizes[sparse_dim..] {
        let mut expected = vec![nnz];
        expected.extend(&sizes[sparse_dim..]);
        return Err(Error::shape(format!(
            "values has incorrect size, expected {expected:?}, got {:?}",
            values.sizes()
        )));
    }
    ensure_device!(
        indices.device() == values.device(),
        "device of indices ({}) must match device of values ({})",
        indices.device(),
        values.device()
    );
    if !indices.storage().has_data() {
        return Ok(());
    }
    with_indices(indices, |data| {
        for (d, size) in sizes[..sparse_dim].iter().enumerate() {
            for i in &data[d * nnz as usize..(d + 1) * nnz as usize] {
                ensure_index!(*i >= 0, "found negative index {i} for dim {d}");
                ensure_index!(
                    i < size,
                    "size is inconsistent with indices: for dim {d}, size is {size} but found index {i}"
                );
            }
        }
        Ok(())
    })
}

fn check_coalesced(indices: &Tensor, sizes: &[i64], claimed: Option<bool>) -> Result<()> {
    if claimed != Some(true) || !indices.storage().has_data() {
        return Ok(());
    }
    let (dims, nnz) = (indices.sizes()[0] as usize, indices.sizes()[1] as usize);
    if with_indices(indices, |data| Ok(in_order(data, &sizes[..dims], nnz)))? {
        return Ok(());
    }
    Err(Error::runtime(
        "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor",
    ))
}

fn check_layout(layout: Option<Layout>) -> Result<()> {
    match layout {
        None | Some(Layout::Sparse) => Ok(()),
        Some(other) => {
            Err(Error::runtime(format!("expected sparse layout, but got layout {other}")))
        }
    }
}

#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn coo_from_indices(
    indices: &Tensor,
    values: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    coalesced: Option<bool>,
) -> Result<Tensor> {
    ensure!(indices.dim() == 2, "indices must be sparse_dim x nnz, but got: {:?}", indices.sizes());
    let indices = as_indices(indices, "indices")?;
    let nnz = indices.sizes()[1] as usize;
    // the smallest size that holds them
    let mut sizes: Vec<i64> = with_indices(&indices, |data| {
        let rows = 0..indices.sizes()[0] as usize;
        let row = |d: usize| &data[d * nnz..(d + 1) * nnz];
        Ok(rows.map(|d| row(d).iter().max().map_or(0, |m| m + 1)).collect())
    })?;
    sizes.extend(values.sizes().get(1..).unwrap_or_default());
    coo_from_indices_size(&indices, values, &sizes, dtype, layout, device, pin_memory, coalesced)
}

#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn coo_from_indices_size(
    indices: &Tensor,
    values: &Tensor,
    sizes: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    coalesced: Option<bool>,
) -> Result<Tensor> {
    check_layout(layout)?;
    let device = device.unwrap_or(values.device());
    let dtype = dtype.unwrap_or(values.dtype());
    let values = aten::to_device(values, device, dtype, false, false, None)?;
    let indices = aten::to_device(indices, device, indices.dtype(), false, false, None)?;
    aten::_sparse_coo_tensor_with_dims_and_tensors(
        indices.sizes().first().copied().unwrap_or(0),
        values.dim() as i64 - 1,
        sizes,
        &indices,
        &values,
        Some(dtype),
        Some(Layout::Sparse),
        Some(device),
        pin_memory,
        coalesced,
    )
}

#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn coo_with_dims_and_tensors(
    _sparse_dim: i64,
    _dense_dim: i64,
    sizes: &[i64],
    indices: &Tensor,
    values: &Tensor,
    _dtype: Option<DType>,
    _layout: Option<Layout>,
    _device: Option<Device>,
    _pin_memory: Option<bool>,
    coalesced: Option<bool>,
) -> Result<Tensor> {
    let indices = as_indices(indices, "indices")?;
    check(&indices, values, sizes)?;
    check_coalesced(&indices, sizes, coalesced)?;
    let coalesced = coalesced.unwrap_or(indices.sizes()[1] < 2);
    build(indices, values.clone(), sizes, coalesced)
}

fn nothing(
    sparse_dim: i64,
    sizes: &[i64],
    dtype: Option<DType>,
    device: Option<Device>,
) -> Result<Tensor> {
    check_sizes(sizes)?;
    let Some(dense) = sizes.get(sparse_dim as usize..) else {
        return Err(Error::runtime(format!(
            "number of dimensions must be sparse_dim ({sparse_dim}) + dense_dim, but got {}",
            sizes.len()
        )));
    };
    let device = device.unwrap_or(Device::CPU);
    let indices = Tensor::allocate_contiguous(DType::I64, device, &[sparse_dim, 0])?;
    let mut of_values = vec![0];
    of_values.extend(dense);
    let values =
        Tensor::allocate_contiguous(dtype.unwrap_or_else(default_dtype), device, &of_values)?;
    build(indices, values, sizes, true)
}

pub(crate) fn coo_with_dims(
    sparse_dim: i64,
    dense_dim: i64,
    sizes: &[i64],
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    let dims = sparse_dim.checked_add(dense_dim);
    ensure!(
        sparse_dim >= 0 && dense_dim >= 0 && dims == i64::try_from(sizes.len()).ok(),
        "number of dimensions must be sparse_dim ({sparse_dim}) + dense_dim ({dense_dim}), but got {}",
        sizes.len()
    );
    nothing(sparse_dim, sizes, dtype, device)
}

pub(crate) fn coo_empty(
    sizes: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    check_layout(layout)?;
    nothing(sizes.len() as i64, sizes, dtype, device)
}

pub(crate) fn zero_(t: &Tensor) -> Result<Tensor> {
    no_elements(t, coo(t)?.nnz())
}

/// The tensor, if it has no elements: coordinates do not change in place.
pub(super) fn no_elements(t: &Tensor, nnz: i64) -> Result<Tensor> {
    if nnz == 0 {
        return Ok(t.clone());
    }
    Err(Error::not_implemented(
        "zero_: the coordinates of a sparse tensor do not change in place; make an empty one with `zeros` and a sparse layout",
    ))
}

pub(crate) fn empty(
    sizes: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    _format: Option<MemoryFormat>,
) -> Result<Tensor> {
    coo_empty(sizes, dtype, layout, device, pin_memory)
}

pub(crate) fn validate_coo_args(
    indices: &Tensor,
    values: &Tensor,
    sizes: &[i64],
    coalesced: Option<bool>,
    _check_pinning: Option<bool>,
) -> Result<()> {
    let indices = as_indices(indices, "indices")?;
    check(&indices, values, sizes)?;
    check_coalesced(&indices, sizes, coalesced)
}

// ---- accessors ---------------------------------------------------------------------------------

pub(crate) fn is_coalesced(t: &Tensor) -> Result<bool> {
    Ok(coo(t)?.is_coalesced())
}

pub(crate) fn is_coalesced_default(t: &Tensor) -> Result<bool> {
    wrong_layout(t, "is_coalesced", "sparse coordinate")
}

pub(crate) fn coalesced_(t: &Tensor, coalesced: bool) -> Result<Tensor> {
    let c = coo(t)?;
    let dims = c.sparse_dim();
    check_coalesced(&c.indices, &t.sizes()[..dims], Some(coalesced))?;
    c.coalesced.store(coalesced, Ordering::Relaxed);
    Ok(t.clone())
}

pub(crate) fn raw_indices(t: &Tensor) -> Result<Tensor> {
    Ok(coo(t)?.indices.clone())
}

pub(crate) fn raw_values(t: &Tensor) -> Result<Tensor> {
    Ok(coo(t)?.values.clone())
}

fn coalesced_only(t: &Tensor, what: &str) -> Result<()> {
    if coo(t)?.is_coalesced() {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "Cannot get {what} on an uncoalesced tensor, please call .coalesce() first"
    )))
}

pub(crate) fn indices(t: &Tensor) -> Result<Tensor> {
    coalesced_only(t, "indices")?;
    raw_indices(t)
}

pub(crate) fn values(t: &Tensor) -> Result<Tensor> {
    coalesced_only(t, "values")?;
    raw_values(t)
}

pub(crate) fn indices_default(t: &Tensor) -> Result<Tensor> {
    wrong_layout(t, "indices", "sparse coordinate")
}

pub(crate) fn values_default(t: &Tensor) -> Result<Tensor> {
    wrong_layout(t, "values", "sparse coordinate or compressed")
}

pub(crate) fn nnz(t: &Tensor) -> Result<i64> {
    Ok(coo(t)?.nnz())
}

pub(crate) fn sparse_dim(t: &Tensor) -> Result<i64> {
    Ok(coo(t)?.sparse_dim() as i64)
}

pub(crate) fn dense_dim(t: &Tensor) -> Result<i64> {
    Ok(coo(t)?.values.dim() as i64 - 1)
}

pub(crate) fn sparse_dim_default(_t: &Tensor) -> Result<i64> {
    Ok(0)
}

pub(crate) fn dense_dim_default(t: &Tensor) -> Result<i64> {
    Ok(t.dim() as i64)
}

// ---- coalescing --------------------------------------------------------------------------------

pub(crate) fn coalesce(t: &Tensor) -> Result<Tensor> {
    if !t.is_sparse() {
        return wrong_layout(t, "coalesce", "sparse coordinate");
    }
    if aten::is_coalesced(t)? {
        return Ok(t.clone());
    }
    aten::_coalesce(t)
}

/// The row-major number of each coordinate.
pub(super) fn linear_of(t: &Tensor, c: &Coo) -> Result<Vec<i64>> {
    let dims = c.sparse_dim();
    with_indices(&c.indices, |data| Ok(sparse::linear(data, &t.sizes()[..dims], c.nnz() as usize)))
}

/// Coordinates from their row-major numbers, as an index tensor.
pub(super) fn unravel(linear: &[i64], sizes: &[i64]) -> Result<Tensor> {
    let n = linear.len();
    let mut data = vec![0i64; sizes.len() * n];
    for (i, at) in linear.iter().enumerate() {
        let mut rest = *at;
        for d in (0..sizes.len()).rev() {
            data[d * n + i] = rest % sizes[d].max(1);
            rest /= sizes[d].max(1);
        }
    }
    indices_tensor(&data, &[sizes.len() as i64, n as i64])
}

/// Sums values of equal coordinates; the result is in order.
pub(super) fn sum_equal(
    linear: &[i64],
    values: &Tensor,
    sparse_sizes: &[i64],
    sizes: &[i64],
) -> Result<Tensor> {
    let runs = sparse::runs(linear);
    let mut of_values = Dims::from_slice(values.sizes());
    of_values[0] = runs.len() as i64;
    let mut out = zeros_dense(values.dtype(), values.device(), &of_values)?;
    let width = values.sizes()[1..].iter().product::<i64>() as usize;
    launch::run(&mut out, values, |out, values| Ok(sparse::sum_runs(out, values, width, &runs)?))?;
    let kept: Vec<i64> = (0..runs.len()).map(|r| linear[runs.run(r)[0]]).collect();
    build(unravel(&kept, sparse_sizes)?, out, sizes, true)
}

pub(crate) fn coalesce_coo(t: &Tensor) -> Result<Tensor> {
    let c = coo(t)?;
    if c.is_coalesced() {
        return Ok(t.clone());
    }
    let linear = linear_of(t, c)?;
    sum_equal(&linear, &c.values, &t.sizes()[..c.sparse_dim()], t.sizes())
}

/// The rows `at` of a tensor's first dimension.
pub(super) fn rows_at(t: &Tensor, at: &[i64]) -> Result<Tensor> {
    crate::ops::index::index_select(t, 0, &indices_tensor(at, &[at.len() as i64])?)
}

/// A row-major tensor in another shape.
pub(super) fn shaped(t: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    view::view(&copy::to_contiguous(t)?, sizes)
}

/// Indices and values of a tensor in coordinate form, for printing.
pub(crate) fn coo_parts(t: &Tensor) -> Option<(&Tensor, &Tensor)> {
    t.payload::<Coo>().map(|c| (&c.indices, &c.values))
}
