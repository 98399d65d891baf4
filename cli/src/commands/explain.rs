//! `explain`: why a compiled workload is as it is.

use crate::error::Result;
use crate::progress;
use crate::workloads::{self, Setting};
use std::io::Write;

/// Compiles a workload or a model file and prints guards, kernels, fusion decisions with their reasons, pass
/// timings and the e-graph report
#[derive(Debug, clap::Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Options {
    /// The workload's name, or the beginning of one name, or a model file
    #[arg(value_name = "WORKLOAD|MODEL.pt2")]
    workload: String,
    #[command(flatten)]
    setting: Setting,
}

pub(crate) fn run(options: &Options, out: &mut dyn Write) -> Result<()> {
    let _progress = progress::spinner(format!("compiling {}", options.workload));
    let workload = workloads::one(&options.workload, &options.setting)?;
    let compiled = workload.require(&options.setting)?.compile();
    compiled.run(1)?;
    writeln!(out, "{}", workload.name)?;
    write!(out, "{}", compiled.explain())?;
    Ok(())
}
