//! Which operator works at which stage and for which dtypes.

use crate::report::{Report, Skips};
use crate::run::Mode;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use straightline::cuda::{self, Way};

const DTYPES: [&str; 12] =
    ["f32", "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool", "c64", "c128"];

/// Runs the vectors in all modes but on a GPU and writes the table: a line per operator with its tier, for
/// each dtype that PyTorch's vectors have the stages at which all cases pass (`e`ager, `m`eta,
/// `c`ompiled), and how it runs on a GPU, as the table had it.
pub(crate) fn write(
    out: &Path,
    operators: &Path,
    files: &[PathBuf],
    skips: &Skips,
) -> Result<(), String> {
    let run = |mode| {
        let mut report = Report::default();
        for file in files {
            report
                .run_file(file, mode, "", skips)
                .map_err(|e| format!("{}: {e}", file.display()))?;
        }
        Ok::<_, String>(report)
    };
    let stages = [('e', run(Mode::Eager)?), ('m', run(Mode::Meta)?), ('c', run(Mode::Compiled)?)];
    let list = std::fs::read_to_string(operators).map_err(|e| e.to_string())?;
    let before = std::fs::read_to_string(out).unwrap_or_default();
    let on_gpu = |op: &str| {
        let line = before.lines().find(|l| l.split('\t').next() == Some(op));
        line.and_then(|l| l.split('\t').nth(3)).unwrap_or("unchecked")
    };
    let mut text = String::new();
    for line in list.lines() {
        let (op, tier) = line.split_once('\t').ok_or("a line without a tier")?;
        if straightline::dispatch::operator(op).is_err() {
            // writing to a String cannot fail
            let _ = writeln!(text, "{op}\t{tier}\tmissing");
            continue;
        }
        let mut row = Vec::new();
        for dtype in DTYPES.into_iter().chain(["none"]) {
            let seen = |report: &Report| report.operators.get(op)?.dtypes.get(dtype).copied();
            if stages.iter().all(|(_, r)| seen(r).is_none()) {
                continue;
            }
            let works: String = stages
                .iter()
                .filter(|(_, r)| seen(r).is_some_and(|(passed, failed)| passed && !failed))
                .map(|(letter, _)| *letter)
                .collect();
            row.push(format!("{dtype}={works}"));
        }
        let row = if row.is_empty() { "unchecked".to_string() } else { row.join(" ") };
        let _ = writeln!(text, "{op}\t{tier}\t{row}\t{}", on_gpu(op));
    }
    std::fs::write(out, text).map_err(|e| format!("{}: {e}", out.display()))
}

/// Runs the vectors on the first GPU and writes how each operator ran there into the table's last column: the
/// ways of its calls, the most frequent first; `others` of one whose calls never reached the device as such.
pub(crate) fn write_ways(
    out: &Path,
    files: &[PathBuf],
    skips: &Skips,
    every: usize,
) -> Result<Report, String> {
    let mut report = Report { every, ..Report::default() };
    let run = || {
        files.iter().try_for_each(|file| {
            let ran = report.run_file(file, Mode::Cuda, "", skips);
            ran.map_err(|e| format!("{}: {e}", file.display()))
        })
    };
    let (ran, calls) = cuda::ways(run);
    ran?;
    let mut counts: BTreeMap<String, BTreeMap<Way, usize>> = BTreeMap::new();
    for (op, way) in calls {
        *counts.entry(op).or_default().entry(way).or_default() += 1;
    }
    let of = |op: &str| match counts.get(op) {
        Some(ways) => {
            let mut ways: Vec<_> = ways.iter().collect();
            ways.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            let names: Vec<String> = ways.iter().map(|(way, _)| way.to_string()).collect();
            names.join(", ")
        }
        None if report.operators.get(op).is_some_and(|t| t.passed > 0) => "others".to_string(),
        None => "unchecked".to_string(),
    };
    let table = std::fs::read_to_string(out).map_err(|e| format!("{}: {e}", out.display()))?;
    let mut text = String::new();
    for line in table.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let _ = match fields[..] {
            [op, tier, "missing", ..] => writeln!(text, "{op}\t{tier}\tmissing"),
            [op, tier, row, ..] => writeln!(text, "{op}\t{tier}\t{row}\t{}", of(op)),
            _ => writeln!(text, "{line}"),
        };
    }
    std::fs::write(out, text).map_err(|e| format!("{}: {e}", out.display()))?;
    Ok(report)
}
