//! Views: other sizes and strides over the same storage.

use super::common::{wrap_dim, wrap_dims};
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use straightline_passes::ir::{Dims, MemoryFormat, layout};

/// Replaces a `-1` by what is left, and checks the element count.
pub(crate) fn infer_size(sizes: &[i64], numel: i64) -> Result<Dims> {
    let mut out = Dims::from_slice(sizes);
    let mut unknown = None;
    let mut known: i64 = 1;
    for (i, s) in sizes.iter().enumerate() {
        match *s {
            -1 if unknown.is_none() => unknown = Some(i),
            -1 => return Err(Error::runtime("only one dimension can be inferred")),
            s if s < 0 => return Err(Error::shape(format!("invalid shape dimension {s}"))),
            s => known = known.saturating_mul(s),
        }
    }
    let bad = || {
        Error::shape(format!(
            "shape '{sizes:?}' is invalid for input of size {numel}"
        ))
    };
    match unknown {
        Some(i) => {
            if known == 0 {
                return Err(Error::runtime(format!(
                    "cannot reshape tensor of 0 elements into shape {sizes:?} because the \
                     unspecified dimension size -1 can be any value and is ambiguous"
                )));
            }
            if numel % known != 0 {
                return Err(bad());
            }
            out[i] = numel / known;
        }
        None if known != numel => return Err(bad()),
        None => {}
    }
    Ok(out)
}

/// The strides with which `(sizes, strides)` can be seen as `target` without copying.
pub(crate) fn view_strides(sizes: &[i64], strides: &[i64], target: &[i64]) -> Option<Dims> {
    if layout::numel(sizes) == 0 {
        return Some(if sizes == target {
            Dims::from_slice(strides)
        } else {
            layout::contiguous_strides(target)
        });
    }
    let mut out = Dims::from_elem(1, target.len());
    if sizes.is_empty() {
        return Some(out);
    }
    // Walk from the last dimension, cutting the source into chunks that are contiguous in
    // themselves; each chunk must hold a whole number of target dimensions.
    let mut t = target.len();
    let mut chunk_stride = strides[sizes.len() - 1];
    let mut chunk = 1;
    for d in (0..sizes.len()).rev() {
        chunk *= sizes[d];
        let ends = d == 0 || (sizes[d - 1] != 1 && strides[d - 1] != chunk * chunk_stride);
        if !ends {
            continue;
        }
        let mut taken = 1;
        while t > 0 && (taken < chunk || target[t - 1] == 1) {
            t -= 1;
            out[t] = taken * chunk_stride;
            taken *= target[t];
        }
        if taken != chunk {
            return None;
        }
        if d > 0 {
            chunk = 1;
            chunk_stride = strides[d - 1];
        }
    }
    (t == 0).then_some(out)
}

pub(crate) fn view(t: &Tensor, size: &[i64]) -> Result<Tensor> {
    let sizes = infer_size(size, t.numel())?;
    match view_strides(t.sizes(), t.strides(), &sizes) {
        Some(strides) => Ok(t.with_geometry(sizes, strides, t.storage_offset())),
        None => Err(Error::runtime(format!(
            "view size is not compatible with input tensor's size and stride (at least one \
             dimension of {:?} with strides {:?} spans across two contiguous subspaces). Use \
             .reshape(...) instead.",
            t.sizes(),
            t.strides()
        ))),
    }
}

/// `view` where strides allow, else a copy.
pub(crate) fn reshape(t: &Tensor, size: &[i64]) -> Result<Tensor> {
    let sizes = infer_size(size, t.numel())?;
    if view_strides(t.sizes(), t.strides(), &sizes).is_some() {
        return crate::ops::aten::view(t, &sizes);
    }
    let t = crate::ops::aten::clone(t, Some(MemoryFormat::Contiguous))?;
    crate::ops::aten::_unsafe_view(&t, &sizes)
}

/// `reshape` for kernels, which call no operators: a view where strides allow, else of a copy.
pub(crate) fn reshape_own(t: &Tensor, size: &[i64]) -> Result<Tensor> {
    view(&super::copy::to_contiguous(t)?, size)
}

pub(crate) fn flatten(t: &Tensor, start: i64, end: i64) -> Result<Tensor> {
    let (s, e) = (wrap_dim(start, t.dim())?, wrap_dim(end, t.dim())?);
    if s > e {
        return Err(Error::runtime(
            "flatten() has invalid args: start_dim cannot come after end_dim",
        ));
    }
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
    if dims.len() != t.dim() {
        return Err(Error::runtime(format!(
            "permute(): number of dimensions in the tensor input does not match the \
             length of the desired ordering of dimensions i.e. input.dim() = {} is not equal to \
             len(dims) = {}",
            t.dim(),
            dims.len()
        )));
    }
    let mut seen = [false; 64];
    let (mut sizes, mut strides) = (Dims::new(), Dims::new());
    for d in dims {
        let d = wrap_dim(*d, t.dim())?;
        if std::mem::replace(&mut seen[d.min(63)], true) {
            return Err(Error::runtime("permute(): duplicate dims are not allowed."));
        }
        sizes.push(t.sizes()[d]);
        strides.push(t.strides()[d]);
    }
    Ok(t.with_geometry(sizes, strides, t.storage_offset()))
}

pub(crate) fn transpose(t: &Tensor, a: i64, b: i64) -> Result<Tensor> {
    let (a, b) = (wrap_dim(a, t.dim())?, wrap_dim(b, t.dim())?);
    let (mut sizes, mut strides) = (Dims::from_slice(t.sizes()), Dims::from_slice(t.strides()));
    if t.dim() > 0 {
        sizes.swap(a, b);
        strides.swap(a, b);
    }
    Ok(t.with_geometry(sizes, strides, t.storage_offset()))
}

pub(crate) fn t(x: &Tensor) -> Result<Tensor> {
    match x.dim() {
        0 | 1 => Ok(x.with_geometry(
            Dims::from_slice(x.sizes()),
            Dims::from_slice(x.strides()),
            x.storage_offset(),
        )),
        2 => transpose(x, 0, 1),
        n => Err(Error::runtime(format!(
            "t() expects a tensor with <= 2 dimensions, but self is {n}D"
        ))),
    }
}

pub(crate) fn expand(t: &Tensor, size: &[i64], _implicit: bool) -> Result<Tensor> {
    if size.len() < t.dim() {
        return Err(Error::runtime(format!(
            "expand({:?}, size={size:?}): the number of sizes provided ({}) must be greater or \
             equal to the number of dimensions in the tensor ({})",
            t.sizes(),
            size.len(),
            t.dim()
        )));
    }
    let lead = size.len() - t.dim();
    let rank = size.len();
    let (mut sizes, mut strides) = (Dims::from_elem(0, rank), Dims::from_elem(0, rank));
    for (i, want) in size.iter().enumerate().rev() {
        let own = i.checked_sub(lead).map(|k| (t.sizes()[k], t.strides()[k]));
        let (size, stride) = match (own, *want) {
            (None, -1) => {
                return Err(Error::runtime(format!(
                    "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {i}"
                )));
            }
            (_, w) if w < -1 => {
                return Err(Error::runtime(format!("expand: invalid size {w}")));
            }
            // a new dimension of size 1 steps over the ones behind it, as if it had been there
            (None, 1) if t.dim() > 0 => (1, i64::saturating_mul(sizes[i + 1], strides[i + 1])),
            (None, w) => (w, 0),
            (Some((s, st)), -1) => (s, st),
            (Some((s, st)), w) if s == w => (s, st),
            (Some((1, _)), w) => (w, 0),
            (Some((s, _)), w) => {
                return Err(Error::runtime(format!(
                    "The expanded size of the tensor ({w}) must match the existing size ({s}) at \
                     non-singleton dimension {i}.  Target sizes: {size:?}.  Tensor sizes: {:?}",
                    t.sizes()
                )));
            }
        };
        sizes[i] = size;
        strides[i] = if t.dim() == 0 { 0 } else { stride };
    }
    super::common::check_sizes(&sizes)?;
    Ok(t.with_geometry(sizes, strides, t.storage_offset()))
}

pub(crate) fn expand_as(t: &Tensor, other: &Tensor) -> Result<Tensor> {
    crate::ops::aten::expand(t, other.sizes(), false)
}

pub(crate) fn slice(
    t: &Tensor,
    dim: i64,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> Result<Tensor> {
    if t.dim() == 0 {
        return Err(Error::index("slice() cannot be applied to a 0-dim tensor."));
    }
    if step <= 0 {
        return Err(Error::runtime("slice step must be positive"));
    }
    let d = wrap_dim(dim, t.dim())?;
    let n = t.sizes()[d];
    let clip = |x: i64| (if x < 0 { x.saturating_add(n) } else { x }).clamp(0, n);
    let start = clip(start.unwrap_or(0));
    let end = clip(end.unwrap_or(i64::MAX)).max(start);
    let (mut sizes, mut strides) = (Dims::from_slice(t.sizes()), Dims::from_slice(t.strides()));
    sizes[d] = (end as u64 - start as u64).div_ceil(step as u64) as i64;
    // of no consequence where it saturates: there is one element then, or none
    strides[d] = strides[d].saturating_mul(step);
    let offset = t.storage_offset() + start * t.strides()[d];
    Ok(t.with_geometry(sizes, strides, offset))
}

pub(crate) fn narrow(t: &Tensor, dim: i64, start: i64, length: i64) -> Result<Tensor> {
    if t.dim() == 0 {
        return Err(Error::runtime(
            "narrow() cannot be applied to a 0-dim tensor.",
        ));
    }
    if length < 0 {
        return Err(Error::runtime("narrow(): length must be non-negative."));
    }
    let d = wrap_dim(dim, t.dim())?;
    let n = t.sizes()[d];
    if start < -n || start > n {
        return Err(Error::index(format!(
            "start out of range (expected to be in range of [{}, {n}], but got {start})",
            -n
        )));
    }
    let start = if start < 0 { start + n } else { start };
    if length > n - start {
        return Err(Error::runtime(format!(
            "start ({start}) + length ({length}) exceeds dimension size ({n})."
        )));
    }
    crate::ops::aten::slice_tensor(t, d as i64, Some(start), Some(start + length), 1)
}

pub(crate) fn select(t: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    if t.dim() == 0 {
        return Err(Error::index(
            "select() cannot be applied to a 0-dim tensor.",
        ));
    }
    let d = wrap_dim(dim, t.dim())?;
    let n = t.sizes()[d];
    if index < -n || index >= n {
        return Err(Error::index(format!(
            "select(): index {index} out of range for tensor of size {:?} at dimension {d}",
            t.sizes()
        )));
    }
    let index = if index < 0 { index + n } else { index };
    let offset = t.storage_offset() + index * t.strides()[d];
    let (mut sizes, mut strides) = (Dims::from_slice(t.sizes()), Dims::from_slice(t.strides()));
    sizes.remove(d);
    strides.remove(d);
    Ok(t.with_geometry(sizes, strides, offset))
}

fn squeeze_where(t: &Tensor, drop: impl Fn(usize) -> bool) -> Tensor {
    let (mut sizes, mut strides) = (Dims::new(), Dims::new());
    for d in 0..t.dim() {
        if !(t.sizes()[d] == 1 && drop(d)) {
            sizes.push(t.sizes()[d]);
            strides.push(t.strides()[d]);
        }
    }
    t.with_geometry(sizes, strides, t.storage_offset())
}

pub(crate) fn squeeze(t: &Tensor) -> Result<Tensor> {
    Ok(squeeze_where(t, |_| true))
}

pub(crate) fn squeeze_dim(t: &Tensor, dim: i64) -> Result<Tensor> {
    let d = wrap_dim(dim, t.dim())?;
    Ok(squeeze_where(t, |i| i == d))
}

pub(crate) fn squeeze_dims(t: &Tensor, dims: &[i64]) -> Result<Tensor> {
    if dims.is_empty() {
        return Ok(squeeze_where(t, |_| false));
    }
    let dims = wrap_dims(Some(dims), t.dim())?;
    Ok(squeeze_where(t, |i| dims.contains(&i)))
}

pub(crate) fn unsqueeze(t: &Tensor, dim: i64) -> Result<Tensor> {
    let d = wrap_dim(dim, t.dim() + 1)?;
    let (mut sizes, mut strides) = (Dims::from_slice(t.sizes()), Dims::from_slice(t.strides()));
    let stride = if d < t.dim() {
        sizes[d] * strides[d]
    } else {
        1
    };
    sizes.insert(d, 1);
    strides.insert(d, stride);
    Ok(t.with_geometry(sizes, strides, t.storage_offset()))
}

pub(crate) fn diagonal(t: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    let (a, b) = (wrap_dim(dim1, t.dim())?, wrap_dim(dim2, t.dim())?);
    if a == b {
        return Err(Error::runtime(format!(
            "diagonal dimensions cannot be identical {dim1}, {dim2}"
        )));
    }
    let (n, m) = (t.sizes()[a], t.sizes()[b]);
    let size = if offset >= 0 {
        n.min(m - offset)
    } else {
        (n + offset).min(m)
    }
    .max(0);
    let mut at = t.storage_offset();
    if size > 0 {
        at += if offset >= 0 {
            offset * t.strides()[b]
        } else {
            -offset * t.strides()[a]
        };
    }
    let (mut sizes, mut strides) = (Dims::new(), Dims::new());
    for d in (0..t.dim()).filter(|d| *d != a && *d != b) {
        sizes.push(t.sizes()[d]);
        strides.push(t.strides()[d]);
    }
    sizes.push(size);
    // where there are no elements the strides may be any
    strides.push(t.strides()[a].saturating_add(t.strides()[b]));
    Ok(t.with_geometry(sizes, strides, at))
}

pub(crate) fn as_strided(
    t: &Tensor,
    size: &[i64],
    stride: &[i64],
    offset: Option<i64>,
) -> Result<Tensor> {
    if size.len() != stride.len() {
        return Err(Error::runtime(format!(
            "mismatch in length of strides and shape: {} and {}",
            stride.len(),
            size.len()
        )));
    }
    super::common::check_sizes(size)?;
    if stride.iter().any(|s| *s < 0) {
        return Err(Error::runtime(
            "as_strided: Negative strides are not supported at the moment",
        ));
    }
    let offset = offset.unwrap_or(t.storage_offset());
    if offset < 0 {
        return Err(Error::runtime(format!(
            "as_strided: negative storage_offset {offset}"
        )));
    }
    let need = layout::storage_bytes(t.dtype().size(), size, stride, offset);
    let fits = need <= t.storage().bytes();
    if !fits {
        return Err(Error::runtime(format!(
            "setStorage: sizes {size:?}, strides {stride:?}, storage offset {offset}, and itemsize \
             {} are out of bounds for storage of size {}",
            t.dtype().size(),
            t.storage().bytes()
        )));
    }
    Ok(t.with_geometry(Dims::from_slice(size), Dims::from_slice(stride), offset))
}

/// Another handle with an identity of its own (`alias`, `detach`).
pub(crate) fn alias(t: &Tensor) -> Result<Tensor> {
    Ok(t.with_geometry(
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
    if sizes.iter().any(|s| *s < 0) || total != Some(n) {
        return Err(Error::runtime(format!(
            "split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at \
             dimension {d}), but got split_sizes={sizes:?}"
        )));
    }
    let mut at = 0;
    sizes
        .iter()
        .map(|size| {
            let part = crate::ops::aten::slice_tensor(t, d as i64, Some(at), Some(at + size), 1);
            at += size;
            part
        })
        .collect()
}

pub(crate) fn split(t: &Tensor, size: i64, dim: i64) -> Result<Vec<Tensor>> {
    let d = wrap_dim(dim, t.dim())?;
    let n = *t
        .sizes()
        .get(d)
        .ok_or_else(|| Error::runtime("split expects at least a 1-dimensional tensor"))?;
    if size < 0 || (size == 0 && n != 0) {
        return Err(Error::runtime(format!(
            "split expects split_size be non-negative, but got split_size={size}"
        )));
    }
    if size == 0 {
        return Ok(vec![crate::ops::aten::alias(t)?]);
    }
    let count = ((n as u64).div_ceil(size as u64) as i64).max(1);
    let sizes: Vec<i64> = (0..count).map(|i| size.min(n - i * size)).collect();
    split_sizes(t, &sizes, dim)
}

/// The sizes of so many chunks of an empty dimension.
pub(crate) fn empty_chunks(chunks: i64) -> Result<Vec<i64>> {
    // each one becomes a tensor
    if chunks > 1 << 24 {
        return Err(Error::runtime(format!("{chunks} chunks are too many")));
    }
    Ok(vec![0; chunks as usize])
}

pub(crate) fn chunk(t: &Tensor, chunks: i64, dim: i64) -> Result<Vec<Tensor>> {
    if t.dim() == 0 {
        return Err(Error::runtime(
            "chunk expects at least a 1-dimensional tensor",
        ));
    }
    if chunks <= 0 {
        return Err(Error::runtime(format!(
            "chunk expects `chunks` to be greater than 0, got: {chunks}"
        )));
    }
    let d = wrap_dim(dim, t.dim())?;
    let n = t.sizes()[d];
    let size = (n as u64).div_ceil(chunks as u64) as i64;
    if size == 0 {
        return split_sizes(t, &empty_chunks(chunks)?, dim);
    }
    split(t, size, dim)
}

pub(crate) fn unbind(t: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
    let d = wrap_dim(dim, t.dim())?;
    let n = *t
        .sizes()
        .get(d)
        .ok_or_else(|| Error::index("Dimension specified as 0 but tensor has no dimensions"))?;
    (0..n)
        .map(|i| crate::ops::aten::select_int(t, d as i64, i))
        .collect()
}

pub(crate) fn stack(tensors: &[Tensor], dim: i64) -> Result<Tensor> {
    let Some(first) = tensors.first() else {
        return Err(Error::runtime("stack expects a non-empty TensorList"));
    };
    if let Some((i, t)) = tensors
        .iter()
        .enumerate()
        .find(|(_, t)| t.sizes() != first.sizes())
    {
        return Err(Error::shape(format!(
            "stack expects each tensor to be equal size, but got {:?} at entry 0 and {:?} at entry {i}",
            first.sizes(),
            t.sizes()
        )));
    }
    let dim = wrap_dim(dim, first.dim() + 1)?;
    if dim < first.dim() {
        // as PyTorch, so that the result lies as that of `cat` does
        let mut sizes = Dims::from_slice(first.sizes());
        sizes.insert(dim, tensors.len() as i64);
        let all = crate::ops::aten::cat(tensors, dim as i64)?;
        return crate::ops::aten::view(&all, &sizes);
    }
    let dim = dim as i64;
    let parts = tensors
        .iter()
        .map(|t| crate::ops::aten::unsqueeze(t, dim))
        .collect::<Result<Vec<_>>>()?;
    crate::ops::aten::cat(&parts, dim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn view_strides_merge_and_split() {
        let s = |sizes: &[i64], strides: &[i64], to: &[i64]| {
            view_strides(sizes, strides, to).map(|d| d.to_vec())
        };
        assert_eq!(s(&[2, 3, 4], &[12, 4, 1], &[6, 4]), Some(vec![4, 1]));
        assert_eq!(s(&[6, 4], &[4, 1], &[2, 3, 4]), Some(vec![12, 4, 1]));
        assert_eq!(s(&[4, 3], &[1, 4], &[12]), None);
        assert_eq!(s(&[2, 3], &[6, 1], &[2, 1, 3]), Some(vec![6, 3, 1]));
        assert_eq!(s(&[], &[], &[1, 1]), Some(vec![1, 1]));
        assert_eq!(s(&[5], &[0], &[5, 1]), Some(vec![0, 0]));
    }
}
