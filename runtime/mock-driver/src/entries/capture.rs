//! Stream capture.

use crate::abi::{Edge, Handle};
use crate::code::{Code, Outcome};
use crate::door::{In, Out, entries};
use crate::driver::capture::{Mode, exchange_mode};
use crate::driver::stream::Kind;
use crate::driver::{Driver, Session};
use std::ffi::c_uint;
use std::sync::{Mutex, PoisonError};

/// `CUstreamCaptureStatus`
fn status(session: &Driver, stream: Handle) -> (c_uint, Option<u64>) {
    let part = session.streams.get(&stream).and_then(|stream| stream.capture.as_ref());
    match part {
        None => (0, None),
        Some(part) if session.captures.get(&part.capture).is_some_and(|it| it.invalid) => {
            (2, Some(part.capture))
        }
        Some(part) => (1, Some(part.capture)),
    }
}

/// The stream of a status query, which the legacy stream refuses while a blocking one is captured.
fn asked(session: &mut Session, stream: Handle) -> Outcome<Handle> {
    let stream = session.stream(stream)?;
    let row = &session.streams[&stream];
    if row.kind == Kind::Legacy {
        let context = row.context;
        let captured = |other: &crate::driver::stream::Stream| {
            other.context == context && other.blocking() && other.capture.is_some()
        };
        if session.streams.values().any(captured) {
            return Err(Code::STREAM_CAPTURE_IMPLICIT);
        }
    }
    Ok(stream)
}

/// Lists of nodes that callers were given the address of: kept, since nobody says when they are
/// done with one.
static LISTS: Mutex<Vec<Box<[Handle]>>> = Mutex::new(Vec::new());

fn lend(nodes: &[Handle]) -> usize {
    if nodes.is_empty() {
        return 0;
    }
    let list: Box<[Handle]> = nodes.into();
    let address = list.as_ptr().expose_provenance();
    LISTS.lock().unwrap_or_else(PoisonError::into_inner).push(list);
    address
}

struct Answers {
    status: Out<c_uint>,
    number: Out<u64>,
    graph: Out<Handle>,
    nodes: Out<usize>,
    edges: Option<Out<usize>>,
    count: Out<usize>,
}

fn info(stream: Handle, answers: &Answers) -> Outcome {
    let mut session = Session::open();
    let stream = asked(&mut session, stream)?;
    let (status, capture) = status(&session, stream);
    answers.status.set(status)?;
    if let (1, Some(capture)) = (status, capture) {
        answers.number.offer(capture);
        answers.graph.offer(session.captures[&capture].graph);
        let part = session.streams[&stream].capture.as_ref();
        let nodes = part.map(|part| part.after.clone()).unwrap_or_default();
        if !answers.nodes.is_null() {
            answers.nodes.offer(lend(&nodes));
        }
        if let Some(edges) = &answers.edges {
            edges.offer(0);
        }
        answers.count.offer(nodes.len());
    }
    Ok(())
}

fn update(stream: Handle, nodes: In<Handle>, count: usize, flags: c_uint) -> Outcome {
    let mut session = Session::open();
    let stream = session.stream(stream)?;
    if !session.capturing(stream)? {
        return Err(Code::ILLEGAL_STATE);
    }
    let mut nodes = nodes.all(count)?;
    let mut part = session.streams[&stream].capture.clone().ok_or(Code::ILLEGAL_STATE)?;
    let graph = session.captures[&part.capture].graph;
    if nodes.iter().any(|node| session.nodes.get(node) != Some(&graph)) {
        return Err(Code::INVALID_VALUE);
    }
    match flags {
        0 => part.after.append(&mut nodes),
        1 => part.after = nodes,
        _ => return Err(Code::INVALID_VALUE),
    }
    session.stream_row(stream)?.capture = Some(part);
    Ok(())
}

entries! {
    Code;

    fn cuStreamBeginCapture_v2(stream: Handle, mode: c_uint) {
        let mut session = Session::open();
        let stream = session.stream(stream)?;
        session.begin_capture(stream, Mode::of(mode)?, None)
    }

    fn cuStreamBeginCaptureToGraph(
        stream: Handle,
        graph: Handle,
        nodes: In<Handle>,
        _edges: In<Edge>,
        count: usize,
        mode: c_uint,
    ) {
        let mut session = Session::open();
        let stream = session.stream(stream)?;
        let nodes = nodes.all(count)?;
        if !session.graphs.contains_key(&graph)
            || nodes.iter().any(|node| session.nodes.get(node) != Some(&graph))
        {
            return Err(Code::INVALID_VALUE);
        }
        session.begin_capture(stream, Mode::of(mode)?, Some((graph, nodes)))
    }

    fn cuStreamEndCapture(stream: Handle, graph: Out<Handle>) {
        let mut session = Session::open();
        graph.set(0)?;
        let stream = session.stream(stream)?;
        graph.set(session.end_capture(stream)?)
    }

    fn cuStreamIsCapturing(stream: Handle, answer: Out<c_uint>) {
        let mut session = Session::open();
        let stream = asked(&mut session, stream)?;
        answer.set(status(&session, stream).0)
    }

    fn cuStreamGetCaptureInfo(stream: Handle, answer: Out<c_uint>, number: Out<u64>) {
        let mut session = Session::open();
        let stream = asked(&mut session, stream)?;
        let (status, capture) = status(&session, stream);
        number.offer(capture.unwrap_or(0));
        answer.set(status)
    }

    fn cuStreamGetCaptureInfo_v2(
        stream: Handle,
        status: Out<c_uint>,
        number: Out<u64>,
        graph: Out<Handle>,
        nodes: Out<usize>,
        count: Out<usize>,
    ) {
        info(stream, &Answers { status, number, graph, nodes, edges: None, count })
    }

    fn cuStreamGetCaptureInfo_v3(
        stream: Handle,
        status: Out<c_uint>,
        number: Out<u64>,
        graph: Out<Handle>,
        nodes: Out<usize>,
        edges: Out<usize>,
        count: Out<usize>,
    ) {
        info(stream, &Answers { status, number, graph, nodes, edges: Some(edges), count })
    }

    fn cuStreamUpdateCaptureDependencies(
        stream: Handle,
        nodes: In<Handle>,
        count: usize,
        flags: c_uint,
    ) {
        update(stream, nodes, count, flags)
    }

    fn cuStreamUpdateCaptureDependencies_v2(
        stream: Handle,
        nodes: In<Handle>,
        _edges: In<Edge>,
        count: usize,
        flags: c_uint,
    ) {
        update(stream, nodes, count, flags)
    }

    fn cuThreadExchangeStreamCaptureMode(mode: Out<c_uint>) {
        let before = exchange_mode(Mode::of(mode.get()?)?);
        mode.set(before.number())
    }
}
