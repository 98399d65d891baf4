//! What a captured function learns or leaves behind besides calling operators.
//!
//! A replay runs no line of the function. So everything the function does besides operator calls is
//! one of three things: *guarded*, where a later call can be compared with the first ([`Asked`]);
//! *carried* into the plan, as operators are; or *refused* by name, with the user's line. A refusal
//! is noted even where the function swallows the error or could not be given one, and ends the
//! capture.

mod flags;
mod gradients;
mod kept;

pub(crate) use flags::{Debt, FlagTexts, asks_flag, sets_flag};
pub(crate) use gradients::{
    Gradient, bind_gradients, check_history, check_in_subgraph, grad_of, hooks_of, leave_eager,
    left_eager, meets_leaf, put_grad, stands_for_computed, take_gradients, touches_grad,
};
pub(crate) use kept::{Kept, Remains};

use super::functionalize::{self, Owner};
use super::tracer;
use crate::dispatch::watcher as calls;
use crate::dispatch::{DispatchKey, OperatorHandle, TlsKeySets, generation};
use crate::error::{Error, ErrorKind, Result};
use crate::modes::{autocast, fake, subclass};
use crate::tensor::Tensor;
use crate::tensor::watcher::{self, Line, Question, StandsFor, Watcher};
use kept::{StandIn, escaped};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Something that the function asked about tensors or the thread, which a later call may answer
/// otherwise.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    /// At which element of its storage this argument begins, or what remains of that by a number.
    Offset(usize, Option<i64>),
    /// Whether the storage of this argument ends before as many bytes from where the argument
    /// begins.
    Ends(usize, i64),
    /// Whether two tensors lie in one storage.
    Shared {
        /// The one.
        a: Owner,
        /// The other.
        b: Owner,
        /// The answer.
        yes: bool,
    },
    /// Whether two handles are one tensor.
    Same {
        /// The one.
        a: Owner,
        /// The other.
        b: Owner,
        /// The answer.
        yes: bool,
    },
    /// How the memory of two tensors overlaps.
    Lie {
        /// The one.
        a: Owner,
        /// The other.
        b: Owner,
    },
    /// How many threads kernels use.
    Threads(usize),
    /// What a flag says, such as the mode of a module, and what to say when it says otherwise.
    Flag(Arc<AtomicBool>, bool, FlagTexts),
    /// What is registered, as of this generation: for an operator that there is not.
    Registrations(u64),
    /// The keys at which an operator has kernels.
    Kernels(OperatorHandle, Vec<DispatchKey>),
    /// Whether a call finds a kernel at a key.
    Served(OperatorHandle, DispatchKey, bool),
    /// The low precisions of autocast, whether it is on or off.
    Autocast(autocast::LowPrecisions),
}

/// The reason why the capture has to end.
#[derive(Clone)]
enum Refusal {
    /// Data was read.
    Data { what: String, at: Option<Line> },
    /// Something else, with the reason and what to do.
    Other { what: String, why: String, at: Option<Line> },
    /// An operator failed as only capture makes it fail.
    Failed { op: String, error: String, at: Option<Line> },
}

impl Refusal {
    fn error(&self) -> Error {
        let (kind, at) = match self {
            Refusal::Data { what, at } => (ErrorKind::DataDependent { what: what.clone() }, at),
            Refusal::Other { what, why, at } => {
                (ErrorKind::NotCaptured { what: what.clone(), why: why.clone() }, at)
            }
            Refusal::Failed { op, error, at } => (
                ErrorKind::NotCaptured {
                    what: format!("going on after a failure of `{op}`"),
                    why: format!(
                        "the call fails while a function is captured and need not otherwise: {error}"
                    ),
                },
                at,
            ),
        };
        let error = Error::new(kind);
        match at {
            Some(at) => error.with_location(at),
            None => error,
        }
    }
}

/// The captures that run, and what other threads have done to them: they use a stand-in.
static ELSEWHERE: Mutex<BTreeMap<u64, Option<Refusal>>> = Mutex::new(BTreeMap::new());

fn elsewhere<R>(f: impl FnOnce(&mut BTreeMap<u64, Option<Refusal>>) -> R) -> R {
    f(&mut ELSEWHERE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The error for a stand-in of another capture than this thread's. A capture that still runs ends
/// as well: the function may have handed the stand-in to a thread whose error it does not pass on.
#[cold]
pub(crate) fn used_elsewhere(t: &Tensor, capture: Option<u64>) -> Error {
    let refusal = Refusal::Other {
        what: format!("the use of a {}{:?} on another thread", t.dtype(), t.sizes()),
        why: "it belongs to a function that is being captured, where it stands for a value and has none: \
              compute on the thread that runs the function"
            .into(),
        at: None,
    };
    let error = refusal.error();
    let runs = elsewhere(|all| match capture.and_then(|id| all.get_mut(&id)) {
        Some(noted) => {
            noted.get_or_insert(refusal);
            true
        }
        None => false,
    });
    match runs {
        true => error,
        false => escaped(t, None, None, Some(&Error::compile("it could not be computed"))),
    }
}

struct Watch {
    /// The function is running, rather than the capture around it.
    running: bool,
    refused: Option<Refusal>,
    /// The operator at work has come upon a [`limit`] of capture.
    limited: bool,
    asked: Vec<Asked>,
    stand_ins: Vec<StandIn>,
    /// Tensors that the function made from data.
    constants: Vec<Tensor>,
    /// The operators that calls went through, as of their first call.
    used: HashMap<OperatorHandle, u64>,
    /// Tensors from outside whose `.grad` the function has read or set.
    touched: Vec<gradients::Touched>,
    /// How many arguments there are, if each `.grad` that is read becomes one more.
    bind_after: Option<usize>,
    /// Flags that the function has set itself.
    flags: Vec<Arc<AtomicBool>>,
    /// What it has begun and has to finish.
    owed: Vec<flags::Owed>,
    /// Why the function has to run eagerly, if it does with gradients what no replay repeats.
    eager: Option<String>,
    /// The thread's settings when the capture began.
    autocast: autocast::LowPrecisions,
    /// Which capture it is.
    id: Option<u64>,
}

thread_local! {
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

fn with<R>(f: impl FnOnce(&mut Watch) -> R) -> Option<R> {
    WATCH.with_borrow_mut(|w| w.as_mut().map(f))
}

/// Begins to watch this thread's capture.
pub(crate) fn begin() {
    let id = tracer::current();
    elsewhere(|all| all.extend(id.map(|id| (id, None))));
    let watch = Watch {
        running: false,
        refused: None,
        limited: false,
        asked: Vec::new(),
        stand_ins: Vec::new(),
        constants: Vec::new(),
        used: HashMap::new(),
        touched: Vec::new(),
        bind_after: None,
        flags: Vec::new(),
        owed: Vec::new(),
        eager: None,
        autocast: autocast::low_precisions(),
        id,
    };
    WATCH.set(Some(watch));
}

/// Ends it.
pub(crate) fn end() {
    // dropped after the borrow: tensors go with it
    let gone = WATCH.take();
    if let Some(w) = &gone {
        w.touched.iter().for_each(gradients::Touched::put_back);
    }
    if let Some(id) = gone.as_ref().and_then(|w| w.id) {
        elsewhere(|all| all.remove(&id));
    }
    drop(gone);
}

/// Runs `f` as if no function were captured.
pub(crate) fn apart<R>(f: impl FnOnce() -> R) -> R {
    struct Back(Option<Watch>);
    impl Drop for Back {
        fn drop(&mut self) {
            WATCH.set(self.0.take());
        }
    }
    let _back = Back(WATCH.take());
    f()
}

/// Runs the captured function, and refuses lasting changes of the thread's settings.
pub(crate) fn run<O>(f: impl FnOnce() -> Result<O>) -> Result<O> {
    struct Running;
    impl Drop for Running {
        fn drop(&mut self) {
            with(|w| w.running = false);
        }
    }
    let settings = || (TlsKeySets::current(), autocast::low_precisions());
    let before = settings();
    with(|w| w.running = true);
    let done = {
        let _running = Running;
        f()
    };
    flags::collect();
    if settings() != before {
        let what = "leaving the thread's dispatch keys or autocast settings changed";
        refuse(
            what,
            "each call would change them: drop the guard before the function returns",
            None,
        );
    }
    let by_others =
        with(|w| w.id).flatten().and_then(|id| elsewhere(|all| all.get_mut(&id)?.take()));
    match (done, with(|w| w.refused.take()).flatten().or(by_others)) {
        (done, None) => done,
        (Ok(_), Some(refusal)) => Err(refusal.error()),
        (Err(e), Some(refusal)) => Err(match (&refusal, e.kind()) {
            (
                _,
                ErrorKind::DataDependent { .. }
                | ErrorKind::NotCaptured { .. }
                | ErrorKind::Opaque { .. },
            ) => e,
            (Refusal::Failed { .. }, ErrorKind::NotImplemented(_)) => e,
            (Refusal::Failed { .. }, kind) if of_capture(kind) => e,
            _ => refusal.error(),
        }),
    }
}

/// Whether the captured function itself is at work: it runs, and no operator that it called.
fn at_work() -> bool {
    with(|w| w.running).unwrap_or(false) && !tracer::in_operator()
}

/// The line to name: of the operator that the user called, or else `at`.
fn line(at: Option<Line>) -> Option<Line> {
    match tracer::in_operator() {
        true => tracer::operator_line(),
        false => at,
    }
}

fn note(refusal: Refusal) -> Error {
    let error = refusal.error();
    with(|w| {
        w.refused.get_or_insert(refusal);
    });
    error
}

/// Notes that the function did something that a replay would not repeat. `why` says what to do.
pub(crate) fn refuse(what: &str, why: &str, at: Option<Line>) -> Error {
    note(Refusal::Other { what: what.to_string(), why: why.to_string(), at: line(at) })
}

/// [`refuse`] if this thread captures a function.
#[track_caller]
pub(crate) fn check(what: &str, why: &str) -> Result<()> {
    match tracer::current() {
        None => Ok(()),
        Some(_) => Err(refuse(what, why, Some(Location::caller()))),
    }
}

/// The only way to data: every reader of a tensor's elements asks here first.
///
/// While a function is captured, its arguments have no data, and that of a tensor which it closes
/// over would become a constant. What the function itself made from data is a constant, unless
/// operators have written it since.
///
/// # Errors
/// [`ErrorKind::DataDependent`]
#[inline]
pub(crate) fn check_read(t: &Tensor, what: &str, at: Option<Line>) -> Result<()> {
    match tracer::current() {
        None => Ok(()),
        Some(capture) => check_read_captured(t, capture, what, at),
    }
}

/// Whether the captured function has made a tensor from data, and written nothing there.
fn is_constant(t: &Tensor, capture: u64) -> bool {
    t.made_during_capture() == Some(capture) && !functionalize::is_written_constant(t)
}

#[cold]
fn check_read_captured(t: &Tensor, capture: u64, what: &str, at: Option<Line>) -> Result<()> {
    let constant = is_constant(t, capture);
    let elsewhere = !functionalize::is_wrapper(t) && !t.storage().has_data();
    if constant || elsewhere {
        return Ok(());
    }
    Err(note(Refusal::Data { what: what.to_string(), at: line(at) }))
}

/// Whether capture makes this error and eager execution may not. A kernel that is not implemented
/// is missing eagerly too, so among those only the [`limit`]s of capture count.
fn of_capture(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::DataDependent { .. }
            | ErrorKind::NotCaptured { .. }
            | ErrorKind::Opaque { .. }
            | ErrorKind::Compile(_)
            | ErrorKind::Dispatch(_)
    )
}

/// The error for a call that succeeds eagerly and cannot be captured.
#[cold]
pub(crate) fn limit(message: impl Into<String>) -> Error {
    with(|w| w.limited = true);
    Error::not_implemented(message).only_captured()
}

/// An operator that the function called has failed.
pub(crate) fn failed(op: OperatorHandle, e: &Error) {
    let limited = with(|w| std::mem::take(&mut w.limited)).unwrap_or(false);
    let by_limit = limited && matches!(e.kind(), ErrorKind::NotImplemented(_));
    if by_limit || of_capture(e.kind()) {
        let error = e.kind().to_string();
        let (op, at) = (op.name().to_string(), tracer::operator_line());
        note(Refusal::Failed { op, error, at });
    }
}

/// Notes that an operator is used, and its registrations as of now.
pub(crate) fn used(op: OperatorHandle) {
    with(|w| {
        w.used.entry(op).or_insert_with(|| op.epoch());
    });
}

/// The operators that calls went through, with their epochs as of the first.
pub(crate) fn operators() -> Vec<(OperatorHandle, u64)> {
    with(|w| w.used.iter().map(|(op, epoch)| (*op, *epoch)).collect()).unwrap_or_default()
}

/// What the function asked.
pub(crate) fn asked() -> Vec<Asked> {
    with(|w| w.asked.clone()).unwrap_or_default()
}

fn ask(fact: Asked) {
    with(|w| w.asked.push(fact));
}

/// Notes that where the arguments behind a stand-in begin matters.
pub(crate) fn matters_where(t: &Tensor) {
    note_offsets(t, None);
}

/// Notes that it matters what remains of where the arguments behind a stand-in begin, divided by a
/// number of elements.
pub(crate) fn matters_where_by(t: &Tensor, divisor: i64) {
    note_offsets(t, Some(divisor));
}

/// Notes that the memory of the arguments behind a stand-in ends before this byte of it: they get
/// other memory when they grow, or cannot be viewed so far.
pub(crate) fn ends_before(t: &Tensor, end: i64) {
    for (argument, begins) in functionalize::arguments_behind(t) {
        ask(Asked::Ends(argument, end - begins));
    }
}

/// Records that the overlap of two tensors matters, because a call was refused for it.
#[cold]
pub(crate) fn matters_how_they_lie(a: &Tensor, b: &Tensor) {
    if with(|_| ()).is_none() {
        return;
    }
    if let (Some((_, a)), Some((_, b))) = (functionalize::source(a), functionalize::source(b)) {
        ask(Asked::Lie { a, b });
    }
}

fn note_offsets(t: &Tensor, divisor: Option<i64>) {
    for (argument, _) in functionalize::arguments_behind(t) {
        let known = |a: &Asked| matches!(a, Asked::Offset(i, by) if *i == argument && (*by == divisor || by.is_none()));
        with(|w| {
            if !w.asked.iter().any(known) {
                w.asked.push(Asked::Offset(argument, divisor));
            }
        });
    }
}

/// The function asks for the offset of a tensor.
#[cold]
pub(crate) fn asks_offset(t: &Tensor) {
    if at_work() {
        matters_where(t);
    }
}

/// The function asks whether two tensors share their storage; `None` if it is not captured.
#[cold]
pub(crate) fn asks_shared(a: &Tensor, b: &Tensor) -> Option<bool> {
    if !at_work() {
        return None;
    }
    let ((of_a, a), (of_b, b)) = (functionalize::source(a)?, functionalize::source(b)?);
    let yes = of_a == of_b;
    ask(Asked::Shared { a, b, yes });
    Some(yes)
}

/// The function asks whether two handles are one tensor; `None` if it is not captured.
#[cold]
pub(crate) fn asks_same(a: &Tensor, b: &Tensor) -> Option<bool> {
    if !at_work() {
        return None;
    }
    let ((of_a, a), (of_b, b)) = (functionalize::original(a)?, functionalize::original(b)?);
    let yes = of_a.same_handle(&of_b);
    ask(Asked::Same { a, b, yes });
    Some(yes)
}

/// The function asks something of operators.
fn asks_of_operators(question: calls::Question) {
    if !at_work() {
        return;
    }
    match question {
        calls::Question::Operator(Some(op)) => used(op),
        calls::Question::Operator(None) => {
            ask(Asked::Registrations(generation(Ordering::Acquire)));
        }
        calls::Question::Kernels(op) => ask(Asked::Kernels(op, op.kernel_keys())),
        calls::Question::Served(op, key) => ask(Asked::Served(op, key, op.serves(key))),
        calls::Question::Calls(at) => {
            let why = "a replay makes no calls, and a capture others than eager code: ask outside";
            refuse("call_count()", why, Some(at));
        }
    }
}

/// Reports and questions from the layers below.
struct Outside;

impl Watcher for Outside {
    fn capture(&self) -> Option<u64> {
        tracer::current()
    }

    fn refuse(&self, what: &str, why: &str, at: Line) -> Error {
        refuse(what, why, Some(at))
    }

    fn check_read(&self, t: &Tensor, what: &str, at: Option<Line>) -> Result<()> {
        check_read(t, what, at)
    }

    fn asked(&self, question: Question<'_>) -> Option<bool> {
        match question {
            Question::Offset(t) => {
                asks_offset(t);
                None
            }
            Question::Shared(a, b) => asks_shared(a, b),
            Question::Same(a, b) => asks_same(a, b),
        }
    }

    fn made_from_data(&self, t: &Tensor) {
        made_from_data(t);
    }

    fn is_constant(&self, t: &Tensor) -> bool {
        tracer::current().is_some_and(|capture| is_constant(t, capture))
    }

    fn faked(&self, t: Tensor) -> Tensor {
        match fake::is_pushed() {
            true => fake::made_from_data(t),
            false => t,
        }
    }

    fn lacks_data(&self) -> bool {
        tracer::current().is_some() || fake::is_running()
    }

    fn is_stand_in(&self, t: &Tensor) -> bool {
        functionalize::is_wrapper(t)
    }

    fn share_memory(&self, a: &Tensor, b: &Tensor) -> bool {
        functionalize::share_memory(a, b)
    }

    fn stands_for(&self, t: &Tensor) -> StandsFor {
        if functionalize::is_wrapper(t) {
            let elsewhere = match tracer::current() {
                None => functionalize::used_elsewhere(t),
                Some(_) => None,
            };
            return elsewhere.map_or(StandsFor::Value, StandsFor::Elsewhere);
        }
        subclass::name_of(t).map_or(StandsFor::Nothing, StandsFor::Inside)
    }

    fn bits(&self, t: &Tensor) -> (bool, bool) {
        let bits = functionalize::bits(t);
        (bits.neg, bits.conj)
    }
}

/// Watches from now on.
pub(super) fn watch() {
    watcher::set(&Outside);
    calls::set(asks_of_operators);
    calls::set_in_place_of(|op, args, run| tracer::in_place_of(op, args, run));
}

/// The function asks how many threads there are.
pub(crate) fn asks_threads(n: usize) {
    if at_work() {
        ask(Asked::Threads(n));
    }
}

/// The function asks for low precisions, or enters autocast with those around it.
pub(crate) fn asks_autocast() {
    if at_work()
        && let Some(before) = with(|w| w.autocast)
    {
        ask(Asked::Autocast(before));
    }
}

/// Another handle of a stand-in's value has been made, or of any other tensor's.
pub(crate) fn known(t: &Tensor) {
    if tracer::current().is_some() && functionalize::is_wrapper(t) {
        made(t);
    }
}

/// A stand-in has been made.
pub(crate) fn made(t: &Tensor) {
    let stand_in = StandIn::new(t, tracer::operator_name(), tracer::operator_line());
    with(|w| w.stand_ins.push(stand_in));
}

/// Forgets the stand-ins to which no handle is left.
pub(crate) fn forget_dropped() {
    loop {
        let forgotten = with(|w| {
            let all = std::mem::take(&mut w.stand_ins);
            let (kept, dropped) = all.into_iter().partition(StandIn::is_alive);
            w.stand_ins = kept;
            let dropped: Vec<StandIn> = dropped;
            dropped
        });
        // after the borrow: what they are made of goes with them, and what they are views of
        if forgotten.is_none_or(|dropped| dropped.is_empty()) {
            return;
        }
    }
}

/// The function has made a tensor from data.
pub(crate) fn made_from_data(t: &Tensor) {
    with(|w| w.constants.push(t.clone()));
}

/// Takes what the function made, before the capture ends.
pub(crate) fn remains() -> Remains {
    let (stand_ins, constants) =
        with(|w| (std::mem::take(&mut w.stand_ins), std::mem::take(&mut w.constants)))
            .unwrap_or_default();
    let leaves = functionalize::leaves();
    Remains {
        stand_ins,
        constants: (constants.into_iter())
            .map(|t| {
                let written = functionalize::written_stand_in(&t, &leaves);
                (t, written)
            })
            .collect(),
    }
}
