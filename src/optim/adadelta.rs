//! Adadelta and Adamax.

use super::adam::check_betas;
use super::optimizer::{Optim, Rule, State};
use super::schedule::power;
use super::sgd::gradient;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

/// Adadelta: the gradient times the ratio of two roots of running means, of the squares of changes
/// and of gradients.
///
/// ```
/// use straightline::nn::{Linear, Module};
/// use straightline::optim::{Adadelta, AdadeltaOptions};
/// let options = AdadeltaOptions::default().lr(0.5).rho(0.95);
/// let optimizer = Adadelta::new(Linear::new(2, 2)?.parameters(), options)?;
/// # Ok::<(), straightline::Error>(())
/// ```
pub type Adadelta = Optim<AdadeltaOptions>;

/// The settings of [`Adadelta`]; a number is a learning rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdadeltaOptions {
    lr: f64,
    rho: f64,
    eps: f64,
    weight_decay: f64,
    maximize: bool,
}

impl Default for AdadeltaOptions {
    fn default() -> Self {
        AdadeltaOptions { lr: 1.0, rho: 0.9, eps: 1e-6, weight_decay: 0.0, maximize: false }
    }
}

impl From<f64> for AdadeltaOptions {
    fn from(lr: f64) -> Self {
        AdadeltaOptions::default().lr(lr)
    }
}

impl AdadeltaOptions {
    settings! {
        /// What changes are multiplied by; 1.
        lr: f64;
        /// What running means keep; 0.9.
        rho: f64;
        /// What is added below the roots; 1e-6.
        eps: f64;
        /// The part of the parameter that is added to its gradient; 0.
        weight_decay: f64;
        /// Whether to climb instead of descend; no.
        maximize: bool;
    }
}

impl Rule for AdadeltaOptions {
    fn lr(&self) -> f64 {
        self.lr
    }

    fn check(&self) -> Result<()> {
        ensure_value!((0.0..=1.0).contains(&self.rho), "Invalid rho value: {}", self.rho);
        ensure_value!(self.eps >= 0.0, "Invalid epsilon value: {}", self.eps);
        let decay = self.weight_decay;
        ensure_value!(decay >= 0.0, "Invalid weight_decay value: {decay}");
        Ok(())
    }

    fn views_complex_as_real(&self) -> bool {
        true
    }

    fn state(&self, p: &Tensor) -> Result<State> {
        let state = State::default().with_step(p)?;
        Ok(state.with("square_avg", p.zeros_like()?).with("acc_delta", p.zeros_like()?))
    }

    fn update(&self, p: &Tensor, grad: &Tensor, lr: &Tensor, state: &State) -> Result<()> {
        state.count_step()?;
        let g = gradient(p, grad, self.maximize, self.weight_decay)?;
        let (square, changes) = (state.get("square_avg")?, state.get("acc_delta")?);
        let part = Scalar::Float(1.0 - self.rho);
        aten::addcmul_(&square.mul_(self.rho)?, &g, &g, part)?;
        let spread = square.add(self.eps)?.sqrt_()?;
        let change = changes.add(self.eps)?.sqrt_()?.div_(spread)?.mul_(&g)?;
        aten::addcmul_(&changes.mul_(self.rho)?, &change, &change, part)?;
        p.sub_(change.mul(lr)?).map(drop)
    }
}

/// Adamax: [`Adam`](super::Adam) with the largest gradient of late instead of the running mean of
/// squares.
///
/// ```
/// use straightline::nn::{Linear, Module};
/// use straightline::optim::{Adamax, Optimizer};
/// let optimizer = Adamax::new(Linear::without_bias(2, 2)?.parameters(), 2e-3)?;
/// assert!(optimizer.state_dict()?.contains_key("state.0.exp_inf"));
/// # Ok::<(), straightline::Error>(())
/// ```
pub type Adamax = Optim<AdamaxOptions>;

/// The settings of [`Adamax`]; a number is a learning rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamaxOptions {
    lr: f64,
    betas: (f64, f64),
    eps: f64,
    weight_decay: f64,
    maximize: bool,
}

impl Default for AdamaxOptions {
    fn default() -> Self {
        let betas = (0.9, 0.999);
        AdamaxOptions { lr: 2e-3, betas, eps: 1e-8, weight_decay: 0.0, maximize: false }
    }
}

impl From<f64> for AdamaxOptions {
    fn from(lr: f64) -> Self {
        AdamaxOptions::default().lr(lr)
    }
}

impl AdamaxOptions {
    settings! {
        /// The learning rate; 0.002.
        lr: f64;
        /// What is added to the size of a gradient; 1e-8.
        eps: f64;
        /// The part of the parameter that is added to its gradient; 0.
        weight_decay: f64;
        /// Whether to climb instead of descend; no.
        maximize: bool;
    }

    pairs! {
        /// What running means keep, of the gradient and of its largest size; 0.9 and 0.999.
        betas(mean, square);
    }
}

impl Rule for AdamaxOptions {
    fn lr(&self) -> f64 {
        self.lr
    }

    fn check(&self) -> Result<()> {
        check_betas(self.betas, self.eps, self.weight_decay)
    }

    fn views_complex_as_real(&self) -> bool {
        true
    }

    fn state(&self, p: &Tensor) -> Result<State> {
        let state = State::default().with_step(p)?;
        Ok(state.with("exp_avg", p.zeros_like()?).with("exp_inf", p.zeros_like()?))
    }

    fn update(&self, p: &Tensor, grad: &Tensor, lr: &Tensor, state: &State) -> Result<()> {
        let step = state.count_step()?;
        let g = gradient(p, grad, self.maximize, self.weight_decay)?;
        let (mean, largest) = (state.get("exp_avg")?, state.get("exp_inf")?);
        aten::lerp_scalar_(mean, &g, Scalar::Float(1.0 - self.betas.0))?;
        largest.copy_(largest.mul(self.betas.1)?.maximum(g.abs()?.add_(self.eps)?)?)?;
        let correction = power(self.betas.0, &step)?.neg()?.add(1.0)?;
        let size = lr.div(correction)?;
        p.addcdiv_(mean.mul(size.neg()?)?, largest).map(drop)
    }
}
