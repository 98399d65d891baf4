//! Functions with calls whose results have sizes that depend on data: `nonzero`, `masked_select`,
//! `unique`, a mask as index.
//!
//! Such a function is a chain of plans. The *front* computes what the first of these calls needs; the
//! call is made, by its kernel; the plan of the *rest* is one for the sizes that the results have,
//! which are guards as the sizes of arguments are. What is known of a call that no rest serves (its
//! results so far) answers for them while the function is captured again, so that the function may do
//! with sizes what it likes.

use super::devices;
use super::externs::{self, to_stack};
use super::interpret::{self, Interpreter};
use super::results;
use super::settle::AtWork;
use super::traced::Traced;
use crate::dispatch::{
    DispatchKey, DispatchKeySet, ExcludeGuard, Kernel, OperatorHandle, Value, handle_of,
};
use crate::error::{Error, ErrorKind, Result};
use crate::modes::dependent::Answers;
use crate::modes::functionalize::{self, InputSlot, Owner};
use crate::ops::copy;
use crate::tensor::access::{self, Whole};
use crate::tensor::{Generator, Held, Tensor};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::Location;
use std::sync::OnceLock;
use straightline_catalog::{Arg, Effects, Op, TensorMeta};
use straightline_passes::ir::graph::{Graph, NodeId, SourceLine, ValueRef};
use straightline_passes::partition::Front;

/// What is known of a call while its function is captured.
pub(super) struct Known {
    arguments: Vec<Held>,
    /// The results of the calls whose sizes depend on data, in order.
    results: RefCell<Vec<(Op, Vec<Value>)>>,
    /// What the fronts that have run computed.
    values: RefCell<Vec<(ValueRef, Tensor)>>,
    /// The calls in them.
    made: RefCell<BTreeSet<NodeId>>,
}

impl Known {
    /// Nothing but the arguments.
    pub(super) fn new(arguments: &[&Tensor]) -> Known {
        Known {
            arguments: arguments.iter().map(|t| Held::new((*t).clone())).collect(),
            results: RefCell::default(),
            values: RefCell::default(),
            made: RefCell::default(),
        }
    }

    /// A front has computed these values, and then its call has been made.
    pub(super) fn learn(&self, part: &Part, front: &[Tensor], results: &[Value]) {
        let tensors = results.iter().flat_map(Value::tensors);
        let of_call = (0..).map(|index| ValueRef { node: part.front.call, index });
        let crossing = part.front.crossing.iter().copied();
        let mut values = self.values.borrow_mut();
        values.extend(crossing.zip(front.iter().cloned()));
        values.extend(of_call.zip(tensors.cloned()));
        self.made.borrow_mut().extend(part.front.calls());
        self.results.borrow_mut().push((part.op, results.to_vec()));
    }

    /// Makes a call on what the graph's values are.
    fn make(
        &self,
        op: OperatorHandle,
        args: &[Arg<ValueRef>],
        graph: &Graph,
    ) -> Result<Vec<Value>> {
        let unknown = || Error::new(ErrorKind::DataDependent { what: op.name().to_string() });
        let mut wanted: Vec<ValueRef> = Vec::new();
        args.iter().for_each(|a| {
            a.map(|v| wanted.push(*v));
        });
        let nodes = graph.topological();
        // what is visible from outside cannot be done for the sake of sizes
        if nodes.iter().any(|n| graph.effects(*n).has(Effects::EFFECT)) {
            return Err(unknown());
        }
        let _capture = ExcludeGuard::new(DispatchKeySet::of(&[
            DispatchKey::Functionalize,
            DispatchKey::Tracer,
        ]));
        let (_below, _busy) = (interpret::below(), AtWork::begin());
        let _drawn = match nodes.iter().any(|n| graph.effects(*n).has(Effects::RANDOM)) {
            true => Some(Rewind(draws()?)),
            false => None,
        };
        let sources = functionalize::sources();
        let arguments: Vec<&Tensor> = self.arguments.iter().map(|t| &**t).collect();
        let inputs = results::graph_inputs(&sources.inputs, &arguments)?;
        let parameters = sources.parameters.iter().map(|t| Some(&**t));
        let mut interpreter = Interpreter::new(graph, inputs.iter().map(Some), parameters);
        interpreter.begin_after(&self.made.borrow());
        for (v, t) in self.values.borrow().iter() {
            interpreter.know(*v, t.clone());
        }
        if let Some(e) = interpreter.some(&wanted) {
            return Err(e);
        }
        let known: Option<Vec<Tensor>> =
            wanted.iter().map(|v| interpreter.known(*v).cloned()).collect();
        let known = known.ok_or_else(unknown)?;
        let schema = op.schema().ok_or_else(unknown)?;
        let mut operands = known.iter().cloned();
        let mut operand = |_: &ValueRef| operands.next().unwrap_or_else(|| known[0].clone());
        let mut stack = to_stack(args, schema, &mut operand);
        op.call_boxed(&mut stack).map_err(|e| e.with_call(op.name().to_string(), &known))?;
        Ok(stack.into_iter().collect())
    }
}

impl Answers for Known {
    fn results(
        &self,
        before: usize,
        op: OperatorHandle,
        args: &[Arg<ValueRef>],
        graph: &Graph,
    ) -> Result<Vec<Value>> {
        let named = op.op();
        let told = |all: &Vec<(Op, Vec<Value>)>| {
            let (of, values) = all.get(before)?;
            (Some(*of) == named).then(|| values.clone())
        };
        if let Some(values) = told(&self.results.borrow()) {
            return Ok(values);
        }
        let made = self.make(op, args, graph)?;
        let mut all = self.results.borrow_mut();
        all.truncate(before);
        all.extend(named.map(|op| (op, made.clone())));
        Ok(made)
    }
}

/// The state of the default generator.
pub(super) fn draws() -> Result<Tensor> {
    Generator::default_cpu().state()
}

/// Puts the default generator back.
struct Rewind(Tensor);

impl Drop for Rewind {
    fn drop(&mut self) {
        rewind(&self.0);
    }
}

/// Puts the default generator back into a state that it had.
pub(super) fn rewind(state: &Tensor) {
    // a state that it gave is one that it takes
    let _ = Generator::default_cpu().set_state(state);
}

/// What the rests of a function change of what they are given, besides what its front knows: another
/// rest may write more. A list that only grows.
#[derive(Default)]
pub(super) struct Changed(OnceLock<Box<(Owner, Changed)>>);

impl Changed {
    fn each(&self) -> impl Iterator<Item = &Owner> {
        let mut at = self;
        std::iter::from_fn(move || {
            let (owner, next) = &**at.0.get()?;
            at = next;
            Some(owner)
        })
    }

    fn add(&self, owner: &Owner) {
        let mut at = self;
        loop {
            match at.0.get() {
                Some(entry) => at = &entry.1,
                // where another thread was quicker, behind that
                None => match at.0.set(Box::new((owner.clone(), Changed::default()))) {
                    Ok(()) => return,
                    Err(_) => continue,
                },
            }
        }
    }
}

/// What a call in parts holds, so that nobody comes between its parts.
pub(super) struct Holding<'a> {
    _held: Whole<'a>,
    /// What it may change.
    changed: SmallVec<[&'a Tensor; 4]>,
}

fn tensor_of<'a>(owner: &'a Owner, arguments: &[&'a Tensor]) -> Option<&'a Tensor> {
    match owner {
        Owner::Input(i) => arguments.get(*i).copied(),
        Owner::Tensor(t) => Some(t),
        Owner::Merged(_) => None,
    }
}

/// Holds what a function reads and changes for the length of a call.
pub(super) fn hold<'a>(
    traced: &'a Traced,
    more: &'a Changed,
    arguments: &[&'a Tensor],
) -> Result<Holding<'a>> {
    let (mut changed, mut read) =
        (SmallVec::<[&Tensor; 4]>::new(), SmallVec::<[&Tensor; 8]>::new());
    for leaf in &traced.leaves {
        match leaf.written || leaf.reshaped {
            true => changed.extend(tensor_of(&leaf.owner, arguments)),
            false => read.extend(tensor_of(&leaf.owner, arguments)),
        }
    }
    changed.extend(more.each().filter_map(|owner| tensor_of(owner, arguments)));
    Ok(Holding { _held: access::whole(&changed, &read)?, changed })
}

impl Holding<'_> {
    /// Whether a rest changes only what is held for that; what more it changes is added to the list.
    pub(super) fn suffices(&self, rest: &Traced, more: &Changed, arguments: &[&Tensor]) -> bool {
        let mut suffices = true;
        for leaf in rest.leaves.iter().filter(|leaf| leaf.written || leaf.reshaped) {
            let Some(t) = tensor_of(&leaf.owner, arguments) else { continue };
            if !self.changed.iter().any(|held| held.shares_storage_with(t)) {
                more.add(&leaf.owner);
                suffices = false;
            }
        }
        suffices
    }
}

/// A cut of a captured function: the front, and the call behind it.
pub(super) struct Part {
    front: Front,
    op: Op,
    called: OperatorHandle,
    kernel: Kernel,
    keys: DispatchKeySet,
    derived: Option<functionalize::Derived>,
    args: Vec<Arg<ValueRef>>,
    /// How many it has.
    results: usize,
    line: Option<&'static Location<'static>>,
}

impl Part {
    /// Cuts a function at the first of the calls, if there is one. What the front computes are the
    /// results of the first half that is returned.
    pub(super) fn of(traced: &Traced) -> Result<Option<(Traced, Part)>> {
        let calls = traced.dependent.iter().copied().filter(|n| traced.graph.contains(*n));
        let mut calls = calls.filter_map(|n| Some((n, traced.graph.call_args(n)?)));
        let Some((call, (op, args))) = calls.next() else { return Ok(None) };
        let front = Front::new(&traced.graph, call);
        let mut half = traced.clone();
        half.graph = front.graph.clone();
        if let Some(joint) = half.joint.take() {
            // it reads no gradient of a result
            half.graph.keep_inputs(joint.inputs);
        }
        let graph = &half.graph;
        half.roots = graph.outputs().iter().map(|v| super::capture::root(graph, *v)).collect();
        half.outputs = Traced::values(graph.outputs().len());
        half.returned = half.outputs.len();
        half.grads.clear();
        half.mutations.clear();
        half.reshapes.clear();
        half.declared.clear();
        half.dependent.clear();
        let called = handle_of(op)?;
        let derived = functionalize::derived(called);
        let (kernel, keys) =
            externs::kernel_of(called, derived.as_ref(), devices::key(devices::of(traced)?))?;
        let line = match traced.graph.node(call).provenance.location {
            Some(SourceLine::Caller(at)) => Some(at),
            _ => None,
        };
        let results = traced.graph.node(call).results.len();
        let part = Part { front, op, called, kernel, keys, derived, args, results, line };
        Ok(Some((half, part)))
    }

    /// Makes the call on what the front has computed.
    pub(super) fn call(&self, front: &[Tensor]) -> Result<Vec<Value>> {
        let _below = interpret::below();
        let mut at = self.front.operands.iter();
        let mut given: Vec<Tensor> = Vec::new();
        let mut failed = None;
        let mut operand = |_: &ValueRef| {
            let t = &front[at.next().copied().unwrap_or_default()];
            given.push(t.clone());
            match &self.derived {
                // it may write them
                Some(_) => copy::clone(t, None).unwrap_or_else(|e| {
                    failed.get_or_insert(e);
                    t.clone()
                }),
                None => t.clone(),
            }
        };
        let mut stack = to_stack(&self.args, self.op.schema(), &mut operand);
        let made = match (failed, &self.derived) {
            (Some(e), _) => Err(e),
            (None, Some(d)) => d.run(&self.kernel, self.keys, stack),
            (None, None) => {
                self.kernel.call_boxed(self.called, self.keys, &mut stack).map(|()| stack)
            }
        };
        let made = made.map_err(|e| {
            let e = e.with_call(self.op.to_string(), &given);
            match self.line {
                Some(at) => e.with_location(at),
                None => e,
            }
        })?;
        Ok(made.into_iter().collect())
    }

    /// The operator of the call.
    pub(super) fn op(&self) -> Op {
        self.op
    }

    /// How many tensors the rest is given by it.
    pub(super) fn count(&self) -> usize {
        self.front.crossing.len() + self.results
    }

    /// What is handed to the rest, behind the arguments.
    pub(super) fn given<'a>(
        &self,
        front: &'a [Tensor],
        results: &'a [Value],
    ) -> impl Iterator<Item = &'a Tensor> {
        let crossing = front.iter().take(self.front.crossing.len());
        crossing.chain(results.iter().flat_map(Value::tensors))
    }

    /// The rest of a function that was captured for a call with so many `arguments`, to whom these
    /// tensors are `given`; `None` if the function begins otherwise than this front, or needs what
    /// cannot be computed twice.
    pub(super) fn rest(
        &self,
        traced: &Traced,
        arguments: usize,
        given: &[TensorMeta],
    ) -> Option<Traced> {
        let at = match traced.slots.is_empty() {
            true => arguments,
            false => traced.slots.len(),
        };
        let graph = self.front.rest(&traced.graph, at, given)?;
        let inputs = &graph.inputs()[at..at + given.len()];
        let results = (0..).map(|index| ValueRef { node: self.front.call, index });
        let values: Vec<ValueRef> =
            self.front.crossing.iter().copied().chain(results).take(given.len()).collect();
        let mut rest = traced.clone();
        for root in &mut rest.roots {
            if let Some(i) = values.iter().position(|v| v == root) {
                *root = inputs[i].into();
            }
        }
        if !rest.slots.is_empty() {
            rest.slots.extend((0..given.len()).map(|i| InputSlot::Argument(arguments + i)));
        }
        rest.inputs.splice(arguments..arguments, given.iter().cloned());
        if let Some(joint) = &mut rest.joint {
            joint.inputs += given.len();
        }
        rest.graph = graph;
        // what was added may have the place in the graph that a call had which is gone
        rest.dependent.retain(|n| *n != self.front.call);
        Some(rest)
    }
}
