//! Makes the module `ops::aten` of the catalogue's entries: a typed, documented wrapper for each
//! operator, and the table that registers them all; the methods of `Tensor` that entries ask
//! for; and the gradients that the derivative formulas give.

#[path = "build/composite.rs"]
mod composite;
#[path = "build/derivative.rs"]
mod derivative;
#[path = "build/docs.rs"]
mod docs;
#[path = "build/formula.rs"]
mod formula;
#[path = "build/kernels.rs"]
mod kernels;
#[path = "build/methods.rs"]
mod methods;
#[path = "build/op.rs"]
mod op;
#[path = "build/saved.rs"]
mod saved;

use kernels::{kernel_path, kernels};
use methods::Methods;
use op::{Declared, Table, held_around, whole};
use std::path::PathBuf;
use std::process::ExitCode;
use straightline_catalog::entry::{ENTRIES, Entry};

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    match generate() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            println!("cargo::error={}", e.replace('\n', " "));
            ExitCode::FAILURE
        }
    }
}

fn generate() -> Result<(), String> {
    let mut wrappers = String::new();
    let mut table = Table::default();
    let mut declared = Vec::new();
    for entry in ENTRIES {
        let written = match entry.declares {
            true => Declared::new(entry).map(|op| {
                op.wrapper(&mut wrappers);
                op.row(&mut table);
                declared.push(op);
            }),
            false => kernels_only(entry, &mut table),
        };
        written.map_err(|e| at(entry, &e))?;
    }
    let mut methods = Methods::new(&declared);
    for op in &declared {
        methods.add(op).map_err(|e| at(op.entry, &e))?;
    }
    let dir = std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    let write = |name, text| {
        std::fs::write(PathBuf::from(&dir).join(name), text).map_err(|e| e.to_string())
    };
    write("aten.rs", format!("{wrappers}\n{}", table.finish()))?;
    write("derivatives.rs", derivative::file()?)?;
    write("methods.rs", methods.finish())
}

fn at(entry: &Entry, e: &str) -> String {
    format!("{}:{}: {e}", entry.file, entry.line)
}

/// Registers the kernels of an entry that has the name of an operator and not its schema.
fn kernels_only(entry: &Entry, table: &mut Table) -> Result<(), String> {
    let mut rows = Vec::new();
    for (key, kernel) in kernels(entry)? {
        if key == "BackendSelect" {
            return Err("BackendSelect is generated from the schema: register it there".into());
        }
        let held = match !entry.op.facts().mutable && held_around(entry, &key, &kernel) {
            true => whole(&key, 0),
            false => String::new(),
        };
        rows.push((key, kernel_path(&kernel), held));
    }
    table.push(entry, &rows);
    Ok(())
}
