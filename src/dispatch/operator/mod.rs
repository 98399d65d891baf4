//! One operator: its schema, its kernels, its table of 137 slots, and the handles to call it.

mod definition;
mod entry;
mod record;
mod typed;

pub(super) use definition::Definition;
pub(super) use entry::OperatorEntry;
pub(super) use record::Record;
pub use typed::{TypedHandle, TypedOp};

use self::record::{AMBIGUOUS, MISSING};
use super::arg::Ret;
use super::dispatcher;
use super::error::{DispatchError, MissingKernel, Site};
use super::kernel::{Args, Kernel, Signature};
use super::record::{Observation, observed_everywhere};
use super::recursion::{self, Step};
use super::slots::Standing;
use super::table::SLOTS;
use super::tls;
use super::trace::{Entry, Scope};
use super::value::{Stack, Value};
use crate::dispatch::watcher::{Question, asked};
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use entry::Table;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::ptr;
use std::sync::{Arc, PoisonError};
use straightline_catalog::key::DispatchKey;
use straightline_catalog::keyset::DispatchKeySet;
use straightline_catalog::schema::{FunctionSchema, OperatorName};
use straightline_catalog::{Arg, DType, Effects, Op, TensorMeta, similar_operators};

/// An operator. Copies are cheap and compare equal when they name the same operator.
///
/// When nothing of an operator is left because its [`Library`](super::Library) was dropped, a call
/// by a handle that was kept fails with [`DispatchError::Gone`]. Defining the operator again makes
/// a new one, to which an old handle does not refer, because calls of the old one may still run.
#[derive(Clone, Copy)]
pub struct OperatorHandle(pub(super) &'static OperatorEntry);

impl PartialEq for OperatorHandle {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self.0, other.0)
    }
}

impl Eq for OperatorHandle {}

impl std::hash::Hash for OperatorHandle {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        ptr::from_ref(self.0).hash(state);
    }
}

impl fmt::Debug for OperatorHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.name)
    }
}

impl OperatorHandle {
    /// The memory of an operator's table and masks.
    pub const TABLE_BYTES: usize = Table::bytes();

    /// The name, `aten::add.Tensor`.
    pub fn name(self) -> &'static OperatorName {
        &self.0.name
    }

    /// The schema, unless the operator was only implemented and never defined.
    pub fn schema(self) -> Option<&'static FunctionSchema> {
        self.0.definition().map(|d| d.schema)
    }

    /// How many arguments a boxed kernel finds on top of the stack.
    ///
    /// # Errors
    ///
    /// The operator has no schema; a call in progress on another thread may outlive the library
    /// that defined it.
    ///
    /// ```
    /// use straightline::dispatch::operator;
    /// assert_eq!(operator("aten::add.Tensor")?.arity()?, 3);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn arity(self) -> Result<usize> {
        match self.schema() {
            Some(schema) => Ok(schema.args.len()),
            None => Err((self.gone())
                .unwrap_or_else(|| DispatchError::NoSchema { op: self.name().to_string() })
                .into()),
        }
    }

    /// The operator in the catalogue, which also lists those from outside; `None` if it was only
    /// implemented and never defined.
    pub(crate) fn op(self) -> Option<Op> {
        self.0.definition().map(|d| d.op)
    }

    /// Whether this is that operator of the catalogue.
    pub(crate) fn is(self, op: Op) -> bool {
        self.op() == Some(op)
    }

    /// What a call of the operator does besides giving its results, for dead-code elimination,
    /// rewriting and scheduling.
    ///
    /// Tags that name [`Effects`] say so - `pure`, `reads`, `random`, `effect`, `may_fail` - as
    /// does PyTorch's `nondeterministic_seeded`, which is `random`. Without such a tag an operator
    /// writes if its schema says so; one of PyTorch's does what the catalogue says of it; any other
    /// one has an effect if it has no results, and is else taken to read something besides its
    /// operands: its calls keep their order and are not merged, and one that nobody uses is
    /// dropped.
    ///
    /// ```
    /// use straightline::dispatch::{Effects, Library};
    /// let mut lib = Library::new("docs_effects")?;
    /// let effects = |lib: &mut Library, schema: &str, tags: &[&str]| {
    ///     lib.def_with_tags(schema, tags).map(|op| op.effects())
    /// };
    /// assert_eq!(effects(&mut lib, "log(Tensor x) -> ()", &[])?, Effects::EFFECT);
    /// assert_eq!(effects(&mut lib, "now(Tensor x) -> Tensor", &[])?, Effects::READS);
    /// assert_eq!(effects(&mut lib, "twice(Tensor x) -> Tensor", &["pure"])?, Effects::PURE);
    /// assert_eq!(effects(&mut lib, "check(Tensor x) -> Tensor", &["may_fail"])?, Effects::MAY_FAIL);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn effects(self) -> Effects {
        self.effects_of::<()>(&[], None)
    }

    /// [`Self::effects`] of a call with these arguments and results.
    pub(crate) fn effects_of<V>(self, args: &[Arg<V>], results: Option<&[TensorMeta]>) -> Effects {
        let Some(op) = self.op() else {
            return Effects::READS;
        };
        // no call was made: the number of results is known, the results are not
        let some = [TensorMeta::contiguous(DType::I64, &[])];
        let count = op.schema().returns.len().min(1);
        op.effects(args, results.unwrap_or(&some[..count]))
    }

    /// The tags given with the definition.
    pub fn tags(self) -> &'static [&'static str] {
        self.op().map_or(&[], |op| op.info().tags)
    }

    /// Whether a kernel is registered at exactly this key.
    pub fn has_kernel(self, key: DispatchKey) -> bool {
        asked(Question::Kernels(self));
        self.registers(key)
    }

    /// [`OperatorHandle::has_kernel`], asked by the crate itself.
    pub(crate) fn registers(self, key: DispatchKey) -> bool {
        self.0.kernels().contains_key(&key)
    }

    /// The keys at which kernels are registered.
    pub fn registered_keys(self) -> Vec<DispatchKey> {
        asked(Question::Kernels(self));
        self.kernel_keys()
    }

    /// [`OperatorHandle::registered_keys`], asked by the crate itself.
    pub(crate) fn kernel_keys(self) -> Vec<DispatchKey> {
        self.0.kernels().keys().copied().collect()
    }

    /// Whether a call that dispatches to this key finds a kernel, by whatever rule.
    pub fn has_computed_kernel(self, key: DispatchKey) -> bool {
        asked(Question::Served(self, key));
        self.serves(key)
    }

    /// [`OperatorHandle::has_computed_kernel`], asked by the crate itself.
    pub(crate) fn serves(self, key: DispatchKey) -> bool {
        let record = self.0.lookup(key.into());
        !ptr::eq(record, *MISSING) && !ptr::eq(record, *AMBIGUOUS)
    }

    /// The kernel that a call with this key reaches: for repeated calls without the dispatcher, as
    /// a compiled plan makes.
    ///
    /// # Errors
    ///
    /// No kernel serves the key.
    pub fn kernel_for(self, key: DispatchKey) -> Result<Kernel> {
        if !self.serves(key) {
            return Err(self.missing(key));
        }
        Ok(self.0.lookup(key.into()).kernel.clone())
    }

    /// How often registrations have changed the operator: schema, kernels, fallbacks that serve it.
    pub(crate) fn epoch(self) -> u64 {
        self.0.epoch()
    }

    /// Whether this is one of PyTorch's operators and calls on the CPU reach a kernel that is not
    /// this crate's: then what the catalogue says of the operator does not hold. Composites made of
    /// other operators do not count, even from outside.
    pub(crate) fn is_replaced(self) -> bool {
        matches!(self.name().namespace(), Some("aten" | "prims"))
            && (self.selects() || self.is_foreign_at(DispatchKey::CPU))
    }

    /// Whether a call with these tensors comes straight to this crate's kernel for tensors with
    /// data: nothing records it, and nobody watches it or takes it apart on the way.
    pub(crate) fn is_direct(self, tensors: &[&Tensor]) -> bool {
        let keys = tensors.iter().fold(DispatchKeySet::EMPTY, |keys, t| keys | t.call_keys());
        let (full, special) = tls::peek(keys);
        if special || full.records() {
            return false;
        }
        let keys = self.0.masked_silent(full);
        let record = self.0.lookup(keys);
        keys.highest_functionality() == DispatchKey::Dense
            && record.standing == Standing::Kernel
            && record.kernel.is_own()
    }

    fn is_foreign_at(self, key: DispatchKey) -> bool {
        if !self.serves(key) {
            return false;
        }
        let record = self.0.lookup(key.into());
        let composite = || {
            let kernels = self.0.kernels();
            let list = kernels.get(&DispatchKey::CompositeImplicitAutograd);
            list.is_some_and(|list| ptr::eq(list[0], record))
        };
        !record.kernel.is_own() && !record.kernel.is_fallthrough() && !composite()
    }

    /// Whether calls, also those with tensors, reach a kernel at `BackendSelect` that is not this
    /// crate's before any backend's.
    fn selects(self) -> bool {
        self.is_foreign_at(DispatchKey::BackendSelect)
    }

    /// The kernel that a CPU call reaches if nothing above the backend handles it, and the keys
    /// that it is called with. A plan calls it repeatedly.
    ///
    /// # Errors
    ///
    /// No kernel serves the CPU.
    pub(crate) fn first_kernel(self, backend: DispatchKey) -> Result<(Kernel, DispatchKeySet)> {
        let select = DispatchKey::BackendSelect;
        match self.selects() {
            true => Ok((self.kernel_for(select)?, DispatchKeySet::of(&[select, backend]))),
            false => Ok((self.kernel_for(backend)?, backend.into())),
        }
    }

    /// The kernel of this crate that serves a key, even if others have been registered since.
    pub(crate) fn own_kernel_for(self, key: DispatchKey) -> Result<Kernel> {
        let served = self.kernel_for(key)?;
        if served.is_own() || !self.is_replaced() {
            return Ok(served);
        }
        let kernels = self.0.kernels();
        let places = [
            key,
            DispatchKey::CompositeExplicitAutogradNonFunctional,
            DispatchKey::CompositeExplicitAutograd,
        ];
        let mut own = (places.iter().filter_map(|k| kernels.get(k)).flatten())
            .filter(|record| record.kernel.is_own());
        own.next().map_or(Ok(served), |r| Ok(r.kernel.clone()))
    }

    /// The set without the keys that this operator falls through.
    pub fn masked(self, keys: DispatchKeySet) -> DispatchKeySet {
        self.0.masked(keys)
    }

    /// The dispatch keys that the arguments on top of the stack contribute.
    pub fn argument_keys(self, stack: &[Value]) -> DispatchKeySet {
        self.call_keys(stack).unmarked()
    }

    /// The same, with the mark of calls that record.
    fn call_keys(self, stack: &[Value]) -> DispatchKeySet {
        let Some(definition) = self.0.definition() else {
            return DispatchKeySet::EMPTY;
        };
        let mut bits = definition.relevant;
        let mut keys = DispatchKeySet::EMPTY;
        while bits != 0 {
            let i = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            if let Some(v) = stack.len().checked_sub(i + 1).map(|at| &stack[at]) {
                keys |= v.key_set();
            }
        }
        keys
    }

    /// Calls the operator on the arguments on top of the stack and leaves the returns there.
    ///
    /// The key set comes from the tensor arguments and the thread.
    #[track_caller]
    pub fn call_boxed(self, stack: &mut Stack) -> Result<()> {
        let (full, special) = tls::enter(self.call_keys(stack));
        let mut keys = self.0.masked(full);
        let mut record = self.0.lookup(keys);
        if record.standing != Standing::Kernel {
            (keys, record) = self.0.look_again(full);
        }
        let called = if special {
            let _line = tls::watched(Location::caller());
            self.call_boxed_special(keys, record, stack)
        } else if full.records() {
            let _line = tls::LineScope::enter(Location::caller());
            record.kernel.call_boxed(self, keys, stack)
        } else {
            record.kernel.call_boxed(self, keys, stack)
        };
        match called {
            Ok(()) => Ok(()),
            // a kernel that fails leaves the arguments, unless it is a boxed one and has taken them
            Err(e) => {
                let operands = stack.iter().flat_map(Value::tensors);
                Err(e
                    .with_call(self.name().to_string(), operands)
                    .with_location(Location::caller()))
            }
        }
    }

    /// Adds to an error which operator was called, and where, as the wrappers in `aten` do.
    #[cold]
    fn named(self, e: Error, at: &'static Location<'static>) -> Error {
        e.with_call(self.name().to_string(), []).with_location(at)
    }

    /// A call that may have to be traced or observed.
    #[cold]
    #[inline(never)]
    fn call_boxed_special(
        self,
        keys: DispatchKeySet,
        record: &'static Record,
        stack: &mut Stack,
    ) -> Result<()> {
        let _step = recursion::step(self, keys)?;
        let _scope = self.scope(true, Entry::CallBoxed, keys);
        let (base, count) = match self.schema() {
            Some(s) => (stack.len().saturating_sub(s.args.len()), s.args.len()),
            None => (0, stack.len()),
        };
        let observation =
            self.observe(keys, || stack[base..].iter().take(count).cloned().collect());
        record.kernel.call_boxed(self, keys, stack)?;
        if let Some(mut o) = observation
            && o.wants_outputs()
        {
            o.set_outputs(stack.get(base..).unwrap_or(&[]).to_vec());
        }
        Ok(())
    }

    /// Tells the observers, if any may see the call, that it begins.
    fn observe(
        self,
        keys: DispatchKeySet,
        inputs: impl FnOnce() -> Vec<Value>,
    ) -> Option<Observation> {
        let watched = observed_everywhere() || tls::reasons() & tls::OBSERVED != 0;
        if !(watched && self.0.observed) {
            return None;
        }
        Observation::of_call(self, keys, inputs)
    }

    /// Calls the kernel for a given key set: neither the thread's sets nor the operator's masks
    /// apply. A kernel at key `K` passes on `keys & DispatchKeySet::full_after(K)`.
    pub fn redispatch_boxed(self, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
        let special = tls::enter_redispatch();
        let _step = self.step(special, keys)?;
        let _scope = self.scope(special, Entry::RedispatchBoxed, keys);
        self.0.lookup(keys).kernel.call_boxed(self, keys, stack)
    }

    /// Calls the operator's own kernel at `key`, or else that key's fallback.
    pub fn call_boxed_for_key(self, key: DispatchKey, stack: &mut Stack) -> Result<()> {
        let (full, special) = tls::enter(self.call_keys(stack));
        let _step = self.step(special, key.into())?;
        let own = self.0.kernels().get(&key).map(|list| list[0]);
        let record = own.or_else(|| dispatcher::dispatcher().fallback(key));
        match record {
            Some(r) => r.kernel.call_boxed(self, self.0.masked(full), stack),
            None => Err(self.missing(key)),
        }
    }

    /// Calls the fallback of `key`, if it has one.
    pub(crate) fn call_fallback(self, key: DispatchKey, stack: &mut Stack) -> Option<Result<()>> {
        let record = dispatcher::dispatcher().fallback(key)?;
        Some(record.kernel.call_boxed(self, key.into(), stack))
    }

    /// Whether [`OperatorHandle::call_fallback`] has a kernel to call.
    pub(crate) fn has_fallback(self, key: DispatchKey) -> bool {
        dispatcher::dispatcher().fallback(key).is_some()
    }

    /// The operator with its types, for calls without boxing.
    ///
    /// # Errors
    ///
    /// The operator has no schema, or its schema or its kernels have other types.
    #[track_caller]
    pub fn typed<A: Args + 'static, R: Ret>(self) -> Result<TypedHandle<A, R>> {
        let Some(definition) = self.0.definition() else {
            return Err(not_found(self.name(), true).into());
        };
        let requested_at = Site::caller();
        let wrong = |registered: String, registered_at| DispatchError::WrongSignature {
            op: self.name().to_string(),
            registered,
            registered_at,
            requested: Signature::of::<A, R>().to_string(),
            requested_at,
        };
        if definition.schema.mismatch(&A::types(), &R::types()).is_some() {
            return Err(wrong(definition.schema.to_string(), definition.site).into());
        }
        if let Some((kept, site)) = self.0.pin(&Signature::of::<A, R>(), requested_at) {
            return Err(wrong(kept.to_string(), *site).into());
        }
        Ok(TypedHandle { entry: self.0, types: PhantomData })
    }

    fn step(self, special: bool, keys: DispatchKeySet) -> Result<Option<Step>> {
        match special {
            true => recursion::step(self, keys),
            false => Ok(None),
        }
    }

    fn scope(self, special: bool, entry: Entry, keys: DispatchKeySet) -> Option<Scope> {
        (special && tls::reasons() & tls::TRACED != 0)
            .then(|| Scope::enter(entry, &self.0.name, keys))
    }

    /// Sets the function that makes the error for calls that find no kernel.
    ///
    /// ```
    /// use straightline::dispatch::{Library, operator};
    /// use straightline::{Error, ErrorKind, Tensor};
    ///
    /// let mut lib = Library::new("docs_report")?;
    /// let op = lib.def("f(Tensor x) -> Tensor")?;
    /// op.set_missing_kernel_error(|missing| {
    ///     Error::new(ErrorKind::NotImplemented(format!("install the plugin for {}", missing.key)))
    /// });
    /// let x = Tensor::from_vec([1f32], 1)?;
    /// let error = op.call_boxed(&mut vec![x.into()]).unwrap_err();
    /// assert!(error.to_string().contains("install the plugin for CPU"));
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn set_missing_kernel_error(
        self,
        report: impl Fn(&MissingKernel) -> crate::Error + Send + Sync + 'static,
    ) {
        *self.0.report.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(report));
    }

    /// The error of a call of an operator that was defined once and has been removed since.
    pub(crate) fn gone(self) -> Option<DispatchError> {
        let op = || self.name().to_string();
        self.0.is_unused().then(|| DispatchError::Gone { op: op() })
    }

    #[cold]
    fn missing(self, key: DispatchKey) -> crate::Error {
        if let Some(gone) = self.gone() {
            return gone.into();
        }
        DispatchError::MissingKernel(Box::new(self.missing_kernel(key.into()))).into()
    }

    #[cold]
    fn missing_kernel(self, keys: DispatchKeySet) -> MissingKernel {
        // autograd and the modes serve the operator wherever a backend does; the fallback of Meta
        // says that there is none
        let key = keys.highest_priority_key();
        let is_backend = |k: &DispatchKey| {
            *k != DispatchKey::Undefined && k.functionality() < DispatchKey::BackendSelect
        };
        let is_report = |k: &DispatchKey| {
            let fallback = dispatcher::dispatcher().fallback(*k);
            *k == DispatchKey::Meta
                && fallback.is_some_and(|r| ptr::eq(r, self.0.lookup((*k).into())))
        };
        let available = SLOTS
            .iter()
            .map(|s| s.key)
            .filter(|k| is_backend(k) && self.serves(*k) && !is_report(k))
            .collect();
        MissingKernel {
            op: self.name().to_string(),
            key,
            keyset: keys,
            available,
            absent: !dispatcher::any_has_kernel(key),
            failed: super::macros::failures(self.name().namespace()),
        }
    }
}

pub(crate) fn not_found(name: &OperatorName, implemented: bool) -> DispatchError {
    DispatchError::NotFound {
        name: name.name.clone(),
        overload: name.overload.clone(),
        implemented,
        similar: if implemented { Vec::new() } else { similar_operators(&name.to_string()) },
    }
}
