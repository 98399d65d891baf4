//! Adam, and AdamW.

use super::optimizer::{Optim, Rule, State};
use super::schedule::power;
use super::sgd::gradient;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

/// Adam: steps by the running mean of the gradient over the root of the running mean of its square.
///
/// ```
/// use straightline::optim::{Adam, Optimizer};
/// use straightline::{DType, Tensor, nn::Parameter};
/// let w = Parameter::new(&Tensor::with(DType::F64).ones([1])?)?;
/// let optimizer = Adam::new([w.tensor().clone()], 0.1)?;
/// w.set_grad(Some(&Tensor::with(DType::F64).ones([1])?))?;
/// optimizer.step()?;
/// assert_eq!(w.to_vec::<f64>()?, [0.900000001]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub type Adam = Optim<AdamOptions>;

/// [`Adam`] with a weight decay that does not go through the gradient, 0.01 unless told otherwise.
///
/// ```
/// use straightline::nn::{Linear, Module};
/// use straightline::optim::{AdamW, AdamWOptions};
/// let options = AdamWOptions::default().lr(3e-4).weight_decay(0.1);
/// let optimizer = AdamW::new(Linear::new(2, 2)?.parameters(), options)?;
/// # Ok::<(), straightline::Error>(())
/// ```
pub type AdamW = Optim<AdamWOptions>;

macro_rules! options {
    ($($(#[$doc:meta])* $name:ident, decay: $decay:literal, decoupled: $decoupled:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name(Settings);

        impl Default for $name {
            fn default() -> Self {
                $name(Settings {
                    lr: 1e-3,
                    betas: (0.9, 0.999),
                    eps: 1e-8,
                    weight_decay: $decay,
                    amsgrad: false,
                    maximize: false,
                })
            }
        }

        impl From<f64> for $name {
            fn from(lr: f64) -> Self {
                $name::default().lr(lr)
            }
        }

        impl $name {
            /// The learning rate; 0.001.
            #[must_use]
            pub fn lr(mut self, lr: f64) -> Self {
                self.0.lr = lr;
                self
            }

            /// What running means keep, of the gradient and of its square; 0.9 and 0.999.
            #[must_use]
            pub fn betas(mut self, mean: f64, square: f64) -> Self {
                self.0.betas = (mean, square);
                self
            }

            /// What is added to the root; 1e-8.
            #[must_use]
            pub fn eps(mut self, eps: f64) -> Self {
                self.0.eps = eps;
                self
            }

            #[doc = concat!("The weight decay; ", stringify!($decay), ".")]
            #[must_use]
            pub fn weight_decay(mut self, decay: f64) -> Self {
                self.0.weight_decay = decay;
                self
            }

            /// Whether the largest mean of squares so far counts instead of the last; no.
            #[must_use]
            pub fn amsgrad(mut self, on: bool) -> Self {
                self.0.amsgrad = on;
                self
            }

            /// Whether to climb instead of descend; no.
            #[must_use]
            pub fn maximize(mut self, on: bool) -> Self {
                self.0.maximize = on;
                self
            }
        }

        impl Rule for $name {
            fn lr(&self) -> f64 {
                self.0.lr
            }

            fn check(&self) -> Result<()> {
                self.0.check()
            }

            fn views_complex_as_real(&self) -> bool {
                true
            }

            fn state(&self, p: &Tensor) -> Result<State> {
                self.0.state(p)
            }

            fn update(&self, p: &Tensor, grad: &Tensor, lr: &Tensor, s: &State) -> Result<()> {
                self.0.update(p, grad, lr, s, $decoupled)
            }
        }
    )*};
}
options! {
    /// The settings of [`Adam`]; a number is a learning rate.
    AdamOptions, decay: 0.0, decoupled: false;
    /// The settings of [`AdamW`]; a number is a learning rate.
    AdamWOptions, decay: 0.01, decoupled: true;
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Settings {
    lr: f64,
    betas: (f64, f64),
    eps: f64,
    weight_decay: f64,
    amsgrad: bool,
    maximize: bool,
}

impl Settings {
    fn check(&self) -> Result<()> {
        check_betas(self.betas, self.eps, self.weight_decay)
    }

    fn state(&self, p: &Tensor) -> Result<State> {
        let state = State::default().with_step(p)?;
        let state = state.with("exp_avg", p.zeros_like()?).with("exp_avg_sq", p.zeros_like()?);
        match self.amsgrad {
            true => Ok(state.with("max_exp_avg_sq", p.zeros_like()?)),
            false => Ok(state),
        }
    }

    fn update(
        &self,
        p: &Tensor,
        grad: &Tensor,
        lr: &Tensor,
        state: &State,
        decoupled: bool,
    ) -> Result<()> {
        let (keep_mean, keep_square) = self.betas;
        let step = state.count_step()?;
        let decay = Decay { by: self.weight_decay, decoupled, maximize: self.maximize };
        let g = decay.apply(p, grad, lr)?;
        let (mean, square) = running_means(&g, state, self.betas)?;
        let square = if self.amsgrad {
            let largest = state.get("max_exp_avg_sq")?;
            largest.copy_(largest.maximum(square)?)?
        } else {
            square.clone()
        };

        // running means that began at zero are too small by these
        let correction = |keep: f64| power(keep, &step)?.neg()?.add(1.0);
        let size = lr.div(correction(keep_mean)?)?;
        let root = correction(keep_square)?.sqrt()?;
        let spread = square.sqrt()?.div_(root)?.add_(self.eps)?;
        p.addcdiv_(mean.mul(size.neg()?)?, spread).map(drop)
    }
}

/// How a parameter decays, and which way a step goes.
pub(super) struct Decay {
    pub(super) by: f64,
    /// Not through the gradient.
    pub(super) decoupled: bool,
    pub(super) maximize: bool,
}

impl Decay {
    /// Lets the parameter decay; the gradient of the step.
    pub(super) fn apply(&self, p: &Tensor, grad: &Tensor, lr: &Tensor) -> Result<Tensor> {
        let coupled = if self.decoupled { 0.0 } else { self.by };
        let g = gradient(p, grad, self.maximize, coupled)?;
        if self.decoupled && self.by != 0.0 {
            p.mul_(lr.mul(-self.by)?.add(1.0)?)?;
        }
        Ok(g)
    }
}

/// The running means of the gradient and of its square, with this gradient in them.
pub(super) fn running_means<'s>(
    g: &Tensor,
    state: &'s State,
    (keep_mean, keep_square): (f64, f64),
) -> Result<(&'s Tensor, &'s Tensor)> {
    let (mean, square) = (state.get("exp_avg")?, state.get("exp_avg_sq")?);
    aten::lerp_scalar_(mean, g, Scalar::Float(1.0 - keep_mean))?;
    aten::addcmul_(&square.mul_(keep_square)?, g, g, Scalar::Float(1.0 - keep_square))?;
    Ok((mean, square))
}

/// Refuses what makes no sense for running means of gradients and squares.
pub(super) fn check_betas(betas: (f64, f64), eps: f64, weight_decay: f64) -> Result<()> {
    ensure_value!(eps >= 0.0, "Invalid epsilon value: {eps}");
    for (i, beta) in [betas.0, betas.1].into_iter().enumerate() {
        ensure_value!((0.0..1.0).contains(&beta), "Invalid beta parameter at index {i}: {beta}");
    }
    ensure_value!(weight_decay >= 0.0, "Invalid weight_decay value: {weight_decay}");
    Ok(())
}
