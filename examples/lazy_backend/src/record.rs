//! The kernel of every operator: records the call and determines the shape of the result.

use crate::graph::{Content, Operand, Read, ViewStep};
use crate::program::written_argument;
use crate::runtime::{LazyTensor, Runtime, Storage};
use std::sync::Arc;
use straightline::dispatch::{
    DispatchError, DispatchKey, OperatorHandle, Stack, Value, ViewFallback, call_on_cpu,
};
use straightline::{Device, Error, ErrorKind, Result, Tensor};

/// Tags of operators whose results are not a function of what can be recorded.
const NOT_RECORDED: [&str; 3] =
    ["nondeterministic_seeded", "data_dependent_output", "dynamic_output_shape"];

pub(crate) fn lazy(t: &Tensor) -> Option<&LazyTensor> {
    t.payload()
}

fn error(op: OperatorHandle, device: Device, what: &str) -> Error {
    let text = format!("{}: {what} (`{device}`)", op.name());
    Error::new(ErrorKind::NotImplemented(text))
}

/// A tensor of the device in the shape of another.
pub(crate) fn like(
    shape: &Tensor,
    device: Device,
    storage: Arc<Storage>,
    views: Vec<ViewStep>,
) -> Result<Tensor> {
    Tensor::opaque(LazyTensor { storage, views }, shape.sizes(), shape.dtype(), device)
        .strides(shape.strides())
        .build()
}

/// Records a call whose arguments are on top of the stack, or runs it on the CPU where it cannot
/// be recorded.
pub(crate) fn record(
    runtime: &Arc<Runtime>,
    here: Device,
    op: OperatorHandle,
    stack: &mut Stack,
) -> Result<()> {
    runtime.sync_if_much()?;
    let count = op.schema().map_or(stack.len(), |s| s.args.len());
    let base = stack.len().saturating_sub(count);
    let shapes = if op.tags().iter().any(|t| NOT_RECORDED.contains(t)) {
        None
    } else {
        shapes_of(op, &stack[base..])?
    };
    let Some(shapes) = shapes else {
        runtime.count(|s| s.on_cpu += 1);
        return call_on_cpu(op, stack, ViewFallback::Refuse);
    };
    let args = stack.split_off(base);
    let device = device_of(&args).unwrap_or(here);
    let returns = if op.schema().is_some_and(|s| s.is_view() && !s.is_mutable()) {
        view(op, &args, &shapes)?
    } else {
        call(runtime, device, op, &args, &shapes)?
    };
    stack.extend(returns);
    Ok(())
}

fn device_of(args: &[Value]) -> Option<Device> {
    let own = args.iter().flat_map(Value::tensors).find(|t| lazy(t).is_some());
    own.map(Tensor::device).or_else(|| {
        args.iter().find_map(|v| match v {
            Value::Device(d) => Some(*d),
            _ => None,
        })
    })
}

/// The results on the Meta device, which have only a shape. `None` for an operator whose shapes are
/// unknown without data, or whose results are not tensors.
fn shapes_of(op: OperatorHandle, args: &[Value]) -> Result<Option<Vec<Value>>> {
    let mut stack = args.iter().map(|v| to_meta(op, v)).collect::<Result<Stack>>()?;
    match op.redispatch_boxed(DispatchKey::Meta.into(), &mut stack) {
        Ok(()) => {
            let tensors = |v: &Value| matches!(v, Value::Tensor(_) | Value::TensorList(_));
            Ok(stack.iter().all(tensors).then_some(stack))
        }
        Err(e) => match e.kind() {
            ErrorKind::Dispatch(
                DispatchError::NoMetaKernel { .. } | DispatchError::MissingKernel(_),
            ) => Ok(None),
            _ => Err(e),
        },
    }
}

fn to_meta(op: OperatorHandle, value: &Value) -> Result<Value> {
    let meta = |t: &Tensor| {
        if lazy(t).is_none() && t.dim() > 0 {
            let what = format!("{t:?} is an argument: move it with `to_device` first");
            return Err(error(op, t.device(), &what));
        }
        if lazy(t).is_none() {
            return Ok(t.clone()); // a number: the CPU's mix with every device
        }
        Tensor::opaque((), t.sizes(), t.dtype(), Device::META).strides(t.strides()).build()
    };
    Ok(match value {
        Value::Tensor(t) => meta(t)?.into(),
        Value::TensorList(l) => l.iter().map(meta).collect::<Result<Vec<_>>>()?.into(),
        Value::OptionalTensorList(l) => {
            l.iter().map(|t| t.as_ref().map(meta).transpose()).collect::<Result<Vec<_>>>()?.into()
        }
        Value::Device(_) => Value::Device(Device::META),
        other => other.clone(),
    })
}

/// A view shares the storage and remembers how it looks at it.
fn view(op: OperatorHandle, args: &[Value], shapes: &[Value]) -> Result<Vec<Value>> {
    let of = args.first().and_then(Value::as_tensor);
    let Some((of, seen)) = of.and_then(|t| Some((t, lazy(t)?))) else {
        let what = "a view must be of its first argument";
        return Err(error(op, device_of(args).unwrap_or(Device::CPU), what));
    };
    if op.name().name == "aten::as_strided" && !seen.views.is_empty() {
        let what = "`as_strided` of a view is not known: take it of the tensor itself, or `clone()` the view first";
        return Err(error(op, of.device(), what));
    }
    let mut index = 0;
    let mut next = |shape: &Tensor| {
        let mut views = seen.views.clone();
        views.push(ViewStep { op, args: args[1..].to_vec(), index });
        index += 1;
        like(shape, of.device(), seen.storage.clone(), views)
    };
    shapes.iter().map(|v| rebuild(v, &mut next)).collect()
}

/// Any other operator becomes a node; tensors that it writes get a new content.
fn call(
    runtime: &Arc<Runtime>,
    device: Device,
    op: OperatorHandle,
    args: &[Value],
    shapes: &[Value],
) -> Result<Vec<Value>> {
    let mut operands = Vec::with_capacity(args.len());
    let mut written: Vec<Arc<Storage>> = Vec::new();
    for (i, value) in args.iter().enumerate() {
        let writes = op.schema().is_some_and(|s| s.args[i].is_write());
        if writes {
            for t in value.tensors() {
                let Some(t) = lazy(t) else {
                    return Err(error(op, device, "a tensor of another device is written"));
                };
                if written.iter().any(|w| Arc::ptr_eq(w, &t.storage)) {
                    return Err(error(op, device, "two written arguments share their memory"));
                }
                written.push(t.storage.clone());
            }
        }
        operands.push(operand(value, writes)?);
    }
    let node = runtime.node(op, operands);
    let mut result = 0;
    let mut fresh = |shape: &Tensor| {
        let content = Content::Pending(node.clone(), result);
        result += 1;
        like(shape, device, Storage::new(runtime, content), Vec::new())
    };
    let mut returns = Vec::with_capacity(shapes.len());
    for (r, shape) in shapes.iter().enumerate() {
        returns.push(match written_argument(op, r) {
            Some(i) => args[i].clone(),
            None => rebuild(shape, &mut fresh)?,
        });
    }
    for storage in written {
        storage.set(Content::Pending(node.clone(), result));
        result += 1;
    }
    Ok(returns)
}

/// A value of the same form with other tensors.
fn rebuild(value: &Value, f: &mut impl FnMut(&Tensor) -> Result<Tensor>) -> Result<Value> {
    Ok(match value {
        Value::Tensor(t) => f(t)?.into(),
        Value::TensorList(l) => l.iter().map(f).collect::<Result<Vec<_>>>()?.into(),
        other => other.clone(),
    })
}

fn operand(value: &Value, written: bool) -> Result<Operand<Content>> {
    let read = |t: &Tensor| {
        if let Some(t) = lazy(t) {
            return Ok(Read { base: t.storage.content(), views: t.views.clone(), written });
        }
        Ok(Read { base: Content::Ready(number(t)?), views: Vec::new(), written })
    };
    Ok(match value {
        Value::Tensor(t) => Operand::Tensor(read(t)?),
        Value::TensorList(l) => Operand::List(l.iter().map(read).collect::<Result<_>>()?),
        Value::OptionalTensorList(l) => Operand::OptionalList(
            l.iter().map(|t| t.as_ref().map(read).transpose()).collect::<Result<_>>()?,
        ),
        Value::Device(_) => Operand::Plain(Value::Device(Device::CPU)),
        other => Operand::Plain(other.clone()),
    })
}

/// A copy of a 0-dim CPU tensor, since its owner may write it before the program runs. A bare
/// number wrapped as a tensor has no owner and needs no copy.
fn number(t: &Tensor) -> Result<Tensor> {
    if t.is_wrapped_number() { Ok(t.clone()) } else { straightline::ops::aten::clone(t, None) }
}
