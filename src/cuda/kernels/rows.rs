//! Rows that go to places of a tensor, added or put there: by a sort of the places, where there are many. Few
//! are left for loops, in which one thread goes through them all.

use super::{Call, Kernel, Made, contiguous, converted};
use crate::cuda::copy::program;
use crate::dispatch::Value;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Tensor, access};
use smallvec::SmallVec;
use straightline_catalog::{Arg, DType, Op, Scalar, args, layout};
use straightline_cuda::segments;

/// From so many places on, a sort is quicker than one thread.
const MANY: i64 = 256;

/// The kernel of an operator.
pub(super) fn of(op: Op) -> Option<Kernel> {
    Some(match op {
        Op::index_add | Op::index_copy => slices,
        Op::scatter_add | Op::scatter_src => scatter,
        Op::index_put => index_put,
        _ => return None,
    })
}

/// Whether all are within a size. Waits for the answer.
pub(super) fn within(index: &Tensor, low: i64, size: i64) -> Result<bool> {
    let above = aten::ge_scalar(index, Scalar::Int(low))?;
    let both = aten::logical_and(&above, &aten::lt_scalar(index, Scalar::Int(size))?)?;
    Ok(aten::item(&aten::all(&both)?)?.as_bool())
}

/// Moves rows of `width` elements into a dense tensor.
fn rows_into(
    call: &Call<'_>,
    add: bool,
    keys: &Tensor,
    rows: &Tensor,
    width: i64,
    out: &Tensor,
) -> Result<()> {
    let keys = aten::reshape(&contiguous(keys)?, &[-1])?;
    let (keys, order) = aten::sort_stable(&keys, Some(true), 0, false)?;
    let rows = contiguous(rows)?;
    let _held = access::write(out, &[&rows])?;
    let addresses = [
        rows.device_address()?,
        order.device_address()?,
        keys.device_address()?,
        out.device_address()?,
    ];
    let sizes = [keys.numel(), width];
    // SAFETY: the rows are as many as their keys, which are within the result; all of it serves others on
    // this stream later.
    unsafe { segments::rows_into(&call.stream()?, out.dtype(), add, sizes, addresses) }
        .map_err(program)
}

/// A dense copy.
pub(super) fn copied(call: &Call<'_>, x: &Tensor) -> Result<Tensor> {
    let out = call.dense(x.dtype(), x.sizes())?;
    aten::copy_(&out, x, false)
}

/// `index_add` and `index_copy`: slices along a dimension.
fn slices(call: &Call<'_>) -> Made {
    let read = match call.known {
        Op::index_add => call
            .read::<args::index_add<Tensor>>()
            .map(|a| (a.self_, a.dim, a.index, a.source, Some(a.alpha))),
        _ => call
            .read::<args::index_copy<Tensor>>()
            .map(|a| (a.self_, a.dim, a.index, a.source, None)),
    };
    let Some((x, dim, index, source, alpha)) = read else { return Ok(None) };
    let plain = segments::adds(x.dtype()) && x.dtype() == source.dtype() && x.dim() > 0;
    if !plain || index.numel() < MANY {
        return Ok(None);
    }
    let Some(wanted) = call.results() else { return Ok(None) };
    let dim = crate::ops::common::wrap_dim(dim, x.dim())?;
    let index = converted(&index, DType::I64)?;
    let Some(wanted) = wanted.first().filter(|_| source.dim() == x.dim()) else {
        return Ok(None);
    };
    if !within(&index, 0, x.sizes()[dim])? {
        return Ok(None);
    }
    // the dimension first, and back
    let mut first: SmallVec<[i64; 6]> = (0..x.dim() as i64).collect();
    first.remove(dim);
    first.insert(0, dim as i64);
    let mut back: SmallVec<[i64; 6]> = (1..x.dim() as i64).collect();
    back.insert(dim, 0);
    let out = copied(call, &aten::permute(&x, &first)?)?;
    let width = out.numel() / x.sizes()[dim].max(1);
    let mut rows = aten::permute(&source, &first)?;
    if let Some(alpha) = alpha.filter(|a| a.as_f64() != 1.0) {
        rows = aten::mul_scalar(&rows, alpha)?;
    }
    rows_into(call, alpha.is_some(), &index, &rows, width, &out)?;
    Ok(Some(vec![call.deliver(aten::permute(&out, &back)?, wanted)?]))
}

/// `scatter_add` and `scatter`: an element for each index.
fn scatter(call: &Call<'_>) -> Made {
    let read = match call.known {
        Op::scatter_add => {
            call.read::<args::scatter_add<Tensor>>().map(|a| (a.self_, a.dim, a.index, a.src, true))
        }
        _ => call
            .read::<args::scatter_src<Tensor>>()
            .map(|a| (a.self_, a.dim, a.index, a.src, false)),
    };
    let Some((x, dim, index, source, add)) = read else { return Ok(None) };
    let plain = segments::adds(x.dtype()) && x.dtype() == source.dtype() && x.dim() > 0;
    let same = plain && index.dim() == x.dim() && source.dim() == x.dim();
    let dim = match same {
        true => crate::ops::common::wrap_dim(dim, x.dim())?,
        false => return Ok(None),
    };
    // loops have a thread for each row of indices
    if index.sizes()[dim] < MANY {
        return Ok(None);
    }
    let Some(wanted) = call.results() else { return Ok(None) };
    let Some(wanted) = wanted.first() else { return Ok(None) };
    if !within(&index, 0, x.sizes()[dim])? {
        return Ok(None);
    }
    let strides = layout::contiguous_strides(x.sizes());
    let mut keys = aten::mul_scalar(&converted(&index, DType::I64)?, Scalar::Int(strides[dim]))?;
    let mut rows = source;
    for (d, size) in index.sizes().iter().enumerate() {
        rows = aten::narrow(&rows, d as i64, 0, *size)?;
        if d != dim {
            let mut sizes: SmallVec<[i64; 6]> = SmallVec::from_elem(1, x.dim());
            sizes[d] = *size;
            let (dtype, device) = (Some(DType::I64), Some(call.device));
            let of_dim = aten::arange(Scalar::Int(*size), dtype, None, device, None)?;
            let of_dim = aten::reshape(&of_dim, &sizes)?;
            keys = aten::add_tensor(&keys, &of_dim, Scalar::Int(strides[d]))?;
        }
    }
    let out = copied(call, &x)?;
    rows_into(call, add, &keys, &rows, 1, &out)?;
    Ok(Some(vec![call.deliver(out, wanted)?]))
}

/// `index_put` whose first dimensions have indices, and no masks.
fn index_put(call: &Call<'_>) -> Made {
    let (
        Some(Value::Tensor(x)),
        Some(Arg::Tensors(list)),
        [.., Value::Tensor(values), Value::Bool(add)],
    ) = (call.values.first(), call.args.get(1), call.values)
    else {
        return super::parts::masks(call);
    };
    let indices: Option<Vec<Tensor>> =
        list.iter().map(|i| i.map(|i| call.tensors[i as usize].clone())).collect();
    let integers = |t: &Tensor| matches!(t.dtype(), DType::I64 | DType::I32);
    let indices = indices.filter(|all| !all.is_empty() && all.iter().all(integers));
    let Some(indices) = indices.filter(|all| all.len() <= x.dim()) else {
        return super::parts::masks(call);
    };
    let all: Vec<&Tensor> = indices.iter().collect();
    let Ok(places) = crate::ops::common::broadcast(&all) else { return Ok(None) };
    let count: i64 = places.iter().product();
    let plain = segments::adds(x.dtype()) && x.dtype() == values.dtype();
    let (front, rest) = x.sizes().split_at(indices.len());
    let width: i64 = rest.iter().product();
    if !plain || count < MANY || width == 0 {
        return Ok(None);
    }
    let Some(wanted) = call.results() else { return Ok(None) };
    let Some(wanted) = wanted.first() else { return Ok(None) };
    let strides = layout::contiguous_strides(front);
    let mut keys: Option<Tensor> = None;
    for ((index, size), stride) in indices.iter().zip(front).zip(strides.iter()) {
        if !within(index, -size, *size)? {
            return Ok(None);
        }
        let index = aten::remainder_scalar(&converted(index, DType::I64)?, Scalar::Int(*size))?;
        let part = aten::mul_scalar(&index, Scalar::Int(*stride))?;
        keys = Some(match keys {
            None => part,
            Some(keys) => aten::add_tensor(&keys, &part, Scalar::Int(1))?,
        });
    }
    let Some(keys) = keys else { return Ok(None) };
    let keys = aten::expand(&keys, &places, false)?;
    let sizes: Vec<i64> = places.iter().chain(rest).copied().collect();
    let rows = aten::expand(values, &sizes, false)?;
    let out = copied(call, x)?;
    rows_into(call, *add, &keys, &rows, width, &out)?;
    Ok(Some(vec![call.deliver(out, wanted)?]))
}
