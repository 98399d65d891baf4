//! Views: other sizes and strides over the same storage.

pub(crate) mod arrange;
pub(crate) mod copies;
pub(crate) mod geometry;

use crate::dispatch::grad_enabled;
use crate::error::{Error, Result};
use crate::ops::common::wrap_dim;
use crate::tensor::Tensor;
use crate::tensor::history::Creation;
use straightline_catalog::view::{self, ViewMap, infer_sizes, view_strides};
use straightline_catalog::{Dims, MemoryFormat, layout};

/// The tensor through a view. In line, where which view it is is known.
#[inline(always)]
fn through(t: &Tensor, map: &ViewMap) -> Result<Tensor> {
    let (sizes, strides, offset) = map.strides(t.sizes(), t.strides(), t.storage_offset())?;
    Ok(t.view_with(grad_enabled(), &sizes, &strides, offset))
}

pub(crate) fn view(t: &Tensor, size: &[i64]) -> Result<Tensor> {
    through(t, &ViewMap::reshape(t.sizes(), size)?)
}

/// `view` where strides allow, else a copy.
pub(crate) fn reshape(t: &Tensor, size: &[i64]) -> Result<Tensor> {
    let sizes = infer_sizes(size, t.numel())?;
    if view_strides(t.sizes(), t.strides(), &sizes).is_some() {
        return crate::ops::aten::view(t, &sizes);
    }
    let t = crate::ops::aten::clone(t, Some(MemoryFormat::Contiguous))?;
    crate::ops::aten::_unsafe_view(&t, &sizes)
}

/// `reshape` for kernels, which call no operators: a view where strides allow, else of a copy.
pub(crate) fn reshape_own(t: &Tensor, size: &[i64]) -> Result<Tensor> {
    unsafe_view(&crate::ops::copy::to_contiguous(t)?, size)
}

pub(crate) fn flatten(t: &Tensor, start: i64, end: i64) -> Result<Tensor> {
    let (s, e) = (wrap_dim(start, t.dim())?, wrap_dim(end, t.dim())?);
    ensure!(s <= e, "flatten() has invalid args: start_dim cannot come after end_dim");
    if t.dim() == 0 {
        return crate::ops::aten::reshape(t, &[1]);
    }
    if s == e {
        return Ok(t.clone());
    }
    let mut sizes = Dims::from_slice(&t.sizes()[..s]);
    sizes.push(t.sizes()[s..=e].iter().product());
    sizes.extend_from_slice(&t.sizes()[e + 1..]);
    crate::ops::aten::reshape(t, &sizes)
}

pub(crate) fn permute(t: &Tensor, dims: &[i64]) -> Result<Tensor> {
    through(t, &ViewMap::permute(t.sizes(), dims)?)
}

pub(crate) fn transpose(t: &Tensor, a: i64, b: i64) -> Result<Tensor> {
    through(t, &ViewMap::transpose(t.sizes(), a, b)?)
}

pub(crate) fn t(x: &Tensor) -> Result<Tensor> {
    through(x, &ViewMap::t(x.sizes())?)
}

pub(crate) fn expand(t: &Tensor, size: &[i64], _implicit: bool) -> Result<Tensor> {
    through(t, &ViewMap::expand(t.sizes(), size)?)
}

pub(crate) fn slice(
    t: &Tensor,
    dim: i64,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> Result<Tensor> {
    through(t, &ViewMap::slice(t.sizes(), dim, start, end, step)?)
}

pub(crate) fn narrow(t: &Tensor, dim: i64, start: i64, length: i64) -> Result<Tensor> {
    ensure!(t.dim() != 0, "narrow() cannot be applied to a 0-dim tensor.");
    ensure!(length >= 0, "narrow(): length must be non-negative.");
    let d = wrap_dim(dim, t.dim())?;
    let n = t.sizes()[d];
    ensure_index!(
        start >= -n && start <= n,
        "start out of range (expected to be in range of [{}, {n}], but got {start})",
        -n
    );
    let start = if start < 0 { start + n } else { start };
    ensure!(
        length <= n - start,
        "start ({start}) + length ({length}) exceeds dimension size ({n})."
    );
    crate::ops::aten::slice_tensor(t, d as i64, Some(start), Some(start + length), 1)
}

pub(crate) fn select(t: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    through(t, &ViewMap::select(t.sizes(), dim, index)?)
}

pub(crate) fn squeeze(t: &Tensor) -> Result<Tensor> {
    through(t, &ViewMap::squeeze(t.sizes(), None)?)
}

pub(crate) fn squeeze_dim(t: &Tensor, dim: i64) -> Result<Tensor> {
    through(t, &ViewMap::squeeze(t.sizes(), Some(&[dim]))?)
}

pub(crate) fn squeeze_dims(t: &Tensor, dims: &[i64]) -> Result<Tensor> {
    through(t, &ViewMap::squeeze(t.sizes(), Some(dims))?)
}

pub(crate) fn unsqueeze(t: &Tensor, dim: i64) -> Result<Tensor> {
    through(t, &ViewMap::unsqueeze(t.sizes(), dim)?)
}

pub(crate) fn diagonal(t: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    through(t, &ViewMap::diagonal(t.sizes(), offset, dim1, dim2)?)
}

/// Windows of `size` along a dimension, one each `step`; the window becomes the last dimension.
pub(crate) fn unfold(t: &Tensor, dimension: i64, size: i64, step: i64) -> Result<Tensor> {
    through(t, &ViewMap::unfold(t.sizes(), dimension, size, step)?)
}

pub(crate) fn as_strided(
    t: &Tensor,
    size: &[i64],
    stride: &[i64],
    offset: Option<i64>,
) -> Result<Tensor> {
    ensure!(
        size.len() == stride.len(),
        "mismatch in length of strides and shape: {} and {}",
        stride.len(),
        size.len()
    );
    crate::ops::common::check_sizes(size)?;
    ensure!(
        stride.iter().all(|s| *s >= 0),
        "as_strided: Negative strides are not supported at the moment"
    );
    let offset = offset.unwrap_or(t.storage_offset());
    ensure!(offset >= 0, "as_strided: negative storage_offset {offset}");
    let need = layout::storage_bytes(t.dtype().size(), size, stride, offset);
    let fits = need <= t.storage().bytes();
    ensure!(
        fits,
        "setStorage: sizes {size:?}, strides {stride:?}, storage offset {offset}, and itemsize \
             {} are out of bounds for storage of size {}",
        t.dtype().size(),
        t.storage().bytes()
    );
    Ok(t.view_with(grad_enabled(), Dims::from_slice(size), Dims::from_slice(stride), offset))
}

/// The elements in another shape, by an operator whose result is no view as gradients see it.
pub(crate) fn unsafe_view(t: &Tensor, size: &[i64]) -> Result<Tensor> {
    Ok(view(t, size)?.into_no_view())
}

/// The same memory apart from the history of its values.
pub(crate) fn detach(t: &Tensor) -> Result<Tensor> {
    Ok(alias(t)?.into_no_view())
}

/// Another handle with an identity of its own.
pub(crate) fn alias(t: &Tensor) -> Result<Tensor> {
    Ok(t.view_with(
        grad_enabled(),
        Dims::from_slice(t.sizes()),
        Dims::from_slice(t.strides()),
        t.storage_offset(),
    ))
}

// ---- several views ----------------------------------------------------------------------------

pub(crate) fn split_sizes(t: &Tensor, sizes: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    let d = wrap_dim(dim, t.dim())?;
    let n = *t
        .sizes()
        .get(d)
        .ok_or_else(|| Error::runtime("split expects at least a 1-dimensional tensor"))?;
    let total = sizes.iter().try_fold(0i64, |sum, s| sum.checked_add(*s));
    ensure!(
        sizes.iter().all(|s| *s >= 0) && total == Some(n),
        "split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at \
             dimension {d}), but got split_sizes={sizes:?}"
    );
    let mut at = 0;
    sizes
        .iter()
        .map(|size| {
            let part = crate::ops::aten::slice_tensor(t, d as i64, Some(at), Some(at + size), 1)?;
            at += size;
            part.set_creation(Creation::Several);
            Ok(part)
        })
        .collect()
}

pub(crate) fn split(t: &Tensor, size: i64, dim: i64) -> Result<Vec<Tensor>> {
    let d = wrap_dim(dim, t.dim())?;
    let n = *t
        .sizes()
        .get(d)
        .ok_or_else(|| Error::runtime("split expects at least a 1-dimensional tensor"))?;
    ensure!(size >= 0, "split expects split_size be non-negative, but got split_size={size}");
    ensure!(
        size != 0 || n == 0,
        "split_size can only be 0 if dimension size is 0, but got dimension size of {n}"
    );
    if size == 0 {
        return Ok(vec![crate::ops::aten::alias(t)?]);
    }
    split_sizes(t, &view::split_sizes(n, size), dim)
}

pub(crate) fn chunk(t: &Tensor, chunks: i64, dim: i64) -> Result<Vec<Tensor>> {
    ensure!(t.dim() != 0, "chunk expects at least a 1-dimensional tensor");
    let n = t.sizes()[wrap_dim(dim, t.dim())?];
    split_sizes(t, &view::chunk_sizes(n, chunks)?, dim)
}

pub(crate) fn unbind(t: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
    let d = wrap_dim(dim, t.dim())?;
    let n = *t
        .sizes()
        .get(d)
        .ok_or_else(|| Error::index("Dimension specified as 0 but tensor has no dimensions"))?;
    let part = |i| {
        let part = crate::ops::aten::select_int(t, d as i64, i)?;
        part.set_creation(Creation::Several);
        Ok(part)
    };
    (0..n).map(part).collect()
}
