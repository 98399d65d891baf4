//! Recorded models: a line for each graph, or step of training, and way.

use crate::recorded_models::{Model, Trouble, Way, models_of};
use serde_json::json;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What came of one graph of one model.
struct Line {
    model: String,
    what: String,
    way: &'static str,
    took: Duration,
    /// How far it is off, or what is wrong.
    outcome: Result<String, String>,
}

fn guarded(run: impl FnOnce() -> Result<String, Trouble>) -> Result<String, String> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(outcome) => outcome.map_err(|e| e.to_string()),
        Err(_) => Err("panicked".to_owned()),
    }
}

/// Follows all models of a folder: their graphs, or with `grads` their steps of training.
pub(crate) fn follow(folder: &Path, only: &str, grads: bool, as_json: bool) -> ExitCode {
    let paths = match models_of(folder) {
        Ok(paths) => paths,
        Err(e) => return crate::fail(&e.to_string()),
    };
    // a panic is a failure of its model and is reported there
    if std::env::var_os("CONFORMANCE_PANICS").is_none() {
        std::panic::set_hook(Box::new(|_| ()));
    }
    let mut lines = Vec::new();
    let mut each = |line: Line| {
        if !as_json {
            let outcome = match &line.outcome {
                Ok(off) => format!("passed, off by {off}"),
                Err(e) => format!("FAILED: {e}"),
            };
            let (model, what, took) = (&line.model, &line.what, line.took.as_secs_f64());
            println!("{model:<20} {what:<10} {:<9} {took:>7.2} s  {outcome}", line.way);
        }
        lines.push(line);
    };
    let named = |p: &&std::path::PathBuf| p.to_string_lossy().contains(only);
    for path in paths.iter().filter(named) {
        let model = match Model::open(path) {
            Ok(model) => model,
            Err(e) => {
                let model = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                let (what, outcome) = ("-".to_owned(), Err(e.to_string()));
                each(Line { model, what, way: "-", took: Duration::ZERO, outcome });
                continue;
            }
        };
        let mut timed = |what: &str, way: Way, run: &dyn Fn() -> Result<String, Trouble>| {
            let began = Instant::now();
            let outcome = guarded(run);
            let (model, what, way) = (model.name().to_owned(), what.to_owned(), way.name());
            each(Line { model, what, way, took: began.elapsed(), outcome });
        };
        if grads {
            for what in model.losses() {
                for way in [Way::Eager, Way::Compiled, Way::Step] {
                    timed(what, way, &|| {
                        let w = model.train(what, way)?;
                        Ok(format!(
                            "{:.1e} (loss), {:.1e} (gradients), {:.1e} (buffers), {:.1e} (parameters)",
                            w.loss, w.grad, w.buffer, w.parameter
                        ))
                    });
                }
            }
        } else {
            for what in model.graphs() {
                for way in [Way::Eager, Way::Compiled] {
                    timed(what, way, &|| Ok(format!("{:.1e}", model.run(what, way)?)));
                }
            }
        }
    }
    let failed = lines.iter().filter(|l| l.outcome.is_err()).count();
    let passed = lines.len() - failed;
    if as_json {
        println!("{}", to_json(&lines));
    } else {
        println!("{} models: {passed} passed, {failed} failed", paths.len());
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn to_json(lines: &[Line]) -> serde_json::Value {
    let line = |l: &Line| {
        json!({
            "model": l.model,
            "what": l.what,
            "way": l.way,
            "seconds": l.took.as_secs_f64(),
            "passed": l.outcome.is_ok(),
            "message": match &l.outcome { Ok(m) | Err(m) => m },
        })
    };
    let failed = lines.iter().filter(|l| l.outcome.is_err()).count();
    json!({
        "total": {"passed": lines.len() - failed, "failed": failed},
        "models": lines.iter().map(line).collect::<Vec<_>>(),
    })
}
