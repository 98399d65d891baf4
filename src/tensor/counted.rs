//! Reference-counted values in memory from the thread's free lists.
//!
//! `Arc` with two differences that small operators feel. The memory is a cell or a block of the
//! runtime's allocator, not one of the system's. And dropping the only handle takes a plain load
//! and no locked instruction: with a count of one, no other handle exists from which the count
//! could grow.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

/// A value beside its count.
#[repr(C)]
pub(super) struct Cell<T> {
    count: AtomicUsize,
    pub(super) value: T,
}

/// Values that know where the memory of their cells goes.
pub(super) trait InCell: Sized {
    /// What [`InCell::release`] must know about the value, which is dropped by then.
    fn extent(&self) -> usize;

    /// Gives the memory of a cell back.
    ///
    /// # Safety
    ///
    /// A [`Counted`] was made in `cell`; its value said `extent` and has been dropped; nothing uses
    /// the cell.
    unsafe fn release(cell: NonNull<Cell<Self>>, extent: usize);
}

/// A shared handle to a value.
pub(super) struct Counted<T: InCell> {
    cell: NonNull<Cell<T>>,
    owns: PhantomData<T>,
}

// SAFETY: as for `Arc`: handles on several threads share the value, and the last one drops it.
unsafe impl<T: InCell + Send + Sync> Send for Counted<T> {}
// SAFETY: as above.
unsafe impl<T: InCell + Send + Sync> Sync for Counted<T> {}

impl<T: InCell> Counted<T> {
    /// The first handle to the value in a cell.
    ///
    /// # Safety
    ///
    /// `cell` is memory as [`InCell::release`] expects it, owned by the caller, and its `value` is
    /// initialised.
    #[inline(always)]
    pub(super) unsafe fn adopt(cell: NonNull<Cell<T>>) -> Counted<T> {
        // SAFETY: the memory is ours.
        unsafe { (&raw mut (*cell.as_ptr()).count).write(AtomicUsize::new(1)) };
        Counted { cell, owns: PhantomData }
    }

    #[inline]
    pub(super) fn same(&self, other: &Counted<T>) -> bool {
        self.cell == other.cell
    }

    #[inline]
    pub(super) fn address(&self) -> usize {
        self.cell.as_ptr() as usize
    }

    /// How many handles there are. Others may come and go meanwhile, unless it is one.
    #[inline]
    pub(super) fn handles(&self) -> usize {
        self.count().load(Ordering::Acquire)
    }

    /// The value, of which there is no other handle.
    #[inline(always)]
    pub(super) fn get_mut(&mut self) -> Option<&mut T> {
        match self.handles() {
            // SAFETY: this is the only handle, borrowed exclusively, and others come from it alone.
            1 => Some(unsafe { &mut (*self.cell.as_ptr()).value }),
            _ => None,
        }
    }

    #[inline(always)]
    fn count(&self) -> &AtomicUsize {
        // SAFETY: the cell lives as long as there are handles.
        unsafe { &(*self.cell.as_ptr()).count }
    }

    #[cold]
    #[inline(never)]
    fn end(&mut self) {
        // SAFETY: the last handle is being dropped, so the value is nobody else's.
        unsafe {
            let value = &raw mut (*self.cell.as_ptr()).value;
            let extent = (*value).extent();
            value.drop_in_place();
            T::release(self.cell, extent);
        }
    }
}

impl<T: InCell> Deref for Counted<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the cell lives as long as there are handles, and is only ever shared.
        unsafe { &(*self.cell.as_ptr()).value }
    }
}

impl<T: InCell> Clone for Counted<T> {
    #[inline]
    fn clone(&self) -> Self {
        // Relaxed: the new handle comes from one that is alive
        let old = self.count().fetch_add(1, Ordering::Relaxed);
        if old > isize::MAX as usize {
            // only forgotten handles get here; going on would end in a use after free
            std::process::abort();
        }
        Counted { cell: self.cell, owns: PhantomData }
    }
}

impl<T: InCell> Drop for Counted<T> {
    #[inline]
    fn drop(&mut self) {
        // Acquire: what the dropped handles did to the value is over.
        if self.handles() == 1 {
            self.end();
        } else if self.count().fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            self.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Says in the `Arc` how often it was dropped.
    struct Witness(Arc<AtomicUsize>, usize);

    impl InCell for Witness {
        fn extent(&self) -> usize {
            self.1
        }

        unsafe fn release(cell: NonNull<Cell<Witness>>, extent: usize) {
            assert_eq!(extent, 7);
            // SAFETY: `witness` takes it from a box, and it holds no value any more.
            unsafe {
                drop(Box::from_raw(cell.cast::<std::mem::MaybeUninit<Cell<Witness>>>().as_ptr()))
            };
        }
    }

    fn witness(drops: &Arc<AtomicUsize>) -> Counted<Witness> {
        let cell = Box::new(Cell { count: AtomicUsize::new(0), value: Witness(drops.clone(), 7) });
        // SAFETY: the cell is fresh from a box, where `release` puts it back.
        unsafe { Counted::adopt(NonNull::from(Box::leak(cell))) }
    }

    #[test]
    fn the_last_handle_drops_the_value_once() {
        let drops = Arc::new(AtomicUsize::new(0));
        let a = witness(&drops);
        let b = a.clone();
        assert!(a.same(&b) && a.address() == b.address());
        assert_eq!(Arc::strong_count(&drops), 2);
        drop(a);
        assert_eq!(Arc::strong_count(&b.0), 2);
        drop(b);
        assert_eq!(Arc::strong_count(&drops), 1);
    }

    #[test]
    fn handles_cross_threads() {
        let drops = Arc::new(AtomicUsize::new(0));
        let rounds = if cfg!(miri) { 5 } else { 200 };
        for _ in 0..rounds {
            let first = witness(&drops);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    let mine = first.clone();
                    scope.spawn(move || {
                        mine.0.fetch_add(1, Ordering::Relaxed);
                        drop(mine.clone());
                    });
                }
                drop(first);
            });
        }
        assert_eq!(drops.load(Ordering::Relaxed), 3 * rounds);
        assert_eq!(Arc::strong_count(&drops), 1);
    }
}
