//! `straightline train`: the small language model of `generate`, trained from nothing.
//!
//! Batches are drawn from the grammar as the training runs, a function of the seed and the step, so
//! a run that goes on from a checkpoint sees what it would have seen, and a seed decides the
//! weights. Checkpoints are written beside their place and renamed: one that is there is whole.

mod judge;
mod run;

use crate::error::{CliError, Result};
use judge::{Verdict, judge};
use run::{Run, Settings};
use serde_json::json;
use std::io::{IsTerminal, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use straightline::data::{Checkpoints, Curves, Progress};
use straightline::nn::Module;
use straightline_models::grammar::{Grammar, GrammarError};

/// Trains the language model of `generate` from scratch on this CPU
///
/// Writes to the folder: `model.safetensors` (for `generate --weights`), `loss.svg`, `report.json`,
/// and checkpoints from which `--resume` goes on after the process was stopped, whenever that was.
#[derive(Debug, clap::Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Arguments {
    /// Where weights, curve, report and checkpoints go
    #[arg(long, value_name = "FOLDER", default_value = "grammar-model")]
    out: PathBuf,
    /// How many steps
    #[arg(long, default_value_t = 6000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    steps: u32,
    /// Sentences in a batch
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    batch: u32,
    /// The highest learning rate: reached after 200 steps at most, then a cosine down to 0
    #[arg(long, default_value_t = 4e-3, value_parser = rate)]
    rate: f64,
    /// Another seed, other first weights and other sentences
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Steps from one checkpoint to the next
    #[arg(long, value_name = "STEPS", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
    /// Go on from the folder's last checkpoint; from the beginning if it has none
    #[arg(long)]
    resume: bool,
    /// Compile the whole step; says so if it cannot be compiled and runs eagerly
    #[arg(long)]
    compiled: bool,
    /// New sentences that the trained model is judged by, and that it has to write; 0 to leave it out
    #[arg(long, value_name = "SENTENCES", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    judge: u32,
    /// Threads to compute with; as many as the machine has, unless told
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

fn rate(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate.is_finite() => Ok(rate),
        Ok(_) => Err("a learning rate is a number above 0".to_owned()),
        Err(e) => Err(e.to_string()),
    }
}

fn usage(error: GrammarError) -> CliError {
    CliError::Usage(error.to_string())
}

/// How many last losses are averaged for what people read.
const RECENT: usize = 50;

fn recent(losses: &[f64]) -> f64 {
    let last = &losses[losses.len().saturating_sub(RECENT)..];
    last.iter().sum::<f64>() / last.len().max(1) as f64
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<()> {
    let available = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    straightline::set_num_threads(arguments.threads.map_or(available, usize::from));
    let settings = Settings {
        steps: arguments.steps,
        batch: arguments.batch,
        rate: arguments.rate,
        seed: arguments.seed,
    };
    let grammar = Grammar::embedded().map_err(usage)?;
    let checkpoints = Checkpoints::new(arguments.out.join("checkpoints"), 2)?;
    let mut training = Run::new(&grammar, settings, arguments.compiled)?;
    match (checkpoints.latest()?, arguments.resume) {
        (Some(checkpoint), true) => {
            training.restore(&checkpoint)?;
            writeln!(out, "going on after step {}", training.done())?;
        }
        (Some(checkpoint), false) => {
            return Err(CliError::Usage(format!(
                "{} has a training at step {} already: go on with --resume, or name another folder",
                arguments.out.display(),
                checkpoint.step()
            )));
        }
        (None, _) => {}
    }
    let parameters: i64 = training.model().parameters().iter().map(|p| p.numel()).sum();
    writeln!(
        out,
        "a model of {parameters} parameters, {} steps of {} sentences, {} threads",
        settings.steps,
        settings.batch,
        straightline::num_threads()
    )?;
    out.flush()?;

    let speed = train(&mut training, &checkpoints, arguments)?;
    let weights = arguments.out.join("model.safetensors");
    training.model().save(&weights)?;
    let curve = arguments.out.join("loss.svg");
    curves(training.losses()).save(&curve)?;
    let verdict = match arguments.judge {
        0 => None,
        sentences => Some(judge(training.model(), &grammar, sentences as usize, settings)?),
    };
    report(arguments, &training, &speed, verdict.as_ref(), out)?;
    writeln!(out, "\n{}: straightline generate --weights {0}", weights.display())?;
    writeln!(out, "{}: the losses", curve.display())?;
    Ok(())
}

/// What this process has trained, which is not all of a training that it went on with.
struct Speed {
    steps: u64,
    tokens: usize,
    took: Duration,
}

impl Speed {
    fn tokens_per_second(&self) -> f64 {
        self.tokens as f64 / self.took.as_secs_f64().max(1e-9)
    }
}

fn train(training: &mut Run<'_>, checkpoints: &Checkpoints, a: &Arguments) -> Result<Speed> {
    let progress = Progress::new("training", a.steps as usize);
    progress.begin_at(training.done() as usize);
    let lines = !std::io::stderr().is_terminal();
    let (first, began) = (training.done(), Instant::now());
    let mut speed = Speed { steps: 0, tokens: 0, took: Duration::ZERO };
    while training.done() < u64::from(a.steps) {
        speed.tokens += training.step()?;
        (speed.steps, speed.took) = (training.done() - first, began.elapsed());
        let loss = recent(training.losses());
        let rate = format!("{:.0} tokens/s", speed.tokens_per_second());
        progress.step_with(loss, &rate);
        let last = training.done() == u64::from(a.steps);
        if last || training.done().is_multiple_of(u64::from(a.every)) {
            checkpoints.save(&training.checkpoint()?)?;
            if lines {
                eprintln!("step {}: loss {loss:.4}, {rate}", training.done());
            }
        }
    }
    progress.finish();
    Ok(speed)
}

/// Each loss, and the mean of the last ones.
fn curves(losses: &[f64]) -> Curves {
    let mut curves = Curves::new("Cross-entropy, nats per token");
    let smooth = format!("mean of {RECENT} steps");
    for (i, loss) in losses.iter().enumerate() {
        let step = (i + 1) as f64;
        curves.push("step", step, *loss);
        curves.push(&smooth, step, recent(&losses[..=i]));
    }
    curves
}

fn report(
    arguments: &Arguments,
    training: &Run<'_>,
    speed: &Speed,
    verdict: Option<&Verdict>,
    out: &mut dyn Write,
) -> Result<()> {
    let why_eager = training.why_eager();
    let compiled = arguments.compiled && why_eager.is_none();
    let mode = if compiled { "compiled" } else { "eager" };
    let last = recent(training.losses());
    writeln!(
        out,
        "{} steps in {:.1} s, {mode}: {:.0} tokens/s\nloss {last:.4} over the last steps",
        speed.steps,
        speed.took.as_secs_f64(),
        speed.tokens_per_second()
    )?;
    if let Some(reason) = &why_eager {
        writeln!(out, "--compiled: the step {reason}")?;
    }
    if let Some(v) = verdict {
        writeln!(out, "loss {:.4} on new sentences, nats per token", v.loss)?;
        for (temperature, rate) in &v.grammatical {
            let part = 100.0 * rate;
            writeln!(
                out,
                "grammatical at temperature {temperature:.1}: {part:.1} % of {}",
                v.sentences
            )?;
        }
    }
    let rates =
        verdict.map(|v| v.grammatical.iter().map(|(t, r)| json!([t, r])).collect::<Vec<_>>());
    let report = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "steps": arguments.steps,
        "batch": arguments.batch,
        "rate": arguments.rate,
        "seed": arguments.seed,
        "threads": straightline::num_threads(),
        "mode": mode,
        "why_eager": why_eager,
        "seconds": speed.took.as_secs_f64(),
        "steps_in_this_process": speed.steps,
        "tokens_per_second": speed.tokens_per_second(),
        "training_loss": last,
        "loss": verdict.map(|v| v.loss),
        "grammatical_by_temperature": rates,
    });
    write_file(&arguments.out.join("report.json"), &format!("{report:#}\n"))
}

fn write_file(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text)
        .map_err(|e| CliError::File { path: path.display().to_string(), message: e.to_string() })
}
