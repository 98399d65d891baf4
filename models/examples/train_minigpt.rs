//! Trains the small GPT of `straightline generate`, in one loop: the shortest form of what
//! `straightline train` does with checkpoints, a curve and a report.
//!
//! ```text
//! cargo run --release --example train_minigpt -- --steps 600
//! ```

use clap::Parser;
use std::time::Instant;
use straightline::autograd::no_grad;
use straightline::data::Progress;
use straightline::nn::Module;
use straightline::optim::{Adam, AdamOptions, LrScheduler, OneCycleLr, Optimizer, clip_grad_norm_};
use straightline::{Tensor, manual_seed};
use straightline_models::grammar::Grammar;
use straightline_models::minigpt::{Config, MiniGpt};
use straightline_models::sampling::{Uniform, sample, seed_of};

/// What can go wrong.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// The command line.
#[derive(Debug, Parser)]
#[command(about = "Train a small GPT on sentences of a grammar")]
pub(crate) struct Arguments {
    /// How many steps.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,
    /// Sentences in a batch.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// Another seed, another model.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Sentences that the trained model writes.
    #[arg(long, default_value_t = 8)]
    sentences: u64,
}

#[allow(dead_code, reason = "a test runs the example without it")]
fn main() -> Result<(), Error> {
    let began = Instant::now();
    let found = run(&Arguments::parse())?;
    println!(
        "loss {:.3} at first, {:.3} at last, {:.0} s\n",
        found.losses[0],
        found.losses[found.losses.len() - 1],
        began.elapsed().as_secs_f64()
    );
    for (sentence, wrong) in &found.sentences {
        println!("  {sentence}");
        if let Some(wrong) = wrong {
            println!("    not a sentence of the grammar: {wrong}");
        }
    }
    Ok(())
}

/// What came of a training.
#[derive(Debug)]
pub(crate) struct Found {
    /// The loss of each step.
    pub(crate) losses: Vec<f32>,
    /// Sentences, and what is wrong with those that are none.
    pub(crate) sentences: Vec<(String, Option<String>)>,
}

/// Trains a model, and lets it write.
pub(crate) fn run(arguments: &Arguments) -> Result<Found, Error> {
    let grammar = Grammar::embedded()?;
    manual_seed(arguments.seed);
    let model = MiniGpt::new(Config::SMALL)?;
    let parameters = model.parameters();
    let optimizer = Adam::new(parameters.clone(), AdamOptions::default().betas(0.9, 0.99))?;
    let scheduler = LrScheduler::new(OneCycleLr::new(4e-3, arguments.steps), &optimizer)?;

    let mut losses = Vec::new();
    let progress = Progress::new("training", arguments.steps as usize);
    for step in 0..arguments.steps {
        let batch = grammar.batch(arguments.batch as usize, seed_of(arguments.seed, step))?;
        optimizer.zero_grad()?;
        let loss = model.loss(&batch.inputs, &batch.targets)?;
        loss.backward()?;
        clip_grad_norm_(&parameters, 1.0)?;
        optimizer.step()?;
        scheduler.step(&optimizer)?;
        losses.push(loss.item::<f32>()?);
        progress.step(loss.item::<f32>()?.into());
    }
    progress.finish();

    let mut sentences = Vec::new();
    for i in 0..arguments.sentences {
        let mut uniform = Uniform::new(seed_of(arguments.seed, (1 << 40) + i));
        let ids = no_grad(|| sentence(&model, &grammar, &mut uniform))?;
        let wrong = grammar.check(&ids)?.err().map(|violation| violation.to_string());
        sentences.push((grammar.decode(&ids)?, wrong));
    }
    Ok(Found { losses, sentences })
}

/// Words until the sentence ends or the context is full.
fn sentence(model: &MiniGpt, grammar: &Grammar, u: &mut Uniform) -> Result<Vec<i64>, Error> {
    let mut ids = vec![grammar.bos()];
    while ids.len() <= grammar.max_tokens() && ids.last() != Some(&grammar.end()) {
        let logits = model.logits(&Tensor::from_slice(&ids, [1, ids.len() as i64])?)?;
        let last = logits.i((0, -1))?.to_vec::<f32>()?;
        ids.push(sample(&last, 0.8, u.draw()) as i64);
    }
    Ok(ids.split_off(1))
}
