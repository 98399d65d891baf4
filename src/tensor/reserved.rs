//! Storages that a call of this thread has reserved for the kernels beneath it.
//!
//! Some calls are made of several kernels: one reads an operand, another one writes it. Such a call
//! takes all its storages at once, as every call does, and touches none of them itself. It
//! *reserves* what it writes: to other threads the state has a writer from the first kernel to the
//! last; to the kernels beneath the call, on the same thread, it looks free, and they read and
//! write it in turn. A note here records which states are open in that way, and the users on this
//! thread: any number of readers, or one writer.
//!
//! A call holds what it only reads as any reader does, and readers beneath it may join freely.
//!
//! None of this is on the path of calls without conflicts: a reserved state is one that
//! has a writer.

use super::borrow::Access;
use crate::sync::per_thread;
use std::cell::RefCell;

/// A state that a call has reserved.
struct Note {
    id: usize,
    /// The readers beneath the call, or one writer.
    users: Users,
    /// What is subtracted from the state's word at the end.
    part: u64,
    /// The call is over; the last remaining user frees the note.
    over: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Users {
    Readers(u32),
    Writer,
}

const NOBODY: Users = Users::Readers(0);

impl Note {
    fn admits(&self, id: usize, access: Access) -> bool {
        let free = match access {
            Access::Read => self.users != Users::Writer,
            Access::Write => self.users == NOBODY,
        };
        self.id == id && !self.over && free
    }
}

per_thread! {
    static NOTES: RefCell<Vec<Option<Note>>> = RefCell::new(Vec::new());
}

/// Runs on the thread's notes; `None` if the thread is ending, and has none left.
fn with<R>(f: impl FnOnce(&mut Vec<Option<Note>>) -> R) -> Option<R> {
    NOTES.try_with(|notes| f(&mut notes.borrow_mut())).ok()
}

/// The note that a state is reserved by; a later one is of a call beneath the others.
fn innermost(notes: &[Option<Note>], id: usize) -> Option<usize> {
    let of = |note: &Option<Note>| note.as_ref().is_some_and(|n| n.id == id && !n.over);
    notes.iter().rposition(of)
}

/// Opens a state that this thread writes; `part` is the thread's share of the state's word. Returns
/// the number of the note, if there is room for it.
pub(super) fn open(id: usize, part: u64) -> Option<u32> {
    let note = Note { id, users: NOBODY, part, over: false };
    with(|notes| {
        let number = u32::try_from(notes.len()).ok()?;
        notes.push(Some(note));
        Some(number)
    })?
}

/// Ends what [`open`] began. Returns `part` if there is no user; otherwise the last user to leave
/// gets it.
pub(super) fn close(number: u32) -> Option<u64> {
    with(|notes| {
        let slot = notes.get_mut(number as usize)?;
        let note = slot.as_mut()?;
        note.over = true;
        finish(notes, number)
    })?
}

/// Whether [`enter`] would let the thread in.
pub(super) fn admits(id: usize, access: Access) -> bool {
    with(|notes| {
        let at = innermost(notes, id)?;
        notes[at].as_ref().filter(|n| n.admits(id, access)).map(drop)
    })
    .flatten()
    .is_some()
}

/// Enters a state if this thread has reserved it and no user beneath the call conflicts. Returns
/// the number of the note.
pub(super) fn enter(id: usize, access: Access) -> Option<u32> {
    with(|notes| {
        let at = innermost(notes, id)?;
        let note = notes[at].as_mut().filter(|n| n.admits(id, access))?;
        note.users = match (access, note.users) {
            (Access::Read, Users::Readers(n)) => Users::Readers(n + 1),
            _ => Users::Writer,
        };
        Some(at as u32)
    })?
}

/// Leaves it. Gives the part of the state's word that is to be given back, if the call is over and
/// this was the last one.
pub(super) fn leave(number: u32) -> Option<u64> {
    with(|notes| {
        let note = notes.get_mut(number as usize)?.as_mut()?;
        note.users = match note.users {
            Users::Readers(n) => Users::Readers(n.saturating_sub(1)),
            Users::Writer => NOBODY,
        };
        finish(notes, number)
    })?
}

/// Removes a note whose call is over and that has no users.
fn finish(notes: &mut Vec<Option<Note>>, number: u32) -> Option<u64> {
    let slot = notes.get_mut(number as usize)?;
    let done = slot.take_if(|n| n.over && n.users == NOBODY)?;
    while let Some(None) = notes.last() {
        notes.pop();
    }
    Some(done.part)
}

/// What a call further up the stack of this thread does with a state that it has reserved, if
/// anybody is in.
pub(super) fn used(id: usize) -> Option<Access> {
    with(|notes| {
        let at = innermost(notes, id)?;
        match notes[at].as_ref()?.users {
            Users::Writer => Some(Access::Write),
            NOBODY => None,
            Users::Readers(_) => Some(Access::Read),
        }
    })?
}
