//! Storage: the bytes that tensors share, with a borrow state and a version.
//!
//! Safe code must not be able to cause a data race or an aliased write through tensors, although
//! tensors are freely cloned, sent and mutated in place. So a storage counts its readers and its
//! writer as a `RefCell` does, atomically, once per kernel call: a second writer, or a reader
//! beside a writer, is an error ([`ErrorKind::Busy`]), never undefined behaviour.

use crate::error::{ErrorKind, Result};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use straightline_runtime::memory::{Block, allocate};
// no weak count: dropping the last handle is one atomic operation less
use triomphe::Arc;

/// Reference-counted bytes.
#[derive(Clone)]
pub(crate) struct Storage(Arc<Inner>);

struct Inner {
    /// `None` for tensors that have a shape and no data (Meta, fake).
    block: Option<Block>,
    bytes: usize,
    /// Readers, or `-1` while written.
    borrow: AtomicI32,
    /// Bumped by each write: plans repack weights and autograd checks saved tensors by it.
    version: AtomicU64,
}

impl Storage {
    /// Fresh memory; its contents are whatever was there.
    pub(crate) fn allocate(bytes: usize) -> Result<Storage> {
        let block = allocate(bytes)?;
        Ok(Storage(Arc::new(Inner {
            block: Some(block),
            bytes,
            borrow: AtomicI32::new(0),
            version: AtomicU64::new(0),
        })))
    }

    /// A storage of a size, without bytes.
    pub(crate) fn without_data(bytes: usize) -> Storage {
        Storage(Arc::new(Inner {
            block: None,
            bytes,
            borrow: AtomicI32::new(0),
            version: AtomicU64::new(0),
        }))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes
    }

    pub(crate) fn has_data(&self) -> bool {
        self.0.block.is_some()
    }

    /// The first byte. Reading or writing through it requires a guard of this storage, or being
    /// the only one who holds it.
    pub(crate) fn ptr(&self) -> Option<*mut u8> {
        self.0.block.as_ref().map(|b| b.as_ptr())
    }

    pub(crate) fn version(&self) -> u64 {
        self.0.version.load(Ordering::Relaxed)
    }

    /// Tells storages apart, as long as they live.
    pub(crate) fn id(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    pub(crate) fn same(&self, other: &Storage) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Shared access until the guard is dropped.
    #[inline]
    pub(crate) fn read(&self) -> Result<ReadGuard<'_>> {
        let old = self.0.borrow.fetch_add(1, Ordering::Acquire);
        if old < 0 {
            self.0.borrow.fetch_sub(1, Ordering::Release);
            return Err(ErrorKind::Busy("written").into());
        }
        Ok(ReadGuard(&self.0))
    }

    /// Exclusive access until the guard is dropped; counts as a new version.
    #[inline]
    pub(crate) fn write(&self) -> Result<WriteGuard<'_>> {
        // i32::MIN leaves room for readers that knock and back off while the write lasts.
        match self
            .0
            .borrow
            .compare_exchange(0, i32::MIN, Ordering::Acquire, Ordering::Relaxed)
        {
            Ok(_) => {
                self.0.version.fetch_add(1, Ordering::Relaxed);
                Ok(WriteGuard(&self.0))
            }
            Err(n) => Err(ErrorKind::Busy(if n < 0 { "written" } else { "read" }).into()),
        }
    }
}

/// Shared access to a storage.
pub(crate) struct ReadGuard<'a>(&'a Inner);

impl Drop for ReadGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.borrow.fetch_sub(1, Ordering::Release);
    }
}

/// Exclusive access to a storage.
pub(crate) struct WriteGuard<'a>(&'a Inner);

impl Drop for WriteGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // Readers that knocked meanwhile have added and will subtract one each: only our own
        // part is taken back.
        self.0.borrow.fetch_sub(i32::MIN, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_and_writers_do_not() {
        let s = Storage::allocate(16).unwrap();
        let r1 = s.read().unwrap();
        let r2 = s.read().unwrap();
        assert!(s.write().is_err());
        drop((r1, r2));
        let w = s.write().unwrap();
        assert!(s.read().is_err());
        assert!(s.write().is_err());
        drop(w);
        assert!(s.read().is_ok());
        assert_eq!(s.version(), 1);
    }
}
