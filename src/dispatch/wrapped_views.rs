//! The view operators of a backend whose tensors wrap CPU tensors.

use super::dispatcher::all_operators;
use super::error::DispatchError;
use super::kernel::Kernel;
use super::key::DispatchKey;
use super::library::Library;
use super::operator::OperatorHandle;
use super::value::{Stack, Value};
use crate::error::Result;
use crate::tensor::Tensor;
use std::sync::Arc;
use straightline_passes::ir::Device;

/// Registers all view operators of `aten` for a backend whose tensors wrap CPU tensors: the view
/// is taken of the CPU tensor and wrapped, and shares its memory as views do.
///
/// `inner` gives the CPU tensor of one of the backend's, `wrap` makes one of its tensors on a
/// device. With `empty.memory_format`, `empty_strided`, `_copy_from` and
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
/// A kernel cannot be registered at the key. A call of a view operator fails where `inner` or `wrap` do.
#[track_caller]
pub fn wrapped_views(
    key: DispatchKey,
    inner: impl Fn(&Tensor) -> Option<Tensor> + Send + Sync + 'static,
    wrap: impl Fn(Tensor, Device) -> Result<Tensor> + Send + Sync + 'static,
) -> Result<Library> {
    let mut library = Library::implementation("aten", key)?;
    let view = Arc::new(move |op: OperatorHandle, stack: &mut Stack| -> Result<()> {
        let taken = op.schema().map_or(0, |s| s.args.len());
        let mut args = stack.split_off(stack.len().saturating_sub(taken));
        let of = args.iter().find_map(Value::as_tensor).cloned();
        let Some((of, cpu)) = of.and_then(|t| inner(&t).map(|cpu| (t, cpu))) else {
            return Err(DispatchError::NotWrapped {
                op: op.name().to_string(),
                key,
            }
            .into());
        };
        for value in &mut args {
            if value.as_tensor().is_some_and(|t| t.is_same(&of)) {
                *value = cpu.clone().into();
            }
        }
        op.call_boxed(&mut args)?;
        for value in &args {
            stack.push(value.map_tensors(|t| wrap(t.clone(), of.device()))?);
        }
        Ok(())
    });
    for op in all_operators() {
        let is_view = op.schema().is_some_and(|s| s.is_view());
        let is_composite = op.has_kernel(DispatchKey::CompositeImplicitAutograd);
        if is_view && !is_composite && op.name().namespace() == Some("aten") {
            let view = view.clone();
            let kernel = Kernel::boxed(move |op, _, stack| view(op, stack));
            library.impl_(&op.name().to_string(), kernel)?;
        }
    }
    Ok(library)
}
