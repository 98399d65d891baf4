//! The CPU fallback: what a backend registers for the operators that it has no kernel for.

use super::error::DispatchError;
use super::kernel::Kernel;
use super::key::DispatchKey;
use super::keyset::DispatchKeySet;
use super::operator::OperatorHandle;
use super::tls::ExcludeGuard;
use super::value::{Stack, Value};
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_passes::ir::Device;
use straightline_passes::ir::schema::FunctionSchema;

/// What the fallback itself is made of: a backend must have these.
const PRIMITIVES: [&str; 4] = [
    "aten::_copy_from",
    "aten::_copy_from_and_resize",
    "aten::empty.memory_format",
    "aten::empty_strided",
];

/// What the CPU fallback does with an operator whose result is a view of an argument: memory of two
/// devices can not be shared, so the result could not be one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ViewFallback {
    /// Fails with [`DispatchError::CpuFallbackView`].
    #[default]
    Refuse,
    /// Returns a copy and logs a warning: right where nobody writes through the view.
    Copy,
}

/// A kernel for the fallback of a backend's key, which runs every operator that the backend lacks
/// on the CPU: tensors are copied there, results and written arguments back.
///
/// The backend itself must register `empty.memory_format`, `empty_strided` and `_copy_from`, and its
/// own view operators.
///
/// ```
/// use straightline::dispatch::{DispatchKey, Library, cpu_fallback};
/// use straightline::ops::aten;
/// use straightline::{DType, Device, DeviceType, Layout, MemoryFormat, Tensor};
///
/// // a device whose memory is a CPU tensor that nobody else sees
/// struct Memory(Tensor);
/// fn memory(t: &Tensor) -> &Tensor {
///     t.payload::<Memory>().map_or(t, |m| &m.0)
/// }
///
/// let device = Device::new(DeviceType::PrivateUse2);
/// let mut lib = Library::implementation("aten", DispatchKey::PrivateUse2)?;
/// lib.impl_("empty_strided", |size: &[i64], stride: &[i64], dtype: Option<DType>, layout: Option<Layout>,
///                             device: Option<Device>, pin: Option<bool>| {
///     let cpu = aten::empty_strided(size, stride, dtype, layout, Some(Device::CPU), pin)?;
///     let (dtype, device) = (cpu.dtype(), device.unwrap_or(Device::new(DeviceType::PrivateUse2)));
///     Tensor::opaque(Memory(cpu), size, dtype, device).strides(stride).build()
/// })?;
/// lib.impl_("_copy_from", |src: &Tensor, dst: &Tensor, _non_blocking: bool| {
///     aten::copy_(memory(dst), memory(src), false)?;
///     Ok(dst.clone())
/// })?;
/// let mut rest = Library::fallbacks(DispatchKey::PrivateUse2)?;
/// rest.fallback(cpu_fallback())?;
///
/// let x = Tensor::from_vec([-1f32, 2.0])?.to_device(device)?;
/// let y = x.relu()?;
/// assert_eq!(y.device(), device);
/// assert_eq!(y.to_vec::<f32>()?, [0.0, 2.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn cpu_fallback() -> Kernel {
    cpu_fallback_with(ViewFallback::Refuse)
}

/// [`cpu_fallback`] with a choice for view operators.
pub fn cpu_fallback_with(views: ViewFallback) -> Kernel {
    Kernel::boxed(move |op, _, stack| call_on_cpu(op, stack, views))
}

/// Runs one operator on the CPU for a backend: what [`cpu_fallback`] does, for a backend whose
/// own boxed kernel decides operator by operator.
///
/// # Errors
///
/// The operator is one that the fallback is made of, is a view operator and `views` refuses it, or
/// fails on the CPU.
pub fn call_on_cpu(op: OperatorHandle, stack: &mut Stack, views: ViewFallback) -> Result<()> {
    let name = || op.name().to_string();
    let schema = op
        .schema()
        .ok_or_else(|| super::operator::not_found(op.name(), true))?;
    let Some(base) = stack.len().checked_sub(schema.args.len()) else {
        return Err(DispatchError::StackUnderflow {
            op: name(),
            want: schema.args.len(),
            have: stack.len(),
        }
        .into());
    };
    let target = target_device(&stack[base..]);
    if PRIMITIVES.contains(&name().as_str()) {
        let device = backend_of(&stack[base..]);
        return Err(DispatchError::CpuFallbackPrimitive { op: name(), device }.into());
    }
    let viewed = schema.is_view() && target.is_some_and(|d| !d.is_cpu());
    if viewed {
        let device = target.unwrap_or(Device::CPU);
        match views {
            ViewFallback::Refuse => {
                return Err(DispatchError::CpuFallbackView { op: name(), device }.into());
            }
            ViewFallback::Copy => tracing::warn!(
                "{}: its result should be a view and is a copy, since `{device}` has no kernel for it and \
                 memory of two devices is not shared",
                op.name()
            ),
        }
    }
    let originals = stack.split_off(base);
    let mut inner = originals.iter().map(to_cpu).collect::<Result<Stack>>()?;
    let copies = inner.clone();
    op.redispatch_boxed(DispatchKeySet::from(DispatchKey::CPU), &mut inner)?;
    for (i, original) in originals.iter().enumerate() {
        if schema.args[i].is_write() {
            copy_back(original, &copies[i])?;
        }
    }
    for (r, value) in inner.into_iter().enumerate() {
        stack.push(match written_argument(schema, r) {
            Some(i) => originals[i].clone(),
            None => to_target(value, target)?,
        });
    }
    Ok(())
}

/// The argument that a return is, where the operator writes it and hands it back.
fn written_argument(schema: &FunctionSchema, ret: usize) -> Option<usize> {
    let argument = schema.aliased_argument(ret)?;
    schema.args[argument].is_write().then_some(argument)
}

/// Where results go: the device argument if one is given, else where the first tensor is, a
/// tensor of its own before one in a list.
fn target_device(args: &[Value]) -> Option<Device> {
    let argument = args.iter().find_map(|v| match v {
        Value::Device(d) => Some(*d),
        _ => None,
    });
    let alone = || args.iter().find_map(Value::as_tensor);
    let first = || alone().or_else(|| args.iter().flat_map(Value::tensors).next());
    argument.or_else(|| first().map(Tensor::device))
}

/// The device of a call that is not the CPU.
fn backend_of(args: &[Value]) -> Device {
    let tensors = args.iter().flat_map(Value::tensors).map(Tensor::device);
    let arguments = args.iter().filter_map(|v| match v {
        Value::Device(d) => Some(*d),
        _ => None,
    });
    let mut devices = tensors.chain(arguments);
    devices.find(|d| !d.is_cpu()).unwrap_or(Device::CPU)
}

/// Copies a tensor to another device without recording a gradient for it.
fn moved(t: &Tensor, device: Device) -> Result<Tensor> {
    if t.device() == device {
        return Ok(t.clone());
    }
    let _below = ExcludeGuard::below_autograd();
    let copy = aten::_to_copy(t, None, None, Some(device), None, false, None)?;
    Ok(if t.is_wrapped_number() {
        copy.into_wrapped_number()
    } else {
        copy
    })
}

/// The value with every tensor, and a device that is named, on the CPU.
fn to_cpu(value: &Value) -> Result<Value> {
    value
        .map_tensors(|t| moved(t, Device::CPU))
        .map(|v| match v {
            Value::Device(_) => Value::Device(Device::CPU),
            other => other,
        })
}

fn to_target(value: Value, target: Option<Device>) -> Result<Value> {
    match target {
        Some(device) => value.map_tensors(|t| moved(t, device)),
        None => Ok(value),
    }
}

/// What the CPU kernel wrote, into the argument that it was a copy of.
fn copy_back(original: &Value, copy: &Value) -> Result<()> {
    let _below = ExcludeGuard::below_autograd();
    for (original, copy) in original.tensors().zip(copy.tensors()) {
        if !original.is_same(copy) {
            aten::copy_(original, copy, false)?;
        }
    }
    Ok(())
}
