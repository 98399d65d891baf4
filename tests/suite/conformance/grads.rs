//! Gradients: a recorded call on leaves, and a backward pass from its results.

use super::case::{Case, decode_base64, dtype, ints, storage, text};
use super::compare::{self, Tolerance};
use serde_json::Value as Json;
use straightline::autograd::{BackwardOptions, backward};
use straightline::dispatch::{Value, operator};
use straightline::{CompileEvent, CompileOptions, Tensor, compile_with};

/// A recorded gradient.
fn tensor(j: &Json) -> Result<Option<Tensor>, String> {
    if j.is_null() {
        return Ok(None);
    }
    let row = storage(dtype(text(j, "t"))?, &decode_base64(text(j, "values")));
    let whole = row.and_then(|row| row.view(&ints(&j["size"])[..]));
    whole.map(Some).map_err(|e| e.to_string())
}

/// The leaves of a case with the paths of their gradients, and the arguments made of them.
pub(super) struct Leaves {
    /// All tensors that are given.
    pub(super) given: Vec<Tensor>,
    paths: Vec<String>,
    tensors: Vec<Tensor>,
    stack: Vec<Value>,
}

impl Leaves {
    pub(super) fn of(case: &Case) -> straightline::Result<Leaves> {
        let grads = case.json["grads"].as_object().cloned().unwrap_or_default();
        let (mut paths, mut tensors) = (Vec::new(), Vec::new());
        let mut given = Vec::new();
        for g in &case.given {
            if grads.contains_key(&g.path) {
                let leaf = g.tensor.detach()?.requires_grad_(true)?;
                paths.push(g.path.clone());
                tensors.push(leaf.clone());
                given.push(leaf);
            } else {
                given.push(g.tensor.clone());
            }
        }
        let stack = arguments(case, &given)?;
        Ok(Leaves { given, paths, tensors, stack })
    }
}

/// The arguments of the case made of these tensors. What is written is a copy.
fn arguments(case: &Case, given: &[Tensor]) -> straightline::Result<Vec<Value>> {
    arguments_of(&case.op, &case.stack, given)
}

pub(super) fn arguments_of(
    op: &str,
    of: &[Value],
    given: &[Tensor],
) -> straightline::Result<Vec<Value>> {
    let op = operator(op)?;
    let args = op.schema().map_or(&[][..], |s| &s.args);
    let mut next = given.iter();
    let mut stack = Vec::new();
    for (value, arg) in of.iter().zip(args) {
        let mut of = |t: &Tensor| match t.is_wrapped_number() {
            true => Ok(t.clone()),
            false => {
                let t = next.next().expect("as many as there were");
                match arg.is_write() && t.requires_grad() {
                    true => straightline::ops::aten::clone(t, None),
                    false => Ok(t.clone()),
                }
            }
        };
        stack.push(value.map_tensors(&mut of)?);
    }
    Ok(stack)
}

/// The results of the call that have a gradient, with those gradients.
fn with_gradients(
    outs: &[Value],
    recorded: &[Option<Tensor>],
) -> (Vec<Tensor>, Vec<Option<Tensor>>) {
    let results = outs.iter().flat_map(Value::tensors);
    let pairs = results.zip(recorded).filter(|(t, g)| g.is_some() && t.requires_grad());
    pairs.map(|(t, g)| (t.clone(), g.clone())).unzip()
}

/// The gradients of the results, by result.
pub(super) fn recorded(case: &Case) -> Result<Vec<Option<Tensor>>, String> {
    let all = case.json["grad_outs"].as_array().cloned().unwrap_or_default();
    all.iter().map(tensor).collect()
}

/// Compares gradients with those that were recorded.
fn compare(case: &Case, paths: &[String], grads: &[Option<Tensor>]) -> Result<(), String> {
    for (path, got) in paths.iter().zip(grads) {
        let want = tensor(&case.json["grads"][path])?;
        let at = |e: String| format!("gradient of {path}: {e}");
        match (got, want) {
            (None, None) => {}
            (Some(_), None) => return Err(at("there is one, PyTorch has none".into())),
            (None, Some(_)) => return Err(at("there is none".into())),
            (Some(got), Some(want)) => {
                if got.sizes() != want.sizes() {
                    return Err(at(format!("sizes {:?}, not {:?}", got.sizes(), want.sizes())));
                }
                let got = got.detach().map_err(|e| e.to_string())?;
                compare::same_values(&got, &want, Tolerance::of(&case.json)).map_err(at)?;
            }
        }
    }
    Ok(())
}

/// The call and its backward pass.
pub(crate) fn eager(case: &Case) -> Result<(), String> {
    let recorded = recorded(case)?;
    let run = || -> straightline::Result<(Vec<String>, Vec<Option<Tensor>>)> {
        let Leaves { paths, tensors, mut stack, .. } = Leaves::of(case)?;
        operator(&case.op)?.call_boxed(&mut stack)?;
        let (results, grads) = with_gradients(&stack, &recorded);
        backward(&results, &grads, &BackwardOptions::default())?;
        Ok((paths, tensors.iter().map(Tensor::grad).collect()))
    };
    let (paths, grads) = run().map_err(|e| e.to_string())?;
    compare(case, &paths, &grads)
}

/// The call compiled, and a backward pass through it; then both compiled as one function.
pub(crate) fn compiled(case: &Case) -> Result<(), String> {
    let recorded = recorded(case)?;
    let call = {
        let (op, of) = (case.op.clone(), case.stack.clone());
        move |given: &[Tensor]| -> straightline::Result<Vec<Tensor>> {
            let mut stack = arguments_of(&op, &of, given)?;
            operator(&op)?.call_boxed(&mut stack)?;
            Ok(stack.iter().flat_map(|v| v.tensors().cloned()).collect())
        }
    };
    let options = CompileOptions { eager_fallback: true, ..CompileOptions::default() };
    type Both = [Vec<Option<Tensor>>; 2];
    let run = || -> straightline::Result<(Vec<String>, Both)> {
        let alone = call.clone();
        let f = compile_with(options.clone(), move |given: &Vec<Tensor>| alone(given));
        let Leaves { given, paths, tensors, .. } = Leaves::of(case)?;
        let results: Vec<Value> = f.call(&given)?.into_iter().map(Value::Tensor).collect();
        let (results, grads) = with_gradients(&results, &recorded);
        backward(&results, &grads, &BackwardOptions::default())?;
        let halves = tensors.iter().map(Tensor::grad).collect();
        let of = recorded.clone();
        let whole = compile_with(options.clone(), move |given: &Vec<Tensor>| {
            let results: Vec<Value> = call(given)?.into_iter().map(Value::Tensor).collect();
            let (results, grads) = with_gradients(&results, &of);
            backward(&results, &grads, &BackwardOptions::default())
        });
        let Leaves { given, tensors, .. } = Leaves::of(case)?;
        whole.call(&given)?;
        for e in f.events().iter().chain(&whole.events()) {
            if let CompileEvent::EagerFallback { reason } = e {
                println!("{} runs eagerly: {reason}", case.op);
            }
        }
        Ok((paths, [halves, tensors.iter().map(Tensor::grad).collect()]))
    };
    let (paths, [halves, whole]) = run().map_err(|e| e.to_string())?;
    compare(case, &paths, &halves).map_err(|e| format!("two halves: {e}"))?;
    compare(case, &paths, &whole).map_err(|e| format!("one plan: {e}"))
}
