//! How long the steps of a plan take, measured in its runs.

use super::PlanError;
use crate::cpu::jit::RunContext;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So many runs are kept; older ones are forgotten.
const KEPT: usize = 512;

/// What generated code is given for the functions that it calls.
pub(super) struct Host<'a> {
    /// The error of an extern step.
    pub(super) error: Option<PlanError>,
    /// When the run began and each step ended, if that is measured.
    pub(super) laps: Option<&'a mut Vec<Instant>>,
}

impl Host<'_> {
    /// Notes the time.
    #[inline]
    pub(super) fn lap(&mut self) {
        if let Some(laps) = &mut self.laps {
            laps.push(Instant::now());
        }
    }
}

/// The function that generated code calls after each step.
pub(super) extern "C" fn lap(context: *const RunContext) {
    // SAFETY: the context of the run, on the stack of `Plan::run`, whose thread this is: `host` is
    // what it has put there, to which no one else refers during the call.
    let host = unsafe { &mut *(*context).host.cast::<Host<'_>>() };
    host.lap();
}

/// How long the steps of a plan took.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StepTimes {
    /// How many runs were measured, the newest 512 at most.
    pub runs: usize,
    /// The median of these for each step; none before the first run.
    pub steps: Vec<Duration>,
}

/// The runs that were measured.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// How long each step of a run took.
    runs: Mutex<VecDeque<Vec<Duration>>>,
}

impl Clock {
    /// Measures a run, and keeps what it took if it ends well.
    pub(super) fn measure(
        &self,
        run: impl FnOnce(&mut Vec<Instant>) -> Result<(), PlanError>,
    ) -> Result<(), PlanError> {
        let mut laps = Vec::new();
        run(&mut laps)?;
        let steps = laps.windows(2).map(|w| w[1].saturating_duration_since(w[0])).collect();
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if runs.len() == KEPT {
            runs.pop_front();
        }
        runs.push_back(steps);
        Ok(())
    }

    /// The medians.
    pub(super) fn times(&self) -> StepTimes {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let count = runs.front().map_or(0, Vec::len);
        let median = |step: usize| {
            let mut all: Vec<Duration> =
                runs.iter().filter_map(|run| run.get(step)).copied().collect();
            all.sort_unstable();
            all.get(all.len() / 2).copied().unwrap_or_default()
        };
        StepTimes { runs: runs.len(), steps: (0..count).map(median).collect() }
    }
}
