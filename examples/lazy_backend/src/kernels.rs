//! What the device registers: memory, copies, and one recording kernel for everything else.

use crate::graph::Content;
use crate::record::{lazy, like, record};
use crate::runtime::{LazyTensor, Runtime, Storage};
use std::collections::BTreeMap;
use std::sync::Arc;
use straightline::dispatch::{
    BackendComponent, DispatchKey, Kernel, Library, OperatorHandle, Stack, Value, all_operators,
    operator,
};
use straightline::ops::aten;
use straightline::{DType, Device, Layout, MemoryFormat, Result, Scalar, Tensor};

/// Composites that say on which device the result is, or that allocate memory: they must be
/// decomposed.
const IN_PARTS: [&str; 3] = ["aten::_to_copy", "aten::copy_", "aten::empty_like"];

pub(crate) fn register(runtime: &Arc<Runtime>, device: Device) -> Result<Vec<Library>> {
    let key = DispatchKey::dense(device.kind);
    let mut libraries = vec![memory(runtime, device, key)?];
    libraries.extend(whole_operators(runtime, device, key)?);
    let mut rest = Library::fallbacks(key)?;
    rest.fallback(recorder(runtime, device))?;
    libraries.push(rest);
    // c10 passes the autograd keys of most backends on, but not of PrivateUse2 and 3: a backend
    // there brings its own rule
    let autograd = DispatchKey::autograd_of(BackendComponent::of(device.kind));
    if !operator("aten::mm")?.has_computed_kernel(autograd) {
        let mut pass = Library::fallbacks(autograd)?;
        pass.fallback(Kernel::fallthrough())?;
        libraries.push(pass);
    }
    Ok(libraries)
}

fn recorder(runtime: &Arc<Runtime>, device: Device) -> Kernel {
    let runtime = runtime.clone();
    Kernel::boxed(move |op, _, stack: &mut Stack| record(&runtime, device, op, stack))
}

/// Operators that have a kernel for every backend would reach the device as the loops and buffers
/// that they are made of. This device needs them whole, so it registers its own kernels for them.
fn whole_operators(
    runtime: &Arc<Runtime>,
    device: Device,
    key: DispatchKey,
) -> Result<Vec<Library>> {
    let explicit = |op: &OperatorHandle| {
        op.has_kernel(DispatchKey::CompositeExplicitAutograd)
            || op.has_kernel(DispatchKey::CompositeExplicitAutogradNonFunctional)
    };
    let implicit = |op: &OperatorHandle| op.has_kernel(DispatchKey::CompositeImplicitAutograd);
    let mut libraries: BTreeMap<&str, Library> = BTreeMap::new();
    for op in all_operators() {
        let name = op.name().to_string();
        let (Some(namespace), Some(_)) = (op.name().namespace(), op.schema()) else {
            continue;
        };
        if !explicit(&op) || implicit(&op) || IN_PARTS.contains(&name.as_str()) {
            continue;
        }
        let library = match libraries.entry(namespace) {
            std::collections::btree_map::Entry::Occupied(e) => e.into_mut(),
            std::collections::btree_map::Entry::Vacant(e) => {
                e.insert(Library::implementation(namespace, key)?)
            }
        };
        library.impl_(&name, recorder(runtime, device))?;
    }
    Ok(libraries.into_values().collect())
}

fn memory(runtime: &Arc<Runtime>, here: Device, key: DispatchKey) -> Result<Library> {
    let mut lib = Library::implementation("aten", key)?;
    let rt = runtime.clone();
    lib.impl_(
        "empty.memory_format",
        move |size: &[i64],
              dtype: Option<DType>,
              layout: Option<Layout>,
              device: Option<Device>,
              pin: Option<bool>,
              format: Option<MemoryFormat>| {
            let meta = Some(Device::META);
            let shape = aten::empty_memory_format(size, dtype, layout, meta, pin, format)?;
            empty(&rt, &shape, device.unwrap_or(here))
        },
    )?;
    let rt = runtime.clone();
    lib.impl_(
        "empty_strided",
        move |size: &[i64],
              stride: &[i64],
              dtype: Option<DType>,
              layout: Option<Layout>,
              device: Option<Device>,
              pin: Option<bool>| {
            let meta = Some(Device::META);
            let shape = aten::empty_strided(size, stride, dtype, layout, meta, pin)?;
            empty(&rt, &shape, device.unwrap_or(here))
        },
    )?;
    let rt = runtime.clone();
    lib.impl_("_copy_from", move |src: &Tensor, dst: &Tensor, _: bool| {
        copy(&rt, here, src, dst)?;
        Ok(dst.clone())
    })?;
    lib.impl_("_local_scalar_dense", |t: &Tensor| match lazy(t) {
        Some(l) => l.on_cpu()?.item::<Scalar>(),
        None => t.item::<Scalar>(),
    })?;
    Ok(lib)
}

/// Uninitialised memory. If row-major, it is zeros made on demand, since a program with
/// uninitialised memory would not be a function of its inputs.
fn empty(runtime: &Arc<Runtime>, shape: &Tensor, device: Device) -> Result<Tensor> {
    let device = Device { index: device.index.max(0), ..device };
    if shape.is_contiguous() {
        let zeros: Stack = vec![
            shape.sizes().to_vec().into(),
            Scalar::Int(0).into(),
            shape.dtype().into(),
            Value::None,
            Value::Device(device),
            Value::None,
        ];
        let mut stack = zeros;
        record(runtime, device, operator("aten::full")?, &mut stack)?;
        if let Some(Value::Tensor(t)) = stack.pop() {
            return Ok(t);
        }
    }
    let (sizes, strides) = (shape.sizes(), shape.strides());
    let dtype = Some(shape.dtype());
    let memory = aten::empty_strided(sizes, strides, dtype, None, Some(Device::CPU), None)?;
    let storage = Storage::new(runtime, Content::Ready(memory));
    like(shape, device, storage, Vec::new())
}

fn copy(runtime: &Arc<Runtime>, here: Device, src: &Tensor, dst: &Tensor) -> Result<()> {
    let Some(to) = lazy(dst) else {
        let on_cpu = lazy(src).map(LazyTensor::on_cpu).transpose()?;
        dst.copy_(on_cpu.as_ref().unwrap_or(src))?;
        return Ok(());
    };
    let mut src = src.clone();
    if lazy(&src).is_none() {
        // as it is now: its owner may write it before the program runs
        let taken = aten::clone(&src, None)?;
        let same = to.views.is_empty()
            && (taken.sizes(), taken.strides(), taken.dtype())
                == (dst.sizes(), dst.strides(), dst.dtype());
        if same {
            to.storage.set(Content::Ready(taken));
            return Ok(());
        }
        let storage = Storage::new(runtime, Content::Ready(taken.clone()));
        src = like(&taken, dst.device(), storage, Vec::new())?;
    }
    let mut stack: Stack = vec![dst.clone().into(), src.into(), Value::Bool(false)];
    record(runtime, here, operator("aten::copy_")?, &mut stack)
}
