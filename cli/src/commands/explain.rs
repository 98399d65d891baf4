//! `explain`: why a compiled workload is as it is.

use crate::error::Result;
use crate::workloads::{self, Setting};
use std::io::Write;

/// Compiles a workload and prints guards, kernels, fusion decisions with their reasons, pass
/// timings and the e-graph report
#[derive(Debug, clap::Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Options {
    /// The workload's name, or the beginning of one name
    workload: String,
    #[command(flatten)]
    setting: Setting,
}

pub(crate) fn run(options: &Options, out: &mut dyn Write) -> Result<()> {
    let workload = workloads::one(&options.workload)?;
    let compiled = workload.require(&options.setting)?.compile();
    compiled.run(1)?;
    writeln!(out, "{}", workload.name)?;
    write!(out, "{}", compiled.explain())?;
    Ok(())
}
