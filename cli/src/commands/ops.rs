//! `ops`: what is registered with the dispatcher.

use super::coverage;
use crate::error::{CliError, Result};
use std::io::Write;
use straightline::dispatch::{
    DispatchKey, OperatorHandle, all_operators, dump, dump_registrations, dump_table,
    similar_operators,
};

/// Prints registered operators: all names, or the registrations of one
#[derive(Debug, clap::Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Options {
    /// An operator: aten::add.Tensor, add.Tensor, or add for all overloads
    name: Option<String>,
    /// The dispatch table instead of the registrations: the kernel in each slot, and why that one
    #[arg(long, requires = "name")]
    table: bool,
    /// Only what is registered at this dispatch key (CPU, AutogradCPU, CompositeImplicitAutograd)
    #[arg(long, value_name = "KEY")]
    key: Option<DispatchKey>,
    /// Which of PyTorch's operators work here: by dtype, eagerly (e), on Meta tensors (m), compiled
    /// (c). With a name, only those that contain it
    #[arg(long, conflicts_with_all = ["table", "key"])]
    coverage: bool,
    /// The table of --coverage as Markdown
    #[arg(long, requires = "coverage")]
    markdown: bool,
}

pub(crate) fn run(options: &Options, out: &mut dyn Write) -> Result<()> {
    if options.coverage {
        let only = options.name.as_deref().unwrap_or("");
        return coverage::print(only, options.markdown, out);
    }
    let Some(name) = &options.name else {
        write!(out, "{}", dump_registrations(options.key))?;
        return Ok(());
    };
    for (i, op) in find(name)?.into_iter().enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        let text = if options.table {
            // the table does not name its operator
            format!("name: {}\n{}", op.name(), dump_table(op))
        } else {
            dump(op)
        };
        let Some(key) = options.key else {
            write!(out, "{text}")?;
            continue;
        };
        let lines: Vec<&str> = text.lines().filter(|l| is_of_key(l, key)).collect();
        writeln!(out, "name: {}", op.name())?;
        match lines[..] {
            [] => writeln!(out, "nothing at {key}")?,
            _ => writeln!(out, "{}", lines.join("\n"))?,
        }
    }
    Ok(())
}

/// Lines begin with their key: `CPU: ...`, `CompositeImplicitAutograd[alias]: ...`,
/// `CPU (inactive): ...`.
fn is_of_key(line: &str, key: DispatchKey) -> bool {
    line.strip_prefix(&key.to_string()).is_some_and(|rest| rest.starts_with([':', '[', ' ']))
}

/// The operators that a name stands for: an overload by its full name, or every overload of a base
/// name.
fn find(name: &str) -> Result<Vec<OperatorHandle>> {
    let full = if name.contains("::") { name.to_owned() } else { format!("aten::{name}") };
    let all = all_operators();
    let overload = format!("{full}.");
    let found: Vec<OperatorHandle> = (all.iter().copied())
        .filter(|op| {
            let name = op.name().to_string();
            name == full || name.starts_with(&overload)
        })
        .collect();
    if found.is_empty() {
        return Err(unknown(name, &full));
    }
    Ok(found)
}

fn unknown(name: &str, full: &str) -> CliError {
    let near = similar_operators(full);
    let hint = if near.is_empty() {
        "`straightline ops` lists all".to_owned()
    } else {
        format!("did you mean {}?", near.join(", "))
    };
    CliError::Usage(format!("no operator is called `{name}`; {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_key() {
        assert!(is_of_key("CPU: here :: f [ boxed ]", DispatchKey::CPU));
        assert!(is_of_key("CPU (inactive): here", DispatchKey::CPU));
        assert!(!is_of_key("AutogradCPU: here", DispatchKey::CPU));
        assert!(!is_of_key("CPUx: here", DispatchKey::CPU));
    }

    #[test]
    fn names_short_and_full() {
        let names = |name: &str| -> Vec<String> {
            let found = find(name).unwrap();
            found.iter().map(|op| op.name().to_string()).collect()
        };
        assert_eq!(names("add.Tensor"), ["aten::add.Tensor"]);
        assert_eq!(names("aten::add.Tensor"), ["aten::add.Tensor"]);
        assert!(names("add").len() >= 2);
        let error = find("add.Tensr").err().unwrap().to_string();
        assert!(error.contains("aten::add.Tensor"), "{error}");
    }
}
