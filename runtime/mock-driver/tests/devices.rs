//! Several devices: copies between them, peer access.

mod support;

use cudarc::driver::sys::CUresult as Code;
use cudarc::driver::{DevicePtr, DriverError, result, sys};
use support::{begin, code, context, count, kernel, store};

#[test]
fn data_goes_from_device_to_device() -> Result<(), DriverError> {
    let (mock, _alone) = begin(&[]);
    let (first, second) = (context(0), context(1));
    let (one, two) = (first.new_stream()?, second.new_stream()?);
    let data = one.clone_htod(&[1_i32, 2, 3])?;
    let mut copy = two.alloc_zeros::<i32>(3)?;
    one.synchronize()?;
    two.synchronize()?;
    // cudarc copies by cuMemcpyPeerAsync between contexts
    two.memcpy_dtod(&data, &mut copy)?;
    assert_eq!(count(&mock, "cuMemcpyPeerAsync"), 1);
    assert_eq!(two.clone_dtoh(&copy)?, [1, 2, 3]);
    Ok(())
}

#[test]
fn an_event_orders_two_devices() -> Result<(), DriverError> {
    for with_event in [true, false] {
        let (_mock, _alone) = begin(&[]);
        let (first, second) = (context(0), context(1));
        let (one, two) = (first.new_stream()?, second.new_stream()?);
        let function = kernel(&first, "store");
        let data = one.alloc_zeros::<i32>(8)?;
        let copy = two.alloc_zeros::<i32>(8)?;
        one.synchronize()?;
        two.synchronize()?;
        let (from, to) = (data.device_ptr(&one).0, copy.device_ptr(&two).0);
        store(&one, &function, from, 5, 8);
        if with_event {
            two.wait(&one.record_event(None)?)?;
        }
        let (here, there) = (second.cu_ctx(), first.cu_ctx());
        // SAFETY: 32 bytes in both; cudarc's safe copy would add an event
        unsafe { result::memcpy_peer_async(here, to, there, from, 32, two.cu_stream()) }?;
        let expected = if with_event { [5; 8] } else { [0; 8] };
        assert_eq!(two.clone_dtoh(&copy)?, expected);
        one.synchronize()?;
    }
    Ok(())
}

#[test]
fn each_device_has_its_memory() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[("memory", "1000000"), ("devices", "2")]);
    let (first, second) = (context(0), context(1));
    first.bind_to_thread()?;
    // SAFETY: never used
    let block = unsafe { result::malloc_sync(900_000) }?;
    // SAFETY: refused
    let more = unsafe { result::malloc_sync(900_000) };
    assert_eq!(code(more), Code::CUDA_ERROR_OUT_OF_MEMORY);
    assert!(second.mem_get_info()?.0 > 900_000);
    second.bind_to_thread()?;
    // SAFETY: blocks of this test
    unsafe {
        let other = result::malloc_sync(900_000)?;
        result::free_sync(other)?;
        result::free_sync(block)
    }
}

#[test]
fn peers_are_enabled_once() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let (first, second) = (context(0), context(1));
    let mut can = 0;
    first.bind_to_thread()?;
    // SAFETY: handles of this test
    unsafe {
        sys::cuDeviceCanAccessPeer(&mut can, 0, 1).result()?;
        assert_eq!(can, 1);
        sys::cuCtxEnablePeerAccess(second.cu_ctx(), 0).result()?;
        let again = sys::cuCtxEnablePeerAccess(second.cu_ctx(), 0);
        assert_eq!(again, Code::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
        sys::cuCtxDisablePeerAccess(second.cu_ctx()).result()?;
        let again = sys::cuCtxDisablePeerAccess(second.cu_ctx());
        assert_eq!(again, Code::CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
        let itself = sys::cuCtxEnablePeerAccess(first.cu_ctx(), 0);
        assert_eq!(itself, Code::CUDA_ERROR_INVALID_DEVICE);
    }
    Ok(())
}

#[test]
fn a_fault_is_its_contexts_own() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let (first, second) = (context(0), context(1));
    let (one, two) = (first.new_stream()?, second.new_stream()?);
    let function = kernel(&first, "store");
    store(&one, &function, 64, 1, 1);
    assert_eq!(code(one.synchronize()), Code::CUDA_ERROR_ILLEGAL_ADDRESS);
    let data = two.clone_htod(&[1, 2])?;
    assert_eq!(two.clone_dtoh(&data)?, [1, 2]);
    second.synchronize()
}
