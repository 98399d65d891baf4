//! [`Block`], which owns memory. `allocator.rs` makes it and takes it back.

use std::ptr::NonNull;

/// Memory of a tensor: owned, 64-byte aligned, contents unspecified at first (see the
/// [module](super)).
///
/// Dropping it gives the memory to the cache, on any thread.
#[derive(Debug)]
pub struct Block {
    pub(super) ptr: NonNull<u8>,
    pub(super) bytes: usize,
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

    /// Takes the block apart; [`Block::from_raw`] puts it together again.
    #[inline]
    pub fn into_raw(self) -> (NonNull<u8>, usize) {
        let parts = (self.ptr, self.bytes);
        std::mem::forget(self);
        parts
    }

    /// The block that [`Block::into_raw`] took apart.
    ///
    /// # Safety
    ///
    /// Address and length are those of one `into_raw`, which no other block was made of since.
    #[inline]
    pub unsafe fn from_raw(ptr: NonNull<u8>, bytes: usize) -> Block {
        Block { ptr, bytes }
    }
}
