//! Writing through a view: from the new value of a view to the new value of its base.

use super::kernels::retry_with_storage;
use super::leaves;
use super::storage::{FunctionalStorage, Layout, Update, ViewStep};
use crate::dispatch::{OperatorHandle, Value, handle_of};
use crate::error::{Error, Result};
use crate::modes::{outside, tracer};
use crate::ops::aten;
use crate::tensor::Tensor;
use std::ops::Range;
use straightline_catalog::view::{self, Inverse, ViewMap, view_strides};
use straightline_catalog::{MemoryFormat, Op, layout};

/// The results of a view operator with several, each as a view of its own: the steps that are
/// replayed. `None` of an operator with one.
pub(super) fn parts(
    op: OperatorHandle,
    args: &[Value],
    sizes: &[i64],
) -> Result<Option<Vec<ViewStep>>> {
    let Some(op) = op.op() else {
        return Ok(None);
    };
    let Some(parts) = view::parts_of(op, &tracer::shape_args(args, 0)?, sizes) else {
        return Ok(None);
    };
    let steps = parts?.into_iter().map(|part| {
        let (op, rest) = match part {
            ViewMap::Select { dim, index } => (Op::select_int, vec![dim as i64, index]),
            ViewMap::Slice { dim, start, len, .. } => {
                (Op::slice_Tensor, vec![dim as i64, start, start + len, 1])
            }
            _ => return Err(Error::compile("parts of a tensor that are no slices")),
        };
        let mut args = vec![Value::None];
        args.extend(rest.into_iter().map(Value::Int));
        Ok(ViewStep { op: handle_of(op)?, args, viewed: 0, output: 0 })
    });
    steps.collect::<Result<_>>().map(Some)
}

/// The value of a storage's base after an update.
pub(super) fn updated_base(
    storage: &FunctionalStorage,
    base: &Tensor,
    update: &Update,
) -> Result<Tensor> {
    let ops: Vec<Option<Op>> = update.chain.iter().map(|s| s.op.op()).collect();
    if update.new.numel() == 0 {
        return Ok(base.clone());
    }
    if storage.layout.overlaps_itself() {
        // the write may change other elements too, so the whole storage is needed
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
        Ok(match ops[i] {
            Some(Op::as_strided) => !layout::may_overlap(view.sizes(), view.strides()),
            Some(op) if of_elements(op) => true,
            Some(op) => {
                let step = &update.chain[i];
                let args = tracer::shape_args(&step.args, step.viewed)?;
                match ViewMap::of(op, &args, of.sizes()) {
                    Some(map) => map?.inverse(of.sizes()) != Inverse::None,
                    None => false,
                }
            }
            None => false,
        })
    };
    let invertible = (0..ops.len()).map(invertible).collect::<Result<Vec<bool>>>()?;
    if invertible.contains(&false) {
        // only the places of the elements matter
        check_in_base(storage, &update.layout)?;
        let l = &update.layout;
        let at = l.offset - storage.layout.offset;
        // and what the elements are beside their memory
        let odd = |op: Op| ops.iter().filter(|o| **o == Some(op)).count() % 2 == 1;
        let mut new = update.new.clone();
        if odd(Op::_neg_view) {
            new = aten::neg(&new)?;
        }
        if odd(Op::_conj) && l.dtype.is_complex() {
            new = aten::_conj_physical(&new)?;
        }
        return aten::as_strided_scatter(base, &new, &l.sizes, &l.strides, Some(at));
    }
    let mut value = update.new.clone();
    for (step, base) in update.chain.iter().zip(&values).rev() {
        value = inverse_view(step.op, &step.args, base, &value)?;
    }
    Ok(value)
}

/// Whether the base contains all elements of a view at these places.
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

/// Whether a view changes the values of its elements rather than their places.
fn of_elements(op: Op) -> bool {
    matches!(
        op,
        Op::view_dtype | Op::view_as_real | Op::view_as_complex | Op::_conj | Op::_neg_view
    )
}

/// The value of `base` after its view by `op(.., base, ..)` has become `new`.
fn inverse_view(
    handle: OperatorHandle,
    args: &[Value],
    base: &Tensor,
    new: &Tensor,
) -> Result<Tensor> {
    // nothing has been written
    if base.numel() == 0 {
        return Ok(base.clone());
    }
    let refused = || {
        Error::compile(format!(
            "the view operator `{}` was called with arguments that its schema does not have",
            handle.name()
        ))
    };
    let (op, given) = (handle.op().ok_or_else(refused)?, &args[1..]);
    match (op, given) {
        // elements of another size are parts of one, or have parts: these must be neighbours
        (Op::view_dtype, _) if new.dtype().size() != base.dtype().size() => {
            return aten::view_dtype(&row_major(new)?, base.dtype());
        }
        (Op::view_dtype, _) => return aten::view_dtype(new, base.dtype()),
        (Op::view_as_real, _) => return aten::view_as_complex(&row_major(new)?),
        (Op::view_as_complex, _) => return aten::view_as_real(new),
        (Op::_conj, _) => return aten::_conj_physical(new),
        (Op::_neg_view, _) => return aten::neg(new),
        (Op::as_strided, [Value::IntList(size), Value::IntList(stride), offset]) => {
            return aten::as_strided_scatter(base, new, size, stride, int(Some(offset)));
        }
        _ => {}
    }
    let map =
        ViewMap::of(op, &tracer::shape_args(args, 0)?, base.sizes()).ok_or_else(refused)??;
    // what is written again is written in the words of the view
    match (map.inverse(base.sizes()), op, given) {
        (Inverse::Same, ..) => Ok(new.clone()),
        (Inverse::Permute(_), Op::t, _) => aten::t(new),
        (Inverse::Permute(_), Op::transpose_int, [Value::Int(a), Value::Int(b)]) => {
            aten::transpose_int(new, *a, *b)
        }
        (Inverse::Permute(order), ..) => {
            let order: Vec<i64> = order.iter().map(|d| *d as i64).collect();
            aten::permute(new, &order)
        }
        (Inverse::Reshape, Op::unsqueeze, [Value::Int(dim)]) => aten::squeeze_dim(new, *dim),
        (Inverse::Reshape, Op::squeeze_dim, [Value::Int(dim)]) if base.dim() == new.dim() + 1 => {
            aten::unsqueeze(new, *dim)
        }
        (Inverse::Reshape, ..) => in_sizes(new, base.sizes()),
        (Inverse::Slice { .. }, _, [Value::Int(dim), start, end, Value::Int(step)]) => {
            aten::slice_scatter(base, new, *dim, int(Some(start)), int(Some(end)), *step)
        }
        (Inverse::Select { .. }, _, [Value::Int(dim), Value::Int(index)]) => {
            aten::select_scatter(base, new, *dim, *index)
        }
        (Inverse::Diagonal { .. }, _, [Value::Int(offset), Value::Int(a), Value::Int(b)]) => {
            aten::diagonal_scatter(base, new, *offset, *a, *b)
        }
        _ => Err(refused()),
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
