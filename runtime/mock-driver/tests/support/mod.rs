//! What the tests share: the mock for one test at a time, and kernels.

#![allow(dead_code, reason = "each test program uses a part")]

use cudarc::driver::{CudaContext, CudaFunction, CudaModule, CudaStream, DriverError, sys};
use cudarc::nvrtc::Ptx;
use std::sync::Arc;
use straightline_mock_driver::{Alone, Mock, preload};

/// The kernels of `kernels/basic.cu`.
pub(crate) const BASIC: &str = include_str!("../kernels/basic.ptx");

/// The mock, as new and for this test alone.
pub(crate) fn begin(settings: &[(&str, &str)]) -> (Mock, Alone) {
    let mock = preload().expect("the mock is built beside the tests");
    (mock, mock.alone(settings))
}

/// A context without cudarc's own events: what orders streams is in the test.
pub(crate) fn context(ordinal: usize) -> Arc<CudaContext> {
    let context = CudaContext::new(ordinal).expect("a device");
    // SAFETY: the tests order what they do themselves
    unsafe { context.disable_event_tracking() };
    context
}

/// The kernels in a context.
pub(crate) fn basic(context: &Arc<CudaContext>) -> Arc<CudaModule> {
    context.load_module(Ptx::from_src(BASIC)).expect("the kernels load")
}

/// A kernel of them.
pub(crate) fn kernel(context: &Arc<CudaContext>, name: &str) -> CudaFunction {
    basic(context).load_function(name).expect("a kernel of this name")
}

/// The code of a result.
pub(crate) fn code<T>(result: Result<T, DriverError>) -> sys::CUresult {
    match result {
        Ok(_) => sys::CUresult::CUDA_SUCCESS,
        Err(error) => error.0,
    }
}

/// A number that the mock counts.
pub(crate) fn count(mock: &Mock, name: &str) -> u64 {
    mock.statistic(name).expect("a number of this name")
}

/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`
pub(crate) const THREAD_LOCAL: sys::CUstreamCaptureMode =
    sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
/// `CU_STREAM_CAPTURE_MODE_GLOBAL`
pub(crate) const GLOBAL: sys::CUstreamCaptureMode =
    sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;

/// Launches `store(out, value, n)`.
pub(crate) fn store(
    stream: &Arc<CudaStream>,
    function: &CudaFunction,
    out: u64,
    value: i32,
    n: i32,
) {
    use cudarc::driver::{LaunchConfig, PushKernelArg};
    let mut launch = stream.launch_builder(function);
    launch.arg(&out).arg(&value).arg(&n);
    // SAFETY: `out` has n integers, or the test is about that it has not
    unsafe { launch.launch(LaunchConfig::for_num_elems(n as u32)) }.expect("a launch");
}
