//! Devices.

use crate::abi::{Handle, Uuid};
use crate::code::Code;
use crate::door::{In, Out, entries, set_text};
use crate::driver::{Session, device};
use std::ffi::{c_char, c_int, c_uint};

entries! {
    Code;

    fn cuDeviceGet(device: Out<c_int>, ordinal: c_int) {
        Session::open().device(ordinal)?;
        device.set(ordinal)
    }

    fn cuDeviceGetCount(count: Out<c_int>) {
        let session = Session::open();
        if !session.initialized {
            return Err(Code::NOT_INITIALIZED);
        }
        count.set(session.devices.len() as c_int)
    }

    fn cuDeviceGetName(name: Out<c_char>, length: c_int, device: c_int) {
        Session::open().device(device)?;
        set_text(&name, usize::try_from(length).unwrap_or(0), device::NAME)
    }

    fn cuDeviceGetUuid(uuid: Out<Uuid>, device: c_int) {
        let ordinal = Session::open().device(device)?;
        let mut bytes = *b"straightline-\0\0\0";
        bytes[15] = ordinal as u8;
        uuid.set(Uuid(bytes))
    }

    fn cuDeviceGetUuid_v2(uuid: Out<Uuid>, device: c_int) {
        let ordinal = Session::open().device(device)?;
        let mut bytes = *b"straightline-\0\0\0";
        bytes[15] = ordinal as u8;
        uuid.set(Uuid(bytes))
    }

    fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: c_int) {
        let session = Session::open();
        session.device(device)?;
        bytes.set(session.configuration.memory as usize)
    }

    fn cuDeviceGetAttribute(value: Out<c_int>, attribute: c_int, device: c_int) {
        let ordinal = Session::open().device(device)?;
        value.set(device::attribute(attribute, ordinal).ok_or(Code::INVALID_VALUE)?)
    }

    fn cuDeviceComputeCapability(major: Out<c_int>, minor: Out<c_int>, device: c_int) {
        Session::open().device(device)?;
        major.set(9)?;
        minor.set(0)
    }

    fn cuDeviceGetPCIBusId(text: Out<c_char>, length: c_int, device: c_int) {
        let ordinal = Session::open().device(device)?;
        let bus = format!("0000:{:02X}:00.0", ordinal + 1);
        set_text(&text, usize::try_from(length).unwrap_or(0), &bus)
    }

    fn cuDeviceCanAccessPeer(can: Out<c_int>, device: c_int, peer: c_int) {
        let session = Session::open();
        let (device, peer) = (session.device(device)?, session.device(peer)?);
        can.set(c_int::from(device != peer))
    }

    fn cuDeviceGetP2PAttribute(value: Out<c_int>, attribute: c_int, from: c_int, to: c_int) {
        let session = Session::open();
        let (from, to) = (session.device(from)?, session.device(to)?);
        if from == to {
            return Err(Code::INVALID_DEVICE);
        }
        // rank, access, atomics, arrays
        match attribute {
            1 => value.set(0),
            2 | 3 => value.set(1),
            4 | 5 => value.set(0),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuDeviceGetDefaultMemPool(pool: Out<Handle>, device: c_int) {
        let session = Session::open();
        let device = session.device(device)?;
        pool.set(session.devices[device].default_pool)
    }

    fn cuDeviceGetMemPool(pool: Out<Handle>, device: c_int) {
        let session = Session::open();
        let device = session.device(device)?;
        pool.set(session.devices[device].pool)
    }

    fn cuDeviceSetMemPool(device: c_int, pool: Handle) {
        let mut session = Session::open();
        let device = session.device(device)?;
        let row = session.pools.get(&pool).ok_or(Code::INVALID_VALUE)?;
        if row.device != device || row.destroyed {
            return Err(Code::INVALID_VALUE);
        }
        session.devices[device].pool = pool;
        Ok(())
    }

    fn cuDeviceGraphMemTrim(device: c_int) {
        // nothing is kept beyond graphs
        Session::open().device(device).map(|_| ())
    }

    fn cuDeviceGetGraphMemAttribute(device: c_int, attribute: c_int, value: Out<u64>) {
        let session = Session::open();
        let [now, most] = session.devices[session.device(device)?].graph_memory;
        match attribute {
            0 | 2 => value.set(now),
            1 | 3 => value.set(most),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuDeviceSetGraphMemAttribute(device: c_int, attribute: c_int, value: In<u64>) {
        let mut session = Session::open();
        let device = session.device(device)?;
        // only the high marks, and only back to what is in use
        if !matches!(attribute, 1 | 3) || value.get()? != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let [now, most] = &mut session.devices[device].graph_memory;
        *most = *now;
        Ok(())
    }

    fn cuDevicePrimaryCtxRetain(context: Out<Handle>, device: c_int) {
        let mut session = Session::open();
        let device = session.device(device)?;
        let handle = match session.devices[device].primary {
            Some(primary) => primary,
            None => {
                let flags = session.devices[device].flags;
                let primary = session.create_context(device, flags, true);
                session.devices[device].primary = Some(primary);
                primary
            }
        };
        session.devices[device].retained += 1;
        context.set(handle)
    }

    fn cuDevicePrimaryCtxRelease_v2(device: c_int) {
        let mut session = Session::open();
        let device = session.device(device)?;
        let row = &mut session.devices[device];
        let primary = row.primary.ok_or(Code::INVALID_CONTEXT)?;
        row.retained -= 1;
        if row.retained == 0 {
            row.primary = None;
            session.destroy_context(primary);
        }
        Ok(())
    }

    fn cuDevicePrimaryCtxReset_v2(device: c_int) {
        let mut session = Session::open();
        let device = session.device(device)?;
        let row = &mut session.devices[device];
        row.retained = 0;
        if let Some(primary) = row.primary.take() {
            session.destroy_context(primary);
        }
        Ok(())
    }

    fn cuDevicePrimaryCtxSetFlags_v2(device: c_int, flags: c_uint) {
        let mut session = Session::open();
        let device = session.device(device)?;
        session.devices[device].flags = flags;
        let primary = session.devices[device].primary;
        if let Some(context) = primary.and_then(|primary| session.contexts.get_mut(&primary)) {
            context.flags = flags;
        }
        Ok(())
    }

    fn cuDevicePrimaryCtxGetState(device: c_int, flags: Out<c_uint>, active: Out<c_int>) {
        let session = Session::open();
        let row = &session.devices[session.device(device)?];
        flags.set(row.flags)?;
        active.set(c_int::from(row.primary.is_some()))
    }
}
