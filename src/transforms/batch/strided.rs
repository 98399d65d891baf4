//! Operators that say where in its memory a tensor's elements lie.
//!
//! What such an operator is told is true of each sample, whose strides are those of the batch and
//! whose place is that of the first sample. The samples lie apart from each other, by a stride of
//! their own.

use super::given::{Call, Results};
use crate::dispatch::Value;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::layout;

fn one(t: Tensor) -> Result<Option<Results>> {
    Ok(Some(vec![t.into()]))
}

/// With one more number in front.
fn after(first: i64, others: &[i64]) -> Vec<i64> {
    std::iter::once(first).chain(others.iter().copied()).collect()
}

pub(super) fn as_strided(call: &Call<'_>) -> Result<Option<Results>> {
    let (value, Some(bdim)) = call.inside(call.tensor(0)?) else { return Ok(None) };
    let sizes = after(call.size, &call.ints(1)?);
    let strides = after(value.strides()[bdim], &call.ints(2)?);
    // where the first sample begins is where the batched tensor says that it begins
    let offset = match call.args.get(3) {
        Some(Value::Int(n)) => *n,
        _ => value.offset(),
    };
    one(aten::as_strided(&value, &sizes, &strides, Some(offset))?)
}

/// `(self, src, size, stride, storage_offset)`.
pub(super) fn as_strided_scatter(call: &Call<'_>) -> Result<Option<Results>> {
    let t = call.tensor(0)?;
    let (size, stride) = (call.ints(2)?, call.ints(3)?);
    // from the first element of a sample
    let at = match call.args.get(4) {
        Some(Value::Int(n)) => *n - t.offset(),
        _ => 0,
    };
    let Some(reach) = layout::checked_extent(&size, &stride, 0) else { return Ok(None) };
    let reach = at.saturating_add(reach as i64);
    let overlaps = layout::may_overlap(t.sizes(), t.strides());
    let fits = |value: &Tensor| {
        let apart = call.size < 2 || value.strides()[0] >= reach;
        at >= 0 && apart && !overlaps && value.strides()[1..] == *t.strides()
    };
    let mut value = call.expanded(t)?;
    if !fits(&value) {
        value = laid_out(&value, (t.sizes(), t.strides()), overlaps, at, reach)?;
    }
    let (sizes, strides) = (after(call.size, &size), after(value.strides()[0], &stride));
    let (src, place) = (call.expanded(call.tensor(1)?)?, value.offset() + at);
    one(aten::as_strided_scatter(&value, &src, &sizes, &strides, Some(place))?)
}

/// A copy whose samples have the strides that they had, and room for what is from `at` to `reach`,
/// counted from the first element of each.
fn laid_out(
    value: &Tensor,
    (sizes, strides): (&[i64], &[i64]),
    overlaps: bool,
    at: i64,
    reach: i64,
) -> Result<Tensor> {
    let strides = match overlaps {
        // elements that lie upon each other are not copied as they lie
        true => layout::contiguous_strides(sizes).to_vec(),
        false => strides.to_vec(),
    };
    let own = layout::storage_extent(sizes, &strides, 0);
    let before = (-at).max(0);
    let room = before + own.max(reach).max(1);
    let memory = aten::new_zeros(value, &[value.sizes()[0], room], None, None, None, None)?;
    let (sizes, strides) = (after(value.sizes()[0], sizes), after(room, &strides));
    let place = Some(memory.offset() + before);
    aten::copy_(&aten::as_strided(&memory, &sizes, &strides, place)?, value, false)
}

pub(super) fn new_empty_strided(call: &Call<'_>) -> Result<Option<Results>> {
    let (sizes, strides) = (call.ints(1)?, call.ints(2)?);
    let Some(extent) = layout::checked_extent(&sizes, &strides, 0) else { return Ok(None) };
    let mut args = call.mapped(|t| call.front_or_own(t))?;
    args[1] = Value::IntList(after(call.size, &sizes));
    args[2] = Value::IntList(after(extent as i64, &strides));
    call.again(args).map(Some)
}
