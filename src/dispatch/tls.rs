//! What the current thread adds to and takes from every call, and the guards that change it.

mod lines;

use super::watcher::{Question, asked};
use super::{record, recursion};
pub(crate) use lines::{LinePin, Lines, SourceScope, line, source_line};
pub(super) use lines::{LineScope, watched};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::LocalKey;
use straightline_catalog::key::DispatchKey;
use straightline_catalog::keyset::DispatchKeySet;
use straightline_runtime::stack;

/// In the word of excluded keys: this thread has to take the slow path.
const SLOW: u64 = 1 << 63;
/// In the same word: calls of this thread record nothing.
const SILENT: u64 = DispatchKeySet::RECORDS.raw();
/// What is in the word of excluded keys and no key.
const FLAGS: u64 = SLOW | SILENT;

/// The thread has not looked at the environment yet.
const FRESH: u8 = 1;
/// Calls on this thread are traced.
pub(super) const TRACED: u8 = 1 << 1;
/// The thread has observers of its own.
pub(super) const OBSERVED: u8 = 1 << 2;
/// The thread captures a function and wants to know the lines that call operators.
const LINES: u8 = 1 << 3;

/// The dispatcher's thread-local state. A spare bit of the excluded word says whether calls have to
/// take the slow path, so that a call tests a word that it reads anyway.
struct Local {
    included: Cell<u64>,
    excluded: Cell<u64>,
    calls: Cell<u64>,
    /// Calls take the slow path if the stack pointer is below this address (`recursion`).
    deep: Cell<usize>,
    reasons: Cell<u8>,
    line: Cell<Option<&'static Location<'static>>>,
    /// Whether calls leave the line as it is.
    pinned: Cell<bool>,
    /// Grad mode.
    grad: Cell<bool>,
    /// Whether tangents are carried on.
    forward: Cell<bool>,
    /// How many autograd kernels the thread is below.
    below: Cell<u32>,
}

thread_local! {
    static LOCAL: Local = const {
        Local {
            included: Cell::new(DispatchKeySet::DEFAULT_INCLUDED.raw()),
            excluded: Cell::new(DispatchKeySet::DEFAULT_EXCLUDED.raw() | SLOW),
            calls: Cell::new(0),
            deep: Cell::new(0),
            reasons: Cell::new(FRESH),
            line: Cell::new(None),
            pinned: Cell::new(false),
            grad: Cell::new(true),
            forward: Cell::new(true),
            below: Cell::new(0),
        }
    };
}

/// The key sets of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TlsKeySets {
    /// Added to every call.
    pub included: DispatchKeySet,
    /// Then taken from every call.
    pub excluded: DispatchKeySet,
}

impl TlsKeySets {
    /// The key sets of the current thread.
    #[inline]
    pub fn current() -> TlsKeySets {
        LOCAL.with(|l| TlsKeySets {
            included: DispatchKeySet::from_raw(l.included.get()),
            // with the mark that says that calls record nothing: variants are guarded by it
            excluded: DispatchKeySet::from_marked(l.excluded.get()),
        })
    }

    /// Makes these the thread's key sets; guards that are alive restore theirs when they end.
    pub(crate) fn apply(self) {
        LOCAL.with(|l| {
            l.included.set(self.included.raw());
            l.excluded.set(self.excluded.raw() | (l.excluded.get() & FLAGS));
        });
    }
}

/// Counts a call and applies the thread's key sets to those of the arguments. The flag says that
/// the call takes the slow path: it may have to be traced or observed.
#[inline]
pub(super) fn enter(arguments: DispatchKeySet) -> (DispatchKeySet, bool) {
    LOCAL.with(|l| l.calls.set(l.calls.get() + 1));
    peek(arguments)
}

/// [`enter`] for those who only ask what a call would do.
#[inline]
pub(super) fn peek(arguments: DispatchKeySet) -> (DispatchKeySet, bool) {
    LOCAL.with(|l| {
        let excluded = l.excluded.get();
        let keys = (arguments | DispatchKeySet::from_raw(l.included.get()))
            - DispatchKeySet::from_marked(excluded);
        let observed = record::observed_everywhere();
        let deep = stack::here() < l.deep.get();
        (keys, (excluded & SLOW != 0) | observed | deep)
    })
}

/// Counts a redispatch. The flag says that it takes the slow path; redispatches are not observed.
#[inline]
pub(super) fn enter_redispatch() -> bool {
    LOCAL.with(|l| {
        l.calls.set(l.calls.get() + 1);
        (l.excluded.get() & SLOW != 0) | (stack::here() < l.deep.get())
    })
}

/// Whether the thread itself has a reason to take the slow path, apart from observers of all
/// threads.
#[inline]
pub(super) fn is_slow() -> bool {
    LOCAL.with(|l| l.excluded.get() & SLOW != 0)
}

/// Why the thread takes the slow path; a new thread reads the environment first.
#[cold]
pub(super) fn reasons() -> u8 {
    LOCAL.with(|l| {
        let reasons = l.reasons.get();
        if reasons & FRESH != 0 {
            let traced = if super::trace::wanted_by_environment() { TRACED } else { 0 };
            l.deep.set(recursion::find_limits());
            l.set_reasons((reasons & !FRESH) | traced);
        }
        l.reasons.get()
    })
}

/// Sets or clears a reason for the thread to take the slow path.
pub(super) fn set_reason(reason: u8, on: bool) {
    let others = reasons() & !reason;
    LOCAL.with(|l| l.set_reasons(if on { others | reason } else { others }));
}

impl Local {
    fn set_silent(&self) {
        // there may be tangents while nothing is recorded
        let tangents = || self.forward.get() && LEVELS.load(Ordering::Relaxed) > 0;
        let silent = self.below.get() > 0 || !(self.grad.get() || tangents());
        let word = self.excluded.get() & !SILENT;
        self.excluded.set(word | if silent { SILENT } else { 0 });
    }
}

/// Whether operators of this thread record what gradients need.
#[inline]
pub(crate) fn grad_enabled() -> bool {
    LOCAL.with(|l| l.grad.get())
}

/// Sets grad mode, and gives what it was.
pub(crate) fn set_grad_enabled(on: bool) -> bool {
    LOCAL.with(|l| {
        let before = l.grad.replace(on);
        l.set_silent();
        before
    })
}

/// How many levels of dual tensors there are in the process.
static LEVELS: AtomicUsize = AtomicUsize::new(0);

/// A level of dual tensors begins or ends. A thread that records nothing does not look for
/// tangents unless there is one when it begins to.
pub(crate) fn count_levels(begins: bool) {
    match begins {
        true => LEVELS.fetch_add(1, Ordering::Relaxed),
        false => LEVELS.fetch_sub(1, Ordering::Relaxed),
    };
    let _ = LOCAL.try_with(Local::set_silent);
}

/// Whether operators of this thread carry tangents on.
#[inline]
pub(crate) fn forward_enabled() -> bool {
    LOCAL.with(|l| l.forward.get())
}

/// Sets whether they do, and gives whether they did.
pub(crate) fn set_forward_enabled(on: bool) -> bool {
    LOCAL.with(|l| {
        let before = l.forward.replace(on);
        l.set_silent();
        before
    })
}

/// While it lives, calls of this thread pass by the autograd keys and record nothing: the rest of a
/// call whose autograd kernel has begun. Grad mode stays as it is.
pub(crate) struct BelowAutograd {
    excluded: u64,
    on_this_thread: PhantomData<*const ()>,
}

impl BelowAutograd {
    #[inline]
    pub(crate) fn enter() -> BelowAutograd {
        const KEYS: u64 = DispatchKeySet::AUTOGRAD_AND_AD_INPLACE_OR_VIEW.raw();
        LOCAL.with(|l| {
            l.below.set(l.below.get() + 1);
            let word = l.excluded.get();
            l.excluded.set(word | KEYS | SILENT);
            BelowAutograd { excluded: word & KEYS, on_this_thread: PhantomData }
        })
    }
}

impl Drop for BelowAutograd {
    #[inline]
    fn drop(&mut self) {
        const KEYS: u64 = DispatchKeySet::AUTOGRAD_AND_AD_INPLACE_OR_VIEW.raw();
        let _ = LOCAL.try_with(|l| {
            l.below.set(l.below.get() - 1);
            l.excluded.set(l.excluded.get() & !KEYS | self.excluded);
            l.set_silent();
        });
    }
}

/// For the backward pass, which may begin below an autograd kernel and records by its own mode.
pub(crate) struct AboveAutograd {
    below: u32,
    excluded: u64,
    on_this_thread: PhantomData<*const ()>,
}

impl AboveAutograd {
    pub(crate) fn enter() -> AboveAutograd {
        const KEYS: u64 = DispatchKeySet::AUTOGRAD_AND_AD_INPLACE_OR_VIEW.raw();
        LOCAL.with(|l| {
            let below = l.below.replace(0);
            let word = l.excluded.get();
            if below > 0 {
                l.excluded.set(word & !KEYS);
            }
            l.set_silent();
            AboveAutograd { below, excluded: word & KEYS, on_this_thread: PhantomData }
        })
    }
}

impl Drop for AboveAutograd {
    fn drop(&mut self) {
        let _ = LOCAL.try_with(|l| {
            l.below.set(self.below);
            if self.below > 0 {
                l.excluded.set(l.excluded.get() | self.excluded);
            }
            l.set_silent();
        });
    }
}

impl Local {
    fn set_reasons(&self, reasons: u8) {
        self.reasons.set(reasons);
        let word = self.excluded.get() & !SLOW;
        self.excluded.set(word | if reasons == 0 { 0 } else { SLOW });
    }
}

/// The number of times this thread has entered the dispatcher: calls and redispatches, boxed and
/// unboxed. A replayed plan adds nothing to it, so a function that reads it cannot be captured.
#[track_caller]
pub fn call_count() -> u64 {
    asked(Question::Calls(Location::caller()));
    LOCAL.with(|l| l.calls.get())
}

/// Excludes a key on this thread, or stops excluding it, for good; gives whether it was excluded.
/// For state that is switched on and off, such as autocast; scoped state should use a guard.
///
/// ```
/// use straightline::dispatch::{DispatchKey, TlsKeySets, set_excluded};
/// assert!(set_excluded(DispatchKey::AutocastCPU, false));
/// assert!(!TlsKeySets::current().excluded.has(DispatchKey::AutocastCPU));
/// set_excluded(DispatchKey::AutocastCPU, true);
/// ```
pub fn set_excluded(key: DispatchKey, on: bool) -> bool {
    let before = TlsKeySets::current();
    let excluded = if on { before.excluded.add(key) } else { before.excluded.remove(key) };
    TlsKeySets { excluded, ..before }.apply();
    before.excluded.has(key)
}

/// What a guard does to one of the two sets.
#[derive(Clone, Copy)]
enum Change {
    Add(u64),
    Replace(u64),
}

/// A guard that is alive.
struct Frame {
    id: u64,
    before: u64,
    change: Change,
}

/// The guards of one of the two sets, in the order in which they began.
struct Frames {
    included: bool,
    last_id: Cell<u64>,
    alive: RefCell<Vec<Frame>>,
}

thread_local! {
    static INCLUDING: Frames = const { Frames::new(true) };
    static EXCLUDING: Frames = const { Frames::new(false) };
}

impl Frames {
    const fn new(included: bool) -> Frames {
        Frames { included, last_id: Cell::new(0), alive: RefCell::new(Vec::new()) }
    }

    fn get(&self) -> u64 {
        let now = TlsKeySets::current();
        match self.included {
            true => now.included.raw(),
            false => now.excluded.raw(),
        }
    }

    fn set(&self, raw: u64) {
        let (now, keys) = (TlsKeySets::current(), DispatchKeySet::from_raw(raw));
        match self.included {
            true => TlsKeySets { included: keys, ..now },
            false => TlsKeySets { excluded: keys, ..now },
        }
        .apply();
    }

    fn enter(&self, change: Change) -> u64 {
        let before = self.get();
        self.set(change.of(before));
        let id = self.last_id.get() + 1;
        self.last_id.set(id);
        self.alive.borrow_mut().push(Frame { id, before, change });
        id
    }

    /// Ends a guard. The last one restores what it found; one before it is taken out, and those
    /// after it change what it had found instead.
    fn leave(&self, id: u64) {
        let mut alive = self.alive.borrow_mut();
        let Some(at) = alive.iter().rposition(|f| f.id == id) else {
            return;
        };
        let mut value = alive.remove(at).before;
        for frame in &mut alive[at..] {
            frame.before = value;
            value = frame.change.of(value);
        }
        drop(alive);
        self.set(value);
    }
}

impl Change {
    fn of(self, before: u64) -> u64 {
        match self {
            Change::Add(keys) => before | keys,
            Change::Replace(keys) => keys,
        }
    }
}

/// A guard's entry for one set. At the end of a thread there may be nothing left to restore.
#[derive(Debug)]
struct Held {
    frames: &'static LocalKey<Frames>,
    id: u64,
    on_this_thread: PhantomData<*const ()>,
}

impl Held {
    fn new(frames: &'static LocalKey<Frames>, change: Change) -> Held {
        Held {
            frames,
            id: frames.try_with(|f| f.enter(change)).unwrap_or(0),
            on_this_thread: PhantomData,
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.frames.try_with(|f| f.leave(self.id));
    }
}

/// Adds keys to every call on this thread while it lives.
///
/// When dropped, it restores the whole set that it found; it stays on its thread. Guards may be
/// dropped in any order: each undoes its own change and leaves those of the others.
///
/// ```
/// use straightline::dispatch::{DispatchKey, IncludeGuard, TlsKeySets};
/// let before = TlsKeySets::current();
/// {
///     let _guards = (
///         IncludeGuard::new(DispatchKey::TESTING_ONLY_GenericMode),
///         IncludeGuard::new(DispatchKey::TESTING_ONLY_GenericWrapper),
///     );
/// }
/// assert_eq!(TlsKeySets::current(), before);
/// ```
#[must_use = "the guard ends where it is dropped"]
#[derive(Debug)]
pub struct IncludeGuard {
    _held: Held,
}

/// Keeps keys out of every call on this thread while it lives. Exclusion beats inclusion, and
/// excluding a key of one backend excludes its functionality on all.
///
/// When dropped, it restores the whole set that it found, as [`IncludeGuard`] does.
#[must_use = "the guard ends where it is dropped"]
#[derive(Debug)]
pub struct ExcludeGuard {
    _held: Held,
}

/// Replaces the key sets of this thread while it lives.
///
/// When dropped, it restores the sets that it found, as [`IncludeGuard`] does.
#[must_use = "the guard ends where it is dropped"]
#[derive(Debug)]
pub struct ForceKeySetGuard {
    _included: Held,
    _excluded: Held,
}

impl IncludeGuard {
    /// Includes the keys of a set.
    pub fn new(keys: impl Into<DispatchKeySet>) -> Self {
        IncludeGuard { _held: Held::new(&INCLUDING, Change::Add(keys.into().raw())) }
    }
}

impl ExcludeGuard {
    /// Excludes the keys of a set.
    pub fn new(keys: impl Into<DispatchKeySet>) -> Self {
        ExcludeGuard { _held: Held::new(&EXCLUDING, Change::Add(keys.into().raw())) }
    }

    /// Excludes the autograd keys: what an autograd kernel of an in-place or view operator runs
    /// under.
    pub fn below_autograd() -> Self {
        ExcludeGuard::new(DispatchKeySet::AUTOGRAD)
    }

    /// Excludes autograd and `ADInplaceOrView`.
    pub fn below_ad_inplace_or_view() -> Self {
        ExcludeGuard::new(DispatchKeySet::AUTOGRAD_AND_AD_INPLACE_OR_VIEW)
    }

    /// Excludes `Functionalize`.
    pub fn skip_functionalize() -> Self {
        ExcludeGuard::new(DispatchKey::Functionalize)
    }
}

impl ForceKeySetGuard {
    /// Sets both sets.
    pub fn new(keys: TlsKeySets) -> Self {
        ForceKeySetGuard {
            _included: Held::new(&INCLUDING, Change::Replace(keys.included.raw())),
            _excluded: Held::new(&EXCLUDING, Change::Replace(keys.excluded.raw())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_thread_starts_with_the_defaults() {
        let s = std::thread::spawn(TlsKeySets::current).join().unwrap();
        assert_eq!(s.included, DispatchKeySet::DEFAULT_INCLUDED);
        assert_eq!(s.excluded, DispatchKeySet::DEFAULT_EXCLUDED);
    }

    #[test]
    fn exclusion_beats_inclusion_and_takes_all_backends() {
        let _i = IncludeGuard::new(DispatchKey::Tracer);
        let _e =
            ExcludeGuard::new(DispatchKeySet::of(&[DispatchKey::Tracer, DispatchKey::AutogradCPU]));
        let (ks, _) = enter(DispatchKeySet::of(&[DispatchKey::CUDA, DispatchKey::AutogradCUDA]));
        assert_eq!(ks.to_string(), "DispatchKeySet(CUDA, BackendSelect, ADInplaceOrView)");
    }

    #[test]
    fn below_autograd_prints_without_the_bare_functionality() {
        let _f = ForceKeySetGuard::new(TlsKeySets {
            included: DispatchKeySet::EMPTY,
            excluded: DispatchKeySet::EMPTY,
        });
        let _e = ExcludeGuard::below_autograd();
        let s = TlsKeySets::current();
        assert_eq!(s.excluded.to_string(), "DispatchKeySet(AutogradOther, AutogradNestedTensor)");
    }

    #[test]
    fn each_guard_ends_what_it_did_in_whatever_order() {
        use DispatchKey as K;
        let before = TlsKeySets::current();
        let included = || TlsKeySets::current().included;
        let a = IncludeGuard::new(K::TESTING_ONLY_GenericMode);
        let b = IncludeGuard::new(DispatchKeySet::of(&[
            K::TESTING_ONLY_GenericMode,
            K::TESTING_ONLY_GenericWrapper,
        ]));
        let c = ExcludeGuard::new(K::Tracer);
        let d = IncludeGuard::new(K::Tracer);
        drop(a);
        // the second one wants the first one's key as well
        assert!(included().has(K::TESTING_ONLY_GenericMode));
        drop(b);
        assert_eq!(included(), before.included.add(K::Tracer));
        assert!(TlsKeySets::current().excluded.has(K::Tracer));
        // a guard that is never dropped keeps its effect and blocks no one
        let forgotten = ForceKeySetGuard::new(TlsKeySets::current());
        std::mem::forget(forgotten);
        drop((c, d));
        let now = TlsKeySets::current();
        assert!(now.included.has(K::Tracer) && now.excluded.has(K::Tracer));
        before.apply();
    }

    proptest! {
        #[test]
        fn guards_restore_what_they_found(a: u64, b: u64, which in prop::collection::vec(0..3, 0..6)) {
            let (a, b) = (DispatchKeySet::from_raw(a), DispatchKeySet::from_raw(b));
            let before = TlsKeySets::current();
            let mut guards: Vec<Box<dyn std::any::Any>> = Vec::new();
            for w in which {
                guards.push(match w {
                    0 => Box::new(IncludeGuard::new(a)),
                    1 => Box::new(ExcludeGuard::new(b)),
                    _ => Box::new(ForceKeySetGuard::new(TlsKeySets { included: b, excluded: a })),
                });
            }
            while guards.pop().is_some() {}
            prop_assert_eq!(TlsKeySets::current(), before);
        }

        #[test]
        fn guards_restore_in_any_order(sets in prop::collection::vec((any::<u64>(), 0..3, any::<prop::sample::Index>()), 0..6)) {
            let before = TlsKeySets::current();
            let mut guards: Vec<Box<dyn std::any::Any>> = Vec::new();
            for (raw, w, _) in &sets {
                let keys = DispatchKeySet::from_raw(*raw);
                guards.push(match w {
                    0 => Box::new(IncludeGuard::new(keys)),
                    1 => Box::new(ExcludeGuard::new(keys)),
                    _ => Box::new(ForceKeySetGuard::new(TlsKeySets { included: keys, excluded: keys })),
                });
            }
            for (.., at) in &sets {
                drop(guards.swap_remove(at.index(guards.len())));
            }
            prop_assert_eq!(TlsKeySets::current(), before);
        }
    }
}
