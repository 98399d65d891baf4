//! Names of operators that may be meant by one that is not there.

use super::dispatcher::{all_operators, overloads};

/// So many are worth reading.
const MOST: usize = 5;

/// Up to five operators that may be meant by a name that no operator has: the overloads of that name,
/// those of that name in a namespace, or else names that differ by a few letters, the nearest first.
///
/// ```
/// use straightline::dispatch::similar_operators;
///
/// assert_eq!(similar_operators("aten::linaer")[0], "aten::linear");
/// assert!(similar_operators("aten::add").contains(&"aten::add.Tensor".to_string()));
/// ```
pub fn similar_operators(name: &str) -> Vec<String> {
    let defined = || {
        all_operators()
            .into_iter()
            .filter(|op| op.schema().is_some())
    };
    // a wrong overload says more than a similar name
    let base = name.split('.').next().unwrap_or(name);
    let overloads: Vec<String> = overloads(base)
        .into_iter()
        .filter(|op| op.schema().is_some())
        .map(|op| op.name().to_string())
        .take(MOST)
        .collect();
    if !overloads.is_empty() {
        return overloads;
    }
    // a name without its namespace
    if !base.contains("::") {
        let same: Vec<String> = defined()
            .filter(|op| op.name().base() == base)
            .map(|op| op.name().to_string())
            .take(MOST)
            .collect();
        if !same.is_empty() {
            return same;
        }
    }
    let mut near: Vec<(usize, String)> = defined()
        .map(|op| op.name().to_string())
        .map(|n| (distance(&n, name), n))
        .filter(|(d, _)| *d <= 3)
        .collect();
    near.sort();
    near.into_iter().map(|(_, n)| n).take(MOST).collect()
}

/// Edits (insert, remove, replace a character) between two names.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replace = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::operator;

    #[test]
    fn distances_count_edits() {
        assert_eq!(distance("add", "add"), 0);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
    }

    #[test]
    fn operators_that_are_not_there_are_answered_with_similar_ones() {
        let says = |name| operator(name).expect_err("no such operator").to_string();
        assert!(says("aten::linaer").contains("Did you mean aten::linear"));
        let overload = says("aten::add.Tesnor");
        assert!(overload.starts_with("Could not find schema for aten::add.Tesnor. Did you mean"));
        assert!(overload.contains("aten::add.Tensor"), "{overload}");
        assert!(says("relu").contains("Did you mean aten::relu"));
        assert!(!says("t_nowhere::nothing").contains("Did you mean"));
    }
}
