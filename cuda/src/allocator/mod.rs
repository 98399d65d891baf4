//! A caching allocator of device memory, ordered by streams.
//!
//! The driver's own allocation waits for the device, and one that it orders by streams
//! (`cuMemAllocAsync`) can not say what holds the memory, so memory is taken from it in segments and
//! kept. The sizes, pools and the use of events follow PyTorch's `CUDACachingAllocator`; the order of
//! what is tried before an error is its as well.
//!
//! - Blocks of up to 1 MiB come from segments of 2 MiB, larger ones from segments of 20 MiB, or of their
//!   own if they have 10 MiB or more. A block is split where the rest is worth keeping, and joined with
//!   its free neighbours when it is given back.
//! - A block belongs to the stream for which it was allocated. Given back, it serves that stream at
//!   once, since what runs later on the stream runs after what ran before. Work on another stream has
//!   to be told of ([`CachingAllocator::record_stream`]): then the block waits for that work.
//! - Before an allocation fails, blocks whose work has ended are looked at, cached segments are given
//!   back, and the work that other blocks wait for is waited for.
//!
//! What takes part of the driver is a [`Source`], so that all of this is tested without one.

mod blocks;
mod pools;
mod statistics;
#[cfg(test)]
mod tests;

pub use blocks::{Block, BlockInfo, SegmentInfo};
use pools::State;
pub use statistics::{Amount, Statistics};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A stream, as far as memory cares: streams with different numbers run side by side.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamId(pub u64);

/// What memory is taken from, and what knows when work has ended.
pub trait Source {
    /// A point in a stream's work.
    type Event;
    /// Why something failed.
    type Error: fmt::Display;

    /// A segment of so many bytes, aligned to 512; `None` if there is no memory.
    ///
    /// # Errors
    ///
    /// What the driver says, other than that there is no memory.
    fn allocate(&self, bytes: u64) -> Result<Option<u64>, Self::Error>;

    /// Gives a segment back. Nothing uses it any more.
    fn free(&self, address: u64);

    /// The point that a stream's work has come to.
    ///
    /// # Errors
    ///
    /// What the driver says.
    fn record(&self, stream: StreamId) -> Result<Self::Event, Self::Error>;

    /// Whether the work before it has ended.
    fn is_done(&self, event: &Self::Event) -> bool;

    /// Waits for it.
    fn wait(&self, event: &Self::Event);
}

/// No memory is left for a block.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AllocationError {
    /// All has been tried.
    #[error(
        "out of device memory: {requested} bytes are asked for; {allocated} are in use by tensors, {cached} more \
         are cached in segments that tensors share{held}. Smaller batches, or dropping tensors that are not needed, \
         help; so may `empty_cache` in other processes"
    )]
    OutOfMemory {
        /// Bytes.
        requested: u64,
        /// Bytes in blocks that are in use.
        allocated: u64,
        /// Bytes of segments that are not.
        cached: u64,
        /// The largest blocks in use.
        held: Held,
    },
    /// The driver refuses for another reason.
    #[error("{bytes} bytes of device memory can not be allocated: {reason}")]
    Driver {
        /// Bytes.
        bytes: u64,
        /// What the driver says.
        reason: String,
    },
}

/// The largest blocks in use: bytes, and how many there are of that size.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Held(pub Vec<(u64, usize)>);

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (bytes, count)) in self.0.iter().enumerate() {
            write!(f, "{}{count} of {bytes} bytes", if i == 0 { "; the largest: " } else { ", " })?;
        }
        Ok(())
    }
}

/// The allocator of a device.
///
/// ```
/// use straightline_cuda::allocator::{CachingAllocator, Source, StreamId};
/// use std::cell::Cell;
/// // memory without an end, and streams whose work has always ended
/// struct Endless(Cell<u64>);
/// impl Source for Endless {
///     type Event = ();
///     type Error = String;
///     fn allocate(&self, bytes: u64) -> Result<Option<u64>, String> {
///         Ok(Some(self.0.replace(self.0.get() + bytes)))
///     }
///     fn free(&self, _: u64) {}
///     fn record(&self, _: StreamId) -> Result<(), String> { Ok(()) }
///     fn is_done(&self, _: &()) -> bool { true }
///     fn wait(&self, _: &()) {}
/// }
/// let allocator = CachingAllocator::new(Endless(Cell::new(512)));
/// let block = allocator.allocate(1000, StreamId(0)).unwrap();
/// let first = block.address();
/// allocator.free(block);
/// assert_eq!(allocator.allocate(900, StreamId(0)).unwrap().address(), first);
/// assert_eq!(allocator.statistics().reserved.now, 2 << 20);
/// ```
pub struct CachingAllocator<S: Source> {
    state: Mutex<State<S::Event>>,
    source: S,
}

impl<S: Source> CachingAllocator<S> {
    /// One that has no memory yet.
    pub fn new(source: S) -> CachingAllocator<S> {
        CachingAllocator { state: Mutex::new(State::default()), source }
    }

    /// What memory is taken from.
    pub fn source(&self) -> &S {
        &self.source
    }

    fn state(&self) -> MutexGuard<'_, State<S::Event>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block of at least so many bytes, aligned to 512, for work on a stream. A block of no bytes has
    /// an address too.
    ///
    /// # Errors
    ///
    /// [`AllocationError`].
    pub fn allocate(&self, bytes: u64, stream: StreamId) -> Result<Block, AllocationError> {
        self.state().allocate(&self.source, bytes, stream)
    }

    /// Gives a block back.
    pub fn free(&self, block: Block) {
        self.state().free(&self.source, block);
    }

    /// Says that work on another stream uses a block: given back, it serves nobody before what that
    /// stream had to do at that time has ended.
    pub fn record_stream(&self, block: &Block, stream: StreamId) {
        self.state().record_stream(block, stream);
    }

    /// Blocks that a stream has given back stay its own, even where there is no memory: recorded work
    /// uses them.
    pub fn keep(&self, stream: StreamId) {
        self.state().kept.insert(stream);
    }

    /// The opposite of [`CachingAllocator::keep`].
    pub fn release(&self, stream: StreamId) {
        self.state().kept.remove(&stream);
    }

    /// Gives segments without a block in use back to the driver, but for those that are kept.
    pub fn empty_cache(&self) {
        self.state().empty_cache(&self.source);
    }

    /// How much memory there is and was.
    pub fn statistics(&self) -> Statistics {
        self.state().statistics.clone()
    }

    /// Lets the peaks begin at what is now.
    pub fn reset_peaks(&self) {
        self.state().statistics.reset_peaks();
    }

    /// All segments with their blocks, in the order of addresses.
    pub fn snapshot(&self) -> Vec<SegmentInfo> {
        self.state().snapshot()
    }
}

impl<S: Source> Drop for CachingAllocator<S> {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.kept.clear();
        state.empty_cache(&self.source);
    }
}

impl<S: Source> fmt::Debug for CachingAllocator<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachingAllocator").field("statistics", &self.statistics()).finish()
    }
}
