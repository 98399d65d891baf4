//! Running sums, products and extremes.

use super::{Call, Made, Rows, contiguous, converted};
use crate::cuda::copy::program;
use crate::dispatch::Value;
use crate::error::Result;
use crate::tensor::{Tensor, access};
use straightline_catalog::{DType, Op, args};
use straightline_cuda::scan::{self as kernels, Extents, Running};

pub(super) fn scan(call: &Call<'_>) -> Made {
    let Some(wanted) = call.results() else { return Ok(None) };
    let read = match call.known {
        Op::cumsum => call.read::<args::cumsum<Tensor>>().map(|a| (a.self_, a.dim, Running::Sum)),
        Op::cumprod => {
            call.read::<args::cumprod<Tensor>>().map(|a| (a.self_, a.dim, Running::Product))
        }
        Op::cummax => {
            call.read::<args::cummax<Tensor>>().map(|a| (a.self_, a.dim, Running::Largest))
        }
        Op::cummin => {
            call.read::<args::cummin<Tensor>>().map(|a| (a.self_, a.dim, Running::Smallest))
        }
        _ => {
            call.read::<args::logcumsumexp<Tensor>>().map(|a| (a.self_, a.dim, Running::LogSumExp))
        }
    };
    let (Some((x, dim, running)), Some(first)) = (read, wanted.first()) else { return Ok(None) };
    if x.dtype().is_complex() || !kernels::scans(running, first.dtype) {
        return Ok(None);
    }
    let x = converted(&x, first.dtype)?;
    let at = crate::ops::common::wrap_dim(dim, x.dim())?;
    let product = |sizes: &[i64]| sizes.iter().product::<i64>();
    let extents = match x.dim() {
        0 => Extents { before: 1, length: 1, behind: 1 },
        _ => Extents {
            before: product(&x.sizes()[..at]),
            length: x.sizes()[at],
            behind: product(&x.sizes()[at + 1..]),
        },
    };
    // few long rows that are not dense are made so
    let rows = match extents.fits() {
        true => None,
        false => Some(Rows::new(&x, dim)?),
    };
    let (source, extents) = match &rows {
        None => (contiguous(&x)?, extents),
        Some(r) => (r.tensor.clone(), Extents { before: r.rows, length: r.length, behind: 1 }),
    };
    let values = call.dense(first.dtype, source.sizes())?;
    let indices = match wanted.len() {
        1 => None,
        _ => Some(call.dense(DType::I64, source.sizes())?),
    };
    let places = indices.as_ref().map_or(Ok(0), Tensor::device_address)?;
    let to = [values.device_address()?, places];
    {
        let _held = access::read(&[&source])?;
        let from = source.device_address()?;
        // SAFETY: the source is held, the results are fresh and as large; all of it serves others on this
        // stream later.
        unsafe { kernels::scan(&call.stream()?, running, first.dtype, extents, from, to) }
            .map_err(program)?;
    }
    let back = |(t, m): (Tensor, _)| {
        let t = rows.as_ref().map_or_else(|| Ok(t.clone()), |r| r.back(&t))?;
        call.deliver(t, m)
    };
    let made = std::iter::once(values).chain(indices).zip(&wanted).map(back);
    made.collect::<Result<Vec<Value>>>().map(Some)
}
