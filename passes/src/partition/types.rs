//! What goes into a cut and what comes out.

use crate::ir::Op;
use crate::ir::graph::{Graph, NodeKind, ValueRef};
use std::collections::HashMap;
use std::fmt;

/// What a joint graph is made of.
#[derive(Clone, Debug, Default)]
pub struct Roles {
    /// How many of its inputs are the function's; the others are tangents.
    pub inputs: usize,
    /// How many of its outputs are the function's; the others are gradients.
    pub outputs: usize,
    /// Inputs of the function whose memory is written when the forward half has run.
    pub written_inputs: Vec<usize>,
    /// The same of parameters.
    pub written_parameters: Vec<usize>,
}

/// What is saved: a value of the joint graph, as both halves find it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Saved {
    /// An input of the function.
    Input(usize),
    /// A parameter.
    Parameter(usize),
    /// This output of the forward half.
    Output(usize),
}

/// Why a value is saved or computed again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// There is memory of it already, which is only held longer.
    Given,
    /// Its operator is not computed twice: it draws random numbers, or has effects.
    Once,
    /// Its operator is too expensive to be computed twice.
    Expensive,
    /// A call of the backward half reads it from memory, and it would have to be put there.
    Materialized,
    /// It has far fewer elements than what it was reduced from.
    Reduced,
    /// It could be computed again, and what it is computed from would take more memory.
    Smaller,
    /// It is computed again from what is saved, which takes less memory.
    Cheaper,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Given => "there is memory of it already",
            Reason::Once => "its operator is not called twice",
            Reason::Expensive => "too expensive to compute again",
            Reason::Materialized => "the backward half reads it from memory",
            Reason::Reduced => "much smaller than what it was reduced from",
            Reason::Smaller => "cheaper to keep than what it is computed from",
            Reason::Cheaper => "cheaper to compute again than to keep",
        })
    }
}

/// A value that the backward half uses, and what was decided about it.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The value in the joint graph.
    pub value: ValueRef,
    /// Its name or operator.
    pub name: String,
    /// The operator that computes it, if any does.
    pub op: Option<Op>,
    /// Its dtype and sizes.
    pub shape: String,
    /// The bytes that it takes.
    pub bytes: usize,
    /// Why.
    pub reason: Reason,
}

/// The two halves.
#[derive(Clone, Debug)]
pub struct Halves {
    /// The function's inputs and parameters; the function's outputs, then what is saved of
    /// intermediate values.
    pub forward: Graph,
    /// What is saved, then tangents; the gradients. Without parameters.
    pub backward: Graph,
    /// Where the first inputs of the backward half come from.
    pub saved: Vec<Saved>,
    /// What is saved, in the same order.
    pub kept: Vec<Decision>,
    /// What is computed again.
    pub recomputed: Vec<Decision>,
}

/// Why a graph cannot be cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CutError(pub(super) String);

impl fmt::Display for CutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CutError {}

impl Decision {
    pub(super) fn new(joint: &Graph, v: ValueRef, reason: Reason) -> Decision {
        let node = joint.node(v.node);
        let op = match &node.kind {
            NodeKind::Call(call) => Some(call.op),
            _ => None,
        };
        let meta = joint.meta(v);
        let name = match (&node.name, op) {
            (Some(name), _) => name.to_string(),
            (None, Some(op)) => op.to_string(),
            (None, None) => "a constant".to_string(),
        };
        Decision {
            value: v,
            name,
            op,
            shape: format!("{}{:?}", meta.dtype, meta.sizes.as_slice()),
            bytes: bytes(joint, v),
            reason,
        }
    }
}

/// `mul f32[4] 16 bytes: why`.
impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} bytes: {}", self.name, self.shape, self.bytes, self.reason)
    }
}

pub(super) fn bytes(graph: &Graph, v: ValueRef) -> usize {
    let meta = graph.meta(v);
    meta.numel().unsigned_abs() as usize * meta.dtype.size()
}

/// Values of one graph in another.
pub(super) type Map = HashMap<ValueRef, ValueRef>;
