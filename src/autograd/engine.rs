//! The backward pass: nodes run from the results to the leaves, youngest first.
//!
//! A node is ready when all gradients of its inputs have arrived; of the ready ones the one made
//! last runs next, and nodes of leaves at once. The traversal uses lists of its own and no
//! recursion, since graphs are deep. It runs on the thread that asked for it.

use super::anomaly;
use super::callbacks::Collecting;
use super::hooks;
use super::leaf;
use super::mode::GradGuard;
use super::multi_hook;
use super::validate::{apply_hook, as_many, validate};
use crate::dispatch::{AboveAutograd, grad_enabled};
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::tensor::node::{Edge, Node};
use smallvec::SmallVec;
use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::{Arc, PoisonError};
use straightline_catalog::Scalar;

/// What a pass is asked to do.
pub(crate) struct Task<'a> {
    pub(crate) roots: Vec<(Edge, Option<Tensor>)>,
    /// The edges whose gradients are wanted; `None` for all leaves.
    pub(crate) inputs: Option<&'a [Edge]>,
    /// Gradients go to the tensors, and are not given back.
    pub(crate) accumulate: bool,
    pub(crate) keep_graph: bool,
    pub(crate) create_graph: bool,
    /// Whether the hooks of leaves run.
    pub(crate) leaf_hooks: bool,
}

/// A node that is ready.
struct Ready {
    sequence: u64,
    /// Those with one number run in the order in which they became ready.
    arrival: u64,
    node: Arc<Node>,
}

impl Ord for Ready {
    fn cmp(&self, other: &Ready) -> Ordering {
        self.sequence.cmp(&other.sequence).then(other.arrival.cmp(&self.arrival))
    }
}

impl PartialOrd for Ready {
    fn partial_cmp(&self, other: &Ready) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ready {
    fn eq(&self, other: &Ready) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ready {}

/// What is to be done with a node where only some gradients are wanted.
#[derive(Default)]
struct Wanted {
    runs: bool,
    /// Its inputs that are wanted themselves, and the places of their gradients in the result.
    captures: SmallVec<[(u32, usize); 1]>,
}

type Buffer = SmallVec<[Option<Tensor>; 1]>;

struct Pass<'a> {
    task: &'a Task<'a>,
    missing: HashMap<usize, u32, BuildId>,
    buffers: HashMap<usize, Buffer, BuildId>,
    wanted: Option<HashMap<usize, Wanted, BuildId>>,
    ready: BinaryHeap<Ready>,
    arrivals: u64,
    captured: Vec<Option<Tensor>>,
}

/// Addresses need no better hash.
#[derive(Default, Clone, Copy)]
struct BuildId;

struct IdHasher(u64);

impl std::hash::BuildHasher for BuildId {
    type Hasher = IdHasher;

    fn build_hasher(&self) -> IdHasher {
        IdHasher(0)
    }
}

impl std::hash::Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*b);
        }
    }

    fn write_usize(&mut self, id: usize) {
        self.0 = (id as u64 >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

thread_local! {
    /// How many passes of this thread are under way, one within another.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// How many passes may be nested on one stack.
const NESTED: u32 = 60;

/// Runs a pass, and gives the gradients of the inputs.
pub(crate) fn run(task: &Task<'_>) -> Result<Vec<Option<Tensor>>> {
    struct Nested;
    impl Drop for Nested {
        fn drop(&mut self) {
            DEPTH.set(DEPTH.get() - 1);
        }
    }
    DEPTH.set(DEPTH.get() + 1);
    let _nested = Nested;
    let depth = DEPTH.get();
    let pass = || {
        let _grad = GradGuard::set(task.create_graph);
        let _above = AboveAutograd::enter();
        Pass::new(task).run()
    };
    if !depth.is_multiple_of(NESTED) {
        return pass();
    }
    // a stack of its own, on which calls mean the same as on this one
    let keys = crate::dispatch::TlsKeySets::current();
    std::thread::scope(|scope| {
        let on_thread = || {
            DEPTH.set(depth);
            let _keys = crate::dispatch::ForceKeySetGuard::new(keys);
            let done = pass();
            DEPTH.set(0);
            done
        };
        match scope.spawn(on_thread).join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

impl<'a> Pass<'a> {
    fn new(task: &'a Task<'a>) -> Pass<'a> {
        Pass {
            task,
            missing: HashMap::default(),
            buffers: HashMap::default(),
            wanted: None,
            ready: BinaryHeap::new(),
            arrivals: 0,
            captured: std::iter::repeat_with(|| None)
                .take(task.inputs.map_or(0, <[Edge]>::len))
                .collect(),
        }
    }

    fn run(mut self) -> Result<Vec<Option<Tensor>>> {
        let callbacks = Collecting::begin();
        self.count();
        if let Some(inputs) = self.task.inputs {
            self.mark(inputs);
        }
        let task = self.task;
        let _noted = multi_hook::any().then(|| multi_hook::note(self.will_run()));
        for (edge, grad) in &task.roots {
            self.arrive(edge, grad.clone())?;
        }
        let mut started = HashSet::<usize, BuildId>::default();
        for (edge, _) in &task.roots {
            let id = edge.id();
            if started.insert(id) && self.missing.get(&id).copied().unwrap_or(0) == 0 {
                self.push(leaf::node_of(edge));
            }
        }
        while let Some(ready) = self.ready.pop() {
            self.evaluate(&ready.node)?;
        }
        callbacks.call()?;
        Ok(self.captured)
    }

    /// Counts the edges that lead to each node.
    fn count(&mut self) {
        let lowest =
            self.task.inputs.map_or(0, |inputs| inputs.iter().map(Edge::depth).min().unwrap_or(0));
        let mut seen = HashSet::<usize, BuildId>::default();
        let mut stack: Vec<&Arc<Node>> = Vec::new();
        for (edge, _) in &self.task.roots {
            if seen.insert(edge.id()) {
                stack.extend(edge.inner());
            }
        }
        while let Some(node) = stack.pop() {
            if node.depth < lowest {
                continue;
            }
            for edge in node.edges.iter().flatten() {
                *self.missing.entry(edge.id()).or_default() += 1;
                if seen.insert(edge.id()) {
                    stack.extend(edge.inner());
                }
            }
        }
    }

    /// Finds the nodes from which a wanted gradient can be reached.
    fn mark(&mut self, inputs: &[Edge]) {
        let mut wanted = HashMap::<usize, Wanted, BuildId>::default();
        let mut lowest = u64::MAX;
        for (i, edge) in inputs.iter().enumerate() {
            lowest = lowest.min(edge.depth());
            let node = wanted.entry(edge.id()).or_default();
            match self.task.accumulate {
                true => node.runs = true,
                false => node.captures.push((edge.nr, i)),
            }
        }
        // each node after those that its edges lead to
        let mut seen = HashSet::<usize, BuildId>::default();
        let mut stack: Vec<(&Arc<Node>, usize)> = Vec::new();
        for (edge, _) in &self.task.roots {
            if seen.insert(edge.id()) {
                stack.extend(edge.inner().map(|node| (node, 0)));
            }
            while let Some((node, next)) = stack.pop() {
                let follow = node.depth > lowest;
                match node.edges.get(next).filter(|_| follow) {
                    Some(edge) => {
                        stack.push((node, next + 1));
                        if let Some(edge) = edge
                            && seen.insert(edge.id())
                        {
                            stack.extend(edge.inner().map(|node| (node, 0)));
                        }
                    }
                    None => {
                        let leads = node.edges.iter().flatten().any(|e| {
                            wanted.get(&e.id()).is_some_and(|w| w.runs || !w.captures.is_empty())
                        });
                        if leads {
                            wanted.entry(node.id()).or_default().runs = true;
                        }
                    }
                }
            }
        }
        self.wanted = Some(wanted);
    }

    /// What gradients will arrive at, by [`Edge::id`].
    fn will_run(&self) -> HashSet<usize> {
        let mut seen = HashSet::new();
        let roots = self.task.roots.iter().map(|(edge, _)| edge);
        let mut stack: Vec<&Edge> = roots.filter(|edge| seen.insert(edge.id())).collect();
        while let Some(edge) = stack.pop() {
            let stays =
                |w: &HashMap<usize, Wanted, BuildId>| w.get(&edge.id()).is_none_or(|w| !w.runs);
            let Some(node) = edge.inner() else { continue };
            if self.wanted.as_ref().is_some_and(stays) {
                continue;
            }
            let next = node.edges.iter().flatten().filter(|e| self.leads(Some(e)));
            stack.extend(next.filter(|e| seen.insert(e.id())));
        }
        seen
    }

    /// Whether a gradient along an edge is of any use.
    fn leads(&self, edge: Option<&Edge>) -> bool {
        match (edge, &self.wanted) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(edge), Some(wanted)) => {
                wanted.get(&edge.id()).is_some_and(|w| w.runs || !w.captures.is_empty())
            }
        }
    }

    fn push(&mut self, node: Arc<Node>) {
        self.arrivals += 1;
        self.ready.push(Ready { sequence: node.sequence, arrival: self.arrivals, node });
    }

    /// A gradient arrives at an input of a node.
    fn arrive(&mut self, edge: &Edge, grad: Option<Tensor>) -> Result<()> {
        let buffer = self.buffers.entry(edge.id()).or_default();
        let nr = edge.nr as usize;
        if buffer.len() <= nr {
            let outputs = edge.inner().map_or(1, |node| node.outputs.len());
            buffer.resize_with((nr + 1).max(outputs), || None);
        }
        let Some(grad) = grad else { return Ok(()) };
        let place = &mut buffer[nr];
        *place = Some(match place.take() {
            None => grad,
            Some(old) => sum(old, grad)?,
        });
        Ok(())
    }

    fn evaluate(&mut self, node: &Arc<Node>) -> Result<()> {
        let mut grads: Vec<Option<Tensor>> =
            self.buffers.remove(&node.id()).unwrap_or_default().into_vec();
        grads.resize_with(node.outputs.len().max(grads.len()), || None);
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let hooks = node.hooks().map(|h| h.clone());
        if let Some(hooks) = hooks {
            for (_, nr, hook) in &hooks.tensor {
                apply_hook(&mut grads[*nr as usize], |g| hook(g))?;
            }
            for (nr, cell) in &hooks.retained {
                let kept = grads[*nr as usize].clone();
                let gone = std::mem::replace(
                    &mut *cell.lock().unwrap_or_else(PoisonError::into_inner),
                    kept,
                );
                drop(gone);
            }
            (before, after) = (hooks.before, hooks.after);
        }
        if let Some(leaf) = node.function.leaf().filter(|_| self.task.leaf_hooks) {
            for hook in hooks::of_leaf(leaf) {
                apply_hook(&mut grads[0], |g| hook(g))?;
            }
        }
        if let Some(wanted) = &self.wanted {
            let Some(w) = wanted.get(&node.id()) else { return Ok(()) };
            for (nr, place) in &w.captures {
                self.captured[*place] = grads[*nr as usize].clone();
            }
            if !w.runs {
                return Ok(());
            }
        }
        for (_, hook) in &before {
            if let Some(new) = hook(&grads)? {
                grads = as_many(&grads, new)?;
            }
        }
        let seen = (!after.is_empty()).then(|| grads.clone());
        let mut given = {
            let this = &*self;
            let wanted = |i: usize| this.leads(node.edges.get(i).and_then(Option::as_ref));
            let _running = anomaly::running(node);
            let given = node.function.apply(node, grads, &wanted, this.task.keep_graph);
            given.map_err(|e| anomaly::explained(e, node))?
        };
        validate(node, &mut given)?;
        if let Some(seen) = seen {
            for (_, hook) in &after {
                if let Some(new) = hook(&given, &seen)? {
                    given = as_many(&given, new)?;
                }
            }
        }
        if !self.task.keep_graph {
            node.function.release();
        }
        anomaly::check(node, &given)?;
        for (edge, grad) in node.edges.iter().zip(given) {
            let Some(edge) = edge else { continue };
            if self.wanted.is_some() && !self.leads(Some(edge)) {
                continue;
            }
            self.arrive(edge, grad)?;
            let Some(missing) = self.missing.get_mut(&edge.id()) else { continue };
            *missing = missing.saturating_sub(1);
            if *missing == 0 {
                self.push(leaf::node_of(edge));
            }
        }
        Ok(())
    }
}

/// The sum of two gradients of one tensor.
fn sum(old: Tensor, new: Tensor) -> Result<Tensor> {
    let own = !grad_enabled()
        && old.is_alone()
        && old.is_contiguous()
        && old.sizes() == new.sizes()
        && old.dtype() == new.dtype()
        && old.kind_without_memory().is_none()
        && !old.may_be_dual();
    match own {
        true => aten::add_tensor_(&old, &new, Scalar::Int(1)),
        false => aten::add_tensor(&old, &new, Scalar::Int(1)),
    }
}
