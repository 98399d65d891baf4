//! Device memory, and what is known of an address.

use crate::abi::{Handle, Location};
use crate::code::{Code, Outcome};
use crate::door::{Address, In, Out, entries, write_host};
use crate::driver::memory::Owner;
use crate::driver::{Driver, Session};
use std::ffi::{c_int, c_uint};

/// Writes an attribute of an address to where the caller wants it.
fn attribute(session: &Driver, number: c_int, address: u64, to: Address) -> Outcome {
    if to == 0 {
        return Err(Code::INVALID_VALUE);
    }
    let put = |bytes: &[u8]| {
        // SAFETY: the caller has room for the type of the attribute that it asks for
        unsafe { write_host(to, bytes) };
        Ok(())
    };
    let long = |value: u64| put(&value.to_le_bytes());
    let int = |value: u32| put(&value.to_le_bytes());
    let device = session.block(address);
    let host = session.pinned_at(address as usize, 1);
    let variable = session.extent(address);
    let context = device.map(|(_, block)| block.context).or(host.map(|(_, range)| range.context));
    match number {
        1 => long(context.ok_or(Code::INVALID_VALUE)? as u64),
        2 if device.is_some() || variable.is_some() => int(2),
        2 if host.is_some() => int(1),
        3 if device.is_some() || variable.is_some() => long(address),
        4 if host.is_some() => long(address),
        6 if device.is_some() => int(0),
        7 => {
            let number = device.map(|(_, block)| block.number);
            long(number.or(host.map(|(_, range)| range.number)).ok_or(Code::INVALID_VALUE)?)
        }
        8 | 10 | 14 | 15 if context.is_some() => int(0),
        9 => {
            let ordinal = match (device, host) {
                (Some((_, block)), _) => block.device,
                (None, Some((_, range))) => session.device_of(range.context)?,
                _ => return Err(Code::INVALID_VALUE),
            };
            int(ordinal as u32)
        }
        11 | 12 => {
            let (base, bytes) = match host {
                Some((base, range)) => (base as u64, range.bytes as u64),
                None => variable.ok_or(Code::INVALID_VALUE)?,
            };
            long(if number == 11 { base } else { bytes })
        }
        13 => put(&[u8::from(context.is_some() || variable.is_some())]),
        16 if device.is_some() => int(3),
        17 => match device {
            Some((_, block)) => long(match block.owner {
                Owner::Pool(pool) => pool as u64,
                _ => 0,
            }),
            None => Err(Code::INVALID_VALUE),
        },
        _ => Err(Code::INVALID_VALUE),
    }
}

fn allocate(bytes: usize) -> Outcome<u64> {
    let mut session = Session::open();
    let context = session.context()?;
    session.refuse_unsafe()?;
    let device = session.device_of(context)?;
    session.allocate(context, device, bytes as u64, Owner::Device)
}

entries! {
    Code;

    fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) {
        let session = Session::open();
        let device = session.device_of(session.context()?)?;
        free.offer(session.available(device) as usize);
        total.offer(session.configuration.memory as usize);
        Ok(())
    }

    fn cuMemAlloc_v2(address: Out<u64>, bytes: usize) {
        if address.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        address.set(allocate(bytes)?)
    }

    fn cuMemAllocPitch_v2(
        address: Out<u64>,
        pitch: Out<usize>,
        width: usize,
        height: usize,
        element: c_uint,
    ) {
        if !matches!(element, 4 | 8 | 16) || address.is_null() || pitch.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let row = width.div_ceil(512) * 512;
        address.set(allocate(row.checked_mul(height).ok_or(Code::INVALID_VALUE)?)?)?;
        pitch.set(row)
    }

    fn cuMemFree_v2(address: u64) {
        let mut session = Session::open();
        session.context()?;
        if address == 0 {
            return Ok(());
        }
        session.refuse_unsafe()?;
        let block = session.allocations.get(&address).ok_or(Code::INVALID_VALUE)?;
        let (device, owner) = (block.device, block.owner);
        match owner {
            // freeing waits for the device
            Owner::Device => session.drain_device(device),
            // but not for memory of a stream
            Owner::Pool(_) if !block.freed => {}
            Owner::Pool(_) | Owner::Graph(_) => return Err(Code::INVALID_VALUE),
        }
        let context = session.context()?;
        session.release(address);
        session.intact(context)
    }

    fn cuMemGetAddressRange_v2(base: Out<u64>, bytes: Out<usize>, address: u64) {
        let session = Session::open();
        session.context()?;
        let (start, length) = session.extent(address).ok_or(Code::NOT_FOUND)?;
        base.offer(start);
        bytes.offer(length as usize);
        Ok(())
    }

    fn cuMemAllocManaged(_address: Out<u64>, _bytes: usize, _flags: c_uint) {
        Session::open().context()?;
        Err(Code::NOT_SUPPORTED)
    }

    fn cuMemAdvise_v2(_address: u64, _bytes: usize, _advice: c_int, _location: Location) {
        Session::open().context()?;
        Err(Code::NOT_SUPPORTED)
    }

    fn cuMemPrefetchAsync_v2(
        _address: u64,
        _bytes: usize,
        _location: Location,
        _flags: c_uint,
        _stream: Handle,
    ) {
        Session::open().context()?;
        Err(Code::NOT_SUPPORTED)
    }

    fn cuStreamAttachMemAsync(_stream: Handle, _address: u64, _bytes: usize, _flags: c_uint) {
        Session::open().context()?;
        Err(Code::NOT_SUPPORTED)
    }

    fn cuImportExternalMemory(_memory: Out<Handle>, _description: In<u8>) {
        Session::open().context()?;
        Err(Code::NOT_SUPPORTED)
    }

    fn cuDestroyExternalMemory(_memory: Handle) {
        Err(Code::INVALID_HANDLE)
    }

    fn cuExternalMemoryGetMappedBuffer(_address: Out<u64>, _memory: Handle, _description: In<u8>) {
        Err(Code::INVALID_HANDLE)
    }

    fn cuPointerGetAttribute(data: Address, number: c_int, address: u64) {
        let session = Session::open();
        session.context()?;
        attribute(&session, number, address, data)
    }

    fn cuPointerGetAttributes(
        count: c_uint,
        numbers: In<c_int>,
        data: In<Address>,
        address: u64,
    ) {
        let session = Session::open();
        session.context()?;
        let (numbers, data) = (numbers.all(count as usize)?, data.all(count as usize)?);
        for (number, to) in numbers.into_iter().zip(data) {
            if attribute(&session, number, address, to).is_err() {
                // as for memory that nobody registered: zeros
                let bytes: &[u8] = match number {
                    1 | 3 | 4 | 7 | 11 | 12 | 17 => &[0; 8],
                    9 => &(-2_i32).to_le_bytes(),
                    13 => &[0],
                    _ => &[0; 4],
                };
                // SAFETY: the caller has room for the type of the attribute that it asks for
                unsafe { write_host(to, bytes) };
            }
        }
        Ok(())
    }
}
