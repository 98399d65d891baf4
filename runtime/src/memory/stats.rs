//! Counters of the allocator.
//!
//! Each thread has a [`Slot`] that only it writes (plain loads and stores, no locked instructions);
//! [`stats`] sums them. A slot of a thread that has ended is reused with its counts, since only the
//! sums mean anything.
//!
//! The hot path counts as little as possible: live bytes are those taken from the system, less
//! those returned, less those on the free lists.

use super::list::{CELL_CLASSES, List};
use super::size_class::{SMALL_CLASSES, small_size};
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

/// One thread's share of the counters of large blocks.
#[derive(Default)]
pub(super) struct LargeCounters {
    pub(super) live_bytes: AtomicI64,
    pub(super) live: AtomicI64,
    pub(super) allocations: AtomicI64,
    pub(super) system_allocations: AtomicI64,
}

/// The counts of a thread. Single counts may be negative (a block freed on another thread).
#[repr(align(64))]
pub(super) struct Slot {
    /// Free small blocks, by class.
    pub(super) blocks: [List; SMALL_CLASSES],
    /// Free cells (see [`take_cell`](super::take_cell)), by multiples of 64 bytes. They are in no
    /// statistics.
    pub(super) cells: [List; CELL_CLASSES],
    pub(super) large: LargeCounters,
}

/// The counts of one thread or of all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Counts {
    pub(super) allocated_bytes: i64,
    pub(super) cached_bytes: i64,
    pub(super) blocks: i64,
    pub(super) allocations: i64,
    pub(super) system_allocations: i64,
}

impl Slot {
    fn new() -> Slot {
        Slot {
            blocks: std::array::from_fn(|class| List::new(small_size(class))),
            cells: std::array::from_fn(|i| List::new((i + 1) * 64)),
            large: LargeCounters::default(),
        }
    }

    /// Adds this slot's counts.
    pub(super) fn add_to(&self, sum: &mut Counts) {
        for (class, list) in self.blocks.iter().enumerate() {
            let size = small_size(class) as i64;
            let cached = i64::from(list.len());
            let live = list.fresh() - list.returned() - cached;
            sum.allocated_bytes += live * size;
            sum.cached_bytes += cached * size;
            sum.blocks += live;
            sum.allocations += list.taken();
            sum.system_allocations += list.fresh();
        }
        sum.allocated_bytes += self.large.live_bytes.load(Relaxed);
        sum.blocks += self.large.live.load(Relaxed);
        sum.allocations += self.large.allocations.load(Relaxed);
        sum.system_allocations += self.large.system_allocations.load(Relaxed);
    }
}

struct Slots {
    all: Vec<&'static Slot>,
    idle: Vec<&'static Slot>,
}

static SLOTS: Mutex<Slots> = Mutex::new(Slots { all: Vec::new(), idle: Vec::new() });

/// A slot for a starting thread. Slots live for the process; there are as many as threads ever ran
/// at once.
pub(super) fn claim_slot() -> &'static Slot {
    let mut slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    slots.idle.pop().unwrap_or_else(|| {
        let slot: &'static Slot = Box::leak(Box::new(Slot::new()));
        slots.all.push(slot);
        slot
    })
}

/// Gives the slot of an ending thread back. Its lists must be empty.
pub(super) fn release_slot(slot: &'static Slot) {
    let mut slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    slots.idle.push(slot);
}

/// The counters of the process now. Exact when no other thread allocates meanwhile.
pub fn stats() -> Stats {
    let slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut sum = Counts::default();
    for slot in &slots.all {
        slot.add_to(&mut sum);
    }
    let count = |n: i64| u64::try_from(n).unwrap_or(0);
    Stats {
        allocated_bytes: count(sum.allocated_bytes),
        cached_bytes: count(sum.cached_bytes) + super::large::cached_bytes(),
        blocks: count(sum.blocks),
        allocations: count(sum.allocations),
        system_allocations: count(sum.system_allocations),
    }
}
