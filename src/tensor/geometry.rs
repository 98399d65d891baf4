//! Sizes, strides, offset and storage that change in place (`resize_`, `t_`, an `out` of another
//! shape).
//!
//! A tensor is made with a geometry stored inline (`shape`). A change allocates another one, and
//! the accessors of `Tensor` use that instead. Old geometries live as long as the tensor, so that
//! borrowed slices stay valid, and a geometry that recurs is reused: `t_()` in a loop allocates
//! nothing.
//!
//! Kernels look at sizes, strides and pointers one after another, so a change on another thread
//! in between would be undefined behaviour. Therefore a shape changes only
//!
//! - on the thread that made the storage, under exclusive access to it, and
//! - while no other thread has ever entered the storage;
//!
//! and a kernel on another thread gets no access through a tensor whose shape has ever changed: it
//! takes a handle of its own (`detach`), which copies the shape. Change and access each announce
//! themselves and then look for the other, with a full fence between the two steps. A handle that
//! is made from a half-seen shape is held to the storage's bounds (`Tensor::build_with`).

use super::storage::{self, Storage};
use super::{Tensor, TensorImpl};
use crate::error::{Error, ErrorKind, Result};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use straightline_catalog::{Dims, layout};

/// The geometry that accessors use in place of the tensor's first one.
pub(super) struct Geometry {
    pub(super) sizes: Dims,
    pub(super) strides: Dims,
    pub(super) offset: i64,
    pub(super) numel: i64,
    pub(super) contiguous: bool,
    pub(super) storage: Storage,
    /// The one made before it.
    before: *mut Geometry,
}

/// The changes that a tensor has seen.
pub(super) struct Changes {
    /// Announced before `current` is set, and kept.
    changed: AtomicBool,
    /// Null for the geometry that the tensor was made with.
    current: AtomicPtr<Geometry>,
    /// The youngest of all. Used by the thread that may change shapes, under exclusive access, and
    /// by the last owner.
    all: AtomicPtr<Geometry>,
}

/// No changes, or a box of them.
pub(super) struct Replaced(AtomicPtr<Changes>);

// SAFETY: what lies behind the pointer is shared by atomics, and geometries never change once they
// are published.
unsafe impl Send for Replaced {}
// SAFETY: as above.
unsafe impl Sync for Replaced {}

impl Replaced {
    #[inline(always)]
    pub(super) const fn none() -> Replaced {
        Replaced(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline(always)]
    fn changes(&self) -> Option<&Changes> {
        let p = self.0.load(Ordering::Acquire);
        if p.is_null() {
            return None;
        }
        // SAFETY: set once, to a box that `drop` frees.
        Some(unsafe { &*p })
    }

    /// The geometry that stands in for the first one.
    #[inline(always)]
    pub(super) fn current(&self) -> Option<&Geometry> {
        match self.changes() {
            None => None,
            Some(changes) => changes.now(),
        }
    }

    /// Whether there has ever been a change.
    #[inline(always)]
    pub(super) fn any(&self) -> bool {
        self.changes().is_some_and(|c| c.changed.load(Ordering::Relaxed))
    }

    /// The changes, allocated if there are none. The caller has exclusive access.
    fn changes_or_new(&self) -> &Changes {
        if let Some(changes) = self.changes() {
            return changes;
        }
        let fresh = Box::into_raw(Box::new(Changes {
            changed: AtomicBool::new(false),
            current: AtomicPtr::new(ptr::null_mut()),
            all: AtomicPtr::new(ptr::null_mut()),
        }));
        let free =
            self.0.compare_exchange(ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire);
        match free {
            // SAFETY: published just now, freed by `drop`.
            Ok(_) => unsafe { &*fresh },
            Err(other) => {
                // SAFETY: `fresh` was not published; `other` is freed by `drop`.
                unsafe {
                    drop(Box::from_raw(fresh));
                    &*other
                }
            }
        }
    }
}

impl Changes {
    #[cold]
    fn now(&self) -> Option<&Geometry> {
        let p = self.current.load(Ordering::Acquire);
        // SAFETY: geometries live as long as the changes, and are not written once they are
        // published.
        unsafe { p.as_ref() }
    }

    /// All geometries, the youngest first.
    fn find(&self, like: &Geometry) -> Option<*mut Geometry> {
        let mut at = self.all.load(Ordering::Relaxed);
        // SAFETY: as for `now`.
        while let Some(g) = unsafe { at.as_ref() } {
            if g.sizes == like.sizes
                && g.strides == like.strides
                && g.offset == like.offset
                && g.storage.same(&like.storage)
            {
                return Some(at);
            }
            at = g.before;
        }
        None
    }
}

impl Drop for Replaced {
    #[inline]
    fn drop(&mut self) {
        #[cold]
        fn free(p: *mut Changes) {
            // SAFETY: the last owner drops the tensor; boxes made by `changes_or_new` and
            // `set_geometry`.
            unsafe {
                let changes = Box::from_raw(p);
                let mut at = changes.all.load(Ordering::Relaxed);
                while !at.is_null() {
                    at = Box::from_raw(at).before;
                }
            }
        }
        let p = *self.0.get_mut();
        if !p.is_null() {
            free(p);
        }
    }
}

impl TensorImpl {
    /// Whether geometry `g` is the one that the tensor was made with.
    fn is_first(&self, g: &Geometry) -> bool {
        self.shape.sizes() == g.sizes.as_slice()
            && self.shape.strides() == g.strides.as_slice()
            && self.offset == g.offset
            && self.storage.same(&g.storage)
    }
}

impl Tensor {
    /// Gives this tensor, and all handles to it, another geometry over its storage, which grows
    /// where that is needed.
    pub(crate) fn set_geometry(&self, sizes: &[i64], strides: &[i64], offset: i64) -> Result<()> {
        if self.sizes() == sizes && self.strides() == strides && self.storage_offset() == offset {
            return Ok(());
        }
        self.replace_geometry(self.storage().clone(), sizes, strides, offset)
    }

    /// [`Tensor::set_geometry`] over another storage, of this tensor's dtype and device.
    pub(crate) fn replace_geometry(
        &self,
        storage: Storage,
        sizes: &[i64],
        strides: &[i64],
        offset: i64,
    ) -> Result<()> {
        debug_assert_eq!(sizes.len(), strides.len());
        let bytes = layout::checked_extent(sizes, strides, offset)
            .and_then(|n| n.checked_mul(self.dtype().size()))
            .filter(|n| *n <= isize::MAX as usize)
            .ok_or_else(|| {
                Error::shape(format!(
                    "sizes {sizes:?} with strides {strides:?} at {offset} reach further than can be addressed"
                ))
            })?;
        let old = self.storage().clone();
        let target = storage.clone();
        let (hold, other) = storage::hold(&old, (!target.same(&old)).then_some(&target))?;
        if !old.is_private() || !storage.is_private() {
            return Err(self.shared_between_threads("its shape cannot change in place"));
        }
        let changes = self.0.replaced.changes_or_new();
        let before = changes.changed.swap(true, Ordering::SeqCst);
        // orders the announcement before the look at who has entered meanwhile
        if !old.is_private() || !storage.is_private() {
            changes.changed.store(before, Ordering::Relaxed);
            return Err(self.shared_between_threads("its shape cannot change in place"));
        }
        let done = storage.grow(bytes, other.as_ref().unwrap_or(&hold));
        if let Err(e) = done {
            changes.changed.store(before, Ordering::Relaxed);
            return Err(e);
        }
        drop(other);
        let new = Geometry {
            sizes: Dims::from_slice(sizes),
            strides: Dims::from_slice(strides),
            offset,
            numel: layout::numel(sizes),
            contiguous: layout::is_contiguous(sizes, strides),
            storage,
            before: changes.all.load(Ordering::Relaxed),
        };
        let at = if self.0.is_first(&new) {
            ptr::null_mut()
        } else if let Some(known) = changes.find(&new) {
            known
        } else {
            let at = Box::into_raw(Box::new(new));
            changes.all.store(at, Ordering::Relaxed);
            at
        };
        changes.current.store(at, Ordering::Release);
        drop(hold);
        Ok(())
    }

    /// Whether the shape has ever changed in place.
    #[inline(always)]
    pub(crate) fn is_reshaped(&self) -> bool {
        self.0.replaced.any()
    }

    /// Whether these are the sizes and strides.
    #[inline(always)]
    pub(crate) fn lies_as(&self, sizes: &[i64], strides: &[i64]) -> bool {
        match self.0.replaced.current() {
            None => self.0.shape.is(sizes, strides),
            Some(g) => g.sizes[..] == *sizes && g.strides[..] == *strides,
        }
    }

    /// Whether it is contiguous and has these sizes, which are all larger than 1: then its strides
    /// follow.
    #[inline(always)]
    pub(crate) fn is_dense_of(&self, sizes: &[i64]) -> bool {
        match self.0.replaced.current() {
            None => self.0.contiguous && self.0.shape.has_sizes(sizes),
            Some(g) => g.contiguous && g.sizes[..] == *sizes,
        }
    }

    /// A check that a kernel must make after taking access to the storage and before it trusts
    /// sizes and strides.
    #[inline(always)]
    pub(crate) fn check_settled(&self) -> Result<()> {
        if self.is_reshaped() {
            return self.check_home();
        }
        Ok(())
    }

    #[cold]
    fn check_home(&self) -> Result<()> {
        if self.storage().is_home() {
            return Ok(());
        }
        Err(self.shared_between_threads("its shape has changed in place"))
    }

    #[cold]
    fn shared_between_threads(&self, what: &'static str) -> Error {
        ErrorKind::ShapeOfSharedTensor { what, sizes: self.sizes().to_vec() }.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(n: i64) -> Tensor {
        Tensor::from_vec((0..n).collect::<Vec<i64>>(), -1).unwrap()
    }

    #[test]
    fn every_handle_sees_the_new_shape_and_old_slices_stay() {
        let x = counted(6);
        let (same, old) = (x.clone(), x.sizes());
        x.set_geometry(&[2, 3], &[3, 1], 0).unwrap();
        assert_eq!((same.sizes(), same.dim(), old), (&[2, 3][..], 2, &[6][..]));
        x.set_geometry(&[3, 2], &[1, 3], 0).unwrap();
        assert!(!same.is_contiguous());
        assert_eq!(same.to_vec::<i64>().unwrap(), [0, 3, 1, 4, 2, 5]);
        x.set_geometry(&[6], &[1], 0).unwrap();
        assert!(x.0.replaced.current().is_none() && x.is_reshaped());
    }

    #[test]
    fn a_shape_that_comes_again_is_used_again() {
        let x = counted(6);
        let mut seen = Vec::new();
        for _ in 0..3 {
            x.set_geometry(&[2, 3], &[3, 1], 0).unwrap();
            seen.push(x.sizes().as_ptr());
            x.set_geometry(&[3, 2], &[1, 3], 0).unwrap();
        }
        assert_eq!(seen[0], seen[2]);
    }

    #[test]
    fn the_storage_grows_and_keeps_what_was_there() {
        let x = counted(3);
        let view = x.with_geometry(Dims::from_slice(&[2]), Dims::from_slice(&[1]), 1);
        x.set_geometry(&[1000], &[1], 0).unwrap();
        assert_eq!(x.numel(), 1000);
        assert_eq!(x.to_vec::<i64>().unwrap()[..3], [0, 1, 2]);
        assert_eq!(view.to_vec::<i64>().unwrap(), [1, 2]);
        assert!(x.set_geometry(&[i64::MAX], &[2], 0).is_err());
    }

    #[test]
    fn a_shape_does_not_change_under_a_kernel() {
        let x = counted(4);
        let reading = x.storage().read().unwrap();
        assert!(x.set_geometry(&[2, 2], &[2, 1], 0).is_err());
        drop(reading);
        assert!(x.set_geometry(&[2, 2], &[2, 1], 0).is_ok());
    }

    #[test]
    fn other_threads_take_a_handle_of_their_own() {
        let x = counted(4);
        x.set_geometry(&[2, 2], &[1, 2], 0).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(x.set_geometry(&[4], &[1], 0).is_err(), "made elsewhere");
                let e = x.to_vec::<i64>().unwrap_err();
                assert!(e.to_string().contains("detach"), "{e}");
                let own = x.detach().unwrap();
                assert_eq!(own.to_vec::<i64>().unwrap(), [0, 2, 1, 3]);
            });
        });
        assert_eq!(x.to_vec::<i64>().unwrap(), [0, 2, 1, 3]);
        let e = x.set_geometry(&[4], &[1], 0).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::ShapeOfSharedTensor { .. }));
    }

    #[test]
    fn threads_that_race_with_a_change_get_whole_shapes_or_errors() {
        let rounds = if cfg!(miri) { 3 } else { 100 };
        for _ in 0..rounds {
            let x = counted(6);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..4 {
                        if let Ok(v) = x.to_vec::<i64>() {
                            assert!(v.len() == 6 && v.iter().all(|n| *n < 6));
                        }
                    }
                });
                for i in 0..4 {
                    let (sizes, strides) = [([2, 3], [3, 1]), ([3, 2], [1, 3])][i % 2];
                    if x.set_geometry(&sizes, &strides, 0).is_err() {
                        break;
                    }
                }
            });
        }
    }
}
