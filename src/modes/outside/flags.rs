//! Flags that a captured function reads, such as the modes of modules, and what it has to finish.

use super::{Asked, Watch, ask, refuse, with};
use crate::modes::tracer;
use crate::tensor::watcher::Line;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What to say of a flag that is off, and of one that is on, where it was not when the function was
/// captured.
pub(crate) type FlagTexts = [&'static str; 2];

/// The function reads a flag, which somebody may change before a later call.
#[inline]
pub(crate) fn asks_flag(flag: &Arc<AtomicBool>, on: bool, texts: FlagTexts) {
    if tracer::current().is_some() {
        read(flag, on, texts);
    }
}

#[cold]
fn read(flag: &Arc<AtomicBool>, on: bool, texts: FlagTexts) {
    let known = |w: &mut Watch| {
        let asked = |a: &Asked| matches!(a, Asked::Flag(f, ..) if Arc::ptr_eq(f, flag));
        w.asked.iter().any(asked) || w.flags.iter().any(|f| Arc::ptr_eq(f, flag))
    };
    if with(known) == Some(false) {
        ask(Asked::Flag(flag.clone(), on, texts));
    }
}

/// The function sets a flag: what it reads of it from now on is its own.
pub(crate) fn sets_flag(flag: &Arc<AtomicBool>) {
    if tracer::in_subgraph() {
        let why = "a call may take another branch: set the mode of a module around it";
        refuse("setting a flag inside of a branch or loop", why, None);
    }
    if tracer::current().is_some() {
        with(|w| w.flags.push(flag.clone()));
    }
}

/// Something that a captured function has begun and has to finish, since a replay will not begin
/// it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Debt(Arc<AtomicBool>);

/// A debt, what it is about, what to do, and the line where it was made.
pub(super) struct Owed(Debt, &'static str, &'static str, Line);

impl Debt {
    /// The function has begun it.
    #[track_caller]
    pub(crate) fn owe(&self, what: &'static str, why: &'static str) {
        self.0.store(true, Ordering::Relaxed);
        let at = Location::caller();
        with(|w| w.owed.push(Owed(self.clone(), what, why, at)));
    }

    /// It is finished.
    pub(crate) fn pay(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Refuses what the function has begun and not finished. What is owed is forgotten.
pub(super) fn collect() {
    for Owed(debt, what, why, at) in with(|w| std::mem::take(&mut w.owed)).unwrap_or_default() {
        if debt.0.swap(false, Ordering::Relaxed) {
            refuse(what, why, Some(at));
        }
    }
}
