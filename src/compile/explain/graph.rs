//! The graph that was scheduled, as data: which operator went into which step.

use std::collections::HashMap;
use straightline_passes::ir::graph::{Constant, Graph, NodeId, NodeKind, ValueRef};
use straightline_passes::ir::text::{ValueNames, display_node};
use straightline_passes::schedule::loops::{Extern, Schedule, Step};
use straightline_passes::schedule::node_label;

/// What a node of a graph is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NodeRole {
    /// An argument of the function.
    Input,
    /// A tensor that the function closed over.
    Parameter,
    /// A value that is known.
    Constant,
    /// An operator call.
    Call,
    /// The end of the graph, which reads the function's results.
    Output,
}

/// A value that a node reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operand {
    /// The node that makes it, by its place in [`GraphExplanation::nodes`].
    pub node: usize,
    /// Which of its results.
    pub result: usize,
}

/// A node of a graph.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeExplanation {
    /// What it is.
    pub role: NodeRole,
    /// The names of its results, as the graph's text has them: `%3`; none for the output.
    pub names: Vec<String>,
    /// The operator, `aten::add.Tensor`, or `input`, `parameter`, `constant`, `results`.
    pub op: String,
    /// The dtype and sizes of each result: `f32[4, 8]`.
    pub shapes: Vec<String>,
    /// What it reads, by position.
    pub inputs: Vec<Operand>,
    /// The step that computes it, or that it was folded into. Views, and what is known without
    /// computing, have none.
    pub step: Option<usize>,
    /// Why it went there; empty for what is no call.
    pub reason: String,
    /// Its line of the graph's text, with its arguments.
    pub text: String,
    /// The line of the program that it comes from, `src/main.rs:12:9`, where it is known.
    pub location: Option<String>,
}

/// A graph as it was scheduled: captured, rewritten, and each operator in its step.
///
/// ```
/// use straightline::{Tensor, compile};
/// use straightline::compile::explain::NodeRole;
/// let f = compile(|x: &Tensor| x.exp()?.add(1)?.log());
/// f.call(&Tensor::from_vec([0f32], 1)?)?;
/// let graph = &f.explain().variants[0].graph;
/// let calls = graph.nodes.iter().filter(|n| n.role == NodeRole::Call);
/// assert!(calls.clone().all(|n| n.step == Some(0)));
/// assert!(calls.clone().any(|n| n.op == "aten::exp" && n.shapes == ["f32[1]"]));
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GraphExplanation {
    /// The nodes, each behind those that it reads; the output is the last one.
    pub nodes: Vec<NodeExplanation>,
}

/// What the schedule says of a call whose value nothing needs by itself.
const FOLDED: &str = "not needed, or folded into a matrix product";

impl GraphExplanation {
    /// What a schedule made of a graph.
    pub(super) fn new(graph: &Graph, schedule: &Schedule) -> GraphExplanation {
        let names = ValueNames::new(graph);
        let mut order: Vec<NodeId> = graph.topological();
        // the output comes last, also where calls without results are ready after it
        order.sort_by_key(|id| matches!(graph.node(*id).kind, NodeKind::Output));
        let place: HashMap<NodeId, usize> =
            order.iter().enumerate().map(|(place, id)| (*id, place)).collect();
        let mut decisions = schedule.decisions.iter().peekable();
        let nodes = order.iter().map(|id| {
            let mut node = node(graph, &names, *id, &place);
            // decisions are in the order of the calls that have one
            let mine = |label: &str| node.role == NodeRole::Call && label == node_label(graph, *id);
            if let Some(decision) = decisions.next_if(|d| mine(&d.node)) {
                node.step = decision.step;
                node.reason.clone_from(&decision.reason);
            }
            node
        });
        let mut all = GraphExplanation { nodes: nodes.collect() };
        all.fold(schedule);
        all
    }

    /// A call whose value only one runtime kernel uses, with nothing in between, is part of that.
    fn fold(&mut self, schedule: &Schedule) {
        let mut steps: Vec<Vec<Option<usize>>> = vec![Vec::new(); self.nodes.len()];
        for at in (0..self.nodes.len()).rev() {
            let node = &mut self.nodes[at];
            if node.step.is_none() && node.reason == FOLDED {
                let one = steps[at].first().copied().flatten();
                let same = steps[at].iter().all(|step| *step == one);
                let folds = |step: usize| {
                    let product =
                        |e: &Extern| matches!(e, Extern::Matmul(_) | Extern::Convolution(_));
                    matches!(schedule.steps.get(step), Some(Step::Extern(e)) if product(e))
                };
                node.step = one.filter(|step| same && folds(*step));
                if node.step.is_some() {
                    node.reason = "part of the runtime kernel of this step".to_string();
                }
            }
            let (step, inputs) = (node.step, node.inputs.clone());
            inputs.iter().for_each(|of| steps[of.node].push(step));
        }
    }
}

fn node(
    graph: &Graph,
    names: &ValueNames,
    id: NodeId,
    place: &HashMap<NodeId, usize>,
) -> NodeExplanation {
    let node = graph.node(id);
    let (role, op) = match &node.kind {
        NodeKind::Input => (NodeRole::Input, "input".to_string()),
        NodeKind::Parameter => (NodeRole::Parameter, "parameter".to_string()),
        NodeKind::Constant(Constant::Splat(number)) => (NodeRole::Constant, number.to_string()),
        NodeKind::Constant(_) => (NodeRole::Constant, "constant".to_string()),
        NodeKind::Call(call) => (NodeRole::Call, call.op.to_string()),
        NodeKind::Output => (NodeRole::Output, "results".to_string()),
    };
    let results = 0..node.results.len() as u32;
    let operands = graph.operands(id).iter();
    NodeExplanation {
        role,
        names: results.map(|index| names.get(ValueRef { node: id, index }).to_string()).collect(),
        op,
        shapes: (node.results.iter())
            .map(|meta| format!("{}{:?}", meta.dtype, meta.sizes.as_slice()))
            .collect(),
        inputs: operands
            .filter_map(|v| Some(Operand { node: *place.get(&v.node)?, result: v.index as usize }))
            .collect(),
        step: None,
        reason: String::new(),
        text: display_node(graph, names, id),
        location: node.provenance.location.as_ref().map(ToString::to_string),
    }
}
