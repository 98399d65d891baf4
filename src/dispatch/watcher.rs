//! What the dispatcher tells those who watch a program (see `tensor::watcher`): what a captured function asks of operators,
//! which a later call may answer otherwise.

use super::operator::OperatorHandle;
use crate::tensor::watcher::Line;
use std::sync::OnceLock;
use straightline_catalog::DispatchKey;

/// What a program asks of operators.
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

/// Makes the watcher known; there is one.
pub(crate) fn set(watcher: fn(Question)) {
    // a second one would be the same
    let _ = WATCHER.set(watcher);
}

/// Notes a question.
pub(super) fn asked(question: Question) {
    if let Some(watcher) = WATCHER.get() {
        watcher(question);
    }
}
