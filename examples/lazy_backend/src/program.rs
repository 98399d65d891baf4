//! A program: the pending nodes as a list of steps without tensors, which `compile` can keep.

use crate::graph::{Content, Node, Operand, Read, ViewStep};
use std::collections::HashMap;
use std::sync::Arc;
use straightline::dispatch::{OperatorHandle, Stack, Value};
use straightline::ops::aten;
use straightline::{Error, ErrorKind, Result, Tensor};

/// Where a step finds a tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slot {
    /// An input of the program.
    Input(usize),
    /// A result of an earlier step.
    Result(usize, usize),
}

#[derive(Debug)]
struct Step {
    op: OperatorHandle,
    operands: Vec<Operand<Slot>>,
}

/// What is to be run, in order.
#[derive(Debug)]
pub(crate) struct Program {
    steps: Vec<Step>,
    outputs: Vec<Slot>,
}

impl Program {
    /// The program that computes these contents, and its inputs.
    pub(crate) fn of(wanted: &[Content]) -> (Program, Vec<Tensor>) {
        // iterative, since a chain of pending nodes may be long
        let mut nodes: HashMap<u64, Arc<Node>> = HashMap::new();
        let mut todo: Vec<Content> = wanted.to_vec();
        while let Some(content) = todo.pop() {
            if let Content::Pending(node, _) = content
                && nodes.insert(node.number, node.clone()).is_none()
            {
                let needs = node.operands.iter().flat_map(Operand::reads);
                todo.extend(needs.map(|r| r.base.clone()));
            }
        }
        let mut order: Vec<Arc<Node>> = nodes.into_values().collect();
        order.sort_by_key(|n| n.number);
        let at: HashMap<u64, usize> =
            order.iter().enumerate().map(|(i, n)| (n.number, i)).collect();
        let mut inputs: Vec<Tensor> = Vec::new();
        let mut slot = |content: &Content| match content {
            Content::Pending(node, k) => Slot::Result(at[&node.number], *k),
            Content::Ready(t) => {
                let known = inputs.iter().position(|i| i.is_same(t));
                Slot::Input(known.unwrap_or_else(|| {
                    inputs.push(t.clone());
                    inputs.len() - 1
                }))
            }
        };
        let steps = order
            .iter()
            .map(|node| Step {
                op: node.op,
                operands: node.operands.iter().map(|o| o.map(&mut slot)).collect(),
            })
            .collect();
        let outputs = wanted.iter().map(&mut slot).collect();
        (Program { steps, outputs }, inputs)
    }

    /// The key that identifies a program. It does not include tensors, which differ from run to
    /// run.
    pub(crate) fn key(&self) -> String {
        format!("{:?} -> {:?}", self.steps, self.outputs)
    }

    /// Runs the program on CPU tensors, or on stand-ins while `compile` captures it.
    pub(crate) fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut results: Vec<Vec<Tensor>> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let out = step.run(&|slot| match slot {
                Slot::Input(i) => inputs[i].clone(),
                Slot::Result(step, k) => results[step][k].clone(),
            })?;
            results.push(out);
        }
        let outputs = self.outputs.iter().map(|slot| match *slot {
            Slot::Input(i) => inputs[i].clone(),
            Slot::Result(step, k) => results[step][k].clone(),
        });
        Ok(outputs.collect())
    }
}

impl Step {
    /// The results of the call that are not arguments, then the new bases of what it wrote.
    fn run(&self, get: &dyn Fn(Slot) -> Tensor) -> Result<Vec<Tensor>> {
        let mut bases = Vec::new();
        let mut tensor = |r: &Read<Slot>| -> Result<Tensor> {
            let mut t = get(r.base);
            if r.written {
                // contents are values: the old one may still be needed
                t = aten::clone(&t, None)?;
                bases.push(t.clone());
            }
            see_through(t, &r.views)
        };
        let mut stack = Stack::with_capacity(self.operands.len());
        for operand in &self.operands {
            stack.push(match operand {
                Operand::Plain(v) => v.clone(),
                Operand::Tensor(r) => tensor(r)?.into(),
                Operand::List(l) => l.iter().map(&mut tensor).collect::<Result<Vec<_>>>()?.into(),
                Operand::OptionalList(l) => l
                    .iter()
                    .map(|r| r.as_ref().map(&mut tensor).transpose())
                    .collect::<Result<Vec<_>>>()?
                    .into(),
            });
        }
        self.op.call_boxed(&mut stack)?;
        let mut results: Vec<Tensor> =
            fresh_results(self.op, &stack).flat_map(Value::tensors).cloned().collect();
        results.extend(bases);
        Ok(results)
    }
}

/// The returns of an operator that are not arguments which it wrote.
pub(crate) fn fresh_results(op: OperatorHandle, returns: &[Value]) -> impl Iterator<Item = &Value> {
    returns
        .iter()
        .enumerate()
        .filter(move |(r, _)| written_argument(op, *r).is_none())
        .map(|(_, v)| v)
}

/// The argument that a return is, where the operator wrote it.
pub(crate) fn written_argument(op: OperatorHandle, ret: usize) -> Option<usize> {
    let schema = op.schema()?;
    let argument = schema.aliased_argument(ret)?;
    schema.args[argument].is_write().then_some(argument)
}

/// A base as its view.
pub(crate) fn see_through(mut t: Tensor, views: &[ViewStep]) -> Result<Tensor> {
    for step in views {
        let mut stack: Stack = vec![t.into()];
        stack.extend(step.args.iter().cloned());
        step.op.call_boxed(&mut stack)?;
        let seen = stack.iter().flat_map(Value::tensors).nth(step.index);
        t = seen.cloned().ok_or_else(|| {
            let what = format!("{} has no result {}", step.op.name(), step.index);
            Error::new(ErrorKind::Runtime(what))
        })?;
    }
    Ok(t)
}
