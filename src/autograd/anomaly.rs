//! Anomaly detection: which call's gradient went wrong.

use super::error::AutogradError;
use super::graph;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::tensor::node::{Function, Node};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Off,
    On,
    ChecksNan,
}

thread_local! {
    static MODE: Cell<Mode> = const { Cell::new(Mode::Off) };
    static RUNNING: RefCell<Vec<Arc<Node>>> = const { RefCell::new(Vec::new()) };
}

/// Detects anomalies until it is dropped: a backward pass that fails names the forward call, and
/// one that computes NaN fails. It makes passes slower.
///
/// ```
/// use straightline::{autograd::detect_anomaly, tensor};
/// let x = tensor([-1.0])?.requires_grad_(true)?;
/// let _detect = detect_anomaly(true);
/// let error = x.sqrt()?.sum()?.backward().unwrap_err();
/// assert!(error.to_string().contains("Function 'SqrtBackward0' returned nan values in its 0th output."));
/// # Ok::<(), straightline::Error>(())
/// ```
#[must_use = "detection ends where the guard is dropped"]
pub fn detect_anomaly(check_nan: bool) -> AnomalyGuard {
    let mode = if check_nan { Mode::ChecksNan } else { Mode::On };
    AnomalyGuard { before: MODE.replace(mode) }
}

/// What [`detect_anomaly`] gives.
pub struct AnomalyGuard {
    before: Mode,
}

impl std::fmt::Debug for AnomalyGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AnomalyGuard")
    }
}

impl Drop for AnomalyGuard {
    fn drop(&mut self) {
        MODE.set(self.before);
    }
}

/// The node that runs, under anomaly detection: one that is made now is made during it.
#[inline]
pub(super) fn during() -> Option<Arc<Node>> {
    match MODE.get() {
        Mode::Off => None,
        _ => RUNNING.with_borrow(|r| r.last().cloned()),
    }
}

/// A node that is made now, with the one that runs.
pub(super) fn noted<F: Function + 'static>(mut node: Node<F>) -> Arc<Node<F>> {
    node.during = during();
    Arc::new(node)
}

pub(super) struct Running(bool);

impl Drop for Running {
    fn drop(&mut self) {
        if self.0 {
            let gone = RUNNING.with_borrow_mut(Vec::pop);
            drop(gone);
        }
    }
}

/// While the guard lives, `node` runs.
pub(super) fn running(node: &Arc<Node>) -> Running {
    let noted = MODE.get() != Mode::Off;
    if noted {
        RUNNING.with_borrow_mut(|r| r.push(node.clone()));
    }
    Running(noted)
}

/// The error of a node, with the call that made it.
#[cold]
pub(super) fn explained(e: crate::Error, node: &Arc<Node>) -> crate::Error {
    if MODE.get() != Mode::Off {
        let made = graph::made(node);
        tracing::warn!("Error detected in {}. The forward call was {made}.", node.function.name());
        if let Some(during) = &node.during {
            let name = during.function.name();
            tracing::warn!(
                "Previous calculation was induced by {name}, made by {}.",
                graph::made(during)
            );
        }
    }
    match node.line {
        Some(line) => e.with_location(line),
        None => e,
    }
}

/// An error if a gradient is not a number.
pub(super) fn check(node: &Arc<Node>, given: &[Option<Tensor>]) -> Result<()> {
    if MODE.get() != Mode::ChecksNan {
        return Ok(());
    }
    let _grad = super::mode::GradGuard::set(false);
    for (index, grad) in given.iter().enumerate() {
        let Some(grad) = grad else { continue };
        if aten::any(&aten::isnan(grad)?)?.item::<bool>()? {
            let made = node.op.map(|_| graph::made(node));
            let node = node.function.name().to_string();
            return Err(AutogradError::Nan { node, index, made }.into());
        }
    }
    Ok(())
}
