//! Recorded trainings: a line for each run, dtype and mode.

use crate::recorded::{Mode, Run, Trouble, runs_of};
use serde_json::json;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use straightline::DType;

/// What came of one run in one dtype and mode.
struct Line {
    run: String,
    dtype: String,
    mode: &'static str,
    took: Duration,
    trouble: Option<String>,
}

/// Follows all runs of a folder.
pub(crate) fn follow(folder: &Path, as_json: bool) -> ExitCode {
    let paths = match runs_of(folder) {
        Ok(paths) => paths,
        Err(e) => return crate::fail(&e.to_string()),
    };
    // a panic is a failure of its run and is reported there
    if std::env::var_os("CONFORMANCE_PANICS").is_none() {
        std::panic::set_hook(Box::new(|_| ()));
    }
    let mut lines = Vec::new();
    let mut each = |line: Line| {
        if !as_json {
            let outcome =
                line.trouble.as_deref().map_or("passed".into(), |e| format!("FAILED: {e}"));
            let (run, dtype, took) = (&line.run, &line.dtype, line.took.as_secs_f64());
            println!("{run:<24} {dtype:<5} {:<9} {took:>7.2} s  {outcome}", line.mode);
        }
        lines.push(line);
    };
    for path in &paths {
        match Run::open(path) {
            Ok(run) => {
                for (dtype, mode) in
                    run.dtypes().into_iter().flat_map(|d| Mode::ALL.map(|m| (d, m)))
                {
                    each(one(&run, dtype, mode));
                }
            }
            Err(e) => {
                let name = path.file_stem().unwrap_or_default().to_string_lossy();
                let (run, dtype, mode) = (name.into_owned(), "-".to_owned(), "-");
                let (took, trouble) = (Duration::ZERO, Some(e.to_string()));
                each(Line { run, dtype, mode, took, trouble });
            }
        }
    }
    let failed = lines.iter().filter(|l| l.trouble.is_some()).count();
    let passed = lines.len() - failed;
    if as_json {
        println!("{}", to_json(&lines));
    } else {
        println!("{} runs: {passed} passed, {failed} failed", paths.len());
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn one(run: &Run, dtype: DType, mode: Mode) -> Line {
    let began = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| run.follow(dtype, mode)));
    let trouble = match outcome {
        Ok(outcome) => outcome.err().map(|e: Trouble| e.to_string()),
        Err(_) => Some("panicked".to_owned()),
    };
    let mode = match mode {
        Mode::Eager => "eager",
        Mode::Compiled => "compiled",
    };
    let (name, dtype) = (run.name().to_owned(), dtype.to_string());
    Line { run: name, dtype, mode, took: began.elapsed(), trouble }
}

fn to_json(lines: &[Line]) -> serde_json::Value {
    let line = |l: &Line| {
        json!({
            "run": l.run,
            "dtype": l.dtype,
            "mode": l.mode,
            "seconds": l.took.as_secs_f64(),
            "passed": l.trouble.is_none(),
            "message": l.trouble,
        })
    };
    let failed = lines.iter().filter(|l| l.trouble.is_some()).count();
    json!({
        "total": {"passed": lines.len() - failed, "failed": failed},
        "runs": lines.iter().map(line).collect::<Vec<_>>(),
    })
}
