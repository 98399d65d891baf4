//! Communicators, and the calls of a group on their way into the queue.

use super::Status;
use super::collective::{Collective, Kind, Part};
use super::element::Element;
use crate::abi::Handle;
use crate::driver::graph::Node;
use crate::driver::queue::Task;
use crate::driver::work::Work;
use crate::driver::{Session, new_number};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One rank's side.
#[derive(Clone, Debug)]
pub(crate) struct Communicator {
    pub(crate) clique: u64,
    pub(crate) rank: usize,
    pub(crate) device: usize,
    /// whose legacy stream a null stream is
    pub(crate) context: Handle,
    /// collectives that it has called
    pub(crate) calls: u64,
}

/// Which collective of a communicator: by its number in the order of calls, or which transfer from
/// one rank to another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Key {
    Collective(u64),
    Transfer(usize, usize, u64),
}

/// What the ranks of a communicator share.
#[derive(Debug, Default)]
pub(crate) struct Clique {
    pub(crate) ranks: usize,
    /// tasks of collectives that not all ranks have called
    open: BTreeMap<Key, u64>,
    /// how many transfers there were, by sender and receiver
    sent: BTreeMap<(usize, usize), u64>,
    received: BTreeMap<(usize, usize), u64>,
}

/// What a call asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Request {
    Collective(Kind),
    Send(usize),
    Receive(usize),
}

/// A call of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) communicator: Handle,
    pub(crate) stream: Handle,
    pub(crate) request: Request,
    pub(crate) element: Element,
    pub(crate) count: usize,
    pub(crate) part: Part,
}

/// A call's part in a collective.
struct Place {
    clique: u64,
    key: Key,
    kind: Kind,
    /// how many take part
    of: usize,
    /// which one the caller is
    index: usize,
    rank: usize,
}

impl Place {
    /// A collective that nobody has called yet.
    fn begin(&self, call: &Call) -> Collective {
        Collective {
            kind: self.kind,
            element: call.element,
            count: call.count,
            parts: vec![None; self.of],
        }
    }

    /// Makes a caller part of the collective; all have to call the same.
    fn enter(&self, collective: &mut Collective, call: &Call) -> Result<(), String> {
        let given = (self.kind, call.element, call.count);
        let (kind, element, count) = (collective.kind, collective.element, collective.count);
        if given != (kind, element, count) {
            return Err(format!(
                "rank {} calls {:?} of {} {:?} where another calls {kind:?} of {count} {element:?}",
                self.rank, self.kind, call.count, call.element
            ));
        }
        collective.parts[self.index] = Some(call.part);
        Ok(())
    }
}

/// A collective that is captured, the nodes that it comes after, and the streams of its ranks.
type Gathered = (Collective, [Vec<Handle>; 2]);

impl Session {
    /// Queues the calls of a group. All of a stream's come after what it had queued, and what it
    /// queues next comes after all of them.
    pub(crate) fn submit_group(&mut self, calls: &[Call]) -> Result<(), Status> {
        let mut captured = 0;
        for call in calls {
            let stream = self.stream(call.stream)?;
            captured += usize::from(self.capturing(stream)?);
            let device = self.device_of(self.streams[&stream].context)?;
            let row = self.communicators.get(&call.communicator);
            if row.ok_or(Status::INVALID_ARGUMENT)?.device != device {
                return Err(Status::INVALID_USAGE);
            }
        }
        if captured > 0 {
            return self.capture_group(calls);
        }
        let mut streams: BTreeMap<Handle, (Vec<u64>, Vec<u64>)> = BTreeMap::new();
        for call in calls {
            let stream = self.stream(call.stream)?;
            let context = self.streams[&stream].context;
            let (before, tasks) =
                streams.entry(stream).or_insert_with(|| (self.tail(stream), Vec::new()));
            tasks.push(self.join(call, context, before)?);
        }
        for (stream, (_, tasks)) in streams {
            self.submit(stream, Work::Empty, &tasks)?;
        }
        self.announce();
        Ok(())
    }

    /// The same where streams are captured: nodes that come after those of all ranks. All streams
    /// have to be of one capture, and all ranks in the group.
    fn capture_group(&mut self, calls: &[Call]) -> Result<(), Status> {
        let mut parts = Vec::new();
        for call in calls {
            let stream = self.stream(call.stream)?;
            parts.extend(self.stream_row(stream)?.capture.clone().map(|part| (stream, part)));
        }
        let capture = parts.first().map(|(_, part)| part.capture);
        let of_one = parts.iter().all(|(_, part)| Some(part.capture) == capture);
        if parts.len() < calls.len() || !of_one {
            return self.misused("a captured group has streams that are not of its capture");
        }
        let mut collectives: BTreeMap<(u64, Key), Gathered> = BTreeMap::new();
        for (call, (stream, part)) in calls.iter().zip(parts) {
            let place = self.place(call)?;
            let (collective, [after, streams]) = collectives
                .entry((place.clique, place.key))
                .or_insert_with(|| (place.begin(call), [Vec::new(), Vec::new()]));
            after.extend(part.after);
            streams.push(stream);
            if let Err(text) = place.enter(collective, call) {
                return self.misused(&text);
            }
        }
        if let Some((collective, ..)) = collectives.values().find(|it| !it.0.missing().is_empty()) {
            let text = format!("a captured group lacks ranks {:?}", collective.missing());
            return self.misused(&text);
        }
        let Some(graph) = capture.and_then(|it| self.captures.get(&it)).map(|it| it.graph) else {
            return Err(Status::INVALID_USAGE);
        };
        let mut last: BTreeMap<Handle, Vec<Handle>> = BTreeMap::new();
        for (collective, [after, streams]) in collectives.into_values() {
            let work = Work::Collective(Arc::new(collective));
            let node = self.add_node(graph, Node::new(work, after))?;
            for stream in streams {
                last.entry(stream).or_default().push(node);
            }
        }
        for (stream, nodes) in last {
            if let Some(part) = &mut self.stream_row(stream)?.capture {
                part.after = nodes;
            }
        }
        Ok(())
    }

    fn misused<R>(&mut self, text: &str) -> Result<R, Status> {
        text.clone_into(&mut self.fault);
        Err(Status::INVALID_USAGE)
    }

    /// Which collective a call is part of, and as what.
    fn place(&mut self, call: &Call) -> Result<Place, Status> {
        let row = self.communicators.get_mut(&call.communicator).ok_or(Status::INVALID_ARGUMENT)?;
        let (clique, rank, number) = (row.clique, row.rank, row.calls);
        if let Request::Collective(_) = call.request {
            row.calls += 1;
        }
        let row = self.cliques.get_mut(&clique).ok_or(Status::INVALID_ARGUMENT)?;
        let ranks = row.ranks;
        let mut transfer = |from, to, index, peer| {
            if peer >= ranks {
                return Err(Status::INVALID_ARGUMENT);
            }
            let counts = if index == 0 { &mut row.sent } else { &mut row.received };
            let number = counts.entry((from, to)).or_insert(0);
            *number += 1;
            Ok((Key::Transfer(from, to, *number), Kind::Transfer, 2, index))
        };
        let (key, kind, of, index) = match call.request {
            Request::Collective(kind) => (Key::Collective(number), kind, ranks, rank),
            Request::Send(peer) => transfer(rank, peer, 0, peer)?,
            Request::Receive(peer) => transfer(peer, rank, 1, peer)?,
        };
        Ok(Place { clique, key, kind, of, index, rank })
    }

    /// Makes a rank part of its collective, which the first one makes. Gives the task.
    fn join(&mut self, call: &Call, context: Handle, before: &[u64]) -> Result<u64, Status> {
        let place = self.place(call)?;
        let clique = self.cliques.get_mut(&place.clique).ok_or(Status::INVALID_ARGUMENT)?;
        let number = *clique.open.entry(place.key).or_insert_with(new_number);
        let task = self.tasks.entry(number).or_insert_with(|| Task {
            context,
            after: Vec::new(),
            work: Work::Collective(Arc::new(place.begin(call))),
            running: false,
            earliest: 0,
        });
        task.after.extend(before);
        let Work::Collective(collective) = &mut task.work else {
            return Err(Status::INVALID_USAGE);
        };
        let collective = Arc::make_mut(collective);
        if let Err(text) = place.enter(collective, call) {
            return self.misused(&text);
        }
        if collective.missing().is_empty()
            && let Some(clique) = self.cliques.get_mut(&place.clique)
        {
            clique.open.remove(&place.key);
        }
        Ok(number)
    }
}
