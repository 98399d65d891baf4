//! What tests of one process share: the default generator.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static DEFAULT_GENERATOR: RwLock<()> = RwLock::new(());

/// Held by a test that seeds the default generator and looks at what is drawn.
pub(crate) fn seeded() -> RwLockWriteGuard<'static, ()> {
    DEFAULT_GENERATOR
        .write()
        .unwrap_or_else(PoisonError::into_inner)
}

/// Held by a test that draws from the default generator, whatever comes.
pub(crate) fn drawing() -> RwLockReadGuard<'static, ()> {
    DEFAULT_GENERATOR
        .read()
        .unwrap_or_else(PoisonError::into_inner)
}
