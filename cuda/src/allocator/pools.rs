//! The state of an allocator: parts of segments, and which of them are free.

use super::blocks::{Block, BlockInfo, Part, SegmentInfo, Use};
use super::{AllocationError, Held, Source, Statistics, StreamId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Blocks are multiples of this.
const ROUND: u64 = 512;
/// Larger blocks are not from the pool of small ones.
const SMALL: u64 = 1 << 20;
/// A segment of small blocks.
const SMALL_SEGMENT: u64 = 2 << 20;
/// A segment of larger blocks, unless a block is so large that it has its own.
const LARGE_SEGMENT: u64 = 20 << 20;
const OWN_SEGMENT: u64 = 10 << 20;
/// Segments of their own are multiples of this.
const ROUND_SEGMENT: u64 = 2 << 20;
/// So many sizes of blocks are named when there is no memory.
const NAMED: usize = 4;

pub(super) struct State<E> {
    parts: Vec<Part>,
    /// Numbers of parts that do not exist any more.
    vacant: Vec<usize>,
    /// Free parts: pool, stream, bytes, address, number.
    free: BTreeSet<(bool, StreamId, u64, u64, usize)>,
    /// Work that parts wait for, the oldest first.
    pending: VecDeque<(E, usize)>,
    /// Streams whose free parts are used by recorded work.
    pub(super) kept: BTreeSet<StreamId>,
    pub(super) statistics: Statistics,
}

impl<E> Default for State<E> {
    fn default() -> Self {
        State {
            parts: Vec::new(),
            vacant: Vec::new(),
            free: BTreeSet::new(),
            pending: VecDeque::new(),
            kept: BTreeSet::new(),
            statistics: Statistics::default(),
        }
    }
}

fn rounded(bytes: u64) -> Option<u64> {
    bytes.max(1).checked_next_multiple_of(ROUND)
}

/// The bytes of a new segment for a block.
fn segment_for(bytes: u64) -> Option<u64> {
    match bytes {
        _ if bytes <= SMALL => Some(SMALL_SEGMENT),
        _ if bytes < OWN_SEGMENT => Some(LARGE_SEGMENT),
        _ => bytes.checked_next_multiple_of(ROUND_SEGMENT),
    }
}

impl<E> State<E> {
    pub(super) fn allocate<S: Source<Event = E>>(
        &mut self,
        source: &S,
        requested: u64,
        stream: StreamId,
    ) -> Result<Block, AllocationError> {
        let sizes = rounded(requested).and_then(|bytes| Some((bytes, segment_for(bytes)?)));
        let Some((bytes, segment)) = sizes else {
            return Err(self.out_of_memory(requested));
        };
        self.look_at_pending(source);
        let found = match self.best(bytes, stream) {
            Some(part) => part,
            None => match self.segment(source, bytes, segment, stream)? {
                Some(part) => part,
                None => return Err(self.out_of_memory(requested)),
            },
        };
        Ok(self.take(found, bytes, requested))
    }

    /// The smallest free part that is large enough.
    fn best(&self, bytes: u64, stream: StreamId) -> Option<usize> {
        let small = bytes <= SMALL;
        let from = (small, stream, bytes, 0, 0);
        let to = (small, stream, u64::MAX, u64::MAX, usize::MAX);
        self.free.range(from..=to).next().map(|entry| entry.4)
    }

    /// A new segment as a free part; if there is no memory, after what is cached or waited for has been
    /// given back, or that part.
    fn segment<S: Source<Event = E>>(
        &mut self,
        source: &S,
        bytes: u64,
        segment: u64,
        stream: StreamId,
    ) -> Result<Option<usize>, AllocationError> {
        let allocate = || {
            source
                .allocate(segment)
                .map_err(|e| AllocationError::Driver { bytes: segment, reason: e.to_string() })
        };
        let mut address = allocate()?;
        if address.is_none() {
            self.statistics.retries += 1;
            self.empty_cache(source);
            address = allocate()?;
        }
        if address.is_none() && !self.pending.is_empty() {
            self.wait_for_pending(source);
            if let Some(part) = self.best(bytes, stream) {
                return Ok(Some(part));
            }
            self.empty_cache(source);
            address = allocate()?;
        }
        Ok(address.map(|address| {
            self.statistics.segment.add(1);
            self.statistics.reserved.add(segment);
            let part = Part {
                address,
                bytes: segment,
                stream,
                small: bytes <= SMALL,
                used: Use::Free,
                also: Vec::new(),
                before: None,
                after: None,
            };
            let number = self.add(part);
            self.list(number);
            number
        }))
    }

    fn add(&mut self, part: Part) -> usize {
        match self.vacant.pop() {
            Some(number) => {
                self.parts[number] = part;
                number
            }
            None => {
                self.parts.push(part);
                self.parts.len() - 1
            }
        }
    }

    fn entry(&self, number: usize) -> (bool, StreamId, u64, u64, usize) {
        let p = &self.parts[number];
        (p.small, p.stream, p.bytes, p.address, number)
    }

    fn list(&mut self, number: usize) {
        self.free.insert(self.entry(number));
    }

    fn unlist(&mut self, number: usize) {
        self.free.remove(&self.entry(number));
    }

    /// Uses the first bytes of a free part; what is left stays free where it is worth it.
    fn take(&mut self, number: usize, bytes: u64, requested: u64) -> Block {
        self.unlist(number);
        let left = self.parts[number].bytes - bytes;
        let splits = if self.parts[number].small { left >= ROUND } else { left > SMALL };
        if splits {
            let part = &self.parts[number];
            let (after, small, stream) = (part.after, part.small, part.stream);
            let rest = Part {
                address: part.address + bytes,
                bytes: left,
                stream,
                small,
                used: Use::Free,
                also: Vec::new(),
                before: Some(number),
                after,
            };
            let rest = self.add(rest);
            if let Some(after) = after {
                self.parts[after].before = Some(rest);
            }
            self.parts[number].after = Some(rest);
            self.parts[number].bytes = bytes;
            self.list(rest);
        }
        let part = &mut self.parts[number];
        part.used = Use::Taken { requested };
        self.statistics.allocation.add(1);
        self.statistics.allocated.add(part.bytes);
        self.statistics.active.add(part.bytes);
        self.statistics.requested.add(requested);
        Block { number, address: part.address, requested, stream: part.stream }
    }

    pub(super) fn record_stream(&mut self, block: &Block, stream: StreamId) {
        let part = &mut self.parts[block.number];
        if stream != part.stream && !part.also.contains(&stream) {
            part.also.push(stream);
        }
    }

    pub(super) fn free<S: Source<Event = E>>(&mut self, source: &S, block: Block) {
        let part = &mut self.parts[block.number];
        self.statistics.allocation.take(1);
        self.statistics.allocated.take(part.bytes);
        self.statistics.requested.take(block.requested);
        let mut events = 0;
        for stream in std::mem::take(&mut part.also) {
            // a stream that can not say where it is has failed for good, and nothing of it runs
            if let Ok(event) = source.record(stream) {
                self.pending.push_back((event, block.number));
                events += 1;
            }
        }
        part.used = Use::Waits { events };
        if events == 0 {
            self.give_back(block.number);
        }
    }

    /// A part serves others again, together with its free neighbours.
    fn give_back(&mut self, number: usize) {
        self.statistics.active.take(self.parts[number].bytes);
        self.parts[number].used = Use::Free;
        let mut number = number;
        if let Some(before) = self.parts[number].before
            && self.parts[before].used == Use::Free
        {
            self.unlist(before);
            self.join(before, number);
            number = before;
        }
        if let Some(after) = self.parts[number].after
            && self.parts[after].used == Use::Free
        {
            self.unlist(after);
            self.join(number, after);
        }
        self.list(number);
    }

    /// Two neighbours become one.
    fn join(&mut self, first: usize, second: usize) {
        let (bytes, after) = (self.parts[second].bytes, self.parts[second].after);
        self.parts[first].bytes += bytes;
        self.parts[first].after = after;
        if let Some(after) = after {
            self.parts[after].before = Some(first);
        }
        self.vacant.push(second);
    }

    fn ended(&mut self, number: usize) {
        if let Use::Waits { events } = &mut self.parts[number].used {
            *events -= 1;
            if *events == 0 {
                self.give_back(number);
            }
        }
    }

    fn look_at_pending<S: Source<Event = E>>(&mut self, source: &S) {
        let mut left = VecDeque::new();
        for (event, number) in std::mem::take(&mut self.pending) {
            match source.is_done(&event) {
                true => self.ended(number),
                false => left.push_back((event, number)),
            }
        }
        self.pending = left;
    }

    fn wait_for_pending<S: Source<Event = E>>(&mut self, source: &S) {
        for (event, number) in std::mem::take(&mut self.pending) {
            source.wait(&event);
            self.ended(number);
        }
    }

    pub(super) fn empty_cache<S: Source<Event = E>>(&mut self, source: &S) {
        self.look_at_pending(source);
        let free = self.free.iter().filter(|(_, stream, ..)| !self.kept.contains(stream));
        let free = free.map(|entry| entry.4);
        let whole: Vec<usize> = free.filter(|n| self.parts[*n].is_free_segment()).collect();
        for number in whole {
            self.unlist(number);
            source.free(self.parts[number].address);
            self.statistics.segment.take(1);
            self.statistics.reserved.take(self.parts[number].bytes);
            self.vacant.push(number);
        }
    }

    fn existing(&self) -> impl Iterator<Item = &Part> {
        let vacant: BTreeSet<usize> = self.vacant.iter().copied().collect();
        let there = move |(number, _): &(usize, &Part)| !vacant.contains(number);
        self.parts.iter().enumerate().filter(there).map(|(_, part)| part)
    }

    fn out_of_memory(&mut self, requested: u64) -> AllocationError {
        self.statistics.out_of_memory += 1;
        let mut sizes: BTreeMap<u64, usize> = BTreeMap::new();
        for part in self.existing() {
            if let Use::Taken { requested } = part.used {
                *sizes.entry(requested).or_default() += 1;
            }
        }
        let s = &self.statistics;
        AllocationError::OutOfMemory {
            requested,
            allocated: s.allocated.now,
            cached: s.reserved.now - s.allocated.now,
            held: Held(sizes.into_iter().rev().take(NAMED).collect()),
        }
    }

    pub(super) fn snapshot(&self) -> Vec<SegmentInfo> {
        let mut segments: Vec<SegmentInfo> = Vec::new();
        for first in self.existing().filter(|p| p.before.is_none()) {
            let mut blocks = Vec::new();
            let mut at = Some(first);
            while let Some(part) = at {
                blocks.push(BlockInfo {
                    address: part.address,
                    bytes: part.bytes,
                    requested: match part.used {
                        Use::Taken { requested } => Some(requested),
                        _ => None,
                    },
                    waits: matches!(part.used, Use::Waits { .. }),
                });
                at = part.after.map(|n| &self.parts[n]);
            }
            let bytes = blocks.iter().map(|b| b.bytes).sum();
            let (address, stream) = (first.address, first.stream);
            segments.push(SegmentInfo { address, bytes, stream, blocks });
        }
        segments.sort_by_key(|s| s.address);
        segments
    }
}
