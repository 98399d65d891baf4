//! Graphs: what they are made of, and what they look like.

use crate::abi::{Edge, Handle};
use crate::code::{Code, Outcome};
use crate::door::{In, Out, Text, entries};
use crate::driver::graph::{Graph, Node};
use crate::driver::work::Work;
use crate::driver::{Session, new_handle};
use std::ffi::c_uint;
use std::sync::Arc;

/// Gives a list: as many as there is room for, or their number.
pub(crate) fn list(items: &[Handle], to: &Out<Handle>, count: &Out<usize>) -> Outcome {
    if to.is_null() {
        return count.set(items.len());
    }
    let room = count.get()?;
    // room that is left over is filled with nulls
    let padded = items.iter().copied().chain(std::iter::repeat(0)).take(room);
    to.set_all(padded)?;
    count.set(items.len().min(room))
}

fn edges(graph: Handle, from: &Out<Handle>, to: &Out<Handle>, count: &Out<usize>) -> Outcome {
    let session = Session::open();
    let nodes = &session.graphs.get(&graph).ok_or(Code::INVALID_VALUE)?.nodes;
    let pairs: Vec<(Handle, Handle)> = nodes
        .iter()
        .flat_map(|node| node.after.iter().map(move |before| (*before, node.handle)))
        .collect();
    if from.is_null() || to.is_null() {
        return count.set(pairs.len());
    }
    let room = count.get()?;
    from.set_all(pairs.iter().take(room).map(|pair| pair.0))?;
    to.set_all(pairs.iter().take(room).map(|pair| pair.1))?;
    count.set(pairs.len().min(room))
}

fn dependencies(node: Handle, nodes: &Out<Handle>, count: &Out<usize>) -> Outcome {
    let session = Session::open();
    let (_, row) = session.node(node)?;
    list(&row.after, nodes, count)
}

fn dependents(node: Handle, nodes: &Out<Handle>, count: &Out<usize>) -> Outcome {
    let session = Session::open();
    let (graph, _) = session.node(node)?;
    let after = session.graphs[&graph].nodes.iter().filter(|other| other.after.contains(&node));
    let handles: Vec<Handle> = after.map(|other| other.handle).collect();
    list(&handles, nodes, count)
}

fn connect(graph: Handle, from: In<Handle>, to: In<Handle>, count: usize, add: bool) -> Outcome {
    let mut session = Session::open();
    let graph = session.graphs.get_mut(&graph).ok_or(Code::INVALID_VALUE)?;
    for (from, to) in from.all(count)?.into_iter().zip(to.all(count)?) {
        if graph.node(from).is_none() || from == to {
            return Err(Code::INVALID_VALUE);
        }
        let node = graph.nodes.iter_mut().find(|node| node.handle == to);
        let after = &mut node.ok_or(Code::INVALID_VALUE)?.after;
        match (after.iter().position(|before| *before == from), add) {
            (None, true) => after.push(from),
            (Some(at), false) => {
                after.remove(at);
            }
            _ => return Err(Code::INVALID_VALUE),
        }
        after.sort_unstable();
    }
    Ok(())
}

entries! {
    Code;

    fn cuGraphCreate(graph: Out<Handle>, flags: c_uint) {
        let mut session = Session::open();
        if !session.initialized {
            return Err(Code::NOT_INITIALIZED);
        }
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let handle = new_handle();
        session.graphs.insert(handle, Graph::default());
        graph.set(handle)
    }

    fn cuGraphDestroy(graph: Handle) {
        let mut session = Session::open();
        if !session.graphs.contains_key(&graph) {
            return Err(Code::INVALID_VALUE);
        }
        session.destroy_graph(graph);
        Ok(())
    }

    fn cuGraphClone(copy: Out<Handle>, graph: Handle) {
        copy.set(Session::open().clone_graph(graph)?)
    }

    fn cuGraphNodeFindInClone(node: Out<Handle>, original: Handle, clone: Handle) {
        let session = Session::open();
        let graph = session.graphs.get(&clone).ok_or(Code::INVALID_VALUE)?;
        node.set(*graph.origin.get(&original).ok_or(Code::INVALID_VALUE)?)
    }

    fn cuGraphGetNodes(graph: Handle, nodes: Out<Handle>, count: Out<usize>) {
        let session = Session::open();
        let graph = session.graphs.get(&graph).ok_or(Code::INVALID_VALUE)?;
        let handles: Vec<Handle> = graph.nodes.iter().map(|node| node.handle).collect();
        list(&handles, &nodes, &count)
    }

    fn cuGraphGetRootNodes(graph: Handle, nodes: Out<Handle>, count: Out<usize>) {
        let session = Session::open();
        let graph = session.graphs.get(&graph).ok_or(Code::INVALID_VALUE)?;
        let roots = graph.nodes.iter().filter(|node| node.after.is_empty());
        let handles: Vec<Handle> = roots.map(|node| node.handle).collect();
        list(&handles, &nodes, &count)
    }

    fn cuGraphGetEdges(graph: Handle, from: Out<Handle>, to: Out<Handle>, count: Out<usize>) {
        edges(graph, &from, &to, &count)
    }

    fn cuGraphGetEdges_v2(
        graph: Handle,
        from: Out<Handle>,
        to: Out<Handle>,
        _data: Out<Edge>,
        count: Out<usize>,
    ) {
        edges(graph, &from, &to, &count)
    }

    fn cuGraphNodeGetDependencies(node: Handle, nodes: Out<Handle>, count: Out<usize>) {
        dependencies(node, &nodes, &count)
    }

    fn cuGraphNodeGetDependencies_v2(
        node: Handle,
        nodes: Out<Handle>,
        _data: Out<Edge>,
        count: Out<usize>,
    ) {
        dependencies(node, &nodes, &count)
    }

    fn cuGraphNodeGetDependentNodes(node: Handle, nodes: Out<Handle>, count: Out<usize>) {
        dependents(node, &nodes, &count)
    }

    fn cuGraphNodeGetDependentNodes_v2(
        node: Handle,
        nodes: Out<Handle>,
        _data: Out<Edge>,
        count: Out<usize>,
    ) {
        dependents(node, &nodes, &count)
    }

    fn cuGraphNodeGetType(node: Handle, kind: Out<c_uint>) {
        kind.set(Session::open().node(node)?.1.work.kind())
    }

    fn cuGraphNodeGetContainingGraph(node: Handle, graph: Out<Handle>) {
        graph.set(Session::open().node(node)?.0)
    }

    fn cuGraphAddDependencies(graph: Handle, from: In<Handle>, to: In<Handle>, count: usize) {
        connect(graph, from, to, count, true)
    }

    fn cuGraphAddDependencies_v2(
        graph: Handle,
        from: In<Handle>,
        to: In<Handle>,
        _data: In<Edge>,
        count: usize,
    ) {
        connect(graph, from, to, count, true)
    }

    fn cuGraphRemoveDependencies(graph: Handle, from: In<Handle>, to: In<Handle>, count: usize) {
        connect(graph, from, to, count, false)
    }

    fn cuGraphRemoveDependencies_v2(
        graph: Handle,
        from: In<Handle>,
        to: In<Handle>,
        _data: In<Edge>,
        count: usize,
    ) {
        connect(graph, from, to, count, false)
    }

    fn cuGraphDestroyNode(node: Handle) {
        let mut session = Session::open();
        let (graph, row) = session.node(node)?;
        if matches!(row.work, Work::Allocate { .. } | Work::Free { .. }) {
            return Err(Code::NOT_SUPPORTED);
        }
        session.nodes.remove(&node);
        let graph = session.graphs.get_mut(&graph).ok_or(Code::INVALID_VALUE)?;
        graph.nodes.retain(|other| other.handle != node);
        for other in &mut graph.nodes {
            other.after.retain(|before| *before != node);
        }
        Ok(())
    }

    fn cuGraphAddEmptyNode(node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize) {
        let mut session = Session::open();
        node.set(session.add_node(graph, Node::new(Work::Empty, after.all(count)?))?)
    }

    fn cuGraphAddChildGraphNode(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        child: Handle,
    ) {
        let mut session = Session::open();
        let inner = session.graphs.get(&child).ok_or(Code::INVALID_VALUE)?;
        if !inner.memory.is_empty() {
            return Err(Code::NOT_SUPPORTED);
        }
        let work = Work::Graph(Arc::new(inner.nodes.clone()));
        node.set(session.add_node(graph, Node::new(work, after.all(count)?))?)
    }

    fn cuGraphAddEventRecordNode(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        event: Handle,
    ) {
        let mut session = Session::open();
        session.event(event)?;
        let work = Work::Record { event, number: None };
        node.set(session.add_node(graph, Node::new(work, after.all(count)?))?)
    }

    fn cuGraphAddEventWaitNode(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        event: Handle,
    ) {
        let mut session = Session::open();
        session.event(event)?;
        node.set(session.add_node(graph, Node::new(Work::Wait { event }, after.all(count)?))?)
    }

    fn cuGraphDebugDotPrint(graph: Handle, path: Text, _flags: c_uint) {
        let session = Session::open();
        let graph = session.graphs.get(&graph).ok_or(Code::INVALID_VALUE)?;
        std::fs::write(path.get()?, session.dot(graph)).map_err(|_| Code::OPERATING_SYSTEM)
    }
}
