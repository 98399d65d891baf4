//! What streams have queued, and when it runs.
//!
//! A task knows the tasks that it comes after: the one before it in its stream, those whose events
//! the stream waits for, and the rules of the legacy stream. Nothing else orders two tasks, so that
//! a program that forgot an event sees what it forgot.

use super::stream::{Kind, Stream};
use super::work::Work;
use super::{Driver, Failure, Order, Session, new_number};
use crate::abi::Handle;
use crate::code::{Code, Outcome};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// A piece of work in a queue.
pub(crate) struct Task {
    pub(crate) context: Handle,
    /// tasks that have to end first
    pub(crate) after: Vec<u64>,
    pub(crate) work: Work,
    /// a thread is at it
    pub(crate) running: bool,
    /// nanoseconds before which it cannot begin, on the device's clock
    pub(crate) earliest: u64,
}

/// When tasks ended, on a clock that only work moves: work of streams that do not wait for each
/// other overlaps.
#[derive(Default)]
pub(crate) struct Times {
    ended: BTreeMap<u64, u64>,
    /// of tasks that are forgotten
    floor: u64,
    /// what the host has waited for
    host: u64,
}

/// Tasks whose ends are remembered.
const REMEMBERED: usize = 4096;

impl Times {
    fn of(&self, task: u64) -> u64 {
        self.ended.get(&task).copied().unwrap_or(self.floor)
    }

    fn end(&mut self, task: u64, time: u64) {
        self.ended.insert(task, time);
    }

    /// Nothing is queued: only what was latest matters.
    fn settle(&mut self) {
        if self.ended.len() > REMEMBERED {
            self.floor = self.ended.values().copied().max().unwrap_or(0).max(self.floor);
            self.ended.clear();
        }
    }
}

impl Driver {
    /// The tasks that the next one of a stream comes after, ended ones among them.
    fn predecessors(&self, stream: &Stream) -> Vec<u64> {
        let mut after: Vec<u64> = stream.last.into_iter().collect();
        let context = stream.context;
        let others = self.streams.values().filter(|other| other.context == context);
        match stream.kind {
            Kind::Legacy => {
                after
                    .extend(others.filter(|other| other.blocking()).filter_map(|other| other.last));
            }
            _ if stream.blocking() => {
                after.extend(
                    others
                        .filter(|other| other.kind == Kind::Legacy)
                        .filter_map(|other| other.last),
                );
            }
            _ => {}
        }
        after
    }

    /// Whether a task can run now.
    fn ready(&self, task: &Task) -> bool {
        !task.running
            && task.work.complete()
            && !task.after.iter().any(|before| self.tasks.contains_key(before))
    }
}

impl Session {
    /// Queues work in a stream, or makes it a node where the stream is captured. `after` are
    /// further tasks to wait for. Gives the task's number if there is one.
    pub(crate) fn submit(
        &mut self,
        handle: Handle,
        work: Work,
        further: &[u64],
    ) -> Outcome<Option<u64>> {
        if self.capturing(handle)? {
            self.capture_work(handle, work)?;
            return Ok(None);
        }
        self.refuse_implicit(handle)?;
        let stream = self.streams.get(&handle).ok_or(Code::INVALID_HANDLE)?;
        let context = stream.context;
        let mut after = self.predecessors(stream);
        after.extend(further);
        after.sort_unstable();
        after.dedup();
        let ended = after.iter().filter(|task| !self.tasks.contains_key(task));
        let earliest = ended.map(|task| self.times.of(*task)).fold(self.times.host, u64::max);
        after.retain(|task| self.tasks.contains_key(task));
        let number = new_number();
        self.tasks.insert(number, Task { context, after, work, running: false, earliest });
        self.stream_row(handle)?.last = Some(number);
        self.progress();
        Ok(Some(number))
    }

    /// What the order says should run when a task was queued or a host function has ended.
    fn progress(&mut self) {
        match self.configuration.order {
            Order::Lazy => {}
            Order::Eager => while self.run_one(|_| 0) {},
            Order::Random(_) => while self.draw(2) == 0 && self.run_any() {},
        }
    }

    /// Runs a task that can run, whichever chance chooses.
    fn run_any(&mut self) -> bool {
        let chance = self.draw(usize::MAX);
        self.run_one(|ready| chance % ready)
    }

    /// Runs a task of those that can run. `false` if there is none.
    fn run_one(&mut self, choose: impl FnOnce(usize) -> usize) -> bool {
        let tasks = self.tasks.iter();
        let ready: Vec<u64> =
            tasks.filter(|(_, task)| self.ready(task)).map(|(number, _)| *number).collect();
        if ready.is_empty() {
            return false;
        }
        self.run(ready[choose(ready.len())]);
        true
    }

    /// Runs a task and, before it, those that it comes after. Nothing else runs, unless the order
    /// is random.
    pub(crate) fn drain(&mut self, task: u64) {
        let mut path = vec![task];
        while let Some(&top) = path.last() {
            match self.next_before(top) {
                Next::Gone => {
                    path.pop();
                    self.times.host = self.times.host.max(self.times.of(top));
                }
                Next::Running => self.wait(),
                Next::Incomplete => {
                    // other threads may be about to bring the ranks that are missing
                    let patience = Duration::from_secs(self.configuration.patience);
                    if !self.wait_for(patience) {
                        self.abandon(top);
                    }
                }
                Next::After(before) => path.push(before),
                Next::Ready => {
                    let random = matches!(self.configuration.order, Order::Random(_));
                    if !(random && self.draw(2) == 0 && self.run_any()) {
                        self.run(top);
                    }
                }
            }
        }
    }

    /// Runs one task of those that a task needs. Gives whether it was still queued.
    pub(crate) fn step(&mut self, task: u64) -> bool {
        let mut at = task;
        loop {
            match self.next_before(at) {
                Next::Gone => return false,
                Next::Running | Next::Incomplete => return true,
                Next::After(before) => at = before,
                Next::Ready => {
                    self.run(at);
                    return true;
                }
            }
        }
    }

    fn next_before(&mut self, number: u64) -> Next {
        let Some(task) = self.tasks.get(&number) else { return Next::Gone };
        if task.running {
            return Next::Running;
        }
        match task.after.iter().find(|before| self.tasks.contains_key(before)) {
            Some(&before) => Next::After(before),
            None if task.work.complete() => Next::Ready,
            None => Next::Incomplete,
        }
    }

    /// Runs a task whose predecessors have ended. What calls functions of the host begins in a
    /// thread of its own, as on a GPU, and may still run when this returns.
    fn run(&mut self, number: u64) {
        let Some(task) = self.tasks.get_mut(&number) else { return };
        task.running = true;
        if task.work.calls_host() {
            std::thread::spawn(move || {
                let mut session = Session::open();
                session.run_here(number);
                session.progress();
            });
        } else {
            self.run_here(number);
        }
    }

    /// Gives up a collective that not all ranks call.
    fn abandon(&mut self, number: u64) {
        let Some(task) = self.tasks.remove(&number) else { return };
        if let Work::Collective(collective) = &task.work {
            let text = format!(
                "NCCL's {:?} waits for rank {:?}, which does not call it",
                collective.kind,
                collective.missing()
            );
            self.fail(task.context, Failure { code: Code::LAUNCH_TIMEOUT, text });
        }
        self.announce();
    }

    /// Does a piece of work; a panic is a failure like others, since tasks have to end.
    fn attempt(&mut self, work: &Work) -> Result<(), Failure> {
        catch_unwind(AssertUnwindSafe(|| self.perform(work))).unwrap_or_else(|_| {
            let text = "the mock panicked while it ran this; the message is in the test's output";
            Err(Failure { code: Code::UNKNOWN, text: text.to_owned() })
        })
    }

    fn run_here(&mut self, number: u64) {
        let Some(task) = self.tasks.get(&number) else { return };
        let (work, context) = (task.work.clone(), task.context);
        self.clock =
            task.after.iter().map(|before| self.times.of(*before)).fold(task.earliest, u64::max);
        // after a failure nothing of the context runs any more, but its tasks end
        if self.intact(context).is_ok()
            && let Err(failure) = self.attempt(&work)
        {
            self.fail(context, failure);
        }
        let end = self.clock;
        self.times.end(number, end);
        self.tasks.remove(&number);
        if self.tasks.is_empty() {
            self.times.settle();
        }
        self.announce();
    }

    /// The tasks that end last of what a stream has queued; for the legacy stream, of all streams
    /// that it waits for.
    pub(crate) fn tail(&self, stream: Handle) -> Vec<u64> {
        match self.streams.get(&stream) {
            Some(stream) if stream.kind == Kind::Legacy => {
                let mut tail = self.predecessors(stream);
                tail.retain(|task| self.tasks.contains_key(task));
                tail
            }
            Some(stream) => {
                stream.last.into_iter().filter(|task| self.tasks.contains_key(task)).collect()
            }
            None => Vec::new(),
        }
    }

    /// Runs all that a stream has queued.
    pub(crate) fn drain_stream(&mut self, stream: Handle) {
        let after = self.tail(stream);
        for task in after {
            self.drain(task);
        }
    }

    /// Runs all that a context has queued, the streams that were created last first.
    pub(crate) fn drain_context(&mut self, context: Handle) {
        loop {
            let mut queued = self.tasks.iter().filter(|(_, task)| task.context == context);
            let Some(number) = queued.next_back().map(|(number, _)| *number) else { return };
            self.drain(number);
        }
    }

    /// Runs all that is queued on a device.
    pub(crate) fn drain_device(&mut self, device: usize) {
        let contexts: Vec<Handle> = self
            .contexts
            .iter()
            .filter(|(_, context)| context.device == device)
            .map(|(handle, _)| *handle)
            .collect();
        for context in contexts {
            self.drain_context(context);
        }
    }
}

enum Next {
    /// it has ended
    Gone,
    /// a thread is at it
    Running,
    /// not all ranks have called it
    Incomplete,
    /// this one has to run first
    After(u64),
    Ready,
}
