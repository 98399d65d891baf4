//! Exported programs: a line for each archive and way.

use crate::recorded_archives::{Recorded, Way, archives_of};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// Runs all archives of a folder, eagerly and compiled.
pub(crate) fn follow(folder: &Path, only: &str) -> ExitCode {
    let paths = match archives_of(folder) {
        Ok(paths) => paths,
        Err(e) => return crate::fail(&e.to_string()),
    };
    if std::env::var_os("CONFORMANCE_PANICS").is_none() {
        std::panic::set_hook(Box::new(|_| ()));
    }
    let (mut passed, mut failed) = (0, 0);
    for path in paths.iter().filter(|p| p.to_string_lossy().contains(only)) {
        for way in [Way::Eager, Way::Compiled] {
            let began = Instant::now();
            let run = || Recorded::open(path)?.run(way);
            let outcome = catch_unwind(AssertUnwindSafe(run)).unwrap_or(Err("panicked".to_owned()));
            let took = began.elapsed().as_secs_f64();
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            match outcome {
                Ok(off) => {
                    passed += 1;
                    println!("{name:<28} {way:<9?} {took:>7.2} s  passed, off by {off:.1e}");
                }
                Err(e) => {
                    failed += 1;
                    println!("{name:<28} {way:<9?} {took:>7.2} s  FAILED: {e}");
                }
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
