//! Devices, contexts and memory, through cudarc.

mod support;

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::sys::CUmemPool_attribute as PoolAttribute;
use cudarc::driver::sys::CUresult as Code;
use cudarc::driver::{CudaContext, DriverError, result, sys};
use support::{begin, code, context, count};

/// `cuMemAlloc`
fn allocate(bytes: usize) -> Result<u64, DriverError> {
    // SAFETY: any bits are bytes; where the tests read them, they have written them
    unsafe { result::malloc_sync(bytes) }
}

/// `cuMemFree`
fn free(address: u64) -> Result<(), DriverError> {
    // SAFETY: the mock refuses what is not allocated
    unsafe { result::free_sync(address) }
}

/// `cuMemsetD8`
fn fill(address: u64, value: u8, bytes: usize) -> Result<(), DriverError> {
    // SAFETY: the mock refuses what is not allocated
    unsafe { result::memset_d8_sync(address, value, bytes) }
}

#[test]
fn devices_say_what_they_are() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[("devices", "3")]);
    let context = context(2);
    assert_eq!(CudaContext::device_count()?, 3);
    assert_eq!(context.name()?, "PTX emulator");
    assert_eq!(context.compute_capability()?, (9, 0));
    assert_eq!(context.total_mem()?, 2 << 30);
    assert!(context.has_async_alloc());
    let attribute = |attribute| context.attribute(attribute);
    assert_eq!(attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?, 132);
    assert_eq!(attribute(Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE)?, 32);
    let optin = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
    assert_eq!(optin, 227 << 10);
    assert_eq!(attribute(Attribute::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY)?, 0);
    assert_eq!(code(CudaContext::new(3)), Code::CUDA_ERROR_INVALID_DEVICE);
    let mut version = 0;
    // SAFETY: a place for a number
    unsafe { sys::cuDriverGetVersion(&mut version) }.result()?;
    assert_eq!(version, 13_000);
    Ok(())
}

#[test]
fn a_call_without_a_context_says_so() {
    let (_mock, _alone) = begin(&[]);
    let mut address = 0;
    std::thread::spawn(move || {
        // SAFETY: a place for an address
        let allocate = |address: &mut u64| unsafe { sys::cuMemAlloc_v2(address, 4) };
        assert_eq!(allocate(&mut address), Code::CUDA_ERROR_NOT_INITIALIZED);
        result::init().unwrap();
        assert_eq!(allocate(&mut address), Code::CUDA_ERROR_INVALID_CONTEXT);
    })
    .join()
    .unwrap();
}

#[test]
fn primary_contexts_are_shared_and_counted() -> Result<(), DriverError> {
    let (mock, _alone) = begin(&[]);
    let first = CudaContext::new(0)?;
    let second = CudaContext::new(0)?;
    assert_eq!(first.cu_ctx(), second.cu_ctx());
    let other = CudaContext::new_non_primary(0, 0)?;
    assert_ne!(first.cu_ctx(), other.cu_ctx());
    first.bind_to_thread()?;
    let address = allocate(1 << 20)?;
    drop(first);
    second.bind_to_thread()?;
    fill(address, 1, 1 << 20)?;
    assert_eq!(count(&mock, "allocated_bytes"), 1 << 20);
    drop(second);
    assert_eq!(count(&mock, "allocated_bytes"), 0);
    // the thread's context is gone
    assert_eq!(code(allocate(4)), Code::CUDA_ERROR_CONTEXT_IS_DESTROYED);
    drop(other);
    Ok(())
}

#[test]
fn data_goes_there_and_back() -> Result<(), DriverError> {
    for order in ["lazy", "eager", "random:1", "random:2"] {
        let (_mock, _alone) = begin(&[("order", order)]);
        let context = context(0);
        for stream in [context.default_stream(), context.new_stream()?, context.per_thread_stream()]
        {
            let numbers: Vec<f32> = (0..1000).map(|number| number as f32).collect();
            let device = stream.clone_htod(&numbers)?;
            let mut copy = stream.alloc_zeros::<f32>(1000)?;
            stream.memcpy_dtod(&device, &mut copy)?;
            assert_eq!(stream.clone_dtoh(&copy)?, numbers);
            stream.memset_zeros(&mut copy)?;
            assert_eq!(stream.clone_dtoh(&copy.slice(10..20))?, [0.0; 10]);
        }
    }
    Ok(())
}

#[test]
fn new_memory_is_no_number() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.default_stream();
    // SAFETY: any bits are a float
    let fresh = unsafe { stream.alloc::<f32>(16) }?;
    assert!(stream.clone_dtoh(&fresh)?.iter().all(|number| number.is_nan()));
    Ok(())
}

#[test]
fn patterns_fill_rows() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let address = allocate(4 * 16)?;
    let raw = stream.cu_stream();
    let mut bytes = [0_u16; 32];
    // SAFETY: within the 64 bytes
    unsafe {
        sys::cuMemsetD16Async(address, 7, 32, raw).result()?;
        sys::cuMemsetD2D32Async(address, 16, 0x0001_0002, 2, 4, raw).result()?;
        assert_eq!(sys::cuMemsetD32Async(address, 1, 17, raw), Code::CUDA_ERROR_INVALID_VALUE);
        assert_eq!(sys::cuMemsetD32Async(address + 2, 1, 1, raw), Code::CUDA_ERROR_INVALID_VALUE);
        result::memcpy_dtoh_async(&mut bytes, address, raw)?;
    }
    stream.synchronize()?;
    assert_eq!(bytes[..10], [2, 1, 2, 1, 7, 7, 7, 7, 2, 1]);
    Ok(())
}

#[test]
fn copies_of_rows() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    context.bind_to_thread()?;
    let from: Vec<u8> = (0..20).collect();
    let mut to = [0_u8; 6];
    let address = allocate(3 * 8)?;
    let copy = sys::CUDA_MEMCPY2D {
        srcXInBytes: 1,
        srcY: 1,
        srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_HOST,
        srcHost: from.as_ptr().cast(),
        srcDevice: 0,
        srcArray: std::ptr::null_mut(),
        srcPitch: 5,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstHost: std::ptr::null_mut(),
        dstDevice: address,
        dstArray: std::ptr::null_mut(),
        dstPitch: 8,
        WidthInBytes: 2,
        Height: 3,
    };
    // SAFETY: three rows of two bytes are in both
    unsafe { sys::cuMemcpy2D_v2(&copy) }.result()?;
    let mut back = copy;
    back.srcMemoryType = sys::CUmemorytype::CU_MEMORYTYPE_DEVICE;
    (back.srcDevice, back.srcXInBytes, back.srcY, back.srcPitch) = (address, 0, 0, 8);
    back.dstMemoryType = sys::CUmemorytype::CU_MEMORYTYPE_HOST;
    (back.dstHost, back.dstPitch) = (to.as_mut_ptr().cast(), 2);
    // SAFETY: as above
    unsafe { sys::cuMemcpy2D_v2(&back) }.result()?;
    assert_eq!(to, [6, 7, 11, 12, 16, 17]);
    Ok(())
}

#[test]
fn wrong_addresses_are_refused() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    context.bind_to_thread()?;
    let address = allocate(8)?;
    // SAFETY: refused before anything is written
    unsafe {
        assert_eq!(code(result::memset_d8_sync(address, 0, 9)), Code::CUDA_ERROR_INVALID_VALUE);
        assert_eq!(code(result::memcpy_htod_sync(64, &[1_u8])), Code::CUDA_ERROR_INVALID_VALUE);
        assert_eq!(code(result::free_sync(address + 1)), Code::CUDA_ERROR_INVALID_VALUE);
        result::free_sync(address)?;
        assert_eq!(code(result::free_sync(address)), Code::CUDA_ERROR_INVALID_VALUE);
        assert_eq!(code(result::memset_d8_sync(address, 0, 1)), Code::CUDA_ERROR_INVALID_VALUE);
    }
    // a call that was refused breaks nothing
    context.synchronize()
}

#[test]
fn memory_runs_out() -> Result<(), DriverError> {
    let (mock, _alone) = begin(&[("memory", "100000000")]);
    let context = context(0);
    let stream = context.new_stream()?;
    assert_eq!(context.mem_get_info()?, (100_000_000, 100_000_000));
    // SAFETY: never read
    let first = unsafe { stream.alloc::<u8>(60_000_000) }?;
    assert!(context.mem_get_info()?.0 <= 40_000_000);
    // SAFETY: refused
    let second = unsafe { stream.alloc::<u8>(60_000_000) };
    assert_eq!(code(second), Code::CUDA_ERROR_OUT_OF_MEMORY);
    assert_eq!(code(allocate(60_000_000)), Code::CUDA_ERROR_OUT_OF_MEMORY);
    // freed in the stream: room as soon as the driver needs it
    drop(first);
    assert!(count(&mock, "allocated_bytes") > 0);
    // SAFETY: never read
    let third = unsafe { stream.alloc::<u8>(60_000_000) }?;
    drop(third);
    stream.synchronize()?;
    assert_eq!(count(&mock, "allocated_bytes"), 0);
    let whole = allocate(99_000_000)?;
    free(whole)
}

#[test]
fn pools_keep_what_their_threshold_says() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    // SAFETY: a device
    let pool = unsafe { result::device::get_default_mem_pool(context.cu_device()) }?;
    let get = |attribute| {
        let mut value = 0_u64;
        // SAFETY: these attributes have 64 bits
        unsafe { result::mem_pool::get_attribute(pool, attribute, (&raw mut value).cast()) }?;
        Ok::<u64, DriverError>(value)
    };
    let used = || get(PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    let reserved = || get(PoolAttribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    let allocate_and_free = || {
        // SAFETY: never read
        let block = unsafe { stream.alloc::<u8>(3 << 20) }?;
        assert_eq!((used()?, reserved()?), (3 << 20, 32 << 20));
        drop(block);
        // in the order of the stream: not yet
        assert_eq!(used()?, 3 << 20);
        stream.synchronize()?;
        Ok::<(), DriverError>(())
    };
    allocate_and_free()?;
    assert_eq!((used()?, reserved()?), (0, 0));
    assert_eq!(get(PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH)?, 3 << 20);

    let mut threshold = u64::MAX;
    let attribute = PoolAttribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: the attribute has 64 bits
    unsafe { result::mem_pool::set_attribute(pool, attribute, (&raw mut threshold).cast()) }?;
    assert_eq!(get(attribute)?, u64::MAX);
    allocate_and_free()?;
    assert_eq!((used()?, reserved()?), (0, 32 << 20));
    // SAFETY: the pool of a device
    unsafe { result::mem_pool::trim_to(pool, 0) }?;
    assert_eq!(reserved()?, 0);
    Ok(())
}

#[test]
fn a_pool_of_ones_own() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    // SAFETY: plain data of the interface
    let mut properties: sys::CUmemPoolProps = unsafe { std::mem::zeroed() };
    properties.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    // SAFETY: handles of this test
    unsafe {
        let pool = result::mem_pool::create(&properties)?;
        let address = result::mem_pool::alloc_async(pool, 100, stream.cu_stream())?;
        let mut owner: sys::CUmemoryPool = std::ptr::null_mut();
        let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
        sys::cuPointerGetAttribute((&raw mut owner).cast(), attribute, address).result()?;
        assert_eq!(owner, pool);
        // it goes when its last block does
        result::mem_pool::destroy(pool)?;
        result::memset_d8_async(address, 3, 100, stream.cu_stream())?;
        let again = result::mem_pool::alloc_async(pool, 100, stream.cu_stream());
        assert_eq!(code(again), Code::CUDA_ERROR_INVALID_VALUE);
        result::free_async(address, stream.cu_stream())?;
        stream.synchronize()?;
        assert_eq!(code(result::mem_pool::trim_to(pool, 0)), Code::CUDA_ERROR_INVALID_VALUE);
        let default = result::device::get_default_mem_pool(0)?;
        assert_eq!(code(result::mem_pool::destroy(default)), Code::CUDA_ERROR_INVALID_VALUE);
    }
    Ok(())
}

#[test]
fn pointers_are_known() -> Result<(), DriverError> {
    use sys::CUpointer_attribute as Pointer;
    let (_mock, _alone) = begin(&[]);
    let context = context(1);
    context.bind_to_thread()?;
    let address = allocate(100)?;
    // SAFETY: never read
    let host = unsafe { result::malloc_host(100, 0) }?;
    let get = |attribute, address: u64| {
        let mut value = 0_u64;
        // SAFETY: no attribute that is asked for has more than 64 bits
        let code =
            unsafe { sys::cuPointerGetAttribute((&raw mut value).cast(), attribute, address) };
        code.result().map(|()| value)
    };
    assert_eq!(get(Pointer::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address + 7)?, 2);
    assert_eq!(get(Pointer::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address)?, 1);
    assert_eq!(get(Pointer::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address + 7)?, address);
    assert_eq!(get(Pointer::CU_POINTER_ATTRIBUTE_RANGE_SIZE, address + 7)?, 100);
    assert_eq!(get(Pointer::CU_POINTER_ATTRIBUTE_CONTEXT, address)?, context.cu_ctx() as u64);
    assert_eq!(get(Pointer::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, host as u64)?, 1);
    let stray = get(Pointer::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address + 100);
    assert_eq!(code(stray), Code::CUDA_ERROR_INVALID_VALUE);
    let (mut kind, mut start) = (0_u32, 0_u64);
    let mut wanted =
        [Pointer::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, Pointer::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR];
    let mut places = [(&raw mut kind).cast(), (&raw mut start).cast()];
    let mut several = |address| {
        let (wanted, places) = (wanted.as_mut_ptr(), places.as_mut_ptr());
        // SAFETY: a place of its type for each
        unsafe { sys::cuPointerGetAttributes(2, wanted, places, address) }.result()
    };
    several(address + 9)?;
    assert_eq!((kind, start), (2, address));
    // an address of nobody's is no error here
    several(12)?;
    assert_eq!((kind, start), (0, 0));
    // SAFETY: allocated above
    unsafe { result::free_host(host) }?;
    free(address)
}

#[test]
fn entry_points_are_found_by_name() {
    let (mock, _alone) = begin(&[]);
    let mut found = std::ptr::null_mut();
    // SAFETY: a name and a place for an address
    let code = unsafe {
        sys::cuGetProcAddress_v2(
            c"cuMemAlloc".as_ptr(),
            &mut found,
            13_000,
            0,
            std::ptr::null_mut(),
        )
    };
    assert_eq!(code, Code::CUDA_SUCCESS);
    assert!(!found.is_null());
    assert_eq!(count(&mock, "cuGetProcAddress_v2"), 1);
    assert_eq!(mock.statistic("cuNothing"), None);
    let error = DriverError(Code::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    assert_eq!(error.error_name().unwrap(), c"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT");
}
