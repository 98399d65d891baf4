//! Optimisers by PyTorch's rules, learning-rate schedules, clipping and loss scaling.
//!
//! ```
//! use straightline::nn::{Layer, Linear, Module};
//! use straightline::optim::{AdamW, AdamWOptions, CosineAnnealingLr, LrScheduler, Optimizer, clip_grad_norm_};
//! use straightline::Tensor;
//!
//! let layer = Linear::new(4, 1)?;
//! let optimizer = AdamW::new(layer.parameters(), AdamWOptions::default().lr(0.1))?;
//! let scheduler = LrScheduler::new(CosineAnnealingLr { period: 20, min: 0.0 }, &optimizer)?;
//! let (x, y) = (Tensor::randn([8, 4])?, Tensor::randn([8, 1])?);
//! for _ in 0..20 {
//!     optimizer.zero_grad()?;
//!     layer.forward(&x)?.mse_loss(&y)?.backward()?;
//!     clip_grad_norm_(&layer.parameters(), 1.0)?;
//!     optimizer.step()?;
//!     scheduler.step(&optimizer)?;
//! }
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! | file | what |
//! |---|---|
//! | `optimizer` | groups, state, and the trait of a rule, which is also how to write one's own |
//! | `sgd`, `adam`, `rmsprop`, `adadelta`, `nadam`, `rprop` | the rules |
//! | `schedule` | learning rates as functions of the step |
//! | `scheduler` | a schedule at an optimiser |
//! | `clip` | gradients that are too large |
//! | `scaler` | losses that are scaled for half precision |

/// Methods that set one field each.
macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident: $ty:ty;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $name: $ty) -> Self {
            self.$name = $name;
            self
        }
    )*};
}

/// Methods that set a pair each.
macro_rules! pairs {
    ($($(#[$doc:meta])* $name:ident($first:ident, $second:ident);)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $first: f64, $second: f64) -> Self {
            self.$name = ($first, $second);
            self
        }
    )*};
}

mod adadelta;
mod adam;
mod clip;
mod nadam;
mod optimizer;
mod rmsprop;
mod rprop;
mod scaler;
mod schedule;
mod scheduler;
mod sgd;

pub use adadelta::{Adadelta, AdadeltaOptions, Adamax, AdamaxOptions};
pub use adam::{Adam, AdamOptions, AdamW, AdamWOptions};
pub use clip::{
    clip_grad_norm_, clip_grad_norm_with_, clip_grad_value_, clip_grads_with_norm_, get_total_norm,
};
pub use nadam::{NAdam, NAdamOptions, RAdam, RAdamOptions};
pub use optimizer::{Optim, Optimizer, Rule, State};
pub use rmsprop::{Adagrad, AdagradOptions, RmsProp, RmsPropOptions};
pub use rprop::{Asgd, AsgdOptions, Rprop, RpropOptions};
pub use scaler::{GradScaler, GradScalerOptions};
pub use schedule::{
    ChainedLr, ConstantLr, CosineAnnealingLr, CosineAnnealingWarmRestarts, Cycle, CyclicLr,
    ExponentialLr, LambdaLr, LinearLr, MultiStepLr, MultiplicativeLr, OneCycleLr, PolynomialLr,
    Schedule, SequentialLr, StepLr,
};
pub use scheduler::{Better, LrScheduler, PlateauProgress, ReduceLrOnPlateau};
pub use sgd::{Sgd, SgdOptions};
