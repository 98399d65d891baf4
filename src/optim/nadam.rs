//! NAdam and RAdam: [`Adam`](super::Adam) with Nesterov's momentum, and with a beginning that waits
//! for the mean of squares.

use super::adam::{Decay, check_betas, running_means};
use super::optimizer::{Optim, Rule, State};
use super::schedule::power;
use crate::error::Result;
use crate::tensor::Tensor;
use straightline_catalog::DType;

/// NAdam: [`Adam`](super::Adam) with Nesterov's momentum, which looks one step ahead.
///
/// ```
/// use straightline::nn::{Linear, Module};
/// use straightline::optim::{NAdam, NAdamOptions};
/// let options = NAdamOptions::default().weight_decay(0.01).decoupled_weight_decay(true);
/// let optimizer = NAdam::new(Linear::new(2, 2)?.parameters(), options)?;
/// # Ok::<(), straightline::Error>(())
/// ```
pub type NAdam = Optim<NAdamOptions>;

/// The settings of [`NAdam`]; a number is a learning rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NAdamOptions {
    lr: f64,
    betas: (f64, f64),
    eps: f64,
    weight_decay: f64,
    momentum_decay: f64,
    decoupled_weight_decay: bool,
    maximize: bool,
}

impl Default for NAdamOptions {
    fn default() -> Self {
        NAdamOptions {
            lr: 2e-3,
            betas: (0.9, 0.999),
            eps: 1e-8,
            weight_decay: 0.0,
            momentum_decay: 4e-3,
            decoupled_weight_decay: false,
            maximize: false,
        }
    }
}

impl From<f64> for NAdamOptions {
    fn from(lr: f64) -> Self {
        NAdamOptions::default().lr(lr)
    }
}

impl NAdamOptions {
    settings! {
        /// The learning rate; 0.002.
        lr: f64;
        /// What is added to the root; 1e-8.
        eps: f64;
        /// The weight decay; 0.
        weight_decay: f64;
        /// How fast the momentum grows to its full size; 0.004.
        momentum_decay: f64;
        /// Whether the weight decay does not go through the gradient, as [`AdamW`](super::AdamW)'s; no.
        decoupled_weight_decay: bool;
        /// Whether to climb instead of descend; no.
        maximize: bool;
    }

    pairs! {
        /// What running means keep, of the gradient and of its square; 0.9 and 0.999.
        betas(mean, square);
    }

    fn decay(&self) -> Decay {
        let (by, decoupled) = (self.weight_decay, self.decoupled_weight_decay);
        Decay { by, decoupled, maximize: self.maximize }
    }
}

impl Rule for NAdamOptions {
    fn lr(&self) -> f64 {
        self.lr
    }

    fn check(&self) -> Result<()> {
        check_betas(self.betas, self.eps, self.weight_decay)?;
        let decay = self.momentum_decay;
        ensure_value!(decay >= 0.0, "Invalid momentum_decay value: {decay}");
        Ok(())
    }

    fn views_complex_as_real(&self) -> bool {
        true
    }

    fn state(&self, p: &Tensor) -> Result<State> {
        let state = State::default().with_step(p)?;
        let state = state.with("mu_product", Tensor::with(DType::F32).literal(1.0)?);
        Ok(state.with("exp_avg", p.zeros_like()?).with("exp_avg_sq", p.zeros_like()?))
    }

    fn update(&self, p: &Tensor, grad: &Tensor, lr: &Tensor, state: &State) -> Result<()> {
        let (keep_mean, keep_square) = self.betas;
        let step = state.count_step()?;
        let g = self.decay().apply(p, grad, lr)?;
        let (mean, square) = running_means(&g, state, self.betas)?;
        let momentum = |step: &Tensor| {
            let grown = power(0.96, &step.mul(self.momentum_decay)?)?;
            grown.mul(-0.5)?.add(1.0)?.mul(keep_mean)
        };
        let (now, next) = (momentum(&step)?, momentum(&step.add(1.0)?)?);
        let product = state.get("mu_product")?;
        product.mul_(now.to_dtype(DType::F32)?)?;
        let product = product.to_dtype(DType::F64)?;
        let correction = power(keep_square, &step)?.neg()?.add(1.0)?;
        let spread = square.div(correction)?.sqrt_()?.add_(self.eps)?;
        // one less the product of what momenta were, now and ahead
        let of_gradient = now.sub(1.0)?.div(product.neg()?.add(1.0)?)?.mul(lr)?;
        let of_mean = next.neg()?.div(product.mul(&next)?.neg()?.add(1.0)?)?.mul(lr)?;
        p.addcdiv_(g.mul(of_gradient)?, &spread)?;
        p.addcdiv_(mean.mul(of_mean)?, &spread).map(drop)
    }
}

/// RAdam: [`Adam`](super::Adam) that leaves the mean of squares out until it is of enough numbers.
///
/// ```
/// use straightline::nn::{Linear, Module};
/// use straightline::optim::RAdam;
/// let optimizer = RAdam::new(Linear::new(2, 2)?.parameters(), 1e-3)?;
/// # Ok::<(), straightline::Error>(())
/// ```
pub type RAdam = Optim<RAdamOptions>;

/// The settings of [`RAdam`]; a number is a learning rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RAdamOptions {
    lr: f64,
    betas: (f64, f64),
    eps: f64,
    weight_decay: f64,
    decoupled_weight_decay: bool,
    maximize: bool,
}

impl Default for RAdamOptions {
    fn default() -> Self {
        RAdamOptions {
            lr: 1e-3,
            betas: (0.9, 0.999),
            eps: 1e-8,
            weight_decay: 0.0,
            decoupled_weight_decay: false,
            maximize: false,
        }
    }
}

impl From<f64> for RAdamOptions {
    fn from(lr: f64) -> Self {
        RAdamOptions::default().lr(lr)
    }
}

impl RAdamOptions {
    settings! {
        /// The learning rate; 0.001.
        lr: f64;
        /// What is added to the root; 1e-8.
        eps: f64;
        /// The weight decay; 0.
        weight_decay: f64;
        /// Whether the weight decay does not go through the gradient, as [`AdamW`](super::AdamW)'s; no.
        decoupled_weight_decay: bool;
        /// Whether to climb instead of descend; no.
        maximize: bool;
    }

    pairs! {
        /// What running means keep, of the gradient and of its square; 0.9 and 0.999.
        betas(mean, square);
    }

    fn decay(&self) -> Decay {
        let (by, decoupled) = (self.weight_decay, self.decoupled_weight_decay);
        Decay { by, decoupled, maximize: self.maximize }
    }
}

impl Rule for RAdamOptions {
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
        Ok(state.with("exp_avg", p.zeros_like()?).with("exp_avg_sq", p.zeros_like()?))
    }

    fn update(&self, p: &Tensor, grad: &Tensor, lr: &Tensor, state: &State) -> Result<()> {
        let (keep_mean, keep_square) = self.betas;
        let step = state.count_step()?;
        let g = self.decay().apply(p, grad, lr)?;
        let (mean, square) = running_means(&g, state, self.betas)?;
        let kept = power(keep_square, &step)?;
        let (of_mean, of_square) =
            (power(keep_mean, &step)?.neg()?.add(1.0)?, kept.neg()?.add(1.0)?);
        // how many numbers the mean of squares is of, at most and now
        let most = 2.0 / (1.0 - keep_square) - 1.0;
        let count = step.mul(2.0)?.mul(&kept)?.div(&of_square)?.neg()?.add(most)?;
        let enough = count.gt(5.0)?;
        let numerator = count.sub(4.0)?.mul(count.sub(2.0)?)?.mul(most)?;
        let denominator = count.mul((most - 4.0) * (most - 2.0))?;
        // a root of what may be negative before
        let rectified = enough.where_cond(numerator.div(denominator)?, 1.0)?.sqrt()?;
        let size = lr.div(of_mean)?.neg()?;
        let adapted = size.mul(rectified)?.mul(of_square.sqrt()?)?;
        let spread = enough.where_cond(square.sqrt()?.add_(self.eps)?, p.ones_like()?)?;
        p.addcdiv_(mean.mul(enough.where_cond(adapted, size)?)?, spread).map(drop)
    }
}
