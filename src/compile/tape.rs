//! Gradients of captured functions.
//!
//! A function may run a backward pass itself: its calls are captured as any others, and what is new
//! is `.grad` of tensors from outside, which a replay reads, compares and sets. Or its results want
//! gradients: then the backward pass is captured right after it, from stand-ins for the gradients of
//! the results, and the graph is a *joint* one, which `training` cuts in two.

use super::flat;
use super::traced::{GradUse, Joint, OutputSource, Traced, ViewOf};
use super::tree::TensorTree;
use crate::autograd::captured;
use crate::error::Result;
use crate::modes::functionalize::{self, Owner};
use crate::modes::outside::{self, Asked, Gradient};
use crate::modes::tracer;
use crate::tensor::{Held, Tensor};
use smallvec::SmallVec;
use straightline_catalog::{TensorMeta, layout};
use straightline_passes::ir::graph::ValueRef;

/// Why compiled code cannot do what the function has done with gradients.
pub(super) fn refusal<I: TensorTree>(
    gradients: &[Gradient],
    stand_ins: &I,
    inputs: &I,
) -> Option<String> {
    let after = gradients.iter().filter_map(|g| g.after.as_ref()?.as_ref());
    if after.clone().any(Tensor::requires_grad) {
        return Some("it leaves gradients that can be differentiated in `.grad`".into());
    }
    let mut wants = Vec::new();
    flat::visit(inputs, |t| wants.push(t.requires_grad()));
    let (mut i, mut changed) = (0, false);
    flat::visit(stand_ins, |t| {
        changed |= t.requires_grad() != wants[i] || captured::is_computed(t);
        i += 1;
    });
    if changed {
        return Some("it changes whether an argument wants a gradient".into());
    }
    // two handles of one `.grad` would be captured as two
    let mut reals: Vec<&Tensor> = Vec::new();
    flat::visit(inputs, |t| reals.push(t));
    let twice = gradients.iter().any(|g| {
        let same = |t: &&&Tensor| t.same_handle(&g.touched.real);
        reals.iter().filter(same).count() + usize::from(matches!(g.touched.owner, Owner::Tensor(_)))
            > 1
    });
    twice.then(|| "it reaches the `.grad` of one tensor in two ways".into())
}

/// Why a function with tensors that have tangents runs eagerly, if there are any.
pub(super) fn tangents<I: TensorTree, O: TensorTree>(
    inputs: &I,
    output: Option<&O>,
) -> Option<String> {
    let (mut given, mut returned) = (false, false);
    flat::visit(inputs, |t| given |= t.has_tangent());
    if let Some(output) = output {
        flat::visit(output, |t| returned |= t.has_tangent());
    }
    match (given, returned) {
        (true, _) => Some("an argument has a tangent".into()),
        (_, true) => Some("its results have tangents that come from outside".into()),
        _ => None,
    }
}

/// The uses of `.grad`; what the function leaves there is appended to its results.
pub(super) fn uses(gradients: &[Gradient], results: &mut Vec<Tensor>) -> Vec<GradUse> {
    let mut all = Vec::new();
    for g in gradients {
        let after = match &g.after {
            None => None,
            Some(None) => Some(None),
            Some(Some(t)) => {
                results.push(t.clone());
                Some(Some(results.len() - 1))
            }
        };
        let before = || g.touched.before.clone().map(Held::new);
        let bound = g.touched.argument().map(|(index, _)| index);
        all.push(GradUse {
            target: g.touched.owner.clone(),
            before: (g.touched.read && bound.is_none()).then(before),
            bound,
            hooks: g.touched.hooks.clone(),
            after,
        });
    }
    all.sort_by_key(|used| used.bound.unwrap_or(usize::MAX));
    all
}

/// Each `.grad` that is an argument, in order.
pub(super) fn arguments(gradients: &[Gradient]) -> Vec<&Tensor> {
    let mut all: Vec<_> = gradients.iter().filter_map(|g| g.touched.argument()).collect();
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, t)| t).collect()
}

/// Whether the function has a `.grad` that is an argument in another way as well.
pub(super) fn reached_twice(gradients: &[Gradient]) -> bool {
    let bound: Vec<_> = gradients.iter().filter_map(|g| g.touched.argument()).collect();
    let same = |leaf: &functionalize::Leaf| {
        let mut here = bound.iter().filter(|(_, t)| leaf.real.same_handle(t));
        here.any(|(index, _)| !matches!(leaf.owner, Owner::Input(i) if i == *index))
    };
    !bound.is_empty() && functionalize::leaves().iter().any(same)
}

/// What a call is given besides its arguments: `.grad` of the tensors of which it is one.
pub(super) type Bound = SmallVec<[Tensor; 8]>;

/// Whether there is any.
#[inline]
pub(super) fn binds(grads: &[GradUse]) -> bool {
    grads.first().is_some_and(|used| used.bound.is_some())
}

/// What they are now; `None` where one is missing.
pub(super) fn bound(grads: &[GradUse], arguments: &[&Tensor]) -> Option<Bound> {
    let used = grads.iter().filter(|used| used.bound.is_some());
    used.map(|used| outside::grad_of(tensor(&used.target, arguments)?)).collect()
}

/// Arguments, and what a call is given besides.
pub(super) fn extended<'a>(
    arguments: &[&'a Tensor],
    bound: &'a Bound,
) -> SmallVec<[&'a Tensor; 16]> {
    arguments.iter().copied().chain(bound).collect()
}

/// Whether each of them is a tensor of its own, in memory of its own.
pub(super) fn are_alone<'a>(
    bound: &'a Bound,
    arguments: &[&'a Tensor],
    closed_over: impl Iterator<Item = &'a Tensor> + Clone,
) -> bool {
    let alone = |(at, t): (usize, &Tensor)| {
        // the other handle is that of the tensor whose gradient it is
        let known = t.outside_handles() <= 2
            || (bound[..at].iter().chain(arguments.iter().copied()).chain(closed_over.clone()))
                .all(|other| !other.same_handle(t));
        known && t.storage().is_unshared()
    };
    bound.iter().enumerate().all(alone)
}

/// That arguments whose `.grad` matters are no other arguments and no closed-over tensors as well.
pub(super) fn apart<I: TensorTree>(gradients: &[Gradient], inputs: &I) -> Vec<Asked> {
    let mut count = 0;
    flat::visit(inputs, |_| count += 1);
    let mut all = Vec::new();
    for (at, g) in gradients.iter().enumerate() {
        for k in 0..count {
            if !matches!(g.touched.owner, Owner::Input(i) if i == k) {
                let (a, b) = (g.touched.owner.clone(), Owner::Input(k));
                all.push(Asked::Same { a, b, yes: false });
            }
        }
        let others = gradients[..at].iter().filter(|_| matches!(g.touched.owner, Owner::Input(_)));
        for other in others.filter(|o| matches!(o.touched.owner, Owner::Tensor(_))) {
            let (a, b) = (g.touched.owner.clone(), other.touched.owner.clone());
            all.push(Asked::Same { a, b, yes: false });
        }
    }
    all
}

fn tensor<'a>(owner: &'a Owner, inputs: &[&'a Tensor]) -> Option<&'a Tensor> {
    match owner {
        Owner::Input(i) => inputs.get(*i).copied(),
        Owner::Tensor(t) => Some(t),
        Owner::Merged(_) => None,
    }
}

/// The gradient that a call is going to replace, if it is like `meta` and nobody else can tell
/// whether the new one lies in its memory.
pub(super) fn spare(
    used: &GradUse,
    inputs: &[&Tensor],
    meta: &TensorMeta,
    bytes: usize,
) -> Option<Tensor> {
    let grad = outside::grad_of(tensor(&used.target, inputs)?)?;
    // one handle is that of the tensor whose gradient it is
    let alone = grad.handles() == 2 && grad.storage().is_unshared();
    let fits = grad.offset() == 0 && grad.storage().bytes() == bytes && grad.meta() == *meta;
    let wants = grad.requires_grad() || grad.may_be_dual();
    let plain = !wants && !grad.has_math_bits() && grad.kind_without_memory().is_none();
    (alone && fits && plain).then_some(grad)
}

/// Takes the gradient away if it is `written`.
pub(super) fn forget(used: &GradUse, inputs: &[&Tensor], written: &Tensor) {
    if let Some(t) = tensor(&used.target, inputs)
        && outside::grad_of(t).is_some_and(|grad| grad.same_handle(written))
    {
        outside::put_grad(t, None);
    }
}

/// What differs from when the function was captured.
#[inline]
pub(super) fn misses(used: &GradUse, inputs: &[&Tensor]) -> Option<&'static str> {
    let t = tensor(&used.target, inputs)?;
    if let Some(before) = &used.before {
        let same = match (outside::grad_of(t), before) {
            (None, None) => true,
            (Some(a), Some(b)) => a.same_handle(b),
            _ => false,
        };
        if !same {
            return Some("`.grad` of a tensor is another one, and the function reads it");
        }
    }
    match used.hooks.is_empty() {
        true => {
            t.history().rest.as_ref().is_some_and(|r| !r.hooks.is_empty() || !r.after.is_empty())
        }
        false => outside::hooks_of(t) != used.hooks,
    }
    .then_some("a tensor has other hooks, which a backward pass in the function runs")
}

/// Puts gradients where the function leaves them; `at` says which of `values` an output is.
pub(super) fn deliver(
    traced: &Traced,
    arguments: &[&Tensor],
    at: &mut dyn FnMut(usize) -> usize,
    values: &[Tensor],
) {
    for used in &traced.grads {
        let (Some(after), Some(t)) = (used.after, tensor(&used.target, arguments)) else {
            continue;
        };
        outside::put_grad(t, after.and_then(|place| values.get(at(place)).cloned()));
    }
}

/// The backward pass of a function's results, as captured.
pub(super) struct Tape {
    results: Vec<usize>,
    targets: Vec<(Owner, ValueRef)>,
    inputs: usize,
    spent: bool,
}

impl Tape {
    /// Makes the gradients outputs of the graph.
    pub(super) fn into_joint(self, values: &mut Vec<ValueRef>) -> Result<Joint> {
        let outputs = values.len();
        let targets = self.targets.into_iter().map(|(owner, value)| {
            values.push(value);
            (owner, values.len() - 1)
        });
        let targets = targets.collect();
        Ok(Joint {
            results: self.results,
            targets,
            inputs: self.inputs,
            outputs,
            spent: self.spent,
        })
    }
}

/// Captures the backward pass of the results that want gradients, if there are any.
pub(super) fn joint(
    results: &[Tensor],
    sources: &[OutputSource],
    wanted: bool,
) -> Result<Option<Tape>> {
    let mut places = Vec::new();
    for (i, (t, source)) in results.iter().zip(sources).enumerate() {
        if outside::grad_of(t).is_some() && !functionalize::is_outside(t) {
            return Err(outside::leave_eager("it returns a tensor that has a `.grad`"));
        }
        if !t.requires_grad() {
            continue;
        }
        match source {
            // what the caller has already
            OutputSource::Input(_) | OutputSource::Tensor(_) | OutputSource::Same(_) => {}
            OutputSource::View { of: ViewOf::Input(_) | ViewOf::Tensor(_), meta, bits, .. }
                if !bits.any() && viewed_plainly(t, meta) => {}
            OutputSource::Value(_) if captured::is_computed(t) => places.push(i),
            OutputSource::Value(_) => {
                return Err(outside::leave_eager("it makes a leaf and returns it"));
            }
            OutputSource::View { .. } => {
                return Err(outside::leave_eager(
                    "results that want gradients share memory with each other, or are views whose gradients do not follow from \
                     where their elements lie",
                ));
            }
        }
    }
    if places.is_empty() {
        return Ok(None);
    }
    if !wanted {
        return Err(outside::leave_eager(
            "results want gradients, which this graph does not record",
        ));
    }
    let outputs: Vec<Tensor> = places.iter().map(|i| results[*i].clone()).collect();
    let tangents = outputs.iter().enumerate().map(|(i, t)| tangent(i, t));
    let inputs = tracer::with_recording(|r| Ok(r.graph.inputs().len()))?;
    let tangents = tangents.collect::<Result<Vec<_>>>()?;
    let leaves = captured::leaves_of(&outputs)?;
    let mut reached: Vec<(Tensor, Owner)> = Vec::new();
    for leaf in leaves.into_iter().filter(functionalize::is_outside) {
        let owner = match functionalize::is_wrapper(&leaf) {
            true => functionalize::original(&leaf).map(|(_, owner)| owner),
            false => Some(Owner::Tensor(Held::new(leaf.clone()))),
        };
        reached.extend(owner.map(|owner| (leaf, owner)));
    }
    let leaves: Vec<Tensor> = reached.iter().map(|(t, _)| t.clone()).collect();
    let grads = match captured::gradients(&outputs, &tangents, &leaves) {
        Ok(grads) => grads,
        Err(e) if captured::is_spent(&e) && are_spent(&outputs, &tangents, &leaves) => {
            let targets = Vec::new();
            return Ok(Some(Tape { results: places, targets, inputs, spent: true }));
        }
        Err(e) => {
            let why = format!("the backward pass of its results cannot be captured: {e}");
            return Err(outside::leave_eager(&why));
        }
    };
    if outside::take_gradients().iter().any(|g| g.after.is_some()) {
        return Err(outside::leave_eager(
            "a hook sets `.grad` in the backward pass of its results",
        ));
    }
    let mut targets = Vec::new();
    for ((_, owner), grad) in reached.into_iter().zip(grads) {
        if let Some(grad) = grad {
            targets.push((owner, tracer::value_of(&functionalize::unwrap(&grad)?)?));
        }
    }
    Ok(Some(Tape { results: places, targets, inputs, spent: false }))
}

/// Whether the function has made the backward pass of each of its results.
fn are_spent(outputs: &[Tensor], tangents: &[Tensor], leaves: &[Tensor]) -> bool {
    let alone = |(output, tangent): (&Tensor, &Tensor)| {
        let (output, tangent) = (std::slice::from_ref(output), std::slice::from_ref(tangent));
        captured::gradients(output, tangent, leaves).is_err_and(|e| captured::is_spent(&e))
    };
    outputs.len() == 1 || outputs.iter().zip(tangents).all(alone)
}

/// Whether a view of a tensor from outside is one of the same dtype, whose gradient follows from
/// where its elements lie.
fn viewed_plainly(t: &Tensor, meta: &TensorMeta) -> bool {
    let follows =
        |t: &Tensor| t.dtype() == meta.dtype && !layout::may_overlap(t.sizes(), t.strides());
    t.base().is_some() && std::iter::successors(t.base(), |t| t.base()).all(follows)
}

/// A stand-in for the gradient of a result: laid out as that, if it fills its memory.
fn tangent(at: usize, of: &Tensor) -> Result<Tensor> {
    let mut meta = of.meta();
    if !layout::is_non_overlapping_and_dense(&meta.sizes, &meta.strides) {
        meta.strides = layout::contiguous_strides(&meta.sizes);
    }
    let value = tracer::with_recording(|r| Ok(r.input(&format!("tangent{at}"), &meta)))?;
    Ok(functionalize::wrap_value(&value))
}
