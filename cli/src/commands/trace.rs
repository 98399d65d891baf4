//! `trace`: what a workload's call looks like to the dispatcher.

use crate::error::Result;
use crate::progress;
use crate::workloads::{self, Setting};
use std::io::Write;
use straightline::dispatch::capture;

/// Prints the dispatch trace of one call of a workload or a model file
#[derive(Debug, clap::Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Options {
    /// The workload's name, or the beginning of one name, or a model file
    #[arg(value_name = "WORKLOAD|MODEL.pt2")]
    workload: String,
    /// Which call
    #[arg(long, value_enum, default_value_t = Of::Eager)]
    of: Of,
    #[command(flatten)]
    setting: Setting,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Of {
    /// The function called as it is
    Eager,
    /// The capture by compile(): the same operators, on tensors without data
    Capture,
    /// A call of the compiled function: nothing
    Replay,
}

pub(crate) fn run(options: &Options, out: &mut dyn Write) -> Result<()> {
    let working = progress::spinner(format!("calling {}", options.workload));
    let program = workloads::one(&options.workload, &options.setting)?.require(&options.setting)?;
    let lines = match options.of {
        Of::Eager => traced(|| program.run(1))?,
        Of::Capture => {
            let compiled = program.compile();
            traced(|| compiled.trace().map(drop))?
        }
        Of::Replay => {
            let compiled = program.compile();
            compiled.run(1)?;
            traced(|| compiled.run(1))?
        }
    };
    drop(working);
    for line in &lines {
        writeln!(out, "{line}")?;
    }
    if lines.is_empty() {
        eprintln!("the call did not enter the dispatcher");
    }
    Ok(())
}

fn traced(call: impl FnOnce() -> straightline::Result<()>) -> Result<Vec<String>> {
    let (result, lines) = capture(call);
    result?;
    Ok(lines)
}
