//! What tensors report to, or ask of, a watcher of the program: above all the capture of a
//! function. The dispatcher has a similar interface (`dispatch::watcher`).
//!
//! The watcher is in `modes`, a layer above this one, and registers itself before the first
//! operator is called. Until then there is none.

use super::Tensor;
use crate::error::{Error, Result};
use std::panic::Location;
use std::sync::OnceLock;

/// A source line.
pub(crate) type Line = &'static Location<'static>;

/// Who watches.
pub(crate) trait Watcher: Sync {
    /// The capture that runs on this thread.
    fn capture(&self) -> Option<u64>;

    /// The program does what a replay would not repeat; `why` says what to do. Gives the error of
    /// the capture.
    fn refuse(&self, what: &str, why: &str, at: Line) -> Error;

    /// Elements are read.
    fn check_read(&self, t: &Tensor, what: &str, at: Option<Line>) -> Result<()>;

    /// The program asks something that a later call may answer otherwise.
    fn asked(&self, question: Question<'_>) -> Option<bool>;

    /// A tensor has been made from data during a capture.
    fn made_from_data(&self, t: &Tensor);

    /// A tensor made from data outside of a capture: itself, or a fake of it.
    fn faked(&self, t: Tensor) -> Tensor;

    /// Whether tensors of this thread may lack the data that they have in an eager call: while
    /// a function is captured, or fake tensors compute.
    fn lacks_data(&self) -> bool;

    /// Whether the tensor stands for a value of a captured function.
    fn is_stand_in(&self, t: &Tensor) -> bool;

    /// Whether the captured function has made the tensor from data, and written nothing there.
    fn is_constant(&self, t: &Tensor) -> bool;

    /// Whether two tensors lie in one memory, stand-ins or not.
    fn share_memory(&self, a: &Tensor, b: &Tensor) -> bool;

    /// What a tensor without memory stands for.
    fn stands_for(&self, t: &Tensor) -> StandsFor;

    /// The negative and the conjugate bit of the value that a captured tensor stands for.
    fn bits(&self, t: &Tensor) -> (bool, bool);
}

/// What a program asks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Question<'t> {
    /// Where a tensor begins in its storage.
    Offset(&'t Tensor),
    /// Whether two tensors share their storage.
    Shared(&'t Tensor, &'t Tensor),
    /// Whether two handles are one tensor.
    Same(&'t Tensor, &'t Tensor),
}

/// What a tensor that has no memory stands for.
pub(crate) enum StandsFor {
    /// Nothing known to the watcher.
    Nothing,
    /// A value of the function that is captured.
    Value,
    /// A value of a capture that is over, or of another one; with the error of using it here.
    Elsewhere(Error),
    /// What a wrapper of this type has inside.
    Inside(String),
}

static WATCHER: OnceLock<&'static dyn Watcher> = OnceLock::new();

/// Sets the watcher; there is one.
pub(crate) fn set(watcher: &'static dyn Watcher) {
    // a second one would be the same
    let _ = WATCHER.set(watcher);
}

#[inline]
fn watcher() -> Option<&'static dyn Watcher> {
    WATCHER.get().copied()
}

/// The capture that runs on this thread.
#[inline]
pub(crate) fn capture() -> Option<u64> {
    watcher()?.capture()
}

/// An error if this thread captures a function, which also ends the capture: the program does what
/// a replay would not repeat, and `why` says what to do.
#[track_caller]
pub(crate) fn check(what: &str, why: &str) -> Result<()> {
    match watcher() {
        Some(w) if w.capture().is_some() => Err(w.refuse(what, why, Location::caller())),
        _ => Ok(()),
    }
}

/// The only way to data: every reader of a tensor's elements asks here first.
///
/// # Errors
/// A function is captured, and the elements are not known until it runs.
#[inline]
pub(crate) fn check_read(t: &Tensor, what: &str, at: Option<Line>) -> Result<()> {
    watcher().map_or(Ok(()), |w| w.check_read(t, what, at))
}

/// Whether a function that is captured has made the tensor from data, and written nothing there.
#[cfg(feature = "cuda")]
pub(crate) fn is_constant(t: &Tensor) -> bool {
    watcher().is_some_and(|w| w.is_constant(t))
}

/// Records a question, and returns the answer if the watcher decides it.
#[cold]
pub(crate) fn asked(question: Question<'_>) -> Option<bool> {
    watcher()?.asked(question)
}

/// A tensor has been made from data during a capture.
pub(crate) fn made_from_data(t: &Tensor) {
    if let Some(w) = watcher() {
        w.made_from_data(t);
    }
}

/// A tensor made from data outside of a capture: itself, or a fake of it.
#[inline]
pub(crate) fn faked(t: Tensor) -> Tensor {
    match watcher() {
        Some(w) => w.faked(t),
        None => t,
    }
}

/// Whether tensors of this thread may lack the data that they have in an eager call: while a
/// function is captured, or fake tensors compute.
pub(crate) fn lacks_data() -> bool {
    watcher().is_some_and(|w| w.lacks_data())
}

/// Whether the tensor stands for a value of a captured function.
pub(crate) fn is_stand_in(t: &Tensor) -> bool {
    watcher().is_some_and(|w| w.is_stand_in(t))
}

/// Whether two tensors lie in one memory, stand-ins or not.
pub(crate) fn share_memory(a: &Tensor, b: &Tensor) -> bool {
    watcher().map_or(a.storage().same(b.storage()), |w| w.share_memory(a, b))
}

/// What a tensor that has no memory stands for.
#[cold]
pub(crate) fn stands_for(t: &Tensor) -> StandsFor {
    watcher().map_or(StandsFor::Nothing, |w| w.stands_for(t))
}

/// The negative and the conjugate bit of the value that a captured tensor stands for.
pub(crate) fn bits(t: &Tensor) -> (bool, bool) {
    watcher().map_or((false, false), |w| w.bits(t))
}
