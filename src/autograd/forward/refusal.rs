//! The errors of operators that tangents do not go through.

use super::super::error::AutogradError;
use crate::error::{Error, ErrorKind};

/// The error of an operator that tangents do not go through.
#[cold]
pub(super) fn refusal(op: &str) -> Error {
    AutogradError::ForwardNotImplemented { op: op.to_string() }.into()
}

/// The error of a gradient that has no derivative, as one of the operator.
#[cold]
pub(super) fn explained(e: Error, op: &str) -> Error {
    let missing = match e.kind() {
        ErrorKind::Autograd(e) => {
            matches!(**e, AutogradError::NotImplemented { .. } | AutogradError::NoKernel { .. })
        }
        ErrorKind::NotImplemented { .. } => true,
        _ => false,
    };
    if missing { refusal(op) } else { e }
}
