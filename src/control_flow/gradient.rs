//! The gradient of a graph that a call is given, as calls of a graph.
//!
//! The graph's calls are made once more, on stand-ins of the backward graph that want gradients, and the
//! tape of these is followed back. So a backward branch computes again what it needs. What the graph
//! drew from the random generator is saved instead, and given to it.

use crate::autograd::{GradGuard, captured};
use crate::compile::interpret::{Interpreter, MakesControl};
use crate::dispatch::{DispatchKeySet, ExcludeGuard};
use crate::error::{Error, Result};
use crate::modes::outside;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::args::{self, Arguments};
use straightline_catalog::{Effects, Op, TensorMeta};
use straightline_passes::ir::graph::{Graph, NodeId, NodeKind, ValueRef};

/// The results of a graph's calls that are not made twice: they draw random numbers, or have effects.
#[derive(Default)]
pub(super) struct Draws {
    pub(super) values: Vec<(ValueRef, TensorMeta)>,
}

/// Whether a call is not made twice.
fn once(graph: &Graph, id: NodeId) -> bool {
    let once = [Effects::RANDOM, Effects::EFFECT, Effects::READS];
    once.into_iter().any(|e| graph.effects(id).has(e))
}

impl Draws {
    pub(super) fn of(graph: &Graph) -> Draws {
        let mut values = Vec::new();
        for id in graph.topological().into_iter().filter(|id| once(graph, *id)) {
            for (index, meta) in (0..).zip(&graph.node(id).results) {
                values.push((ValueRef { node: id, index }, meta.clone()));
            }
        }
        Draws { values }
    }
}

/// Zeros in the place of a gradient that does not arrive.
pub(super) fn zeros(t: &Tensor) -> Result<Tensor> {
    aten::zeros(t.sizes(), Some(t.dtype()), None, Some(t.device()), None)
}

/// Zeros as a value of a graph.
pub(super) fn zeros_in(graph: &mut Graph, meta: &TensorMeta) -> ValueRef {
    let call = args::zeros {
        size: meta.sizes.to_vec(),
        dtype: Some(meta.dtype),
        layout: None,
        device: Some(meta.device),
        pin_memory: None,
    };
    let like = TensorMeta::contiguous(meta.dtype, &meta.sizes);
    let results = [TensorMeta { device: meta.device, ..like }].into_iter().collect();
    graph.complete_call(Op::zeros, call.write(), results)
}

/// Whether values of a type have gradients.
pub(super) fn has_gradient(meta: &TensorMeta) -> bool {
    meta.dtype.is_floating() || meta.dtype.is_complex()
}

/// The operands whose gradients are computed.
pub(super) fn wanted(operands: &[Tensor], needs: &[bool]) -> Vec<bool> {
    let one = |(t, needs): (&Tensor, &bool)| *needs && has_gradient(&t.meta());
    operands.iter().zip(needs).map(one).collect()
}

pub(super) fn chosen<'a>(
    all: &'a [Tensor],
    wanted: &'a [bool],
) -> impl Iterator<Item = &'a Tensor> {
    all.iter().zip(wanted).filter(|(_, w)| **w).map(|(t, _)| t)
}

/// The gradients of the `wanted` inputs of a graph, from those of some of its results. Its calls are made
/// where this is called, on `inputs`, those of higher order by `control`; random numbers are as they were
/// drawn.
pub(super) fn pulled(
    graph: &Graph,
    inputs: &[Tensor],
    wanted: &[bool],
    (draws, drawn): (&Draws, &[Tensor]),
    tangents: &[(usize, Tensor)],
    control: &MakesControl<'_>,
) -> Result<Vec<Tensor>> {
    // the graph's calls are what autocast has made of the function's
    let _autocast = ExcludeGuard::new(DispatchKeySet::AUTOCAST);
    let leaves: Vec<Tensor> =
        inputs.iter().zip(wanted).map(|(t, w)| captured::leaf(t, *w)).collect();
    let results: Vec<Tensor> = {
        let _grad = GradGuard::set(true);
        let none = std::iter::empty();
        let mut calls = Interpreter::new(graph, leaves.iter().map(Some), none).control(control);
        for ((v, _), t) in draws.values.iter().zip(drawn) {
            calls.know(*v, t.clone());
        }
        for id in graph.topological() {
            match &graph.node(id).kind {
                NodeKind::Call(call) if once(graph, id) => {
                    let operands = graph.operands(id).iter().filter_map(|v| calls.known(*v));
                    if operands.into_iter().any(Tensor::requires_grad) {
                        let why = format!(
                            "`{}`, which is not called twice since it draws random numbers or has effects, has a gradient in a branch or loop",
                            call.op
                        );
                        return Err(outside::leave_eager(&why));
                    }
                }
                NodeKind::Call(_) => calls.call(id)?,
                _ => {}
            }
        }
        let missing = || Error::compile("a result of a graph is no value of it");
        let value = |v: &ValueRef| calls.known(*v).cloned().ok_or_else(missing);
        graph.outputs().iter().map(value).collect::<Result<_>>()?
    };
    let reached: Vec<&(usize, Tensor)> =
        tangents.iter().filter(|(i, _)| results[*i].requires_grad()).collect();
    let of: Vec<Tensor> = chosen(&leaves, wanted).cloned().collect();
    let grads = match reached.is_empty() {
        true => vec![None; of.len()],
        false => {
            let outputs: Vec<Tensor> = reached.iter().map(|(i, _)| results[*i].clone()).collect();
            let tangents: Vec<Tensor> = reached.iter().map(|(_, g)| g.clone()).collect();
            captured::gradients(&outputs, &tangents, &of)?
        }
    };
    let _grad = GradGuard::set(false);
    grads.into_iter().zip(&of).map(|(g, t)| g.map_or_else(|| zeros(t), Ok)).collect()
}
