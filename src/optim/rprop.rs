//! Rprop, and averaged SGD.

use super::optimizer::{Optim, Rule, State};
use super::sgd::gradient;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::DType;

/// Rprop: steps whose sizes grow while a gradient keeps its sign, and shrink where it changes. For
/// gradients of all data at once.
///
/// ```
/// use straightline::nn::{Linear, Module};
/// use straightline::optim::{Rprop, RpropOptions};
/// let options = RpropOptions::default().etas(0.5, 1.1).step_sizes(1e-6, 1.0);
/// let optimizer = Rprop::new(Linear::new(2, 2)?.parameters(), options)?;
/// # Ok::<(), straightline::Error>(())
/// ```
pub type Rprop = Optim<RpropOptions>;

/// The settings of [`Rprop`]; a number is the first size of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RpropOptions {
    lr: f64,
    etas: (f64, f64),
    step_sizes: (f64, f64),
    maximize: bool,
}

impl Default for RpropOptions {
    fn default() -> Self {
        RpropOptions { lr: 1e-2, etas: (0.5, 1.2), step_sizes: (1e-6, 50.0), maximize: false }
    }
}

impl From<f64> for RpropOptions {
    fn from(lr: f64) -> Self {
        RpropOptions::default().lr(lr)
    }
}

impl RpropOptions {
    settings! {
        /// The first size of a step; 0.01. Later learning rates change nothing.
        lr: f64;
        /// Whether to climb instead of descend; no.
        maximize: bool;
    }

    pairs! {
        /// What sizes are multiplied by to shrink and to grow; 0.5 and 1.2.
        etas(shrink, grow);
        /// The smallest and the largest size; 1e-6 and 50.
        step_sizes(smallest, largest);
    }
}

impl Rule for RpropOptions {
    fn lr(&self) -> f64 {
        self.lr
    }

    fn check(&self) -> Result<()> {
        let (shrink, grow) = self.etas;
        ensure_value!(
            0.0 < shrink && shrink < 1.0 && 1.0 < grow,
            "Invalid eta values: {shrink}, {grow}"
        );
        Ok(())
    }

    fn views_complex_as_real(&self) -> bool {
        true
    }

    fn state(&self, p: &Tensor) -> Result<State> {
        let sizes = p.zeros_like()?;
        // both parts of complex numbers
        let numbers =
            if p.dtype().is_complex() { aten::view_as_real(&sizes)? } else { sizes.clone() };
        numbers.fill_(self.lr)?;
        Ok(State::default().with_step(p)?.with("prev", p.zeros_like()?).with("step_size", sizes))
    }

    fn update(&self, p: &Tensor, grad: &Tensor, _: &Tensor, state: &State) -> Result<()> {
        state.count_step()?;
        let g = gradient(p, grad, self.maximize, 0.0)?;
        let (before, size) = (state.get("prev")?, state.get("step_size")?);
        let (shrink, grow) = self.etas;
        let kept = g.mul(before)?;
        let changes = kept.lt(0)?;
        let factor = size.ones_like()?.masked_fill(&changes, shrink)?;
        let factor = factor.masked_fill(kept.gt(0)?, grow)?;
        let (smallest, largest) = self.step_sizes;
        size.copy_(size.mul(factor)?.clamp(smallest, largest)?)?;
        // where the sign has changed, nothing happens for once
        let g = g.masked_fill(&changes, 0.0)?;
        p.sub_(g.sign()?.mul(size)?)?;
        before.copy_(g).map(drop)
    }
}

/// Averaged SGD: [`Sgd`](super::Sgd) with a learning rate that falls, and the mean of what the
/// parameters were, `ax` of its state.
///
/// ```
/// use straightline::nn::{Linear, Module};
/// use straightline::optim::{Asgd, Optimizer};
/// let optimizer = Asgd::new(Linear::without_bias(2, 2)?.parameters(), 0.01)?;
/// assert!(optimizer.state_dict()?.contains_key("state.0.ax"));
/// # Ok::<(), straightline::Error>(())
/// ```
pub type Asgd = Optim<AsgdOptions>;

/// The settings of [`Asgd`]; a number is a learning rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AsgdOptions {
    lr: f64,
    lambd: f64,
    alpha: f64,
    t0: f64,
    weight_decay: f64,
    maximize: bool,
}

impl Default for AsgdOptions {
    fn default() -> Self {
        let (lambd, alpha, t0) = (1e-4, 0.75, 1e6);
        AsgdOptions { lr: 1e-2, lambd, alpha, t0, weight_decay: 0.0, maximize: false }
    }
}

impl From<f64> for AsgdOptions {
    fn from(lr: f64) -> Self {
        AsgdOptions::default().lr(lr)
    }
}

impl AsgdOptions {
    settings! {
        /// The first learning rate; 0.01.
        lr: f64;
        /// What parameters decay by, times the learning rate; 0.0001.
        lambd: f64;
        /// The power by which the learning rate falls; 0.75.
        alpha: f64;
        /// From which step on the mean is taken; a million.
        t0: f64;
        /// The part of the parameter that is added to its gradient; 0.
        weight_decay: f64;
        /// Whether to climb instead of descend; no.
        maximize: bool;
    }
}

impl Rule for AsgdOptions {
    fn lr(&self) -> f64 {
        self.lr
    }

    fn check(&self) -> Result<()> {
        let decay = self.weight_decay;
        ensure_value!(decay >= 0.0, "Invalid weight_decay value: {decay}");
        Ok(())
    }

    fn views_complex_as_real(&self) -> bool {
        true
    }

    fn state(&self, p: &Tensor) -> Result<State> {
        let number = |x: f64| Tensor::with(DType::F32).device(p.device()).literal(x);
        let state = State::default().with_step(p)?.with("eta", number(self.lr)?);
        Ok(state.with("mu", number(1.0)?).with("ax", p.zeros_like()?))
    }

    fn update(&self, p: &Tensor, grad: &Tensor, lr: &Tensor, state: &State) -> Result<()> {
        let step = state.count_step()?;
        let g = gradient(p, grad, self.maximize, self.weight_decay)?;
        let (eta, mu, mean) = (state.get("eta")?, state.get("mu")?, state.get("ax")?);
        let wide = eta.to_dtype(DType::F64)?;
        p.mul_(wide.mul(-self.lambd)?.add(1.0)?)?;
        p.sub_(g.mul(&wide)?)?;
        let moved = mean.add(p.sub(mean)?.mul(mu)?)?;
        mean.copy_(mu.eq(1)?.where_cond(p, moved)?)?;
        let slower = lr.mul(self.lambd)?.mul(&step)?.add(1.0)?.pow(self.alpha)?;
        eta.copy_(lr.div(slower)?)?;
        mu.copy_(step.sub(self.t0)?.clamp_min(1.0)?.reciprocal()?).map(drop)
    }
}
