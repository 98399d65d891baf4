//! The kernels of Functionalize, chosen by the alias annotations of the schema.

use super::forms::{Source, Target, functional_form};
use super::leaves;
use super::overlaps::{check_overlaps, check_written_apart, refused_write};
use super::storage::Layout;
use super::views::{as_strided, view};
use super::wrapper::{bits, in_dtype, is_made, replace, unwrap, used_elsewhere, wrap, wrapped};
use super::{below, kinds, reshape};
use crate::dispatch::{
    DispatchKey, DispatchKeySet, IntoKernel, Kernel, OperatorHandle, Stack, TlsKeySets, Value,
};
use crate::error::{Error, Result};
use crate::modes::{outside, tracer};
use crate::ops::aten;
use crate::ops::forms::relation::makes_no_values;
use crate::tensor::{Tensor, access};
use straightline_catalog::Op;
use straightline_catalog::promote::{Operand, result_type};
use straightline_catalog::schema::FunctionSchema;
use straightline_passes::ir;

/// The fallback kernel at the `Functionalize` key.
pub(crate) fn kernel() -> Kernel {
    Kernel::boxed(|op, keys, stack| {
        if tracer::current().is_none() {
            return not_captured(op, keys, stack);
        }
        // modes and wrapper tensors handle the call as in eager execution, and their own calls come
        // here again
        if crate::modes::handle_captured(op, keys, stack)? {
            return Ok(());
        }
        let schema = op.schema().ok_or_else(|| no_schema(op))?;
        if op.is_replaced() {
            return replaced(op, schema, stack);
        }
        resolve_bits(op, schema, stack)?;
        if is_composite(op) {
            // without tensor arguments no autograd key has taken it apart yet
            op.call_boxed_for_key(DispatchKey::CompositeImplicitAutograd, stack)
        } else if kinds::concerns(schema, stack) {
            kinds::call(op, schema, keys, stack)
        } else if let Some(change) = reshape::change(op) {
            reshape::reshape(op, schema, change, stack)
        } else if schema.is_mutable() {
            write(op, schema, stack)
        } else if schema.is_view() {
            view(op, schema, stack)
        } else if is_complex_factory(op, &stack[stack.len() - schema.args.len()..]) {
            op.call_boxed_for_key(DispatchKey::CompositeExplicitAutograd, stack)
        } else {
            functional(op, schema, stack)
        }
    })
}

/// Operands that eager execution resolves before a kernel sees them: there they have the layout of
/// their clones, which the layout of the result follows.
fn resolve_bits(op: OperatorHandle, schema: &FunctionSchema, stack: &mut Stack) -> Result<()> {
    let at = stack.len().saturating_sub(schema.args.len());
    let any = |t: &Tensor| bits(t).any();
    if schema.is_view() || !stack[at..].iter().flat_map(Value::tensors).any(any) {
        return Ok(());
    }
    let lazily = |key| !op.has_kernel(key);
    let (conj, neg) = (lazily(DispatchKey::Conjugate), lazily(DispatchKey::Negative));
    for (value, arg) in stack[at..].iter_mut().zip(&schema.args) {
        if !arg.is_write() {
            *value = value.map_tensors(|t| match bits(t) {
                bits if bits.conj && conj || bits.neg && neg => aten::clone(t, None),
                _ => Ok(t.clone()),
            })?;
        }
    }
    Ok(())
}

/// A stand-in is used outside its capture: on another thread, or later.
#[cold]
fn not_captured(op: OperatorHandle, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
    let args = op.schema().map_or(stack.len(), |s| s.args.len());
    let at = stack.len().saturating_sub(args);
    let found = (stack[at..].iter().flat_map(Value::tensors)).find_map(used_elsewhere);
    if let Some(e) = found {
        return Err(e);
    }
    const THIS: DispatchKeySet = DispatchKeySet::of(&[DispatchKey::Functionalize]);
    match TlsKeySets::current().included.has(DispatchKey::Functionalize) {
        true => op.redispatch_boxed(keys - THIS, stack),
        // the stand-in has become an ordinary tensor since its keys were read
        false => op.call_boxed(stack),
    }
}

/// The kernel of an operator that capture takes apart, since its kernel calls other operators: as a
/// step of a plan it would enter the dispatcher at each replay.
pub(crate) fn composite<M>(kernel: impl IntoKernel<M>) -> Kernel {
    let kernel = kernel.into_kernel();
    Kernel::boxed(move |op, keys, stack| {
        if crate::modes::handle_captured(op, keys, stack)? {
            return Ok(());
        }
        match op.schema() {
            Some(schema) if op.is_replaced() => replaced(op, schema, stack),
            Some(schema) => {
                resolve_bits(op, schema, stack)?;
                kernel.call_boxed(op, keys, stack)
            }
            None => kernel.call_boxed(op, keys, stack),
        }
    })
}

/// [`composite`] for an operator that eager code does not take apart: errors of its parts are
/// reported as the operator's own.
pub(crate) fn parts<M>(kernel: impl IntoKernel<M>) -> Kernel {
    let kernel = composite(kernel);
    Kernel::boxed(move |op, keys, stack| {
        let count = op.arity()?;
        let at = stack.len().saturating_sub(count);
        let operands: Vec<Tensor> =
            (stack[at..].iter()).flat_map(|v| v.tensors().cloned()).collect();
        (kernel.call_boxed(op, keys, stack))
            .map_err(|e| e.of_call(op.name().to_string(), &operands))
    })
}

/// The kernel of an operator whose loop form leaves out what its kernel checks of data: capture
/// records the check as calls of their own beside it ([`require`]).
pub(crate) fn checked(check: fn(OperatorHandle, &[Value]) -> Result<()>) -> Kernel {
    Kernel::boxed(move |op, _, stack| {
        let schema = op.schema().ok_or_else(|| no_schema(op))?;
        check(op, &stack[stack.len().saturating_sub(schema.args.len())..])?;
        functional(op, schema, stack)
    })
}

/// The kernel of an operator that draws numbers for the elements of a tensor like its first
/// operand, in the order of their memory. Memory in a graph is what the plan makes of it, so an
/// operand that is not row-major gets them as the in-place form does, which says the order in
/// views.
pub(crate) fn drawn_in_order(in_place: fn() -> Result<OperatorHandle>) -> Kernel {
    unless_row_major(Kernel::boxed(move |op, _, stack| {
        let schema = op.schema().ok_or_else(|| no_schema(op))?;
        let at = stack.len().saturating_sub(schema.args.len());
        if let Some(Value::Tensor(like)) = stack.get(at) {
            stack[at] = aten::empty_like(like, None, None, None, None, None)?.into();
        }
        in_place()?.call_boxed(stack)
    }))
}

/// Whether the order of the elements in memory is the row-major one; dimensions of one element may
/// have any stride.
fn lies_in_rows(t: &Tensor) -> bool {
    let strides = (t.sizes().iter().zip(t.strides())).filter_map(|(n, s)| (*n > 1).then_some(s));
    strides.is_sorted_by(|a, b| a >= b)
}

/// The kernel of an operator that capture records as it is where its first operand is row-major,
/// and by `parts` elsewhere.
pub(crate) fn unless_row_major<M>(parts: impl IntoKernel<M>) -> Kernel {
    let parts = parts.into_kernel();
    composite(Kernel::boxed(move |op, keys, stack| {
        let schema = op.schema().ok_or_else(|| no_schema(op))?;
        let at = stack.len().saturating_sub(schema.args.len());
        match stack.get(at) {
            Some(Value::Tensor(t)) if !lies_in_rows(t) => parts.call_boxed(op, keys, stack),
            _ => functional(op, schema, stack),
        }
    }))
}

/// Records that a call fails if a condition on data does not hold, with its kernel's message.
pub(crate) fn require(
    op: OperatorHandle,
    args: &[Value],
    condition: impl FnOnce() -> Result<Tensor>,
    message: &str,
) -> Result<()> {
    tracer::in_place_of(op, args, || crate::ops::aten::_assert_async_msg(&condition()?, message))
}

fn no_schema(op: OperatorHandle) -> Error {
    if let Some(gone) = op.gone() {
        return gone.into();
    }
    Error::compile(format!("`{}` has no schema, so it cannot be functionalised", op.name()))
}

/// One of this crate's operators with a kernel from outside: that kernel is called, and nothing is
/// assumed about the operator.
fn replaced(op: OperatorHandle, schema: &FunctionSchema, stack: &mut Stack) -> Result<()> {
    if schema.is_view() || reshape::change(op).is_some() {
        let what = format!("`{}` with a kernel that is not this crate's", op.name());
        let why = "the operator returns or makes a view, and what another kernel's result lies in is not known: \
                   take the kernel back, or register it for an operator of your own";
        return Err(outside::refuse(&what, why, None));
    }
    if schema.is_mutable() { write(op, schema, stack) } else { functional(op, schema, stack) }
}

/// The key with the kernel that takes the operator apart, if there is one.
fn taken_apart_at(op: OperatorHandle) -> Option<DispatchKey> {
    if op.registers(DispatchKey::Functionalize) {
        return Some(DispatchKey::Functionalize);
    }
    is_composite(op).then_some(DispatchKey::CompositeImplicitAutograd)
}

/// Whether the call makes or converts complex numbers by other operators. Of real numbers these
/// operators have a loop form, of complex ones only their kernels.
fn is_complex_factory(op: OperatorHandle, args: &[Value]) -> bool {
    const MADE_OF_OTHERS: [Op; 8] = [
        Op::full,
        Op::zeros,
        Op::ones,
        Op::full_like,
        Op::zeros_like,
        Op::ones_like,
        Op::scalar_tensor,
        Op::_to_copy,
    ];
    let complex = |v: &Value| match v {
        Value::Complex(..) => true,
        Value::DType(d) => d.is_complex(),
        v => v.tensors().any(|t| t.dtype().is_complex()),
    };
    op.name().overload.is_empty()
        && op.op().is_some_and(|op| MADE_OF_OTHERS.contains(&op))
        && args.iter().any(complex)
}

/// Whether the operator is defined by calls of other operators only.
fn is_composite(op: OperatorHandle) -> bool {
    op.registers(DispatchKey::CompositeImplicitAutograd)
        && !op.is_replaced()
        && !op.registers(DispatchKey::CPU)
        && !op.registers(DispatchKey::Meta)
}

fn functional(op: OperatorHandle, schema: &FunctionSchema, stack: &mut Stack) -> Result<()> {
    let mut args = stack.split_off(stack.len() - schema.args.len());
    place_in_value(op, &mut args)?;
    let begins = begins_as_operand(op, &args)?;
    let _guard = below();
    let mut inner = args.iter().map(|v| v.map_tensors(unwrap)).collect::<Result<Stack>>()?;
    numbers_as_they_count(&args, &mut inner)?;
    op.call_boxed(&mut inner)?;
    for v in &inner {
        stack.push(v.map_tensors(|t| Ok(wrap(t, begins)))?);
    }
    Ok(())
}

/// A number beside tensors counts for less than a tensor of its dtype, which the values of a graph
/// do not know: where that makes a difference, it becomes one of the dtype that all of them promote
/// to.
fn numbers_as_they_count(args: &[Value], values: &mut [Value]) -> Result<()> {
    let given = || args.iter().filter_map(Value::as_tensor);
    if given().count() < 2 || !given().any(Tensor::is_wrapped_number) {
        return Ok(());
    }
    let operand =
        |t: &Tensor, wrapped_number| Operand { dtype: t.dtype(), dims: t.dim(), wrapped_number };
    let counted = result_type(given().map(|t| operand(t, t.is_wrapped_number())));
    let plain = result_type(given().map(|t| operand(t, false)));
    let Some(dtype) = counted.filter(|_| counted != plain) else {
        return Ok(());
    };
    for (arg, value) in args.iter().zip(values) {
        if arg.as_tensor().is_some_and(Tensor::is_wrapped_number) {
            *value = value.map_tensors(|t| in_dtype(t.clone(), dtype))?;
        }
    }
    Ok(())
}

/// Where in its memory a result begins, in elements. Operators that copy all the memory of their
/// operand leave as much room before the result as there is before the operand, which a function
/// sees that asks for a place in the result's memory.
fn begins_as_operand(op: OperatorHandle, args: &[Value]) -> Result<i64> {
    const COPIES_MEMORY: [Op; 4] =
        [Op::copy, Op::slice_scatter, Op::select_scatter, Op::diagonal_scatter];
    match args.first() {
        Some(Value::Tensor(of)) if op.op().is_some_and(|op| COPIES_MEMORY.contains(&op)) => {
            let of = wrapped(of)?;
            // memory with repeated elements is not copied as it lies
            if Layout::of(&of).overlaps_itself() {
                return Ok(0);
            }
            outside::matters_where(&of);
            Ok(of.offset())
        }
        _ => Ok(0),
    }
}

/// A place in the storage of the argument becomes one in its value, which begins where its storage
/// does.
fn place_in_value(op: OperatorHandle, args: &mut Stack) -> Result<()> {
    if !op.is(Op::as_strided_scatter) {
        return Ok(());
    }
    if let [Value::Tensor(of), .., Value::Int(at)] = &mut args[..] {
        let of = wrapped(of)?;
        outside::matters_where(&of);
        // a negative offset is refused as such
        if *at >= 0 && *at < of.offset() {
            return Err(outside::limit(
                "a place before the first element of an operand cannot be captured: take a copy of it first (`copied()`)",
            ));
        }
        *at -= of.offset();
    }
    Ok(())
}

/// An operator that writes: its functional variant, and new values for what it writes.
fn write(op: OperatorHandle, schema: &FunctionSchema, stack: &mut Stack) -> Result<()> {
    let mut args = stack.split_off(stack.len() - schema.args.len());
    let given = args.clone();
    for (v, a) in args.iter_mut().zip(&schema.args) {
        if a.is_write() {
            *v = v.map_tensors(wrapped)?;
        }
    }
    if let [Value::Tensor(to), Value::Tensor(from), ..] = &args[..]
        && op.is(Op::copy_)
        && to.same_handle(from)
    {
        // a copy onto itself writes nothing
        stack.push(args.swap_remove(0));
        return Ok(());
    }
    if let [Value::Tensor(to), Value::Tensor(from), ..] = &args[..]
        && op.is(Op::copy_)
        && bits(from).neg
        && from.dtype() != to.dtype()
    {
        // numbers are converted as they lie in memory, and negated then
        aten::copy_(to, &aten::_neg_view(from)?, false)?;
        aten::neg_(to)?;
        stack.push(args.swap_remove(0));
        return Ok(());
    }
    if let Some(cells) = filled_once(op, &args)? {
        let to = std::mem::replace(&mut args[0], Value::Tensor(cells));
        let mut inner = args;
        write(op, schema, &mut inner)?;
        stack.push(to);
        return Ok(());
    }
    let guard = below();
    // the checks that the operator itself makes: shapes, dtypes, what overlaps, closed-over tensors
    // included
    let seen = |t: &Tensor| match t.is_wrapped_number() {
        true => Ok(t.clone()),
        false => wrapped(t),
    };
    let seen = args.iter().map(|v| v.map_tensors(seen));
    let seen = seen.collect::<Result<Stack>>()?;
    let refused = |_: &Error| refused_write(schema, &seen);
    let (shapes, _) = tracer::run_meta(op, &seen).inspect_err(refused)?;
    let form = functional_form(op, schema).map_err(|e| named(e, op, &args))?;
    if form.runs_original {
        check_written_apart(op, schema, &args)?;
    }
    check_overlaps(op, schema, &args, &shapes)
        .inspect_err(refused)
        .map_err(|e| named(e, op, &args))?;
    let factory = || is_complex_factory(form.op, &args);
    let apart = taken_apart_at(form.op)
        .or_else(|| factory().then_some(DispatchKey::CompositeExplicitAutograd));
    let mut inner = form
        .args
        .iter()
        .map(|source| match source {
            Source::Argument(i) if schema.args[*i].name == "dtype" && args[*i].is_none() => {
                Ok(out_dtype(schema, &args))
            }
            Source::Argument(i) if apart.is_some() => args[*i].map_tensors(wrapped),
            Source::Argument(i) => args[*i].map_tensors(unwrap),
            Source::Dtype(i) => Ok(args[*i].as_tensor().map_or(Value::None, |t| t.dtype().into())),
            Source::Device(i) => {
                Ok(args[*i].as_tensor().map_or(Value::None, |t| t.device().into()))
            }
            Source::Nothing => Ok(Value::None),
        })
        .collect::<Result<Stack>>()?;
    let _guard = match apart {
        None => {
            let given = form.args.iter().map(|source| match source {
                Source::Argument(i) => args[*i].clone(),
                _ => Value::None,
            });
            numbers_as_they_count(&given.collect::<Vec<_>>(), &mut inner)?;
            tracer::in_place_of(op, &args, || form.op.call_boxed(&mut inner))?;
            guard
        }
        Some(key) => {
            // its parts come here again and are recorded one by one
            drop(guard);
            form.op.call_boxed_for_key(key, &mut inner)?;
            let guard = below();
            for (target, v) in form.results.iter().zip(&mut inner) {
                if let Target::Written(at) = target {
                    for (to, new) in args[*at].tensors().zip(v.tensors()) {
                        access::check_no_partial_overlap(to, new)?;
                    }
                }
                *v = v.map_tensors(own_value)?;
            }
            guard
        }
    };
    ensure_compile!(
        inner.len() == form.results.len(),
        "`{}` returned {} values, expected {}",
        form.op.name(),
        inner.len(),
        form.results.len()
    );
    for (i, (target, new)) in form.results.iter().zip(inner).enumerate() {
        let result = match target {
            Target::Written(at) => {
                let mut shapes = shapes.get(i).into_iter().flat_map(Value::tensors);
                let given = given[*at].tensors();
                for ((t, given), new) in args[*at].tensors().zip(given).zip(new.tensors()) {
                    let shape = shapes.next();
                    let moves = |s: &&Tensor| s.sizes() == t.sizes() && s.strides() != t.strides();
                    let moved = shape.filter(moves).is_some();
                    if schema.args[*at].is_out() && (moved || t.sizes() != new.sizes()) {
                        // the tensor that the function holds must be the one that changes
                        reshape::check_wrapper(op, given)?;
                        reshape::resize_out(t, new.clone(), shape)?;
                    } else if !(schema.args[*at].is_out() && makes_no_values(form.op)) {
                        replace(t, new.clone())?;
                    }
                }
                args[*at].clone()
            }
            Target::Fresh => new.map_tensors(|t| Ok(wrap(t, 0)))?,
        };
        if i < schema.returns.len() {
            stack.push(result);
        }
    }
    Ok(())
}

/// An error that capture makes of a call, which need not have come by a wrapper that names it.
#[cold]
pub(super) fn named(e: Error, op: OperatorHandle, args: &[Value]) -> Error {
    let operands = args.iter().flat_map(Value::tensors);
    e.with_call(op.name().to_string(), operands)
}

/// The value of a result that is written somewhere: the parts of an operator may have returned a
/// view of an operand.
fn own_value(t: &Tensor) -> Result<Tensor> {
    let value = unwrap(t)?;
    match is_made(t) {
        true => Ok(value),
        false => crate::ops::aten::clone(&value, None),
    }
}

/// Of a tensor that `fill_` or `zero_` writes and a dimension of stride 0 repeats: its elements,
/// each once.
fn filled_once(op: OperatorHandle, args: &[Value]) -> Result<Option<Tensor>> {
    // with a tensor, it is a copy, which refuses such tensors
    let fills = op.is(Op::fill__Scalar) || op.is(Op::zero_);
    let Some(Value::Tensor(t)) = args.first().filter(|_| fills) else {
        return Ok(None);
    };
    let mut layout = Layout::of(t);
    layout.sizes = ir::layout::once(&layout.sizes, &layout.strides);
    match layout.sizes.as_slice() == t.sizes() {
        true => Ok(None),
        false => {
            let _guard = below();
            as_strided(t, &layout).map(Some)
        }
    }
}

/// The dtype that a result is computed in where none is given: that of `out`. Where another would
/// have been an error, the call on shapes has found it.
fn out_dtype(schema: &FunctionSchema, args: &[Value]) -> Value {
    let outs = schema.args.iter().zip(args).filter(|(a, _)| a.is_out());
    let mut tensors = outs.flat_map(|(_, v)| v.tensors());
    let Some(out) = tensors.next().map(Tensor::dtype) else {
        return Value::None;
    };
    // the norm of complex numbers is real, and computed in their own dtype
    let operands = schema.args.iter().zip(args).filter(|(a, _)| !a.is_out());
    let complex = operands.flat_map(|(_, v)| v.tensors()).any(|t| t.dtype().is_complex());
    let norm = schema.name.name.contains("norm");
    match norm && complex && !out.is_complex() {
        true => Value::None,
        false => out.into(),
    }
}

/// Asks for all of a leaf's storage in one node, and stops this attempt at capturing.
pub(super) fn retry_with_storage(real: usize, layout: &Layout) -> Error {
    leaves::want(real, layout.bytes());
    Error::compile("the function reaches memory beside an argument; captured again with it")
}
