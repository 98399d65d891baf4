//! Streams and events.

use super::{Driver, context, new_handle, new_number};
use crate::abi::Handle;
use crate::code::{Code, Outcome};

/// `CU_STREAM_NON_BLOCKING`
pub(crate) const NON_BLOCKING: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING`
pub(crate) const DISABLE_TIMING: u32 = 2;

/// What kind of stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// the one of null handles, which waits for all blocking ones and has them wait
    Legacy,
    PerThread,
    Created,
}

/// A stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) context: Handle,
    pub(crate) flags: u32,
    pub(crate) priority: i32,
    pub(crate) kind: Kind,
    pub(crate) number: u64,
    /// the task queued last
    pub(crate) last: Option<u64>,
    /// while it is captured
    pub(crate) capture: Option<Captured>,
}

/// A stream's part in a capture.
#[derive(Clone, Debug)]
pub(crate) struct Captured {
    pub(crate) capture: u64,
    /// the nodes that the next one comes after
    pub(crate) after: Vec<Handle>,
}

impl Stream {
    pub(crate) fn new(context: Handle, flags: u32, priority: i32, kind: Kind) -> Stream {
        let number = new_number();
        Stream { context, flags, priority, kind, number, last: None, capture: None }
    }

    /// Whether it is in order with the legacy stream.
    pub(crate) fn blocking(&self) -> bool {
        self.flags & NON_BLOCKING == 0
    }
}

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) context: Handle,
    pub(crate) flags: u32,
    /// the task of the last record
    pub(crate) task: Option<u64>,
    /// which record counts
    pub(crate) record: u64,
    /// when it completed, on the device's clock
    pub(crate) time: Option<u64>,
    /// recorded in a stream that was captured: in which capture, after which nodes
    pub(crate) captured: Option<(u64, Vec<Handle>)>,
}

impl Event {
    pub(crate) fn new(context: Handle, flags: u32) -> Event {
        Event { context, flags, task: None, record: 0, time: None, captured: None }
    }
}

impl Driver {
    /// The stream that a call names: null and `CU_STREAM_LEGACY`, `CU_STREAM_PER_THREAD`, or one
    /// that was created. Its context has to be intact.
    pub(crate) fn stream(&mut self, handle: Handle) -> Outcome<Handle> {
        let handle = match handle {
            0 | 1 => self.contexts[&self.context()?].legacy,
            2 => {
                let (owner, thread) = (self.context()?, context::thread());
                match self.contexts[&owner].per_thread.get(&thread) {
                    Some(&stream) => stream,
                    None => {
                        let stream = new_handle();
                        self.streams.insert(stream, Stream::new(owner, 0, 0, Kind::PerThread));
                        let owner = self.contexts.get_mut(&owner).ok_or(Code::INVALID_CONTEXT)?;
                        owner.per_thread.insert(thread, stream);
                        stream
                    }
                }
            }
            handle => handle,
        };
        if !self.initialized {
            return Err(Code::NOT_INITIALIZED);
        }
        let stream = self.streams.get(&handle).ok_or(Code::INVALID_HANDLE)?;
        self.intact(stream.context)?;
        Ok(handle)
    }

    /// A stream's row; handles come from [`stream`](Driver::stream).
    pub(crate) fn stream_row(&mut self, handle: Handle) -> Outcome<&mut Stream> {
        self.streams.get_mut(&handle).ok_or(Code::INVALID_HANDLE)
    }

    /// An event's row; its context has to be intact.
    pub(crate) fn event(&mut self, handle: Handle) -> Outcome<&mut Event> {
        if !self.initialized {
            return Err(Code::NOT_INITIALIZED);
        }
        let context = self.events.get(&handle).ok_or(Code::INVALID_HANDLE)?.context;
        self.intact(context)?;
        self.events.get_mut(&handle).ok_or(Code::INVALID_HANDLE)
    }
}
