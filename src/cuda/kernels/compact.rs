//! What data decides the size of: places of what is not zero, groups of equal elements; counts and places in
//! sorted rows.

use super::{Call, Made, contiguous, converted};
use crate::cuda::copy::program;
use crate::dispatch::Value;
use crate::error::Result;
use crate::ops::aten;
use crate::ops::common::{broadcast, promote};
use crate::ops::index::search::histogram_edges;
use crate::tensor::{Tensor, access};
use straightline_catalog::{DType, Dims, Op, Scalar, args};
use straightline_cuda::compact::{self as kernels, Search, Trues};
use straightline_cuda::segments;

fn flat(x: &Tensor) -> Result<Tensor> {
    aten::reshape(&contiguous(x)?, &[-1])
}

/// The places of what is not zero, of the flat tensor. Waits for their number.
fn places(call: &Call<'_>, x: &Tensor) -> Result<Option<Tensor>> {
    if !kernels::looks_at(x.dtype()) {
        return Ok(None);
    }
    let x = contiguous(x)?;
    let _held = access::read(&[&x])?;
    let (stream, from) = (call.stream()?, x.device_address()?);
    // SAFETY: the tensor is held, and its memory serves others on this stream later.
    let trues = unsafe { Trues::count(&stream, x.dtype(), from, x.numel()) }.map_err(program)?;
    let out = call.dense(DType::I64, &[trues.total()])?;
    // SAFETY: as above; there is room for them.
    unsafe { trues.places(&stream, out.device_address()?) }.map_err(program)?;
    Ok(Some(out))
}

pub(super) fn nonzero(call: &Call<'_>) -> Made {
    let [x] = &call.tensors[..] else { return Ok(None) };
    if x.dim() > kernels::DIMENSIONS {
        return Ok(None);
    }
    let Some(places) = places(call, x)? else { return Ok(None) };
    let (n, rank) = (places.numel(), x.dim() as i64);
    let out = call.dense(DType::I64, &[rank, n])?;
    let addresses = [places.device_address()?, out.device_address()?];
    // SAFETY: both are of these sizes and serve others on this stream later.
    unsafe { kernels::coordinates(&call.stream()?, x.sizes(), n, addresses) }.map_err(program)?;
    // column by column in memory, as on the CPU
    let sizes = Dims::from_slice(&[n, rank]);
    let out = out.with_geometry(sizes, Dims::from_slice(&[1, n]), 0);
    Ok(Some(vec![Value::Tensor(out)]))
}

pub(super) fn masked_select(call: &Call<'_>) -> Made {
    let [x, mask] = &call.tensors[..] else { return Ok(None) };
    if mask.dtype() != DType::Bool {
        return Ok(None);
    }
    let Ok(sizes) = broadcast(&[x, mask]) else { return Ok(None) };
    let Some(places) = places(call, &aten::expand(mask, &sizes, false)?)? else { return Ok(None) };
    let of = flat(&aten::expand(x, &sizes, false)?)?;
    Ok(Some(vec![Value::Tensor(aten::index_select(&of, 0, &places)?)]))
}

/// Elements of a flat tensor put at places, of which no two are one.
fn put(call: &Call<'_>, source: &Tensor, places: &Tensor, out: &Tensor) -> Result<()> {
    let _held = access::write(out, &[source, places])?;
    let addresses = [source.device_address()?, places.device_address()?, out.device_address()?];
    // SAFETY: all are held and without gaps; the places are within the result.
    unsafe { kernels::put(&call.stream()?, source.dtype(), places.numel(), addresses) }
        .map_err(program)
}

pub(super) fn masked_scatter(call: &Call<'_>) -> Made {
    let [x, mask, source] = &call.tensors[..] else { return Ok(None) };
    if mask.dtype() != DType::Bool || x.dtype() != source.dtype() {
        return Ok(None);
    }
    let Ok(sizes) = broadcast(&[x, mask]) else { return Ok(None) };
    let Some(places) = places(call, &aten::expand(mask, &sizes, false)?)? else { return Ok(None) };
    if places.numel() > source.numel() {
        return Ok(None);
    }
    let out = call.dense(x.dtype(), &sizes)?;
    aten::copy_(&out, &aten::expand(x, &sizes, false)?, false)?;
    put(call, &flat(source)?, &places, &out)?;
    Ok(Some(vec![Value::Tensor(out)]))
}

/// Equal neighbours of a flat tensor as groups: where each begins, and the group of each element.
fn groups(call: &Call<'_>, x: &Tensor) -> Result<Option<[Tensor; 2]>> {
    let n = x.numel();
    let heads = call.dense(DType::Bool, &[n])?;
    aten::fill_scalar_(&heads, Scalar::Bool(true))?;
    let (left, right) = (aten::narrow(x, 0, 0, n - 1)?, aten::narrow(x, 0, 1, n - 1)?);
    aten::copy_(&aten::narrow(&heads, 0, 1, n - 1)?, &aten::ne_tensor(&right, &left)?, false)?;
    let Some(begins) = places(call, &heads)? else { return Ok(None) };
    let of = aten::cumsum(&heads, 0, None)?;
    Ok(Some([begins, aten::sub_scalar(&of, Scalar::Int(1), Scalar::Int(1))?]))
}

/// Differences of neighbours, the last one to `n`.
fn lengths(call: &Call<'_>, begins: &Tensor, n: i64) -> Result<Tensor> {
    let count = begins.numel();
    let ends = call.dense(DType::I64, &[count])?;
    aten::fill_scalar_(&ends, Scalar::Int(n))?;
    let next = aten::narrow(begins, 0, 1, count - 1)?;
    aten::copy_(&aten::narrow(&ends, 0, 0, count - 1)?, &next, false)?;
    aten::sub_tensor(&ends, begins, Scalar::Int(1))
}

/// Groups of equal elements, of all or of neighbours, and what is wanted to be known of them.
pub(super) fn unique(call: &Call<'_>) -> Made {
    let read = match call.known {
        Op::_unique2 => call
            .read::<args::_unique2<Tensor>>()
            .map(|a| (a.self_, a.return_inverse, a.return_counts, true)),
        Op::_unique => {
            call.read::<args::_unique<Tensor>>().map(|a| (a.self_, a.return_inverse, false, true))
        }
        _ => call
            .read::<args::unique_consecutive<Tensor>>()
            .filter(|a| a.dim.is_none())
            .map(|a| (a.self_, a.return_inverse, a.return_counts, false)),
    };
    let Some((x, inverse, counts, sorted)) = read else { return Ok(None) };
    if x.numel() == 0 || !straightline_cuda::sort::sorts(x.dtype()) {
        return Ok(None);
    }
    let row = flat(&x)?;
    let (row, order) = match sorted {
        true => aten::sort_stable(&row, Some(true), 0, false).map(|(v, i)| (v, Some(i)))?,
        false => (row, None),
    };
    let Some([begins, of]) = groups(call, &row)? else { return Ok(None) };
    let nothing = || call.dense(DType::I64, &[0]);
    let inverse = match (inverse, order) {
        (false, _) => nothing()?,
        (true, None) => aten::reshape(&of, x.sizes())?,
        (true, Some(order)) => {
            let out = call.dense(DType::I64, x.sizes())?;
            put(call, &of, &order, &out)?;
            out
        }
    };
    let values = aten::index_select(&row, 0, &begins)?;
    let mut made = vec![values, inverse];
    if call.known != Op::_unique {
        made.push(if counts { lengths(call, &begins, x.numel())? } else { nothing()? });
    }
    Ok(Some(made.into_iter().map(Value::Tensor).collect()))
}

/// The places where values would be put into sorted rows, of `i64`.
pub(super) fn search(
    call: &Call<'_>,
    rows: &Tensor,
    sorter: Option<&Tensor>,
    values: &Tensor,
    right: bool,
) -> Result<Tensor> {
    let out = call.dense(DType::I64, values.sizes())?;
    let per_row = match rows.dim() {
        1 => 0,
        _ => values.sizes().last().copied().unwrap_or(1),
    };
    let length = rows.sizes().last().copied().unwrap_or(1);
    let how = Search { floats: rows.dtype() == DType::F64, length, per_row, right };
    let _held = access::read(&[rows, values])?;
    let sorter = sorter.map_or(Ok(0), Tensor::device_address)?;
    let addresses =
        [rows.device_address()?, sorter, values.device_address()?, out.device_address()?];
    // SAFETY: all are held, or this call's own, and without gaps.
    unsafe { kernels::search(&call.stream()?, how, values.numel(), addresses) }.map_err(program)?;
    Ok(out)
}

/// The dtype that elements are compared in.
fn wide(dtype: DType) -> Option<DType> {
    match dtype {
        DType::Bool => None,
        _ if dtype.is_floating() => Some(DType::F64),
        _ if dtype.is_integral() => Some(DType::I64),
        _ => None,
    }
}

/// Elements as of a dtype, and then as of the one that they are compared in.
fn bring(x: &Tensor, common: DType, wide: DType) -> Result<Tensor> {
    contiguous(&converted(&converted(x, common)?, wide)?)
}

pub(super) fn searchsorted(call: &Call<'_>) -> Made {
    if call.results().is_none() {
        return Ok(None);
    }
    let number = |n: Scalar| Tensor::wrapped_number(n);
    let read = match call.known {
        Op::searchsorted_Tensor => call.read::<args::searchsorted_Tensor<Tensor>>().map(|a| {
            let right = a.right || a.side.as_deref() == Some("right");
            (a.sorted_sequence, a.self_, a.out_int32, right, a.sorter)
        }),
        Op::searchsorted_Scalar => match call.read::<args::searchsorted_Scalar<Tensor>>() {
            Some(a) => {
                let right = a.right || a.side.as_deref() == Some("right");
                Some((a.sorted_sequence, number(a.self_)?, a.out_int32, right, a.sorter))
            }
            None => None,
        },
        Op::bucketize_Tensor => call
            .read::<args::bucketize_Tensor<Tensor>>()
            .map(|a| (a.boundaries, a.self_, a.out_int32, a.right, None)),
        _ => match call.read::<args::bucketize_Scalar<Tensor>>() {
            Some(a) => Some((a.boundaries, number(a.self_)?, a.out_int32, a.right, None)),
            None => None,
        },
    };
    let Some((rows, values, narrow, right, sorter)) = read else { return Ok(None) };
    let common = promote(&[&rows, &values])?;
    let Some(wide) = wide(common) else { return Ok(None) };
    let sorter = sorter.as_ref().map(contiguous).transpose()?;
    if let Some(sorter) = sorter.as_ref().filter(|s| s.numel() > 0) {
        let length = rows.sizes().last().copied().unwrap_or(1);
        let low = aten::ge_scalar(sorter, Scalar::Int(0))?;
        let within = aten::logical_and(&low, &aten::lt_scalar(sorter, Scalar::Int(length))?)?;
        if !aten::item(&aten::all(&within)?)?.as_bool() {
            return Ok(None);
        }
    }
    // a number is on the CPU
    let values = match values.device().is_cpu() {
        true => bring(&values, common, wide)?.to_device(call.device)?,
        false => bring(&values, common, wide)?,
    };
    let found = search(call, &bring(&rows, common, wide)?, sorter.as_ref(), &values, right)?;
    let dtype = if narrow { DType::I32 } else { DType::I64 };
    Ok(Some(vec![Value::Tensor(converted(&found, dtype)?)]))
}

/// Membership: whether there is anything between the places before and behind equal elements.
pub(super) fn isin(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::isin_Tensor_Tensor<Tensor>>() else { return Ok(None) };
    if call.results().is_none() || a.elements.numel() == 0 || a.test_elements.numel() == 0 {
        return Ok(None);
    }
    let common = promote(&[&a.elements, &a.test_elements])?;
    let Some(wide) = wide(common) else { return Ok(None) };
    let mut tests = flat(&bring(&a.test_elements, common, wide)?)?;
    if wide == DType::F64 {
        // no NaN is equal to another
        tests = aten::masked_select(&tests, &aten::eq_tensor(&tests, &tests)?)?;
    }
    let (tests, _) = aten::sort_stable(&tests, Some(true), 0, false)?;
    let elements = bring(&a.elements, common, wide)?;
    let [before, behind] = [
        search(call, &tests, None, &elements, false)?,
        search(call, &tests, None, &elements, true)?,
    ];
    let found = match a.invert {
        false => aten::ne_tensor(&before, &behind)?,
        true => aten::eq_tensor(&before, &behind)?,
    };
    Ok(Some(vec![Value::Tensor(found)]))
}

/// How often there is each of the integers below `bins`.
pub(super) fn counts(call: &Call<'_>, x: &Tensor, bins: i64) -> Result<Tensor> {
    let out = call.dense(DType::I64, &[bins])?;
    let _held = access::read(&[x])?;
    let (from, to) = (x.device_address()?, out.device_address()?);
    // SAFETY: there are so many, and room for the counts.
    unsafe { kernels::count_integers(&call.stream()?, from, x.numel(), to, bins) }
        .map_err(program)?;
    Ok(out)
}

/// What brings keys into ascending order, and where in it those begin that are each of `0..count`, and the one
/// beyond.
pub(super) fn order_by(call: &Call<'_>, keys: &Tensor, count: i64) -> Result<(Tensor, Tensor)> {
    let (sorted, order) = aten::sort_stable(keys, Some(true), 0, false)?;
    let (dtype, device) = (Some(DType::I64), Some(call.device));
    let begins = aten::arange(Scalar::Int(count + 1), dtype, None, device, None)?;
    Ok((order, search(call, &sorted, None, &begins, false)?))
}

/// The sums of rows that go to each of `0..count`, in the order of the rows.
pub(super) fn sums_by(
    call: &Call<'_>,
    to: &Tensor,
    count: i64,
    rows: &Tensor,
    width: i64,
) -> Result<Tensor> {
    let (order, begins) = order_by(call, to, count)?;
    let out = call.dense(rows.dtype(), &[count, width])?;
    let _held = access::read(&[rows])?;
    let addresses = [
        rows.device_address()?,
        order.device_address()?,
        begins.device_address()?,
        out.device_address()?,
    ];
    // SAFETY: the rows are as many as their places; the others are this call's own.
    unsafe { segments::sums(&call.stream()?, rows.dtype(), [count, width], addresses) }
        .map_err(program)?;
    Ok(out)
}

pub(super) fn bincount(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::bincount<Tensor>>() else { return Ok(None) };
    let (x, weights) = (a.self_, a.weights);
    let apart = weights.as_ref().is_some_and(|w| w.sizes() != x.sizes() || w.dtype().is_complex());
    if a.minlength < 0 || x.dim() != 1 || !x.dtype().is_integral() || x.numel() == 0 || apart {
        return Ok(None);
    }
    let x = contiguous(&converted(&x, DType::I64)?)?;
    let least = aten::item(&aten::amin(&x, &[], false)?)?.as_i64();
    let most = aten::item(&aten::amax(&x, &[], false)?)?.as_i64();
    // of more there is no room, as the kernel of the CPU says
    if least < 0 || most >= 1 << 40 {
        return Ok(None);
    }
    let bins = (most + 1).max(a.minlength);
    let Some(weights) = weights else {
        return Ok(Some(vec![Value::Tensor(counts(call, &x, bins)?)]));
    };
    let dtype = if weights.dtype() == DType::F32 { DType::F32 } else { DType::F64 };
    let weights = contiguous(&converted(&weights, dtype)?)?;
    let sums = sums_by(call, &x, bins, &weights, 1)?;
    Ok(Some(vec![Value::Tensor(aten::reshape(&sums, &[bins])?)]))
}

/// Counts between edges: places among them, and how often there is each.
pub(super) fn histc(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::histc<Tensor>>() else { return Ok(None) };
    let Some(wanted) = call.results() else { return Ok(None) };
    let Some(wanted) = wanted.first() else { return Ok(None) };
    let x = flat(&converted(&a.self_, DType::F64)?)?;
    let (mut low, mut high) = (a.min.as_f64(), a.max.as_f64());
    if low == high && x.numel() > 0 {
        low = aten::item(&aten::amin(&x, &[], false)?)?.as_f64();
        high = aten::item(&aten::amax(&x, &[], false)?)?.as_f64();
    }
    let Ok(edges) = histogram_edges(wanted.dtype, a.bins, low, high) else { return Ok(None) };
    let last = edges.last().copied().unwrap_or(high);
    let edges = Tensor::from_vec(edges, -1)?.to_device(call.device)?;
    let found = search(call, &edges, None, &x, true)?;
    // what is the last edge is in the last bin; what is beyond, or no number, is in none
    let found = aten::sub_scalar(&found, Scalar::Int(1), Scalar::Int(1))?;
    let bins = aten::clamp(&found, None, Some(Scalar::Int(a.bins - 1)))?;
    let outside = aten::logical_not(&aten::le_scalar(&x, Scalar::Float(last))?)?;
    let bins = aten::masked_fill_scalar(&bins, &outside, Scalar::Int(-1))?;
    let counts = counts(call, &contiguous(&bins)?, a.bins)?;
    Ok(Some(vec![Value::Tensor(converted(&counts, wanted.dtype)?)]))
}

/// Gradients of embeddings: the sums of the rows of each word.
pub(super) fn embedding_dense_backward(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::embedding_dense_backward<Tensor>>() else { return Ok(None) };
    let Some(wanted) = call.results() else { return Ok(None) };
    let (Some(wanted), width) = (wanted.first(), a.grad_output.sizes().last().copied()) else {
        return Ok(None);
    };
    let plain = a.indices.dtype().is_integral() && segments::adds(a.grad_output.dtype());
    let Some(width) = width.filter(|_| plain && !a.scale_grad_by_freq) else { return Ok(None) };
    let words = flat(&converted(&a.indices, DType::I64)?)?;
    let rows = contiguous(&a.grad_output)?;
    if words.numel() == 0 || rows.numel() != words.numel() * width {
        return Ok(None);
    }
    // the word that has no gradient is beyond all
    let words = match a.padding_idx {
        none if none < 0 => words,
        none => {
            let padding = aten::eq_scalar(&words, Scalar::Int(none))?;
            aten::masked_fill_scalar(&words, &padding, Scalar::Int(a.num_weights))?
        }
    };
    let sums = sums_by(call, &words, a.num_weights, &rows, width)?;
    Ok(Some(vec![call.deliver(sums, wanted)?]))
}
