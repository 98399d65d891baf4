//! The tangent of a tensor: the other half of a dual number.
//!
//! It is kept with the rest of what gradients know of a tensor, together with the level that it
//! belongs to. When the level ends the tangents are gone, whoever still holds the tensors. A tensor that
//! may have one has the mark of those that record beside its dispatch keys, until somebody looks and
//! finds none.

use super::Tensor;
use crate::error::Result;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What tangents belong to: a `dual_level`, or a `jvp` that runs.
#[derive(Default)]
pub(crate) struct Level {
    over: AtomicBool,
    slots: Mutex<Vec<Weak<Slot>>>,
}

/// The place of a tangent; what nodes keep of a result shares it with that.
pub(crate) struct Slot {
    level: Arc<Level>,
    tangent: Mutex<Option<Tensor>>,
}

impl Level {
    /// Lets the tangents go. Says whether the level lasted until now.
    pub(crate) fn end(&self) -> bool {
        let lasted = !self.over.swap(true, Ordering::AcqRel);
        let slots = std::mem::take(&mut *self.slots.lock().unwrap_or_else(PoisonError::into_inner));
        for slot in slots {
            let gone = slot.upgrade().and_then(|s| s.replace(None));
            drop(gone);
        }
        lasted
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// A place of this level; places that nobody holds are forgotten now and then.
    fn slot(self: &Arc<Level>, tangent: Tensor) -> Arc<Slot> {
        let slot = Arc::new(Slot { level: self.clone(), tangent: Mutex::new(Some(tangent)) });
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() == slots.capacity() {
            slots.retain(|s| s.strong_count() > 0);
            let room = slots.len().max(16);
            slots.reserve(room);
        }
        slots.push(Arc::downgrade(&slot));
        slot
    }
}

impl Level {
    /// Puts other tangents in the places of those for which `f` gives one.
    pub(crate) fn replace_each(&self, f: &dyn Fn(&Tensor) -> Result<Option<Tensor>>) -> Result<()> {
        // the lock is free while `f` runs, which may make tangents
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for slot in slots.iter().filter_map(Weak::upgrade) {
            if let Some(old) = slot.get()
                && let Some(new) = f(&old)?
            {
                slot.replace(Some(new));
            }
        }
        Ok(())
    }
}

impl Slot {
    fn replace(&self, tangent: Option<Tensor>) -> Option<Tensor> {
        let mut place = self.tangent.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *place, tangent)
    }

    fn get(&self) -> Option<Tensor> {
        match self.level.is_over() {
            true => None,
            false => self.tangent.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

/// The tangent of a tensor whose memory is kept elsewhere, or not at all.
#[derive(Default)]
pub(crate) struct Beside(Mutex<Option<Arc<Slot>>>);

impl Beside {
    /// Keeps the tangent that a tensor itself has.
    pub(crate) fn keep(&self, of: &Tensor) {
        let slot = of.own_slot();
        let before =
            std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), slot);
        drop(before);
    }

    /// Gives it to another tensor.
    pub(crate) fn give(&self, to: &Tensor) {
        let slot = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if slot.is_some() {
            to.put_tangent(slot);
        }
    }
}

impl Tensor {
    fn own_slot(&self) -> Option<Arc<Slot>> {
        match self.may_have_tangent() {
            true => self.history().rest.as_ref().and_then(|r| r.tangent.clone()),
            false => None,
        }
    }

    /// The tensor's own tangent, and the level that it belongs to.
    pub(crate) fn own_tangent(&self) -> Option<(Tensor, Arc<Level>)> {
        let slot = self.own_slot()?;
        match slot.get() {
            Some(t) => Some((t, slot.level.clone())),
            None => {
                self.drop_tangent();
                None
            }
        }
    }

    /// Whether the tensor has a tangent now: its own, or a part of its base's.
    #[inline]
    pub(crate) fn has_tangent(&self) -> bool {
        self.may_be_dual() && self.finds_tangent()
    }

    #[cold]
    fn finds_tangent(&self) -> bool {
        self.own_tangent().is_some()
            || (!self.is_apart() && self.base().is_some_and(Tensor::has_tangent))
    }

    /// Gives the tensor a tangent, in place of one that it may have.
    pub(crate) fn set_tangent(&self, tangent: Tensor, level: &Arc<Level>) {
        self.put_tangent(Some(level.slot(tangent)));
    }

    /// Gives the tensor the tangent of another handle of its memory.
    pub(crate) fn share_tangent(&self, of: &Tensor) {
        let slot = of.own_slot();
        if slot.is_some() {
            self.put_tangent(slot);
        }
    }

    /// Takes the tangent away.
    pub(crate) fn drop_tangent(&self) {
        self.put_tangent(None);
    }

    fn put_tangent(&self, slot: Option<Arc<Slot>>) {
        self.mark_dual(slot.is_some());
        let before = match (slot, &mut *self.history()) {
            (None, state) => state.rest.as_mut().and_then(|r| r.tangent.take()),
            (slot, state) => std::mem::replace(&mut state.rest().tangent, slot),
        };
        // outside the lock: a tangent may hold a chain of nodes
        drop(before);
    }
}
