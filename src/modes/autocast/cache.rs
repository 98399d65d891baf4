//! The cast cache: a parameter that several operators use is cast once.

use crate::dispatch::grad_enabled;
use crate::error::Result;
use crate::modes::tracer;
use crate::tensor::Tensor;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use straightline_catalog::DType;

/// A cast, with the tensor it was made of. The tensor is held, so that its identity is not reused;
/// an entry that is the last holder is dropped at the next cast.
struct Cast {
    source: Tensor,
    version: u64,
    cast: Tensor,
}

thread_local! {
    static ENABLED: Cell<bool> = const { Cell::new(true) };
    static CASTS: RefCell<HashMap<(usize, DType), Cast>> = RefCell::default();
}

/// Whether casts of parameters are kept on this thread.
pub fn is_autocast_cache_enabled() -> bool {
    ENABLED.get()
}

/// Switches the cache and returns the previous state; `None` leaves it.
pub(super) fn set_enabled(on: Option<bool>) -> bool {
    let before = ENABLED.get();
    ENABLED.set(on.unwrap_or(before));
    before
}

/// Forgets the casts of this thread. Leaving the outermost autocast does so as well.
pub fn clear_autocast_cache() {
    CASTS.take();
}

/// How many casts are kept.
#[cfg(test)]
pub(super) fn len() -> usize {
    CASTS.with_borrow(HashMap::len)
}

/// `t` as `dtype`, by `cast`, which is called only if no earlier result can be used.
///
/// Only casts of parameters are kept: `f32` tensors that require gradients. A parameter written
/// since is cast again (PyTorch would use the old cast until autocast ends).
pub(super) fn cached(
    t: &Tensor,
    dtype: DType,
    cast: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    // a captured function reads its parameters at each call: their casts belong to its graph
    let keep = ENABLED.get()
        && t.requires_grad()
        && t.dtype() == DType::F32
        && tracer::current().is_none();
    if !keep {
        return cast(t);
    }
    let key = (t.id(), dtype);
    let found = CASTS.with_borrow(|casts| {
        let found = casts.get(&key).filter(|c| c.version == t.storage().version());
        // what was cast without recording has no gradient
        let found = found.filter(|c| c.cast.requires_grad() || !grad_enabled());
        found.map(|c| c.cast.clone())
    });
    if let Some(found) = found {
        return Ok(found);
    }
    let made = cast(t)?;
    let entry = Cast { source: t.clone(), version: t.storage().version(), cast: made.clone() };
    // dropped after the borrow ends
    let gone: Vec<Cast> = CASTS.with_borrow_mut(|casts| {
        let gone = casts
            .iter()
            // the cast's own history holds its source as well
            .filter(|(_, c)| c.source.handles() == 1 + usize::from(c.cast.requires_grad()))
            .map(|(key, _)| *key)
            .collect::<Vec<_>>();
        let mut gone: Vec<Cast> = gone.iter().filter_map(|key| casts.remove(key)).collect();
        gone.extend(casts.insert(key, entry));
        gone
    });
    drop(gone);
    Ok(made)
}
