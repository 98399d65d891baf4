//! The history of tensors: how a call becomes part of it.

use super::error::{AutogradError, Made};
use crate::error::Result;
use crate::modes::outside;
use crate::tensor::Tensor;
use crate::tensor::node::{Edge, End, Node, OutputMeta};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;

/// Says where a tensor came from, in place of what was known before.
pub(crate) fn set_edge(t: &Tensor, edge: Edge) {
    t.mark_requires_grad(true);
    drop(t.put_grad_fn(Some(edge)));
}

/// What a gradient along an edge has to be like.
pub(crate) fn meta_of(edge: &Edge) -> Option<Cow<'_, OutputMeta>> {
    match &edge.end {
        End::Node(node) => node.outputs.get(edge.nr as usize)?.as_ref().map(Cow::Borrowed),
        End::Leaf(t) => Some(Cow::Owned(OutputMeta::of(t))),
    }
}

/// Whether values of a dtype have gradients.
pub(crate) fn is_differentiable(t: &Tensor) -> bool {
    t.dtype().is_floating() || t.dtype().is_complex()
}

/// The same memory, without history and not as a view.
pub(crate) fn cut(t: &Tensor) -> Tensor {
    let cut = t.with_keys(t.key_set());
    outside::known(&cut);
    cut
}

pub(crate) fn metas<'a>(
    outputs: impl Iterator<Item = &'a Tensor>,
) -> SmallVec<[Option<OutputMeta>; 1]> {
    outputs.map(|t| is_differentiable(t).then(|| OutputMeta::of(t))).collect()
}

/// The operator of a node and the line that called it.
pub(crate) fn made(node: &Node) -> Made {
    let op = node.op.unwrap_or(node.function.name()).to_string();
    Made { op, line: node.line }
}

/// `Mul` of `MulBackward0`.
pub(crate) fn forward_name(node: &Node) -> String {
    let name = node.function.name();
    let name = name.rsplit("::").next().unwrap_or(name);
    match name.rfind("Backward") {
        Some(at) if at > 0 => name[..at].to_string(),
        _ => name.to_string(),
    }
}

/// The checks of `requires_grad_`.
pub(crate) fn set_requires_grad(t: &Tensor, on: bool) -> Result<()> {
    if on && !is_differentiable(t) {
        return Err(AutogradError::Setting(format!(
            "only Tensors of floating point dtype can require gradients, and this one is {}",
            t.dtype()
        ))
        .into());
    }
    if !on && t.requires_grad() && !t.is_leaf() {
        return Err(AutogradError::Setting(
            "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph \
             that doesn't require differentiation use var_no_grad = var.detach()."
                .into(),
        )
        .into());
    }
    if t.is_leaf() {
        if on && t.is_inference() && !super::mode::is_inference_mode() {
            return Err(AutogradError::Setting(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.".into(),
            )
            .into());
        }
        t.mark_requires_grad(on);
    }
    Ok(())
}

/// Nodes that are still reachable from one, for display and tests.
pub(crate) fn next(node: &Arc<Node>) -> impl Iterator<Item = Option<&Edge>> {
    node.edges.iter().map(Option::as_ref)
}

/// The error of a node whose saved values are gone.
#[cold]
pub(crate) fn twice(node: &Arc<Node>) -> crate::Error {
    let made = node.op.map(|_| made(node));
    AutogradError::Twice { node: node.function.name().to_string(), made }.into()
}
