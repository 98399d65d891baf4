//! Uncounted handles, by which a plan holds the tensors that its function closes over.

use super::Tensor;
use std::ops::Deref;
use std::sync::atomic::Ordering;

/// A handle that keeps a tensor alive and is not counted among those of users.
///
/// The state that a captured function looks into (a `Mutex<Tensor>`) is invisible to a replay. That
/// a handle was dropped there can be seen if the handles of plans are counted apart from others.
pub(crate) struct Held(Tensor);

impl Held {
    pub(crate) fn new(t: Tensor) -> Held {
        t.0.held.fetch_add(1, Ordering::Relaxed);
        Held(t)
    }
}

impl Clone for Held {
    fn clone(&self) -> Held {
        Held::new(self.0.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.0.held.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Deref for Held {
    type Target = Tensor;

    #[inline(always)]
    fn deref(&self) -> &Tensor {
        &self.0
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Tensor {
    /// Whether this is the only handle to the tensor, and the tensor the only one of its memory.
    /// The owner then needs no guard.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        self.handles() == 1 && self.storage().is_unshared()
    }

    /// Whether nothing else reaches the memory: as [`Tensor::is_alone`], or a view of tensors that
    /// only it holds.
    pub(crate) fn has_memory_alone(&self) -> bool {
        let chain = || std::iter::successors(Some(self), |t| t.base());
        chain().all(|t| t.handles() == 1) && self.storage().handles() == chain().count()
    }

    /// The number of handles that are not held by plans. Others may come and go meanwhile.
    #[inline]
    pub(crate) fn outside_handles(&self) -> usize {
        let held = self.0.held.load(Ordering::Relaxed);
        self.handles().saturating_sub(held as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_of_what_only_it_holds_is_alone_in_memory() {
        let x = Tensor::from_vec([1f32, 2.0], [1, 2]).unwrap();
        let view = x.transpose(0, 1).unwrap().view([2]).unwrap();
        assert!(x.has_memory_alone() == x.is_alone() && !view.has_memory_alone());
        let detached = x.detach().unwrap();
        drop(x);
        assert!(!view.is_alone() && !view.has_memory_alone());
        drop(detached);
        assert!(view.has_memory_alone());
    }

    #[test]
    fn plans_do_not_count() {
        let t = Tensor::from_vec([1f32], 1).unwrap();
        assert_eq!(t.outside_handles(), 1);
        let held = Held::new(t.clone());
        let more = [held.clone(), held];
        assert_eq!((t.outside_handles(), t.handles()), (1, 3));
        let other = more[0].clone();
        drop(more);
        assert_eq!(other.outside_handles(), 1);
        drop(t);
        assert_eq!(other.outside_handles(), 0);
    }
}
