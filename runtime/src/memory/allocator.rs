//! The two paths that make and recycle a [`Block`].

use super::block::Block;
use super::guard::guard;
use super::large::{self, system_allocate};
use super::list::bump;
use super::size_class::{SMALL_LIMIT, large_size, small_class, small_size};
use super::stats::{Counts, Slot, claim_slot, release_slot};
use super::system::{ALIGNMENT, OutOfMemory, release, system_free};
use std::cell::Cell;
use std::ptr::NonNull;

thread_local! {
    /// What this thread keeps; nothing before its first use and after its end. It has no
    /// destructor, so that reading it is one load.
    static SLOT: Cell<Option<&'static Slot>> = const { Cell::new(None) };
    /// Gives the slot back when the thread ends.
    static AT_EXIT: AtExit = const { AtExit };
}

struct AtExit;

impl Drop for AtExit {
    fn drop(&mut self) {
        if let Some(slot) = SLOT.take() {
            release_lists(slot);
            release_slot(slot);
        }
    }
}

/// This thread's slot; `None` while the thread ends, and where blocks are guarded.
#[inline(always)]
pub(super) fn here() -> Option<&'static Slot> {
    match SLOT.get() {
        Some(slot) => Some(slot),
        None => first_slot(),
    }
}

#[cold]
fn first_slot() -> Option<&'static Slot> {
    if guard().is_some() {
        // nothing is kept
        return None;
    }
    AT_EXIT
        .try_with(|_| {
            let slot = claim_slot();
            SLOT.set(Some(slot));
            slot
        })
        .ok()
}

/// Empties the lists of this thread.
fn release_lists(slot: &'static Slot) {
    let blocks = slot.blocks.iter().enumerate();
    let blocks = blocks.map(|(class, list)| (small_size(class), list));
    let cells = slot.cells.iter().enumerate();
    let cells = cells.map(|(class, list)| ((class + 1) * 64, list));
    for (size, list) in blocks.chain(cells) {
        // SAFETY: the slot is this thread's; memory on a list came from `system_allocate` with the
        // list's size.
        unsafe { list.drain(|ptr| system_free(ptr, size)) };
    }
}

/// What this thread has done: differences between two readings on one thread mean something, single
/// readings do not (a block may be freed on another thread than its own).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ThreadStats {
    /// Bytes allocated less bytes freed here.
    pub allocated_bytes: i64,
    /// Blocks handed out here.
    pub allocations: i64,
}

/// The counters of this thread.
///
/// ```
/// use straightline_runtime::memory::{allocate, thread_stats};
/// let before = thread_stats();
/// let block = allocate(1000)?;
/// assert!(thread_stats().allocated_bytes >= before.allocated_bytes + 1000);
/// drop(block);
/// assert_eq!(thread_stats().allocated_bytes, before.allocated_bytes);
/// # Ok::<(), straightline_runtime::memory::OutOfMemory>(())
/// ```
pub fn thread_stats() -> ThreadStats {
    // a thread that is ending has no slot any more
    let mut counts = Counts::default();
    if let Some(slot) = here() {
        slot.add_to(&mut counts);
    }
    ThreadStats { allocated_bytes: counts.allocated_bytes, allocations: counts.allocations }
}

/// A block of at least this many bytes, fresh or recycled.
///
/// ```
/// let block = straightline_runtime::memory::allocate(1000)?;
/// assert_eq!(block.as_ptr() as usize % 64, 0);
/// # Ok::<(), straightline_runtime::memory::OutOfMemory>(())
/// ```
#[inline]
pub fn allocate(bytes: usize) -> Result<Block, OutOfMemory> {
    if bytes > SMALL_LIMIT {
        return allocate_large(bytes);
    }
    if bytes == 0 {
        return Ok(Block { ptr: dangling(), bytes: 0 });
    }
    let class = small_class(bytes);
    let system = || system_allocate(small_size(class));
    let ptr = match here() {
        // SAFETY: the slot is this thread's.
        Some(slot) => unsafe { slot.blocks[class].take(system) },
        None => unlisted(bytes, small_size(class)),
    };
    match ptr {
        Some(ptr) => Ok(Block { ptr, bytes }),
        None => Err(OutOfMemory { bytes }),
    }
}

impl Drop for Block {
    #[inline]
    fn drop(&mut self) {
        if self.bytes == 0 {
        } else if self.bytes <= SMALL_LIMIT {
            free_small(self.ptr, self.bytes);
        } else {
            free_large(self.ptr, self.bytes);
        }
    }
}

#[inline]
fn free_small(ptr: NonNull<u8>, bytes: usize) {
    let class = small_class(bytes);
    // SAFETY: the slot is this thread's, and the block's memory is free now.
    let kept = here().is_some_and(|slot| unsafe { slot.blocks[class].give(ptr) });
    if !kept {
        // SAFETY: the block came from the system, as one of its class or as a guarded one, and
        // nothing uses it any more.
        unsafe { free_unlisted(ptr, bytes, small_size(class)) };
    }
}

/// A block of no list: a guarded one; or the thread is ending and its lists are gone, so it comes
/// straight from the system, uncounted.
#[cold]
fn unlisted(bytes: usize, size: usize) -> Option<NonNull<u8>> {
    match guard() {
        Some(mode) => mode.allocate(bytes),
        None => system_allocate(size),
    }
}

/// # Safety
///
/// The block was made for this many bytes, by `unlisted` or as one of `system_allocate(size)`, and
/// nothing uses it any more.
#[cold]
unsafe fn free_unlisted(ptr: NonNull<u8>, bytes: usize, size: usize) {
    // SAFETY: as promised by the caller; the mode does not change, so that a guarded block was made
    // as one.
    unsafe {
        match guard() {
            Some(mode) => mode.free(ptr, bytes),
            None => system_free(ptr, size),
        }
    }
}

#[cold]
fn allocate_large(bytes: usize) -> Result<Block, OutOfMemory> {
    let size = large_size(bytes).ok_or(OutOfMemory { bytes })?;
    if let Some(mode) = guard() {
        let ptr = mode.allocate(bytes).ok_or(OutOfMemory { bytes })?;
        return Ok(Block { ptr, bytes });
    }
    let (ptr, fresh) = match large::take(size) {
        Some(ptr) => (ptr, 0),
        None => (system_allocate(size).ok_or(OutOfMemory { bytes })?, 1),
    };
    // without a slot the thread is ending: nothing to count in
    if let Some(slot) = here() {
        bump(&slot.large.system_allocations, fresh);
        bump(&slot.large.live_bytes, size as i64);
        bump(&slot.large.live, 1);
        bump(&slot.large.allocations, 1);
    }
    Ok(Block { ptr, bytes })
}

#[cold]
fn free_large(ptr: NonNull<u8>, bytes: usize) {
    // SAFETY: they are those of a block that is being dropped.
    if unsafe { Block::drop_owner(ptr, bytes) } {
        return;
    }
    let Some(size) = large_size(bytes) else {
        return;
    };
    if let Some(mode) = guard() {
        // SAFETY: the block was made so, and nothing uses it any more.
        unsafe { mode.free(ptr, bytes) };
        return;
    }
    if let Some(slot) = here() {
        bump(&slot.large.live_bytes, -(size as i64));
        bump(&slot.large.live, -1);
    }
    let mut evicted = Vec::new();
    large::put(ptr, size, &mut evicted);
    release(evicted);
}

/// Gives the cached blocks of this thread, and all large ones, back to the system.
///
/// Small blocks that other threads keep stay theirs (at most 256 KiB per size class and thread).
pub fn empty_cache() {
    if let Some(slot) = SLOT.get() {
        release_lists(slot);
    }
    let mut blocks = Vec::new();
    large::drain(&mut blocks);
    release(blocks);
}

fn dangling() -> NonNull<u8> {
    NonNull::without_provenance(
        const { std::num::NonZeroUsize::new(ALIGNMENT).expect("64 is not 0") },
    )
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
