//! The runner finds what is wrong: records broken on purpose, each in one place, and an operator
//! that is right only once.
//!
//! `self_test.jsonl` has calls as PyTorch recorded them (`tests/data/self_test.py`), `broken.jsonl`
//! what is done to one of them: which values are `set`, by JSON pointer, and which are dropped, and
//! the modes in which the runner must tell.

use super::case::Case;
use super::report::Skips;
use super::run::{Mode, run_case};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use straightline::Tensor;
use straightline::dispatch::{DispatchKey, Library};
use straightline::ops::aten;

fn lines(text: &str) -> impl Iterator<Item = Json> {
    text.lines().map(|l| serde_json::from_str(l).expect("a line of JSON"))
}

fn vectors() -> BTreeMap<String, Json> {
    lines(include_str!("self_test.jsonl"))
        .map(|c| (c["id"].as_str().expect("an id")["self/".len()..].to_string(), c))
        .collect()
}

fn modes(names: &Json) -> Vec<Mode> {
    let mode = |name| match name {
        "eager" => Mode::Eager,
        "meta" => Mode::Meta,
        "compiled" => Mode::Compiled,
        other => panic!("a mode called {other}"),
    };
    names.as_str().expect("modes").split(' ').map(mode).collect()
}

/// What holds the value that a pointer names, and its key there.
fn place<'a>(json: &'a mut Json, pointer: &'a str) -> (&'a mut Json, &'a str) {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    (json.pointer_mut(parent).expect("what the pointer names"), key)
}

fn broken(mut json: Json, how: &Json) -> Json {
    for (pointer, value) in how["set"].as_object().into_iter().flatten() {
        let (parent, key) = place(&mut json, pointer);
        match parent {
            Json::Array(list) => list[key.parse::<usize>().expect("a position")] = value.clone(),
            other => other[key] = value.clone(),
        }
    }
    for pointer in how["drop"].as_array().into_iter().flatten() {
        let (parent, key) = place(&mut json, pointer.as_str().expect("a pointer"));
        match parent {
            Json::Array(list) => drop(list.remove(key.parse::<usize>().expect("a position"))),
            other => drop(other.as_object_mut().expect("an object").remove(key).expect("a key")),
        }
    }
    json
}

fn outcome(json: &Json, mode: Mode) -> Result<(), String> {
    run_case(&Case::parse(&json.to_string())?, mode)
}

#[test]
fn records_broken_on_purpose_are_reported() {
    let vectors = vectors();
    let mut missed = Vec::new();
    for how in lines(include_str!("broken.jsonl")) {
        let good = &vectors[how["of"].as_str().expect("the name of a vector")];
        let bad = broken(good.clone(), &how);
        for mode in modes(&how["modes"]) {
            outcome(good, mode).unwrap_or_else(|e| panic!("{}, {mode:?}: {e}", how["of"]));
            if outcome(&bad, mode).is_ok() {
                missed.push(format!("{} ({mode:?})", how["what"]));
            }
        }
    }
    assert!(missed.is_empty(), "not reported: {missed:#?}");
}

/// The first call gives what was recorded, later ones something else: what a plan that keeps a
/// value would do.
#[test]
fn a_replay_that_differs_is_reported() -> straightline::Result<()> {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let mut library = Library::new("self_test")?;
    library.def("late(Tensor x) -> Tensor")?;
    let meta = |x: &Tensor| aten::clone(x, None);
    library.impl_at("late", DispatchKey::Meta, meta)?;
    let cpu = move |x: &Tensor| {
        let before = counted.fetch_add(1, Ordering::Relaxed) as f32;
        Tensor::from_slice(&[1.0 + before], x.sizes())
    };
    library.impl_at("late", DispatchKey::CPU, cpu)?;
    let record = json!({
        "op": "self_test::late", "schema": "self_test::late(Tensor x) -> Tensor", "id": "self/late",
        "args": [{"t": "f32", "size": [1], "stride": [1], "offset": 0, "data": "AAAAAA=="}],
        "kwargs": {}, "mutated": {}, "tol": {"rtol": 0.0, "atol": 0.0},
        "outs": [{"t": "f32", "size": [1], "stride": [1], "offset": 0, "values": "AACAPw=="}],
    });
    outcome(&record, Mode::Eager).expect("its first call");
    calls.store(0, Ordering::Relaxed);
    let error = outcome(&record, Mode::Compiled).expect_err("its second call");
    assert!(error.starts_with("a replay"), "{error}");
    Ok(())
}

#[test]
fn a_skip_names_an_operator_or_a_case() {
    let skips = Skips::new(
        "eager\taten::add\twhole\neager\taten::mul.Tensor/f32/2\tone\nall\taten::neg\tsays\tbut no",
    );
    let reason = |op: &str, id: &str, mode, error| {
        let mut json = vectors()["fresh"].clone();
        json["op"] = op.into();
        json["id"] = id.into();
        let case = Case::parse(&json.to_string()).expect("a case");
        skips.reason(&case, mode, error).map(str::to_string)
    };
    let found = |op, id| reason(op, id, Mode::Eager, None).is_some();
    assert!(found("aten::add", "held_out/aten::add/f32/1"));
    assert!(!found("aten::add.Tensor", "held_out/aten::add.Tensor/f32/1"));
    assert!(!found("aten::addmm", "held_out/aten::addmm/f32/1"));
    assert!(found("aten::mul.Tensor", "held_out/aten::mul.Tensor/f32/2"));
    assert!(!found("aten::mul.Tensor", "held_out/aten::mul.Tensor/f32/20"));
    assert_eq!(reason("aten::add", "x/aten::add/f32/1", Mode::Meta, None), None);
    let says = |error| reason("aten::neg", "x/aten::neg/f32/1", Mode::Compiled, error);
    assert_eq!(says(None), None);
    assert_eq!(says(Some("element 1: but yes")), None);
    assert_eq!(says(Some("element 1: but no")).as_deref(), Some("says"));
}
