//! Thread-local stacks of handlers, whose keys are included while something is on them.

use crate::dispatch::{DispatchKeySet, TlsKeySets};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;
use std::thread::LocalKey;

/// Something on a stack.
pub(super) struct Entry<T: ?Sized> {
    /// Whether its guard still lives.
    alive: Rc<Cell<bool>>,
    pub(super) item: Box<T>,
}

/// A stack of handlers.
pub(super) struct HandlerStack<T: ?Sized> {
    entries: RefCell<Vec<Rc<Entry<T>>>>,
    keys: DispatchKeySet,
}

/// Where the stacks live.
pub(super) type Stacks<T> = LocalKey<HandlerStack<T>>;

impl<T: ?Sized> HandlerStack<T> {
    pub(super) const fn new(keys: DispatchKeySet) -> Self {
        HandlerStack { entries: RefCell::new(Vec::new()), keys }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.borrow().is_empty()
    }

    /// The entries, outermost first.
    pub(super) fn entries(&self) -> Vec<Rc<Entry<T>>> {
        self.entries.borrow().clone()
    }

    fn push(&self, item: Box<T>) -> Rc<Cell<bool>> {
        let alive = Rc::new(Cell::new(true));
        self.entries.borrow_mut().push(Rc::new(Entry { alive: alive.clone(), item }));
        self.include(true);
        alive
    }

    /// Removes the entries whose guard has been dropped. One whose handler is running is not on the
    /// stack, and will not be put back.
    fn sweep(&self) {
        let dead: Vec<Rc<Entry<T>>> = {
            let mut entries = self.entries.borrow_mut();
            let (alive, dead) = entries.drain(..).partition(|e| e.alive.get());
            *entries = alive;
            dead
        };
        if !dead.is_empty() && self.is_empty() {
            self.include(false);
        }
    }

    /// Puts the stack's keys into the thread's included set, or takes them out.
    pub(super) fn include(&self, on: bool) {
        let now = TlsKeySets::current();
        let included = if on { now.included | self.keys } else { now.included - self.keys };
        TlsKeySets { included, ..now }.apply();
    }
}

/// Keeps a mode or a resolver on its thread's stack; dropping it takes that one off.
///
/// Guards may be dropped in any order: each removes only its own mode. Dropped while the mode's own
/// handler runs, the handler runs to its end and the mode is not put back. The guard stays on its
/// thread.
///
/// Guards that restore a whole key set ([`IncludeGuard`](crate::dispatch::IncludeGuard),
/// [`ForceKeySetGuard`](crate::dispatch::ForceKeySetGuard)) know nothing of modes, in c10 as here:
/// one that was opened before a mode was pushed and ends while the mode is on takes the mode's keys
/// with it, so drop those in reverse order.
#[must_use = "the mode ends where its guard is dropped"]
pub struct ModeGuard {
    alive: Rc<Cell<bool>>,
    sweep: fn(),
    on_this_thread: PhantomData<*const ()>,
}

impl ModeGuard {
    /// Puts a handler on top of a stack. `sweep` calls [`sweep`] for that stack.
    pub(super) fn push<T: ?Sized>(
        stack: &'static Stacks<T>,
        sweep: fn(),
        item: Box<T>,
    ) -> ModeGuard {
        ModeGuard { alive: stack.with(|s| s.push(item)), sweep, on_this_thread: PhantomData }
    }
}

impl Drop for ModeGuard {
    fn drop(&mut self) {
        self.alive.set(false);
        (self.sweep)();
    }
}

impl fmt::Debug for ModeGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModeGuard").finish_non_exhaustive()
    }
}

/// Takes off the entries of a stack whose guard has gone.
pub(super) fn sweep<T: ?Sized>(stack: &'static Stacks<T>) {
    // at the end of a thread the stack may have gone before the guard
    let _ = stack.try_with(HandlerStack::sweep);
}

/// An entry that is off its stack while its handler runs.
pub(super) struct Suspended<T: ?Sized + 'static> {
    stack: &'static Stacks<T>,
    entry: Rc<Entry<T>>,
    at: usize,
}

impl<T: ?Sized> Suspended<T> {
    /// Takes the innermost entry off.
    pub(super) fn innermost(stack: &'static Stacks<T>) -> Option<Self> {
        stack.with(|s| {
            let mut entries = s.entries.borrow_mut();
            let entry = entries.pop()?;
            Some(Suspended { stack, entry, at: entries.len() })
        })
    }

    /// What was on the stack.
    pub(super) fn item(&self) -> &T {
        &self.entry.item
    }

    /// Puts the entry back for the length of a call, then takes it off again.
    pub(super) fn reinstated<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Off<'a, T: ?Sized + 'static>(&'a Suspended<T>);
        impl<T: ?Sized> Drop for Off<'_, T> {
            fn drop(&mut self) {
                let entry = &self.0.entry;
                self.0.stack.with(|s| {
                    s.entries.borrow_mut().retain(|e| !Rc::ptr_eq(e, entry));
                    if s.is_empty() {
                        s.include(false);
                    }
                });
            }
        }
        self.put_back();
        self.stack.with(|s| {
            if !s.is_empty() {
                s.include(true);
            }
        });
        let _off = Off(self);
        f()
    }

    /// Modes that the handler pushed and that outlive it stay above.
    fn put_back(&self) {
        if self.entry.alive.get() {
            self.stack.with(|s| {
                let mut entries = s.entries.borrow_mut();
                let at = self.at.min(entries.len());
                entries.insert(at, self.entry.clone());
            });
        }
    }
}

impl<T: ?Sized> Drop for Suspended<T> {
    fn drop(&mut self) {
        self.put_back();
    }
}
