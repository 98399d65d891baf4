//! Capture, replay and update of graphs.

mod support;

use cudarc::driver::sys::CUresult as Code;
use cudarc::driver::sys::CUstreamCaptureStatus as Status;
use cudarc::driver::{CudaGraph, CudaStream, DevicePtr, DriverError, result, sys};
use std::ffi::c_void;
use std::sync::Arc;
use support::{THREAD_LOCAL, begin, code, context, count, kernel, store};

const N: usize = 64;
const NO_FLAGS: sys::CUgraphInstantiate_flags = sys::CUgraphInstantiate_flags(0);

/// Captures what a function does in a stream.
fn capture(
    stream: &Arc<CudaStream>,
    work: impl FnOnce() -> Result<(), DriverError>,
) -> Result<CudaGraph, DriverError> {
    stream.begin_capture(THREAD_LOCAL)?;
    work()?;
    Ok(stream.end_capture(NO_FLAGS)?.expect("a graph"))
}

/// The nodes of a graph.
fn nodes(graph: sys::CUgraph) -> Vec<sys::CUgraphNode> {
    let mut count = 0;
    // SAFETY: first the number, then so many
    unsafe {
        sys::cuGraphGetNodes(graph, std::ptr::null_mut(), &mut count).result().unwrap();
        let mut nodes = vec![std::ptr::null_mut(); count];
        sys::cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count).result().unwrap();
        nodes
    }
}

#[test]
fn a_replay_is_one_call() -> Result<(), DriverError> {
    for order in ["lazy", "eager", "random:5"] {
        let (mock, _alone) = begin(&[("order", order)]);
        let context = context(0);
        let stream = context.new_stream()?;
        let function = kernel(&context, "scale");
        let mut data = stream.clone_htod(&[1.0_f32; N])?;
        stream.synchronize()?;
        let graph = capture(&stream, || {
            assert_eq!(stream.capture_status()?, Status::CU_STREAM_CAPTURE_STATUS_ACTIVE);
            use cudarc::driver::{LaunchConfig, PushKernelArg};
            for factor in [2.0_f32, 3.0] {
                let n = N as i32;
                let mut launch = stream.launch_builder(&function);
                launch.arg(&mut data).arg(&factor).arg(&n);
                // SAFETY: the kernel's parameters
                unsafe { launch.launch(LaunchConfig::for_num_elems(N as u32)) }?;
            }
            Ok(())
        })?;
        assert_eq!(stream.capture_status()?, Status::CU_STREAM_CAPTURE_STATUS_NONE);
        assert_eq!(nodes(graph.cu_graph()).len(), 2);
        // captured work does not run
        assert_eq!(stream.clone_dtoh(&data)?, [1.0; N]);
        graph.upload()?;
        graph.launch()?;
        stream.synchronize()?;
        let before = count(&mock, "calls");
        // SAFETY: a graph of this test, in its stream
        unsafe { result::graph::launch(graph.cu_graph_exec(), stream.cu_stream()) }?;
        assert_eq!(count(&mock, "calls") - before, 1);
        assert_eq!(stream.clone_dtoh(&data)?, [36.0; N]);
        assert_eq!((count(&mock, "graph_launches"), count(&mock, "kernels")), (2, 4));
        // kernels that were captured by calls are launches too
        assert_eq!(count(&mock, "launches"), 2);
    }
    Ok(())
}

#[test]
fn streams_join_a_capture_by_events() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let (main, side) = (context.new_stream()?, context.new_stream()?);
    let function = kernel(&context, "store");
    let (one, two) = (main.alloc_zeros::<i32>(N)?, main.alloc_zeros::<i32>(N)?);
    main.synchronize()?;
    let graph = capture(&main, || {
        store(&main, &function, one.device_ptr(&main).0, 1, N as i32);
        side.wait(&main.record_event(None)?)?;
        assert_eq!(side.capture_status()?, Status::CU_STREAM_CAPTURE_STATUS_ACTIVE);
        store(&side, &function, two.device_ptr(&main).0, 2, N as i32);
        store(&main, &function, one.device_ptr(&main).0, 3, N as i32);
        main.wait(&side.record_event(None)?)
    })?;
    assert_eq!(side.capture_status()?, Status::CU_STREAM_CAPTURE_STATUS_NONE);
    let nodes = nodes(graph.cu_graph());
    let after = |node| {
        let (mut count, mut before) = (4, [std::ptr::null_mut(); 4]);
        // SAFETY: room for four
        unsafe {
            let edges = std::ptr::null_mut();
            sys::cuGraphNodeGetDependencies_v2(node, before.as_mut_ptr(), edges, &mut count)
        }
        .result()
        .unwrap();
        before[..count].to_vec()
    };
    assert_eq!(nodes.len(), 3);
    assert_eq!(after(nodes[0]), []);
    assert_eq!(after(nodes[1]), [nodes[0]]);
    assert_eq!(after(nodes[2]), [nodes[0]]);
    graph.launch()?;
    assert_eq!(main.clone_dtoh(&one)?, [3; N]);
    assert_eq!(main.clone_dtoh(&two)?, [2; N]);
    Ok(())
}

#[test]
fn a_copy_from_pinned_memory_is_read_at_each_launch() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    // SAFETY: handles and memory of this test
    unsafe {
        let device = result::malloc_sync(4)?;
        let pinned = result::malloc_host(4, 0)?.cast::<u32>();
        let graph = capture(&stream, || {
            let from = std::slice::from_raw_parts(pinned, 1);
            result::memcpy_htod_async(device, from, stream.cu_stream())
        })?;
        for number in [1, 2] {
            pinned.write(number);
            graph.launch()?;
            let mut seen = [0_u32];
            result::memcpy_dtoh_async(&mut seen, device, stream.cu_stream())?;
            assert_eq!(seen, [number]);
        }
        drop(graph);
        result::free_host(pinned.cast())?;
        result::free_sync(device)
    }
}

#[test]
fn an_executable_is_updated_from_a_graph_of_its_shape() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let function = kernel(&context, "store");
    let data = stream.alloc_zeros::<i32>(N)?;
    stream.synchronize()?;
    let address = data.device_ptr(&stream).0;
    let of = |values: &[i32]| {
        capture(&stream, || {
            values.iter().for_each(|value| store(&stream, &function, address, *value, N as i32));
            Ok(())
        })
    };
    let (graph, other, longer) = (of(&[1])?, of(&[2])?, of(&[3, 4])?);
    let update = |from: &CudaGraph| {
        // SAFETY: overwritten
        let mut result: sys::CUgraphExecUpdateResultInfo = unsafe { std::mem::zeroed() };
        // SAFETY: graphs of this test
        let code = unsafe {
            sys::cuGraphExecUpdate_v2(graph.cu_graph_exec(), from.cu_graph(), &mut result)
        };
        (code, result.result)
    };
    use sys::CUgraphExecUpdateResult as Update;
    assert_eq!(update(&other), (Code::CUDA_SUCCESS, Update::CU_GRAPH_EXEC_UPDATE_SUCCESS));
    graph.launch()?;
    assert_eq!(stream.clone_dtoh(&data)?, [2; N]);
    assert_eq!(
        update(&longer),
        (
            Code::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
            Update::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED
        )
    );
    Ok(())
}

#[test]
fn parameters_of_a_node_are_read_and_changed() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let function = kernel(&context, "store");
    let data = stream.alloc_zeros::<i32>(N)?;
    stream.synchronize()?;
    let address = data.device_ptr(&stream).0;
    let graph = capture(&stream, || {
        store(&stream, &function, address, 1, N as i32);
        Ok(())
    })?;
    let node = nodes(graph.cu_graph())[0];
    // SAFETY: overwritten; then pointers to what the kernel has as parameters
    unsafe {
        let mut kind = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
        sys::cuGraphNodeGetType(node, &mut kind).result()?;
        assert_eq!(kind, sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL);
        let mut parameters: sys::CUDA_KERNEL_NODE_PARAMS = std::mem::zeroed();
        sys::cuGraphKernelNodeGetParams_v2(node, &mut parameters).result()?;
        assert_eq!(parameters.func, function.cu_function());
        assert_eq!((parameters.gridDimX, parameters.blockDimX), (1, 1024));
        assert_eq!(parameters.kernelParams.add(1).read().cast::<i32>().read(), 1);

        let (mut out, mut value, mut n) = (address, 8_i32, 32_i32);
        let mut pointers: [*mut c_void; 3] =
            [(&raw mut out).cast(), (&raw mut value).cast(), (&raw mut n).cast()];
        parameters.kernelParams = pointers.as_mut_ptr();
        (parameters.blockDimX, parameters.gridDimX) = (32, 1);
        let exec = graph.cu_graph_exec();
        sys::cuGraphExecKernelNodeSetParams_v2(exec, node, &parameters).result()?;
        graph.launch()?;
        let seen = stream.clone_dtoh(&data)?;
        assert_eq!((seen[31], seen[32]), (8, 0));

        // a node that is switched off does nothing
        sys::cuGraphNodeSetEnabled(exec, node, 0).result()?;
        sys::cuMemsetD32Async(address, 3, N, stream.cu_stream()).result()?;
        graph.launch()?;
        assert_eq!(stream.clone_dtoh(&data)?, [3; N]);
        // of another kind it cannot become
        let fill = sys::CUDA_MEMSET_NODE_PARAMS {
            dst: address,
            pitch: 0,
            value: 0,
            elementSize: 4,
            width: 1,
            height: 1,
        };
        let changed = sys::cuGraphExecMemsetNodeSetParams(exec, node, &fill, context.cu_ctx());
        assert_eq!(changed, Code::CUDA_ERROR_INVALID_VALUE);
    }
    Ok(())
}

#[test]
fn graphs_are_built_by_hand() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let data = stream.alloc_zeros::<u32>(N)?;
    stream.synchronize()?;
    let address = data.device_ptr(&stream).0;
    // SAFETY: handles and memory of this test
    unsafe {
        let mut graph = std::ptr::null_mut();
        sys::cuGraphCreate(&mut graph, 0).result()?;
        let fill = |value, width| sys::CUDA_MEMSET_NODE_PARAMS {
            dst: address,
            pitch: 0,
            value,
            elementSize: 4,
            width,
            height: 1,
        };
        let add = |after: &[sys::CUgraphNode], value, width| {
            let mut node = std::ptr::null_mut();
            let fill = fill(value, width);
            let (first, count) = (after.as_ptr(), after.len());
            sys::cuGraphAddMemsetNode(&mut node, graph, first, count, &fill, context.cu_ctx())
                .result()?;
            Ok::<_, DriverError>(node)
        };
        let first = add(&[], 1, N)?;
        let second = add(&[], 2, N / 2)?;
        // without this edge the order is not said
        sys::cuGraphAddDependencies_v2(graph, &first, &second, std::ptr::null(), 1).result()?;
        let exec = result::graph::instantiate(graph, NO_FLAGS)?;
        result::graph::launch(exec, stream.cu_stream())?;
        let seen = stream.clone_dtoh(&data)?;
        assert_eq!((seen[0], seen[N - 1]), (2, 1));

        let folder = std::env::temp_dir().join(format!("mock-graph-{}.dot", std::process::id()));
        let path = std::ffi::CString::new(folder.to_str().unwrap()).unwrap();
        sys::cuGraphDebugDotPrint(graph, path.as_ptr(), 0).result()?;
        let text = std::fs::read_to_string(&folder).unwrap();
        std::fs::remove_file(&folder).unwrap();
        assert!(text.contains("n0 -> n1;") && text.contains("MEMSET 1"), "{text}");

        // back to a cycle: refused when it is instantiated
        sys::cuGraphAddDependencies_v2(graph, &second, &first, std::ptr::null(), 1).result()?;
        let cyclic = result::graph::instantiate(graph, NO_FLAGS);
        assert_eq!(code(cyclic), Code::CUDA_ERROR_INVALID_VALUE);
        // the executable is its own
        result::graph::destroy(graph)?;
        result::graph::launch(exec, stream.cu_stream())?;
        stream.synchronize()?;
        result::graph::exec_destroy(exec)
    }
}

#[test]
fn a_copy_of_an_executable_is_changed() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let data = stream.clone_htod(&[1_u32, 2, 3, 4])?;
    let out = stream.alloc_zeros::<u32>(4)?;
    stream.synchronize()?;
    let (from, to) = (data.device_ptr(&stream).0, out.device_ptr(&stream).0);
    // SAFETY: handles and memory of this test; structs are overwritten before they are read
    unsafe {
        stream.begin_capture(THREAD_LOCAL)?;
        result::memcpy_dtod_async(to, from, 8, stream.cu_stream())?;
        let graph = result::stream::end_capture(stream.cu_stream())?;
        let mut parameters = sys::CUDA_GRAPH_INSTANTIATE_PARAMS {
            flags: 0,
            hUploadStream: std::ptr::null_mut(),
            hErrNode_out: std::ptr::null_mut(),
            result_out: sys::CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_ERROR,
        };
        let mut exec = std::ptr::null_mut();
        sys::cuGraphInstantiateWithParams(&mut exec, graph, &mut parameters).result()?;
        let success = sys::CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_SUCCESS;
        assert_eq!(parameters.result_out, success);

        let node = nodes(graph)[0];
        let mut copy = std::mem::MaybeUninit::<sys::CUDA_MEMCPY3D>::uninit();
        sys::cuGraphMemcpyNodeGetParams(node, copy.as_mut_ptr()).result()?;
        let mut copy = copy.assume_init();
        assert_eq!((copy.srcDevice, copy.dstDevice, copy.WidthInBytes), (from, to, 8));
        (copy.srcDevice, copy.dstDevice) = (from + 8, to + 8);
        let owner = context.cu_ctx();
        sys::cuGraphExecMemcpyNodeSetParams(exec, node, &copy, owner).result()?;
        result::graph::launch(exec, stream.cu_stream())?;
        assert_eq!(stream.clone_dtoh(&out)?, [0, 0, 3, 4]);
        // to the host it cannot go instead
        let mut number = 0_u64;
        copy.dstMemoryType = sys::CUmemorytype::CU_MEMORYTYPE_HOST;
        copy.dstHost = (&raw mut number).cast();
        let changed = sys::cuGraphExecMemcpyNodeSetParams(exec, node, &copy, owner);
        assert_eq!(changed, Code::CUDA_ERROR_INVALID_VALUE);
        result::graph::exec_destroy(exec)?;
        result::graph::destroy(graph)
    }
}

#[test]
fn nodes_of_any_kind() -> Result<(), DriverError> {
    let (mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let out = stream.alloc_zeros::<u32>(4)?;
    stream.synchronize()?;
    let address = out.device_ptr(&stream).0;
    // SAFETY: handles and memory of this test; zeros are valid for these structs
    unsafe {
        let mut graph = std::ptr::null_mut();
        sys::cuGraphCreate(&mut graph, 0).result()?;
        let parameters = |kind| {
            let mut parameters = std::mem::MaybeUninit::<sys::CUgraphNodeParams>::zeroed();
            (&raw mut (*parameters.as_mut_ptr()).type_).write(kind);
            parameters.assume_init()
        };
        let add = |after: &[sys::CUgraphNode], parameters: &mut sys::CUgraphNodeParams| {
            let (mut node, edges) = (std::ptr::null_mut(), std::ptr::null());
            let (first, count) = (after.as_ptr(), after.len());
            sys::cuGraphAddNode_v2(&mut node, graph, first, edges, count, parameters).result()?;
            Ok::<_, DriverError>(node)
        };
        let mut allocation = parameters(sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_ALLOC);
        let wanted = &mut allocation.__bindgen_anon_1.alloc;
        wanted.bytesize = 16;
        wanted.poolProps.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        wanted.poolProps.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        let allocated = add(&[], &mut allocation)?;
        let inner = allocation.__bindgen_anon_1.alloc.dptr;

        let mut fill = parameters(sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET);
        fill.__bindgen_anon_1.memset = sys::CUDA_MEMSET_NODE_PARAMS_v2 {
            dst: inner,
            pitch: 0,
            value: 9,
            elementSize: 4,
            width: 4,
            height: 1,
            ctx: context.cu_ctx(),
        };
        let filled = add(&[allocated], &mut fill)?;

        let mut copy = parameters(sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY);
        let rows = &mut copy.__bindgen_anon_1.memcpy.copyParams;
        (&raw mut rows.srcMemoryType).write(sys::CUmemorytype::CU_MEMORYTYPE_DEVICE);
        (&raw mut rows.dstMemoryType).write(sys::CUmemorytype::CU_MEMORYTYPE_DEVICE);
        (rows.srcDevice, rows.dstDevice) = (inner, address);
        (rows.WidthInBytes, rows.Height, rows.Depth) = (16, 1, 1);
        let copied = add(&[filled], &mut copy)?;

        let mut free = parameters(sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_FREE);
        free.__bindgen_anon_1.free.dptr = inner;
        add(&[copied], &mut free)?;

        let exec = result::graph::instantiate(graph, NO_FLAGS)?;
        result::graph::launch(exec, stream.cu_stream())?;
        assert_eq!(stream.clone_dtoh(&out)?, [9; 4]);
        fill.__bindgen_anon_1.memset.value = 8;
        sys::cuGraphExecNodeSetParams(exec, filled, &mut fill).result()?;
        result::graph::launch(exec, stream.cu_stream())?;
        assert_eq!(stream.clone_dtoh(&out)?, [8; 4]);
        let other = sys::cuGraphExecNodeSetParams(exec, filled, &mut free);
        assert_eq!(other, Code::CUDA_ERROR_INVALID_VALUE);
        result::graph::destroy(graph)?;
        assert_eq!(count(&mock, "allocations"), 2);
        result::graph::exec_destroy(exec)?;
        assert_eq!(count(&mock, "allocations"), 1);
    }
    Ok(())
}

#[test]
fn a_graph_that_outlives_its_memory_is_seen() -> Result<(), DriverError> {
    let (mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let function = kernel(&context, "store");
    let data = stream.alloc_zeros::<i32>(N)?;
    stream.synchronize()?;
    let graph = capture(&stream, || {
        store(&stream, &function, data.device_ptr(&stream).0, 1, N as i32);
        Ok(())
    })?;
    drop(data);
    graph.launch()?;
    assert_eq!(code(stream.synchronize()), Code::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert!(mock.last_fault().contains("store"), "{}", mock.last_fault());
    Ok(())
}

#[test]
fn a_graph_that_outlives_its_module_is_seen() -> Result<(), DriverError> {
    let (mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let function = kernel(&context, "store");
    let data = stream.alloc_zeros::<i32>(N)?;
    stream.synchronize()?;
    let graph = capture(&stream, || {
        store(&stream, &function, data.device_ptr(&stream).0, 1, N as i32);
        Ok(())
    })?;
    // the last reference to the module
    drop(function);
    graph.launch()?;
    assert_eq!(code(stream.synchronize()), Code::CUDA_ERROR_LAUNCH_FAILED);
    assert!(mock.last_fault().contains("unloaded"), "{}", mock.last_fault());
    Ok(())
}

#[test]
fn a_missing_edge_is_seen() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let (main, side) = (context.new_stream()?, context.new_stream()?);
    let function = kernel(&context, "store");
    let data = main.alloc_zeros::<i32>(N)?;
    main.synchronize()?;
    let address = data.device_ptr(&main).0;
    let graph = capture(&main, || {
        side.wait(&main.record_event(None)?)?;
        store(&main, &function, address, 1, N as i32);
        // after `main`'s, by intention; nothing says so
        store(&side, &function, address, 2, N as i32);
        main.wait(&side.record_event(None)?)
    })?;
    graph.launch()?;
    assert_eq!(main.clone_dtoh(&data)?, [1; N]);
    Ok(())
}

#[test]
fn a_graph_has_memory_of_its_own() -> Result<(), DriverError> {
    let (mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let function = kernel(&context, "store");
    let data = stream.alloc_zeros::<i32>(N)?;
    stream.synchronize()?;
    let raw = stream.cu_stream();
    let graph = capture(&stream, || {
        // SAFETY: memory of the graph, while it is allocated in it
        unsafe {
            let inner = result::malloc_async(raw, 4 * N)?;
            store(&stream, &function, inner, 6, N as i32);
            result::memcpy_dtod_async(data.device_ptr(&stream).0, inner, 4 * N, raw)?;
            result::free_async(inner, raw)
        }
    })?;
    for _ in 0..2 {
        graph.launch()?;
        assert_eq!(stream.clone_dtoh(&data)?, [6; N]);
        stream.synchronize()?;
    }
    assert_eq!(count(&mock, "allocations"), 2);
    drop(graph);
    assert_eq!(count(&mock, "allocations"), 1);

    // memory that the graph leaves to the caller, who frees it before the next launch
    let mut left = 0;
    let graph = capture(&stream, || {
        // SAFETY: memory of the graph
        left = unsafe { result::malloc_async(raw, 4 * N) }?;
        store(&stream, &function, left, 7, N as i32);
        Ok(())
    })?;
    graph.launch()?;
    let mut seen = [0_i32; N];
    // SAFETY: written by the graph
    unsafe { result::memcpy_dtoh_async(&mut seen, left, raw) }?;
    assert_eq!(seen, [7; N]);
    assert_eq!(code(graph.launch()), Code::CUDA_ERROR_INVALID_VALUE);
    // SAFETY: no longer used
    unsafe { result::free_async(left, raw) }?;
    graph.launch()?;
    stream.synchronize()
}
