//! Turns the files of `src/ops/native_functions` into the module `ops::aten`: a typed, documented wrapper
//! for each operator, and the function that registers them all.

#[allow(dead_code, unreachable_pub, reason = "shared with the crate")]
#[path = "src/dispatch/key.rs"]
mod key;

#[path = "build/entry.rs"]
mod entry;
#[path = "build/op.rs"]
mod op;

use entry::{Entry, Tolerance, kernel_path, kernels};
use op::{Op, Table, reads_in_steps};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

const SOURCES: &str = "src/ops/native_functions";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed={SOURCES}");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=src/dispatch/key.rs");
    match generate() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            println!("cargo::error={}", e.replace('\n', " "));
            ExitCode::FAILURE
        }
    }
}

/// The files of operators, in the order of their names.
fn sources() -> Result<Vec<PathBuf>, String> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(SOURCES)
        .map_err(|e| format!("{SOURCES}: {e}"))?
        .map(|entry| entry.map(|e| e.path()).map_err(|e| e.to_string()))
        .collect::<Result<_, _>>()?;
    files.retain(|f| f.extension().is_some_and(|e| e == "yaml"));
    files.sort();
    Ok(files)
}

fn generate() -> Result<(), String> {
    let mut wrappers = String::new();
    let mut table = Table::default();
    let mut seen = BTreeSet::new();
    let mut declared = BTreeSet::new();
    let mut more = Vec::new();
    let mut tolerances = String::new();
    let waiting = waiting_variants()?;
    for file in sources()? {
        let file = file.to_str().ok_or("a file name that is not UTF-8")?;
        let of_file = |e: String| format!("{file}: {e}");
        let text = std::fs::read_to_string(file).map_err(|e| of_file(e.to_string()))?;
        let entries: Vec<Entry> =
            yaml_serde::from_str(&text).map_err(|e| of_file(e.to_string()))?;
        for entry in &entries {
            if entry.variant_of.is_some() && waiting.contains(&entry.func) {
                continue;
            }
            if !entry.func.contains('(') {
                // kernels of a family for an operator that another file declares
                let in_entry = |e: String| of_file(format!("in `{}`: {e}", entry.func));
                kernels_only(entry, &text, file, &mut table).map_err(in_entry)?;
                more.push((file.to_string(), entry.func.clone()));
                continue;
            }
            let op = Op::new(entry).map_err(|e| of_file(format!("in `{}`: {e}", entry.func)))?;
            if !seen.insert(op.function.clone()) {
                return Err(of_file(format!("`{}` is declared twice", entry.func)));
            }
            declared.insert(op.name());
            if entry.tolerance != Tolerance::default() {
                let (name, class) = (op.schema.name.to_string(), entry.tolerance);
                let _ = writeln!(tolerances, "    ({name:?}, super::Tolerance::{class:?}),");
            }
            op.wrapper(&mut wrappers);
            op.row((file, line_of(entry, &text)), &mut table);
        }
    }
    if let Some((file, name)) = more.iter().find(|(_, name)| !declared.contains(name)) {
        return Err(format!(
            "{file}: `{name}` has kernels here and no schema anywhere"
        ));
    }
    let out = format!(
        "{wrappers}\n\
         {}\n\
         /// The classes that are not the default.\n\
         pub(super) static TOLERANCES: &[(&str, super::Tolerance)] = &[\n{tolerances}];\n",
        table.finish()
    );
    let dir = std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    std::fs::write(PathBuf::from(dir).join("aten.rs"), out).map_err(|e| e.to_string())
}

/// The entries with `variant_of` that stand back: the functional variant is declared nowhere, or another entry declares the
/// operator itself.
fn waiting_variants() -> Result<BTreeSet<String>, String> {
    let name = |func: &str| func.split('(').next().unwrap_or("").to_string();
    let (mut variants, mut others) = (Vec::new(), BTreeSet::new());
    for file in sources()? {
        let text = std::fs::read_to_string(&file).map_err(|e| e.to_string())?;
        let entries: Vec<Entry> =
            yaml_serde::from_str(&text).map_err(|e| format!("{}: {e}", file.display()))?;
        for entry in entries {
            if let Some(of) = entry.variant_of {
                variants.push((entry.func, of));
            } else if entry.func.contains('(') {
                others.insert(name(&entry.func));
            }
        }
    }
    Ok(variants
        .into_iter()
        .filter(|(func, of)| !others.contains(of) || others.contains(&name(func)))
        .map(|(func, _)| func)
        .collect())
}

/// The line of an entry: the dispatcher's dumps name it.
fn line_of(entry: &Entry, text: &str) -> usize {
    text.lines()
        .position(|l| l.strip_prefix("- func: ") == Some(entry.func.as_str()))
        .map_or(0, |i| i + 1)
}

/// Registers the kernels of an entry that has the name of an operator and not its schema.
fn kernels_only(entry: &Entry, text: &str, file: &str, table: &mut Table) -> Result<(), String> {
    if !entry.tags.is_empty() || entry.doc.is_some() {
        return Err("tags and documentation belong to the entry with the schema".into());
    }
    let mut rows = Vec::new();
    for (key, kernel) in kernels(entry)? {
        if key == "BackendSelect" {
            return Err("BackendSelect is generated from the schema: register it there".into());
        }
        let functional = !entry.func.contains("out") && !entry.func.ends_with('_');
        let whole = match functional && reads_in_steps(&key, &kernel) {
            true => ".whole(0)",
            false => "",
        };
        rows.push((key, kernel_path(&kernel), whole.to_string()));
    }
    let at = (file, line_of(entry, text));
    table.push(at, &entry.func, "None", "None", &rows);
    Ok(())
}
