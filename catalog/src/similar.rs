//! Names of operators that may be meant by one that no operator has.

use crate::Op;

/// So many are worth reading.
const MOST: usize = 5;

/// Up to five operators that may be meant by a name that no operator has: the overloads of that
/// name, those of that name in a namespace, or else names that differ by a few letters, the nearest
/// first.
///
/// ```
/// use straightline_catalog::similar_operators;
/// assert_eq!(similar_operators("aten::linaer")[0], "aten::linear");
/// assert!(similar_operators("aten::add").contains(&"aten::add.Tensor".to_string()));
/// assert_eq!(similar_operators("relu")[0], "aten::relu");
/// ```
pub fn similar_operators(name: &str) -> Vec<String> {
    let mut names: Vec<&str> = (Op::catalogue().chain(Op::from_outside())).map(Op::name).collect();
    names.sort_unstable();
    let stem = |n: &str| n.split('.').next().unwrap_or_default().to_string();
    let first = |of: &dyn Fn(&str) -> bool| -> Vec<String> {
        let found = names.iter().filter(|n| of(&stem(n)));
        found.take(MOST).map(ToString::to_string).collect()
    };
    // a wrong overload says more than a similar name
    let base = stem(name);
    let overloads = first(&|n| n == base);
    if !overloads.is_empty() {
        return overloads;
    }
    // a name without its namespace
    if !base.contains("::") {
        let same = first(&|n| n.split_once("::").is_some_and(|(_, n)| n == base));
        if !same.is_empty() {
            return same;
        }
    }
    let mut near: Vec<(usize, &str)> =
        (names.iter().copied()).map(|n| (distance(n, name), n)).filter(|(d, _)| *d <= 3).collect();
    near.sort_unstable();
    near.into_iter().take(MOST).map(|(_, n)| n.to_string()).collect()
}

/// Edits between two names: a character inserted, removed or replaced, or two neighbours exchanged.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let above = &rows[i - 1];
            let replaced = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            let exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if exchanged {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_edits() {
        assert_eq!(distance("add", "add"), 0);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("rleu", "relu"), 1);
        assert_eq!(distance("", "abc"), 3);
    }
}
