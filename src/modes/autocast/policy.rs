//! The policies: which arguments an operator gets under autocast.

use super::lists::*;
use super::{cache, dtype_at, key_of};
use crate::dispatch::{DispatchKey, ExcludeGuard, Kernel, OperatorHandle, Stack, Value, operator};
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_passes::ir::schema::SchemaType;
use straightline_passes::ir::{DType, DeviceType};

/// What autocast does to the arguments of an operator.
///
/// Concerned are floating-point tensors on the device, other than `f64`; other arguments stay.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Policy {
    /// All become the low precision.
    LowerPrecision,
    /// All become `f32`.
    Fp32,
    /// They stay; the operator's `dtype` argument becomes `f32` unless it is given.
    Fp32SetOptDtype,
    /// They stay; the overload that takes a result dtype is called, with `f32`.
    Fp32AppendDtype,
    /// All become the widest dtype among them.
    Promote,
    /// The call is refused.
    Banned,
}

/// The operators of `aten` that autocast changes on a device, as PyTorch lists them; those that do
/// not exist here are on the list as well.
///
/// ```
/// use straightline::DeviceType;
/// use straightline::autocast::{Policy, autocast_operators};
/// let cpu = autocast_operators(DeviceType::Cpu);
/// assert_eq!(cpu.len(), 126);
/// assert!(cpu.contains(&("mm", Policy::LowerPrecision)));
/// ```
pub fn autocast_operators(device: DeviceType) -> Vec<(&'static str, Policy)> {
    let mut all = Vec::new();
    let mut add = |names: &[&'static str], policy| all.extend(names.iter().map(|n| (*n, policy)));
    match device {
        DeviceType::Cpu => {
            add(CPU_LOWER, Policy::LowerPrecision);
            add(CPU_FP32, Policy::Fp32);
            add(CPU_PROMOTE, Policy::Promote);
        }
        DeviceType::Cuda
        | DeviceType::Xpu
        | DeviceType::Mtia
        | DeviceType::Maia
        | DeviceType::Mps => {
            add(GPU_LOWER, Policy::LowerPrecision);
            add(GPU_FP32, Policy::Fp32);
            add(GPU_SET_DTYPE, Policy::Fp32SetOptDtype);
            let append: Vec<&str> = GPU_APPEND_DTYPE.iter().map(|(from, _)| *from).collect();
            add(&append, Policy::Fp32AppendDtype);
            add(GPU_PROMOTE, Policy::Promote);
            add(GPU_BANNED, Policy::Banned);
            match device {
                DeviceType::Cuda => {
                    add(CUDA_LOWER, Policy::LowerPrecision);
                    add(CUDA_FP32, Policy::Fp32);
                }
                DeviceType::Mps => {
                    add(MPS_LOWER, Policy::LowerPrecision);
                    add(MPS_FP32, Policy::Fp32);
                    all.retain(|(name, _)| !MPS_WITHOUT.contains(name));
                }
                _ => {}
            }
        }
        _ => {}
    }
    all
}

/// The kernel that an operator of yours needs at a device's autocast key to follow a policy.
///
/// ```
/// use straightline::autocast::{Policy, autocast, autocast_kernel};
/// use straightline::dispatch::{DispatchKey, Library, operator};
/// use straightline::{DType, DeviceType, Tensor};
///
/// let mut lib = Library::new("docs_autocast")?;
/// lib.def("twice(Tensor x) -> Tensor")?;
/// lib.impl_at("twice", DispatchKey::CPU, |x: &Tensor| x.add(x))?;
/// let kernel = autocast_kernel(DeviceType::Cpu, Policy::LowerPrecision)?;
/// lib.impl_at("twice", DispatchKey::AutocastCPU, kernel)?;
///
/// let twice = operator("docs_autocast::twice")?.typed::<(&'static Tensor,), Tensor>()?;
/// let x = Tensor::from_vec([1f32], 1)?;
/// let _on = autocast(DeviceType::Cpu, None)?;
/// assert_eq!(twice.call((&x,))?.dtype(), DType::BF16);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
///
/// The device has no autocast.
pub fn autocast_kernel(device: DeviceType, policy: Policy) -> Result<Kernel> {
    Ok(kernel(key_of(device)?, device, policy))
}

pub(super) fn kernel(key: DispatchKey, device: DeviceType, policy: Policy) -> Kernel {
    Kernel::boxed(move |op, _, stack| {
        // the operator is called again from the top: what is above sees the cast arguments
        let _below = ExcludeGuard::new(key);
        let base = match op.schema() {
            Some(s) => stack.len().saturating_sub(s.args.len()),
            None => 0,
        };
        let args = &mut stack[base..];
        let mut target = op;
        match policy {
            Policy::LowerPrecision => cast_all(args, device, dtype_at(key), key)?,
            Policy::Fp32 => cast_all(args, device, DType::F32, key)?,
            Policy::Promote => {
                let dtype = widest(op, args, device, dtype_at(key))?;
                cast_all(args, device, dtype, key)?;
            }
            Policy::Fp32SetOptDtype => {
                if first_is_eligible(args, device) {
                    set_dtype(op, args);
                }
            }
            Policy::Fp32AppendDtype => target = append_dtype(op, stack, base, device)?,
            Policy::Banned => {
                return Err(Error::runtime(format!(
                    "`{}` is unsafe under autocast: what comes before it is in low precision, and its \
                     logarithms overflow. Use `binary_cross_entropy_with_logits` on what goes into the \
                     sigmoid, or leave autocast for this call",
                    op.name()
                )));
            }
        }
        target.call_boxed(stack)
    })
}

fn is_eligible(t: &Tensor, device: DeviceType) -> bool {
    let here = t.device().kind == device
        // as PyTorch has it: XLA tensors are cast by CUDA's autocast
        || (device == DeviceType::Cuda && t.device().kind == DeviceType::Xla);
    here && t.dtype().is_floating() && t.dtype() != DType::F64
}

fn cast(t: &Tensor, device: DeviceType, dtype: DType, key: DispatchKey) -> Result<Tensor> {
    if !is_eligible(t, device) || t.dtype() == dtype {
        return Ok(t.clone());
    }
    let convert = |t: &Tensor| aten::to_dtype(t, dtype, false, false, None);
    if dtype == dtype_at(key) {
        cache::cached(t, dtype, convert)
    } else {
        convert(t)
    }
}

/// Casts the eligible tensors among the arguments. Lists of optional tensors (indices) stay.
fn cast_all(args: &mut [Value], device: DeviceType, dtype: DType, key: DispatchKey) -> Result<()> {
    for v in args {
        match v {
            Value::Tensor(t) => *t = cast(t, device, dtype, key)?,
            Value::TensorList(list) => {
                for t in list.iter_mut() {
                    *t = cast(t, device, dtype, key)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The dtype that all eligible arguments can be cast to: `f32` if one has it.
fn widest(op: OperatorHandle, args: &[Value], device: DeviceType, low: DType) -> Result<DType> {
    let mut widest = low;
    let tensors = args.iter().filter_map(|v| match v {
        Value::Tensor(t) => Some(std::slice::from_ref(t)),
        Value::TensorList(list) => Some(&list[..]),
        _ => None,
    });
    for t in tensors.flatten().filter(|t| is_eligible(t, device)) {
        widest = match (widest, t.dtype()) {
            (DType::F32, _) | (_, DType::F32) => DType::F32,
            (have, next) if have == next => next,
            (_, next) => {
                return Err(Error::dtype(format!(
                    "Unexpected floating ScalarType in autocast: `{}` got a tensor of {}, and under \
                     autocast to {low} its arguments can be {low} and f32: convert it first",
                    op.name(),
                    next.torch_name()
                )));
            }
        };
    }
    Ok(widest)
}

fn first_is_eligible(args: &[Value], device: DeviceType) -> bool {
    matches!(args.first(), Some(Value::Tensor(t)) if is_eligible(t, device))
}

/// Sets the dtype arguments that are not given.
fn set_dtype(op: OperatorHandle, args: &mut [Value]) {
    let Some(schema) = op.schema() else { return };
    for (v, arg) in args.iter_mut().zip(&schema.args) {
        let optional = matches!(&arg.ty, SchemaType::Optional(t) if **t == SchemaType::ScalarType);
        if optional && v.is_none() {
            *v = Value::DType(DType::F32);
        }
    }
}

/// The overload with a result dtype, and its argument on the stack: `f32`, or the first argument's
/// own dtype where that is not cast.
fn append_dtype(
    op: OperatorHandle,
    stack: &mut Stack,
    base: usize,
    device: DeviceType,
) -> Result<OperatorHandle> {
    let name = op.name().to_string();
    let to = GPU_APPEND_DTYPE
        .iter()
        .find(|(from, _)| name.strip_prefix("aten::") == Some(from))
        .map(|(_, to)| format!("aten::{to}"))
        .ok_or_else(|| {
            Error::not_implemented(format!(
                "autocast knows no overload of `{name}` that takes a result dtype: use another policy"
            ))
        })?;
    let dtype = match stack.get(base) {
        Some(Value::Tensor(t)) if !is_eligible(t, device) => t.dtype(),
        _ => DType::F32,
    };
    stack.push(Value::DType(dtype));
    operator(&to)
}
