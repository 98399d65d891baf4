//! Graphs of a program, by the addresses that they were recorded with.
//!
//! A run with new addresses is queued step by step; the second one with the same addresses is recorded,
//! and those after it are a launch for each graph. Since memory comes from a cache, the results of a loop lie
//! in the same few places. (PyTorch's CUDA graphs copy inputs into places of the graph's and give out results
//! that the next replay overwrites; here both stay the caller's.)
//!
//! What is recorded allocates on a stream that is for recording alone, so that no other work gets that
//! memory. There is one such stream for each that graphs are launched on, and its memory serves all of
//! these graphs: they run one after the other, and need nothing of it when they have run. (PyTorch and
//! XLA share one pool among graphs likewise.) So does one room serve all programs that are one graph. A program
//! whose graphs have steps between them has a room of its own: such a step may be anybody's code, which runs
//! other programs while the room is in use.

use super::{Layout, Places, bytes_on, driver};
use crate::error::Result;
use crate::tensor::Tensor;
use crate::{MatmulPrecision, float32_matmul_precision};
use smallvec::SmallVec;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use straightline_catalog::Device;
use straightline_cuda::allocator::StreamId;
use straightline_cuda::driver::{Graph, Stream};

/// The graphs of so many sets of addresses are kept for a program, and as many addresses that have been seen
/// once.
const KEPT: usize = 8;

/// The stream, and all addresses but the room's.
pub(super) type Key = SmallVec<[u64; 16]>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the graphs share that are launched on one stream.
pub(super) struct Pool {
    /// Where they are launched.
    launches: Stream,
    /// Where they are recorded.
    pub(super) recording: Stream,
    /// The room of graphs that are recorded from now on.
    room: Mutex<Option<Tensor>>,
    turns: Mutex<()>,
}

impl Pool {
    /// Nobody else queues work that uses its memory, or records, as long as the guard lives.
    pub(super) fn enter(&self) -> MutexGuard<'_, ()> {
        lock(&self.turns)
    }

    /// A room with so many bytes at least; none for none. What it was before is that of earlier graphs.
    pub(super) fn room(&self, device: Device, bytes: usize) -> Result<Option<Tensor>> {
        grown(&mut lock(&self.room), device, bytes)
    }
}

/// Memory of so many bytes at least, for work on the thread's current stream.
fn grown(room: &mut Option<Tensor>, device: Device, bytes: usize) -> Result<Option<Tensor>> {
    if bytes == 0 {
        return Ok(None);
    }
    if room.as_ref().is_none_or(|t| t.storage().bytes() < bytes) {
        *room = Some(bytes_on(device, bytes)?);
    }
    Ok(room.clone())
}

impl Drop for Pool {
    /// The memory serves others, after what has been launched.
    fn drop(&mut self) {
        if let Err(e) = self.recording.wait_for(&self.launches) {
            tracing::debug!("{e}");
        }
        self.recording.device().allocator().release(self.recording.id());
    }
}

type Pools = HashMap<(u32, StreamId), Arc<Pool>>;

fn pools() -> MutexGuard<'static, Pools> {
    static POOLS: OnceLock<Mutex<Pools>> = OnceLock::new();
    lock(POOLS.get_or_init(Mutex::default))
}

/// The pool of the graphs of a stream.
pub(super) fn pool(stream: &Stream) -> Result<Arc<Pool>> {
    let mut pools = pools();
    let place = (stream.ordinal(), stream.id());
    if let Some(pool) = pools.get(&place) {
        return Ok(pool.clone());
    }
    let device = stream.device();
    let recording = device.new_stream().map_err(driver)?;
    device.allocator().keep(recording.id());
    let (room, turns) = (Mutex::default(), Mutex::default());
    let pool = Arc::new(Pool { launches: stream.clone(), recording, room, turns });
    Ok(pools.entry(place).or_insert(pool).clone())
}

/// Lets go of the pools of a device that no graph uses.
pub(in crate::cuda) fn forget_pools(ordinal: u32) {
    pools().retain(|(of, _), pool| *of != ordinal || Arc::strong_count(pool) > 1);
}

/// A part of a run.
pub(super) enum Part {
    /// Steps that are one launch, and the words of each subsequence of random numbers that they draw.
    Graph(Graph, u64),
    /// Steps that are queued.
    Steps(Range<usize>),
}

/// The graphs of one set of addresses, and what they use.
pub(super) struct Found {
    /// All steps, in order.
    pub(super) parts: Vec<Part>,
    pub(super) room: Option<Tensor>,
    pub(super) layout: Layout,
    pub(super) pool: Arc<Pool>,
    /// Whose turn it is in a room of the program's own.
    pub(super) turns: Option<Arc<Mutex<()>>>,
}

impl Found {
    /// Nobody else's work uses the room as long as the guard lives. `None` if somebody uses a room of the
    /// program's own: to wait for who may be waiting in turn, in a step that is anybody's code, might be
    /// without end.
    pub(super) fn hold(&self) -> Option<MutexGuard<'_, ()>> {
        match &self.turns {
            None => Some(self.pool.enter()),
            Some(turns) => match turns.try_lock() {
                Ok(guard) => Some(guard),
                Err(TryLockError::Poisoned(e)) => Some(e.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            },
        }
    }
}

/// The graphs of a program.
pub(super) struct Recorded {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Whether there may be any.
    possible: bool,
    /// By step, whether it is queued at each run.
    anew: Vec<bool>,
    /// The last ones used first.
    graphs: VecDeque<(Key, Arc<Found>)>,
    seen: VecDeque<Key>,
    /// Rooms of its own, by stream.
    rooms: HashMap<(u32, StreamId), OwnRoom>,
}

/// Memory of a program's own, and whose turn it is there.
pub(super) type OwnRoom = (Option<Tensor>, Arc<Mutex<()>>);

/// What a run does.
pub(super) enum Turn {
    /// Launches these graphs.
    Replay(Arc<Found>),
    /// Records some.
    Record(Key),
    /// Queues its steps.
    Queue,
}

impl Recorded {
    /// For so many steps, of which some are known to be queued at each run.
    pub(super) fn new(possible: bool, anew: Vec<bool>) -> Recorded {
        Recorded { known: Mutex::new(Known { possible, anew, ..Known::default() }) }
    }

    /// What a run with these addresses does, before its room is known.
    pub(super) fn turn(&self, stream: &Stream, places: &Places<'_>) -> Turn {
        let mut known = lock(&self.known);
        if !known.possible || stream.device().is_blocking() {
            return Turn::Queue;
        }
        let precise = u64::from(float32_matmul_precision() == MatmulPrecision::Highest);
        let own = [u64::from(stream.ordinal()), stream.id().0, precise];
        let all = places.inputs.iter().chain(&places.parameters).chain(&places.outputs);
        let key: Key = own.into_iter().chain(all.copied()).collect();
        if let Some(at) = known.graphs.iter().position(|(k, _)| *k == key) {
            known.graphs.swap(0, at);
            return Turn::Replay(known.graphs[0].1.clone());
        }
        match known.seen.iter().position(|k| *k == key) {
            Some(at) => {
                known.seen.remove(at);
                Turn::Record(key)
            }
            None => {
                known.seen.push_front(key);
                known.seen.truncate(KEPT);
                Turn::Queue
            }
        }
    }

    /// The longest runs of steps that may be graphs, of those that `worth` says yes of. If there are none,
    /// nothing of this program is recorded from now on.
    pub(super) fn runs(&self, worth: impl Fn(&Range<usize>) -> bool) -> Vec<Range<usize>> {
        let mut known = lock(&self.known);
        let mut all: Vec<Range<usize>> = Vec::new();
        let mut begin = 0;
        for at in 0..=known.anew.len() {
            if known.anew.get(at).is_none_or(|anew| *anew) {
                all.extend(Some(begin..at).filter(|run| !run.is_empty() && worth(run)));
                begin = at + 1;
            }
        }
        known.possible = !all.is_empty();
        all
    }

    /// Steps can not be recorded.
    pub(super) fn refuse(&self, steps: Range<usize>) {
        if let Some(anew) = lock(&self.known).anew.get_mut(steps) {
            anew.fill(true);
        }
    }

    /// A room of the program's own for a stream, and whose turn it is in it.
    pub(super) fn room(&self, stream: &Stream, device: Device, bytes: usize) -> Result<OwnRoom> {
        let mut known = lock(&self.known);
        let (room, turns) = known.rooms.entry((stream.ordinal(), stream.id())).or_default();
        let before = room.as_ref().map(Tensor::device_address).transpose()?;
        let made = grown(room, device, bytes)?;
        if made.as_ref().map(Tensor::device_address).transpose()? != before {
            *turns = Arc::default();
        }
        Ok((made, turns.clone()))
    }

    /// Keeps what was recorded.
    pub(super) fn keep(&self, key: Key, found: Found) -> Arc<Found> {
        let mut known = lock(&self.known);
        let found = Arc::new(found);
        known.graphs.push_front((key, found.clone()));
        known.graphs.truncate(KEPT);
        found
    }
}
