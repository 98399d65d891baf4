//! What a capture gives: the graph, and what a replay has to know of the tensors and questions that
//! the function met.

use crate::dispatch::{DispatchKey, OperatorHandle};
use crate::modes::functionalize::{Bits, InputSlot, Owner};
use crate::modes::outside::Asked;
use crate::tensor::{Held, Tensor};
use std::fmt;
use straightline_catalog::{Arg, DType, Device, Effects, TensorMeta, default_dtype};
use straightline_passes::ir::graph::{Graph, NodeId, NodeKind, ValueRef};

/// Where a result of the function comes from.
#[derive(Clone, Debug)]
pub(super) enum OutputSource {
    /// This output of the graph.
    Value(usize),
    /// The argument itself.
    Input(usize),
    /// A closed-over tensor itself.
    Tensor(Held),
    /// An earlier result itself.
    Same(usize),
    /// A view of memory that other tensors share.
    View {
        /// Whose memory.
        of: ViewOf,
        /// Dtype, sizes, strides and device.
        meta: TensorMeta,
        /// Which math bits it has.
        bits: Bits,
        /// Where it begins, in bytes from the first element of `of`.
        start: i64,
    },
}

/// What a result is a view of.
#[derive(Clone, Debug)]
pub(super) enum ViewOf {
    /// An output of the graph.
    Value(usize),
    /// An argument.
    Input(usize),
    /// A closed-over tensor.
    Tensor(Held),
}

/// A tensor from outside that the function met.
#[derive(Clone, Debug)]
pub(super) struct LeafUse {
    /// Which one.
    pub(super) owner: Owner,
    /// Whether its memory is written.
    pub(super) written: bool,
    /// Whether its sizes, strides or offset change.
    pub(super) reshaped: bool,
    /// Whether it is a view of an input or parameter of the graph that others are views of too.
    pub(super) merged: bool,
    /// Whether it stands for memory that several tensors lie in.
    pub(super) flat: bool,
}

/// What the function used besides operator calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Surroundings {
    /// What it asked about tensors and the thread.
    pub(super) asked: Vec<Asked>,
    /// The operators that its calls went through, as they were registered.
    pub(super) operators: Vec<(OperatorHandle, u64)>,
    /// The fallbacks of the keys that these calls may have reached, as they were when capture
    /// began.
    pub(super) fallbacks: Vec<(DispatchKey, u64)>,
    /// Tensors that it made from data and that are kept outside it.
    pub(super) kept: Vec<Held>,
    /// The default dtype during capture; for a graph that was read or built, the current one.
    pub(super) default_dtype: Option<DType>,
}

impl Surroundings {
    /// Lowering promotes types as the function did when it was captured.
    pub(super) fn pin(&self) -> default_dtype::Pin {
        default_dtype::pin(self.default_dtype.unwrap_or_else(default_dtype::default_dtype))
    }
}

/// A leaf that the function writes: its new value is copied into it after each call.
#[derive(Clone, Debug)]
pub(super) struct Mutation {
    /// What is written.
    pub(super) target: Owner,
    /// The graph output that holds its new value.
    pub(super) output: usize,
    /// Where a leaf changes its shape: the geometry that the value has in its memory, and how many
    /// bytes that begins behind the leaf's new place. The memory that the leaf no longer covers may
    /// have been written before.
    pub(super) memory: Option<(TensorMeta, i64)>,
}

/// A leaf whose shape the function changes in place, at each call.
#[derive(Clone, Debug)]
pub(super) struct Reshape {
    /// Which one.
    pub(super) target: Owner,
    /// Its sizes after the call.
    pub(super) sizes: Vec<i64>,
    /// Its strides after the call.
    pub(super) strides: Vec<i64>,
    /// How far its first element moves.
    pub(super) moved: i64,
}

/// What a function does to `.grad` of a tensor from outside.
#[derive(Clone, Debug)]
pub(super) struct GradUse {
    /// Of which tensor.
    pub(super) target: Owner,
    /// What it has to be when a call begins, if the function read it.
    pub(super) before: Option<Option<Held>>,
    /// Which argument what a call finds there is, after those of the function.
    pub(super) bound: Option<usize>,
    /// The hooks of the tensor, which were captured.
    pub(super) hooks: Vec<u64>,
    /// What a call puts there: nothing, or one of [`Traced::outputs`].
    pub(super) after: Option<Option<usize>>,
}

/// How the results of a function lead to the gradients of what it was given.
#[derive(Clone, Debug)]
pub(super) struct Joint {
    /// The results that want gradients, by their place among [`Traced::outputs`].
    pub(super) results: Vec<usize>,
    /// What their gradients lead to, with the graph output that computes it.
    pub(super) targets: Vec<(Owner, usize)>,
    /// How many of the graph's inputs are the function's; the others are gradients of `results`.
    pub(super) inputs: usize,
    /// How many of the graph's outputs are the function's; the others are gradients of `targets`.
    pub(super) outputs: usize,
    /// The function has made the backward pass itself, so that there is no second one.
    pub(super) spent: bool,
}

/// A captured function: what the dispatcher saw, as a functional graph.
///
/// `Display` prints the graph's text, which parses back.
///
/// ```
/// use straightline::{Tensor, compile};
/// let f = compile(|x: &Tensor| x.exp()?.sum());
/// let traced = f.trace(&Tensor::from_vec([0f32, 1.0], 2)?)?;
/// assert!(traced.to_string().contains("aten::exp"));
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Traced {
    pub(super) graph: Graph,
    pub(super) inputs: Vec<TensorMeta>,
    /// The graph's inputs, if they are not simply the arguments.
    pub(super) slots: Vec<InputSlot>,
    pub(super) parameters: Vec<Held>,
    pub(super) outputs: Vec<OutputSource>,
    /// How many of them the function returns; the others are gradients, and what a backward half
    /// needs.
    pub(super) returned: usize,
    /// What becomes of `.grad` of tensors from outside.
    pub(super) grads: Vec<GradUse>,
    /// If results want gradients.
    pub(super) joint: Option<Joint>,
    pub(super) mutations: Vec<Mutation>,
    pub(super) reshapes: Vec<Reshape>,
    /// For each graph output, the value whose memory it shares.
    pub(super) roots: Vec<ValueRef>,
    /// The types of the graph's first outputs, if they were others before the graph was simplified.
    pub(super) declared: Vec<TensorMeta>,
    /// The tensors from outside that the function met.
    pub(super) leaves: Vec<LeafUse>,
    /// What else it met.
    pub(super) surroundings: Surroundings,
    /// The calls whose results have sizes that depend on data, in order: the graph has those of the
    /// call that it was captured for.
    pub(super) dependent: Vec<NodeId>,
    /// Whether the graph comes from outside, so that its shapes have not been checked by a capture.
    pub(super) given: bool,
}

impl Traced {
    /// The tensors from outside that the function met and that are not arguments.
    pub(super) fn closed_over(&self) -> impl Iterator<Item = &Held> {
        let of_leaves = self.leaves.iter().filter_map(|leaf| match &leaf.owner {
            Owner::Tensor(t) => Some(t),
            _ => None,
        });
        let of_outputs = self.outputs.iter().filter_map(|output| match output {
            OutputSource::Tensor(t) => Some(t),
            _ => None,
        });
        let of_grads = self.grads.iter().flat_map(|g| {
            let target = match &g.target {
                Owner::Tensor(t) => Some(t),
                _ => None,
            };
            target.into_iter().chain(g.before.iter().flatten())
        });
        let of_questions = self.surroundings.asked.iter().flat_map(closed_over);
        let all = of_leaves.chain(of_outputs).chain(of_questions);
        all.chain(of_grads).chain(&self.surroundings.kept)
    }

    /// Whether it draws random numbers.
    pub(super) fn draws(&self) -> bool {
        let nodes = self.graph.topological().into_iter();
        nodes.map(|n| self.graph.effects(n)).any(|e| e.has(Effects::RANDOM))
    }

    /// Results that are the first outputs of the graph.
    pub(super) fn values(count: usize) -> Vec<OutputSource> {
        (0..count).map(OutputSource::Value).collect()
    }

    /// Whether another capture of the function gave the same program on the same tensors.
    pub(super) fn is_same_as(&self, other: &Traced) -> bool {
        let tensors = |t: &Traced| t.closed_over().map(|t| t.id()).collect::<Vec<_>>();
        let rest = |t: &Traced| {
            format!(
                "{}{:?}{:?}{:?}{:?}{:?}{:?}",
                t.graph, t.slots, t.outputs, t.mutations, t.reshapes, t.grads, t.joint
            )
        };
        tensors(self) == tensors(other) && rest(self) == rest(other)
    }

    /// A graph that was read or built instead of captured, to look at its later stages: there are
    /// no tensors for its parameters.
    ///
    /// ```
    /// use straightline::{Graph, Traced};
    /// let graph = Graph::parse("graph(%x: f32[2]) {\n  %0: f32[2] = aten::relu(%x)\n  return %0\n}")?;
    /// let loops = Traced::from_graph(graph).lower()?.to_string();
    /// assert!(loops.contains("relu"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Lowering first compares the declared types of results with those of the operators' Meta
    /// kernels.
    pub fn from_graph(graph: Graph) -> Traced {
        let inputs = graph.inputs().iter();
        Traced {
            inputs: inputs.map(|n| graph.meta((*n).into()).clone()).collect(),
            slots: Vec::new(),
            parameters: Vec::new(),
            outputs: Traced::values(graph.outputs().len()),
            returned: graph.outputs().len(),
            grads: Vec::new(),
            joint: None,
            mutations: Vec::new(),
            reshapes: Vec::new(),
            declared: Vec::new(),
            leaves: Vec::new(),
            surroundings: Surroundings::default(),
            dependent: Vec::new(),
            roots: graph.outputs().to_vec(),
            given: true,
            graph,
        }
    }

    /// The same function for tensors on another device, to look at its later stages: no device is
    /// needed for that.
    ///
    /// ```
    /// use straightline::{Graph, Traced};
    /// let graph = Graph::parse("graph(%x: f32[2]) {\n  %0: f32[2] = aten::relu(%x)\n  return %0\n}")?;
    /// let there = Traced::from_graph(graph).on("cuda:0".parse()?);
    /// assert!(there.to_string().contains("@cuda:0"));
    /// # #[cfg(feature = "cuda")]
    /// assert!(there.lower()?.compile()?.cuda().is_some_and(|text| text.contains("__global__")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn on(&self, device: Device) -> Traced {
        let mut there = self.clone();
        for id in self.graph.topological() {
            let node = there.graph.node_mut(id);
            node.results.iter_mut().for_each(|meta| meta.device = device);
            if let NodeKind::Call(call) = &mut node.kind {
                for arg in &mut call.args {
                    if let Arg::Device(d) = arg {
                        *d = device;
                    }
                }
            }
        }
        there.inputs.iter_mut().chain(&mut there.declared).for_each(|m| m.device = device);
        there
    }

    /// The captured graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The shapes that the function was captured for.
    pub fn inputs(&self) -> &[TensorMeta] {
        &self.inputs
    }

    /// The closed-over tensors, in the order of the graph's parameters.
    pub fn parameters(&self) -> impl ExactSizeIterator<Item = &Tensor> {
        self.parameters.iter().map(|t| &**t)
    }
}

/// The tensors that an answer is about and that are not arguments.
fn closed_over(asked: &Asked) -> Vec<&Held> {
    let owners = match asked {
        Asked::Shared { a, b, .. } | Asked::Same { a, b, .. } | Asked::Lie { a, b } => vec![a, b],
        _ => Vec::new(),
    };
    (owners.into_iter())
        .filter_map(|owner| match owner {
            Owner::Tensor(t) => Some(t),
            _ => None,
        })
        .collect()
}

impl fmt::Display for Traced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.graph.fmt(f)
    }
}
