//! The part of an operator that calls read while registrations change it: one cell per slot of the
//! table, and the masks of the keys that calls skip.
//!
//! A call takes no lock. It reads a mask, and then the cell of the highest key that is left. A
//! registration makes new masks and cells and publishes the masks first. So a call may combine an
//! older mask with a newer cell, and what it finds in that cell says so:
//!
//! - *a fallthrough*, which a mask should have hidden: the mask was read before the key became a
//!   fallthrough, or the cell before it stopped being one;
//! - *a kernel for calls that record*, in a call that does not: the same;
//! - *nothing*, because the kernel that the old mask leads to is gone by now.
//!
//! Both are rare, so a call looks again only then ([`Slots::settle`]); every other outcome was the
//! right one at some moment of the call. `tests/loom.rs` checks this file against the memory model.

use crate::sync::{AtomicPtr, AtomicU64, Ordering, yield_now};
use std::ptr;

/// In the common mask: the mask depends on the backend.
const PER_BACKEND: u64 = 1 << 63;

/// How often a call looks again while a registration on another thread is under way.
pub(super) const RETRIES: usize = 10_000;

/// What fills a slot.
pub(super) trait Occupant: 'static {
    /// Whether a call that finds it is done, or should check that its mask was not outdated.
    fn standing(&self) -> Standing;
}

/// See [`Occupant::standing`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// Runs.
    Kernel,
    /// Runs in calls that record; others should have masked it.
    Recording,
    /// Should have been masked.
    Fallthrough,
    /// Stands for an error.
    Nothing,
}

/// `N` slots, and masks for `B` backends.
pub(super) struct Slots<T: Occupant, const N: usize, const B: usize> {
    cells: [AtomicPtr<T>; N],
    mask: AtomicU64,
    mask_by_backend: [AtomicU64; B],
}

impl<T: Occupant, const N: usize, const B: usize> Slots<T, N, B> {
    /// All slots with the same occupant, and one mask.
    pub(super) fn new(all: &'static T, mask: u64) -> Self {
        Slots {
            cells: std::array::from_fn(|_| AtomicPtr::new(ptr::from_ref(all).cast_mut())),
            mask: AtomicU64::new(mask),
            mask_by_backend: std::array::from_fn(|_| AtomicU64::new(mask)),
        }
    }

    /// Replaces all slots and masks. Only one thread at a time may publish.
    pub(super) fn publish(&self, occupants: &[&'static T; N], masks: &[u64; B]) {
        for (cell, mask) in self.mask_by_backend.iter().zip(masks) {
            cell.store(*mask, Ordering::Release);
        }
        let uniform = masks.iter().all(|m| *m == masks[0]);
        let flag = if uniform { 0 } else { PER_BACKEND };
        self.mask.store(masks[0] | flag, Ordering::Release);
        for (cell, occupant) in self.cells.iter().zip(occupants) {
            let p = ptr::from_ref(*occupant).cast_mut();
            // a store would take the cache line from every thread that calls
            if cell.load(Ordering::Relaxed) != p {
                cell.store(p, Ordering::Release);
            }
        }
    }

    /// The mask for a backend; `backend` is only evaluated if the mask depends on it.
    #[inline(always)]
    pub(super) fn mask(&self, backend: impl FnOnce() -> usize) -> u64 {
        // Acquire keeps the cell from being read before the mask; free on x86, and cheap elsewhere
        let mask = self.mask.load(Ordering::Acquire);
        if mask & PER_BACKEND == 0 {
            mask
        } else {
            self.mask_by_backend[backend()].load(Ordering::Acquire)
        }
    }

    /// What fills a slot now.
    #[inline(always)]
    pub(super) fn occupant(&self, slot: usize) -> &'static T {
        let p = self.cells[slot].load(Ordering::Acquire);
        // SAFETY: cells only ever hold pointers made from `&'static T`.
        unsafe { &*p }
    }

    /// Looks again until mask and cell agree: `look` reads a mask and the cell it leads to, and
    /// returns the keys and the occupant.
    pub(super) fn settle<K: PartialEq>(
        &self,
        look: impl Fn(&Self) -> (K, &'static T),
    ) -> (K, &'static T) {
        let mut found = look(self);
        for _ in 0..RETRIES {
            let standing = found.1.standing();
            if matches!(standing, Standing::Kernel | Standing::Recording) {
                break;
            }
            let again = look(self);
            let same = again.0 == found.0 && ptr::eq(again.1, found.1);
            if same && standing == Standing::Nothing {
                break;
            }
            if same {
                yield_now();
            }
            found = again;
        }
        found
    }

    /// The bytes of the table.
    pub(super) const fn bytes() -> usize {
        size_of::<Self>()
    }
}
