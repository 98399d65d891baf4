//! A thread's list of free memory of one size.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, Ordering::Relaxed};

/// The bytes of one size that a thread keeps; one block is always kept.
pub(super) const THREAD_CLASS_BYTES: usize = 256 << 10;

/// Cells (see [`take_cell`](super::take_cell)) come in this many sizes, 64 bytes apart.
pub(super) const CELL_CLASSES: usize = 4;

/// Free memory: the list runs through it.
struct Free {
    next: *mut Free,
}

/// Adds without a locked instruction: right only because one thread at a time writes a slot.
#[inline]
pub(super) fn bump(counter: &AtomicI64, by: i64) {
    counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
}

/// Free memory of one size, and what was done with it.
///
/// One thread at a time uses a list; others only read its counts, which is why these are atomics.
/// They compile to plain loads and stores.
pub(super) struct List {
    head: AtomicPtr<Free>,
    len: AtomicU32,
    max_len: u32,
    taken: AtomicI64,
    fresh: AtomicI64,
    returned: AtomicI64,
}

impl List {
    pub(super) fn new(size: usize) -> List {
        List {
            head: AtomicPtr::new(std::ptr::null_mut()),
            len: AtomicU32::new(0),
            max_len: (THREAD_CLASS_BYTES / size).max(1) as u32,
            taken: AtomicI64::new(0),
            fresh: AtomicI64::new(0),
            returned: AtomicI64::new(0),
        }
    }

    /// What the list holds now.
    pub(super) fn len(&self) -> u32 {
        self.len.load(Relaxed)
    }

    /// How often memory was asked for.
    pub(super) fn taken(&self) -> i64 {
        self.taken.load(Relaxed)
    }

    /// How often it came from the system.
    pub(super) fn fresh(&self) -> i64 {
        self.fresh.load(Relaxed)
    }

    /// How often it went back to the system.
    pub(super) fn returned(&self) -> i64 {
        self.returned.load(Relaxed)
    }

    /// Memory from the list, or else from `system`.
    ///
    /// # Safety
    ///
    /// No other thread takes or gives meanwhile.
    #[inline]
    pub(super) unsafe fn take(
        &self,
        system: impl FnOnce() -> Option<NonNull<u8>>,
    ) -> Option<NonNull<u8>> {
        let Some(head) = NonNull::new(self.head.load(Relaxed)) else {
            let ptr = system()?;
            bump(&self.fresh, 1);
            bump(&self.taken, 1);
            return Some(ptr);
        };
        // SAFETY: the list holds free memory that `give` linked, and only this thread takes it.
        let next = unsafe { head.as_ref().next };
        self.head.store(next, Relaxed);
        self.len.store(self.len.load(Relaxed) - 1, Relaxed);
        bump(&self.taken, 1);
        Some(head.cast())
    }

    /// Puts memory on the list; if the list is full, the caller must return it to the system.
    ///
    /// # Safety
    ///
    /// No other thread takes or gives meanwhile. `ptr` is memory of the list's size, aligned to 64,
    /// that nothing uses.
    #[inline]
    #[must_use]
    pub(super) unsafe fn give(&self, ptr: NonNull<u8>) -> bool {
        let len = self.len.load(Relaxed);
        if len >= self.max_len {
            bump(&self.returned, 1);
            return false;
        }
        let free = ptr.cast::<Free>();
        // SAFETY: the memory is ours now, at least 64 bytes long and aligned to 64.
        unsafe {
            free.write(Free { next: self.head.load(Relaxed) });
        }
        self.head.store(free.as_ptr(), Relaxed);
        self.len.store(len + 1, Relaxed);
        true
    }

    /// Hands all memory of the list to `system`.
    ///
    /// # Safety
    ///
    /// No other thread takes or gives meanwhile.
    pub(super) unsafe fn drain(&self, mut system: impl FnMut(NonNull<u8>)) {
        bump(&self.returned, i64::from(self.len()));
        self.len.store(0, Relaxed);
        let mut head = self.head.swap(std::ptr::null_mut(), Relaxed);
        while let Some(free) = NonNull::new(head) {
            // SAFETY: what is on the list is free memory that `give` linked; it is read before it
            // is given away.
            head = unsafe { free.as_ref().next };
            system(free.cast());
        }
    }
}
