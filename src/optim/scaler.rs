//! Losses that are scaled, so that small gradients of half precision do not vanish.

use super::optimizer::Optimizer;
use crate::autograd::no_grad;
use crate::error::{Error, Result};
use crate::modes::outside::{self, Debt};
use crate::modes::tracer;
use crate::nn::StateDict;
use crate::tensor::Tensor;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use straightline_catalog::DType;

/// The settings of a [`GradScaler`].
///
/// ```
/// use straightline::optim::{GradScaler, GradScalerOptions};
/// let options = GradScalerOptions::default().init_scale(4.0).growth_interval(2);
/// assert_eq!(GradScaler::new_with(options)?.factor()?, 4.0);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GradScalerOptions {
    init_scale: f32,
    growth_factor: f64,
    backoff_factor: f64,
    growth_interval: i64,
    enabled: bool,
}

impl Default for GradScalerOptions {
    fn default() -> Self {
        GradScalerOptions {
            init_scale: 65536.0,
            growth_factor: 2.0,
            backoff_factor: 0.5,
            growth_interval: 2000,
            enabled: true,
        }
    }
}

impl GradScalerOptions {
    settings! {
        /// The first scale; 65536.
        init_scale: f32;
        /// What the scale is multiplied by to grow; 2.
        growth_factor: f64;
        /// What it is multiplied by to shrink; 0.5.
        backoff_factor: f64;
        /// After how many steps in a row without an infinite gradient it grows; 2000.
        growth_interval: i64;
        /// Whether anything is scaled; yes. Without, a step is the optimiser's.
        enabled: bool;
    }

    fn check(&self) -> Result<()> {
        ensure_value!(self.growth_factor > 1.0, "The growth factor must be > 1.0.");
        ensure_value!(self.backoff_factor < 1.0, "The backoff factor must be < 1.0.");
        Ok(())
    }
}

/// Scales losses, and skips the steps whose gradients have become infinite by it; the scale shrinks
/// then, and grows when nothing has happened for a while.
///
/// ```
/// use straightline::nn::{Linear, Layer, Module};
/// use straightline::optim::{GradScaler, Sgd};
/// use straightline::Tensor;
/// let layer = Linear::new(2, 1)?;
/// let optimizer = Sgd::new(layer.parameters(), 0.1)?;
/// let scaler = GradScaler::new()?;
/// let loss = layer.forward(&Tensor::ones([4, 2])?)?.mean()?;
/// scaler.scale(&loss)?.backward()?;
/// scaler.step(&optimizer)?;
/// scaler.update()?;
/// assert_eq!(scaler.factor()?, 65536.0);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// The scale is a tensor that is written in place, and a clone of a scaler goes on with it. So a
/// whole step can be compiled, from [`scale`](GradScaler::scale) to
/// [`update`](GradScaler::update): whether gradients are finite is a value of the plan, and a step
/// that is skipped leaves parameters and state as they were. A step that begins in a compiled
/// function has to end there; [`scale`](GradScaler::scale) alone may be compiled.
///
/// ```
/// use straightline::nn::{Linear, Layer, Module};
/// use straightline::optim::{GradScaler, Optimizer, Sgd};
/// use straightline::{Tensor, compile};
/// let layer = Linear::new(2, 1)?;
/// let optimizer = Sgd::new(layer.parameters(), 0.1)?;
/// let (scaler, weight) = (GradScaler::new()?, layer.weight.tensor().clone());
/// let inside = scaler.clone();
/// let step = compile(move |x: &Tensor| {
///     optimizer.zero_grad()?;
///     let loss = layer.forward(x)?.mean()?;
///     inside.scale(&loss)?.backward()?;
///     inside.step(&optimizer)?;
///     inside.update()?;
///     loss.detach()
/// });
/// let before = weight.to_vec2::<f32>()?;
/// step.call(&Tensor::full([4, 2], f32::INFINITY)?)?;
/// assert_eq!(weight.to_vec2::<f32>()?, before);
/// assert_eq!(scaler.factor()?, 32768.0);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct GradScaler {
    options: GradScalerOptions,
    /// 0-dimensional, `f32` as PyTorch's.
    scale: Tensor,
    /// 0-dimensional: how many steps in a row were made.
    tracker: Tensor,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// What has happened since the last update, by the identity of an optimiser's first parameter.
    seen: Mutex<HashMap<usize, Seen>>,
    /// Whether something has happened outside of compiled functions.
    open: Arc<AtomicBool>,
    /// Whether something has happened in the function that is being captured.
    owed: Debt,
}

#[derive(Clone, Debug)]
struct Seen {
    /// Whether a gradient is infinite or NaN, as a 0-dimensional `bool`.
    infinite: Tensor,
    stepped: bool,
    /// The capture in which it happened.
    capture: Option<u64>,
}

impl GradScaler {
    /// A scale of 65536 that halves, and doubles after 2000 steps.
    pub fn new() -> Result<GradScaler> {
        GradScaler::new_with(GradScalerOptions::default())
    }

    /// With [`GradScalerOptions`].
    ///
    /// # Errors
    /// The scale would not grow or not shrink.
    #[track_caller]
    pub fn new_with(options: GradScalerOptions) -> Result<GradScaler> {
        options.check()?;
        let scale = if options.enabled { options.init_scale } else { 1.0 };
        Ok(GradScaler {
            options,
            scale: Tensor::with(DType::F32).literal(scale)?,
            tracker: Tensor::with(DType::I64).literal(0)?,
            shared: Arc::default(),
        })
    }

    /// The scale; 1 where nothing is scaled.
    ///
    /// # Errors
    /// A function is being captured, in which the scale has no value.
    #[track_caller]
    pub fn factor(&self) -> Result<f32> {
        self.scale.item::<f32>()
    }

    /// The loss times the scale: what `backward()` is called on.
    #[track_caller]
    pub fn scale(&self, loss: &Tensor) -> Result<Tensor> {
        if self.options.enabled { loss.mul(&self.scale) } else { Ok(loss.clone()) }
    }

    /// Divides the gradients by the scale, as [`step`](GradScaler::step) does, for what comes in
    /// between, such as clipping.
    ///
    /// # Errors
    /// It has been done since the last [`update`](GradScaler::update), or a gradient is of half
    /// precision.
    #[track_caller]
    pub fn unscale_(&self, optimizer: &dyn Optimizer) -> Result<()> {
        if !self.options.enabled {
            return Ok(());
        }
        self.enter("GradScaler::unscale_")?;
        let parameters = optimizer.parameters();
        let Some(first) = parameters.first() else { return Ok(()) };
        match self.seen(first.id()) {
            Some(Seen { stepped: true, .. }) => {
                return Err(Error::runtime("unscale_() is being called after step()."));
            }
            Some(_) => {
                return Err(Error::runtime(
                    "unscale_() has already been called on this optimizer since the last update().",
                ));
            }
            None => {}
        }
        let grads: Vec<Tensor> = parameters.iter().filter_map(Tensor::grad).collect();
        ensure_value!(
            grads.iter().all(|g| g.dtype() != DType::F16),
            "Attempting to unscale FP16 gradients."
        );
        let infinite = no_grad(|| {
            // rounded to f32, as PyTorch does
            let inverse = self.scale.to_dtype(DType::F64)?.reciprocal()?.to_dtype(DType::F32)?;
            let mut finite: Option<Tensor> = None;
            for grad in &grads {
                let this = grad.isfinite()?.all()?;
                grad.mul_(&inverse)?;
                finite = Some(match finite {
                    Some(others) => others.logical_and(&this)?,
                    None => this,
                });
            }
            match finite {
                Some(finite) => finite.logical_not(),
                None => Tensor::with(DType::Bool).literal(false),
            }
        })?;
        self.remember(first.id(), Seen { infinite, stepped: false, capture: tracer::current() });
        Ok(())
    }

    /// Divides the gradients by the scale unless that has been done, and makes the optimiser's step
    /// if all of them are finite. The result is a 0-dimensional `bool` tensor: whether it did.
    ///
    /// In a compiled function the step is made in any case, and what it has changed of parameters
    /// and of the optimiser's [`state_dict`](Optimizer::state_dict) is taken back if a gradient is
    /// not finite.
    ///
    /// # Errors
    /// It has been done since the last [`update`](GradScaler::update).
    #[track_caller]
    pub fn step(&self, optimizer: &dyn Optimizer) -> Result<Tensor> {
        if !self.options.enabled {
            optimizer.step()?;
            return Tensor::with(DType::Bool).literal(true);
        }
        self.enter("GradScaler::step")?;
        let Some(first) = optimizer.parameters().first().map(Tensor::id) else {
            return Tensor::with(DType::Bool).literal(false);
        };
        match self.seen(first) {
            None => self.unscale_(optimizer)?,
            Some(Seen { stepped: true, .. }) => {
                return Err(Error::runtime(
                    "step() has already been called since the last update().",
                ));
            }
            Some(_) => {}
        }
        let seen = self.seen(first).ok_or_else(|| Error::runtime("a scaler has lost its state"))?;
        let infinite = seen.infinite.clone();
        self.remember(first, Seen { stepped: true, ..seen });
        if tracer::current().is_some() {
            step_unless(&infinite, optimizer)?;
        } else if !infinite.item::<bool>()? {
            optimizer.step()?;
        }
        infinite.logical_not()
    }

    /// Makes the scale smaller if a step was skipped, and larger if none was for a while.
    ///
    /// # Errors
    /// There was no step since the last update.
    #[track_caller]
    pub fn update(&self) -> Result<()> {
        if !self.options.enabled {
            return Ok(());
        }
        self.enter("GradScaler::update")?;
        let seen = std::mem::take(&mut *self.lock());
        self.shared.open.store(false, Ordering::Relaxed);
        self.shared.owed.pay();
        let mut infinite: Option<Tensor> = None;
        for Seen { infinite: this, .. } in seen.into_values() {
            infinite = Some(match infinite {
                Some(others) => others.logical_or(&this)?,
                None => this,
            });
        }
        let Some(infinite) = infinite else {
            return Err(Error::runtime("No inf checks were recorded prior to update."));
        };
        let o = &self.options;
        no_grad(|| {
            let wide = self.scale.to_dtype(DType::F64)?;
            let times = |factor: f64| wide.mul(factor)?.to_dtype(DType::F32);
            let count = self.tracker.add(1)?;
            let due = count.eq(o.growth_interval)?;
            let grown = times(o.growth_factor)?;
            // a scale that would be infinite stays
            let grows = due.logical_and(grown.isfinite()?)?;
            let scale = grows.where_cond(&grown, &self.scale)?;
            let scale = infinite.where_cond(times(o.backoff_factor)?, scale)?;
            let zero = self.tracker.zeros_like()?;
            let tracker = infinite.logical_or(due)?.where_cond(&zero, &count)?;
            self.scale.copy_(scale)?;
            self.tracker.copy_(tracker).map(drop)
        })
    }

    /// Scale and count by name. They share memory with the scaler.
    pub fn state_dict(&self) -> Result<StateDict> {
        let entries = [("scale", &self.scale), ("growth_tracker", &self.tracker)];
        entries.into_iter().map(|(name, t)| Ok((name.to_owned(), t.detach()?))).collect()
    }

    /// Takes scale and count from what [`state_dict`](GradScaler::state_dict) gave.
    ///
    /// # Errors
    /// One of them is missing.
    pub fn load_state_dict(&self, dict: &StateDict) -> Result<()> {
        let get = |name: &str| {
            let found = dict.get(name);
            found.ok_or_else(|| Error::value(format!("a scaler's state has a `{name}`")))
        };
        let (scale, tracker) = (get("scale")?, get("growth_tracker")?);
        no_grad(|| {
            self.scale.copy_(scale)?;
            self.tracker.copy_(tracker).map(drop)
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<usize, Seen>> {
        self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self, optimizer: usize) -> Option<Seen> {
        self.lock().get(&optimizer).cloned()
    }

    #[track_caller]
    fn remember(&self, optimizer: usize, seen: Seen) {
        match seen.capture {
            None => self.shared.open.store(true, Ordering::Relaxed),
            Some(_) => self.shared.owed.owe(
                "a step of a `GradScaler` that does not end in the function",
                "what has happened between `unscale_` and `update` is no tensor: call `update` in the function as well, or all \
                 but `scale` outside of it",
            ),
        }
        let gone = self.lock().insert(optimizer, seen);
        drop(gone);
    }

    /// Forgets what a capture that was given up has left, and refuses to go on in a function with
    /// what has begun outside.
    #[track_caller]
    fn enter(&self, what: &str) -> Result<()> {
        let now = tracer::current();
        let mut gone = Vec::new();
        self.lock().retain(|_, seen| {
            let stays = seen.capture.is_none() || seen.capture == now;
            if !stays {
                gone.push(seen.infinite.clone());
            }
            stays
        });
        drop(gone);
        if now.is_none() {
            return Ok(());
        }
        let open = self.shared.open.load(Ordering::Relaxed);
        outside::asks_flag(
            &self.shared.open,
            open,
            [
                "a `GradScaler` is not in the middle of a step, as it was",
                "a `GradScaler` is in the middle of a step, which it was not",
            ],
        );
        match open {
            false => Ok(()),
            true => outside::check(
                what,
                "the scaler's step has begun outside of the function: call `update` before the function",
            ),
        }
    }
}

/// A step of an optimiser that leaves everything as it was if a condition holds.
fn step_unless(condition: &Tensor, optimizer: &dyn Optimizer) -> Result<()> {
    let changed = || -> Result<Vec<Tensor>> {
        let parameters = optimizer.parameters().into_iter().filter(|p| p.grad().is_some());
        let state = optimizer.state_dict()?.into_iter();
        let state = state.filter(|(name, _)| !name.starts_with("param_groups."));
        Ok(parameters.chain(state.map(|(_, t)| t)).collect())
    };
    no_grad(|| {
        let before = changed()?.iter().map(Tensor::copied).collect::<Result<Vec<_>>>()?;
        optimizer.step()?;
        for (t, before) in changed()?.iter().zip(&before) {
            t.copy_(condition.where_cond(before, t)?)?;
        }
        Ok(())
    })
}
