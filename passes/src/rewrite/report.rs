//! What a rewrite did.

use std::fmt;
use std::time::Duration;

/// Why rewriting ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopReason {
    /// No rule had anything new to say.
    Saturated,
    /// The limit on iterations was reached.
    IterationLimit,
    /// The limit on e-nodes was reached.
    NodeLimit,
    /// The limit on time was reached.
    TimeLimit,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StopReason::Saturated => "saturated",
            StopReason::IterationLimit => "iteration limit",
            StopReason::NodeLimit => "node limit",
            StopReason::TimeLimit => "time limit",
        })
    }
}

/// What a rewrite did, for `explain` and for tests. A stop short of saturation is data here and
/// nothing worse: every intermediate e-graph extracts to a correct graph.
#[derive(Clone, Debug)]
pub struct RewriteReport {
    /// Why it ended.
    pub stop: StopReason,
    /// Rounds over the changed part of the e-graph.
    pub iterations: usize,
    /// E-nodes at the end.
    pub nodes: usize,
    /// E-classes at the end.
    pub classes: usize,
    /// Operator calls before.
    pub calls_before: usize,
    /// Operator calls after.
    pub calls_after: usize,
    /// How often each rule changed something; rules that never did are left out.
    pub fired: Vec<(&'static str, usize)>,
    /// Graph to e-graph.
    pub build_time: Duration,
    /// Applying rules.
    pub saturate_time: Duration,
    /// E-graph to graph.
    pub extract_time: Duration,
}

impl RewriteReport {
    /// Adds what happened to a graph that a call is given.
    pub(super) fn add(&mut self, inside: &RewriteReport) {
        self.nodes += inside.nodes;
        self.classes += inside.classes;
        self.calls_before += inside.calls_before;
        self.calls_after += inside.calls_after;
        for (rule, times) in &inside.fired {
            match self.fired.iter_mut().find(|r| r.0 == *rule) {
                Some(known) => known.1 += times,
                None => self.fired.push((rule, *times)),
            }
        }
    }

    /// How often a rule changed something.
    pub fn count(&self, rule: &str) -> usize {
        self.fired.iter().find(|r| r.0 == rule).map_or(0, |r| r.1)
    }
}

impl fmt::Display for RewriteReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "rewrite: {} -> {} calls, {} after {} iterations, {} e-nodes in {} classes",
            self.calls_before,
            self.calls_after,
            self.stop,
            self.iterations,
            self.nodes,
            self.classes
        )?;
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        writeln!(
            f,
            "  build {:.3} ms, saturate {:.3} ms, extract {:.3} ms",
            ms(self.build_time),
            ms(self.saturate_time),
            ms(self.extract_time)
        )?;
        for (rule, count) in &self.fired {
            writeln!(f, "  {count:>5} x {rule}")?;
        }
        Ok(())
    }
}
