//! Fake tensors: a shape, a dtype, a device that need not exist, and no data.
//!
//! A fake tensor is a tensor without memory that has the `Fake` key beside those of the device it
//! claims. The kernel at that key, below `Python` and above the backends, takes a call to the
//! operator's Meta kernel: each fake operand goes there as a Meta tensor over the fake's own
//! storage, so that views, writes and changes of shape carry over to the fakes.

use super::error::ModeError;
use crate::dispatch::{
    DispatchKey, DispatchKeySet, ExcludeGuard, IncludeGuard, Kernel, Library, OperatorHandle,
    Stack, Value,
};
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::Tensor;
use crate::tensor::storage::Storage;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;
use straightline_catalog::Device;
use straightline_catalog::schema::FunctionSchema;

/// Makes fake tensors: they claim to be on `cpu`, or on a device that this machine does not have,
/// and hold no data. Operators on them give fake tensors of the right shape, dtype and device, at
/// the cost of the shapes alone; reading data is an error ([`ErrorKind::DataDependent`]). PyTorch's
/// `FakeTensorMode`.
///
/// [`from_tensor`](FakeTensorMode::from_tensor) makes a fake of a tensor. While the mode is
/// [pushed](FakeTensorMode::push), factories and literals of the thread make fakes, too. The clones
/// of a mode are the same mode; fakes of two modes do not mix.
///
/// Real tensors beside fakes are an error, unless the mode [allows
/// them](FakeTensorMode::allow_non_fake_inputs) and takes them as fakes of their shape. Writing one
/// is still an error if only its fake would change. Devices are checked as kernels check them: all
/// operands on one, 0-dim CPU tensors on any.
///
/// A function that [`compile()`](crate::compile()) made runs eagerly on fake tensors.
///
/// ```
/// use straightline::modes::FakeTensorMode;
/// use straightline::{Device, DeviceType, ErrorKind, Tensor};
///
/// let gpu = Device::new(DeviceType::Cuda);
/// let mode = FakeTensorMode::new();
/// let y = {
///     let _fake = mode.push();
///     let x = Tensor::with(gpu).zeros([1 << 20, 1 << 20])?; // four terabytes
///     x.matmul(&x.t()?)?.relu()?.narrow(0, 0, 8)?
/// };
/// assert_eq!((y.shape(), y.device()), (&[8, 1 << 20][..], gpu));
/// assert!(y.is_fake());
/// assert!(matches!(y.to_vec::<f32>().unwrap_err().kind(), ErrorKind::DataDependent { .. }));
///
/// let w = mode.from_tensor(&Tensor::ones([3, 3])?)?;
/// assert!(w.device().is_cpu());
/// assert!(w.add(Tensor::ones([3, 3])?).is_err()); // a real tensor
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone)]
pub struct FakeTensorMode(Arc<Mode>);

#[derive(Debug)]
struct Mode {
    allow_non_fake_inputs: bool,
}

/// What a fake tensor carries.
struct Fake {
    mode: FakeTensorMode,
}

thread_local! {
    static PUSHED: RefCell<Option<FakeTensorMode>> = const { RefCell::new(None) };
    /// Meta kernels run for fakes.
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

impl fmt::Debug for FakeTensorMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeTensorMode")
            .field("allow_non_fake_inputs", &self.0.allow_non_fake_inputs)
            .finish()
    }
}

impl Default for FakeTensorMode {
    fn default() -> Self {
        FakeTensorMode::new()
    }
}

impl FakeTensorMode {
    /// A mode that wants fakes of its own.
    pub fn new() -> FakeTensorMode {
        FakeTensorMode(Arc::new(Mode { allow_non_fake_inputs: false }))
    }

    /// A mode that takes real tensors as fakes of their shape.
    ///
    /// ```
    /// use straightline::{Tensor, modes::FakeTensorMode};
    /// let mode = FakeTensorMode::allow_non_fake_inputs();
    /// let x = mode.from_tensor(&Tensor::ones([2, 3])?)?;
    /// assert!(x.matmul(&Tensor::ones([3, 4])?)?.is_fake());
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn allow_non_fake_inputs() -> FakeTensorMode {
        FakeTensorMode(Arc::new(Mode { allow_non_fake_inputs: true }))
    }

    /// Makes all operators of this thread return fakes while the guard lives. While another mode is
    /// pushed, nothing changes, as in PyTorch.
    pub fn push(&self) -> FakeTensorGuard {
        let first = PUSHED.with_borrow_mut(|pushed| match pushed {
            Some(_) => false,
            None => {
                *pushed = Some(self.clone());
                true
            }
        });
        FakeTensorGuard {
            keys: first.then(|| IncludeGuard::new(DispatchKeySet::of(&[DispatchKey::Fake]))),
            on_this_thread: std::marker::PhantomData,
        }
    }

    /// A fake in the shape of a tensor: its dtype, sizes, strides, offset and device. A fake of
    /// this mode is returned as it is. Memory that tensors share is not shared by their fakes;
    /// views that are taken of a fake share its.
    ///
    /// # Errors
    /// Sparse, quantized and nested tensors, wrapper tensors, and fakes of another mode.
    #[track_caller]
    pub fn from_tensor(&self, t: &Tensor) -> Result<Tensor> {
        self.fake_of(t).map_err(|e| e.with_location(std::panic::Location::caller()))
    }

    fn fake_of(&self, t: &Tensor) -> Result<Tensor> {
        if let Some(of) = mode_of(t) {
            return match of.is(self) {
                true => Ok(t.clone()),
                false => Err(ModeError::MixedFakeModes.into()),
            };
        }
        if let Some((what, instead)) = t.kind_without_memory() {
            return Err(opaque(what.to_string(), instead));
        }
        if t.extra().is_some() {
            return Err(opaque(
                format!("{t:?}"),
                "take the plain tensors inside out, or make a tensor of the same shape with a factory",
            ));
        }
        let storage = Storage::without_data(t.storage().bytes());
        Ok(self.build(storage, t, t.device(), t.offset()))
    }

    /// A fake that lies in a storage as `like` does.
    fn build(&self, storage: Storage, like: &Tensor, device: Device, offset: i64) -> Tensor {
        let fake = Fake { mode: self.clone() };
        let t = Tensor::build_with(
            storage,
            like.dtype(),
            device,
            like.sizes(),
            like.strides(),
            offset,
            DispatchKeySet::for_device(device.kind).add(DispatchKey::Fake) | like.math_bits(),
            Some(Arc::new(fake)),
        );
        match like.is_wrapped_number() {
            true => t.into_wrapped_number(),
            false => t,
        }
    }

    fn is(&self, other: &FakeTensorMode) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

fn opaque(tensor: String, instead: &'static str) -> Error {
    Error::new(ErrorKind::Opaque { what: "FakeTensorMode".into(), tensor, instead })
}

/// Ends a [`FakeTensorMode`] on this thread when dropped.
#[must_use = "the mode ends where the guard is dropped"]
#[derive(Debug)]
pub struct FakeTensorGuard {
    /// `None` if a mode was pushed already.
    keys: Option<IncludeGuard>,
    on_this_thread: std::marker::PhantomData<*const ()>,
}

impl Drop for FakeTensorGuard {
    fn drop(&mut self) {
        if self.keys.is_some() {
            PUSHED.take();
        }
    }
}

impl Tensor {
    /// Whether this is a fake tensor, of a [`FakeTensorMode`].
    pub fn is_fake(&self) -> bool {
        self.key_set().has(DispatchKey::Fake)
    }
}

fn mode_of(t: &Tensor) -> Option<&FakeTensorMode> {
    t.payload::<Fake>().map(|fake| &fake.mode)
}

/// Whether a kernel now runs on shapes for fake tensors, so that its failures may be due to missing
/// data.
pub(crate) fn is_running() -> bool {
    RUNNING.get()
}

/// Whether a mode is pushed on this thread.
pub(crate) fn is_pushed() -> bool {
    PUSHED.with_borrow(Option::is_some)
}

/// A tensor that was made from data: a fake of it while a mode is pushed.
pub(crate) fn made_from_data(t: Tensor) -> Tensor {
    let mode = PUSHED.with_borrow(Clone::clone);
    match mode.map(|mode| mode.fake_of(&t)) {
        Some(Ok(fake)) => fake,
        _ => t,
    }
}

/// The Meta tensor in place of a fake.
fn twin(t: &Tensor) -> Tensor {
    let m = Tensor::build_with(
        t.storage().clone(),
        t.dtype(),
        Device::META,
        t.sizes(),
        t.strides(),
        t.offset(),
        DispatchKeySet::for_device(Device::META.kind) | t.math_bits(),
        None,
    );
    match t.is_wrapped_number() {
        true => m.into_wrapped_number(),
        false => m,
    }
}

/// The fakes of a call and their twins.
struct Pairs {
    mode: FakeTensorMode,
    pairs: Vec<(Tensor, Tensor)>,
}

impl Pairs {
    /// The twin of an operand.
    fn operand(&mut self, op: OperatorHandle, t: &Tensor, written: bool) -> Result<Tensor> {
        if let Some((_, twin)) = self.pairs.iter().find(|(fake, _)| fake.same_handle(t)) {
            return Ok(twin.clone());
        }
        let fake = match mode_of(t) {
            Some(mode) if mode.is(&self.mode) => t.clone(),
            Some(_) => return Err(ModeError::MixedFakeModes.into()),
            None if t.is_wrapped_number() => self.mode.fake_of(t)?,
            // the fake would change, and not the tensor
            None if !self.mode.0.allow_non_fake_inputs || written => {
                return Err(ModeError::NotFake {
                    op: op.name().to_string(),
                    tensor: format!("{}{:?}", t.dtype(), t.sizes()),
                    written: self.mode.0.allow_non_fake_inputs,
                }
                .into());
            }
            None => self.mode.fake_of(t)?,
        };
        let twin = twin(&fake);
        self.pairs.push((fake, twin.clone()));
        Ok(twin)
    }

    /// The fake of a result: an operand itself, a view of one, or a new one.
    fn result(&self, t: &Tensor, device: Device) -> Tensor {
        let itself = self.pairs.iter().find(|(_, twin)| twin.same_handle(t));
        if let Some((fake, _)) = itself {
            return fake.clone();
        }
        let viewed = self.pairs.iter().find(|(_, twin)| twin.shares_storage_with(t));
        let device = viewed.map_or(device, |(fake, _)| fake.device());
        self.mode.build(t.storage().clone(), t, device, t.offset())
    }

    /// Gives fakes the shapes that their twins were given in place.
    fn settle(&self) -> Result<()> {
        for (fake, twin) in &self.pairs {
            if fake.storage().same(twin.storage()) {
                fake.set_geometry(twin.sizes(), twin.strides(), twin.offset())?;
            } else {
                let storage = twin.storage().clone();
                fake.replace_geometry(storage, twin.sizes(), twin.strides(), twin.offset())?;
            }
        }
        Ok(())
    }
}

/// The device of a call's results: the one that was asked for, that of what is written, or the one
/// that all operands are on, 0-dim CPU tensors apart.
fn result_device(op: OperatorHandle, schema: &FunctionSchema, args: &[Value]) -> Result<Device> {
    let asked = args.iter().find_map(|v| match v {
        Value::Device(d) => Some(*d),
        _ => None,
    });
    let mut written = (args.iter().zip(&schema.args))
        .filter(|(_, a)| a.is_write())
        .flat_map(|(v, _)| v.tensors());
    if let Some(device) = asked.or_else(|| written.next().map(Tensor::device)) {
        return Ok(device);
    }
    let all = || args.iter().flat_map(Value::tensors);
    let name = op.name().to_string();
    // indices may stay on the CPU
    let base = op.name().base();
    if base == "index" || base.starts_with("index_put") {
        return Ok(all().next().map_or(Device::CPU, Tensor::device));
    }
    let mut device = None;
    for t in all().filter(|t| t.dim() > 0 || !t.device().is_cpu()) {
        match device {
            None => device = Some(t.device()),
            Some(d) if d != t.device() => {
                return Err(Error::device(format!(
                    "Unhandled FakeTensor Device Propagation for {name}, found two different devices {d}, {}",
                    t.device()
                )));
            }
            Some(_) => {}
        }
    }
    Ok(device.unwrap_or(Device::CPU))
}

/// The kernel at `Fake`.
fn kernel(op: OperatorHandle, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
    let below = keys & DispatchKeySet::full_after(DispatchKey::Fake);
    let Some(schema) = op.schema() else {
        return op.redispatch_boxed(below, stack);
    };
    let from = stack.len().saturating_sub(schema.args.len());
    let of_operands = stack[from..].iter().flat_map(Value::tensors).find_map(mode_of);
    let mode = of_operands.cloned().or_else(|| PUSHED.with_borrow(Clone::clone));
    let Some(mode) = mode else {
        // the key was included by hand
        return op.redispatch_boxed(below, stack);
    };
    let args = stack.split_off(from);
    let mut pairs = Pairs { mode, pairs: Vec::new() };
    let mut twins = Vec::with_capacity(args.len());
    for (v, a) in args.iter().zip(&schema.args) {
        twins.push(v.map_tensors(|t| pairs.operand(op, t, a.is_write()))?);
    }
    let device = result_device(op, schema, &args)?;
    let factory = pairs.pairs.is_empty();
    crate::dispatch::meta::devices_to_meta(schema, &mut twins, factory);
    let done = {
        let _below = ExcludeGuard::new(ABOVE);
        let _running = Running::begin();
        op.redispatch_boxed(DispatchKey::Meta.into(), &mut twins)
    };
    if let Err(e) = done {
        let lacks = ["data_dependent_output", "dynamic_output_shape"];
        let tagged = op.tags().iter().any(|tag| lacks.contains(tag));
        let known =
            matches!(e.kind(), ErrorKind::Index(_) | ErrorKind::Shape(_) | ErrorKind::Meta(_));
        return Err(match tagged && !known {
            true => Error::new(ErrorKind::DataDependent { what: op.name().to_string() }),
            false => e,
        });
    }
    pairs.settle()?;
    for v in twins {
        stack.push(v.map_tensors(|t| Ok(pairs.result(t, device)))?);
    }
    Ok(())
}

/// The keys that a call has passed when it comes here: those that capture works at are not among
/// them.
const ABOVE: DispatchKeySet = DispatchKeySet::of(&[DispatchKey::Fake]);

struct Running(bool);

impl Running {
    fn begin() -> Running {
        Running(RUNNING.replace(true))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.set(self.0);
    }
}

/// Registers the fallback.
pub(super) fn register() -> Result<()> {
    let mut library = Library::fallbacks(DispatchKey::Fake)?;
    library.fallback(Kernel::boxed(kernel))?;
    library.leak();
    Ok(())
}
