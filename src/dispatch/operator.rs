//! One operator: its schema, its kernels, its table of 137 slots, and the handles to call it.

use super::arg::Ret;
use super::dispatcher;
use super::error::{DispatchError, MissingKernel, Site};
use super::kernel::{Args, Erased, Kernel, Signature};
use super::key::{BackendComponent, DispatchKey};
use super::keyset::{DispatchKeySet, NUM_RUNTIME_ENTRIES};
use super::record::{self, Observation};
use super::slots::{Occupant, Slots, Standing};
use super::table::{Active, Provenance, SLOTS};
use super::tls;
use super::trace::{Entry, Scope};
use super::value::{Stack, Value};
use crate::error::Result;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use straightline_passes::ir::schema::{FunctionSchema, OperatorName, SchemaType};

/// A registered kernel. Records are never freed: a call that loaded one may run while it is
/// deregistered, so what a registration leaves behind stays in the dispatcher's graveyard.
pub(super) struct Record {
    // what a call reads comes first
    unboxed: Option<Erased>,
    functor: *const (),
    standing: Standing,
    pub(super) kernel: Kernel,
    pub(super) site: Site,
}

impl Occupant for Record {
    #[inline(always)]
    fn standing(&self) -> Standing {
        self.standing
    }
}

// SAFETY: the functor is part of `kernel`, which is `Send + Sync` and lives as long as the record.
unsafe impl Send for Record {}
// SAFETY: as above.
unsafe impl Sync for Record {}

impl Record {
    pub(super) fn new(kernel: Kernel, site: Site) -> &'static Record {
        let standing = match kernel.is_fallthrough() {
            true => Standing::Fallthrough,
            false => Standing::Kernel,
        };
        Record::with(kernel, site, standing)
    }

    /// What fills a slot that no registration fills.
    fn nothing(kernel: Kernel) -> &'static Record {
        Record::with(kernel, Site::caller(), Standing::Nothing)
    }

    fn with(kernel: Kernel, site: Site, standing: Standing) -> &'static Record {
        let (unboxed, functor) = match kernel.unboxed() {
            Some((f, functor)) => (Some(f), functor),
            None => (None, ptr::null()),
        };
        Box::leak(Box::new(Record {
            unboxed,
            functor,
            standing,
            kernel,
            site,
        }))
    }
}

static MISSING: LazyLock<&'static Record> = LazyLock::new(|| {
    Record::nothing(Kernel::boxed(|op, keys, _| {
        let missing = op.missing_kernel(keys);
        let report =
            op.0.report
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
        Err(match report {
            Some(report) => report(&missing),
            None => DispatchError::MissingKernel(Box::new(missing)).into(),
        })
    }))
});

static AMBIGUOUS: LazyLock<&'static Record> = LazyLock::new(|| {
    Record::nothing(Kernel::boxed(|op, _, _| {
        let op = op.name().to_string();
        Err(DispatchError::AmbiguousAutogradOther { op }.into())
    }))
});

/// A schema as it was registered.
pub(super) struct Definition {
    pub(super) schema: FunctionSchema,
    pub(super) site: Site,
    pub(super) inferred: bool,
    pub(super) tags: Vec<String>,
    /// Returns that are an argument which the operator writes: `(return, argument)`.
    echoes: Vec<(usize, usize)>,
    /// Bit `i`: the `i`-th argument from the end takes part in dispatch.
    relevant: u64,
}

impl Definition {
    pub(super) fn new(
        schema: FunctionSchema,
        site: Site,
        inferred: bool,
        tags: Vec<String>,
    ) -> Definition {
        let relevant = schema
            .args
            .iter()
            .rev()
            .take(64)
            .enumerate()
            .filter(|(_, a)| a.ty.is_dispatch_relevant())
            .fold(0, |bits, (i, _)| bits | 1 << i);
        let echoes = (0..schema.returns.len())
            .filter(|r| schema.returns[*r].alias.as_ref().is_some_and(|a| a.write))
            .filter(|r| schema.returns[*r].ty == SchemaType::Tensor)
            .filter_map(|r| Some((r, schema.aliased_argument(r)?)))
            .collect();
        Definition {
            schema,
            site,
            inferred,
            tags,
            echoes,
            relevant,
        }
    }
}

/// The kernels of an operator, newest first at each key.
pub(super) type Kernels = BTreeMap<DispatchKey, Vec<&'static Record>>;

type Table = Slots<Record, NUM_RUNTIME_ENTRIES, 16>;

pub(super) struct OperatorEntry {
    slots: Table,
    definition: AtomicPtr<Definition>,
    name: OperatorName,
    /// Whether calls are shown to observers.
    observed: bool,
    /// The types of the typed kernels, remembered for good by the first kernel or handle.
    signature: OnceLock<(Signature, Site)>,
    kernels: Mutex<Kernels>,
    /// What makes the error of a missing kernel, instead of the dispatcher.
    report: Mutex<Option<Report>>,
}

/// Makes the error of a call that found no kernel.
type Report = Arc<dyn Fn(&MissingKernel) -> crate::Error + Send + Sync>;

impl OperatorEntry {
    pub(super) fn new(name: OperatorName) -> &'static OperatorEntry {
        Box::leak(Box::new(OperatorEntry {
            slots: Slots::new(*MISSING, DispatchKeySet::FULL.raw()),
            definition: AtomicPtr::new(ptr::null_mut()),
            observed: record::is_observed(&name),
            name,
            signature: OnceLock::new(),
            kernels: Mutex::default(),
            report: Mutex::default(),
        }))
    }

    pub(super) fn kernels(&self) -> MutexGuard<'_, Kernels> {
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn definition(&self) -> Option<&'static Definition> {
        // SAFETY: null, or a definition that was leaked.
        unsafe { self.definition.load(Ordering::Acquire).as_ref() }
    }

    pub(super) fn set_definition(&self, definition: Option<&'static Definition>) {
        let p = definition.map_or(ptr::null_mut(), |d| ptr::from_ref(d).cast_mut());
        self.definition.store(p, Ordering::Release);
    }

    pub(super) fn is_unused(&self) -> bool {
        self.definition().is_none() && self.kernels().is_empty()
    }

    /// Remembers a signature, or gives the one that is remembered and differs.
    pub(super) fn pin(&self, signature: Signature, site: Site) -> Option<&(Signature, Site)> {
        let id = signature.id;
        let kept = self.signature.get_or_init(|| (signature, site));
        (kept.0.id != id).then_some(kept)
    }

    pub(super) fn active(&self) -> Active {
        Active::new(self.kernels().iter().map(|(k, list)| (*k, list[0])))
    }

    /// Makes table and masks what the registrations say.
    pub(super) fn recompute(&self, fallbacks: &[Option<&'static Record>; NUM_RUNTIME_ENTRIES]) {
        let active = self.active();
        let full = DispatchKeySet::FULL;
        let mut masks = [full; 16];
        let mut records = [*MISSING; NUM_RUNTIME_ENTRIES];
        for (i, slot) in SLOTS.iter().enumerate() {
            let (record, why) = active.resolve(slot, fallbacks[i]);
            records[i] = match (record, why) {
                (Some(r), _) => r,
                (None, Provenance::AmbiguousAutogradOther) => *AMBIGUOUS,
                (None, _) => *MISSING,
            };
            if records[i].kernel.is_fallthrough() {
                match slot.key.backend() {
                    BackendComponent::Invalid => {
                        masks = masks.map(|m| m.remove(slot.key));
                    }
                    b => masks[b as usize - 1] = masks[b as usize - 1].remove(slot.key),
                }
            }
        }
        self.slots
            .publish(&records, &masks.map(DispatchKeySet::raw));
    }

    /// The set without the keys that this operator falls through.
    #[inline]
    pub(super) fn masked(&self, keys: DispatchKeySet) -> DispatchKeySet {
        let mask = self.slots.mask(|| keys.highest_backend_bit());
        keys & DispatchKeySet::from_raw(mask)
    }

    #[inline]
    fn lookup(&self, keys: DispatchKeySet) -> &'static Record {
        self.slots.occupant(keys.table_index())
    }

    /// What a call with these keys runs, when the first look met no kernel: `keys` are those before
    /// masking.
    #[cold]
    #[inline(never)]
    fn look_again(&self, keys: DispatchKeySet) -> (DispatchKeySet, &'static Record) {
        self.slots.settle(|_| {
            let keys = self.masked(keys);
            (keys, self.lookup(keys))
        })
    }
}

/// An operator. Copies are cheap and compare equal when they name the same operator.
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
    /// What the table and the masks of an operator take.
    pub const TABLE_BYTES: usize = Table::bytes();

    /// The name, `aten::add.Tensor`.
    pub fn name(self) -> &'static OperatorName {
        &self.0.name
    }

    /// The schema, unless the operator was only implemented and never defined.
    pub fn schema(self) -> Option<&'static FunctionSchema> {
        self.0.definition().map(|d| &d.schema)
    }

    /// The tags given with the definition.
    pub fn tags(self) -> &'static [String] {
        self.0.definition().map_or(&[], |d| &d.tags)
    }

    /// Whether a kernel is registered at exactly this key.
    pub fn has_kernel(self, key: DispatchKey) -> bool {
        self.0.kernels().contains_key(&key)
    }

    /// The keys at which kernels are registered.
    pub fn registered_keys(self) -> Vec<DispatchKey> {
        self.0.kernels().keys().copied().collect()
    }

    /// Whether a call that dispatches to this key finds a kernel, by whatever rule.
    pub fn has_computed_kernel(self, key: DispatchKey) -> bool {
        let record = self.0.lookup(key.into());
        !ptr::eq(record, *MISSING) && !ptr::eq(record, *AMBIGUOUS)
    }

    /// The kernel that a call with this key reaches: for those who call it again and again without
    /// the dispatcher, as a compiled plan does.
    ///
    /// # Errors
    ///
    /// No kernel serves the key.
    pub fn kernel_for(self, key: DispatchKey) -> Result<Kernel> {
        if !self.has_computed_kernel(key) {
            return Err(self.missing(key));
        }
        Ok(self.0.lookup(key.into()).kernel.clone())
    }

    /// The set without the keys that this operator falls through.
    pub fn masked(self, keys: DispatchKeySet) -> DispatchKeySet {
        self.0.masked(keys)
    }

    /// The dispatch keys that the arguments on top of the stack contribute.
    pub fn argument_keys(self, stack: &[Value]) -> DispatchKeySet {
        let Some(definition) = self.0.definition() else {
            return DispatchKeySet::EMPTY;
        };
        let mut bits = definition.relevant;
        let mut keys = DispatchKeySet::EMPTY;
        while bits != 0 {
            let i = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            if let Some(v) = stack.len().checked_sub(i + 1).map(|at| &stack[at]) {
                keys = v.tensors().fold(keys, |ks, t| ks | t.key_set());
            }
        }
        keys
    }

    /// Calls the operator on the arguments on top of the stack and leaves the returns there.
    ///
    /// The key set comes from the tensor arguments and the thread.
    pub fn call_boxed(self, stack: &mut Stack) -> Result<()> {
        let (full, special) = tls::enter(self.argument_keys(stack));
        let mut keys = self.0.masked(full);
        let mut record = self.0.lookup(keys);
        if record.standing != Standing::Kernel {
            (keys, record) = self.0.look_again(full);
        }
        if special {
            return self.call_boxed_special(keys, record, stack);
        }
        record.kernel.call_boxed(self, keys, stack)
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

    /// Tells the observers that a call begins, if there are any and they may see it.
    fn observe(
        self,
        keys: DispatchKeySet,
        inputs: impl FnOnce() -> Vec<Value>,
    ) -> Option<Observation> {
        let watched = record::observed_everywhere() || tls::reasons() & tls::OBSERVED != 0;
        if !(watched && self.0.observed) {
            return None;
        }
        Observation::of_call(self, keys, inputs)
    }

    /// Calls the kernel for a given key set: neither the thread's sets nor the operator's masks
    /// apply. A kernel at key `K` passes on `keys & DispatchKeySet::full_after(K)`.
    pub fn redispatch_boxed(self, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
        let special = tls::enter_redispatch();
        let _scope = self.scope(special, Entry::RedispatchBoxed, keys);
        self.0.lookup(keys).kernel.call_boxed(self, keys, stack)
    }

    /// Calls the operator's own kernel at `key`, or else that key's fallback.
    pub fn call_boxed_for_key(self, key: DispatchKey, stack: &mut Stack) -> Result<()> {
        let (full, _) = tls::enter(self.argument_keys(stack));
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
        if definition
            .schema
            .mismatch(&A::types(), &R::types())
            .is_some()
        {
            return Err(wrong(definition.schema.to_string(), definition.site).into());
        }
        if let Some((kept, site)) = self.0.pin(Signature::of::<A, R>(), requested_at) {
            return Err(wrong(kept.to_string(), *site).into());
        }
        Ok(TypedHandle {
            entry: self.0,
            types: PhantomData,
        })
    }

    fn scope(self, special: bool, entry: Entry, keys: DispatchKeySet) -> Option<Scope> {
        (special && tls::reasons() & tls::TRACED != 0)
            .then(|| Scope::enter(entry, &self.0.name, keys))
    }

    /// Lets a function of yours make the error of calls that find no kernel.
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
    /// let x = Tensor::from_vec([1f32])?;
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

    #[cold]
    fn missing(self, key: DispatchKey) -> crate::Error {
        DispatchError::MissingKernel(Box::new(self.missing_kernel(key.into()))).into()
    }

    #[cold]
    fn missing_kernel(self, keys: DispatchKeySet) -> MissingKernel {
        let available = SLOTS
            .iter()
            .map(|s| s.key)
            .filter(|k| *k != DispatchKey::Undefined && self.has_computed_kernel(*k))
            .collect();
        MissingKernel {
            op: self.name().to_string(),
            key: keys.highest_priority_key(),
            keyset: keys,
            available,
            table: super::dump::dump_table(self),
            failed: super::macros::failures(self.name().namespace()),
        }
    }
}

pub(super) fn not_found(name: &OperatorName, implemented: bool) -> DispatchError {
    DispatchError::NotFound {
        name: name.name.clone(),
        overload: name.overload.clone(),
        implemented,
    }
}

/// An operator with its types: calls go straight to the kernel, without boxing.
///
/// `A` is a tuple of [`Arg`](super::Arg)s with `'static` in place of a lifetime.
///
/// ```
/// use straightline::Tensor;
/// use straightline::dispatch::{DispatchKey, Library, operator};
///
/// let mut lib = Library::new("docs_typed")?;
/// lib.def("twice(Tensor x, int n) -> int")?;
/// lib.impl_at("twice", DispatchKey::CPU, |_x: &Tensor, n: i64| Ok(2 * n))?;
/// let twice = operator("docs_typed::twice")?.typed::<(&'static Tensor, i64), i64>()?;
///
/// let x = Tensor::from_slice(&[1f32], &[1])?;
/// assert_eq!(twice.call((&x, 21))?, 42);
/// # Ok::<(), straightline::Error>(())
/// ```
pub struct TypedHandle<A, R> {
    entry: &'static OperatorEntry,
    types: PhantomData<fn(A) -> R>,
}

impl<A, R> Clone for TypedHandle<A, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A, R> Copy for TypedHandle<A, R> {}

impl<A, R> fmt::Debug for TypedHandle<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.entry.name)
    }
}

impl<A: Args + 'static, R: Ret> TypedHandle<A, R> {
    /// The operator without its types.
    pub fn handle(self) -> OperatorHandle {
        OperatorHandle(self.entry)
    }

    /// Calls the operator; the key set comes from the tensor arguments and the thread.
    #[inline]
    pub fn call(self, args: A::Items<'_>) -> Result<R> {
        let (full, special) = tls::enter(A::keys(&args));
        if special {
            return self.call_special(full, args);
        }
        let keys = self.entry.masked(full);
        let record = self.entry.lookup(keys);
        match record.unboxed {
            // SAFETY: unboxed records in this operator's table have the pinned signature, which
            // is that of this handle, and their functor lives as long as they do.
            Some(f) => unsafe { A::invoke(f, record.functor, keys, args) },
            None => self.call_slow(Some(full), keys, record, args),
        }
    }

    /// Calls the kernel for a given key set: neither the thread's sets nor the operator's masks
    /// apply.
    #[inline]
    pub fn redispatch(self, keys: DispatchKeySet, args: A::Items<'_>) -> Result<R> {
        if tls::enter_redispatch() {
            return self.redispatch_special(keys, args);
        }
        self.run(None, keys, args)
    }

    #[inline]
    fn run(
        self,
        full: Option<DispatchKeySet>,
        keys: DispatchKeySet,
        args: A::Items<'_>,
    ) -> Result<R> {
        let record = self.entry.lookup(keys);
        match record.unboxed {
            // SAFETY: as in `call`.
            Some(f) => unsafe { A::invoke(f, record.functor, keys, args) },
            None => self.call_slow(full, keys, record, args),
        }
    }

    #[cold]
    #[inline(never)]
    fn call_special(self, full: DispatchKeySet, args: A::Items<'_>) -> Result<R> {
        let keys = self.entry.masked(full);
        let _scope = self.handle().scope(true, Entry::Call, keys);
        let observation = self.handle().observe(keys, || {
            let mut inputs = Stack::new();
            A::push(args, &mut inputs);
            inputs
        });
        let out = self.run(Some(full), keys, args)?;
        let Some(mut observation) = observation.filter(Observation::wants_outputs) else {
            return Ok(out);
        };
        let mut outputs = Stack::new();
        out.push(&mut outputs);
        observation.set_outputs(outputs.clone());
        Ok(R::pop(&mut outputs).expect("a return unboxes from what it was boxed to"))
    }

    #[cold]
    #[inline(never)]
    fn redispatch_special(self, keys: DispatchKeySet, args: A::Items<'_>) -> Result<R> {
        let _scope = self.handle().scope(true, Entry::Redispatch, keys);
        self.run(None, keys, args)
    }

    /// The slot has no unboxed kernel: boxes the arguments. `full` is the key set before masking,
    /// where masking applies.
    #[cold]
    #[inline(never)]
    fn call_slow(
        self,
        full: Option<DispatchKeySet>,
        mut keys: DispatchKeySet,
        mut record: &'static Record,
        args: A::Items<'_>,
    ) -> Result<R> {
        if let Some(full) = full {
            if record.standing != Standing::Kernel {
                (keys, record) = self.entry.look_again(full);
            }
            if let Some(f) = record.unboxed {
                // SAFETY: as in `call`.
                return unsafe { A::invoke(f, record.functor, keys, args) };
            }
        }
        self.boxed(args, &mut |op, stack| {
            record.kernel.call_boxed(op, keys, stack)
        })
    }

    /// Runs a function of boxed values on typed arguments.
    #[cold]
    #[inline(never)]
    pub(crate) fn boxed(
        self,
        args: A::Items<'_>,
        run: &mut dyn FnMut(OperatorHandle, &mut Stack) -> Result<()>,
    ) -> Result<R> {
        let mut stack = Stack::new();
        A::push(args, &mut stack);
        let echoes: Vec<(usize, Value)> = match self.entry.definition() {
            Some(d) => d
                .echoes
                .iter()
                .map(|(r, a)| (*r, stack[*a].clone()))
                .collect(),
            None => Vec::new(),
        };
        run(self.handle(), &mut stack)?;
        // what the schema says is the argument itself is the argument itself
        for (ret, value) in echoes {
            if let Some(slot) = stack.get_mut(ret) {
                *slot = value;
            }
        }
        let got: Vec<&str> = stack.iter().map(Value::type_name).collect();
        let got = format!("({})", got.join(", "));
        R::pop(&mut stack).ok_or_else(|| {
            let want: Vec<String> = R::types().iter().map(ToString::to_string).collect();
            DispatchError::Returns {
                op: self.entry.name.to_string(),
                want: format!("({})", want.join(", ")),
                got,
            }
            .into()
        })
    }
}

/// A typed operator found by name at its first call; meant for a `static`.
pub struct TypedOp<A, R> {
    name: &'static str,
    overload: &'static str,
    entry: AtomicPtr<OperatorEntry>,
    types: PhantomData<fn(A) -> R>,
}

impl<A, R> fmt::Debug for TypedOp<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.name, self.overload)
    }
}

impl<A, R> TypedOp<A, R> {
    /// An operator by name and overload.
    pub const fn new(name: &'static str, overload: &'static str) -> Self {
        TypedOp {
            name,
            overload,
            entry: AtomicPtr::new(ptr::null_mut()),
            types: PhantomData,
        }
    }
}

impl<A: Args + 'static, R: Ret> TypedOp<A, R> {
    /// The operator.
    ///
    /// # Errors
    ///
    /// At the first use: the operator does not exist or has other types.
    #[inline]
    pub fn get(&self) -> Result<TypedHandle<A, R>> {
        let entry = self.entry.load(Ordering::Acquire);
        if entry.is_null() {
            return self.resolve();
        }
        Ok(TypedHandle {
            // SAFETY: not null, so `resolve` stored a leaked entry with these types.
            entry: unsafe { &*entry },
            types: PhantomData,
        })
    }

    #[cold]
    fn resolve(&self) -> Result<TypedHandle<A, R>> {
        let name = OperatorName::new(self.name, self.overload);
        let op = dispatcher::find_or_error(&name)?.typed::<A, R>()?;
        self.entry
            .store(ptr::from_ref(op.entry).cast_mut(), Ordering::Release);
        Ok(op)
    }

    /// [`TypedHandle::call`].
    #[inline]
    pub fn call(&self, args: A::Items<'_>) -> Result<R> {
        self.get()?.call(args)
    }

    /// [`TypedHandle::redispatch`].
    #[inline]
    pub fn redispatch(&self, keys: DispatchKeySet, args: A::Items<'_>) -> Result<R> {
        self.get()?.redispatch(keys, args)
    }
}
