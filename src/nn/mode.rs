//! Whether a module is in training mode.

use crate::modes::outside;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a module is in training mode, as a field that `#[module(training)]` marks. A plain `bool`
/// will do as well, but of this one compiled functions take notice: one that has read it is
/// captured anew where it has changed.
///
/// A clone is a mode of its own.
///
/// ```
/// use straightline::nn::{Layer, Mode, Module};
/// use straightline::{Result, Tensor, compile, ones};
///
/// #[derive(Clone, Module)]
/// struct Noisy {
///     #[module(training)]
///     mode: Mode,
/// }
///
/// impl Layer for Noisy {
///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         if self.mode.is_training() { x.mul(2) } else { Ok(x.clone()) }
///     }
/// }
///
/// let layer = std::sync::Arc::new(std::sync::Mutex::new(Noisy { mode: Mode::training() }));
/// let inside = layer.clone();
/// let f = compile(move |x: &Tensor| inside.lock().unwrap().forward(x)?.add(1));
/// assert_eq!(f.call(&ones([1])?)?.item::<f32>()?, 3.0);
/// layer.lock().unwrap().eval();
/// assert_eq!(f.call(&ones([1])?)?.item::<f32>()?, 2.0);
/// # Ok::<(), straightline::Error>(())
/// ```
pub struct Mode(Arc<AtomicBool>);

impl Mode {
    /// Training mode, in which modules begin.
    pub fn training() -> Mode {
        Mode::from(true)
    }

    /// Whether it is training mode.
    pub fn is_training(&self) -> bool {
        let on = self.0.load(Ordering::Relaxed);
        let texts = ["a module is in evaluation mode", "a module is in training mode"];
        outside::asks_flag(&self.0, on, texts);
        on
    }
}

impl From<bool> for Mode {
    fn from(on: bool) -> Mode {
        Mode(Arc::new(AtomicBool::new(on)))
    }
}

impl Default for Mode {
    fn default() -> Mode {
        Mode::training()
    }
}

impl Clone for Mode {
    fn clone(&self) -> Mode {
        Mode::from(self.is_training())
    }
}

impl fmt::Debug for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.load(Ordering::Relaxed) { "Training" } else { "Evaluation" })
    }
}

/// What may say whether a module is in training mode: a [`Mode`] or a `bool`.
pub trait TrainingFlag {
    /// What it says.
    fn is_on(&self) -> bool;

    /// Says something else.
    fn set(&mut self, on: bool);
}

impl TrainingFlag for bool {
    fn is_on(&self) -> bool {
        *self
    }

    fn set(&mut self, on: bool) {
        *self = on;
    }
}

impl TrainingFlag for Mode {
    fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&mut self, on: bool) {
        outside::sets_flag(&self.0);
        self.0.store(on, Ordering::Relaxed);
    }
}
