//! Graph to e-graph, and the chosen e-nodes back to a graph.

use super::analysis::{self, Facts, Origin};
use super::extract::Choice;
use super::language::{Interner, Term};
use crate::ir::TensorMeta;
use crate::ir::graph::{Graph, Node, NodeId, NodeKind, Provenance, ValueRef};
use egg::{EGraph, Id};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;

/// The e-graph of a graph, and the classes that its nodes are wanted for.
pub(super) fn build(graph: &Graph) -> (analysis::Graph, Roots) {
    let metas = |ids: &[NodeId]| -> Vec<TensorMeta> {
        ids.iter().map(|n| graph.meta((*n).into()).clone()).collect()
    };
    let mut egraph = EGraph::new(Facts {
        interner: Interner::default(),
        inputs: metas(graph.inputs()),
        parameters: metas(graph.parameters()),
        origin: Origin { derived: false, node: 0, result: 0 },
    });
    let slots = graph.raw().node_indices().map(|n| n.index() + 1).max();
    // per node its class: that of its value, or of the tuple of its values
    let mut classes: Vec<Option<Id>> = vec![None; slots.unwrap_or(0)];
    for (i, n) in graph.inputs().iter().enumerate() {
        classes[n.index()] = Some(egraph.add(Term::Input(i as u32)));
    }
    for (i, n) in graph.parameters().iter().enumerate() {
        classes[n.index()] = Some(egraph.add(Term::Parameter(i as u32)));
    }
    let value = |egraph: &mut analysis::Graph, classes: &[Option<Id>], v: ValueRef| {
        let class = classes[v.node.index()].expect("operands come first");
        if graph.node(v.node).results.len() == 1 {
            return class;
        }
        egraph.analysis.origin = origin(v.node, v.index);
        egraph.add(Term::Result(v.index, [class]))
    };
    let (mut kept, mut ordered) = (Vec::new(), Vec::new());
    for id in graph.topological() {
        let node = graph.node(id);
        let term = match &node.kind {
            NodeKind::Input | NodeKind::Parameter | NodeKind::Output => continue,
            NodeKind::Constant(c) => {
                let meta = node.results[0].clone();
                let interner = &mut egraph.analysis.interner;
                Term::Constant(interner.intern_constant(c.clone(), meta))
            }
            NodeKind::Call(call) => {
                let children =
                    (graph.operands(id).iter()).map(|v| value(&mut egraph, &classes, *v)).collect();
                let tag = match call.effects.is_mergeable() {
                    true => 0,
                    false => id.index() as u32 + 1,
                };
                let how = (tag, call.effects);
                let interner = &mut egraph.analysis.interner;
                let args = call.args.clone();
                let info = interner.intern_call(call.op, args, &node.results, how);
                Term::Call(info, children)
            }
        };
        egraph.analysis.origin = origin(id, 0);
        let class = egraph.add(term);
        classes[id.index()] = Some(class);
        let effects = graph.effects(id);
        if effects.is_ordered() {
            ordered.push(class);
        }
        if effects.is_kept() {
            // of several results any one will do, in whatever form it comes out
            kept.push(match node.results.len() {
                0 | 1 => class,
                _ if effects.is_ordered() => class,
                _ => value(&mut egraph, &classes, id.into()),
            });
        }
    }
    let outputs = (graph.outputs().iter()).map(|v| value(&mut egraph, &classes, *v)).collect();
    egraph.rebuild();
    let roots = Roots { outputs, kept, ordered };
    (egraph, roots)
}

/// The classes that must come out.
pub(super) struct Roots {
    /// Of the outputs.
    pub(super) outputs: Vec<Id>,
    /// For the calls that are made even if their results are unused.
    pub(super) kept: Vec<Id>,
    /// Of the calls that keep their order, in that order.
    pub(super) ordered: Vec<Id>,
}

fn origin(node: NodeId, result: u32) -> Origin {
    Origin { derived: false, node: node.index() as u32, result }
}

/// Builds the graph of the chosen e-nodes. Calls keep the order of the nodes that they come from,
/// so that effects happen in the same order as before.
pub(super) fn emit(
    original: &Graph,
    egraph: &analysis::Graph,
    roots: &Roots,
    choice: &Choice,
) -> Graph {
    let mut e = Emitter {
        original,
        egraph,
        graph: Graph::new(),
        classes: HashMap::new(),
        names: HashSet::new(),
    };
    let leaf = |e: &mut Emitter<'_>, n: NodeId, is_input: bool| {
        let node = original.node(n);
        let meta = node.results[0].clone();
        let name = node.name.as_deref().unwrap_or("");
        let v = if is_input { e.graph.input(name, meta) } else { e.graph.parameter(name, meta) };
        let new = e.graph.node_mut(v.node);
        new.name = node.name.clone();
        new.provenance = node.provenance.clone();
        e.names.extend(node.name.clone());
        v
    };
    let inputs: Vec<ValueRef> =
        (original.inputs().iter()).map(|n| leaf(&mut e, *n, true)).collect();
    let parameters: Vec<ValueRef> =
        (original.parameters().iter()).map(|n| leaf(&mut e, *n, false)).collect();

    // Kahn's algorithm over the chosen e-nodes, the oldest origin first
    let mut missing: HashMap<Id, usize> = HashMap::new();
    let mut users: HashMap<Id, Vec<Id>> = HashMap::new();
    let mut ready: BinaryHeap<Reverse<(u32, Id)>> = BinaryHeap::new();
    let wanted = roots.outputs.iter().chain(&roots.kept);
    let mut stack: Vec<Id> = wanted.map(|r| egraph.find(*r)).collect();
    let key = |id: Id| Reverse((egraph[id].data.origin.node, id));
    while let Some(id) = stack.pop() {
        if missing.contains_key(&id) {
            continue;
        }
        let mut children: Vec<Id> = Vec::new();
        for c in choice.term(egraph, id).1 {
            let c = egraph.find(*c);
            if !children.contains(&c) {
                children.push(c);
            }
        }
        missing.insert(id, children.len());
        if children.is_empty() {
            ready.push(key(id));
        }
        for c in children {
            users.entry(c).or_default().push(id);
            stack.push(c);
        }
    }
    // one after another, whatever else each waits for
    let ordered = roots.ordered.iter().map(|id| egraph.find(*id));
    let ordered: Vec<Id> = ordered.filter(|id| missing.contains_key(id)).collect();
    for pair in ordered.windows(2) {
        let (first, second) = (pair[0], pair[1]);
        if first != second {
            users.entry(first).or_default().push(second);
            *missing.entry(second).or_default() += 1;
        }
    }
    ready.retain(|Reverse((_, id))| missing.get(id).is_none_or(|n| *n == 0));
    while let Some(Reverse((_, id))) = ready.pop() {
        let value = match choice.term(egraph, id).0 {
            Term::Input(i) => inputs[*i as usize],
            Term::Parameter(i) => parameters[*i as usize],
            Term::Result(i, [tuple]) => {
                ValueRef { node: e.classes[&egraph.find(*tuple)].node, index: *i }
            }
            term => e.node(id, term),
        };
        e.classes.insert(id, value);
        for user in users.remove(&id).unwrap_or_default() {
            let count = missing.entry(user).or_default();
            *count -= 1;
            if *count == 0 {
                ready.push(key(user));
            }
        }
    }
    let outputs: Vec<ValueRef> =
        (roots.outputs.iter()).map(|r| e.classes[&egraph.find(*r)]).collect();
    e.graph.set_outputs(&outputs);
    // of what a kept call falls apart into, the part that may fail is kept
    e.graph.eliminate_dead_code();
    e.graph
}

struct Emitter<'a> {
    original: &'a Graph,
    egraph: &'a analysis::Graph,
    graph: Graph,
    classes: HashMap<Id, ValueRef>,
    names: HashSet<Arc<str>>,
}

impl Emitter<'_> {
    /// Adds a constant or a call, with the name and provenance of the node it goes back to.
    fn node(&mut self, id: Id, term: &Term) -> ValueRef {
        let interner = &self.egraph.analysis.interner;
        let v = match term {
            Term::Constant(c) => {
                let c = interner.constant(*c);
                self.graph.constant(c.value.clone(), c.meta.clone())
            }
            Term::Call(c, children) => {
                let call = interner.call(*c);
                let args = (call.args.iter())
                    .map(|a| a.map(|i| self.classes[&self.egraph.find(children[*i as usize])]))
                    .collect();
                let results = call.results.iter().cloned().collect();
                let v = self.graph.complete_call(call.op, args, results);
                self.graph.set_effects(v.node, call.effects);
                v
            }
            _ => unreachable!("leaves and projections make no node"),
        };
        let origin = self.egraph[id].data.origin;
        let old_id = NodeId::new(origin.node as usize);
        let is_constant = matches!(term, Term::Constant(_));
        // a constant that a rule made can be shared by many nodes and goes back to none
        if self.original.contains(old_id) && !(is_constant && origin.derived) {
            let old = self.original.node(old_id);
            let mut from = provenance(old, term, interner);
            let eager = self.original.eager_call(old_id);
            if eager != self.graph.eager_call(v.node) {
                from.eager = eager;
            }
            self.graph.node_mut(v.node).provenance = from;
            if let (Some(name), false) = (&old.name, origin.derived) {
                let name: Arc<str> = match origin.result {
                    0 => name.clone(),
                    i => format!("{name}.{i}").into(),
                };
                if self.names.insert(name.clone()) {
                    self.graph.node_mut(v.node).name = Some(name);
                }
            }
        }
        v
    }
}

/// The provenance of a node that stands for (a part of) an old one: its own, with the old operator
/// as the outer one where nothing outer was known.
fn provenance(old: &Node, term: &Term, interner: &Interner) -> Provenance {
    let mut p = old.provenance.clone();
    if let (NodeKind::Call(was), Term::Call(now, _)) = (&old.kind, term)
        && p.outer_op.is_none()
        && was.op != interner.call(*now).op
    {
        p.outer_op = Some(was.op);
    }
    p
}
