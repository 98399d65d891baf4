//! PyTorch's own answers: every public case of an operator that exists here, eagerly through the
//! boxed call, on Meta tensors for the shapes, and captured and compiled.
//!
//! `CONFORMANCE_OP=aten::add` restricts the run to operators whose name contains the text, and
//! `CONFORMANCE_SHOW=20` prints that many failures of each operator.

mod case;
mod compare;

use case::Case;
use compare::Level;
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use straightline::dispatch::{Value, call_count, operator};
use straightline::ops::aten;
use straightline::{Device, Tensor, compile};

/// Operators or cases that are known to differ, with the reason. A line is a prefix of the id.
const SKIPS: &str = include_str!("skips.txt");

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Eager,
    Meta,
    Compiled,
}

fn lines(file: &str) -> impl Iterator<Item = String> {
    let path = format!("{}/tests/data/{file}", env!("CARGO_MANIFEST_DIR"));
    let f = std::fs::File::open(path).expect("the vectors are in the repository");
    BufReader::new(GzDecoder::new(f))
        .lines()
        .map(|l| l.expect("a line of the vectors"))
}

fn to_meta(v: &Value) -> straightline::Result<Value> {
    let tensor = |t: &Tensor| -> straightline::Result<Tensor> {
        if t.is_wrapped_number() {
            return Ok(t.clone());
        }
        let reach: i64 = t
            .sizes()
            .iter()
            .zip(t.strides())
            .map(|(n, s)| (n - 1).max(0) * s)
            .sum();
        let base = Tensor::empty(&[reach + t.storage_offset() + 1], t.dtype(), Device::META)?;
        aten::as_strided(&base, t.sizes(), t.strides(), Some(t.storage_offset()))
    };
    Ok(match v {
        Value::Tensor(t) => Value::Tensor(tensor(t)?),
        Value::TensorList(l) => {
            Value::TensorList(l.iter().map(tensor).collect::<straightline::Result<_>>()?)
        }
        Value::OptionalTensorList(l) => Value::OptionalTensorList(
            l.iter()
                .map(|t| t.as_ref().map(tensor).transpose())
                .collect::<straightline::Result<_>>()?,
        ),
        Value::Device(_) => Value::Device(Device::META),
        other => other.clone(),
    })
}

fn run(case: &Case, mode: Mode) -> Result<(), String> {
    let op = operator(&case.op).map_err(|e| e.to_string())?;
    match mode {
        Mode::Eager => {
            let mut stack = case.stack.clone();
            op.call_boxed(&mut stack).map_err(|e| e.to_string())?;
            compare::results(case, &stack, Level::Values)?;
            compare::mutations(case)
        }
        Mode::Meta => {
            let mut stack = case
                .stack
                .iter()
                .map(to_meta)
                .collect::<straightline::Result<Vec<_>>>()
                .map_err(|e| e.to_string())?;
            op.call_boxed(&mut stack).map_err(|e| e.to_string())?;
            compare::results(case, &stack, Level::Shape)
        }
        Mode::Compiled => compiled(case),
    }
}

/// The tensors of the stack replaced, in order.
fn with_tensors(stack: &[Value], tensors: &mut dyn Iterator<Item = Tensor>) -> Vec<Value> {
    let mut next = |_: &Tensor| tensors.next().expect("as many as there were");
    stack
        .iter()
        .map(|v| match v {
            Value::Tensor(t) => Value::Tensor(next(t)),
            Value::TensorList(l) => Value::TensorList(l.iter().map(&mut next).collect()),
            Value::OptionalTensorList(l) => {
                Value::OptionalTensorList(l.iter().map(|t| t.as_ref().map(&mut next)).collect())
            }
            other => other.clone(),
        })
        .collect()
}

fn compiled(case: &Case) -> Result<(), String> {
    let op = operator(&case.op).map_err(|e| e.to_string())?;
    let template = case.stack.clone();
    let inputs: Vec<Tensor> = template.iter().flat_map(Value::tensors).cloned().collect();
    // what is no tensor is known while capturing
    let known = Arc::new(Mutex::new(Vec::new()));
    let returns = known.clone();
    let f = compile(move |ts: &Vec<Tensor>| {
        let mut stack = with_tensors(&template, &mut ts.iter().cloned());
        op.call_boxed(&mut stack)?;
        *returns.lock().expect("no panic holds it") = stack.clone();
        Ok(stack
            .iter()
            .map(|v| v.tensors().cloned().collect())
            .collect::<Vec<Vec<Tensor>>>())
    });
    let out = f.call(&inputs).map_err(|e| e.to_string())?;
    let known = known.lock().expect("no panic holds it");
    let stack: Vec<Value> = out
        .into_iter()
        .zip(known.iter())
        .map(|(mut l, known)| match known {
            Value::Tensor(_) => Value::Tensor(l.remove(0)),
            Value::TensorList(_) => Value::TensorList(l),
            other => other.clone(),
        })
        .collect();
    compare::results(case, &stack, Level::Values)?;
    compare::mutations(case)?;
    drop(known); // a replay that captured again would wait for it
    let before = call_count();
    f.call(&inputs).map_err(|e| format!("a replay: {e}"))?;
    match call_count() - before {
        0 => Ok(()),
        n => Err(format!("a replay entered the dispatcher {n} times")),
    }
}

#[derive(Default)]
struct Tally {
    passed: usize,
    skipped: usize,
    failures: Vec<String>,
}

fn skip_reason(id: &str, mode: Mode) -> Option<&'static str> {
    let mode = format!("{mode:?}").to_lowercase();
    SKIPS
        .lines()
        .filter(|l| !l.starts_with('#') && !l.trim().is_empty())
        .find_map(|l| {
            let mut parts = l.splitn(3, '\t');
            let (modes, prefix, reason) = (parts.next()?, parts.next()?, parts.next()?);
            (modes.split(',').any(|m| m == mode || m == "all") && id.starts_with(prefix))
                .then_some(reason)
        })
}

fn run_mode(mode: Mode) {
    let only = std::env::var("CONFORMANCE_OP").unwrap_or_default();
    let show: usize = std::env::var("CONFORMANCE_SHOW")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(1);
    let mut tally: BTreeMap<String, Tally> = BTreeMap::new();
    for line in lines("public.jsonl.gz") {
        let op = line.split('"').nth(3).unwrap_or("").to_string();
        if !op.contains(&only) || operator(&op).is_err() {
            continue; // not an operator of ours yet
        }
        let entry = tally.entry(op).or_default();
        let case = match Case::parse(&line) {
            Ok(case) => case,
            Err(_) => {
                entry.skipped += 1; // complex numbers and other values we do not have
                continue;
            }
        };
        if skip_reason(&case.id, mode).is_some() {
            entry.skipped += 1;
            continue;
        }
        let result = catch_unwind(AssertUnwindSafe(|| run(&case, mode)))
            .unwrap_or_else(|_| Err("panicked".into()));
        match result {
            Ok(()) => entry.passed += 1,
            // by design: PyTorch's cases also pass an `out` that is to grow
            Err(e) if e.contains("tensors are not resized") => entry.skipped += 1,
            Err(e) => entry.failures.push(format!("{}: {e}", case.id)),
        }
    }
    let (mut passed, mut skipped, mut failed) = (0, 0, 0);
    for (op, t) in &tally {
        passed += t.passed;
        skipped += t.skipped;
        failed += t.failures.len();
        if !t.failures.is_empty() {
            println!("{op}: {} passed, {} failed", t.passed, t.failures.len());
            for f in t.failures.iter().take(show) {
                println!("    {f}");
            }
        }
    }
    println!(
        "{mode:?}: {} operators, {passed} passed, {failed} failed, {skipped} skipped",
        tally.len()
    );
    assert!(passed > 0 || !only.is_empty(), "no case was run");
    assert_eq!(failed, 0, "{failed} cases differ from PyTorch");
}

#[test]
fn eager() {
    run_mode(Mode::Eager);
}

#[test]
fn meta() {
    run_mode(Mode::Meta);
}

#[test]
fn compiled_cases() {
    run_mode(Mode::Compiled);
}

/// Calls that must fail do fail, and none panics.
#[test]
fn errors() {
    let mut failures = Vec::new();
    let mut passed = 0;
    for line in lines("public_errors.jsonl.gz") {
        let op = line.split('"').nth(3).unwrap_or("").to_string();
        let Ok(handle) = operator(&op) else { continue };
        let Ok(case) = Case::parse(&line) else {
            continue; // complex numbers, sparse layouts
        };
        if skip_reason(&case.id, Mode::Eager).is_some() {
            continue;
        }
        let mut stack = case.stack.clone();
        match catch_unwind(AssertUnwindSafe(|| handle.call_boxed(&mut stack))) {
            Ok(Err(_)) => passed += 1,
            Ok(Ok(())) => failures.push(format!(
                "{}: succeeded, should say: {}",
                case.id, case.json["error"]["message"]
            )),
            Err(_) => failures.push(format!("{}: panicked", case.id)),
        }
    }
    println!("errors: {passed} passed, {} failed", failures.len());
    for f in &failures {
        println!("    {f}");
    }
    assert!(passed > 0);
    assert!(
        failures.is_empty(),
        "{} calls should fail and do not",
        failures.len()
    );
}
