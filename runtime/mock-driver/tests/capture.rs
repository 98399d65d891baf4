//! The rules of capture, and what breaks them.

mod support;

use cudarc::driver::sys::CUresult as Code;
use cudarc::driver::sys::CUstreamCaptureStatus as Status;
use cudarc::driver::{CudaStream, DevicePtr, DriverError, result, sys};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use support::{GLOBAL, THREAD_LOCAL, begin, code, context, kernel, store};

const N: usize = 64;
const NO_FLAGS: sys::CUgraphInstantiate_flags = sys::CUgraphInstantiate_flags(0);

/// Ends a capture that has to fail.
fn fails(stream: &Arc<CudaStream>) -> Code {
    match stream.end_capture(NO_FLAGS) {
        Ok(_) => Code::CUDA_SUCCESS,
        Err(error) => error.0,
    }
}

#[test]
fn what_a_capture_refuses() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let legacy = context.default_stream();
    let unsupported = Code::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    let invalidated = Code::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    assert_eq!(code(legacy.begin_capture(GLOBAL)), unsupported);

    // waiting, and calls that may wait
    stream.begin_capture(GLOBAL)?;
    assert_eq!(code(stream.synchronize()), unsupported);
    assert_eq!(stream.capture_status()?, Status::CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    assert_eq!(code(stream.record_event(None)), invalidated);
    assert_eq!(fails(&stream), invalidated);
    assert_eq!(stream.capture_status()?, Status::CU_STREAM_CAPTURE_STATUS_NONE);

    let mode = |mode| {
        stream.begin_capture(mode)?;
        // SAFETY: never used
        let allocated = code(unsafe { result::malloc_sync(64) });
        Ok::<_, DriverError>((allocated, fails(&stream)))
    };
    let relaxed = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    assert_eq!(mode(GLOBAL)?, (unsupported, invalidated));
    assert_eq!(mode(THREAD_LOCAL)?, (unsupported, invalidated));
    assert_eq!(mode(relaxed)?, (Code::CUDA_SUCCESS, Code::CUDA_SUCCESS));

    // another thread: only a global capture is its concern
    for (mode, expected) in [(GLOBAL, unsupported), (THREAD_LOCAL, Code::CUDA_SUCCESS)] {
        stream.begin_capture(mode)?;
        let allocated = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                context.bind_to_thread().unwrap();
                // SAFETY: never used
                code(unsafe { result::malloc_sync(64) })
            });
            thread.join().unwrap()
        });
        assert_eq!(allocated, expected);
        fails(&stream);
    }

    // a capture ends in its stream and in its thread
    assert_eq!(fails(&stream), Code::CUDA_ERROR_ILLEGAL_STATE);
    stream.begin_capture(THREAD_LOCAL)?;
    let elsewhere = std::thread::scope(|scope| {
        // SAFETY: the stream's handle
        let end = || unsafe { code(result::stream::end_capture(stream.cu_stream())) };
        scope.spawn(end).join().unwrap()
    });
    assert_eq!(elsewhere, Code::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    assert_eq!(fails(&stream), Code::CUDA_SUCCESS);
    Ok(())
}

#[test]
fn captures_are_isolated() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let (one, two) = (context.new_stream()?, context.new_stream()?);
    // what was recorded before
    let before = one.record_event(None)?;
    one.begin_capture(THREAD_LOCAL)?;
    assert_eq!(code(one.wait(&before)), Code::CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    assert_eq!(fails(&one), Code::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    // two captures
    one.begin_capture(THREAD_LOCAL)?;
    two.begin_capture(THREAD_LOCAL)?;
    let inside = one.record_event(None)?;
    assert_eq!(code(two.wait(&inside)), Code::CUDA_ERROR_STREAM_CAPTURE_MERGE);
    fails(&one);
    fails(&two);

    // an event that stands for nodes is nobody's to wait for
    one.begin_capture(THREAD_LOCAL)?;
    let inside = one.record_event(None)?;
    assert_eq!(code(inside.synchronize()), Code::CUDA_ERROR_CAPTURED_EVENT);
    assert_eq!(code(inside.try_is_complete()), Code::CUDA_ERROR_CAPTURED_EVENT);
    assert_eq!(fails(&one), Code::CUDA_SUCCESS);

    // a stream that joined and did work has to come back
    let data = one.alloc_zeros::<i32>(N)?;
    let function = kernel(&context, "store");
    one.synchronize()?;
    one.begin_capture(THREAD_LOCAL)?;
    two.wait(&one.record_event(None)?)?;
    store(&two, &function, data.device_ptr(&one).0, 1, N as i32);
    assert_eq!(fails(&one), Code::CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    assert_eq!(two.capture_status()?, Status::CU_STREAM_CAPTURE_STATUS_NONE);

    // and the one that it began in ends it
    one.begin_capture(THREAD_LOCAL)?;
    two.wait(&one.record_event(None)?)?;
    assert_eq!(fails(&two), Code::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    assert_eq!(fails(&one), Code::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    Ok(())
}

#[test]
fn the_legacy_stream_cannot_wait_for_a_capture() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    context.bind_to_thread()?;
    let relaxed = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: handles and memory of this test
    unsafe {
        let data = result::malloc_sync(4)?;
        let null = result::stream::null();
        for (kind, expected) in [
            ("blocking", Code::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT),
            ("not blocking", Code::CUDA_SUCCESS),
        ] {
            let stream = result::stream::create(match kind {
                "blocking" => result::stream::StreamKind::Default,
                _ => result::stream::StreamKind::NonBlocking,
            })?;
            result::stream::begin_capture(stream, relaxed)?;
            assert_eq!(code(result::memset_d8_async(data, 0, 4, null)), expected, "{kind}");
            let ended = result::stream::end_capture(stream);
            assert_eq!(ended.is_err(), expected != Code::CUDA_SUCCESS, "{kind}");
            if let Ok(graph) = ended {
                result::graph::destroy(graph)?;
            }
            result::stream::destroy(stream)?;
        }
        result::free_sync(data)
    }
}

#[test]
fn nodes_are_added_while_a_capture_goes_on() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let function = kernel(&context, "store");
    let data = stream.alloc_zeros::<i32>(N)?;
    stream.synchronize()?;
    let (raw, address) = (stream.cu_stream(), data.device_ptr(&stream).0);
    stream.begin_capture(THREAD_LOCAL)?;
    store(&stream, &function, address, 1, N as i32);
    // SAFETY: places for the answers; nodes of the graph that is captured
    unsafe {
        let (mut status, mut number) = (Status::CU_STREAM_CAPTURE_STATUS_NONE, 0);
        let (mut graph, mut nodes) = (std::ptr::null_mut(), std::ptr::null());
        let (mut edges, mut count) = (std::ptr::null(), 0);
        sys::cuStreamGetCaptureInfo_v3(
            raw,
            &mut status,
            &mut number,
            &mut graph,
            &mut nodes,
            &mut edges,
            &mut count,
        )
        .result()?;
        assert_eq!((status, count), (Status::CU_STREAM_CAPTURE_STATUS_ACTIVE, 1));
        assert_ne!(number, 0);
        let fill = sys::CUDA_MEMSET_NODE_PARAMS {
            dst: address,
            pitch: 0,
            value: 2,
            elementSize: 4,
            width: 1,
            height: 1,
        };
        let mut node = std::ptr::null_mut();
        sys::cuGraphAddMemsetNode(&mut node, graph, nodes, count, &fill, context.cu_ctx())
            .result()?;
        // what the stream does next comes after the new node
        let set = sys::CUstreamUpdateCaptureDependencies_flags::CU_STREAM_SET_CAPTURE_DEPENDENCIES;
        let none = std::ptr::null();
        sys::cuStreamUpdateCaptureDependencies_v2(raw, &mut node, none, 1, set as u32).result()?;
        sys::cuMemsetD32Async(address + 4, 3, 1, raw).result()?;
        let captured = stream.end_capture(NO_FLAGS)?.expect("a graph");
        assert_eq!(captured.cu_graph(), graph);
        captured.launch()?;
        assert_eq!(stream.clone_dtoh(&data)?[..3], [2, 3, 1]);
    }
    Ok(())
}

#[test]
fn host_functions_and_events_of_a_graph() -> Result<(), DriverError> {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn call(data: *mut c_void) {
        CALLS.fetch_add(data.addr() as u32, Ordering::SeqCst);
    }
    for order in ["lazy", "eager", "random:8"] {
        CALLS.store(0, Ordering::SeqCst);
        let (_mock, _alone) = begin(&[("order", order)]);
        let context = context(0);
        let (stream, other) = (context.new_stream()?, context.new_stream()?);
        let function = kernel(&context, "store");
        let data = stream.alloc_zeros::<i32>(N)?;
        stream.synchronize()?;
        let (raw, address) = (stream.cu_stream(), data.device_ptr(&stream).0);
        let timed = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let (start, end) = (context.new_event(timed)?, context.new_event(timed)?);
        let external = 1;
        stream.begin_capture(THREAD_LOCAL)?;
        // SAFETY: handles of this test; the function does not read its argument
        unsafe {
            sys::cuEventRecordWithFlags(start.cu_event(), raw, external).result()?;
            let data = std::ptr::without_provenance_mut(5);
            result::stream::launch_host_function(raw, call, data)?;
            store(&stream, &function, address, 1, N as i32);
            sys::cuEventRecordWithFlags(end.cu_event(), raw, external).result()?;
        }
        let graph = stream.end_capture(NO_FLAGS)?.expect("a graph");
        graph.launch()?;
        graph.launch()?;
        stream.synchronize()?;
        assert_eq!(CALLS.load(Ordering::SeqCst), 10);
        assert!(start.elapsed_ms(&end)? > 0.0);

        // a node that waits for what another stream does
        let before = context.new_event(None)?;
        stream.begin_capture(THREAD_LOCAL)?;
        // SAFETY: handles of this test
        unsafe {
            sys::cuStreamWaitEvent(raw, before.cu_event(), external).result()?;
            sys::cuMemsetD32Async(address, 7, 1, raw).result()?;
        }
        let graph = stream.end_capture(NO_FLAGS)?.expect("a graph");
        store(&other, &function, address, 6, N as i32);
        before.record(&other)?;
        graph.launch()?;
        assert_eq!(stream.clone_dtoh(&data)?[..2], [7, 6]);
    }
    Ok(())
}
