//! What a plan makes of the values of a parameter and keeps between calls.

use std::sync::{Arc, PoisonError, RwLock};

/// The values that the last call read, by place and version, and what was made of them.
struct Known<T> {
    values: (usize, u64),
    made: Option<Arc<T>>,
}

/// A parameter in another order. Clones are the same cache.
pub(super) struct Packed<T>(Arc<RwLock<Option<Known<T>>>>);

impl<T> Clone for Packed<T> {
    fn clone(&self) -> Self {
        Packed(self.0.clone())
    }
}

impl<T> Default for Packed<T> {
    fn default() -> Self {
        Packed(Arc::default())
    }
}

impl<T> Packed<T> {
    /// What is made of these values. `make` is given what was made of earlier ones, if it may be
    /// overwritten. Values that differ from those of the last call, as weights in training do, are
    /// worth it only where they are `always`; else the call goes without.
    pub(super) fn get<E>(
        &self,
        (ptr, version): (*mut u8, u64),
        always: bool,
        make: impl FnOnce(Option<&mut T>) -> Result<Option<T>, E>,
    ) -> Result<Option<Arc<T>>, E> {
        let values = (ptr as usize, version);
        if let Some(known) = &*self.0.read().unwrap_or_else(PoisonError::into_inner)
            && known.values == values
            && let Some(made) = &known.made
        {
            return Ok(Some(made.clone()));
        }
        let mut cache = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let changed = cache.as_ref().is_some_and(|known| known.values != values);
        let mut old = cache.take().and_then(|known| known.made);
        let made = if changed && !always {
            None
        } else {
            match make(old.as_mut().and_then(Arc::get_mut))? {
                Some(new) => Some(Arc::new(new)),
                None => old,
            }
        };
        *cache = Some(Known { values, made: made.clone() });
        Ok(made)
    }
}
