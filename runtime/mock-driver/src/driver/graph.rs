//! Graphs and what is instantiated from them.

use super::memory::Owner;
use super::work::Work;
use super::{Driver, Order, new_handle};
use crate::abi::{Handle, UpdateResult};
use crate::code::{Code, Outcome};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A node of a graph.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) handle: Handle,
    pub(crate) work: Work,
    /// the nodes that it comes after
    pub(crate) after: Vec<Handle>,
    pub(crate) enabled: bool,
}

impl Node {
    /// A node without a handle yet.
    pub(crate) fn new(work: Work, after: Vec<Handle>) -> Node {
        Node { handle: 0, work, after, enabled: true }
    }
}

/// A graph under construction.
#[derive(Clone, Default)]
pub(crate) struct Graph {
    /// in the order in which they were added
    pub(crate) nodes: Vec<Node>,
    /// memory of its allocation nodes
    pub(crate) memory: Blocks,
    /// the graph that it was cloned from: nodes there, and here
    pub(crate) origin: BTreeMap<Handle, Handle>,
}

/// Addresses of blocks that live as long as a graph or an executable that has them: the one that
/// gives up the last of a block's references gives the block back.
pub(crate) type Blocks = Vec<Arc<u64>>;

impl Graph {
    pub(crate) fn node(&self, handle: Handle) -> Option<&Node> {
        self.nodes.iter().find(|node| node.handle == handle)
    }

    /// Whether a node is one of `from` or comes before one.
    pub(crate) fn reaches(&self, from: &[Handle], node: Handle) -> bool {
        let mut seen = BTreeSet::new();
        let mut open = from.to_vec();
        while let Some(at) = open.pop() {
            if at == node {
                return true;
            }
            if seen.insert(at)
                && let Some(row) = self.node(at)
            {
                open.extend(&row.after);
            }
        }
        false
    }
}

/// An instantiated graph.
#[derive(Clone)]
pub(crate) struct Executable {
    /// as launched; shared with launches that are queued
    pub(crate) nodes: Arc<Vec<Node>>,
    pub(crate) memory: Blocks,
    pub(crate) flags: u64,
    /// the task of its last launch: launches of one executable never overlap
    pub(crate) last: Option<u64>,
    pub(crate) launched: bool,
}

/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`
pub(crate) const AUTO_FREE: u64 = 1;

impl Driver {
    /// Adds a node to a graph.
    pub(crate) fn add_node(&mut self, handle: Handle, mut node: Node) -> Outcome<Handle> {
        let graph = self.graphs.get_mut(&handle).ok_or(Code::INVALID_VALUE)?;
        if node.after.iter().any(|before| graph.node(*before).is_none()) {
            return Err(Code::INVALID_VALUE);
        }
        node.after.sort_unstable();
        node.after.dedup();
        node.handle = new_handle();
        let number = node.handle;
        graph.nodes.push(node);
        self.nodes.insert(number, handle);
        Ok(number)
    }

    /// Memory for an allocation node of a graph.
    pub(crate) fn graph_memory(
        &mut self,
        context: Handle,
        device: usize,
        graph: Handle,
        bytes: u64,
    ) -> Outcome<u64> {
        if !self.graphs.contains_key(&graph) {
            return Err(Code::INVALID_VALUE);
        }
        let address = self.allocate(context, device, bytes, Owner::Graph(graph))?;
        if let Some(graph) = self.graphs.get_mut(&graph) {
            graph.memory.push(Arc::new(address));
        }
        Ok(address)
    }

    /// The graph of a node, and the node.
    pub(crate) fn node(&self, handle: Handle) -> Outcome<(Handle, &Node)> {
        let graph = *self.nodes.get(&handle).ok_or(Code::INVALID_VALUE)?;
        let row = self.graphs.get(&graph).and_then(|graph| graph.node(handle));
        row.map(|node| (graph, node)).ok_or(Code::INVALID_VALUE)
    }

    /// Changes what a node of a graph does, to something of the same kind.
    pub(crate) fn set_node(&mut self, handle: Handle, work: Work) -> Outcome {
        let (graph, node) = self.node(handle)?;
        if node.work.kind() != work.kind() {
            return Err(Code::INVALID_VALUE);
        }
        let graph = self.graphs.get_mut(&graph).ok_or(Code::INVALID_VALUE)?;
        if let Some(node) = graph.nodes.iter_mut().find(|node| node.handle == handle) {
            node.work = work;
        }
        Ok(())
    }

    /// Changes what a node of an executable does; `handle` is the node of the graph that it was
    /// instantiated from.
    pub(crate) fn set_executable_node(
        &mut self,
        executable: Handle,
        handle: Handle,
        change: impl FnOnce(&mut Node) -> Outcome,
    ) -> Outcome {
        let row = self.executables.get_mut(&executable).ok_or(Code::INVALID_VALUE)?;
        let nodes = Arc::make_mut(&mut row.nodes);
        let node = nodes.iter_mut().find(|node| node.handle == handle);
        change(node.ok_or(Code::INVALID_VALUE)?)
    }

    /// Takes a graph away; what was instantiated from it stays.
    pub(crate) fn destroy_graph(&mut self, handle: Handle) {
        if let Some(graph) = self.graphs.remove(&handle) {
            for node in &graph.nodes {
                self.nodes.remove(&node.handle);
            }
            self.give_up(graph.memory);
        }
    }

    /// A graph or an executable goes: blocks that nobody else has are given back.
    pub(crate) fn give_up(&mut self, memory: Blocks) {
        for address in memory.into_iter().filter_map(Arc::into_inner) {
            self.release(address);
        }
    }

    /// A copy of a graph, with nodes of its own.
    pub(crate) fn clone_graph(&mut self, handle: Handle) -> Outcome<Handle> {
        let mut graph = self.graphs.get(&handle).ok_or(Code::INVALID_VALUE)?.clone();
        let copy = new_handle();
        graph.origin = graph.nodes.iter().map(|node| (node.handle, new_handle())).collect();
        for node in &mut graph.nodes {
            node.handle = graph.origin[&node.handle];
            for before in &mut node.after {
                *before = graph.origin[before];
            }
            self.nodes.insert(node.handle, copy);
        }
        self.graphs.insert(copy, graph);
        Ok(copy)
    }

    /// The nodes in an order in which they can run: the first added first if the order is eager,
    /// the last of those that can run if it is lazy, any if it is random.
    pub(crate) fn sort(&mut self, nodes: &[Node]) -> Option<Vec<Node>> {
        let places: BTreeMap<Handle, usize> =
            nodes.iter().enumerate().map(|(place, node)| (node.handle, place)).collect();
        let mut dependents = vec![Vec::new(); nodes.len()];
        for (place, node) in nodes.iter().enumerate() {
            for before in &node.after {
                dependents[*places.get(before)?].push(place);
            }
        }
        let mut waits: Vec<usize> = nodes.iter().map(|node| node.after.len()).collect();
        let mut ready: BTreeSet<usize> =
            (0..nodes.len()).filter(|place| waits[*place] == 0).collect();
        let mut sorted = Vec::with_capacity(nodes.len());
        loop {
            let chosen = match self.configuration.order {
                Order::Eager => ready.first(),
                Order::Lazy => ready.last(),
                Order::Random(_) => {
                    let chance = self.draw(ready.len());
                    ready.iter().nth(chance)
                }
            };
            let Some(&place) = chosen else { break };
            ready.remove(&place);
            sorted.push(nodes[place].clone());
            for &dependent in &dependents[place] {
                waits[dependent] -= 1;
                if waits[dependent] == 0 {
                    ready.insert(dependent);
                }
            }
        }
        // what is on a cycle, or behind one, never became ready
        (sorted.len() == nodes.len()).then_some(sorted)
    }

    /// Instantiates a graph.
    pub(crate) fn instantiate(&mut self, handle: Handle, flags: u64) -> Outcome<Handle> {
        if self.captures.values().any(|capture| capture.graph == handle) {
            return Err(Code::INVALID_VALUE);
        }
        let graph = self.graphs.get(&handle).ok_or(Code::INVALID_VALUE)?.clone();
        if self.sort(&graph.nodes).is_none() {
            return Err(Code::INVALID_VALUE);
        }
        let executable = new_handle();
        self.executables.insert(
            executable,
            Executable {
                nodes: Arc::new(graph.nodes),
                memory: graph.memory,
                flags,
                last: None,
                launched: false,
            },
        );
        Ok(executable)
    }

    /// Has an executable do what a graph of the same shape does. The result says what differs.
    pub(crate) fn update(
        &mut self,
        executable: Handle,
        graph: Handle,
    ) -> Outcome<Result<(), UpdateResult>> {
        let row = self.executables.get(&executable).ok_or(Code::INVALID_VALUE)?;
        let new = self.graphs.get(&graph).ok_or(Code::INVALID_VALUE)?;
        let old = row.nodes.clone();
        let differs = |result, node, from| Ok(Err(UpdateResult { result, node, from }));
        if old.len() != new.nodes.len() {
            // topology
            return differs(2, new.nodes.last().map_or(0, |node| node.handle), 0);
        }
        let place = |nodes: &[Node], handle| nodes.iter().position(|node| node.handle == handle);
        for (before, after) in old.iter().zip(&new.nodes) {
            let edges = |nodes: &[Node], node: &Node| -> Vec<_> {
                node.after.iter().map(|before| place(nodes, *before)).collect()
            };
            if edges(&old, before) != edges(&new.nodes, after) {
                return differs(2, after.handle, after.after.first().copied().unwrap_or(0));
            }
            if before.work.kind() != after.work.kind() {
                return differs(3, after.handle, 0);
            }
            let parameters_differ = match (&before.work, &after.work) {
                // memory stays where it is, and a copy keeps its kinds of memory
                (Work::Allocate { address: old, .. }, Work::Allocate { address: new, .. })
                | (Work::Free { address: old }, Work::Free { address: new }) => old != new,
                (Work::Copy(old), Work::Copy(new)) => {
                    let kind = |side: &super::work::Side| {
                        matches!(side.place, super::work::Place::Device(_))
                    };
                    kind(&old.from) != kind(&new.from) || kind(&old.to) != kind(&new.to)
                }
                (Work::Kernel(old), Work::Kernel(new)) if old.cooperative != new.cooperative => {
                    return differs(8, after.handle, 0);
                }
                (Work::Kernel(_), Work::Product(_)) | (Work::Product(_), Work::Kernel(_)) => {
                    return differs(7, after.handle, 0);
                }
                _ => false,
            };
            if parameters_differ {
                return differs(5, after.handle, 0);
            }
        }
        // handles stay those of the graph that was instantiated
        let updated: Vec<Node> = old
            .iter()
            .zip(&new.nodes)
            .map(|(before, after)| Node { work: after.work.clone(), ..before.clone() })
            .collect();
        if let Some(row) = self.executables.get_mut(&executable) {
            row.nodes = Arc::new(updated);
        }
        Ok(Ok(()))
    }

    /// `cuGraphDebugDotPrint`.
    pub(crate) fn dot(&self, graph: &Graph) -> String {
        let mut text = String::from("digraph dot {\n");
        for (index, node) in graph.nodes.iter().enumerate() {
            let detail = match &node.work {
                Work::Kernel(kernel) => {
                    let name = self.functions.get(&kernel.function).map(|function| &*function.name);
                    format!(
                        "\\n{}\\ngrid {:?} block {:?} shared {}",
                        name.unwrap_or("unloaded"),
                        kernel.grid,
                        kernel.block,
                        kernel.shared
                    )
                }
                Work::Copy(copy) => format!("\\n{} bytes", copy.width * copy.height * copy.depth),
                Work::Fill(fill) => format!("\\n{} elements", fill.width * fill.height.max(1)),
                _ => String::new(),
            };
            text += &format!("  n{index} [label=\"{} {index}{detail}\"];\n", node.work.label());
            for before in &node.after {
                if let Some(from) = graph.nodes.iter().position(|node| node.handle == *before) {
                    text += &format!("  n{from} -> n{index};\n");
                }
            }
        }
        text + "}\n"
    }
}
