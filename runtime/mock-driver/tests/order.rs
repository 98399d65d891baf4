//! Streams and events order work, and nothing else does.

mod support;

use cudarc::driver::sys::CUevent_flags as EventFlags;
use cudarc::driver::sys::CUresult as Code;
use cudarc::driver::{DevicePtr, DriverError, LaunchConfig, PushKernelArg, result, sys};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use support::{begin, code, context, count, kernel, store};

const N: usize = 64;

#[test]
fn nothing_runs_before_the_host_waits() -> Result<(), DriverError> {
    let (mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let function = kernel(&context, "store");
    let out = stream.alloc_zeros::<i32>(N)?;
    let address = out.device_ptr(&stream).0;
    store(&stream, &function, address, 7, N as i32);
    assert_eq!(count(&mock, "launches"), 1);
    assert_eq!(count(&mock, "kernels"), 0);
    // the allocation, the fill and the kernel
    assert_eq!(count(&mock, "queued"), 3);
    stream.synchronize()?;
    assert_eq!(count(&mock, "kernels"), 1);
    assert_eq!(count(&mock, "queued"), 0);
    assert_eq!(stream.clone_dtoh(&out)?, [7; N]);
    Ok(())
}

#[test]
fn an_eager_order_runs_at_the_call() -> Result<(), DriverError> {
    let (mock, _alone) = begin(&[("order", "eager")]);
    let context = context(0);
    let stream = context.new_stream()?;
    let function = kernel(&context, "store");
    let out = stream.alloc_zeros::<i32>(N)?;
    store(&stream, &function, out.device_ptr(&stream).0, 7, N as i32);
    assert_eq!((count(&mock, "kernels"), count(&mock, "queued")), (1, 0));
    Ok(())
}

/// One stream writes, another reads; with or without the event between them.
fn two_streams(order: &str, with_event: bool) -> Result<bool, DriverError> {
    let (_mock, _alone) = begin(&[("order", order)]);
    let context = context(0);
    let (writer, reader) = (context.new_stream()?, context.new_stream()?);
    let function = kernel(&context, "store");
    let data = writer.alloc_zeros::<i32>(N)?;
    writer.synchronize()?;
    store(&writer, &function, data.device_ptr(&writer).0, 7, N as i32);
    if with_event {
        reader.wait(&writer.record_event(None)?)?;
    }
    // the copy is on `reader`
    let mut seen = [0; N];
    reader.memcpy_dtoh(&data, &mut seen)?;
    reader.synchronize()?;
    writer.synchronize()?;
    Ok(seen == [7; N])
}

#[test]
fn a_missing_event_is_seen() -> Result<(), DriverError> {
    assert!(two_streams("lazy", true)?);
    assert!(!two_streams("lazy", false)?);
    assert!(two_streams("eager", false)?, "a GPU that is quick enough hides it");
    let mut hidden = 0;
    for seed in 0..16 {
        assert!(two_streams(&format!("random:{seed}"), true)?);
        hidden += u32::from(two_streams(&format!("random:{seed}"), false)?);
    }
    assert!((1..16).contains(&hidden), "{hidden} of 16 orders hide it");
    Ok(())
}

#[test]
fn a_write_that_comes_too_early_is_seen() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let (reader, writer) = (context.new_stream()?, context.new_stream()?);
    let function = kernel(&context, "store");
    let data = writer.clone_htod(&[1; N])?;
    let mut copy = reader.alloc_zeros::<i32>(N)?;
    writer.synchronize()?;
    reader.memcpy_dtod(&data, &mut copy)?;
    // the writer does not wait for the reader
    store(&writer, &function, data.device_ptr(&writer).0, 2, N as i32);
    writer.synchronize()?;
    assert_eq!(reader.clone_dtoh(&copy)?, [2; N]);
    Ok(())
}

#[test]
fn the_legacy_stream_is_in_order_with_blocking_ones() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let legacy = context.default_stream();
    let function = kernel(&context, "store");
    let data = legacy.alloc_zeros::<i32>(N)?;
    let address = data.device_ptr(&legacy).0;
    for (kind, expected) in [(Some(result::stream::StreamKind::Default), 5), (None, 4)] {
        store(&legacy, &function, address, 4, N as i32);
        legacy.synchronize()?;
        let kind = kind.unwrap_or(result::stream::StreamKind::NonBlocking);
        let raw = result::stream::create(kind)?;
        let mut number = 0_i32;
        // SAFETY: handles of this test, and parameters that the kernel has
        unsafe {
            let (mut value, mut n, mut out) = (5_i32, N as i32, address);
            let mut parameters =
                [(&raw mut out).cast::<c_void>(), (&raw mut value).cast(), (&raw mut n).cast()];
            let size = (N as u32, 1, 1);
            let function = function.cu_function();
            result::launch_kernel(function, (1, 1, 1), size, 0, raw, &mut parameters)?;
            // parameters were copied
            value = 9;
            assert_eq!(value, 9);
            result::memcpy_dtoh_sync(std::slice::from_mut(&mut number), address)?;
            result::stream::synchronize(raw)?;
            result::stream::destroy(raw)?;
        }
        assert_eq!(number, expected);
    }
    Ok(())
}

#[test]
fn pinned_memory_is_read_when_the_copy_runs() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let raw = stream.cu_stream();
    // SAFETY: handles and memory of this test
    unsafe {
        let device = result::malloc_sync(8)?;
        let pinned = result::malloc_host(8, 0)?.cast::<u64>();
        pinned.write(1);
        result::memcpy_htod_async(device, std::slice::from_raw_parts(pinned, 1), raw)?;
        // too early: the copy has not run
        pinned.write(2);
        let mut seen = [0_u64];
        result::memcpy_dtoh_async(&mut seen, device, raw)?;
        assert_eq!(seen, [2], "a copy to pageable memory is done when the call returns");

        pinned.write(3);
        result::memcpy_dtoh_async(std::slice::from_raw_parts_mut(pinned, 1), device, raw)?;
        assert_eq!(pinned.read(), 3, "a copy to pinned memory is not");
        stream.synchronize()?;
        assert_eq!(pinned.read(), 2);

        // pageable memory is read at the call
        let mut pageable = [4_u64];
        result::memcpy_htod_async(device, &pageable, raw)?;
        pageable[0] = 5;
        result::memcpy_dtoh_async(&mut seen, device, raw)?;
        assert_eq!((seen, pageable), ([4], [5]));

        // memory of one's own that is registered is pinned
        let mut own = Box::new(6_u64);
        let address = (&raw mut *own).cast::<c_void>();
        sys::cuMemHostRegister_v2(address, 8, 0).result()?;
        let again = sys::cuMemHostRegister_v2(address, 8, 0);
        assert_eq!(again, Code::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
        result::memcpy_htod_async(device, std::slice::from_ref(&*own), raw)?;
        *own = 7;
        result::memcpy_dtoh_async(&mut seen, device, raw)?;
        assert_eq!(seen, [7]);
        sys::cuMemHostUnregister(address).result()?;
        result::free_host(pinned.cast())?;
        result::free_sync(device)
    }
}

#[test]
fn pinned_memory_that_is_freed_too_early() -> Result<(), DriverError> {
    let (mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    // SAFETY: handles and memory of this test; the mock does not read what is freed
    unsafe {
        let device = result::malloc_sync(8)?;
        let pinned = result::malloc_host(8, 0)?;
        let bytes = std::slice::from_raw_parts(pinned.cast::<u8>(), 8);
        result::memcpy_htod_async(device, bytes, stream.cu_stream())?;
        result::free_host(pinned)?;
    }
    assert_eq!(code(stream.synchronize()), Code::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert!(mock.last_fault().contains("freed before it ran"), "{}", mock.last_fault());
    Ok(())
}

#[test]
fn memory_that_another_stream_still_uses() -> Result<(), DriverError> {
    let (mock, _alone) = begin(&[]);
    let context = context(0);
    let (owner, user) = (context.new_stream()?, context.new_stream()?);
    let function = kernel(&context, "store");
    let data = owner.alloc_zeros::<i32>(N)?;
    owner.synchronize()?;
    store(&user, &function, data.device_ptr(&owner).0, 1, N as i32);
    // freed in the order of `owner`, which does not wait for `user`
    drop(data);
    owner.synchronize()?;
    assert_eq!(code(user.synchronize()), Code::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert!(mock.last_fault().contains("freed"), "{}", mock.last_fault());
    Ok(())
}

#[test]
fn memory_that_is_used_before_its_turn() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let (owner, user) = (context.new_stream()?, context.new_stream()?);
    let function = kernel(&context, "store");
    // SAFETY: written before it is read
    let data = unsafe { owner.alloc::<i32>(N) }?;
    // `user` does not wait for the allocation
    store(&user, &function, data.device_ptr(&owner).0, 1, N as i32);
    user.synchronize()?;
    assert_eq!(owner.clone_dtoh(&data)?, [-1; N]);
    Ok(())
}

#[test]
fn events_are_asked_and_timed() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let function = kernel(&context, "store");
    let out = stream.alloc_zeros::<i32>(N)?;
    let address = out.device_ptr(&stream).0;
    let start = context.new_event(Some(EventFlags::CU_EVENT_DEFAULT))?;
    let end = context.new_event(Some(EventFlags::CU_EVENT_DEFAULT))?;
    // never recorded: complete, and without a time
    assert!(start.try_is_complete()?);
    assert_eq!(code(start.elapsed_ms(&end)), Code::CUDA_ERROR_INVALID_HANDLE);
    start.record(&stream)?;
    for _ in 0..100 {
        store(&stream, &function, address, 1, N as i32);
    }
    end.record(&stream)?;
    let mut asked = 0;
    while !end.try_is_complete()? {
        asked += 1;
    }
    assert_eq!(asked, 104, "each question gets on by one task");
    let once = start.elapsed_ms(&end)?;
    assert!(once > 0.1, "{once}");
    for _ in 0..100 {
        store(&stream, &function, address, 1, N as i32);
    }
    end.record(&stream)?;
    assert_eq!(code(end.try_is_complete()), Code::CUDA_SUCCESS);
    end.synchronize()?;
    assert!((start.elapsed_ms(&end)? / once - 2.0).abs() < 0.1);
    let untimed = stream.record_event(None)?;
    untimed.synchronize()?;
    assert_eq!(code(start.elapsed_ms(&untimed)), Code::CUDA_ERROR_INVALID_HANDLE);
    Ok(())
}

#[test]
fn an_event_waits_for_the_record_before_the_call() -> Result<(), DriverError> {
    let (mock, _alone) = begin(&[]);
    let context = context(0);
    let (first, second) = (context.new_stream()?, context.new_stream()?);
    let function = kernel(&context, "store");
    let out = first.alloc_zeros::<i32>(N)?;
    let address = out.device_ptr(&first).0;
    let event = first.record_event(None)?;
    second.wait(&event)?;
    store(&first, &function, address, 1, N as i32);
    event.record(&first)?;
    second.synchronize()?;
    assert_eq!(count(&mock, "kernels"), 0);
    event.synchronize()?;
    assert_eq!(count(&mock, "kernels"), 1);
    Ok(())
}

#[test]
fn host_functions_run_in_order_and_may_block() -> Result<(), DriverError> {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn call(data: *mut c_void) {
        CALLS.fetch_add(data.addr() as u32, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(20));
    }
    let (mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    for number in [1, 10, 100] {
        let data = std::ptr::without_provenance_mut(number);
        // SAFETY: the function does not read its argument
        unsafe { result::stream::launch_host_function(stream.cu_stream(), call, data) }?;
    }
    assert_eq!(CALLS.load(Ordering::SeqCst), 0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| stream.synchronize().unwrap());
        }
        // the driver can be called meanwhile
        std::thread::sleep(Duration::from_millis(10));
        assert!(context.mem_get_info().is_ok());
    });
    assert_eq!(CALLS.load(Ordering::SeqCst), 111);
    assert_eq!(count(&mock, "host_functions"), 3);
    Ok(())
}

#[test]
fn a_question_does_not_wait_for_a_host_function() -> Result<(), DriverError> {
    use std::sync::mpsc::{Receiver, channel};
    unsafe extern "C" fn wait(data: *mut c_void) {
        // SAFETY: a receiver that the test keeps until this has run
        let receiver = unsafe { &*data.cast::<Receiver<()>>() };
        receiver.recv_timeout(Duration::from_secs(10)).expect("the test goes on");
    }
    for order in ["lazy", "eager", "random:4"] {
        let (_mock, _alone) = begin(&[("order", order)]);
        let context = context(0);
        let stream = context.new_stream()?;
        let event = context.new_event(None)?;
        let (sender, receiver) = channel::<()>();
        let data = (&raw const receiver).cast_mut().cast();
        // SAFETY: the receiver stays until the stream has been waited for
        unsafe { result::stream::launch_host_function(stream.cu_stream(), wait, data) }?;
        event.record(&stream)?;
        for _ in 0..3 {
            assert!(!event.try_is_complete()?);
        }
        sender.send(()).unwrap();
        event.synchronize()?;
        assert!(event.try_is_complete()?);
    }
    Ok(())
}

#[test]
fn work_of_two_streams_overlaps_on_the_clock() -> Result<(), DriverError> {
    for ordered in [true, false] {
        let (_mock, _alone) = begin(&[]);
        let context = context(0);
        let (one, two) = (context.new_stream()?, context.new_stream()?);
        let function = kernel(&context, "store");
        let (first, second) = (one.alloc_zeros::<i32>(N)?, one.alloc_zeros::<i32>(N)?);
        one.synchronize()?;
        let timed = Some(EventFlags::CU_EVENT_DEFAULT);
        store(&one, &function, first.device_ptr(&one).0, 1, N as i32);
        let end = one.record_event(timed)?;
        if ordered {
            two.wait(&end)?;
        }
        let start = two.record_event(timed)?;
        store(&two, &function, second.device_ptr(&two).0, 1, N as i32);
        one.synchronize()?;
        two.synchronize()?;
        assert_eq!(start.elapsed_ms(&end)? > 0.0, !ordered);
    }
    Ok(())
}

#[test]
fn streams_have_priorities() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    context.bind_to_thread()?;
    let (least, greatest) = result::stream::get_priority_range()?;
    assert_eq!((least, greatest), (0, -5));
    let stream = context.new_stream_with_priority(-9)?;
    let mut priority = 0;
    // SAFETY: a place for a number
    unsafe { sys::cuStreamGetPriority(stream.cu_stream(), &mut priority) }.result()?;
    assert_eq!(priority, -5);
    Ok(())
}

#[test]
fn sums_of_a_kernel_with_dynamic_memory() -> Result<(), DriverError> {
    let (mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let function = kernel(&context, "block_sums");
    let numbers: Vec<f32> = (0..1000).map(|number| number as f32).collect();
    let input = stream.clone_htod(&numbers)?;
    let mut sums = stream.alloc_zeros::<f32>(4)?;
    let n = 1000_i32;
    let configuration =
        LaunchConfig { grid_dim: (4, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 1024 };
    let mut launch = stream.launch_builder(&function);
    launch.arg(&mut sums).arg(&input).arg(&n);
    // SAFETY: the kernel's parameters
    unsafe { launch.launch(configuration) }?;
    let sums = stream.clone_dtoh(&sums)?;
    // four bytes each, by 32 neighbours: four sectors for a warp
    assert_eq!((count(&mock, "bytes_loaded"), count(&mock, "widest_load")), (4000, 4));
    assert_eq!(count(&mock, "sectors_loaded"), 125);
    assert_eq!(count(&mock, "barriers"), 4 * 9);
    for (block, sum) in sums.iter().enumerate() {
        let part = numbers.iter().skip(block * 256).take(256).sum::<f32>();
        assert_eq!(*sum, part, "block {block}");
    }
    Ok(())
}
