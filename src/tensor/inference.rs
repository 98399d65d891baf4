//! Inference mode: tensors made in it have no autograd keys.

use super::Tensor;
use crate::error::{Error, Result};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use straightline_catalog::{DispatchKey, DispatchKeySet};

/// How many guards there are in the process: what every new tensor looks at.
static ANYWHERE: AtomicUsize = AtomicUsize::new(0);

/// Whether there has ever been one.
static EVER: AtomicBool = AtomicBool::new(false);

thread_local! {
    static HERE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is in inference mode.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    ANYWHERE.load(Ordering::Relaxed) != 0 && HERE.get()
}

/// Sets inference mode until it is dropped.
pub(crate) struct Guard {
    before: bool,
}

impl Guard {
    pub(crate) fn set(on: bool) -> Guard {
        ANYWHERE.fetch_add(1, Ordering::Relaxed);
        EVER.store(true, Ordering::Relaxed);
        Guard { before: HERE.replace(on) }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        HERE.set(self.before);
        ANYWHERE.fetch_sub(1, Ordering::Relaxed);
    }
}

const AUTOGRAD: DispatchKeySet = DispatchKeySet::AUTOGRAD_AND_AD_INPLACE_OR_VIEW;

/// The keys of a tensor made now.
#[cold]
pub(super) fn without_autograd(keys: DispatchKeySet) -> DispatchKeySet {
    keys - AUTOGRAD
}

#[cold]
fn check_inference(t: &Tensor) -> Result<()> {
    match t.is_inference() && !is_on() {
        true => Err(Error::inference_write()),
        false => Ok(()),
    }
}

impl Tensor {
    /// Whether the tensor may be written where this thread is: one of inference mode has no version
    /// that anybody looks at.
    #[inline]
    pub(crate) fn check_writable(&self) -> Result<()> {
        match EVER.load(Ordering::Relaxed) {
            true => check_inference(self),
            false => Ok(()),
        }
    }

    /// Whether the tensor was made in [`inference_mode`](crate::autograd::inference_mode).
    pub fn is_inference(&self) -> bool {
        let keys = self.key_set();
        !keys.has(DispatchKey::ADInplaceOrView) && !keys.has(DispatchKey::Functionalize) && {
            let backend = keys.highest_backend();
            backend != straightline_catalog::BackendComponent::Invalid
                && DispatchKeySet::autograd_related(backend).has(DispatchKey::ADInplaceOrView)
                && self.extra().is_none()
        }
    }
}
