//! What the lock-free protocols of this crate are built from.
//!
//! Files that use only this module for their atomics and fences are model-checked: `tests/loom.rs` includes their source
//! with the loom crate's types in place of these.

pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use std::thread::yield_now;
pub(crate) use straightline_runtime::memory::{heavy_fence, light_fence};
