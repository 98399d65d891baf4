//! One case in one mode.

use super::case::{Case, bytes, geometry, text};
use super::compare::{self, Level, Tolerance};
use super::double;
use super::grads;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use straightline::dispatch::schema::FunctionSchema;
use straightline::dispatch::{DispatchKey, Value, call_count, operator};
use straightline::ops::aten;
use straightline::{Device, Tensor, compile};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// The boxed call.
    Eager,
    /// The boxed call on tensors that have shapes only.
    Meta,
    /// Captured and compiled; called three times.
    Compiled,
    /// The boxed call on tensors of the first GPU.
    #[allow(dead_code, reason = "the tool runs it: the suite is for machines without one")]
    Cuda,
    /// Captured and compiled for the first GPU; called often enough to be recorded as a graph.
    #[allow(dead_code, reason = "as above")]
    CudaCompiled,
}

/// The arguments without data, and the tensors among them in the order of [`Case::given`].
fn on_meta(case: &Case) -> straightline::Result<(Vec<Value>, Vec<Tensor>)> {
    let mut rows: Vec<(&str, Tensor)> = Vec::new();
    let mut tensors = Vec::new();
    for g in &case.given {
        let row = match rows.iter().find(|(owner, _)| *owner == g.owner) {
            Some((_, row)) => row.clone(),
            None => {
                let row = Tensor::with((g.row.dtype(), Device::META)).empty([g.row.numel()])?;
                rows.push((&g.owner, row.clone()));
                row
            }
        };
        let (sizes, strides, offset) = &g.geometry;
        tensors.push(aten::as_strided(&row, sizes, strides, Some(*offset))?);
    }
    let mut next = tensors.iter().cloned();
    let mut stack = with_tensors(&case.stack, &mut |t| match t.is_wrapped_number() {
        true => t.clone(),
        false => next.next().expect("as many as there were"),
    });
    for v in &mut stack {
        if matches!(v, Value::Device(_)) {
            *v = Value::Device(Device::META);
        }
    }
    Ok((stack, tensors))
}

/// Calls the operator and compares with what PyTorch recorded.
pub(crate) fn run(case: &Case, mode: Mode) -> Result<(), String> {
    let op = operator(&case.op).map_err(|e| e.to_string())?;
    let (have, want) = (op.schema().map(ToString::to_string), text(&case.json, "schema"));
    if have.as_deref() != Some(want) {
        return Err(format!("the schema is {have:?}, PyTorch's is {want:?}"));
    }
    match mode {
        Mode::Eager => {
            let outs = eager(case).map_err(|e| e.to_string())?;
            stand_alone(case, &outs)?;
            recorded(case, &outs)
        }
        Mode::Meta => {
            let (mut stack, args) = on_meta(case).map_err(|e| e.to_string())?;
            op.call_boxed(&mut stack).map_err(|e| e.to_string())?;
            let (outs, level) = (&stack[..], Level::Shape);
            compare::Call { case, args, outs, level }.check()
        }
        Mode::Compiled => compiled(case),
        // the case is one of that device then
        Mode::CudaCompiled => {
            compiled(case)?;
            repeated(case)
        }
        Mode::Cuda => eager(case).map_err(|e| e.to_string()).and_then(|o| recorded(case, &o)),
    }
}

fn eager(case: &Case) -> straightline::Result<Vec<Value>> {
    let mut stack = case.stack.clone();
    operator(&case.op)?.call_boxed(&mut stack)?;
    Ok(stack)
}

/// What a differentiable operator other than a view gives is no view, whatever its kernel makes it of:
/// a later write into it would ask for the history of a base that nobody knows.
fn stand_alone(case: &Case, outs: &[Value]) -> Result<(), String> {
    let op = operator(&case.op).map_err(|e| e.to_string())?;
    let composite = op.has_kernel(DispatchKey::CompositeImplicitAutograd);
    if op.schema().is_none_or(FunctionSchema::is_view)
        || composite
        || !op.has_kernel(DispatchKey::Autograd)
    {
        return Ok(());
    }
    let given = |t: &Tensor| case.stack.iter().flat_map(Value::tensors).any(|g| g.is_same(t));
    match outs.iter().flat_map(Value::tensors).position(|t| t.base().is_some() && !given(t)) {
        Some(at) => Err(format!("result {at} is a view of a tensor that the kernel made")),
        None => Ok(()),
    }
}

/// Compares a call on the case's own tensors with what PyTorch recorded.
fn recorded(case: &Case, outs: &[Value]) -> Result<(), String> {
    let args = case.given.iter().map(|g| g.tensor.clone()).collect();
    let level = Level::Values;
    compare::Call { case, args, outs, level }.check()
}

/// The tensors of the stack replaced, in order.
fn with_tensors(stack: &[Value], next: &mut dyn FnMut(&Tensor) -> Tensor) -> Vec<Value> {
    stack
        .iter()
        .map(|v| match v {
            Value::Tensor(t) => Value::Tensor(next(t)),
            Value::TensorList(l) => Value::TensorList(l.iter().map(&mut *next).collect()),
            Value::OptionalTensorList(l) => {
                Value::OptionalTensorList(l.iter().map(|t| t.as_ref().map(&mut *next)).collect())
            }
            other => other.clone(),
        })
        .collect()
}

/// A function that calls the operator of the case, compiled, and the results that are no tensors:
/// they are known while capturing.
#[allow(clippy::type_complexity, reason = "the type of a closure has no name")]
fn function(
    case: &Case,
) -> straightline::Result<impl Fn(&Vec<Tensor>) -> straightline::Result<Vec<Value>> + use<>> {
    let op = operator(&case.op)?;
    let template = case.stack.clone();
    let known = Arc::new(Mutex::new(Vec::new()));
    let returns = known.clone();
    let f = compile(move |ts: &Vec<Tensor>| {
        let mut tensors = ts.iter();
        let mut stack = with_tensors(&template, &mut |_| {
            tensors.next().expect("as many as there were").clone()
        });
        op.call_boxed(&mut stack)?;
        // a tensor is a stand-in here, which nothing may keep
        let kind = |v: &Value| match v {
            Value::Tensor(_) => (1, Value::None),
            Value::TensorList(_) => (2, Value::None),
            other => (0, other.clone()),
        };
        *returns.lock().expect("no panic holds it") = stack.iter().map(kind).collect();
        Ok(stack.iter().map(|v| v.tensors().cloned().collect()).collect::<Vec<Vec<Tensor>>>())
    });
    Ok(move |tensors: &Vec<Tensor>| {
        let out = f.call(tensors)?;
        let known = known.lock().expect("no panic holds it");
        let mut values = Vec::new();
        for (list, known) in out.into_iter().zip(known.iter()) {
            values.push(match known {
                (1, _) => Value::Tensor(list.into_iter().next().expect("one tensor")),
                (2, _) => Value::TensorList(list),
                (_, other) => other.clone(),
            });
        }
        Ok(values)
    })
}

/// Captures and compares; replays on tensors with other elements and compares with eager execution;
/// replays on fresh tensors with the recorded elements and compares with PyTorch again.
fn compiled(case: &Case) -> Result<(), String> {
    let f = function(case).map_err(|e| e.to_string())?;
    let outs = f(&case.tensors()).map_err(|e| e.to_string())?;
    recorded(case, &outs)?;
    other_elements(case, &f).map_err(|e| format!("a replay on other elements: {e}"))?;
    let again = case.again(false)?;
    replay(case, || f(&again.tensors()))
        .and_then(|outs| recorded(&again, &outs?))
        .map_err(|e| format!("a replay: {e}"))
}

/// Replays on the same tensors, again and again, where nothing is written.
fn repeated(case: &Case) -> Result<(), String> {
    let op = operator(&case.op).map_err(|e| e.to_string())?;
    if op.schema().is_none_or(|s| s.args.iter().any(|a| a.is_write())) {
        return Ok(());
    }
    // some move statistics, whatever the schema says
    let once = case.again(false)?;
    let ran = eager(&once);
    let kept = once.given.iter().all(|g| bytes(&g.row).is_ok_and(|now| now == g.held));
    if ran.is_err() || !kept {
        return Ok(());
    }
    let f = function(case).map_err(|e| e.to_string())?;
    for i in 0..5 {
        let outs = f(&case.tensors()).map_err(|e| e.to_string())?;
        recorded(case, &outs).map_err(|e| format!("replay {i} on the same tensors: {e}"))?;
    }
    Ok(())
}

/// What a call of a compiled function gives; an error where it is no replay. (On a GPU an operator
/// without a kernel there is called.)
fn replay(
    case: &Case,
    call: impl FnOnce() -> straightline::Result<Vec<Value>>,
) -> Result<Result<Vec<Value>, String>, String> {
    let before = call_count();
    let outs = call();
    match call_count() - before {
        _ if case.is_moved() => Ok(outs.map_err(|e| e.to_string())),
        0 => Ok(outs.map_err(|e| e.to_string())),
        n => Err(format!("it entered the dispatcher {n} times")),
    }
}

fn other_elements(
    case: &Case,
    f: &impl Fn(&Vec<Tensor>) -> straightline::Result<Vec<Value>>,
) -> Result<(), String> {
    let (eagerly, compiled) = (case.again(true)?, case.again(true)?);
    // elements that the operator does not take are not what is looked at
    let Ok(want) = eager(&eagerly) else {
        return Ok(());
    };
    // other sizes are captured first
    let op = operator(&case.op).map_err(|e| e.to_string())?;
    if op.tags().contains(&"dynamic_output_shape") {
        f(&case.again(true)?.tensors()).map_err(|e| e.to_string())?;
    }
    let got = replay(case, || f(&compiled.tensors()))??;
    if case.json["nondeterministic"] == true {
        return Ok(());
    }
    let pairs = |got: &[Value], want: &[Value]| -> Vec<(Tensor, Tensor)> {
        let tensors = |v: &[Value]| v.iter().flat_map(Value::tensors).cloned().collect();
        let (got, want): (Vec<_>, Vec<_>) = (tensors(got), tensors(want));
        got.into_iter().zip(want).collect()
    };
    for (i, (got, want)) in pairs(&got, &want).iter().enumerate() {
        compare::same_geometry(&geometry(got), &geometry(want))
            .and_then(|()| compare::same_values(got, want, Tolerance::coarse(want)))
            .map_err(|e| format!("result tensor {i}: {e}"))?;
    }
    for (got, want) in compiled.given.iter().zip(&eagerly.given) {
        compare::same_geometry(&geometry(&got.tensor), &geometry(&want.tensor))
            .and_then(|()| {
                let tolerance = Tolerance::coarse(&want.row);
                compare::same_values(&got.row, &want.row, tolerance)
            })
            .map_err(|e| format!("{} after the call: {e}", got.path))?;
    }
    Ok(())
}

/// A call that must fail with the exception class that PyTorch raises, by an error that names the
/// operator and the line of the call, and must not panic.
pub(crate) fn run_error(case: &Case, mode: Mode) -> Result<(), String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| match mode {
        Mode::Eager | Mode::Cuda => eager(case).err(),
        Mode::Meta => on_meta(case)
            .and_then(|(mut stack, _)| operator(&case.op)?.call_boxed(&mut stack))
            .err(),
        Mode::Compiled | Mode::CudaCompiled => {
            function(case).and_then(|f| f(&case.tensors())).err()
        }
    }));
    match outcome {
        Ok(Some(e)) if e.op().is_none() || e.location().is_none() => {
            Err(format!("names no operator or no line: {e}"))
        }
        Ok(Some(e)) => match case.json["error"]["type"].as_str() {
            // a class of Python's own below RuntimeError, which C++ does not know
            Some("_LinAlgError") if e.python_class() == "RuntimeError" => Ok(()),
            Some(class) if class != e.python_class() => Err(format!(
                "{}, should be {class} ({}): {e}",
                e.python_class(),
                case.json["error"]["message"]
            )),
            _ => Ok(()),
        },
        Ok(None) => Err(format!("succeeded, should say: {}", case.json["error"]["message"])),
        Err(_) => Err("panicked".into()),
    }
}

/// [`run`] or, for a case that must fail, [`run_error`]; a panic is a failure.
pub(crate) fn run_case(case: &Case, mode: Mode) -> Result<(), String> {
    if case.json["error"].is_object() {
        return run_error(case, mode);
    }
    let run = || match case.json["grads"].is_object() {
        true if matches!(mode, Mode::Compiled | Mode::CudaCompiled) => grads::compiled(case),
        true => grads::eager(case),
        false => run(case, mode),
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("panicked".into()))
}

/// The second derivatives of a case; a panic is a failure.
pub(crate) fn run_double(case: &Case, mode: Mode) -> Result<double::Outcome, String> {
    let run = || double::check(case, mode);
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("panicked".into()))
}
