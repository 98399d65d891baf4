//! Memory from the system's allocator, and the way back.

use std::alloc::Layout;
use std::ptr::NonNull;

/// Every block starts at a multiple of this.
pub const ALIGNMENT: usize = 64;

/// The system has no memory for a block of this size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("out of memory: cannot allocate {bytes} bytes on the CPU")]
pub struct OutOfMemory {
    /// What was asked for.
    pub bytes: usize,
}

fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size, ALIGNMENT).ok()
}

/// Memory from the system, if it has any.
pub(super) fn system_memory(size: usize) -> Option<NonNull<u8>> {
    let layout = layout(size)?;
    #[cfg(miri)]
    // SAFETY: sizes are never 0 here.
    let ptr = unsafe { std::alloc::alloc_zeroed(layout) };
    #[cfg(not(miri))]
    // SAFETY: sizes are never 0 here.
    let ptr = unsafe { std::alloc::alloc(layout) };
    let ptr = NonNull::new(ptr)?;
    #[cfg(not(miri))]
    // SAFETY: no instructions. To the compiler the block may have been written here, which makes
    // its contents initialised: the assembly stands for "store arbitrary bytes", a thing this code
    // could do soundly.
    unsafe {
        std::arch::asm!("/* {} */", in(reg) ptr.as_ptr(), options(nostack, preserves_flags));
    }
    Some(ptr)
}

/// # Safety
///
/// `ptr` came from `system_allocate(size)`, and nothing uses the block any more.
pub(super) unsafe fn system_free(ptr: NonNull<u8>, size: usize) {
    if let Some(layout) = layout(size) {
        // SAFETY: the layout is the one it was allocated with.
        unsafe { std::alloc::dealloc(ptr.as_ptr(), layout) };
    }
}

/// Gives large blocks back to the system.
pub(super) fn release(blocks: Vec<(NonNull<u8>, usize)>) {
    for (ptr, size) in blocks {
        // SAFETY: the cache held these as free blocks of `system_allocate(size)`.
        unsafe { system_free(ptr, size) };
    }
}
