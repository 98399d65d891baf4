//! Streams.

use crate::abi::Handle;
use crate::code::{Code, Outcome};
use crate::door::{In, Out, entries};
use crate::driver::stream::{Kind, NON_BLOCKING, Stream};
use crate::driver::work::Work;
use crate::driver::{Session, new_handle};
use std::ffi::{c_int, c_uint};

fn create(stream: &Out<Handle>, flags: c_uint, priority: c_int) -> Outcome {
    let mut session = Session::open();
    let context = session.context()?;
    if flags & !NON_BLOCKING != 0 {
        return Err(Code::INVALID_VALUE);
    }
    let handle = new_handle();
    session
        .streams
        .insert(handle, Stream::new(context, flags, priority.clamp(-5, 0), Kind::Created));
    stream.set(handle)
}

entries! {
    Code;

    fn cuStreamCreate(stream: Out<Handle>, flags: c_uint) {
        create(&stream, flags, 0)
    }

    fn cuStreamCreateWithPriority(stream: Out<Handle>, flags: c_uint, priority: c_int) {
        create(&stream, flags, priority)
    }

    fn cuStreamDestroy_v2(stream: Handle) {
        let mut session = Session::open();
        if matches!(stream, 0..=2) {
            return Err(Code::INVALID_VALUE);
        }
        let row = session.streams.get(&stream).ok_or(Code::INVALID_HANDLE)?;
        if row.kind != Kind::Created {
            return Err(Code::INVALID_VALUE);
        }
        if let Some(part) = row.capture.clone()
            && let Some(capture) = session.captures.get_mut(&part.capture)
        {
            capture.invalid = true;
        }
        // what it has queued still runs: at the latest when its context is waited for
        session.streams.remove(&stream);
        Ok(())
    }

    fn cuStreamSynchronize(stream: Handle) {
        let mut session = Session::open();
        let stream = session.stream(stream)?;
        session.refuse_captured(|handle, _| handle == stream)?;
        session.refuse_implicit(stream)?;
        session.refuse_unsafe()?;
        let context = session.streams[&stream].context;
        session.drain_stream(stream);
        let device = session.device_of(context)?;
        session.settle_pools(device);
        session.intact(context)
    }

    fn cuStreamQuery(stream: Handle) {
        let mut session = Session::open();
        let stream = session.stream(stream)?;
        session.refuse_captured(|handle, _| handle == stream)?;
        session.refuse_implicit(stream)?;
        session.refuse_unsafe()?;
        let context = session.streams[&stream].context;
        // who asks again and again gets on by one task each time
        match session.tail(stream).first() {
            Some(&task) if session.step(task) => {
                session.intact(context)?;
                Err(Code::NOT_READY)
            }
            _ => session.intact(context),
        }
    }

    fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint) {
        let mut session = Session::open();
        let stream = session.stream(stream)?;
        if flags > 1 {
            return Err(Code::INVALID_VALUE);
        }
        if flags == 1 && session.capturing(stream)? {
            // a node that waits for what the event stands for when the graph is launched
            session.event(event)?;
            session.capture_work(stream, Work::Wait { event })?;
            return Ok(());
        }
        session.capturing(stream)?;
        if session.capture_wait(stream, event)? {
            return Ok(());
        }
        let task = session.event(event)?.task;
        match task.filter(|task| session.tasks.contains_key(task)) {
            Some(task) => session.submit(stream, Work::Empty, &[task]).map(|_| ()),
            None => session.refuse_implicit(stream),
        }
    }

    fn cuStreamGetAttribute(stream: Handle, attribute: c_uint, value: Out<u64>) {
        let mut session = Session::open();
        let stream = session.stream(stream)?;
        // the window of the cache is not kept; how to wait, priority and order of memory are
        match attribute {
            3 => value.set(1),
            8 => value.set(u64::from(session.streams[&stream].priority.cast_unsigned())),
            9 | 10 => value.set(0),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuStreamSetAttribute(stream: Handle, attribute: c_uint, _value: In<u64>) {
        let mut session = Session::open();
        session.stream(stream)?;
        // all of these change speed, not results
        if matches!(attribute, 1 | 3 | 8 | 9 | 10) { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }

    fn cuStreamCopyAttributes(to: Handle, from: Handle) {
        let mut session = Session::open();
        session.stream(to)?;
        session.stream(from).map(|_| ())
    }

    fn cuStreamGetPriority(stream: Handle, priority: Out<c_int>) {
        let mut session = Session::open();
        let stream = session.stream(stream)?;
        priority.set(session.streams[&stream].priority)
    }

    fn cuStreamGetFlags(stream: Handle, flags: Out<c_uint>) {
        let mut session = Session::open();
        let stream = session.stream(stream)?;
        flags.set(session.streams[&stream].flags)
    }

    fn cuStreamGetId(stream: Handle, number: Out<u64>) {
        let mut session = Session::open();
        let stream = session.stream(stream)?;
        number.set(session.streams[&stream].number)
    }

    fn cuStreamGetCtx(stream: Handle, context: Out<Handle>) {
        let mut session = Session::open();
        let stream = session.stream(stream)?;
        context.set(session.streams[&stream].context)
    }

    fn cuStreamGetDevice(stream: Handle, device: Out<c_int>) {
        let mut session = Session::open();
        let stream = session.stream(stream)?;
        let context = session.streams[&stream].context;
        device.set(session.device_of(context)? as c_int)
    }
}
