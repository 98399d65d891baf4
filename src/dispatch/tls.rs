//! What the current thread adds to and takes from every call, and the guards that change it.

use super::key::DispatchKey;
use super::keyset::DispatchKeySet;
use super::record;
use std::cell::Cell;
use std::marker::PhantomData;

/// In the word of excluded keys: this thread has reasons to take the slow road.
const SLOW: u64 = 1 << 63;

/// The thread has not looked at the environment yet.
const FRESH: u8 = 1;
/// Calls on this thread are traced.
pub(super) const TRACED: u8 = 1 << 1;
/// The thread has observers of its own.
pub(super) const OBSERVED: u8 = 1 << 2;

/// The dispatcher's thread-local state. A spare bit of the excluded word says whether there is any
/// reason for a call to take the slow road, so that a call tests a word that it needs anyway.
struct Local {
    included: Cell<u64>,
    excluded: Cell<u64>,
    calls: Cell<u64>,
    reasons: Cell<u8>,
}

thread_local! {
    static LOCAL: Local = const {
        Local {
            included: Cell::new(DispatchKeySet::DEFAULT_INCLUDED.raw()),
            excluded: Cell::new(DispatchKeySet::DEFAULT_EXCLUDED.raw() | SLOW),
            calls: Cell::new(0),
            reasons: Cell::new(FRESH),
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
            excluded: DispatchKeySet::from_raw(l.excluded.get()),
        })
    }

    /// Makes these the thread's key sets; guards that are alive restore theirs when they end.
    pub(crate) fn apply(self) {
        LOCAL.with(|l| {
            l.included.set(self.included.raw());
            l.excluded
                .set(self.excluded.raw() | (l.excluded.get() & SLOW));
        });
    }
}

/// Counts a call and applies the thread's key sets to those of the arguments. The flag says that
/// the call takes the slow road: it may have to be traced or observed.
#[inline]
pub(super) fn enter(arguments: DispatchKeySet) -> (DispatchKeySet, bool) {
    LOCAL.with(|l| {
        l.calls.set(l.calls.get() + 1);
        let excluded = l.excluded.get();
        let keys = (arguments | DispatchKeySet::from_raw(l.included.get()))
            - DispatchKeySet::from_raw(excluded);
        let observed = record::observed_everywhere();
        (keys, (excluded & SLOW != 0) | observed)
    })
}

/// Counts a redispatch. The flag says that it may have to be traced; redispatches are not observed.
#[inline]
pub(super) fn enter_redispatch() -> bool {
    LOCAL.with(|l| {
        l.calls.set(l.calls.get() + 1);
        l.excluded.get() & SLOW != 0
    })
}

/// Whether the thread has a reason to take the slow road, other threads' reasons aside.
#[inline]
pub(super) fn is_slow() -> bool {
    LOCAL.with(|l| l.excluded.get() & SLOW != 0)
}

/// Why the thread takes the slow road; looks at the environment if it is fresh.
#[cold]
pub(super) fn reasons() -> u8 {
    LOCAL.with(|l| {
        let reasons = l.reasons.get();
        if reasons & FRESH != 0 {
            let traced = if super::trace::wanted_by_environment() {
                TRACED
            } else {
                0
            };
            l.set_reasons((reasons & !FRESH) | traced);
        }
        l.reasons.get()
    })
}

/// Gives the thread a reason to take the slow road, or takes it back.
pub(super) fn set_reason(reason: u8, on: bool) {
    let others = reasons() & !reason;
    LOCAL.with(|l| l.set_reasons(if on { others | reason } else { others }));
}

impl Local {
    fn set_reasons(&self, reasons: u8) {
        self.reasons.set(reasons);
        let word = self.excluded.get() & !SLOW;
        self.excluded
            .set(word | if reasons == 0 { 0 } else { SLOW });
    }
}

/// The number of times this thread has entered the dispatcher: calls and redispatches, boxed and
/// unboxed. A replayed plan adds none.
#[inline]
pub fn call_count() -> u64 {
    LOCAL.with(|l| l.calls.get())
}

/// Excludes a key on this thread, or stops excluding it, for good; gives whether it was excluded.
/// For state that is switched, as autocast is; what is entered and left wants a guard.
///
/// ```
/// use straightline::dispatch::{DispatchKey, TlsKeySets, set_excluded};
/// assert!(set_excluded(DispatchKey::AutocastCPU, false));
/// assert!(!TlsKeySets::current().excluded.has(DispatchKey::AutocastCPU));
/// set_excluded(DispatchKey::AutocastCPU, true);
/// ```
pub fn set_excluded(key: DispatchKey, on: bool) -> bool {
    let before = TlsKeySets::current();
    let excluded = if on {
        before.excluded.add(key)
    } else {
        before.excluded.remove(key)
    };
    TlsKeySets { excluded, ..before }.apply();
    before.excluded.has(key)
}

macro_rules! guard {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// When dropped, it restores the whole key sets that it found; it stays on its thread.
        #[must_use = "the guard ends where it is dropped"]
        #[derive(Debug)]
        pub struct $name {
            before: TlsKeySets,
            on_this_thread: PhantomData<*const ()>,
        }

        impl $name {
            fn enter(next: impl FnOnce(TlsKeySets) -> TlsKeySets) -> Self {
                let before = TlsKeySets::current();
                next(before).apply();
                $name { before, on_this_thread: PhantomData }
            }
        }
    };
}

guard! {
    /// Adds keys to every call on this thread while it lives.
    IncludeGuard
}
guard! {
    /// Keeps keys out of every call on this thread while it lives. Exclusion beats inclusion, and
    /// excluding a key of one backend excludes its functionality on all.
    ExcludeGuard
}
guard! {
    /// Replaces the key sets of this thread while it lives.
    ForceKeySetGuard
}

impl Drop for IncludeGuard {
    fn drop(&mut self) {
        TlsKeySets {
            included: self.before.included,
            ..TlsKeySets::current()
        }
        .apply();
    }
}

impl Drop for ExcludeGuard {
    fn drop(&mut self) {
        TlsKeySets {
            excluded: self.before.excluded,
            ..TlsKeySets::current()
        }
        .apply();
    }
}

impl Drop for ForceKeySetGuard {
    fn drop(&mut self) {
        self.before.apply();
    }
}

impl IncludeGuard {
    /// Includes the keys of a set.
    pub fn new(keys: impl Into<DispatchKeySet>) -> Self {
        let keys = keys.into();
        IncludeGuard::enter(|s| TlsKeySets {
            included: s.included | keys,
            ..s
        })
    }
}

impl ExcludeGuard {
    /// Excludes the keys of a set.
    pub fn new(keys: impl Into<DispatchKeySet>) -> Self {
        let keys = keys.into();
        ExcludeGuard::enter(|s| TlsKeySets {
            excluded: s.excluded | keys,
            ..s
        })
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
        ForceKeySetGuard::enter(|_| keys)
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
        let _e = ExcludeGuard::new(DispatchKeySet::of(&[
            DispatchKey::Tracer,
            DispatchKey::AutogradCPU,
        ]));
        let (ks, _) = enter(DispatchKeySet::of(&[
            DispatchKey::CUDA,
            DispatchKey::AutogradCUDA,
        ]));
        assert_eq!(
            ks.to_string(),
            "DispatchKeySet(CUDA, BackendSelect, ADInplaceOrView)"
        );
    }

    #[test]
    fn below_autograd_prints_without_the_bare_functionality() {
        let _f = ForceKeySetGuard::new(TlsKeySets {
            included: DispatchKeySet::EMPTY,
            excluded: DispatchKeySet::EMPTY,
        });
        let _e = ExcludeGuard::below_autograd();
        let s = TlsKeySets::current();
        assert_eq!(
            s.excluded.to_string(),
            "DispatchKeySet(AutogradOther, AutogradNestedTensor)"
        );
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
    }
}
