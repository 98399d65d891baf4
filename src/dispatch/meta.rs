//! Meta kernels: what an operator would return, as tensors with shapes and no data.

use super::operator::OperatorHandle;
use super::tls::ExcludeGuard;
use super::value::Value;
use crate::error::{ErrorKind, Result};
use crate::tensor::storage::Storage;
use crate::tensor::{Tensor, numbered};
use smallvec::SmallVec;
use std::panic::{AssertUnwindSafe, catch_unwind};
use straightline_catalog::schema::FunctionSchema;
use straightline_catalog::{Device, Dims, DispatchKey, DispatchKeySet, TensorMeta, layout};

/// A tensor with the same shape on the Meta device.
pub(crate) fn to_meta(t: &Tensor) -> Tensor {
    if t.kind_without_memory().is_some() {
        // its size may be too large for a storage
        let (sizes, keys) = (t.sizes(), t.key_set());
        return Tensor::irregular(sizes, t.numel(), t.dtype(), Device::META, keys, ());
    }
    meta_in(t, Storage::without_data(t.storage().bytes()))
}

/// A tensor of this type on Meta.
pub(crate) fn of_type(m: &TensorMeta) -> Tensor {
    let bytes = layout::storage_bytes(m.dtype.size(), &m.sizes, &m.strides, 0);
    let storage = Storage::without_data(bytes);
    let (sizes, strides) = (m.sizes.clone(), m.strides.clone());
    Tensor::build(storage, m.dtype, Device::META, sizes, strides, 0)
}

/// [`to_meta`] of a tensor whose storage has a size, in the given storage.
fn meta_in(t: &Tensor, storage: Storage) -> Tensor {
    let m = Tensor::build(
        storage,
        t.dtype(),
        Device::META,
        Dims::from_slice(t.sizes()),
        Dims::from_slice(t.strides()),
        t.storage_offset(),
    );
    if t.is_wrapped_number() { m.into_wrapped_number() } else { m }
}

/// Tensors moved to Meta, which share storage where the originals do, because kernels check for
/// overlap.
#[derive(Default)]
struct Twins<'a>(SmallVec<[(&'a Storage, Storage); 4]>);

impl<'a> Twins<'a> {
    fn of(&mut self, t: &'a Tensor) -> Tensor {
        if t.kind_without_memory().is_some() {
            return to_meta(t);
        }
        let known = self.0.iter().find(|(of, _)| of.same(t.storage()));
        let storage = match known {
            Some((_, storage)) => storage.clone(),
            None => {
                let fresh = Storage::without_data(t.storage().bytes());
                self.0.push((t.storage(), fresh.clone()));
                fresh
            }
        };
        meta_in(t, storage)
    }
}

/// The arguments with every tensor and device moved to Meta, and the device that results get.
pub(crate) fn meta_arguments(args: &[Value]) -> (Vec<Value>, Device) {
    let mut device: Option<Device> = None;
    // numbers on the CPU go where the others are
    let mut note = |t: &Tensor| match device {
        Some(d) if !d.is_cpu() || t.device().is_cpu() => {}
        _ => device = Some(t.device()),
    };
    let mut twins = Twins::default();
    let values = args
        .iter()
        .map(|v| match v {
            Value::Tensor(t) => {
                note(t);
                Value::Tensor(twins.of(t))
            }
            Value::TensorList(l) => {
                l.iter().for_each(&mut note);
                Value::TensorList(l.iter().map(|t| twins.of(t)).collect())
            }
            Value::OptionalTensorList(l) => {
                l.iter().flatten().for_each(&mut note);
                let each = l.iter().map(|t| t.as_ref().map(|t| twins.of(t)));
                Value::OptionalTensorList(each.collect())
            }
            other => other.clone(),
        })
        .collect();
    // a device argument decides over the operands' device
    let explicit = args.iter().find_map(|v| match v {
        Value::Device(d) => Some(*d),
        _ => None,
    });
    let values: Vec<Value> = values;
    (values, numbered(explicit.or(device).unwrap_or(Device::CPU)))
}

/// Replaces device arguments by `meta`; for a factory also an omitted one.
pub(crate) fn devices_to_meta(schema: &FunctionSchema, args: &mut [Value], factory: bool) {
    for (v, a) in args.iter_mut().zip(&schema.args) {
        let given = match &*v {
            Value::Device(_) => true,
            Value::String(s) => a.name == "device" && s.parse::<Device>().is_ok(),
            v => v.is_none() && a.name == "device" && factory,
        };
        if given {
            *v = Value::Device(Device::META);
        }
    }
}

/// Runs the operator's Meta kernel on the arguments: shapes without data.
pub(crate) fn run(op: OperatorHandle, args: &[Value]) -> Result<(Vec<Value>, Device)> {
    let (mut stack, device) = meta_arguments(args);
    if let Some(schema) = op.schema() {
        let factory = args.iter().all(|v| v.tensors().next().is_none());
        devices_to_meta(schema, &mut stack, factory);
    }
    let _guard =
        ExcludeGuard::new(DispatchKeySet::of(&[DispatchKey::Tracer, DispatchKey::Functionalize]));
    // eager code does not call this kernel, so its panic becomes an error for the caller
    let run = || op.redispatch_boxed(DispatchKey::Meta.into(), &mut stack);
    let done = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = straightline_runtime::panic_text(&*panic);
        Err(ErrorKind::Panic(format!("(its Meta kernel) {text}")).into())
    });
    let on_meta = |t: &Tensor| t.device().is_meta();
    match done {
        Ok(()) => Ok((stack, device)),
        Err(e) if args.iter().flat_map(Value::tensors).any(on_meta) => Err(e),
        Err(e) => Err(e.with_operands_on(device)),
    }
}
