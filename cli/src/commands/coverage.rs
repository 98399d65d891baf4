//! `ops --coverage`: which of PyTorch's operators work here.

use crate::coverage::{Coverage, Stages, coverage};
use crate::error::{CliError, Result};
use comfy_table::Table;
use comfy_table::presets::{ASCII_MARKDOWN, NOTHING};
use std::io::Write;
use straightline::DType;

/// Dtypes for which a stage works, in few words.
fn dtypes(c: &Coverage, stage: impl Fn(&Stages) -> bool) -> String {
    let (yes, no): (Vec<_>, Vec<_>) = c.dtypes.iter().partition(|(_, s)| stage(s));
    let names = |l: &[&(DType, Stages)]| {
        let names: Vec<_> = l.iter().map(|(d, _)| d.to_string()).collect();
        names.join(" ")
    };
    match (&yes[..], &no[..]) {
        ([], []) => "not checked".to_owned(),
        (_, []) => names(&yes),
        ([], _) => format!("not: {}", names(&no)),
        _ => format!("{}; not: {}", names(&yes), names(&no)),
    }
}

pub(crate) fn print(only: &str, markdown: bool, out: &mut dyn Write) -> Result<()> {
    let all = coverage();
    let rows: Vec<&Coverage> = all.iter().filter(|c| c.operator.contains(only)).collect();
    if rows.is_empty() {
        return Err(CliError::Usage(format!(
            "no operator of the table contains `{only}`; `straightline ops --coverage` prints all"
        )));
    }
    let mut table = Table::new();
    table.load_style(if markdown { ASCII_MARKDOWN } else { NOTHING });
    table.set_header(["operator", "tier", "tolerance", "eager", "meta", "compiled", "on a GPU"]);
    for c in &rows {
        let class = c.tolerance.map_or(String::new(), |t| format!("{t:?}").to_lowercase());
        let cell = |stage: fn(&Stages) -> bool| match c.here {
            true => dtypes(c, stage),
            false => "missing".to_owned(),
        };
        table.add_row([
            c.operator.to_owned(),
            c.tier.to_owned(),
            class,
            cell(|s| s.eager),
            cell(|s| s.meta),
            cell(|s| s.compiled),
            c.gpu.to_owned(),
        ]);
    }
    writeln!(out, "{table}")?;
    let here = rows.iter().filter(|c| c.here).count();
    let whole =
        |c: &&&Coverage| c.here && c.dtypes.iter().all(|(_, s)| s.eager && s.meta && s.compiled);
    let complete = rows.iter().filter(whole).count();
    writeln!(
        out,
        "\n{} operators: {here} are here, {complete} of them pass all of PyTorch's cases at all stages",
        rows.len()
    )?;
    Ok(())
}
