//! What `compile()` needs of the tape: the leaves that results were computed from, their gradients as
//! graph values, and the node by which a compiled call becomes part of the tape.

use super::engine::{self, Task};
use super::error::AutogradError;
use super::graph;
use super::mode::GradGuard;
use super::saved::SavedTensor;
use super::validate;
use super::view;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::Tensor;
use crate::tensor::node::{Edge, Edges, End, Function, Node, OutputMeta, next_sequence};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Makes a stand-in want a gradient as the tensor that it stands for does, with that one's hooks.
pub(crate) fn adopt(stand_in: &Tensor, real: &Tensor) {
    if !real.requires_grad() {
        return;
    }
    stand_in.mark_requires_grad(true);
    let (hooks, after) = match &real.history().rest {
        Some(rest) => (rest.hooks.clone(), rest.after.clone()),
        None => return,
    };
    if !hooks.is_empty() || !after.is_empty() {
        let mut state = stand_in.history();
        let rest = state.rest();
        (rest.hooks, rest.after) = (hooks, after);
    }
}

/// The same stand-in as a leaf of its own, which wants a gradient or does not.
pub(crate) fn leaf(t: &Tensor, wants: bool) -> Tensor {
    let leaf = graph::cut(t);
    if wants {
        leaf.mark_requires_grad(true);
    }
    leaf
}

/// Whether a tensor has a node of its own.
pub(crate) fn is_computed(t: &Tensor) -> bool {
    t.requires_grad() && t.own_grad_fn().is_some()
}

/// The leaves from which tensors were computed, in the order of a walk from these.
pub(crate) fn leaves_of(outputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let mut seen = HashSet::new();
    let mut leaves = Vec::new();
    let mut stack: Vec<Edge> = Vec::new();
    for t in outputs {
        stack.extend(view::gradient_edge(t)?);
    }
    while let Some(edge) = stack.pop() {
        if !seen.insert(edge.id()) {
            continue;
        }
        match &edge.end {
            End::Leaf(t) => leaves.push(t.clone()),
            End::Node(node) => stack.extend(node.edges.iter().rev().flatten().cloned()),
        }
    }
    Ok(leaves)
}

/// The gradients of leaves, from those of tensors that were computed from them. What was saved is
/// used up; hooks of the leaves do not run.
pub(crate) fn gradients(
    outputs: &[Tensor],
    tangents: &[Tensor],
    leaves: &[Tensor],
) -> Result<Vec<Option<Tensor>>> {
    let given: Vec<Option<Tensor>> = tangents.iter().cloned().map(Some).collect();
    let edges = leaves.iter().map(view::gradient_edge).collect::<Result<Vec<_>>>()?;
    let edges: Vec<Edge> = edges.into_iter().flatten().collect();
    if edges.len() != leaves.len() {
        return Err(Error::runtime("a leaf wants no gradient"));
    }
    engine::run(&Task {
        roots: validate::roots(outputs, &given, validate::root)?,
        inputs: Some(&edges),
        accumulate: false,
        keep_graph: false,
        create_graph: false,
        leaf_hooks: false,
    })
}

/// Whether an error says that a backward pass has used up what was saved.
pub(crate) fn is_spent(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Autograd(e) if matches!(**e, AutogradError::Twice { .. }))
}

/// The backward half of a compiled function.
pub(crate) trait Backward: Send + Sync {
    /// Gradients along the edges of the node, from what the forward half saved and from the
    /// gradients of its results.
    fn run(&self, saved: &[Tensor], grads: Vec<Option<Tensor>>) -> Result<Vec<Option<Tensor>>>;
}

/// The node of a call.
struct Compiled {
    backward: Arc<dyn Backward>,
    saved: Mutex<Option<Vec<SavedTensor>>>,
}

const NAME: &str = "CompiledFunctionBackward";

impl Function for Compiled {
    fn name(&self) -> &str {
        NAME
    }

    fn apply(
        &self,
        node: &Arc<Node>,
        grads: Vec<Option<Tensor>>,
        _wanted: &dyn Fn(usize) -> bool,
        _keep: bool,
    ) -> Result<Vec<Option<Tensor>>> {
        if grads.iter().all(Option::is_none) {
            return Ok(std::iter::repeat_with(|| None).take(node.edges.len()).collect());
        }
        let saved: Vec<Tensor> = {
            let saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(saved) = &*saved else { return Err(graph::twice(node)) };
            saved.iter().map(|s| s.unpack(node)).collect::<Result<_>>()?
        };
        let recording = super::grad_enabled();
        let _grad = GradGuard::set(false);
        let given = self.backward.run(&saved, grads)?;
        if recording {
            // they may be used, but not differentiated
            let edges: Edges = node.edges.clone();
            let outputs = graph::metas(given.iter().flatten());
            let last: Arc<Node> =
                Arc::new(Node::new(next_sequence(), edges, outputs, None, node.line, Twice));
            return Ok(given
                .into_iter()
                .scan(0, |nr, g| {
                    Some(g.map(|g| {
                        let g = graph::cut(&g);
                        graph::set_edge(&g, Edge::new(last.clone(), *nr));
                        *nr += 1;
                        g
                    }))
                })
                .collect());
        }
        Ok(given)
    }

    fn release(&self) {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        // a node that keeps nothing may run again
        if saved.as_ref().is_some_and(|s| !s.is_empty()) {
            let gone = saved.take();
            drop(saved);
            drop(gone);
        }
    }
}

/// The gradient of a compiled gradient, which there is none of.
struct Twice;

impl Function for Twice {
    fn name(&self) -> &str {
        "CompiledFunctionBackwardBackward"
    }

    fn apply(
        &self,
        _node: &Arc<Node>,
        _grads: Vec<Option<Tensor>>,
        _wanted: &dyn Fn(usize) -> bool,
        _keep: bool,
    ) -> Result<Vec<Option<Tensor>>> {
        Err(AutogradError::CompiledTwice.into())
    }
}

/// What a compiled call saved.
pub(crate) struct Saves<'a> {
    /// The tensors, in the order in which the backward half takes them.
    pub(crate) tensors: &'a [Tensor],
}

/// Makes results come out of one node, whose edges lead to what `inputs` came out of. Without a
/// backward half the node's gradients have been used up.
pub(crate) fn attach(
    results: &[&Tensor],
    inputs: &[&Tensor],
    saves: &Saves<'_>,
    backward: Option<Arc<dyn Backward>>,
) -> Result<()> {
    let edges = inputs.iter().map(|t| view::gradient_edge(t)).collect::<Result<Edges>>()?;
    let outputs = results.iter().map(|t| Some(OutputMeta::of(t))).collect();
    let sequence = next_sequence();
    let node: Arc<Node> = match backward {
        Some(backward) => {
            let tensors = saves.tensors.iter();
            let saved = tensors.map(|t| SavedTensor::operand(t, false)).collect::<Result<_>>()?;
            let function = Compiled { backward, saved: Mutex::new(Some(saved)) };
            Arc::new(Node::new(sequence, edges, outputs, None, None, function))
        }
        None => Arc::new(Node::new(sequence, edges, outputs, None, None, Spent)),
    };
    for (nr, t) in results.iter().enumerate() {
        graph::set_edge(t, Edge::new(node.clone(), nr as u32));
    }
    Ok(())
}

/// Of results whose backward pass the compiled call has made itself.
struct Spent;

impl Function for Spent {
    fn name(&self) -> &str {
        NAME
    }

    fn apply(
        &self,
        node: &Arc<Node>,
        _grads: Vec<Option<Tensor>>,
        _wanted: &dyn Fn(usize) -> bool,
        _keep: bool,
    ) -> Result<Vec<Option<Tensor>>> {
        Err(graph::twice(node))
    }
}

/// A view of a tensor that wants a gradient, as a compiled call gives it back: its node follows from
/// the tensor.
pub(crate) fn as_view(view: Tensor, of: &Tensor) -> Tensor {
    let recording = super::grad_enabled();
    let view = view.into_view_of(of, crate::tensor::history::Kind::Strided, recording);
    if recording {
        view.set_view_version(view.writes().wrapping_sub(1));
    }
    view
}
