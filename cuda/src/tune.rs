//! The quickest of the ways in which a kernel can lie on threads, measured instead of predicted.
//!
//! Each variant of a kernel runs a few times on memory of its own that is full of zeros, so that nothing of
//! the program's is read or written. What was the quickest is kept on disk, beside the compiled programs, by
//! the text of the kernel that the cost model chose, its sizes, and the device. (As in Inductor, whose
//! autotuning is as well optional and cached; it measures on copies of the real operands.)

use crate::driver::{DeviceMemory, Event, Function, Stream};
use crate::emit::{self, EmitError, Emitted, Machine, Numbers, Program, STATUS_BYTES};
use crate::programs::{self, ProgramError};
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use straightline_passes::schedule::loops::{Kernel, Schedule};

/// A variant runs so often, and the shortest time counts.
const RUNS: usize = 5;
/// A kernel on more memory is not measured.
const MOST_BYTES: usize = 8 << 30;

/// Why there is no program.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum TuneError {
    /// A kernel has no CUDA form.
    #[error(transparent)]
    Emit(#[from] EmitError),
    /// A variant does not compile or run.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

/// The program of a schedule's kernels, each as it is the quickest on this stream's device; what is not known
/// yet is measured.
///
/// # Errors
///
/// [`TuneError`].
///
/// ```
/// use straightline_cuda::driver::{device, device_count};
/// use straightline_cuda::{emit::Numbers, tune};
/// use straightline_passes::ir::graph::Graph;
/// use straightline_passes::schedule::{ScheduleOptions, schedule};
/// let text = "graph(%x: f32[64]) {\n  %0: f32[64] = aten::exp(%x)\n  return %0\n}";
/// let graph: Graph = text.parse().unwrap();
/// let schedule = schedule(&graph, &ScheduleOptions::of_gpu()).unwrap();
/// if device_count() > 0 {
///     let stream = device(0)?.current_stream();
///     assert_eq!(tune::program(&stream, &schedule, Numbers::Arguments)?.kernels.len(), 1);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn program(
    stream: &Stream,
    schedule: &Schedule,
    numbers: Numbers,
) -> Result<Program, TuneError> {
    let machine = Machine::of(stream.device());
    let mut all = Vec::new();
    for kernel in schedule.kernels() {
        let mut variants: Vec<_> = emit::variants(schedule, kernel, numbers, machine)?.collect();
        let best = quickest(stream, schedule, kernel, &variants)?;
        all.push(variants.swap_remove(best));
    }
    Ok(emit::assembled(all))
}

/// Which variant of a kernel is the quickest.
fn quickest(
    stream: &Stream,
    schedule: &Schedule,
    kernel: &Kernel,
    variants: &[(String, Emitted)],
) -> Result<usize, ProgramError> {
    static KNOWN: OnceLock<Mutex<HashMap<String, usize>>> = OnceLock::new();
    let known = KNOWN.get_or_init(Mutex::default);
    let lock = || known.lock().unwrap_or_else(PoisonError::into_inner);
    let [(first, emitted), _, ..] = variants else { return Ok(0) };
    let device = stream.device();
    let name = &device.properties().name;
    let key = format!("tuned for {name}: {:?} of {}\n{first}", emitted.numbers, variants.len());
    if let Some(best) = lock().get(&key) {
        return Ok(*best);
    }
    let best = match programs::remembered(&key).as_deref() {
        Some([best]) if usize::from(*best) < variants.len() => usize::from(*best),
        _ => {
            let best = measured(stream, schedule, kernel, variants)?;
            programs::remember(&key, &[best as u8]);
            best
        }
    };
    lock().insert(key, best);
    Ok(best)
}

fn measured(
    stream: &Stream,
    schedule: &Schedule,
    kernel: &Kernel,
    variants: &[(String, Emitted)],
) -> Result<usize, ProgramError> {
    let bytes = |e: &Emitted| -> usize {
        let buffers = e.buffers.iter().map(|b| schedule.buffer(*b));
        buffers.map(|b| b.len * b.dtype.size()).sum::<usize>() + e.shape.scratch_bytes as usize
    };
    if variants.iter().any(|(_, e)| bytes(e) > MOST_BYTES) {
        return Ok(0);
    }
    let program = emit::assembled(variants.to_vec());
    let names: Vec<&str> = variants.iter().map(|(_, e)| e.name.as_str()).collect();
    let functions = programs::functions(stream.device(), &program.text, &names)?;
    let mut times = Vec::new();
    for ((_, emitted), function) in variants.iter().zip(functions.iter()) {
        times.push(time(stream, schedule, emitted, function)?);
    }
    let best = (0..times.len()).min_by(|a, b| times[*a].total_cmp(&times[*b])).unwrap_or(0);
    tracing::debug!(
        "{}: {:?} of {times:?} ms is the quickest: {:?}",
        kernel.name,
        times[best],
        variants[best].1.shape.mapping
    );
    Ok(best)
}

/// Milliseconds of a run.
fn time(
    stream: &Stream,
    schedule: &Schedule,
    emitted: &Emitted,
    function: &Function,
) -> Result<f32, ProgramError> {
    let zeros = |bytes: usize| -> Result<DeviceMemory, ProgramError> {
        let memory = DeviceMemory::new(stream, bytes.max(1))?;
        // SAFETY: it has so many bytes.
        unsafe { stream.fill(memory.address(), 0, bytes.max(1)) }?;
        Ok(memory)
    };
    let buffers = emitted.buffers.iter().map(|id| {
        let buffer = schedule.buffer(*id);
        zeros(buffer.len * buffer.dtype.size())
    });
    let buffers = buffers.collect::<Result<Vec<_>, _>>()?;
    let scratch = zeros(emitted.shape.scratch_bytes as usize)?;
    let status = zeros(STATUS_BYTES)?;
    let mut each = buffers.iter().map(DeviceMemory::address);
    let address = |_| each.next().unwrap_or_default();
    let arguments: Vec<_> =
        emitted.arguments(address, scratch.address(), status.address()).collect();
    let launch = emitted.shape.launch();
    let mut shortest = f32::INFINITY;
    for _ in 0..RUNS {
        let begin = Event::timed(stream)?;
        begin.record(stream)?;
        // SAFETY: the arguments are what the kernel was emitted for, and live until it has run.
        unsafe { function.launch(stream, launch, &arguments) }?;
        let end = Event::timed(stream)?;
        end.record(stream)?;
        end.synchronize()?;
        shortest = shortest.min(end.elapsed(&begin)?);
    }
    Ok(shortest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::gpu;
    use straightline_passes::ir::graph::Graph;
    use straightline_passes::schedule::{ScheduleOptions, schedule};

    #[test]
    fn the_quickest_variant_is_measured_once() {
        let Some(gpu) = gpu() else { return };
        let text = "graph(%x: f32[40,300]) {
  %0: f32[40,300] = aten::exp(%x)
  %1: f32[40] = aten::sum.dim_IntList(%0, dim=[1])
  return %1
}";
        let graph: Graph = text.parse().expect("a graph");
        let schedule = schedule(&graph, &ScheduleOptions::of_gpu()).expect("a schedule");
        let machine = Machine::of(gpu.stream.device());
        let kernel = schedule.kernels().next().expect("one");
        let variants: Vec<_> =
            emit::variants(&schedule, kernel, Numbers::Arguments, machine).expect("text").collect();
        assert!(variants.len() > 1);
        let best = measured(&gpu.stream, &schedule, kernel, &variants).expect("they run");
        let tuned = program(&gpu.stream, &schedule, Numbers::Arguments).expect("a program");
        assert!(variants.iter().any(|(_, e)| e.name == tuned.kernels[0].name));
        assert!(best < variants.len());
        // what was measured is kept
        let again = quickest(&gpu.stream, &schedule, kernel, &variants).expect("known");
        assert_eq!(variants[again].1, tuned.kernels[0]);
    }
}
