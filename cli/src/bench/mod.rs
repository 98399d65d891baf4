//! `bench`: every workload eager and compiled, on the same data, compared before it is timed.

pub(crate) mod check;
mod measured;
mod picture;
mod quiet;
mod report;
mod roofline;
mod sample;
mod tables;

use crate::error::{CliError, Result};
use crate::workloads::{self, Agreement, Program, Setting, Unready, Workload};
use check::{Check, check, compare};
use indicatif::{ProgressBar, ProgressStyle};
pub(crate) use report::duration;
use report::{Pair, Row, rounded};
use sample::{Budget, Timing, measure};
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;
use straightline::dispatch::call_count;
use straightline::ops::aten;
use straightline::{DType, Tensor};

/// Times workloads and model files, eager against compiled
#[derive(Debug, clap::Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Options {
    /// A workload's name, the beginning of names (w3, w5.mlp), a glob (w*_b1), or a model file; without
    /// one, all workloads
    #[arg(value_name = "WORKLOAD|MODEL.pt2")]
    what: Vec<String>,
    /// The same, several of them separated by commas; may be repeated
    #[arg(short, long = "workload", value_name = "NAME", value_delimiter = ',')]
    workloads: Vec<String>,
    /// Threads for the kernels
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = threads)]
    threads: usize,
    /// One JSON object per measurement instead of the table
    #[arg(long)]
    json: bool,
    /// Measures for 0.15 s instead of 0.7 s
    #[arg(long)]
    quick: bool,
    /// Measures nothing: draws the rows that --json has written to FILE as an SVG
    #[arg(long, value_name = "FILE", conflicts_with_all = ["what", "workloads", "json", "quick"])]
    picture: Option<PathBuf>,
    /// Measures nothing: writes the rows that benches/peers/run has written to FILE as tables
    #[arg(long, value_name = "FILE", conflicts_with_all = ["what", "workloads", "json", "quick", "picture"])]
    tables: Option<PathBuf>,
    #[command(flatten)]
    setting: Setting,
}

/// More threads than any machine has is a typing error.
fn threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n @ 1..=1024) => Ok(n),
        _ => Err("a number of threads is 1 to 1024".to_owned()),
    }
}

pub(crate) fn run(options: &Options, out: &mut dyn Write) -> Result<()> {
    if let Some(file) = &options.picture {
        return Ok(write!(out, "{}", picture::svg(file)?)?);
    }
    if let Some(file) = &options.tables {
        return Ok(write!(out, "{}", tables::markdown(file)?)?);
    }
    let names: Vec<String> = options.what.iter().chain(&options.workloads).cloned().collect();
    let suite = workloads::many(&names, &options.setting)?;
    straightline::set_num_threads(options.threads);
    let budget = if options.quick { Budget::QUICK } else { Budget::FULL };
    let progress = progress(suite.len());
    let (mut pairs, mut failures) = (Vec::new(), Vec::new());
    for workload in &suite {
        let stage = |what: &str| progress.set_message(format!("{}: {what}", workload.name));
        let (pair, failure) = one(workload, options, budget, &stage);
        if let Some(failure) = failure {
            if suite.len() == 1 && !options.json && pair.eager.median_us.is_none() {
                // there is nothing to print a table of
                progress.finish_and_clear();
                return Err(failure);
            }
            progress.suspend(|| eprintln!("{}", named(&workload.name, &failure)));
            failures.push(workload.name.clone());
        }
        if options.json {
            for row in [&pair.eager, &pair.compiled] {
                let line = serde_json::to_string(row).map_err(std::io::Error::from)?;
                writeln!(out, "{line}")?;
            }
            out.flush()?;
        }
        pairs.push(pair);
        progress.inc(1);
    }
    progress.finish_and_clear();
    if !options.json {
        write!(out, "{}", report::table(&pairs, options.threads))?;
    }
    if failures.is_empty() {
        return Ok(());
    }
    Err(CliError::Failed { failed: failures.len(), total: suite.len(), names: failures.join(", ") })
}

/// A failure with the workload's name, which that of a model file may begin with.
fn named(workload: &str, failure: &CliError) -> String {
    let text = failure.to_string();
    match text.starts_with(workload) {
        true => text,
        false => format!("{workload}: {text}"),
    }
}

/// On standard error, and only where that is a terminal.
fn progress(length: usize) -> ProgressBar {
    let bar = ProgressBar::new(length as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    bar
}

/// Both rows of a workload; the second part is what went wrong, also written into the rows.
fn one(
    workload: &Workload,
    options: &Options,
    budget: Budget,
    stage: &dyn Fn(&str),
) -> (Pair, Option<CliError>) {
    stage("making it");
    let row = |mode| Row::empty(mode, &workload.name, options.threads);
    let mut pair = Pair { eager: row("eager"), compiled: row("compiled") };
    let program = match workload.build(&options.setting) {
        Ok(program) => program,
        Err(unready) => {
            let (note, failure) = match unready {
                Unready::Unavailable(reason) => (format!("n/a: {reason}"), None),
                Unready::Failed(e) => (format!("failed: {e}"), Some(e)),
            };
            pair.eager.note = Some(note.clone());
            pair.compiled.note = Some(note);
            return (pair, failure);
        }
    };
    stage("eager");
    let eager = match eager(&*program, workload, &mut pair.eager, budget) {
        Ok(outputs) => outputs,
        Err(e) => {
            let note = format!("failed: {e}");
            pair.compiled.note = Some(note.clone());
            pair.eager.note = Some(note);
            return (pair, Some(e));
        }
    };
    stage("compiled");
    if let Err(e) = compiled(&*program, workload, &eager, &mut pair.compiled, budget) {
        pair.compiled.note = Some(format!("failed: {e}"));
        return (pair, Some(e));
    }
    (pair, None)
}

fn eager(
    program: &dyn Program,
    workload: &Workload,
    row: &mut Row,
    budget: Budget,
) -> Result<Vec<Tensor>> {
    let start = Instant::now();
    program.run(1)?;
    row.compile_ms = Some(milliseconds(start));
    let outputs = program.outputs()?;
    row.dispatches = Some(dispatches(|| program.run(1))?);
    let (timing, foreign) = quietest(budget, |n| program.run(n))?;
    *row = row.clone().with_timing(timing).with_check(sums(workload, &outputs)?);
    row.foreign = foreign;
    Ok(outputs)
}

fn compiled(
    program: &dyn Program,
    workload: &Workload,
    eager: &[Tensor],
    row: &mut Row,
    budget: Budget,
) -> Result<()> {
    // what the call that captures gives, and what those that replay give
    agree(workload, eager, &program.compile().outputs()?)?;
    let compiled = program.compile();
    let start = Instant::now();
    compiled.run(1)?;
    row.compile_ms = Some(milliseconds(start));
    let outputs = compiled.outputs()?;
    agree(workload, eager, &outputs)?;
    row.dispatches = Some(dispatches(|| compiled.run(1))?);
    let (timing, foreign) = quietest(budget, |n| compiled.run(n))?;
    *row = row.clone().with_timing(timing).with_check(sums(workload, &outputs)?);
    row.foreign = foreign;
    Ok(())
}

/// The elements as `f64`, row-major; of complex ones both parts.
pub(crate) fn elements(t: &Tensor) -> straightline::Result<Vec<f64>> {
    if t.dtype().is_complex() {
        return elements(&aten::view_as_real(&t.resolve_conj()?)?);
    }
    t.to_dtype(DType::F64)?.to_vec::<f64>()
}

/// The check sums of each output; of a single 0 where the elements mean nothing.
fn sums(workload: &Workload, outputs: &[Tensor]) -> Result<Vec<Check>> {
    let each = outputs.iter().map(|output| {
        Ok(match workload.agreement {
            Agreement::ShapeOnly => check(&[0.0]),
            _ => check(&elements(output)?),
        })
    });
    each.collect()
}

fn milliseconds(since: Instant) -> f64 {
    rounded(since.elapsed().as_secs_f64() * 1e3, 5)
}

/// How often a call enters the dispatcher. Kernels' helper threads do not dispatch.
fn dispatches(call: impl FnOnce() -> straightline::Result<()>) -> Result<u64> {
    let before = call_count();
    call()?;
    Ok(call_count() - before)
}

/// Measures up to three times while others use the processors; the quietest measurement counts. A
/// quick measurement is made once.
fn quietest(
    budget: Budget,
    mut run: impl FnMut(usize) -> straightline::Result<()>,
) -> Result<(Timing, Option<f64>)> {
    let mut best: Option<(Timing, f64)> = None;
    for _ in 0..budget.attempts {
        if best.is_some() {
            quiet::wait();
        }
        let meter = quiet::Meter::start();
        let timing = measure(budget, &mut run)?;
        let Some(foreign) = meter.and_then(|m| m.foreign()) else {
            return Ok((timing, None));
        };
        if best.is_none_or(|(_, least)| foreign < least) {
            best = Some((timing, foreign));
        }
        if foreign <= quiet::ENOUGH {
            break;
        }
    }
    let (timing, foreign) = best.expect("a budget has at least one attempt");
    Ok((timing, Some((foreign * 1e3).round() / 1e3)))
}

/// Fails where the compiled outputs are not the eager ones.
fn agree(workload: &Workload, eager: &[Tensor], compiled: &[Tensor]) -> Result<()> {
    let mismatch = |what: String| Err(CliError::Mismatch(format!("{}: {what}", workload.name)));
    if eager.len() != compiled.len() {
        return mismatch(format!("{} outputs, and {} eagerly", compiled.len(), eager.len()));
    }
    for (eager, compiled) in eager.iter().zip(compiled) {
        if eager.sizes() != compiled.sizes() || eager.dtype() != compiled.dtype() {
            return mismatch(format!(
                "{}{:?}, and the eager one is {}{:?}",
                compiled.dtype(),
                compiled.sizes(),
                eager.dtype(),
                eager.sizes()
            ));
        }
        let Some(tolerance) = workload.agreement.share(eager.dtype()) else {
            continue;
        };
        if let Some(d) = compare(&elements(eager)?, &elements(compiled)?, tolerance) {
            return mismatch(format!(
                "element {} is {}, and the eager one is {}: they differ by {:.3e}, and {:.3e} is allowed",
                d.index,
                d.compiled,
                d.eager,
                (d.compiled - d.eager).abs(),
                d.allowed
            ));
        }
    }
    Ok(())
}
