//! One case in one mode.

use super::case::{Case, text};
use super::compare::{self, Level};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use straightline::dispatch::{Value, call_count, operator};
use straightline::ops::aten;
use straightline::{Device, Tensor, compile};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// The boxed call.
    Eager,
    /// The boxed call on tensors that have shapes only.
    Meta,
    /// Captured and compiled; called twice.
    Compiled,
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
        let base =
            Tensor::with((t.dtype(), Device::META)).empty([reach + t.storage_offset() + 1])?;
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

/// Calls the operator and compares with what PyTorch recorded.
pub(crate) fn run(case: &Case, mode: Mode) -> Result<(), String> {
    let op = operator(&case.op).map_err(|e| e.to_string())?;
    let (have, want) = (
        op.schema().map(ToString::to_string),
        text(&case.json, "schema"),
    );
    if have.as_deref() != Some(want) {
        return Err(format!("the schema is {have:?}, PyTorch's is {want:?}"));
    }
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
    let inputs = case.tensors();
    let shape = |t: &Tensor| (t.sizes().to_vec(), t.strides().to_vec(), t.storage_offset());
    let shapes: Vec<_> = inputs.iter().map(shape).collect();
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
    let inputs = match inputs.iter().map(shape).eq(shapes) {
        true => inputs,
        // a call that changes the shape of an argument finds another one at the next
        false => Case::parse(&case.json.to_string())?.tensors(),
    };
    let before = call_count();
    f.call(&inputs).map_err(|e| format!("a replay: {e}"))?;
    match call_count() - before {
        0 => Ok(()),
        n => Err(format!("a replay entered the dispatcher {n} times")),
    }
}

/// A call that must fail, and must not panic; eagerly it fails with the exception class that PyTorch raises.
pub(crate) fn run_error(case: &Case, mode: Mode) -> Result<(), String> {
    let op = operator(&case.op).map_err(|e| e.to_string())?;
    let template = case.stack.clone();
    let outcome = catch_unwind(AssertUnwindSafe(|| match mode {
        Mode::Eager => op.call_boxed(&mut case.stack.clone()).err(),
        Mode::Meta => match case
            .stack
            .iter()
            .map(to_meta)
            .collect::<Result<Vec<_>, _>>()
        {
            Ok(mut stack) => op.call_boxed(&mut stack).err(),
            Err(e) => Some(e),
        },
        Mode::Compiled => {
            let inputs: Vec<Tensor> = case
                .stack
                .iter()
                .flat_map(Value::tensors)
                .cloned()
                .collect();
            let f = compile(move |ts: &Vec<Tensor>| {
                let mut stack = with_tensors(&template, &mut ts.iter().cloned());
                op.call_boxed(&mut stack)?;
                Ok(stack
                    .iter()
                    .flat_map(Value::tensors)
                    .cloned()
                    .collect::<Vec<_>>())
            });
            f.call(&inputs).err()
        }
    }));
    match outcome {
        Ok(Some(e)) => match case.json["error"]["type"].as_str() {
            Some(class) if mode == Mode::Eager && class != e.python_class() => Err(format!(
                "{}, should be {class} ({}): {e}",
                e.python_class(),
                case.json["error"]["message"]
            )),
            _ => Ok(()),
        },
        Ok(None) => Err(format!(
            "succeeded, should say: {}",
            case.json["error"]["message"]
        )),
        Err(_) => Err("panicked".into()),
    }
}

/// [`run`] or, for a case that must fail, [`run_error`]; a panic is a failure.
pub(crate) fn run_case(case: &Case, mode: Mode) -> Result<(), String> {
    if case.json["error"].is_object() {
        return run_error(case, mode);
    }
    catch_unwind(AssertUnwindSafe(|| run(case, mode))).unwrap_or_else(|_| Err("panicked".into()))
}
