//! Sorting and selecting along a dimension.

use crate::error::Result;
use crate::ops::common::wrap_dim;
use crate::ops::copy;
use crate::tensor::Tensor;
use crate::tensor::launch;
use straightline_catalog::{DType, Dims, Scalar, layout};
use straightline_runtime::cpu::kernels::{self, Selection};

/// Elements along a dimension; a 0-dim tensor has one.
fn size_along(x: &Tensor, dim: usize) -> i64 {
    x.sizes().get(dim).copied().unwrap_or(1)
}

fn no_bool(x: &Tensor, name: &str) -> Result<()> {
    ensure_not_implemented!(x.dtype() != DType::Bool, "{name} does not support bool dtypes on CPU");
    Ok(())
}

fn no_complex(x: &Tensor, name: &str) -> Result<()> {
    ensure_type!(!x.dtype().is_complex(), "{name} does not support complex dtypes on CPU");
    Ok(())
}

pub(crate) fn sort_stable(
    x: &Tensor,
    stable: Option<bool>,
    dim: i64,
    descending: bool,
) -> Result<(Tensor, Tensor)> {
    no_complex(x, "Sort")?;
    let dim = wrap_dim(dim, x.dim())?;
    let strides = layout::preserved_strides(x.sizes(), x.strides());
    let fresh = |dtype| {
        let sizes = Dims::from_slice(x.sizes());
        Tensor::allocate(dtype, x.device(), sizes, strides.clone())
    };
    let (mut values, mut indices) = (fresh(x.dtype())?, fresh(DType::I64)?);
    let stable = stable.unwrap_or(false);
    launch::run([&mut values, &mut indices], x, |[values, indices], x| {
        Ok(kernels::sort(values, indices, x, dim, descending, stable)?)
    })?;
    Ok((values, indices))
}

pub(crate) fn sort(x: &Tensor, dim: i64, descending: bool) -> Result<(Tensor, Tensor)> {
    sort_stable(x, Some(false), dim, descending)
}

pub(crate) fn topk(
    x: &Tensor,
    k: i64,
    dim: i64,
    largest: bool,
    sorted: bool,
) -> Result<(Tensor, Tensor)> {
    no_complex(x, "topk")?;
    let dim = wrap_dim(dim, x.dim())?;
    ensure!(
        k >= 0 && k <= size_along(x, dim),
        "selected index k out of range: {k} of {} elements",
        size_along(x, dim)
    );
    no_bool(x, "topk")?;
    let mut sizes = Dims::from_slice(x.sizes());
    if let Some(size) = sizes.get_mut(dim) {
        *size = k;
    }
    let mut values = Tensor::allocate_contiguous(x.dtype(), x.device(), &sizes)?;
    let mut indices = Tensor::allocate_contiguous(DType::I64, x.device(), &sizes)?;
    // k = 0 of a 0-dim tensor leaves one element that nothing chose
    launch::run([&mut values, &mut indices], x, |[values, indices], x| {
        Ok(kernels::topk(values, indices, x, dim, largest, sorted)?)
    })?;
    Ok((values, indices))
}

/// One element of each row along a dimension, and where it is.
fn select(
    which: Selection,
    x: &Tensor,
    dim: usize,
    keepdim: bool,
    name: &str,
) -> Result<(Tensor, Tensor)> {
    ensure_index!(
        x.dim() == 0 || x.sizes()[dim] != 0,
        "{name}(): Expected reduction dim {dim} to have non-zero size."
    );
    let mut kept = Dims::from_slice(x.sizes());
    if let Some(size) = kept.get_mut(dim) {
        *size = 1;
    }
    let mut values = Tensor::allocate_contiguous(x.dtype(), x.device(), &kept)?;
    let mut indices = Tensor::allocate_contiguous(DType::I64, x.device(), &kept)?;
    if x.dim() == 0 && matches!(which, Selection::Kth(_) | Selection::Mode) {
        // a single element of any dtype is the one
        return Ok((copy::copy_(&values, x, false)?, copy::fill_(&indices, Scalar::Int(0))?));
    }
    launch::run([&mut values, &mut indices], x, |[values, indices], x| {
        Ok(kernels::select_along(which, values, indices, x, dim)?)
    })?;
    if keepdim || x.dim() == 0 {
        return Ok((values, indices));
    }
    kept.remove(dim);
    let strides = layout::contiguous_strides(&kept);
    Ok((
        values.with_geometry(kept.clone(), strides.clone(), 0),
        indices.with_geometry(kept, strides, 0),
    ))
}

pub(crate) fn kthvalue(x: &Tensor, k: i64, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    let dim = wrap_dim(dim, x.dim())?;
    // a single element is the one, whatever its dtype
    if x.dim() > 0 {
        no_bool(x, "kthvalue")?;
    }
    ensure!(
        k >= 1 && k <= size_along(x, dim),
        "kthvalue(): selected number k out of range for dimension {dim}: {k} of {} elements",
        size_along(x, dim)
    );
    select(Selection::Kth(k as usize - 1), x, dim, keepdim, "kthvalue")
}

fn median_along(which: Selection, x: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    let dim = wrap_dim(dim, x.dim())?;
    no_bool(x, "median")?;
    select(which, x, dim, keepdim, "median")
}

pub(crate) fn median_dim(x: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    median_along(Selection::Median, x, dim, keepdim)
}

pub(crate) fn nanmedian_dim(x: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    median_along(Selection::NanMedian, x, dim, keepdim)
}

fn median_of_all(which: Selection, x: &Tensor) -> Result<Tensor> {
    no_bool(x, "median")?;
    if x.numel() == 0 {
        let nothing = Tensor::allocate_contiguous(x.dtype(), x.device(), &[])?;
        return copy::fill_(&nothing, Scalar::Float(f64::NAN));
    }
    let flat = copy::to_contiguous(x)?;
    let flat = flat.with_geometry(
        Dims::from_slice(&[x.numel()]),
        Dims::from_slice(&[1]),
        flat.storage_offset(),
    );
    Ok(select(which, &flat, 0, false, "median")?.0)
}

pub(crate) fn median(x: &Tensor) -> Result<Tensor> {
    median_of_all(Selection::Median, x)
}

pub(crate) fn nanmedian(x: &Tensor) -> Result<Tensor> {
    median_of_all(Selection::NanMedian, x)
}

pub(crate) fn mode(x: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    let dim = wrap_dim(dim, x.dim())?;
    select(Selection::Mode, x, dim, keepdim, "mode")
}
