//! Writing through a view: from the new value of a view to the new value of its base.

use super::kernels::retry_with_storage;
use super::leaves;
use super::storage::{FunctionalStorage, Layout, Update, ViewStep};
use crate::dispatch::{Value, operator};
use crate::error::{Error, Result};
use crate::modes::outside;
use crate::ops::aten;
use crate::ops::view::view_strides;
use crate::tensor::Tensor;
use std::ops::Range;
use straightline_passes::ir::{MemoryFormat, layout};

/// One result of a view operator with several, as a view of its own: the step that is replayed.
///
/// `layouts` are those of all results.
pub(super) fn single(step: ViewStep, layouts: &[Layout]) -> Result<ViewStep> {
    let name = step.op.name().to_string();
    let (op, rest) = match name.as_str() {
        "aten::split.Tensor" | "aten::split_with_sizes" => {
            let dim = int(step.args.get(2)).unwrap_or(0);
            let rank = layouts[step.output].sizes.len() as i64;
            let at = dim.rem_euclid(rank.max(1)) as usize;
            let size = |l: &Layout| l.sizes.get(at).copied().unwrap_or(0);
            let start: i64 = layouts[..step.output].iter().map(size).sum();
            let end = start + size(&layouts[step.output]);
            let range = [dim, start, end, 1].map(Value::Int);
            ("aten::slice.Tensor", range.to_vec())
        }
        "aten::unbind.int" => {
            let dim = int(step.args.get(1)).unwrap_or(0);
            let index = [dim, step.output as i64].map(Value::Int);
            ("aten::select.int", index.to_vec())
        }
        _ => return Ok(step),
    };
    let mut args = vec![Value::None];
    args.extend(rest);
    Ok(ViewStep {
        op: operator(op)?,
        args,
        viewed: 0,
        output: 0,
    })
}

/// The value of a storage's base after an update.
pub(super) fn updated_base(
    storage: &FunctionalStorage,
    base: &Tensor,
    update: &Update,
) -> Result<Tensor> {
    let names: Vec<String> = (update.chain.iter())
        .map(|s| s.op.name().to_string())
        .collect();
    if update.new.numel() == 0 {
        return Ok(base.clone());
    }
    if storage.layout.overlaps_itself() {
        // what is written may be other elements too: the storage has to be seen as it lies
        check_in_base(storage, &update.layout)?;
    }
    let mut values = vec![base.clone()];
    for step in &update.chain {
        let value = step.apply(&values[values.len() - 1])?;
        values.push(value);
    }
    // a written part of what a view repeats lies in one place, and the inverse cannot know which
    let invertible = |i: usize| {
        let (of, view) = (&values[i], &values[i + 1]);
        match &*names[i] {
            "aten::expand" => of.numel() == view.numel(),
            "aten::as_strided" => !layout::may_overlap(view.sizes(), view.strides()),
            name => has_inverse(name),
        }
    };
    if !(0..names.len()).all(invertible) {
        // where the elements lie is all that one needs to know
        check_in_base(storage, &update.layout)?;
        let l = &update.layout;
        let at = l.offset - storage.layout.offset;
        // and what the elements are beside their memory
        let odd = |op: &str| names.iter().filter(|n| n.as_str() == op).count() % 2 == 1;
        let mut new = update.new.clone();
        if odd("aten::_neg_view") {
            new = aten::neg(&new)?;
        }
        if odd("aten::_conj") && l.dtype.is_complex() {
            new = aten::_conj_physical(&new)?;
        }
        return aten::as_strided_scatter(base, &new, &l.sizes, &l.strides, Some(at));
    }
    let mut value = update.new.clone();
    for ((step, name), base) in update.chain.iter().zip(&names).zip(&values).rev() {
        value = inverse_view(name, &step.args, base, &value)?;
    }
    Ok(value)
}

/// A view at these places can be had of the base: it has all of its elements.
pub(super) fn check_in_base(storage: &FunctionalStorage, layout: &Layout) -> Result<()> {
    let base = &storage.layout;
    if base.dtype != layout.dtype {
        return Err(outside::limit(format!(
            "a view of {} memory as {} by its position cannot be captured: use `view.dtype` last",
            base.dtype, layout.dtype
        )));
    }
    let at = layout.offset - base.offset;
    let reach = layout::reach(&layout.sizes, &layout.strides, at);
    if reach.as_ref().is_some_and(Range::is_empty) {
        return Ok(());
    }
    let inside = reach.is_some_and(|r| r.start >= 0 && r.end <= layout::numel(&base.sizes));
    match storage.real {
        Some(real) if leaves::has_gaps(real, storage) => Err(retry_with_storage(real, layout)),
        _ if base.is_dense() && inside => Ok(()),
        Some(real) => Err(retry_with_storage(real, layout)),
        None => Err(outside::limit(
            "a view by position of memory that the function has made, and that reaches beside the elements of the tensor made, \
             cannot be captured: take the view of the whole tensor",
        )),
    }
}

/// Whether [`inverse_view`] knows the operator.
fn has_inverse(op: &str) -> bool {
    matches!(
        op,
        "aten::alias"
            | "aten::detach"
            | "aten::lift_fresh"
            | "aten::view"
            | "aten::view.dtype"
            | "aten::view_as_real"
            | "aten::view_as_complex"
            | "aten::_conj"
            | "aten::_neg_view"
            | "aten::squeeze"
            | "aten::squeeze.dim"
            | "aten::squeeze.dims"
            | "aten::unsqueeze"
            | "aten::t"
            | "aten::transpose.int"
            | "aten::permute"
            | "aten::slice.Tensor"
            | "aten::select.int"
            | "aten::diagonal"
            | "aten::as_strided"
            | "aten::expand"
    )
}

/// The value of `base` after its view by `op(.., base, ..)` has become `new`.
fn inverse_view(op: &str, args: &[Value], base: &Tensor, new: &Tensor) -> Result<Tensor> {
    // nothing has been written
    if base.numel() == 0 {
        return Ok(base.clone());
    }
    match (op, &args[1..]) {
        ("aten::alias" | "aten::detach" | "aten::lift_fresh", _) => Ok(new.clone()),
        // elements of another size are parts of one, or have parts: these must be neighbours
        ("aten::view.dtype", _) if new.dtype().size() != base.dtype().size() => {
            aten::view_dtype(&row_major(new)?, base.dtype())
        }
        ("aten::view.dtype", _) => aten::view_dtype(new, base.dtype()),
        ("aten::view_as_real", _) => aten::view_as_complex(&row_major(new)?),
        ("aten::view_as_complex", _) => aten::view_as_real(new),
        ("aten::_conj", _) => aten::_conj_physical(new),
        ("aten::_neg_view", _) => aten::neg(new),
        ("aten::squeeze.dim", [Value::Int(dim)]) if base.dim() == new.dim() + 1 => {
            aten::unsqueeze(new, *dim)
        }
        ("aten::unsqueeze", [Value::Int(dim)]) => aten::squeeze_dim(new, *dim),
        ("aten::view" | "aten::squeeze" | "aten::squeeze.dim" | "aten::squeeze.dims", _) => {
            in_sizes(new, base.sizes())
        }
        ("aten::t", _) => aten::t(new),
        ("aten::transpose.int", [Value::Int(a), Value::Int(b)]) => aten::transpose_int(new, *a, *b),
        ("aten::permute", [Value::IntList(dims)]) => {
            let rank = dims.len() as i64;
            let mut back = vec![0; dims.len()];
            for (to, from) in dims.iter().enumerate() {
                back[from.rem_euclid(rank) as usize] = to as i64;
            }
            aten::permute(new, &back)
        }
        ("aten::slice.Tensor", [Value::Int(dim), start, end, Value::Int(step)]) => {
            aten::slice_scatter(base, new, *dim, int(Some(start)), int(Some(end)), *step)
        }
        ("aten::select.int", [Value::Int(dim), Value::Int(index)]) => {
            aten::select_scatter(base, new, *dim, *index)
        }
        ("aten::diagonal", [Value::Int(offset), Value::Int(a), Value::Int(b)]) => {
            aten::diagonal_scatter(base, new, *offset, *a, *b)
        }
        ("aten::as_strided", [Value::IntList(size), Value::IntList(stride), offset]) => {
            aten::as_strided_scatter(base, new, size, stride, int(Some(offset)))
        }
        // what is written repeats nothing: dimensions of one were added or kept
        ("aten::expand", _) => in_sizes(new, base.sizes()),
        _ => Err(Error::compile(format!(
            "the view operator `{op}` was called with arguments that its schema does not have"
        ))),
    }
}

/// The value in row-major order, with the strides that say so in dimensions of size 1 too.
fn row_major(new: &Tensor) -> Result<Tensor> {
    match new.strides() == layout::contiguous_strides(new.sizes()).as_slice() {
        true => Ok(new.clone()),
        false => aten::clone(new, Some(MemoryFormat::Contiguous)),
    }
}

/// The same elements in row-major order under other sizes.
fn in_sizes(new: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    if new.sizes() == sizes {
        Ok(new.clone())
    } else if view_strides(new.sizes(), new.strides(), sizes).is_some() {
        aten::view(new, sizes)
    } else {
        aten::reshape(new, sizes)
    }
}

fn int(v: Option<&Value>) -> Option<i64> {
    match v {
        Some(Value::Int(i)) => Some(*i),
        _ => None,
    }
}
