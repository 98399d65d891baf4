//! The dispatch trace: one line for each entry into the dispatcher, indented by depth.
//!
//! ```text
//!  [call] op=[aten::add.Tensor], key=[AutogradCPU]
//!   [redispatch] op=[aten::add.Tensor], key=[CPU]
//! ```
//!
//! `STRAIGHTLINE_SHOW_DISPATCH_TRACE=1` prints it to standard error on every thread; in code,
//! [`capture`] collects the lines of a closure and [`TraceGuard`] sends them to a writer.

use super::tls;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::Write;
use std::marker::PhantomData;
use std::sync::OnceLock;
use straightline_catalog::key::DispatchKey;
use straightline_catalog::keyset::DispatchKeySet;

/// The environment variable that switches the trace on: `1` on, `0` or unset off.
pub const TRACE_VARIABLE: &str = "STRAIGHTLINE_SHOW_DISPATCH_TRACE";

/// How the dispatcher was entered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Entry {
    Call,
    Redispatch,
    CallBoxed,
    RedispatchBoxed,
}

impl Entry {
    fn label(self) -> &'static str {
        match self {
            Entry::Call => "[call]",
            Entry::Redispatch => "[redispatch]",
            Entry::CallBoxed => "[callBoxed]",
            Entry::RedispatchBoxed => "[redispatchBoxed]",
        }
    }
}

enum Sink {
    Stderr,
    Lines(Vec<String>),
    Writer(Box<dyn Write>),
}

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    static SINK: RefCell<Sink> = const { RefCell::new(Sink::Stderr) };
}

pub(super) fn wanted_by_environment() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| match std::env::var(TRACE_VARIABLE).as_deref() {
        Ok("1") => true,
        Ok("0" | "") | Err(_) => false,
        Ok(other) => {
            tracing::warn!(
                "{TRACE_VARIABLE}={other} is neither 0 nor 1; the dispatch trace stays off"
            );
            false
        }
    })
}

/// Prints a line and keeps the depth while it lives.
pub(super) struct Scope(PhantomData<*const ()>);

impl Scope {
    pub(super) fn enter(entry: Entry, op: &dyn fmt::Display, keys: DispatchKeySet) -> Scope {
        let depth = DEPTH.get() + 1;
        DEPTH.set(depth);
        let key: DispatchKey = keys.highest_priority_key();
        let line = format!("{:depth$}{} op=[{op}], key=[{key}]", "", entry.label());
        SINK.with_borrow_mut(|sink| match sink {
            Sink::Stderr => eprintln!("{line}"),
            Sink::Lines(lines) => lines.push(line),
            // a trace that cannot be written must not fail the call it describes
            Sink::Writer(w) => drop(writeln!(w, "{line}")),
        });
        Scope(PhantomData)
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        // a guard that ended inside a call has reset the depth to that of its start
        DEPTH.set(DEPTH.get().saturating_sub(1));
    }
}

/// Traces the calls of this thread to a writer while it lives.
#[must_use = "tracing ends where the guard is dropped"]
pub struct TraceGuard {
    before: Option<(Sink, usize, bool)>,
    on_this_thread: PhantomData<*const ()>,
}

impl TraceGuard {
    fn install(sink: Sink) -> TraceGuard {
        let was_on = tls::reasons() & tls::TRACED != 0;
        let before = (SINK.replace(sink), DEPTH.replace(0), was_on);
        tls::set_reason(tls::TRACED, true);
        TraceGuard { before: Some(before), on_this_thread: PhantomData }
    }

    /// Traces to standard error.
    pub fn to_stderr() -> TraceGuard {
        TraceGuard::install(Sink::Stderr)
    }

    /// Traces to a writer.
    pub fn to_writer(writer: impl Write + 'static) -> TraceGuard {
        TraceGuard::install(Sink::Writer(Box::new(writer)))
    }

    fn restore(&mut self) -> Option<Sink> {
        let (sink, depth, was_on) = self.before.take()?;
        tls::set_reason(tls::TRACED, was_on);
        DEPTH.set(depth);
        Some(SINK.replace(sink))
    }
}

impl fmt::Debug for TraceGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceGuard").finish_non_exhaustive()
    }
}

impl Drop for TraceGuard {
    fn drop(&mut self) {
        self.restore();
    }
}

/// Runs a closure with the trace of this thread collected, and gives its lines.
pub fn capture<R>(f: impl FnOnce() -> R) -> (R, Vec<String>) {
    let mut guard = TraceGuard::install(Sink::Lines(Vec::new()));
    let out = f();
    let lines = match guard.restore() {
        Some(Sink::Lines(lines)) => lines,
        _ => Vec::new(),
    };
    (out, lines)
}
