//! What a captured function learns or leaves behind besides calling operators.
//!
//! A replay runs no line of the function. So whatever the function does that is no operator call is one of three things:
//! *guarded*, where a later call can be compared with the first ([`Asked`]); *carried* into the plan, as
//! operators are; or *refused* by name, with the user's line. A refusal is noted even where the
//! function swallows the error or could not be given one, and ends the capture.

use super::functionalize::{self, Owner};
use super::tracer;
use crate::dispatch::{OperatorHandle, TlsKeySets};
use crate::error::{Error, ErrorKind, Result};
use crate::modes::autocast;
use crate::tensor::Tensor;
use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::Location;
use std::sync::{Arc, Weak};

/// A source line.
pub(crate) type Line = &'static Location<'static>;

/// Something that the function asked about tensors or the thread, which a later call may answer
/// otherwise.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    /// Where this argument begins in its storage.
    Offset(usize),
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
    /// How many threads kernels use.
    Threads(usize),
    /// The low precisions of autocast, whether it is on or off.
    Autocast(autocast::LowPrecisions),
}

/// Why the capture has to end.
#[derive(Clone)]
enum Refusal {
    /// Data was read.
    Data { what: String, at: Option<Line> },
    /// Something else, with the reason and what to do.
    Other {
        what: String,
        why: String,
        at: Option<Line>,
    },
    /// An operator failed as only capture makes it fail.
    Failed {
        op: String,
        error: String,
        at: Option<Line>,
    },
}

impl Refusal {
    fn error(&self) -> Error {
        let (kind, at) = match self {
            Refusal::Data { what, at } => (ErrorKind::DataDependent { what: what.clone() }, at),
            Refusal::Other { what, why, at } => (
                ErrorKind::NotCaptured {
                    what: what.clone(),
                    why: why.clone(),
                },
                at,
            ),
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

/// A stand-in that was made, and by what.
struct StandIn {
    extra: Weak<dyn Any + Send + Sync>,
    tensor: String,
    op: Option<Arc<str>>,
    at: Option<Line>,
}

struct Watch {
    /// The function runs, and not the capture around it.
    running: bool,
    refused: Option<Refusal>,
    asked: Vec<Asked>,
    stand_ins: Vec<StandIn>,
    /// Tensors that the function made from data.
    constants: Vec<Tensor>,
    /// The operators that calls went through, as of their first call.
    used: HashMap<OperatorHandle, u64>,
    /// The thread's settings when the capture began.
    autocast: autocast::LowPrecisions,
}

thread_local! {
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

fn with<R>(f: impl FnOnce(&mut Watch) -> R) -> Option<R> {
    WATCH.with_borrow_mut(|w| w.as_mut().map(f))
}

/// Begins to watch this thread's capture.
pub(crate) fn begin() {
    let watch = Watch {
        running: false,
        refused: None,
        asked: Vec::new(),
        stand_ins: Vec::new(),
        constants: Vec::new(),
        used: HashMap::new(),
        autocast: autocast::low_precisions(),
    };
    WATCH.set(Some(watch));
}

/// Ends it.
pub(crate) fn end() {
    // dropped after the borrow: tensors go with it
    let gone = WATCH.take();
    drop(gone);
}

/// Runs the captured function; what it changes of the thread's settings and leaves so is refused.
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
    if settings() != before {
        let what = "leaving the thread's dispatch keys or autocast settings changed";
        refuse(
            what,
            "each call would change them: drop the guard before the function returns",
            None,
        );
    }
    match (done, with(|w| w.refused.take()).flatten()) {
        (done, None) => done,
        (Ok(_), Some(refusal)) => Err(refusal.error()),
        (Err(e), Some(refusal)) => Err(match (&refusal, e.kind()) {
            (
                _,
                ErrorKind::DataDependent { .. }
                | ErrorKind::NotCaptured { .. }
                | ErrorKind::Opaque { .. },
            ) => e,
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
    note(Refusal::Other {
        what: what.to_string(),
        why: why.to_string(),
        at: line(at),
    })
}

/// [`refuse`] if this thread captures a function.
#[track_caller]
pub(crate) fn check(what: &str, why: &str) -> Result<()> {
    match tracer::current() {
        None => Ok(()),
        Some(_) => Err(refuse(what, why, Some(Location::caller()))),
    }
}

/// Whether this thread captures a function.
pub(crate) fn is_capturing() -> bool {
    tracer::current().is_some()
}

/// The one door to data: whatever reads the elements of a tensor asks here first.
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

#[cold]
fn check_read_captured(t: &Tensor, capture: u64, what: &str, at: Option<Line>) -> Result<()> {
    let constant =
        t.made_during_capture() == Some(capture) && !functionalize::is_written_constant(t);
    let elsewhere = !functionalize::is_wrapper(t) && !t.storage().has_data();
    if constant || elsewhere {
        return Ok(());
    }
    Err(note(Refusal::Data {
        what: what.to_string(),
        at: line(at),
    }))
}

/// Errors that capture makes, and eager execution perhaps not.
fn of_capture(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::DataDependent { .. }
            | ErrorKind::NotCaptured { .. }
            | ErrorKind::Opaque { .. }
            | ErrorKind::Compile(_)
            | ErrorKind::NotImplemented(_)
            | ErrorKind::Dispatch(_)
    )
}

/// An operator that the function called has failed.
pub(crate) fn failed(op: OperatorHandle, e: &Error) {
    if of_capture(e.kind()) {
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
    for argument in functionalize::arguments_behind(t) {
        let known = |a: &Asked| matches!(a, Asked::Offset(i) if *i == argument);
        with(|w| {
            if !w.asked.iter().any(known) {
                w.asked.push(Asked::Offset(argument));
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

/// The function asks whether two tensors share their storage; `None` where it is not captured.
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

/// The function asks whether two handles are one tensor; `None` where it is not captured.
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

/// A stand-in has been made.
pub(crate) fn made(t: &Tensor) {
    let Some(extra) = t.extra() else { return };
    let stand_in = StandIn {
        extra: Arc::downgrade(extra),
        tensor: format!("{}{:?}", t.dtype(), t.sizes()),
        op: tracer::operator_name(),
        at: tracer::operator_line(),
    };
    with(|w| w.stand_ins.push(stand_in));
}

/// The function has made a tensor from data.
pub(crate) fn made_from_data(t: &Tensor) {
    with(|w| w.constants.push(t.clone()));
}

/// What is left to look at when the capture has given up its own handles.
#[derive(Default)]
pub(crate) struct Remains {
    stand_ins: Vec<StandIn>,
    constants: Vec<(Tensor, bool)>,
}

/// Takes what the function made, before the capture ends.
pub(crate) fn remains() -> Remains {
    let (stand_ins, constants) = with(|w| {
        (
            std::mem::take(&mut w.stand_ins),
            std::mem::take(&mut w.constants),
        )
    })
    .unwrap_or_default();
    let written = |t: &Tensor| functionalize::is_written_constant(t);
    Remains {
        stand_ins,
        constants: (constants.into_iter())
            .map(|t| {
                let written = written(&t);
                (t, written)
            })
            .collect(),
    }
}

impl Remains {
    /// Adds what an attempt that was given up has made: the next one may have put something else in its place.
    pub(crate) fn after(mut self, given_up: Remains) -> Remains {
        self.stand_ins.extend(given_up.stand_ins);
        self.constants.extend(given_up.constants);
        self
    }

    /// Fails if something else than the function's result has kept a stand-in, or a tensor made from
    /// data that operators have written. Gives the other tensors made from data that are kept.
    ///
    /// `result` are the tensors that the capture still holds of what the function returned.
    pub(crate) fn check(self, result: &[&Tensor]) -> Result<Vec<Tensor>> {
        let in_result = |extra: &Arc<dyn Any + Send + Sync>| {
            let mut extras = result.iter().filter_map(|t| t.extra());
            extras.any(|e| Arc::ptr_eq(e, extra))
        };
        for s in self.stand_ins {
            if s.extra.upgrade().is_some_and(|extra| !in_result(&extra)) {
                return Err(escaped(s.tensor, s.op, s.at));
            }
        }
        let mut kept = Vec::new();
        for (t, written) in self.constants {
            let returned = result.iter().filter(|r| r.same_handle(&t)).count();
            // the one in hand
            if t.outside_handles() <= 1 + returned {
                continue;
            }
            if written {
                let tensor = format!("{}{:?}", t.dtype(), t.sizes());
                return Err(escaped(tensor, Some("Tensor::from_slice".into()), None));
            }
            kept.push(t);
        }
        Ok(kept)
    }
}

fn escaped(tensor: String, op: Option<Arc<str>>, at: Option<Line>) -> Error {
    let error = Error::new(ErrorKind::Escaped {
        tensor,
        made_by: op.map(|op| op.to_string()),
    });
    match at {
        Some(at) => error.with_location(at),
        None => error,
    }
}
