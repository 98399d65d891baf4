//! The kernels at the keys of the layers: a call goes to the innermost layer, which calls the
//! operator again below itself, until no layer is left.
//!
//! A `Grad` layer wraps all operands, so that what the autograd kernel sees is the layer's own
//! history and none of those outside; the kernel at `FuncTorchDynamicLayerBackMode`, which the
//! rest of that call arrives at, unwraps them again. A `Vmap` layer applies a batching rule.

use super::batch;
use super::composite::{answers, decompose, is_composite};
use super::error::TransformError;
use super::inside;
use super::layer::{self, Kind, Layer};
use super::wrapper;
use crate::autograd::{Carrying, GradGuard, inference_mode, is_grad_enabled};
use crate::dispatch::schema::{AliasInfo, FunctionSchema};
use crate::dispatch::{
    AboveAutograd, DispatchKey, DispatchKeySet, ForceKeySetGuard, Kernel, Library, LinePin,
    OperatorHandle, Stack, TlsKeySets, Value, forward_enabled, line,
};
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use crate::tensor::history::Kind as ViewKind;
use std::cell::RefCell;
use std::rc::Rc;
use straightline_catalog::Op;

const FRONT: DispatchKey = DispatchKey::FuncTorchDynamicLayerFrontMode;
const BACK: DispatchKey = DispatchKey::FuncTorchDynamicLayerBackMode;

/// The functionalities that a `Grad` layer leaves to a call: the autograd keys and the way back.
const RECORDING: DispatchKeySet =
    DispatchKeySet::from_raw(DispatchKeySet::AUTOGRAD.raw() | DispatchKeySet::of(&[BACK]).raw());

/// All others.
const NOT_RECORDING: DispatchKeySet = DispatchKeySet::from_raw(
    DispatchKeySet::FULL.raw() & !DispatchKeySet::ALL_BACKENDS.raw() & !RECORDING.raw(),
);

/// A call of a `Grad` layer between its two kernels.
struct Between {
    layer: Rc<Layer>,
    /// The key sets of its caller.
    keys: TlsKeySets,
    /// Grad mode there.
    grad: bool,
}

thread_local! {
    static CALLS: RefCell<Vec<Rc<Between>>> = const { RefCell::new(Vec::new()) };
}

/// Registers the kernels at the keys of the layers.
pub(crate) fn register() -> Result<()> {
    crate::autograd::set_batches(crate::autograd::Batches {
        run: super::map::passes,
        is_running: || layer::innermost().is_some(),
        inside: inside::inside_batches,
        like: inside::batched_like,
        holds: wrapper::holds,
        batched: inside::batched_as,
    });
    crate::autograd::set_in_layer(super::function::called);
    let kernels = [
        (FRONT, Kernel::boxed(front)),
        (BACK, Kernel::boxed(back)),
        (DispatchKey::FuncTorchGradWrapper, Kernel::boxed(outlived)),
        (DispatchKey::FuncTorchBatched, Kernel::boxed(escaped)),
    ];
    // all of them or none
    let mut libraries = Vec::new();
    for (key, kernel) in kernels {
        let mut library = Library::fallbacks(key)?;
        library.fallback(kernel)?;
        libraries.push(library);
    }
    libraries.into_iter().for_each(Library::leak);
    Ok(())
}

/// Takes the arguments of a call off the stack.
fn take(op: OperatorHandle, stack: &mut Stack) -> Result<(&'static FunctionSchema, Vec<Value>)> {
    let schema =
        op.schema().ok_or_else(|| Error::runtime(format!("`{}` has no schema", op.name())))?;
    let base = stack.len().checked_sub(schema.args.len());
    let base = base.ok_or_else(|| Error::runtime(format!("`{}` lacks arguments", op.name())))?;
    Ok((schema, stack.split_off(base)))
}

fn map_all(args: &mut [Value], f: &mut dyn FnMut(&Tensor) -> Option<Tensor>) -> Result<()> {
    for value in args {
        match value {
            Value::Tensor(t) => {
                if let Some(new) = f(t) {
                    *t = new;
                }
            }
            Value::TensorList(_) | Value::OptionalTensorList(_) => {
                *value = value.map_tensors(|t| Ok(f(t).unwrap_or_else(|| t.clone())))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// The kernel at `FuncTorchDynamicLayerFrontMode`.
fn front(op: OperatorHandle, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
    let Some(layer) = layer::innermost() else {
        // the key was included by hand
        return op.redispatch_boxed(keys & DispatchKeySet::full_after(FRONT), stack);
    };
    if let Some(autocast) = autocast(op, keys) {
        // before the layers, so that what they see are the operands that are computed with
        let kernel = op.kernel_for(autocast)?;
        if !kernel.is_fallthrough() {
            return kernel.call_boxed(op, keys, stack);
        }
    }
    // what the layers call comes from where this call comes from
    let _line = LinePin::set(line());
    let (schema, mut args) = take(op, stack)?;
    map_all(&mut args, &mut wrapper::outlived)?;
    let results = match layer.kind {
        Kind::Vmap { .. } => batch::call(&layer, op, schema, args)?,
        Kind::Grad { .. } | Kind::Jvp { .. } => record(&layer, op, schema, args)?,
    };
    stack.extend(results);
    Ok(())
}

/// The autocast key of a call, if it is on.
fn autocast(op: OperatorHandle, keys: DispatchKeySet) -> Option<DispatchKey> {
    let set = keys & DispatchKeySet::AUTOCAST;
    if set.is_empty() {
        return None;
    }
    let key = set.highest_priority_key();
    op.has_kernel(key).then_some(key)
}

/// A call under a `Grad` or a `Jvp` layer.
fn record(
    layer: &Rc<Layer>,
    op: OperatorHandle,
    schema: &'static FunctionSchema,
    mut args: Vec<Value>,
) -> Result<Vec<Value>> {
    let keys = TlsKeySets::current();
    if answers(schema) {
        map_all(&mut args, &mut |t| wrapper::value_of(t, layer).cloned())?;
        layer::below(layer, keys, || op.call_boxed(&mut args))?;
        return Ok(args);
    }
    if is_composite(op) {
        return decompose(op, args);
    }
    for (value, arg) in args.iter().zip(&schema.args) {
        if arg.is_write() && value.tensors().any(|t| wrapper::value_of(t, layer).is_none()) {
            return Err(TransformError::Captured { op: op.name().to_string() }.into());
        }
    }
    map_all(&mut args, &mut |t| match wrapper::value_of(t, layer) {
        Some(_) => None,
        None => Some(wrapper::tracked(t, layer)),
    })?;
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            let _ = CALLS.try_with(|calls| calls.borrow_mut().pop());
        }
    }
    CALLS.with_borrow_mut(|calls| {
        calls.push(Rc::new(Between { layer: layer.clone(), keys, grad: is_grad_enabled() }))
    });
    let _leave = Leave;
    let excluded = NOT_RECORDING | (keys.excluded & DispatchKeySet::AUTOGRAD);
    let _keys = ForceKeySetGuard::new(TlsKeySets { included: BACK.into(), excluded });
    op.call_boxed(&mut args)?;
    Ok(args)
}

/// The kernel at `FuncTorchDynamicLayerBackMode`: the rest of a call of a `Grad` layer.
fn back(op: OperatorHandle, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
    let Some(call) = CALLS.with_borrow(|calls| calls.last().cloned()) else {
        return op.redispatch_boxed(keys & DispatchKeySet::full_after(BACK), stack);
    };
    let layer = &*call.layer;
    let (schema, args) = take(op, stack)?;
    let mut inner = args.clone();
    map_all(&mut inner, &mut |t| wrapper::value_of(t, layer).cloned())?;
    let given = inner.clone();
    {
        let _above = AboveAutograd::enter();
        let (outer, forward, inference) = match layer.kind {
            Kind::Grad { outer, forward, inference } => (outer, forward, inference),
            Kind::Jvp { forward, inference } => (call.grad, forward, inference),
            Kind::Vmap { .. } => (call.grad, forward_enabled(), false),
        };
        let _mode = GradGuard::set(outer);
        let _carrying = Carrying::set(forward);
        layer::below(layer, call.keys, || match inference {
            true => inference_mode(|| op.call_boxed(&mut inner)),
            false => op.call_boxed(&mut inner),
        })?;
    }
    for (value, arg) in args.iter().zip(&schema.args) {
        if arg.is_write() {
            for t in value.tensors() {
                wrapper::refresh(t, layer)?;
            }
        }
    }
    let pairs: Vec<(&Tensor, &Tensor)> =
        (args.iter().flat_map(Value::tensors)).zip(given.iter().flat_map(Value::tensors)).collect();
    for (at, value) in inner.into_iter().enumerate() {
        let alias = schema.returns.get(at).and_then(|r| alias_of(r.alias.as_ref()));
        let of = alias.and_then(|name| {
            let shares = |a: &AliasInfo| a.before.contains(&name);
            schema.args.iter().position(|a| a.alias.as_ref().is_some_and(shares))
        });
        let base = of.and_then(|at| args.get(at)).and_then(Value::as_tensor);
        let wrapped = value.map_tensors(|t| {
            // an operand that is given back is the same tensor
            if let Some((outer, _)) = pairs.iter().find(|(_, inner)| inner.same_handle(t)) {
                return Ok((*outer).clone());
            }
            Ok(match base {
                Some(base) => wrapper::tracked_view(t, base, view_kind(op), layer),
                None => wrapper::tracked(t, layer),
            })
        })?;
        stack.push(wrapped);
    }
    Ok(())
}

/// The set that a result shares with an argument: that of the elements of a list.
fn alias_of(alias: Option<&AliasInfo>) -> Option<String> {
    let alias = alias?;
    match alias.before.first() {
        Some(name) if name != "*" => Some(name.clone()),
        _ => alias.elements.first().and_then(|e| e.before.first().cloned()),
    }
}

/// How the result of a view operator follows from its operand.
fn view_kind(op: OperatorHandle) -> Option<ViewKind> {
    Some(match op.op() {
        Some(Op::detach) => return None,
        Some(Op::view_as_real) => ViewKind::Real,
        Some(Op::view_as_complex) => ViewKind::Complex,
        Some(Op::_conj) => ViewKind::Conj,
        Some(Op::_neg_view) => ViewKind::Neg,
        Some(Op::view_dtype) => ViewKind::DType,
        _ => ViewKind::Strided,
    })
}

/// The kernel at `FuncTorchGradWrapper`: a wrapper whose layer has ended is what is inside.
fn outlived(op: OperatorHandle, _keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
    let (_, mut args) = take(op, stack)?;
    let mut found = false;
    map_all(&mut args, &mut |t| {
        let inside = wrapper::outlived(t);
        found |= inside.is_some();
        inside
    })?;
    if !found {
        return Err(Error::runtime(format!(
            "`{}` on a tensor of a transform that runs on another thread, or whose key was excluded; a variable that a \
             custom Function closes over must be one of its inputs",
            op.name()
        )));
    }
    op.call_boxed(&mut args)?;
    stack.extend(args);
    Ok(())
}

/// The kernel at `FuncTorchBatched`, which no call reaches inside of a `vmap`.
fn escaped(op: OperatorHandle, _keys: DispatchKeySet, _stack: &mut Stack) -> Result<()> {
    Err(TransformError::Escaped { op: op.name().to_string() }.into())
}
