//! The profiler: how long each operator took, with and without the operators that it called, and
//! what memory it took.
//!
//! As in c10 today it is no dispatch key: it observes calls (see
//! [`Observer`]), so that a composite, the operators that it is made of, ranges
//! that code names itself ([`record_function`](crate::dispatch::record_function)) and the
//! stages of `compile()` all show as spans. A call of a compiled function is one span.
//!
//! | file | what |
//! |---|---|
//! | `table` | sums by operator, as a table |
//! | `chrome` | the spans as a trace file |

mod chrome;
mod table;
#[cfg(test)]
mod tests;

pub use table::{ProfileRow, SortBy};

use crate::dispatch::{GlobalObserver, Observer, RecordFunction, RecordScope, Value, thread_id};
use crate::tensor::Tensor;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use straightline_runtime::memory::thread_stats;

/// What a profiler collects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProfilerOptions {
    /// The sizes and dtypes of arguments; costs boxing them.
    pub shapes: bool,
    /// Whether operators of all threads are recorded, running ones included; otherwise only this
    /// thread's.
    pub all_threads: bool,
}

impl Default for ProfilerOptions {
    fn default() -> Self {
        ProfilerOptions { shapes: false, all_threads: true }
    }
}

/// One span: a call of an operator, or a range that code named.
#[derive(Clone, PartialEq, Debug)]
pub struct ProfileEvent {
    /// The operator's name without its overload, or that of the range.
    pub name: Cow<'static, str>,
    /// The operator's overload; empty for the default one and for ranges.
    pub overload: &'static str,
    /// What kind of span it is.
    pub scope: RecordScope,
    /// The thread, as [`thread_id`] counts.
    pub thread: u64,
    /// Grows with each span of a thread; unique in the process.
    pub id: u64,
    /// The autograd sequence number, or -1.
    pub sequence_number: i64,
    /// How many spans of the profile it lies in.
    pub depth: usize,
    /// When it began, counted from the beginning of the profile.
    pub start: Duration,
    /// How long it took.
    pub total: Duration,
    /// The same without the spans inside it.
    pub own: Duration,
    /// Bytes allocated less bytes freed on its thread while it ran.
    pub memory: i64,
    /// The same without the spans inside it.
    pub own_memory: i64,
    /// Blocks allocated on its thread while it ran.
    pub allocations: i64,
    /// The arguments, one text each (`f32[2, 3]`, `int`), if [`ProfilerOptions::shapes`] is set.
    pub inputs: Vec<Input>,
}

/// An argument of a profiled call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Input {
    /// The sizes of each tensor in it; empty if it has none.
    pub sizes: Vec<Vec<i64>>,
    /// The dtype of the tensors, or the kind of value that it is.
    pub kind: String,
}

/// Where a span began.
struct Begun {
    at: Instant,
    memory: i64,
    allocations: i64,
}

#[derive(Default)]
struct Collected {
    events: Vec<ProfileEvent>,
    threads: BTreeMap<u64, String>,
}

/// Collects spans from [`Profiler::start`] to [`Profiler::stop`].
///
/// ```
/// use straightline::{Tensor, profiler::Profiler};
/// let x = Tensor::from_slice(&[1f32; 64], &[8, 8])?;
/// let profiler = Profiler::start();
/// x.matmul(&x)?.relu()?;
/// let profile = profiler.stop();
/// assert!(profile.table().contains("aten::mm"));
/// # Ok::<(), straightline::Error>(())
/// ```
#[must_use = "a profiler collects until it is stopped or dropped"]
#[derive(Debug)]
pub struct Profiler {
    collected: Arc<Mutex<Collected>>,
    begin: Instant,
    _global: Option<GlobalObserver>,
    _local: Option<crate::dispatch::ThreadObserver>,
}

impl std::fmt::Debug for Collected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} spans", self.events.len())
    }
}

fn lock(collected: &Mutex<Collected>) -> MutexGuard<'_, Collected> {
    collected.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Profiler {
    /// Starts with default options.
    pub fn start() -> Profiler {
        Profiler::start_with(ProfilerOptions::default())
    }

    /// Starts collecting.
    pub fn start_with(options: ProfilerOptions) -> Profiler {
        let begin = Instant::now();
        let collected = Arc::new(Mutex::new(Collected::default()));
        let into = collected.clone();
        let observer = Observer::new(begun, move |f, since| ended(f, since, begin, &into))
            .needs_inputs(options.shapes);
        let (global, local) = if options.all_threads {
            (Some(observer.everywhere()), None)
        } else {
            (None, Some(observer.on_this_thread()))
        };
        Profiler { collected, begin, _global: global, _local: local }
    }

    /// Stops and returns what was collected. Spans that have not ended are left out.
    pub fn stop(self) -> Profile {
        let wall = self.begin.elapsed();
        let Collected { mut events, threads } = std::mem::take(&mut *lock(&self.collected));
        subtract_children(&mut events);
        Profile { events, threads: threads.into_iter().collect(), wall }
    }
}

fn begun(_: &RecordFunction) -> Begun {
    let memory = thread_stats();
    Begun { memory: memory.allocated_bytes, allocations: memory.allocations, at: Instant::now() }
}

fn ended(f: &RecordFunction, since: Begun, begin: Instant, into: &Mutex<Collected>) {
    let total = since.at.elapsed();
    let memory = thread_stats();
    let (name, overload) = match f.operator() {
        Some(op) => (Cow::Borrowed(op.name().name.as_str()), &*op.name().overload),
        None => (Cow::Owned(f.name().to_string()), ""),
    };
    let event = ProfileEvent {
        name,
        overload,
        scope: f.scope(),
        thread: f.thread_id(),
        id: f.id(),
        sequence_number: f.sequence_number(),
        depth: f.depth(),
        start: since.at.saturating_duration_since(begin),
        total,
        own: total,
        memory: memory.allocated_bytes - since.memory,
        own_memory: memory.allocated_bytes - since.memory,
        allocations: memory.allocations - since.allocations,
        inputs: f.inputs().iter().map(Input::of).collect(),
    };
    let mut into = lock(into);
    into.threads.entry(event.thread).or_insert_with(|| {
        let thread = std::thread::current();
        match thread.name() {
            Some(name) => name.to_string(),
            None => format!("thread {}", thread_id()),
        }
    });
    into.events.push(event);
}

impl Input {
    fn of(value: &Value) -> Input {
        let tensors: Vec<&Tensor> = value.tensors().collect();
        let kind = match tensors.first() {
            Some(t) => t.dtype().to_string(),
            None => value.type_name().to_string(),
        };
        Input { sizes: tensors.iter().map(|t| t.sizes().to_vec()).collect(), kind }
    }
}

/// Sorts events, subtracts nested spans from a span's own share, and counts depth from the
/// outermost span of the profile.
fn subtract_children(events: &mut [ProfileEvent]) {
    // ids are given in the order of starts
    events.sort_by_key(|e| (e.thread, e.id));
    // the spans that are open, with their depth on the thread
    let mut open: Vec<(usize, usize)> = Vec::new();
    for i in 0..events.len() {
        let (thread, depth) = (events[i].thread, events[i].depth);
        while open.last().is_some_and(|&(p, d)| events[p].thread != thread || d >= depth) {
            open.pop();
        }
        if let Some(&(p, _)) = open.last() {
            let (total, memory) = (events[i].total, events[i].memory);
            let parent = &mut events[p];
            parent.own = parent.own.saturating_sub(total);
            parent.own_memory -= memory;
        }
        events[i].depth = open.len();
        open.push((i, depth));
    }
}

/// Profiles a closure on all threads and returns its result with the profile.
///
/// ```
/// use straightline::{Tensor, profiler::profile};
/// let x = Tensor::from_vec([1f32, 2.0], 2)?;
/// let (y, profile) = profile(|| x.softmax(0));
/// assert_eq!(y?.sizes(), [2]);
/// println!("{}", profile.table());
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn profile<R>(f: impl FnOnce() -> R) -> (R, Profile) {
    let profiler = Profiler::start();
    let out = f();
    (out, profiler.stop())
}

/// The spans that a [`Profiler`] collected.
#[derive(Clone, Debug)]
pub struct Profile {
    events: Vec<ProfileEvent>,
    threads: Vec<(u64, String)>,
    wall: Duration,
}

impl Profile {
    /// The spans, by thread and in the order in which they began.
    pub fn events(&self) -> &[ProfileEvent] {
        &self.events
    }

    /// The threads that have spans, with their names.
    pub fn threads(&self) -> &[(u64, String)] {
        &self.threads
    }

    /// From start to stop.
    pub fn wall(&self) -> Duration {
        self.wall
    }
}
