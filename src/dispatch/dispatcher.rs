//! The one dispatcher of the process: all operators, library namespaces and backend fallbacks.

use super::error::{DispatchError, Site};
use super::kernel::Kernel;
use super::listener::{self, Listener, Listeners, RegistrationEvent};
use super::operator::{Definition, OperatorEntry, OperatorHandle, Record, not_found};
use super::table::Layouts;
use super::watcher::{Question, asked};
use crate::error::Result;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Once, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use straightline_catalog::Op;
use straightline_catalog::key::{BackendComponent, DispatchKey};
use straightline_catalog::keyset::{DispatchKeySet, NUM_RUNTIME_ENTRIES};
use straightline_catalog::schema::{FunctionSchema, OperatorName};

/// The fallback of each slot.
pub(super) type Fallbacks = [Option<&'static Record>; NUM_RUNTIME_ENTRIES];

struct State {
    operators: HashMap<OperatorName, OperatorHandle>,
    libraries: HashMap<String, Site>,
    fallbacks: Fallbacks,
    /// How often the fallback of each slot has changed.
    fallback_epochs: [u64; NUM_RUNTIME_ENTRIES],
    layouts: Layouts,
    /// Operators whose tables wait for the end of a batch.
    dirty: Option<HashSet<OperatorHandle>>,
    /// Deregistered kernels that a concurrent call may still run.
    graveyard: Vec<&'static Record>,
    listeners: Listeners,
}

/// The registry behind [`Library`](super::Library). Changes take the lock; calls take none.
pub(super) struct Dispatcher(RwLock<State>);

static DISPATCHER: LazyLock<Dispatcher> = LazyLock::new(|| {
    Dispatcher(RwLock::new(State {
        operators: HashMap::new(),
        libraries: HashMap::new(),
        fallbacks: [None; NUM_RUNTIME_ENTRIES],
        fallback_epochs: [0; NUM_RUNTIME_ENTRIES],
        layouts: Layouts::default(),
        dirty: None,
        graveyard: Vec::new(),
        listeners: Listeners::new(),
    }))
});

/// Counts the registrations of the process, and changes of its default dtype.
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// Changes with each registration. A caller that remembers the number learns with one load that no
/// operator has changed; otherwise it compares [`OperatorHandle::epoch`].
#[inline]
pub(crate) fn generation(order: Ordering) -> u64 {
    GENERATION.load(order)
}

/// Makes plans check again what they depend on besides their arguments, because some of it has
/// changed.
pub(crate) fn plans_look_again() {
    GENERATION.fetch_add(1, Ordering::Release);
}

/// How often the fallbacks of these keys have changed.
pub(crate) fn fallback_epochs(keys: DispatchKeySet) -> Vec<(DispatchKey, u64)> {
    let state = dispatcher().read();
    let epoch = |key: DispatchKey| state.fallback_epochs[DispatchKeySet::from(key).table_index()];
    keys.iter().map(|key| (key, epoch(key))).collect()
}

thread_local! {
    /// This thread is registering the operators of the crate itself.
    static REGISTERING: Cell<bool> = const { Cell::new(false) };
}

/// Registers the crate's own operators, and fills in what lower rooms ask of higher ones, unless a
/// call has done so.
pub(crate) fn ensure_built_in() {
    dispatcher();
}

/// The dispatcher, with the crate's own operators registered.
pub(super) fn dispatcher() -> &'static Dispatcher {
    static BUILT_IN: Once = Once::new();
    if !BUILT_IN.is_completed() && !REGISTERING.get() {
        BUILT_IN.call_once(|| {
            REGISTERING.set(true);
            DISPATCHER.write().dirty = Some(HashSet::new());
            super::builtin::register();
            let mut state = DISPATCHER.write();
            for op in state.dirty.take().unwrap_or_default() {
                state.settle(op, None);
            }
            drop(state);
            // outside the batch, so that their operators can be called at once
            super::macros::run_static_libraries();
            REGISTERING.set(false);
        });
    }
    &DISPATCHER
}

/// The operator of this name, defined or only implemented.
pub fn find(name: &OperatorName) -> Option<OperatorHandle> {
    dispatcher().read().operators.get(name).copied()
}

/// The operator of this name if it is defined.
pub fn find_schema(name: &OperatorName) -> Option<OperatorHandle> {
    find(name).filter(|op| op.schema().is_some())
}

/// The operator written as `aten::add.Tensor`. A name without an overload that no operator has
/// means its default overload: `aten::add` is `aten::add.Tensor`, `aten::transpose` is
/// `aten::transpose.int` ([`default_overload`]).
///
/// ```
/// use straightline::dispatch::operator;
/// assert_eq!(operator("aten::slice")?.name().to_string(), "aten::slice.Tensor");
/// assert_eq!(operator("aten::relu")?.name().to_string(), "aten::relu");
/// // scatter.src and scatter.value: neither is the default
/// assert!(operator("aten::scatter").is_err());
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
///
/// The text is not an operator name, or there is no such operator.
pub fn operator(name: &str) -> Result<OperatorHandle> {
    let name: OperatorName = name.parse().map_err(DispatchError::from)?;
    let found = match default_overload(&name) {
        Some(op) => Ok(op),
        None => find_or_error(&name),
    };
    asked(Question::Operator(found.as_ref().ok().copied()));
    found
}

/// The operator of a catalogue entry, which may be one registered from outside.
///
/// # Errors
///
/// Its library is gone.
pub(crate) fn handle_of(op: Op) -> Result<OperatorHandle> {
    find_or_error(&op.schema().name)
}

/// Overloads that a bare name prefers, where PyTorch's functions choose by their arguments.
const DEFAULTS: [&str; 4] = ["Tensor", "self", "int", "memory_format"];

/// The overload that a name without one means, if no operator has exactly that name: the only one
/// that allocates its result or writes `self`, or of several the one for tensors. `None` for
/// a name with an overload, for one that an operator has, and where none of several is the default.
pub fn default_overload(name: &OperatorName) -> Option<OperatorHandle> {
    if !name.overload.is_empty() {
        return None;
    }
    let state = dispatcher().read();
    if state.operators.contains_key(name) {
        return None;
    }
    let candidate = |op: &&OperatorHandle| {
        op.name().name == name.name && op.schema().is_some_and(|s| !s.is_out_variant())
    };
    let operators = state.operators.values();
    let found: Vec<OperatorHandle> = operators.filter(candidate).copied().collect();
    if let [only] = found[..] {
        return Some(only);
    }
    let named = |overload: &&str| found.iter().find(|op| op.name().overload == *overload);
    DEFAULTS.iter().find_map(|o| named(o).copied())
}

pub(super) fn find_or_error(name: &OperatorName) -> Result<OperatorHandle> {
    match find(name) {
        Some(op) if op.schema().is_some() => Ok(op),
        found => Err(super::macros::failures(name.namespace())
            .pop()
            .unwrap_or_else(|| not_found(name, found.is_some()))
            .into()),
    }
}

/// Every operator, by name.
pub fn all_operators() -> Vec<OperatorHandle> {
    dispatcher().read().sorted()
}

/// Whether any operator has a kernel of its own at a key.
pub(super) fn any_has_kernel(key: DispatchKey) -> bool {
    dispatcher().read().operators.values().any(|op| op.registers(key))
}

/// The overloads of a name such as `aten::add`, by name.
pub(crate) fn overloads(name: &str) -> Vec<OperatorHandle> {
    let mut all: Vec<_> = dispatcher()
        .read()
        .operators
        .values()
        .copied()
        .filter(|op| op.name().name == name)
        .collect();
    all.sort_unstable_by_key(|op| op.name());
    all
}

/// The operators with a kernel but no schema.
pub fn dangling_impls() -> Vec<OperatorHandle> {
    all_operators().into_iter().filter(|op| op.schema().is_none()).collect()
}

impl Dispatcher {
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn fallback(&self, key: DispatchKey) -> Option<&'static Record> {
        self.read().fallbacks[DispatchKeySet::from(key).table_index()]
    }

    pub(super) fn fallbacks(&self) -> Fallbacks {
        self.read().fallbacks
    }

    /// Adds a listener and gives the operators that are defined so far.
    pub(super) fn add_listener(&self, listener: Arc<Listener>) -> Vec<OperatorHandle> {
        let mut state = self.write();
        state.listeners.push(listener);
        let mut all = state.sorted();
        all.retain(|op| op.schema().is_some());
        all
    }

    pub(super) fn remove_listener(&self, listener: &Arc<Listener>) {
        self.write().listeners.retain(|l| !Arc::ptr_eq(l, listener));
    }

    pub(super) fn add_library(&self, namespace: &str, site: Site) -> Result<()> {
        let mut state = self.write();
        if let Some(first) = state.libraries.get(namespace) {
            return Err(DispatchError::SecondDefBlock {
                namespace: namespace.to_string(),
                first: *first,
                second: site,
            }
            .into());
        }
        state.libraries.insert(namespace.to_string(), site);
        Ok(())
    }

    pub(super) fn remove_library(&self, namespace: &str) {
        self.write().libraries.remove(namespace);
    }

    /// Defines the operator with this schema, which `named` enters in the catalogue or finds there.
    pub(super) fn define(
        &self,
        schema: &FunctionSchema,
        named: impl FnOnce() -> Op,
        site: Site,
        inferred: bool,
    ) -> Result<OperatorHandle> {
        let mut state = self.write();
        let op = state.entry(&schema.name);
        let result = (|| {
            if let Some(first) = op.0.definition() {
                return Err(DispatchError::AlreadyDefined {
                    schema: schema.to_string(),
                    first: first.site,
                    second: site,
                }
                .into());
            }
            // kernels that came before their schema are checked now
            for record in op.0.kernels().values().flatten() {
                check_schema(schema, site, record)?;
            }
            let definition = Definition::new(named(), site, inferred);
            op.0.set_definition(Some(Box::leak(Box::new(definition))));
            Ok(())
        })();
        state.settle(op, None);
        let listeners = state.listeners.clone();
        drop(state);
        result.map(|()| {
            listener::tell(&listeners, RegistrationEvent::Defined(op));
            op
        })
    }

    pub(super) fn undefine(&self, op: OperatorHandle) {
        let listeners = self.read().listeners.clone();
        // while the schema can still be read
        listener::tell(&listeners, RegistrationEvent::Removed(op));
        if let Some(of) = op.op() {
            of.forget();
        }
        let mut state = self.write();
        op.0.set_definition(None);
        state.settle(op, None);
    }

    pub(super) fn implement(
        &self,
        name: &OperatorName,
        key: DispatchKey,
        kernel: Kernel,
        site: Site,
    ) -> Result<(OperatorHandle, &'static Record)> {
        let mut state = self.write();
        let op = state.entry(name);
        let record = Record::new(kernel, site);
        let result = (|| {
            if let Some(d) = op.0.definition() {
                check_schema(d.schema, d.site, record)?;
            }
            if let Some(signature) = record.kernel.signature()
                && let Some((first, first_at)) = op.0.pin(signature, site)
            {
                return Err(DispatchError::KernelSignatures {
                    op: name.to_string(),
                    first: first.name,
                    first_at: *first_at,
                    second: signature.name,
                    second_at: site,
                }
                .into());
            }
            let mut kernels = op.0.kernels();
            let list = kernels.entry(key).or_default();
            if let Some(old) = list.first() {
                warn_override(name, key, old.site, site);
            }
            list.insert(0, record);
            Ok(())
        })();
        state.settle(op, Some(key));
        if result.is_err() {
            state.graveyard.push(record);
        }
        result.map(|()| (op, record))
    }

    pub(super) fn unimplement(
        &self,
        op: OperatorHandle,
        key: DispatchKey,
        record: &'static Record,
    ) {
        let mut state = self.write();
        {
            let mut kernels = op.0.kernels();
            if let Some(list) = kernels.get_mut(&key) {
                list.retain(|r| !std::ptr::eq(*r, record));
                if list.is_empty() {
                    kernels.remove(&key);
                }
            }
        }
        state.graveyard.push(record);
        state.settle(op, Some(key));
    }

    pub(super) fn add_fallback(
        &self,
        key: DispatchKey,
        kernel: Kernel,
        site: Site,
    ) -> Result<&'static Record> {
        let mut state = self.write();
        let keys: Vec<DispatchKey> = key.expansion().iter().collect();
        for key in &keys {
            let slot = DispatchKeySet::from(*key).table_index();
            if let Some(previous) = state.fallbacks[slot] {
                return Err(DispatchError::FallbackTaken {
                    key: *key,
                    previous: previous.site,
                    new: site,
                }
                .into());
            }
        }
        let record = Record::new(kernel, site);
        for key in keys {
            let slot = DispatchKeySet::from(key).table_index();
            state.fallbacks[slot] = Some(record);
            state.fallback_epochs[slot] += 1;
        }
        state.settle_all();
        Ok(record)
    }

    pub(super) fn remove_fallback(&self, record: &'static Record) {
        let mut state = self.write();
        for slot in 0..NUM_RUNTIME_ENTRIES {
            if state.fallbacks[slot].is_some_and(|r| std::ptr::eq(r, record)) {
                state.fallbacks[slot] = None;
                state.fallback_epochs[slot] += 1;
            }
        }
        state.graveyard.push(record);
        state.settle_all();
    }
}

impl State {
    /// All operators, by name.
    fn sorted(&self) -> Vec<OperatorHandle> {
        let mut all: Vec<_> = self.operators.values().copied().collect();
        all.sort_unstable_by_key(|op| op.name());
        all
    }

    fn entry(&mut self, name: &OperatorName) -> OperatorHandle {
        if let Some(op) = self.operators.get(name) {
            return *op;
        }
        let op = OperatorHandle(OperatorEntry::new(name.clone()));
        self.operators.insert(name.clone(), op);
        op
    }

    /// Brings an operator's table up to date, and forgets the operator when nothing of it is left.
    ///
    /// `key` is the one of the kernel that came or went, if it was a kernel. Plans are for CPU
    /// tensors: they do not know of kernels for other backends.
    fn settle(&mut self, op: OperatorHandle, key: Option<DispatchKey>) {
        let backend = key.map_or(BackendComponent::Invalid, DispatchKey::backend);
        let concerns_plans = matches!(
            backend,
            BackendComponent::Invalid | BackendComponent::CPU | BackendComponent::Meta
        );
        if op.0.is_unused() {
            self.operators.remove(op.name());
        }
        match &mut self.dirty {
            Some(dirty) => {
                dirty.insert(op);
            }
            None => {
                op.0.recompute(&self.fallbacks, &mut self.layouts);
                if concerns_plans {
                    op.0.changed();
                    GENERATION.fetch_add(1, Ordering::Release);
                }
            }
        }
    }

    /// Brings all tables up to date after a change of fallbacks.
    fn settle_all(&mut self) {
        self.layouts.forget();
        let all: Vec<OperatorHandle> = self.operators.values().copied().collect();
        match &mut self.dirty {
            Some(dirty) => dirty.extend(all),
            None => {
                for op in all {
                    op.0.recompute(&self.fallbacks, &mut self.layouts);
                }
            }
        }
        GENERATION.fetch_add(1, Ordering::Release);
    }
}

fn check_schema(schema: &FunctionSchema, site: Site, record: &Record) -> Result<()> {
    check_kernel(schema, site, &record.kernel, record.site)
}

/// Whether a kernel's types are those of a schema; a boxed kernel takes what it finds on the stack.
pub(super) fn check_kernel(
    schema: &FunctionSchema,
    site: Site,
    kernel: &Kernel,
    kernel_site: Site,
) -> Result<()> {
    let Some(signature) = kernel.signature() else {
        return Ok(());
    };
    match schema.mismatch(&signature.args, &signature.returns) {
        None => Ok(()),
        Some(reason) => Err(DispatchError::SignatureMismatch {
            op: schema.name.to_string(),
            expected: schema.to_string(),
            expected_at: site,
            inferred: signature.to_string(),
            inferred_at: kernel_site,
            reason,
        }
        .into()),
    }
}

fn warn_override(name: &OperatorName, key: DispatchKey, old: Site, new: Site) {
    static ONCE: Once = Once::new();
    if matches!(key, DispatchKey::Meta | DispatchKey::MTIA) {
        return;
    }
    ONCE.call_once(|| {
        tracing::warn!(
            "overriding a previously registered kernel for the same operator and the same dispatch key: \
             operator {name}, dispatch key {key}, previous kernel {old}, new kernel {new} \
             (said once per process)"
        );
    });
}
