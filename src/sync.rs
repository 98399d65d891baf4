//! What the lock-free protocols of this crate are built from.
//!
//! Files that use only this module for their atomics, locks, statics and fences are model-checked:
//! `tests/loom.rs` includes their source with the loom crate's types in place of these.

pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use std::thread::{sleep, yield_now};
pub(crate) use straightline_runtime::memory::{heavy_fence, light_fence};

/// How often who finds a storage taken looks again before it queues: a few microseconds, as long as
/// a small kernel takes.
pub(crate) const SPINS: usize = 100;

/// A static.
macro_rules! global {
    (static $name:ident: $of:ty = $value:expr;) => {
        static $name: $of = $value;
    };
}

/// Statics of each thread.
macro_rules! per_thread {
    ($(static $name:ident: $of:ty = $value:expr;)*) => {
        thread_local! { $(static $name: $of = const { $value };)* }
    };
}

pub(crate) use {global, per_thread};
