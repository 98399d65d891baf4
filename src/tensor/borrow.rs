//! The borrow state of a storage: any number of readers, or one writer.
//!
//! It is a `RefCell`'s, made for threads: who comes while the other kind is there gets an error and does not wait. Kernels
//! take it once per operand and call, so for small tensors its price matters, and a locked instruction on each way in
//! and out would be a fifth of a small operator.
//!
//! Most tensors are only ever used by the thread that made them. So a state has a *home* thread, whose reads count in a
//! word of their own with plain loads and stores:
//!
//! | | home thread reads | other thread reads | home thread writes | other thread writes |
//! |---|---|---|---|---|
//! | enters by | plain store to `home_readers` | locked add to `word` | locked exchange of `word` | the same, then a heavy fence |
//!
//! Home reader and foreign writer each announce themselves and then look for the other, which needs a full fence between
//! the two steps on both sides. The writer pays for both: its heavy fence reaches into the home thread
//! (`straightline_runtime::memory::heavy_fence`). It does so once for a state, since it also takes the home away; from
//! then on every thread uses the locked road.
//!
//! A state also remembers for good whether any thread but the one that made it has ever entered. Shapes may change in
//! place only while none has (`tensor::geometry`): a kernel elsewhere may have looked at the old one.
//!
//! `tests/loom.rs` checks this file against the memory model.

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence, heavy_fence, light_fence};
use std::marker::PhantomData;

/// A thread, as states know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ThreadToken(u32);

/// The owner of states that have no home.
const NOBODY: u32 = u32::MAX;

impl ThreadToken {
    /// A thread that is no state's home.
    pub(crate) const HOMELESS: ThreadToken = ThreadToken(NOBODY - 1);
    /// No thread yet; takes part in no comparison that could succeed.
    pub(crate) const UNSET: ThreadToken = ThreadToken(0);

    /// The token of a number that no other thread has.
    pub(crate) fn new(number: u32) -> ThreadToken {
        if number == 0 || number >= LOCKED_ROAD {
            return ThreadToken::HOMELESS;
        }
        ThreadToken(number)
    }

    /// The same thread where fences into other threads are not to be had: it reads like any other, at home too.
    pub(crate) fn without_home(self) -> ThreadToken {
        ThreadToken(self.0 | LOCKED_ROAD)
    }

    /// `word` of a state at home with this thread, while nobody but the thread itself uses it.
    #[inline(always)]
    fn idle_word(self) -> u64 {
        u64::from(self.0) << 32
    }
}

/// In a token: the thread always takes the locked road.
const LOCKED_ROAD: u32 = 1 << 30;
/// In `maker`: another thread has entered.
const SHARED: u32 = 1 << 31;

/// In `word`: a writer is there.
const WRITING: u64 = 1 << 31;
/// In `word`: the writer and the readers, the home thread's apart.
const USERS: u64 = (1 << 32) - 1;

/// Who else uses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Busy {
    Read,
    Written,
}

impl Busy {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Busy::Read => "read",
            Busy::Written => "written",
        }
    }
}

/// See the [module](self).
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Borrow {
    /// The home thread above, users below.
    word: AtomicU64,
    /// Readers on the home thread. Only that thread writes it.
    home_readers: AtomicU32,
    /// The thread that made the state, and whether another one has ever entered.
    maker: AtomicU32,
}

impl Borrow {
    /// Nobody's, at home with this thread.
    #[inline]
    pub(crate) fn new(home: ThreadToken) -> Borrow {
        let maker = home;
        let home = if home.0 & LOCKED_ROAD != 0 {
            ThreadToken(NOBODY)
        } else {
            home
        };
        Borrow {
            word: AtomicU64::new(home.idle_word()),
            home_readers: AtomicU32::new(0),
            maker: AtomicU32::new(maker.0),
        }
    }

    /// Whether this thread made the state.
    #[inline]
    pub(crate) fn is_made_by(&self, me: ThreadToken) -> bool {
        self.maker.load(Ordering::Relaxed) & !SHARED == me.0
    }

    /// Whether this thread made the state and no other has entered. What the caller stored before is seen by all that
    /// enter later.
    pub(crate) fn is_private_to(&self, me: ThreadToken) -> bool {
        fence(Ordering::SeqCst);
        self.maker.load(Ordering::Relaxed) == me.0 && me.0 & SHARED == 0
    }

    /// Notes that a thread has entered which did not make the state. What others stored before they asked
    /// [`Borrow::is_private_to`] and heard yes is seen from here on.
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

    /// Enters as a reader. `me` is the current thread's own token.
    #[inline]
    pub(crate) fn read(&self, me: ThreadToken) -> Result<Reading<'_>, Busy> {
        let idle = me.idle_word();
        if self.word.load(Ordering::Relaxed) == idle {
            let n = self.home_readers.load(Ordering::Relaxed);
            self.home_readers.store(n + 1, Ordering::Relaxed);
            // pairs with the writer's heavy fence: it sees the count, or we see it
            light_fence();
            // Acquire: what foreign readers did is over. (A foreign write would have ended the home.)
            if self.word.load(Ordering::Acquire) == idle {
                return Ok(Reading::new(self, true));
            }
            self.home_readers.store(n, Ordering::Release);
        }
        self.read_shared(me)
    }

    fn read_shared(&self, me: ThreadToken) -> Result<Reading<'_>, Busy> {
        let old = self.word.fetch_add(1, Ordering::Acquire);
        if old & WRITING != 0 {
            self.word.fetch_sub(1, Ordering::Release);
            return Err(Busy::Written);
        }
        self.note(me);
        Ok(Reading::new(self, false))
    }

    /// Enters as the writer. `me` is the current thread's own token.
    #[inline]
    pub(crate) fn write(&self, me: ThreadToken) -> Result<Writing<'_>, Busy> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & USERS != 0 {
                return Err(if word & WRITING != 0 {
                    Busy::Written
                } else {
                    Busy::Read
                });
            }
            match self.word.compare_exchange(
                word,
                word | WRITING,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        let writing = Writing {
            borrow: self,
            on_this_thread: PhantomData,
        };
        let home = (word >> 32) as u32;
        if home != me.0 && home != NOBODY {
            self.end_home();
        }
        // Acquire: pairs with the release of the home thread's last reader
        if self.home_readers.load(Ordering::Acquire) != 0 {
            return Err(Busy::Read); // and `writing` leaves
        }
        self.note(me);
        Ok(writing)
    }

    /// Takes the home away, and makes sure that readers of the home thread either show in `home_readers` or have seen
    /// that there is a writer. Readers that come later find no home and take the locked road.
    #[cold]
    fn end_home(&self) {
        self.word
            .fetch_or(u64::from(NOBODY) << 32, Ordering::Relaxed);
        heavy_fence();
    }
}

/// The right to read, until it is dropped. Stays on its thread.
#[derive(Debug)]
pub(crate) struct Reading<'a> {
    borrow: &'a Borrow,
    at_home: bool,
    on_this_thread: PhantomData<*const ()>,
}

impl<'a> Reading<'a> {
    #[inline(always)]
    fn new(borrow: &'a Borrow, at_home: bool) -> Reading<'a> {
        Reading {
            borrow,
            at_home,
            on_this_thread: PhantomData,
        }
    }
}

impl Drop for Reading<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.at_home {
            // ours alone to write, even if the home has ended since
            let n = self.borrow.home_readers.load(Ordering::Relaxed);
            self.borrow.home_readers.store(n - 1, Ordering::Release);
        } else {
            self.borrow.word.fetch_sub(1, Ordering::Release);
        }
    }
}

/// The right to write, until it is dropped. Stays on its thread.
#[derive(Debug)]
pub(crate) struct Writing<'a> {
    borrow: &'a Borrow,
    on_this_thread: PhantomData<*const ()>,
}

impl Drop for Writing<'_> {
    #[inline]
    fn drop(&mut self) {
        // Readers that knocked meanwhile have added and will subtract one each: only our own part is taken back.
        self.borrow.word.fetch_sub(WRITING, Ordering::Release);
    }
}
