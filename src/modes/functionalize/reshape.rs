//! Operators that change the shape of their argument: the wrapper gets the place of a view, or
//! memory of its own where it has to grow.

use super::leaves::{Leaf, as_strided_step, leaves};
use super::storage::{FunctionalStorage, Layout};
use super::views::as_strided;
use super::wrapper::{
    Behind, behind, bits, in_dtype, is_wrapper, replace, take_memory, take_place, wrapped,
    wrapper_of,
};
use super::{below, lifted};
use crate::dispatch::{OperatorHandle, Stack, Value, handle_of};
use crate::error::{Error, Result};
use crate::modes::{outside, tracer};
use crate::ops::aten;
use crate::tensor::Tensor;
use std::sync::Arc;
use straightline_catalog::schema::FunctionSchema;
use straightline_catalog::{Dims, Op, layout};

/// How an operator changes the shape of its first argument.
#[derive(Clone, Copy)]
pub(super) enum Change {
    /// To that of this view.
    View(Op),
    /// To what the operator says, perhaps beyond the memory.
    Resize,
    /// Not at all.
    Nothing,
    /// Into other memory.
    Other,
}

/// The change that the operator makes, if it is one of these.
pub(super) fn change(op: OperatorHandle) -> Option<Change> {
    Some(match op.op()? {
        Op::t_ => Change::View(Op::t),
        Op::transpose_ => Change::View(Op::transpose_int),
        Op::squeeze_ => Change::View(Op::squeeze),
        Op::squeeze__dim => Change::View(Op::squeeze_dim),
        Op::squeeze__dims => Change::View(Op::squeeze_dims),
        Op::unsqueeze_ => Change::View(Op::unsqueeze),
        Op::as_strided_ => Change::View(Op::as_strided),
        Op::resize_ | Op::resize_as_ => Change::Resize,
        Op::detach_ => Change::Nothing,
        op if op.base() == "set_" => Change::Other,
        _ => return None,
    })
}

/// Does it.
pub(super) fn reshape(
    op: OperatorHandle,
    schema: &FunctionSchema,
    change: Change,
    stack: &mut Stack,
) -> Result<()> {
    let args = stack.split_off(stack.len() - schema.args.len());
    let Some(t) = args[0].as_tensor().cloned() else {
        return Err(Error::compile(format!("`{}` takes a tensor first", op.name())));
    };
    check_wrapper(op, &t)?;
    match change {
        Change::Nothing => {}
        Change::View(form) => {
            let mut inner = args;
            handle_of(form)?.call_boxed(&mut inner)?;
            match inner.pop() {
                Some(Value::Tensor(v)) => take_place(&t, &v)?,
                _ => return Err(Error::compile(format!("`{form}` did not return a view"))),
            }
        }
        Change::Resize => {
            let _guard = below();
            let (shapes, _) = tracer::run_meta(op, &args)?;
            let Some(shape) = shapes.iter().flat_map(Value::tensors).next() else {
                return Err(Error::compile(format!("`{}` returned no tensor", op.name())));
            };
            resize(&t, &Layout::of(shape))?;
        }
        Change::Other => other_memory(op, &t, &args)?,
    }
    stack.push(Value::Tensor(t));
    Ok(())
}

/// `set_`: the tensor takes the memory and place of another one. The caller's tensors would have to
/// be given other memory after each call, so it is only for those that the function makes.
fn other_memory(op: OperatorHandle, t: &Tensor, args: &[Value]) -> Result<()> {
    let of_caller = leaves().iter().any(|leaf| leaf.wrapper.same_handle(t));
    match args {
        [_, Value::Tensor(source)] if !of_caller => {
            let source = wrapped(source)?;
            let _guard = below();
            tracer::run_meta(op, args)?;
            take_memory(t, &source)
        }
        _ => Err(outside::limit(format!(
            "`{}` gives a tensor other memory, which cannot be captured: use the other tensor \
             instead",
            op.name()
        ))),
    }
}

/// The caller's own handle must see the change.
pub(super) fn check_wrapper(op: OperatorHandle, t: &Tensor) -> Result<()> {
    lifted::check_write(t)?;
    let leaves = leaves();
    let own = leaves.iter().find(|leaf| leaf.wrapper.same_handle(t));
    let twice = |own: &Leaf| {
        let others = (leaves.iter()).filter(|leaf| !leaf.wrapper.same_handle(t));
        others.into_iter().any(|leaf| leaf.real.same_handle(&own.real))
    };
    if own.is_some_and(twice) {
        return Err(outside::limit(format!(
            "`{}` changes the shape of a tensor that the function is given twice, which cannot be captured: pass it once",
            op.name()
        )));
    }
    if is_wrapper(t) && !bits(t).any() {
        return Ok(());
    }
    if is_wrapper(t) {
        return Err(outside::limit(format!(
            "`{}` changes the shape of a conjugate or negative view, which cannot be captured: pass the tensor itself",
            op.name()
        )));
    }
    Err(Error::compile(format!(
        "`{}` changes the shape of a tensor that the captured function closes over or made from data: \
         pass it as an argument, or use the operator that returns a view",
        op.name()
    )))
}

/// Whether the memory behind the wrapper reaches that far.
fn fits(t: &Tensor, to: &Layout) -> bool {
    to.bytes().end <= t.storage().bytes() as i64
}

/// Elements that are there are kept, others are zero.
fn resize(t: &Tensor, to: &Layout) -> Result<()> {
    if *to == Layout::of(t) {
        return Ok(());
    }
    if fits(t, to) {
        return take_place(t, &as_strided(t, to)?);
    }
    let old = sole_owner(t)?;
    let (base, _) = old.storage.apply_updates()?;
    let of = &old.storage.layout;
    let has = layout::numel(&of.sizes);
    let at = to.offset - of.offset;
    if of.bytes().end < t.storage().bytes() as i64 {
        return Err(outside::limit(
            "a tensor that is part of a longer memory grows beyond it, which cannot be captured: take a copy first (`copied()`)",
        ));
    }
    outside::ends_before(t, 1 + of.bytes().end);
    if !of.is_dense() || at < 0 {
        return Err(outside::limit(
            "a tensor with gaps in its memory grows, which cannot be captured: take a copy first (`copied()`)",
        ));
    }
    let need = layout::storage_extent(&to.sizes, &to.strides, at);
    let (dtype, device) = (Some(t.dtype()), Some(t.device()));
    let zeros = |n: i64| aten::zeros(&[n], dtype, None, device, None);
    let flat = if has == 0 {
        zeros(need)?
    } else {
        let there = aten::as_strided(&base, &[has], &[1], Some(0))?;
        aten::cat(&[there, zeros(need - has)?], 0)?
    };
    let whole = Layout {
        dtype: t.dtype(),
        sizes: Dims::from_slice(&[need]),
        strides: Dims::from_slice(&[1]),
        offset: of.offset,
    };
    let storage =
        FunctionalStorage::new(flat.clone(), whole, t.storage().clone(), old.storage.real);
    let step = as_strided_step(&storage, &to.sizes, &to.strides, to.offset)?;
    let value = step.apply(&flat)?;
    grown(t, behind(Arc::new(storage), vec![Arc::new(step)], Some(value)), to)
}

/// Gives an `out` of another shape the new value, in the layout that the operator itself would give
/// it.
pub(super) fn resize_out(t: &Tensor, new: Tensor, shape: Option<&Tensor>) -> Result<()> {
    let strides = match shape.filter(|s| s.sizes() == new.sizes()) {
        Some(s) => Dims::from_slice(s.strides()),
        None => layout::contiguous_strides(new.sizes()),
    };
    let to = Layout {
        dtype: t.dtype(),
        sizes: Dims::from_slice(new.sizes()),
        strides,
        offset: t.offset(),
    };
    if fits(t, &to) {
        take_place(t, &as_strided(t, &to)?)?;
        return replace(t, new);
    }
    let old = sole_owner(t)?;
    outside::ends_before(t, to.bytes().end);
    let mut new = in_dtype(new, t.dtype())?;
    if new.strides() != to.strides.as_slice() {
        let (dtype, device) = (Some(t.dtype()), Some(t.device()));
        let like = aten::empty_strided(&to.sizes, &to.strides, dtype, None, device, None)?;
        new = aten::copy(&like, &new, false)?;
    }
    let (stand_in, real) = (t.storage().clone(), old.storage.real);
    let storage = FunctionalStorage::new(new.clone(), to.clone(), stand_in, real);
    grown(t, behind(Arc::new(storage), Vec::new(), Some(new)), &to)
}

/// The state behind a wrapper that shares its memory with no other; others would have to grow with
/// it.
fn sole_owner(t: &Tensor) -> Result<Arc<Behind>> {
    let old = wrapper_of(t).ok_or_else(|| Error::compile("a tensor that is not functional"))?;
    // leaves without elements in common have values of their own
    let beside = |leaf: &Leaf| {
        !leaf.wrapper.same_handle(t)
            && !leaf.made_inside
            && old.storage.real == Some(leaf.real.storage().id())
    };
    outside::forget_dropped();
    // what the tensor itself is a view of, and nobody has any more
    let base = t.base().filter(|base| base.outside_handles() == 1).and_then(wrapper_of);
    let owners = 1 + usize::from(base.is_some_and(|b| Arc::ptr_eq(&b.storage, &old.storage)));
    if Arc::strong_count(&old.storage) > owners || leaves().iter().any(beside) {
        return Err(outside::limit(
            "a tensor that grows and shares its memory with others cannot be captured: take a copy first (`copied()`)",
        ));
    }
    Ok(old)
}

fn grown(t: &Tensor, behind: Behind, to: &Layout) -> Result<()> {
    lifted::check_write(t)?;
    super::wrapper::grow(t, behind);
    t.set_geometry(&to.sizes, &to.strides, to.offset)
}
