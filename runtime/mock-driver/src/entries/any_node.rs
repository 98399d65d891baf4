//! Nodes of any kind through one struct, `CUgraphNodeParams`.

use crate::abi::{
    AllocationNode, Copy3, Edge, FillNode, Handle, HostNode, KernelNode, NodeParameters,
};
use crate::code::{Code, Outcome};
use crate::door::{In, Out, entries};
use crate::driver::Session;
use crate::driver::graph::Node;
use crate::driver::memory::Owner;
use crate::driver::work::Work;
use crate::entries::exec::change;
use crate::entries::node::{host_of, kernel_of};
use std::sync::Arc;

/// Where the copy is in `CUDA_MEMCPY_NODE_PARAMS`: behind flags and a context.
const COPY: usize = 16;

/// What parameters say, memory of a graph's own excepted.
fn work_of(session: &Session, given: &NodeParameters) -> Outcome<Work> {
    let at = (&raw const given.value).expose_provenance();
    let [first, ..] = given.value;
    let handle = first as Handle;
    Ok(match given.kind {
        0 => Work::Kernel(kernel_of(session, &In::<KernelNode>::at(at).get()?)?),
        1 => Work::Copy(session.copy_of(&In::<Copy3>::at(at + COPY).get()?)?),
        2 => Work::Fill(session.fill_of(&In::<FillNode>::at(at).get()?)?),
        3 => host_of(&In::<HostNode>::at(at).get()?)?,
        4 => {
            let graph = session.graphs.get(&handle).ok_or(Code::INVALID_VALUE)?;
            Work::Graph(Arc::new(graph.nodes.clone()))
        }
        5 => Work::Empty,
        6 | 7 if !session.events.contains_key(&handle) => return Err(Code::INVALID_HANDLE),
        6 => Work::Wait { event: handle },
        7 => Work::Record { event: handle, number: None },
        11 => match session.allocations.get(&first).map(|block| block.owner) {
            Some(Owner::Graph(_)) => Work::Free { address: first },
            _ => return Err(Code::INVALID_VALUE),
        },
        _ => return Err(Code::NOT_SUPPORTED),
    })
}

entries! {
    Code;

    fn cuGraphAddNode_v2(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        _edges: In<Edge>,
        count: usize,
        parameters: Out<NodeParameters>,
    ) {
        let mut given = parameters.get()?;
        let mut session = Session::open();
        let after = after.all(count)?;
        let work = if given.kind == 10 {
            let context = session.context()?;
            let at = (&raw const given.value).expose_provenance();
            let wanted = In::<AllocationNode>::at(at).get()?;
            let device = session.device(wanted.pool.location.id)?;
            let bytes = wanted.bytes as u64;
            let address = session.graph_memory(context, device, graph, bytes)?;
            // the last field says where it is
            given.value[size_of::<AllocationNode>() / 8 - 1] = address;
            parameters.set(given)?;
            Work::Allocate { address, bytes }
        } else {
            work_of(&session, &given)?
        };
        node.set(session.add_node(graph, Node::new(work, after))?)
    }

    fn cuGraphNodeSetParams(node: Handle, parameters: In<NodeParameters>) {
        let mut session = Session::open();
        let work = work_of(&session, &parameters.get()?)?;
        session.set_node(node, work)
    }

    fn cuGraphExecNodeSetParams(
        executable: Handle,
        node: Handle,
        parameters: In<NodeParameters>,
    ) {
        let parameters = parameters.get()?;
        change(executable, node, |session| work_of(session, &parameters))
    }
}
