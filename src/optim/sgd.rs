//! Stochastic gradient descent.

use super::optimizer::{Optim, Rule, State};
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::{DType, Scalar};

/// Stochastic gradient descent, with momentum if it is wanted.
///
/// ```
/// use straightline::optim::{Optimizer, Sgd};
/// use straightline::{Tensor, nn::Parameter};
/// let w = Parameter::new(&Tensor::ones([1])?)?;
/// let optimizer = Sgd::new([w.tensor().clone()], 0.5)?;
/// w.set_grad(Some(&Tensor::ones([1])?))?;
/// optimizer.step()?;
/// assert_eq!(w.to_vec::<f32>()?, [0.5]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub type Sgd = Optim<SgdOptions>;

/// The settings of [`Sgd`]; a number is a learning rate.
///
/// ```
/// use straightline::optim::{Sgd, SgdOptions};
/// use straightline::nn::{Linear, Module};
/// let parameters = Linear::new(2, 2)?.parameters();
/// let error = Sgd::new(parameters, SgdOptions::default().nesterov(true)).unwrap_err();
/// assert!(error.to_string().contains("Nesterov momentum requires a momentum and zero dampening"));
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SgdOptions {
    lr: f64,
    momentum: f64,
    dampening: f64,
    weight_decay: f64,
    nesterov: bool,
    maximize: bool,
}

impl Default for SgdOptions {
    fn default() -> Self {
        SgdOptions {
            lr: 1e-3,
            momentum: 0.0,
            dampening: 0.0,
            weight_decay: 0.0,
            nesterov: false,
            maximize: false,
        }
    }
}

impl From<f64> for SgdOptions {
    fn from(lr: f64) -> Self {
        SgdOptions::default().lr(lr)
    }
}

impl SgdOptions {
    settings! {
        /// The learning rate; 0.001.
        lr: f64;
        /// The part of the last step's direction that is kept; 0.
        momentum: f64;
        /// The part of the gradient that the momentum does not take; 0.
        dampening: f64;
        /// The part of the parameter that is added to its gradient; 0.
        weight_decay: f64;
        /// Nesterov's momentum, which looks one step ahead; no.
        nesterov: bool;
        /// Whether to climb instead of descend; no.
        maximize: bool;
    }
}

impl Rule for SgdOptions {
    fn lr(&self) -> f64 {
        self.lr
    }

    fn check(&self) -> Result<()> {
        ensure_value!(self.momentum >= 0.0, "Invalid momentum value: {}", self.momentum);
        ensure_value!(
            self.weight_decay >= 0.0,
            "Invalid weight_decay value: {}",
            self.weight_decay
        );
        ensure_value!(
            !self.nesterov || self.momentum > 0.0 && self.dampening == 0.0,
            "Nesterov momentum requires a momentum and zero dampening"
        );
        Ok(())
    }

    fn state(&self, p: &Tensor) -> Result<State> {
        if self.momentum == 0.0 {
            return Ok(State::default());
        }
        // what is not dampened is the first step
        let state = State::default().with("momentum_buffer", p.zeros_like()?);
        if self.dampening == 0.0 { Ok(state) } else { state.with_step(p) }
    }

    fn update(&self, p: &Tensor, grad: &Tensor, lr: &Tensor, state: &State) -> Result<()> {
        let mut g = gradient(p, grad, self.maximize, self.weight_decay)?;
        if self.momentum != 0.0 {
            let buffer = state.get("momentum_buffer")?;
            buffer.mul_(self.momentum)?;
            if self.dampening == 0.0 {
                buffer.add_(&g)?;
            } else {
                let later = state.count_step()?.gt(1)?.to_dtype(DType::F64)?;
                buffer.add_(g.mul(later.mul(-self.dampening)?.add(1.0)?)?)?;
            }
            g = match self.nesterov {
                true => aten::add_tensor(&g, buffer, Scalar::Float(self.momentum))?,
                false => buffer.clone(),
            };
        }
        p.sub_(g.mul(lr)?).map(drop)
    }
}

/// The gradient that a rule begins with: its negative to climb, and the part of the parameter that
/// decays added.
pub(super) fn gradient(p: &Tensor, grad: &Tensor, maximize: bool, decay: f64) -> Result<Tensor> {
    let g = if maximize { grad.neg()? } else { grad.clone() };
    if decay == 0.0 { Ok(g) } else { aten::add_tensor(&g, p, Scalar::Float(decay)) }
}
