//! Waiting for storages that others use.
//!
//! A call asks for all its storages at once, and holds none of them while it waits, so that calls
//! which want the same ones in another order do not wait for each other. A call that does not get
//! them at once joins one queue, first come, first served: later calls that want the same storages
//! stand behind it, readers behind a writer as well, so that a stream of readers does not keep a
//! writer out. A state with waiters is *closed* (`Borrow::close`): no call enters past the queue,
//! and leaving holders wake the waiters.
//!
//! A thread may wait while a kernel further up its stack holds other storages (a compiled function
//! that calls an operator of the user's). Threads that do can wait for each other in a circle. The
//! queue knows which thread waits for what, and the states know their holders, so a call that would
//! close such a circle gets an error in place of its storages. If the circle exists only because
//! one call stands behind another that waits for it, that call goes first.
//!
//! None of this is on the path of calls without conflicts.

use super::borrow::{Access, Borrow, Obstacle, Reading, ThreadToken, Writing};
use super::held;
use crate::sync::{Condvar, Mutex, MutexGuard, SPINS, global, sleep};
use smallvec::SmallVec;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// How often a call that waits for readers on the home thread checks whether they have left.
const LOOK: Duration = Duration::from_micros(50);

/// Why a call did not get a storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// Another thread uses it, and the call does not wait.
    Taken,
    /// A call further up this thread's stack uses it.
    Own,
    /// The threads that use it wait for this one.
    Circle,
    /// It was not given back in this time.
    Late(Duration),
}

/// Storages that a call has.
#[derive(Default, Debug)]
pub(crate) struct Held<'a> {
    pub(crate) reads: SmallVec<[Reading<'a>; 4]>,
    pub(crate) writes: SmallVec<[Writing<'a>; 1]>,
}

impl<'a> Held<'a> {
    fn push(&mut self, guard: Guard<'a>) {
        match guard {
            Guard::Read(guard) => self.reads.push(guard),
            Guard::Write(guard) => self.writes.push(guard),
        }
    }

    fn leave_quietly(self) {
        self.reads.into_iter().for_each(Reading::leave_quietly);
        self.writes.into_iter().for_each(Writing::leave_quietly);
    }
}

enum Guard<'a> {
    Read(Reading<'a>),
    Write(Writing<'a>),
}

/// Takes everything that is wanted, each written storage once. Waits for other threads unless
/// `limit` is `None`; gives up if no wanted storage was given back for that long. A refusal says
/// what the storage is in use for.
pub(crate) fn acquire<'a>(
    wants: &[(&'a Borrow, Access)],
    me: ThreadToken,
    limit: Option<Duration>,
) -> Result<Held<'a>, (Refusal, Access)> {
    check_own(wants, me)?;
    let mut spins = if limit.is_some() { SPINS } else { 0 };
    while spins > 0 && !wants.iter().any(|(borrow, _)| borrow.is_closed()) {
        if let Some(held) = try_all(wants, me) {
            return Ok(held);
        }
        std::hint::spin_loop();
        spins -= 1;
    }
    let mut queue = lock();
    let (number, bell) = queue.join(wants, me);
    let refusal = 'refused: {
        let mut obstacle = match queue.serve(number, wants, me) {
            Ok(held) => return Ok(held),
            Err(obstacle) => obstacle,
        };
        let Some(limit) = limit else {
            break 'refused Refusal::Taken;
        };
        if queue.waits_for(me, me, false) {
            break 'refused Refusal::Circle;
        }
        if queue.waits_for(me, me, true) {
            queue.call_all();
        }
        loop {
            let waited = queue.waits_since(number).elapsed();
            if waited >= limit {
                break 'refused Refusal::Late(limit);
            }
            queue = match obstacle {
                Obstacle::AtHome => {
                    drop(queue);
                    sleep(LOOK.min(limit - waited));
                    lock()
                }
                Obstacle::Caller => match bell.wait_timeout(queue, limit - waited) {
                    Ok((queue, _)) => queue,
                    Err(poisoned) => poisoned.into_inner().0,
                },
            };
            obstacle = match queue.serve(number, wants, me) {
                Ok(held) => return Ok(held),
                Err(obstacle) => obstacle,
            };
        }
    };
    queue.dismiss(number);
    Err((refusal, found(wants)))
}

/// Refuses storages for which the thread would wait for itself.
fn check_own(wants: &[(&Borrow, Access)], me: ThreadToken) -> Result<(), (Refusal, Access)> {
    for (i, (borrow, access)) in wants.iter().enumerate() {
        let other = |(b, a): &(&Borrow, Access)| {
            b.id() == borrow.id() && (*a == Access::Write || *access == Access::Write)
        };
        if let Some(mine) = borrow.in_my_way(me, *access) {
            return Err((Refusal::Own, mine));
        }
        if let Some((_, access)) = wants[..i].iter().find(|w| other(w)) {
            return Err((Refusal::Own, *access));
        }
    }
    Ok(())
}

/// The access of those in the way.
fn found(wants: &[(&Borrow, Access)]) -> Access {
    let only_reads = wants.iter().all(|(_, access)| *access == Access::Read);
    let written = wants.iter().any(|(borrow, _)| borrow.writer().is_some());
    match written || only_reads {
        true => Access::Write,
        false => Access::Read,
    }
}

/// Takes everything that is wanted without queueing, if nothing is in the way.
pub(crate) fn try_all<'a>(wants: &[(&'a Borrow, Access)], me: ThreadToken) -> Option<Held<'a>> {
    let mut held = Held::default();
    for (borrow, access) in wants {
        held.push(match access {
            Access::Read => Guard::Read(borrow.try_read(me)?),
            Access::Write => Guard::Write(borrow.try_write(me)?),
        });
    }
    Some(held)
}

/// A storage that a waiter wants.
struct Want {
    borrow: *const Borrow,
    access: Access,
}

// SAFETY: `Borrow` is `Sync`, and the pointer is followed as `Want::borrow` says.
unsafe impl Send for Want {}

impl Want {
    fn borrow(&self) -> &Borrow {
        // SAFETY: a want is only reached under the queue's lock, and its waiter, whose thread is in
        // `acquire`, which borrows the state, leaves the queue before that returns.
        unsafe { &*self.borrow }
    }
}

/// A waiting call. A thread has at most one.
struct Waiter {
    number: u64,
    thread: ThreadToken,
    wants: Vec<Want>,
    /// What the thread has noted in `held`.
    holds: Vec<usize>,
    /// When it began to wait, or when a storage that it wants was last given back.
    since: Instant,
    bell: Arc<Condvar>,
}

impl Waiter {
    fn wants(&self, id: usize) -> bool {
        self.wants.iter().any(|w| w.borrow().id() == id)
    }

    /// Whether its thread reads the state already, or has reserved it.
    fn has(&self, borrow: &Borrow) -> bool {
        borrow.home_reader() == Some(self.thread)
            || self.holds.contains(&borrow.id())
            || borrow.writer() == Some(self.thread)
    }

    /// Whether it has to let an earlier one go first.
    fn stands_behind(&self, earlier: &Waiter) -> bool {
        self.wants.iter().any(|mine| {
            let again = match mine.access {
                Access::Read => self.has(mine.borrow()),
                Access::Write => mine.borrow().writer() == Some(self.thread),
            };
            let clash = |theirs: &Want| {
                theirs.borrow().id() == mine.borrow().id()
                    && (theirs.access == Access::Write || mine.access == Access::Write)
            };
            !again && earlier.wants.iter().any(clash)
        })
    }
}

/// The waiting calls, in order of arrival.
struct Queue {
    waiters: Vec<Waiter>,
    last: u64,
}

global! {
    static QUEUE: Mutex<Queue> = Mutex::new(Queue { waiters: Vec::new(), last: 0 });
}

fn lock() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Called when a holder has left a closed state.
#[cold]
pub(super) fn left(borrow: &Borrow) {
    lock().left(borrow.id());
}

impl Queue {
    fn join(&mut self, wants: &[(&Borrow, Access)], me: ThreadToken) -> (u64, Arc<Condvar>) {
        self.last += 1;
        let bell = Arc::new(Condvar::new());
        let wants = wants.iter().map(|(borrow, access)| {
            borrow.close();
            Want { borrow: std::ptr::from_ref(*borrow), access: *access }
        });
        self.waiters.push(Waiter {
            number: self.last,
            thread: me,
            wants: wants.collect(),
            holds: held::all(),
            since: Instant::now(),
            bell: bell.clone(),
        });
        (self.last, bell)
    }

    /// Gives a waiter what it wants and removes it from the queue, if it is its turn and the
    /// storages are free.
    fn serve<'a>(
        &mut self,
        number: u64,
        wants: &[(&'a Borrow, Access)],
        me: ThreadToken,
    ) -> Result<Held<'a>, Obstacle> {
        let at = self.waiters.iter().position(|w| w.number == number);
        if !at.is_some_and(|at| self.is_next(at)) {
            return Err(Obstacle::Caller);
        }
        let mut held = Held::default();
        for (borrow, access) in wants {
            let guard = match access {
                Access::Read => borrow.admit_reader(me).map(Guard::Read),
                Access::Write => borrow.admit_writer(me).map(Guard::Write),
            };
            match guard {
                Ok(guard) => held.push(guard),
                Err(obstacle) => {
                    held.leave_quietly();
                    return Err(obstacle);
                }
            }
        }
        self.dismiss(number);
        Ok(held)
    }

    /// Whether no other call has to go first.
    fn is_next(&self, at: usize) -> bool {
        let me = &self.waiters[at];
        let mut earlier = self.waiters[..at].iter();
        earlier.all(|e| !me.stands_behind(e) || self.waits_for(e.thread, me.thread, true))
    }

    /// Takes a waiter out of the queue.
    fn dismiss(&mut self, number: u64) {
        let Some(at) = self.waiters.iter().position(|w| w.number == number) else {
            return;
        };
        let gone = self.waiters.remove(at);
        for want in &gone.wants {
            let borrow = want.borrow();
            if !self.waiters.iter().any(|w| w.wants(borrow.id())) {
                borrow.open();
            }
        }
        for at in 0..self.waiters.len() {
            let other = &self.waiters[at];
            if gone.wants.iter().any(|w| other.wants(w.borrow().id())) && self.is_next(at) {
                other.bell.notify_one();
            }
        }
    }

    fn left(&mut self, id: usize) {
        for at in 0..self.waiters.len() {
            if !self.waiters[at].wants(id) {
                continue;
            }
            self.waiters[at].since = Instant::now();
            if self.is_next(at) {
                self.waiters[at].bell.notify_one();
            }
        }
    }

    fn call_all(&self) {
        for waiter in &self.waiters {
            waiter.bell.notify_one();
        }
    }

    fn waits_since(&self, number: u64) -> Instant {
        let waiter = self.waiters.iter().find(|w| w.number == number);
        waiter.map_or_else(Instant::now, |w| w.since)
    }

    /// Whether `from` waits for `to` to do something, itself or through others; `courtesy` counts
    /// standing behind as waiting.
    fn waits_for(&self, from: ThreadToken, to: ThreadToken, courtesy: bool) -> bool {
        let mut seen = vec![from];
        let mut at = 0;
        while at < seen.len() {
            for next in self.in_the_way_of(seen[at], courtesy) {
                if next == to {
                    return true;
                }
                if !seen.contains(&next) {
                    seen.push(next);
                }
            }
            at += 1;
        }
        false
    }

    /// The threads that a thread waits for; empty if it does not wait.
    fn in_the_way_of(&self, thread: ThreadToken, courtesy: bool) -> Vec<ThreadToken> {
        let mut out = Vec::new();
        let Some(at) = self.waiters.iter().position(|w| w.thread == thread) else {
            return out;
        };
        let me = &self.waiters[at];
        for want in &me.wants {
            let borrow = want.borrow();
            out.extend(borrow.writer());
            if want.access == Access::Write {
                out.extend(borrow.home_reader());
                let readers = self.waiters.iter().filter(|w| w.holds.contains(&borrow.id()));
                out.extend(readers.map(|w| w.thread));
            }
        }
        if courtesy {
            let earlier = self.waiters[..at].iter().filter(|e| me.stands_behind(e));
            out.extend(earlier.map(|e| e.thread));
        }
        out.retain(|t| *t != thread);
        out
    }
}
