//! The thread pool: fork-join over numbered chunks.
//!
//! **Why not rayon here.** A kernel of a small model lasts a few microseconds. Entering a rayon
//! pool from a thread outside it was measured at 6-17 us, a fork-join of two threads through a
//! spinning worker at 0.13 us. Nothing here is coarse enough to want a second pool beside this one.
//!
//! **How a job runs.** The caller publishes one job and starts on it at once. Every chunk is
//! claimed by a compare-exchange on one word that holds the job's epoch and the next index, by the
//! first thread to arrive. Workers spin briefly for the next job, then park. When all chunks are
//! claimed, the caller waits only for those that a worker has claimed: on an oversubscribed machine
//! where no worker gets a core, the caller does everything alone and loses nothing.
//!
//! **One job at a time.** A caller that finds the pool busy runs its chunks alone, and so does a
//! nested call. Therefore many threads may call at once without queueing on each other.
//!
//! **Panics.** A panic in a chunk is caught, the chunks that have not started are skipped, and the
//! panic resumes on the caller.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Low bits of [`Pool::claim`]: the next chunk. The rest is the epoch.
const INDEX_BITS: u32 = 24;
const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;
/// The index of an epoch in which there is nothing to claim.
const CLOSED: u64 = INDEX_MASK;
/// More chunks than this are run in groups.
const MAX_CHUNKS: usize = (CLOSED - 1) as usize;
/// Polls of an idle worker before it parks: with `pause` some 20-50 us.
const IDLE_SPINS: u32 = 1024;
/// Polls of a waiting caller before it starts to yield its core.
const WAIT_SPINS: u32 = 256;
/// More threads than this are never started.
const MAX_THREADS: usize = 256;

thread_local! {
    /// Set on workers, and on a caller while its job runs.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The data of a claimed chunk. Lives on the caller's stack.
struct Job<'a> {
    run: &'a (dyn Fn(usize) + Sync),
    cancelled: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Job<'_> {
    fn chunk(&self, index: usize) {
        if self.cancelled.load(Ordering::Relaxed) {
            return;
        }
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| (self.run)(index))) {
            self.cancelled.store(true, Ordering::Relaxed);
            lock(&self.panic).get_or_insert(payload);
        }
    }
}

struct Pool {
    /// Requested number of threads, the caller counted; 0 = not decided yet.
    threads: AtomicUsize,
    /// Held by the caller whose job is in the fields below.
    busy: AtomicBool,
    /// Epoch and next chunk.
    claim: AtomicU64,
    /// The job of the current epoch; valid to follow only for the claimer of one of its chunks.
    job: AtomicPtr<Job<'static>>,
    chunks: AtomicUsize,
    /// Workers with an id below this take part.
    workers: AtomicUsize,
    /// Chunks that workers have finished in this epoch.
    finished: AtomicUsize,
    /// Workers started so far; workers never end.
    started: AtomicUsize,
    sleepers: AtomicUsize,
    sleep: Mutex<()>,
    wake: Condvar,
}

static POOL: Pool = Pool {
    threads: AtomicUsize::new(0),
    busy: AtomicBool::new(false),
    claim: AtomicU64::new(CLOSED),
    job: AtomicPtr::new(ptr::null_mut()),
    chunks: AtomicUsize::new(0),
    workers: AtomicUsize::new(0),
    finished: AtomicUsize::new(0),
    started: AtomicUsize::new(0),
    sleepers: AtomicUsize::new(0),
    sleep: Mutex::new(()),
    wake: Condvar::new(),
};

/// A panic never unwinds while one of our locks is held, so poison carries no news.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets how many threads a parallel loop may use, the calling thread counted. 0 and 1 both mean
/// serial.
///
/// Takes effect from the next [`parallel_for`] on, for the whole process.
pub fn set_num_threads(n: usize) {
    POOL.threads.store(n.clamp(1, MAX_THREADS), Ordering::Relaxed);
}

/// How many threads a parallel loop may use, the calling thread counted.
///
/// At first the environment variable `STRAIGHTLINE_NUM_THREADS`, else the parallelism of the
/// machine.
#[inline]
pub fn num_threads() -> usize {
    match POOL.threads.load(Ordering::Relaxed) {
        0 => default_threads(),
        n => n,
    }
}

#[cold]
fn default_threads() -> usize {
    let machine = std::thread::available_parallelism().map_or(1, |n| n.get());
    let n = match std::env::var("STRAIGHTLINE_NUM_THREADS") {
        Err(_) => machine,
        Ok(text) => parse_threads(&text).unwrap_or_else(|| {
            tracing::warn!(value = %text, using = machine, "STRAIGHTLINE_NUM_THREADS is not a positive number");
            machine
        }),
    };
    let n = n.clamp(1, MAX_THREADS);
    // A concurrent `set_num_threads` wins.
    match POOL.threads.compare_exchange(0, n, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => n,
        Err(set) => set,
    }
}

fn parse_threads(text: &str) -> Option<usize> {
    text.trim().parse().ok().filter(|&n| n > 0)
}

/// Whether this thread is inside a parallel loop, where a further one would run serially.
#[inline]
pub fn in_parallel() -> bool {
    INSIDE.get()
}

/// Calls `f(0) .. f(n_chunks - 1)`, each once, on up to [`num_threads`] threads in no particular
/// order.
///
/// Returns when all calls have returned. Runs serially, in order, when there is one chunk or one
/// thread, inside another parallel loop, and when another thread's loop has the pool.
///
/// # Panics
///
/// Resumes the first panic of `f`; chunks that had not started by then are skipped.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use straightline_runtime::cpu::threads::parallel_for;
/// let sum = AtomicUsize::new(0);
/// parallel_for(10, &|i| { sum.fetch_add(i, Ordering::Relaxed); });
/// assert_eq!(sum.into_inner(), 45);
/// ```
pub fn parallel_for(n_chunks: usize, f: &(dyn Fn(usize) + Sync)) {
    let threads = num_threads();
    if n_chunks <= 1
        || threads == 1
        || INSIDE.get()
        || POOL.busy.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err()
    {
        (0..n_chunks).for_each(f);
    } else if n_chunks <= MAX_CHUNKS {
        POOL.run(n_chunks, threads, f);
    } else {
        let group = n_chunks.div_ceil(MAX_CHUNKS);
        POOL.run(n_chunks.div_ceil(group), threads, &|g| {
            (g * group..n_chunks.min((g + 1) * group)).for_each(f)
        });
    }
}

/// Splits `0..n` into ranges of at least `grain` (and few enough that claiming them costs nothing)
/// and runs `f(begin, end)` on each, as [`parallel_for`] does.
pub fn parallel_ranges(n: usize, grain: usize, f: &(dyn Fn(usize, usize) + Sync)) {
    if n == 0 {
        return;
    }
    // Four ranges for each thread even out threads that get less of a core.
    let size = n.div_ceil(4 * num_threads()).max(grain).max(1);
    if size >= n {
        return f(0, n);
    }
    parallel_for(n.div_ceil(size), &|i| f(i * size, n.min((i + 1) * size)));
}

/// [`parallel_ranges`] for generated code: runs `f(ctx, begin, end)` over ranges of `0..n`.
///
/// # Safety
///
/// `f` must be safe to call with `ctx` and any disjoint ranges of `0..n`, from several threads at
/// once.
pub unsafe extern "C" fn sl_parallel_for(
    f: extern "C" fn(*const u8, i64, i64),
    ctx: *const u8,
    n: i64,
    grain: i64,
) {
    struct Shared(*const u8);
    // SAFETY: the caller vouches that `f` may be used on `ctx` from several threads.
    unsafe impl Sync for Shared {}
    let shared = Shared(ctx);
    let shared = &shared;
    parallel_ranges(
        usize::try_from(n).unwrap_or(0),
        usize::try_from(grain).unwrap_or(1),
        &|begin, end| f(shared.0, begin as i64, end as i64),
    );
}

impl Pool {
    /// Runs a job. The caller holds `busy`, which is released here.
    fn run(&'static self, chunks: usize, threads: usize, f: &(dyn Fn(usize) + Sync)) {
        let helpers = (threads - 1).min(chunks - 1);
        self.start_workers(helpers);
        let job = Job { run: f, cancelled: AtomicBool::new(false), panic: Mutex::new(None) };
        // The epoch before this one is closed, so no worker can claim while the fields change.
        self.job.store((&raw const job).cast_mut().cast::<Job<'static>>(), Ordering::Relaxed);
        self.chunks.store(chunks, Ordering::Relaxed);
        self.workers.store(helpers, Ordering::Relaxed);
        self.finished.store(0, Ordering::Relaxed);
        let epoch = (self.claim.load(Ordering::Relaxed) >> INDEX_BITS).wrapping_add(1);
        self.claim.store(epoch << INDEX_BITS, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            // Taking the lock orders this after a worker's last look and before or after its wait.
            drop(lock(&self.sleep));
            self.wake.notify_all();
        }

        INSIDE.set(true);
        let mut mine = 0;
        while let Some(index) = self.try_claim(epoch, chunks) {
            job.chunk(index);
            mine += 1;
        }
        INSIDE.set(false);

        let mut spins = 0;
        while self.finished.load(Ordering::Acquire) + mine < chunks {
            spins += 1;
            if spins < WAIT_SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        // From here on a worker that still holds a stale view of the word fails its exchange.
        self.claim.store(epoch << INDEX_BITS | CLOSED, Ordering::Release);
        self.busy.store(false, Ordering::Release);
        if let Some(payload) = job.panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(payload);
        }
    }

    /// Takes the next chunk of `epoch`, if that epoch is still open and has one.
    fn try_claim(&self, epoch: u64, chunks: usize) -> Option<usize> {
        let mut word = self.claim.load(Ordering::Acquire);
        loop {
            let index = word & INDEX_MASK;
            if word >> INDEX_BITS != epoch & (u64::MAX >> INDEX_BITS) || index >= chunks as u64 {
                return None;
            }
            match self.claim.compare_exchange_weak(
                word,
                word + 1,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(index as usize),
                Err(now) => word = now,
            }
        }
    }

    fn start_workers(&'static self, wanted: usize) {
        // Only the holder of `busy` starts workers.
        let mut started = self.started.load(Ordering::Relaxed);
        while started < wanted {
            let spawned = std::thread::Builder::new()
                .name(format!("straightline-{started}"))
                .spawn(move || self.work(started));
            if let Err(error) = spawned {
                // The callers do the work of the workers that are missing.
                tracing::warn!(%error, workers = started, "cannot start a worker thread");
                return;
            }
            started += 1;
            self.started.store(started, Ordering::Relaxed);
        }
    }

    /// The life of worker `id`.
    fn work(&self, id: usize) {
        INSIDE.set(true);
        let mut done_with = u64::MAX;
        let mut idle = 0;
        loop {
            let word = self.claim.load(Ordering::Acquire);
            let epoch = word >> INDEX_BITS;
            if epoch != done_with && word & INDEX_MASK != CLOSED {
                // These may belong to a later epoch; then the claim below fails.
                let chunks = self.chunks.load(Ordering::Relaxed);
                let job = self.job.load(Ordering::Relaxed);
                if id < self.workers.load(Ordering::Relaxed) {
                    while let Some(index) = self.try_claim(epoch, chunks) {
                        // SAFETY: the exchange succeeded on this epoch, so `job` is its job, and
                        // its caller stays until `finished` counts this chunk.
                        unsafe { &*job }.chunk(index);
                        self.finished.fetch_add(1, Ordering::Release);
                        idle = 0;
                    }
                }
                done_with = epoch;
            }
            idle += 1;
            if idle < IDLE_SPINS {
                std::hint::spin_loop();
            } else {
                self.park(done_with);
                idle = 0;
            }
        }
    }

    fn park(&self, done_with: u64) {
        let mut guard = lock(&self.sleep);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        loop {
            let word = self.claim.load(Ordering::SeqCst);
            if word >> INDEX_BITS != done_with && word & INDEX_MASK != CLOSED {
                break;
            }
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// For tests anywhere in this crate.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    static SIZE: Mutex<()> = Mutex::new(());

    /// Runs `f` with a number of threads. The pool is one for the process: tests that set its size
    /// take turns.
    pub(crate) fn with_threads<R>(n: usize, f: impl FnOnce() -> R) -> R {
        let _guard = lock(&SIZE);
        let before = num_threads();
        set_num_threads(n);
        let result = catch_unwind(AssertUnwindSafe(f));
        set_num_threads(before);
        result.unwrap_or_else(|payload| resume_unwind(payload))
    }
}

#[cfg(test)]
mod tests {
    use super::testing::with_threads;
    use super::*;

    fn hits(n: usize) -> Vec<AtomicUsize> {
        (0..n).map(|_| AtomicUsize::new(0)).collect()
    }

    fn assert_each_once(hits: &[AtomicUsize]) {
        for (i, hit) in hits.iter().enumerate() {
            assert_eq!(hit.load(Ordering::Relaxed), 1, "chunk {i}");
        }
    }

    #[test]
    fn every_chunk_runs_once() {
        for threads in [1, 2, 3, 8] {
            with_threads(threads, || {
                for n in [0, 1, 2, 7, 64, 1000] {
                    let seen = hits(n);
                    parallel_for(n, &|i| {
                        seen[i].fetch_add(1, Ordering::Relaxed);
                    });
                    assert_each_once(&seen);
                }
            });
        }
    }

    #[test]
    fn sixty_four_callers_at_once() {
        with_threads(4, || {
            std::thread::scope(|scope| {
                for caller in 0..64 {
                    scope.spawn(move || {
                        for round in 0..50 {
                            let n = 1 + (caller + round) % 17;
                            let seen = hits(n);
                            parallel_for(n, &|i| {
                                seen[i].fetch_add(1, Ordering::Relaxed);
                            });
                            assert_each_once(&seen);
                        }
                    });
                }
            });
        });
    }

    #[test]
    fn writes_of_workers_are_visible_to_the_caller() {
        with_threads(4, || {
            for round in 0..2000u64 {
                let mut out = [0u64; 16];
                let base = AtomicPtr::new(out.as_mut_ptr());
                parallel_for(16, &|i| {
                    // SAFETY: each chunk writes its own element of `out`, which outlives the loop.
                    unsafe { *base.load(Ordering::Relaxed).add(i) = round + i as u64 }
                });
                assert!((0..16).all(|i| out[i] == round + i as u64));
            }
        });
    }

    #[test]
    fn a_nested_loop_runs_on_its_own_thread() {
        with_threads(4, || {
            let seen = hits(64);
            parallel_for(8, &|i| {
                let me = std::thread::current().id();
                // False where another test had the pool: then the inner loop may take it.
                let inside = in_parallel();
                parallel_for(8, &|j| {
                    assert!(!inside || std::thread::current().id() == me);
                    seen[8 * i + j].fetch_add(1, Ordering::Relaxed);
                });
            });
            assert_each_once(&seen);
            assert!(!in_parallel());
        });
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_survives() {
        with_threads(3, || {
            for bad in [0, 5, 31] {
                let caught = catch_unwind(|| {
                    parallel_for(32, &|i| {
                        if i == bad {
                            std::panic::panic_any(i);
                        }
                    })
                });
                let payload = caught.expect_err("the panic is resumed");
                assert_eq!(payload.downcast_ref::<usize>(), Some(&bad));
                assert!(!in_parallel());
                let seen = hits(32);
                parallel_for(32, &|i| {
                    seen[i].fetch_add(1, Ordering::Relaxed);
                });
                assert_each_once(&seen);
            }
        });
    }

    #[test]
    fn parked_workers_wake_up() {
        with_threads(2, || {
            for _ in 0..3 {
                std::thread::sleep(std::time::Duration::from_millis(3));
                let here = std::thread::current().id();
                let elsewhere = AtomicBool::new(false);
                // Other tests may have the pool at the moment: then the loop is serial, so try
                // again.
                for _ in 0..100 {
                    set_num_threads(2);
                    parallel_for(20, &|_| {
                        if std::thread::current().id() != here {
                            elsewhere.store(true, Ordering::Relaxed);
                        } else if !elsewhere.load(Ordering::Relaxed) {
                            std::thread::sleep(std::time::Duration::from_millis(5));
                        }
                    });
                    if elsewhere.load(Ordering::Relaxed) {
                        break;
                    }
                }
                assert!(elsewhere.into_inner(), "the worker never took a chunk");
            }
        });
    }

    #[test]
    fn ranges_cover_everything_and_respect_the_grain() {
        with_threads(4, || {
            for (n, grain) in [(0, 4), (1, 4), (100, 1), (1000, 64), (1000, 5000), (17, 0)] {
                let seen = hits(n);
                let calls = AtomicUsize::new(0);
                parallel_ranges(n, grain, &|begin, end| {
                    assert!(end == n || end - begin >= grain);
                    calls.fetch_add(1, Ordering::Relaxed);
                    seen[begin..end].iter().for_each(|hit| {
                        hit.fetch_add(1, Ordering::Relaxed);
                    });
                });
                assert_each_once(&seen);
                assert!(calls.into_inner() <= 16);
            }
        });
    }

    #[test]
    fn the_c_form_passes_its_context() {
        extern "C" fn add(ctx: *const u8, begin: i64, end: i64) {
            // SAFETY: the test passes an `AtomicU64` that outlives the loop.
            let sum = unsafe { &*ctx.cast::<AtomicU64>() };
            sum.fetch_add((begin..end).sum::<i64>() as u64, Ordering::Relaxed);
        }
        let sum = AtomicU64::new(0);
        for (n, expected) in [(1001, 500_500), (0, 0), (-3, 0)] {
            sum.store(0, Ordering::Relaxed);
            // SAFETY: `add` is thread safe on this context.
            unsafe { sl_parallel_for(add, (&raw const sum).cast(), n, 10) };
            assert_eq!(sum.load(Ordering::Relaxed), expected);
        }
    }

    #[test]
    fn the_environment_value_must_be_a_positive_number() {
        assert_eq!(parse_threads(" 3 "), Some(3));
        assert_eq!(parse_threads("0"), None);
        assert_eq!(parse_threads("many"), None);
    }
}
