//! A half as a graph of its own.

use super::classify::Classes;
use super::types::{Map, Roles};
use crate::ir::graph::{Graph, NodeId, NodeKind, ValueRef};
use std::collections::{BTreeSet, HashSet};

/// The function's part.
pub(super) fn forward(
    joint: &Graph,
    roles: &Roles,
    classes: &Classes,
    outputs: &[ValueRef],
) -> Graph {
    let mut graph = Graph::new();
    let mut map = Map::new();
    for n in &joint.inputs()[..roles.inputs] {
        let v = graph.input(name(joint, *n), joint.meta((*n).into()).clone());
        map.insert((*n).into(), v);
    }
    for n in joint.parameters() {
        let v = graph.parameter(name(joint, *n), joint.meta((*n).into()).clone());
        map.insert((*n).into(), v);
    }
    let roots = classes.required.iter().copied().chain(outputs.iter().map(|v| v.node));
    let wanted = ancestors(joint, roots, &HashSet::new());
    copy(joint, &mut graph, &mut map, classes, &|n| wanted.contains(&n));
    finish(&mut graph, &map, outputs);
    graph
}

/// The gradients' part.
pub(super) fn backward(
    joint: &Graph,
    roles: &Roles,
    classes: &Classes,
    kept: &BTreeSet<ValueRef>,
) -> Graph {
    let mut graph = Graph::new();
    let mut map = Map::new();
    for (i, v) in kept.iter().enumerate() {
        let of = joint.node(v.node).name.as_deref();
        let named = of.map_or_else(|| format!("saved{i}"), |of| format!("saved_{of}"));
        map.insert(*v, graph.input(&named, joint.meta(*v).clone()));
    }
    for n in &joint.inputs()[roles.inputs..] {
        let v = graph.input(name(joint, *n), joint.meta((*n).into()).clone());
        map.insert((*n).into(), v);
    }
    let outputs = &joint.outputs()[roles.outputs..];
    let late_and_kept = classes
        .order
        .iter()
        .copied()
        .filter(|n| classes.late.contains(n) && joint.effects(*n).is_kept());
    let roots = late_and_kept.chain(outputs.iter().map(|v| v.node));
    // a node all of whose values that are used are saved is not computed again
    let saved: HashSet<ValueRef> = kept.iter().copied().collect();
    let wanted = ancestors(joint, roots, &saved);
    copy(joint, &mut graph, &mut map, classes, &|n| wanted.contains(&n));
    finish(&mut graph, &map, outputs);
    graph
}

fn name(joint: &Graph, n: NodeId) -> &str {
    joint.node(n).name.as_deref().unwrap_or("x")
}

/// Nodes that others are computed from, up to values that are there.
fn ancestors(
    joint: &Graph,
    roots: impl Iterator<Item = NodeId>,
    there: &HashSet<ValueRef>,
) -> HashSet<NodeId> {
    let mut found = HashSet::new();
    let mut stack: Vec<NodeId> = roots.collect();
    // an output may be there itself
    stack.retain(|n| {
        let results = joint.node(*n).results.len().max(1) as u32;
        !(0..results).all(|index| there.contains(&ValueRef { node: *n, index }))
    });
    while let Some(n) = stack.pop() {
        if found.insert(n) {
            let operands = joint.operands(n).iter().filter(|v| !there.contains(v));
            stack.extend(operands.map(|v| v.node));
        }
    }
    found
}

/// Copies the wanted constants and calls, in order.
fn copy(
    joint: &Graph,
    graph: &mut Graph,
    map: &mut Map,
    classes: &Classes,
    wanted: &dyn Fn(NodeId) -> bool,
) {
    for n in classes.order.iter().copied().filter(|n| wanted(*n)) {
        let node = joint.node(n);
        let first = match &node.kind {
            NodeKind::Constant(value) => graph.constant(value.clone(), node.results[0].clone()),
            NodeKind::Call(_) => {
                let Some((op, args)) = joint.call_args(n) else { continue };
                let args = args.iter().map(|a| a.map(|v| map.get(v).copied().unwrap_or(*v)));
                let args = args.collect();
                let first = graph.complete_call(op, args, node.results.clone());
                graph.set_effects(first.node, joint.effects(n));
                first
            }
            _ => continue,
        };
        let copied = graph.node_mut(first.node);
        copied.name = node.name.clone();
        copied.provenance = node.provenance.clone();
        for index in 0..node.results.len() as u32 {
            // a value that is saved is read from there
            map.entry(ValueRef { node: n, index }).or_insert(ValueRef { node: first.node, index });
        }
    }
}

fn finish(graph: &mut Graph, map: &Map, outputs: &[ValueRef]) {
    let outputs: Vec<ValueRef> = outputs.iter().filter_map(|v| map.get(v).copied()).collect();
    graph.set_outputs(&outputs);
    graph.eliminate_dead_code();
}
