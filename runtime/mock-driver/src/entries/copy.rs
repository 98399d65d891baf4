//! Copies and fills.

use crate::abi::{Copy2, Copy3, FillNode, Handle};
use crate::code::{Code, Outcome};
use crate::door::{Address, In, entries};
use crate::driver::Session;
use crate::driver::transfer::End;
use std::ffi::{c_uchar, c_uint, c_ushort};

fn now(to: End, from: End, bytes: usize) -> Outcome {
    let mut session = Session::open();
    let stream = session.waiting_stream()?;
    let copy = session.plain_copy(to, from, bytes)?;
    session.copy(stream, copy, true)
}

fn queued(to: End, from: End, bytes: usize, stream: Handle) -> Outcome {
    let mut session = Session::open();
    let stream = session.stream(stream)?;
    let copy = session.plain_copy(to, from, bytes)?;
    session.copy(stream, copy, false)
}

fn rows_now(copy: &Copy3) -> Outcome {
    let mut session = Session::open();
    let stream = session.waiting_stream()?;
    let copy = session.copy_of(copy)?;
    session.copy(stream, copy, true)
}

fn rows_queued(copy: &Copy3, stream: Handle) -> Outcome {
    let mut session = Session::open();
    let stream = session.stream(stream)?;
    let copy = session.copy_of(copy)?;
    session.copy(stream, copy, false)
}

/// Between two contexts: both have to be there.
fn contexts(session: &Session, to: Handle, from: Handle) -> Outcome {
    session.device_of(to)?;
    session.device_of(from)?;
    Ok(())
}

fn fill(
    to: u64,
    pitch: usize,
    value: c_uint,
    element: c_uint,
    width: usize,
    height: usize,
    stream: Option<Handle>,
) -> Outcome {
    let fill = FillNode { to, pitch, value, element, width, height };
    let mut session = Session::open();
    match stream {
        Some(stream) => {
            let stream = session.stream(stream)?;
            session.fill(stream, &fill, false)
        }
        None => {
            // a fill does not wait: the host goes on
            let stream = session.waiting_stream()?;
            session.fill(stream, &fill, false)
        }
    }
}

entries! {
    Code;

    fn cuMemcpy(to: u64, from: u64, bytes: usize) {
        let (to, from) = {
            let session = Session::open();
            session.context()?;
            (session.end(to), session.end(from))
        };
        now(to, from, bytes)
    }

    fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: Handle) {
        let (to, from) = {
            let session = Session::open();
            (session.end(to), session.end(from))
        };
        queued(to, from, bytes, stream)
    }

    fn cuMemcpyHtoD_v2(to: u64, from: Address, bytes: usize) {
        now(End::Device(to), End::Host(from), bytes)
    }

    fn cuMemcpyHtoDAsync_v2(to: u64, from: Address, bytes: usize, stream: Handle) {
        queued(End::Device(to), End::Host(from), bytes, stream)
    }

    fn cuMemcpyDtoH_v2(to: Address, from: u64, bytes: usize) {
        now(End::Host(to), End::Device(from), bytes)
    }

    fn cuMemcpyDtoHAsync_v2(to: Address, from: u64, bytes: usize, stream: Handle) {
        queued(End::Host(to), End::Device(from), bytes, stream)
    }

    fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) {
        // between places of one device the host goes on
        let mut session = Session::open();
        let stream = session.waiting_stream()?;
        let copy = session.plain_copy(End::Device(to), End::Device(from), bytes)?;
        session.copy(stream, copy, false)
    }

    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) {
        queued(End::Device(to), End::Device(from), bytes, stream)
    }

    fn cuMemcpyPeer(to: u64, to_context: Handle, from: u64, from_context: Handle, bytes: usize) {
        contexts(&Session::open(), to_context, from_context)?;
        now(End::Device(to), End::Device(from), bytes)
    }

    fn cuMemcpyPeerAsync(
        to: u64,
        to_context: Handle,
        from: u64,
        from_context: Handle,
        bytes: usize,
        stream: Handle,
    ) {
        contexts(&Session::open(), to_context, from_context)?;
        queued(End::Device(to), End::Device(from), bytes, stream)
    }

    fn cuMemcpy2D_v2(copy: In<Copy2>) {
        rows_now(&copy.get()?.deepen())
    }

    fn cuMemcpy2DUnaligned_v2(copy: In<Copy2>) {
        rows_now(&copy.get()?.deepen())
    }

    fn cuMemcpy2DAsync_v2(copy: In<Copy2>, stream: Handle) {
        rows_queued(&copy.get()?.deepen(), stream)
    }

    fn cuMemcpy3D_v2(copy: In<Copy3>) {
        rows_now(&copy.get()?)
    }

    fn cuMemcpy3DAsync_v2(copy: In<Copy3>, stream: Handle) {
        rows_queued(&copy.get()?, stream)
    }

    fn cuMemsetD8_v2(to: u64, value: c_uchar, count: usize) {
        fill(to, 0, value.into(), 1, count, 1, None)
    }

    fn cuMemsetD16_v2(to: u64, value: c_ushort, count: usize) {
        fill(to, 0, value.into(), 2, count, 1, None)
    }

    fn cuMemsetD32_v2(to: u64, value: c_uint, count: usize) {
        fill(to, 0, value, 4, count, 1, None)
    }

    fn cuMemsetD8Async(to: u64, value: c_uchar, count: usize, stream: Handle) {
        fill(to, 0, value.into(), 1, count, 1, Some(stream))
    }

    fn cuMemsetD16Async(to: u64, value: c_ushort, count: usize, stream: Handle) {
        fill(to, 0, value.into(), 2, count, 1, Some(stream))
    }

    fn cuMemsetD32Async(to: u64, value: c_uint, count: usize, stream: Handle) {
        fill(to, 0, value, 4, count, 1, Some(stream))
    }

    fn cuMemsetD2D8_v2(to: u64, pitch: usize, value: c_uchar, width: usize, height: usize) {
        fill(to, pitch, value.into(), 1, width, height, None)
    }

    fn cuMemsetD2D16_v2(to: u64, pitch: usize, value: c_ushort, width: usize, height: usize) {
        fill(to, pitch, value.into(), 2, width, height, None)
    }

    fn cuMemsetD2D32_v2(to: u64, pitch: usize, value: c_uint, width: usize, height: usize) {
        fill(to, pitch, value, 4, width, height, None)
    }

    fn cuMemsetD2D8Async(
        to: u64,
        pitch: usize,
        value: c_uchar,
        width: usize,
        height: usize,
        stream: Handle,
    ) {
        fill(to, pitch, value.into(), 1, width, height, Some(stream))
    }

    fn cuMemsetD2D16Async(
        to: u64,
        pitch: usize,
        value: c_ushort,
        width: usize,
        height: usize,
        stream: Handle,
    ) {
        fill(to, pitch, value.into(), 2, width, height, Some(stream))
    }

    fn cuMemsetD2D32Async(
        to: u64,
        pitch: usize,
        value: c_uint,
        width: usize,
        height: usize,
        stream: Handle,
    ) {
        fill(to, pitch, value, 4, width, height, Some(stream))
    }
}
