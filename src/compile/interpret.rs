//! The calls of a captured graph, made one after another through the dispatcher.

use super::devices;
use super::externs::to_stack;
use super::results;
use super::traced::Traced;
use crate::dispatch::{
    DispatchError, DispatchKey, DispatchKeySet, ExcludeGuard, OperatorHandle, Value, handle_of,
};
use crate::error::{Error, ErrorKind, Result};
use crate::modes::{ABOVE_PYTHON, tracer};
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::tensor::watcher::Line;
use std::collections::{BTreeSet, HashMap, HashSet};
use straightline_catalog::schema::OperatorName;
use straightline_catalog::{Arg, Effects, Op, TensorMeta, layout};
use straightline_passes::ir::control::{self, Control};
use straightline_passes::ir::graph::{Graph, NodeId, NodeKind, SourceLine, ValueRef};
use straightline_passes::ir::verify::{VerifyErrorKind, report, shapes};

/// The keys to exclude while a graph's calls are made: capture has applied autocast and what lies
/// above it. Math bits stay active: a graph has conjugates and negatives as values, tensors have
/// them as bits.
pub(super) fn below() -> ExcludeGuard {
    const BITS: DispatchKeySet = DispatchKeySet::of(&[
        DispatchKey::Conjugate,
        DispatchKey::Negative,
        DispatchKey::ZeroTensor,
    ]);
    ExcludeGuard::new(ABOVE_PYTHON - BITS)
}

/// The values of a graph, as far as its calls have been made.
pub(crate) struct Interpreter<'a> {
    graph: &'a Graph,
    /// Whether view operators are called as such, and not in their `_copy` form.
    views: bool,
    known: HashMap<ValueRef, Tensor>,
    /// Calls that have been made before, of which some values are known.
    made: BTreeSet<NodeId>,
    /// Makes the calls of higher order.
    control: Option<&'a MakesControl<'a>>,
}

/// Makes a call of higher order on tensors, for the line that made it.
pub(crate) type MakesControl<'a> =
    dyn Fn(Control<'_, Tensor>, Option<Line>) -> Result<Vec<Tensor>> + 'a;

impl<'a> Interpreter<'a> {
    /// The state before the first call. A value that is not given is unknown, as is everything that
    /// depends on it.
    pub(crate) fn new<'t>(
        graph: &'a Graph,
        inputs: impl Iterator<Item = Option<&'t Tensor>>,
        parameters: impl Iterator<Item = Option<&'t Tensor>>,
    ) -> Interpreter<'a> {
        let inputs = graph.inputs().iter().zip(inputs);
        let leaves = inputs.chain(graph.parameters().iter().zip(parameters));
        let known = leaves.filter_map(|(node, t)| Some((ValueRef::from(*node), t?.clone())));
        Interpreter {
            graph,
            views: true,
            known: known.collect(),
            made: BTreeSet::new(),
            control: None,
        }
    }

    /// Has calls of higher order made in another way than by reading predicates.
    pub(crate) fn control(mut self, control: &'a MakesControl<'a>) -> Self {
        self.control = Some(control);
        self
    }

    /// Says which calls have been made before: those that cannot be made twice are not made.
    pub(super) fn begin_after(&mut self, made: &BTreeSet<NodeId>) {
        self.made.clone_from(made);
    }

    /// Says what a value is.
    pub(crate) fn know(&mut self, v: ValueRef, t: Tensor) {
        self.known.insert(v, t);
    }

    /// A value as it was computed, if it is known.
    pub(crate) fn known(&self, v: ValueRef) -> Option<&Tensor> {
        self.known.get(&v)
    }

    pub(super) fn views(mut self, views: bool) -> Self {
        self.views = views;
        self
    }

    /// Makes all calls.
    pub(super) fn all(&mut self) -> Result<()> {
        let calls = self.graph.topological().into_iter();
        calls.filter(|id| is_call(self.graph, *id)).try_for_each(|id| self.call(id))
    }

    /// Makes the calls that these values need, and the draws of random numbers before such a draw.
    /// Values that depend on a failed call stay unknown; the first failure is returned.
    pub(super) fn some(&mut self, wanted: &[ValueRef]) -> Option<Error> {
        let order = self.graph.topological();
        let draws = |id: &NodeId| self.graph.effects(*id).has(Effects::RANDOM);
        let there = |v: &ValueRef| self.known.contains_key(v);
        let unknown = wanted.iter().filter(|v| !there(v));
        let mut needed = ancestors(self.graph, unknown.map(|v| v.node), &there);
        if let Some(last) = order.iter().rposition(|id| needed.contains(id) && draws(id)) {
            let before = order[..last].iter().copied().filter(draws);
            needed.extend(ancestors(self.graph, before, &there));
        }
        let mut first = None;
        for id in order {
            let once = self.made.contains(&id) && self.graph.effects(id).is_ordered();
            if !needed.contains(&id) || !is_call(self.graph, id) || once {
                continue;
            }
            let operands = self.graph.operands(id);
            if operands.iter().all(|v| self.known.contains_key(v))
                && let Err(e) = self.call(id)
            {
                first.get_or_insert(e);
            }
        }
        first
    }

    /// A value, if it is known, in the strides of the function's result: values computed from
    /// copies may have other strides.
    pub(super) fn value(&self, v: ValueRef) -> Option<Result<Tensor>> {
        let value = self.known.get(&v)?;
        Some(laid_out(value, self.graph.meta(v)))
    }

    pub(crate) fn call(&mut self, id: NodeId) -> Result<()> {
        let results = self.results(id)?;
        let values = (0..).zip(results);
        self.known.extend(values.map(|(index, t)| (ValueRef { node: id, index }, t)));
        Ok(())
    }

    fn results(&self, id: NodeId) -> Result<Vec<Tensor>> {
        let (graph, known) = (self.graph, &self.known);
        let (name, args) = (graph.call_args(id)).ok_or_else(|| Error::compile("no call"))?;
        if args.iter().any(|a| matches!(a, Arg::Graph(_))) {
            let args: Vec<Arg<Tensor>> = args.iter().map(|a| a.map(|v| known[v].clone())).collect();
            let call = Control::read(name, &args)
                .ok_or_else(|| Error::compile(format!("`{name}` has other arguments")))?;
            let line = match graph.node(id).provenance.location {
                Some(SourceLine::Caller(at)) => Some(at),
                _ => None,
            };
            return match self.control {
                Some(make) => make(call, line),
                None => self.turns(call),
            };
        }
        let op = match self.views {
            true => handle_of(name)?,
            false => copy_form(name).map_or_else(|| handle_of(name), Ok)?,
        };
        let schema = name.schema();
        let mut operand = |v: &ValueRef| known[v].clone();
        let mut stack = to_stack(&args, schema, &mut operand);
        if let (Op::as_strided | Op::as_strided_scatter, [Value::Tensor(t), .., Value::Int(at)]) =
            (name, &mut stack[..])
        {
            // a value of a graph begins where its memory does, a tensor of the caller's anywhere
            *at += t.storage_offset();
        }
        op.call_boxed(&mut stack).map_err(|e| {
            let operands = graph.operands(id);
            let e = e.with_call(name.to_string(), operands.iter().map(|v| &known[v]));
            match graph.node(id).provenance.location {
                Some(SourceLine::Caller(at)) => e.with_location(at),
                _ => e,
            }
        })?;
        Ok(stack.iter().flat_map(|v| v.tensors().cloned()).collect())
    }
}

/// A tensor that nobody else has the memory of.
fn own(t: &Tensor, others: &[Tensor]) -> Result<Tensor> {
    match others.iter().any(|o| o.shares_storage_with(t)) {
        true => aten::clone(t, None),
        false => Ok(t.clone()),
    }
}

impl Interpreter<'_> {
    /// The results of a graph that a call is given.
    fn body(&self, graph: &Graph, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut calls = Interpreter::new(graph, inputs.iter().map(Some), std::iter::empty());
        calls.views = self.views;
        calls.all()?;
        outputs(&calls)?.iter().map(|t| own(t, inputs)).collect()
    }

    /// Makes a call of higher order by reading its predicates.
    fn turns(&self, call: Control<'_, Tensor>) -> Result<Vec<Tensor>> {
        let holds = |t: &Tensor| aten::item(t).map(|s| s.as_bool());
        match call {
            Control::Cond { pred, branches: [yes, no], operands } => {
                self.body(if holds(&pred)? { yes } else { no }, &operands)
            }
            Control::While { cond, body, carried, additional } => {
                let mut all: Vec<Tensor> = carried.iter().chain(&additional).cloned().collect();
                let count = carried.len();
                while holds(&self.body(cond, &all)?.remove(0))? {
                    let next = self.body(body, &all)?;
                    all.splice(..count, next);
                }
                all[..count].iter().map(|t| own(t, &carried)).collect()
            }
            Control::Scan { body, carried, xs, additional, reverse } => {
                let count = xs.first().map_or(0, |x| x.sizes()[0]);
                let (mut now, mut ys) = (carried.clone(), Vec::new());
                for step in 0..count {
                    let at = if reverse { count - 1 - step } else { step };
                    let slices = xs.iter().map(|x| aten::select_int(x, 0, at));
                    let slices = slices.collect::<Result<Vec<_>>>()?;
                    let all: Vec<Tensor> =
                        now.iter().chain(&slices).chain(&additional).cloned().collect();
                    let mut made = self.body(body, &all)?;
                    ys.push(made.split_off(carried.len()));
                    now = made;
                }
                if reverse {
                    ys.reverse();
                }
                let mut results =
                    now.iter().map(|t| own(t, &carried)).collect::<Result<Vec<_>>>()?;
                for (i, v) in body.outputs().iter().enumerate().skip(carried.len()) {
                    let of: Vec<Tensor> = ys.iter().map(|y| y[i - carried.len()].clone()).collect();
                    results.push(match of.is_empty() {
                        false => aten::stack(&of, 0)?,
                        true => {
                            let meta = body.meta(*v);
                            let mut sizes = meta.sizes.to_vec();
                            sizes.insert(0, 0);
                            aten::empty_memory_format(
                                &sizes,
                                Some(meta.dtype),
                                None,
                                Some(meta.device),
                                None,
                                None,
                            )?
                        }
                    });
                }
                Ok(results)
            }
        }
    }
}

/// Checks that every call of a graph that was not captured has the results that the graph declares,
/// as far as Meta kernels can tell, and that there is code for their devices.
pub(super) fn check_shapes(graph: &Graph) -> Result<()> {
    let mut found = Vec::new();
    let mut refuse = |id: NodeId, what: String| {
        found.push((Some(id), VerifyErrorKind::Refused(what)));
    };
    for id in graph.topological() {
        for m in &graph.node(id).results {
            if !fits(m) {
                let (sizes, strides) = (m.sizes.as_slice(), m.strides.as_slice());
                let what = format!("{}{sizes:?} with strides {strides:?}", m.dtype);
                refuse(id, format!("{what} is no tensor that memory can hold"));
            }
            if !devices::is_served(m.device) {
                refuse(id, devices::elsewhere("this", m.device).to_string());
            }
        }
    }
    if found.is_empty() {
        for id in graph.topological() {
            if let Err(what) = check_call(graph, id) {
                found.push((Some(id), VerifyErrorKind::Refused(what)));
            }
        }
    }
    match found.is_empty() {
        true => Ok(()),
        false => Err(Error::compile(report(graph, found).to_string())),
    }
}

/// What the operator of a call says against it.
fn check_call(graph: &Graph, id: NodeId) -> std::result::Result<(), String> {
    let Some((name, args)) = graph.call_args(id) else {
        return Ok(());
    };
    for (_, body) in control::subgraphs(name, &args) {
        check_shapes(body).map_err(|e| e.kind().to_string())?;
    }
    let Ok(op) = handle_of(name) else {
        return declared(graph, id);
    };
    let mut operand = |v: &ValueRef| crate::dispatch::meta::of_type(graph.meta(*v));
    let stack = to_stack(&args, name.schema(), &mut operand);
    let made = match tracer::run_meta(op, &stack) {
        Ok((made, _)) => made,
        Err(e) if says_nothing(&e) => return declared(graph, id),
        Err(e) => return Err(e.kind().to_string()),
    };
    let made: Vec<&Tensor> = made.iter().flat_map(Value::tensors).collect();
    let said = &graph.node(id).results;
    let same =
        |(m, t): (&TensorMeta, &&Tensor)| m.dtype == t.dtype() && m.sizes.as_slice() == t.sizes();
    if made.len() == said.len() && said.iter().zip(&made).all(same) {
        return Ok(());
    }
    let shown = |dtype, sizes: &[i64]| format!("{dtype}{sizes:?}");
    let said: Vec<_> = said.iter().map(|m| shown(m.dtype, &m.sizes)).collect();
    let made: Vec<_> = made.iter().map(|t| shown(t.dtype(), t.sizes())).collect();
    Err(format!("`{name}` makes {}, the graph says {}", made.join(", "), said.join(", ")))
}

/// Whether a call has the results that its operator's shape function gives.
fn declared(graph: &Graph, id: NodeId) -> std::result::Result<(), String> {
    match &graph.node(id).kind {
        NodeKind::Call(call) => shapes::check(graph, id, call).map_err(|e| e.to_string()),
        _ => Ok(()),
    }
}

/// Whether a tensor could have this type: nothing computed from its sizes and strides overflows.
fn fits(m: &TensorMeta) -> bool {
    const MOST: i64 = 1 << 48;
    let positive = |all: &[i64]| all.iter().all(|n| (0..MOST).contains(n));
    let count = m.sizes.iter().try_fold(1i64, |n, size| n.checked_mul((*size).max(1)));
    let reach = layout::reach(&m.sizes, &m.strides, 0);
    // a dimension of one element may have any stride
    let mut walked = m.sizes.iter().zip(&m.strides).filter(|(size, _)| **size > 1);
    positive(&m.sizes)
        && walked.all(|(_, stride)| (0..MOST).contains(stride))
        && m.strides.iter().all(|stride| *stride >= 0)
        && m.sizes.len() == m.strides.len()
        && count.is_some_and(|n| n < MOST)
        && reach.is_some_and(|r| r.end < MOST)
}

/// Whether an operator failed because it needs data, or has no Meta kernel.
fn says_nothing(e: &Error) -> bool {
    matches!(
        e.kind(),
        ErrorKind::DataDependent { .. } | ErrorKind::Dispatch(DispatchError::NoMetaKernel { .. })
    )
}

fn is_call(graph: &Graph, id: NodeId) -> bool {
    matches!(graph.node(id).kind, NodeKind::Call(_))
}

/// These nodes and all that they depend on, up to values that are there.
fn ancestors(
    graph: &Graph,
    of: impl Iterator<Item = NodeId>,
    there: &dyn Fn(&ValueRef) -> bool,
) -> HashSet<NodeId> {
    let mut found = HashSet::new();
    let mut next: Vec<NodeId> = of.collect();
    while let Some(id) = next.pop() {
        if found.insert(id) {
            let operands = graph.operands(id).iter().filter(|v| !there(v));
            next.extend(operands.map(|v| v.node));
        }
    }
    found
}

/// The `_copy` form of a view operator.
fn copy_form(op: Op) -> Option<OperatorHandle> {
    let of = match op {
        Op::_unsafe_view => Op::view,
        op => op,
    };
    let name = &of.schema().name;
    let copy = OperatorName::new(format!("{}_copy", name.name), &*name.overload);
    let form = op.facts().view.then(|| Op::named(&copy.to_string()))??;
    handle_of(form).ok()
}

fn laid_out(value: &Tensor, meta: &TensorMeta) -> Result<Tensor> {
    if value.strides() == meta.strides.as_slice() {
        return Ok(value.clone());
    }
    let like = aten::empty_strided(
        value.sizes(),
        &meta.strides,
        Some(value.dtype()),
        None,
        Some(value.device()),
        None,
    )?;
    aten::copy(&like, value, false)
}

/// The values of the graph's outputs, when all calls have been made.
pub(super) fn outputs(interpreter: &Interpreter<'_>) -> Result<Vec<Tensor>> {
    let outputs = interpreter.graph.outputs();
    let missing = || Error::compile("an output of a captured graph is no value of it");
    outputs.iter().map(|v| interpreter.value(*v).ok_or_else(missing)?).collect()
}

/// Applies the new shapes and values to the tensors that the function writes, one `copy_` each.
pub(super) fn write_back(
    traced: &Traced,
    arguments: &[&Tensor],
    inputs: &[Tensor],
    values: &[Tensor],
) -> Result<()> {
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    for r in &traced.reshapes {
        let target = results::owned(&r.target, arguments, &inputs);
        target.set_geometry(&r.sizes, &r.strides, target.offset() + r.moved)?;
    }
    for m in &traced.mutations {
        let target = results::owned(&m.target, arguments, &inputs);
        let written = match &m.memory {
            None => target.clone(),
            Some((meta, behind)) => results::view_of(target, target.byte_offset(), *behind, meta)?,
        };
        aten::copy_(&written, &values[m.output], false)?;
    }
    Ok(())
}
