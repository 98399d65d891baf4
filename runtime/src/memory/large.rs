//! The process-wide cache of large freed blocks.

use super::system::{release, system_memory};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// What may be kept unless the environment or [`set_cache_limit`] says otherwise.
const DEFAULT_LIMIT: usize = 1 << 30;

/// Read once: the bytes of large freed blocks that may be kept for reuse.
const LIMIT_VARIABLE: &str = "STRAIGHTLINE_CPU_CACHE_BYTES";

/// A freed block, and when it was freed.
struct Freed {
    ptr: NonNull<u8>,
    time: u64,
}

// SAFETY: a freed block is owned memory that nothing else points into.
unsafe impl Send for Freed {}

#[derive(Default)]
struct Cache {
    /// By block size; in each list the oldest comes first.
    blocks: BTreeMap<usize, Vec<Freed>>,
    bytes: usize,
    clock: u64,
    limit: Option<usize>,
}

static CACHE: Mutex<Cache> =
    Mutex::new(Cache { blocks: BTreeMap::new(), bytes: 0, clock: 0, limit: None });

fn lock() -> MutexGuard<'static, Cache> {
    CACHE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn limit_from_environment() -> usize {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    *LIMIT.get_or_init(|| match std::env::var(LIMIT_VARIABLE) {
        Err(_) => DEFAULT_LIMIT,
        Ok(text) => text.trim().parse().unwrap_or_else(|_| {
            tracing::warn!(value = %text, using = DEFAULT_LIMIT, "{LIMIT_VARIABLE} is not a number of bytes");
            DEFAULT_LIMIT
        }),
    })
}

impl Cache {
    fn limit(&self) -> usize {
        self.limit.unwrap_or_else(limit_from_environment)
    }

    /// Removes the blocks freed longest ago until at most `target` bytes are left.
    fn shrink(&mut self, target: usize, out: &mut Vec<(NonNull<u8>, usize)>) {
        while self.bytes > target {
            let oldest = self
                .blocks
                .iter()
                .filter_map(|(&size, list)| list.first().map(|f| (f.time, size)))
                .min();
            let Some((_, size)) = oldest else { return };
            if let Some(list) = self.blocks.get_mut(&size) {
                out.push((list.remove(0).ptr, size));
                self.bytes -= size;
                if list.is_empty() {
                    self.blocks.remove(&size);
                }
            }
        }
    }
}

/// A cached block of exactly this size, the one freed last (its pages are likeliest in cache).
pub(super) fn take(size: usize) -> Option<NonNull<u8>> {
    let mut cache = lock();
    let list = cache.blocks.get_mut(&size)?;
    let freed = list.pop()?;
    if list.is_empty() {
        cache.blocks.remove(&size);
    }
    cache.bytes -= size;
    Some(freed.ptr)
}

/// Keeps a freed block; returns those that have to go back to the system (perhaps this very one).
pub(super) fn put(ptr: NonNull<u8>, size: usize, evicted: &mut Vec<(NonNull<u8>, usize)>) {
    let mut cache = lock();
    let limit = cache.limit();
    if size > limit {
        evicted.push((ptr, size));
        return;
    }
    cache.shrink(limit - size, evicted);
    cache.clock += 1;
    let time = cache.clock;
    cache.blocks.entry(size).or_default().push(Freed { ptr, time });
    cache.bytes += size;
}

/// Takes everything out.
pub(super) fn drain(out: &mut Vec<(NonNull<u8>, usize)>) {
    lock().shrink(0, out);
}

pub(super) fn cached_bytes() -> u64 {
    lock().bytes as u64
}

/// The bytes of large freed blocks that are kept for reuse at most.
pub fn cache_limit() -> usize {
    lock().limit()
}

/// Sets [`cache_limit`] (at first the environment variable `STRAIGHTLINE_CPU_CACHE_BYTES`, else 1
/// GiB). Blocks above the new limit go back to the system at once.
pub fn set_cache_limit(bytes: usize) {
    let mut evicted = Vec::new();
    {
        let mut cache = lock();
        cache.limit = Some(bytes);
        cache.shrink(bytes, &mut evicted);
    }
    release(evicted);
}

/// Memory from the system; on failure, retries after emptying the cache.
#[cold]
pub(super) fn system_allocate(size: usize) -> Option<NonNull<u8>> {
    system_memory(size).or_else(|| {
        let mut blocks = Vec::new();
        drain(&mut blocks);
        release(blocks);
        system_memory(size)
    })
}
