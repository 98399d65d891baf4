//! One program, eager against compiled.

use super::compare::{self, Left, largest};
use super::program::{Program, Round, Source};
use super::random::Rng;
use super::views::entered;
use super::world::{Entered, World, bytes, numbers, results, run, step};
use num_complex::Complex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use straightline::ops::{Tolerance, tolerance};
use straightline::{DType, Error, ErrorKind, Generator, Result, Tensor, compile, manual_seed};
use straightline_passes::ir::verify::verify;

/// What came of a program.
pub(crate) enum Outcome {
    /// Both did the same, in this many calls.
    Same(usize),
    /// Eager execution refuses the program.
    NoProgram,
    /// Capture refuses it, as it is meant to.
    Refused(String),
    Differs(String),
}

/// Errors of capture that are meant: what is captured has to read no data and keep the caller's
/// tensors where they are.
const REFUSALS: [&str; 11] = [
    "cannot be seen as bool",
    "some elements of the input tensor and the written-to tensor refer to a single memory location",
    "changes the shape of a tensor that the captured function closes over or made from data",
    "cannot be captured:",
    "more than one element of the written-to tensor",
    "gives a tensor other memory",
    "reading data while capturing",
    "index with a mask",
    "one_hot without a number of classes",
    "cannot be captured",
    "which lies in the memory of argument",
];

/// Why a difference is one that is known: no other may pass here.
fn known(program: &Program, difference: &str) -> Option<&'static str> {
    let complex = || {
        let made = program.steps.iter().flat_map(|s| &s.made).map(|m| m.dtype);
        (program.bases.iter().map(|b| b.dtype)).chain(made).any(|d| d.is_complex())
    };
    let calls = |name: &str| program.steps.iter().any(|s| s.op.contains(name));
    if difference.contains("entered the dispatcher") && complex() {
        return Some(
            "complex values are not fused: views of them are calls of kernels that call others",
        );
    }
    if calls("cumprod_backward") && difference.contains("needs the tensor's data") {
        return Some("the dtype of cumprod_backward of integers depends on their values");
    }
    let floats = || {
        let made = program.steps.iter().flat_map(|s| &s.made);
        made.into_iter().any(|m| m.dtype.is_floating())
    };
    if calls("view.dtype") && floats() && difference.contains("element ") {
        return Some("the bits of what is not a number are free");
    }
    let extremes = ["fmin", "fmax", "amin", "amax", "aminmax", "maximum", "minimum"];
    if extremes.iter().any(|name| calls(name))
        && (difference.contains(" 0.0,") || difference.contains(" -0.0,"))
    {
        return Some("which of two zeros is the smaller one is free");
    }
    let large = || {
        let numbers = |b: &super::program::Base| numbers(b.dtype, &b.data);
        let root = |d: DType| if d == DType::F16 { 2e2 } else { 1e18 };
        let bases = &mut program.bases.iter();
        bases.any(|b| numbers(b).iter().any(|x| x.abs() > root(b.dtype)))
    };
    let sums = |s: &super::program::Step| tolerance(&s.op) == Some(Tolerance::Accumulate);
    let many = ["prod", "trilinear", "norm", "var", "std"].iter().any(|name| calls(name));
    if (many || program.steps.iter().any(sums) && large())
        && (difference.contains("NaN") || difference.contains("inf"))
    {
        return Some("what overflows on the way depends on the order, which is free");
    }
    None
}

/// Whether a tensor is closed over and an argument, both. Where it is no argument any more, there
/// is a handle less to it: the function is captured once more, to see whether it has the same
/// state.
fn hands_on(program: &Program) -> bool {
    let one = |i: usize| program.inputs[i].same.unwrap_or(i);
    let closed = |i: &usize| program.inputs[*i].closed;
    let all = 0..program.inputs.len();
    let (closed, given): (Vec<usize>, Vec<usize>) = all.partition(closed);
    closed.iter().any(|c| given.iter().any(|g| one(*g) == one(*c)))
}

fn refusal(e: &str) -> bool {
    REFUSALS.iter().any(|r| e.contains(r))
}

/// The calls of the program: the first one on the memory as it is.
fn rounds(program: &Program) -> Vec<Round> {
    let mut all = vec![Round::Again];
    all.extend(&program.rounds);
    all
}

fn seed(program: &Program, round: usize) -> u64 {
    program.seed.wrapping_mul(31).wrapping_add(round as u64) % (1 << 40)
}

fn left(world: &World, entered: Entered, results: Vec<Tensor>) -> Left {
    Left {
        results,
        inputs: entered.inputs,
        memory: world.bases.iter().cloned().chain(entered.apart).collect(),
    }
}

/// Which memory has been written, by its version.
fn versions(world: &World, entered: &Entered) -> Vec<u64> {
    (world.bases.iter().chain(&entered.apart)).map(Tensor::version).collect()
}

pub(crate) fn check(program: &Program) -> Outcome {
    match catch_unwind(AssertUnwindSafe(|| differential(program))) {
        Ok(Outcome::Differs(why)) => match known(program, &why) {
            Some(reason) => Outcome::Refused(format!("known: {reason}")),
            None => Outcome::Differs(why),
        },
        Ok(outcome) => outcome,
        Err(panic) => {
            let text = (panic.downcast_ref::<String>().map(String::as_str))
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("");
            Outcome::Differs(format!("a panic: {text}"))
        }
    }
}

fn differential(program: &Program) -> Outcome {
    let (Ok(eager), Ok(other)) = (World::new(program), World::new(program)) else {
        return Outcome::NoProgram;
    };
    let shared = Arc::new(program.clone());
    let closed: Vec<Option<Tensor>> = (other.inputs.iter().zip(&program.inputs))
        .map(|(t, i)| i.closed.then(|| t.clone()))
        .collect();
    let f = compile(move |args: &Vec<Tensor>| {
        let mut args = args.iter();
        let inputs: Vec<Tensor> =
            (closed.iter()).filter_map(|c| c.as_ref().or_else(|| args.next()).cloned()).collect();
        let values = run(&shared, &inputs, &mut |_, _| Ok(()))?;
        Ok(results(&shared, &inputs, &values))
    });
    for (at, round) in rounds(program).into_iter().enumerate() {
        let (Ok(a), Ok(b)) = (eager.enter(program, round), other.enter(program, round)) else {
            return Outcome::NoProgram;
        };
        let differs = |text: String| Outcome::Differs(format!("call {at} ({round:?}): {text}"));
        let before = (versions(&eager, &a), versions(&other, &b));

        manual_seed(seed(program, at));
        let want = run(program, &a.inputs, &mut |_, _| Ok(()))
            .map(|values| results(program, &a.inputs, &values));
        let drawn = Generator::default_cpu().state().and_then(|s| bytes(&s));
        if at == 0 && want.is_err() {
            return Outcome::NoProgram;
        }

        manual_seed(seed(program, at));
        let args: Vec<Tensor> = (b.inputs.iter().zip(&program.inputs))
            .filter(|(_, i)| !i.closed)
            .map(|(t, _)| t.clone())
            .collect();
        let (calls, variants) = (entered(), f.variants());
        let got = f.call(&args);
        let (calls, replay) = (entered() - calls, f.variants() == variants);

        let (want, got) = match (want, got) {
            (Ok(want), Ok(got)) => (want, got),
            (Ok(_), Err(e)) if refusal(&e.to_string()) => return Outcome::Refused(e.to_string()),
            (Ok(_), Err(e)) => return differs(format!("compiled fails: {e}")),
            (Err(w), Ok(_)) => return differs(format!("compiled does not fail, eager: {w}")),
            // where the function was captured anew, the operators' checks of shapes come before
            // those of data
            (Err(_), Err(_)) if calls > 0 && at > 0 => return Outcome::Same(at + 1),
            (Err(w), Err(g)) => return same_error(program, at, &w, &g),
        };
        if replay && calls > 0 && !(matches!(round, Round::Apart(_)) && hands_on(program)) {
            return differs(format!("a replay entered the dispatcher {calls} times"));
        }
        let after = (versions(&eager, &a), versions(&other, &b));
        let written = |before: &[u64], after: &[u64]| -> Vec<bool> {
            before.iter().zip(after).map(|(b, a)| a != b).collect()
        };
        let (ours, theirs) = (written(&before.0, &after.0), written(&before.1, &after.1));
        let (want, got) = (left(&eager, a, want), left(&other, b, got));
        if let Err(d) = compare::same(program, &want, &got) {
            let explained = d.rounding && {
                let runs: Vec<Left> =
                    (1..=6).filter_map(|k| disturbed(program, at, k).ok()).collect();
                // where a disturbance makes an error, the program is at the margin of what it takes
                runs.len() < 6 || compare::explained(program, &want, &got, &runs)
            };
            if !explained {
                return differs(d.text);
            }
            // from here on the two may go different ways
            return Outcome::Same(at + 1);
        }
        // a write that changes nothing may be one eagerly or compiled alone, as `conj_physical_` of
        // real numbers is
        if ours.iter().zip(&theirs).any(|(e, c)| *e && !*c) {
            return differs(format!("memory was written {theirs:?}, eager {ours:?}"));
        }
        let state = Generator::default_cpu().state().and_then(|s| bytes(&s));
        match (drawn, state) {
            (Ok(ours), Ok(theirs)) if ours == theirs => {}
            _ => return differs("the generator is in another state".into()),
        }
        if at == 0
            && program.seed % 8 == 0
            && let Err(e) = fresh(program).and_then(|args| f.trace(&args)).and_then(|t| {
                verify(t.graph()).map_err(|e| Error::new(ErrorKind::Runtime(e.to_string())))
            })
        {
            return differs(format!("the graph: {e}"));
        }
    }
    Outcome::Same(program.rounds.len() + 1)
}

/// The arguments as they are before the first call, which may change their shapes.
fn fresh(program: &Program) -> Result<Vec<Tensor>> {
    let all = World::new(program)?.inputs.into_iter().zip(&program.inputs);
    Ok(all.filter(|(_, i)| !i.closed).map(|(t, _)| t).collect())
}

/// Both failed, in the call `at`: of one class?
fn same_error(program: &Program, at: usize, want: &Error, got: &Error) -> Outcome {
    if want.python_class() == got.python_class() || refusal(&got.to_string()) {
        return Outcome::Same(at + 1);
    }
    // calls that may fail keep no order among themselves: where several do, either error is right
    if failures(program, at).is_ok_and(|all| all.contains(&got.python_class())) {
        return Outcome::Same(at + 1);
    }
    Outcome::Differs(format!(
        "call {at}: compiled fails with {} ({got}), eager with {} ({want})",
        got.python_class(),
        want.python_class()
    ))
}

/// The classes of the errors in call `last` if the steps that do not need a failed one are run all
/// the same.
fn failures(program: &Program, last: usize) -> Result<Vec<&'static str>> {
    let world = World::new(program)?;
    for (at, round) in rounds(program).into_iter().enumerate() {
        let inputs = world.enter(program, round)?.inputs;
        manual_seed(seed(program, at));
        let mut classes = Vec::new();
        let mut values: Vec<Vec<Tensor>> = Vec::new();
        for k in 0..program.steps.len() {
            let made = step(program, k, &inputs, &values);
            values.push(made.unwrap_or_else(|e| {
                classes.push(e.python_class());
                Vec::new()
            }));
        }
        if at == last {
            return Ok(classes);
        }
    }
    Ok(Vec::new())
}

/// What the program leaves in call `last` if everything that a step computes is a little off, by
/// what its operator may be.
fn disturbed(program: &Program, last: usize, seed_of: u64) -> Result<Left> {
    let world = World::new(program)?;
    let mut rng = Rng::new(program.seed ^ (seed_of << 50));
    for (at, round) in rounds(program).into_iter().enumerate() {
        let entered = world.enter(program, round)?;
        manual_seed(seed(program, at));
        let inputs = entered.inputs.clone();
        let values =
            run(program, &inputs, &mut |k, values| disturb(program, k, &inputs, values, &mut rng))?;
        if at == last {
            let results = results(program, &inputs, &values);
            return Ok(left(&world, entered, results));
        }
    }
    world.enter(program, Round::Again).map(|e| left(&world, e, Vec::new()))
}

/// Moves each number that step `k` has made or written within its operator's tolerance.
fn disturb(
    program: &Program,
    k: usize,
    inputs: &[Tensor],
    values: &[Vec<Tensor>],
    rng: &mut Rng,
) -> Result<()> {
    let step = &program.steps[k];
    let class = match tolerance(&step.op) {
        Some(Tolerance::Exact) | None => return Ok(()),
        Some(Tolerance::Random) => Tolerance::Pointwise,
        Some(class) => class,
    };
    let operands: Vec<Tensor> = (step.sources.iter())
        .filter_map(|s| match *s {
            Source::Input(i) => Some(inputs[i].clone()),
            Source::Step(k, r) => values[k].get(r).cloned(),
            Source::Own => None,
        })
        .collect();
    for t in &values[k] {
        let fresh = !operands.iter().any(|o| o.shares_storage_with(t));
        let written = operands.iter().any(|o| o.is_same(t));
        if !(fresh || written) || !(t.dtype().is_floating() || t.dtype().is_complex()) {
            continue;
        }
        let (rtol, _) = class.bounds(match t.dtype() {
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            other => other,
        });
        let around = numbers(t.dtype(), &bytes(t)?);
        // a sum is as exact as its largest part
        let size = match class {
            Tolerance::Accumulate => largest(&around),
            _ => 0.0,
        };
        let moved: Vec<f64> =
            (around.iter()).map(|x| x + rtol * rng.unit() * (2.0 * x.abs() + size)).collect();
        let moved = if t.dtype().is_complex() {
            let pairs = moved.chunks_exact(2);
            Tensor::from_vec(pairs.map(|c| Complex::new(c[0], c[1])).collect::<Vec<_>>(), -1)?
        } else {
            Tensor::from_vec(moved, -1)?
        };
        let moved = moved.view(t.sizes())?.to_dtype(t.dtype())?;
        // elements on each other cannot be written
        let _ = t.copy_(&moved);
    }
    Ok(())
}
