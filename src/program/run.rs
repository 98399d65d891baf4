//! Running a graph: one call after the other, through the dispatcher. While a function is captured
//! these are the calls that it is made of.

use super::Leaf;
use super::body::{Action, Body, Results, Scope, Step, Term};
use super::coerce::coerce;
use super::error::ProgramError;
use crate::autograd::GradGuard;
use crate::control_flow;
use crate::dispatch::schema::FunctionSchema;
use crate::dispatch::{OperatorHandle, SourceScope, Stack, Value};
use crate::error::{Error, Result};
use crate::modes::autocast::{AutocastOptions, autocast_with};
use crate::tensor::Tensor;

impl Body {
    /// Runs the graph; as many values as it has inputs.
    pub(super) fn run(&self, inputs: impl IntoIterator<Item = Value>) -> Result<Vec<Value>> {
        let mut values = vec![Value::None; self.names.len()];
        for (slot, value) in self.inputs.iter().zip(inputs) {
            values[*slot as usize] = value;
        }
        for step in &self.steps {
            let _source = SourceScope::enter(&step.site);
            step.run(&mut values).map_err(|e| e.with_source_line(&step.site))?;
            for slot in &step.last {
                values[*slot as usize] = Value::None;
            }
        }
        Ok(self.outputs.iter().map(|t| t.value(&values)).collect())
    }

    /// [`Body::run`] of leaves.
    fn run_leaves<'a>(&self, inputs: impl IntoIterator<Item = &'a Leaf>) -> Result<Vec<Leaf>> {
        let values = self.run(inputs.into_iter().cloned().map(Leaf::into_value))?;
        values.into_iter().map(Leaf::of_value).collect()
    }
}

impl Term {
    fn elements(&self) -> &[Term] {
        match self {
            Term::List(all) => all,
            _ => &[],
        }
    }

    fn value(&self, values: &[Value]) -> Value {
        match self {
            Term::Slot(slot) => values[*slot as usize].clone(),
            Term::Value(value) => value.clone(),
            Term::List(all) => Value::Tuple(all.iter().map(|t| t.value(values)).collect()),
        }
    }
}

impl Step {
    fn run(&self, values: &mut [Value]) -> Result<()> {
        let operands = || self.operands.iter().map(|t| t.value(values));
        let results: Vec<Value> = match &self.action {
            Action::Operator(op, schema) => called(*op, schema, &self.operands, values)?,
            Action::Each(op, schema) => {
                let size = self.operands.first().map_or(0, |t| t.elements().len());
                let mut all = Vec::with_capacity(size);
                for at in 0..size {
                    let one = self.operands.iter().filter_map(|t| t.elements().get(at).cloned());
                    let one: Vec<Term> = one.collect();
                    all.extend(called(*op, schema, &one, values)?.into_iter().next());
                }
                vec![Value::Tuple(all)]
            }
            Action::Number(op) => {
                let args: Vec<Value> = operands().collect();
                vec![op.apply(&args).map_err(|why| self.error(why))?]
            }
            Action::Check(text) => match operands().next() {
                Some(Value::Bool(true)) => Vec::new(),
                Some(Value::Tensor(t)) if t.read_item()?.as_bool() => Vec::new(),
                Some(Value::Int(n)) if n != 0 => Vec::new(),
                _ => return Err(ProgramError::Assertion(text.clone()).into()),
            },
            Action::Bounds(min, max) => {
                if let Some(Value::Int(n)) = operands().next()
                    && (min.is_some_and(|min| n < min) || max.is_some_and(|max| n > max))
                {
                    let bound = |b: &Option<i64>| b.map_or("no bound".into(), |b| b.to_string());
                    let text = format!("{n} is not between {} and {}", bound(min), bound(max));
                    return Err(ProgramError::Assertion(text).into());
                }
                Vec::new()
            }
            Action::Graph(scope, body) => scope.enter(|| body.run(operands()))?,
            higher => {
                let leaves = operands().map(Leaf::of_value).collect::<Result<Vec<_>>>()?;
                let results = controlled(higher, &leaves).map_err(|e| self.located(e))?;
                results.into_iter().map(Leaf::into_value).collect()
            }
        };
        self.bind(results, values)
    }

    fn located(&self, e: Error) -> Error {
        e.with_source_line(&self.site)
    }

    fn error(&self, reason: String) -> ProgramError {
        ProgramError::Node {
            node: self.name.clone(),
            target: self.target.clone(),
            reason,
            line: None,
        }
    }

    /// Puts results where they go.
    fn bind(&self, mut results: Vec<Value>, values: &mut [Value]) -> Result<()> {
        match &self.results {
            Results::One(slot) => {
                values[*slot as usize] = match results.len() {
                    1 => results.remove(0),
                    _ => Value::Tuple(results),
                };
            }
            Results::Tuple(slot) => values[*slot as usize] = Value::Tuple(results),
            Results::Each(slots) => {
                // the only result may be a list, which the slots are the elements of
                let lists = |v: &Value| {
                    matches!(
                        v,
                        Value::TensorList(_) | Value::OptionalTensorList(_) | Value::Tuple(_)
                    )
                };
                if let [one] = &results[..]
                    && lists(one)
                {
                    results = match results.remove(0) {
                        Value::TensorList(l) => l.into_iter().map(Value::Tensor).collect(),
                        Value::OptionalTensorList(l) => {
                            l.into_iter().map(|t| t.map_or(Value::None, Value::Tensor)).collect()
                        }
                        Value::Tuple(l) => l,
                        other => vec![other],
                    };
                }
                if slots.len() > results.len() {
                    let (named, got) = (slots.len(), results.len());
                    let reason = format!("{named} results are named, and there are {got}");
                    return Err(self.error(reason).into());
                }
                for (slot, value) in slots.iter().zip(results) {
                    if let Some(slot) = slot {
                        values[*slot as usize] = value;
                    }
                }
            }
        }
        Ok(())
    }
}

/// A call of an operator.
fn called(
    op: OperatorHandle,
    schema: &FunctionSchema,
    operands: &[Term],
    values: &[Value],
) -> Result<Vec<Value>> {
    let mut stack = Stack::with_capacity(operands.len());
    for (term, arg) in operands.iter().zip(&schema.args) {
        stack.push(match term {
            // as the schema wants it since the program was made
            Term::Value(value) => value.clone(),
            term => coerce(term.value(values), &arg.ty).map_err(|why| {
                let what = format!("argument `{}`: {why}", arg.name);
                Error::type_error(what).with_call(op.name().to_string(), [])
            })?,
        });
    }
    op.call_boxed(&mut stack)?;
    Ok(stack)
}

impl Scope {
    fn enter<R>(&self, f: impl FnOnce() -> Result<R>) -> Result<R> {
        match self {
            Scope::Plain => f(),
            Scope::Grad(on) => {
                let _mode = GradGuard::set(*on);
                f()
            }
            Scope::Autocast { device, dtype, enabled, cache } => {
                let options = AutocastOptions { dtype: *dtype, enabled: *enabled, cache: *cache };
                let _mode = autocast_with(*device, options)?;
                f()
            }
        }
    }
}

/// A branch or a loop.
fn controlled(action: &Action, operands: &[Leaf]) -> Result<Vec<Leaf>> {
    match action {
        Action::Cond(yes, no) => {
            let (pred, operands) = operands.split_first().ok_or_else(|| missing("predicate"))?;
            let pred: control_flow::Predicate = match pred {
                Leaf::Tensor(t) => t.into(),
                Leaf::Bool(known) => (*known).into(),
                Leaf::Int(n) => (*n != 0).into(),
                _ => return Err(missing("predicate")),
            };
            let operands = operands.to_vec();
            let branch = |body: &Body, x: &Vec<Leaf>| body.run_leaves(x);
            control_flow::cond(pred, |x| branch(yes, x), |x| branch(no, x), &operands)
        }
        Action::WhileLoop { cond, body, carried } => {
            let (carried, extra) =
                operands.split_at_checked(*carried).ok_or_else(|| missing("operand"))?;
            let carried = carried.to_vec();
            let goes_on = |now: &Vec<Leaf>| -> Result<Tensor> {
                let mut results = cond.run_leaves(now.iter().chain(extra))?;
                match results.pop() {
                    Some(Leaf::Tensor(t)) => Ok(t),
                    Some(Leaf::Bool(known)) => Tensor::scalar(known),
                    _ => Err(missing("condition")),
                }
            };
            control_flow::while_loop(
                goes_on,
                |now| body.run_leaves(now.iter().chain(extra)),
                &carried,
            )
        }
        Action::Map { body, sliced } => {
            let (xs, extra) =
                operands.split_at_checked(*sliced).ok_or_else(|| missing("operand"))?;
            let f = |x: &Vec<Leaf>, e: &Vec<Leaf>| body.run_leaves(x.iter().chain(e));
            control_flow::map(f, &xs.to_vec(), &extra.to_vec())
        }
        Action::Scan { body, carried, sliced } => {
            let (init, rest) =
                operands.split_at_checked(*carried).ok_or_else(|| missing("operand"))?;
            let (xs, extra) = rest.split_at_checked(*sliced).ok_or_else(|| missing("operand"))?;
            let step = |c: &Vec<Leaf>, x: &Vec<Leaf>| {
                let mut all = body.run_leaves(c.iter().chain(x).chain(extra))?;
                let made = all.split_off((*carried).min(all.len()));
                Ok((all, made))
            };
            let (mut last, made) =
                control_flow::scan(step, &init.to_vec(), &xs.to_vec(), 0, false)?;
            last.extend(made);
            Ok(last)
        }
        _ => Ok(Vec::new()),
    }
}

fn missing(what: &str) -> Error {
    Error::type_error(format!("a {what} of the call is missing or of another kind"))
}
