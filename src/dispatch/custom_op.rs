//! `CustomOp`: an operator with all that belongs to it, registered in one go (`torch.library.custom_op`).
//!
//! Defining an operator well takes more than a kernel: a Meta kernel for shapes, an autograd kernel that passes calls
//! on, a version bump where it writes, a choice of the backend where it has no tensors to choose by. This registers all
//! of it, through the same [`Library`] that is open to everybody.

use super::dispatcher::check_kernel;
use super::error::{DispatchError, Site};
use super::kernel::{IntoKernel, Kernel, Signature};
use super::key::{BackendComponent, DispatchKey as K};
use super::keyset::DispatchKeySet;
use super::library::Library;
use super::operator::OperatorHandle;
use super::tls::ExcludeGuard;
use super::value::{Stack, Value};
use crate::error::Result;
use crate::tensor::Tensor;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use straightline_passes::ir::schema::{FunctionSchema, OperatorName, SchemaType};
use straightline_passes::ir::{DType, Device, DeviceType};

/// What a custom operator refuses.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages say what the fields are
pub enum CustomOpError {
    #[error("custom_op(\"{name}\"): the name must be `namespace::operator`, without an overload")]
    Name { name: String },
    #[error(
        "Attempted to create the custom op {op} with mutates_args={given:?} and schema={schema}. The schema suggests that the op \
         mutates {written:?}, which is different. Please make these consistent"
    )]
    MutatesArgs {
        op: String,
        schema: String,
        given: Vec<String>,
        written: Vec<String>,
    },
    #[error(
        "{op}: {given} argument names for a kernel of {want} arguments; `CustomOpBuilder::args` wants one for each"
    )]
    ArgumentNames {
        op: String,
        given: usize,
        want: usize,
    },
    #[error(
        "custom_op with kwarg-only Tensor args. Please make your tensors not kwarg-only. Got: {schema}"
    )]
    KeywordOnlyTensor { schema: String },
    #[error(
        "{op}: Functions without tensor inputs are required to have a `Device device` argument, by which the backend is chosen; \
         got {schema}"
    )]
    NoDeviceArgument { op: String, schema: String },
    #[error(
        "{op} does not have a kernel registered for {device}. Please use `CustomOp::register_kernel` to do so"
    )]
    NoKernelForDevice { op: String, device: Device },
    #[error(
        "There was no fake impl registered for {op}. This is necessary for `compile()` and for Meta tensors to work. Please use \
         `CustomOp::register_fake` to add one: a function of the same types that computes sizes and dtype and reads no data"
    )]
    NoFakeImpl { op: String },
    #[error(
        "{op}: The output of this custom operator (1) must not also be an input to this custom operator and (2) may not alias any \
         inputs to this custom operator or other returns. Output {output} shares memory with {with}. The most common way to trigger \
         this error is if we have y = custom_op(x) and y and x are the same Tensor. Please instead return a clone of the offending \
         output tensor(s) (e.g. return x.clone()) or refactor the custom operator to not return y"
    )]
    OutputAliases {
        op: String,
        output: usize,
        with: String,
    },
    #[error(
        "{op}: output {output} must be the argument `{argument}` itself: the schema says that it is returned"
    )]
    MustReturnArgument {
        op: String,
        output: usize,
        argument: String,
    },
    #[error(
        "Cannot register autograd formula for non-functional operator {op} with schema {schema}. Please create a functional \
         operator and register an autograd formula for that"
    )]
    NotFunctional { op: String, schema: String },
    #[error("{op}: device type '{device}' does not support autocast")]
    NoAutocast { op: String, device: Device },
    #[error("{op}: autocast casts to a floating point dtype, not {dtype}")]
    AutocastDType { op: String, dtype: DType },
    #[error(
        "{op}: the backward of {inputs} inputs gave {got} gradients; it must give one, or None, for each input"
    )]
    Gradients {
        op: String,
        inputs: usize,
        got: usize,
    },
}

/// What the forward of a custom operator leaves for its backward.
#[derive(Clone, Default, Debug)]
pub struct OpContext {
    /// Tensors.
    pub saved: Vec<Tensor>,
    /// Anything else.
    pub values: Vec<Value>,
}

type SetupContext = dyn Fn(&mut OpContext, &[Value], &[Value]) -> Result<()> + Send + Sync;
type Backward = dyn Fn(&OpContext, &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> + Send + Sync;

/// A backward formula: what [`CustomOp::register_autograd`] was given.
#[derive(Clone)]
pub struct AutogradFormula {
    op: String,
    setup: Arc<SetupContext>,
    backward: Arc<Backward>,
}

impl fmt::Debug for AutogradFormula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AutogradFormula({})", self.op)
    }
}

impl AutogradFormula {
    /// The gradients of the inputs from those of the outputs, given one call's inputs and outputs.
    ///
    /// # Errors
    ///
    /// The formula's own, or a number of gradients that is not that of the inputs.
    pub fn gradients(
        &self,
        inputs: &[Value],
        outputs: &[Value],
        grads: &[Option<Tensor>],
    ) -> Result<Vec<Option<Tensor>>> {
        let mut context = OpContext::default();
        (self.setup)(&mut context, inputs, outputs)?;
        let out = (self.backward)(&context, grads)?;
        if out.len() != inputs.len() {
            return Err(DispatchError::from(CustomOpError::Gradients {
                op: self.op.clone(),
                inputs: inputs.len(),
                got: out.len(),
            })
            .into());
        }
        Ok(out)
    }
}

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

/// The settings of a custom operator; [`custom_op`] starts one and [`CustomOpBuilder::register`] ends it.
#[must_use = "`register` makes the operator"]
#[derive(Debug)]
pub struct CustomOpBuilder {
    name: String,
    kernel: Kernel,
    schema: Option<String>,
    args: Option<Vec<String>>,
    mutates: Option<Vec<String>>,
    mutates_unknown: bool,
    devices: Option<Vec<DeviceType>>,
    tags: Vec<String>,
    site: Site,
}

/// Begins an operator `namespace::name` around a function: `torch.library.custom_op`.
///
/// The schema is inferred from the function's types unless given. What is registered:
///
/// | key | kernel |
/// |---|---|
/// | `CompositeExplicitAutograd`, or the keys of `device_types` | the function, with a check that outputs are new tensors |
/// | `Meta` | the function given to [`CustomOp::register_fake`]; an error that says so as long as there is none |
/// | `Autograd` | passes the call on below autograd |
/// | `ADInplaceOrView` | for operators that write or view: passes the call on, and the written tensors' versions rise |
/// | `BackendSelect` | for operators of given device types without tensor arguments: chooses by the `Device` argument |
///
/// ```
/// use straightline::dispatch::{custom_op, opcheck};
/// use straightline::{Result, Tensor, compile};
///
/// fn softplus(x: &Tensor, beta: f64) -> Result<Tensor> {
///     let y: Vec<f32> = x.to_vec()?.iter().map(|v: &f32| (1.0 + (beta as f32 * v).exp()).ln() / beta as f32).collect();
///     Tensor::from_slice(&y, x.sizes())
/// }
///
/// let mut op = custom_op("mylib::softplus", softplus).args(["x", "beta"]).register()?;
/// assert_eq!(op.schema().to_string(), "mylib::softplus(Tensor x, float beta) -> Tensor");
/// // shapes without data: what `compile()` asks
/// op.register_fake(|x: &Tensor, _beta: f64| x.zeros_like())?;
///
/// // it is an operator like any other
/// let typed = op.handle().typed::<(&Tensor, f64), Tensor>()?;
/// let x = Tensor::from_vec([0f32, 1.0])?;
/// let compiled = compile(move |x: &Tensor| &typed.call((x, 1.0))? + 1.0);
/// assert_eq!(compiled.call(&x)?.to_vec::<f32>()?, (&typed.call((&x, 1.0))? + 1.0)?.to_vec::<f32>()?);
///
/// let report = opcheck(op.handle(), &[x.into(), 1.0.into()]);
/// assert!(report.is_success(), "{report}");
/// # Ok::<(), straightline::Error>(())
/// ```
#[track_caller]
pub fn custom_op<M>(name: &str, kernel: impl IntoKernel<M>) -> CustomOpBuilder {
    CustomOpBuilder {
        name: name.to_string(),
        kernel: kernel.into_kernel(),
        schema: None,
        args: None,
        mutates: None,
        mutates_unknown: false,
        devices: None,
        tags: Vec::new(),
        site: Site::caller(),
    }
}

fn strings<S: Into<String>>(items: impl IntoIterator<Item = S>) -> Vec<String> {
    items.into_iter().map(Into::into).collect()
}

impl CustomOpBuilder {
    /// The schema without the name, `(Tensor x, float s=1.0) -> Tensor`: for default values, names of
    /// arguments and alias annotations.
    pub fn schema(mut self, schema: &str) -> Self {
        self.schema = Some(schema.to_string());
        self
    }

    /// The names of the arguments in an inferred schema; else `_0`, `_1` ...
    pub fn args<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.args = Some(strings(names));
        self
    }

    /// The arguments that the function writes, by name.
    pub fn mutates_args<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.mutates = Some(strings(names));
        self
    }

    /// All tensor arguments may be written: nobody knows which.
    pub fn mutates_unknown(mut self) -> Self {
        self.mutates_unknown = true;
        self
    }

    /// The device types that the function is for; else for all.
    pub fn device_types(mut self, devices: impl IntoIterator<Item = DeviceType>) -> Self {
        self.devices = Some(devices.into_iter().collect());
        self
    }

    /// Tags beside `pt2_compliant_tag`, which every custom operator has.
    pub fn tags<S: Into<String>>(mut self, tags: impl IntoIterator<Item = S>) -> Self {
        self.tags = strings(tags);
        self
    }

    /// Defines the operator and registers its kernels.
    ///
    /// # Errors
    ///
    /// [`CustomOpError`], or what [`Library`] refuses: a schema that does not parse, a kernel of other types
    /// than it, a name that is taken.
    pub fn register(self) -> Result<CustomOp> {
        let name: OperatorName = self.name.parse().map_err(DispatchError::from)?;
        let Some(namespace) = name.namespace().filter(|_| name.overload.is_empty()) else {
            return Err(refuse(CustomOpError::Name { name: self.name }));
        };
        let schema = match &self.schema {
            Some(rest) => FunctionSchema::parse(&format!("{}{rest}", self.name))
                .map_err(DispatchError::from)?,
            None => self.infer()?,
        };
        self.check(&schema)?;
        let mut library = Library::fragment(namespace)?;
        library.at(self.site.file, self.site.line);
        let tags: Vec<&str> = std::iter::once("pt2_compliant_tag")
            .chain(self.tags.iter().map(String::as_str))
            .filter({
                let mut seen = Vec::new();
                move |t| {
                    !seen.contains(t) && {
                        seen.push(*t);
                        true
                    }
                }
            })
            .collect();
        let op = library.def_with_tags(&schema.to_string(), &tags)?;
        let mut this = CustomOp {
            op,
            base: name.base().to_string(),
            library,
            state: Arc::new(State::default()),
        };
        this.register_around(&schema)?;
        match &self.devices {
            None => {
                this.register_at(K::CompositeExplicitAutograd, self.kernel, self.site)?;
            }
            Some(devices) => {
                for device in devices {
                    this.register_device(*device, self.kernel.clone(), self.site)?;
                }
            }
        }
        Ok(this)
    }

    /// The schema of the kernel's types. Integers are `SymInt`s, as PyTorch infers them.
    fn infer(&self) -> Result<FunctionSchema> {
        let Some(signature): Option<&Signature> = self.kernel.signature() else {
            return Err(DispatchError::SchemaMissing {
                op: self.name.clone(),
                site: self.site,
            }
            .into());
        };
        let types = &signature.args;
        let names = match &self.args {
            Some(names) if names.len() != types.len() => {
                return Err(refuse(CustomOpError::ArgumentNames {
                    op: self.name.clone(),
                    given: names.len(),
                    want: types.len(),
                }));
            }
            Some(names) => names.clone(),
            None => (0..types.len()).map(|i| format!("_{i}")).collect(),
        };
        let text = |t: &SchemaType| {
            let t = t.to_string();
            match t.strip_prefix("int") {
                Some(rest) if !rest.starts_with(char::is_alphanumeric) => format!("SymInt{rest}"),
                _ => t,
            }
        };
        let mutates = self.mutates.as_deref().unwrap_or_default();
        let args: Vec<String> = (types.iter().zip(&names).enumerate())
            .map(|(i, (ty, name))| {
                let mut ty = text(ty);
                if (mutates.contains(name) || self.mutates_unknown)
                    && let Some(rest) = ty.strip_prefix("Tensor")
                {
                    ty = format!("Tensor(a{i}!){rest}");
                }
                format!("{ty} {name}")
            })
            .collect();
        let returns: Vec<String> = signature.returns.iter().map(text).collect();
        let returns = match &returns[..] {
            [one] => one.clone(),
            many => format!("({})", many.join(", ")),
        };
        let text = format!("{}({}) -> {returns}", self.name, args.join(", "));
        Ok(FunctionSchema::parse(&text).map_err(DispatchError::from)?)
    }

    fn check(&self, schema: &FunctionSchema) -> Result<()> {
        check_kernel(schema, self.site, &self.kernel, self.site)?;
        let written: Vec<String> = (schema.args.iter())
            .filter(|a| a.is_write())
            .map(|a| a.name.clone())
            .collect();
        if let Some(given) = &self.mutates
            && (given.iter().any(|g| !written.contains(g))
                || written.iter().any(|w| !given.contains(w)))
        {
            return Err(refuse(CustomOpError::MutatesArgs {
                op: self.name.clone(),
                schema: schema.to_string(),
                given: given.clone(),
                written,
            }));
        }
        if (schema.args.iter()).any(|a| a.kwarg_only && a.ty.is_dispatch_relevant())
            && !self.tags.iter().any(|t| t == "out")
        {
            let schema = schema.to_string();
            return Err(refuse(CustomOpError::KeywordOnlyTensor { schema }));
        }
        Ok(())
    }
}

fn refuse(error: CustomOpError) -> crate::Error {
    DispatchError::from(error).into()
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
        self.op
            .schema()
            .expect("a custom operator is defined as long as it lives")
    }

    /// The kernels that every custom operator has around its function.
    fn register_around(&mut self, schema: &FunctionSchema) -> Result<()> {
        let state = self.state.clone();
        let fake = Kernel::boxed(move |op, keys, stack| match read(&state.fake) {
            Some(fake) => fake.call_boxed(op, keys, stack),
            None => trivial_fake(op, stack),
        });
        self.library.impl_at(&self.base, K::Meta, fake)?;
        self.library.impl_at(
            &self.base,
            K::Autograd,
            Kernel::boxed(|op, keys, stack| {
                let _below = ExcludeGuard::below_autograd();
                op.redispatch_boxed(keys & DispatchKeySet::AFTER_AUTOGRAD, stack)
            }),
        )?;
        if schema.is_mutable() || schema.is_view() {
            let written: Vec<usize> = (0..schema.args.len())
                .filter(|i| schema.args[*i].is_write())
                .collect();
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
                    let before: Vec<u64> = tensors.iter().map(Tensor::version).collect();
                    op.redispatch_boxed(keys & DispatchKeySet::AFTER_AD_INPLACE_OR_VIEW, stack)?;
                    for (t, before) in tensors.iter().zip(before) {
                        // a kernel that wrote through operators has raised it already
                        if t.version() == before {
                            drop(t.storage().write()?);
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
            && !self.op.has_kernel(K::BackendSelect)
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
                    // the wrong type is for the kernel to name
                    _ => op.redispatch_boxed(K::CPU.into(), stack),
                }
            });
            self.library
                .at(site.file, site.line)
                .impl_at(&self.base, K::BackendSelect, select)?;
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

    /// The function that computes sizes, strides and dtype of the results and reads no data: Meta tensors and
    /// `compile()` run it. A later one replaces an earlier one.
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

    /// The formula for gradients. `setup_context` sees the inputs and outputs of a call and keeps what `backward` needs;
    /// `backward` makes the inputs' gradients, one or `None` for each, of the outputs'.
    ///
    /// The crate has no autograd engine yet, so nothing calls the formula by itself: it is kept for it, and
    /// [`CustomOp::autograd_formula`] gives it to whoever wants to call it.
    ///
    /// # Errors
    ///
    /// [`CustomOpError::NotFunctional`]: the operator writes an argument. Define a functional operator and give that one a formula.
    ///
    /// ```
    /// use straightline::Tensor;
    /// use straightline::dispatch::{Value, custom_op};
    ///
    /// let mut op = custom_op("docs_autograd::scale", |x: &Tensor, s: f64| x * s).register()?;
    /// op.register_autograd(
    ///     |context, grads| {
    ///         let Some(Value::Double(s)) = context.values.first() else { return Ok(vec![None, None]) };
    ///         let grad = grads[0].as_ref().map(|g| g * *s).transpose()?;
    ///         Ok(vec![grad, None])
    ///     },
    ///     |context, inputs, _output| {
    ///         context.values.push(inputs[1].clone());
    ///         Ok(())
    ///     },
    /// )?;
    /// let x = Tensor::from_vec([1f32, 2.0])?;
    /// let formula = op.autograd_formula().expect("it was just registered");
    /// let ones = Tensor::from_vec([1f32, 1.0])?;
    /// let grads = formula.gradients(&[x.clone().into(), 3.0.into()], &[x.into()], &[Some(ones)])?;
    /// assert_eq!(grads[0].as_ref().unwrap().to_vec::<f32>()?, [3.0, 3.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn register_autograd(
        &mut self,
        backward: impl Fn(&OpContext, &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>>
        + Send
        + Sync
        + 'static,
        setup_context: impl Fn(&mut OpContext, &[Value], &[Value]) -> Result<()> + Send + Sync + 'static,
    ) -> Result<&mut Self> {
        let schema = self.schema();
        if schema.is_mutable() {
            return Err(refuse(CustomOpError::NotFunctional {
                op: self.op.name().to_string(),
                schema: schema.to_string(),
            }));
        }
        let formula = AutogradFormula {
            op: self.op.name().to_string(),
            setup: Arc::new(setup_context),
            backward: Arc::new(backward),
        };
        write(&self.state.formula, Some(formula));
        Ok(self)
    }

    /// The formula given to [`CustomOp::register_autograd`].
    pub fn autograd_formula(&self) -> Option<AutogradFormula> {
        read(&self.state.formula)
    }

    /// The kernel for batched tensors, at `FuncTorchBatched`. It gets the wrappers as they are: a boxed kernel unwraps
    /// them, computes on the whole batch and wraps the result.
    #[track_caller]
    pub fn register_vmap<M>(&mut self, kernel: impl IntoKernel<M>) -> Result<&mut Self> {
        let site = Site::caller();
        self.library
            .at(site.file, site.line)
            .impl_at(&self.base, K::FuncTorchBatched, kernel)?;
        Ok(self)
    }

    /// What to do where autocast is on for a type of device: floating point tensors of that device, `f64` apart, are
    /// cast to `dtype`, and the operator runs on them with autocast off.
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
            if eligible {
                t.to_dtype(dtype)
            } else {
                Ok(t.clone())
            }
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
        self.library
            .at(site.file, site.line)
            .impl_at(&self.base, key, kernel)?;
        Ok(self)
    }

    /// Keeps the operator for the life of the process.
    pub fn leak(self) -> OperatorHandle {
        self.library.leak();
        self.op
    }
}

/// Without a fake function: an operator that returns nothing, or only arguments that it writes, has no
/// shapes to compute.
fn trivial_fake(op: OperatorHandle, stack: &mut Stack) -> Result<()> {
    let no_fake = || {
        let op = op.name().to_string();
        refuse(CustomOpError::NoFakeImpl { op })
    };
    let schema = op.schema().ok_or_else(no_fake)?;
    let echoes: Option<Vec<usize>> = (0..schema.returns.len())
        .map(|r| {
            schema
                .aliased_argument(r)
                .filter(|a| schema.args[*a].is_write())
        })
        .collect();
    let (Some(echoes), Some(base)) = (echoes, stack.len().checked_sub(schema.args.len())) else {
        return Err(no_fake());
    };
    let args = stack.split_off(base);
    stack.extend(echoes.into_iter().map(|a| args[a].clone()));
    Ok(())
}

/// The kernel with a look at what it returns: new tensors, or the arguments that the schema says.
fn guarded(kernel: Kernel) -> Kernel {
    Kernel::boxed(move |op, keys, stack| {
        let schema = op.schema().filter(|s| !s.is_view());
        let inputs: Vec<Value> = match schema {
            Some(s) => stack[stack.len().saturating_sub(s.args.len())..].to_vec(),
            None => Vec::new(),
        };
        kernel.call_boxed(op, keys, stack)?;
        match schema {
            Some(s) => {
                let outputs = &stack[stack.len().saturating_sub(s.returns.len())..];
                check_outputs(op, s, &inputs, outputs)
            }
            None => Ok(()),
        }
    })
}

fn check_outputs(
    op: OperatorHandle,
    schema: &FunctionSchema,
    inputs: &[Value],
    outputs: &[Value],
) -> Result<()> {
    let name = || op.name().to_string();
    for (r, output) in outputs.iter().enumerate() {
        let returned = schema.aliased_argument(r);
        if let Some(a) = returned {
            let same = match (output, &inputs[a]) {
                (Value::Tensor(out), Value::Tensor(input)) => out.is_same(input),
                _ => true,
            };
            if !same {
                return Err(refuse(CustomOpError::MustReturnArgument {
                    op: name(),
                    output: r,
                    argument: schema.args[a].name.clone(),
                }));
            }
            continue;
        }
        let named = |a: usize| format!("argument `{}`", schema.args[a].name);
        let others = (inputs.iter().enumerate())
            .map(|(a, v)| (named(a), v))
            .chain((outputs[..r].iter().enumerate()).map(|(o, v)| (format!("output {o}"), v)));
        for (with, other) in others {
            let shared = (output.tensors()).any(|t| {
                other
                    .tensors()
                    .any(|o| t.is_same(o) || t.shares_storage_with(o))
            });
            if shared {
                return Err(refuse(CustomOpError::OutputAliases {
                    op: name(),
                    output: r,
                    with,
                }));
            }
        }
    }
    Ok(())
}
