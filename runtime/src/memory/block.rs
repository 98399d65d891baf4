//! [`Block`], which owns memory. `allocator.rs` makes it and takes it back.

use std::any::Any;
use std::ptr::NonNull;

/// The bit of `bytes` that is set of a block which owns something else than memory of this allocator.
const FOREIGN: usize = 1 << (usize::BITS - 1);

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
    /// A block in place of one of this allocator: it owns a value that stands for memory elsewhere, and
    /// has no bytes of its own.
    ///
    /// ```
    /// use straightline_runtime::memory::Block;
    /// let block = Block::foreign(Box::new(7u64));
    /// assert_eq!(block.owner().and_then(|o| o.downcast_ref::<u64>()), Some(&7));
    /// assert_eq!(block.len(), 0);
    /// ```
    pub fn foreign(owner: Box<dyn Any + Send + Sync>) -> Block {
        let ptr = NonNull::from(Box::leak(Box::new(owner))).cast();
        Block { ptr, bytes: FOREIGN }
    }

    /// What a [`Block::foreign`] owns.
    #[inline]
    pub fn owner(&self) -> Option<&(dyn Any + Send + Sync)> {
        if self.bytes != FOREIGN {
            return None;
        }
        // SAFETY: `foreign` made the address of such a box, which lives as long as the block.
        let owner = unsafe { self.ptr.cast::<Box<dyn Any + Send + Sync>>().as_ref() };
        Some(&**owner)
    }

    /// Drops the value of a foreign block, if it is one.
    ///
    /// # Safety
    ///
    /// `ptr` and `bytes` are those of a block that is being dropped.
    #[inline]
    pub(super) unsafe fn drop_owner(ptr: NonNull<u8>, bytes: usize) -> bool {
        if bytes != FOREIGN {
            return false;
        }
        // SAFETY: `foreign` leaked this box, and nobody has it any more.
        drop(unsafe { Box::from_raw(ptr.cast::<Box<dyn Any + Send + Sync>>().as_ptr()) });
        true
    }

    /// The first byte. Dangling, but aligned, for a block of no bytes.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// The bytes asked for.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes & !FOREIGN
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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
