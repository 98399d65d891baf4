//! Observers of calls (c10's `RecordFunction`): what a profiler registers.
//!
//! An observer is told when an operator starts and ends. Calls are observed, boxed and unboxed;
//! redispatches are not, so that an operator is seen once, however many keys it passes. Beside
//! operators there are ranges that code names itself, with [`record_function`].
//!
//! Without observers, a call pays one load and one test for all of this: [`tls::enter`] tests
//! the thread's own bit and [`observed_everywhere`] together.

use super::operator::OperatorHandle;
use super::tls;
use super::value::Value;
use smallvec::SmallVec;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use straightline_catalog::keyset::DispatchKeySet;
use straightline_catalog::schema::{FunctionSchema, OperatorName};

/// What kind of range is recorded. The numbers are c10's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum RecordScope {
    /// A call of an operator.
    Function = 0,
    /// A node of the backward pass.
    BackwardFunction,
    /// A function of TorchScript; nothing here records it.
    TorchscriptFunction,
    /// A kernel and dtype, for selective builds; nothing here records it.
    KernelFunctionDtype,
    /// A custom class, for selective builds; nothing here records it.
    CustomClass,
    /// A build feature; nothing here records it.
    BuildFeature,
    /// The mobile interpreter; nothing here records it.
    LiteInterpreter,
    /// A range that code names itself: [`record_function`].
    UserScope,
    /// An operator of a static runtime: nothing here records it.
    StaticRuntimeOp,
    /// A model of a static runtime: nothing here records it.
    StaticRuntimeModel,
}

impl RecordScope {
    /// All scopes, in order.
    pub const ALL: [RecordScope; 10] = [
        RecordScope::Function,
        RecordScope::BackwardFunction,
        RecordScope::TorchscriptFunction,
        RecordScope::KernelFunctionDtype,
        RecordScope::CustomClass,
        RecordScope::BuildFeature,
        RecordScope::LiteInterpreter,
        RecordScope::UserScope,
        RecordScope::StaticRuntimeOp,
        RecordScope::StaticRuntimeModel,
    ];

    fn bit(self) -> u16 {
        1 << self as u8
    }
}

/// Whether calls of an operator are shown to observers: not those of the smallest ones, nor the
/// profiler's own.
pub(super) fn is_observed(name: &OperatorName) -> bool {
    match (name.namespace(), name.base()) {
        (Some("aten"), base) => {
            !matches!(base, "size" | "is_leaf" | "output_nr" | "_version" | "is_complex")
        }
        (Some("profiler"), base) => !matches!(
            base,
            "_record_function_enter" | "_record_function_enter_new" | "_record_function_exit"
        ),
        _ => true,
    }
}

enum What {
    Operator(OperatorHandle),
    Named(Box<str>),
}

/// One recorded range, as observers see it.
pub struct RecordFunction {
    what: What,
    scope: RecordScope,
    keys: DispatchKeySet,
    id: u64,
    thread: u64,
    depth: usize,
    sequence: i64,
    inputs: Vec<Value>,
    outputs: Vec<Value>,
}

impl RecordFunction {
    /// The operator's name without its overload, `aten::add`, or the name of the range.
    pub fn name(&self) -> &str {
        match &self.what {
            What::Operator(op) => &op.name().name,
            What::Named(name) => name,
        }
    }

    /// The operator, unless this is a range.
    pub fn operator(&self) -> Option<OperatorHandle> {
        match &self.what {
            What::Operator(op) => Some(*op),
            What::Named(_) => None,
        }
    }

    /// The operator's schema.
    pub fn schema(&self) -> Option<&'static FunctionSchema> {
        self.operator().and_then(OperatorHandle::schema)
    }

    /// What kind of range this is.
    pub fn scope(&self) -> RecordScope {
        self.scope
    }

    /// The keys that the call dispatches on; empty for a range.
    pub fn key_set(&self) -> DispatchKeySet {
        self.keys
    }

    /// A number that no other recorded range of this process has.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The thread it runs on, as [`thread_id`] counts.
    pub fn thread_id(&self) -> u64 {
        self.thread
    }

    /// In how many recorded ranges of its thread it lies.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The autograd sequence number that ties a forward operator to its backward node, or -1 where
    /// nothing is differentiated.
    pub fn sequence_number(&self) -> i64 {
        self.sequence
    }

    /// The arguments, where an observer of this range wants them.
    pub fn inputs(&self) -> &[Value] {
        &self.inputs
    }

    /// The returns, where an observer of this range wants them and the operator has succeeded.
    pub fn outputs(&self) -> &[Value] {
        &self.outputs
    }
}

impl fmt::Debug for RecordFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordFunction")
            .field("name", &self.name())
            .field("scope", &self.scope)
            .field("id", &self.id)
            .field("thread", &self.thread)
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}

type Start = Box<dyn Fn(&RecordFunction) -> Box<dyn Any> + Send + Sync>;
type End = Box<dyn Fn(&RecordFunction, Box<dyn Any>) + Send + Sync>;

/// A pair of functions that are told of starts and ends.
///
/// What the start returns is handed to the end. While an observer runs, nothing is observed on its
/// thread, so that it may call operators.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use straightline::{Tensor, dispatch::Observer};
///
/// let seen = Arc::new(Mutex::new(Vec::new()));
/// let log = seen.clone();
/// let observer = Observer::new(
///     |call| std::time::Instant::now(),
///     move |call, since| log.lock().unwrap().push((call.name().to_string(), since.elapsed())),
/// );
/// let x = Tensor::from_vec([1f32, 2.0], 2)?;
/// {
///     let _on = observer.on_this_thread();
///     x.exp()?;
/// }
/// x.exp()?;
/// assert_eq!(seen.lock().unwrap().len(), 1);
/// assert_eq!(seen.lock().unwrap()[0].0, "aten::exp");
/// # Ok::<(), straightline::Error>(())
/// ```
#[must_use = "an observer sees nothing until it is registered"]
pub struct Observer {
    start: Start,
    end: End,
    scopes: u16,
    inputs: bool,
    outputs: bool,
    /// Of 2^32 ranges, how many are shown.
    rate: u64,
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer")
            .field("inputs", &self.inputs)
            .field("outputs", &self.outputs)
            .finish_non_exhaustive()
    }
}

const ALWAYS: u64 = 1 << 32;

impl Observer {
    /// An observer of all scopes.
    pub fn new<C: 'static>(
        start: impl Fn(&RecordFunction) -> C + Send + Sync + 'static,
        end: impl Fn(&RecordFunction, C) + Send + Sync + 'static,
    ) -> Observer {
        Observer {
            start: Box::new(move |f| Box::new(start(f))),
            end: Box::new(move |f, context| {
                if let Ok(context) = context.downcast::<C>() {
                    end(f, *context);
                }
            }),
            scopes: u16::MAX,
            inputs: false,
            outputs: false,
            rate: ALWAYS,
        }
    }

    /// Whether the observer wants the arguments; they are boxed only if one does.
    pub fn needs_inputs(mut self, yes: bool) -> Observer {
        self.inputs = yes;
        self
    }

    /// Whether the observer wants the returns.
    pub fn needs_outputs(mut self, yes: bool) -> Observer {
        self.outputs = yes;
        self
    }

    /// Limits the observer to ranges of these scopes.
    pub fn scopes(mut self, scopes: &[RecordScope]) -> Observer {
        self.scopes = scopes.iter().fold(0, |bits, s| bits | s.bit());
        self
    }

    /// Limits the observer to a random fraction of the ranges: 0 none, 1 all.
    pub fn sampling(mut self, probability: f64) -> Observer {
        self.rate = (probability.clamp(0.0, 1.0) * ALWAYS as f64) as u64;
        self
    }

    /// Registers the observer for the ranges of this thread while the guard lives.
    pub fn on_this_thread(self) -> ThreadObserver {
        let id = next_id();
        LOCAL.with(|l| {
            l.own.borrow_mut().push((id, Arc::new(self)));
            l.generation.set(0);
        });
        tls::set_reason(tls::OBSERVED, true);
        ThreadObserver { id, on_this_thread: PhantomData }
    }

    /// Registers the observer for the ranges of all threads, running ones included, while the guard
    /// lives.
    pub fn everywhere(self) -> GlobalObserver {
        let id = next_id();
        let mut all = everywhere();
        all.push((id, Arc::new(self)));
        announce(&all);
        GlobalObserver { id }
    }

    fn wants(&self, scope: RecordScope) -> bool {
        self.scopes & scope.bit() != 0 && (self.rate == ALWAYS || chance() < self.rate)
    }
}

type Registered = Vec<(u64, Arc<Observer>)>;

static EVERYWHERE: Mutex<Registered> = Mutex::new(Vec::new());
static ANY_EVERYWHERE: AtomicBool = AtomicBool::new(false);
/// Changes with `EVERYWHERE`; 0 is no generation.
static GENERATION: AtomicU64 = AtomicU64::new(1);

struct Local {
    own: RefCell<Registered>,
    /// Global observers, then the thread's own, as of `generation`.
    merged: RefCell<Rc<[Arc<Observer>]>>,
    generation: Cell<u64>,
    disabled: Cell<bool>,
    /// How many recorded ranges are open.
    depth: Cell<usize>,
}

thread_local! {
    static LOCAL: Local = Local {
        own: RefCell::default(),
        merged: RefCell::new(Rc::new([])),
        generation: Cell::new(0),
        disabled: Cell::new(false),
        depth: Cell::new(0),
    };
}

fn everywhere() -> MutexGuard<'static, Registered> {
    EVERYWHERE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn announce(all: &Registered) {
    GENERATION.fetch_add(1, Ordering::Release);
    ANY_EVERYWHERE.store(!all.is_empty(), Ordering::Release);
}

/// Whether some observer is registered for all threads.
#[inline]
pub(super) fn observed_everywhere() -> bool {
    // a thread that sees this late misses only the first calls
    ANY_EVERYWHERE.load(Ordering::Relaxed)
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A small number for each thread, in the order in which they first asked.
pub fn thread_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local!(static ID: u64 = NEXT.fetch_add(1, Ordering::Relaxed));
    ID.with(|id| *id)
}

/// A random number below 2^32.
fn chance() -> u64 {
    thread_local!(static STATE: Cell<u64> = const { Cell::new(0) });
    // splitmix64
    let seed = STATE.get();
    let seed = if seed == 0 { thread_id() << 32 } else { seed };
    let next = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    STATE.set(next);
    let z = (next ^ (next >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) >> 32
}

fn merged(l: &Local) -> Rc<[Arc<Observer>]> {
    let now = GENERATION.load(Ordering::Acquire);
    if l.generation.get() != now {
        let mut list: Vec<_> = everywhere().iter().map(|(_, o)| o.clone()).collect();
        list.extend(l.own.borrow().iter().map(|(_, o)| o.clone()));
        l.merged.replace(list.into());
        l.generation.set(now);
    }
    l.merged.borrow().clone()
}

/// Ends an observer's registration for this thread when dropped.
#[must_use = "the observer is removed where the guard is dropped"]
#[derive(Debug)]
pub struct ThreadObserver {
    id: u64,
    on_this_thread: PhantomData<*const ()>,
}

impl Drop for ThreadObserver {
    fn drop(&mut self) {
        let left = LOCAL.try_with(|l| {
            l.own.borrow_mut().retain(|(id, _)| *id != self.id);
            l.generation.set(0);
            !l.own.borrow().is_empty()
        });
        tls::set_reason(tls::OBSERVED, left.unwrap_or(false));
    }
}

/// Ends an observer's registration for all threads when dropped. Calls that it has seen start on
/// other threads still report their end.
#[must_use = "the observer is removed where the guard is dropped"]
#[derive(Debug)]
pub struct GlobalObserver {
    id: u64,
}

impl Drop for GlobalObserver {
    fn drop(&mut self) {
        let mut all = everywhere();
        all.retain(|(id, _)| *id != self.id);
        announce(&all);
    }
}

/// Nothing is observed on this thread while it lives.
#[must_use = "the guard ends where it is dropped"]
#[derive(Debug)]
pub struct DisableRecordGuard {
    before: bool,
    on_this_thread: PhantomData<*const ()>,
}

impl DisableRecordGuard {
    /// Switches observation off.
    #[allow(clippy::new_without_default, reason = "a guard is entered, not a value")]
    pub fn new() -> DisableRecordGuard {
        DisableRecordGuard {
            before: LOCAL.try_with(|l| l.disabled.replace(true)).unwrap_or(true),
            on_this_thread: PhantomData,
        }
    }
}

impl Drop for DisableRecordGuard {
    fn drop(&mut self) {
        // fails on a thread that is ending, where nothing is observed any more
        let _ = LOCAL.try_with(|l| l.disabled.set(self.before));
    }
}

/// An observer, and what its start function returned for its end function.
type Told = (Arc<Observer>, Box<dyn Any>);

/// A range that observers have seen start; they see its end when it is dropped.
pub(super) struct Observation {
    function: RecordFunction,
    told: SmallVec<[Told; 2]>,
    outputs: bool,
}

impl Observation {
    fn start(
        what: impl FnOnce() -> What,
        scope: RecordScope,
        keys: DispatchKeySet,
        sequence: i64,
        inputs: impl FnOnce() -> Vec<Value>,
    ) -> Option<Observation> {
        // fails on a thread that is ending
        if LOCAL.try_with(|l| l.disabled.get()).unwrap_or(true) {
            return None;
        }
        let observers = LOCAL.with(merged);
        let told: SmallVec<[&Arc<Observer>; 2]> =
            observers.iter().filter(|o| o.wants(scope)).collect();
        if told.is_empty() {
            return None;
        }
        let wanted = told.iter().any(|o| o.inputs);
        let function = RecordFunction {
            what: what(),
            scope,
            keys,
            id: next_id(),
            thread: thread_id(),
            depth: LOCAL.with(|l| l.depth.replace(l.depth.get() + 1)),
            sequence,
            inputs: if wanted { inputs() } else { Vec::new() },
            outputs: Vec::new(),
        };
        let outputs = told.iter().any(|o| o.outputs);
        let _off = DisableRecordGuard::new();
        let told = told.into_iter().map(|o| (o.clone(), (o.start)(&function))).collect();
        Some(Observation { function, told, outputs })
    }

    /// Tells the observers of a call, if there are any.
    #[cold]
    pub(super) fn of_call(
        op: OperatorHandle,
        keys: DispatchKeySet,
        inputs: impl FnOnce() -> Vec<Value>,
    ) -> Option<Observation> {
        // Autograd counts sequence numbers once it records; until then nothing has one.
        let what = || What::Operator(op);
        Observation::start(what, RecordScope::Function, keys, -1, inputs)
    }

    /// Whether an observer wants the returns.
    pub(super) fn wants_outputs(&self) -> bool {
        self.outputs
    }

    /// What the operator returned.
    pub(super) fn set_outputs(&mut self, outputs: Vec<Value>) {
        self.function.outputs = outputs;
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        // fails on a thread that is ending, where nothing is observed any more
        let _ = LOCAL.try_with(|l| l.depth.set(self.function.depth));
        let _off = DisableRecordGuard::new();
        for (observer, context) in self.told.drain(..) {
            (observer.end)(&self.function, context);
        }
    }
}

/// A range in time that observers see under a name of its own; ends when dropped.
#[must_use = "the range ends where the guard is dropped"]
pub struct RecordGuard {
    observation: Option<Observation>,
    on_this_thread: PhantomData<*const ()>,
}

impl fmt::Debug for RecordGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let function = self.observation.as_ref().map(|o| &o.function);
        f.debug_tuple("RecordGuard").field(&function).finish()
    }
}

/// Begins a range of the scope [`RecordScope::UserScope`].
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use straightline::dispatch::{Observer, record_function};
///
/// let seen = Arc::new(Mutex::new(Vec::new()));
/// let log = seen.clone();
/// let _on = Observer::new(
///     move |range| log.lock().unwrap().push(range.name().to_string()),
///     |_, ()| {},
/// )
/// .on_this_thread();
/// {
///     let _range = record_function("first layer");
/// }
/// assert_eq!(*seen.lock().unwrap(), ["first layer"]);
/// ```
pub fn record_function(name: &str) -> RecordGuard {
    record_scope(RecordScope::UserScope, name, -1)
}

/// Begins a range of any scope, with a sequence number (-1 for none): for engines that run nodes
/// of their own, as the backward pass does.
#[inline]
pub fn record_scope(scope: RecordScope, name: &str, sequence: i64) -> RecordGuard {
    range(scope, || name.into(), sequence)
}

/// [`record_function`] for a name that takes work to make.
#[inline]
pub(crate) fn record_lazily(name: impl FnOnce() -> String) -> RecordGuard {
    range(RecordScope::UserScope, || name().into(), -1)
}

#[inline]
fn range(scope: RecordScope, name: impl FnOnce() -> Box<str>, sequence: i64) -> RecordGuard {
    let observation = if tls::is_slow() | observed_everywhere() {
        let what = || What::Named(name());
        Observation::start(what, scope, DispatchKeySet::EMPTY, sequence, Vec::new)
    } else {
        None
    };
    RecordGuard { observation, on_this_thread: PhantomData }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
