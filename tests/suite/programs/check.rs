//! Comparing an eager with a compiled run.

use super::generate::{Prepared, Program, run};
use super::library::{Library, expected};
use std::panic::{AssertUnwindSafe, catch_unwind};
use straightline::ops::{Tolerance, aten, tolerance};
use straightline::{DType, Tensor, compile};

pub(crate) enum Outcome {
    Same,
    Differs(String),
}

/// The numbers of a tensor as pairs; real numbers have no imaginary part.
fn numbers(t: &Tensor) -> Result<Vec<f64>, String> {
    let e = |e: straightline::Error| e.to_string();
    if t.dtype() == DType::I64 {
        return Ok(t
            .to_vec::<i64>()
            .map_err(e)?
            .into_iter()
            .map(|x| x as f64)
            .collect());
    }
    t.to_dtype(DType::F64)
        .and_then(|t| t.to_vec::<f64>())
        .map_err(e)
}

/// How far apart results of the operator may be, and everything computed from them.
fn bounds(op: &str, dtype: DType) -> (f64, f64) {
    let class = tolerance(op).unwrap_or(Tolerance::Pointwise);
    match class {
        Tolerance::Exact => Tolerance::Pointwise.bounds(dtype),
        other => other.bounds(dtype),
    }
}

fn same(got: &Tensor, want: &Tensor, (rtol, atol): (f64, f64)) -> Result<(), String> {
    if got.dtype() != want.dtype() || got.sizes() != want.sizes() {
        return Err(format!(
            "{}{:?}, eager {}{:?}",
            got.dtype(),
            got.sizes(),
            want.dtype(),
            want.sizes()
        ));
    }
    let matter = |i: &usize| got.sizes()[*i] > 1;
    if got.numel() > 0
        && (0..got.dim())
            .filter(matter)
            .any(|i| got.strides()[i] != want.strides()[i])
    {
        return Err(format!(
            "strides {:?}, eager {:?}",
            got.strides(),
            want.strides()
        ));
    }
    let (got, want) = (numbers(got)?, numbers(want)?);
    let size = want
        .iter()
        .filter(|x| x.is_finite())
        .fold(0.0f64, |m, x| m.max(x.abs()));
    for (i, (x, y)) in got.iter().zip(&want).enumerate() {
        let equal = x == y || (x.is_nan() && y.is_nan());
        // sums cancel: what is left of one is as exact as its largest part
        let near = (x - y).abs() <= atol + rtol * y.abs().max(size);
        if !equal && !near {
            return Err(format!("element {i}: {x:?}, eager {y:?}"));
        }
    }
    Ok(())
}

/// A copy with the same strides and nothing shared.
fn snapshot(t: &Tensor) -> straightline::Result<Tensor> {
    aten::clone(t, None)
}

/// Each call by itself: the operands that the compiled program had, through the eager operator.
fn step_by_step(prepared: &Prepared, got: &[Vec<Tensor>], inputs: &[Tensor]) -> Result<(), String> {
    let mut inputs = inputs.iter();
    for (k, (name, stack, replaced)) in prepared.templates.iter().enumerate() {
        let mut which = replaced.iter();
        let mut failed = None;
        let mut copy = |t: &Tensor| {
            snapshot(t).unwrap_or_else(|e| {
                failed = Some(e.to_string());
                t.clone()
            })
        };
        let mut stack = super::generate::with_tensors(stack, &mut || match which.next() {
            Some(Some((i, k))) => copy(&got[*i][*k]),
            _ => inputs.next().expect("as many as were prepared").clone(),
        });
        if let Some(e) = failed {
            return Err(e);
        }
        let op = straightline::dispatch::operator(name).map_err(|e| e.to_string())?;
        op.call_boxed(&mut stack).map_err(|e| e.to_string())?;
        let want: Vec<&Tensor> = stack.iter().flat_map(|v| v.tensors()).collect();
        for (t, w) in got[k].iter().zip(want) {
            same(t, w, bounds(name, t.dtype())).map_err(|e| format!("%{k} = {name}: {e}"))?;
        }
    }
    Ok(())
}

pub(crate) fn check(library: &Library, program: &Program) -> Outcome {
    let eager = program.prepare(library);
    let want = match catch_unwind(AssertUnwindSafe(|| run(&eager.templates, &eager.inputs))) {
        Ok(Ok(want)) => want,
        // a shrunk program may be one that eager refuses
        _ => return Outcome::Same,
    };
    match catch_unwind(AssertUnwindSafe(|| {
        compare(library, program, &eager, &want)
    })) {
        Ok(Ok(())) => Outcome::Same,
        Ok(Err(why)) if expected(&why) => Outcome::Same,
        Ok(Err(why)) => Outcome::Differs(why),
        Err(_) => Outcome::Differs("compiling or running it panicked".into()),
    }
}

fn compare(
    library: &Library,
    program: &Program,
    eager: &Prepared,
    want: &[Vec<Tensor>],
) -> Result<(), String> {
    let prepared = program.prepare(library);
    let templates = prepared.templates.clone();
    let f = compile(move |ts: &Vec<Tensor>| run(&templates, ts));
    let got = f
        .call(&prepared.inputs)
        .map_err(|e| format!("compiled: {e}"))?;
    let ops = prepared.templates.iter().map(|t| &t.0);
    let mut differs = None;
    for (k, ((got, want), op)) in got.iter().zip(want).zip(ops).enumerate() {
        if got.len() != want.len() {
            return Err(format!("%{k}: {} results, eager {}", got.len(), want.len()));
        }
        for (g, w) in got.iter().zip(want) {
            if let Err(e) = same(g, w, bounds(op, g.dtype())) {
                differs.get_or_insert(format!("%{k} = {op}: {e}"));
            }
        }
    }
    for (i, (g, w)) in prepared.inputs.iter().zip(&eager.inputs).enumerate() {
        if let Err(e) = same(g, w, Tolerance::Accumulate.bounds(g.dtype())) {
            differs.get_or_insert(format!("argument {i} after the call: {e}"));
        }
    }
    let Some(differs) = differs else {
        return Ok(());
    };
    let mutable = |name: &str| {
        straightline::dispatch::operator(name)
            .ok()
            .and_then(|op| op.schema())
            .is_some_and(|s| s.is_mutable())
    };
    // a call that writes what no other call sees can be repeated by itself
    let writes = prepared
        .templates
        .iter()
        .enumerate()
        .any(|(k, (name, _, own))| {
            let seen = prepared.templates[k + 1..]
                .iter()
                .flat_map(|(.., replaced)| replaced.iter().flatten())
                .any(|(i, _)| *i == k);
            mutable(name) && (seen || own.iter().any(Option::is_some))
        });
    if writes || prepared.templates.len() == 1 {
        return Err(differs);
    }
    // a small difference early may become a large one: a comparison, a sort, a division by nearly nothing
    step_by_step(
        &program.prepare(library),
        &got,
        &program.prepare(library).inputs,
    )
    .map_err(|e| format!("{e} (whole program: {differs})"))
}
