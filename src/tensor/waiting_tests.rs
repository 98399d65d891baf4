//! Threads that wait for storages: the notes, the limits, and many threads. `tests/loom.rs` has the
//! protocol.

use super::borrow::Access;
use super::busy::{Busy, BusyReason, borrows_wait, try_borrows};
use super::storage::{ReservedGuard, Storage, take};
use super::{Tensor, held};
use crate::error::{ErrorKind, Result};
use std::sync::mpsc;
use std::time::Duration;

fn busy<T>(result: Result<T>) -> Busy {
    match result.map(drop).map_err(|e| e.kind().clone_busy()) {
        Err(Some(busy)) => busy,
        Err(None) => panic!("another error"),
        Ok(()) => panic!("it was had"),
    }
}

impl ErrorKind {
    fn clone_busy(&self) -> Option<Busy> {
        match self {
            ErrorKind::Busy(busy) => Some(*busy),
            _ => None,
        }
    }
}

/// Holds the storage on another thread while `f` runs.
fn while_held(s: &Storage, access: Access, f: impl FnOnce()) {
    let (begun, wait_for_begin) = mpsc::channel();
    let (done, wait_for_end) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _held = take(&[(s, access)]).unwrap();
            begun.send(()).unwrap();
            // ends when the sender is dropped
            wait_for_end.recv().unwrap_err();
        });
        wait_for_begin.recv().unwrap();
        f();
        drop(done);
    });
}

#[test]
fn notes_end_in_any_order() {
    let before = held::all();
    let notes: Vec<u32> = (1..=100).map(held::note).collect();
    assert!(held::has(1) && held::has(100) && !held::has(101));
    assert_eq!(held::all().len(), before.len() + 100);
    for n in notes.iter().step_by(2) {
        held::forget(*n);
    }
    assert!(!held::has(1) && held::has(2) && !held::has(99) && held::has(100));
    for n in notes.iter().skip(1).step_by(2).rev() {
        held::forget(*n);
    }
    assert_eq!(held::all(), before);
    held::forget(held::note(7));
    assert_eq!(held::all(), before);
}

#[test]
fn a_call_waits_no_longer_than_it_may() {
    let s = Storage::allocate(16).unwrap();
    while_held(&s, Access::Write, || {
        let scope = try_borrows();
        let refused = busy(s.read());
        assert_eq!((refused.written, refused.reason), (true, BusyReason::OtherThread));
        assert_eq!(busy(s.write()).reason, BusyReason::OtherThread);
        let limit = Duration::from_millis(5);
        let inner = borrows_wait(limit);
        assert_eq!(busy(s.read()).reason, BusyReason::TimedOut(limit));
        drop(inner);
        assert_eq!(busy(s.read()).reason, BusyReason::OtherThread);
        drop(scope);
    });
    while_held(&s, Access::Read, || {
        let _scope = try_borrows();
        assert!(s.read().is_ok(), "readers share");
        assert!(!busy(s.write()).written);
    });
    // nobody waits any more
    let _scope = try_borrows();
    assert!(s.read().is_ok() && s.write().is_ok());
}

#[test]
fn what_a_call_reserves_is_free_beneath_it_alone() {
    let s = Storage::allocate(16).unwrap();
    let own = |result: Busy| assert_eq!(result.reason, BusyReason::ThisThread);
    let steps = || {
        // both read as before and again
        let (first, second) = (s.read().unwrap(), s.read().unwrap());
        assert!(!{
            let refused = busy(s.write());
            own(refused);
            refused.written
        });
        drop((first, second));
        let writing = s.write().unwrap();
        own(busy(s.read()));
        own(busy(s.write()));
        drop(writing);
        drop(take(&[(&s, Access::Write)]).unwrap());
        drop(take(&[(&s, Access::Read), (&s, Access::Read)]).unwrap());
    };
    let elsewhere = || {
        std::thread::scope(|scope| {
            let refused = scope.spawn(|| {
                let _at_once = try_borrows();
                (busy(s.read()), busy(s.write()))
            });
            let (read, write) = refused.join().unwrap();
            assert!(read.written && write.written);
            assert_eq!(read.reason, BusyReason::OtherThread);
        });
    };
    let outer = ReservedGuard::new(s.try_hold().unwrap()).unwrap();
    elsewhere();
    steps();
    // a call beneath the call
    let inner = ReservedGuard::new(s.try_hold().unwrap()).unwrap();
    steps();
    elsewhere();
    drop(inner);
    steps();
    elsewhere();
    drop(outer);
    assert!(s.try_hold().is_some() && s.try_read().is_some());
    // a user that remains when the call ends keeps others out
    for nested in [false, true] {
        let outer = ReservedGuard::new(s.try_hold().unwrap()).unwrap();
        let inner = nested.then(|| ReservedGuard::new(s.try_hold().unwrap()).unwrap());
        let last = s.read().unwrap();
        drop(inner);
        drop(outer);
        elsewhere();
        own(busy(s.write()));
        drop(last);
        assert!(s.try_hold().is_some() && s.try_read().is_some());
    }
}

#[test]
fn a_call_that_has_reserved_waits_for_others() {
    let (s, other) = (Storage::allocate(16).unwrap(), Storage::allocate(16).unwrap());
    let (begun, wait_for_begin) = mpsc::channel();
    std::thread::scope(|scope| {
        let (s, other) = (&s, &other);
        let _outer = ReservedGuard::new(s.try_hold().unwrap()).unwrap();
        scope.spawn(move || {
            let held = other.write().unwrap();
            begun.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(5));
            drop(held);
            // waits for the call, which no longer waits for anything
            drop(s.write().unwrap());
        });
        wait_for_begin.recv().unwrap();
        drop(take(&[(s, Access::Write), (other, Access::Read)]).unwrap());
        drop(take(&[(s, Access::Read), (other, Access::Write)]).unwrap());
    });
    assert_eq!(s.version(), 1);
}

#[test]
fn a_thread_is_told_that_it_would_wait_for_itself() {
    let s = Storage::allocate(16).unwrap();
    let itself = |result: Busy| assert_eq!(result.reason, BusyReason::ThisThread);
    for elsewhere in [false, true] {
        let check = || {
            let reading = s.read().unwrap();
            itself(busy(s.write()));
            drop(reading);
            let writing = s.write().unwrap();
            itself(busy(s.read()));
            itself(busy(s.write()));
            drop(writing);
        };
        match elsewhere {
            false => check(),
            true => std::thread::scope(|scope| scope.spawn(check).join().unwrap()),
        }
    }
    itself(busy(take(&[(&s, Access::Write), (&s, Access::Read)])));
    itself(busy(take(&[(&s, Access::Read), (&s, Access::Write)])));
    assert!(take(&[(&s, Access::Read), (&s, Access::Read)]).is_ok());
}

/// Many threads, many storages, in any order: nothing is lost, and no thread waits forever.
#[test]
fn pairs_in_any_order() {
    let rounds = if cfg!(miri) { 20 } else { 2000 };
    let storages: Vec<Storage> = (0..4).map(|_| Storage::allocate(16).unwrap()).collect();
    for s in &storages {
        // SAFETY: nobody else has the storage.
        unsafe { s.ptr().unwrap().cast::<u64>().write(0) };
    }
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            let storages = &storages;
            scope.spawn(move || {
                for i in 0..rounds {
                    let at = thread + i * 7;
                    let (a, b) = (&storages[at % 4], &storages[(at + 1 + i % 3) % 4]);
                    let _held = take(&[(a, Access::Write), (b, Access::Read)]).unwrap();
                    // SAFETY: the guards.
                    unsafe {
                        b.ptr().unwrap().cast::<u64>().read();
                        *a.ptr().unwrap().cast::<u64>() += 1;
                    }
                }
            });
        }
    });
    let sum = |s: &Storage| {
        let _held = s.read().unwrap();
        // SAFETY: the guard.
        unsafe { s.ptr().unwrap().cast::<u64>().read() }
    };
    assert_eq!(storages.iter().map(sum).sum::<u64>(), 4 * rounds as u64);
}

/// In-place operators on one tensor from several threads, others reading it all the while.
#[test]
fn in_place_operators_wait_for_each_other() {
    let rounds = if cfg!(miri) { 5 } else { 500 };
    let w = Tensor::from_vec(vec![0f64; 64], -1).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..rounds {
                    w.add_(1).unwrap();
                }
            });
        }
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..rounds {
                    let seen = (&w + &w).to_vec::<f64>().unwrap();
                    assert!(seen.iter().all(|x| *x == seen[0]), "half of a write");
                }
            });
        }
    });
    assert_eq!(w.to_vec::<f64>().unwrap(), [2.0 * rounds as f64; 64]);
}
