//! For tests: finds calls that release an operand before they have taken all of them.
//!
//! A call holds what it reads and writes for its length. So it must not take an operand after it
//! has released one: another thread could write in between. While a call is watched, each
//! acquisition of an operand's storage is checked. Exists only in builds with debug assertions.

use super::Tensor;
use super::storage::Storage;
use std::cell::RefCell;

#[derive(Default)]
struct Watch {
    /// The storages of the operands, and whether the call has had them.
    operands: Vec<(Storage, bool)>,
    /// The operand that was taken after one had been released.
    broken: Option<(usize, usize)>,
}

thread_local! {
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

/// Runs a call. Gives with its result the first pair of operands of which the second was taken
/// after the first had been given back, by their numbers; those that share memory have the number
/// of the first of them.
pub fn gives_back_early<R>(
    operands: &[Tensor],
    call: impl FnOnce() -> R,
) -> (R, Option<(usize, usize)>) {
    let operands = operands.iter().map(|t| (t.storage().clone(), false));
    let watch = Watch { operands: operands.collect(), broken: None };
    WATCH.set(Some(watch));
    let result = call();
    (result, WATCH.take().and_then(|w| w.broken))
}

/// Takes a storage with `take`; `had` says whether that succeeded.
#[inline(always)]
pub(super) fn taking<R>(
    storage: &Storage,
    take: impl FnOnce() -> R,
    had: impl Fn(&R) -> bool,
) -> R {
    if cfg!(debug_assertions) {
        look(storage);
    }
    let result = take();
    if cfg!(debug_assertions) && had(&result) {
        note(storage);
    }
    result
}

fn look(storage: &Storage) {
    WATCH.with_borrow_mut(|watch| {
        let Some(watch) = watch.as_mut().filter(|w| w.broken.is_none()) else {
            return;
        };
        let Some(taken) = watch.operands.iter().position(|(s, _)| s.same(storage)) else {
            return;
        };
        let gone = watch.operands.iter().position(|(s, had)| *had && !s.is_held());
        watch.broken = gone.map(|gone| (gone, taken));
    });
}

fn note(storage: &Storage) {
    WATCH.with_borrow_mut(|watch| {
        let operands = watch.iter_mut().flat_map(|w| &mut w.operands);
        for (_, had) in operands.filter(|(s, _)| s.same(storage)).take(1) {
            *had = true;
        }
    });
}
