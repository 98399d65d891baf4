//! The network of values, and its minimum cut.
//!
//! A value is an edge from its *begin* to its *end*; its capacity is what keeping it costs. Data flows
//! along edges without a bound: from the end of an operand to the begins of what is computed of it.
//! The source leads to what must not be computed again, the ends of what the backward half reads to
//! the sink. A cut of least capacity goes through values only, and these are kept.

use super::classify::Classes;
use super::types::{CutError, bytes};
use crate::ir::graph::{Graph, NodeKind, ValueRef};
use petgraph::algo::dinics;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;
use std::collections::{HashMap, HashSet, VecDeque};

/// More than any cut.
const UNBOUNDED: u64 = 1 << 52;

/// A value that has no bytes still costs something to keep.
const LEAST: u64 = 1;

/// The values to keep.
pub(super) fn cut(joint: &Graph, classes: &Classes) -> Result<HashSet<ValueRef>, CutError> {
    let mut network: DiGraph<(), u64> = DiGraph::new();
    let (source, sink) = (network.add_node(()), network.add_node(()));
    let mut ends: HashMap<ValueRef, (NodeIndex, NodeIndex)> = HashMap::new();
    let parameters: HashSet<_> = joint.parameters().iter().copied().collect();
    for n in classes.order.iter().filter(|n| !classes.late.contains(n)) {
        // what does not lead to the backward half carries no flow
        if !classes.distance.contains_key(n) {
            continue;
        }
        for index in 0..joint.node(*n).results.len() as u32 {
            let v = ValueRef { node: *n, index };
            let (begin, end) = (network.add_node(()), network.add_node(()));
            ends.insert(v, (begin, end));
            let cost = match parameters.contains(n) {
                _ if classes.written.contains(n) => UNBOUNDED,
                // it is held anyway
                true => LEAST,
                false => cost(joint, classes, v),
            };
            network.add_edge(begin, end, cost);
            if classes.banned(joint, v).is_some() {
                network.add_edge(source, begin, UNBOUNDED);
            }
            for operand in joint.operands(*n) {
                if let Some((_, from)) = ends.get(operand) {
                    network.add_edge(*from, begin, UNBOUNDED);
                }
            }
        }
    }
    for v in &classes.needed {
        if let Some((_, end)) = ends.get(v) {
            network.add_edge(*end, sink, UNBOUNDED);
        }
    }
    let (flow, flows) = dinics(&network, source, sink);
    if flow >= UNBOUNDED {
        return Err(CutError(
            "the backward pass needs a tensor as it was before the function wrote it".into(),
        ));
    }
    // what the source still reaches
    let mut reached = vec![false; network.node_count()];
    reached[source.index()] = true;
    let mut queue = VecDeque::from([source]);
    while let Some(n) = queue.pop_front() {
        let forth = network.edges(n).filter(|e| *e.weight() > flows[e.id().index()]);
        let back = network.edges_directed(n, petgraph::Direction::Incoming);
        let back = back.filter(|e| flows[e.id().index()] > 0);
        let next: Vec<NodeIndex> =
            forth.map(|e| e.target()).chain(back.map(|e| e.source())).collect();
        for n in next {
            if !std::mem::replace(&mut reached[n.index()], true) {
                queue.push_back(n);
            }
        }
    }
    let cut =
        ends.iter().filter(|(_, (begin, end))| reached[begin.index()] && !reached[end.index()]);
    Ok(cut.map(|(v, _)| *v).collect())
}

/// What keeping a value costs: its bytes, more the farther it is from where it is used, and twice as
/// much if the forward half would not write it to memory otherwise.
fn cost(joint: &Graph, classes: &Classes, v: ValueRef) -> u64 {
    let bytes = bytes(joint, v) as f64;
    let distance = classes.distance.get(&v.node).copied().unwrap_or(0).clamp(1, 100);
    let far = bytes * 1.1f64.powi(distance as i32);
    let given = matches!(joint.node(v.node).kind, NodeKind::Input | NodeKind::Parameter);
    let written = given || classes.read_from_memory(joint, v.node, false);
    let cost = if written { far } else { 2.0 * far };
    (cost as u64).clamp(LEAST, UNBOUNDED >> 20)
}
