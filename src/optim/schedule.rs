//! Learning rates as functions of the step.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::Tensor;
use std::f64::consts::PI;
use straightline_catalog::{DType, Scalar};

/// A learning rate as a function of the step, by PyTorch's rules. Where PyTorch multiplies the rate
/// that there is, the rate follows from the first one and the number of the step here: one that is
/// set by hand lasts until the next step of the schedule.
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

    /// The same in tensor operators, of 0-dimensional `f64` tensors: what makes
    /// [`LrScheduler::step`](super::LrScheduler::step) part of a compiled function. `None` of a
    /// schedule that is Rust code, as it is unless it says otherwise.
    ///
    /// # Errors
    /// As [`Schedule::lr`].
    fn lr_tensor(&self, _base: &Tensor, _previous: &Tensor, _step: &Tensor) -> Made {
        Ok(None)
    }

    /// The learning rate of this step where others have changed it since the last one
    /// ([`ChainedLr`]): by the part by which this schedule's own changes, unless it says otherwise.
    ///
    /// # Errors
    /// As [`Schedule::lr`].
    fn chained(&self, base: f64, current: f64, step: u64) -> Result<f64> {
        let now = self.lr(base, base, step)?;
        let before = if step == 0 { base } else { self.lr(base, base, step - 1)? };
        Ok(if before == 0.0 { 0.0 } else { current * (now / before) })
    }
}

/// A learning rate in tensor operators, if there is one.
type Made = Result<Option<Tensor>>;

/// `base ^ exponent`.
pub(super) fn power(base: f64, exponent: &Tensor) -> Result<Tensor> {
    aten::pow_scalar(Scalar::Float(base), exponent)
}

/// A condition as 0 and 1.
fn number(condition: &Tensor) -> Result<Tensor> {
    condition.to_dtype(DType::F64)
}

fn constants(values: &[f64]) -> Result<Tensor> {
    Tensor::from_slice(values, &[values.len() as i64])
}

/// [`cosine`] in tensor operators.
fn cosine_of(from: &Tensor, to: f64, part: &Tensor) -> Result<Tensor> {
    let height = part.mul(PI)?.cos()?.add(1.0)?.div(2.0)?;
    from.sub(to)?.mul(height)?.add(to)
}

impl<S: Schedule + ?Sized> Schedule for Box<S> {
    fn lr(&self, base: f64, previous: f64, step: u64) -> Result<f64> {
        (**self).lr(base, previous, step)
    }

    fn lr_tensor(&self, base: &Tensor, previous: &Tensor, step: &Tensor) -> Made {
        (**self).lr_tensor(base, previous, step)
    }

    fn chained(&self, base: f64, current: f64, step: u64) -> Result<f64> {
        (**self).chained(base, current, step)
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

    fn lr_tensor(&self, base: &Tensor, _: &Tensor, step: &Tensor) -> Made {
        let times = step.div(self.every.max(1) as f64)?.floor()?;
        base.mul(power(self.gamma, &times)?).map(Some)
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

    fn lr_tensor(&self, base: &Tensor, _: &Tensor, step: &Tensor) -> Made {
        let milestones: Vec<f64> = self.milestones.iter().map(|m| *m as f64).collect();
        let passed = number(&step.ge(&constants(&milestones)?)?)?.sum()?;
        base.mul(power(self.gamma, &passed)?).map(Some)
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

    fn lr_tensor(&self, base: &Tensor, _: &Tensor, step: &Tensor) -> Made {
        base.mul(power(self.gamma, step)?).map(Some)
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

    fn lr_tensor(&self, base: &Tensor, _: &Tensor, step: &Tensor) -> Made {
        cosine_of(base, self.min, &step.div(self.period.max(1) as f64)?).map(Some)
    }

    fn chained(&self, base: f64, current: f64, step: u64) -> Result<f64> {
        let period = self.period.max(1);
        let height = |step: u64| 1.0 + (PI * step as f64 / period as f64).cos();
        Ok(match step {
            0 => current,
            // up again from the lowest
            _ if (step - 1) % (2 * period) == period => {
                current + (base - self.min) * (1.0 - (PI / period as f64).cos()) / 2.0
            }
            _ => height(step) / height(step - 1) * (current - self.min) + self.min,
        })
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

    fn lr_tensor(&self, base: &Tensor, _: &Tensor, step: &Tensor) -> Made {
        let (first, factor) = (self.first.max(1) as f64, self.factor.max(1) as f64);
        let part = if factor == 1.0 {
            step.fmod(first)?.div(first)?
        } else {
            // the periods that have begun, as far as steps are counted
            let (mut begins, mut lengths, mut length) = (Vec::new(), Vec::new(), first);
            let mut begin = first;
            while begin < (1u64 << 53) as f64 {
                begins.push(begin);
                lengths.push(length);
                length *= factor;
                begin += length;
            }
            let passed =
                number(&step.ge(&constants(&begins)?)?)?.mul(constants(&lengths)?)?.sum()?;
            // each is `factor` times as long as the last one
            let length = passed.mul(factor - 1.0)?.add(first)?;
            step.sub(&passed)?.div(length)?
        };
        cosine_of(base, self.min, &part).map(Some)
    }

    fn chained(&self, base: f64, _: f64, step: u64) -> Result<f64> {
        self.lr(base, base, step)
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

    fn lr_tensor(&self, base: &Tensor, _: &Tensor, step: &Tensor) -> Made {
        let step = step.clamp_max(self.steps as f64)?;
        let part = step.mul(self.end - self.start)?.div(self.steps.max(1) as f64)?;
        base.mul(part.add(self.start)?).map(Some)
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

    fn lr_tensor(&self, base: &Tensor, _: &Tensor, step: &Tensor) -> Made {
        step.lt(self.steps as f64)?.where_cond(base.mul(self.factor)?, base).map(Some)
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

    fn lr_tensor(&self, base: &Tensor, _: &Tensor, step: &Tensor) -> Made {
        let done = step.clamp_max(self.steps as f64)?.div(self.steps.max(1) as f64)?;
        base.mul(done.neg()?.add(1.0)?.pow(self.power)?).map(Some)
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

    fn chained(&self, base: f64, _: f64, step: u64) -> Result<f64> {
        self.lr(base, base, step)
    }
}

/// The last learning rate times a function of the step.
#[derive(Clone, Copy, Debug)]
pub struct MultiplicativeLr<F>(pub F);

impl<F: Fn(u64) -> f64> Schedule for MultiplicativeLr<F> {
    fn lr(&self, base: f64, previous: f64, step: u64) -> Result<f64> {
        Ok(if step == 0 { base } else { previous * (self.0)(step) })
    }

    fn chained(&self, base: f64, current: f64, step: u64) -> Result<f64> {
        if step == 0 { Ok(current) } else { self.lr(base, current, step) }
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

    fn lr_tensor(&self, _: &Tensor, _: &Tensor, step: &Tensor) -> Made {
        let total = self.steps as f64;
        let message = format!("The specified number of total steps is {}", self.steps);
        aten::_assert_async_msg(&step.le(total)?, &message)?;
        let first = self.max / self.first_divisor;
        let (last, top) = (first / self.last_divisor, self.rising * total - 1.0);
        let rises = step.le(top)?;
        let (up, down) = (step.div(top)?, step.sub(top)?.div(total - 1.0 - top)?);
        let along = |from: f64, to: f64, part: &Tensor| match self.linear {
            true => part.mul(to - from)?.add(from),
            false => cosine_of(&step.full_like(from)?, to, part),
        };
        rises.where_cond(along(first, self.max, &up)?, along(self.max, last, &down)?).map(Some)
    }

    fn chained(&self, base: f64, _: f64, step: u64) -> Result<f64> {
        self.lr(base, base, step)
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

    fn lr_tensor(&self, _: &Tensor, _: &Tensor, step: &Tensor) -> Made {
        let total = (self.up + self.down).max(1) as f64;
        let at = step.div(total)?.add(1.0)?;
        let cycle = at.floor()?;
        let (into, rising) = (at.sub(&cycle)?, self.up as f64 / total);
        let down = into.sub(1.0)?.div(rising - 1.0)?;
        let height = into.le(rising)?.where_cond(into.div(rising)?, down)?;
        let height = match self.cycle {
            Cycle::Triangular => height,
            Cycle::Halving => height.mul(power(0.5, &cycle.sub(1.0)?)?)?,
            Cycle::Exponential(gamma) => height.mul(power(gamma, step)?)?,
        };
        height.mul(self.max - self.min)?.add(self.min).map(Some)
    }

    fn chained(&self, base: f64, _: f64, step: u64) -> Result<f64> {
        self.lr(base, base, step)
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

    fn lr_tensor(&self, base: &Tensor, previous: &Tensor, step: &Tensor) -> Made {
        let mut lr = base.clone();
        for (begin, schedule) in &self.schedules {
            let begin = *begin as f64;
            // one that has not begun is asked of its first step
            let own = step.sub(begin)?.clamp_min(0.0)?;
            let Some(this) = schedule.lr_tensor(base, previous, &own)? else { return Ok(None) };
            lr = step.ge(begin)?.where_cond(this, lr)?;
        }
        Ok(Some(lr))
    }
}

/// Several schedules at once, each of which changes what the others have made of the learning rate.
///
/// ```
/// use straightline::optim::{ChainedLr, ConstantLr, ExponentialLr, LrScheduler, Optimizer, Sgd};
/// use straightline::nn::{Linear, Module};
/// let optimizer = Sgd::new(Linear::new(2, 1)?.parameters(), 1.0)?;
/// let schedule = ChainedLr::new(ConstantLr { factor: 0.5, steps: 2 }).and(ExponentialLr { gamma: 0.5 });
/// let scheduler = LrScheduler::new(schedule, &optimizer)?;
/// let mut rates = vec![optimizer.lr(0)?];
/// for _ in 0..2 {
///     scheduler.step(&optimizer)?;
///     rates.push(optimizer.lr(0)?);
/// }
/// assert_eq!(rates, [0.5, 0.25, 0.25]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub struct ChainedLr {
    schedules: Vec<Box<dyn Schedule + Send + Sync>>,
}

impl ChainedLr {
    /// The first schedule.
    pub fn new(schedule: impl Schedule + Send + Sync + 'static) -> ChainedLr {
        ChainedLr { schedules: vec![Box::new(schedule)] }
    }

    /// And another one.
    #[must_use]
    pub fn and(mut self, schedule: impl Schedule + Send + Sync + 'static) -> ChainedLr {
        self.schedules.push(Box::new(schedule));
        self
    }
}

impl Schedule for ChainedLr {
    fn lr(&self, base: f64, previous: f64, step: u64) -> Result<f64> {
        let current = if step == 0 { base } else { previous };
        self.schedules.iter().try_fold(current, |lr, s| s.chained(base, lr, step))
    }

    fn chained(&self, base: f64, current: f64, step: u64) -> Result<f64> {
        self.schedules.iter().try_fold(current, |lr, s| s.chained(base, lr, step))
    }
}
