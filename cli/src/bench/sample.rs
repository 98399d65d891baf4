//! Timing: samples of repeated calls, and their quantiles. The programs of `benches/peers` include
//! this file.

use std::time::{Duration, Instant};

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Time to spend on samples.
    pub(crate) total: Duration,
    /// At least this many samples, however long they take.
    pub(crate) least: usize,
    /// How often a measurement is repeated on a machine that others use.
    pub(crate) attempts: usize,
}

impl Budget {
    pub(crate) const FULL: Budget =
        Budget { total: Duration::from_millis(700), least: 5, attempts: 3 };
    pub(crate) const QUICK: Budget =
        Budget { total: Duration::from_millis(150), least: 3, attempts: 1 };
}

/// A sample is as many calls as take this long; one call where that takes longer.
const SAMPLE: Duration = Duration::from_micros(50);
const MOST_SAMPLES: usize = 2000;
/// The warm-up doubles its calls until one round takes this long.
const WARM_ROUND: Duration = Duration::from_millis(5);

/// Microseconds per call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Timing {
    pub(crate) median_us: f64,
    pub(crate) p10: f64,
    pub(crate) p90: f64,
    pub(crate) samples: usize,
    /// Calls in each sample.
    pub(crate) inner: usize,
}

/// Warms up for a tenth of the budget, then samples. `run(n)` makes n calls.
pub(crate) fn measure<E>(
    budget: Budget,
    mut run: impl FnMut(usize) -> Result<(), E>,
) -> Result<Timing, E> {
    let mut time = |calls: usize| -> Result<Duration, E> {
        let start = Instant::now();
        run(calls)?;
        Ok(start.elapsed())
    };
    let mut per_call = time(1)?;
    if per_call < budget.total / 2 {
        let (mut calls, mut spent) = (1usize, per_call);
        while spent < budget.total / 10 {
            let took = time(calls)?;
            spent += took;
            per_call = took / calls as u32;
            if took < WARM_ROUND {
                calls *= 2;
            }
        }
    }
    let inner = calls_per_sample(per_call);
    let (mut samples, mut spent) = (Vec::new(), Duration::ZERO);
    while (spent < budget.total && samples.len() < MOST_SAMPLES) || samples.len() < budget.least {
        let took = time(inner)?;
        spent += took;
        samples.push(took.as_secs_f64() * 1e6 / inner as f64);
    }
    Ok(summary(samples, inner))
}

fn calls_per_sample(per_call: Duration) -> usize {
    let per_call = per_call.max(Duration::from_nanos(1)).as_nanos();
    (SAMPLE.as_nanos().div_ceil(per_call) as usize).max(1)
}

fn summary(mut samples: Vec<f64>, inner: usize) -> Timing {
    samples.sort_by(f64::total_cmp);
    let last = samples.len().saturating_sub(1);
    let quantile = |p: f64| samples.get(((p * samples.len() as f64) as usize).min(last)).copied();
    Timing {
        median_us: quantile(0.5).unwrap_or(f64::NAN),
        p10: quantile(0.1).unwrap_or(f64::NAN),
        p90: quantile(0.9).unwrap_or(f64::NAN),
        samples: samples.len(),
        inner,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_ignore_the_order() {
        let timing = summary((0..100).rev().map(f64::from).collect(), 7);
        assert_eq!((timing.p10, timing.median_us, timing.p90), (10.0, 50.0, 90.0));
        assert_eq!((timing.samples, timing.inner), (100, 7));
        assert_eq!(summary(vec![3.0], 1).p90, 3.0);
    }

    #[test]
    fn short_calls_are_grouped() {
        assert_eq!(calls_per_sample(Duration::from_nanos(100)), 500);
        assert_eq!(calls_per_sample(Duration::from_micros(30)), 2);
        assert_eq!(calls_per_sample(Duration::from_millis(3)), 1);
        assert_eq!(calls_per_sample(Duration::ZERO), 50_000);
    }

    #[test]
    fn counts_what_it_runs_and_passes_errors_on() {
        let budget = Budget { total: Duration::from_millis(2), least: 4, attempts: 1 };
        let mut calls = 0;
        let timing = measure(budget, |n| {
            calls += n;
            std::thread::sleep(Duration::from_millis(1));
            Ok::<(), ()>(())
        });
        let timing = timing.unwrap();
        assert!(timing.samples >= 4 && calls >= timing.samples * timing.inner);
        assert!(timing.median_us > 0.0 && timing.p10 <= timing.median_us);
        assert_eq!(measure(budget, |_| Err("broken")), Err("broken"));
    }
}
