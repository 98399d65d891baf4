//! How long each pass of a compilation took.

use std::fmt;
use std::time::{Duration, Instant};

/// Names and durations, in the order the passes ran.
#[derive(Clone, Debug, Default)]
pub struct PassTimings {
    passes: Vec<(&'static str, Duration)>,
}

impl PassTimings {
    /// Runs a pass and records its time.
    pub fn time<R>(&mut self, name: &'static str, f: impl FnOnce() -> R) -> R {
        let span = tracing::debug_span!("pass", name);
        let _entered = span.enter();
        let start = Instant::now();
        let r = f();
        self.passes.push((name, start.elapsed()));
        r
    }

    /// The passes.
    pub fn passes(&self) -> &[(&'static str, Duration)] {
        &self.passes
    }

    /// All of them together.
    pub fn total(&self) -> Duration {
        self.passes.iter().map(|p| p.1).sum()
    }
}

impl fmt::Display for PassTimings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, time) in &self.passes {
            writeln!(f, "{name:<12} {:>9.1} us", time.as_secs_f64() * 1e6)?;
        }
        Ok(())
    }
}
