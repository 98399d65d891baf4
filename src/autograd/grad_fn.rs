//! Nodes, as users see them.

use super::graph;
use super::leaf;
use crate::tensor::node::{Edge, Node};
use std::fmt;
use std::sync::Arc;

/// The node that a tensor came out of: the operator's gradient.
#[derive(Clone)]
pub struct GradFn(pub(super) Arc<Node>);

impl GradFn {
    /// PyTorch's name of it.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0])?.requires_grad_(true)?;
    /// assert_eq!(x.mul(&x)?.grad_fn().unwrap().name(), "MulBackward0");
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn name(&self) -> &str {
        self.0.function.name()
    }

    /// The nodes that gradients go to from here, one for each differentiable operand, with the
    /// number of the output that the operand was.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0])?.requires_grad_(true)?;
    /// let next = x.mul(&tensor([2.0])?)?.grad_fn().unwrap().next_functions();
    /// assert_eq!(next[0].as_ref().unwrap().0.name(), "torch::autograd::AccumulateGrad");
    /// assert!(next[1].is_none());
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn next_functions(&self) -> Vec<Option<(GradFn, u32)>> {
        let each = |e: Option<&Edge>| e.map(|e| (GradFn(leaf::node_of(e)), e.nr));
        graph::next(&self.0).map(each).collect()
    }

    /// The user's line whose call made it.
    pub fn line(&self) -> Option<&'static std::panic::Location<'static>> {
        self.0.line
    }

    /// Younger nodes of a thread run first.
    pub fn sequence_nr(&self) -> u64 {
        self.0.sequence
    }
}

impl fmt::Debug for GradFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}>", self.name())
    }
}

/// How many nodes of graphs exist in the process: for tests of what is freed.
///
/// ```
/// let before = straightline::autograd::live_nodes();
/// # let _ = before;
/// ```
pub fn live_nodes() -> u64 {
    crate::tensor::node::live_nodes()
}
