//! Which operator works at which stage and for which dtypes.

use crate::report::{Report, Skips};
use crate::run::Mode;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const DTYPES: [&str; 12] =
    ["f32", "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool", "c64", "c128"];

/// Runs the vectors in all modes and writes the table: a line per operator with its tier, and for
/// each dtype that PyTorch's vectors have the stages at which all cases pass (`e`ager, `m`eta,
/// `c`ompiled).
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
        let _ = writeln!(text, "{op}\t{tier}\t{row}");
    }
    std::fs::write(out, text).map_err(|e| format!("{}: {e}", out.display()))
}
