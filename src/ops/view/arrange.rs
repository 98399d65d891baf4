//! Views beside the everyday ones, the inverses of views (`*_scatter`), and the functional forms of
//! operators that overwrite.

use crate::dispatch::grad_enabled;
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::wrap_dim;
use crate::ops::copy::{clone_with_strides, copy_, fill};
use crate::ops::view;
use crate::tensor::Tensor;
use crate::tensor::history::Kind;
use straightline_catalog::{DType, Dims, Scalar};

// ---- views ------------------------------------------------------------------------------------

/// The same bytes as elements of another dtype.
pub(crate) fn view_dtype(t: &Tensor, dtype: DType) -> Result<Tensor> {
    let from = t.dtype();
    if from == dtype {
        return view::alias(t);
    }
    ensure!(
        !t.has_math_bits(),
        "torch.Tensor.view is not supported for tensors with negative bit set when converting \
             to a different dtype."
    );
    ensure_not_implemented!(
        dtype != DType::Bool,
        "bytes of {from} cannot be seen as bool, which has two values only: compare with 0"
    );
    let (mut sizes, mut strides) = (Dims::from_slice(t.sizes()), Dims::from_slice(t.strides()));
    let mut offset = t.storage_offset();
    let (old, new) = (from.size() as i64, dtype.size() as i64);
    if old != new {
        let what = || {
            format!(
                "to view {} as {} (different element sizes)",
                from.torch_name(),
                dtype.torch_name()
            )
        };
        let Some(last) = t.dim().checked_sub(1) else {
            return Err(Error::runtime(format!("self.dim() cannot be 0 {}", what())));
        };
        ensure!(
            strides[last] == 1,
            "self.stride(-1) must be 1 {}, but got {}",
            what(),
            strides[last]
        );
        if old > new {
            let ratio = old / new;
            sizes[last] *= ratio;
            strides[..last].iter_mut().for_each(|s| *s *= ratio);
            offset *= ratio;
        } else {
            let ratio = new / old;
            let divides = |n: i64, what_of: String| match n % ratio {
                0 => Ok(n / ratio),
                _ => Err(Error::runtime(format!(
                    "{what_of} must be divisible by {ratio} {}, but got {n}",
                    what()
                ))),
            };
            sizes[last] = divides(sizes[last], "self.size(-1)".into())?;
            offset = divides(offset, "self.storage_offset()".into())?;
            for (d, s) in strides[..last].iter_mut().enumerate() {
                *s = divides(*s, format!("self.stride({d})"))?;
            }
        }
    }
    let storage = t.storage().clone();
    let other = Tensor::build(storage, dtype, t.device(), &sizes, &strides, offset);
    Ok(other.into_view_of(t, Kind::DType, grad_enabled()))
}

pub(crate) fn movedim(t: &Tensor, source: &[i64], destination: &[i64]) -> Result<Tensor> {
    ensure!(
        source.len() == destination.len(),
        "movedim: Invalid source or destination dims: source ({source:?} dims) should contain \
             the same number of dims as destination ({destination:?} dims)"
    );
    let distinct = |dims: &[i64], name: &str| -> Result<Vec<usize>> {
        let mut out = Vec::new();
        for d in dims {
            let d = wrap_dim(*d, t.dim())?;
            ensure!(!out.contains(&d), "movedim: repeated dim in `{name}` ({dims:?})");
            out.push(d);
        }
        Ok(out)
    };
    let (from, to) = (distinct(source, "source")?, distinct(destination, "destination")?);
    if t.dim() == 0 {
        return aten::alias(t);
    }
    let mut rest = (0..t.dim()).filter(|d| !from.contains(d));
    let order: Vec<i64> = (0..t.dim())
        .filter_map(|d| match to.iter().position(|x| *x == d) {
            Some(i) => Some(from[i] as i64),
            None => rest.next().map(|d| d as i64),
        })
        .collect();
    aten::permute(t, &order)
}

fn split_dim(t: &Tensor, dim: i64) -> Result<(i64, i64)> {
    ensure!(
        t.dim() != 0,
        "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
    );
    let d = wrap_dim(dim, t.dim())?;
    Ok((d as i64, t.sizes()[d]))
}

/// `sections` parts, the first ones longer by one where the size does not divide.
pub(crate) fn tensor_split_sections(t: &Tensor, sections: i64, dim: i64) -> Result<Vec<Tensor>> {
    let (d, n) = split_dim(t, dim)?;
    ensure!(sections > 0, "number of sections must be larger than 0, got {sections}");
    let (size, longer) = (n / sections, n % sections);
    let mut parts = Vec::new();
    // parts without elements are parts too, of which there may be more than fit into memory
    if parts.try_reserve_exact(usize::try_from(sections).unwrap_or(usize::MAX)).is_err() {
        return Err(Error::runtime(format!("no memory for {sections} sections")));
    }
    let mut at = 0;
    for i in 0..sections {
        let end = at + size + i64::from(i < longer);
        parts.push(aten::slice_tensor(t, d, Some(at), Some(end), 1)?);
        at = end;
    }
    Ok(parts)
}

/// Parts between the indices.
pub(crate) fn tensor_split_indices(t: &Tensor, indices: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    let (d, n) = split_dim(t, dim)?;
    let mut at = 0;
    indices
        .iter()
        .chain([&n])
        .map(|end| {
            let part = aten::slice_tensor(t, d, Some(at), Some(*end), 1);
            at = *end;
            part
        })
        .collect()
}

// ---- inverses of views ------------------------------------------------------------------------

/// A copy of `t` with `src` written into a view of it.
fn scatter(
    t: &Tensor,
    src: &Tensor,
    view: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let out = clone_with_strides(t)?;
    let view = view(&out)?;
    ensure_shape!(
        view.sizes() == src.sizes(),
        "expected src to have a size equal to the slice of self. src size = {:?}, slice size = {:?}",
        src.sizes(),
        view.sizes()
    );
    copy_(&view, src, false)?;
    Ok(out)
}

/// Functional write into a slice of a dimension: the inverse of `slice`.
pub(crate) fn slice_scatter(
    t: &Tensor,
    src: &Tensor,
    dim: i64,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> Result<Tensor> {
    scatter(t, src, |t| view::slice(t, dim, start, end, step))
}

/// Functional write at an index of a dimension: the inverse of `select`.
pub(crate) fn select_scatter(t: &Tensor, src: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    scatter(t, src, |t| view::select(t, dim, index))
}

/// Functional write of a diagonal: the inverse of `diagonal`.
pub(crate) fn diagonal_scatter(
    t: &Tensor,
    src: &Tensor,
    offset: i64,
    dim1: i64,
    dim2: i64,
) -> Result<Tensor> {
    scatter(t, src, |t| view::diagonal(t, offset, dim1, dim2))
}

/// Functional write of the elements at strided places of the storage: the inverse of `as_strided`.
pub(crate) fn as_strided_scatter(
    t: &Tensor,
    src: &Tensor,
    size: &[i64],
    stride: &[i64],
    offset: Option<i64>,
) -> Result<Tensor> {
    let at = offset.unwrap_or(t.storage_offset()) - t.storage_offset();
    // where the copy lies in its storage is for the copy to say
    scatter(t, src, |copy| view::as_strided(copy, size, stride, Some(at + copy.storage_offset())))
}

// ---- overwriting ------------------------------------------------------------------------------

/// The functional form of `zero_`.
pub(crate) fn zero(t: &Tensor) -> Result<Tensor> {
    fill(t, Scalar::Int(0))
}

pub(crate) fn fill_tensor_(t: &Tensor, value: &Tensor) -> Result<Tensor> {
    ensure!(
        value.dim() == 0,
        "fill_ only supports 0-dimension value tensor but got tensor with {} dimensions.",
        value.dim()
    );
    copy_(t, value, false)
}

/// The functional form of `fill_.Tensor`.
pub(crate) fn fill_tensor(t: &Tensor, value: &Tensor) -> Result<Tensor> {
    fill_tensor_(&fresh_like(t)?, value)
}

/// Fresh memory like `t`.
fn fresh_like(t: &Tensor) -> Result<Tensor> {
    let strides = crate::ops::copy::format_strides(t, None)?;
    Tensor::allocate(t.dtype(), t.device(), Dims::from_slice(t.sizes()), strides)
}
