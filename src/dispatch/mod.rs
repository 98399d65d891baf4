//! The dispatcher: which kernel runs for a call, and in which order the features around it see it.
//!
//! Each call collects the dispatch keys of its tensor arguments and of the thread, takes the highest
//! one, and calls the kernel in that slot of the operator's table. A feature such as autograd or
//! tracing is a kernel at its own key that does its work and redispatches below itself.

mod alias;
mod error;
mod key;
#[cfg(test)]
mod key_tests;
mod keyset;

pub use error::{DispatchError, MissingKernel, Site};
pub use key::{BackendComponent, DispatchKey, ParseKeyError};
pub use keyset::{DispatchKeySet, NUM_RUNTIME_ENTRIES};
