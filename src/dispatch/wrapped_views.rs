//! The view operators of a backend whose tensors wrap CPU tensors.

use super::dispatcher::all_operators;
use super::error::DispatchError;
use super::kernel::Kernel;
use super::library::Library;
use super::operator::OperatorHandle;
use super::value::{Stack, Value};
use crate::error::Result;
use crate::tensor::Tensor;
use std::sync::Arc;
use straightline_catalog::Device;
use straightline_catalog::Op;
use straightline_catalog::key::DispatchKey;

/// Registers all view operators of `aten` for a backend whose tensors wrap CPU tensors: each takes
/// a view of the CPU tensor and wraps it, so memory is shared as with any view. The operators that
/// change a shape in place (`resize_`, `t_`, a growing `out`) change that of the CPU tensor as
/// well.
///
/// `inner` gives the CPU tensor of one of the backend's (a handle of it, not a copy), `wrap` makes
/// one of its tensors on a device. With `empty.memory_format`, `empty_strided`, `_copy_from` and
/// [`cpu_fallback`](super::cpu_fallback) this is a whole backend. Dropping the library takes the
/// kernels back.
///
/// ```
/// use straightline::dispatch::{DispatchKey, Library, wrapped_views};
/// use straightline::{Device, DeviceType, Result, Tensor};
///
/// struct Memory(Tensor);
/// fn wrap(cpu: Tensor, device: Device) -> Result<Tensor> {
///     let (sizes, strides) = (cpu.sizes().to_vec(), cpu.strides().to_vec());
///     let dtype = cpu.dtype();
///     Tensor::opaque(Memory(cpu), &sizes, dtype, device).strides(&strides).build()
/// }
///
/// let inner = |t: &Tensor| t.payload::<Memory>().map(|m| m.0.clone());
/// let _views = wrapped_views(DispatchKey::Lazy, inner, wrap)?;
///
/// let cpu = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2])?;
/// let x = wrap(cpu.clone(), Device::new(DeviceType::Lazy))?;
/// let last = x.select(0, 1)?.narrow(0, 1, 1)?;
/// assert_eq!((last.device(), last.sizes()), (x.device(), &[1][..]));
/// // a write through it is seen in the tensor that all of this is
/// inner(&last).unwrap().fill_(9)?;
/// assert_eq!(cpu.to_vec::<f32>()?, [1.0, 2.0, 3.0, 9.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
///
/// A kernel cannot be registered at the key. A call of a view operator fails where `inner` or
/// `wrap` do.
#[track_caller]
pub fn wrapped_views(
    key: DispatchKey,
    inner: impl Fn(&Tensor) -> Option<Tensor> + Send + Sync + 'static,
    wrap: impl Fn(Tensor, Device) -> Result<Tensor> + Send + Sync + 'static,
) -> Result<Library> {
    let mut library = Library::implementation("aten", key)?;
    let wrapped = Arc::new(Wrapped { inner, wrap, key });
    for op in all_operators() {
        let Some(schema) = op.schema() else { continue };
        let ours = op.name().namespace() == Some("aten")
            && !op.registers(DispatchKey::CompositeImplicitAutograd)
            // a bit is a key of the outer tensor, not of what it wraps
            && !MATH_BITS.iter().any(|bit| op.is(*bit));
        let wrapped = wrapped.clone();
        let kernel = match ours {
            true if is_reshape(op) => Kernel::boxed(move |op, _, stack| wrapped.reshape(op, stack)),
            true if schema.is_view() => Kernel::boxed(move |op, _, stack| wrapped.view(op, stack)),
            _ => continue,
        };
        library.impl_(&op.name().to_string(), kernel)?;
    }
    Ok(library)
}

/// The views that carry a bit.
const MATH_BITS: [Op; 2] = [Op::_conj, Op::_neg_view];

/// Whether an operator changes the shape of its argument in place.
pub(crate) fn is_reshape(op: OperatorHandle) -> bool {
    op.tags().contains(&"inplace_view")
}

/// How a backend wraps and unwraps its tensors.
struct Wrapped<I, W> {
    inner: I,
    wrap: W,
    key: DispatchKey,
}

impl<I, W> Wrapped<I, W>
where
    I: Fn(&Tensor) -> Option<Tensor>,
    W: Fn(Tensor, Device) -> Result<Tensor>,
{
    /// The arguments of a call, the first tensor among them and what it wraps.
    fn call(&self, op: OperatorHandle, stack: &mut Stack) -> Result<(Vec<Value>, Tensor, Tensor)> {
        let taken = op.arity()?;
        let args = stack.split_off(stack.len().saturating_sub(taken));
        let of = args.iter().find_map(Value::as_tensor).cloned();
        match of.and_then(|t| (self.inner)(&t).map(|cpu| (t, cpu))) {
            Some((of, cpu)) => Ok((args, of, cpu)),
            None => {
                Err(DispatchError::NotWrapped { op: op.name().to_string(), key: self.key }.into())
            }
        }
    }

    /// Wraps a view of the wrapped tensor, keeping its place in storage and its bits.
    fn view(&self, op: OperatorHandle, stack: &mut Stack) -> Result<()> {
        let (mut args, of, cpu) = self.call(op, stack)?;
        let taken = match of.has_math_bits() {
            true => cpu.with_keys(cpu.key_set() | of.math_bits()),
            false => cpu.clone(),
        };
        for value in &mut args {
            if value.as_tensor().is_some_and(|t| t.is_same(&of)) {
                *value = taken.clone().into();
            }
        }
        op.call_boxed(&mut args)?;
        for value in &args {
            stack.push(value.map_tensors(|v| match v.is_same(&taken) {
                true => Ok(of.clone()),
                false => self.wrapped(v, &of, &cpu),
            })?);
        }
        Ok(())
    }

    fn wrapped(&self, view: &Tensor, of: &Tensor, cpu: &Tensor) -> Result<Tensor> {
        let bits = view.math_bits();
        let raw = match bits.is_empty() {
            true => view.clone(),
            false => view.without_math_bits(),
        };
        let made = (self.wrap)(raw, of.device())?;
        let made = match offset_in(of, cpu, view) {
            Some(offset) if made.sizes() == view.sizes() && made.strides() == view.strides() => {
                made.placed_in(of, offset)
            }
            _ => made,
        };
        Ok(match bits.is_empty() {
            true => made,
            false => made.with_keys(made.key_set() | bits),
        })
    }

    /// The same change of shape of the tensor and of what it wraps.
    fn reshape(&self, op: OperatorHandle, stack: &mut Stack) -> Result<()> {
        let (mut args, of, cpu) = self.call(op, stack)?;
        let mut others = Vec::new();
        for value in &mut args {
            *value = value.map_tensors(|t| {
                let Some(inside) = (self.inner)(t) else {
                    return Ok(t.clone());
                };
                others.push((t.clone(), inside.clone()));
                Ok(inside)
            })?;
        }
        op.call_boxed(&mut args)?;
        let kept = (self.inner)(&of).is_some_and(|now| now.is_same(&cpu));
        ensure_not_implemented!(
            kept,
            "{}: `inner` gives another tensor at each call, so that the shape of what is wrapped cannot change in place: it \
                 has to give a handle of the tensor itself",
            op.name()
        );
        let adopted = (others.iter()).find(|(t, inside)| {
            !t.is_same(&of) && inside.shares_storage_with(&cpu) && !t.shares_storage_with(&of)
        });
        let (storage, offset) = match adopted {
            Some((t, inside)) => (t.storage().clone(), offset_in(t, inside, &cpu)),
            None => (of.storage().clone(), Some(cpu.storage_offset())),
        };
        let offset = offset.unwrap_or_default();
        of.replace_geometry(storage, cpu.sizes(), cpu.strides(), offset)?;
        stack.push(of.into());
        Ok(())
    }
}

/// Where a view of what `of` wraps lies in the storage of `of`, in elements of the view.
fn offset_in(of: &Tensor, cpu: &Tensor, view: &Tensor) -> Option<i64> {
    let bytes = |t: &Tensor| t.storage_offset().checked_mul(t.dtype().size() as i64);
    let begins = bytes(of)?.checked_sub(bytes(cpu)?)?;
    let at = begins.checked_add(bytes(view)?)?;
    let size = view.dtype().size() as i64;
    (at >= 0 && at % size == 0).then_some(at / size)
}
