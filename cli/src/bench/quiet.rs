//! Whether others used our processors while we measured.
//!
//! On Linux `/proc` reports how busy each processor was and how much of that was this process; the
//! difference is the foreign share. Where `/proc` cannot be read, the share is unknown and nothing
//! is repeated.

use std::time::{Duration, Instant};

/// `/proc` counts in units of 1/100 s on every platform that Linux user space sees (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// A foreign share that does not disturb a measurement.
pub(crate) const ENOUGH: f64 = 0.06;

/// A reading of the counters.
pub(crate) struct Meter {
    cpus: Vec<usize>,
    start: Instant,
    busy: f64,
    own: f64,
}

impl Meter {
    pub(crate) fn start() -> Option<Meter> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let cpus = allowed_cpus(&status)?;
        Some(Meter {
            busy: busy_seconds(&read("/proc/stat")?, &cpus),
            own: own_seconds(&read("/proc/self/stat")?)?,
            start: Instant::now(),
            cpus,
        })
    }

    /// The share of the processors' time that went to others since the start: 0 to 1.
    pub(crate) fn foreign(&self) -> Option<f64> {
        let busy = busy_seconds(&read("/proc/stat")?, &self.cpus) - self.busy;
        let own = own_seconds(&read("/proc/self/stat")?)? - self.own;
        let wall = self.start.elapsed().as_secs_f64() * self.cpus.len() as f64;
        Some(((busy - own) / wall.max(1e-9)).clamp(0.0, 1.0))
    }
}

/// Waits until others leave the processors alone, a second at most.
pub(crate) fn wait() {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(1) {
        let Some(meter) = Meter::start() else { return };
        std::thread::sleep(Duration::from_millis(200));
        if meter.foreign().is_none_or(|f| f <= ENOUGH) {
            return;
        }
    }
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// `Cpus_allowed_list: 0-3,8`.
fn allowed_cpus(status: &str) -> Option<Vec<usize>> {
    let list = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:"))?;
    let mut cpus = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(cpus)
}

/// Seconds that these processors were not idle: user, nice, system, irq, softirq and steal.
fn busy_seconds(stat: &str, cpus: &[usize]) -> f64 {
    let mut ticks = 0.0;
    for line in stat.lines() {
        let mut fields = line.split_ascii_whitespace();
        let cpu = fields.next().and_then(|f| f.strip_prefix("cpu")).and_then(|n| n.parse().ok());
        if cpu.is_some_and(|cpu: usize| cpus.contains(&cpu)) {
            let counts: Vec<f64> = fields.map(|f| f.parse().unwrap_or(0.0)).collect();
            ticks += [0, 1, 2, 5, 6, 7].iter().filter_map(|i| counts.get(*i)).sum::<f64>();
        }
    }
    ticks / TICKS_PER_SECOND
}

/// Our own user and system seconds: fields 14 and 15, counted after the name in parentheses,
/// which may hold spaces.
fn own_seconds(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let tick = |i: usize| fields.get(i)?.parse::<f64>().ok();
    Some((tick(11)? + tick(12)?) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_formats_of_proc() {
        let status = "Name:\tx\nCpus_allowed_list:\t0-2,5\nMems_allowed:\t1\n";
        assert_eq!(allowed_cpus(status), Some(vec![0, 1, 2, 5]));
        assert_eq!(allowed_cpus("Name: x\n"), None);
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 100 0 50 900 7 1 2 3 0 0\ncpu1 1000 0 0 0 0 0 0 0 0 0\nintr 5\n";
        assert_eq!(busy_seconds(stat, &[0]), 1.56);
        assert_eq!(busy_seconds(stat, &[0, 1]), 11.56);
        let own = "1 (a b) c) R 1 2 3 4 5 6 7 8 9 10 250 50 0 0";
        assert_eq!(own_seconds(own), Some(3.0));
        assert_eq!(own_seconds("nothing"), None);
    }

    #[test]
    fn a_share_is_a_share() {
        if let Some(foreign) = Meter::start().and_then(|m| m.foreign()) {
            assert!((0.0..=1.0).contains(&foreign));
        }
    }
}
