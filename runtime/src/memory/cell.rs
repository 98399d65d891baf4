//! Cells: memory for the small fixed parts of a tensor, from the thread's free lists.
//!
//! An eager operator on a few elements is mostly the making and dropping of its result. The
//! system's allocator takes some 20 ns for a pair of allocations; a list of one size takes two or
//! three. Cells hold no data, and are in no statistics.

use super::allocator::here;
use super::large::system_allocate;
use super::list::CELL_CLASSES;
use super::system::{OutOfMemory, system_free};
use std::ptr::NonNull;

/// The largest cell.
pub const MAX_CELL_BYTES: usize = CELL_CLASSES * 64;

const fn class(bytes: usize) -> usize {
    assert!(bytes != 0 && bytes <= MAX_CELL_BYTES);
    (bytes - 1) / 64
}

/// Memory for a cell of `BYTES`, aligned to 64, contents unspecified. [`give_cell`] takes it back,
/// on any thread.
///
/// ```
/// use straightline_runtime::memory::{give_cell, take_cell};
/// let cell = take_cell::<100>()?;
/// assert_eq!(cell.as_ptr() as usize % 64, 0);
/// // SAFETY: just taken, with the same size, and not used.
/// unsafe { give_cell::<100>(cell) };
/// # Ok::<(), straightline_runtime::memory::OutOfMemory>(())
/// ```
///
/// # Errors
///
/// The system has no memory.
#[inline]
pub fn take_cell<const BYTES: usize>() -> Result<NonNull<u8>, OutOfMemory> {
    let class = const { class(BYTES) };
    let system = || system_allocate((class + 1) * 64);
    match here() {
        // SAFETY: the slot is this thread's.
        Some(slot) => unsafe { slot.cells[class].take(system) },
        None => system(),
    }
    .ok_or(OutOfMemory { bytes: BYTES })
}

/// Takes a cell back.
///
/// # Safety
///
/// `cell` came from [`take_cell`] with the same `BYTES`, and nothing uses it any more.
#[inline]
pub unsafe fn give_cell<const BYTES: usize>(cell: NonNull<u8>) {
    let class = const { class(BYTES) };
    // SAFETY: the slot is this thread's; the caller gives the cell up.
    let kept = here().is_some_and(|slot| unsafe { slot.cells[class].give(cell) });
    if !kept {
        // SAFETY: cells of this class were allocated with this size.
        unsafe { system_free(cell, (class + 1) * 64) };
    }
}
