//! Dense, coordinates, compressed rows: each into each.

use super::coo::{build, linear_of, rows_at, shaped, sum_equal, unravel};
use super::csr::build_csr;
use super::{Coo, coo, csr, indices_tensor, with_indices, zeros_dense};
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::copy;
use crate::tensor::{Tensor, launch};
use straightline_catalog::{DType, Device, Dims, Layout, MemoryFormat, Scalar};
use straightline_runtime::cpu::kernels::sparse;

// ---- the composites that users call ------------------------------------------------------------

pub(crate) fn to_sparse(
    t: &Tensor,
    layout: Option<Layout>,
    blocksize: Option<&[i64]>,
    dense_dim: Option<i64>,
) -> Result<Tensor> {
    if layout.unwrap_or(Layout::Sparse) == t.layout() {
        return Ok(t.clone());
    }
    aten::_to_sparse(t, layout, blocksize, dense_dim)
}

pub(crate) fn to_sparse_dim(t: &Tensor, sparse_dim: i64) -> Result<Tensor> {
    if t.is_sparse() {
        return Ok(t.clone());
    }
    aten::_to_sparse_sparse_dim(t, sparse_dim)
}

pub(crate) fn to_sparse_csr(t: &Tensor, dense_dim: Option<i64>) -> Result<Tensor> {
    if t.is_sparse_csr() {
        return Ok(t.clone());
    }
    aten::_to_sparse_csr(t, dense_dim)
}

pub(crate) fn to_dense(
    t: &Tensor,
    dtype: Option<DType>,
    masked_grad: Option<bool>,
) -> Result<Tensor> {
    if t.is_sparse() || t.is_sparse_csr() {
        return aten::_to_dense(t, dtype, masked_grad);
    }
    match dtype {
        Some(dtype) => aten::to_dtype(t, dtype, false, false, None),
        None => Ok(t.clone()),
    }
}

/// Sends a conversion to the layout that it asks for.
fn by_layout(
    t: &Tensor,
    layout: Option<Layout>,
    blocksize: Option<&[i64]>,
    to_coo: impl FnOnce() -> Result<Tensor>,
    to_csr: impl FnOnce() -> Result<Tensor>,
) -> Result<Tensor> {
    ensure_not_implemented!(
        blocksize.is_none(),
        "to_sparse: block layouts are not there, so it takes no blocksize; torch.sparse_coo and torch.sparse_csr are"
    );
    match layout.unwrap_or(Layout::Sparse) {
        Layout::Sparse => to_coo(),
        Layout::SparseCsr => to_csr(),
        other => Err(Error::not_implemented(format!(
            "to_sparse: conversion from {} to {other} is not there; torch.sparse_coo and torch.sparse_csr are",
            t.layout()
        ))),
    }
}

// ---- dense to sparse ---------------------------------------------------------------------------

pub(crate) fn dense_to_sparse(
    t: &Tensor,
    layout: Option<Layout>,
    blocksize: Option<&[i64]>,
    dense_dim: Option<i64>,
) -> Result<Tensor> {
    let dense = dense_dim.unwrap_or(0);
    let to_coo = || dense_to_sparse_dim(t, (t.dim() as i64).saturating_sub(dense));
    by_layout(t, layout, blocksize, to_coo, || dense_to_csr(t, dense_dim))
}

pub(crate) fn dense_to_sparse_dim(t: &Tensor, sparse_dim: i64) -> Result<Tensor> {
    let rank = t.dim() as i64;
    ensure!(
        sparse_dim >= 0 && sparse_dim <= rank,
        "dense_to_sparse: sparse_dim argument must be in [0,{rank}] range, but {sparse_dim} is given"
    );
    ensure!(
        sparse_dim != 0 || rank <= 0,
        "dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0"
    );
    let t = copy::to_contiguous(t)?;
    let (outer, inner) = t.sizes().split_at(sparse_dim as usize);
    let blocks: i64 = outer.iter().product();
    let width: i64 = inner.iter().product();
    let found = launch::read(&t, |t| Ok(sparse::nonzero(t, width as usize)?))?;
    let mut of_blocks = vec![blocks];
    of_blocks.extend(inner);
    let values = rows_at(&shaped(&t, &of_blocks)?, &found)?;
    build(unravel(&found, outer)?, values, t.sizes(), true)
}

pub(crate) fn dense_to_csr(t: &Tensor, dense_dim: Option<i64>) -> Result<Tensor> {
    check_matrix(t, dense_dim)?;
    coo_to_csr(&dense_to_sparse_dim(t, 2)?, None)
}

fn check_matrix(t: &Tensor, dense_dim: Option<i64>) -> Result<()> {
    if t.dim() == 2 && dense_dim.unwrap_or(0) == 0 {
        return Ok(());
    }
    Err(Error::not_implemented(format!(
        "to_sparse_csr: compressed rows are for matrices without dense dimensions, not for sizes {:?}; use `to_sparse`",
        t.sizes()
    )))
}

// ---- between the sparse ones -------------------------------------------------------------------

pub(crate) fn coo_to_sparse(
    t: &Tensor,
    layout: Option<Layout>,
    blocksize: Option<&[i64]>,
    dense_dim: Option<i64>,
) -> Result<Tensor> {
    let to_csr = || coo_to_csr(t, dense_dim);
    by_layout(t, layout, blocksize, || Ok(t.clone()), to_csr)
}

pub(crate) fn coo_to_sparse_dim(t: &Tensor, _sparse_dim: i64) -> Result<Tensor> {
    Ok(t.clone())
}

pub(crate) fn coo_to_csr(t: &Tensor, dense_dim: Option<i64>) -> Result<Tensor> {
    check_matrix(t, dense_dim)?;
    let t = super::coalesce_coo(t)?;
    let c = coo(&t)?;
    if c.sparse_dim() != 2 {
        return check_matrix(&t, Some(1)).map(|()| t.clone());
    }
    let (rows, nnz) = (t.sizes()[0], c.nnz());
    let (crow, col) = with_indices(&c.indices, |data| {
        let (of_rows, columns) = data.split_at(nnz as usize);
        let (begin, _) = sparse::by_row(of_rows, rows as usize)?;
        Ok((indices_tensor(&begin, &[rows + 1])?, indices_tensor(columns, &[nnz])?))
    })?;
    build_csr(crow, col, c.values.clone(), t.sizes())
}

pub(crate) fn csr_to_csr(t: &Tensor, _dense_dim: Option<i64>) -> Result<Tensor> {
    Ok(t.clone())
}

pub(crate) fn csr_to_sparse(
    t: &Tensor,
    layout: Option<Layout>,
    blocksize: Option<&[i64]>,
    _dense_dim: Option<i64>,
) -> Result<Tensor> {
    by_layout(t, layout, blocksize, || csr_to_coo(t), || Ok(t.clone()))
}

pub(crate) fn csr_to_sparse_dim(t: &Tensor, sparse_dim: i64) -> Result<Tensor> {
    ensure!(
        sparse_dim == 2,
        "sparse_csr to sparse_coo: sparse_dim must be 2, but {sparse_dim} is given"
    );
    csr_to_coo(t)
}

/// The row of each element.
fn rows_of(crow: &[i64], nnz: usize) -> Vec<i64> {
    let mut rows = Vec::with_capacity(nnz);
    for (r, w) in crow.windows(2).enumerate() {
        // bounds that were written meanwhile are not followed past the end
        let n = usize::try_from(w[1] - w[0]).unwrap_or(0).min(nnz - rows.len());
        rows.extend(std::iter::repeat_n(r as i64, n));
    }
    rows.resize(nnz, 0);
    rows
}

pub(crate) fn csr_to_coo(t: &Tensor) -> Result<Tensor> {
    let c = csr(t)?;
    let nnz = c.values.numel();
    let mut data = with_indices(&c.crow, |crow| Ok(rows_of(crow, nnz as usize)))?;
    with_indices(&c.col, |col| {
        data.extend(col);
        Ok(())
    })?;
    build(indices_tensor(&data, &[2, nnz])?, c.values.clone(), t.sizes(), true)
}

// ---- to dense ----------------------------------------------------------------------------------

fn no_dtype(t: &Tensor, dtype: Option<DType>) -> Result<()> {
    match dtype {
        Some(d) if d != t.dtype() => Err(Error::dtype(
            "dtype argument is not supported by sparse_to_dense: convert with `to_dtype` first",
        )),
        _ => Ok(()),
    }
}

/// Adds `alpha` times the values of a tensor in coordinate form to a fresh, row-major dense one of
/// its sizes and dtype.
pub(super) fn add_into(out: &Tensor, t: &Tensor, c: &Coo, alpha: Scalar) -> Result<()> {
    let at = linear_of(t, c)?;
    let blocks: i64 = t.sizes()[..c.sparse_dim()].iter().product();
    launch::run(launch::Written(out), &c.values, |out, values| {
        let out = (out, blocks as usize);
        Ok(sparse::scatter_add(out, values, c.width(), &at, alpha)?)
    })
}

pub(crate) fn coo_to_dense(
    t: &Tensor,
    dtype: Option<DType>,
    _masked_grad: Option<bool>,
) -> Result<Tensor> {
    no_dtype(t, dtype)?;
    let out = zeros_dense(t.dtype(), t.device(), t.sizes())?;
    add_into(&out, t, coo(t)?, Scalar::Int(1))?;
    Ok(out)
}

pub(crate) fn csr_to_dense(
    t: &Tensor,
    dtype: Option<DType>,
    masked_grad: Option<bool>,
) -> Result<Tensor> {
    coo_to_dense(&csr_to_coo(t)?, dtype, masked_grad)
}

// ---- copies ------------------------------------------------------------------------------------

/// The same coordinates with other values, one for each.
pub(super) fn with_values(t: &Tensor, values: Tensor) -> Result<Tensor> {
    let c = coo(t)?;
    build(c.indices.clone(), values, t.sizes(), c.is_coalesced())
}

/// The same rows and columns with other values, one for each.
pub(super) fn csr_with_values(t: &Tensor, values: Tensor) -> Result<Tensor> {
    let c = csr(t)?;
    build_csr(c.crow.clone(), c.col.clone(), values, t.sizes())
}

fn check_format(format: Option<MemoryFormat>) -> Result<()> {
    match format {
        None | Some(MemoryFormat::Preserve) => Ok(()),
        Some(other) => Err(Error::runtime(format!(
            "unsupported memory format option {other}: a sparse tensor has no strides"
        ))),
    }
}

pub(crate) fn clone(t: &Tensor, format: Option<MemoryFormat>) -> Result<Tensor> {
    check_format(format)?;
    let c = coo(t)?;
    let indices = copy::clone_contiguous(&c.indices)?;
    build(indices, copy::clone_contiguous(&c.values)?, t.sizes(), c.is_coalesced())
}

pub(crate) fn csr_clone(t: &Tensor, format: Option<MemoryFormat>) -> Result<Tensor> {
    check_format(format)?;
    let c = csr(t)?;
    build_csr(
        copy::clone_contiguous(&c.crow)?,
        copy::clone_contiguous(&c.col)?,
        copy::clone_contiguous(&c.values)?,
        t.sizes(),
    )
}

/// What `_to_copy` asks for beside the dtype.
fn check_copy(t: &Tensor, layout: Option<Layout>, device: Option<Device>) -> Result<()> {
    ensure!(
        layout.is_none_or(|l| l == t.layout()),
        "a copy does not change the layout from {}: use `to_dense`, `to_sparse` or `to_sparse_csr`",
        t.layout()
    );
    match device {
        Some(d) if d != t.device() => Err(Error::not_implemented(format!(
            "sparse tensors are on the CPU, and do not move to {d}"
        ))),
        _ => Ok(()),
    }
}

/// `_to_copy`, which CompositeExplicitAutograd serves for every layout.
pub(crate) fn to_copy(
    t: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    check_copy(t, layout, device)?;
    let dtype = dtype.unwrap_or(t.dtype());
    if t.is_sparse() {
        let t = clone(t, format)?;
        let values = copy::to_dtype(&coo(&t)?.values, dtype)?;
        return with_values(&t, values);
    }
    let t = csr_clone(t, format)?;
    let values = copy::to_dtype(&csr(&t)?.values, dtype)?;
    csr_with_values(&t, values)
}

pub(crate) fn empty_like(
    t: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    check_format(format)?;
    let (dtype, device) = (dtype.unwrap_or(t.dtype()), device.unwrap_or(t.device()));
    let layout = layout.unwrap_or(t.layout());
    if layout == Layout::Sparse && t.is_sparse() {
        let (sparse, dense) = (coo(t)?.sparse_dim() as i64, coo(t)?.values.dim() as i64 - 1);
        return super::coo_with_dims(
            sparse,
            dense,
            t.sizes(),
            Some(dtype),
            None,
            Some(device),
            pin_memory,
        );
    }
    aten::empty_memory_format(t.sizes(), Some(dtype), Some(layout), Some(device), pin_memory, None)
}

/// The tensor with some sparse dimensions summed away: their coordinates become 0, or go.
pub(super) fn merge_dims(t: &Tensor, gone: &[usize], keep: bool) -> Result<Tensor> {
    let c = coo(t)?;
    let (dims, nnz) = (c.sparse_dim(), c.nnz() as usize);
    let kept: Vec<usize> = (0..dims).filter(|d| !gone.contains(d)).collect();
    let kept_sizes: Dims = kept.iter().map(|d| t.sizes()[*d]).collect();
    let linear = with_indices(&c.indices, |data| {
        let rows: Vec<i64> =
            kept.iter().flat_map(|d| &data[d * nnz..(d + 1) * nnz]).copied().collect();
        Ok(sparse::linear(&rows, &kept_sizes, nnz))
    })?;
    let dense = &t.sizes()[dims..];
    let outer: Dims = if keep {
        (0..dims).map(|d| if gone.contains(&d) { 1 } else { t.sizes()[d] }).collect()
    } else {
        kept_sizes
    };
    let sizes: Dims = outer.iter().chain(dense).copied().collect();
    sum_equal(&linear, &c.values, &outer, &sizes)
}
