//! Operators that change the shape of their argument and none of its elements, and those that ask
//! for its shape and dtype.
//!
//! Under capture the first kind never gets here: functionalisation takes the view operator of the
//! same name and gives its result's place to the argument (`modes::functionalize::reshape`).

use crate::error::{Error, Result};
use crate::ops::common::{check_sizes, promote, wrap_dim};
use crate::ops::copy;
use crate::ops::foreign::is_foreign;
use crate::ops::nn::channels::suggested_format;
use crate::ops::view;
use crate::tensor::Tensor;
use straightline_catalog::{DType, MemoryFormat, layout};

/// Gives `t` the place of its view `v`.
fn adopt(t: &Tensor, v: &Tensor) -> Result<Tensor> {
    check_plain(t)?;
    t.set_geometry(v.sizes(), v.strides(), v.storage_offset())?;
    Ok(t.clone())
}

/// Only tensors in our own memory change their shape.
fn check_plain(t: &Tensor) -> Result<()> {
    match t.kind_without_memory() {
        Some((what, _)) => Err(Error::not_implemented(format!(
            "the shape of a tensor that is {what} cannot change in place: use the operator without `_`"
        ))),
        None if is_foreign(t) => Err(Error::not_implemented(format!(
            "what lies in a tensor on `{}` is known to its backend only, and its shape cannot change in place without it: \
             register a kernel for this operator at the device's key, as `dispatch::wrapped_views` does, or use the operator \
             without `_`",
            t.device()
        ))),
        None => Ok(()),
    }
}

pub(crate) fn resize_(t: &Tensor, size: &[i64], format: Option<MemoryFormat>) -> Result<Tensor> {
    check_sizes(size)?;
    check_plain(t)?;
    ensure!(format != Some(MemoryFormat::Preserve), "Unsupported memory format Preserve");
    if t.sizes() != size {
        let strides = layout::contiguous_strides(size);
        t.set_geometry(size, &strides, t.storage_offset())?;
    }
    restride(t, format)
}

/// New strides of a memory format, where one is given.
fn restride(t: &Tensor, format: Option<MemoryFormat>) -> Result<Tensor> {
    if let Some(format) = format {
        if is_foreign(t) {
            let strides = copy::format_strides(t, Some(format))?;
            return crate::ops::aten::as_strided_(t, t.sizes(), &strides, None);
        }
        let strides = copy::format_strides(t, Some(format))?;
        t.set_geometry(t.sizes(), &strides, t.storage_offset())?;
    }
    Ok(t.clone())
}

pub(crate) fn resize_as_(
    t: &Tensor,
    template: &Tensor,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let t = crate::ops::aten::resize_(t, template.sizes(), None)?;
    match format {
        Some(MemoryFormat::Preserve) => restride(&t, Some(suggested_format(template))),
        format => restride(&t, format),
    }
}

pub(crate) fn t_(t: &Tensor) -> Result<Tensor> {
    ensure!(t.dim() <= 2, "t_() expects a tensor with <= 2 dimensions, but self is {}D", t.dim());
    adopt(t, &view::t(t)?)
}

pub(crate) fn transpose_(t: &Tensor, a: i64, b: i64) -> Result<Tensor> {
    adopt(t, &view::transpose(t, a, b)?)
}

pub(crate) fn squeeze_(t: &Tensor) -> Result<Tensor> {
    adopt(t, &view::squeeze(t)?)
}

pub(crate) fn squeeze_dim_(t: &Tensor, dim: i64) -> Result<Tensor> {
    adopt(t, &view::squeeze_dim(t, dim)?)
}

pub(crate) fn squeeze_dims_(t: &Tensor, dims: &[i64]) -> Result<Tensor> {
    adopt(t, &view::squeeze_dims(t, dims)?)
}

pub(crate) fn unsqueeze_(t: &Tensor, dim: i64) -> Result<Tensor> {
    adopt(t, &view::unsqueeze(t, dim)?)
}

pub(crate) fn as_strided_(
    t: &Tensor,
    size: &[i64],
    stride: &[i64],
    offset: Option<i64>,
) -> Result<Tensor> {
    adopt(t, &view::as_strided(t, size, stride, offset)?)
}

pub(crate) fn detach_(t: &Tensor) -> Result<Tensor> {
    Ok(t.clone())
}

pub(crate) fn set_source_tensor_(t: &Tensor, source: &Tensor) -> Result<Tensor> {
    check_plain(t)?;
    check_plain(source)?;
    ensure_dtype!(
        t.dtype() == source.dtype(),
        "Could not set tensor of type {} to a tensor of type {}",
        source.dtype().torch_name(),
        t.dtype().torch_name()
    );
    ensure_device!(
        t.device() == source.device(),
        "Could not set tensor of device {} to a tensor of device {}",
        source.device(),
        t.device()
    );
    if !t.same_handle(source) {
        t.replace_geometry(
            source.storage().clone(),
            source.sizes(),
            source.strides(),
            source.storage_offset(),
        )?;
    }
    Ok(t.clone())
}

pub(crate) fn reshape_alias(t: &Tensor, size: &[i64], stride: &[i64]) -> Result<Tensor> {
    view::as_strided(t, size, stride, Some(t.storage_offset()))
}

pub(crate) fn size(t: &Tensor, dim: i64) -> Result<i64> {
    of_dim(t, t.sizes(), dim)
}

pub(crate) fn stride(t: &Tensor, dim: i64) -> Result<i64> {
    of_dim(t, t.strides(), dim)
}

fn of_dim(t: &Tensor, of: &[i64], dim: i64) -> Result<i64> {
    let at = wrap_dim(dim, t.dim())?;
    of.get(at).copied().ok_or_else(|| {
        Error::index(format!("Dimension specified as {dim} but tensor has no dimensions"))
    })
}

pub(crate) fn numel(t: &Tensor) -> Result<i64> {
    Ok(t.numel())
}

pub(crate) fn dim(t: &Tensor) -> Result<i64> {
    Ok(t.dim() as i64)
}

pub(crate) fn storage_offset(t: &Tensor) -> Result<i64> {
    Ok(t.storage_offset())
}

pub(crate) fn is_contiguous(t: &Tensor) -> Result<bool> {
    Ok(t.is_contiguous())
}

/// Whether the elements lie in the order of the format without gaps.
pub(crate) fn sym_is_contiguous(t: &Tensor, format: MemoryFormat) -> Result<bool> {
    let rank = match format {
        MemoryFormat::Contiguous => return Ok(t.is_contiguous()),
        MemoryFormat::ChannelsLast => 4,
        MemoryFormat::ChannelsLast3d => 5,
        MemoryFormat::Preserve => {
            return Err(Error::runtime("is_contiguous(): Unsupported memory format Preserve"));
        }
    };
    if t.dim() != rank {
        return Ok(false);
    }
    let want = copy::format_strides(t, Some(format))?;
    Ok((t.sizes().iter().zip(t.strides()).zip(&want)).all(|((n, s), w)| *n == 1 || s == w))
}

/// The dtype that arithmetic on the two tensors computes in.
pub(crate) fn result_type(tensor: &Tensor, other: &Tensor) -> Result<DType> {
    promote(&[tensor, other])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::aten;

    #[test]
    fn bare_numbers_yield() {
        let x = Tensor::from_vec([1f32], 1).unwrap();
        let n = Tensor::from_vec([1i64], 1).unwrap();
        let one = Tensor::wrapped_number(1.5).unwrap();
        let of = |a, b| aten::result_type_tensor(a, b).unwrap();
        assert_eq!(of(&x, &n), DType::F32);
        assert_eq!(of(&n, &one), DType::F32);
        assert_eq!(of(&n, &Tensor::wrapped_number(2).unwrap()), DType::I64);
    }
}
