//! Losses that are scaled, so that small gradients of half precision do not vanish.

use super::optimizer::Optimizer;
use crate::autograd::no_grad;
use crate::error::Result;
use crate::modes::outside;
use crate::nn::StateDict;
use crate::tensor::Tensor;
use std::collections::HashMap;
use straightline_catalog::DType;

/// Scales losses, and skips the steps whose gradients have become infinite by it; the scale shrinks
/// then, and grows when nothing has happened for a while. It works on numbers, so it stays outside
/// of functions that are compiled, and refuses to be captured.
///
/// ```
/// use straightline::nn::{Linear, Layer, Module};
/// use straightline::optim::{GradScaler, Sgd};
/// use straightline::Tensor;
/// let layer = Linear::new(2, 1)?;
/// let optimizer = Sgd::new(layer.parameters(), 0.1)?;
/// let mut scaler = GradScaler::new();
/// let loss = layer.forward(&Tensor::ones([4, 2])?)?.mean()?;
/// scaler.scale(&loss)?.backward()?;
/// scaler.step(&optimizer)?;
/// scaler.update()?;
/// assert_eq!(scaler.factor(), 65536.0);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct GradScaler {
    scale: f32,
    growth: f32,
    backoff: f32,
    interval: i64,
    tracker: i64,
    /// What has happened since the last update, by the identity of an optimiser's first parameter.
    seen: HashMap<usize, Seen>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    infinite: bool,
    stepped: bool,
}

/// The scale and what has happened are Rust values, which a compiled function would keep as they
/// were.
#[track_caller]
fn check_capture(what: &str) -> Result<()> {
    outside::check(
        what,
        "its scale changes from step to step and is no tensor: scale the loss and call the scaler outside of the function that \
         is compiled, which computes loss and gradients",
    )
}

impl Default for GradScaler {
    fn default() -> Self {
        GradScaler::new()
    }
}

impl GradScaler {
    /// A scale of 65536 that halves, and doubles after 2000 steps.
    pub fn new() -> GradScaler {
        GradScaler::new_with(65536.0, 2.0, 0.5, 2000)
    }

    /// With the first scale, what it is multiplied by to grow and to shrink, and after how many
    /// steps it grows.
    ///
    /// ```
    /// use straightline::optim::GradScaler;
    /// assert_eq!(GradScaler::new_with(4.0, 2.0, 0.5, 2).factor(), 4.0);
    /// ```
    pub fn new_with(scale: f32, growth: f32, backoff: f32, interval: i64) -> GradScaler {
        GradScaler { scale, growth, backoff, interval, tracker: 0, seen: HashMap::new() }
    }

    /// The scale.
    pub fn factor(&self) -> f32 {
        self.scale
    }

    /// The loss times the scale: what `backward()` is called on.
    #[track_caller]
    pub fn scale(&self, loss: &Tensor) -> Result<Tensor> {
        check_capture("GradScaler::scale")?;
        loss.mul(f64::from(self.scale))
    }

    /// Divides the gradients by the scale, as [`step`](GradScaler::step) does, for what comes in
    /// between, such as clipping.
    ///
    /// # Errors
    /// It has been done since the last [`update`](GradScaler::update).
    #[track_caller]
    pub fn unscale_(&mut self, optimizer: &dyn Optimizer) -> Result<()> {
        check_capture("GradScaler::unscale_")?;
        let parameters = optimizer.parameters();
        let Some(first) = parameters.first() else { return Ok(()) };
        match self.seen.get(&first.id()) {
            Some(Seen { stepped: true, .. }) => {
                return Err(crate::Error::runtime("unscale_() is being called after step()."));
            }
            Some(_) => {
                return Err(crate::Error::runtime(
                    "unscale_() has already been called on this optimizer since the last update().",
                ));
            }
            None => {}
        }
        // rounded to f32, as PyTorch does
        let inverse = (1.0 / f64::from(self.scale)) as f32;
        let infinite = no_grad(|| {
            let mut infinite = false;
            for grad in parameters.iter().filter_map(Tensor::grad) {
                infinite |= !grad.isfinite()?.all()?.item::<bool>()?;
                grad.mul_(f64::from(inverse))?;
            }
            Ok::<bool, crate::Error>(infinite)
        })?;
        self.seen.insert(first.id(), Seen { infinite, stepped: false });
        Ok(())
    }

    /// Divides the gradients by the scale unless that has been done, and makes the optimiser's step
    /// if all of them are finite. Returns whether it did.
    ///
    /// # Errors
    /// It has been done since the last [`update`](GradScaler::update).
    #[track_caller]
    pub fn step(&mut self, optimizer: &dyn Optimizer) -> Result<bool> {
        check_capture("GradScaler::step")?;
        let Some(first) = optimizer.parameters().first().map(Tensor::id) else {
            return Ok(false);
        };
        match self.seen.get(&first) {
            None => self.unscale_(optimizer)?,
            Some(Seen { stepped: true, .. }) => {
                return Err(crate::Error::runtime(
                    "step() has already been called since the last update().",
                ));
            }
            Some(_) => {}
        }
        let Some(seen) = self.seen.get_mut(&first) else { return Ok(false) };
        seen.stepped = true;
        if !seen.infinite {
            optimizer.step()?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Makes the scale smaller if a step was skipped, and larger if none was for a while.
    ///
    /// # Errors
    /// There was no step since the last update.
    #[track_caller]
    pub fn update(&mut self) -> Result<()> {
        check_capture("GradScaler::update")?;
        ensure!(!self.seen.is_empty(), "No inf checks were recorded prior to update.");
        if self.seen.values().any(|seen| seen.infinite) {
            self.scale *= self.backoff;
            self.tracker = 0;
        } else {
            self.tracker += 1;
            if self.tracker == self.interval {
                // a scale that would be infinite stays
                let grown = self.scale * self.growth;
                self.scale = if grown.is_finite() { grown } else { self.scale };
                self.tracker = 0;
            }
        }
        self.seen.clear();
        Ok(())
    }

    /// Scale and count by name.
    pub fn state_dict(&self) -> Result<StateDict> {
        let scale = Tensor::with(DType::F32).literal(self.scale)?;
        let tracker = Tensor::with(DType::I64).literal(self.tracker)?;
        Ok([("scale".to_owned(), scale), ("growth_tracker".to_owned(), tracker)].into())
    }

    /// Takes scale and count from what [`state_dict`](GradScaler::state_dict) gave.
    ///
    /// # Errors
    /// One of them is missing.
    pub fn load_state_dict(&mut self, dict: &StateDict) -> Result<()> {
        let get = |name: &str| {
            let found = dict.get(name);
            found.ok_or_else(|| crate::Error::value(format!("a scaler's state has a `{name}`")))
        };
        let (scale, tracker) = (get("scale")?.item()?, get("growth_tracker")?.item()?);
        (self.scale, self.tracker) = (scale, tracker);
        Ok(())
    }
}
