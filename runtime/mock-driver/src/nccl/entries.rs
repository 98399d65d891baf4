//! The entry points of NCCL.

use super::Status;
use super::collective::{Kind, Part};
use super::communicator::{Call, Communicator, Request};
use super::element::{Element, Reduction};
use crate::abi::Handle;
use crate::door::{In, Out, entries};
use crate::driver::{Session, new_handle, new_number};
use std::cell::RefCell;
use std::ffi::{c_char, c_int};

/// 2.27.5
const VERSION: c_int = 22_705;

/// `ncclUniqueId`: the number of a clique, and nothing.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct UniqueId([u64; 16]);

/// Calls of this thread since the outermost `ncclGroupStart`, and how deep groups are nested.
#[derive(Default)]
struct Group {
    depth: usize,
    calls: Vec<Call>,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
}

/// A call: queued now, or when its group ends.
fn call(mut call: Call) -> Result<(), Status> {
    let mut session = Session::open();
    let row = session.communicators.get(&call.communicator).ok_or(Status::INVALID_ARGUMENT)?;
    // null is the communicator's, whichever context is current
    let own = session.contexts.get(&row.context).map(|context| context.legacy);
    call.stream = match (call.stream, own) {
        (0 | 1, Some(legacy)) => legacy,
        (stream, _) => session.stream(stream)?,
    };
    drop(session);
    let now = GROUP.with_borrow_mut(|group| {
        if group.depth > 0 {
            group.calls.push(call);
        }
        group.depth == 0
    });
    if now { Session::open().submit_group(&[call]) } else { Ok(()) }
}

fn make(
    session: &mut Session,
    clique: u64,
    ranks: c_int,
    rank: c_int,
    context: Handle,
) -> Result<Handle, Status> {
    let device = session.device_of(context)?;
    let (Ok(ranks), Ok(rank)) = (usize::try_from(ranks), usize::try_from(rank)) else {
        return Err(Status::INVALID_ARGUMENT);
    };
    let row = session.cliques.entry(clique).or_default();
    if rank >= ranks || row.ranks != 0 && row.ranks != ranks {
        return Err(Status::INVALID_ARGUMENT);
    }
    row.ranks = ranks;
    let taken = |other: &Communicator| other.clique == clique && other.rank == rank;
    if session.communicators.values().any(taken) {
        return Err(Status::INVALID_USAGE);
    }
    let handle = new_handle();
    session.communicators.insert(handle, Communicator { clique, rank, device, context, calls: 0 });
    Ok(handle)
}

fn init_rank(
    communicator: &Out<Handle>,
    ranks: c_int,
    id: UniqueId,
    rank: c_int,
) -> Result<(), Status> {
    let mut session = Session::open();
    let context = session.context()?;
    let made = make(&mut session, id.0[0], ranks, rank, context)?;
    Ok(communicator.set(made)?)
}

fn element(number: c_int) -> Result<Element, Status> {
    Element::of(number).ok_or(Status::INVALID_ARGUMENT)
}

fn reduction(number: c_int) -> Result<Reduction, Status> {
    Reduction::of(number).ok_or(Status::INVALID_ARGUMENT)
}

fn root(communicator: Handle, root: c_int) -> Result<usize, Status> {
    let session = Session::open();
    let row = session.communicators.get(&communicator).ok_or(Status::INVALID_ARGUMENT)?;
    let ranks = session.cliques.get(&row.clique).map_or(0, |clique| clique.ranks);
    let root = usize::try_from(root).ok().filter(|root| *root < ranks);
    root.ok_or(Status::INVALID_ARGUMENT)
}

fn destroy(communicator: Handle) -> Result<(), Status> {
    let gone = Session::open().communicators.remove(&communicator);
    gone.map(|_| ()).ok_or(Status::INVALID_ARGUMENT)
}

/// `ncclGetErrorString`
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the interface of C")]
pub(crate) extern "C" fn ncclGetErrorString(status: Status) -> *const c_char {
    status.text().as_ptr()
}

/// `ncclGetLastError`
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the interface of C")]
pub(crate) extern "C" fn ncclGetLastError(_communicator: Handle) -> *const c_char {
    c"see straightline_mock_last_fault".as_ptr()
}

entries! {
    Status;

    fn ncclGetVersion(version: Out<c_int>) {
        Ok(version.set(VERSION)?)
    }

    fn ncclGetUniqueId(id: Out<UniqueId>) {
        let mut words = [0; 16];
        words[0] = new_number();
        Ok(id.set(UniqueId(words))?)
    }

    fn ncclCommInitRank(communicator: Out<Handle>, ranks: c_int, id: UniqueId, rank: c_int) {
        init_rank(&communicator, ranks, id, rank)
    }

    fn ncclCommInitRankConfig(
        communicator: Out<Handle>,
        ranks: c_int,
        id: UniqueId,
        rank: c_int,
        _configuration: In<u8>,
    ) {
        init_rank(&communicator, ranks, id, rank)
    }

    fn ncclCommInitAll(communicators: Out<Handle>, ranks: c_int, devices: In<c_int>) {
        let mut session = Session::open();
        let count = usize::try_from(ranks).map_err(|_| Status::INVALID_ARGUMENT)?;
        let devices = match devices.is_null() {
            true => (0..ranks).collect(),
            false => devices.all(count)?,
        };
        let clique = new_number();
        let mut made = Vec::new();
        for (rank, ordinal) in (0..ranks).zip(devices) {
            let device = session.device(ordinal)?;
            let context = session.devices[device].primary.ok_or(Status::UNHANDLED_CUDA_ERROR)?;
            made.push(make(&mut session, clique, ranks, rank, context)?);
        }
        Ok(communicators.set_all(made)?)
    }

    fn ncclCommFinalize(communicator: Handle) {
        match Session::open().communicators.contains_key(&communicator) {
            true => Ok(()),
            false => Err(Status::INVALID_ARGUMENT),
        }
    }

    fn ncclCommDestroy(communicator: Handle) {
        destroy(communicator)
    }

    fn ncclCommAbort(communicator: Handle) {
        destroy(communicator)
    }

    fn ncclCommCount(communicator: Handle, count: Out<c_int>) {
        let session = Session::open();
        let row = session.communicators.get(&communicator).ok_or(Status::INVALID_ARGUMENT)?;
        let ranks = session.cliques.get(&row.clique).map_or(0, |clique| clique.ranks);
        Ok(count.set(ranks as c_int)?)
    }

    fn ncclCommCuDevice(communicator: Handle, device: Out<c_int>) {
        let session = Session::open();
        let row = session.communicators.get(&communicator).ok_or(Status::INVALID_ARGUMENT)?;
        Ok(device.set(row.device as c_int)?)
    }

    fn ncclCommUserRank(communicator: Handle, rank: Out<c_int>) {
        let session = Session::open();
        let row = session.communicators.get(&communicator).ok_or(Status::INVALID_ARGUMENT)?;
        Ok(rank.set(row.rank as c_int)?)
    }

    fn ncclCommGetAsyncError(communicator: Handle, error: Out<Status>) {
        let session = Session::open();
        let row = session.communicators.get(&communicator).ok_or(Status::INVALID_ARGUMENT)?;
        let broken = session.contexts.values().any(|it| it.device == row.device && it.broken.is_some());
        Ok(error.set(if broken { Status::UNHANDLED_CUDA_ERROR } else { Status(0) })?)
    }

    fn ncclGroupStart() {
        GROUP.with_borrow_mut(|group| group.depth += 1);
        Ok(())
    }

    fn ncclGroupEnd() {
        let calls = GROUP.with_borrow_mut(|group| {
            group.depth = group.depth.checked_sub(1)?;
            Some(if group.depth == 0 { std::mem::take(&mut group.calls) } else { Vec::new() })
        });
        Session::open().submit_group(&calls.ok_or(Status::INVALID_USAGE)?)
    }

    fn ncclAllReduce(
        send: u64,
        receive: u64,
        count: usize,
        kind: c_int,
        operation: c_int,
        communicator: Handle,
        stream: Handle,
    ) {
        let request = Request::Collective(Kind::AllReduce(reduction(operation)?));
        let part = Part { send, receive };
        call(Call { communicator, stream, request, element: element(kind)?, count, part })
    }

    fn ncclAllGather(
        send: u64,
        receive: u64,
        count: usize,
        kind: c_int,
        communicator: Handle,
        stream: Handle,
    ) {
        let request = Request::Collective(Kind::AllGather);
        let part = Part { send, receive };
        call(Call { communicator, stream, request, element: element(kind)?, count, part })
    }

    fn ncclReduceScatter(
        send: u64,
        receive: u64,
        count: usize,
        kind: c_int,
        operation: c_int,
        communicator: Handle,
        stream: Handle,
    ) {
        let request = Request::Collective(Kind::ReduceScatter(reduction(operation)?));
        let part = Part { send, receive };
        call(Call { communicator, stream, request, element: element(kind)?, count, part })
    }

    fn ncclBroadcast(
        send: u64,
        receive: u64,
        count: usize,
        kind: c_int,
        from: c_int,
        communicator: Handle,
        stream: Handle,
    ) {
        let request = Request::Collective(Kind::Broadcast(root(communicator, from)?));
        let part = Part { send, receive };
        call(Call { communicator, stream, request, element: element(kind)?, count, part })
    }

    fn ncclBcast(
        data: u64,
        count: usize,
        kind: c_int,
        from: c_int,
        communicator: Handle,
        stream: Handle,
    ) {
        let request = Request::Collective(Kind::Broadcast(root(communicator, from)?));
        let part = Part { send: data, receive: data };
        call(Call { communicator, stream, request, element: element(kind)?, count, part })
    }

    fn ncclReduce(
        send: u64,
        receive: u64,
        count: usize,
        kind: c_int,
        operation: c_int,
        to: c_int,
        communicator: Handle,
        stream: Handle,
    ) {
        let (operation, to) = (reduction(operation)?, root(communicator, to)?);
        let request = Request::Collective(Kind::Reduce(operation, to));
        let part = Part { send, receive };
        call(Call { communicator, stream, request, element: element(kind)?, count, part })
    }

    fn ncclSend(
        data: u64,
        count: usize,
        kind: c_int,
        peer: c_int,
        communicator: Handle,
        stream: Handle,
    ) {
        let request = Request::Send(root(communicator, peer)?);
        let part = Part { send: data, receive: 0 };
        call(Call { communicator, stream, request, element: element(kind)?, count, part })
    }

    fn ncclRecv(
        data: u64,
        count: usize,
        kind: c_int,
        peer: c_int,
        communicator: Handle,
        stream: Handle,
    ) {
        let request = Request::Receive(root(communicator, peer)?);
        let part = Part { send: 0, receive: data };
        call(Call { communicator, stream, request, element: element(kind)?, count, part })
    }
}
