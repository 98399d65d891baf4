//! Schedules at work: the learning rates of an optimiser, step after step.

use super::optimizer::Optimizer;
use super::schedule::Schedule;
use crate::error::{Error, Result};
use crate::modes::outside;
use crate::nn::StateDict;
use crate::tensor::Tensor;
use straightline_catalog::DType;

/// Sets the learning rates of an optimiser by a schedule.
///
/// ```
/// use straightline::nn::{Linear, Module};
/// use straightline::optim::{LrScheduler, Optimizer, Sgd, StepLr};
/// let optimizer = Sgd::new(Linear::new(2, 1)?.parameters(), 1.0)?;
/// let mut scheduler = LrScheduler::new(StepLr { every: 2, gamma: 0.5 }, &optimizer)?;
/// let mut rates = Vec::new();
/// for _ in 0..5 {
///     rates.push(optimizer.lr(0)?);
///     optimizer.step()?;
///     scheduler.step(&optimizer)?;
/// }
/// assert_eq!(rates, [1.0, 1.0, 0.5, 0.5, 0.25]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LrScheduler<S> {
    schedule: S,
    base: Vec<f64>,
    step: u64,
}

/// How many steps there were is a Rust value, which a compiled function would keep as it was.
#[track_caller]
fn check_capture(what: &str) -> Result<()> {
    outside::check(
        what,
        "it counts steps, in a number that is no tensor: call it after the function that is compiled, which reads the learning \
         rate at each call",
    )
}

impl<S: Schedule> LrScheduler<S> {
    /// A schedule from step 0, for which it sets the learning rates. What they were until then is
    /// what the schedule starts from.
    pub fn new(schedule: S, optimizer: &dyn Optimizer) -> Result<LrScheduler<S>> {
        let groups = 0..optimizer.groups();
        let base = groups.map(|g| optimizer.lr(g)).collect::<Result<Vec<f64>>>()?;
        let scheduler = LrScheduler { schedule, base, step: 0 };
        scheduler.apply(optimizer)?;
        Ok(scheduler)
    }

    /// Goes one step further: called after the optimiser's step. A compiled step reads the learning
    /// rate at each call, and the schedule stays outside of it.
    ///
    /// # Errors
    /// A function is being captured; the schedule has ended, or the optimiser has got another number of groups.
    #[track_caller]
    pub fn step(&mut self, optimizer: &dyn Optimizer) -> Result<()> {
        check_capture("LrScheduler::step")?;
        self.step += 1;
        self.apply(optimizer)
    }

    /// How many steps have been made.
    pub fn last_step(&self) -> u64 {
        self.step
    }

    fn apply(&self, optimizer: &dyn Optimizer) -> Result<()> {
        ensure_value!(
            optimizer.groups() == self.base.len(),
            "a schedule of {} parameter groups was given an optimizer of {}",
            self.base.len(),
            optimizer.groups()
        );
        for (group, base) in self.base.iter().enumerate() {
            let lr = self.schedule.lr(*base, optimizer.lr(group)?, self.step)?;
            optimizer.set_lr(group, lr)?;
        }
        Ok(())
    }

    /// The number of steps and the first learning rates, by name.
    pub fn state_dict(&self) -> Result<StateDict> {
        let step = Tensor::with(DType::I64).literal(self.step as i64)?;
        let base = Tensor::from_slice(&self.base, &[self.base.len() as i64])?;
        Ok([("last_epoch".to_owned(), step), ("base_lrs".to_owned(), base)].into())
    }

    /// Goes on where [`state_dict`](LrScheduler::state_dict) was called. The learning rates
    /// themselves are the optimiser's state.
    ///
    /// # Errors
    /// The state is of another number of groups, or incomplete.
    pub fn load_state_dict(&mut self, dict: &StateDict) -> Result<()> {
        let step = entry(dict, "last_epoch")?.item::<i64>()?;
        let base = entry(dict, "base_lrs")?.to_vec::<f64>()?;
        ensure_value!(
            base.len() == self.base.len(),
            "the schedule's state is of {} parameter groups, the schedule of {}",
            base.len(),
            self.base.len()
        );
        (self.step, self.base) = (step as u64, base);
        Ok(())
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
        check_capture("ReduceLrOnPlateau::step")?;
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
