//! Graphs of a program, by the addresses that they were recorded with.
//!
//! A run with new addresses is queued step by step; the second one with the same addresses is recorded,
//! and those after it are one launch. Since memory comes from a cache, the results of a loop lie in the
//! same few places. (PyTorch's CUDA graphs copy inputs into places of the graph's and give out results
//! that the next replay overwrites; here both stay the caller's.)
//!
//! What is recorded allocates on a stream that is for recording alone, so that no other work gets that
//! memory. There is one such stream for each that graphs are launched on, and its memory serves all of
//! these graphs: they run one after the other, and need nothing of it when they have run. (PyTorch and
//! XLA share one pool among graphs likewise.)

use super::{Places, bytes_on, driver};
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use smallvec::SmallVec;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use straightline_catalog::Device;
use straightline_cuda::allocator::StreamId;
use straightline_cuda::driver::{DriverError, Graph, Stream};

/// So many graphs of a program are kept, and as many addresses that have been seen once.
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
    recording: Stream,
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
        if bytes == 0 {
            return Ok(None);
        }
        let mut room = lock(&self.room);
        if room.as_ref().is_none_or(|t| t.storage().bytes() < bytes) {
            *room = Some(bytes_on(device, bytes)?);
        }
        Ok(room.clone())
    }
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

/// A graph and what it uses.
pub(super) struct Found {
    pub(super) graph: Graph,
    pub(super) room: Option<Tensor>,
    pub(super) pool: Arc<Pool>,
}

/// The graphs of a program.
pub(super) struct Recorded {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    possible: bool,
    /// The last one used first.
    graphs: VecDeque<(Key, Arc<Found>)>,
    seen: VecDeque<Key>,
}

/// What a run does.
pub(super) enum Turn {
    /// Launches this graph.
    Replay(Arc<Found>),
    /// Records one.
    Record(Key),
    /// Queues its steps.
    Queue,
}

/// Why nothing was recorded.
enum Why {
    Queueing(Error),
    Recording(DriverError),
}

impl From<DriverError> for Why {
    fn from(e: DriverError) -> Why {
        Why::Recording(e)
    }
}

impl Recorded {
    pub(super) fn new(possible: bool) -> Recorded {
        Recorded { known: Mutex::new(Known { possible, ..Known::default() }) }
    }

    /// What a run with these addresses does, before its room is known.
    pub(super) fn turn(&self, stream: &Stream, places: &Places<'_>) -> Turn {
        let mut known = lock(&self.known);
        if !known.possible || stream.device().is_blocking() {
            return Turn::Queue;
        }
        let own = [u64::from(stream.ordinal()), stream.id().0];
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

    /// Records what `queue` queues on the stream that it is given, which is the thread's current one
    /// meanwhile. `None` if that can not be recorded, because a step waits for the device: then nothing
    /// of this program is, from now on.
    pub(super) fn record(
        &self,
        pool: Arc<Pool>,
        key: Key,
        name: &str,
        room: Option<Tensor>,
        queue: impl FnOnce(&Stream) -> Result<()>,
    ) -> Option<Arc<Found>> {
        let recording = &pool.recording;
        let graph = Graph::record(recording, name, || {
            let _current = recording.enter();
            queue(recording).map_err(Why::Queueing)
        });
        let mut known = lock(&self.known);
        match graph {
            Ok(graph) => {
                let found = Arc::new(Found { graph, room, pool });
                known.graphs.push_front((key, found.clone()));
                known.graphs.truncate(KEPT);
                Some(found)
            }
            Err(why) => {
                match why {
                    Why::Queueing(e) => tracing::debug!("{name} is not recorded: {e}"),
                    Why::Recording(e) => tracing::debug!("{name} is not recorded: {e}"),
                }
                known.possible = false;
                None
            }
        }
    }
}
