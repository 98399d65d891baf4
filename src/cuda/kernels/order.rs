//! Sorting, and what a sort finds.

use super::{Call, Made, Rows, contiguous};
use crate::cuda::copy::program;
use crate::dispatch::Value;
use crate::error::Result;
use crate::tensor::{Tensor, access};
use straightline_catalog::{DType, Op, args};
use straightline_cuda::sort::{self as kernels, Choice, Order};

/// Places are numbers of 32 bits.
fn fits(rows: &Rows) -> bool {
    kernels::sorts(rows.tensor.dtype()) && rows.length < 1 << 32
}

fn of(rows: &Rows) -> kernels::Rows {
    kernels::Rows { dtype: rows.tensor.dtype(), rows: rows.rows, length: rows.length }
}

/// The first `keep` of each row in an order, and their places.
fn sorted(call: &Call<'_>, rows: &Rows, order: Order) -> Result<[Tensor; 2]> {
    let sizes = rows.sizes(order.keep);
    let values = call.dense(rows.tensor.dtype(), &sizes)?;
    let indices = call.dense(DType::I64, &sizes)?;
    let to = [values.device_address()?, indices.device_address()?];
    let _held = access::read(&[&rows.tensor])?;
    // SAFETY: the rows are held, the results are fresh, and all of it serves others on this stream later.
    unsafe { kernels::sort(&call.stream()?, rows.tensor.device_address()?, of(rows), order, to) }
        .map_err(program)?;
    Ok([values, indices])
}

fn in_order(call: &Call<'_>, x: &Tensor, dim: i64, descending: bool, keep: Option<i64>) -> Made {
    let Some(wanted) = call.results() else { return Ok(None) };
    let rows = Rows::new(x, dim)?;
    let keep = keep.unwrap_or(rows.length);
    // of no dimension there is one element, whatever `keep` says
    if !fits(&rows) || (x.dim() == 0 && keep != 1) {
        return Ok(None);
    }
    let made = sorted(call, &rows, Order { descending, keep })?;
    let back = |(t, m): (&Tensor, _)| call.deliver(rows.back(t)?, m);
    made.iter().zip(&wanted).map(back).collect::<Result<Vec<Value>>>().map(Some)
}

/// Sorts that need not be stable are so all the same.
pub(super) fn sort(call: &Call<'_>) -> Made {
    if let Some(a) = call.read::<args::sort<Tensor>>().filter(|_| call.known == Op::sort) {
        return in_order(call, &a.self_, a.dim, a.descending, None);
    }
    let Some(a) = call.read::<args::sort_stable<Tensor>>() else { return Ok(None) };
    in_order(call, &a.self_, a.dim, a.descending, None)
}

pub(super) fn topk(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::topk<Tensor>>() else { return Ok(None) };
    in_order(call, &a.self_, a.dim, a.largest, Some(a.k))
}

/// One element of each row, and its place.
fn chosen(call: &Call<'_>, rows: &Rows, choice: Choice, sizes: [&[i64]; 2]) -> Result<[Tensor; 2]> {
    let values = call.dense(rows.tensor.dtype(), sizes[0])?;
    let indices = call.dense(DType::I64, sizes[1])?;
    let to = [values.device_address()?, indices.device_address()?];
    let _held = access::read(&[&rows.tensor])?;
    // SAFETY: as for `sorted`; there is one element for each row.
    unsafe {
        kernels::choose(&call.stream()?, rows.tensor.device_address()?, of(rows), choice, to)
    }
    .map_err(program)?;
    Ok([values, indices])
}

/// `kthvalue`, medians and modes along a dimension.
pub(super) fn along(call: &Call<'_>) -> Made {
    let Some(wanted) = call.results() else { return Ok(None) };
    let read = match call.known {
        Op::kthvalue => {
            (call.read::<args::kthvalue<Tensor>>()).map(|a| (a.self_, a.dim, Choice::Kth(a.k - 1)))
        }
        Op::median_dim => {
            (call.read::<args::median_dim<Tensor>>()).map(|a| (a.self_, a.dim, Choice::Median))
        }
        Op::nanmedian_dim => (call.read::<args::nanmedian_dim<Tensor>>())
            .map(|a| (a.self_, a.dim, Choice::NanMedian)),
        _ => call.read::<args::mode<Tensor>>().map(|a| (a.self_, a.dim, Choice::Mode)),
    };
    let Some((x, dim, choice)) = read else { return Ok(None) };
    let rows = Rows::new(&x, dim)?;
    let [of_values, of_indices] = &wanted[..] else { return Ok(None) };
    if !fits(&rows) || rows.length == 0 {
        return Ok(None);
    }
    let made = chosen(call, &rows, choice, [&of_values.sizes, &of_indices.sizes])?;
    let deliver = |(t, m): (Tensor, _)| call.deliver(t, m);
    made.into_iter().zip(&wanted).map(deliver).collect::<Result<Vec<Value>>>().map(Some)
}

/// Medians of all elements.
pub(super) fn of_all(call: &Call<'_>) -> Made {
    let [x] = &call.tensors[..] else { return Ok(None) };
    let Some(wanted) = call.results() else { return Ok(None) };
    let rows = Rows { tensor: contiguous(x)?, dim: 0, rows: 1, length: x.numel() };
    if !fits(&rows) || rows.length == 0 || wanted.len() != 1 {
        return Ok(None);
    }
    let choice = if call.known == Op::median { Choice::Median } else { Choice::NanMedian };
    let [value, _] = chosen(call, &rows, choice, [&[], &[]])?;
    Ok(Some(vec![Value::Tensor(value)]))
}
