//! Whose turn it is to make a variant of a compiled function.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a call waits for another thread's capture before it runs eagerly. Capturing and
/// compiling takes milliseconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// One thread at a time captures. The others wait for it, since most of them want the same variant;
/// but not forever, because what it waits for may be one of them: a function that starts a thread,
/// and joins it, may do so while it is captured.
#[derive(Debug, Default)]
pub(super) struct Turn {
    taken: Mutex<bool>,
    left: Condvar,
}

/// The turn, until this is dropped.
#[derive(Debug)]
pub(super) struct TurnGuard<'a>(&'a Turn);

impl Turn {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turn, if it comes within this time.
    pub(super) fn take(&self, patience: Duration) -> Option<TurnGuard<'_>> {
        let (mut taken, _) = (self.left)
            .wait_timeout_while(self.lock(), patience, |taken| *taken)
            .unwrap_or_else(PoisonError::into_inner);
        match *taken {
            true => None,
            false => {
                *taken = true;
                Some(TurnGuard(self))
            }
        }
    }
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        *self.0.lock() = false;
        self.0.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_waited_for_and_given_on() {
        let turn = Turn::default();
        let mine = turn.take(Duration::ZERO).unwrap();
        assert!(turn.take(Duration::from_millis(1)).is_none());
        std::thread::scope(|s| {
            let other = s.spawn(|| turn.take(Duration::from_secs(1000)).is_some());
            drop(mine);
            assert!(other.join().unwrap());
        });
        assert!(turn.take(Duration::ZERO).is_some());
    }
}
