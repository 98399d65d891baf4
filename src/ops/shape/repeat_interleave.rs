//! Elements repeated in place: `repeat_interleave`.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::{needs_data, wrap_dim};
use crate::ops::copy;
use crate::ops::index::search::vector;
use crate::tensor::Tensor;
use straightline_catalog::{DType, Dims, layout};

/// `repeats[i]` times `i`, for each place `i`.
pub(crate) fn repeat_interleave(repeats: &Tensor, output_size: Option<i64>) -> Result<Tensor> {
    ensure_not_implemented!(
        repeats.dtype().is_integral(),
        "\"repeat_interleave\" not implemented for {}",
        repeats.dtype().torch_name()
    );
    ensure!(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
    if let (Some(n), false) = (output_size, repeats.storage().has_data()) {
        return Tensor::allocate_contiguous(repeats.dtype(), repeats.device(), &[n]);
    }
    needs_data("repeat_interleave", repeats)?;
    let counts = copy::to_dtype(repeats, DType::I64)?.to_vec::<i64>()?;
    ensure!(counts.iter().all(|c| *c >= 0), "repeats can not be negative");
    let total = (counts.iter()).fold(0i64, |n, c| n.saturating_add(*c));
    ensure!(output_size.is_none_or(|n| n == total), "allocated size does not match required size");
    // refuses what memory has no room for
    drop(Tensor::allocate_contiguous(DType::I64, repeats.device(), &[total])?);
    let mut out = Vec::with_capacity(total as usize);
    for (i, c) in counts.iter().enumerate() {
        out.extend(std::iter::repeat_n(i as i64, *c as usize));
    }
    copy::to_dtype(&vector(&out, &[total])?, repeats.dtype())
}

pub(crate) fn repeat_interleave_self_tensor(
    x: &Tensor,
    repeats: &Tensor,
    dim: Option<i64>,
    output_size: Option<i64>,
) -> Result<Tensor> {
    let (x, dim) = match dim {
        Some(dim) => (x.clone(), dim),
        None => (aten::reshape(x, &[-1])?, 0),
    };
    let d = wrap_dim(dim, x.dim())?;
    let size = x.sizes().get(d).copied().unwrap_or(1);
    let repeats = if repeats.dim() == 0 || (repeats.dim() == 1 && repeats.sizes()[0] == 1) {
        aten::expand(&aten::reshape(repeats, &[1])?, &[size], false)?
    } else if repeats.dim() == 1 {
        ensure!(
            repeats.sizes()[0] == size,
            "repeats must have the same size as input along dim, but got repeats.size(0) = {} and input.size({d}) = {size}",
            repeats.sizes()[0]
        );
        repeats.clone()
    } else {
        return Err(Error::runtime("repeats must be 0-dim or 1-dim tensor"));
    };
    let places = aten::repeat_interleave_tensor(&repeats, output_size)?;
    let places = match places.dtype() {
        DType::I64 | DType::I32 => places,
        _ => aten::to_dtype(&places, DType::I64, false, false, None)?,
    };
    aten::index_select(&x, dim, &places)
}

pub(crate) fn repeat_interleave_self_int(
    x: &Tensor,
    repeats: i64,
    dim: Option<i64>,
    output_size: Option<i64>,
) -> Result<Tensor> {
    let (x, dim) = match dim {
        Some(dim) if x.dim() > 0 => (x.clone(), dim),
        Some(dim) => {
            wrap_dim(dim, 0)?;
            (aten::reshape(x, &[-1])?, 0)
        }
        None => (aten::reshape(x, &[-1])?, 0),
    };
    let d = wrap_dim(dim, x.dim())?;
    ensure!(repeats >= 0, "Repeats must be non-negative");
    if let Some(n) = output_size
        && repeats.checked_mul(x.sizes()[d]) != Some(n)
    {
        return Err(Error::runtime("allocated size does not match required size"));
    }
    let mut sizes = Dims::from_slice(x.sizes());
    sizes.insert(d + 1, repeats);
    let spread = aten::expand(&aten::unsqueeze(&x, d as i64 + 1)?, &sizes, false)?;
    let spread = aten::clone(&spread, Some(straightline_catalog::MemoryFormat::Contiguous))?;
    sizes.remove(d + 1);
    sizes[d] *= repeats;
    debug_assert_eq!(layout::numel(&sizes), spread.numel());
    aten::view(&spread, &sizes)
}
