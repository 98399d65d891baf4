//! An allocator that knows how much a thread has at once.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

fn taken(bytes: usize) {
    let _ = LIVE.try_with(|live| {
        live.set(live.get().saturating_add(bytes));
        let _ = MOST.try_with(|most| most.set(most.get().max(live.get())));
    });
}

fn given_back(bytes: usize) {
    // what another thread has taken counts for nothing here
    let _ = LIVE.try_with(|live| live.set(live.get().saturating_sub(bytes)));
}

// SAFETY: everything is passed on to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        given_back(layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes that this thread has at once in a closure, beyond those that it has before.
pub(crate) fn most(f: impl FnOnce()) -> usize {
    let before = LIVE.get();
    MOST.set(before);
    f();
    MOST.get() - before
}

#[test]
fn it_counts() {
    let found = most(|| drop(std::hint::black_box(vec![0u8; 100_000])));
    assert!((100_000..110_000).contains(&found), "{found}");
}
