//! Learning rates as functions of the step.

use crate::error::{Error, Result};
use std::f64::consts::PI;

/// A learning rate as a function of the step, by PyTorch's rules.
///
/// ```
/// use straightline::optim::{CosineAnnealingLr, Schedule};
/// let schedule = CosineAnnealingLr { period: 4, min: 0.0 };
/// assert_eq!(schedule.lr(1.0, 1.0, 2)?, 0.5);
/// # Ok::<(), straightline::Error>(())
/// ```
pub trait Schedule {
    /// The learning rate before step `step`, counted from 0, of a group that began with `base` and
    /// had `previous` before the step before.
    ///
    /// # Errors
    /// The schedule has ended.
    fn lr(&self, base: f64, previous: f64, step: u64) -> Result<f64>;
}

impl<S: Schedule + ?Sized> Schedule for Box<S> {
    fn lr(&self, base: f64, previous: f64, step: u64) -> Result<f64> {
        (**self).lr(base, previous, step)
    }
}

/// Times `gamma` after every so many steps.
///
/// ```
/// use straightline::optim::{Schedule, StepLr};
/// assert_eq!(StepLr { every: 2, gamma: 0.5 }.lr(1.0, 1.0, 5)?, 0.25);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StepLr {
    /// After how many steps.
    pub every: u64,
    /// Times what; 0.1 is usual.
    pub gamma: f64,
}

impl Schedule for StepLr {
    fn lr(&self, base: f64, _: f64, step: u64) -> Result<f64> {
        Ok(base * self.gamma.powf((step / self.every.max(1)) as f64))
    }
}

/// Times `gamma` at each milestone.
#[derive(Clone, Debug)]
pub struct MultiStepLr {
    /// The steps at which it happens.
    pub milestones: Vec<u64>,
    /// Times what; 0.1 is usual.
    pub gamma: f64,
}

impl Schedule for MultiStepLr {
    fn lr(&self, base: f64, _: f64, step: u64) -> Result<f64> {
        let passed = self.milestones.iter().filter(|m| **m <= step).count();
        Ok(base * self.gamma.powf(passed as f64))
    }
}

/// Times `gamma` at each step.
#[derive(Clone, Copy, Debug)]
pub struct ExponentialLr {
    /// Times what.
    pub gamma: f64,
}

impl Schedule for ExponentialLr {
    fn lr(&self, base: f64, _: f64, step: u64) -> Result<f64> {
        Ok(base * self.gamma.powf(step as f64))
    }
}

/// Down to `min` by half a cosine, and up again.
#[derive(Clone, Copy, Debug)]
pub struct CosineAnnealingLr {
    /// The steps down.
    pub period: u64,
    /// The lowest learning rate.
    pub min: f64,
}

impl Schedule for CosineAnnealingLr {
    fn lr(&self, base: f64, _: f64, step: u64) -> Result<f64> {
        Ok(cosine(base, self.min, step as f64 / self.period.max(1) as f64))
    }
}

/// From one number to another by half a cosine.
fn cosine(from: f64, to: f64, part: f64) -> f64 {
    to + (from - to) * (1.0 + (PI * part).cos()) / 2.0
}

/// Down by half a cosine, then from the top again, each time `factor` times as long.
///
/// ```
/// use straightline::optim::{CosineAnnealingWarmRestarts, Schedule};
/// let schedule = CosineAnnealingWarmRestarts { first: 3, factor: 2, min: 0.0 };
/// assert_eq!((schedule.lr(1.0, 1.0, 3)?, schedule.lr(1.0, 1.0, 6)?, schedule.lr(1.0, 1.0, 9)?), (1.0, 0.5, 1.0));
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CosineAnnealingWarmRestarts {
    /// The steps until the first restart.
    pub first: u64,
    /// How many times as long as the last one a period is.
    pub factor: u64,
    /// The lowest learning rate.
    pub min: f64,
}

impl Schedule for CosineAnnealingWarmRestarts {
    fn lr(&self, base: f64, _: f64, step: u64) -> Result<f64> {
        let (mut period, factor) = (self.first.max(1), self.factor.max(1));
        let mut into = step;
        if factor == 1 {
            into %= period;
        }
        while into >= period {
            into -= period;
            period = period.saturating_mul(factor);
        }
        Ok(cosine(base, self.min, into as f64 / period as f64))
    }
}

/// From a part of the learning rate to another in a straight line.
#[derive(Clone, Copy, Debug)]
pub struct LinearLr {
    /// The part at the beginning; a third is PyTorch's default.
    pub start: f64,
    /// The part at the end; 1 is PyTorch's default.
    pub end: f64,
    /// After how many steps it ends; 5 is PyTorch's default.
    pub steps: u64,
}

impl Schedule for LinearLr {
    fn lr(&self, base: f64, _: f64, step: u64) -> Result<f64> {
        let (step, steps) = (step.min(self.steps) as f64, self.steps.max(1) as f64);
        Ok(base * (self.start + (self.end - self.start) * step / steps))
    }
}

/// A part of the learning rate for some steps, then all of it.
#[derive(Clone, Copy, Debug)]
pub struct ConstantLr {
    /// The part.
    pub factor: f64,
    /// For how many steps.
    pub steps: u64,
}

impl Schedule for ConstantLr {
    fn lr(&self, base: f64, _: f64, step: u64) -> Result<f64> {
        Ok(if step < self.steps { base * self.factor } else { base })
    }
}

/// Down to 0 by a power of what is left.
#[derive(Clone, Copy, Debug)]
pub struct PolynomialLr {
    /// After how many steps it is 0.
    pub steps: u64,
    /// The power.
    pub power: f64,
}

impl Schedule for PolynomialLr {
    fn lr(&self, base: f64, _: f64, step: u64) -> Result<f64> {
        let done = step.min(self.steps) as f64 / self.steps.max(1) as f64;
        Ok(base * (1.0 - done).powf(self.power))
    }
}

/// Times a function of the step.
///
/// ```
/// use straightline::optim::{LambdaLr, Schedule};
/// let warmup = LambdaLr(|step| ((step + 1) as f64 / 4.0).min(1.0));
/// assert_eq!(warmup.lr(2.0, 2.0, 1)?, 1.0);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LambdaLr<F>(pub F);

impl<F: Fn(u64) -> f64> Schedule for LambdaLr<F> {
    fn lr(&self, base: f64, _: f64, step: u64) -> Result<f64> {
        Ok(base * (self.0)(step))
    }
}

/// The last learning rate times a function of the step.
#[derive(Clone, Copy, Debug)]
pub struct MultiplicativeLr<F>(pub F);

impl<F: Fn(u64) -> f64> Schedule for MultiplicativeLr<F> {
    fn lr(&self, base: f64, previous: f64, step: u64) -> Result<f64> {
        Ok(if step == 0 { base } else { previous * (self.0)(step) })
    }
}

/// Up to `max` and down to almost nothing, once.
///
/// ```
/// use straightline::optim::{OneCycleLr, Schedule};
/// let schedule = OneCycleLr::new(1.0, 8);
/// assert!((schedule.lr(0.1, 0.1, 0)? - 0.04).abs() < 1e-12);
/// assert!(schedule.lr(0.1, 0.1, 9).is_err());
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OneCycleLr {
    /// The highest learning rate.
    pub max: f64,
    /// The number of all steps.
    pub steps: u64,
    /// The part of the steps that goes up; 0.3.
    pub rising: f64,
    /// The first learning rate is `max` over this; 25.
    pub first_divisor: f64,
    /// The last learning rate is the first one over this; 10000.
    pub last_divisor: f64,
    /// Straight lines instead of cosines; no.
    pub linear: bool,
}

impl OneCycleLr {
    /// PyTorch's defaults.
    pub fn new(max: f64, steps: u64) -> OneCycleLr {
        OneCycleLr {
            max,
            steps,
            rising: 0.3,
            first_divisor: 25.0,
            last_divisor: 1e4,
            linear: false,
        }
    }
}

impl Schedule for OneCycleLr {
    fn lr(&self, _: f64, _: f64, step: u64) -> Result<f64> {
        if step > self.steps {
            return Err(Error::value(format!(
                "Tried to step {step} times. The specified number of total steps is {}",
                self.steps
            )));
        }
        let first = self.max / self.first_divisor;
        let last = first / self.last_divisor;
        let top = self.rising * self.steps as f64 - 1.0;
        let end = self.steps as f64 - 1.0;
        let step = step as f64;
        let (from, to, part) = match step <= top {
            true => (first, self.max, step / top),
            false => (self.max, last, (step - top) / (end - top)),
        };
        Ok(if self.linear { (to - from) * part + from } else { cosine(from, to, part) })
    }
}

/// How the cycles of a [`CyclicLr`] change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cycle {
    /// They do not.
    Triangular,
    /// Each is half as high as the last one.
    Halving,
    /// Each step is this number times as high.
    Exponential(f64),
}

/// Up to `max` and down to `min` in straight lines, again and again.
///
/// ```
/// use straightline::optim::{Cycle, CyclicLr, Schedule};
/// let schedule = CyclicLr { min: 0.0, max: 1.0, up: 2, down: 2, cycle: Cycle::Triangular };
/// let rates: Vec<f64> = (0..5).map(|e| schedule.lr(0.0, 0.0, e)).collect::<Result<_, _>>()?;
/// assert_eq!(rates, [0.0, 0.5, 1.0, 0.5, 0.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CyclicLr {
    /// The lowest learning rate, with which it begins.
    pub min: f64,
    /// The highest.
    pub max: f64,
    /// The steps up.
    pub up: u64,
    /// The steps down.
    pub down: u64,
    /// How cycles change.
    pub cycle: Cycle,
}

impl Schedule for CyclicLr {
    fn lr(&self, _: f64, _: f64, step: u64) -> Result<f64> {
        let total = (self.up + self.down).max(1) as f64;
        let cycle = (1.0 + step as f64 / total).floor();
        let into = 1.0 + step as f64 / total - cycle;
        let rising = self.up as f64 / total;
        let height = match into <= rising {
            true => into / rising,
            false => (into - 1.0) / (rising - 1.0),
        };
        let scale = match self.cycle {
            Cycle::Triangular => 1.0,
            Cycle::Halving => 0.5f64.powf(cycle - 1.0),
            Cycle::Exponential(gamma) => gamma.powf(step as f64),
        };
        Ok(self.min + (self.max - self.min) * height * scale)
    }
}

/// One schedule after the other.
///
/// ```
/// use straightline::optim::{CosineAnnealingLr, LinearLr, Schedule, SequentialLr};
/// let warmup = LinearLr { start: 0.5, end: 1.0, steps: 2 };
/// let schedule = SequentialLr::new(warmup).then(2, CosineAnnealingLr { period: 4, min: 0.0 });
/// assert_eq!((schedule.lr(1.0, 1.0, 1)?, schedule.lr(1.0, 1.0, 4)?), (0.75, 0.5));
/// # Ok::<(), straightline::Error>(())
/// ```
pub struct SequentialLr {
    /// With the steps at which they begin.
    schedules: Vec<(u64, Box<dyn Schedule + Send + Sync>)>,
}

impl SequentialLr {
    /// The first schedule.
    pub fn new(schedule: impl Schedule + Send + Sync + 'static) -> SequentialLr {
        SequentialLr { schedules: vec![(0, Box::new(schedule))] }
    }

    /// Then another one, which begins at this step and counts from there.
    #[must_use]
    pub fn then(
        mut self,
        milestone: u64,
        schedule: impl Schedule + Send + Sync + 'static,
    ) -> SequentialLr {
        self.schedules.push((milestone, Box::new(schedule)));
        self
    }
}

impl Schedule for SequentialLr {
    fn lr(&self, base: f64, previous: f64, step: u64) -> Result<f64> {
        let current = self.schedules.iter().rev().find(|(begin, _)| *begin <= step);
        match current {
            Some((begin, schedule)) => schedule.lr(base, previous, step - begin),
            None => Ok(base),
        }
    }
}
