//! Contexts.

use crate::abi::Handle;
use crate::code::{Code, Outcome};
use crate::door::{In, Out, entries};
use crate::driver::Session;
use crate::driver::context::{current, pop, push, set_current};
use std::ffi::{c_int, c_uint};

/// Waits for all work of a context.
fn synchronize(context: Handle) -> Outcome {
    let mut session = Session::open();
    session.intact(context)?;
    session.refuse_captured(|_, owner| owner == context)?;
    session.refuse_unsafe()?;
    session.drain_context(context);
    let device = session.device_of(context)?;
    session.settle_pools(device);
    session.intact(context)
}

fn create(context: &Out<Handle>, flags: c_uint, device: c_int) -> Outcome {
    let mut session = Session::open();
    let device = session.device(device)?;
    let handle = session.create_context(device, flags, false);
    push(handle);
    context.set(handle)
}

entries! {
    Code;

    fn cuCtxCreate_v2(context: Out<Handle>, flags: c_uint, device: c_int) {
        create(&context, flags, device)
    }

    fn cuCtxCreate_v3(
        context: Out<Handle>,
        _affinity: In<u8>,
        affinities: c_int,
        flags: c_uint,
        device: c_int,
    ) {
        if affinities != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        create(&context, flags, device)
    }

    fn cuCtxCreate_v4(context: Out<Handle>, parameters: In<[usize; 3]>, flags: c_uint, device: c_int) {
        // affinities, how many, and graphics
        if !parameters.is_null() && parameters.get()?.iter().any(|field| *field != 0) {
            return Err(Code::NOT_SUPPORTED);
        }
        create(&context, flags, device)
    }

    fn cuCtxDestroy_v2(context: Handle) {
        let mut session = Session::open();
        match session.contexts.get(&context) {
            None => return Err(Code::INVALID_CONTEXT),
            Some(row) if row.primary => return Err(Code::INVALID_CONTEXT),
            Some(_) => {}
        }
        session.destroy_context(context);
        if current() == context {
            pop();
        }
        Ok(())
    }

    fn cuCtxPushCurrent_v2(context: Handle) {
        if !Session::open().contexts.contains_key(&context) {
            return Err(Code::INVALID_CONTEXT);
        }
        push(context);
        Ok(())
    }

    fn cuCtxPopCurrent_v2(context: Out<Handle>) {
        let popped = pop().ok_or(Code::INVALID_CONTEXT)?;
        context.offer(popped);
        Ok(())
    }

    fn cuCtxSetCurrent(context: Handle) {
        let session = Session::open();
        if !session.initialized {
            return Err(Code::NOT_INITIALIZED);
        }
        if context != 0 && !session.contexts.contains_key(&context) {
            return Err(Code::CONTEXT_IS_DESTROYED);
        }
        set_current(context);
        Ok(())
    }

    fn cuCtxGetCurrent(context: Out<Handle>) {
        if !Session::open().initialized {
            return Err(Code::NOT_INITIALIZED);
        }
        context.set(current())
    }

    fn cuCtxGetDevice(device: Out<c_int>) {
        let session = Session::open();
        let context = session.any_context()?;
        device.set(session.device_of(context)? as c_int)
    }

    fn cuCtxGetDevice_v2(device: Out<c_int>, context: Handle) {
        let session = Session::open();
        let context = if context == 0 { session.any_context()? } else { context };
        device.set(session.device_of(context)? as c_int)
    }

    fn cuCtxGetFlags(flags: Out<c_uint>) {
        let session = Session::open();
        flags.set(session.contexts[&session.any_context()?].flags)
    }

    fn cuCtxSetFlags(flags: c_uint) {
        let mut session = Session::open();
        let context = session.any_context()?;
        session.contexts.get_mut(&context).ok_or(Code::INVALID_CONTEXT)?.flags = flags;
        Ok(())
    }

    fn cuCtxGetId(context: Handle, number: Out<u64>) {
        let session = Session::open();
        let context = if context == 0 { session.any_context()? } else { context };
        number.set(session.contexts.get(&context).ok_or(Code::INVALID_CONTEXT)?.number)
    }

    fn cuCtxGetApiVersion(context: Handle, version: Out<c_uint>) {
        if context != 0 && !Session::open().contexts.contains_key(&context) {
            return Err(Code::INVALID_CONTEXT);
        }
        version.set(13_000)
    }

    fn cuCtxSynchronize() {
        let context = Session::open().context()?;
        synchronize(context)
    }

    fn cuCtxSynchronize_v2(context: Handle) {
        let context = if context == 0 { Session::open().context()? } else { context };
        synchronize(context)
    }

    fn cuCtxGetLimit(value: Out<usize>, limit: c_uint) {
        let session = Session::open();
        let limits = &session.contexts[&session.context()?].limits;
        let default = match limit {
            0 => 1024,
            1 => 7 << 20,
            2 => 8 << 20,
            3 => 2,
            4 => 2048,
            5 => 128,
            6 => 0,
            _ => return Err(Code::UNSUPPORTED_LIMIT),
        };
        value.set(limits.get(&limit).copied().unwrap_or(default))
    }

    fn cuCtxSetLimit(limit: c_uint, value: usize) {
        let mut session = Session::open();
        let context = session.context()?;
        if limit > 6 {
            return Err(Code::UNSUPPORTED_LIMIT);
        }
        let row = session.contexts.get_mut(&context).ok_or(Code::INVALID_CONTEXT)?;
        row.limits.insert(limit, value);
        Ok(())
    }

    fn cuCtxGetCacheConfig(configuration: Out<c_uint>) {
        let session = Session::open();
        configuration.set(session.contexts[&session.context()?].cache)
    }

    fn cuCtxSetCacheConfig(configuration: c_uint) {
        let mut session = Session::open();
        let context = session.context()?;
        session.contexts.get_mut(&context).ok_or(Code::INVALID_CONTEXT)?.cache = configuration;
        Ok(())
    }

    fn cuCtxGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) {
        Session::open().context()?;
        least.offer(0);
        greatest.offer(-5);
        Ok(())
    }

    fn cuCtxResetPersistingL2Cache() {
        Session::open().context().map(|_| ())
    }

    fn cuCtxEnablePeerAccess(peer: Handle, flags: c_uint) {
        let mut session = Session::open();
        let context = session.context()?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let device = session.contexts.get(&peer).ok_or(Code::INVALID_CONTEXT)?.device;
        if device == session.contexts[&context].device {
            return Err(Code::INVALID_DEVICE);
        }
        let row = session.contexts.get_mut(&context).ok_or(Code::INVALID_CONTEXT)?;
        if row.peers.insert(peer) { Ok(()) } else { Err(Code::PEER_ACCESS_ALREADY_ENABLED) }
    }

    fn cuCtxDisablePeerAccess(peer: Handle) {
        let mut session = Session::open();
        let context = session.context()?;
        let row = session.contexts.get_mut(&context).ok_or(Code::INVALID_CONTEXT)?;
        if row.peers.remove(&peer) { Ok(()) } else { Err(Code::PEER_ACCESS_NOT_ENABLED) }
    }
}
