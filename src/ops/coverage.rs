//! Which operators there are, and what of them was found to agree with PyTorch.
//!
//! The table is generated: `cargo run --release --example conformance -- tests/data/public.jsonl.gz
//! tests/data/complex.jsonl.gz tests/data/more.jsonl.gz tests/data/derived.jsonl.gz
//! tests/data/samples.jsonl.gz tests/data/overloads.jsonl.gz tests/data/forms.jsonl.gz
//! tests/data/linalg.jsonl.gz --operators tests/data/operators.tsv --coverage src/ops/coverage.tsv`
//! runs PyTorch's vectors at all stages and writes down for which dtypes all of them pass.
//! `straightline ops --coverage` prints it.

use super::Tolerance;
use straightline_catalog::DType;

/// An operator that PyTorch programs call, and how far it goes here.
#[derive(Clone, Debug)]
pub struct Coverage {
    /// The full name with the overload.
    pub operator: &'static str,
    /// Why it is listed: `core` (PyTorch's core ATen set), `popular` and `used` (met in running
    /// models), `prims` (stands for a Prims IR operator), `derived` (in-place and `out` forms of
    /// those).
    pub tier: &'static str,
    /// Whether it is registered at all.
    pub here: bool,
    /// For each dtype with cases, the stages at which all of them pass.
    pub dtypes: Vec<(DType, Stages)>,
    /// How near to PyTorch's results ours are; `None` for what is not here.
    pub tolerance: Option<Tolerance>,
}

/// Where an operator agrees with PyTorch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stages {
    /// Called eagerly.
    pub eager: bool,
    /// On tensors that have shapes only.
    pub meta: bool,
    /// Captured and compiled.
    pub compiled: bool,
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
///
/// ```
/// use straightline::{DType, ops::coverage};
/// let table = coverage();
/// let add = table.iter().find(|c| c.operator == "aten::add.Tensor").ok_or("listed")?;
/// assert!(add.here && add.tier == "core");
/// assert!(add.dtypes.iter().any(|(d, s)| *d == DType::F32 && s.eager && s.meta && s.compiled));
/// # Ok::<(), &str>(())
/// ```
pub fn coverage() -> Vec<Coverage> {
    include_str!("coverage.tsv")
        .lines()
        .filter_map(row)
        .collect()
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
        tolerance: super::tolerance(operator),
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
            let here = crate::dispatch::operator(c.operator).is_ok();
            assert_eq!(here, c.here, "{}: generate the table again", c.operator);
        }
        let core = table.iter().filter(|c| c.tier == "core");
        let missing: Vec<_> = core.filter(|c| !c.here).map(|c| c.operator).collect();
        assert!(
            missing.is_empty(),
            "core operators are missing: {missing:?}"
        );
    }
}
