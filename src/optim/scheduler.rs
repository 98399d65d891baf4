//! Schedules at work: the learning rates of an optimiser, step after step.

use super::optimizer::Optimizer;
use super::schedule::Schedule;
use crate::autograd::no_grad;
use crate::error::{Error, Result};
use crate::modes::{outside, tracer};
use crate::nn::StateDict;
use crate::tensor::Tensor;
use straightline_catalog::DType;

/// Sets the learning rates of an optimiser by a schedule.
///
/// ```
/// use straightline::nn::{Linear, Module};
/// use straightline::optim::{LrScheduler, Optimizer, Sgd, StepLr};
/// let optimizer = Sgd::new(Linear::new(2, 1)?.parameters(), 1.0)?;
/// let scheduler = LrScheduler::new(StepLr { every: 2, gamma: 0.5 }, &optimizer)?;
/// let mut rates = Vec::new();
/// for _ in 0..5 {
///     rates.push(optimizer.lr(0)?);
///     optimizer.step()?;
///     scheduler.step(&optimizer)?;
/// }
/// assert_eq!(rates, [1.0, 1.0, 0.5, 0.5, 0.25]);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// How many steps there were is a tensor that is written in place, and a clone goes on with it. So
/// a compiled function may make the steps of a schedule that has
/// [tensor operators](Schedule::lr_tensor), as all have but those that take a Rust function; of
/// others the step comes after the compiled function, which reads the learning rate at each call.
#[derive(Clone, Debug)]
pub struct LrScheduler<S> {
    schedule: S,
    /// The learning rates that the schedule starts from, `f64`.
    base: Tensor,
    /// 0-dimensional.
    step: Tensor,
}

impl<S: Schedule> LrScheduler<S> {
    /// A schedule from step 0, for which it sets the learning rates. What they were until then is
    /// what the schedule starts from.
    pub fn new(schedule: S, optimizer: &dyn Optimizer) -> Result<LrScheduler<S>> {
        let groups = 0..optimizer.groups();
        let base = groups.map(|g| optimizer.lr(g)).collect::<Result<Vec<f64>>>()?;
        let base = Tensor::from_slice(&base, &[base.len() as i64])?;
        let scheduler = LrScheduler { schedule, base, step: Tensor::with(DType::I64).literal(0)? };
        scheduler.apply(optimizer)?;
        Ok(scheduler)
    }

    /// Goes one step further: called after the optimiser's step.
    ///
    /// # Errors
    /// The schedule has ended, or the optimiser has got another number of groups; a function is
    /// being captured, and the schedule is a Rust function.
    #[track_caller]
    pub fn step(&self, optimizer: &dyn Optimizer) -> Result<()> {
        if tracer::current().is_none() {
            no_grad(|| self.step.add_(1))?;
            return self.apply(optimizer);
        }
        self.check_groups(optimizer)?;
        let at = std::panic::Location::caller();
        no_grad(|| {
            let step = self.step.add_(1)?.to_dtype(DType::F64)?;
            for group in 0..optimizer.groups() {
                let (base, lr) = (self.base.select(0, group as i64)?, optimizer.lr_tensor(group)?);
                let next = self.schedule.lr_tensor(&base, &lr, &step)?;
                lr.copy_(next.ok_or_else(|| {
                    let why =
                        "this schedule is a Rust function of a number, which a compiled call has not: call it after the \
                         function that is compiled, which reads the learning rate at each call, or give the schedule a \
                         `lr_tensor`";
                    outside::refuse("LrScheduler::step", why, Some(at))
                })?)?;
            }
            Ok(())
        })
    }

    /// How many steps have been made.
    ///
    /// # Errors
    /// A function is being captured, in which the number has no value.
    #[track_caller]
    pub fn last_step(&self) -> Result<u64> {
        Ok(self.step.item::<i64>()? as u64)
    }

    #[track_caller]
    fn check_groups(&self, optimizer: &dyn Optimizer) -> Result<()> {
        ensure_value!(
            optimizer.groups() as i64 == self.base.numel(),
            "a schedule of {} parameter groups was given an optimizer of {}",
            self.base.numel(),
            optimizer.groups()
        );
        Ok(())
    }

    #[track_caller]
    fn apply(&self, optimizer: &dyn Optimizer) -> Result<()> {
        self.check_groups(optimizer)?;
        let step = self.last_step()?;
        for (group, base) in self.base.to_vec::<f64>()?.into_iter().enumerate() {
            let lr = self.schedule.lr(base, optimizer.lr(group)?, step)?;
            optimizer.set_lr(group, lr)?;
        }
        Ok(())
    }

    /// The number of steps and the first learning rates, by name. They share memory with the
    /// schedule.
    pub fn state_dict(&self) -> Result<StateDict> {
        let entries = [("last_epoch", &self.step), ("base_lrs", &self.base)];
        entries.into_iter().map(|(name, t)| Ok((name.to_owned(), t.detach()?))).collect()
    }

    /// Goes on where [`state_dict`](LrScheduler::state_dict) was called. The learning rates
    /// themselves are the optimiser's state.
    ///
    /// # Errors
    /// The state is of another number of groups, or incomplete.
    pub fn load_state_dict(&self, dict: &StateDict) -> Result<()> {
        let (step, base) = (entry(dict, "last_epoch")?, entry(dict, "base_lrs")?);
        ensure_value!(
            base.numel() == self.base.numel(),
            "the schedule's state is of {} parameter groups, the schedule of {}",
            base.numel(),
            self.base.numel()
        );
        no_grad(|| {
            self.step.copy_(step)?;
            self.base.copy_(base).map(drop)
        })
    }
}

fn entry<'a>(dict: &'a StateDict, name: &str) -> Result<&'a Tensor> {
    let found = dict.get(name);
    found.ok_or_else(|| Error::value(format!("a schedule's state has a `{name}`")))
}

/// Whether a number that is watched should fall or rise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// As a loss does.
    Lower,
    /// As an accuracy does.
    Higher,
}

/// Lowers the learning rates when a number has not improved for a while.
///
/// ```
/// use straightline::nn::{Linear, Module};
/// use straightline::optim::{Optimizer, ReduceLrOnPlateau, Sgd};
/// let optimizer = Sgd::new(Linear::new(2, 1)?.parameters(), 1.0)?;
/// let mut plateau = ReduceLrOnPlateau { patience: 1, ..Default::default() };
/// for loss in [1.0, 0.5, 0.5, 0.5] {
///     plateau.step(&optimizer, loss)?;
/// }
/// assert_eq!(optimizer.lr(0)?, 0.1);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ReduceLrOnPlateau {
    /// What is an improvement; lower.
    pub better: Better,
    /// What the learning rate is multiplied by; 0.1.
    pub factor: f64,
    /// For how many steps in a row nothing may improve; 10.
    pub patience: u64,
    /// By what part of the best so far it has to improve; 0.0001.
    pub threshold: f64,
    /// Whether the threshold is a difference instead of a part; no.
    pub absolute: bool,
    /// For how many steps nothing is counted after a reduction; 0.
    pub cooldown: u64,
    /// The lowest learning rate; 0.
    pub min_lr: f64,
    /// By how much the learning rate has to change for it to be set; 1e-8.
    pub eps: f64,
    /// What has been seen so far.
    pub progress: PlateauProgress,
}

/// What a [`ReduceLrOnPlateau`] has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PlateauProgress {
    /// The best so far.
    pub best: Option<f64>,
    /// How many steps in a row were no better.
    pub bad: u64,
    /// How many steps are not counted.
    pub cooling: u64,
}

impl Default for ReduceLrOnPlateau {
    fn default() -> Self {
        ReduceLrOnPlateau {
            better: Better::Lower,
            factor: 0.1,
            patience: 10,
            threshold: 1e-4,
            absolute: false,
            cooldown: 0,
            min_lr: 0.0,
            eps: 1e-8,
            progress: PlateauProgress::default(),
        }
    }
}

impl ReduceLrOnPlateau {
    /// Takes the number of this step into account.
    ///
    /// # Errors
    /// The factor is not below 1.
    #[track_caller]
    pub fn step(&mut self, optimizer: &dyn Optimizer, metric: f64) -> Result<()> {
        outside::check(
            "ReduceLrOnPlateau::step",
            "what it has seen are numbers, which a compiled call has not: call it after the function that is compiled, which \
             reads the learning rate at each call",
        )?;
        ensure_value!(self.factor < 1.0, "Factor should be < 1.0.");
        if self.progress.best.is_none_or(|best| self.improves(metric, best)) {
            self.progress.best = Some(metric);
            self.progress.bad = 0;
        } else {
            self.progress.bad += 1;
        }
        if self.progress.cooling > 0 {
            self.progress.cooling -= 1;
            self.progress.bad = 0;
        }
        if self.progress.bad > self.patience {
            for group in 0..optimizer.groups() {
                let old = optimizer.lr(group)?;
                let new = (old * self.factor).max(self.min_lr);
                if old - new > self.eps {
                    optimizer.set_lr(group, new)?;
                }
            }
            self.progress.cooling = self.cooldown;
            self.progress.bad = 0;
        }
        Ok(())
    }

    fn improves(&self, metric: f64, best: f64) -> bool {
        match (self.better, self.absolute) {
            (Better::Lower, false) => metric < best * (1.0 - self.threshold),
            (Better::Lower, true) => metric < best - self.threshold,
            (Better::Higher, false) => metric > best * (1.0 + self.threshold),
            (Better::Higher, true) => metric > best + self.threshold,
        }
    }
}
