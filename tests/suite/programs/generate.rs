//! Making programs, and running them eagerly.

use super::library::{Call, Library};
use crate::conformance::case::Case;
use proptest::test_runner::{RngAlgorithm, TestRng};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use straightline::dispatch::{Value, operator};
use straightline::{Result, Tensor};

/// One call: a recorded one, with some of its tensors replaced by earlier values.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) call: Call,
    /// For each tensor of the call, in order: the value that takes its place, by call and position among its results.
    pub(crate) replaced: Vec<Option<(usize, usize)>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) steps: Vec<Step>,
}

/// A call: the operator, arguments of which the tensors are to be replaced, and by which earlier values.
pub(crate) type Template = (String, Vec<Value>, Vec<Option<(usize, usize)>>);

/// A program's arguments and the calls with what is no tensor.
pub(crate) struct Prepared {
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) templates: Vec<Template>,
}

fn below(rng: &mut TestRng, n: usize) -> usize {
    use proptest::prelude::Rng;
    (rng.next_u64() % n.max(1) as u64) as usize
}

/// The tensors of the stack replaced, in order.
pub(crate) fn with_tensors(stack: &[Value], next: &mut dyn FnMut() -> Tensor) -> Vec<Value> {
    stack
        .iter()
        .map(|v| match v {
            Value::Tensor(_) => Value::Tensor(next()),
            Value::TensorList(l) => Value::TensorList(l.iter().map(|_| next()).collect()),
            Value::OptionalTensorList(l) => {
                Value::OptionalTensorList(l.iter().map(|t| t.as_ref().map(|_| next())).collect())
            }
            other => other.clone(),
        })
        .collect()
}

fn results(stack: &[Value]) -> Vec<Tensor> {
    stack.iter().flat_map(Value::tensors).cloned().collect()
}

/// Calls the operator; a panic is told apart from an error.
fn call(name: &str, stack: &mut Vec<Value>) -> std::result::Result<(), String> {
    let op = operator(name).map_err(|e| e.to_string())?;
    match catch_unwind(AssertUnwindSafe(|| op.call_boxed(stack))) {
        Ok(r) => r.map_err(|e| e.to_string()),
        Err(_) => panic!("eager {name} panicked"),
    }
}

/// A program of up to six calls that eager execution accepts.
pub(crate) fn generate(library: &Library, seed: u64) -> Program {
    let mut bytes = [0u8; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let length = 1 + below(&mut rng, 6);
    let mut steps: Vec<Step> = Vec::new();
    let mut values: Vec<Vec<Tensor>> = Vec::new();
    for _ in 0..3 * length {
        if steps.len() == length {
            break;
        }
        let op = below(&mut rng, library.operators());
        let pick = (op, below(&mut rng, library.cases(op)));
        let Some(case) = library.case(pick) else {
            continue;
        };
        let mut replaced = Vec::new();
        let own: Vec<Tensor> = results(&case.stack);
        for t in &own {
            let fitting: Vec<(usize, usize)> = values
                .iter()
                .enumerate()
                .flat_map(|(i, l)| l.iter().enumerate().map(move |(k, v)| ((i, k), v)))
                .filter(|(_, v)| v.dtype() == t.dtype() && v.sizes() == t.sizes())
                .map(|(at, _)| at)
                .collect();
            let take = !fitting.is_empty() && !t.is_wrapped_number() && below(&mut rng, 4) > 0;
            let taken = take.then(|| fitting[below(&mut rng, fitting.len())]);
            // running statistics that are one tensor are written in an order that nobody promises
            let again = case.op.contains("_norm") && replaced.contains(&taken);
            // a log-sum-exp that is not that of the scores amplifies rounding without bound
            let saved = case.op.contains("attention_for_cpu_backward");
            replaced.push(taken.filter(|_| !again && !saved));
        }
        let mut own = own.into_iter().zip(&replaced);
        let mut stack = with_tensors(&case.stack, &mut || {
            let (t, r) = own.next().expect("as many as there were");
            r.map_or(t, |(i, k)| values[i][k].clone())
        });
        if call(&case.op, &mut stack).is_ok() {
            values.push(results(&stack));
            steps.push(Step {
                call: pick,
                replaced,
            });
        }
    }
    Program { steps }
}

impl Program {
    /// Fresh arguments.
    pub(crate) fn prepare(&self, library: &Library) -> Prepared {
        let mut prepared = Prepared {
            inputs: Vec::new(),
            templates: Vec::new(),
        };
        for step in &self.steps {
            let Case { op, stack, .. } = library.case(step.call).expect("it was read before");
            for (t, r) in results(&stack).into_iter().zip(&step.replaced) {
                if r.is_none() {
                    prepared.inputs.push(t);
                }
            }
            prepared.templates.push((op, stack, step.replaced.clone()));
        }
        prepared
    }

    /// The program without a call, whose results then become arguments; `None` if it was the only one.
    pub(crate) fn without(&self, at: usize) -> Option<Program> {
        if self.steps.len() < 2 {
            return None;
        }
        let mut steps = self.steps.clone();
        steps.remove(at);
        for step in &mut steps {
            for r in &mut step.replaced {
                *r = match *r {
                    Some((i, _)) if i == at => None,
                    Some((i, k)) if i > at => Some((i - 1, k)),
                    other => other,
                };
            }
        }
        Some(Program { steps })
    }

    pub(crate) fn display(&self, library: &Library) -> String {
        let mut out = String::new();
        for (i, step) in self.steps.iter().enumerate() {
            let case = library.case(step.call);
            let (id, args) =
                case.map_or_else(Default::default, |c| (c.id, format!("{:?}", c.stack)));
            let args: String = args.chars().take(600).collect();
            // writing to a String cannot fail
            let _ = writeln!(
                out,
                "  %{i} = {id}, with {:?}\n       {args}",
                step.replaced
            );
        }
        out
    }
}

/// Runs the calls on these arguments: the results of each call, copied when it returned if `copies`.
pub(crate) fn run(templates: &[Template], inputs: &[Tensor]) -> Result<Vec<Vec<Tensor>>> {
    let mut inputs = inputs.iter();
    let mut values: Vec<Vec<Tensor>> = Vec::new();
    for (name, stack, replaced) in templates {
        let mut which = replaced.iter();
        let mut stack = with_tensors(stack, &mut || match which.next() {
            Some(Some((i, k))) => values[*i][*k].clone(),
            _ => inputs.next().expect("as many as were prepared").clone(),
        });
        operator(name)?.call_boxed(&mut stack)?;
        values.push(results(&stack));
    }
    Ok(values)
}
