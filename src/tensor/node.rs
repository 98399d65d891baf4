//! Nodes of the graph that gradients flow through, and the edges between them.
//!
//! A node is a function from the gradients of an operator's results to those of its operands. It is
//! made when the operator is called and never changes afterwards, except that its function may be
//! relieved of what it saved, and hooks may be added. What functions there are is up to the
//! `autograd` room; here is only what tensors hold.
//!
//! Graphs are deep: a chain of a million nodes is an ordinary training loop that nobody ended. So
//! the last handle of a node does not drop its successors from within, which would recurse; they go
//! to a list of the thread that the outermost drop empties. Saved tensors hold nodes as well, and
//! are dropped while the list keeps those alive.

use super::Tensor;
use crate::error::Result;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use straightline_catalog::{DType, Device, Dims};

/// An end of an edge: an input of a node, which is an output of the operator that made the node.
#[derive(Clone)]
pub(crate) struct Edge {
    pub(crate) node: Arc<Node>,
    pub(crate) nr: u32,
}

/// One slot for each differentiable operand; empty where that needs no gradient.
pub(crate) type Edges = SmallVec<[Option<Edge>; 2]>;

/// What an operator's result was like: what its gradient has to be like.
#[derive(Clone, Debug)]
pub(crate) struct OutputMeta {
    pub(crate) dtype: DType,
    pub(crate) device: Device,
    pub(crate) sizes: Dims,
}

impl OutputMeta {
    pub(crate) fn of(t: &Tensor) -> OutputMeta {
        OutputMeta { dtype: t.dtype(), device: t.device(), sizes: Dims::from_slice(t.sizes()) }
    }
}

/// What a node computes.
pub(crate) trait Function: Send + Sync {
    /// The node's name, `MulBackward0`.
    fn name(&self) -> &str;

    /// The gradients along the node's edges, from those of its inputs. `wanted` says which edges
    /// lead anywhere in this run; with `keep` what was saved is still needed afterwards.
    fn apply(
        &self,
        node: &Arc<Node>,
        grads: Vec<Option<Tensor>>,
        wanted: &dyn Fn(usize) -> bool,
        keep: bool,
    ) -> Result<Vec<Option<Tensor>>>;

    /// Drops what was saved.
    fn release(&self) {}

    /// The leaf whose gradient the node accumulates, if it does that.
    fn leaf(&self) -> Option<&Tensor> {
        None
    }
}

type TensorHook = Arc<dyn Fn(Option<&Tensor>) -> Result<Option<Tensor>> + Send + Sync>;
type PreHook = Arc<dyn Fn(&[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync>;
type PostHook = Arc<
    dyn Fn(&[Option<Tensor>], &[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>>
        + Send
        + Sync,
>;

/// The hooks of a node, in the order in which they run.
#[derive(Default, Clone)]
pub(crate) struct Hooks {
    /// Of the gradient of one output.
    pub(crate) tensor: Vec<(u64, u32, TensorHook)>,
    /// Where gradients that tensors asked for are put.
    pub(crate) retained: Vec<(u32, Arc<Mutex<Option<Tensor>>>)>,
    pub(crate) before: Vec<(u64, PreHook)>,
    pub(crate) after: Vec<(u64, PostHook)>,
}

/// See the module.
pub(crate) struct Node<F: Function + ?Sized = dyn Function> {
    /// Younger nodes run first.
    pub(crate) sequence: u64,
    /// No path is longer.
    pub(crate) depth: u64,
    pub(crate) edges: Edges,
    /// `None` for results that have no gradient.
    pub(crate) outputs: SmallVec<[Option<OutputMeta>; 1]>,
    /// The operator whose call made it, `aten::mul.Tensor`.
    pub(crate) op: Option<&'static str>,
    /// The line of that call.
    pub(crate) line: Option<&'static Location<'static>>,
    /// The node that ran when this one was made, under anomaly detection.
    pub(crate) during: Option<Arc<Node>>,
    hooks: OnceLock<Box<Mutex<Hooks>>>,
    pub(crate) function: F,
}

thread_local! {
    static SEQUENCE: Cell<u64> = const { Cell::new(0) };
    static DROPPED: RefCell<Option<Vec<Edges>>> = const { RefCell::new(None) };
}

/// The next sequence number of this thread.
pub(crate) fn next_sequence() -> u64 {
    SEQUENCE.with(|s| {
        let now = s.get();
        s.set(now + 1);
        now
    })
}

/// Sequence number of nodes that run as soon as they can.
pub(crate) const AT_ONCE: u64 = u64::MAX;

static LIVE: AtomicU64 = AtomicU64::new(0);

/// How many nodes there are in the process.
pub(crate) fn live_nodes() -> u64 {
    LIVE.load(Ordering::Relaxed)
}

impl<F: Function + 'static> Node<F> {
    pub(crate) fn new(
        sequence: u64,
        edges: Edges,
        outputs: SmallVec<[Option<OutputMeta>; 1]>,
        op: Option<&'static str>,
        line: Option<&'static Location<'static>>,
        function: F,
    ) -> Node<F> {
        LIVE.fetch_add(1, Ordering::Relaxed);
        let depth = edges.iter().flatten().map(|e| e.node.depth + 1).max().unwrap_or(0);
        Node {
            sequence,
            depth,
            edges,
            outputs,
            op,
            line,
            during: None,
            hooks: OnceLock::new(),
            function,
        }
    }
}

impl<F: Function + ?Sized> Node<F> {
    /// The hooks, if there have ever been any.
    pub(crate) fn hooks(&self) -> Option<MutexGuard<'_, Hooks>> {
        self.hooks.get().map(|h| h.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The hooks, to add one.
    pub(crate) fn hooks_mut(&self) -> MutexGuard<'_, Hooks> {
        let hooks = self.hooks.get_or_init(Box::default);
        hooks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node {
    /// What tells nodes apart.
    pub(crate) fn id(self: &Arc<Node>) -> usize {
        Arc::as_ptr(self).cast::<()>() as usize
    }
}

impl<F: Function + ?Sized> Drop for Node<F> {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        let edges = std::mem::take(&mut self.edges);
        let during = self.during.take();
        // what is saved may be all that holds nodes further on: they stay alive in the list until
        // it is gone, and end there
        let _ = DROPPED.try_with(|list| {
            let outermost = {
                let mut list = list.borrow_mut();
                let outermost = list.is_none();
                let waiting = list.get_or_insert_default();
                waiting.push(edges);
                if let Some(node) = during {
                    waiting.push(SmallVec::from_elem(Some(Edge { node, nr: 0 }), 1));
                }
                outermost
            };
            self.function.release();
            if !outermost {
                return;
            }
            loop {
                let next = list.borrow_mut().as_mut().and_then(Vec::pop);
                match next {
                    Some(edges) => drop(edges),
                    None => break,
                }
            }
            *list.borrow_mut() = None;
        });
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<{}>", self.function.name())
    }
}
