//! Which values depend on tangents, and which operators can be computed again.

use super::types::{Reason, Roles, bytes};
use crate::ir::graph::{Graph, NodeId, NodeKind, ValueRef};
use crate::ir::{Effects, Kind, Op};
use std::collections::{HashMap, HashSet};

/// What is known of the nodes of a joint graph.
pub(super) struct Classes {
    /// In an order in which operands come first.
    pub(super) order: Vec<NodeId>,
    /// The nodes that depend on a tangent.
    pub(super) late: HashSet<NodeId>,
    /// The other nodes that the function's results depend on, and those that are kept anyway.
    pub(super) required: HashSet<NodeId>,
    /// Values that the backward half reads and that depend on no tangent.
    pub(super) needed: Vec<ValueRef>,
    /// Inputs and parameters whose memory is written afterwards, and views of them.
    pub(super) written: HashSet<NodeId>,
    /// How many calls lie between a value and the backward half.
    pub(super) distance: HashMap<NodeId, u32>,
}

impl Classes {
    pub(super) fn of(joint: &Graph, roles: &Roles) -> Classes {
        let order = joint.topological();
        let is_call = |n: &NodeId| matches!(joint.node(*n).kind, NodeKind::Call(_));
        let mut late: HashSet<NodeId> = joint.inputs()[roles.inputs..].iter().copied().collect();
        for n in order.iter().filter(|n| is_call(n)) {
            if joint.operands(*n).iter().any(|v| late.contains(&v.node)) {
                late.insert(*n);
            }
        }
        let kept = |n: &NodeId| joint.effects(*n).is_kept() && !late.contains(n);
        let mut required = HashSet::new();
        let mut stack: Vec<NodeId> =
            joint.outputs()[..roles.outputs].iter().map(|v| v.node).collect();
        stack.extend(order.iter().copied().filter(kept));
        while let Some(n) = stack.pop() {
            if required.insert(n) {
                stack.extend(joint.operands(n).iter().map(|v| v.node));
            }
        }
        let mut needed = Vec::new();
        let read = order.iter().filter(|n| is_call(n) && late.contains(n));
        let read = read.flat_map(|n| joint.operands(*n)).chain(&joint.outputs()[roles.outputs..]);
        for v in read {
            if !late.contains(&v.node) && !needed.contains(v) {
                needed.push(*v);
            }
        }
        let mut written: HashSet<NodeId> = HashSet::new();
        written.extend(roles.written_inputs.iter().map(|i| joint.inputs()[*i]));
        written.extend(roles.written_parameters.iter().map(|i| joint.parameters()[*i]));
        for n in &order {
            if let NodeKind::Call(call) = &joint.node(*n).kind
                && call.op.facts().view
                && joint.operands(*n).first().is_some_and(|v| written.contains(&v.node))
            {
                written.insert(*n);
            }
        }
        let mut distance: HashMap<NodeId, u32> = needed.iter().map(|v| (v.node, 0)).collect();
        for n in order.iter().rev() {
            let Some(own) = distance.get(n).copied() else { continue };
            for v in joint.operands(*n) {
                let there = distance.entry(v.node).or_insert(own + 1);
                *there = (*there).min(own + 1);
            }
        }
        Classes { order, late, required, needed, written, distance }
    }

    /// Why a value must not be computed again; `None` if it may be.
    pub(super) fn banned(&self, joint: &Graph, v: ValueRef) -> Option<Reason> {
        let NodeKind::Call(call) = &joint.node(v.node).kind else {
            return match joint.node(v.node).kind {
                NodeKind::Constant(_) => None,
                _ => Some(Reason::Given),
            };
        };
        let facts = call.op.facts();
        if facts.view {
            return None;
        }
        let effects = joint.effects(v.node);
        let once = [Effects::RANDOM, Effects::EFFECT, Effects::WRITES, Effects::READS];
        if once.into_iter().any(|e| effects.has(e)) {
            return Some(Reason::Once);
        }
        if !recomputable(call.op) {
            return Some(Reason::Expensive);
        }
        let reads = joint.operands(v.node).iter().map(|v| bytes(joint, *v)).max();
        if is_reduction(call.op) && reads.is_some_and(|reads| bytes(joint, v) * 4 < reads) {
            return Some(Reason::Reduced);
        }
        self.read_from_memory(joint, v.node, true).then_some(Reason::Materialized)
    }

    /// Whether a call of the backward half, or of the forward one, reads a value by something that is
    /// not fused with it.
    pub(super) fn read_from_memory(&self, joint: &Graph, of: NodeId, late: bool) -> bool {
        let mut stack = vec![of];
        let mut seen = HashSet::new();
        while let Some(n) = stack.pop() {
            for (user, ..) in joint.uses(n) {
                let NodeKind::Call(call) = &joint.node(user).kind else {
                    // a result of the function
                    if !late {
                        return true;
                    }
                    continue;
                };
                if call.op.facts().view {
                    if seen.insert(user) {
                        stack.push(user);
                    }
                } else if self.late.contains(&user) == late && !fusible(call.op) {
                    return true;
                }
            }
        }
        false
    }

    /// Why a value of the cut is saved.
    pub(super) fn why_saved(&self, joint: &Graph, v: ValueRef) -> Reason {
        self.banned(joint, v).unwrap_or(Reason::Smaller)
    }
}

fn is_reduction(op: Op) -> bool {
    matches!(op.facts().kind, Kind::Reduction | Kind::Any | Kind::Arg)
}

/// Operators of no such kind that are cheap.
const CHEAP: [&str; 22] = [
    "aten::arange",
    "aten::cat",
    "aten::diagonal_scatter",
    "aten::embedding",
    "aten::empty",
    "aten::eye",
    "aten::flip",
    "aten::full",
    "aten::gather",
    "aten::index",
    "aten::index_select",
    "aten::new_empty_strided",
    "aten::new_zeros",
    "aten::ones",
    "aten::scalar_tensor",
    "aten::select_scatter",
    "aten::slice_scatter",
    "aten::tril",
    "aten::triu",
    "aten::var",
    "aten::var_mean",
    "aten::zeros",
];

/// Whether an operator is computed again where that saves memory.
fn recomputable(op: Op) -> bool {
    let kind = op.facts().kind;
    let by_kind = matches!(kind, Kind::Pointwise | Kind::Test | Kind::Reshape) || is_reduction(op);
    by_kind || op.facts().view || is_cheap(op)
}

fn is_cheap(op: Op) -> bool {
    let name = op.name();
    let base = name.split('.').next().unwrap_or(name);
    CHEAP.contains(&base)
}

/// Whether an operator is computed in one loop with what it reads.
fn fusible(op: Op) -> bool {
    recomputable(op) || op.facts().draws
}
