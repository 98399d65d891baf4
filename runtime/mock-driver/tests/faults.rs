//! Kernels that fault, launches that are refused, modules that do not load.

mod support;

use cudarc::driver::sys::CUfunction_attribute as Attribute;
use cudarc::driver::sys::CUresult as Code;
use cudarc::driver::{CudaFunction, CudaStream, DevicePtr, DriverError, LaunchConfig};
use cudarc::driver::{PushKernelArg, result, sys};
use cudarc::nvrtc::Ptx;
use std::sync::Arc;
use support::{BASIC, basic, begin, code, context, count, kernel, store};

const ONE: LaunchConfig =
    LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 };

fn wild(stream: &Arc<CudaStream>, function: &CudaFunction, address: u64, offset: i64) -> Code {
    let mut launch = stream.launch_builder(function);
    launch.arg(&address).arg(&offset);
    // SAFETY: the kernel's parameters; where it writes is what is tested
    code(unsafe { launch.launch(ONE) })
}

#[test]
fn a_fault_breaks_its_context() -> Result<(), DriverError> {
    let (mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let other = context.new_stream()?;
    let function = kernel(&context, "wild");
    let data = stream.alloc_zeros::<f32>(16)?;
    let address = data.device_ptr(&stream).0;
    assert_eq!(wild(&stream, &function, address, 15), Code::CUDA_SUCCESS);
    stream.synchronize()?;
    assert_eq!(mock.last_fault(), "");
    // the launch itself says nothing
    assert_eq!(wild(&stream, &function, address, 16), Code::CUDA_SUCCESS);
    let illegal = Code::CUDA_ERROR_ILLEGAL_ADDRESS;
    assert_eq!(code(stream.synchronize()), illegal);
    let fault = mock.last_fault();
    assert!(fault.contains("wild") && fault.contains("line"), "{fault}");
    // from now on every call of the context does
    assert_eq!(wild(&stream, &function, address, 0), illegal);
    assert_eq!(code(other.synchronize()), illegal);
    assert_eq!(code(context.synchronize()), illegal);
    assert_eq!(code(context.mem_get_info()), illegal);
    assert_eq!(code(other.alloc_zeros::<u8>(1)), illegal);
    // SAFETY: refused
    assert_eq!(code(unsafe { result::malloc_sync(1) }), illegal);
    drop((data, function, stream, other));
    drop(context);
    // the next primary context is a new one
    let context = support::context(0);
    let stream = context.new_stream()?;
    assert_eq!(stream.clone_dtoh(&stream.clone_htod(&[1, 2])?)?, [1, 2]);
    Ok(())
}

#[test]
fn a_misaligned_access() -> Result<(), DriverError> {
    let (mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let function = kernel(&context, "askew");
    let mut data = stream.alloc_zeros::<f32>(16)?;
    let mut launch = stream.launch_builder(&function);
    launch.arg(&mut data);
    // SAFETY: the kernel's parameter
    unsafe { launch.launch(ONE) }?;
    assert_eq!(code(stream.synchronize()), Code::CUDA_ERROR_MISALIGNED_ADDRESS);
    assert!(mock.last_fault().contains("askew"), "{}", mock.last_fault());
    Ok(())
}

#[test]
fn an_assertion_of_a_kernel() -> Result<(), DriverError> {
    for (value, expected) in [(1, Code::CUDA_SUCCESS), (2, Code::CUDA_ERROR_ASSERT)] {
        let (mock, _alone) = begin(&[]);
        let context = context(0);
        let stream = context.new_stream()?;
        let function = kernel(&context, "asserts");
        let mut out = stream.alloc_zeros::<i32>(1)?;
        let mut launch = stream.launch_builder(&function);
        launch.arg(&mut out).arg(&value);
        // SAFETY: the kernel's parameters
        unsafe { launch.launch(ONE) }?;
        assert_eq!(code(stream.synchronize()), expected, "{}", mock.last_fault());
    }
    Ok(())
}

#[test]
fn launches_that_are_refused() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let module = basic(&context);
    let launch = |name: &str, grid: (u32, u32, u32), block: (u32, u32, u32), shared: u32| {
        let function = module.load_function(name).unwrap();
        let mut launch = stream.launch_builder(&function);
        let (address, number) = (0_u64, 0_i32);
        launch.arg(&address).arg(&address).arg(&number);
        let configuration =
            LaunchConfig { grid_dim: grid, block_dim: block, shared_mem_bytes: shared };
        // SAFETY: refused, or not run
        code(unsafe { launch.launch(configuration) })
    };
    let invalid = Code::CUDA_ERROR_INVALID_VALUE;
    assert_eq!(launch("block_sums", (0, 1, 1), (32, 1, 1), 0), invalid);
    assert_eq!(launch("block_sums", (1, 65_536, 1), (32, 1, 1), 0), invalid);
    assert_eq!(launch("block_sums", (1, 1, 1), (1025, 1, 1), 0), invalid);
    assert_eq!(launch("block_sums", (1, 1, 1), (1, 1, 65), 0), invalid);
    assert_eq!(launch("bounded", (1, 1, 1), (256, 1, 1), 0), invalid);
    assert_eq!(launch("block_sums", (1, 1, 1), (32, 1, 1), (48 << 10) + 4), invalid);
    context.synchronize()
}

#[test]
fn shared_memory_above_48_kib_is_asked_for() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let function = kernel(&context, "block_sums");
    let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    assert_eq!(function.get_attribute(attribute)?, 48 << 10);
    let more = function.set_attribute(attribute, 228 << 10);
    assert_eq!(code(more), Code::CUDA_ERROR_INVALID_VALUE);
    function.set_attribute(attribute, 100 << 10)?;
    let (mut out, input) = (stream.alloc_zeros::<f32>(1)?, stream.clone_htod(&[2.0_f32; 64])?);
    let n = 64;
    let mut launch = stream.launch_builder(&function);
    launch.arg(&mut out).arg(&input).arg(&n);
    let configuration =
        LaunchConfig { grid_dim: (1, 1, 1), block_dim: (64, 1, 1), shared_mem_bytes: 100 << 10 };
    // SAFETY: the kernel's parameters
    unsafe { launch.launch(configuration) }?;
    assert_eq!(stream.clone_dtoh(&out)?, [128.0]);
    Ok(())
}

#[test]
fn launches_with_attributes_and_cooperative_ones() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let function = kernel(&context, "bounded");
    let mut out = stream.alloc_zeros::<i32>(128)?;
    let reversed: Vec<i32> = (0..128).rev().collect();
    let mut grid = |blocks| {
        let mut launch = stream.launch_builder(&function);
        launch.arg(&mut out);
        let configuration =
            LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (128, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: the kernel's parameter; its threads do not wait for other blocks
        code(unsafe { launch.launch_cooperative(configuration) })
    };
    assert_eq!(grid(1), Code::CUDA_SUCCESS);
    // more than are on the device at once
    assert_eq!(grid(132 * 16 + 1), Code::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    assert_eq!(stream.clone_dtoh(&out)?, reversed);

    stream.memset_zeros(&mut out)?;
    let mut address = out.device_ptr(&stream).0;
    let mut parameters = [(&raw mut address).cast::<std::ffi::c_void>()];
    let attribute = |id, words: [u32; 3]| {
        let mut value = sys::CUlaunchAttributeValue { pad: [0; 64] };
        value.clusterDim.x = words[0];
        value.clusterDim.y = words[1];
        value.clusterDim.z = words[2];
        sys::CUlaunchAttribute { id, pad: [0; 4], value }
    };
    use sys::CUlaunchAttributeID as Id;
    let mut launch = |mut attributes: [sys::CUlaunchAttribute; 2]| {
        let configuration = sys::CUlaunchConfig {
            gridDimX: 1,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 128,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            hStream: stream.cu_stream(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: 2,
        };
        let (function, extra) = (function.cu_function(), std::ptr::null_mut());
        // SAFETY: the kernel's parameter, and attributes that outlive the call
        unsafe { sys::cuLaunchKernelEx(&configuration, function, parameters.as_mut_ptr(), extra) }
    };
    let overlap = attribute(Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, [1, 0, 0]);
    let cluster = |words| attribute(Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, words);
    assert_eq!(launch([overlap, cluster([1, 1, 1])]), Code::CUDA_SUCCESS);
    let clustered = launch([overlap, cluster([2, 1, 1])]);
    assert_eq!(clustered, Code::CUDA_ERROR_INVALID_CLUSTER_SIZE);
    assert_eq!(stream.clone_dtoh(&out)?, reversed);
    Ok(())
}

#[test]
fn functions_say_what_they_need() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let module = basic(&context);
    let bounded = module.load_function("bounded")?;
    assert_eq!(bounded.max_threads_per_block()?, 128);
    assert_eq!(bounded.shared_size_bytes()?, 512);
    assert_eq!(bounded.local_size_bytes()?, 0);
    assert!((16..=255).contains(&bounded.num_regs()?));
    let store = module.load_function("store")?;
    assert_eq!(store.max_threads_per_block()?, 1024);
    let blocks = store.occupancy_max_active_blocks_per_multiprocessor(1024, 0, None)?;
    assert_eq!(blocks, 2);
    let starved = store.occupancy_max_active_blocks_per_multiprocessor(128, 48 << 10, None)?;
    assert_eq!(starved, 4);
    extern "C" fn none(_: std::ffi::c_int) -> usize {
        0
    }
    let (grid, block) = store.occupancy_max_potential_block_size(none, 0, 0, None)?;
    assert_eq!((grid, block), (264, 1024));
    let missing = module.load_function("nothing");
    assert_eq!(missing.err().map(|error| error.0), Some(Code::CUDA_ERROR_NOT_FOUND));
    Ok(())
}

#[test]
fn parameters_of_all_sizes_arrive() -> Result<(), DriverError> {
    #[derive(Clone, Copy)]
    #[repr(C)]
    struct Pair {
        small: i8,
        large: f64,
    }
    // SAFETY: plain data
    unsafe impl cudarc::driver::DeviceRepr for Pair {}
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let function = kernel(&context, "parameters");
    let mut out = stream.alloc_zeros::<f64>(1)?;
    let (a, b, c, d) = (1_i8, 20_i16, Pair { small: 3, large: 400.0 }, 5000.0_f32);
    let mut launch = stream.launch_builder(&function);
    launch.arg(&mut out).arg(&a).arg(&b).arg(&c).arg(&d);
    // SAFETY: the kernel's parameters
    unsafe { launch.launch(ONE) }?;
    assert_eq!(stream.clone_dtoh(&out)?, [5424.0]);
    Ok(())
}

#[test]
fn variables_of_modules_have_addresses() -> Result<(), DriverError> {
    let (mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let module = basic(&context);
    let function = module.load_function("count")?;
    let mut out = stream.alloc_zeros::<i32>(1)?;
    let run = |out: &mut cudarc::driver::CudaSlice<i32>| {
        let mut launch = stream.launch_builder(&function);
        launch.arg(&mut *out);
        // SAFETY: the kernel's parameter
        unsafe { launch.launch(ONE) }?;
        stream.clone_dtoh(out)
    };
    assert_eq!(run(&mut out)?, [6]);
    {
        let mut counter = module.get_global("counter", &stream)?;
        assert_eq!(stream.clone_dtoh(&counter)?, 6_i32.to_le_bytes());
        stream.memcpy_htod(&40_i32.to_le_bytes(), &mut counter)?;
    }
    assert_eq!(run(&mut out)?, [41]);
    assert_eq!(count(&mock, "modules"), 1);
    Ok(())
}

#[test]
fn modules_that_do_not_load() -> Result<(), DriverError> {
    let (mock, _alone) = begin(&[]);
    let context = context(0);
    let load = |ptx| code(context.load_module(ptx));
    let cubin = Ptx::from_binary(b"\x7fELF and so on\0".to_vec());
    assert_eq!(load(cubin), Code::CUDA_ERROR_NO_BINARY_FOR_GPU);
    assert!(mock.last_fault().contains("CUBIN"), "{}", mock.last_fault());
    let newer = BASIC.replace(".version 9.0", ".version 9.4");
    assert_eq!(load(Ptx::from_src(newer)), Code::CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    let newer = BASIC.replace(".target sm_90", ".target sm_100");
    assert_eq!(load(Ptx::from_src(newer)), Code::CUDA_ERROR_NO_BINARY_FOR_GPU);
    let broken = BASIC.replace("mad.lo.s32", "mad.lo.s32 ???");
    assert_eq!(load(Ptx::from_src(broken)), Code::CUDA_ERROR_INVALID_PTX);
    assert!(!mock.last_fault().is_empty());
    let missing = load(Ptx::from_file("/nonexistent/kernels.ptx"));
    assert_eq!(missing, Code::CUDA_ERROR_FILE_NOT_FOUND);

    // the log that `cuModuleLoadDataEx` writes
    let mut log = [0_u8; 64];
    let mut module = std::ptr::null_mut();
    let mut options = [
        sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
        sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ];
    let mut values = [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(log.len())];
    // SAFETY: the options and where they point
    let code = unsafe {
        let image = c"no PTX at all".as_ptr().cast();
        sys::cuModuleLoadDataEx(&mut module, image, 2, options.as_mut_ptr(), values.as_mut_ptr())
    };
    assert_eq!(code, Code::CUDA_ERROR_INVALID_PTX);
    assert_ne!(log[0], 0);
    Ok(())
}

#[test]
fn a_kernel_of_another_context_is_refused() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let (first, second) = (context(0), context(1));
    let stream = second.new_stream()?;
    let function = kernel(&first, "wild");
    assert_eq!(wild(&stream, &function, 0, 0), Code::CUDA_ERROR_INVALID_HANDLE);
    let own = kernel(&second, "store");
    let out = stream.alloc_zeros::<i32>(4)?;
    store(&stream, &own, out.device_ptr(&stream).0, 1, 4);
    assert_eq!(stream.clone_dtoh(&out)?, [1; 4]);
    Ok(())
}
