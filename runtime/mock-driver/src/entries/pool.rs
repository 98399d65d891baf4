//! Memory pools, and memory that is allocated in the order of a stream.

use crate::abi::{Access, Handle, Location, PoolProperties};
use crate::code::{Code, Outcome};
use crate::door::{Address, In, Out, entries, write_host};
use crate::driver::memory::Owner;
use crate::driver::pool::Pool;
use crate::driver::work::Work;
use crate::driver::{Session, new_handle};
use std::ffi::{c_int, c_uint};

/// Memory from a pool, valid from its turn in the stream on.
fn allocate(bytes: usize, pool: Option<Handle>, stream: Handle) -> Outcome<u64> {
    let mut session = Session::open();
    let stream = session.stream(stream)?;
    let context = session.streams[&stream].context;
    let device = session.device_of(context)?;
    let pool = pool.unwrap_or(session.devices[device].pool);
    if session.pools.get(&pool).is_none_or(|pool| pool.destroyed) {
        return Err(Code::INVALID_VALUE);
    }
    let device = session.pools[&pool].device;
    let bytes = bytes as u64;
    let address = if session.capturing(stream)? {
        let part = session.streams[&stream].capture.as_ref().ok_or(Code::ILLEGAL_STATE)?.capture;
        let graph = session.captures[&part].graph;
        session.graph_memory(context, device, graph, bytes)?
    } else {
        let mut address = session.allocate(context, device, bytes, Owner::Pool(pool));
        if address == Err(Code::OUT_OF_MEMORY) {
            // frees that are queued may make room
            session.drain_device(device);
            session.intact(context)?;
            address = session.allocate(context, device, bytes, Owner::Pool(pool));
        }
        address?
    };
    session.submit(stream, Work::Allocate { address, bytes }, &[])?;
    Ok(address)
}

/// The device of a location.
fn placed(session: &Session, location: In<Location>) -> Outcome<usize> {
    let location = location.get()?;
    if location.kind != 1 {
        return Err(Code::INVALID_VALUE);
    }
    session.device(location.id)
}

entries! {
    Code;

    fn cuMemAllocAsync(address: Out<u64>, bytes: usize, stream: Handle) {
        if address.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        address.set(allocate(bytes, None, stream)?)
    }

    fn cuMemAllocFromPoolAsync(address: Out<u64>, bytes: usize, pool: Handle, stream: Handle) {
        if address.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        address.set(allocate(bytes, Some(pool), stream)?)
    }

    fn cuMemFreeAsync(address: u64, stream: Handle) {
        let mut session = Session::open();
        let stream = session.stream(stream)?;
        if address == 0 {
            return Ok(());
        }
        let capturing = session.capturing(stream)?;
        let block = session.allocations.get_mut(&address).ok_or(Code::INVALID_VALUE)?;
        if block.freed {
            return Err(Code::INVALID_VALUE);
        }
        match (block.owner, capturing) {
            (Owner::Graph(_), true) => {}
            // a graph frees only what a graph allocated
            (_, true) => return Err(Code::INVALID_VALUE),
            // the other blocks are gone when the stream comes to this
            (_, false) => block.freed = true,
        }
        if matches!(block.owner, Owner::Graph(_)) && !capturing {
            // a launch of its graph may take it again: it goes with the graph
            session.submit(stream, Work::Empty, &[])?;
            return Ok(());
        }
        session.submit(stream, Work::Free { address }, &[])?;
        Ok(())
    }

    fn cuMemGetDefaultMemPool(pool: Out<Handle>, location: In<Location>, _kind: c_int) {
        let session = Session::open();
        pool.set(session.devices[placed(&session, location)?].default_pool)
    }

    fn cuMemGetMemPool(pool: Out<Handle>, location: In<Location>, _kind: c_int) {
        let session = Session::open();
        pool.set(session.devices[placed(&session, location)?].pool)
    }

    fn cuMemPoolCreate(pool: Out<Handle>, properties: In<PoolProperties>) {
        let mut session = Session::open();
        let properties = properties.get()?;
        if properties.allocation != 1 || properties.location.kind != 1 {
            return Err(Code::INVALID_VALUE);
        }
        if properties.handles != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        let device = session.device(properties.location.id)?;
        let mut row = Pool::new(device, false);
        row.limit = properties.max_size as u64;
        let handle = new_handle();
        session.pools.insert(handle, row);
        pool.set(handle)
    }

    fn cuMemPoolDestroy(pool: Handle) {
        let mut session = Session::open();
        let row = session.pools.get_mut(&pool).ok_or(Code::INVALID_VALUE)?;
        if row.standing || row.destroyed {
            return Err(Code::INVALID_VALUE);
        }
        row.destroyed = true;
        row.trim(0);
        let (device, empty) = (row.device, row.used == 0);
        if session.devices[device].pool == pool {
            session.devices[device].pool = session.devices[device].default_pool;
        }
        if empty {
            session.pools.remove(&pool);
        }
        Ok(())
    }

    fn cuMemPoolTrimTo(pool: Handle, keep: usize) {
        let mut session = Session::open();
        let row = session.pools.get_mut(&pool).ok_or(Code::INVALID_VALUE)?;
        row.trim(keep as u64);
        Ok(())
    }

    fn cuMemPoolGetAttribute(pool: Handle, attribute: c_int, value: Address) {
        let session = Session::open();
        let row = session.pools.get(&pool).ok_or(Code::INVALID_VALUE)?;
        if value == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let put = |bytes: &[u8]| {
            // SAFETY: the caller has room for the type of the attribute that it asks for
            unsafe { write_host(value, bytes) };
            Ok(())
        };
        match attribute {
            1..=3 => put(&row.reuse[attribute as usize - 1].to_le_bytes()),
            4 => put(&row.threshold.to_le_bytes()),
            5 => put(&row.reserved.to_le_bytes()),
            6 => put(&row.reserved_most.to_le_bytes()),
            7 => put(&row.used.to_le_bytes()),
            8 => put(&row.used_most.to_le_bytes()),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuMemPoolSetAttribute(pool: Handle, attribute: c_int, value: Address) {
        let mut session = Session::open();
        let row = session.pools.get_mut(&pool).ok_or(Code::INVALID_VALUE)?;
        if value == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let long = || In::<u64>::at(value).get();
        match attribute {
            1..=3 => row.reuse[attribute as usize - 1] = In::<c_int>::at(value).get()?,
            4 => row.threshold = long()?,
            // the high marks go back to what is in use
            6 if long()? == 0 => row.reserved_most = row.reserved,
            8 if long()? == 0 => row.used_most = row.used,
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    }

    fn cuMemPoolSetAccess(pool: Handle, accesses: In<Access>, count: usize) {
        let session = Session::open();
        let row = session.pools.get(&pool).ok_or(Code::INVALID_VALUE)?;
        for access in accesses.all(count)? {
            if access.location.kind != 1 {
                return Err(Code::INVALID_VALUE);
            }
            let device = session.device(access.location.id)?;
            if device == row.device && access.flags != 3 {
                return Err(Code::INVALID_VALUE);
            }
        }
        Ok(())
    }

    fn cuMemPoolGetAccess(flags: Out<c_uint>, pool: Handle, location: In<Location>) {
        let session = Session::open();
        let row = session.pools.get(&pool).ok_or(Code::INVALID_VALUE)?;
        let device = session.device(location.get()?.id)?;
        flags.set(if device == row.device { 3 } else { 0 })
    }
}
