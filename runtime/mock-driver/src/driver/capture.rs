//! Stream capture: work becomes nodes of a graph, in the order of streams and events; and the rules
//! that end a capture with an error.

use super::graph::{Graph, Node};
use super::stream::{Captured, Kind};
use super::work::Work;
use super::{Driver, context, new_handle, new_number};
use crate::abi::Handle;
use crate::code::{Code, Outcome};
use std::cell::Cell;

/// `CUstreamCaptureMode`: which calls are refused while a capture goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// unsafe calls of every thread
    Global,
    /// of the thread that captures
    ThreadLocal,
    /// none
    Relaxed,
}

impl Mode {
    pub(crate) fn of(number: u32) -> Outcome<Mode> {
        match number {
            0 => Ok(Mode::Global),
            1 => Ok(Mode::ThreadLocal),
            2 => Ok(Mode::Relaxed),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    pub(crate) fn number(self) -> u32 {
        match self {
            Mode::Global => 0,
            Mode::ThreadLocal => 1,
            Mode::Relaxed => 2,
        }
    }
}

/// A capture that goes on.
#[derive(Debug)]
pub(crate) struct Capture {
    pub(crate) graph: Handle,
    /// whether the graph was the caller's before
    pub(crate) extends: bool,
    /// the stream that it began in
    pub(crate) origin: Handle,
    pub(crate) mode: Mode,
    pub(crate) thread: u64,
    /// streams that take part
    pub(crate) streams: Vec<Handle>,
    /// something happened that makes the graph useless
    pub(crate) invalid: bool,
}

thread_local! {
    /// The mode of calls of this thread (`cuThreadExchangeStreamCaptureMode`).
    static MODE: Cell<Mode> = const { Cell::new(Mode::Global) };
}

/// Sets this thread's mode and gives the one before.
pub(crate) fn exchange_mode(mode: Mode) -> Mode {
    MODE.replace(mode)
}

impl Driver {
    /// Whether work of a stream is captured; an error if its capture is of no use any more.
    pub(crate) fn capturing(&self, stream: Handle) -> Outcome<bool> {
        match self.streams.get(&stream).and_then(|stream| stream.capture.as_ref()) {
            None => Ok(false),
            Some(part) if self.captures.get(&part.capture).is_some_and(|it| it.invalid) => {
                Err(Code::STREAM_CAPTURE_INVALIDATED)
            }
            Some(_) => Ok(true),
        }
    }

    fn invalidate(&mut self, capture: u64) {
        if let Some(capture) = self.captures.get_mut(&capture) {
            capture.invalid = true;
        }
    }

    /// Refuses what would have the legacy stream wait for a stream that is captured.
    pub(crate) fn refuse_implicit(&mut self, handle: Handle) -> Outcome {
        let Some(stream) = self.streams.get(&handle) else { return Err(Code::INVALID_HANDLE) };
        if stream.kind != Kind::Legacy {
            return Ok(());
        }
        let context = stream.context;
        let captured: Vec<u64> = self
            .streams
            .values()
            .filter(|other| other.context == context && other.blocking())
            .filter_map(|other| other.capture.as_ref().map(|part| part.capture))
            .collect();
        for &capture in &captured {
            self.invalidate(capture);
        }
        if captured.is_empty() { Ok(()) } else { Err(Code::STREAM_CAPTURE_IMPLICIT) }
    }

    /// Refuses calls that are not safe while a capture goes on: those that wait for the device or
    /// may do so.
    pub(crate) fn refuse_unsafe(&mut self) -> Outcome {
        let thread = context::thread();
        let mine = MODE.get();
        let hit: Vec<u64> = self
            .captures
            .iter()
            .filter(|(_, capture)| match mine {
                Mode::Relaxed => false,
                Mode::ThreadLocal => capture.thread == thread && capture.mode != Mode::Relaxed,
                Mode::Global => {
                    capture.mode == Mode::Global
                        || capture.thread == thread && capture.mode != Mode::Relaxed
                }
            })
            .map(|(number, _)| *number)
            .collect();
        for &capture in &hit {
            self.invalidate(capture);
        }
        if hit.is_empty() { Ok(()) } else { Err(Code::STREAM_CAPTURE_UNSUPPORTED) }
    }

    /// Refuses to wait for a stream that is captured, or for its context.
    pub(crate) fn refuse_captured(&mut self, which: impl Fn(Handle, Handle) -> bool) -> Outcome {
        let hit: Vec<u64> = self
            .streams
            .iter()
            .filter(|(handle, stream)| which(**handle, stream.context))
            .filter_map(|(_, stream)| stream.capture.as_ref().map(|part| part.capture))
            .collect();
        for &capture in &hit {
            self.invalidate(capture);
        }
        if hit.is_empty() { Ok(()) } else { Err(Code::STREAM_CAPTURE_UNSUPPORTED) }
    }

    /// Begins a capture in a stream, of a new graph or after nodes of one.
    pub(crate) fn begin_capture(
        &mut self,
        stream: Handle,
        mode: Mode,
        into: Option<(Handle, Vec<Handle>)>,
    ) -> Outcome {
        let row = self.stream_row(stream)?;
        if row.kind == Kind::Legacy {
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        if row.capture.is_some() {
            return Err(Code::ILLEGAL_STATE);
        }
        let extends = into.is_some();
        let (graph, after) = match into {
            Some(into) => into,
            None => {
                let graph = new_handle();
                self.graphs.insert(graph, Graph::default());
                (graph, Vec::new())
            }
        };
        let capture = new_number();
        self.captures.insert(
            capture,
            Capture {
                graph,
                extends,
                origin: stream,
                mode,
                thread: context::thread(),
                streams: vec![stream],
                invalid: false,
            },
        );
        self.stream_row(stream)?.capture = Some(Captured { capture, after });
        Ok(())
    }

    /// Makes work of a captured stream a node.
    pub(crate) fn capture_work(&mut self, stream: Handle, work: Work) -> Outcome<Handle> {
        let part = self.stream_row(stream)?.capture.clone().ok_or(Code::ILLEGAL_STATE)?;
        let graph = self.captures.get(&part.capture).ok_or(Code::ILLEGAL_STATE)?.graph;
        let node = self.add_node(graph, Node::new(work, part.after))?;
        self.stream_row(stream)?.capture =
            Some(Captured { capture: part.capture, after: vec![node] });
        Ok(node)
    }

    /// A captured stream waits for an event: more nodes to come after, or the stream joins.
    /// `false` if neither stream nor event is captured.
    pub(crate) fn capture_wait(&mut self, stream: Handle, event: Handle) -> Outcome<bool> {
        let row = self.event(event)?;
        let recorded = row.task.is_some() || row.time.is_some();
        let captured = row.captured.clone();
        let part = self.stream_row(stream)?.capture.clone();
        match (part, captured) {
            (None, None) => Ok(false),
            (Some(mut part), Some((capture, nodes))) if part.capture == capture => {
                part.after.extend(nodes);
                part.after.sort_unstable();
                part.after.dedup();
                self.stream_row(stream)?.capture = Some(part);
                Ok(true)
            }
            (Some(part), Some((capture, _))) if self.captures.contains_key(&capture) => {
                self.invalidate(part.capture);
                self.invalidate(capture);
                Err(Code::STREAM_CAPTURE_MERGE)
            }
            // never recorded: nothing to wait for
            (Some(_), None) if !recorded => Ok(true),
            (Some(part), _) => {
                self.invalidate(part.capture);
                Err(Code::STREAM_CAPTURE_ISOLATION)
            }
            (None, Some((capture, nodes))) => {
                let Some(row) = self.captures.get_mut(&capture) else {
                    // the capture has ended: its events stand for nothing
                    return Err(Code::INVALID_VALUE);
                };
                if row.invalid {
                    return Err(Code::STREAM_CAPTURE_INVALIDATED);
                }
                row.streams.push(stream);
                let row = self.stream_row(stream)?;
                if row.kind == Kind::Legacy {
                    self.invalidate(capture);
                    return Err(Code::STREAM_CAPTURE_IMPLICIT);
                }
                row.capture = Some(Captured { capture, after: nodes });
                Ok(true)
            }
        }
    }

    /// Ends a capture and gives its graph.
    pub(crate) fn end_capture(&mut self, stream: Handle) -> Outcome<Handle> {
        let part = self.stream_row(stream)?.capture.clone().ok_or(Code::ILLEGAL_STATE)?;
        let capture = self.captures.get(&part.capture).ok_or(Code::ILLEGAL_STATE)?;
        if capture.mode != Mode::Relaxed && capture.thread != context::thread() {
            return Err(Code::STREAM_CAPTURE_WRONG_THREAD);
        }
        if capture.origin != stream {
            self.invalidate(part.capture);
            return Err(Code::STREAM_CAPTURE_UNMATCHED);
        }
        // what the other streams did has to come before the end of the first one
        let graph = &self.graphs[&capture.graph];
        let mut unjoined = false;
        for other in capture.streams.iter().filter(|other| **other != stream) {
            let last = self.streams.get(other).and_then(|other| other.capture.as_ref());
            let nodes = last.map(|last| last.after.as_slice()).unwrap_or_default();
            unjoined |= nodes.iter().any(|node| !graph.reaches(&part.after, *node));
        }
        let Some(capture) = self.captures.remove(&part.capture) else {
            return Err(Code::ILLEGAL_STATE);
        };
        for stream in &capture.streams {
            if let Some(row) = self.streams.get_mut(stream) {
                row.capture = None;
            }
        }
        let code = match (capture.invalid, unjoined) {
            (true, _) => Code::STREAM_CAPTURE_INVALIDATED,
            (_, true) => Code::STREAM_CAPTURE_UNJOINED,
            _ => return Ok(capture.graph),
        };
        if !capture.extends {
            self.destroy_graph(capture.graph);
        }
        Err(code)
    }
}
