//! [`Block`], and the two paths that make and recycle one.

use super::large;
use super::size_class::{SMALL_CLASSES, SMALL_LIMIT, large_size, small_class, small_size};
use super::stats::{Slot, bump, claim_slot, release_slot};
use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// Every block starts at a multiple of this.
pub const ALIGNMENT: usize = 64;

/// The bytes of one class that a thread keeps; one block is always kept.
const THREAD_CLASS_BYTES: u32 = 256 << 10;

/// The system has no memory for a block of this size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("out of memory: cannot allocate {bytes} bytes on the CPU")]
pub struct OutOfMemory {
    /// What was asked for.
    pub bytes: usize,
}

/// Memory of a tensor: owned, 64-byte aligned, contents unspecified at first (see the [module](super)).
///
/// Dropping it gives the memory to the cache, on any thread.
#[derive(Debug)]
pub struct Block {
    ptr: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a block owns its memory; the free lists it returns to are those of the dropping thread.
unsafe impl Send for Block {}
// SAFETY: a shared block gives out a raw pointer and a length, nothing else.
unsafe impl Sync for Block {}

impl Block {
    /// The first byte. Dangling, but aligned, for a block of no bytes.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// The bytes asked for.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

/// A freed small block: the list runs through the memory itself.
struct FreeBlock {
    next: *mut FreeBlock,
}

#[derive(Clone, Copy)]
struct List {
    head: *mut FreeBlock,
    len: u32,
}

const EMPTY: List = List {
    head: std::ptr::null_mut(),
    len: 0,
};

/// What a thread keeps.
struct Local {
    lists: [Cell<List>; SMALL_CLASSES],
    slot: Cell<Option<&'static Slot>>,
}

thread_local! {
    static LOCAL: Local = const {
        Local {
            lists: [const { Cell::new(EMPTY) }; SMALL_CLASSES],
            slot: Cell::new(None),
        }
    };
}

impl Local {
    #[inline]
    fn slot(&self) -> &'static Slot {
        match self.slot.get() {
            Some(slot) => slot,
            None => self.first_slot(),
        }
    }

    #[cold]
    fn first_slot(&self) -> &'static Slot {
        let slot = claim_slot();
        self.slot.set(Some(slot));
        slot
    }

    fn release_lists(&self) {
        for (class, list) in self.lists.iter().enumerate() {
            let size = small_size(class);
            let List { mut head, len } = list.replace(EMPTY);
            bump(&self.slot().cached_bytes, -(i64::from(len) * size as i64));
            while let Some(block) = NonNull::new(head) {
                // SAFETY: blocks on the list are free memory of this class that `free_small` linked.
                unsafe {
                    head = block.as_ref().next;
                    system_free(block.cast(), size);
                }
            }
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.get() {
            self.release_lists();
            release_slot(slot);
        }
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
    LOCAL
        .try_with(|l| {
            let slot = l.slot();
            ThreadStats {
                allocated_bytes: slot.allocated_bytes.load(Ordering::Relaxed),
                allocations: slot.allocations.load(Ordering::Relaxed),
            }
        })
        .unwrap_or_default()
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
        return Ok(Block {
            ptr: dangling(),
            bytes: 0,
        });
    }
    let class = small_class(bytes);
    LOCAL
        .try_with(|local| {
            let list = local.lists[class].get();
            let slot = local.slot();
            let size = small_size(class) as i64;
            let ptr = match NonNull::new(list.head) {
                Some(head) => {
                    // SAFETY: the head of the list is free memory that `free_small` linked.
                    let next = unsafe { head.as_ref().next };
                    local.lists[class].set(List {
                        head: next,
                        len: list.len - 1,
                    });
                    bump(&slot.cached_bytes, -size);
                    head.cast()
                }
                None => {
                    let ptr = system_allocate(small_size(class)).ok_or(OutOfMemory { bytes })?;
                    bump(&slot.system_allocations, 1);
                    ptr
                }
            };
            bump(&slot.allocated_bytes, size);
            bump(&slot.blocks, 1);
            bump(&slot.allocations, 1);
            Ok(Block { ptr, bytes })
        })
        // the thread is ending and its lists are gone: straight to the system, uncounted
        .unwrap_or_else(|_| {
            let ptr = system_allocate(small_size(class)).ok_or(OutOfMemory { bytes })?;
            Ok(Block { ptr, bytes })
        })
}

impl Drop for Block {
    #[inline]
    fn drop(&mut self) {
        if self.bytes == 0 {
        } else if self.bytes <= SMALL_LIMIT {
            free_small(self.ptr, small_class(self.bytes));
        } else {
            free_large(self.ptr, self.bytes);
        }
    }
}

#[inline]
fn free_small(ptr: NonNull<u8>, class: usize) {
    let size = small_size(class);
    let kept = LOCAL.try_with(|local| {
        let slot = local.slot();
        bump(&slot.allocated_bytes, -(size as i64));
        bump(&slot.blocks, -1);
        let list = local.lists[class].get();
        if list.len != 0 && (list.len + 1) * size as u32 > THREAD_CLASS_BYTES {
            return false;
        }
        let block = ptr.cast::<FreeBlock>();
        // SAFETY: the block is ours now, at least 64 bytes long and aligned to 64.
        unsafe { block.write(FreeBlock { next: list.head }) };
        local.lists[class].set(List {
            head: block.as_ptr(),
            len: list.len + 1,
        });
        bump(&slot.cached_bytes, size as i64);
        true
    });
    if kept != Ok(true) {
        // SAFETY: the block came from `system_allocate(size)` and nothing uses it any more.
        unsafe { system_free(ptr, size) };
    }
}

#[cold]
fn allocate_large(bytes: usize) -> Result<Block, OutOfMemory> {
    let size = large_size(bytes).ok_or(OutOfMemory { bytes })?;
    let (ptr, fresh) = match large::take(size) {
        Some(ptr) => (ptr, 0),
        None => (system_allocate(size).ok_or(OutOfMemory { bytes })?, 1),
    };
    // a failure means that the thread is ending: nothing to count in
    let _ = LOCAL.try_with(|local| {
        let slot = local.slot();
        bump(&slot.system_allocations, fresh);
        bump(&slot.allocated_bytes, size as i64);
        bump(&slot.blocks, 1);
        bump(&slot.allocations, 1);
    });
    Ok(Block { ptr, bytes })
}

#[cold]
fn free_large(ptr: NonNull<u8>, bytes: usize) {
    let Some(size) = large_size(bytes) else {
        return;
    };
    let _ = LOCAL.try_with(|local| {
        let slot = local.slot();
        bump(&slot.allocated_bytes, -(size as i64));
        bump(&slot.blocks, -1);
    });
    let mut evicted = Vec::new();
    large::put(ptr, size, &mut evicted);
    release(evicted);
}

/// Gives the cached blocks of this thread, and all large ones, back to the system.
///
/// Small blocks that other threads keep stay theirs (at most 256 KiB per size class and thread).
pub fn empty_cache() {
    let _ = LOCAL.try_with(|local| {
        if local.slot.get().is_some() {
            local.release_lists();
        }
    });
    let mut blocks = Vec::new();
    large::drain(&mut blocks);
    release(blocks);
}

/// Gives large blocks back to the system.
pub(super) fn release(blocks: Vec<(NonNull<u8>, usize)>) {
    for (ptr, size) in blocks {
        // SAFETY: the cache held these as free blocks of `system_allocate(size)`.
        unsafe { system_free(ptr, size) };
    }
}

fn dangling() -> NonNull<u8> {
    NonNull::without_provenance(
        const { std::num::NonZeroUsize::new(ALIGNMENT).expect("64 is not 0") },
    )
}

fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size, ALIGNMENT).ok()
}

/// Memory from the system; when there is none, once more after emptying the caches.
#[cold]
fn system_allocate(size: usize) -> Option<NonNull<u8>> {
    let layout = layout(size)?;
    raw_allocate(layout).or_else(|| {
        let mut blocks = Vec::new();
        large::drain(&mut blocks);
        release(blocks);
        raw_allocate(layout)
    })
}

fn raw_allocate(layout: Layout) -> Option<NonNull<u8>> {
    #[cfg(miri)]
    // SAFETY: sizes are never 0 here.
    let ptr = unsafe { std::alloc::alloc_zeroed(layout) };
    #[cfg(not(miri))]
    // SAFETY: sizes are never 0 here.
    let ptr = unsafe { std::alloc::alloc(layout) };
    let ptr = NonNull::new(ptr)?;
    #[cfg(not(miri))]
    // SAFETY: no instructions. To the compiler the block may have been written here, which makes its contents
    // initialised: the assembly stands for "store arbitrary bytes", a thing this code could do soundly.
    unsafe {
        std::arch::asm!("/* {} */", in(reg) ptr.as_ptr(), options(nostack, preserves_flags));
    }
    Some(ptr)
}

/// # Safety
///
/// `ptr` came from `system_allocate(size)`, and nothing uses the block any more.
unsafe fn system_free(ptr: NonNull<u8>, size: usize) {
    if let Some(layout) = layout(size) {
        // SAFETY: the layout is the one it was allocated with.
        unsafe { std::alloc::dealloc(ptr.as_ptr(), layout) };
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
