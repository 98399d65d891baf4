//! `explain`: why a compiled workload is as it is.

use crate::error::{CliError, Result};
use crate::progress;
use crate::workloads::{self, Setting};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use straightline::CompileOptions;

/// Compiles a workload or a model file and prints guards, kernels, fusion decisions with their reasons, pass
/// timings and the e-graph report
///
/// With --html it writes them as a page instead, which shows the graph with each operator in the colour
/// of its step, and how long each step takes: the workload is called a few times for that, by code
/// that reads a clock after each step.
#[derive(Debug, clap::Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Options {
    /// The workload's name, or the beginning of one name, or a model file
    #[arg(value_name = "WORKLOAD|MODEL.pt2")]
    workload: String,
    /// Write a page of HTML to this file, with the time of each step; `-` is standard output
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// How many calls are measured for the page
    #[arg(long, default_value_t = 20, requires = "html")]
    calls: usize,
    #[command(flatten)]
    setting: Setting,
}

pub(crate) fn run(options: &Options, out: &mut dyn Write) -> Result<()> {
    let _progress = progress::spinner(format!("compiling {}", options.workload));
    let workload = workloads::one(&options.workload, &options.setting)?;
    let program = workload.require(&options.setting)?;
    let Some(path) = &options.html else {
        let compiled = program.compile();
        compiled.run(1)?;
        writeln!(out, "{}", workload.name)?;
        write!(out, "{}", compiled.explain())?;
        return Ok(());
    };
    // a file that cannot be written is told before the workload is called
    let mut file = match path == Path::new("-") {
        true => None,
        false => Some(File::create(path).map_err(|e| failed(path, &e))?),
    };
    let timed = CompileOptions { time_steps: true, ..CompileOptions::default() };
    let compiled = program.compile_with(timed);
    compiled.run(options.calls.max(1))?;
    let mut why = compiled.explain();
    why.name = workload.name.clone();
    let page = why.to_html();
    match &mut file {
        None => out.write_all(page.as_bytes())?,
        Some(file) => {
            file.write_all(page.as_bytes()).map_err(|e| failed(path, &e))?;
            eprintln!("wrote {} KiB to {}", page.len() >> 10, path.display());
        }
    }
    Ok(())
}

fn failed(path: &Path, e: &std::io::Error) -> CliError {
    CliError::File { path: path.display().to_string(), message: e.to_string() }
}
