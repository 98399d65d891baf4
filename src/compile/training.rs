//! A function whose results want gradients, as two plans.
//!
//! The joint graph is cut in two ([`partition`]). A call runs the forward half, and its results come
//! out of one node of the tape, which holds what the forward half saved and whose gradients are those
//! of the backward half.

use super::capture::root;
use super::code::Code;
use super::options::CompileOptions;
use super::results;
use super::stages::{BackwardPlan, Executable, Place, Training};
use super::traced::{Joint, OutputSource, Traced};
use crate::autograd::captured::{self, Backward, Saves};
use crate::error::{Error, Result};
use crate::modes::functionalize::{InputSlot, Owner};
use crate::ops::aten;
use crate::tensor::Tensor;
use smallvec::SmallVec;
use std::sync::Arc;
use straightline_catalog::TensorMeta;
use straightline_passes::ir::graph::{Graph, NodeId, NodeKind, ValueRef};
use straightline_passes::partition::{Halves, Roles, Saved, partition};
use straightline_passes::rewrite::{RewriteOptions, rewrite};

/// Compiles a captured function: as one plan, or as two. `like` are earlier ones of the same function,
/// whose code may serve; `None` if it does not, and none may be generated.
pub(super) fn compile(
    traced: &Traced,
    options: &CompileOptions,
    like: &[&Executable],
    generate: bool,
) -> Result<Option<Executable>> {
    match &traced.joint {
        None => traced.lower_with(options)?.compile_like(&codes(like), false, generate),
        Some(joint) => compile_halves(traced, joint, options, like, generate),
    }
}

fn codes<'a>(like: &[&'a Executable]) -> Vec<&'a Code> {
    like.iter().map(|e| &e.code).collect()
}

fn compile_halves(
    traced: &Traced,
    joint: &Joint,
    options: &CompileOptions,
    like: &[&Executable],
    generate: bool,
) -> Result<Option<Executable>> {
    let simplified = {
        let _pin = traced.surroundings.pin();
        let of = RewriteOptions { fast_math: options.fast_math, ..RewriteOptions::default() };
        rewrite(&traced.graph, &of).map_err(|e| Error::compile(e.to_string()))?.0
    };
    let halves =
        partition(&simplified, &roles(traced, joint)).map_err(|e| Error::compile(e.to_string()))?;
    let Halves { forward, backward, saved, kept, recomputed } = halves;
    let declared: Vec<TensorMeta> =
        traced.graph.outputs().iter().map(|v| traced.graph.meta(*v).clone()).collect();
    let mut half = traced.clone();
    half.declared = declared[..joint.outputs].to_vec();
    let mut places = Vec::new();
    for s in saved {
        places.push(match s {
            Saved::Input(i) => Place::Input(i),
            Saved::Parameter(i) => Place::Parameter(i),
            Saved::Output(i) => {
                half.outputs.push(OutputSource::Value(i));
                Place::Result(half.outputs.len() - 1)
            }
        });
    }
    half.roots = roots(traced, joint, &forward);
    half.graph = forward;
    half.joint = None;
    let lowered = half.lower_with(options)?;
    let Some(mut code) = lowered.compile_like(&codes(like), false, generate)? else {
        return Ok(None);
    };
    let plan = match joint.spent {
        true => None,
        false => {
            let mut half = Traced::from_graph(backward);
            half.given = false;
            half.declared = declared[joint.outputs..].to_vec();
            half.surroundings.default_dtype = traced.surroundings.default_dtype;
            let graph = &half.graph;
            half.roots = graph.outputs().iter().map(|v| root(graph, *v)).collect();
            // a gradient that arrives and goes on is the same tensor
            for (i, v) in graph.outputs().iter().enumerate() {
                if matches!(graph.node(v.node).kind, NodeKind::Input)
                    && let Some(k) = graph.inputs().iter().position(|n| *n == v.node)
                {
                    half.outputs[i] = OutputSource::Input(k);
                }
            }
            let like: Vec<&Executable> = like.iter().filter_map(|e| e.backward_half()).collect();
            let lowered = half.lower_with(options)?;
            let Some(code) = lowered.compile_like(&codes(&like), false, generate)? else {
                return Ok(None);
            };
            Some(Arc::new(BackwardPlan { code, saved: places.len() }))
        }
    };
    code.training = Some(Box::new(Training {
        joint: Box::new(traced.clone()),
        results: joint.results.clone(),
        targets: joint.targets.iter().map(|(owner, _)| owner.clone()).collect(),
        saved: places,
        backward: plan,
        kept,
        recomputed,
    }));
    Ok(Some(code))
}

/// Whose memory the outputs of the forward half share: for the function's own as the function made
/// them, whatever simplification found.
fn roots(traced: &Traced, joint: &Joint, forward: &Graph) -> Vec<ValueRef> {
    let (graph, own) = (&traced.graph, &traced.roots[..joint.outputs]);
    let of = |all: &[NodeId], there: &[NodeId], v: ValueRef| {
        let at = all.iter().position(|n| *n == v.node)?;
        there.get(at).map(|n| ValueRef::from(*n))
    };
    // no value of the graph: what is equal to nothing but itself
    let end = forward.topological().last().copied().unwrap_or_default();
    let given = own.iter().map(|v| {
        of(graph.inputs(), forward.inputs(), *v)
            .or_else(|| of(graph.parameters(), forward.parameters(), *v))
            .unwrap_or_else(|| {
                let first = own.iter().position(|other| other == v).unwrap_or_default();
                ValueRef { node: end, index: first as u32 }
            })
    });
    let saved = forward.outputs()[joint.outputs..].iter().map(|v| root(forward, *v));
    given.chain(saved).collect()
}

/// What the joint graph is made of, and what is written.
fn roles(traced: &Traced, joint: &Joint) -> Roles {
    let slot_of = |argument: usize| match traced.slots.is_empty() {
        true => Some(argument),
        false => (traced.slots.iter())
            .position(|s| matches!(s, InputSlot::Argument(i) if *i == argument)),
    };
    let (mut inputs, mut parameters) = (Vec::new(), Vec::new());
    for m in &traced.mutations {
        match &m.target {
            Owner::Input(i) => inputs.extend(slot_of(*i)),
            Owner::Merged(slot) => inputs.push(*slot),
            Owner::Tensor(t) => parameters.extend(
                (traced.parameters.iter().enumerate())
                    .filter(|(_, p)| p.shares_storage_with(t))
                    .map(|(i, _)| i),
            ),
        }
    }
    if !traced.mutations.is_empty() {
        // memory that several arguments lie in
        let merged = traced.slots.iter().enumerate();
        inputs
            .extend(merged.filter(|(_, s)| matches!(s, InputSlot::Merged { .. })).map(|(i, _)| i));
    }
    Roles {
        inputs: joint.inputs,
        outputs: joint.outputs,
        written_inputs: inputs,
        written_parameters: parameters,
    }
}

impl Training {
    /// Makes the results of a call part of the tape.
    pub(super) fn attach(
        &self,
        traced: &Traced,
        arguments: &[&Tensor],
        results: &[Tensor],
    ) -> Result<()> {
        let inputs = match traced.slots.is_empty() {
            true => Vec::new(),
            false => results::graph_inputs(&traced.slots, arguments)?,
        };
        let saved = self.saved.iter().map(|place| match place {
            Place::Input(i) => inputs.get(*i).unwrap_or_else(|| arguments[*i]).clone(),
            Place::Parameter(i) => (*traced.parameters[*i]).clone(),
            Place::Result(i) => results[*i].clone(),
        });
        let saved: SmallVec<[Tensor; 4]> = saved.collect();
        let wanting: SmallVec<[&Tensor; 4]> = self.results.iter().map(|i| &results[*i]).collect();
        let targets: SmallVec<[&Tensor; 8]> =
            self.targets.iter().map(|owner| results::owned(owner, arguments, &[])).collect();
        let backward = self.backward.clone().map(|plan| plan as Arc<dyn Backward>);
        captured::attach(&wanting, &targets, &Saves { tensors: &saved }, backward)
    }

    /// The plan of the backward half.
    pub(super) fn backward(&self) -> Option<&Executable> {
        self.backward.as_ref().map(|plan| &plan.code)
    }
}

impl Backward for BackwardPlan {
    fn run(&self, saved: &[Tensor], grads: Vec<Option<Tensor>>) -> Result<Vec<Option<Tensor>>> {
        let metas = self.code.traced.inputs();
        let mut inputs = Vec::with_capacity(metas.len());
        for (t, meta) in saved.iter().zip(metas) {
            inputs.push(laid_out(t, meta)?);
        }
        for (grad, meta) in grads.into_iter().zip(&metas[self.saved..]) {
            inputs.push(match grad {
                Some(grad) => laid_out(&grad, meta)?,
                None => {
                    let zeros = empty(meta)?;
                    aten::zero_(&zeros)?
                }
            });
        }
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        if inputs.len() != metas.len() {
            return Err(Error::runtime("a compiled backward pass got too few gradients"));
        }
        Ok(self.code.run(&inputs)?.into_iter().map(Some).collect())
    }
}

fn empty(meta: &TensorMeta) -> Result<Tensor> {
    let device = Some(meta.device);
    aten::empty_strided(&meta.sizes, &meta.strides, Some(meta.dtype), None, device, None)
}

/// A tensor as the plan reads it.
fn laid_out(t: &Tensor, meta: &TensorMeta) -> Result<Tensor> {
    let plain = !t.has_math_bits() && t.kind_without_memory().is_none();
    let same = t.dtype() == meta.dtype && t.device() == meta.device;
    if plain && same && t.lies_as(&meta.sizes, &meta.strides) {
        return Ok(t.clone());
    }
    ensure!(
        t.sizes() == meta.sizes.as_slice() && t.dtype() == meta.dtype,
        "a compiled backward pass got a {}{:?} and needs a {}{:?}",
        t.dtype(),
        t.sizes(),
        meta.dtype,
        meta.sizes.as_slice()
    );
    aten::copy_(&empty(meta)?, t, false)
}
