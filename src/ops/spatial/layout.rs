//! Memory formats of results, and tensors seen as planes.

use super::super::copy;
use super::check;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use straightline_catalog::{DType, Dims, layout};
use straightline_runtime::cpu::kernels::spatial::Planes;

/// Row-major, or with the channels innermost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Contiguous,
    ChannelsLast,
}

impl Format {
    /// c10's `suggest_memory_format`, for tensors of rank 4 and 5.
    pub(super) fn of(t: &Tensor) -> Format {
        if (t.dim() == 4 || t.dim() == 5) && strides_are_channels_last(t.sizes(), t.strides()) {
            Format::ChannelsLast
        } else {
            Format::Contiguous
        }
    }

    /// As [`Format::of`], for tensors of one rank only.
    pub(super) fn of_rank(t: &Tensor, rank: usize) -> Format {
        if t.dim() == rank {
            Format::of(t)
        } else {
            Format::Contiguous
        }
    }

    pub(super) fn strides(self, sizes: &[i64]) -> Dims {
        match self {
            Format::Contiguous => layout::contiguous_strides(sizes),
            Format::ChannelsLast => {
                let rank = sizes.len();
                let mut out = Dims::from_elem(0, rank);
                let mut next = 1;
                for d in std::iter::once(1).chain((2..rank).rev()).chain([0]) {
                    out[d] = next;
                    next *= sizes[d].max(1);
                }
                out
            }
        }
    }
}

/// c10's `is_channels_last_strides_2d` and `_3d`: ambiguous strides count as row-major.
fn strides_are_channels_last(sizes: &[i64], strides: &[i64]) -> bool {
    let rank = sizes.len();
    if strides[1] == 0 {
        return false;
    }
    let mut min = 0;
    for d in std::iter::once(1).chain((2..rank).rev()).chain([0]) {
        if sizes[d] == 0 || strides[d] < min || (d == 0 && min == strides[1]) {
            return false;
        }
        min = strides[d];
        if sizes[d] > 1 {
            min *= sizes[d];
        }
    }
    true
}

/// A fresh result in a memory format; `compute` fills a row-major tensor of its sizes, and is not
/// called where there is nothing to fill.
pub(super) fn result(
    like: &Tensor,
    sizes: &[i64],
    format: Format,
    compute: impl FnOnce(&Tensor) -> Result<()>,
) -> Result<Tensor> {
    super::super::common::check_sizes(sizes)?;
    let strides = format.strides(sizes);
    let out = Tensor::allocate(
        like.dtype(),
        like.device(),
        Dims::from_slice(sizes),
        strides,
    )?;
    if !out.storage().has_data() || out.numel() == 0 {
        return Ok(out);
    }
    if out.is_contiguous() {
        compute(&out)?;
    } else {
        let rows = Tensor::allocate_contiguous(like.dtype(), like.device(), sizes)?;
        compute(&rows)?;
        copy_over(&out, &rows)?;
    }
    Ok(out)
}

/// Copies into a fresh tensor of the same dtype and sizes.
pub(super) fn copy_over(out: &Tensor, from: &Tensor) -> Result<()> {
    copy::copy_into_fresh(&mut out.clone(), from)
}

/// A row-major tensor as planes of its last `spatial` dimensions, and how many there are.
pub(super) fn planes(t: &Tensor, spatial: usize) -> Result<(usize, Planes)> {
    debug_assert!(t.is_contiguous());
    let lead = t.dim() - spatial;
    let planes = Planes {
        ptr: t.data_ptr()?,
        dtype: t.dtype(),
        len: layout::numel(&t.sizes()[lead..]) as usize,
    };
    Ok((layout::numel(&t.sizes()[..lead]) as usize, planes))
}

/// A row-major form of an operand, whose memory kernels may read.
pub(super) fn operand(t: &Tensor) -> Result<Tensor> {
    copy::to_contiguous(t)
}

/// The last `spatial` sizes, three of them: missing ones in front are 1.
pub(super) fn volume(t: &Tensor, spatial: usize) -> [usize; 3] {
    let mut out = [1; 3];
    let sizes = &t.sizes()[t.dim() - spatial..];
    for (o, s) in out[3 - spatial..].iter_mut().zip(sizes) {
        *o = *s as usize;
    }
    out
}

/// The sizes of `t` with the last ones replaced.
pub(super) fn with_spatial(t: &Tensor, spatial: &[i64]) -> Dims {
    let mut sizes = Dims::from_slice(&t.sizes()[..t.dim() - spatial.len()]);
    sizes.extend(spatial.iter().copied());
    sizes
}

/// Floating-point dtypes only.
pub(super) fn check_floating(what: &str, t: &Tensor) -> Result<()> {
    check_dtype(what, t, t.dtype().is_floating())
}

pub(super) fn check_dtype(what: &str, t: &Tensor, allowed: bool) -> Result<()> {
    if allowed {
        return Ok(());
    }
    Err(Error::not_implemented(format!(
        "{what}: not implemented for {}",
        t.dtype().torch_name()
    )))
}

pub(super) fn check_same_dtype(what: &str, a: &Tensor, b: &Tensor) -> Result<()> {
    if a.dtype() == b.dtype() {
        return Ok(());
    }
    Err(Error::dtype(format!(
        "{what}: expected dtype {} for the gradient but got dtype {}",
        b.dtype(),
        a.dtype()
    )))
}

/// `spatial` dimensions behind a channel, and perhaps a batch that may be empty; nothing else may
/// be.
pub(super) fn check_input(what: &str, t: &Tensor, spatial: usize) -> Result<()> {
    let rank = t.dim();
    let batched = rank == spatial + 2;
    let full = t.sizes().iter().skip(usize::from(batched)).all(|s| *s > 0);
    check!(
        (batched || rank == spatial + 1) && full,
        "{what}: Expected {}D or {}D (batch mode) tensor with optional 0 dim batch size for input, but got: {:?}",
        spatial + 1,
        spatial + 2,
        t.sizes()
    );
    Ok(())
}

/// The gradient of a result has the result's sizes.
pub(super) fn check_grad(what: &str, grad: &Tensor, sizes: &[i64]) -> Result<()> {
    check!(
        grad.sizes() == sizes,
        "{what}: Expected grad_output to have sizes {sizes:?}, but got {:?}",
        grad.sizes()
    );
    Ok(())
}

/// Indices are `i64`.
pub(super) fn check_indices(what: &str, indices: &Tensor, sizes: &[i64]) -> Result<()> {
    if indices.dtype() != DType::I64 {
        return Err(Error::dtype(format!(
            "{what}: elements in indices should be type int64 but got: {}",
            indices.dtype().torch_name()
        )));
    }
    check!(
        indices.sizes() == sizes,
        "{what}: Expected shape of indices to be {sizes:?} but got: {:?}",
        indices.sizes()
    );
    Ok(())
}
