//! Stand-ins of a capture that become ordinary tensors.
//!
//! What a captured function leaves in outside state (a `Mutex<Tensor>`, a cache) stands for a value
//! of a graph. When the capture is given up, such a tensor gets the value: its storage gets bytes,
//! its keys become those of a plain tensor, and what the capture attached to it becomes void. All
//! handles see that, since it is the same tensor.

use super::Tensor;
use std::sync::atomic::{AtomicU64, Ordering};
use straightline_catalog::DispatchKeySet;

/// The dispatch keys of a tensor, which change when it settles.
pub(super) struct Keys(AtomicU64);

impl Keys {
    #[inline(always)]
    pub(super) const fn new(keys: DispatchKeySet) -> Keys {
        Keys(AtomicU64::new(keys.raw()))
    }

    #[inline(always)]
    pub(super) fn get(&self) -> DispatchKeySet {
        DispatchKeySet::from_raw(self.0.load(Ordering::Relaxed))
    }

    /// With the mark of tensors that record.
    #[inline(always)]
    pub(super) fn marked(&self) -> DispatchKeySet {
        DispatchKeySet::from_marked(self.0.load(Ordering::Relaxed))
    }

    /// Sets or clears the mark.
    #[inline]
    pub(super) fn mark(&self, on: bool) {
        let mark = DispatchKeySet::RECORDS.raw();
        match on {
            true => self.0.fetch_or(mark, Ordering::Release),
            false => self.0.fetch_and(!mark, Ordering::Release),
        };
    }

    /// Sets the mark of a tensor that nobody else knows.
    #[inline]
    pub(super) fn mark_mut(&mut self) {
        *self.0.get_mut() |= DispatchKeySet::RECORDS.raw();
    }
}

impl Tensor {
    /// Turns a stand-in, whose storage already has its bytes, into an ordinary tensor. A call that
    /// still saw the old keys is redirected by the kernel at `Functionalize`; bytes are read under
    /// the storage's guard in any case.
    pub(crate) fn settle(&self, keys: DispatchKeySet) {
        self.0.settled.store(true, Ordering::Release);
        self.0.keys.0.store(keys.raw(), Ordering::Release);
    }
}
