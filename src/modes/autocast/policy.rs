//! The policies: which arguments an operator gets under autocast.

use super::{cache, dtype_at, key_of};
use crate::dispatch::{DispatchKey, ExcludeGuard, Kernel, OperatorHandle, Stack, Value, handle_of};
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::rules::{Autocast, AutocastList, Modes};
use straightline_catalog::schema::SchemaType;
use straightline_catalog::{DType, DeviceType, Op, listed_in_modes};

/// What autocast does to the arguments of an operator.
///
/// Applies to floating-point tensors on the device other than `f64`; other arguments are unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Policy {
    /// All are cast to the low precision.
    LowerPrecision,
    /// All become `f32`.
    Fp32,
    /// Not cast; the operator's `dtype` argument becomes `f32` unless given.
    Fp32SetOptDtype,
    /// Not cast; the overload with a result dtype is called, with `f32`.
    Fp32AppendDtype,
    /// All are cast to the widest dtype among them.
    Promote,
    /// The call is refused.
    Banned,
}

/// The operators of `aten` that autocast changes on a device, as PyTorch lists them; the list
/// includes operators that do not exist here.
///
/// ```
/// use straightline::DeviceType;
/// use straightline::autocast::{Policy, autocast_operators};
/// let cpu = autocast_operators(DeviceType::Cpu);
/// assert_eq!(cpu.len(), 126);
/// assert!(cpu.contains(&("mm", Policy::LowerPrecision)));
/// ```
pub fn autocast_operators(device: DeviceType) -> Vec<(&'static str, Policy)> {
    let listed = listed_in_modes().filter_map(|(name, modes)| {
        let name = name.split_once("::").map_or(name, |(_, name)| name);
        Some((name, policy_of(modes, device)?))
    });
    listed.collect()
}

/// What the lists say of an operator on a device.
fn policy_of(modes: Modes, device: DeviceType) -> Option<Policy> {
    let on = |list| {
        let found = modes.autocast.iter().find(|(of, _)| *of == list);
        found.map(|(_, policy)| *policy)
    };
    let said = match device {
        DeviceType::Cpu => on(AutocastList::Cpu),
        DeviceType::Cuda => on(AutocastList::Cuda).or(on(AutocastList::Gpu)),
        DeviceType::Mps => on(AutocastList::Mps).or(on(AutocastList::Gpu)),
        DeviceType::Xpu | DeviceType::Mtia | DeviceType::Maia => on(AutocastList::Gpu),
        _ => None,
    };
    Some(match said? {
        Autocast::None => return None,
        Autocast::Lower => Policy::LowerPrecision,
        Autocast::Fp32 => Policy::Fp32,
        Autocast::SetDtype => Policy::Fp32SetOptDtype,
        Autocast::AppendDtype => Policy::Fp32AppendDtype,
        Autocast::Promote => Policy::Promote,
        Autocast::Banned => Policy::Banned,
    })
}

/// The kernel that a custom operator needs at a device's autocast key to follow a policy.
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
        // the operator is called again from the top, so that higher keys see the cast arguments
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
        // as in PyTorch, XLA tensors are cast by CUDA's autocast
        || (device == DeviceType::Cuda && t.device().kind == DeviceType::Xla);
    here && t.dtype().is_floating() && t.dtype() != DType::F64
}

fn cast(t: &Tensor, device: DeviceType, dtype: DType, key: DispatchKey) -> Result<Tensor> {
    if !is_eligible(t, device) || t.dtype() == dtype {
        return Ok(t.clone());
    }
    let convert = |t: &Tensor| aten::to_dtype(t, dtype, false, false, None);
    if dtype == dtype_at(key) { cache::cached(t, dtype, convert) } else { convert(t) }
}

/// Casts the eligible tensors among the arguments. Lists of optional tensors (indices) are
/// unchanged.
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
    let to = match op.op() {
        Some(Op::norm_Scalar) => Op::norm_ScalarOpt_dtype,
        Some(Op::norm_ScalarOpt_dim) => Op::norm_ScalarOpt_dim_dtype,
        _ => {
            return Err(Error::not_implemented(format!(
                "autocast knows no overload of `{}` that takes a result dtype: use another policy",
                op.name()
            )));
        }
    };
    let dtype = match stack.get(base) {
        Some(Value::Tensor(t)) if !is_eligible(t, device) => t.dtype(),
        _ => DType::F32,
    };
    stack.push(Value::DType(dtype));
    handle_of(to)
}
