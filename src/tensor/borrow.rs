//! The borrow state of a storage: any number of readers, or one writer.
//!
//! It is a `RefCell`'s, made for threads. This file has the state and the attempts, which succeed
//! or fail at once; a failed call goes to `waiting`, where threads queue. Kernels take a state once
//! per operand and call, so its cost matters for small tensors: locked instructions on entry and
//! exit would be a fifth of a small operator.
//!
//! Most tensors are only ever used by the thread that made them. So a state has a *home* thread,
//! whose reads count in a word of their own with plain loads and stores:
//!
//! | | home thread reads | other thread reads | home thread writes | other thread writes |
//! |---|---|---|---|---|
//! | enters by | plain store to `home_readers` | locked add to `word` | locked exchange of `word` | the same, then a heavy fence |
//!
//! Home reader and foreign writer each announce themselves and then look for the other, which needs
//! a full fence between the two steps on both sides. The writer pays for both: its heavy fence
//! reaches into the home thread (`straightline_runtime::memory::heavy_fence`). It does so once for
//! a state, since it also takes the home away; from then on every thread uses the locked path.
//!
//! A thread that queues sets a bit in `word`. It closes the state to newcomers, which then queue as
//! well, and tells holders to wake a waiter when they leave: those on the locked path see the bit
//! in the word that they change anyway. Readers at home do not look, so a call that waits for them
//! polls. This happens once in the life of a state, because the first writer from elsewhere ends
//! the home.
//!
//! The holder of a state is known without a record, except for readers on the locked path: a
//! writer's thread stands in `word` in place of the home, a home reader is the thread that made the
//! state, and other readers record the states that they are in (`held`). So a thread can tell that
//! it would wait for itself.
//!
//! A call that is made of several kernels *reserves* what it writes (`reserved`): it is the writer,
//! and kernels beneath it on the same thread enter all the same.
//!
//! A state also remembers for good whether any thread but the one that made it has ever entered.
//! Shapes may change in place only while none has (`tensor::geometry`): a kernel elsewhere may have
//! looked at the old one.
//!
//! `tests/loom.rs` checks this file and `waiting` against the memory model.

use super::{held, reserved, waiting};
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence, heavy_fence, light_fence};
use std::marker::PhantomData;

/// A thread, as states know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ThreadToken(u32);

/// The owner of states that have no home.
const NOBODY: u32 = u32::MAX;

impl ThreadToken {
    /// A thread that is not the home of any state.
    pub(crate) const HOMELESS: ThreadToken = ThreadToken(NOBODY - 1);
    /// No thread yet; equal to no thread's token.
    pub(crate) const UNSET: ThreadToken = ThreadToken(0);

    /// The token of a number that no other thread has.
    pub(crate) fn new(number: u32) -> ThreadToken {
        if number == 0 || number >= LOCKED_ROAD {
            return ThreadToken::HOMELESS;
        }
        ThreadToken(number)
    }

    /// The same thread if the system has no fences into other threads: it then always takes the
    /// locked path.
    pub(crate) fn without_home(self) -> ThreadToken {
        ThreadToken(self.0 | LOCKED_ROAD)
    }

    /// `word` of a state whose home is this thread, while no other thread uses it.
    #[inline(always)]
    fn idle_word(self) -> u64 {
        u64::from(self.0) << 32
    }
}

/// In a token: the thread always takes the locked path.
const LOCKED_ROAD: u32 = 1 << 30;
/// In `maker`: another thread has entered.
const SHARED: u32 = 1 << 31;

/// In `word`: a writer is there, and the upper half says on which thread.
const WRITING: u64 = 1 << 31;
/// In `word`: threads wait. Only set and taken away under the queue's lock.
const QUEUED: u64 = 1 << 30;
/// In `word`: these and the readers, those at home apart.
const USERS: u64 = (1 << 32) - 1;

/// The kind of access that is held or wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Which call blocks the one whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Obstacle {
    /// A holder that wakes the waiting calls when it leaves.
    Caller,
    /// A reader on the home thread, which wakes no one.
    AtHome,
}

/// See the [module](self).
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Borrow {
    /// The home thread in the upper half (during a write, the writer's thread), users in the lower
    /// half.
    word: AtomicU64,
    /// Readers on the home thread. Only that thread writes it.
    home_readers: AtomicU32,
    /// The thread that made the state, and whether another one has ever entered.
    maker: AtomicU32,
}

impl Borrow {
    /// A free state whose home is this thread.
    #[inline]
    pub(crate) fn new(home: ThreadToken) -> Borrow {
        let maker = home;
        let home = if home.0 & LOCKED_ROAD != 0 { ThreadToken(NOBODY) } else { home };
        Borrow {
            word: AtomicU64::new(home.idle_word()),
            home_readers: AtomicU32::new(0),
            maker: AtomicU32::new(maker.0),
        }
    }

    /// Adds a reader that never leaves, to a fresh state: nobody will ever write.
    pub(crate) fn read_for_good(&self) {
        self.home_readers.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds a reader to a state that nobody else has. It is in no list of readers, so that nobody may
    /// wait for it to write.
    pub(crate) fn enter_unnoted(&self) {
        self.word.fetch_add(1, Ordering::Acquire);
    }

    /// Takes that reader away.
    pub(crate) fn leave_unnoted(&self) {
        self.leave(1);
    }

    /// Whether this thread made the state.
    #[inline]
    pub(crate) fn is_made_by(&self, me: ThreadToken) -> bool {
        self.maker.load(Ordering::Relaxed) & !SHARED == me.0
    }

    /// Whether this thread made the state and no other has entered. Stores that the caller made
    /// before are visible to all threads that enter later.
    pub(crate) fn is_private_to(&self, me: ThreadToken) -> bool {
        fence(Ordering::SeqCst);
        self.maker.load(Ordering::Relaxed) == me.0 && me.0 & SHARED == 0
    }

    /// Records that a thread which did not make the state has entered. Stores that others made
    /// before [`Borrow::is_private_to`] returned true are visible from here on.
    #[inline]
    fn note(&self, me: ThreadToken) {
        if !self.is_made_by(me) {
            self.note_stranger();
        }
    }

    #[cold]
    fn note_stranger(&self) {
        if self.maker.load(Ordering::Relaxed) & SHARED == 0 {
            self.maker.fetch_or(SHARED, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
    }

    /// Enters as a reader, unless there is a writer or a waiter. `me` is the current thread's own
    /// token.
    #[inline]
    pub(crate) fn try_read(&self, me: ThreadToken) -> Option<Reading<'_>> {
        let idle = me.idle_word();
        let word = self.word.load(Ordering::Relaxed);
        if word == idle {
            let n = self.home_readers.load(Ordering::Relaxed);
            self.home_readers.store(n + 1, Ordering::Relaxed);
            // pairs with the writer's heavy fence: it sees the count, or we see it
            light_fence();
            // Acquire: foreign readers have finished. (A foreign write would have ended the home.)
            if self.word.load(Ordering::Acquire) == idle {
                return Some(Reading::new(self, AT_HOME));
            }
            self.home_readers.store(n, Ordering::Release);
        } else if word & (WRITING | QUEUED) != 0 {
            return self.read_reserved(me);
        }
        let old = self.word.fetch_add(1, Ordering::Acquire);
        if old & (WRITING | QUEUED) != 0 {
            self.leave(1);
            return None;
        }
        self.note(me);
        Some(Reading::new(self, held::note(self.id())))
    }

    /// Enters as the writer, if the state is free and no call waits. `me` is the current thread's
    /// own token.
    #[inline]
    pub(crate) fn try_write(&self, me: ThreadToken) -> Option<Writing<'_>> {
        let Some(writing) = self.take(me, 0) else {
            return self.write_reserved(me);
        };
        // Acquire: pairs with the release of the home thread's last reader
        if self.home_readers.load(Ordering::Acquire) != 0 {
            return None; // and `writing` leaves
        }
        self.note(me);
        Some(writing)
    }

    /// Enters as a reader beneath a call of this thread that has reserved the state.
    #[cold]
    fn read_reserved(&self, me: ThreadToken) -> Option<Reading<'_>> {
        if self.writer() != Some(me) {
            return None;
        }
        let note = reserved::enter(self.id(), Access::Read)?;
        Some(Reading::new(self, RESERVED | note))
    }

    /// The same as the writer.
    #[cold]
    fn write_reserved(&self, me: ThreadToken) -> Option<Writing<'_>> {
        if self.writer() != Some(me) {
            return None;
        }
        let note = reserved::enter(self.id(), Access::Write)?;
        Some(Writing::new(self, u64::from(note) << 32))
    }

    /// Becomes the writer recorded in `word`; `allowed` are the bits that may be set.
    #[inline]
    fn take(&self, me: ThreadToken, allowed: u64) -> Option<Writing<'_>> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & USERS & !allowed != 0 {
                return None;
            }
            let mine = me.idle_word() | WRITING | word & allowed;
            let entered =
                self.word.compare_exchange(word, mine, Ordering::Acquire, Ordering::Relaxed);
            match entered {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        let home = (word >> 32) as u32;
        if home == me.0 {
            return Some(Writing::new(self, WRITING));
        }
        if home != NOBODY {
            // The home is gone. Readers of the home thread either show in `home_readers` or have
            // seen that it is; later ones take the locked path.
            heavy_fence();
        }
        // leaves the state without an owner
        let nobody = u64::from(NOBODY - me.0) << 32;
        Some(Writing::new(self, WRITING.wrapping_sub(nobody)))
    }

    /// Ends what [`Borrow::read_reserved`] and [`Borrow::write_reserved`] began.
    #[cold]
    fn leave_beneath(&self, note: u32) {
        match left_beneath(note) {
            0 => {}
            part => self.leave(part),
        }
    }

    /// Subtracts `part` from `word` and wakes waiters.
    #[inline(always)]
    fn leave(&self, part: u64) {
        self.word.fetch_sub(part, Ordering::Release);
        if self.word.load(Ordering::Relaxed) & QUEUED != 0 {
            waiting::left(self);
        }
    }
}

/// What `waiting` does, under the queue's lock.
impl Borrow {
    /// Identifies the state for as long as it lives.
    pub(super) fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Closes the state to calls that do not queue.
    pub(super) fn close(&self) {
        self.word.fetch_or(QUEUED, Ordering::Relaxed);
    }

    /// Opens it.
    pub(super) fn open(&self) {
        self.word.fetch_and(!QUEUED, Ordering::Relaxed);
    }

    /// Whether there are waiters.
    pub(crate) fn is_closed(&self) -> bool {
        self.word.load(Ordering::Relaxed) & QUEUED != 0
    }

    /// [`Borrow::try_read`] for the waiter whose turn it is.
    pub(super) fn admit_reader(&self, me: ThreadToken) -> Result<Reading<'_>, Obstacle> {
        if let Some(reading) = self.read_reserved(me) {
            return Ok(reading);
        }
        let old = self.word.fetch_add(1, Ordering::Acquire);
        if old & WRITING != 0 {
            self.word.fetch_sub(1, Ordering::Release);
            return Err(Obstacle::Caller);
        }
        self.note(me);
        Ok(Reading::new(self, held::note(self.id())))
    }

    /// [`Borrow::try_write`] for the waiter whose turn it is.
    pub(super) fn admit_writer(&self, me: ThreadToken) -> Result<Writing<'_>, Obstacle> {
        if let Some(writing) = self.write_reserved(me) {
            return Ok(writing);
        }
        let writing = self.take(me, QUEUED).ok_or(Obstacle::Caller)?;
        if self.home_readers.load(Ordering::Acquire) != 0 {
            writing.leave_quietly();
            return Err(Obstacle::AtHome);
        }
        self.note(me);
        Ok(writing)
    }

    /// The access that this thread holds, if it conflicts with the one wanted.
    pub(super) fn in_my_way(&self, me: ThreadToken, wanted: Access) -> Option<Access> {
        if self.writer() == Some(me) && reserved::admits(self.id(), wanted) {
            return None;
        }
        let mine = self.mine(me)?;
        (mine == Access::Write || wanted == Access::Write).then_some(mine)
    }

    /// The access that this thread holds.
    pub(super) fn mine(&self, me: ThreadToken) -> Option<Access> {
        if self.writer() == Some(me) {
            return Some(reserved::used(self.id()).unwrap_or(Access::Write));
        }
        (self.home_reader() == Some(me) || held::has(self.id())).then_some(Access::Read)
    }

    /// Who writes. A thread sees its own writes, and under the queue's lock those of threads that
    /// wait.
    pub(super) fn writer(&self) -> Option<ThreadToken> {
        let word = self.word.load(Ordering::Relaxed);
        (word & WRITING != 0).then_some(ThreadToken((word >> 32) as u32))
    }

    /// Who reads at home; as for [`Borrow::writer`].
    pub(super) fn home_reader(&self) -> Option<ThreadToken> {
        let maker = self.maker.load(Ordering::Relaxed) & !SHARED;
        (self.home_readers.load(Ordering::Relaxed) != 0).then_some(ThreadToken(maker))
    }
}

/// In place of a note in `held`: the reader is at home.
const AT_HOME: u32 = u32::MAX;
/// In a note: it is one in `reserved`. A thread has fewer than this many in `held`.
const RESERVED: u32 = 1 << 30;

/// The right to read, until it is dropped. Stays on its thread.
#[derive(Debug)]
pub(crate) struct Reading<'a> {
    borrow: &'a Borrow,
    /// The number of the note in `held`.
    note: u32,
    on_this_thread: PhantomData<*const ()>,
}

impl<'a> Reading<'a> {
    #[inline(always)]
    fn new(borrow: &'a Borrow, note: u32) -> Reading<'a> {
        Reading { borrow, note, on_this_thread: PhantomData }
    }

    /// Ends a borrow that no other thread has seen: it was admitted under the queue's lock, which
    /// is still held.
    pub(super) fn leave_quietly(self) {
        let part = match self.is_beneath() {
            true => left_beneath(self.note & !RESERVED),
            false => {
                held::forget(self.note);
                1
            }
        };
        self.borrow.word.fetch_sub(part, Ordering::Release);
        std::mem::forget(self);
    }

    /// Whether it is beneath a call that has reserved the state.
    #[inline]
    fn is_beneath(&self) -> bool {
        // the two that are no numbers have both upper bits
        self.note >> 30 == RESERVED >> 30
    }
}

impl Drop for Reading<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.note != AT_HOME {
            if self.is_beneath() {
                return self.borrow.leave_beneath(self.note & !RESERVED);
            }
            held::forget(self.note);
            self.borrow.leave(1);
            return;
        }
        // ours alone to write, even if the home has ended since; a call that waits for it looks
        // from time to time
        let n = self.borrow.home_readers.load(Ordering::Relaxed);
        self.borrow.home_readers.store(n - 1, Ordering::Release);
    }
}

/// The right to write, until it is dropped. Stays on its thread.
#[derive(Debug)]
pub(crate) struct Writing<'a> {
    borrow: &'a Borrow,
    /// What is subtracted from `word` at the end: only our own part, because readers that tried
    /// meanwhile have added one each and will subtract it, and others may wait. Beneath a call that
    /// has reserved the state there is no `WRITING` in it, and the upper half is the number of the
    /// note.
    part: u64,
    on_this_thread: PhantomData<*const ()>,
}

impl<'a> Writing<'a> {
    #[inline(always)]
    fn new(borrow: &'a Borrow, part: u64) -> Writing<'a> {
        Writing { borrow, part, on_this_thread: PhantomData }
    }

    /// As [`Reading::leave_quietly`].
    pub(super) fn leave_quietly(self) {
        let part = match self.note() {
            Some(note) => left_beneath(note),
            None => self.part,
        };
        self.borrow.word.fetch_sub(part, Ordering::Release);
        std::mem::forget(self);
    }

    /// The number of the note in `reserved`, beneath a call that has reserved the state.
    #[inline]
    fn note(&self) -> Option<u32> {
        note_of(self.part)
    }
}

#[inline]
fn note_of(part: u64) -> Option<u32> {
    (part & WRITING == 0).then_some((part >> 32) as u32)
}

/// Leaves a state beneath a call that has reserved it. Returns what to subtract from the state's
/// word: nothing, unless the call is over.
fn left_beneath(note: u32) -> u64 {
    let mut part = reserved::leave(note);
    // a call beneath a call may have reserved it once more
    while let Some(outer) = part.and_then(note_of) {
        part = reserved::leave(outer);
    }
    part.unwrap_or(0)
}

impl Drop for Writing<'_> {
    #[inline]
    fn drop(&mut self) {
        match self.note() {
            None => self.borrow.leave(self.part),
            Some(note) => self.borrow.leave_beneath(note),
        }
    }
}

/// A state that is written, for the kernels beneath this call, until it is dropped.
#[derive(Debug)]
pub(crate) struct Reserved<'a> {
    borrow: &'a Borrow,
    /// The number of the note in `reserved`.
    note: u32,
    on_this_thread: PhantomData<*const ()>,
}

impl<'a> Reserved<'a> {
    /// Opens a held state to the kernels beneath; `None` if the thread is ending and can record
    /// nothing.
    pub(crate) fn new(writing: Writing<'a>) -> Option<Reserved<'a>> {
        let note = reserved::open(writing.borrow.id(), writing.part)?;
        let borrow = writing.borrow;
        std::mem::forget(writing);
        Some(Reserved { borrow, note, on_this_thread: PhantomData })
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        // the last user gives the state back instead
        match reserved::close(self.note).map(|part| (part, note_of(part))) {
            Some((_, Some(outer))) => self.borrow.leave_beneath(outer),
            Some((part, None)) => self.borrow.leave(part),
            None => {}
        }
    }
}
