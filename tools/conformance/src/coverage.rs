//! Which operator works at which stage and for which dtypes.

use crate::report::{Report, Skips, Tally};
use crate::run::Mode;
use std::collections::{BTreeMap, BTreeSet};
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

/// Runs the vectors on the first GPU and writes how each operator ran there into the table's last column, what
/// is so of most cases first: `others` of what is made of other operators, `CPU` also of what only has some
/// part there.
pub(crate) fn write_ways(
    out: &Path,
    files: &[PathBuf],
    skips: &Skips,
    every: usize,
) -> Result<BTreeMap<String, Tally>, String> {
    let mut counts: BTreeMap<String, BTreeMap<Way, usize>> = BTreeMap::new();
    let around = |op: &str, case: &mut dyn FnMut()| {
        let ((), calls) = cuda::ways(case);
        let own = calls.iter().rev().find(|(name, _)| name == op).map(|(_, way)| *way);
        let on_cpu = calls.iter().find(|(_, way)| *way == Way::Cpu).map(|(_, way)| *way);
        let ways: BTreeSet<Way> = [own.unwrap_or(Way::Others)].into_iter().chain(on_cpu).collect();
        for way in ways {
            *counts.entry(op.to_string()).or_default().entry(way).or_default() += 1;
        }
    };
    let mut report = Report { every, around: Some(Box::new(around)), ..Report::default() };
    for file in files {
        let ran = report.run_file(file, Mode::Cuda, "", skips);
        ran.map_err(|e| format!("{}: {e}", file.display()))?;
    }
    let operators = std::mem::take(&mut report.operators);
    drop(report);
    let of = |op: &str| match counts.get(op) {
        Some(ways) => {
            let mut ways: Vec<_> = ways.iter().collect();
            ways.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            let names: Vec<String> = ways.iter().map(|(way, _)| way.to_string()).collect();
            names.join(", ")
        }
        None => "unchecked".to_string(),
    };
    let table = std::fs::read_to_string(out).map_err(|e| format!("{}: {e}", out.display()))?;
    let mut text = String::new();
    for line in table.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        // writing to a String cannot fail
        let _ = match fields[..] {
            [op, tier, "missing", ..] => writeln!(text, "{op}\t{tier}\tmissing"),
            [op, tier, row, ..] => writeln!(text, "{op}\t{tier}\t{row}\t{}", of(op)),
            _ => writeln!(text, "{line}"),
        };
    }
    std::fs::write(out, text).map_err(|e| format!("{}: {e}", out.display()))?;
    Ok(operators)
}
