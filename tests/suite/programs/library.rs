//! The recorded calls that programs are made of.

use crate::conformance::case::Case;
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use straightline::dispatch::operator;

/// Recorded calls by operator.
pub(crate) struct Library {
    operators: Vec<(String, Vec<String>)>,
}

/// PyTorch's calls, in `tests/data`: the public ones, those of other samples and dtypes.
const FILES: [&str; 5] = ["public", "more", "complex", "samples", "derived"];

/// Operators whose results are memory that nobody has written, or share memory where the schema
/// says that they do not.
const LEFT_OUT: [&str; 10] = [
    "aten::_unsafe_view",
    "aten::_reshape_alias",
    "aten::empty",
    "aten::new_empty",
    "aten::resize",
    "aten::_resize",
    "aten::_efficientzerotensor",
    "aten::set_",
    "aten::set.",
    "aten::_fused_dropout",
];

/// Operators that read data while they run: capture refuses each call of them by name.
fn reads_data(op: &str) -> bool {
    include_str!("../conformance/skips.txt").lines().any(|l| {
        let mut parts = l.split('\t');
        let (modes, what) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        modes == "meta,compiled" && what == op && parts.nth(1).is_none()
    })
}

impl Library {
    /// The recorded calls of all operators whose name contains `only`.
    pub(crate) fn load(only: &str) -> Library {
        let mut operators: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for file in FILES {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");
            let file = std::fs::File::open(format!("{folder}/{file}.jsonl.gz"))
                .expect("the vectors are in the repository");
            for line in BufReader::new(GzDecoder::new(file)).lines() {
                let line = line.expect("a line of the vectors");
                let op = line.split('"').nth(3).unwrap_or("");
                if op.contains(only) {
                    operators.entry(op.to_string()).or_default().push(line);
                }
            }
        }
        operators.retain(|op, _| {
            let unwritten = LEFT_OUT.iter().any(|u| op.starts_with(u));
            operator(op).is_ok() && !unwritten && !reads_data(op)
        });
        Library { operators: operators.into_iter().collect() }
    }

    pub(crate) fn operators(&self) -> usize {
        self.operators.len()
    }

    pub(crate) fn cases(&self, operator: usize) -> usize {
        self.operators[operator].1.len()
    }

    /// The call with fresh arguments.
    pub(crate) fn case(&self, operator: usize, case: usize) -> Option<Case> {
        Case::parse(&self.operators[operator].1[case]).ok()
    }
}
