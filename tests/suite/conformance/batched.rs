//! Function transforms of recorded calls: `vmap` is the stack of the calls of the samples, of
//! gradients too, and forward mode agrees with reverse mode; for every operator.

use super::case::Case;
use super::compare::{Tolerance, same_values};
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use straightline::dispatch::{OperatorHandle, Value, operator};
use straightline::func::{VmapOptions, grad, jvp, vjp, vmap_with};
use straightline::ops::aten;
use straightline::{DType, ErrorKind, Result, Tensor};

/// Operators that a batch is refused of, and why.
type Refused = BTreeMap<String, String>;

/// Calls of `embedding` whose gradient is not that of what they compute: the padding gets none, or
/// it is scaled. Tangents go through as they are.
fn is_no_adjoint(case: &Case) -> bool {
    let at = match case.op.as_str() {
        op if !op.starts_with("aten::embedding") || op.contains("bag") => return false,
        op if op.contains("backward") => 3,
        _ => 2,
    };
    matches!(case.stack.get(at), Some(Value::Int(padding)) if *padding >= 0)
        || matches!(case.stack.get(at + 1), Some(Value::Bool(true)))
}

/// A case's arguments with other tensors, numbers that stand for tensors as they are.
fn with(stack: &[Value], tensors: &[Tensor]) -> Result<Vec<Value>> {
    let mut next = tensors.iter();
    let mut each = |t: &Tensor| match t.is_wrapped_number() {
        true => Ok(t.clone()),
        false => Ok(next.next().unwrap_or(t).clone()),
    };
    stack.iter().map(|v| v.map_tensors(&mut each)).collect()
}

fn tensors(stack: &[Value]) -> Vec<Tensor> {
    let all = stack.iter().flat_map(Value::tensors);
    all.filter(|t| !t.is_wrapped_number()).cloned().collect()
}

/// The results of the operator on copies of these tensors.
fn call(op: OperatorHandle, stack: &[Value], own: &[Tensor]) -> Result<Vec<Tensor>> {
    let own: Vec<Tensor> = own.iter().map(|t| aten::clone(t, None)).collect::<Result<_>>()?;
    let mut stack = with(stack, &own)?;
    op.call_boxed(&mut stack)?;
    Ok(stack.iter().flat_map(Value::tensors).cloned().collect())
}

/// Operators whose results are no function of their operands, or depend on strides.
const OTHERS: [&str; 6] = ["empty", "resize", "rrelu", "view.dtype", "as_strided", "new_empty"];

/// Whether a case was compared, or what differs.
fn check(case: &Case, alone: bool, refused: &mut Refused) -> Result<bool, String> {
    if OTHERS.iter().any(|o| case.op.contains(o)) {
        return Ok(false);
    }
    let Ok(op) = operator(&case.op) else { return Ok(false) };
    let Some(schema) = op.schema() else { return Ok(false) };
    let random = op.tags().contains(&"nondeterministic_seeded");
    let shared = case.given.iter().any(|g| g.owner != g.path);
    let first = tensors(&case.stack);
    if random || shared || first.is_empty() || schema.is_out_variant() {
        return Ok(false);
    }
    let Ok(other) = case.again(true) else { return Ok(false) };
    let mut second = tensors(&other.stack);
    if alone {
        second[1..].clone_from_slice(&first[1..]);
    }
    let samples = [&first, &second].map(|own| call(op, &case.stack, own));
    let [Ok(a), Ok(b)] = samples else { return Ok(false) };
    let same = |(a, b): (&Tensor, &Tensor)| a.sizes() == b.sizes() && a.dtype() == b.dtype();
    if a.is_empty() || a.len() != b.len() || !a.iter().zip(&b).all(same) {
        return Ok(false);
    }
    let dim = if alone { 0 } else { -1 };
    let stacked = |k: usize| match alone && k > 0 {
        true => Ok(first[k].clone()),
        false => aten::stack(&[first[k].clone(), second[k].clone()], dim),
    };
    let Ok(batch) = (0..first.len()).map(stacked).collect::<Result<Vec<Tensor>>>() else {
        return Ok(false);
    };
    let in_dims = (0..first.len()).map(|k| (!alone || k == 0).then_some(dim)).collect();
    let options = VmapOptions { in_dims, ..VmapOptions::default() };
    let f = |own: &Vec<Tensor>| {
        let mut stack = with(&case.stack, own)?;
        op.call_boxed(&mut stack)?;
        Ok(stack.iter().flat_map(Value::tensors).cloned().collect::<Vec<_>>())
    };
    let got = match vmap_with(f, &options)(&batch) {
        Ok(got) => got,
        // what PyTorch refuses, too
        Err(e) if matches!(e.kind(), ErrorKind::Transform(_)) => {
            *refused.entry(case.op.clone()).or_default() = e.to_string();
            return Ok(false);
        }
        Err(e) => return Err(e.to_string()),
    };
    if got.len() != a.len() {
        return Err(format!("{} results, and {} of a sample", got.len(), a.len()));
    }
    for (k, got) in got.iter().enumerate() {
        for (at, want) in [&a[k], &b[k]].into_iter().enumerate() {
            let sample = aten::select_int(got, 0, at as i64).map_err(|e| e.to_string())?;
            if (sample.sizes(), sample.dtype()) != (want.sizes(), want.dtype()) {
                return Err(format!(
                    "result {k} is {}{:?}, and of a sample {}{:?}",
                    sample.dtype(),
                    sample.sizes(),
                    want.dtype(),
                    want.sizes()
                ));
            }
            same_values(&sample, want, Tolerance::of_order(&case.json, want))?;
        }
    }
    Ok(true)
}

/// Runs `check` on all public cases: it says how many comparisons it made, or what differs.
fn on_all_cases(what: &str, check: impl Fn(&Case, &mut Refused) -> Result<usize, String>) {
    let only = std::env::var("CONFORMANCE_OP").unwrap_or_default();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/public.jsonl.gz");
    let file = std::fs::File::open(path).expect("the vectors are in the repository");
    let (mut compared, mut operators) = (0, BTreeMap::<String, Vec<String>>::new());
    let mut refused = Refused::new();
    for line in BufReader::new(GzDecoder::new(file)).lines() {
        let line = line.expect("the file is text");
        let op = line.split('"').nth(3).unwrap_or("").to_string();
        if !op.contains(&only) {
            continue;
        }
        let Ok(case) = Case::parse(&line) else { continue };
        match check(&case, &mut refused) {
            Ok(done) => compared += done,
            Err(e) => {
                let what = format!("{}: {}", case.id, e.lines().next().unwrap_or(""));
                operators.entry(op).or_default().push(what);
            }
        }
    }
    for (op, failures) in &operators {
        println!("{op}: {} failed; {}", failures.len(), failures[0]);
    }
    for (op, why) in &refused {
        println!("{op} refused: {}", why.lines().next().unwrap_or(""));
    }
    println!("{compared} {what} compared, {} operators differ", operators.len());
    assert!(compared > 0 || !only.is_empty(), "no case was run");
    assert!(operators.is_empty(), "{} operators differ from their samples", operators.len());
}

#[test]
fn batches_are_stacks_of_samples() {
    on_all_cases("calls", |case, refused| {
        let all = check(case, false, refused)?;
        let first = check(case, true, refused).map_err(|e| format!("(first only) {e}"))?;
        Ok(usize::from(all) + usize::from(first))
    });
}

/// The derivative of a weighted sum of all results with respect to the floating tensors.
fn derivative(op: OperatorHandle, stack: &[Value], own: &[Tensor]) -> Result<Vec<Tensor>> {
    let at: Vec<usize> = (0..own.len()).filter(|k| own[*k].dtype().is_floating()).collect();
    let f = |some: &Vec<Tensor>| {
        let mut all = own.to_vec();
        for (k, t) in at.iter().zip(some) {
            all[*k] = t.clone();
        }
        let mut stack = with(stack, &all)?;
        op.call_boxed(&mut stack)?;
        let mut total: Option<Tensor> = None;
        for (k, t) in stack.iter().flat_map(Value::tensors).enumerate() {
            if t.dtype().is_floating() {
                let t = t.to_dtype(DType::F64)?;
                let part = t.mul(&t)?.mul(0.5 + k as f64)?.sum()?;
                total = Some(match total {
                    Some(sum) => sum.add(part)?,
                    None => part,
                });
            }
        }
        total.map_or_else(|| straightline::zeros(()), Ok)
    };
    grad(f)(&at.iter().map(|k| own[*k].clone()).collect::<Vec<_>>())
}

fn check_derivatives(case: &Case, refused: &mut Refused) -> Result<bool, String> {
    if OTHERS.iter().any(|o| case.op.contains(o)) {
        return Ok(false);
    }
    let Ok(op) = operator(&case.op) else { return Ok(false) };
    let Some(schema) = op.schema() else { return Ok(false) };
    let random = op.tags().contains(&"nondeterministic_seeded");
    let shared = case.given.iter().any(|g| g.owner != g.path);
    let first = tensors(&case.stack);
    let floats = first.iter().any(|t| t.dtype().is_floating());
    if random || shared || !floats || schema.is_mutable() {
        return Ok(false);
    }
    let Ok(other) = case.again(true) else { return Ok(false) };
    let second = tensors(&other.stack);
    let samples = [&first, &second].map(|own| derivative(op, &case.stack, own));
    let [Ok(a), Ok(b)] = samples else { return Ok(false) };
    let stacked = |k: usize| aten::stack(&[first[k].clone(), second[k].clone()], 0);
    let Ok(batch) = (0..first.len()).map(stacked).collect::<Result<Vec<Tensor>>>() else {
        return Ok(false);
    };
    let f = |own: &Vec<Tensor>| derivative(op, &case.stack, own);
    let got = match vmap_with(f, &VmapOptions::default())(&batch) {
        Ok(got) => got,
        Err(e) if matches!(e.kind(), ErrorKind::Transform(_)) => {
            *refused.entry(case.op.clone()).or_default() = e.to_string();
            return Ok(false);
        }
        Err(e) => return Err(e.to_string()),
    };
    for (k, got) in got.iter().enumerate() {
        for (at, want) in [&a[k], &b[k]].into_iter().enumerate() {
            let sample = aten::select_int(got, 0, at as i64).map_err(|e| e.to_string())?;
            same_values(&sample, want, Tolerance::of_order(&case.json, want))?;
        }
    }
    Ok(true)
}

#[test]
fn gradients_of_batches_are_stacks_of_gradients() {
    on_all_cases("gradients", |case, refused| check_derivatives(case, refused).map(usize::from));
}

/// `u . jvp(f)(x; v)` and `v . vjp(f)(x; u)`, where they can be computed, and how large the terms
/// are.
fn both_ways(case: &Case) -> Result<Option<(f64, f64, f64)>> {
    let op = operator(&case.op)?;
    let own = tensors(&case.stack);
    let at: Vec<usize> = (0..own.len()).filter(|k| own[*k].dtype().is_floating()).collect();
    let f = |some: &Vec<Tensor>| {
        let mut all = own.clone();
        for (k, t) in at.iter().zip(some) {
            all[*k] = t.clone();
        }
        let mut stack = with(&case.stack, &all)?;
        op.call_boxed(&mut stack)?;
        let results = stack.iter().flat_map(Value::tensors).filter(|t| t.dtype().is_floating());
        Ok(results.cloned().collect::<Vec<_>>())
    };
    let x: Vec<Tensor> = at.iter().map(|k| own[*k].clone()).collect();
    let wave = |ts: &[Tensor], by: f64| {
        let one = |t: &Tensor| {
            let n = straightline::arange(t.numel())?.to_dtype(t.dtype())?;
            n.mul(by)?.cos()?.reshape(t.sizes())
        };
        ts.iter().map(one).collect::<Result<Vec<Tensor>>>()
    };
    let dot = |a: &[Tensor], b: &[Tensor]| {
        let one = |(a, b): (&Tensor, &Tensor)| {
            a.to_dtype(DType::F64)?.mul(b.to_dtype(DType::F64)?)?.sum()?.item::<f64>()
        };
        a.iter().zip(b).map(one).sum::<Result<f64>>()
    };
    let (y, pull) = vjp(f, &x)?;
    if x.iter().chain(&y).any(|t| matches!(t.dtype(), DType::F16 | DType::BF16)) {
        return Ok(None);
    }
    if y.is_empty() || y.iter().all(|t| t.numel() == 0) {
        return Ok(None);
    }
    let (v, u) = (wave(&x, 1.3)?, wave(&y, 0.7)?);
    let (pulled, pushed) = (pull.call(&u)?, jvp(f, &x, &v)?.1);
    let magnitude =
        pushed.iter().map(|t| dot(&[t.abs()?], &[t.abs()?.sign()?])).sum::<Result<f64>>()?;
    Ok(Some((dot(&pushed, &u)?, dot(&pulled, &v)?, magnitude)))
}

#[test]
fn forward_and_reverse_mode_agree() {
    let only = std::env::var("CONFORMANCE_OP").unwrap_or_default();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/public.jsonl.gz");
    let file = std::fs::File::open(path).expect("the vectors are in the repository");
    let (mut compared, mut operators) = (0, BTreeMap::<String, Vec<String>>::new());
    let mut refused = Refused::new();
    for line in BufReader::new(GzDecoder::new(file)).lines() {
        let line = line.expect("the file is text");
        let op = line.split('"').nth(3).unwrap_or("").to_string();
        let Ok(case) = Case::parse(&line) else { continue };
        let random = operator(&op).is_ok_and(|op| {
            op.tags().contains(&"nondeterministic_seeded")
                || op.schema().is_some_and(|s| s.is_mutable() || s.is_out_variant())
        });
        let floats =
            tensors(&case.stack).iter().any(|t| matches!(t.dtype(), DType::F32 | DType::F64));
        let others = OTHERS.iter().any(|o| op.contains(o));
        if !op.contains(&only) || random || !floats || others || is_no_adjoint(&case) {
            continue;
        }
        match both_ways(&case) {
            Ok(None) => {}
            Ok(Some((a, b, _))) if !a.is_finite() || !b.is_finite() => {}
            Ok(Some((a, b, all))) if (a - b).abs() <= 1e-4 * (1.0 + all) => compared += 1,
            Ok(Some((a, b, _))) => {
                let what = format!("{}: {a} forward, {b} reverse", case.id);
                operators.entry(op.clone()).or_default().push(what);
            }
            Err(e) => *refused.entry(op.clone()).or_default() = e.to_string(),
        }
    }
    for (op, failures) in &operators {
        println!("{op}: {} failed; {}", failures.len(), failures[0]);
    }
    for (op, why) in &refused {
        println!("{op} refused: {}", why.lines().next().unwrap_or(""));
    }
    println!("{compared} derivatives compared, {} operators differ", operators.len());
    assert!(operators.is_empty(), "{} operators differ", operators.len());
}
