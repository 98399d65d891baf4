//! Sums of spans by operator, and the table that `torch.profiler` prints of them.

use super::{Profile, ProfileEvent};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

/// All spans of one name together.
#[derive(Clone, PartialEq, Debug)]
pub struct ProfileRow {
    /// The name of the spans.
    pub name: String,
    /// The sizes of their arguments, if rows are grouped by them.
    pub shapes: Option<String>,
    /// How many there are.
    pub calls: usize,
    /// Their time without the spans inside them.
    pub own: Duration,
    /// Their time.
    pub total: Duration,
    /// Bytes allocated less bytes freed in them.
    pub memory: i64,
    /// The same without the spans inside them.
    pub own_memory: i64,
}

impl ProfileRow {
    /// The time of one span.
    pub fn average(&self) -> Duration {
        self.total.checked_div(u32::try_from(self.calls).unwrap_or(u32::MAX)).unwrap_or_default()
    }
}

/// The order of a table's rows: the largest first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SortBy {
    /// Time without the spans inside.
    #[default]
    SelfTime,
    /// Time with the spans inside.
    TotalTime,
    /// Memory with the spans inside.
    Memory,
    /// Number of spans.
    Calls,
}

impl Profile {
    /// The spans summed by name, sorted by own time, largest first.
    ///
    /// ```
    /// use straightline::{Tensor, profiler::profile};
    /// let x = Tensor::from_slice(&[1f32; 4], &[2, 2])?;
    /// let (_, profile) = profile(|| (x.mm(&x), x.mm(&x)));
    /// let mm = profile.key_averages().into_iter().find(|r| r.name == "aten::mm").unwrap();
    /// assert_eq!(mm.calls, 2);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn key_averages(&self) -> Vec<ProfileRow> {
        self.rows(|_| None)
    }

    /// [`Profile::key_averages`] with calls on arguments of other sizes kept apart.
    pub fn key_averages_by_shape(&self) -> Vec<ProfileRow> {
        self.rows(|e| Some(shapes(e)))
    }

    fn rows(&self, shapes: impl Fn(&ProfileEvent) -> Option<String>) -> Vec<ProfileRow> {
        let mut rows: Vec<ProfileRow> = Vec::new();
        let mut index: HashMap<(&str, Option<String>), usize> = HashMap::new();
        for e in &self.events {
            let shapes = shapes(e);
            let at = *index.entry((&e.name, shapes.clone())).or_insert_with(|| {
                rows.push(ProfileRow {
                    name: e.name.to_string(),
                    shapes,
                    calls: 0,
                    own: Duration::ZERO,
                    total: Duration::ZERO,
                    memory: 0,
                    own_memory: 0,
                });
                rows.len() - 1
            });
            let row = &mut rows[at];
            row.calls += 1;
            row.own += e.own;
            row.total += e.total;
            row.memory += e.memory;
            row.own_memory += e.own_memory;
        }
        sort(&mut rows, SortBy::SelfTime);
        rows
    }

    /// [`Profile::key_averages`] as a table.
    pub fn table(&self) -> String {
        self.table_by(SortBy::SelfTime, usize::MAX)
    }

    /// The table in another order, with at most this many rows.
    pub fn table_by(&self, order: SortBy, limit: usize) -> String {
        render(self.key_averages(), order, limit)
    }

    /// The table with calls on arguments of other sizes kept apart.
    pub fn table_by_shape(&self, order: SortBy, limit: usize) -> String {
        render(self.key_averages_by_shape(), order, limit)
    }
}

fn sort(rows: &mut [ProfileRow], order: SortBy) {
    rows.sort_by_key(|r| {
        std::cmp::Reverse(match order {
            SortBy::SelfTime => r.own.as_nanos() as i128,
            SortBy::TotalTime => r.total.as_nanos() as i128,
            SortBy::Memory => i128::from(r.memory),
            SortBy::Calls => r.calls as i128,
        })
    });
}

/// `[[2, 3], [], [3]]`: the sizes of each argument.
fn shapes(e: &ProfileEvent) -> String {
    let list = |sizes: &[i64]| {
        let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
        format!("[{}]", sizes.join(", "))
    };
    let inputs: Vec<String> = e
        .inputs
        .iter()
        .map(|i| match &i.sizes[..] {
            [] => "[]".to_string(),
            [one] => list(one),
            many => format!("[{}]", many.iter().map(|s| list(s)).collect::<Vec<_>>().join(", ")),
        })
        .collect();
    format!("[{}]", inputs.join(", "))
}

/// Truncates a name that is too long for its column.
fn cut(name: &str) -> String {
    const LIMIT: usize = 55;
    if name.chars().count() <= LIMIT {
        return name.to_string();
    }
    let head: String = name.chars().take(LIMIT - 3).collect();
    format!("{head}...")
}

fn render(mut rows: Vec<ProfileRow>, order: SortBy, limit: usize) -> String {
    let all: Duration = rows.iter().map(|r| r.own).sum();
    sort(&mut rows, order);
    rows.truncate(limit);
    let share = |d: Duration| {
        let share = if all.is_zero() { 0.0 } else { d.as_secs_f64() / all.as_secs_f64() };
        format!("{:.2}%", share * 100.0)
    };
    let by_shape = rows.iter().any(|r| r.shapes.is_some());
    let mut header = vec![
        "Name",
        "Self CPU %",
        "Self CPU",
        "CPU total %",
        "CPU total",
        "CPU time avg",
        "CPU Mem",
        "Self CPU Mem",
        "# of Calls",
    ];
    if by_shape {
        header.push("Input Shapes");
    }
    let lines: Vec<Vec<String>> = rows
        .iter()
        .map(|r| {
            let mut line = vec![
                cut(&r.name),
                share(r.own),
                time(r.own),
                share(r.total),
                time(r.total),
                time(r.average()),
                memory(r.memory),
                memory(r.own_memory),
                r.calls.to_string(),
            ];
            line.extend(r.shapes.as_deref().map(cut));
            line
        })
        .collect();
    let widths: Vec<usize> = header
        .iter()
        .enumerate()
        .map(|(i, name)| {
            let cells = lines.iter().map(|l| l[i].chars().count());
            cells.chain([name.len(), 12]).max().unwrap_or(12)
        })
        .collect();
    let mut out = String::new();
    let rule: Vec<String> = widths.iter().map(|w| "-".repeat(*w)).collect();
    let mut line = |cells: &[String]| {
        let cells: Vec<String> =
            cells.iter().zip(&widths).map(|(c, w)| format!("{c:>w$}")).collect();
        // writing to a String cannot fail
        let _ = writeln!(out, "{}", cells.join("  "));
    };
    line(&rule);
    line(&header.iter().map(ToString::to_string).collect::<Vec<_>>());
    line(&rule);
    lines.iter().for_each(|l| line(l));
    line(&rule);
    let _ = writeln!(out, "Self CPU time total: {}", time(all));
    out
}

/// `12.345us`, `1.234ms`, `1.234s`.
fn time(d: Duration) -> String {
    let us = d.as_secs_f64() * 1e6;
    if us >= 1e6 {
        format!("{:.3}s", us / 1e6)
    } else if us >= 1e3 {
        format!("{:.3}ms", us / 1e3)
    } else {
        format!("{us:.3}us")
    }
}

/// `16 B`, `1.50 KB`, `-2.00 MB`.
fn memory(bytes: i64) -> String {
    const KB: f64 = 1024.0;
    let (b, size) = (bytes as f64, bytes.unsigned_abs() as f64);
    if size >= KB * KB * KB {
        format!("{:.2} GB", b / (KB * KB * KB))
    } else if size >= KB * KB {
        format!("{:.2} MB", b / (KB * KB))
    } else if size >= KB {
        format!("{:.2} KB", b / KB)
    } else {
        format!("{bytes} B")
    }
}
