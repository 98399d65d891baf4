//! Errors of the modes and wrapper tensors.

use super::nan_finder::NonFinite;

/// An error of the modes and wrapper tensors.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModeError {
    /// Every handler of a call declined.
    #[error(
        "Multiple dispatch failed for '{op}'; all handlers returned NotImplemented:\n\n{}\n\nForward the call in one of \
         them (`Call::forward`), or call an operator that they know",
        .handlers.iter().map(|h| format!("  - {h}")).collect::<Vec<_>>().join("\n")
    )]
    AllDeclined {
        /// The operator.
        op: String,
        /// The handlers that were asked, in order.
        handlers: Vec<String>,
    },
    /// Handlers call each other too deeply.
    #[error(
        "{op}: handlers, or decompositions of a resolver, are nested {limit} deep. A wrapper's handler that calls the \
         operator on the wrapper again comes back to itself: take the inner tensors out first (`Call::map_tensors`). A \
         decomposition must not call the operator that it stands for"
    )]
    TooDeep {
        /// The operator that was called last.
        op: String,
        /// The bound.
        limit: usize,
    },
    /// An operator has no such argument.
    #[error("{op} has no argument `{name}`; it has {known:?}")]
    NoArgument {
        /// The operator.
        op: String,
        /// The name that was asked for.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// A real tensor where only fakes of a [`FakeTensorMode`](super::FakeTensorMode) are accepted.
    #[error(
        "{op}: Please convert all Tensors to FakeTensors first{}. Found a real {tensor}: `FakeTensorMode::from_tensor` makes a fake of it",
        if *.written { ": a call that writes a real tensor would change a fake of it alone" }
        else { " or make the FakeTensorMode with 'allow_non_fake_inputs'" }
    )]
    NotFake {
        /// The operator.
        op: String,
        /// The dtype and the sizes of the tensor.
        tensor: String,
        /// Whether the mode takes real tensors, and this one was to be written.
        written: bool,
    },
    /// Fakes of two modes in one call.
    #[error(
        "Mixing fake modes NYI: the fake tensors of a call must be of one FakeTensorMode; clones of a mode are the same mode"
    )]
    MixedFakeModes,
    /// A function that only handlers may call.
    #[error(
        "`reentrant_dispatch` restores the keys that a call had before its handler ran: use it inside a handler"
    )]
    NotInHandler,
    /// A [`NanFinder`](super::NanFinder) that stops at what it finds has found something.
    #[error("{0}")]
    NonFinite(Box<NonFinite>),
}
