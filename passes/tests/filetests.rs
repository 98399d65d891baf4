//! Runs the files under `tests/filetests`: graph text, a command, and what must come out.
//!
//! A file holds one or more cases. A case starts at its `// run:` line:
//!
//! ```text
//! // run: rewrite simplify
//! // fires: mul_one
//! graph(%x: f32[2]) {
//!   %0: f32[2] = aten::mul.Scalar(%x, other=1)
//!   return %0
//! }
//! // check: return %x
//! ```
//!
//! Commands:
//!
//! - `parse`: the text parses, and what prints parses to the same text again;
//! - `verify`: parses and verifies;
//! - `rewrite SET,...`: rewrites with the rule sets `decompose`, `simplify`, `fast_math` (or
//!   `none`); `keep=OP` keeps a composite. Rewriting the result again must change nothing;
//! - `schedule`: rewrites with the rules that are on by default, schedules and verifies; what is
//!   compared is the schedule: its kernels, and a line that begins with `call` for each call of a
//!   runtime kernel.
//!
//! Expectations, compared with the printed graph (runs of blanks count as one):
//!
//! - `// check: TEXT`: a line that contains it, below the line of the check before;
//! - `// not: TEXT`: no line contains it;
//! - `// error: TEXT`: the command fails with a message that contains it;
//! - `// fires: RULE`, `// quiet: RULE`: the rule changed something, or nothing.
//!
//! `// define: SCHEMA`, anywhere in a file, defines an operator from outside for all of its cases.
//!
//! The blocks of `docs/ir.md` that have a `// run:` line are cases like any others; lines count
//! from the first one of the block.
//!
//! Every rule has a case where it fires and one where it does not; the trial `coverage` says which
//! are missing.

use libtest_mimic::{Arguments, Failed, Trial};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use straightline_passes::ir::Op;
use straightline_passes::ir::graph::Graph;
use straightline_passes::ir::verify::verify;
use straightline_passes::rewrite::all_rules;
use straightline_passes::rewrite::{RewriteOptions, RewriteReport, rewrite};
use straightline_passes::schedule::{ScheduleOptions, schedule, verify_schedule};

/// One case of a file.
#[derive(Clone, Debug)]
struct Case {
    /// Line of the `// run:`.
    line: usize,
    command: String,
    /// The file's text up to the end of the case, everything before the case blanked out, so that
    /// places in messages are those of the file.
    text: String,
    directives: Vec<(String, String)>,
}

const DIRECTIVES: [&str; 5] = ["check", "not", "error", "fires", "quiet"];

fn cases(text: &str) -> Result<Vec<Case>, String> {
    let lines: Vec<&str> = text.lines().collect();
    let directive = |line: &str| -> Option<(String, String)> {
        let (key, value) = line.trim_start().strip_prefix("//")?.split_once(':')?;
        Some((key.trim().to_string(), value.trim().to_string()))
    };
    // operators from outside that the file's graphs call
    for (key, schema) in lines.iter().filter_map(|l| directive(l)) {
        if key == "define" {
            let schema = (schema.parse()).map_err(|e| format!("`{schema}`: {e}"))?;
            Op::define(&schema, &[] as &[&str]);
        }
    }
    let starts: Vec<usize> =
        (0..lines.len()).filter(|i| directive(lines[*i]).is_some_and(|d| d.0 == "run")).collect();
    if starts.is_empty() {
        return Err("no `// run:` line".to_string());
    }
    let mut out = Vec::new();
    for (k, &start) in starts.iter().enumerate() {
        let end = starts.get(k + 1).copied().unwrap_or(lines.len());
        let found: Vec<_> = (lines[start..end].iter()).filter_map(|l| directive(l)).collect();
        let expectations: Vec<_> = (found[1..].iter())
            .filter(|(key, _)| DIRECTIVES.contains(&key.as_str()))
            .cloned()
            .collect();
        out.push(Case {
            line: start + 1,
            command: found[0].1.clone(),
            text: "\n".repeat(start) + &lines[start..end].join("\n"),
            directives: expectations,
        });
    }
    Ok(out)
}

fn named(op: &str) -> Result<Op, String> {
    Op::named(op).ok_or_else(|| format!("there is no operator `{op}`"))
}

fn options(sets: &str) -> Result<RewriteOptions, String> {
    let mut options = RewriteOptions {
        // a case is about what rules do, not about how busy the machine is
        time_limit: std::time::Duration::from_secs(60),
        ..RewriteOptions::none()
    };
    for word in sets.split([',', ' ']).filter(|w| !w.is_empty()) {
        match word {
            "decompose" => options.decompose = true,
            "simplify" => options.simplify = true,
            "fast_math" => options.fast_math = true,
            "none" => {}
            _ => match word.strip_prefix("keep=") {
                Some(op) => options.keep.push(named(op)?),
                None => return Err(format!("`{word}` is no rule set")),
            },
        }
    }
    Ok(options)
}

/// Carries out the command: the printed graph, with the report of a rewrite.
fn execute(case: &Case) -> Result<(String, Option<RewriteReport>), String> {
    let graph = Graph::parse(&case.text).map_err(|e| e.to_string())?;
    let (command, rest) = (case.command.split_once(' ')).unwrap_or((&case.command, ""));
    match command {
        "parse" => {
            let text = graph.to_string();
            let again = Graph::parse(&text).map_err(|e| format!("printed text: {e}"))?;
            if again.to_string() != text {
                return Err(format!("prints differently again:\n{text}\n{again}"));
            }
            Ok((text, None))
        }
        "verify" => {
            verify(&graph).map_err(|e| e.to_string())?;
            Ok((graph.to_string(), None))
        }
        "rewrite" => {
            let options = options(rest)?;
            let (out, report) = rewrite(&graph, &options).map_err(|e| e.to_string())?;
            let (again, _) = rewrite(&out, &options).map_err(|e| e.to_string())?;
            if again.to_string() != out.to_string() {
                return Err(format!("a second rewrite changes the result:\n{out}\n{again}"));
            }
            Ok((out.to_string(), Some(report)))
        }
        "schedule" => {
            let options = options("decompose simplify")?;
            let (graph, _) = rewrite(&graph, &options).map_err(|e| e.to_string())?;
            let plan = schedule(&graph, &ScheduleOptions::default()).map_err(|e| e.to_string())?;
            verify_schedule(&plan).map_err(|e| e.to_string())?;
            Ok((plan.to_string(), None))
        }
        _ => Err(format!("`{command}` is no command")),
    }
}

fn squeezed(s: &str) -> String {
    s.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn check(case: &Case, path: &Path) -> Result<(), String> {
    let at = |message: String| format!("{}:{}: {message}", path.display(), case.line);
    let errors: Vec<&str> =
        (case.directives.iter()).filter(|d| d.0 == "error").map(|d| d.1.as_str()).collect();
    let (text, report) = match execute(case) {
        Err(message) if errors.is_empty() => return Err(at(message)),
        Err(message) => {
            return match errors.iter().find(|e| !message.contains(**e)) {
                Some(e) => Err(at(format!("the error does not say `{e}`:\n{message}"))),
                None => Ok(()),
            };
        }
        Ok((text, _)) if !errors.is_empty() => {
            return Err(at(format!("expected an error, came out:\n{text}")));
        }
        Ok(out) => out,
    };
    let lines: Vec<String> = text.lines().map(squeezed).collect();
    let mut from = 0;
    for (key, value) in &case.directives {
        let value = squeezed(value);
        let fired = report.as_ref().map_or(0, |r| r.count(&value));
        match key.as_str() {
            "check" => match lines[from..].iter().position(|l| l.contains(&value)) {
                Some(i) => from += i + 1,
                None => {
                    return Err(at(format!(
                        "no line (below the last check) has `{value}`:\n{text}"
                    )));
                }
            },
            "not" if lines.iter().any(|l| l.contains(&value)) => {
                return Err(at(format!("a line has `{value}`:\n{text}")));
            }
            "fires" if fired == 0 => return Err(at(format!("`{value}` did not fire:\n{text}"))),
            "quiet" if fired > 0 => return Err(at(format!("`{value}` fired:\n{text}"))),
            _ => {}
        }
    }
    Ok(())
}

fn files(folder: &Path, out: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files(&path, out)?;
        } else if path.extension().is_some_and(|e| e == "sl") {
            out.push(path);
        }
    }
    out.sort();
    Ok(())
}

/// Every rule is named by a `fires` and by a `quiet`, and every name is a rule's.
fn coverage(cases: &[Case]) -> Result<(), String> {
    let named = |key: &str| -> HashSet<String> {
        (cases.iter().flat_map(|c| &c.directives))
            .filter(|d| d.0 == key)
            .map(|d| d.1.clone())
            .collect()
    };
    let (fires, quiet) = (named("fires"), named("quiet"));
    let rules: HashSet<&str> = all_rules().map(|r| r.name).collect();
    let mut wrong = Vec::new();
    for rule in all_rules() {
        if !fires.contains(rule.name) {
            wrong.push(format!("no case where `{}` fires", rule.name));
        }
        if !quiet.contains(rule.name) {
            wrong.push(format!("no case where `{}` must not fire", rule.name));
        }
    }
    for name in fires.union(&quiet).filter(|n| !rules.contains(n.as_str())) {
        wrong.push(format!("`{name}` is no rule"));
    }
    wrong.sort();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// The cases of a page of documentation, each named after the line that it begins on.
fn blocks(page: &Path) -> Vec<(PathBuf, Result<String, String>)> {
    let text = match std::fs::read_to_string(page) {
        Ok(text) => text,
        Err(e) => return vec![(page.to_path_buf(), Err(e.to_string()))],
    };
    let mut found = Vec::new();
    let mut block: Option<(usize, Vec<&str>)> = None;
    for (i, line) in text.lines().enumerate() {
        match &mut block {
            None if line == "```text" => block = Some((i + 2, Vec::new())),
            None => {}
            Some((start, lines)) if line == "```" => {
                if lines.iter().any(|l| l.starts_with("// run:")) {
                    let name = format!("docs/ir.md:{start}");
                    found.push((PathBuf::from(name), Ok(lines.join("\n"))));
                }
                block = None;
            }
            Some((_, lines)) => lines.push(line),
        }
    }
    if found.is_empty() {
        found.push((page.to_path_buf(), Err("no block is a case".to_string())));
    }
    found
}

fn main() {
    let arguments = Arguments::from_args();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/filetests");
    let mut paths = Vec::new();
    if let Err(e) = files(&root, &mut paths) {
        eprintln!("cannot read {}: {e}", root.display());
        std::process::exit(1);
    }
    let mut texts: Vec<(PathBuf, Result<String, String>)> = (paths.into_iter())
        .map(|path| {
            let short = path.strip_prefix(&root).unwrap_or(&path).to_path_buf();
            (short, std::fs::read_to_string(&path).map_err(|e| e.to_string()))
        })
        .collect();
    texts.extend(blocks(&root.join("../../docs/ir.md")));
    let mut trials = Vec::new();
    let mut all = Vec::new();
    for (short, text) in texts {
        let name = short.display().to_string();
        let parsed = text.and_then(|text| cases(&text));
        if let Ok(cases) = &parsed {
            all.extend(cases.iter().cloned());
        }
        trials.push(Trial::test(name, move || {
            let failures: Vec<String> =
                (parsed?.iter()).filter_map(|case| check(case, &short).err()).collect();
            if failures.is_empty() { Ok(()) } else { Err(Failed::from(failures.join("\n"))) }
        }));
    }
    trials.push(Trial::test("coverage", move || Ok(coverage(&all)?)));
    libtest_mimic::run(&arguments, trials).exit();
}
