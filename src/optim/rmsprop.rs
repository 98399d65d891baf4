//! RMSprop and Adagrad, which divide by a root of squares.

use super::optimizer::{Optim, Rule, State};
use super::sgd::gradient;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

/// RMSprop: the gradient over the root of the running mean of its square.
///
/// ```
/// use straightline::nn::{Linear, Module};
/// use straightline::optim::{RmsProp, RmsPropOptions};
/// let options = RmsPropOptions::default().centered(true).momentum(0.9);
/// let optimizer = RmsProp::new(Linear::new(2, 2)?.parameters(), options)?;
/// # Ok::<(), straightline::Error>(())
/// ```
pub type RmsProp = Optim<RmsPropOptions>;

/// The settings of [`RmsProp`]; a number is a learning rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RmsPropOptions {
    lr: f64,
    alpha: f64,
    eps: f64,
    weight_decay: f64,
    momentum: f64,
    centered: bool,
    maximize: bool,
}

impl Default for RmsPropOptions {
    fn default() -> Self {
        RmsPropOptions {
            lr: 1e-2,
            alpha: 0.99,
            eps: 1e-8,
            weight_decay: 0.0,
            momentum: 0.0,
            centered: false,
            maximize: false,
        }
    }
}

impl From<f64> for RmsPropOptions {
    fn from(lr: f64) -> Self {
        RmsPropOptions::default().lr(lr)
    }
}

impl RmsPropOptions {
    settings! {
        /// The learning rate; 0.01.
        lr: f64;
        /// What the running mean of the square keeps; 0.99.
        alpha: f64;
        /// What is added to the root; 1e-8.
        eps: f64;
        /// The part of the parameter that is added to its gradient; 0.
        weight_decay: f64;
        /// The part of the last step's direction that is kept; 0.
        momentum: f64;
        /// Whether to divide by the standard deviation instead; no.
        centered: bool;
        /// Whether to climb instead of descend; no.
        maximize: bool;
    }
}

impl Rule for RmsPropOptions {
    fn lr(&self) -> f64 {
        self.lr
    }

    fn check(&self) -> Result<()> {
        ensure_value!(self.eps >= 0.0, "Invalid epsilon value: {}", self.eps);
        ensure_value!(self.momentum >= 0.0, "Invalid momentum value: {}", self.momentum);
        ensure_value!(
            self.weight_decay >= 0.0,
            "Invalid weight_decay value: {}",
            self.weight_decay
        );
        ensure_value!(self.alpha >= 0.0, "Invalid alpha value: {}", self.alpha);
        Ok(())
    }

    fn views_complex_as_real(&self) -> bool {
        true
    }

    fn state(&self, p: &Tensor) -> Result<State> {
        let mut state = State::default().with_step(p)?.with("square_avg", p.zeros_like()?);
        if self.momentum > 0.0 {
            state = state.with("momentum_buffer", p.zeros_like()?);
        }
        if self.centered {
            state = state.with("grad_avg", p.zeros_like()?);
        }
        Ok(state)
    }

    fn update(&self, p: &Tensor, grad: &Tensor, lr: &Tensor, state: &State) -> Result<()> {
        state.count_step()?;
        let g = gradient(p, grad, self.maximize, self.weight_decay)?;
        let square = state.get("square_avg")?;
        let part = 1.0 - self.alpha;
        aten::addcmul_(&square.mul_(self.alpha)?, &g, &g, Scalar::Float(part))?;
        let spread = if self.centered {
            let mean = aten::lerp_scalar_(state.get("grad_avg")?, &g, Scalar::Float(part))?;
            square.addcmul_with(&mean, &mean, -1.0)?.sqrt_()?
        } else {
            square.sqrt()?
        };
        spread.add_(self.eps)?;
        if self.momentum > 0.0 {
            let buffer = state.get("momentum_buffer")?;
            buffer.mul_(self.momentum)?.addcdiv_(&g, spread)?;
            p.sub_(buffer.mul(lr)?).map(drop)
        } else {
            p.addcdiv_(g.mul(lr.neg()?)?, spread).map(drop)
        }
    }
}

/// Adagrad: the gradient over the root of the sum of all squares so far.
///
/// ```
/// use straightline::nn::{Linear, Module};
/// use straightline::optim::{Adagrad, Optimizer};
/// let optimizer = Adagrad::new(Linear::without_bias(2, 2)?.parameters(), 0.05)?;
/// assert!(optimizer.state_dict()?.contains_key("state.0.sum"));
/// # Ok::<(), straightline::Error>(())
/// ```
pub type Adagrad = Optim<AdagradOptions>;

/// The settings of [`Adagrad`]; a number is a learning rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdagradOptions {
    lr: f64,
    lr_decay: f64,
    weight_decay: f64,
    initial_accumulator_value: f64,
    eps: f64,
    maximize: bool,
}

impl Default for AdagradOptions {
    fn default() -> Self {
        AdagradOptions {
            lr: 1e-2,
            lr_decay: 0.0,
            weight_decay: 0.0,
            initial_accumulator_value: 0.0,
            eps: 1e-10,
            maximize: false,
        }
    }
}

impl From<f64> for AdagradOptions {
    fn from(lr: f64) -> Self {
        AdagradOptions::default().lr(lr)
    }
}

impl AdagradOptions {
    settings! {
        /// The learning rate; 0.01.
        lr: f64;
        /// By how much each step grows what the learning rate is divided by; 0.
        lr_decay: f64;
        /// The part of the parameter that is added to its gradient; 0.
        weight_decay: f64;
        /// What the sum of squares begins with; 0.
        initial_accumulator_value: f64;
        /// What is added to the root; 1e-10.
        eps: f64;
        /// Whether to climb instead of descend; no.
        maximize: bool;
    }
}

impl Rule for AdagradOptions {
    fn lr(&self) -> f64 {
        self.lr
    }

    fn check(&self) -> Result<()> {
        let named = [
            ("lr_decay", self.lr_decay),
            ("weight_decay", self.weight_decay),
            ("initial_accumulator_value", self.initial_accumulator_value),
            ("epsilon", self.eps),
        ];
        for (name, value) in named {
            ensure_value!(value >= 0.0, "Invalid {name} value: {value}");
        }
        Ok(())
    }

    fn views_complex_as_real(&self) -> bool {
        true
    }

    fn state(&self, p: &Tensor) -> Result<State> {
        let sum = p.full_like(self.initial_accumulator_value)?;
        Ok(State::default().with_step(p)?.with("sum", sum))
    }

    fn update(&self, p: &Tensor, grad: &Tensor, lr: &Tensor, state: &State) -> Result<()> {
        let step = state.count_step()?;
        let g = gradient(p, grad, self.maximize, self.weight_decay)?;
        let slower = step.sub(1.0)?.mul(self.lr_decay)?.add(1.0)?;
        let sum = state.get("sum")?.addcmul_(&g, &g)?;
        let spread = sum.sqrt()?.add_(self.eps)?;
        p.addcdiv_(g.mul(lr.div(slower)?.neg()?)?, spread).map(drop)
    }
}
