//! PyTorch's recorded calls with their tensors on a device from outside, against the same calls on
//! the CPU: results, what is written, what is whose memory, and which calls are refused.
//!
//! A sample of the calls of each operator is run; `SWEEP=all` runs every one, `SWEEP_OP=aten::pad`
//! those of the operators whose name contains the text.

#[allow(dead_code, reason = "what the conformance run reads of a case is more")]
#[path = "../suite/conformance/case.rs"]
mod case;
#[allow(dead_code, reason = "the conformance run compares more")]
#[path = "../suite/conformance/compare.rs"]
mod compare;
#[path = "../suite/conformance/files.rs"]
mod files;
#[allow(dead_code, reason = "the conformance run compares vectors")]
#[path = "../suite/conformance/vectors.rs"]
mod vectors;

use crate::backends::{install, memory};
use crate::seeds::support::turn;
use case::Case;
use compare::{Tolerance, same_values};
use files::{FAIL, SUCCEED};
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use straightline::dispatch::{Value, operator};
use straightline::ops::aten;
use straightline::{Device, DeviceType, Result, Tensor};

/// How many calls of one operator in one file are in the sample.
const EACH: usize = 4;

/// A call on the CPU or on the device.
struct Side {
    args: Vec<Value>,
    stack: Vec<Value>,
    /// The tensors among the arguments and their whole memory.
    given: Vec<(Tensor, Tensor)>,
}

impl Side {
    fn here(case: &Case) -> Side {
        Side {
            args: case.stack.clone(),
            stack: case.stack.clone(),
            given: (case.given.iter()).map(|g| (g.tensor.clone(), g.row.clone())).collect(),
        }
    }

    /// The same arguments with their memory on the device; tensors that share memory do so there.
    fn there(case: &Case, d: Device) -> Result<Side> {
        let mut rows: Vec<(&str, Tensor)> = Vec::new();
        let mut given = Vec::new();
        for g in &case.given {
            let row = match rows.iter().find(|(owner, _)| *owner == g.owner) {
                Some((_, row)) => row.clone(),
                None => {
                    let row = g.row.to_device(d)?;
                    rows.push((&g.owner, row.clone()));
                    row
                }
            };
            let (sizes, strides, offset) = &g.geometry;
            let tensor = aten::as_strided(&row, sizes, strides, Some(*offset))?;
            given.push((tensor, row));
        }
        let mut next = given.iter();
        let place = |v: &Value| {
            let moved = v.map_tensors(|t| {
                Ok(match t.is_wrapped_number() {
                    true => t.clone(),
                    false => next.next().expect("as many as there were").0.clone(),
                })
            })?;
            Ok(match moved {
                Value::Device(_) => Value::Device(d),
                other => other,
            })
        };
        let mut stack = (case.stack.iter()).map(place).collect::<Result<Vec<_>>>()?;
        // a factory without tensors is told where
        if given.is_empty()
            && let Some(schema) = operator(&case.op)?.schema()
            && let Some(i) = schema.args.iter().position(|a| a.name == "device")
            && matches!(stack[i], Value::None)
        {
            stack[i] = Value::Device(d);
        }
        Ok(Side { args: stack.clone(), stack, given })
    }

    fn call(&mut self, op: &str) -> std::result::Result<(), (String, String)> {
        straightline::manual_seed(3);
        let class = |e: straightline::Error| (e.python_class().to_string(), e.to_string());
        let called = catch_unwind(AssertUnwindSafe(|| {
            operator(op).and_then(|op| op.call_boxed(&mut self.stack))
        }));
        match called {
            Ok(outcome) => outcome.map_err(class),
            Err(_) => Err(("panic".to_string(), "panicked".to_string())),
        }
    }
}

/// Whether tensor `b` is tensor `a`, shares its memory, or neither.
fn relation(a: &Tensor, b: &Tensor) -> (bool, bool) {
    (a.is_same(b), memory(a).shares_storage_with(memory(b)))
}

fn same(got: &Tensor, want: &Tensor, d: Device) -> std::result::Result<(), String> {
    if got.device() != d {
        return Err(format!("is on {}", got.device()));
    }
    if got.dtype() != want.dtype() {
        return Err(format!("dtype {}, expected {}", got.dtype(), want.dtype()));
    }
    if got.sizes() != want.sizes() || got.strides() != want.strides() {
        let (at, of) = ((got.sizes(), got.strides()), (want.sizes(), want.strides()));
        return Err(format!("geometry {at:?}, expected {of:?}"));
    }
    let got = got.to_device(Device::CPU).map_err(|e| e.to_string())?;
    let exact = Tolerance::of(&serde_json::Value::Null);
    same_values(&got, want, exact)
}

fn compared(case: &Case, other: &Case, d: Device) -> std::result::Result<(), String> {
    let mut here = Side::here(case);
    let mut there = Side::there(other, d).map_err(|e| format!("cannot be moved: {e}"))?;
    match (here.call(&case.op), there.call(&case.op)) {
        (Ok(()), Ok(())) => {}
        (Ok(()), Err((_, e))) => return Err(format!("fails: {e}")),
        (Err((_, e)), Ok(())) => return Err(format!("succeeds, should fail: {e}")),
        (Err((want, e)), Err((class, got))) if class != want => {
            return Err(format!("{class}, should be {want}: {got} / {e}"));
        }
        (Err(_), Err(_)) => return Ok(()),
    }
    let outs =
        |s: &Side| -> Vec<Tensor> { s.stack.iter().flat_map(Value::tensors).cloned().collect() };
    let (ours, theirs) = (outs(&here), outs(&there));
    let named = there.args.iter().any(|v| matches!(v, Value::Device(_)));
    let told = |v: &Value| matches!(v, Value::String(s) if s == "cpu");
    let elsewhere = (there.given.is_empty() && !named) || there.args.iter().any(told);
    let place = match elsewhere {
        true => Device::CPU,
        false => d,
    };
    if ours.len() != theirs.len() {
        return Err(format!("{} results, {} expected", theirs.len(), ours.len()));
    }
    let whole = |v: &&Value| v.tensors().next().is_none();
    for (got, want) in there.stack.iter().filter(whole).zip(here.stack.iter().filter(whole)) {
        if format!("{got:?}") != format!("{want:?}") && !matches!(want, Value::Device(_)) {
            return Err(format!("result {got:?}, expected {want:?}"));
        }
    }
    let unset = [
        "empty",
        "new_empty",
        "empty_like",
        "empty_strided",
        "new_empty_strided",
        "resize_",
        "_resize_output",
    ];
    let base = case.op.trim_start_matches("aten::").split('.').next().unwrap_or("");
    for (i, (got, want)) in theirs.iter().zip(&ours).enumerate() {
        if case.json["nondeterministic"] != true && !unset.contains(&base) {
            same(got, want, place).map_err(|e| format!("result {i}: {e}"))?;
        }
        let among = |of: &Tensor, given: &[(Tensor, Tensor)]| -> Vec<_> {
            given.iter().map(|(g, _)| relation(g, of)).collect()
        };
        let (got, want) = (among(got, &there.given), among(want, &here.given));
        if got != want {
            return Err(format!(
                "result {i}: is an argument, shares its memory: {got:?}, expected {want:?}"
            ));
        }
    }
    for (i, (got, want)) in there.given.iter().zip(&here.given).enumerate() {
        if unset.contains(&base) {
            continue;
        }
        same(&got.0, &want.0, d)
            .and_then(|()| same(&got.1, &want.1, d))
            .map_err(|e| format!("argument {i} after the call: {e}"))?;
    }
    Ok(())
}

#[test]
fn recorded_calls_on_a_device_from_outside_are_as_on_the_cpu() {
    let _alone = turn();
    let _device = install(DeviceType::PrivateUse2).unwrap();
    let d = Device::new(DeviceType::PrivateUse2);
    let all = std::env::var("SWEEP").is_ok_and(|v| v == "all");
    let only = std::env::var("SWEEP_OP").unwrap_or_default();
    let (mut calls, mut failures) = (0, BTreeMap::<String, Vec<String>>::new());
    for file in SUCCEED.into_iter().chain(FAIL) {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file);
        let mut seen = BTreeMap::<String, usize>::new();
        let lines = BufReader::new(GzDecoder::new(std::fs::File::open(path).unwrap())).lines();
        for line in lines {
            let line = line.unwrap();
            let op = line.split('"').nth(3).unwrap_or("").to_string();
            if !op.contains(&only) {
                continue;
            }
            let nth = seen.entry(op.clone()).or_default();
            *nth += 1;
            if *nth > EACH && !all && only.is_empty() {
                continue;
            }
            let Ok(case) = Case::parse(&line) else {
                continue;
            };
            if case.json["grads"].is_object() || operator(&op).is_err() {
                continue;
            }
            let other = Case::parse(&line).unwrap();
            calls += 1;
            if let Err(e) = compared(&case, &other, d) {
                failures.entry(op).or_default().push(format!("{}: {e}", case.id));
            }
        }
    }
    for (op, list) in &failures {
        println!("{op}: {} differ, {}", list.len(), list[0]);
    }
    println!("{calls} calls, {} differ", failures.values().map(Vec::len).sum::<usize>());
    assert!(calls > 0 && failures.is_empty(), "{:?}", failures.keys());
}
