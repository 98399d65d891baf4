//! Launches of kernels, and functions of the host in a stream.

use crate::abi::{Handle, HostFunction, LaunchConfiguration};
use crate::code::{Code, Outcome};
use crate::door::{In, entries};
use crate::driver::Session;
use crate::driver::function::Request;
use crate::driver::work::Work;
use std::ffi::c_uint;

fn launch(request: &Request, stream: Handle, parameters: In<usize>, extra: In<usize>) -> Outcome {
    let mut session = Session::open();
    let stream = session.stream(stream)?;
    let kernel = session.prepare(request, parameters, extra)?;
    let owner = session.function(request.function)?.context;
    if owner != session.streams[&stream].context {
        return Err(Code::INVALID_HANDLE);
    }
    session.submit(stream, Work::Kernel(kernel), &[])?;
    session.counts.launches += 1;
    Ok(())
}

fn call(stream: Handle, function: HostFunction, data: usize) -> Outcome {
    let function = function.ok_or(Code::INVALID_VALUE)?;
    let mut session = Session::open();
    let stream = session.stream(stream)?;
    session.submit(stream, Work::Host { function, data }, &[]).map(|_| ())
}

entries! {
    Code;

    fn cuLaunchKernel(
        function: Handle,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared: c_uint,
        stream: Handle,
        parameters: In<usize>,
        extra: In<usize>,
    ) {
        let request = Request {
            function,
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared,
            cooperative: false,
        };
        launch(&request, stream, parameters, extra)
    }

    fn cuLaunchCooperativeKernel(
        function: Handle,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared: c_uint,
        stream: Handle,
        parameters: In<usize>,
    ) {
        let request = Request {
            function,
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared,
            cooperative: true,
        };
        launch(&request, stream, parameters, In::at(0))
    }

    fn cuLaunchKernelEx(
        configuration: In<LaunchConfiguration>,
        function: Handle,
        parameters: In<usize>,
        extra: In<usize>,
    ) {
        let configuration = configuration.get()?;
        let attributes = In::at(configuration.attributes.expose_provenance());
        let mut cooperative = false;
        for attribute in attributes.all(configuration.count as usize)? {
            let attribute: crate::abi::LaunchAttribute = attribute;
            let [first, second, ..] = attribute.value;
            match attribute.id {
                2 => cooperative = first as u32 != 0,
                // a cluster of more than one block
                4 if first != 1 | 1 << 32 || second as u32 != 1 => {
                    return Err(Code::INVALID_CLUSTER_SIZE);
                }
                // what is left changes speed, not results
                0..=16 => {}
                _ => return Err(Code::INVALID_VALUE),
            }
        }
        let request = Request {
            function,
            grid: configuration.grid,
            block: configuration.block,
            shared: configuration.shared,
            cooperative,
        };
        launch(&request, configuration.stream, parameters, extra)
    }

    fn cuLaunchHostFunc(stream: Handle, function: HostFunction, data: usize) {
        call(stream, function, data)
    }

    fn cuLaunchHostFunc_v2(stream: Handle, function: HostFunction, data: usize, _mode: c_uint) {
        call(stream, function, data)
    }
}
