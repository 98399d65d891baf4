//! Programs that order what they do by events give the same results in every order that the mock
//! can choose: programs are drawn by chance, and computed on the host as well.

mod support;

use cudarc::driver::sys::CUgraphInstantiate_flags;
use cudarc::driver::{CudaEvent, CudaStream, DevicePtr, DriverError, LaunchConfig, PushKernelArg};
use std::sync::Arc;
use support::{THREAD_LOCAL, basic, begin, context};

const BUFFERS: usize = 5;
const STREAMS: usize = 3;
const N: usize = 40;

/// A sequence of random numbers.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % bound as u64) as usize
    }
}

/// What touched a buffer: the last write, and the reads after it.
#[derive(Default)]
struct Touched {
    write: Option<Arc<CudaEvent>>,
    reads: Vec<Arc<CudaEvent>>,
}

fn wait(stream: &CudaStream, touched: &Touched, writes: bool) -> Result<(), DriverError> {
    touched.write.iter().try_for_each(|event| stream.wait(event))?;
    if writes {
        touched.reads.iter().try_for_each(|event| stream.wait(event))?;
    }
    Ok(())
}

/// Runs a program of so many steps, as a graph or as it is; gives the buffers, and what the host
/// says.
fn run(
    seed: u64,
    steps: usize,
    order: &str,
    captured: bool,
) -> Result<[Vec<Vec<f32>>; 2], DriverError> {
    let (_mock, _alone) = begin(&[("order", order)]);
    let context = context(0);
    let module = basic(&context);
    let (scale, add) = (module.load_function("scale")?, module.load_function("add")?);
    let streams: Vec<_> = (0..STREAMS).map(|_| context.new_stream()).collect::<Result<_, _>>()?;
    let mut chance = Chance(seed);
    let mut expected: Vec<Vec<f32>> =
        (0..BUFFERS).map(|buffer| vec![buffer as f32 + 1.0; N]).collect();
    let buffers: Vec<_> =
        expected.iter().map(|data| streams[0].clone_htod(data)).collect::<Result<_, _>>()?;
    streams[0].synchronize()?;
    let address = |buffer: usize| buffers[buffer].device_ptr(&streams[0]).0;
    let mut touched: Vec<Touched> = (0..BUFFERS).map(|_| Touched::default()).collect();
    let (configuration, n) = (LaunchConfig::for_num_elems(N as u32), N as i32);
    if captured {
        streams[0].begin_capture(THREAD_LOCAL)?;
        let fork = streams[0].record_event(None)?;
        streams[1..].iter().try_for_each(|stream| stream.wait(&fork))?;
    }
    for _ in 0..steps {
        let stream = &streams[chance.below(STREAMS)];
        let [out, a, b] = [(); 3].map(|()| chance.below(BUFFERS));
        let reads: &[usize] = match chance.below(3) {
            // out *= 0.5
            0 => {
                wait(stream, &touched[out], true)?;
                let (to, factor) = (address(out), 0.5_f32);
                let mut launch = stream.launch_builder(&scale);
                launch.arg(&to).arg(&factor).arg(&n);
                // SAFETY: the kernel's parameters
                unsafe { launch.launch(configuration) }?;
                expected[out].iter_mut().for_each(|value| *value *= 0.5);
                &[]
            }
            // out = a + b
            1 => {
                wait(stream, &touched[out], true)?;
                wait(stream, &touched[a], false)?;
                wait(stream, &touched[b], false)?;
                let (to, left, right) = (address(out), address(a), address(b));
                let mut launch = stream.launch_builder(&add);
                launch.arg(&to).arg(&left).arg(&right).arg(&n);
                // SAFETY: the kernel's parameters
                unsafe { launch.launch(configuration) }?;
                expected[out] = expected[a]
                    .iter()
                    .zip(&expected[b])
                    .map(|(left, right)| left + right)
                    .collect();
                &[a, b]
            }
            // out = a
            _ => {
                wait(stream, &touched[out], true)?;
                wait(stream, &touched[a], false)?;
                let (to, from) = (address(out), address(a));
                // SAFETY: both have so many bytes
                unsafe {
                    cudarc::driver::result::memcpy_dtod_async(to, from, 4 * N, stream.cu_stream())
                }?;
                expected[out] = expected[a].clone();
                &[a]
            }
        };
        let done = Arc::new(stream.record_event(None)?);
        for read in reads {
            touched[*read].reads.push(Arc::clone(&done));
        }
        touched[out] = Touched { write: Some(done), reads: Vec::new() };
    }
    if captured {
        for stream in &streams[1..] {
            streams[0].wait(&stream.record_event(None)?)?;
        }
        let graph = streams[0].end_capture(CUgraphInstantiate_flags(0))?.expect("a graph");
        graph.launch()?;
        streams[0].synchronize()?;
        touched.iter_mut().for_each(|touched| *touched = Touched::default());
    }
    // the buffers are waited for one by one, not the device
    let mut found = Vec::new();
    for (buffer, touched) in buffers.iter().zip(&touched) {
        wait(&streams[1], touched, false)?;
        found.push(streams[1].clone_dtoh(buffer)?);
    }
    Ok([found, expected])
}

#[test]
fn every_order_gives_the_same() -> Result<(), DriverError> {
    for seed in 0..12 {
        for order in ["lazy", "eager", "random:1", "random:2", "random:3"] {
            for captured in [false, true] {
                let [found, expected] = run(seed, 60, order, captured)?;
                assert_eq!(found, expected, "seed {seed}, {order}, captured: {captured}");
            }
        }
    }
    Ok(())
}
