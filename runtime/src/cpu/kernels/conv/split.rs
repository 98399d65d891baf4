//! How the work of a convolution is split over threads, and the memory that each of them takes.

use crate::cpu::threads;

/// Multiply-adds from which work is split over threads.
const PARALLEL_WORK: usize = 1 << 19;

/// A pointer that the threads of one call share.
#[derive(Clone, Copy)]
pub(super) struct Shared<T>(pub(super) *mut T);
// SAFETY: the threads of a call write disjoint parts.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub(super) fn at(&self, offset: usize) -> *mut T {
        self.0.wrapping_add(offset)
    }
}

/// Calls `f` for each number below `count`, on threads if the whole is worth it.
pub(super) fn each(count: usize, work: usize, f: &(dyn Fn(usize) + Sync)) {
    if work < PARALLEL_WORK || count == 1 {
        (0..count).for_each(f);
    } else {
        threads::parallel_for(count, f);
    }
}

/// Memory for `len` elements of any content on a cache-line boundary, kept by the thread for its
/// next convolution. Calls may be nested: each gets memory of its own.
pub(super) fn scratch<T>(len: usize, f: impl FnOnce(*mut T)) {
    use std::cell::RefCell;
    #[derive(Clone, Copy)]
    #[repr(C, align(64))]
    struct Line([u8; 64]);
    /// The largest buffer that a thread keeps; larger ones are freed.
    const KEEP: usize = 16 << 20;
    thread_local! {
        /// Those of the outer calls last.
        static KEPT: RefCell<Vec<Vec<Line>>> = const { RefCell::new(Vec::new()) };
    }
    let lines = (len * size_of::<T>()).div_ceil(64);
    let mut memory = KEPT.with_borrow_mut(Vec::pop).unwrap_or_default();
    if memory.len() < lines {
        memory = vec![Line([0; 64]); lines];
    }
    f(memory.as_mut_ptr().cast());
    if memory.len() * 64 <= KEEP {
        KEPT.with_borrow_mut(|kept| kept.push(memory));
    }
}

/// What is done with finished outputs: `(image, channel, (first element of the plane, count))`.
pub(super) type Finish<'a> = &'a (dyn Fn(usize, usize, (usize, usize)) + Sync);
