//! What is called when a backward pass is over.

use super::error::AutogradError;
use crate::error::Result;
use std::cell::RefCell;
use std::collections::VecDeque;

type Callback = Box<dyn FnOnce() -> Result<()>>;

thread_local! {
    /// The callbacks of the passes that run on this thread, the innermost pass last.
    static PASSES: RefCell<Vec<VecDeque<Callback>>> = const { RefCell::new(Vec::new()) };
}

/// Calls `callback` when the backward pass that runs is over and all its gradients are there: for
/// hooks that each see a part of it. Callbacks run in order, and may queue others; in a pass within
/// another one they belong to the inner one. A pass that fails calls none.
///
/// # Errors
///
/// No pass runs on this thread.
///
/// ```
/// use straightline::{autograd::queue_callback, tensor};
/// let x = tensor([1.0])?.requires_grad_(true)?;
/// let y = x.mul(3)?;
/// let leaf = x.clone();
/// y.register_hook(move |_| {
///     let leaf = leaf.clone();
///     // the hook comes before the leaf has its gradient
///     assert!(leaf.grad().is_none());
///     queue_callback(move || {
///         assert_eq!(leaf.grad().unwrap().item::<f32>()?, 3.0);
///         leaf.set_grad(None)
///     })?;
///     Ok(None)
/// })?;
/// y.sum()?.backward()?;
/// assert!(x.grad().is_none());
/// assert!(queue_callback(|| Ok(())).is_err());
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn queue_callback(callback: impl FnOnce() -> Result<()> + 'static) -> Result<()> {
    PASSES.with_borrow_mut(|passes| match passes.last_mut() {
        Some(queue) => {
            queue.push_back(Box::new(callback));
            Ok(())
        }
        None => Err(AutogradError::Setting(
            "Final callbacks can only be installed during backward pass.".into(),
        )
        .into()),
    })
}

/// A pass that runs, whose callbacks are collected.
pub(super) struct Collecting(());

impl Collecting {
    pub(super) fn begin() -> Collecting {
        PASSES.with_borrow_mut(|passes| passes.push(VecDeque::new()));
        Collecting(())
    }

    /// Calls them, with what they queue themselves.
    pub(super) fn call(&self) -> Result<()> {
        let next = || PASSES.with_borrow_mut(|passes| passes.last_mut()?.pop_front());
        while let Some(callback) = next() {
            callback()?;
        }
        Ok(())
    }
}

impl Drop for Collecting {
    fn drop(&mut self) {
        // dropped after the borrow: what callbacks hold may end a pass of its own
        let gone = PASSES.with_borrow_mut(Vec::pop);
        drop(gone);
    }
}
