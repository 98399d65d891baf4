//! Flags that a captured function reads: the modes of modules.

use super::{Asked, Watch, ask, with};
use crate::modes::tracer;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The function reads a flag, which somebody may change before a later call.
#[inline]
pub(crate) fn asks_flag(flag: &Arc<AtomicBool>, on: bool) {
    if tracer::current().is_some() {
        read(flag, on);
    }
}

#[cold]
fn read(flag: &Arc<AtomicBool>, on: bool) {
    let known = |w: &mut Watch| {
        let asked = |a: &Asked| matches!(a, Asked::Flag(f, _) if Arc::ptr_eq(f, flag));
        w.asked.iter().any(asked) || w.flags.iter().any(|f| Arc::ptr_eq(f, flag))
    };
    if with(known) == Some(false) {
        ask(Asked::Flag(flag.clone(), on));
    }
}

/// The function sets a flag: what it reads of it from now on is its own.
pub(crate) fn sets_flag(flag: &Arc<AtomicBool>) {
    if tracer::current().is_some() {
        with(|w| w.flags.push(flag.clone()));
    }
}
