//! Nodes of graphs: what they do, and changing it.

use crate::abi::{AllocationNode, Copy3, FillNode, Handle, HostNode, KernelNode};
use crate::code::{Code, Outcome};
use crate::door::{In, Out, entries};
use crate::driver::function::Request;
use crate::driver::graph::Node;
use crate::driver::memory::Owner;
use crate::driver::work::{Copy, Kernel, Place, Work};
use crate::driver::{Driver, Session};
use std::sync::{Mutex, PoisonError};

/// The kernel that parameters of a node say.
pub(crate) fn kernel_of(session: &Driver, node: &KernelNode) -> Outcome<Kernel> {
    let request = Request {
        function: if node.function == 0 { node.kernel } else { node.function },
        grid: node.grid,
        block: node.block,
        shared: node.shared,
        cooperative: false,
    };
    session.prepare(&request, In::at(node.parameters), In::at(node.extra))
}

/// The function that parameters of a node say.
pub(crate) fn host_of(node: &HostNode) -> Outcome<Work> {
    let function = node.function.ok_or(Code::INVALID_VALUE)?;
    Ok(Work::Host { function, data: node.data })
}

/// Parameters that callers were given the address of. The driver says that they live as long as the
/// node is not changed; here they are kept.
static LENT: Mutex<Vec<Lent>> = Mutex::new(Vec::new());

/// The bytes of parameters, and the addresses of each.
struct Lent {
    _bytes: Box<[u8]>,
    _pointers: Box<[usize]>,
}

/// Parameters of a kernel as `void **`.
fn lend(session: &Driver, kernel: &Kernel) -> Outcome<usize> {
    let places = &session.function(kernel.function)?.parameters;
    let bytes: Box<[u8]> = kernel.parameters.as_ref().into();
    let base = bytes.as_ptr().expose_provenance();
    let pointers: Box<[usize]> = places.iter().map(|(offset, _)| base + offset).collect();
    let address = pointers.as_ptr().expose_provenance();
    LENT.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(Lent { _bytes: bytes, _pointers: pointers });
    Ok(address)
}

fn get_kernel(node: Handle, parameters: &Out<KernelNode>) -> Outcome {
    let session = Session::open();
    let Work::Kernel(kernel) = &session.node(node)?.1.work else {
        return Err(Code::INVALID_VALUE);
    };
    parameters.set(KernelNode {
        function: kernel.function,
        grid: kernel.grid,
        block: kernel.block,
        shared: kernel.shared,
        parameters: lend(&session, kernel)?,
        extra: 0,
        kernel: 0,
        context: session.function(kernel.function)?.context,
    })
}

fn set_kernel(node: Handle, parameters: In<KernelNode>) -> Outcome {
    let mut session = Session::open();
    let kernel = kernel_of(&session, &parameters.get()?)?;
    session.set_node(node, Work::Kernel(kernel))
}

fn add_kernel(
    node: &Out<Handle>,
    graph: Handle,
    after: In<Handle>,
    count: usize,
    parameters: In<KernelNode>,
) -> Outcome {
    let mut session = Session::open();
    let kernel = kernel_of(&session, &parameters.get()?)?;
    node.set(session.add_node(graph, Node::new(Work::Kernel(kernel), after.all(count)?))?)
}

/// A copy as `CUDA_MEMCPY3D`.
fn stated(copy: &Copy) -> Copy3 {
    if let Some(stated) = &copy.stated {
        return **stated;
    }
    let side = |place: &Place| {
        let mut side = crate::abi::CopySide { pitch: copy.width, height: 1, ..Default::default() };
        match place {
            Place::Device(address) => (side.kind, side.device) = (2, *address),
            Place::Host(address, _) => (side.kind, side.host) = (1, *address),
            Place::Staged(_) => side.kind = 1,
        }
        side
    };
    Copy3 {
        from: side(&copy.from.place),
        to: side(&copy.to.place),
        width: copy.width,
        height: copy.height,
        depth: copy.depth,
    }
}

entries! {
    Code;

    fn cuGraphAddKernelNode(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        parameters: In<KernelNode>,
    ) {
        add_kernel(&node, graph, after, count, parameters)
    }

    fn cuGraphAddKernelNode_v2(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        parameters: In<KernelNode>,
    ) {
        add_kernel(&node, graph, after, count, parameters)
    }

    fn cuGraphKernelNodeGetParams(node: Handle, parameters: Out<KernelNode>) {
        get_kernel(node, &parameters)
    }

    fn cuGraphKernelNodeGetParams_v2(node: Handle, parameters: Out<KernelNode>) {
        get_kernel(node, &parameters)
    }

    fn cuGraphKernelNodeSetParams(node: Handle, parameters: In<KernelNode>) {
        set_kernel(node, parameters)
    }

    fn cuGraphKernelNodeSetParams_v2(node: Handle, parameters: In<KernelNode>) {
        set_kernel(node, parameters)
    }

    fn cuGraphAddMemcpyNode(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        copy: In<Copy3>,
        _context: Handle,
    ) {
        let mut session = Session::open();
        let copy = session.copy_of(&copy.get()?)?;
        node.set(session.add_node(graph, Node::new(Work::Copy(copy), after.all(count)?))?)
    }

    fn cuGraphMemcpyNodeGetParams(node: Handle, copy: Out<Copy3>) {
        match &Session::open().node(node)?.1.work {
            Work::Copy(work) => copy.set(stated(work)),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuGraphMemcpyNodeSetParams(node: Handle, copy: In<Copy3>) {
        let mut session = Session::open();
        let copy = session.copy_of(&copy.get()?)?;
        session.set_node(node, Work::Copy(copy))
    }

    fn cuGraphAddMemsetNode(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        fill: In<FillNode>,
        _context: Handle,
    ) {
        let mut session = Session::open();
        let fill = session.fill_of(&fill.get()?)?;
        node.set(session.add_node(graph, Node::new(Work::Fill(fill), after.all(count)?))?)
    }

    fn cuGraphMemsetNodeGetParams(node: Handle, fill: Out<FillNode>) {
        match &Session::open().node(node)?.1.work {
            Work::Fill(work) => fill.set(*work),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuGraphMemsetNodeSetParams(node: Handle, fill: In<FillNode>) {
        let mut session = Session::open();
        let fill = session.fill_of(&fill.get()?)?;
        session.set_node(node, Work::Fill(fill))
    }

    fn cuGraphAddHostNode(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        parameters: In<HostNode>,
    ) {
        let work = host_of(&parameters.get()?)?;
        node.set(Session::open().add_node(graph, Node::new(work, after.all(count)?))?)
    }

    fn cuGraphHostNodeGetParams(node: Handle, parameters: Out<HostNode>) {
        match Session::open().node(node)?.1.work {
            Work::Host { function, data } => {
                parameters.set(HostNode { function: Some(function), data })
            }
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuGraphHostNodeSetParams(node: Handle, parameters: In<HostNode>) {
        let work = host_of(&parameters.get()?)?;
        Session::open().set_node(node, work)
    }

    fn cuGraphAddMemAllocNode(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        parameters: Out<AllocationNode>,
    ) {
        let mut session = Session::open();
        let context = session.context()?;
        let mut given = parameters.get()?;
        if given.pool.allocation != 1 || given.pool.location.kind != 1 {
            return Err(Code::INVALID_VALUE);
        }
        let device = session.device(given.pool.location.id)?;
        let bytes = given.bytes as u64;
        let after = after.all(count)?;
        let address = session.graph_memory(context, device, graph, bytes)?;
        given.address = address;
        parameters.set(given)?;
        node.set(session.add_node(graph, Node::new(Work::Allocate { address, bytes }, after))?)
    }

    fn cuGraphAddMemFreeNode(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        address: u64,
    ) {
        let mut session = Session::open();
        match session.allocations.get(&address).map(|block| block.owner) {
            Some(Owner::Graph(_)) => {}
            _ => return Err(Code::INVALID_VALUE),
        }
        node.set(session.add_node(graph, Node::new(Work::Free { address }, after.all(count)?))?)
    }

    fn cuGraphMemFreeNodeGetParams(node: Handle, address: Out<u64>) {
        match Session::open().node(node)?.1.work {
            Work::Free { address: freed } => address.set(freed),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuGraphEventRecordNodeGetEvent(node: Handle, event: Out<Handle>) {
        match Session::open().node(node)?.1.work {
            Work::Record { event: recorded, .. } => event.set(recorded),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuGraphEventWaitNodeGetEvent(node: Handle, event: Out<Handle>) {
        match Session::open().node(node)?.1.work {
            Work::Wait { event: awaited } => event.set(awaited),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}
