//! `bench --tables FILE`: the rows that `benches/peers/run` wrote as tables for docs/benchmarks.md.

use super::measured::{Machine, Measured, Results, best_ours, best_peer, from_file};
use super::report::duration;
use super::roofline::roofline;
use crate::error::Result;
use std::fmt::Write;
use std::path::Path;

/// Reads a file of JSON lines and writes a section for each instruction set and number of threads.
pub(super) fn markdown(path: &Path) -> Result<String> {
    from_file(path, sections)
}

fn sections(results: &Results) -> Result<String, String> {
    if results.machines.is_empty() {
        return Err("no line describes the machine: benches/peers/run writes it".to_owned());
    }
    let mut text = String::new();
    for machine in &results.machines {
        let of = |r: &&Measured| r.isa == machine.isa && r.threads == machine.threads;
        let rows: Vec<&Measured> = results.rows.iter().filter(of).collect();
        if rows.is_empty() {
            return Err(format!("nothing was measured with {}", machine.isa));
        }
        section(&mut text, machine, &rows);
    }
    Ok(text)
}

/// Different values in the order in which they first come.
fn distinct<'a, T: PartialEq>(rows: &[&'a Measured], of: impl Fn(&'a Measured) -> T) -> Vec<T> {
    let mut found = Vec::new();
    for row in rows {
        let value = of(row);
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// The quickest peer over the quicker of our modes: by medians, and the least and the greatest of
/// the rounds, in each of which both were measured.
struct Ratio<'a> {
    peer: &'a Measured,
    median: f64,
    least: f64,
    greatest: f64,
    /// The greater spread of the two: of a row's rounds, (greatest - least) / median.
    spread: f64,
}

fn ratio<'a>(rows: &[&'a Measured]) -> Option<Ratio<'a>> {
    let (peer, ours) = (best_peer(rows)?, best_ours(rows)?);
    let median = peer.us()? / ours.us()?;
    let rounds = || peer.rounds.iter().zip(&ours.rounds).map(|(p, o)| p / o);
    let spread = |row: &Measured| {
        let (low, high) = row
            .rounds
            .iter()
            .fold((f64::INFINITY, 0f64), |(low, high), us| (low.min(*us), high.max(*us)));
        row.us().map_or(0.0, |us| (high - low).max(0.0) / us)
    };
    Some(Ratio {
        peer,
        median,
        least: rounds().fold(median, f64::min),
        greatest: rounds().fold(median, f64::max),
        spread: spread(peer).max(spread(ours)),
    })
}

fn section(text: &mut String, machine: &Machine, rows: &[&Measured]) {
    // writing to a string does not fail
    macro_rules! put {
        ($($arg:tt)*) => { let _ = writeln!(text, $($arg)*); };
    }
    let isa = match machine.isa.as_str() {
        "avx512" => "AVX-512",
        "avx2" => "AVX2",
        other => other,
    };
    let plural = if machine.threads == 1 { "" } else { "s" };
    put!("### {isa}, {} thread{plural}\n", machine.threads);
    put!("{}\n", paragraph(machine, rows));
    let columns = distinct(rows, Measured::who);
    put!("| workload | {} | roofline | best peer / ours | spread |", columns.join(" | "));
    put!("|---|{}", "---|".repeat(columns.len() + 3));
    let (mut slower, mut unsure) = (Vec::new(), Vec::new());
    for workload in distinct(rows, |r| r.workload.as_str()) {
        let of: Vec<&Measured> = rows.iter().copied().filter(|r| r.workload == workload).collect();
        let cell = |who: &&str| match of.iter().find(|r| r.who() == *who) {
            Some(r) if r.us().is_some() && r.agrees == Some(false) => "other results".to_owned(),
            Some(r) => r.us().map_or("-".to_owned(), duration),
            None => "-".to_owned(),
        };
        let times: Vec<String> = columns.iter().map(cell).collect();
        let bound = roofline(workload, machine).map_or("-".to_owned(), |bound| {
            let share = best_ours(&of).and_then(Measured::us).map(|us| 100.0 * bound / us);
            format!("{} ({:.0} %)", duration(bound), share.unwrap_or(0.0))
        });
        let (mut compared, mut spread) = ("-".to_owned(), "-".to_owned());
        if let Some(r) = ratio(&of) {
            // as it is printed
            let is_slower = r.median < 0.995;
            let mark = if is_slower { "**" } else { "" };
            compared = format!("{mark}{:.2}{mark} ({:.2} to {:.2})", r.median, r.least, r.greatest);
            spread = format!("{:.0} %", 100.0 * r.spread);
            let line = (r.median, format!("`{workload}` {:.2} ({})", r.median, r.peer.who()));
            match r {
                Ratio { greatest, .. } if is_slower && greatest < 1.0 => slower.push(line),
                _ if is_slower => unsure.push(line),
                _ => {}
            }
        }
        put!("| `{workload}` | {} | {bound} | {compared} | {spread} |", times.join(" | "));
    }
    put!("");
    for (what, mut lines) in [
        ("Slower than the best peer in every round", slower),
        ("Slower by the medians, but not in every round", unsure),
    ] {
        lines.sort_by(|a, b| a.0.total_cmp(&b.0));
        let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
        let lines = if lines.is_empty() { "none".to_owned() } else { lines.join(", ") };
        put!("{what}: {lines}.\n");
    }
    first_calls(text, rows);
}

/// Where and how it was measured.
fn paragraph(machine: &Machine, rows: &[&Measured]) -> String {
    let [l1, l2, l3] = machine.caches.map(|bytes| bytes / 1024);
    let mut text = format!(
        "{}, {} processors, caches of {l1} KiB, {} MiB and {} MiB.",
        machine.cpu,
        machine.cpus,
        l2 / 1024,
        l3 / 1024
    );
    if let (Some(gflops), Some(b)) = (machine.gflops, machine.gbs) {
        let _ = write!(
            text,
            " Its limits as measured: {gflops:.0} GFLOP/s; {:.0}, {:.0} and {:.0} GB/s copied in the \
             caches, {:.0} in memory.",
            b.l1, b.l2, b.l3, b.dram
        );
    }
    let seconds = if machine.quick { 0.15 } else { 0.7 };
    let kept = if machine.threads == 1 { "one processor" } else { "as many processors" };
    let _ = write!(
        text,
        " Measured on {}, at a load of {} when it began: medians of {} rounds of {seconds} s, in each \
         of which everyone was measured in turn, kept to {kept}.",
        machine.date, machine.load, machine.rounds
    );
    let peers: Vec<&Measured> = rows.iter().copied().filter(|r| !r.is_ours()).collect();
    let mut releases = distinct(&peers, Measured::release);
    // a program that never started has said no version
    releases.retain(|r| !r.ends_with(' '));
    if !releases.is_empty() {
        let _ = write!(text, " Peers: {}.", releases.join(", "));
    }
    text
}

/// What the first call takes in those that compile.
fn first_calls(text: &mut String, rows: &[&Measured]) {
    let compile =
        |r: &&&Measured| matches!(r.mode.as_str(), "compiled" | "compile" | "session" | "jit");
    let rows: Vec<&Measured> = rows.iter().filter(compile).copied().collect();
    let columns = distinct(&rows, Measured::who);
    let mut lines = String::new();
    for workload in distinct(&rows, |r| r.workload.as_str()) {
        let cell = |who: &&str| {
            let of = rows.iter().find(|r| r.workload == workload && r.who() == *who);
            of.and_then(|r| r.compile_ms).map_or("-".to_owned(), |ms| duration(ms * 1e3))
        };
        let times: Vec<String> = columns.iter().map(cell).collect();
        if times.iter().any(|t| t != "-") {
            let _ = writeln!(lines, "| `{workload}` | {} |", times.join(" | "));
        }
    }
    if !lines.is_empty() {
        let _ = writeln!(
            text,
            "<details><summary>First calls: capture, compilation and the run</summary>\n\n\
             | workload | {} |\n|---|{}\n{lines}\n</details>\n",
            columns.join(" | "),
            "---|".repeat(columns.len())
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::measured::parse;

    const MACHINE: &str = "{\"framework\":\"machine\",\"isa\":\"avx2\",\"threads\":1,\
        \"date\":\"2026-01-02\",\"cpu\":\"C\",\"cpus\":2,\"load\":0.5,\
        \"caches\":[49152,2097152,33554432],\"rounds\":2,\"quick\":true,\"gflops\":100.0,\
        \"gbs\":{\"l1\":200,\"l2\":100,\"l3\":20,\"dram\":10}}\n";

    fn row(framework: &str, mode: &str, workload: &str, rounds: [f64; 2]) -> String {
        let us = (rounds[0] + rounds[1]) / 2.0;
        format!(
            "{{\"framework\":\"{framework}\",\"version\":\"1.0\",\"mode\":\"{mode}\",\"isa\":\"avx2\",\
             \"workload\":\"{workload}\",\"threads\":1,\"median_us\":{us},\"rounds\":[{},{}],\
             \"compile_ms\":2.0}}\n",
            rounds[0], rounds[1]
        )
    }

    #[test]
    fn the_ratio_is_that_of_rounds_and_what_is_slower_is_listed() {
        let text = MACHINE.to_owned()
            + &row("straightline", "compiled", "w4.sum1_4096", [1000.0, 1000.0])
            + &row("straightline", "eager", "w4.sum1_4096", [2000.0, 2000.0])
            + &row("torch", "eager", "w4.sum1_4096", [800.0, 900.0])
            + &row("jax", "jit", "w4.sum1_4096", [1500.0, 1500.0])
            + &row("straightline", "compiled", "w1.add", [1.0, 1.0])
            + &row("torch", "eager", "w1.add", [3.0, 3.0])
            + &row("straightline", "compiled", "w1.empty", [1.0, 1.0])
            + &row("torch", "eager", "w1.empty", [0.5, 1.1]);
        let text = sections(&parse(&text).unwrap()).unwrap();
        assert!(text.starts_with("### AVX2, 1 thread\n"), "{text}");
        let header = "| workload | compiled | eager | PyTorch | JAX | roofline | best peer / ours | spread |";
        assert!(text.contains(header), "{text}");
        let line = "| `w4.sum1_4096` | 1.00 ms | 2.00 ms | 850 µs | 1.50 ms | 6.71 ms (671 %) | \
                    **0.85** (0.80 to 0.90) | 12 % |";
        assert!(text.contains(line), "{text}");
        assert!(
            text.contains(
                "| `w1.add` | 1.00 µs | - | 3.00 µs | - | - | 3.00 (3.00 to 3.00) | 0 % |"
            )
        );
        assert!(text.contains("in every round: `w4.sum1_4096` 0.85 (PyTorch).\n"), "{text}");
        assert!(text.contains("but not in every round: `w1.empty` 0.80 (PyTorch).\n"), "{text}");
        assert!(text.contains("Peers: PyTorch 1.0, JAX 1.0."), "{text}");
        assert!(text.contains("| `w4.sum1_4096` | 2.00 ms | 2.00 ms |"), "first calls: {text}");
    }

    #[test]
    fn rows_need_the_machine() {
        let rows = row("jax", "jit", "w1.add", [1.0, 1.0]);
        assert!(sections(&parse(&rows).unwrap()).unwrap_err().contains("machine"));
        assert!(sections(&parse(MACHINE).unwrap()).unwrap_err().contains("nothing"));
    }

    /// The tables in docs must match their numbers: write them again after changing either.
    #[test]
    fn the_tables_in_docs_are_those_of_the_numbers_beside_them() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let written = markdown(&docs.join("benchmarks.jsonl")).unwrap();
        let document = std::fs::read_to_string(docs.join("benchmarks.md")).unwrap();
        let (_, rest) = document.split_once("<!-- peers: begin -->\n").unwrap();
        let (kept, _) = rest.split_once("<!-- peers: end -->").unwrap();
        assert!(
            written.trim() == kept.trim(),
            "benches/peers/run --no-measure --document --out docs/benchmarks.jsonl"
        );
    }
}
