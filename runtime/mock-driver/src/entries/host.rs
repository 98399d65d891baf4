//! Pinned host memory.

use crate::code::{Code, Outcome};
use crate::door::{Address, Out, entries};
use crate::driver::Session;
use std::ffi::c_uint;

fn allocate(memory: &Out<Address>, bytes: usize, flags: c_uint) -> Outcome {
    if memory.is_null() || flags > 7 {
        return Err(Code::INVALID_VALUE);
    }
    let mut session = Session::open();
    let context = session.context()?;
    session.refuse_unsafe()?;
    memory.set(session.allocate_pinned(context, bytes, flags)?)
}

entries! {
    Code;

    fn cuMemAllocHost_v2(memory: Out<Address>, bytes: usize) {
        allocate(&memory, bytes, 0)
    }

    fn cuMemHostAlloc(memory: Out<Address>, bytes: usize, flags: c_uint) {
        allocate(&memory, bytes, flags)
    }

    fn cuMemFreeHost(memory: Address) {
        let mut session = Session::open();
        session.any_context()?;
        session.refuse_unsafe()?;
        match session.pinned.get(&memory) {
            Some(range) if range.layout.is_some() => {}
            _ => return Err(Code::INVALID_VALUE),
        }
        session.unpin(memory);
        Ok(())
    }

    fn cuMemHostRegister_v2(memory: Address, bytes: usize, flags: c_uint) {
        let mut session = Session::open();
        let context = session.context()?;
        session.refuse_unsafe()?;
        session.register(context, memory, bytes, flags)
    }

    fn cuMemHostUnregister(memory: Address) {
        let mut session = Session::open();
        session.any_context()?;
        session.refuse_unsafe()?;
        match session.pinned.get(&memory) {
            Some(range) if range.layout.is_none() => {}
            _ => return Err(Code::HOST_MEMORY_NOT_REGISTERED),
        }
        session.unpin(memory);
        Ok(())
    }

    fn cuMemHostGetFlags(flags: Out<c_uint>, memory: Address) {
        let session = Session::open();
        let (_, range) = session.pinned_at(memory, 1).ok_or(Code::INVALID_VALUE)?;
        flags.set(range.flags)
    }

    fn cuMemHostGetDevicePointer_v2(_device: Out<u64>, memory: Address, _flags: c_uint) {
        let session = Session::open();
        session.pinned_at(memory, 1).ok_or(Code::INVALID_VALUE)?;
        // kernels reach only the memory of devices
        Err(Code::NOT_SUPPORTED)
    }
}
