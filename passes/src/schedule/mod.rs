//! From a rewritten graph to kernels, extern calls and a buffer plan.
//!
//! `lower` turns operators into definitions of single elements, `narrow` takes products of half types
//! out of wider ones, `matmul` folds epilogues into products, `fuse` decides which values share a
//! kernel, `emit` writes each kernel's body, `order` arranges its axes, and `plan` puts the steps in
//! order and gives every value its memory.

mod checks;
mod convolution;
mod cost;
mod cut;
mod display;
mod emit;
mod fuse;
mod group;
mod in_place;
mod index;
mod layout;
pub mod loops;
mod lower;
mod matmul;
mod memory;
mod narrow;
mod nearer;
mod numbers;
mod order;
mod plan;
mod prediction;
mod program;
mod results;
mod verify;

pub use plan::schedule;
pub use verify::{ScheduleViolation, verify_schedule};

use crate::ir::graph::{Graph, NodeId, NodeKind};

/// What the scheduler may do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduleOptions {
    /// A kernel computes at most about this many primitive definitions.
    pub max_kernel_ops: usize,
    /// Put unrelated values over one grid that read the same memory into one kernel.
    pub merge_siblings: bool,
    /// Fold bias, activation and residual into matrix products.
    pub fold_epilogues: bool,
    /// Convolutions may be computed by algorithms whose errors are larger than those of sums.
    pub fast_math: bool,
    /// What runs it.
    pub target: Target,
    /// What is scattered is combined in the order of the loops, so that each run gives the same bits.
    /// Otherwise a GPU takes it in any order.
    pub deterministic: bool,
}

/// What a schedule is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// Few threads, with caches and vectors: an operator that only moves bytes and is fused with
    /// nothing may be called, where its kernel is predicted to be quicker than loops.
    Cpu,
    /// Hundreds of thousands of threads: reductions are cut until all of them have work, and a step of
    /// loops is one launch whatever it moves.
    Gpu,
}

impl ScheduleOptions {
    /// For a GPU, in any order where that is quicker.
    ///
    /// ```
    /// use straightline_passes::schedule::{ScheduleOptions, Target};
    /// let options = ScheduleOptions::of_gpu();
    /// assert_eq!((options.target, options.deterministic), (Target::Gpu, false));
    /// ```
    pub fn of_gpu() -> ScheduleOptions {
        ScheduleOptions { target: Target::Gpu, deterministic: false, ..ScheduleOptions::default() }
    }
}

impl Default for ScheduleOptions {
    fn default() -> Self {
        ScheduleOptions {
            max_kernel_ops: 256,
            merge_siblings: true,
            fold_epilogues: true,
            fast_math: false,
            target: Target::Cpu,
            deterministic: true,
        }
    }
}

/// Why a graph has no schedule. The graph verifier finds most of these earlier.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ScheduleError {
    /// The graph has a cycle.
    #[error("the graph has a cycle")]
    Cycle,
    /// An input or parameter node that the graph does not list.
    #[error("{node} is not among the inputs and parameters of the graph")]
    Unlisted {
        /// The node.
        node: String,
    },
    /// A literal of the wrong length.
    #[error("{node} has {elements} elements, its sizes ask for {numel}")]
    Constant {
        /// The node.
        node: String,
        /// How many it has.
        elements: usize,
        /// How many it should have.
        numel: i64,
    },
    /// The shape in the graph differs from that of the operator's result.
    #[error("{node} has sizes {found:?} in the graph, its operator makes {expected:?}")]
    Shape {
        /// The node.
        node: String,
        /// What the operator makes.
        expected: Vec<i64>,
        /// What the graph says.
        found: Vec<i64>,
    },
    /// A view of the storage of an operand that is not dense.
    #[error(
        "{node} sees the storage of an operand that has gaps or repeats elements: take it of a contiguous copy"
    )]
    Storage {
        /// The node.
        node: String,
    },
    /// No order of kernels computes the graph (a view that its source's strides do not allow).
    #[error("{node} can not be scheduled: a view on it is not possible with its strides")]
    Unschedulable {
        /// The node.
        node: String,
    },
    /// The schedule that was made breaks a rule: a defect of this crate.
    #[error("a schedule was made that cannot be run ({0}): please report it")]
    Violation(#[from] ScheduleViolation),
}

/// How errors name a node: `%7 = aten::add.Tensor`.
pub fn node_label(graph: &Graph, id: NodeId) -> String {
    let node = graph.node(id);
    let name = match &node.name {
        Some(n) => format!("%{n}"),
        None => format!("%{}", id.index()),
    };
    match &node.kind {
        NodeKind::Call(c) => format!("{name} = {}", c.op),
        NodeKind::Input => format!("{name} (input)"),
        NodeKind::Parameter => format!("{name} (parameter)"),
        NodeKind::Constant(_) => format!("{name} (constant)"),
        NodeKind::Output => format!("{name} (output)"),
    }
}

#[cfg(test)]
mod tests;
