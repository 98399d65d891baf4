//! Executables: instantiated graphs, launches and updates.

use crate::abi::{Copy3, FillNode, Handle, HostNode, Instantiation, KernelNode, UpdateResult};
use crate::code::{Code, Outcome};
use crate::door::{In, Out, entries};
use crate::driver::Session;
use crate::driver::graph::{AUTO_FREE, Node};
use crate::driver::work::Work;
use crate::entries::node::{host_of, kernel_of};
use std::ffi::{c_char, c_uint};
use std::sync::Arc;

/// Flags that `cuGraphInstantiate` knows; launches from the device are none of ours.
const FLAGS: u64 = AUTO_FREE | 2 | 8;

fn instantiate(executable: &Out<Handle>, graph: Handle, flags: u64) -> Outcome {
    if flags & !FLAGS != 0 {
        return Err(if flags == 4 { Code::NOT_SUPPORTED } else { Code::INVALID_VALUE });
    }
    executable.set(Session::open().instantiate(graph, flags)?)
}

/// Changes what a node does, to something of the same kind.
pub(crate) fn change(
    executable: Handle,
    node: Handle,
    work: impl FnOnce(&Session) -> Outcome<Work>,
) -> Outcome {
    let mut session = Session::open();
    let work = work(&session)?;
    session.set_executable_node(executable, node, |node: &mut Node| {
        match (&node.work, &work) {
            // where a copy reads and writes stays device or host
            (Work::Copy(old), Work::Copy(new)) => {
                let device = |side: &crate::driver::work::Side| {
                    matches!(side.place, crate::driver::work::Place::Device(_))
                };
                if device(&old.from) != device(&new.from) || device(&old.to) != device(&new.to) {
                    return Err(Code::INVALID_VALUE);
                }
            }
            (old, new) if std::mem::discriminant(old) != std::mem::discriminant(new) => {
                return Err(Code::INVALID_VALUE);
            }
            _ => {}
        }
        node.work = work;
        Ok(())
    })
}

fn set_kernel(executable: Handle, node: Handle, parameters: In<KernelNode>) -> Outcome {
    let parameters = parameters.get()?;
    change(executable, node, |session| Ok(Work::Kernel(kernel_of(session, &parameters)?)))
}

fn update(executable: Handle, graph: Handle) -> Outcome<Result<(), UpdateResult>> {
    Session::open().update(executable, graph)
}

entries! {
    Code;

    fn cuGraphInstantiate_v2(
        executable: Out<Handle>,
        graph: Handle,
        error: Out<Handle>,
        _log: Out<c_char>,
        _bytes: usize,
    ) {
        error.offer(0);
        instantiate(&executable, graph, 0)
    }

    fn cuGraphInstantiateWithFlags(executable: Out<Handle>, graph: Handle, flags: u64) {
        instantiate(&executable, graph, flags)
    }

    fn cuGraphInstantiateWithParams(
        executable: Out<Handle>,
        graph: Handle,
        parameters: Out<Instantiation>,
    ) {
        let mut given = parameters.get()?;
        let result = instantiate(&executable, graph, given.flags);
        given.node = 0;
        given.result = c_uint::from(result.is_err());
        parameters.set(given)?;
        result
    }

    fn cuGraphExecGetFlags(executable: Handle, flags: Out<u64>) {
        let session = Session::open();
        flags.set(session.executables.get(&executable).ok_or(Code::INVALID_VALUE)?.flags)
    }

    fn cuGraphExecDestroy(executable: Handle) {
        let mut session = Session::open();
        let last = session.executables.get(&executable).ok_or(Code::INVALID_VALUE)?.last;
        let row = session.executables.remove(&executable).ok_or(Code::INVALID_VALUE)?;
        // what is queued still runs; memory of its own it needs until then
        if let Some(last) = last.filter(|_| !row.memory.is_empty()) {
            session.drain(last);
        }
        session.give_up(row.memory);
        Ok(())
    }

    fn cuGraphUpload(executable: Handle, stream: Handle) {
        let mut session = Session::open();
        let stream = session.stream(stream)?;
        if !session.executables.contains_key(&executable) {
            return Err(Code::INVALID_VALUE);
        }
        session.submit(stream, Work::Empty, &[]).map(|_| ())
    }

    fn cuGraphLaunch(executable: Handle, stream: Handle) {
        let mut session = Session::open();
        let stream = session.stream(stream)?;
        let row = session.executables.get(&executable).ok_or(Code::INVALID_VALUE)?.clone();
        if session.capturing(stream)? {
            // a child of the graph that is captured
            session.capture_work(stream, Work::Graph(row.nodes))?;
            return Ok(());
        }
        let freed = |address: u64| {
            row.nodes.iter().any(|node| matches!(node.work, Work::Free { address: it } if it == address))
        };
        let left: Vec<u64> = row
            .nodes
            .iter()
            .filter_map(|node| match node.work {
                Work::Allocate { address, .. } if !freed(address) => Some(address),
                _ => None,
            })
            .collect();
        // memory that the launch before left allocated
        let allocated = |address| session.allocations.get(address).is_some_and(|it| !it.freed);
        if row.launched && row.flags & AUTO_FREE == 0 && left.iter().any(allocated) {
            return Err(Code::INVALID_VALUE);
        }
        for address in left {
            if let Some(block) = session.allocations.get_mut(&address) {
                block.freed = false;
            }
        }
        // launches of one executable follow each other, wherever they are queued
        let mut after: Vec<u64> = row.last.into_iter().collect();
        for node in row.nodes.iter() {
            if let Work::Wait { event } = node.work {
                after.extend(session.events.get(&event).and_then(|event| event.task));
            }
        }
        let task = session.submit(stream, Work::Graph(Arc::clone(&row.nodes)), &after)?;
        session.counts.graph_launches += 1;
        if let Some(row) = session.executables.get_mut(&executable) {
            row.last = task;
            row.launched = true;
        }
        Ok(())
    }

    fn cuGraphExecUpdate_v2(executable: Handle, graph: Handle, result: Out<UpdateResult>) {
        match update(executable, graph)? {
            Ok(()) => {
                result.offer(UpdateResult::default());
                Ok(())
            }
            Err(difference) => {
                result.offer(difference);
                Err(Code::GRAPH_EXEC_UPDATE_FAILURE)
            }
        }
    }

    fn cuGraphExecKernelNodeSetParams(executable: Handle, node: Handle, parameters: In<KernelNode>) {
        set_kernel(executable, node, parameters)
    }

    fn cuGraphExecKernelNodeSetParams_v2(
        executable: Handle,
        node: Handle,
        parameters: In<KernelNode>,
    ) {
        set_kernel(executable, node, parameters)
    }

    fn cuGraphExecMemcpyNodeSetParams(
        executable: Handle,
        node: Handle,
        copy: In<Copy3>,
        _context: Handle,
    ) {
        let copy = copy.get()?;
        change(executable, node, |session| Ok(Work::Copy(session.copy_of(&copy)?)))
    }

    fn cuGraphExecMemsetNodeSetParams(
        executable: Handle,
        node: Handle,
        fill: In<FillNode>,
        _context: Handle,
    ) {
        let fill = fill.get()?;
        change(executable, node, |session| Ok(Work::Fill(session.fill_of(&fill)?)))
    }

    fn cuGraphExecHostNodeSetParams(executable: Handle, node: Handle, parameters: In<HostNode>) {
        let work = host_of(&parameters.get()?)?;
        change(executable, node, |_| Ok(work))
    }

    fn cuGraphExecEventRecordNodeSetEvent(executable: Handle, node: Handle, event: Handle) {
        change(executable, node, |_| Ok(Work::Record { event, number: None }))
    }

    fn cuGraphExecEventWaitNodeSetEvent(executable: Handle, node: Handle, event: Handle) {
        change(executable, node, |_| Ok(Work::Wait { event }))
    }

    fn cuGraphExecChildGraphNodeSetParams(executable: Handle, node: Handle, child: Handle) {
        change(executable, node, |session| {
            let graph = session.graphs.get(&child).ok_or(Code::INVALID_VALUE)?;
            Ok(Work::Graph(Arc::new(graph.nodes.clone())))
        })
    }

    fn cuGraphNodeSetEnabled(executable: Handle, node: Handle, enabled: c_uint) {
        Session::open().set_executable_node(executable, node, |node| {
            if !matches!(node.work, Work::Kernel(_) | Work::Product(_) | Work::Copy(_) | Work::Fill(_)) {
                return Err(Code::INVALID_VALUE);
            }
            node.enabled = enabled != 0;
            Ok(())
        })
    }

    fn cuGraphNodeGetEnabled(executable: Handle, node: Handle, enabled: Out<c_uint>) {
        let session = Session::open();
        let row = session.executables.get(&executable).ok_or(Code::INVALID_VALUE)?;
        let node = row.nodes.iter().find(|row| row.handle == node).ok_or(Code::INVALID_VALUE)?;
        enabled.set(c_uint::from(node.enabled))
    }
}
