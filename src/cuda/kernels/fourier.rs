//! Fourier transforms.

use super::{Call, Kernel, Made, contiguous, converted};
use crate::cuda::copy::program;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Tensor, access};
use smallvec::SmallVec;
use straightline_catalog::{DType, Op, TensorMeta, args};
use straightline_cuda::fourier::{self as kernels, Rows};

/// The kernel of an operator.
pub(super) fn of(op: Op) -> Option<Kernel> {
    Some(match op {
        Op::_fft_c2c => complex,
        Op::_fft_r2c => from_real,
        Op::_fft_c2r => to_real,
        _ => return None,
    })
}

/// The factor of PyTorch's `fft_norm_mode`: none, by the root of the number of elements, by the number.
fn factor(mode: i64, count: i64) -> f64 {
    match mode {
        0 => 1.0,
        1 => 1.0 / (count as f64).sqrt(),
        _ => 1.0 / count as f64,
    }
}

/// A dimension last, and the order that puts it back.
fn last(x: &Tensor, dim: usize) -> Result<(Tensor, SmallVec<[i64; 6]>)> {
    let rank = x.dim() as i64;
    let mut back: SmallVec<[i64; 6]> = (0..rank - 1).collect();
    back.insert(dim, rank - 1);
    Ok((aten::permute(x, &super::last(x, dim))?, back))
}

/// The transform along a dimension.
fn along(call: &Call<'_>, x: &Tensor, dim: usize, forward: bool, scale: f64) -> Result<Tensor> {
    let (x, back) = last(x, dim)?;
    let x = contiguous(&x)?;
    let (y, scratch) = (call.dense(x.dtype(), x.sizes())?, call.dense(x.dtype(), x.sizes())?);
    let length = x.sizes().last().copied().unwrap_or(1);
    let r = Rows { dtype: x.dtype(), rows: x.numel() / length.max(1), length };
    {
        let _held = access::read(&[&x])?;
        let addresses = [x.device_address()?, y.device_address()?, scratch.device_address()?];
        // SAFETY: the operand is held, the others are fresh; all are as large, without gaps.
        unsafe { kernels::transform(&call.stream()?, r, forward, scale, addresses) }
            .map_err(program)?;
    }
    aten::permute(&y, &back)
}

/// The dimensions, each of them once.
fn dims(x: &Tensor, dims: &[i64]) -> Result<Option<SmallVec<[usize; 4]>>> {
    let mut all = SmallVec::new();
    for d in dims {
        let d = crate::ops::common::wrap_dim(*d, x.dim())?;
        if all.contains(&d) {
            return Ok(None);
        }
        all.push(d);
    }
    Ok(Some(all))
}

/// What all transforms have: a result of one type, dimensions, a dtype that there are kernels for.
fn known(
    call: &Call<'_>,
    x: &Tensor,
    of: &[i64],
) -> Result<Option<(TensorMeta, SmallVec<[usize; 4]>)>> {
    let Some(wanted) = call.results() else { return Ok(None) };
    let computed = kernels::computes(x.dtype()) || kernels::computes(x.dtype().to_complex());
    let (Some(wanted), true) = (wanted.into_iter().next(), computed && x.numel() > 0) else {
        return Ok(None);
    };
    let Some(dims) = dims(x, of)?.filter(|all| !all.is_empty()) else { return Ok(None) };
    Ok(Some((wanted, dims)))
}

fn complex(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::_fft_c2c<Tensor>>() else { return Ok(None) };
    let Some((wanted, dims)) = known(call, &a.self_, &a.dim)? else { return Ok(None) };
    let count = dims.iter().map(|d| a.self_.sizes()[*d]).product();
    let (mut x, mut scale) = (a.self_, factor(a.normalization, count));
    for d in dims {
        x = along(call, &x, d, a.forward, scale)?;
        scale = 1.0;
    }
    Ok(Some(vec![call.deliver(x, &wanted)?]))
}

fn from_real(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::_fft_r2c<Tensor>>() else { return Ok(None) };
    let Some((wanted, dims)) = known(call, &a.self_, &a.dim)? else { return Ok(None) };
    let Some((end, others)) = dims.split_last() else { return Ok(None) };
    if !matches!(a.self_.dtype(), DType::F32 | DType::F64) {
        return Ok(None);
    }
    let count = dims.iter().map(|d| a.self_.sizes()[*d]).product();
    let x = converted(&a.self_, wanted.dtype)?;
    let mut x = along(call, &x, *end, true, factor(a.normalization, count))?;
    if a.onesided {
        x = aten::narrow(&x, *end as i64, 0, wanted.sizes[*end])?;
    }
    for d in others {
        x = along(call, &x, *d, true, 1.0)?;
    }
    Ok(Some(vec![call.deliver(x, &wanted)?]))
}

fn to_real(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::_fft_c2r<Tensor>>() else { return Ok(None) };
    let Some((wanted, dims)) = known(call, &a.self_, &a.dim)? else { return Ok(None) };
    let Some((end, others)) = dims.split_last() else { return Ok(None) };
    let length = a.last_dim_size;
    let count = others.iter().map(|d| a.self_.sizes()[*d]).product::<i64>() * length;
    let mut x = a.self_;
    for d in others {
        x = along(call, &x, *d, false, 1.0)?;
    }
    let (half, back) = last(&x, *end)?;
    let half = contiguous(&half)?;
    let mut sizes = SmallVec::<[i64; 6]>::from_slice(half.sizes());
    if let Some(n) = sizes.last_mut() {
        *n = length;
    }
    let whole = call.dense(half.dtype(), &sizes)?;
    let r = Rows { dtype: half.dtype(), rows: whole.numel() / length.max(1), length };
    {
        let _held = access::read(&[&half])?;
        let addresses = [half.device_address()?, whole.device_address()?];
        // SAFETY: the operand is held and has the half of the fresh one's rows, both without gaps.
        unsafe { kernels::whole_of_half(&call.stream()?, r, addresses) }.map_err(program)?;
    }
    let at = whole.dim() - 1;
    let x = along(call, &whole, at, false, factor(a.normalization, count))?;
    let x = aten::permute(&converted(&x, wanted.dtype)?, &back)?;
    Ok(Some(vec![call.deliver(x, &wanted)?]))
}
