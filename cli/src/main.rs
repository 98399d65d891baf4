//! The command line of straightline: what the library does, made visible.
//!
//! | command | shows |
//! |---|---|
//! | `generate` | sentences by a small language model, eager and compiled (the default) |
//! | `train` | that model trained from nothing: loss, checkpoints, how good it is |
//! | `run` | a model file called: inputs, results, how long it took |
//! | `bench` | workloads timed eager and compiled |
//! | `dump` | one stage of a compilation: graph, loops, machine code, plan |
//! | `trace` | the dispatcher's calls |
//! | `profile` | the time and memory of each operator |
//! | `ops` | registered operators and their tables |
//! | `explain` | guards, kernels, fusion decisions, timings |
//!
//! A model file is what `torch.export.save` writes (FILE.pt2): `run` calls it, and `bench`, `dump`,
//! `trace`, `profile` and `explain` take it where they take a workload.
//!
//! Results go to standard output, progress and errors to standard error. The exit code is 1 for an
//! error, 2 for a command line that cannot be understood. `STRAIGHTLINE_LOG` filters log messages
//! (`debug`, `straightline_passes=trace`).

mod bench;
mod commands;
mod coverage;
mod error;
mod generate;
mod model;
mod progress;
mod train;
mod workloads;

use clap::{Parser, Subcommand};
use commands::{dump, explain, ops, profile, run, trace};
use error::{CliError, Result};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// A c10 dispatcher with eager tensors, and compile(): captured graphs become machine code
#[derive(Debug, Parser)]
#[command(name = "straightline", version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Generates sentences with the embedded model, eager and compiled (the default)
    Generate(generate::Arguments),
    Train(train::Arguments),
    Run(run::Options),
    Bench(bench::Options),
    Dump(dump::Options),
    Trace(trace::Options),
    Profile(profile::Options),
    Ops(ops::Options),
    Explain(explain::Options),
}

fn main() -> ExitCode {
    let command = match Cli::parse().command {
        Some(command) => command,
        None => {
            let default = Cli::parse_from(["straightline", "generate"]).command;
            default.expect("the command line names a command")
        }
    };
    start_log();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let result = execute(&command, &mut out);
    // flush the output before the error message
    let flushed = out.flush().map_err(CliError::from);
    match result.and(flushed) {
        Ok(()) => ExitCode::SUCCESS,
        // the reader has seen enough
        Err(e) if e.is_closed_pipe() => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {}", printable(&e.to_string()));
            ExitCode::FAILURE
        }
    }
}

/// Without what a terminal would take for commands: names out of files may have anything.
fn printable(text: &str) -> String {
    let one = |c: char| match c {
        '\n' | '\t' => c.to_string(),
        c if c.is_control() => c.escape_default().to_string(),
        c => c.to_string(),
    };
    text.chars().map(one).collect()
}

fn execute(command: &Command, out: &mut dyn Write) -> Result<()> {
    match command {
        Command::Generate(arguments) => generate::run(arguments, out),
        Command::Train(arguments) => train::run(arguments, out),
        Command::Run(options) => run::run(options, out),
        Command::Bench(options) => bench::run(options, out),
        Command::Dump(options) => dump::run(options, out),
        Command::Trace(options) => trace::run(options, out),
        Command::Profile(options) => profile::run(options, out),
        Command::Ops(options) => ops::run(options, out),
        Command::Explain(options) => explain::run(options, out),
    }
}

/// Warnings and errors are shown by default; the variable changes the level.
fn start_log() {
    let filter = std::env::var("STRAIGHTLINE_LOG").unwrap_or_else(|_| "warn".to_owned());
    let (filter, wrong) = match EnvFilter::try_new(&filter) {
        Ok(filter) => (filter, None),
        Err(e) => (EnvFilter::new("warn"), Some(e)),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    if let Some(e) = wrong {
        tracing::warn!("STRAIGHTLINE_LOG cannot be understood and is ignored: {e}");
    }
}
