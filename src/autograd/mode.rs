//! Grad mode and inference mode: whether calls of this thread record.

use crate::dispatch;
use crate::tensor::inference;
use std::marker::PhantomData;

/// Whether operators of this thread record what gradients need. It is on where a thread starts.
///
/// ```
/// use straightline::autograd;
/// assert!(autograd::is_grad_enabled());
/// autograd::no_grad(|| assert!(!autograd::is_grad_enabled()));
/// ```
pub fn is_grad_enabled() -> bool {
    dispatch::grad_enabled()
}

/// Sets grad mode until it is dropped; [`no_grad`] and [`enable_grad`] do so for a closure.
///
/// ```
/// use straightline::{autograd::GradGuard, tensor};
/// let x = tensor([1.0])?.requires_grad_(true)?;
/// let guard = GradGuard::set(false);
/// assert!(!x.mul(2)?.requires_grad());
/// drop(guard);
/// assert!(x.mul(2)?.requires_grad());
/// # Ok::<(), straightline::Error>(())
/// ```
#[must_use = "the mode ends where its guard is dropped"]
#[derive(Debug)]
pub struct GradGuard {
    before: bool,
    on_this_thread: PhantomData<*const ()>,
}

impl GradGuard {
    /// Grad mode on or off.
    pub fn set(on: bool) -> GradGuard {
        GradGuard { before: dispatch::set_grad_enabled(on), on_this_thread: PhantomData }
    }
}

impl Drop for GradGuard {
    fn drop(&mut self) {
        dispatch::set_grad_enabled(self.before);
    }
}

/// Runs `f` without recording: results want no gradient, and leaves may be written.
///
/// ```
/// use straightline::{autograd::no_grad, tensor};
/// let weight = tensor([1.0, 2.0])?.requires_grad_(true)?;
/// no_grad(|| weight.sub_(0.5))?;
/// assert_eq!(weight.to_vec::<f32>()?, [0.5, 1.5]);
/// assert!(weight.requires_grad() && weight.is_leaf());
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn no_grad<R>(f: impl FnOnce() -> R) -> R {
    let _mode = GradGuard::set(false);
    f()
}

/// Runs `f` with recording, inside of [`no_grad`].
///
/// ```
/// use straightline::{autograd::{enable_grad, no_grad}, tensor};
/// let x = tensor([1.0])?.requires_grad_(true)?;
/// let y = no_grad(|| enable_grad(|| x.mul(2)))?;
/// assert!(y.requires_grad());
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn enable_grad<R>(f: impl FnOnce() -> R) -> R {
    let _mode = GradGuard::set(true);
    f()
}

/// Whether this thread is in [`inference_mode`].
///
/// ```
/// use straightline::autograd;
/// assert!(autograd::inference_mode(autograd::is_inference_mode));
/// ```
pub fn is_inference_mode() -> bool {
    inference::is_on()
}

/// Runs `f` without recording anything: tensors made meanwhile are *inference tensors*, which can
/// not be saved for a gradient later. [`no_grad`] is enough unless that is wanted.
///
/// ```
/// use straightline::{autograd::inference_mode, tensor};
/// let x = tensor([1.0])?.requires_grad_(true)?;
/// let y = inference_mode(|| x.mul(2))?;
/// assert!(y.is_inference() && !y.requires_grad());
/// assert!(x.mul(&y).is_err());
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn inference_mode<R>(f: impl FnOnce() -> R) -> R {
    let _inference = inference::Guard::set(true);
    let _mode = GradGuard::set(false);
    let _below = dispatch::BelowAutograd::enter();
    f()
}

/// Out of inference mode while it lives: what a transform records within it is recorded.
pub(crate) struct Recorded {
    _above: dispatch::AboveAutograd,
    _inference: inference::Guard,
}

impl Recorded {
    /// `None` where this thread is in no inference mode.
    pub(crate) fn enter() -> Option<Recorded> {
        is_inference_mode().then(|| Recorded {
            _inference: inference::Guard::set(false),
            _above: dispatch::AboveAutograd::enter(),
        })
    }
}
