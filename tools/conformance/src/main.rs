//! Compares the operators with PyTorch's own answers:
//!
//! ```text
//! cargo run --release -p straightline-conformance -- FILE.jsonl.gz... [--mode eager|compiled|meta|cuda|cuda-compiled] [--op PATTERN] [--json]
//! cargo run --release -p straightline-conformance -- --training FOLDER
//! cargo run --release -p straightline-conformance -- --programs FOLDER [--grads]
//! cargo run --release -p straightline-conformance -- --pt2 FOLDER
//! ```
//!
//! Each case is a call with its arguments and what PyTorch made of it. It is called by the
//! operator's name, through the boxed interface, and values, shapes, strides, dtypes, aliasing,
//! mutation and errors are compared. With `--training` it follows trainings that PyTorch has recorded,
//! eagerly and compiled. With `--programs` it runs the graphs of whole models that PyTorch has
//! recorded, eagerly and compiled; with `--grads` the part of them that computes the loss is
//! differentiated by this library, and gradients, buffers and the parameters after a step are
//! compared, eagerly, with the forward pass compiled, and with the whole step compiled. Only the public interface of the crate is used;
//! `tests/suite/conformance` and `tests/suite/training` run the same code on the files in the
//! repository.

mod archives;
#[path = "../../../tests/suite/conformance/case.rs"]
mod case;
#[path = "../../../tests/suite/conformance/compare.rs"]
mod compare;
mod coverage;
#[path = "../../../tests/suite/conformance/double.rs"]
mod double;
#[path = "../../../tests/suite/conformance/grads.rs"]
mod grads;
mod models;
#[path = "../../../tests/suite/training/recorded/mod.rs"]
mod recorded;
#[path = "../../../tests/suite/pt2/recorded.rs"]
mod recorded_archives;
#[path = "../../../tests/suite/conformance/models/mod.rs"]
mod recorded_models;
#[path = "../../../tests/suite/conformance/report.rs"]
mod report;
#[path = "../../../tests/suite/conformance/run.rs"]
mod run;
mod training;
#[path = "../../../tests/suite/conformance/vectors.rs"]
mod vectors;

use clap::{Parser, ValueEnum};
use report::{Report, Skips};
use run::Mode;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Compares the operators with PyTorch's own answers.
#[derive(Parser)]
struct Options {
    /// Vectors: JSON lines, compressed by gzip.
    #[arg(required_unless_present_any = ["training", "programs", "pt2"])]
    files: Vec<PathBuf>,
    /// Follow the recorded trainings of this folder, eagerly and compiled.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["files", "mode", "grads", "double", "op", "skips", "coverage"])]
    training: Option<PathBuf>,
    /// Run the graphs of the recorded models of this folder, eagerly and compiled; with --grads
    /// train a step of each, with --op only those whose names contain it.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["files", "training", "mode", "double", "skips", "coverage"])]
    programs: Option<PathBuf>,
    /// Run the exported programs of this folder, eagerly and compiled; with --op only those whose names
    /// contain it.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["files", "training", "programs", "mode", "grads", "double", "skips", "coverage"])]
    pt2: Option<PathBuf>,
    /// How each case is run.
    #[arg(long, value_enum, default_value_t = Modes::Eager)]
    mode: Modes,
    /// Run one of so many cases.
    #[arg(long, value_name = "N", default_value_t = 1)]
    every: usize,
    /// Only calls with recorded gradients, which are compared.
    #[arg(long)]
    grads: bool,
    /// Second derivatives of the calls with recorded gradients: against differences of the first
    /// ones, and compiled against eager code.
    #[arg(long, requires = "grads")]
    double: bool,
    /// Only operators whose name contains this.
    #[arg(long, value_name = "PATTERN", default_value = "")]
    op: String,
    /// One JSON object on standard output instead of the table.
    #[arg(long)]
    json: bool,
    /// Cases that are known to differ: lines of modes, operator or id, and reason, separated by
    /// tabs. Without it, the list of the project's own tests.
    #[arg(long, value_name = "FILE")]
    skips: Option<PathBuf>,
    /// Run all modes but that of CUDA and write which operator works in which, by dtype, to this file
    /// (`cli/src/coverage.tsv` is what `straightline ops --coverage` prints). Needs --operators. With
    /// --mode cuda the file is there, and gets how each operator runs on a GPU.
    #[arg(long, value_name = "FILE")]
    coverage: Option<PathBuf>,
    /// The operators that there should be: lines of overload and tier, separated by a tab.
    #[arg(long, value_name = "FILE")]
    operators: Option<PathBuf>,
    /// Print every difference, not only the first of each operator.
    #[arg(long)]
    all: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Modes {
    /// The boxed call.
    Eager,
    /// Captured and compiled, and replayed.
    Compiled,
    /// On tensors without data: shapes, strides, dtypes.
    Meta,
    /// Eagerly on the first GPU.
    Cuda,
    /// Compiled for the first GPU, and replayed.
    CudaCompiled,
}

fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(folder) = &options.training {
        return training::follow(folder, options.json);
    }
    if let Some(folder) = &options.pt2 {
        return archives::follow(folder, &options.op);
    }
    if let Some(folder) = &options.programs {
        return models::follow(folder, &options.op, options.grads, options.json);
    }
    let mode = match options.mode {
        Modes::Eager => Mode::Eager,
        Modes::Compiled => Mode::Compiled,
        Modes::Meta => Mode::Meta,
        Modes::Cuda => Mode::Cuda,
        Modes::CudaCompiled => Mode::CudaCompiled,
    };
    let skips = match &options.skips {
        None => Ok(include_str!("../../../tests/suite/conformance/skips.txt").to_string()),
        Some(path) => std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display())),
    };
    let skips = match skips {
        Ok(text) => Skips::new(text),
        Err(e) => return fail(&e),
    };
    // a panic is a failure of its case and is reported there
    if std::env::var_os("CONFORMANCE_PANICS").is_none() {
        std::panic::set_hook(Box::new(|_| ()));
    }
    if let (Some(out), Modes::Cuda) = (&options.coverage, options.mode) {
        return match coverage::write_ways(out, &options.files, &skips, options.every) {
            Ok(operators) => {
                print(&Report { operators, ..Report::default() }, options.all);
                ExitCode::SUCCESS
            }
            Err(e) => fail(&e),
        };
    }
    if let Some(out) = &options.coverage {
        let Some(operators) = &options.operators else {
            return fail("--coverage needs --operators");
        };
        return match coverage::write(out, operators, &options.files, &skips) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => fail(&e),
        };
    }
    let mut report = Report {
        only_grads: options.grads,
        double: options.double,
        every: options.every,
        ..Report::default()
    };
    for file in &options.files {
        if let Err(e) = report.run_file(file, mode, &options.op, &skips) {
            return fail(&format!("{}: {e}", file.display()));
        }
    }
    let (passed, failed, skipped) = report.totals();
    if passed + failed + skipped == 0 {
        return fail(&format!("no case of an operator whose name contains `{}`", options.op));
    }
    if options.json {
        println!("{}", to_json(&report, options.mode));
    } else {
        print(&report, options.all);
    }
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn fail(why: &str) -> ExitCode {
    eprintln!("conformance: {why}");
    ExitCode::from(2)
}

fn print(report: &Report<'_>, all: bool) {
    println!("{:<56} {:>7} {:>7} {:>7}", "operator", "passed", "failed", "skipped");
    for (op, t) in &report.operators {
        println!("{op:<56} {:>7} {:>7} {:>7}", t.passed, t.failures.len(), t.skipped.len());
        let shown = if all { usize::MAX } else { 1 };
        for (id, e) in t.failures.iter().take(shown) {
            println!("    {id}: {e}");
        }
        for (id, reason) in &t.skipped {
            println!("    skipped {id}: {reason}");
        }
    }
    let (passed, failed, skipped) = report.totals();
    let operators = report.operators.len();
    println!("{operators} operators: {passed} passed, {failed} failed, {skipped} skipped");
}

fn to_json(report: &Report<'_>, mode: Modes) -> serde_json::Value {
    let case = |(id, what): &(String, String)| json!({"id": id, "message": what});
    let operators: serde_json::Map<String, serde_json::Value> = report
        .operators
        .iter()
        .map(|(op, t)| {
            let skipped: Vec<_> =
                t.skipped.iter().map(|(id, r)| json!({"id": id, "reason": r})).collect();
            let tally = json!({
                "passed": t.passed,
                "failed": t.failures.len(),
                "skipped": t.skipped.len(),
                "first_difference": t.failures.first().map(case),
                "failures": t.failures.iter().map(case).collect::<Vec<_>>(),
                "skips": skipped,
            });
            (op.clone(), tally)
        })
        .collect();
    let (passed, failed, skipped) = report.totals();
    let mode = match mode {
        Modes::Eager => "eager",
        Modes::Compiled => "compiled",
        Modes::Meta => "meta",
        Modes::Cuda => "cuda",
        Modes::CudaCompiled => "cuda-compiled",
    };
    json!({
        "mode": mode,
        "total": {"operators": report.operators.len(), "passed": passed, "failed": failed, "skipped": skipped},
        "operators": operators,
    })
}
