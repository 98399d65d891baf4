//! View operators on stand-ins.

use super::kernels::named;
use super::leaves::as_strided_step;
use super::storage::{Layout, ViewStep};
use super::wrapper::{build_view, unwrap, wrapped, wrapper_of};
use super::{below, inverse};
use crate::dispatch::{OperatorHandle, Stack, Value};
use crate::error::{Error, Result};
use crate::modes::{outside, tracer};
use crate::tensor::Tensor;
use crate::tensor::history::Kind;
use std::sync::Arc;
use straightline_catalog::Op;
use straightline_catalog::schema::FunctionSchema;

/// A view operator: the result shares the storage of what it views.
pub(super) fn view(op: OperatorHandle, schema: &FunctionSchema, stack: &mut Stack) -> Result<()> {
    let args = stack.split_off(stack.len() - schema.args.len());
    let viewed = (0..schema.returns.len())
        .find_map(|r| schema.aliased_argument(r))
        .filter(|_| schema.returns.len() == 1);
    let Some((viewed, of)) = viewed.and_then(|i| Some((i, args[i].as_tensor()?))) else {
        return Err(outside::limit(format!(
            "`{}` cannot be captured: a view operator must view one tensor and return one value",
            op.name()
        )));
    };
    let given_view = of.clone();
    let kind = view_kind(op);
    let source = wrapped(of)?;
    let w = wrapper_of(&source).expect("`wrapped` gives wrappers");
    if op.is(Op::as_strided) && args.last().is_some_and(|offset| !offset.is_none()) {
        // a place in the storage, which does not go along with the argument
        outside::matters_where(&source);
    }
    let _guard = below();
    // what eager execution would give: the errors, and where the views lie
    let (shapes, _) = tracer::run_meta(op, &args)
        .inspect_err(|_| refused_view(op, &source, &args))
        .map_err(|e| named(e, op, &args))?;
    let wider = |t: &Tensor| t.dtype().size() / source.dtype().size();
    if let Some(elements @ 2..) = shapes.iter().flat_map(Value::tensors).map(wider).max() {
        // several elements become one, which has to begin where such a one may
        outside::matters_where_by(&source, elements as i64);
    }
    if op.is(Op::as_strided) {
        let layout = shapes
            .iter()
            .flat_map(Value::tensors)
            .map(Layout::of)
            .next()
            .ok_or_else(|| no_view(op))?;
        stack.push(Value::Tensor(as_strided_of(
            &source,
            &layout,
            Some((&given_view, Kind::Strided)),
        )?));
        return Ok(());
    }
    let mut inner = args.iter().map(|v| v.map_tensors(unwrap)).collect::<Result<Stack>>()?;
    let given = inner.clone();
    op.call_boxed(&mut inner)?;
    let (value, shape) = match (&inner[..], &shapes[..]) {
        ([value], [shape]) => (value, shape),
        _ => return Err(no_view(op)),
    };
    let mut at = 0;
    let layouts: Vec<Layout> = shape.tensors().map(Layout::of).collect();
    let mut parts = inverse::parts(op, &given, source.sizes())?.map(Vec::into_iter);
    let result = value.map_tensors(|value| {
        let layout = layouts.get(at).ok_or_else(|| no_view(op))?;
        let step = parts.as_mut().and_then(Iterator::next).unwrap_or_else(|| ViewStep {
            op,
            args: given.clone(),
            viewed,
            output: at,
        });
        let mut chain = w.chain.clone();
        chain.push(Arc::new(step));
        at += 1;
        let of = kind.map(|kind| (&given_view, kind));
        Ok(build_view(w.storage.clone(), chain, &source, layout, Some(value.clone()), of))
    })?;
    stack.push(result);
    Ok(())
}

/// How a view operator's result follows from its operand as gradients see it; `None` of one that
/// cuts it off.
fn view_kind(op: OperatorHandle) -> Option<Kind> {
    Some(match op.op() {
        Some(Op::detach) => return None,
        Some(Op::view_as_real) => Kind::Real,
        Some(Op::view_as_complex) => Kind::Complex,
        Some(Op::_conj) => Kind::Conj,
        Some(Op::_neg_view) => Kind::Neg,
        Some(Op::view_dtype) => Kind::DType,
        _ => Kind::Strided,
    })
}

fn no_view(op: OperatorHandle) -> Error {
    Error::compile(format!("view operator `{}` did not return what its schema says", op.name()))
}

/// Notes what a view was refused for and another call may have otherwise: where its memory begins
/// and ends.
#[cold]
fn refused_view(op: OperatorHandle, source: &Tensor, args: &[Value]) {
    match (op.op(), args) {
        (Some(Op::view_dtype | Op::view_as_complex), _) => outside::matters_where(source),
        (Some(Op::as_strided), [_, Value::IntList(sizes), Value::IntList(strides), offset]) => {
            let mut wants = Layout::of(source);
            if sizes.len() == strides.len() {
                (wants.sizes, wants.strides) = (sizes[..].into(), strides[..].into());
                if let Value::Int(offset) = offset {
                    wants.offset = *offset;
                }
                outside::ends_before(source, wants.bytes().end);
            }
        }
        _ => {}
    }
}

/// `as_strided` looks at the storage, whatever views led to its operand: it is a view of the base.
pub(super) fn as_strided(source: &Tensor, layout: &Layout) -> Result<Tensor> {
    as_strided_of(source, layout, None)
}

fn as_strided_of(source: &Tensor, layout: &Layout, of: Option<(&Tensor, Kind)>) -> Result<Tensor> {
    let w = wrapper_of(source).expect("the caller wrapped it");
    inverse::check_in_base(&w.storage, layout)?;
    let step = as_strided_step(&w.storage, &layout.sizes, &layout.strides, layout.offset)?;
    // what the source's elements are beside their memory is so of other elements as well
    let mut chain = vec![Arc::new(step)];
    for op in [Op::_conj, Op::_neg_view] {
        let steps = w.chain.iter().filter(|s| s.is(op));
        let held = steps.clone().count() % 2 == 1;
        if held && (op != Op::_conj || layout.dtype.is_complex()) {
            chain.extend(steps.take(1).cloned());
        }
    }
    let (base, _) = w.storage.apply_updates()?;
    let value = chain.iter().try_fold(base, |value, step| step.apply(&value))?;
    Ok(build_view(w.storage.clone(), chain, source, layout, Some(value), of))
}
