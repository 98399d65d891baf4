//! What the current thread reads on the locked path (see `borrow`).
//!
//! Readers at home and writers show in the state itself. Readers on the locked path are only a
//! number there, so each thread records the states that it reads: a store into memory of its own on
//! the way in, another on the way out. The notes are read when a thread would have to wait.

use crate::sync::per_thread;
use std::cell::{Cell, RefCell};

/// How many notes fit without an allocation; more go to a vector.
const FEW: usize = 32;

struct Held {
    /// How many notes there are, gaps included.
    len: Cell<usize>,
    /// The states' ids, 0 where one is gone.
    few: [Cell<usize>; FEW],
}

impl Held {
    const fn new() -> Held {
        Held { len: Cell::new(0), few: [const { Cell::new(0) }; FEW] }
    }
}

per_thread! {
    static HELD: Held = Held::new();
    static MORE: RefCell<Vec<usize>> = RefCell::new(Vec::new());
}

/// The number of a note that could not be made because the thread is ending.
const NO_NOTE: u32 = u32::MAX - 1;

/// Records that the thread reads the state; returns the number of the note.
#[inline]
pub(super) fn note(id: usize) -> u32 {
    HELD.with(|held| {
        let at = held.len.get();
        if at == FEW {
            return note_more(id);
        }
        held.few[at].set(id);
        held.len.set(at + 1);
        at as u32
    })
}

#[cold]
fn note_more(id: usize) -> u32 {
    let noted = MORE.try_with(|more| {
        let mut more = more.borrow_mut();
        more.push(id);
        let number = u32::try_from(FEW + more.len() - 1).ok();
        number.filter(|n| n >> 30 == 0).unwrap_or(NO_NOTE)
    });
    noted.unwrap_or(NO_NOTE)
}

/// Takes a note back.
#[inline]
pub(super) fn forget(note: u32) {
    HELD.with(|held| {
        let at = note as usize;
        if at >= FEW {
            return forget_more(at - FEW);
        }
        held.few[at].set(0);
        if at + 1 == held.len.get() {
            let last = held.few[..at].iter().rposition(|id| id.get() != 0);
            held.len.set(last.map_or(0, |last| last + 1));
        }
    });
}

#[cold]
fn forget_more(at: usize) {
    let gone = MORE.try_with(|more| {
        let mut more = more.borrow_mut();
        if let Some(id) = more.get_mut(at) {
            *id = 0;
        }
        while more.last() == Some(&0) {
            more.pop();
        }
    });
    // a thread that is ending has no notes left
    gone.unwrap_or_default();
}

/// Whether the thread has noted the state.
pub(super) fn has(id: usize) -> bool {
    HELD.with(|held| held.few[..held.len.get()].iter().any(|n| n.get() == id))
        || MORE.try_with(|more| more.borrow().contains(&id)).unwrap_or(false)
}

/// All states that the thread has noted.
pub(super) fn all() -> Vec<usize> {
    let mut all: Vec<usize> = HELD.with(|held| {
        let few = held.few[..held.len.get()].iter();
        few.map(Cell::get).collect()
    });
    all.extend(MORE.try_with(|more| more.borrow().clone()).unwrap_or_default());
    all.retain(|id| *id != 0);
    all
}
