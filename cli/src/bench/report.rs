//! What `bench` prints: JSON lines for programs, a table for people.

use super::check::Check;
use super::sample::Timing;
use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;

/// One measurement, or the reason for its absence.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) framework: &'static str,
    pub(crate) version: &'static str,
    /// `eager` or `compiled`.
    pub(crate) mode: &'static str,
    pub(crate) workload: String,
    pub(crate) threads: usize,
    pub(crate) median_us: Option<f64>,
    pub(crate) p10: Option<f64>,
    pub(crate) p90: Option<f64>,
    /// The first call, in milliseconds.
    pub(crate) compile_ms: Option<f64>,
    /// Entries into the dispatcher in one call.
    pub(crate) dispatches: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) check: Option<Vec<Check>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) n_samples: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) inner: Option<usize>,
    /// The share of the processors that others used meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) foreign: Option<f64>,
    /// Why there are no numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
}

/// Cut to some significant digits, for short JSON.
pub(super) fn rounded(x: f64, digits: usize) -> f64 {
    format!("{x:.*e}", digits.saturating_sub(1)).parse().unwrap_or(x)
}

impl Row {
    pub(super) fn empty(mode: &'static str, workload: &str, threads: usize) -> Row {
        Row {
            framework: "straightline",
            version: env!("CARGO_PKG_VERSION"),
            mode,
            workload: workload.to_owned(),
            threads,
            median_us: None,
            p10: None,
            p90: None,
            compile_ms: None,
            dispatches: None,
            check: None,
            n_samples: None,
            inner: None,
            foreign: None,
            note: None,
        }
    }

    pub(super) fn with_timing(mut self, timing: Timing) -> Row {
        self.median_us = Some(rounded(timing.median_us, 5));
        self.p10 = Some(rounded(timing.p10, 5));
        self.p90 = Some(rounded(timing.p90, 5));
        self.n_samples = Some(timing.samples);
        self.inner = Some(timing.inner);
        self
    }

    pub(super) fn with_check(mut self, each: Vec<Check>) -> Row {
        let short = |(n, a, b, c)| (n, rounded(a, 7), rounded(b, 7), rounded(c, 7));
        self.check = Some(each.into_iter().map(short).collect());
        self
    }
}

/// The two rows of a workload.
pub(super) struct Pair {
    pub(super) eager: Row,
    pub(super) compiled: Row,
}

impl Pair {
    fn speed_up(&self) -> Option<f64> {
        Some(self.eager.median_us? / self.compiled.median_us?)
    }
}

/// A time for people: three digits and a unit.
pub(crate) fn duration(us: f64) -> String {
    let (value, unit) = match us {
        us if us < 1.0 => (us * 1e3, "ns"),
        us if us < 1e3 => (us, "µs"),
        us if us < 1e6 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    };
    let digits = if value < 10.0 {
        2
    } else if value < 100.0 {
        1
    } else {
        0
    };
    format!("{value:.digits$} {unit}")
}

fn spread(row: &Row) -> String {
    match (row.p10, row.p90) {
        (Some(p10), Some(p90)) => format!("{} .. {}", duration(p10), duration(p90)),
        _ => String::new(),
    }
}

fn optional<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), show)
}

/// The table, with the notes of what could not be measured below it.
pub(super) fn table(pairs: &[Pair], threads: usize) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header([
        "workload",
        "eager",
        "p10 .. p90",
        "compiled",
        "p10 .. p90",
        "speed-up",
        "first call",
        "dispatches",
    ]);
    let mut notes = String::new();
    for pair in pairs {
        let (eager, compiled) = (&pair.eager, &pair.compiled);
        match (&eager.note, &compiled.note) {
            (Some(note), Some(same)) if note == same => {
                notes.push_str(&format!("{}: {note}\n", eager.workload));
            }
            _ => {
                for row in [eager, compiled] {
                    if let Some(note) = &row.note {
                        notes.push_str(&format!("{} ({}): {note}\n", row.workload, row.mode));
                    }
                }
            }
        }
        let dispatches = match (eager.dispatches, compiled.dispatches) {
            (Some(e), Some(c)) => format!("{e} -> {c}"),
            (Some(e), None) => e.to_string(),
            _ => "-".to_owned(),
        };
        table.add_row([
            Cell::new(&eager.workload),
            Cell::new(optional(eager.median_us, duration)),
            Cell::new(spread(eager)),
            Cell::new(optional(compiled.median_us, duration)),
            Cell::new(spread(compiled)),
            Cell::new(optional(pair.speed_up(), |s| format!("{s:.2}x"))),
            Cell::new(optional(compiled.compile_ms, |ms| duration(ms * 1e3))),
            Cell::new(dispatches),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let threads = if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
    let mut text = format!(
        "{table}\n{threads}; median time of a call, first call = capture and compilation with the first run\n"
    );
    if pairs.iter().any(|p| {
        [&p.eager, &p.compiled].iter().any(|r| r.foreign.is_some_and(|f| f > super::quiet::ENOUGH))
    }) {
        text.push_str(
            "some rows were measured while others used the processors: --json gives the share\n",
        );
    }
    text.push_str(&notes);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(median_us: f64) -> Timing {
        Timing { median_us, p10: median_us * 0.9, p90: median_us * 1.1, samples: 5, inner: 2 }
    }

    #[test]
    fn json_has_the_promised_fields_first() {
        let mut row = Row::empty("compiled", "w5.mlp_8x256", 1).with_timing(timing(12.345678));
        row.compile_ms = Some(1.5);
        row.dispatches = Some(0);
        let json = serde_json::to_string(&row.with_check(vec![(2, 1.0 / 3.0, 2.0, -0.5)])).unwrap();
        let expected = format!(
            "{{\"framework\":\"straightline\",\"version\":\"{}\",\"mode\":\"compiled\",\"workload\":\"w5.mlp_8x256\",\
             \"threads\":1,\"median_us\":12.346,\"p10\":11.111,\"p90\":13.58,\"compile_ms\":1.5,\"dispatches\":0,\
             \"check\":[[2,0.3333333,2.0,-0.5]],\"n_samples\":5,\"inner\":2}}",
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(json, expected);
    }

    #[test]
    fn what_was_not_measured_is_null_with_a_note() {
        let mut row = Row::empty("eager", "w1.add_grad", 1);
        row.note = Some("n/a: no gradients".into());
        let json = serde_json::to_string(&row).unwrap();
        assert!(json.contains("\"median_us\":null") && json.contains("\"note\":\"n/a"), "{json}");
        assert!(!json.contains("check"));
    }

    #[test]
    fn durations_have_three_digits() {
        assert_eq!(duration(0.0351), "35.1 ns");
        assert_eq!(duration(4.06), "4.06 µs");
        assert_eq!(duration(719.6), "720 µs");
        assert_eq!(duration(15_400.0), "15.4 ms");
        assert_eq!(duration(2.5e6), "2.50 s");
    }

    #[test]
    fn the_table_says_how_much_faster() {
        let mut eager = Row::empty("eager", "w1.add", 1).with_timing(timing(10.0));
        eager.dispatches = Some(4);
        let mut compiled = Row::empty("compiled", "w1.add", 1).with_timing(timing(2.0));
        compiled.dispatches = Some(0);
        let mut missing = Row::empty("eager", "w1.add_grad", 1);
        missing.note = Some("n/a: later".into());
        let none = Pair { compiled: missing.clone(), eager: missing };
        let text = table(&[Pair { eager, compiled }, none], 1);
        assert!(text.contains("5.00x") && text.contains("4 -> 0"), "{text}");
        assert!(text.contains("w1.add_grad: n/a: later"), "{text}");
    }
}
