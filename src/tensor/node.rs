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
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use straightline_catalog::{DType, Device, Dims};

/// Where an edge leads.
#[derive(Clone)]
pub(crate) enum End {
    Node(Arc<Node>),
    /// The node that accumulates the gradient of a leaf, which is made when somebody asks for it:
    /// most graphs are dropped before.
    Leaf(Tensor),
}

/// An end of an edge: an input of a node, which is an output of the operator that made the node.
#[derive(Clone)]
pub(crate) struct Edge {
    pub(crate) end: End,
    pub(crate) nr: u32,
}

impl Edge {
    pub(crate) fn new(node: Arc<Node>, nr: u32) -> Edge {
        Edge { end: End::Node(node), nr }
    }

    pub(crate) fn leaf(t: Tensor) -> Edge {
        Edge { end: End::Leaf(t), nr: 0 }
    }

    /// The node, unless it is that of a leaf.
    pub(crate) fn inner(&self) -> Option<&Arc<Node>> {
        match &self.end {
            End::Node(node) => Some(node),
            End::Leaf(_) => None,
        }
    }

    /// [`Node::id`] of the node.
    pub(crate) fn id(&self) -> usize {
        match &self.end {
            End::Node(node) => node.id(),
            End::Leaf(t) => t.id(),
        }
    }

    /// [`Node::depth`] of the node.
    pub(crate) fn depth(&self) -> u64 {
        self.inner().map_or(0, |node| node.depth)
    }
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

    /// Whether there is anything to release.
    fn holds(&mut self) -> bool {
        true
    }

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
    static DROPPED: RefCell<Dropped> =
        const { RefCell::new(Dropped { active: false, waiting: Vec::new() }) };
}

/// The edges of nodes that are being dropped.
struct Dropped {
    /// Whether a drop is under way that empties the list.
    active: bool,
    waiting: Vec<Edges>,
}

/// Room that the list keeps.
const KEPT: usize = 16;

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

/// How many nodes a thread has made more than it has dropped. Only the thread writes it.
struct Count(Arc<AtomicI64>);

thread_local! {
    static LIVE: Count = Count::new();
}

static COUNTS: Mutex<Vec<Arc<AtomicI64>>> = Mutex::new(Vec::new());
/// The counts of threads that have ended.
static ENDED: AtomicI64 = AtomicI64::new(0);

impl Count {
    fn new() -> Count {
        let count = Arc::new(AtomicI64::new(0));
        COUNTS.lock().unwrap_or_else(PoisonError::into_inner).push(count.clone());
        Count(count)
    }

    #[inline]
    fn add(more: i64) {
        let mine =
            LIVE.try_with(|c| c.0.store(c.0.load(Ordering::Relaxed) + more, Ordering::Relaxed));
        if mine.is_err() {
            ENDED.fetch_add(more, Ordering::Relaxed);
        }
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        let mut counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
        counts.retain(|c| !Arc::ptr_eq(c, &self.0));
        ENDED.fetch_add(self.0.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// How many nodes there are in the process.
pub(crate) fn live_nodes() -> u64 {
    let counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    let running: i64 = counts.iter().map(|c| c.load(Ordering::Relaxed)).sum();
    u64::try_from(running + ENDED.load(Ordering::Relaxed)).unwrap_or_default()
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
        Count::add(1);
        let depth = edges.iter().flatten().map(|e| e.depth() + 1).max().unwrap_or(0);
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

/// A node that is being made, which nobody else has.
///
/// It is filled in where it will stay: a node of some 400 bytes that is built on the stack and then
/// moved costs as much as the rest of a recording call.
pub(crate) struct Fresh<F: Function + 'static>(Arc<Node<F>>);

impl<F: Function + 'static> Fresh<F> {
    /// A node without edges and outputs.
    #[inline]
    pub(crate) fn new(
        sequence: u64,
        op: Option<&'static str>,
        line: Option<&'static Location<'static>>,
        function: F,
    ) -> Fresh<F> {
        Count::add(1);
        let node = Arc::<Node<F>>::new_uninit();
        let place = Arc::as_ptr(&node).cast_mut();
        // SAFETY: the memory is that of the only handle, and is initialised by the write.
        unsafe {
            (*place).write(Node {
                sequence,
                depth: 0,
                edges: SmallVec::new(),
                outputs: SmallVec::new(),
                op,
                line,
                during: None,
                hooks: OnceLock::new(),
                function,
            });
            Fresh(node.assume_init())
        }
    }

    /// The node, which stays as it is from now on.
    #[inline]
    pub(crate) fn share(self) -> Arc<Node<F>> {
        self.0
    }

    /// Adds an edge to a leaf.
    #[inline]
    pub(crate) fn lead_to_leaf(&mut self, leaf: Tensor) {
        self.depth = self.depth.max(1);
        self.edges.push(Some(Edge::leaf(leaf)));
    }

    /// Adds an edge.
    #[inline]
    pub(crate) fn lead_to(&mut self, edge: Option<Edge>) {
        if let Some(edge) = &edge {
            self.depth = self.depth.max(edge.depth() + 1);
        }
        self.edges.push(edge);
    }
}

impl<F: Function + 'static> Deref for Fresh<F> {
    type Target = Node<F>;

    #[inline(always)]
    fn deref(&self) -> &Node<F> {
        &self.0
    }
}

impl<F: Function + 'static> DerefMut for Fresh<F> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Node<F> {
        // SAFETY: the only handle to the node, borrowed exclusively: `share` alone gives it away.
        unsafe { &mut *Arc::as_ptr(&self.0).cast_mut() }
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
    /// What tells nodes apart; that of a leaf is the leaf itself.
    pub(crate) fn id(self: &Arc<Node>) -> usize {
        match self.function.leaf() {
            Some(leaf) => leaf.id(),
            None => Arc::as_ptr(self).cast::<()>() as usize,
        }
    }
}

impl<F: Function + ?Sized> Drop for Node<F> {
    fn drop(&mut self) {
        Count::add(-1);
        // nothing to drop from within
        let last = |e: &Edge| e.inner().is_some_and(|node| Arc::strong_count(node) == 1);
        if self.during.is_none() && !self.function.holds() && !self.edges.iter().flatten().any(last)
        {
            return;
        }
        let edges = std::mem::take(&mut self.edges);
        let during = self.during.take();
        // what is saved may be all that holds nodes further on: they stay alive in the list until
        // it is gone, and end there
        let _ = DROPPED.try_with(|list| {
            let outermost = {
                let mut list = list.borrow_mut();
                list.waiting.push(edges);
                if let Some(node) = during {
                    list.waiting.push(SmallVec::from_elem(Some(Edge::new(node, 0)), 1));
                }
                !std::mem::replace(&mut list.active, true)
            };
            self.function.release();
            if !outermost {
                return;
            }
            loop {
                let next = list.borrow_mut().waiting.pop();
                match next {
                    Some(edges) => drop(edges),
                    None => break,
                }
            }
            let mut list = list.borrow_mut();
            list.active = false;
            list.waiting.shrink_to(KEPT);
        });
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<{}>", self.function.name())
    }
}
