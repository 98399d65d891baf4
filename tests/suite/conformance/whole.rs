//! A call holds what it reads and writes for its length: no recorded call takes an operand after it
//! has given one back.

use super::case::Case;
use super::files::SUCCEED;
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use straightline::Tensor;
use straightline::dispatch::{Value, operator};
use straightline::testing::gives_back_early;

/// What an operator did.
#[derive(Default)]
struct Seen {
    calls: usize,
    /// The first case in which an operand was taken late, and how many there were.
    late: Option<(String, usize)>,
}

/// Calls of the operators for which `looked_at` says so.
fn run(looked_at: impl Fn(&str) -> bool) -> BTreeMap<String, Seen> {
    let mut seen: BTreeMap<String, Seen> = BTreeMap::new();
    for name in SUCCEED {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
        let file = std::fs::File::open(path).expect("the vectors are in the repository");
        for line in BufReader::new(GzDecoder::new(file)).lines() {
            let line = line.expect("the file can be read");
            let op = line.split('"').nth(3).unwrap_or("").to_string();
            if !looked_at(&op) {
                continue;
            }
            let (Ok(case), Ok(op)) = (Case::parse(&line), operator(&op)) else {
                continue;
            };
            let tensors: Vec<Tensor> = case.given.iter().map(|g| g.tensor.clone()).collect();
            let mut stack: Vec<Value> = case.stack.clone();
            let (outcome, late) = gives_back_early(&tensors, || op.call_boxed(&mut stack));
            let seen = seen.entry(case.op.clone()).or_default();
            seen.calls += usize::from(outcome.is_ok());
            if let Some((gone, taken)) = late {
                let paths = [gone, taken].map(|i| case.given[i].path.as_str());
                let what = format!("{}: {} after {}", case.id, paths[1], paths[0]);
                seen.late.get_or_insert((what, 0)).1 += 1;
            }
        }
    }
    seen
}

fn check(seen: &BTreeMap<String, Seen>) {
    let calls: usize = seen.values().map(|s| s.calls).sum();
    let late: Vec<_> =
        (seen.iter()).filter_map(|(op, s)| s.late.as_ref().map(|l| (op, l))).collect();
    for (op, (first, count)) in &late {
        println!("{op}: {count}; {first}");
    }
    println!("{calls} calls of {} operators", seen.len());
    assert!(calls > 0, "no case was run");
    assert!(late.is_empty(), "{} operators give operands back too early", late.len());
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "only builds with debug assertions watch")]
fn two_calls_are_not_one() {
    let x = Tensor::from_vec([1f32, 2.0], 2).expect("a small tensor");
    let y = x.copied().expect("a small tensor");
    let tensors = [x.clone(), y.clone()];
    let (sum, late) = gives_back_early(&tensors, || x.add(&y));
    assert!(sum.is_ok() && late.is_none());
    let calls = || x.add(1).and_then(|_| y.add_(&x));
    assert_eq!(gives_back_early(&tensors, calls).1, Some((0, 1)));
    let calls = || x.add(1).and_then(|_| x.add(2));
    assert_eq!(gives_back_early(&tensors, calls).1, Some((0, 0)));
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "only builds with debug assertions watch")]
fn no_operand_is_taken_after_one_has_been_given_back() {
    let only = std::env::var("CONFORMANCE_OP").unwrap_or_default();
    check(&run(|op| op.contains(&only)));
}
