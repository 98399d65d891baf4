//! From what the user wrote to workloads: exact names, prefixes (`w3`, `w5.mlp`) and globs
//! (`w*_b1`).

use crate::error::{CliError, Result};

/// Whether a pattern with `*` and `?` describes the whole text.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => {
            glob(rest, text) || text.split_first().is_some_and(|(_, t)| glob(pattern, t))
        }
        (Some((p, rest)), Some((t, tail))) if p == t || *p == b'?' => glob(rest, tail),
        _ => false,
    }
}

/// A prefix must not stop inside a number: `w1` is not the beginning of `w12`.
fn prefix(pattern: &str, name: &str) -> bool {
    let Some(rest) = name.strip_prefix(pattern) else {
        return false;
    };
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    !(digit(pattern.chars().next_back()) && digit(rest.chars().next()))
}

/// Whether the pattern matches this name.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    if pattern.contains(['*', '?']) {
        glob(pattern.as_bytes(), name.as_bytes())
    } else {
        !pattern.is_empty() && prefix(pattern, name)
    }
}

fn listing<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let lines: Vec<String> = names.into_iter().map(|n| format!("  {n}")).collect();
    lines.join("\n")
}

fn unknown(pattern: &str, known: &[&str]) -> CliError {
    CliError::UnknownWorkload { pattern: pattern.to_owned(), known: listing(known.iter().copied()) }
}

/// The positions of the names that any pattern matches, in the order of the names; all of them if
/// there is no pattern.
pub(crate) fn many(patterns: &[String], names: &[&str]) -> Result<Vec<usize>> {
    if patterns.is_empty() {
        return Ok((0..names.len()).collect());
    }
    for pattern in patterns {
        if !names.iter().any(|n| matches(pattern, n)) {
            return Err(unknown(pattern, names));
        }
    }
    let wanted = |name: &&str| patterns.iter().any(|p| matches(p, name));
    Ok((0..names.len()).filter(|i| wanted(&names[*i])).collect())
}

/// The position of the one name that a pattern matches. An exact name wins over longer ones.
pub(crate) fn one(pattern: &str, names: &[&str]) -> Result<usize> {
    if let Some(i) = names.iter().position(|n| *n == pattern) {
        return Ok(i);
    }
    let found = (0..names.len()).filter(|i| matches(pattern, names[*i]));
    match found.collect::<Vec<_>>()[..] {
        [] => Err(unknown(pattern, names)),
        [i] => Ok(i),
        ref several => Err(CliError::AmbiguousWorkload {
            pattern: pattern.to_owned(),
            count: several.len(),
            matches: listing(several.iter().map(|i| names[*i])),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 5] =
        ["w1.add", "w1.add_grad", "w3.pointwise_16384", "w4.sum0_4096", "w12.minilm_b1_l8"];

    fn select(patterns: &[&str]) -> Vec<&'static str> {
        let patterns: Vec<String> = patterns.iter().map(|p| (*p).to_owned()).collect();
        many(&patterns, &NAMES).unwrap().into_iter().map(|i| NAMES[i]).collect()
    }

    #[test]
    fn prefixes_stop_at_numbers() {
        assert_eq!(select(&["w1"]), ["w1.add", "w1.add_grad"]);
        assert_eq!(select(&["w4.sum"]), ["w4.sum0_4096"]);
        assert!(!matches("w3.pointwise_16", "w3.pointwise_16384"));
        assert!(!matches("", "w1.add"));
    }

    #[test]
    fn globs_describe_whole_names() {
        assert_eq!(select(&["w*_l8", "w1.add"]), ["w1.add", "w1.add_grad", "w12.minilm_b1_l8"]);
        assert!(!matches("w?", "w1.add"));
        assert!(matches("w?.add", "w1.add"));
        assert!(matches("*", ""));
    }

    #[test]
    fn no_pattern_is_all() {
        assert_eq!(select(&[]).len(), NAMES.len());
    }

    #[test]
    fn one_needs_one() {
        assert_eq!(one("w1.add", &NAMES).unwrap(), 0);
        assert_eq!(one("w12", &NAMES).unwrap(), 4);
        assert!(matches!(one("w1", &NAMES), Err(CliError::AmbiguousWorkload { count: 2, .. })));
        let error = one("w99", &NAMES).unwrap_err().to_string();
        assert!(error.contains("`w99`") && error.contains("w4.sum0_4096"), "{error}");
    }
}
