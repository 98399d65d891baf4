//! Counters of the allocator.
//!
//! Each thread has a slot that only it writes (plain loads and stores, no locked instructions); [`stats`] sums them.
//! A slot of a thread that has ended is reused with its counts, since only the sums mean anything.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// What the allocator holds and has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Bytes in live blocks, rounded up to their size classes.
    pub allocated_bytes: u64,
    /// Bytes in freed blocks kept for reuse.
    pub cached_bytes: u64,
    /// Live blocks.
    pub blocks: u64,
    /// Blocks handed out so far.
    pub allocations: u64,
    /// Blocks that had to come from the system; the others came from a cache.
    pub system_allocations: u64,
}

/// One thread's share of the counters. Single values may be negative (a block freed on another thread).
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Slot {
    pub(super) allocated_bytes: AtomicI64,
    pub(super) cached_bytes: AtomicI64,
    pub(super) blocks: AtomicI64,
    pub(super) allocations: AtomicI64,
    pub(super) system_allocations: AtomicI64,
}

/// Adds without a locked instruction: right only because one thread at a time writes a slot.
#[inline]
pub(super) fn bump(counter: &AtomicI64, by: i64) {
    counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
}

struct Slots {
    all: Vec<&'static Slot>,
    idle: Vec<&'static Slot>,
}

static SLOTS: Mutex<Slots> = Mutex::new(Slots {
    all: Vec::new(),
    idle: Vec::new(),
});

/// A slot for a starting thread. Slots live for the process; there are as many as threads ever ran at once.
pub(super) fn claim_slot() -> &'static Slot {
    let mut slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    slots.idle.pop().unwrap_or_else(|| {
        let slot: &'static Slot = Box::leak(Box::default());
        slots.all.push(slot);
        slot
    })
}

/// Gives the slot of an ending thread back.
pub(super) fn release_slot(slot: &'static Slot) {
    let mut slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    slots.idle.push(slot);
}

/// The counters of the process now. Exact when no other thread allocates meanwhile.
pub fn stats() -> Stats {
    let slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    let sum = |field: fn(&Slot) -> &AtomicI64| {
        let total: i64 = slots.all.iter().map(|s| field(s).load(Relaxed)).sum();
        u64::try_from(total).unwrap_or(0)
    };
    Stats {
        allocated_bytes: sum(|s| &s.allocated_bytes),
        cached_bytes: sum(|s| &s.cached_bytes) + super::large::cached_bytes(),
        blocks: sum(|s| &s.blocks),
        allocations: sum(|s| &s.allocations),
        system_allocations: sum(|s| &s.system_allocations),
    }
}
