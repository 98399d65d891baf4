//! The CPU fallback: what a backend registers for the operators that it has no kernel for.

use crate::dispatch::DispatchError;
use crate::dispatch::ExcludeGuard;
use crate::dispatch::Kernel;
use crate::dispatch::OperatorHandle;
use crate::dispatch::hold_arguments;
use crate::dispatch::is_reshape;
use crate::dispatch::{Stack, Value};
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::key::DispatchKey;
use straightline_catalog::keyset::DispatchKeySet;
use straightline_catalog::schema::FunctionSchema;
use straightline_catalog::{Device, Op, layout};

/// What the fallback itself is made of: a backend must have these.
const PRIMITIVES: [Op; 4] =
    [Op::_copy_from, Op::_copy_from_and_resize, Op::empty_memory_format, Op::empty_strided];

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
/// The backend itself must register `empty.memory_format`, `empty_strided` and `_copy_from`, and
/// its own view operators.
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
/// let x = Tensor::from_vec([-1f32, 2.0], 2)?.to_device(device)?;
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
    let schema = op.schema().ok_or_else(|| crate::dispatch::not_found(op.name(), true))?;
    let Some(base) = stack.len().checked_sub(schema.args.len()) else {
        return Err(DispatchError::StackUnderflow {
            op: name(),
            want: schema.args.len(),
            have: stack.len(),
        }
        .into());
    };
    let target = target_device(&stack[base..]);
    if PRIMITIVES.iter().any(|primitive| op.is(*primitive)) {
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
    if is_reshape(op)
        && let Some(device) = target.filter(|d| !d.is_cpu())
    {
        return Err(DispatchError::CpuFallbackShape { op: name(), device }.into());
    }
    let originals = stack.split_off(base);
    let _whole = hold_arguments(schema, &originals)?;
    let mut copies = Copies::of(&originals, schema)?;
    let mut inner = (originals.iter()).map(|v| copies.value(v)).collect::<Result<Stack>>()?;
    op.redispatch_boxed(DispatchKeySet::from(DispatchKey::CPU), &mut inner)?;
    copies.write_back()?;
    for (r, value) in inner.into_iter().enumerate() {
        stack.push(match written_argument(schema, r) {
            Some(i) => originals[i].clone(),
            None => value.map_tensors(|t| copies.result(t, target))?,
        });
    }
    Ok(())
}

/// The tensors of a call and their copies on the CPU, which are to each other what the tensors are:
/// one tensor that is given twice is one copy, and where one is written that shares memory with
/// another one, so do the copies, so that the operator's own checks of what may overlap hold.
struct Copies {
    each: Vec<Pair>,
    /// Storages of which several tensors are views: the whole of each as one row.
    rows: Vec<Row>,
    /// The tensors of all arguments, and whether the schema says that it is written.
    given: Vec<(Tensor, bool)>,
}

struct Pair {
    original: Tensor,
    copy: Tensor,
    /// The writes to the copy before the call.
    version: u64,
    written: bool,
    in_row: bool,
}

struct Row {
    original: Tensor,
    copy: Tensor,
    version: u64,
}

impl Copies {
    fn of(args: &[Value], schema: &FunctionSchema) -> Result<Copies> {
        let given = (args.iter().zip(&schema.args))
            .flat_map(|(v, a)| v.tensors().map(|t| (t.clone(), a.is_write())))
            .collect();
        Ok(Copies { each: Vec::new(), rows: Vec::new(), given })
    }

    /// The value with every tensor, and a device that is named, on the CPU.
    fn value(&mut self, value: &Value) -> Result<Value> {
        let moved = value.map_tensors(|t| self.tensor(t))?;
        Ok(match moved {
            Value::Device(_) => Value::Device(Device::CPU),
            other => other,
        })
    }

    fn tensor(&mut self, t: &Tensor) -> Result<Tensor> {
        if t.device().is_cpu() {
            return Ok(t.clone());
        }
        if let Some(known) = self.each.iter().find(|p| p.original.is_same(t)) {
            return Ok(known.copy.clone());
        }
        let _below = ExcludeGuard::below_autograd();
        let in_row = self.is_in_row(t)?;
        let copy = match in_row {
            true => {
                let row = self.row(t)?;
                aten::as_strided(&row, t.sizes(), t.strides(), Some(t.storage_offset()))?
            }
            false => moved(t, Device::CPU)?,
        };
        self.each.push(Pair {
            original: t.clone(),
            version: copy.storage().version(),
            copy: copy.clone(),
            written: (self.given.iter()).any(|(g, written)| *written && g.is_same(t)),
            in_row,
        });
        Ok(copy)
    }

    /// Whether the tensor is to be copied with the storage that it is a view of: it, or another
    /// view, is written, or its own elements are one. Only views that the backend makes are views
    /// of a storage that can be asked for.
    fn is_in_row(&self, t: &Tensor) -> Result<bool> {
        let views = || (self.given.iter()).filter(|(g, _)| same_row(g, t));
        let shared = views().any(|(g, _)| !g.is_same(t)) && views().any(|(_, written)| *written);
        if !shared && !layout::repeats(t.sizes(), t.strides()) {
            return Ok(false);
        }
        let key = DispatchKey::dense(t.device().kind);
        Ok(crate::dispatch::handle_of(Op::as_strided)?.registers(key))
    }

    /// The copy of the whole storage of a tensor.
    fn row(&mut self, t: &Tensor) -> Result<Tensor> {
        if let Some(row) = self.rows.iter().find(|r| same_row(&r.original, t)) {
            return Ok(row.copy.clone());
        }
        let ends = (self.given.iter().map(|(g, _)| g))
            .filter(|g| same_row(g, t))
            .map(|g| layout::storage_extent(g.sizes(), g.strides(), g.storage_offset()));
        let length = ends.max().unwrap_or_default();
        let original = aten::as_strided(t, &[length], &[1], Some(0))?;
        let copy = moved(&original, Device::CPU)?;
        let version = copy.storage().version();
        self.rows.push(Row { original, copy: copy.clone(), version });
        Ok(copy)
    }

    /// What the CPU kernel wrote, into the tensors that it was given copies of. A kernel may write
    /// what its schema does not say that it does, as `native_batch_norm` does with running
    /// statistics.
    fn write_back(&self) -> Result<()> {
        let _below = ExcludeGuard::below_autograd();
        for p in &self.each {
            if p.copy.sizes() != p.original.sizes() {
                aten::resize_(&p.original, p.copy.sizes(), None)?;
            }
            if p.copy.strides() != p.original.strides() && p.written {
                aten::as_strided_(&p.original, p.copy.sizes(), p.copy.strides(), None)?;
            }
            let changed = p.written || p.copy.storage().version() != p.version;
            if changed && !p.in_row {
                aten::copy_(&p.original, &p.copy, false)?;
            }
        }
        for row in &self.rows {
            if row.copy.storage().version() != row.version {
                aten::copy_(&row.original, &row.copy, false)?;
            }
        }
        Ok(())
    }

    /// A result where it belongs; one that is an argument is the argument.
    fn result(&self, t: &Tensor, target: Option<Device>) -> Result<Tensor> {
        if let Some(p) = self.each.iter().find(|p| p.copy.is_same(t)) {
            return Ok(p.original.clone());
        }
        match target {
            Some(device) => moved(t, device),
            None => Ok(t.clone()),
        }
    }
}

/// Whether two tensors are views of one storage and of one dtype.
fn same_row(a: &Tensor, b: &Tensor) -> bool {
    a.dtype() == b.dtype() && a.device() == b.device() && a.storage().same(b.storage())
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
    let kept = layout::preserved_strides(t.sizes(), t.strides());
    let copy = match kept.as_slice() == t.strides() || layout::repeats(t.sizes(), t.strides()) {
        true => aten::_to_copy(t, None, None, Some(device), None, false, None)?,
        // with its gaps: results take after the strides of operands
        false => {
            let dtype = Some(t.dtype());
            let fresh =
                aten::empty_strided(t.sizes(), t.strides(), dtype, None, Some(device), None)?;
            aten::copy_(&fresh, t, false)?
        }
    };
    Ok(if t.is_wrapped_number() { copy.into_wrapped_number() } else { copy })
}
