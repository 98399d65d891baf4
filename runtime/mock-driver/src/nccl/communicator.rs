//! Communicators, and the calls of a group on their way into the queue.

use super::Status;
use super::collective::{Collective, Kind, Part};
use super::element::Element;
use crate::abi::Handle;
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

/// What the ranks of a communicator share.
#[derive(Debug, Default)]
pub(crate) struct Clique {
    pub(crate) ranks: usize,
    /// collectives that not all ranks have called, by their number in the order of calls
    open: BTreeMap<u64, u64>,
    /// transfers that one of two ranks has called: from, to, number; and how many there were
    transfers: BTreeMap<(usize, usize, u64), u64>,
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

impl Session {
    /// Queues the calls of a group. All of a stream's come after what it had queued, and what it
    /// queues next comes after all of them.
    pub(crate) fn submit_group(&mut self, calls: &[Call]) -> Result<(), Status> {
        let mut streams: BTreeMap<Handle, (Vec<u64>, Vec<u64>)> = BTreeMap::new();
        for call in calls {
            let stream = self.stream(call.stream)?;
            if self.capturing(stream)? {
                "NCCL's collectives cannot be captured here".clone_into(&mut self.fault);
                return Err(Status::INVALID_USAGE);
            }
            let context = self.streams[&stream].context;
            let device = self.device_of(context)?;
            let row = self.communicators.get(&call.communicator);
            if row.ok_or(Status::INVALID_ARGUMENT)?.device != device {
                return Err(Status::INVALID_USAGE);
            }
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

    /// Makes a rank part of its collective, which the first one makes. Gives the task.
    fn join(&mut self, call: &Call, context: Handle, before: &[u64]) -> Result<u64, Status> {
        let row = self.communicators.get_mut(&call.communicator).ok_or(Status::INVALID_ARGUMENT)?;
        let rank = row.rank;
        let clique = row.clique;
        let number = row.calls;
        if let Request::Collective(_) = call.request {
            row.calls += 1;
        }
        let clique = self.cliques.get_mut(&clique).ok_or(Status::INVALID_ARGUMENT)?;
        let ranks = clique.ranks;
        let (open, kind, of, place) = match call.request {
            Request::Collective(kind) => {
                (clique.open.entry(number).or_insert_with(new_number), kind, ranks, rank)
            }
            Request::Send(peer) | Request::Receive(peer) if peer >= ranks => {
                return Err(Status::INVALID_ARGUMENT);
            }
            Request::Send(peer) => {
                let number = clique.sent.entry((rank, peer)).or_insert(0);
                *number += 1;
                let key = (rank, peer, *number);
                (clique.transfers.entry(key).or_insert_with(new_number), Kind::Transfer, 2, 0)
            }
            Request::Receive(peer) => {
                let number = clique.received.entry((peer, rank)).or_insert(0);
                *number += 1;
                let key = (peer, rank, *number);
                (clique.transfers.entry(key).or_insert_with(new_number), Kind::Transfer, 2, 1)
            }
        };
        let number = *open;
        let new =
            || Collective { kind, element: call.element, count: call.count, parts: vec![None; of] };
        let task = self.tasks.entry(number).or_insert_with(|| Task {
            context,
            after: Vec::new(),
            work: Work::Collective(Arc::new(new())),
            running: false,
            earliest: 0,
        });
        task.after.extend(before);
        let Work::Collective(collective) = &mut task.work else {
            return Err(Status::INVALID_USAGE);
        };
        let collective = Arc::make_mut(collective);
        if (collective.kind, collective.element, collective.count)
            != (kind, call.element, call.count)
        {
            let text = format!(
                "rank {rank} calls {kind:?} of {} {:?} where another calls {:?} of {} {:?}",
                call.count, call.element, collective.kind, collective.count, collective.element
            );
            self.fault = text;
            return Err(Status::INVALID_USAGE);
        }
        collective.parts[place] = Some(call.part);
        Ok(number)
    }
}
