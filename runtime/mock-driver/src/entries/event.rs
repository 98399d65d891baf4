//! Events.

use crate::abi::Handle;
use crate::code::{Code, Outcome};
use crate::door::{Out, entries};
use crate::driver::stream::{DISABLE_TIMING, Event};
use crate::driver::work::Work;
use crate::driver::{Session, new_handle, new_number};
use std::ffi::c_uint;

fn record(event: Handle, stream: Handle, external: bool) -> Outcome {
    let mut session = Session::open();
    let stream = session.stream(stream)?;
    let context = session.event(event)?.context;
    if context != session.streams[&stream].context {
        return Err(Code::INVALID_HANDLE);
    }
    if session.capturing(stream)? {
        if external {
            session.capture_work(stream, Work::Record { event, number: None })?;
        } else {
            let part = session.streams[&stream].capture.clone().ok_or(Code::ILLEGAL_STATE)?;
            session.event(event)?.captured = Some((part.capture, part.after));
        }
        return Ok(());
    }
    let number = new_number();
    // before it is queued: it may run at once
    let row = session.event(event)?;
    (row.record, row.time, row.captured) = (number, None, None);
    let task = session.submit(stream, Work::Record { event, number: Some(number) }, &[])?;
    session.event(event)?.task = task;
    Ok(())
}

/// An event that the host may ask for: not one that stands for nodes of a graph.
fn pending(session: &mut Session, event: Handle) -> Outcome<Option<u64>> {
    let row = session.event(event)?;
    if row.captured.is_some() {
        return Err(Code::CAPTURED_EVENT);
    }
    let task = row.task;
    session.refuse_unsafe()?;
    Ok(task.filter(|task| session.tasks.contains_key(task)))
}

fn elapsed(milliseconds: &Out<f32>, start: Handle, end: Handle) -> Outcome {
    let mut session = Session::open();
    let mut times = [0_u64; 2];
    for (time, event) in times.iter_mut().zip([start, end]) {
        let row = session.event(event)?;
        if row.captured.is_some() {
            return Err(Code::CAPTURED_EVENT);
        }
        if row.flags & DISABLE_TIMING != 0 || row.task.is_none() && row.time.is_none() {
            return Err(Code::INVALID_HANDLE);
        }
        *time = row.time.ok_or(Code::NOT_READY)?;
    }
    milliseconds.set((times[1] as f64 - times[0] as f64) as f32 / 1e6)
}

entries! {
    Code;

    fn cuEventCreate(event: Out<Handle>, flags: c_uint) {
        let mut session = Session::open();
        let context = session.context()?;
        if flags > 7 || flags & 4 != 0 && flags & DISABLE_TIMING == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let handle = new_handle();
        session.events.insert(handle, Event::new(context, flags));
        event.set(handle)
    }

    fn cuEventDestroy_v2(event: Handle) {
        let mut session = Session::open();
        session.events.remove(&event).map(|_| ()).ok_or(Code::INVALID_HANDLE)
    }

    fn cuEventRecord(event: Handle, stream: Handle) {
        record(event, stream, false)
    }

    fn cuEventRecordWithFlags(event: Handle, stream: Handle, flags: c_uint) {
        if flags > 1 {
            return Err(Code::INVALID_VALUE);
        }
        record(event, stream, flags == 1)
    }

    fn cuEventSynchronize(event: Handle) {
        let mut session = Session::open();
        let task = pending(&mut session, event)?;
        let context = session.event(event)?.context;
        if let Some(task) = task {
            session.drain(task);
        }
        let device = session.device_of(context)?;
        session.settle_pools(device);
        session.intact(context)
    }

    fn cuEventQuery(event: Handle) {
        let mut session = Session::open();
        let task = pending(&mut session, event)?;
        let context = session.event(event)?.context;
        match task {
            // who asks again and again gets on by one task each time
            Some(task) if session.step(task) => {
                session.intact(context)?;
                Err(Code::NOT_READY)
            }
            _ => Ok(()),
        }
    }

    fn cuEventElapsedTime(milliseconds: Out<f32>, start: Handle, end: Handle) {
        elapsed(&milliseconds, start, end)
    }

    fn cuEventElapsedTime_v2(milliseconds: Out<f32>, start: Handle, end: Handle) {
        elapsed(&milliseconds, start, end)
    }
}
