//! Functions: attributes and occupancy.

use crate::abi::{Handle, LaunchConfiguration};
use crate::code::{Code, Outcome};
use crate::door::{In, Out, entries};
use crate::driver::Session;
use crate::driver::device::MULTIPROCESSORS;
use crate::driver::function::Function;
use std::ffi::{c_char, c_int, c_uint};

/// `CUoccupancyB2DSize`: dynamic shared memory for a block of so many threads.
pub(crate) type SharedFor = Option<extern "C" fn(c_int) -> usize>;

fn get(value: &Out<c_int>, attribute: c_int, function: Handle) -> Outcome {
    value.set(Session::open().function(function)?.attribute(attribute)?)
}

fn set(function: Handle, attribute: c_int, value: c_int) -> Outcome {
    let mut session = Session::open();
    session.function(function)?;
    let row = session.functions.get_mut(&function).ok_or(Code::INVALID_HANDLE)?;
    row.set_attribute(attribute, value)
}

fn name(text: &Out<*const c_char>, function: Handle) -> Outcome {
    // as long as the function is loaded
    text.set(Session::open().function(function)?.c_name.as_ptr())
}

fn parameter(function: Handle, index: usize, offset: &Out<usize>, size: &Out<usize>) -> Outcome {
    let session = Session::open();
    let parameters = &session.function(function)?.parameters;
    let &(start, bytes) = parameters.get(index).ok_or(Code::INVALID_VALUE)?;
    size.offer(bytes);
    offset.set(start)
}

fn blocks(count: &Out<c_int>, function: Handle, threads: c_int, dynamic: usize) -> Outcome {
    let session = Session::open();
    let threads = u32::try_from(threads).ok().filter(|threads| *threads > 0);
    let threads = threads.ok_or(Code::INVALID_VALUE)?;
    let dynamic = u32::try_from(dynamic).map_err(|_| Code::INVALID_VALUE)?;
    count.set(session.function(function)?.blocks(threads, dynamic) as c_int)
}

/// The block with which most threads are on a multiprocessor; the larger one of equals.
fn best(
    grid: &Out<c_int>,
    block: &Out<c_int>,
    function: Handle,
    shared_for: SharedFor,
    dynamic: usize,
    limit: c_int,
) -> Outcome {
    let most = Session::open().function(function)?.max_threads;
    let most = u32::try_from(limit).ok().filter(|limit| *limit > 0).map_or(most, |it| it.min(most));
    let mut chosen = (0, 0, 0);
    for threads in (1..=most / 32).rev().map(|warps| warps * 32).chain([most]) {
        // without the lock: this is a function of the caller's
        let dynamic = shared_for.map_or(dynamic, |shared_for| shared_for(threads as c_int));
        let session = Session::open();
        let row: &Function = session.function(function)?;
        let blocks = row.blocks(threads, u32::try_from(dynamic).unwrap_or(u32::MAX >> 1));
        if blocks * threads > chosen.0 {
            chosen = (blocks * threads, threads, blocks);
        }
    }
    block.set(chosen.1 as c_int)?;
    grid.set(chosen.2 as c_int * MULTIPROCESSORS)
}

entries! {
    Code;

    fn cuFuncGetAttribute(value: Out<c_int>, attribute: c_int, function: Handle) {
        get(&value, attribute, function)
    }

    fn cuFuncSetAttribute(function: Handle, attribute: c_int, value: c_int) {
        set(function, attribute, value)
    }

    fn cuKernelGetAttribute(value: Out<c_int>, attribute: c_int, kernel: Handle, _device: c_int) {
        get(&value, attribute, kernel)
    }

    fn cuKernelSetAttribute(attribute: c_int, value: c_int, kernel: Handle, _device: c_int) {
        set(kernel, attribute, value)
    }

    fn cuFuncSetCacheConfig(function: Handle, configuration: c_uint) {
        Session::open().function(function)?;
        if configuration > 3 { Err(Code::INVALID_VALUE) } else { Ok(()) }
    }

    fn cuKernelSetCacheConfig(kernel: Handle, configuration: c_uint, _device: c_int) {
        Session::open().function(kernel)?;
        if configuration > 3 { Err(Code::INVALID_VALUE) } else { Ok(()) }
    }

    fn cuFuncSetSharedMemConfig(function: Handle, _configuration: c_uint) {
        Session::open().function(function).map(|_| ())
    }

    fn cuFuncGetModule(module: Out<Handle>, function: Handle) {
        module.set(Session::open().function(function)?.module)
    }

    fn cuFuncGetName(text: Out<*const c_char>, function: Handle) {
        name(&text, function)
    }

    fn cuKernelGetName(text: Out<*const c_char>, kernel: Handle) {
        name(&text, kernel)
    }

    fn cuKernelGetLibrary(library: Out<Handle>, kernel: Handle) {
        library.set(Session::open().function(kernel)?.module)
    }

    fn cuFuncGetParamInfo(function: Handle, index: usize, offset: Out<usize>, size: Out<usize>) {
        parameter(function, index, &offset, &size)
    }

    fn cuKernelGetParamInfo(kernel: Handle, index: usize, offset: Out<usize>, size: Out<usize>) {
        parameter(kernel, index, &offset, &size)
    }

    fn cuFuncGetParamCount(function: Handle, count: Out<usize>) {
        count.set(Session::open().function(function)?.parameters.len())
    }

    fn cuKernelGetParamCount(kernel: Handle, count: Out<usize>) {
        count.set(Session::open().function(kernel)?.parameters.len())
    }

    fn cuFuncIsLoaded(state: Out<c_uint>, function: Handle) {
        Session::open().function(function)?;
        state.set(1)
    }

    fn cuFuncLoad(function: Handle) {
        Session::open().function(function).map(|_| ())
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        count: Out<c_int>,
        function: Handle,
        threads: c_int,
        dynamic: usize,
    ) {
        blocks(&count, function, threads, dynamic)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        count: Out<c_int>,
        function: Handle,
        threads: c_int,
        dynamic: usize,
        flags: c_uint,
    ) {
        if flags > 1 {
            return Err(Code::INVALID_VALUE);
        }
        blocks(&count, function, threads, dynamic)
    }

    fn cuOccupancyAvailableDynamicSMemPerBlock(
        bytes: Out<usize>,
        function: Handle,
        blocks: c_int,
        threads: c_int,
    ) {
        let session = Session::open();
        let function = session.function(function)?;
        let (blocks, threads) = (u32::try_from(blocks), u32::try_from(threads));
        let (Ok(blocks), Ok(threads)) = (blocks, threads) else { return Err(Code::INVALID_VALUE) };
        bytes.set(function.dynamic_for(blocks, threads)?)
    }

    fn cuOccupancyMaxPotentialBlockSize(
        grid: Out<c_int>,
        block: Out<c_int>,
        function: Handle,
        shared_for: SharedFor,
        dynamic: usize,
        limit: c_int,
    ) {
        best(&grid, &block, function, shared_for, dynamic, limit)
    }

    fn cuOccupancyMaxPotentialBlockSizeWithFlags(
        grid: Out<c_int>,
        block: Out<c_int>,
        function: Handle,
        shared_for: SharedFor,
        dynamic: usize,
        limit: c_int,
        flags: c_uint,
    ) {
        if flags > 1 {
            return Err(Code::INVALID_VALUE);
        }
        best(&grid, &block, function, shared_for, dynamic, limit)
    }

    fn cuOccupancyMaxPotentialClusterSize(
        _size: Out<c_int>,
        function: Handle,
        _configuration: In<LaunchConfiguration>,
    ) {
        Session::open().function(function)?;
        Err(Code::NOT_SUPPORTED)
    }

    fn cuOccupancyMaxActiveClusters(
        _count: Out<c_int>,
        function: Handle,
        _configuration: In<LaunchConfiguration>,
    ) {
        Session::open().function(function)?;
        Err(Code::NOT_SUPPORTED)
    }
}
