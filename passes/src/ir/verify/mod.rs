//! The verifier. This page defines a well-formed graph.
//!
//! **Structure**
//!
//! - The edges form no cycle.
//! - Each node's operand positions are `0, 1, 2 ...` without gap or repetition, and every operand
//!   names a result that its node has.
//! - Each position that a call's arguments mention exists, and each operand is mentioned exactly
//!   once.
//! - There is exactly one output node; it has no results and no users. Inputs, parameters
//!   and constants have one result and no operands.
//! - Every input and parameter is listed once, and no listed one is missing.
//! - No two nodes have the same name.
//!
//! **Values**
//!
//! - A value has as many strides as sizes, no negative size, and fewer than 2^63 elements.
//! - A constant lists as many elements as its type has, numbers that the dtype has.
//!
//! **Calls**
//!
//! - A call has all arguments of its operator's schema, of the kinds that it says.
//! - A captured graph is functional: no operator writes to its arguments (its schema says so, or an
//!   effect `writes`). In-place updates of inputs happen when the plan ends and are no part of the
//!   graph.
//! - A call without results has an effect or may fail ([`Effects`]); otherwise it would do nothing.
//! - A graph that a call is given is well-formed, has no parameters, and takes and gives what the call's
//!   operands and results are ([`control`]).
//! - For the operators that [`shapes`] knows, result sizes follow from operand sizes: pointwise
//!   operators broadcast, matrix products agree on the inner dimension, a reduction removes (or
//!   keeps as 1) the dimensions it names, a view has as many elements as what it views, a
//!   comparison gives `bool`. Other operators may have any results: an unknown operator is not an
//!   error.
//!
//! Every error found is reported, each with its node as the graph's text writes it.

pub mod shapes;
#[cfg(test)]
mod tests;

use super::control::{self, ControlError};
use super::graph::{Call, Constant, Graph, NodeId, NodeKind, TextPlace};
use super::text::{ValueNames, display_node};
use super::{Arg, DType, Scalar, TensorMeta};
use super::{ArgumentError, Effects, Op};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// What is wrong with one node, or with the graph as a whole.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)] // the fields are named by the messages
pub enum VerifyErrorKind {
    /// The graph is no DAG.
    #[error("the graph has a cycle through this node")]
    Cycle,
    /// Operand positions with a gap or a repetition.
    #[error("operand positions are {found:?}, expected 0..{}", found.len())]
    OperandPositions { found: Vec<u32> },
    /// A use of a result that its node does not have.
    #[error("operand {operand} is result {result} of a node with {results} results")]
    ResultIndex { operand: u32, result: u32, results: usize },
    /// Arguments that mention an operand that does not exist.
    #[error("an argument mentions operand {operand}, but there are {operands}")]
    MissingOperand { operand: u32, operands: usize },
    /// An operand that not exactly one argument mentions.
    #[error("operand {operand} is mentioned {times} times by the arguments, expected once")]
    OperandMentions { operand: u32, times: usize },
    /// Arguments that are not those of the operator.
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    /// No output node, or several.
    #[error("a graph has one output node, found {0}")]
    OutputCount(usize),
    /// A node whose kind does not have this many results.
    #[error("{what} has {expected} results, found {found}")]
    ResultCount { what: &'static str, expected: usize, found: usize },
    /// A leaf with operands.
    #[error("{what} has no operands, found {found}")]
    LeafOperands { what: &'static str, found: usize },
    /// An input or parameter that is not listed exactly once.
    #[error("this {what} is listed {times} times among the graph's {what}s, expected once")]
    Unlisted { what: &'static str, times: usize },
    /// Two nodes of one name.
    #[error("the name `{0}` is used by an earlier node")]
    DuplicateName(Arc<str>),
    /// Sizes and strides of different lengths.
    #[error("a value has {sizes} sizes but {strides} strides")]
    StrideCount { sizes: usize, strides: usize },
    /// A negative size, or more elements than can be counted.
    #[error("the sizes {0:?} are not those of a tensor")]
    BadSizes(Vec<i64>),
    /// A constant of another length than its type.
    #[error("the type has {expected} elements but the constant lists {found}")]
    ElementCount { expected: i64, found: usize },
    /// A constant with a number that its type does not have.
    #[error("{found} is not a number of {dtype}")]
    Constant { dtype: DType, found: String },
    /// A call that its operator refuses, or whose results are others.
    #[error("{0}")]
    Refused(String),
    /// A call that writes to its arguments.
    #[error("`{0}` writes to its arguments: a captured graph is functional")]
    Mutation(Op),
    /// A call that does nothing at all.
    #[error("`{0}` has no results, and its effects (`{1}`) say that nothing else comes of it")]
    NoEffect(Op, Effects),
    /// Sizes or dtypes that do not follow from the operands.
    #[error(transparent)]
    Shape(#[from] shapes::ShapeError),
    /// Graphs among the arguments that do not fit the call.
    #[error(transparent)]
    Control(#[from] ControlError),
}

/// One error with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifyError {
    /// The node, where the error has one.
    pub node: Option<NodeId>,
    /// The node as the graph's text writes it.
    pub location: String,
    /// Where the node stands in the text that the graph was read from.
    pub text: Option<TextPlace>,
    /// What is wrong.
    pub kind: VerifyErrorKind,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = self.text {
            write!(f, "{place}: ")?;
        }
        write!(f, "{}", self.kind)?;
        if self.node.is_some() {
            write!(f, "\n  in: {}", self.location)?;
        }
        Ok(())
    }
}

/// The errors of a graph; never empty.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifyErrors(pub Vec<VerifyError>);

impl fmt::Display for VerifyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0.len();
        let plural = if n == 1 { "" } else { "s" };
        write!(f, "the graph is not well-formed ({n} error{plural})")?;
        self.0.iter().try_for_each(|e| write!(f, "\n- {e}"))
    }
}

impl std::error::Error for VerifyErrors {}

/// Checks a graph against the rules on this page.
///
/// ```
/// use straightline_passes::ir::{graph::Graph, verify::verify};
/// let text = "graph(%x: f32[2,3]) { %0: f32[2,2] = aten::relu(%x) return %0 }";
/// let errors = verify(&Graph::parse(text).unwrap()).unwrap_err();
/// assert!(errors.to_string().contains("expected sizes [2, 3], found [2, 2]"));
/// ```
///
/// # Errors
///
/// The errors in the order of the graph's text, with line and column if it was read from text.
pub fn verify(graph: &Graph) -> Result<(), VerifyErrors> {
    structure(graph)?;
    let mut found = Vec::new();
    for id in graph.raw().node_indices() {
        if let NodeKind::Call(call) = &graph.node(id).kind
            && let Err(e) = shapes::check(graph, id, call)
        {
            found.push((Some(id), e.into()));
        }
        if let Err(e) = subgraphs(graph, id, verify) {
            found.push((Some(id), e.into()));
        } else if let Err(e) = control::check(graph, id) {
            found.push((Some(id), e.into()));
        }
    }
    match found.is_empty() {
        true => Ok(()),
        false => Err(report(graph, found)),
    }
}

/// Verifies the graphs that a call is given.
fn subgraphs(
    graph: &Graph,
    id: NodeId,
    verify: fn(&Graph) -> Result<(), VerifyErrors>,
) -> Result<(), ControlError> {
    let NodeKind::Call(call) = &graph.node(id).kind else { return Ok(()) };
    for (of, body) in control::subgraphs(call.op, &call.args) {
        verify(body).map_err(|e| ControlError::Graph { of, error: e.to_string() })?;
    }
    Ok(())
}

/// The part of [`verify`] that asks no operator for the shape of its results: without it, nodes
/// and their operands cannot be read.
///
/// ```
/// use straightline_passes::ir::graph::Graph;
/// use straightline_passes::ir::verify::{structure, verify};
/// let text = "graph(%x: f32[2]) {\n  %0: f32[3] = aten::relu(%x)\n  return %0\n}";
/// let graph = Graph::parse(text).unwrap();
/// assert!(structure(&graph).is_ok() && verify(&graph).is_err());
/// ```
///
/// # Errors
///
/// As for [`verify`].
pub fn structure(graph: &Graph) -> Result<(), VerifyErrors> {
    let mut v = Verifier { graph, found: Vec::new() };
    v.whole();
    for id in graph.raw().node_indices() {
        v.structure(id);
        if let Err(e) = subgraphs(graph, id, structure) {
            v.report(id, e.into());
        }
    }
    match v.found.is_empty() {
        true => Ok(()),
        false => Err(report(graph, v.found)),
    }
}

/// Errors of a graph, in the order of its text and with their places in it.
///
/// ```
/// use straightline_passes::ir::graph::Graph;
/// use straightline_passes::ir::verify::{VerifyErrorKind, report};
/// let graph = Graph::parse("graph(%x: f32[2]) { return %x }").unwrap();
/// let input = graph.inputs()[0];
/// let errors = report(&graph, vec![(Some(input), VerifyErrorKind::Cycle)]);
/// assert!(errors.to_string().contains("line 1, column 7"));
/// ```
pub fn report(graph: &Graph, mut found: Vec<(Option<NodeId>, VerifyErrorKind)>) -> VerifyErrors {
    let names = ValueNames::new(graph);
    let rank: HashMap<NodeId, usize> =
        (names.order().iter().enumerate()).map(|(i, id)| (*id, i + 1)).collect();
    found.sort_by_key(|(id, _)| id.map_or(0, |id| rank[&id]));
    let errors = found.into_iter().map(|(node, kind)| VerifyError {
        node,
        location: node.map_or_else(String::new, |id| display_node(graph, &names, id)),
        text: node.and_then(|id| graph.node(id).provenance.text),
        kind,
    });
    VerifyErrors(errors.collect())
}

/// Whether a constant of this dtype can list the number.
fn holds(dtype: DType, number: Scalar) -> bool {
    match dtype {
        DType::Bool => matches!(number.as_complex(), (0.0 | 1.0, 0.0)),
        _ => {
            let whole = dtype.integer_bounds().is_none() || number.as_f64().fract() == 0.0;
            whole && number.fits(dtype)
        }
    }
}

struct Verifier<'a> {
    graph: &'a Graph,
    found: Vec<(Option<NodeId>, VerifyErrorKind)>,
}

impl Verifier<'_> {
    fn report(&mut self, id: NodeId, kind: VerifyErrorKind) {
        self.found.push((Some(id), kind));
    }

    /// Checks the graph as a whole.
    fn whole(&mut self) {
        let g = self.graph.raw();
        let outputs = g.node_weights().filter(|n| n.kind == NodeKind::Output).count();
        if outputs != 1 {
            self.found.push((None, VerifyErrorKind::OutputCount(outputs)));
        }
        if self.graph.is_cyclic() {
            let components = petgraph::algo::kosaraju_scc(g);
            let cyclic = (components.into_iter())
                .filter(|c| c.len() > 1 || g.find_edge(c[0], c[0]).is_some());
            for id in cyclic.flatten() {
                self.report(id, VerifyErrorKind::Cycle);
            }
        }
        let mut names: HashMap<&str, NodeId> = HashMap::new();
        for id in g.node_indices() {
            if let Some(name) = &self.graph.node(id).name
                && names.insert(name, id).is_some()
            {
                self.report(id, VerifyErrorKind::DuplicateName(name.clone()));
            }
        }
    }

    /// Checks one node and its edges.
    fn structure(&mut self, id: NodeId) {
        use petgraph::Direction::Incoming;
        let node = self.graph.node(id);
        let mut positions: Vec<u32> = Vec::new();
        for e in self.graph.raw().edges_directed(id, Incoming) {
            use petgraph::visit::EdgeRef;
            let edge = e.weight();
            positions.push(edge.operand);
            let results = self.graph.node(e.source()).results.len();
            if edge.result as usize >= results {
                let (operand, result) = (edge.operand, edge.result);
                let kind = VerifyErrorKind::ResultIndex { operand, result, results };
                self.report(id, kind);
            }
        }
        positions.sort_unstable();
        let operands = positions.len();
        if (positions.iter().enumerate()).any(|(i, p)| *p != i as u32) {
            self.report(id, VerifyErrorKind::OperandPositions { found: positions });
        }
        for meta in &node.results {
            self.value(id, meta);
        }
        match &node.kind {
            NodeKind::Input => self.leaf(id, "input", operands, Some(self.graph.inputs())),
            NodeKind::Parameter => {
                self.leaf(id, "parameter", operands, Some(self.graph.parameters()));
            }
            NodeKind::Constant(c) => {
                self.leaf(id, "constant", operands, None);
                if let (Constant::Elements(v), [meta]) = (c, &node.results[..])
                    && meta.numel() != v.len() as i64
                {
                    let (expected, found) = (meta.numel(), v.len());
                    self.report(id, VerifyErrorKind::ElementCount { expected, found });
                }
                let numbers = match c {
                    Constant::Splat(s) => std::slice::from_ref(s),
                    Constant::Elements(all) => all,
                };
                if let [meta] = &node.results[..]
                    && let Some(bad) = numbers.iter().find(|s| !holds(meta.dtype, **s))
                {
                    let (dtype, found) = (meta.dtype, bad.to_string());
                    self.report(id, VerifyErrorKind::Constant { dtype, found });
                }
            }
            NodeKind::Output => {
                let (what, expected, found) = ("the output node", 0, node.results.len());
                if found != expected {
                    let kind = VerifyErrorKind::ResultCount { what, expected, found };
                    self.report(id, kind);
                }
            }
            NodeKind::Call(call) => self.call(id, call, operands),
        }
    }

    fn value(&mut self, id: NodeId, meta: &TensorMeta) {
        let (sizes, strides) = (meta.sizes.len(), meta.strides.len());
        if sizes != strides {
            self.report(id, VerifyErrorKind::StrideCount { sizes, strides });
        }
        let count = (meta.sizes.iter()).try_fold(1i64, |n, s| n.checked_mul((*s).max(1)));
        if count.is_none() || meta.sizes.iter().any(|s| *s < 0) {
            self.report(id, VerifyErrorKind::BadSizes(meta.sizes.to_vec()));
        }
    }

    fn leaf(&mut self, id: NodeId, what: &'static str, operands: usize, list: Option<&[NodeId]>) {
        if operands != 0 {
            let found = operands;
            self.report(id, VerifyErrorKind::LeafOperands { what, found });
        }
        let found = self.graph.node(id).results.len();
        if found != 1 {
            let kind = VerifyErrorKind::ResultCount { what, expected: 1, found };
            self.report(id, kind);
        }
        if let Some(list) = list {
            let times = list.iter().filter(|n| **n == id).count();
            if times != 1 {
                self.report(id, VerifyErrorKind::Unlisted { what, times });
            }
        }
    }

    fn call(&mut self, id: NodeId, call: &Call, operands: usize) {
        if let Err(e) = call.op.accepts(&call.args) {
            self.report(id, e.into());
        }
        let mut times = vec![0usize; operands];
        for arg in &call.args {
            let mentioned: &[Option<u32>] = match arg {
                Arg::Tensor(v) => &[Some(*v)],
                Arg::Tensors(vs) => vs,
                _ => &[],
            };
            for operand in mentioned.iter().flatten().copied() {
                match times.get_mut(operand as usize) {
                    Some(t) => *t += 1,
                    None => {
                        self.report(id, VerifyErrorKind::MissingOperand { operand, operands });
                    }
                }
            }
        }
        for (operand, times) in times.into_iter().enumerate() {
            if times != 1 {
                let operand = operand as u32;
                self.report(id, VerifyErrorKind::OperandMentions { operand, times });
            }
        }
        if call.effects.has(Effects::WRITES) {
            self.report(id, VerifyErrorKind::Mutation(call.op));
        } else if self.graph.node(id).results.is_empty() && !call.effects.is_kept() {
            let kind = VerifyErrorKind::NoEffect(call.op, call.effects);
            self.report(id, kind);
        }
    }
}
