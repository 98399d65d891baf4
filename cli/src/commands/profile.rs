//! `profile`: how long the operators of a workload take, and what memory.

use crate::error::{CliError, Result};
use crate::progress;
use crate::workloads::{self, Setting};
use std::io::Write;
use std::path::PathBuf;
use straightline::profiler::{Profiler, ProfilerOptions, SortBy};

/// Prints the time and memory of each operator of a workload or a model file
#[derive(Debug, clap::Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Options {
    /// The workload's name, or the beginning of one name, or a model file
    #[arg(value_name = "WORKLOAD|MODEL.pt2")]
    workload: String,
    /// Which calls
    #[arg(long, value_enum, default_value_t = Of::Eager)]
    of: Of,
    /// How many calls, after one that is not counted
    #[arg(long, default_value_t = 10)]
    calls: usize,
    /// The order of the rows
    #[arg(long, value_enum, default_value_t = Sort::Own)]
    sort: Sort,
    /// List calls on arguments of different sizes separately
    #[arg(long)]
    shapes: bool,
    /// Print at most this many rows
    #[arg(long, default_value_t = 100)]
    rows: usize,
    /// Also write the spans to this file, for chrome://tracing or ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    setting: Setting,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Of {
    /// The function called as it is
    Eager,
    /// The first call of the compiled function: its stages
    Compile,
    /// Later calls of the compiled function: one span each
    Replay,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Sort {
    /// Time without the operators called inside
    Own,
    /// Time with them
    Total,
    /// Memory
    Memory,
    /// Number of calls
    Calls,
}

pub(crate) fn run(options: &Options, out: &mut dyn Write) -> Result<()> {
    let working = progress::spinner(format!("measuring {}", options.workload));
    let program = workloads::one(&options.workload, &options.setting)?.require(&options.setting)?;
    if let Some(path) = &options.trace {
        // a file that cannot be written is told before minutes of measuring
        std::fs::File::create(path).map_err(|e| CliError::File {
            path: path.display().to_string(),
            message: e.to_string(),
        })?;
    }
    let compiled = program.compile();
    match options.of {
        Of::Eager => program.run(1)?,
        Of::Compile => {}
        Of::Replay => compiled.run(1)?,
    }
    let profiler = Profiler::start_with(ProfilerOptions {
        shapes: options.shapes || options.trace.is_some(),
        ..ProfilerOptions::default()
    });
    match options.of {
        Of::Eager => program.run(options.calls)?,
        Of::Compile => compiled.run(1)?,
        Of::Replay => compiled.run(options.calls)?,
    }
    let profile = profiler.stop();
    drop(working);
    let order = match options.sort {
        Sort::Own => SortBy::SelfTime,
        Sort::Total => SortBy::TotalTime,
        Sort::Memory => SortBy::Memory,
        Sort::Calls => SortBy::Calls,
    };
    let table = if options.shapes {
        profile.table_by_shape(order, options.rows)
    } else {
        profile.table_by(order, options.rows)
    };
    out.write_all(table.as_bytes())?;
    if let Some(path) = &options.trace {
        profile.write_chrome_trace(path)?;
        eprintln!(
            "wrote {} spans to {}: open it in chrome://tracing or ui.perfetto.dev",
            profile.events().len(),
            path.display()
        );
    }
    Ok(())
}
