//! The line of user code that a call came from.

use super::{LINES, LOCAL, set_reason};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

type Line = &'static Location<'static>;

/// Records the lines that call operators on this thread while it lives.
pub(crate) struct Lines {
    on_this_thread: PhantomData<*const ()>,
}

impl Lines {
    pub(crate) fn noted() -> Lines {
        set_reason(LINES, true);
        Lines { on_this_thread: PhantomData }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        set_reason(LINES, false);
        LOCAL.with(|l| l.line.set(None));
    }
}

/// The line of the outermost call that is under way and records, or of the operator call that began
/// last, while [`Lines`] are noted.
pub(crate) fn line() -> Option<Line> {
    LOCAL.with(|l| l.line.get())
}

/// A call on the slow path begins.
pub(in crate::dispatch) fn watched(at: Line) -> LineScope {
    let noted = LOCAL.with(|l| {
        let noted = l.reasons.get() & LINES != 0;
        if noted && !l.pinned.get() {
            l.line.set(Some(at));
        }
        noted
    });
    match noted {
        true => LineScope { set: false, on_this_thread: PhantomData },
        false => LineScope::enter(at),
    }
}

/// While it lives, the line of user code that the outermost call came from is known.
pub(crate) struct LineScope {
    set: bool,
    on_this_thread: PhantomData<*const ()>,
}

impl LineScope {
    #[inline]
    pub(in crate::dispatch) fn enter(at: Line) -> LineScope {
        LOCAL.with(|l| {
            let set = l.line.get().is_none();
            if set {
                l.line.set(Some(at));
            }
            LineScope { set, on_this_thread: PhantomData }
        })
    }
}

impl Drop for LineScope {
    #[inline]
    fn drop(&mut self) {
        if self.set {
            let _ = LOCAL.try_with(|l| l.line.set(None));
        }
    }
}

/// While it lives, calls count as made from one line: those of a formula, as from the line of the
/// call whose gradient it computes.
pub(crate) struct LinePin {
    before: Option<Line>,
    pinned: bool,
    on_this_thread: PhantomData<*const ()>,
}

impl LinePin {
    #[inline]
    pub(crate) fn set(at: Option<Line>) -> LinePin {
        LOCAL.with(|l| {
            let pin = LinePin {
                before: l.line.get(),
                pinned: l.pinned.get(),
                on_this_thread: PhantomData,
            };
            if at.is_some() {
                l.line.set(at);
                l.pinned.set(true);
            }
            pin
        })
    }
}

impl Drop for LinePin {
    #[inline]
    fn drop(&mut self) {
        let _ = LOCAL.try_with(|l| {
            l.line.set(self.before);
            l.pinned.set(self.pinned);
        });
    }
}

thread_local! {
    static SOURCE: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// While it lives, calls count as made from a line of a program that was not written in Rust.
pub(crate) struct SourceScope {
    before: Option<Arc<str>>,
    on_this_thread: PhantomData<*const ()>,
}

impl SourceScope {
    pub(crate) fn enter(line: &Arc<str>) -> SourceScope {
        let before = SOURCE.replace(Some(Arc::clone(line)));
        SourceScope { before, on_this_thread: PhantomData }
    }
}

impl Drop for SourceScope {
    fn drop(&mut self) {
        let before = self.before.take();
        let _ = SOURCE.try_with(|source| source.replace(before));
    }
}

/// The line that a [`SourceScope`] of this thread says.
pub(crate) fn source_line() -> Option<Arc<str>> {
    SOURCE.with_borrow(Clone::clone)
}
