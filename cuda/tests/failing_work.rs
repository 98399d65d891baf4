//! Work that fails on a device. Its context serves no call any more, so this is a process of its own.

use straightline_cuda::availability;
use straightline_cuda::driver::{
    Argument, DeviceMemory, DriverError, Function, Graph, Launch, Stream, device, device_count,
};
use straightline_cuda::programs::{self, functions};

const TEXT: &str = "
extern \"C\" __global__ void fine(int* at) { at[threadIdx.x] = 1; }
extern \"C\" __global__ void strays(int* at) { at[1 << 28] = 1; }
";

fn queue(stream: &Stream, kernels: &[Function], at: u64) -> Result<(), DriverError> {
    let launch = Launch { blocks: [1; 3], threads: [4, 1, 1], shared_bytes: 0 };
    kernels.iter().try_for_each(|kernel| {
        // SAFETY: there is no memory where the second kernel writes, which is what is tested; nothing else
        // is done with the device.
        unsafe { kernel.launch(stream, launch, &[Argument::Pointer(at)]) }
    })
}

/// Work runs after the call that queued it: the error comes where it is waited for, and names the kernels of
/// the graph.
#[test]
fn a_fault_in_a_graph_names_its_kernels() {
    // a real device would be of no use to the tests that run beside this one
    let mock = std::env::var_os("STRAIGHTLINE_CUDA").is_some();
    if device_count() == 0 || !programs::are_made() || !mock {
        return eprintln!("skipped, for want of the mock driver:\n{}", availability());
    }
    let device = device(0).expect("there is one");
    let stream = device.new_stream().expect("a stream");
    let kernels = functions(device, TEXT, &["fine", "strays"]).expect("a program");
    let memory = DeviceMemory::new(&stream, 16).expect("memory");
    let recording = device.new_stream().expect("a stream");
    let record = |kernels: &[Function]| {
        Graph::record(&recording, || queue(&recording, kernels, memory.address()))
    };
    let (good, bad) = (record(&kernels[..1]).expect("it is"), record(&kernels).expect("it is"));
    // SAFETY: the memory lives until the stream has been waited for; what is beyond it is tested.
    unsafe { good.launch(&stream) }.expect("it is queued");
    stream.synchronize().expect("nothing has failed");
    // SAFETY: as above.
    let queued = unsafe { bad.launch(&stream) };
    let e = queued.and_then(|()| stream.synchronize()).expect_err("it has failed");
    assert!(e.is_of_work(), "{e}");
    assert_eq!(e.recent, ["graph of fine, strays"], "what ended before is not suspected");
    assert!(e.to_string().contains("`graph of fine, strays`"), "{e}");
}
