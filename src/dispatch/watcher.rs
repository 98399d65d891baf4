//! What the dispatcher reports to watchers of a program (see `tensor::watcher`): the questions
//! about operators that a captured function asks, whose answers may differ in a later call.

use super::operator::OperatorHandle;
use super::value::Value;
use crate::tensor::watcher::Line;
use std::sync::OnceLock;
use straightline_catalog::DispatchKey;

/// A question that a program asks about operators.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Question {
    /// For an operator by its name.
    Operator(Option<OperatorHandle>),
    /// At which keys an operator has kernels.
    Kernels(OperatorHandle),
    /// Whether a call of an operator would find a kernel at a key.
    Served(OperatorHandle, DispatchKey),
    /// How many calls there have been.
    Calls(Line),
}

static WATCHER: OnceLock<fn(Question)> = OnceLock::new();

/// Sets the watcher; there is one.
pub(crate) fn set(watcher: fn(Question)) {
    // a second one would be the same
    let _ = WATCHER.set(watcher);
}

/// What runs a function in place of an operator's kernel.
type InPlaceOf = fn(OperatorHandle, &[Value], &mut dyn FnMut());

static IN_PLACE_OF: OnceLock<InPlaceOf> = OnceLock::new();

/// Sets the function that runs calls in place of an operator; there is one.
pub(crate) fn set_in_place_of(run: InPlaceOf) {
    // a second one would be the same
    let _ = IN_PLACE_OF.set(run);
}

/// Runs `f`, which makes other calls in place of one of this operator: an error of a replay
/// names what eager code calls.
pub(crate) fn in_place_of<R>(
    op: OperatorHandle,
    args: &[Value],
    f: impl FnOnce() -> R,
) -> Option<R> {
    let (mut f, mut result) = (Some(f), None);
    let mut run = || result = f.take().map(|f| f());
    match IN_PLACE_OF.get() {
        Some(in_place_of) => in_place_of(op, args, &mut run),
        None => run(),
    }
    result
}

/// Reports a question to the watcher.
pub(super) fn asked(question: Question) {
    if let Some(watcher) = WATCHER.get() {
        watcher(question);
    }
}
