//! Allocation of tensor memory.
//!
//! [`allocate`] hands out 64-byte aligned [`Block`]s and keeps freed ones for the next request,
//! since fresh pages cost far more than the arithmetic done on them (a new 64 MB output faults for
//! some 30 ms). Small blocks live on thread-local free lists and cost a few nanoseconds; large ones
//! live in one bounded cache of the process.
//!
//! # What the bytes are
//!
//! The contents of a fresh block are unspecified, but they are *initialised* in the sense of the
//! language: each block taken from the system passes an opaque assembly barrier that may have
//! written it, so reading it as any type without invalid bit patterns is defined (the values are
//! just arbitrary). Under Miri, which cannot run assembly, the block is zeroed instead. Kernels
//! still reach the memory through raw pointers only, never through a `&mut [T]` that outlives a
//! call, and read `bool`s as bytes.
//!
//! Tests can have each block watched at its margins: see [`guard`].

mod allocator;
mod block;
mod cell;
mod fence;
pub mod guard;
mod large;
mod list;
mod size_class;
mod stats;
mod system;

pub use allocator::{ThreadStats, allocate, empty_cache, thread_stats};
pub use block::Block;
pub use cell::{MAX_CELL_BYTES, give_cell, take_cell};
pub use fence::{asymmetric_fences, heavy_fence, light_fence};
pub use large::{cache_limit, set_cache_limit};
pub use stats::{Stats, stats};
pub use system::{ALIGNMENT, OutOfMemory};
