//! Calls of higher order as they are captured: recorded, and made part of the tape.

use super::gradient::{self, Draws};
use crate::autograd::{Context, Function, recorded};
use crate::dispatch::grad_enabled;
use crate::error::Result;
use crate::modes::functionalize::{self, Body};
use crate::modes::outside;
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::tensor::watcher::Line;
use std::panic::Location;
use straightline_catalog::{Arg, Scalar, Subgraph, TensorMeta, layout};
use straightline_passes::ir::control::{self, Control};
use straightline_passes::ir::graph::{Graph, ValueRef};

/// A result of a call, before it is made.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// Its type.
    pub(super) meta: TensorMeta,
    /// Whether it was computed from something that wants a gradient.
    pub(super) wants: bool,
}

impl Outcome {
    /// What is like this tensor, in row-major order.
    pub(super) fn of(t: &Tensor) -> Outcome {
        let meta =
            TensorMeta { device: t.device(), ..TensorMeta::contiguous(t.dtype(), t.sizes()) };
        Outcome { meta, wants: t.requires_grad() }
    }

    /// The same with a dimension before the others.
    fn stacked(&self, count: i64) -> Outcome {
        let mut sizes = self.meta.sizes.clone();
        sizes.insert(0, count);
        let strides = layout::contiguous_strides(&sizes);
        Outcome { meta: TensorMeta { sizes, strides, ..self.meta.clone() }, wants: self.wants }
    }

    /// Either of two: laid out as both are, or else in row-major order.
    pub(super) fn merged(a: &[Tensor], b: &[Tensor]) -> Vec<Outcome> {
        let one = |(a, b): (&Tensor, &Tensor)| {
            let mut one = Outcome::of(a);
            one.wants |= b.requires_grad();
            let dense = layout::is_non_overlapping_and_dense(a.sizes(), a.strides());
            if a.strides() == b.strides() && dense {
                one.meta.strides = a.strides().into();
            }
            one
        };
        a.iter().zip(b).map(one).collect()
    }
}

fn metas(outcomes: &[Outcome]) -> Vec<TensorMeta> {
    outcomes.iter().map(|o| o.meta.clone()).collect()
}

fn list(tensors: &[Tensor]) -> Arg<Tensor> {
    Arg::Tensors(tensors.iter().cloned().map(Some).collect())
}

fn graph(of: &Graph) -> Arg<Tensor> {
    Arg::Graph(Subgraph::new(of.clone()))
}

/// Whether a call becomes part of the tape.
fn is_recorded(outcomes: &[Outcome], operands: &[Tensor]) -> bool {
    grad_enabled()
        && outcomes.iter().any(|o| o.wants && gradient::has_gradient(&o.meta))
        && operands.iter().any(Tensor::requires_grad)
}

/// Saves operands, and what a call gives besides its outcomes, for the gradient, and marks the outcomes.
fn keep(context: &mut Context, outcomes: &[Outcome], inputs: &[Tensor], results: &[Tensor]) {
    let saved: Vec<&Tensor> = inputs.iter().chain(&results[outcomes.len()..]).collect();
    context.save(&saved);
    mark(context, outcomes, results);
}

/// Says which results have no gradient.
fn mark(context: &mut Context, outcomes: &[Outcome], results: &[Tensor]) {
    let none = |(i, _): &(usize, &Tensor)| outcomes.get(*i).is_none_or(|o| !o.wants);
    let none: Vec<&Tensor> = results.iter().enumerate().filter(none).map(|(_, t)| t).collect();
    context.mark_non_differentiable(&none);
    context.set_materialize_grads(false);
}

/// The gradients that have arrived at results which have one.
fn tangents(grads: &[Option<Tensor>], outcomes: &[Outcome]) -> Vec<(usize, Tensor)> {
    let pairs = grads.iter().zip(outcomes).enumerate();
    pairs.filter_map(|(i, (g, o))| Some((i, g.clone().filter(|_| o.wants)?))).collect()
}

/// Why a loop whose number of turns is not known has no gradient.
pub(super) const NO_GRADIENT: &str = "`while_loop` has no gradient in compiled code, since the number of its turns is not known before";

/// Records a `while_loop`, whose graphs were handed what is carried.
pub(super) fn while_loop(
    mut bodies: [Body; 2],
    carried: &[Tensor],
    results: &[TensorMeta],
    at: Line,
) -> Result<Vec<Tensor>> {
    let [cond, body] = &bodies;
    let additional = functionalize::union(&[cond, body]);
    let wants = |t: &Tensor| t.requires_grad();
    if grad_enabled() && (carried.iter().any(wants) || additional.iter().any(wants)) {
        return Err(outside::leave_eager(NO_GRADIENT));
    }
    bodies.iter_mut().for_each(|b| b.take(carried.len(), &additional));
    let [cond, body] = &bodies;
    let args = [graph(&cond.graph), graph(&body.graph), list(carried), list(&additional)];
    functionalize::emit(control::ops().while_loop, &args, results, at)
}

/// Makes a call of higher order once more.
fn again(call: Control<'_, Tensor>, at: Option<Line>) -> Result<Vec<Tensor>> {
    let at = at.unwrap_or_else(Location::caller);
    let outcomes = |graph: &Graph| -> Vec<Outcome> {
        let one = |v: &ValueRef| Outcome { meta: graph.meta(*v).clone(), wants: true };
        graph.outputs().iter().map(one).collect()
    };
    let body = |graph: &Graph, handed: usize, operands: &[Tensor]| Body {
        graph: graph.clone(),
        operands: vec![None; handed]
            .into_iter()
            .chain(operands.iter().cloned().map(Some))
            .collect(),
    };
    match call {
        Control::Cond { pred, branches, operands } => {
            let outcomes = outcomes(branches[0]);
            cond(&pred, branches.map(|g| body(g, 0, &operands)), &outcomes, at)
        }
        Control::While { cond, body: next, carried, additional } => {
            let bodies = [cond, next].map(|g| body(g, carried.len(), &additional));
            while_loop(bodies, &carried, &metas(&outcomes(next)), at)
        }
        Control::Scan { body: graph, carried, xs, additional, reverse } => {
            let count = xs.first().map_or(0, |x| x.sizes()[0]);
            let body = body(graph, carried.len() + xs.len(), &additional);
            scan(Scan { body, carried, xs, count, outcomes: outcomes(graph), reverse, at })
        }
    }
}

/// Records a `cond`.
pub(super) fn cond(
    pred: &Tensor,
    mut bodies: [Body; 2],
    outcomes: &[Outcome],
    at: Line,
) -> Result<Vec<Tensor>> {
    let [yes, no] = &bodies;
    let operands = functionalize::union(&[yes, no]);
    bodies.iter_mut().for_each(|b| b.take(0, &operands));
    let [yes, no] = bodies;
    let branches = [yes.graph, no.graph];
    if !is_recorded(outcomes, &operands) {
        return emit_cond(pred, &branches, &operands, &metas(outcomes), at);
    }
    let mut draws = Vec::new();
    let mut extended = branches.clone();
    for (k, branch) in branches.iter().enumerate() {
        let own = Draws::of(branch);
        for (i, other) in extended.iter_mut().enumerate() {
            let mut all = other.outputs().to_vec();
            for (v, meta) in &own.values {
                all.push(match i == k {
                    true => *v,
                    // what the other branch draws, this one does not
                    false => gradient::zeros_in(other, meta),
                });
            }
            other.set_outputs(&all);
        }
        draws.push(own);
    }
    let inputs: Vec<Tensor> = std::iter::once(pred).chain(&operands).cloned().collect();
    let count = outcomes.len();
    let call = Cond { branches, extended, draws, outcomes: outcomes.to_vec(), at };
    let mut results = recorded(call, "Cond".into(), &inputs, Some(at))?;
    results.truncate(count);
    Ok(results)
}

fn emit_cond(
    pred: &Tensor,
    [yes, no]: &[Graph; 2],
    operands: &[Tensor],
    results: &[TensorMeta],
    at: Line,
) -> Result<Vec<Tensor>> {
    let args = [Arg::Tensor(pred.clone()), graph(yes), graph(no), list(operands)];
    functionalize::emit(control::ops().cond, &args, results, at)
}

/// A `cond` of the tape.
struct Cond {
    branches: [Graph; 2],
    /// The branches with what they draw among their results.
    extended: [Graph; 2],
    draws: Vec<Draws>,
    outcomes: Vec<Outcome>,
    at: Line,
}

impl Function for Cond {
    fn forward(&self, context: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut all = metas(&self.outcomes);
        all.extend(self.draws.iter().flat_map(|d| d.values.iter().map(|(_, m)| m.clone())));
        let results = emit_cond(&inputs[0], &self.extended, &inputs[1..], &all, self.at)?;
        keep(context, &self.outcomes, inputs, &results);
        Ok(results)
    }

    fn backward(&self, context: &Context, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let saved = context.saved()?;
        let operands = self.branches[0].inputs().len();
        let (inputs, mut drawn) = saved.split_at(1 + operands);
        let (pred, operands) = (&inputs[0], &inputs[1..]);
        let wanted = gradient::wanted(operands, &context.needs_input_grad()[1..]);
        let tangents = tangents(grads, &self.outcomes);
        let mut bodies = Vec::new();
        for (branch, draws) in self.branches.iter().zip(&self.draws) {
            let (own, others) = drawn.split_at(draws.values.len());
            drawn = others;
            let (body, ()) = functionalize::subgraph(false, || {
                let inside = operands.iter().map(functionalize::inside);
                let inside = inside.collect::<Result<Vec<_>>>()?;
                let all =
                    gradient::pulled(branch, &inside, &wanted, (draws, own), &tangents, &again)?;
                Ok((all, ()))
            })?;
            bodies.push(body);
        }
        let bodies: [Body; 2] =
            bodies.try_into().map_err(|_| crate::Error::compile("a branch is missing"))?;
        let outcomes: Vec<Outcome> = gradient::chosen(operands, &wanted)
            .map(|t| Outcome { wants: true, ..Outcome::of(t) })
            .collect();
        let mut made = cond(pred, bodies, &outcomes, self.at)?.into_iter();
        let each = wanted.iter().map(|w| if *w { made.next() } else { None });
        Ok(std::iter::once(None).chain(each).collect())
    }
}

/// A `scan`, before it is recorded.
pub(super) struct Scan {
    /// Its graph, which was handed what is carried and a slice of each of `xs`.
    pub(super) body: Body,
    /// What is carried at first.
    pub(super) carried: Vec<Tensor>,
    /// What is sliced.
    pub(super) xs: Vec<Tensor>,
    /// How many slices there are.
    pub(super) count: i64,
    /// The results of the graph.
    pub(super) outcomes: Vec<Outcome>,
    /// The last slice comes first.
    pub(super) reverse: bool,
    /// The line of the call.
    pub(super) at: Line,
}

/// Records a `scan`.
pub(super) fn scan(scan: Scan) -> Result<Vec<Tensor>> {
    let Scan { mut body, carried, xs, count, outcomes, reverse, at } = scan;
    let additional = functionalize::union(&[&body]);
    body.take(carried.len() + xs.len(), &additional);
    let graph = body.graph;
    let results: Vec<Outcome> = (outcomes.iter().enumerate())
        .map(|(i, o)| if i < carried.len() { o.clone() } else { o.stacked(count) })
        .collect();
    let inputs: Vec<Tensor> = carried.iter().chain(&xs).chain(&additional).cloned().collect();
    let call = Scanned {
        extended: graph.clone(),
        graph,
        draws: Draws::default(),
        carried: carried.len(),
        xs: xs.len(),
        count,
        outcomes: results,
        reverse,
        at,
    };
    if !is_recorded(&call.outcomes, &inputs) {
        return call.emit(&inputs, &metas(&call.outcomes));
    }
    call.recorded(&inputs)
}

/// A `scan` of the tape.
struct Scanned {
    graph: Graph,
    /// The graph with what it was given to carry, and what it draws, among its results.
    extended: Graph,
    draws: Draws,
    carried: usize,
    xs: usize,
    count: i64,
    outcomes: Vec<Outcome>,
    reverse: bool,
    at: Line,
}

impl Scanned {
    fn emit(&self, inputs: &[Tensor], results: &[TensorMeta]) -> Result<Vec<Tensor>> {
        let (carried, rest) = inputs.split_at(self.carried);
        let (xs, additional) = rest.split_at(self.xs);
        let reverse = Arg::Scalar(Scalar::Bool(self.reverse));
        let args = [graph(&self.extended), list(carried), list(xs), list(additional), reverse];
        functionalize::emit(control::ops().scan, &args, results, self.at)
    }

    fn recorded(mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        self.draws = Draws::of(&self.graph);
        let mut all = self.extended.outputs().to_vec();
        all.extend(self.extended.inputs()[..self.carried].iter().map(|n| ValueRef::from(*n)));
        all.extend(self.draws.values.iter().map(|(v, _)| *v));
        self.extended.set_outputs(&all);
        let count = self.outcomes.len();
        let mut results = {
            let at = self.at;
            recorded(self, "Scan".into(), inputs, Some(at))?
        };
        results.truncate(count);
        Ok(results)
    }
}

impl Function for Scanned {
    fn forward(&self, context: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut all = metas(&self.outcomes);
        let kept = inputs[..self.carried].iter().map(|t| Outcome::of(t).meta);
        let kept = kept.chain(self.draws.values.iter().map(|(_, m)| m.clone()));
        for meta in kept {
            all.push(Outcome { meta, wants: false }.stacked(self.count).meta);
        }
        let results = self.emit(inputs, &all)?;
        keep(context, &self.outcomes, inputs, &results);
        Ok(results)
    }

    fn backward(&self, context: &Context, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let saved = context.saved()?;
        let (carried, xs) = (self.carried, self.xs);
        let (inputs, kept) = saved.split_at(self.graph.inputs().len());
        let (before, drawn) = kept.split_at(carried);
        let additional = &inputs[carried + xs..];
        // along what is carried a gradient may come from any later step
        let needs = context.needs_input_grad();
        let mut wanted = gradient::wanted(inputs, needs);
        for (w, t) in wanted.iter_mut().zip(&inputs[..carried]) {
            *w = gradient::has_gradient(&t.meta());
        }
        // what the backward scan carries: the gradients of what is carried, and of the additional
        // operands, which sum up
        let mut first: Vec<Tensor> = Vec::new();
        for (i, t) in inputs[..carried].iter().enumerate().filter(|(i, _)| wanted[*i]) {
            let arrives = grads.get(i).cloned().flatten();
            first.push(arrives.map_or_else(|| gradient::zeros(t), Ok)?);
        }
        let of_carried = first.len();
        for t in gradient::chosen(additional, &wanted[carried + xs..]) {
            first.push(gradient::zeros(t)?);
        }
        let of_ys: Vec<(usize, Tensor)> =
            tangents(grads, &self.outcomes).into_iter().filter(|(i, _)| *i >= carried).collect();
        let sliced: Vec<Tensor> = (inputs[carried..carried + xs].iter())
            .chain(before)
            .chain(drawn)
            .chain(of_ys.iter().map(|(_, g)| g))
            .cloned()
            .collect();
        let mut outcomes = Vec::new();
        let (body, ()) = functionalize::subgraph(false, || {
            let hand = |meta: &TensorMeta| functionalize::handed(meta);
            let now =
                first.iter().map(|t| hand(&Outcome::of(t).meta)).collect::<Result<Vec<_>>>()?;
            let slices = sliced.iter().map(|t| {
                let meta = control::slice(&t.meta());
                hand(&meta.ok_or_else(|| crate::Error::compile("a slice of a number"))?)
            });
            let slices = slices.collect::<Result<Vec<_>>>()?;
            let (x, rest) = slices.split_at(xs);
            let (c, rest) = rest.split_at(carried);
            let (own, g) = rest.split_at(drawn.len());
            let additional = additional.iter().map(functionalize::inside);
            let additional = additional.collect::<Result<Vec<_>>>()?;
            let inside: Vec<Tensor> = c.iter().chain(x).chain(&additional).cloned().collect();
            let mut tangents: Vec<(usize, Tensor)> = Vec::new();
            let carries = (0..carried).filter(|i| wanted[*i]);
            tangents.extend(carries.zip(now[..of_carried].iter().cloned()));
            tangents.extend(of_ys.iter().map(|(i, _)| *i).zip(g.iter().cloned()));
            let drawn = (&self.draws, own);
            let pulled = gradient::pulled(&self.graph, &inside, &wanted, drawn, &tangents, &again)?;
            // next: what is carried, the sums, then gradients of the slices
            let of_xs = wanted[carried..carried + xs].iter().filter(|w| **w).count();
            let (of_c, rest) = pulled.split_at(of_carried);
            let (of_x, of_additional) = rest.split_at(of_xs);
            let mut all = of_c.to_vec();
            for (sum, more) in now[of_carried..].iter().zip(of_additional) {
                all.push(aten::add_tensor(sum, more, Scalar::Int(1))?);
            }
            all.extend(of_x.iter().cloned());
            outcomes = all.iter().map(|t| Outcome { wants: true, ..Outcome::of(t) }).collect();
            Ok((all, ()))
        })?;
        let call = Scan {
            body,
            carried: first,
            xs: sliced,
            count: self.count,
            outcomes,
            reverse: !self.reverse,
            at: self.at,
        };
        let made = scan(call)?;
        let (mut of_c, rest) = (made[..of_carried].iter(), &made[of_carried..]);
        let of_additional = wanted[carried + xs..].iter().filter(|w| **w).count();
        let (of_additional, of_x) = rest.split_at(of_additional);
        let (mut of_additional, mut of_x) = (of_additional.iter(), of_x.iter());
        let each = wanted.iter().enumerate().map(|(i, w)| match *w {
            false => None,
            true if i < carried => of_c.next().cloned(),
            true if i < carried + xs => of_x.next().cloned(),
            true => of_additional.next().cloned(),
        });
        Ok(each.enumerate().map(|(i, g)| g.filter(|_| needs[i])).collect())
    }
}
