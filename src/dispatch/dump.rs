//! What is registered, in c10's text formats.

use super::dispatcher::{all_operators, dispatcher};
use super::operator::OperatorHandle;
use super::table::{Layouts, Provenance, Registered, SLOTS};
use std::fmt::Write;
use straightline_catalog::key::DispatchKey;

/// The registrations of an operator: its schema and each kernel with its place, newest first at
/// each key. Fallbacks are not shown.
pub fn dump(op: OperatorHandle) -> String {
    let mut out = String::new();
    // writing to a string cannot fail
    let _ = write_dump(&mut out, op);
    out
}

fn write_dump(out: &mut String, op: OperatorHandle) -> std::fmt::Result {
    writeln!(out, "name: {}", op.name())?;
    match op.0.definition() {
        None => writeln!(out, "schema: (none)")?,
        Some(d) => {
            writeln!(out, "schema: {}", d.schema)?;
            writeln!(out, "debug: {}", d.site)?;
            let kind = if d.inferred { "CONSERVATIVE" } else { "FROM_SCHEMA" };
            writeln!(out, "alias analysis kind: {kind}")?;
        }
    }
    for (key, list) in op.0.kernels().iter() {
        for (i, record) in list.iter().enumerate() {
            let alias = if key.is_alias() { "[alias]" } else { "" };
            let inactive = if i > 0 { " (inactive)" } else { "" };
            write!(out, "{key}{alias}{inactive}: {} :: ", record.site)?;
            match record.kernel.signature() {
                Some(s) => write!(out, "{s}")?,
                None => out.push_str("(none)"),
            }
            out.push_str(" [ ");
            if record.kernel.is_fallthrough() {
                out.push_str("fallthrough ");
            }
            out.push_str("boxed ");
            if record.kernel.unboxed().is_some() {
                out.push_str("unboxed ");
            }
            out.push_str("]\n");
        }
    }
    Ok(())
}

/// The slots of an operator's table that hold a kernel, with the rule that chose it. Worked out
/// from the registrations, not read from the table.
pub fn dump_table(op: OperatorHandle) -> String {
    let mut out = String::new();
    let fallbacks = dispatcher().fallbacks();
    let kernels = op.0.kernels();
    let layout = Layouts::work_out(Registered::of(kernels.keys()), &fallbacks);
    for ((slot, fallback), (key, why)) in SLOTS.iter().zip(fallbacks).zip(layout) {
        let record = match why {
            Provenance::Fallback => fallback,
            _ => key.and_then(|k| Some(kernels.get(&k)?[0])),
        };
        let _ = match (record, why) {
            (Some(record), why) => {
                let skip = if record.kernel.is_fallthrough() { "fallthrough " } else { "" };
                writeln!(out, "{}: {skip}{} [{}]", slot.key, record.site, why.label())
            }
            (None, why @ Provenance::AmbiguousAutogradOther) => {
                writeln!(out, "{}: ambiguous_autogradother [{}]", slot.key, why.label())
            }
            (None, _) => Ok(()),
        };
    }
    out
}

/// The operators with a kernel at exactly this key, one per line; without a key, all operators.
pub fn dump_registrations(key: Option<DispatchKey>) -> String {
    all_operators()
        .into_iter()
        .filter(|op| key.is_none_or(|k| op.registers(k)))
        .map(|op| format!("{}\n", op.name()))
        .collect()
}
