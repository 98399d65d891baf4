//! `CustomOp`: an operator with everything that belongs to it, registered in one go
//! (`torch.library.custom_op`).
//!
//! Defining an operator well takes more than a kernel: a Meta kernel for shapes, an autograd kernel
//! that passes calls on, a version bump where it writes, a choice of the backend where it has no
//! tensors to choose by. This registers all of it, through the public [`Library`].

mod autograd;
mod builder;
mod checks;
mod error;

pub(in crate::dispatch) use autograd::record;
pub(crate) use autograd::set_recorder;
pub use autograd::{AutogradFormula, OpContext};
pub use builder::{CustomOpBuilder, custom_op};
pub use error::CustomOpError;

use super::dispatcher::check_kernel;
use super::error::Site;
use super::kernel::{IntoKernel, Kernel};
use super::library::Library;
use super::operator::OperatorHandle;
use super::tls::ExcludeGuard;
use super::value::Value;
use crate::error::Result;
use crate::tensor::Tensor;
use checks::{guarded, trivial_fake};
use error::refuse;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use straightline_catalog::key::{BackendComponent, DispatchKey as K};
use straightline_catalog::keyset::DispatchKeySet;
use straightline_catalog::schema::{FunctionSchema, SchemaType};
use straightline_catalog::{DType, Device, DeviceType};

/// What kernels of a custom operator look up when they run.
#[derive(Default)]
struct State {
    fake: RwLock<Option<Kernel>>,
    formula: RwLock<Option<AutogradFormula>>,
    devices: RwLock<Vec<DeviceType>>,
}

fn read<T: Clone>(lock: &RwLock<T>) -> T {
    lock.read().unwrap_or_else(PoisonError::into_inner).clone()
}

fn write<T>(lock: &RwLock<T>, value: T) {
    *lock.write().unwrap_or_else(PoisonError::into_inner) = value;
}

/// An operator made by [`custom_op`]. Dropping it takes the operator and all its kernels back;
/// [`CustomOp::leak`] keeps them.
pub struct CustomOp {
    op: OperatorHandle,
    base: String,
    library: Library,
    state: Arc<State>,
}

impl fmt::Debug for CustomOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CustomOp({})", self.op.name())
    }
}

impl CustomOp {
    /// The operator: [`OperatorHandle::typed`] and [`OperatorHandle::call_boxed`] call it.
    pub fn handle(&self) -> OperatorHandle {
        self.op
    }

    /// The schema.
    pub fn schema(&self) -> &'static FunctionSchema {
        self.op.schema().expect("a custom operator is defined as long as it lives")
    }

    /// The kernels that every custom operator has around its function.
    fn register_around(&mut self, schema: &FunctionSchema) -> Result<()> {
        let state = self.state.clone();
        let fake = Kernel::boxed(move |op, keys, stack| match read(&state.fake) {
            Some(fake) => fake.call_boxed(op, keys, stack),
            None => trivial_fake(op, stack),
        });
        self.library.impl_at(&self.base, K::Meta, fake)?;
        let state = self.state.clone();
        self.library.impl_at(
            &self.base,
            K::Autograd,
            Kernel::boxed(move |op, keys, stack| {
                autograd::record(op, keys, stack, read(&state.formula))
            }),
        )?;
        if schema.is_mutable() || schema.is_view() {
            let written: Vec<usize> =
                (0..schema.args.len()).filter(|i| schema.args[*i].is_write()).collect();
            let arguments = schema.args.len();
            self.library.impl_at(
                &self.base,
                K::ADInplaceOrView,
                Kernel::boxed(move |op, keys, stack| {
                    let base = stack.len().saturating_sub(arguments);
                    let tensors: Vec<Tensor> = (written.iter())
                        .filter_map(|i| stack.get(base + i))
                        .flat_map(Value::tensors)
                        .cloned()
                        .collect();
                    let before: Vec<u64> = tensors.iter().map(|t| t.storage().version()).collect();
                    op.redispatch_boxed(keys & DispatchKeySet::AFTER_AD_INPLACE_OR_VIEW, stack)?;
                    for (t, before) in tensors.iter().zip(before) {
                        // a kernel that wrote through operators has already raised the version
                        if t.storage().version() == before {
                            drop(t.write()?);
                        }
                    }
                    Ok(())
                }),
            )?;
        }
        Ok(())
    }

    fn register_at(&mut self, key: K, kernel: Kernel, site: Site) -> Result<()> {
        check_kernel(self.schema(), site, &kernel, site)?;
        self.library.at(site.file, site.line);
        self.library.impl_at(&self.base, key, guarded(kernel))?;
        Ok(())
    }

    fn register_device(&mut self, device: DeviceType, kernel: Kernel, site: Site) -> Result<()> {
        let schema = self.schema();
        if !schema.args.iter().any(|a| a.ty.is_dispatch_relevant())
            && !self.op.registers(K::BackendSelect)
        {
            let position = (schema.args.iter()).position(|a| a.ty == SchemaType::Device);
            let Some(position) = position else {
                return Err(refuse(CustomOpError::NoDeviceArgument {
                    op: self.op.name().to_string(),
                    schema: schema.to_string(),
                }));
            };
            let from_top = schema.args.len() - position;
            let state = self.state.clone();
            let select = Kernel::boxed(move |op, _, stack| {
                let at = stack.len().checked_sub(from_top);
                match at.map(|i| &stack[i]) {
                    Some(Value::Device(d)) if read(&state.devices).contains(&d.kind) => {
                        op.redispatch_boxed(K::dense(d.kind).into(), stack)
                    }
                    Some(Value::Device(d)) => Err(refuse(CustomOpError::NoKernelForDevice {
                        op: op.name().to_string(),
                        device: *d,
                    })),
                    // the kernel reports a wrong type
                    _ => op.redispatch_boxed(K::CPU.into(), stack),
                }
            });
            self.library.at(site.file, site.line).impl_at(&self.base, K::BackendSelect, select)?;
        }
        self.register_at(K::dense(device), kernel, site)?;
        let mut devices = read(&self.state.devices);
        devices.push(device);
        write(&self.state.devices, devices);
        Ok(())
    }

    /// A function for one type of device, instead of the general one.
    ///
    /// # Errors
    ///
    /// The function's types are not those of the schema.
    #[track_caller]
    pub fn register_kernel<M>(
        &mut self,
        device: DeviceType,
        kernel: impl IntoKernel<M>,
    ) -> Result<&mut Self> {
        self.register_device(device, kernel.into_kernel(), Site::caller())?;
        Ok(self)
    }

    /// The function that computes sizes, strides and dtype of the results and reads no data: Meta
    /// tensors and `compile()` run it. A later one replaces an earlier one.
    ///
    /// # Errors
    ///
    /// The function's types are not those of the schema.
    #[track_caller]
    pub fn register_fake<M>(&mut self, fake: impl IntoKernel<M>) -> Result<&mut Self> {
        let (kernel, site) = (fake.into_kernel(), Site::caller());
        check_kernel(self.schema(), site, &kernel, site)?;
        write(&self.state.fake, Some(kernel));
        Ok(self)
    }

    /// The kernel for batched tensors, at `FuncTorchBatched`. It gets the wrappers as they are: a
    /// boxed kernel unwraps them, computes on the whole batch and wraps the result.
    #[track_caller]
    pub fn register_vmap<M>(&mut self, kernel: impl IntoKernel<M>) -> Result<&mut Self> {
        let site = Site::caller();
        self.library.at(site.file, site.line).impl_at(&self.base, K::FuncTorchBatched, kernel)?;
        Ok(self)
    }

    /// What to do where autocast is on for a type of device: floating point tensors of that device,
    /// `f64` apart, are cast to `dtype`, and the operator runs on them with autocast off.
    ///
    /// # Errors
    ///
    /// The device type has no autocast, or `dtype` is not floating point.
    #[track_caller]
    pub fn register_autocast(&mut self, device: DeviceType, dtype: DType) -> Result<&mut Self> {
        let (site, op) = (Site::caller(), self.op.name().to_string());
        let Some(key) = K::autocast_of(BackendComponent::of(device)) else {
            let device = Device::new(device);
            return Err(refuse(CustomOpError::NoAutocast { op, device }));
        };
        if !dtype.is_floating() {
            return Err(refuse(CustomOpError::AutocastDType { op, dtype }));
        }
        let cast = move |t: &Tensor| {
            let eligible =
                t.dtype().is_floating() && t.dtype() != DType::F64 && t.device().kind == device;
            if eligible { t.to_dtype(dtype) } else { Ok(t.clone()) }
        };
        let arguments = self.schema().args.len();
        let kernel = Kernel::boxed(move |op, _, stack| {
            let _off = ExcludeGuard::new(key);
            let base = stack.len().saturating_sub(arguments);
            for value in &mut stack[base..] {
                match value {
                    Value::Tensor(t) => *t = cast(t)?,
                    Value::TensorList(l) => {
                        for t in l {
                            *t = cast(t)?;
                        }
                    }
                    Value::OptionalTensorList(l) => {
                        for t in l.iter_mut().flatten() {
                            *t = cast(t)?;
                        }
                    }
                    _ => {}
                }
            }
            op.call_boxed(stack)
        });
        self.library.at(site.file, site.line).impl_at(&self.base, key, kernel)?;
        Ok(self)
    }

    /// Keeps the operator for the life of the process.
    pub fn leak(self) -> OperatorHandle {
        self.library.leak();
        self.op
    }
}
