//! Bounds the nesting of handlers, so that one that calls itself is an error and not a stack
//! overflow.

use super::error::ModeError;
use crate::dispatch::OperatorHandle;
use crate::error::Result;
use std::cell::Cell;
use std::thread::LocalKey;

/// How deep handlers may nest; a thread's stack has room for twice as many.
const MAX_DEPTH: usize = 64;

/// One level of a counter, left when dropped.
pub(super) struct Deeper(&'static LocalKey<Cell<usize>>);

impl Deeper {
    /// Enters a level for a call of `op`.
    pub(super) fn enter(
        counter: &'static LocalKey<Cell<usize>>,
        op: OperatorHandle,
    ) -> Result<Deeper> {
        let depth = counter.get();
        if depth == MAX_DEPTH {
            return Err(ModeError::TooDeep { op: op.name().to_string(), limit: MAX_DEPTH }.into());
        }
        counter.set(depth + 1);
        Ok(Deeper(counter))
    }
}

impl Drop for Deeper {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
