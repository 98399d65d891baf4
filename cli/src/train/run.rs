//! A training between two steps: the model, its optimiser and schedule, and how far it is.

use crate::error::{CliError, Result};
use std::f64::consts::PI;
use std::sync::Arc;
use straightline::data::Checkpoint;
use straightline::nn::{Module, StateDict};
use straightline::optim::{
    Adam, AdamOptions, LambdaLr, LrScheduler, Optimizer, Schedule, clip_grad_norm_,
};
use straightline::{CompileEvent, CompileOptions, Compiled, Tensor, compile_with, manual_seed};
use straightline_models::find;
use straightline_models::grammar::Grammar;
use straightline_models::minigpt::{Config, MiniGpt};
use straightline_models::sampling::seed_of;

/// What decides the weights that come out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Settings {
    pub(super) steps: u32,
    pub(super) batch: u32,
    pub(super) rate: f64,
    pub(super) seed: u64,
}

impl Settings {
    /// The bits of each, by the name of its flag.
    fn bits(&self) -> [(&'static str, i64); 4] {
        [
            ("steps", i64::from(self.steps)),
            ("batch", i64::from(self.batch)),
            ("rate", self.rate.to_bits().cast_signed()),
            ("seed", self.seed.cast_signed()),
        ]
    }

    /// As tensors, for a checkpoint.
    fn state_dict(&self) -> Result<StateDict> {
        let tensors = self
            .bits()
            .map(|(name, bits)| Ok((name.to_owned(), Tensor::from_slice(&[bits], [1])?)));
        tensors.into_iter().collect()
    }

    /// Refuses to go on with what was begun with other settings.
    fn check(&self, begun: &StateDict) -> Result<()> {
        let shown = |name: &str, bits: i64| match name {
            "rate" => f64::from_bits(bits.cast_unsigned()).to_string(),
            _ => bits.cast_unsigned().to_string(),
        };
        for (name, mine) in self.bits() {
            let theirs = find(begun, name)?.to_vec::<i64>()?.first().copied().unwrap_or_default();
            if theirs != mine {
                return Err(CliError::Usage(format!(
                    "the training in this folder was begun with --{name} {}, not {}",
                    shown(name, theirs),
                    shown(name, mine)
                )));
            }
        }
        Ok(())
    }
}

/// From 0 up over the first steps, then down to 0 along a cosine: factors of the learning rate.
fn factor(step: u64, steps: u32) -> f64 {
    let (at, all) = ((step + 1) as f64, f64::from(steps));
    let rising = (at / 200f64.min(all / 4.0).max(1.0)).min(1.0);
    rising * 0.5 * (1.0 + (PI * (at / all).min(1.0)).cos())
}

/// Inputs and targets to the loss, with the parameters one step further.
type Step = Compiled<(Tensor, Tensor), Tensor>;

/// A training.
pub(super) struct Run<'g> {
    grammar: &'g Grammar,
    settings: Settings,
    model: Arc<MiniGpt>,
    optimizer: Adam,
    scheduler: LrScheduler<Box<dyn Schedule>>,
    compiled: Option<Step>,
    losses: Vec<f64>,
}

impl<'g> Run<'g> {
    /// A training at its beginning.
    pub(super) fn new(grammar: &'g Grammar, settings: Settings, compiled: bool) -> Result<Run<'g>> {
        manual_seed(settings.seed);
        let model = Arc::new(MiniGpt::new(Config::SMALL)?);
        let options = AdamOptions::default().lr(settings.rate).betas(0.9, 0.99);
        let optimizer = Adam::new(model.parameters(), options)?;
        let schedule: Box<dyn Schedule> =
            Box::new(LambdaLr(move |step| factor(step, settings.steps)));
        let scheduler = LrScheduler::new(schedule, &optimizer)?;
        let compiled = compiled.then(|| {
            let (model, optimizer) = (Arc::clone(&model), optimizer.clone());
            let options = CompileOptions { eager_fallback: true, ..CompileOptions::default() };
            compile_with(options, move |(inputs, targets): &(Tensor, Tensor)| {
                step(&model, &optimizer, inputs, targets)
            })
        });
        Ok(Run { grammar, settings, model, optimizer, scheduler, compiled, losses: Vec::new() })
    }

    pub(super) fn model(&self) -> &MiniGpt {
        &self.model
    }

    /// How many steps have been made.
    pub(super) fn done(&self) -> u64 {
        self.losses.len() as u64
    }

    /// The loss of each step.
    pub(super) fn losses(&self) -> &[f64] {
        &self.losses
    }

    /// One step; gives the number of tokens that it learned from.
    pub(super) fn step(&mut self) -> Result<usize> {
        let seed = seed_of(self.settings.seed, self.done() + 1);
        let batch = self.grammar.batch(self.settings.batch as usize, seed)?;
        let loss = match &self.compiled {
            Some(compiled) => compiled.call(&(batch.inputs, batch.targets))?,
            None => step(&self.model, &self.optimizer, &batch.inputs, &batch.targets)?,
        };
        self.scheduler.step(&self.optimizer)?;
        let loss = f64::from(loss.item::<f32>()?);
        if !loss.is_finite() {
            return Err(CliError::Usage(format!(
                "the loss is {loss} at step {}: try a lower --rate",
                self.done() + 1
            )));
        }
        self.losses.push(loss);
        Ok(batch.tokens)
    }

    /// Why a step that should be compiled runs eagerly, if it does.
    pub(super) fn why_eager(&self) -> Option<String> {
        let events = self.compiled.as_ref()?.events();
        let eager = events.into_iter().rfind(|e| !matches!(e, CompileEvent::Compiled { .. }));
        eager.map(|e| e.to_string())
    }

    pub(super) fn checkpoint(&self) -> Result<Checkpoint> {
        let losses = Tensor::from_slice(&self.losses, [self.losses.len() as i64])?;
        let losses = [("losses".to_owned(), losses)].into();
        Ok(Checkpoint::new(self.done())
            .with_module("model", self.model())?
            .with_optimizer("optimizer", &self.optimizer)?
            .with_scheduler("scheduler", &self.scheduler)?
            .with("curve", &losses)?
            .with("settings", &self.settings.state_dict()?)?)
    }

    /// Goes on where [`checkpoint`](Run::checkpoint) was called.
    pub(super) fn restore(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        self.settings.check(&checkpoint.get("settings")?)?;
        checkpoint.restore_module("model", self.model())?;
        checkpoint.restore_optimizer("optimizer", &self.optimizer)?;
        checkpoint.restore_scheduler("scheduler", &self.scheduler)?;
        let losses = checkpoint.get("curve")?;
        self.losses = find(&losses, "losses")?.to_vec::<f64>()?;
        Ok(())
    }
}

/// Forward, backward, and a step of the optimiser; gives the loss. Tensor operators only, so it can
/// be captured as a whole.
fn step(
    model: &MiniGpt,
    optimizer: &Adam,
    inputs: &Tensor,
    targets: &Tensor,
) -> straightline::Result<Tensor> {
    optimizer.zero_grad()?;
    let loss = model.loss(inputs, targets)?;
    loss.backward()?;
    clip_grad_norm_(&optimizer.parameters(), 1.0)?;
    optimizer.step()?;
    loss.detach()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    const SETTINGS: Settings = Settings { steps: 6, batch: 4, rate: 4e-3, seed: 3 };

    /// The default generator is the process's: one test at a time draws from it.
    fn turn() -> MutexGuard<'static, ()> {
        static TURN: Mutex<()> = Mutex::new(());
        TURN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trained(run: &mut Run<'_>, steps: usize) -> Result<()> {
        (0..steps).try_for_each(|_| run.step().map(drop))
    }

    fn weights(run: &Run<'_>) -> Result<Vec<Vec<f32>>> {
        run.model().parameters().iter().map(|p| Ok(p.to_vec()?)).collect()
    }

    #[test]
    fn the_rate_rises_and_falls() {
        assert_eq!(factor(199, 6000), 0.5 * (1.0 + (PI * 200.0 / 6000.0).cos()));
        assert!(factor(0, 6000) < 0.01);
        assert!(factor(5999, 6000).abs() < 1e-12);
        assert!(factor(0, 1).is_finite());
    }

    #[test]
    fn what_goes_on_from_a_checkpoint_is_the_same_bit_for_bit() -> Result<()> {
        let _turn = turn();
        let grammar = Grammar::embedded().expect("the shipped grammar is good");
        let mut whole = Run::new(&grammar, SETTINGS, false)?;
        trained(&mut whole, 2)?;
        let checkpoint = whole.checkpoint()?;
        trained(&mut whole, 2)?;

        let mut second = Run::new(&grammar, SETTINGS, false)?;
        second.restore(&checkpoint)?;
        assert_eq!(second.done(), 2);
        trained(&mut second, 2)?;
        assert_eq!(second.losses(), whole.losses());
        assert_eq!(weights(&second)?, weights(&whole)?);

        let other = Settings { seed: 4, ..SETTINGS };
        let error = Run::new(&grammar, other, false)?.restore(&checkpoint).unwrap_err();
        assert!(error.to_string().contains("--seed"), "{error}");
        Ok(())
    }

    #[test]
    fn a_compiled_step_does_what_an_eager_one_does() -> Result<()> {
        let _turn = turn();
        let grammar = Grammar::embedded().expect("the shipped grammar is good");
        let mut eager = Run::new(&grammar, SETTINGS, false)?;
        trained(&mut eager, 3)?;
        let mut compiled = Run::new(&grammar, SETTINGS, true)?;
        trained(&mut compiled, 3)?;
        for (a, b) in eager.losses().iter().zip(compiled.losses()) {
            assert!((a - b).abs() < 1e-4, "{:?} {:?}", eager.losses(), compiled.losses());
        }
        Ok(())
    }
}
