//! What streams have queued, and when it runs.
//!
//! A task knows the tasks that it comes after: the one before it in its stream, those whose events
//! the stream waits for, and the rules of the legacy stream. Nothing else orders two tasks, so that
//! a program that forgot an event sees what it forgot.

use super::stream::{Kind, Stream};
use super::work::Work;
use super::{Driver, Order, Session, new_number};
use crate::abi::Handle;
use crate::code::{Code, Outcome};

/// A piece of work in a queue.
pub(crate) struct Task {
    pub(crate) context: Handle,
    /// tasks that have to end first
    pub(crate) after: Vec<u64>,
    pub(crate) work: Work,
    /// a thread is at it
    pub(crate) running: bool,
}

impl Driver {
    /// The tasks that the next one of a stream comes after.
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
        after.retain(|task| self.tasks.contains_key(task));
        after.sort_unstable();
        after.dedup();
        after
    }

    /// Whether a task can run now.
    fn ready(&self, task: &Task) -> bool {
        !task.running && !task.after.iter().any(|before| self.tasks.contains_key(before))
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
        after.extend(further.iter().copied().filter(|task| self.tasks.contains_key(task)));
        let number = new_number();
        self.tasks.insert(number, Task { context, after, work, running: false });
        self.stream_row(handle)?.last = Some(number);
        self.progress(number);
        Ok(Some(number))
    }

    /// What the order says should run when a task was queued.
    fn progress(&mut self, queued: u64) {
        match self.configuration.order {
            Order::Lazy => {}
            Order::Eager => self.drain(queued),
            Order::Random(_) => while self.draw(2) == 0 && self.run_any() {},
        }
    }

    /// Runs a task that can run, whichever chance chooses.
    fn run_any(&mut self) -> bool {
        let ready: Vec<u64> = self
            .tasks
            .iter()
            .filter(|(_, task)| self.ready(task))
            .map(|(number, _)| *number)
            .collect();
        if ready.is_empty() {
            return false;
        }
        let chosen = self.draw(ready.len());
        self.run(ready[chosen]);
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
                }
                Next::Running => self.wait(),
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
                Next::Running => return true,
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
            None => Next::Ready,
        }
    }

    /// Runs a task whose predecessors have ended.
    fn run(&mut self, number: u64) {
        let Some(task) = self.tasks.get_mut(&number) else { return };
        task.running = true;
        let (work, context) = (task.work.clone(), task.context);
        // after a failure nothing of the context runs any more, but its tasks end
        if self.intact(context).is_ok()
            && let Err(failure) = self.perform(&work)
        {
            self.fail(context, failure);
        }
        self.tasks.remove(&number);
        self.announce();
    }

    /// The tasks that end last of what a stream has queued; for the legacy stream, of all streams
    /// that it waits for.
    pub(crate) fn tail(&self, stream: Handle) -> Vec<u64> {
        match self.streams.get(&stream) {
            Some(stream) if stream.kind == Kind::Legacy => self.predecessors(stream),
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
    /// this one has to run first
    After(u64),
    Ready,
}
