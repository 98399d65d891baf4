//! The settings of a custom operator, and its definition with the kernels around its function.

use super::error::{CustomOpError, refuse};
use super::{CustomOp, State};
use crate::dispatch::dispatcher::check_kernel;
use crate::dispatch::error::{DispatchError, Site};
use crate::dispatch::kernel::{IntoKernel, Kernel, Signature};
use crate::dispatch::library::Library;
use crate::error::Result;
use std::sync::Arc;
use straightline_catalog::DeviceType;
use straightline_catalog::effects::Effects;
use straightline_catalog::key::DispatchKey as K;
use straightline_catalog::schema::{FunctionSchema, OperatorName, SchemaType};

/// The settings of a custom operator; [`custom_op`] starts one and [`CustomOpBuilder::register`]
/// ends it.
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
/// | `Meta` | the function given to [`CustomOp::register_fake`]; an error that says so until there is one |
/// | `Autograd` | passes the call on below autograd |
/// | `ADInplaceOrView` | for operators that write or view: passes the call on, and the written tensors' versions rise |
/// | `BackendSelect` | for operators of given device types without tensor arguments: chooses by the `Device` argument |
///
/// Operators that write can be compiled too: in the graph the operator is named
/// `.._auto_functionalized`, runs on copies and returns what it writes.
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
/// let x = Tensor::from_vec([0f32, 1.0], 2)?;
/// let compiled = compile(move |x: &Tensor| typed.call((x, 1.0))?.add(1.0));
/// assert_eq!(compiled.call(&x)?.to_vec::<f32>()?, (typed.call((&x, 1.0))? + 1.0).to_vec::<f32>()?);
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
    /// The schema without the name, `(Tensor x, float s=1.0) -> Tensor`: for default values, names
    /// of arguments and alias annotations.
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

    /// Any tensor argument may be written; it is not known which.
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
        self.tags.extend(strings(tags));
        self
    }

    /// What a call does besides computing its results. By default, an operator without results has
    /// an effect, and any other is assumed to read something besides its operands
    /// ([`OperatorHandle::effects`](crate::dispatch::OperatorHandle::effects)). Each effect is
    /// added as a tag.
    ///
    /// ```
    /// use straightline::dispatch::{Effects, custom_op};
    /// use straightline::{Result, Tensor, compile};
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    ///
    /// static SEEN: AtomicU64 = AtomicU64::new(0);
    /// fn see(_: &Tensor) -> Result<()> {
    ///     SEEN.fetch_add(1, Relaxed);
    ///     Ok(())
    /// }
    /// let mut op = custom_op("mylib_effects::see", see).register()?;
    /// assert_eq!(op.handle().effects(), Effects::EFFECT);
    /// op.register_fake(|_: &Tensor| Ok(()))?;
    ///
    /// let see = op.handle().typed::<(&Tensor,), ()>()?;
    /// let f = compile(move |x: &Tensor| { see.call((x,))?; x.exp() });
    /// f.call(&Tensor::from_vec([0f32], 1)?)?;
    /// f.call(&Tensor::from_vec([1f32], 1)?)?;
    /// assert_eq!(SEEN.load(Relaxed), 2);
    ///
    /// let pure = custom_op("mylib_effects::same", |x: &Tensor| x.neg()).effects(Effects::PURE).register()?;
    /// assert_eq!(pure.handle().effects(), Effects::PURE);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn effects(mut self, effects: Effects) -> Self {
        let names = effects.to_string();
        self.tags.extend(names.split(' ').map(ToString::to_string));
        self
    }

    /// Defines the operator and registers its kernels.
    ///
    /// # Errors
    ///
    /// [`CustomOpError`], or what [`Library`] refuses: a schema that does not parse, a kernel whose
    /// types do not match it, a name that is taken.
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
            return Err(
                DispatchError::SchemaMissing { op: self.name.clone(), site: self.site }.into()
            );
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
        let written: Vec<String> =
            (schema.args.iter()).filter(|a| a.is_write()).map(|a| a.name.clone()).collect();
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
