//! The recorded calls that programs are made of.

use crate::conformance::case::Case;
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use straightline::dispatch::operator;

/// A recorded call: operator and case.
pub(crate) type Call = (usize, usize);

/// Recorded calls by operator.
pub(crate) struct Library {
    operators: Vec<(String, Vec<String>)>,
}

/// Cases that capture refuses by design, or whose results are random.
fn left_out(line: &str) -> bool {
    let id = line.split("\"id\":").nth(1).unwrap_or("");
    let id = id
        .trim_start()
        .trim_start_matches('"')
        .trim_start_matches("public/");
    let skipped = include_str!("../conformance/skips.txt").lines().any(|l| {
        let mut parts = l.split('\t');
        let (modes, prefix) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        (modes.contains("compiled") || modes == "all")
            && parts.nth(1).is_none()
            && id.starts_with(prefix.trim_start_matches("public/"))
    });
    skipped
        || line.contains("\"nondeterministic\":true")
        || line.contains("\"nondeterministic\": true")
}

/// Whether compiled code ends with this error by design: a shape that depends on data, a growing `out` that others view, one
/// memory written by two arguments, a write that reaches into an expanded argument.
pub(crate) fn expected(error: &str) -> bool {
    let refused = error.contains("cannot be captured:")
        || error.contains("more than one element of the written-to tensor");
    let listed = include_str!("../conformance/skips.txt")
        .lines()
        .skip(1)
        .filter_map(|l| l.split('\t').nth(3))
        .any(|text| error.contains(text));
    refused || listed
}

impl Library {
    /// The public calls of all operators whose name contains `only`.
    pub(crate) fn load(only: &str) -> Library {
        let path = format!("{}/tests/data/public.jsonl.gz", env!("CARGO_MANIFEST_DIR"));
        let file = std::fs::File::open(path).expect("the vectors are in the repository");
        let mut operators: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in BufReader::new(GzDecoder::new(file)).lines() {
            let line = line.expect("a line of the vectors");
            let op = line.split('"').nth(3).unwrap_or("").to_string();
            if op.contains(only) && !left_out(&line) && operator(&op).is_ok() {
                operators.entry(op).or_default().push(line);
            }
        }
        Library {
            operators: operators.into_iter().collect(),
        }
    }

    pub(crate) fn operators(&self) -> usize {
        self.operators.len()
    }

    pub(crate) fn cases(&self, operator: usize) -> usize {
        self.operators[operator].1.len()
    }

    pub(crate) fn name(&self, (operator, _): Call) -> &str {
        &self.operators[operator].0
    }

    /// The call with fresh arguments.
    pub(crate) fn case(&self, (operator, case): Call) -> Option<Case> {
        Case::parse(&self.operators[operator].1[case]).ok()
    }
}
