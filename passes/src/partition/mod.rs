//! Cuts a joint graph, which computes results and then gradients, into a forward and a backward half.
//!
//! Whatever does not depend on the gradients of the results (*tangents*) can be computed in either
//! half. What the backward half needs of it is *saved* by the forward half, or *recomputed* from
//! what is saved. Which values are saved is a minimum cut of a network in which each value has an
//! edge of as many units as keeping it costs (`cut`).
//!
//! | file | what |
//! |---|---|
//! | `types` | what goes in and comes out |
//! | `classify` | which values depend on tangents, and which operators can be computed again |
//! | `cut` | the network and its cut |
//! | `extract` | a half as a graph of its own |
//! | `front` | the other cut: at a call whose results have sizes that depend on data |
//!
//! The rules are those of PyTorch's min-cut partitioner, without its knapsack for a memory budget.

mod classify;
mod cut;
mod extract;
mod front;
#[cfg(test)]
mod tests;
mod types;

pub use front::Front;
pub use types::{CutError, Decision, Halves, Reason, Roles, Saved};

use crate::ir::graph::{Graph, NodeKind, ValueRef};
use classify::Classes;
use std::collections::BTreeSet;

/// Cuts a joint graph.
///
/// ```
/// use straightline_passes::ir::graph::Graph;
/// use straightline_passes::partition::{Roles, Saved, partition};
/// let joint = Graph::parse("graph(%a: f32[4], %b: f32[4], %t: f32[4]) {
///   %0: f32[4] = aten::mul.Tensor(%a, %b)
///   %1: f32[4] = aten::sin(%0)
///   %2: f32[4] = aten::cos(%0)
///   %3: f32[4] = aten::mul.Tensor(%t, %2)
///   %4: f32[4] = aten::mul.Tensor(%3, %b)
///   return %1, %4
/// }")?;
/// let roles = Roles { inputs: 2, outputs: 1, ..Roles::default() };
/// let halves = partition(&joint, &roles)?;
/// // the product is computed again
/// assert_eq!(halves.saved, [Saved::Input(0), Saved::Input(1)]);
/// assert_eq!(halves.forward.outputs().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The backward half needs a value that cannot be kept: an input of the function as it was before
/// the function wrote it.
pub fn partition(joint: &Graph, roles: &Roles) -> Result<Halves, CutError> {
    let classes = Classes::of(joint, roles);
    let saved = cut::cut(joint, &classes)?;
    // what the backward half really reaches, from the values that it needs
    let mut kept: BTreeSet<ValueRef> = BTreeSet::new();
    let mut again: BTreeSet<ValueRef> = BTreeSet::new();
    let mut stack: Vec<ValueRef> = classes.needed.clone();
    while let Some(v) = stack.pop() {
        let constant = matches!(joint.node(v.node).kind, NodeKind::Constant(_));
        let given = matches!(joint.node(v.node).kind, NodeKind::Input | NodeKind::Parameter);
        if !constant && (given || saved.contains(&v)) {
            kept.insert(v);
        } else if again.insert(v) {
            stack.extend(joint.operands(v.node));
        }
    }
    let forward_outputs: Vec<ValueRef> = joint.outputs()[..roles.outputs].to_vec();
    let mut outputs = forward_outputs.clone();
    let mut sources = Vec::new();
    for v in &kept {
        sources.push(match joint.node(v.node).kind {
            NodeKind::Input => Saved::Input(position(joint.inputs(), *v)),
            NodeKind::Parameter => Saved::Parameter(position(joint.parameters(), *v)),
            _ => {
                outputs.push(*v);
                Saved::Output(outputs.len() - 1)
            }
        });
    }
    let forward = extract::forward(joint, roles, &classes, &outputs);
    let backward = extract::backward(joint, roles, &classes, &kept);
    let decide = |v: &ValueRef, reason| Decision::new(joint, *v, reason);
    Ok(Halves {
        forward,
        backward,
        saved: sources,
        kept: kept.iter().map(|v| decide(v, classes.why_saved(joint, *v))).collect(),
        recomputed: again
            .iter()
            .filter(|v| !matches!(joint.node(v.node).kind, NodeKind::Constant(_)))
            // what only the backward half computes is not computed again
            .filter(|v| classes.required.contains(&v.node))
            .map(|v| decide(v, Reason::Cheaper))
            .collect(),
    })
}

fn position(all: &[crate::ir::graph::NodeId], v: ValueRef) -> usize {
    all.iter().position(|n| *n == v.node).unwrap_or_default()
}
