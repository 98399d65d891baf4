//! `Library`: the one way to define operators and register kernels, and to take them back.

use super::dispatcher::{default_overload, dispatcher};
use super::error::{DispatchError, Site};
use super::kernel::{IntoKernel, Kernel, Signature};
use super::operator::{OperatorHandle, Record};
use crate::error::Result;
use std::fmt;
use straightline_catalog::Op;
use straightline_catalog::key::DispatchKey;
use straightline_catalog::schema::{
    Argument, Declaration, FunctionSchema, OperatorName, Return, SchemaType,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Definition,
    Fragment,
    Implementation,
}

enum Registration {
    Definition(OperatorHandle),
    Kernel(OperatorHandle, DispatchKey, &'static Record),
    Fallback(&'static Record),
}

/// A block of registrations. Dropping it takes them back and restores what was there before;
/// [`Library::leak`] keeps them for good.
///
/// ```
/// use straightline::Tensor;
/// use straightline::dispatch::{DispatchKey, Library, Value, operator};
///
/// let mut lib = Library::new("docs_library")?;
/// lib.def("scale(Tensor x, float by) -> float")?;
/// lib.impl_at("scale", DispatchKey::CPU, |x: &Tensor, by: f64| Ok(x.numel() as f64 * by))?;
///
/// let mut stack = vec![Tensor::from_slice(&[1f32, 2.0], &[2])?.into(), Value::Double(1.5)];
/// operator("docs_library::scale")?.call_boxed(&mut stack)?;
/// assert!(matches!(stack[..], [Value::Double(3.0)]));
///
/// drop(lib);
/// assert!(operator("docs_library::scale").is_err());
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// The macros [`library!`](crate::library!), [`library_fragment!`](crate::library_fragment!) and
/// [`library_impl!`](crate::library_impl!) write blocks as TORCH_LIBRARY does, and
/// [`CustomOp`](super::CustomOp) registers an operator with everything that belongs to it.
///
/// # What a kernel can be
///
/// A function or a closure; a closure may have state of its own:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// use straightline::Tensor;
/// use straightline::dispatch::{DispatchKey, Library};
///
/// let calls = Arc::new(AtomicU64::new(0));
/// let counter = calls.clone();
/// let mut lib = Library::new("docs_closure")?;
/// let op = lib.def("f(Tensor x) -> Tensor")?;
/// lib.impl_at("f", DispatchKey::CPU, move |x: &Tensor| {
///     counter.fetch_add(1, Relaxed);
///     Ok(x.clone())
/// })?;
/// let x = Tensor::from_vec([1f32], 1)?;
/// op.typed::<(&Tensor,), Tensor>()?.call((&x,))?;
/// assert_eq!(calls.load(Relaxed), 1);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// A type that stands for no schema type, as `f32` (a schema's `float` is an `f64`), does not
/// compile:
///
/// ```compile_fail
/// use straightline::dispatch::{DispatchKey, Library};
/// let mut lib = Library::new("docs_f32")?;
/// lib.impl_at("f", DispatchKey::CPU, |x: f32| Ok(x as f64))?;
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// A kernel *without a key* serves every backend, and the autograd keys too
/// (`CompositeImplicitAutograd`, the catch-all of older PyTorch): it is for operators that are made
/// of others.
///
/// ```
/// use straightline::Tensor;
/// use straightline::dispatch::{DispatchKey, Library, dump};
///
/// let mut lib = Library::new("docs_composite")?;
/// lib.def("mean_of_squares(Tensor x) -> Tensor")?;
/// lib.impl_("mean_of_squares", |x: &Tensor| (x * x).mean())?;
/// // the same in one line, the schema being inferred from the types
/// let op = lib.def_with("mean_of_cubes", |x: &Tensor| (x * x * x).mean())?;
/// assert!(dump(op).contains("schema: docs_composite::mean_of_cubes(Tensor _0) -> Tensor _0"));
/// assert!(op.has_kernel(DispatchKey::CompositeImplicitAutograd));
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// A *boxed* kernel works on the stack and fits any operator: it takes the arguments off and leaves
/// the returns.
///
/// ```
/// use straightline::Tensor;
/// use straightline::dispatch::{DispatchKey, Kernel, Library, Value};
///
/// let mut lib = Library::new("docs_boxed")?;
/// let op = lib.def("count(Tensor x, Tensor y) -> int")?;
/// lib.impl_at("count", DispatchKey::CPU, Kernel::boxed(|op, _keys, stack| {
///     let arguments = op.arity()?;
///     stack.truncate(stack.len() - arguments);
///     stack.push(Value::Int(arguments as i64));
///     Ok(())
/// }))?;
/// // typed calls are boxed on the way
/// let x = Tensor::from_vec([1f32], 1)?;
/// assert_eq!(op.typed::<(&Tensor, &Tensor), i64>()?.call((&x, &x))?, 2);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// A kernel whose first argument is a [`DispatchKeySet`](super::DispatchKeySet) *gets the key set*
/// of the call, and can pass it on below itself:
///
/// ```
/// use straightline::Tensor;
/// use straightline::dispatch::{DispatchKey, DispatchKeySet, Library};
///
/// let mut lib = Library::new("docs_keyset")?;
/// let op = lib.def("f(Tensor x) -> int")?.typed::<(&Tensor,), i64>()?;
/// lib.impl_at("f", DispatchKey::CPU, |x: &Tensor| Ok(x.numel()))?;
/// lib.impl_at("f", DispatchKey::Autograd, move |keys: DispatchKeySet, x: &Tensor| {
///     Ok(100 + op.redispatch(keys & DispatchKeySet::AFTER_AUTOGRAD, (x,))?)
/// })?;
/// assert_eq!(op.call((&Tensor::from_vec([1f32], 1)?,))?, 101);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// A *fallback* is the kernel of every operator that has none at a key; a *fallthrough* is a kernel
/// that is skipped, as if the key were not in the set.
///
/// ```
/// use straightline::Tensor;
/// use straightline::dispatch::{DispatchKey, DispatchKeySet, IncludeGuard, Kernel, Library, capture};
///
/// let mut wild = Library::fallbacks(DispatchKey::TESTING_ONLY_GenericWrapper)?;
/// wild.fallback(Kernel::boxed(|op, keys, stack| {
///     let below = DispatchKeySet::full_after(DispatchKey::TESTING_ONLY_GenericWrapper);
///     op.redispatch_boxed(keys & below, stack)
/// }))?;
/// let mut aten = Library::implementation("aten", DispatchKey::TESTING_ONLY_GenericWrapper)?;
/// aten.fallthrough("neg")?;
///
/// let x = Tensor::from_vec([1f32], 1)?;
/// let _on = IncludeGuard::new(DispatchKey::TESTING_ONLY_GenericWrapper);
/// let (_, lines) = capture(|| x.abs());
/// assert_eq!(lines[0], " [call] op=[aten::abs], key=[TESTING_ONLY_GenericWrapper]");
/// let (_, lines) = capture(|| x.neg());
/// assert_eq!(lines[0], " [call] op=[aten::neg], key=[CPU]");
/// # Ok::<(), straightline::Error>(())
/// ```
pub struct Library {
    kind: Kind,
    namespace: String,
    key: Option<DispatchKey>,
    site: Option<Site>,
    /// Whether its kernels are this crate's own operators.
    own: bool,
    registrations: Vec<Registration>,
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library")
            .field("kind", &self.kind)
            .field("namespace", &self.namespace)
            .field("key", &self.key)
            .field("registrations", &self.registrations.len())
            .finish()
    }
}

/// A key that stands for "no key".
fn real(key: DispatchKey) -> Option<DispatchKey> {
    (key != DispatchKey::Undefined).then_some(key)
}

impl Library {
    fn open(kind: Kind, namespace: &str, key: Option<DispatchKey>) -> Result<Library> {
        let bad = |reason| DispatchError::BadNamespace { namespace: namespace.to_string(), reason };
        if namespace == "_" && kind != Kind::Implementation {
            return Err(bad("the wildcard is for fallbacks only").into());
        }
        if namespace.is_empty() || !namespace.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        {
            return Err(bad("a namespace is an identifier").into());
        }
        dispatcher();
        Ok(Library {
            kind,
            namespace: namespace.to_string(),
            key,
            site: None,
            own: false,
            registrations: Vec::new(),
        })
    }

    /// The block that defines a namespace; there is one for each.
    ///
    /// # Errors
    ///
    /// The namespace has such a block already.
    #[track_caller]
    pub fn new(namespace: &str) -> Result<Library> {
        Library::check_not_captured()?;
        let site = Site::caller();
        let library = Library::open(Kind::Definition, namespace, None)?;
        if let Err(e) = dispatcher().add_library(namespace, site) {
            // not ours to take back
            library.leak();
            return Err(e);
        }
        Ok(library)
    }

    /// A block that adds definitions to a namespace; there may be many.
    pub fn fragment(namespace: &str) -> Result<Library> {
        Library::open(Kind::Fragment, namespace, None)
    }

    /// A block of kernels for one key, in one namespace.
    #[track_caller]
    pub fn implementation(namespace: &str, key: DispatchKey) -> Result<Library> {
        Library::check_not_captured()?;
        Library::open(Kind::Implementation, namespace, real(key))
    }

    /// A block for the fallback of one key, which serves every operator.
    #[track_caller]
    pub fn fallbacks(key: DispatchKey) -> Result<Library> {
        Library::check_not_captured()?;
        Library::open(Kind::Implementation, "_", real(key))
    }

    /// A replay would not repeat the registrations of a captured function.
    #[track_caller]
    fn check_not_captured() -> Result<()> {
        crate::tensor::watcher::check(
            "registering operators or kernels",
            "the plan is made of the kernels that are registered when the function is captured: do it before the call",
        )
    }

    /// Sets the source location reported for later registrations of this block, if it is not the
    /// line of the call: generated code names the file it was made from.
    pub fn at(&mut self, file: &'static str, line: u32) -> &mut Self {
        self.site = Some(Site { file, line });
        self
    }

    /// Marks the kernels that this block registers from now on as this crate's own
    /// ([`Kernel::is_own`]).
    pub(crate) fn own(&mut self) -> &mut Self {
        self.own = true;
        self
    }

    fn name(&self, name: OperatorName, site: Site) -> Result<OperatorName> {
        match name.namespace() {
            None => Ok(OperatorName {
                name: format!("{}::{}", self.namespace, name.name),
                overload: name.overload,
            }),
            Some(explicit) if explicit == self.namespace => Ok(name),
            Some(explicit) => Err(DispatchError::NamespaceMismatch {
                op: name.to_string(),
                explicit: explicit.to_string(),
                block: self.namespace.clone(),
                site,
            }
            .into()),
        }
    }

    fn def_impl(
        &mut self,
        text: &str,
        tags: &[&str],
        kernel: Option<Kernel>,
        site: Site,
    ) -> Result<OperatorHandle> {
        if self.kind == Kind::Implementation {
            return Err(DispatchError::DefInImplBlock { op: text.to_string(), site }.into());
        }
        let (mut schema, inferred) = match Declaration::parse(text).map_err(DispatchError::from)? {
            Declaration::Schema(schema) => (schema, false),
            Declaration::Name(name) => match kernel.as_ref().and_then(Kernel::signature) {
                Some(signature) => (infer(name, signature), true),
                None => {
                    return Err(DispatchError::SchemaMissing { op: name.to_string(), site }.into());
                }
            },
        };
        schema.name = self.name(schema.name, site)?;
        if schema.has_type_variables() && !matches!(self.namespace.as_str(), "aten" | "prim") {
            return Err(DispatchError::TypeVariable { op: schema.name.to_string(), site }.into());
        }
        let named = || Op::define(&schema, tags);
        let op = dispatcher().define(&schema, named, site, inferred)?;
        self.registrations.push(Registration::Definition(op));
        if let Some(kernel) = kernel
            && let Err(e) = self.register(op.name(), None, kernel, site)
        {
            // the definition goes with its kernel
            self.registrations.pop();
            dispatcher().undefine(op);
            return Err(e);
        }
        Ok(op)
    }

    /// Defines an operator of the catalogue.
    pub(crate) fn declare(&mut self, op: Op) -> Result<OperatorHandle> {
        let site = self.here();
        let defined = dispatcher().define(op.schema(), || op, site, false)?;
        self.registrations.push(Registration::Definition(defined));
        Ok(defined)
    }

    fn register(
        &mut self,
        name: &OperatorName,
        key: Option<DispatchKey>,
        kernel: Kernel,
        site: Site,
    ) -> Result<()> {
        let key = match (key.and_then(real), self.key) {
            (Some(key), Some(block)) if key != block => {
                return Err(
                    DispatchError::KeyMismatch { op: name.to_string(), key, block, site }.into()
                );
            }
            (key, block) => key.or(block).unwrap_or(DispatchKey::CompositeImplicitAutograd),
        };
        if !key.is_alias() && !key.is_runtime() {
            return Err(DispatchError::NotRegistrable { op: name.to_string(), key, site }.into());
        }
        let (op, record) = dispatcher().implement(name, key, kernel, site)?;
        self.registrations.push(Registration::Kernel(op, key, record));
        Ok(())
    }

    fn implement(
        &mut self,
        name: &str,
        key: Option<DispatchKey>,
        mut kernel: Kernel,
        site: Site,
    ) -> Result<&mut Self> {
        if self.own {
            kernel.mark_own();
        }
        let name: OperatorName = name.parse().map_err(DispatchError::from)?;
        let name = self.name(name, site)?;
        // our own names are complete
        let default = match self.own {
            true => None,
            false => default_overload(&name),
        };
        self.register(default.map_or(&name, |op| op.name()), key, kernel, site)?;
        Ok(self)
    }

    #[track_caller]
    fn here(&self) -> Site {
        // `#[track_caller]` would report a closure
        match self.site {
            Some(site) => site,
            None => Site::caller(),
        }
    }

    /// Defines an operator by its schema.
    ///
    /// # Errors
    ///
    /// The schema does not parse, belongs to another namespace, is defined already, or does not
    /// fit kernels that were registered earlier.
    #[track_caller]
    pub fn def(&mut self, schema: &str) -> Result<OperatorHandle> {
        let site = self.here();
        self.def_impl(schema, &[], None, site)
    }

    /// [`Library::def`] with tags. Those that state what a call does besides computing results,
    /// such as `effect` and `may_fail`, decide what `compile()` may do with it:
    /// [`OperatorHandle::effects`].
    #[track_caller]
    pub fn def_with_tags(&mut self, schema: &str, tags: &[&str]) -> Result<OperatorHandle> {
        let site = self.here();
        self.def_impl(schema, tags, None, site)
    }

    /// Defines an operator together with a kernel that serves all backends
    /// (`CompositeImplicitAutograd`). Given only a name, the schema is inferred from the kernel.
    #[track_caller]
    pub fn def_with<M>(
        &mut self,
        schema: &str,
        kernel: impl IntoKernel<M>,
    ) -> Result<OperatorHandle> {
        let site = self.here();
        self.def_impl(schema, &[], Some(kernel.into_kernel()), site)
    }

    /// Registers a kernel at the block's key; in a block without one, for all backends
    /// (`CompositeImplicitAutograd`). A name without an overload that no operator has means its
    /// default overload ([`default_overload`](super::default_overload)), if it has one by now.
    ///
    /// # Errors
    ///
    /// The types of the kernel are not those of the schema, or of the operator's other kernels.
    #[track_caller]
    pub fn impl_<M>(&mut self, name: &str, kernel: impl IntoKernel<M>) -> Result<&mut Self> {
        let site = self.here();
        self.implement(name, None, kernel.into_kernel(), site)
    }

    /// Registers a kernel at a key.
    #[track_caller]
    pub fn impl_at<M>(
        &mut self,
        name: &str,
        key: DispatchKey,
        kernel: impl IntoKernel<M>,
    ) -> Result<&mut Self> {
        let site = self.here();
        self.implement(name, Some(key), kernel.into_kernel(), site)
    }

    /// Makes calls of an operator skip the block's key (a fallthrough).
    #[track_caller]
    pub fn fallthrough(&mut self, name: &str) -> Result<&mut Self> {
        let site = self.here();
        self.implement(name, None, Kernel::fallthrough(), site)
    }

    /// Registers the fallback of the block's key: the kernel of every operator that has none
    /// there. [`Kernel::boxed`] and [`Kernel::fallthrough`] make such kernels.
    ///
    /// # Errors
    ///
    /// The block belongs to a namespace, has no key, or the key has a fallback.
    #[track_caller]
    pub fn fallback(&mut self, kernel: Kernel) -> Result<&mut Self> {
        let site = self.here();
        self.fallback_impl(None, kernel, site)
    }

    /// [`Library::fallback`] at a key that wins over the block's.
    #[track_caller]
    pub fn fallback_at(&mut self, key: DispatchKey, kernel: Kernel) -> Result<&mut Self> {
        let site = self.here();
        self.fallback_impl(Some(key), kernel, site)
    }

    fn fallback_impl(
        &mut self,
        key: Option<DispatchKey>,
        kernel: Kernel,
        site: Site,
    ) -> Result<&mut Self> {
        if self.namespace != "_" {
            return Err(DispatchError::FallbackInNamespace {
                namespace: self.namespace.clone(),
                site,
            }
            .into());
        }
        let Some(key) = key.and_then(real).or(self.key) else {
            return Err(DispatchError::FallbackWithoutKey { site }.into());
        };
        if !key.is_alias() && !key.is_runtime() {
            return Err(
                DispatchError::NotRegistrable { op: "fallback()".to_string(), key, site }.into()
            );
        }
        let record = dispatcher().add_fallback(key, kernel, site)?;
        self.registrations.push(Registration::Fallback(record));
        Ok(self)
    }

    /// Keeps the registrations for the life of the process.
    pub fn leak(self) {
        std::mem::forget(self);
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        let dispatcher = dispatcher();
        while let Some(registration) = self.registrations.pop() {
            match registration {
                Registration::Definition(op) => dispatcher.undefine(op),
                Registration::Kernel(op, key, record) => dispatcher.unimplement(op, key, record),
                Registration::Fallback(record) => dispatcher.remove_fallback(record),
            }
        }
        if self.kind == Kind::Definition {
            dispatcher.remove_library(&self.namespace);
        }
    }
}

/// The schema that a kernel's types imply.
fn infer(name: OperatorName, signature: &Signature) -> FunctionSchema {
    let numbered = |types: &[SchemaType]| -> Vec<(String, SchemaType)> {
        types.iter().enumerate().map(|(i, t)| (format!("_{i}"), t.clone())).collect()
    };
    FunctionSchema {
        name,
        args: numbered(&signature.args)
            .into_iter()
            .map(|(name, ty)| Argument { name, ty, default: None, kwarg_only: false, alias: None })
            .collect(),
        returns: numbered(&signature.returns)
            .into_iter()
            .map(|(name, ty)| Return { name: Some(name), ty, alias: None })
            .collect(),
        vararg: false,
        varret: false,
    }
}
