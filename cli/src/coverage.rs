//! Which operators there are, and what of them was found to agree with PyTorch.
//!
//! The table is generated: `cargo run --release -p straightline-conformance -- tests/data/public.jsonl.gz
//! tests/data/complex.jsonl.gz tests/data/more.jsonl.gz tests/data/derived.jsonl.gz
//! tests/data/samples.jsonl.gz tests/data/overloads.jsonl.gz tests/data/forms.jsonl.gz
//! tests/data/linalg.jsonl.gz --operators tests/data/operators.tsv --coverage cli/src/coverage.tsv`
//! runs PyTorch's vectors at all stages and writes down for which dtypes all of them pass.
//! `straightline ops --coverage` prints it. The last column, how operators run on a GPU, is written by the
//! same command with `--mode cuda`, on a machine with one or on the mock of one.

use straightline::DType;
use straightline::ops::Tolerance;

/// An operator that PyTorch programs call, and how far it goes here.
#[derive(Clone, Debug)]
pub(crate) struct Coverage {
    /// The full name with the overload.
    pub(crate) operator: &'static str,
    /// Why it is listed: `core` (PyTorch's core ATen set), `popular` and `used` (met in running
    /// models), `prims` (stands for a Prims IR operator), `derived` (in-place and `out` forms of
    /// those).
    pub(crate) tier: &'static str,
    /// Whether it is registered at all.
    pub(crate) here: bool,
    /// For each dtype with cases, the stages at which all of them pass.
    pub(crate) dtypes: Vec<(DType, Stages)>,
    /// How calls on a GPU run: as generated `loops`, by a `kernel` of the operator's own, as a `view` (or by
    /// making memory alone), by `others`, on the `CPU`; the most frequent first.
    pub(crate) gpu: &'static str,
    /// How near to PyTorch's results ours are; `None` for what is not here.
    pub(crate) tolerance: Option<Tolerance>,
}

/// Where an operator agrees with PyTorch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Stages {
    /// Called eagerly.
    pub(crate) eager: bool,
    /// On tensors that have shapes only.
    pub(crate) meta: bool,
    /// Captured and compiled.
    pub(crate) compiled: bool,
}

impl Stages {
    fn parse(letters: &str) -> Stages {
        Stages {
            eager: letters.contains('e'),
            meta: letters.contains('m'),
            compiled: letters.contains('c'),
        }
    }
}

/// The table, core operators first.
pub(crate) fn coverage() -> Vec<Coverage> {
    include_str!("coverage.tsv").lines().filter_map(row).collect()
}

fn row(line: &'static str) -> Option<Coverage> {
    let mut parts = line.split('\t');
    let (operator, tier, rest) = (parts.next()?, parts.next()?, parts.next()?);
    Some(Coverage {
        operator,
        tier,
        here: rest != "missing",
        dtypes: rest
            .split(' ')
            .filter_map(|cell| cell.split_once('='))
            .filter_map(|(dtype, letters)| Some((DType::from_name(dtype)?, Stages::parse(letters))))
            .collect(),
        gpu: parts.next().unwrap_or_default(),
        tolerance: straightline::ops::tolerance(operator),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_which_operators_are_here() {
        let table = coverage();
        assert!(table.len() > 800);
        for c in &table {
            let here = straightline::dispatch::operator(c.operator).is_ok();
            assert_eq!(here, c.here, "{}: generate the table again", c.operator);
        }
        let core = table.iter().filter(|c| c.tier == "core");
        let missing: Vec<_> = core.filter(|c| !c.here).map(|c| c.operator).collect();
        assert!(missing.is_empty(), "core operators are missing: {missing:?}");
    }
}
