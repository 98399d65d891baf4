//! Fresh results in their memory formats, how kernels fill them, and sizes.

use super::check;
use crate::error::{Error, Result};
use crate::ops::copy;
use crate::tensor::{Tensor, launch};
use straightline_catalog::{DType, Dims, layout};
use straightline_runtime::cpu::kernels::{In, Out};

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
        if t.dim() == rank { Format::of(t) } else { Format::Contiguous }
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

/// A fresh tensor in a memory format, and what `compute` returns, which fills a row-major tensor of
/// its sizes.
fn fresh<R>(
    like: &Tensor,
    dtype: DType,
    sizes: &[i64],
    format: Format,
    compute: impl FnOnce(&mut Tensor) -> Result<R>,
) -> Result<(Tensor, R)> {
    crate::ops::common::check_sizes(sizes)?;
    let strides = format.strides(sizes);
    let mut out = Tensor::allocate(dtype, like.device(), Dims::from_slice(sizes), strides)?;
    if out.is_contiguous() {
        let computed = compute(&mut out)?;
        return Ok((out, computed));
    }
    let mut rows = Tensor::allocate_contiguous(dtype, like.device(), sizes)?;
    let computed = compute(&mut rows)?;
    copy::copy_into_fresh(&mut out, &rows)?;
    Ok((out, computed))
}

/// Row-major forms of operands.
pub(super) fn row_major<const N: usize>(operands: [&Tensor; N]) -> Result<[Tensor; N]> {
    let mut rows = operands.map(Tensor::clone);
    for t in &mut rows {
        *t = copy::to_contiguous(t)?;
    }
    Ok(rows)
}

/// A fresh result of these sizes in a memory format. The kernel gets everything row-major, and is
/// not run where there is nothing to fill.
pub(super) fn result<const N: usize>(
    like: &Tensor,
    sizes: &[i64],
    format: Format,
    operands: [&Tensor; N],
    kernel: impl for<'g> FnOnce(Out<'g>, [In<'g>; N]) -> Result<()>,
) -> Result<Tensor> {
    let (out, ()) = fresh(like, like.dtype(), sizes, format, |out| match out.numel() {
        0 => Ok(()),
        _ => launch::run(out, row_major(operands)?.each_ref(), kernel),
    })?;
    Ok(out)
}

/// A tensor that is never read.
pub(super) fn unfilled(
    like: &Tensor,
    dtype: DType,
    sizes: &[i64],
    format: Format,
) -> Result<Tensor> {
    crate::ops::common::check_sizes(sizes)?;
    Tensor::allocate(dtype, like.device(), Dims::from_slice(sizes), format.strides(sizes))
}

/// As [`result`], with indices in the same format.
pub(super) fn with_indices<const N: usize>(
    like: &Tensor,
    sizes: &[i64],
    format: Format,
    operands: [&Tensor; N],
    kernel: impl for<'g> FnOnce([Out<'g>; 2], [In<'g>; N]) -> Result<()>,
) -> Result<(Tensor, Tensor)> {
    let (indices, (out, ())) = fresh(like, DType::I64, sizes, format, |indices| {
        fresh(like, like.dtype(), sizes, format, |out| match out.numel() {
            0 => Ok(()),
            _ => launch::run([out, indices], row_major(operands)?.each_ref(), kernel),
        })
    })?;
    Ok((out, indices))
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
    Err(Error::not_implemented(format!("{what}: not implemented for {}", t.dtype().torch_name())))
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
