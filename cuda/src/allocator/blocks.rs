//! Blocks and segments.

use super::StreamId;

/// Device memory in use: whoever has it gives it back to the allocator that it is from.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a block that is dropped is lost to its allocator"]
pub struct Block {
    pub(super) number: usize,
    pub(super) address: u64,
    pub(super) requested: u64,
    pub(super) stream: StreamId,
}

impl Block {
    /// The first byte.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The bytes that were asked for.
    pub fn bytes(&self) -> u64 {
        self.requested
    }

    /// The stream for which it was allocated.
    pub fn stream(&self) -> StreamId {
        self.stream
    }
}

/// A block of a segment, as a snapshot has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockInfo {
    /// The first byte.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// Of these, the bytes that were asked for; `None` for a free block.
    pub requested: Option<u64>,
    /// Whether it is given back and waits for work of other streams.
    pub waits: bool,
}

/// A segment, as a snapshot has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentInfo {
    /// The first byte.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// The stream that its blocks belong to.
    pub stream: StreamId,
    /// In the order of addresses, without gaps.
    pub blocks: Vec<BlockInfo>,
}

/// What a block is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Use {
    Free,
    Taken {
        requested: u64,
    },
    /// Given back, with events to wait for.
    Waits {
        events: usize,
    },
}

/// A part of a segment.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) stream: StreamId,
    pub(super) small: bool,
    pub(super) used: Use,
    /// The streams, other than its own, whose work has been told of.
    pub(super) also: Vec<StreamId>,
    /// The neighbours in its segment.
    pub(super) before: Option<usize>,
    pub(super) after: Option<usize>,
}

impl Part {
    /// Whether it is a segment by itself, and free.
    pub(super) fn is_free_segment(&self) -> bool {
        self.used == Use::Free && self.before.is_none() && self.after.is_none()
    }
}
