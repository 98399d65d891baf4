//! The graph: a captured program as a directed acyclic graph of operator calls.
//!
//! Nodes are inputs, parameters, constants, calls and one output; an edge carries the operand
//! position at its target and the result index at its source. Every result has a [`TensorMeta`].
//! Sizes and strides are static: the guards of a compiled function ensure that calls match them.

use super::subgraph::{AnyGraph, Subgraph};
use super::{Arg, ArgumentError, Effects, Op, Scalar, TensorMeta};
use petgraph::stable_graph::{NodeIndex, StableDiGraph};
use petgraph::visit::{Dfs, EdgeRef, NodeIndexable, Reversed, VisitMap, Visitable};
use petgraph::{Direction, algo};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// Identifies a node; stays valid while other nodes are removed.
pub type NodeId = NodeIndex<u32>;

/// One result of one node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ValueRef {
    /// The node that makes the value.
    pub node: NodeId,
    /// Which of its results.
    pub index: u32,
}

impl From<NodeId> for ValueRef {
    fn from(node: NodeId) -> Self {
        ValueRef { node, index: 0 }
    }
}

/// A call of an operator.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// The operator.
    pub op: Op,
    /// Every argument of the schema in order; tensors are operand positions.
    pub args: Vec<Arg<u32>>,
    /// What it does besides computing results.
    pub effects: Effects,
}

/// A line of the user's code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SourceLine {
    /// Of this program.
    Caller(&'static Location<'static>),
    /// `src/main.rs:12:9`, for a graph that was read from text.
    Text(Arc<str>),
}

impl From<&str> for SourceLine {
    fn from(text: &str) -> Self {
        SourceLine::Text(text.into())
    }
}

/// `src/main.rs:12:9`.
impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceLine::Caller(at) => write!(f, "{at}"),
            SourceLine::Text(text) => f.write_str(text),
        }
    }
}

/// A call as eager code makes it: what an error of a replay names.
#[derive(Clone, PartialEq, Debug)]
pub struct EagerCall {
    /// The operator.
    pub op: Op,
    /// Its arguments; tensors index `operands`.
    pub args: Vec<Arg<u32>>,
    /// Its tensors.
    pub operands: Vec<TensorMeta>,
}

/// A place in the text of a graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextPlace {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

/// `line 3, column 5`.
impl fmt::Display for TextPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Where a node came from.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Provenance {
    /// The user's source line, where known.
    pub location: Option<SourceLine>,
    /// The operator that the user called, `aten::linear`, if it differs from the node's own.
    pub outer_op: Option<Op>,
    /// The call that eager code makes here, if it differs from the node's own.
    pub eager: Option<Arc<EagerCall>>,
    /// Where the node stands in the text that the graph was read from.
    pub text: Option<TextPlace>,
}

/// A constant tensor of equal elements, or a small literal one.
#[derive(Clone, PartialEq, Debug)]
pub enum Constant {
    /// Every element is this number.
    Splat(Scalar),
    /// Row-major elements.
    Elements(Vec<Scalar>),
}

/// What a node is.
#[derive(Clone, PartialEq, Debug)]
pub enum NodeKind {
    /// An argument of the compiled function.
    Input,
    /// A tensor that the function closed over; read again at each call.
    Parameter,
    /// A value known now.
    Constant(Constant),
    /// An operator call.
    Call(Call),
    /// The end of the graph: its operands are the results of the function.
    Output,
}

/// The operands of a node by position.
pub type Operands = SmallVec<[ValueRef; 3]>;

/// A node with the shapes of its results.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// What the node is.
    pub kind: NodeKind,
    /// The values that it reads; the graph's edges record the same relation.
    pub(super) operands: Operands,
    /// One entry per result; none for the output node.
    pub results: SmallVec<[TensorMeta; 1]>,
    /// A name for printing; unnamed nodes are numbered.
    pub name: Option<Arc<str>>,
    /// Where it came from.
    pub provenance: Provenance,
}

/// The weight of an edge from a value to its use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge {
    /// The operand position at the target.
    pub operand: u32,
    /// The result index at the source.
    pub result: u32,
}

/// A captured program.
///
/// ```
/// use straightline_passes::ir::{Arg, DType, Op, TensorMeta, graph::Graph};
/// let meta = TensorMeta::contiguous(DType::F32, &[2, 3]);
/// let mut g = Graph::new();
/// let x = g.input("x", meta.clone());
/// let y = g.call(Op::mul_Tensor, vec![Arg::Tensor(x), Arg::Tensor(x)], [meta])?;
/// g.set_outputs(&[y]);
/// assert_eq!(g.operands(y.node), [x, x]);
/// assert_eq!(g.outputs(), [y]);
/// # Ok::<(), straightline_passes::ir::ArgumentError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Graph {
    g: StableDiGraph<Node, Edge>,
    inputs: Vec<NodeId>,
    parameters: Vec<NodeId>,
    output: Option<NodeId>,
}

/// What all calls do together, besides computing results.
impl AnyGraph for Graph {
    fn effects(&self) -> Effects {
        let all = self.g.node_indices().map(|n| Graph::effects(self, n));
        all.fold(Effects::PURE, |all, of_call| all | of_call)
    }
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Graph {
        Graph::default()
    }

    fn add(&mut self, kind: NodeKind, results: SmallVec<[TensorMeta; 1]>) -> NodeId {
        self.g.add_node(Node {
            kind,
            operands: Operands::new(),
            results,
            name: None,
            provenance: Provenance::default(),
        })
    }

    /// Adds the next input.
    pub fn input(&mut self, name: &str, meta: TensorMeta) -> ValueRef {
        let id = self.add(NodeKind::Input, SmallVec::from_iter([meta]));
        self.g[id].name = Some(name.into());
        self.inputs.push(id);
        id.into()
    }

    /// Adds the next parameter.
    pub fn parameter(&mut self, name: &str, meta: TensorMeta) -> ValueRef {
        let id = self.add(NodeKind::Parameter, SmallVec::from_iter([meta]));
        self.g[id].name = Some(name.into());
        self.parameters.push(id);
        id.into()
    }

    /// Adds a constant.
    pub fn constant(&mut self, value: Constant, meta: TensorMeta) -> ValueRef {
        self.add(NodeKind::Constant(value), SmallVec::from_iter([meta])).into()
    }

    /// Adds a call and returns its first result; the others are `ValueRef { node, index }`.
    /// Arguments that are left out at the end have their defaults. The call has the operator's
    /// [`Effects`] unless [`Graph::set_effects`] changes them.
    ///
    /// # Errors
    ///
    /// An argument without a default is left out, or there are too many.
    pub fn call(
        &mut self,
        op: Op,
        args: Vec<Arg<ValueRef>>,
        results: impl IntoIterator<Item = TensorMeta>,
    ) -> Result<ValueRef, ArgumentError> {
        let results = results.into_iter().collect();
        Ok(self.complete_call(op, op.completed(args)?, results))
    }

    /// [`Graph::call`] with all arguments.
    pub fn complete_call(
        &mut self,
        op: Op,
        args: Vec<Arg<ValueRef>>,
        results: SmallVec<[TensorMeta; 1]>,
    ) -> ValueRef {
        let mut operands = Operands::new();
        let args: Vec<Arg<u32>> = args
            .iter()
            .map(|a| {
                a.map(|v| {
                    operands.push(*v);
                    operands.len() as u32 - 1
                })
            })
            .collect();
        let effects = op.effects(&args, &results);
        let id = self.add(NodeKind::Call(Call { op, args, effects }), results);
        self.connect(id, operands);
        id.into()
    }

    /// Sets the effects of a call; does nothing for other nodes.
    pub fn set_effects(&mut self, id: NodeId, effects: Effects) {
        if let NodeKind::Call(call) = &mut self.g[id].kind {
            call.effects = effects;
        }
    }

    /// The effects of a node; none unless it is a call.
    pub fn effects(&self, id: NodeId) -> Effects {
        match &self.g[id].kind {
            NodeKind::Call(call) => call.effects,
            _ => Effects::PURE,
        }
    }

    /// The call that eager code makes in a node's place: with the operator that an error names.
    pub fn eager_call(&self, id: NodeId) -> Option<Arc<EagerCall>> {
        let node = &self.g[id];
        let NodeKind::Call(call) = &node.kind else {
            return None;
        };
        Some(node.provenance.eager.clone().unwrap_or_else(|| {
            let operands = self.operands(id);
            Arc::new(EagerCall {
                op: call.op,
                args: call.args.clone(),
                operands: operands.iter().map(|v| self.meta(*v).clone()).collect(),
            })
        }))
    }

    /// Gives a node its operands; the edges follow them.
    fn connect(&mut self, id: NodeId, operands: Operands) {
        for (i, v) in operands.iter().enumerate() {
            let edge = Edge { operand: i as u32, result: v.index };
            self.g.add_edge(v.node, id, edge);
        }
        self.g[id].operands = operands;
    }

    /// Sets the results of the function, replacing earlier ones.
    pub fn set_outputs(&mut self, values: &[ValueRef]) -> NodeId {
        if let Some(old) = self.output.take() {
            self.g.remove_node(old);
        }
        let id = self.add(NodeKind::Output, SmallVec::new());
        self.connect(id, values.into());
        self.output = Some(id);
        id
    }

    /// The inputs in order.
    pub fn inputs(&self) -> &[NodeId] {
        &self.inputs
    }

    /// The parameters in order.
    pub fn parameters(&self) -> &[NodeId] {
        &self.parameters
    }

    /// The results of the function in order.
    pub fn outputs(&self) -> &[ValueRef] {
        self.output.map_or(&[], |o| self.operands(o))
    }

    /// A node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.g[id]
    }

    /// A node, to change its name or provenance.
    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.g[id]
    }

    /// Whether the node (still) exists.
    pub fn contains(&self, id: NodeId) -> bool {
        self.g.contains_node(id)
    }

    /// The shape of a value.
    pub fn meta(&self, v: ValueRef) -> &TensorMeta {
        &self.g[v.node].results[v.index as usize]
    }

    /// The operands of a node by position.
    pub fn operands(&self, id: NodeId) -> &[ValueRef] {
        &self.g[id].operands
    }

    /// The call's arguments with tensors as values, or `None` if the node is no call.
    pub fn call_args(&self, id: NodeId) -> Option<(Op, Vec<Arg<ValueRef>>)> {
        let node = &self.g[id];
        let NodeKind::Call(call) = &node.kind else {
            return None;
        };
        let value = |a: &Arg<u32>| a.map(|i| node.operands[*i as usize]);
        Some((call.op, call.args.iter().map(value).collect()))
    }

    /// The uses of a node's results: `(user, operand position, result index)`, in no fixed order.
    pub fn uses(&self, id: NodeId) -> impl Iterator<Item = (NodeId, u32, u32)> + '_ {
        self.g
            .edges_directed(id, Direction::Outgoing)
            .map(|e| (e.target(), e.weight().operand, e.weight().result))
    }

    /// Every node in an order in which operands come before their users: inputs and parameters
    /// first, then by age.
    pub fn topological(&self) -> Vec<NodeId> {
        // Kahn's algorithm with a sorted frontier: petgraph's `toposort` and `Topo` take whichever
        // node is ready last, and the text of a graph must not depend on how it was built.
        let mut missing = vec![0_usize; self.g.node_bound()];
        let mut ready: BTreeSet<(bool, NodeId)> = BTreeSet::new();
        for n in self.g.node_indices() {
            missing[n.index()] = self.g.edges_directed(n, Direction::Incoming).count();
            if missing[n.index()] == 0 {
                ready.insert((self.is_call(n), n));
            }
        }
        let mut order = Vec::with_capacity(self.g.node_count());
        while let Some((_, n)) = ready.pop_first() {
            order.push(n);
            for e in self.g.edges_directed(n, Direction::Outgoing) {
                let t = e.target();
                missing[t.index()] -= 1;
                if missing[t.index()] == 0 {
                    ready.insert((true, t));
                }
            }
        }
        order
    }

    fn is_call(&self, n: NodeId) -> bool {
        matches!(self.g[n].kind, NodeKind::Call(_) | NodeKind::Output)
    }

    /// Whether the edges form a cycle (a broken graph: the verifier reports it).
    pub fn is_cyclic(&self) -> bool {
        // petgraph's own test and Tarjan's components recurse once per node, so a long program
        // would overflow the stack
        algo::toposort(&self.g, None).is_err()
    }

    /// Removes calls and constants that no output reaches. Inputs and parameters stay, so that
    /// their positions keep their meaning, and so do calls that are [kept](Effects::is_kept): those
    /// with an effect, those that draw random numbers, and those that may fail.
    pub fn eliminate_dead_code(&mut self) -> usize {
        let kept = |n: &NodeId| self.effects(*n).is_kept();
        let roots: Vec<NodeId> = self.g.node_indices().filter(kept).chain(self.output).collect();
        let uses_to_operands = Reversed(&self.g);
        let mut search = Dfs::from_parts(roots, uses_to_operands.visit_map());
        while search.next(uses_to_operands).is_some() {}
        let live = search.discovered;
        let before = self.g.node_count();
        self.g.retain_nodes(|g, n| {
            live.is_visited(&n) || matches!(g[n].kind, NodeKind::Input | NodeKind::Parameter)
        });
        before - self.g.node_count()
    }

    /// Makes a value an input, the last one: what computed it no longer matters to what uses it.
    ///
    /// ```
    /// use straightline_passes::ir::graph::Graph;
    /// let mut g = Graph::parse("graph(%x: f32[2]) {
    ///   %0: f32[2] = aten::exp(%x)
    ///   %1: f32[2] = aten::neg(%0)
    ///   return %1
    /// }")?;
    /// let exp = g.operands(g.outputs()[0].node)[0];
    /// g.give(exp, "y");
    /// g.eliminate_dead_code();
    /// assert_eq!(g.inputs().len(), 2);
    /// assert_eq!(g.call_count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn give(&mut self, v: ValueRef, name: &str) -> ValueRef {
        let given = self.input(name, self.meta(v).clone());
        let edges = self.g.edges_directed(v.node, Direction::Outgoing);
        let uses: Vec<_> = (edges.filter(|e| e.weight().result == v.index))
            .map(|e| (e.id(), e.target(), e.weight().operand))
            .collect();
        for (edge, user, operand) in uses {
            self.g.remove_edge(edge);
            self.g.add_edge(given.node, user, Edge { operand, result: 0 });
            self.g[user].operands[operand as usize] = given;
        }
        given
    }

    /// Puts the inputs in another order: `order` has each of them once.
    pub fn arrange_inputs(&mut self, order: Vec<NodeId>) {
        debug_assert_eq!(BTreeSet::from_iter(&order), BTreeSet::from_iter(&self.inputs));
        self.inputs = order;
    }

    /// Drops all inputs but the first `count`. Those that are dropped must have no uses.
    pub fn keep_inputs(&mut self, count: usize) {
        for n in self.inputs.drain(count.min(self.inputs.len())..) {
            debug_assert!(self.g.edges_directed(n, Direction::Outgoing).next().is_none());
            self.g.remove_node(n);
        }
    }

    /// Replaces the graphs that calls are given by what `f` makes of them. The effects of these calls
    /// become those of the new graphs.
    ///
    /// # Errors
    ///
    /// The first of `f`.
    pub fn map_subgraphs<E>(
        &mut self,
        mut f: impl FnMut(&Graph) -> Result<Graph, E>,
    ) -> Result<(), E> {
        for id in self.topological() {
            let node = &mut self.g[id];
            let NodeKind::Call(call) = &mut node.kind else { continue };
            let mut changed = false;
            for arg in &mut call.args {
                if let Arg::Graph(of) = arg
                    && let Some(graph) = of.get::<Graph>()
                {
                    *of = Subgraph::new(f(graph)?);
                    changed = true;
                }
            }
            if changed {
                call.effects = call.op.effects(&call.args, &node.results);
            }
        }
        Ok(())
    }

    /// The number of operator calls.
    pub fn call_count(&self) -> usize {
        self.g.node_weights().filter(|n| matches!(n.kind, NodeKind::Call(_))).count()
    }

    /// The petgraph graph itself, so that tests can break the invariants of this type.
    #[cfg(test)]
    pub(crate) fn raw_mut(&mut self) -> &mut StableDiGraph<Node, Edge> {
        &mut self.g
    }

    /// The petgraph graph below, for algorithms and `dot` output.
    pub fn raw(&self) -> &StableDiGraph<Node, Edge> {
        &self.g
    }
}
