//! Schedules on a GPU: kernels, products and calls of operators, queued one after another, or recorded
//! and queued as one graph.
//!
//! What a run needs of memory beside its operands is one block, its *room*: the arena, what kernels
//! have for themselves, the status, the numbers of operands that are on the CPU, and a workspace for
//! products and convolutions.

mod recorded;

use super::copy::{driver, program};
use super::externs;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use crate::tensor::on_device::{gpu, memory};
use crate::tensor::storage::Storage;
pub(super) use recorded::forget_pools;
use recorded::{Recorded, Turn};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use straightline_catalog::{Arg, DType, Device, Dims, Effects, Op, layout};
use straightline_cuda::allocator::StreamId;
use straightline_cuda::copies::{self, Strided};
use straightline_cuda::driver::{Argument, DeviceMemory, Function, Launch, Stream};
use straightline_cuda::emit::{self, EmitError, Emitted, Numbers};
use straightline_cuda::products::Workspace;
use straightline_cuda::programs;
use straightline_passes::schedule::loops::{
    BufferId, BufferKind, BufferView, Extern, Schedule, Step,
};

/// What calls an operator.
pub(crate) struct Call {
    /// Given the arguments, in which tensors are numbers, and the tensors. Without results they are to
    /// be left as they are.
    pub(crate) run: Run,
    /// Whether the kernel is this crate's.
    pub(crate) own: bool,
}

type Run = Box<dyn Fn(&[Arg<u32>], &[Tensor]) -> Result<Option<Vec<Tensor>>> + Send + Sync>;

/// Why a schedule can not run on a GPU.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unsupported {
    /// A step that there is nothing for.
    #[error("there is nothing that computes `{0}` in compiled code on a GPU")]
    Step(String),
    /// Loops without a CUDA form.
    #[error(transparent)]
    Loops(#[from] EmitError),
    /// What should call an operator.
    #[error("{0}")]
    Call(Error),
}

/// A step, as it is queued.
enum Work {
    /// One of the program's kernels.
    Kernel(usize),
    /// A product or a convolution of the schedule's step.
    Own,
    /// A call of the schedule's step.
    Call(Call),
}

/// A schedule that runs on GPUs.
pub(crate) struct Program {
    schedule: Schedule,
    text: String,
    kernels: Vec<Emitted>,
    work: Vec<Work>,
    /// Bytes that the kernel which needs most has for itself.
    scratch: usize,
    fails: bool,
    /// On each device that has run it.
    loaded: Mutex<HashMap<u32, Arc<Loaded>>>,
    recorded: Recorded,
}

/// A program on a device.
struct Loaded {
    functions: Arc<[Function]>,
    /// Whose memory the constants are.
    stream: StreamId,
    /// By buffer.
    constants: Vec<(u32, DeviceMemory)>,
}

/// The tensors of a run: those of a schedule's inputs, parameters and outputs, in order. Some may be
/// numbers on the CPU.
#[derive(Clone, Copy)]
pub(crate) struct Operands<'a> {
    pub(crate) inputs: &'a [&'a Tensor],
    pub(crate) parameters: &'a [&'a Tensor],
    pub(crate) outputs: &'a [Tensor],
}

/// What a kernel found wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    /// The call, among the schedule's sites.
    pub(crate) site: Option<u32>,
    /// The index that was out of range, and the size; without them an integer was divided by zero.
    pub(crate) index: Option<(i64, i64)>,
}

/// What a kernel writes if it fails: what, where, the index, the size.
const STATUS_BYTES: usize = 24;
/// The place of a number.
const NUMBER_BYTES: usize = 16;
/// Parts of a room begin at multiples.
const ALIGNMENT: usize = 256;

/// Where parts of a room begin.
#[derive(Clone, Copy)]
struct Layout {
    scratch: usize,
    status: usize,
    numbers: usize,
    workspace: usize,
    bytes: usize,
}

/// Addresses of a run.
struct Places<'a> {
    inputs: SmallVec<[u64; 8]>,
    parameters: SmallVec<[u64; 8]>,
    outputs: SmallVec<[u64; 8]>,
    room: u64,
    layout: Layout,
    constants: &'a [(u32, DeviceMemory)],
}

impl Program {
    /// A program for a schedule; `call` gives what calls an operator, if that is possible. With
    /// `record`, runs of several steps become one launch where that can be.
    pub(crate) fn new(
        schedule: Schedule,
        record: bool,
        call: &dyn Fn(Op) -> Result<Option<Call>>,
    ) -> std::result::Result<Program, Unsupported> {
        let mut work = Vec::new();
        let mut kernels = 0;
        for step in &schedule.steps {
            let unsupported = |op: &str| Unsupported::Step(op.to_string());
            work.push(match step {
                Step::Kernel(_) => {
                    kernels += 1;
                    Work::Kernel(kernels - 1)
                }
                Step::Extern(step) if externs::serves(step) => Work::Own,
                Step::Extern(Extern::Matmul(_)) => return Err(unsupported("matmul")),
                Step::Extern(Extern::Convolution(_)) => return Err(unsupported("convolution")),
                Step::Extern(Extern::Op { op, .. }) => {
                    let found = call(*op).map_err(Unsupported::Call)?;
                    Work::Call(found.ok_or_else(|| unsupported(&op.to_string()))?)
                }
            });
        }
        let emit::Program { text, kernels } = emit::program(&schedule, Numbers::Arguments)?;
        let scratch = kernels.iter().map(|k| k.shape.scratch_bytes).max().unwrap_or(0) as usize;
        let fails = kernels.iter().any(|k| k.fails);
        let once = work.iter().zip(&schedule.steps).any(|(work, step)| is_made_anew(work, step));
        let alone = matches!(&work[..], [] | [Work::Kernel(_) | Work::Own]);
        let recorded = Recorded::new(record && !once && !alone);
        let loaded = Mutex::default();
        Ok(Program { schedule, text, kernels, work, scratch, fails, loaded, recorded })
    }

    /// What it was made of.
    pub(crate) fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The text of its kernels. Programs with one text run one binary.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Runs it on the thread's current stream of a device, in whose memory the outputs are. The caller
    /// has access to all that it reads and writes.
    pub(crate) fn run(&self, device: Device, operands: Operands<'_>) -> Result<Option<Failure>> {
        let stream = gpu(device)?.current_stream();
        let loaded = self.loaded(&stream, device)?;
        if loaded.stream != stream.id() {
            loaded.constants.iter().for_each(|(_, memory)| memory.record_stream(&stream));
        }
        let Operands { inputs, parameters, outputs } = operands;
        let read = || inputs.iter().chain(parameters).copied();
        let on_cpu = |t: &&Tensor| t.device().is_cpu();
        let numbers = read().chain(outputs).filter(on_cpu).count();
        let layout = self.layout(numbers);
        let mut at = layout.numbers as u64;
        let mut address = |t: &Tensor| {
            if t.device().is_cpu() {
                at += NUMBER_BYTES as u64;
                return Ok(at - NUMBER_BYTES as u64);
            }
            t.device_address()
        };
        let mut places = Places {
            inputs: inputs.iter().map(|t| address(t)).collect::<Result<_>>()?,
            parameters: parameters.iter().map(|t| address(t)).collect::<Result<_>>()?,
            outputs: outputs.iter().map(&mut address).collect::<Result<_>>()?,
            room: 0,
            layout,
            constants: &loaded.constants,
        };
        let turn = self.recorded.turn(&stream, &places);
        if !matches!(turn, Turn::Replay(_)) {
            places.layout = self.with_workspace(&stream, &places)?;
        }
        let layout = places.layout;
        let pool = match &turn {
            Turn::Replay(found) => Some(found.pool.clone()),
            Turn::Record(_) => Some(recorded::pool(&stream)?),
            Turn::Queue => None,
        };
        // the numbers, the work and the status of one run follow one another
        let _turn = pool.as_ref().map(|pool| pool.enter());
        let room = match (&turn, &pool) {
            (Turn::Replay(found), _) => found.room.clone(),
            (_, Some(pool)) => pool.room(device, layout.bytes)?,
            _ if layout.bytes == 0 => None,
            _ => Some(bytes_on(device, layout.bytes)?),
        };
        places.room = room.as_ref().map_or(Ok(0), Tensor::device_address)?;
        let Places { inputs: a, parameters: b, outputs: c, room: begin, .. } = &mut places;
        let all = read().chain(outputs).zip(a.iter_mut().chain(b).chain(c));
        for (_, place) in all.filter(|(t, _)| on_cpu(t)) {
            *place += *begin;
        }
        for (t, place) in read().zip(places.inputs.iter().chain(&places.parameters)) {
            if t.device().is_cpu() {
                let (from, bytes) = (t.data_ptr()?, t.dtype().size());
                // SAFETY: a number has that many bytes, which have been read when this returns.
                unsafe { stream.to_device(*place, from, bytes) }.map_err(driver)?;
            }
        }
        let graph = match (turn, &pool) {
            (Turn::Replay(found), _) => Some(found),
            (Turn::Record(key), Some(pool)) => {
                let queue = |on: &Stream| self.queue(on, &loaded, &places, device);
                self.recorded.record(pool.clone(), key, &self.name(), room.clone(), queue)
            }
            _ => None,
        };
        if let Some(found) = graph {
            // SAFETY: the addresses are those that it was recorded with; the operands are held while
            // it is queued, and serve others on this stream only after it, as does its room. Programs
            // and constants are as long there as this is.
            unsafe { found.graph.launch(&stream) }.map_err(driver)?;
        } else {
            self.queue(&stream, &loaded, &places, device)?;
        }
        let failed = if self.fails { self.failure(&stream, &places)? } else { None };
        let mut wait = false;
        for (t, place) in outputs.iter().zip(&places.outputs) {
            if failed.is_none() && t.device().is_cpu() {
                let (to, bytes) = (t.data_ptr()?, t.dtype().size());
                // SAFETY: a number has that many bytes, and the stream is waited for.
                unsafe { stream.to_host(to, *place, bytes) }.map_err(driver)?;
                wait = true;
            }
        }
        if wait {
            stream.synchronize().map_err(driver)?;
        }
        Ok(failed)
    }

    /// What errors call its graph.
    fn name(&self) -> String {
        let names: Vec<&str> = self.kernels.iter().map(|k| k.name.as_str()).collect();
        format!("graph of {}", names.join(", "))
    }

    fn layout(&self, numbers: usize) -> Layout {
        let up = |n: usize| n.next_multiple_of(ALIGNMENT);
        let scratch = up(self.schedule.arena_bytes);
        let status = scratch + up(self.scratch);
        let behind = status + if self.fails { ALIGNMENT } else { 0 };
        let end = behind + numbers * NUMBER_BYTES;
        Layout { scratch, status, numbers: behind, workspace: end, bytes: end }
    }

    /// A layout with room for what products and convolutions want. That depends on where operands are:
    /// `places` have all addresses but the room's, which is as aligned as can be.
    fn with_workspace(&self, stream: &Stream, places: &Places<'_>) -> Result<Layout> {
        let mut wanted = 0;
        for (work, step) in self.work.iter().zip(&self.schedule.steps) {
            if let (Work::Own, Step::Extern(step)) = (work, step) {
                let address = |id| self.address(places, id);
                wanted = externs::workspace_bytes(stream.device(), step, &address)?.max(wanted);
            }
        }
        let layout = places.layout;
        if wanted == 0 {
            return Ok(layout);
        }
        let workspace = layout.bytes.next_multiple_of(ALIGNMENT);
        Ok(Layout { workspace, bytes: workspace + wanted, ..layout })
    }

    /// Queues all steps. The stream is the thread's current one.
    fn queue(
        &self,
        stream: &Stream,
        loaded: &Loaded,
        places: &Places<'_>,
        device: Device,
    ) -> Result<()> {
        if self.fails {
            let status = places.room + places.layout.status as u64;
            // SAFETY: it is a part of the room.
            unsafe { stream.fill(status, 0, STATUS_BYTES) }.map_err(driver)?;
        }
        for (work, step) in self.work.iter().zip(&self.schedule.steps) {
            match (work, step) {
                (Work::Kernel(i), _) => {
                    self.launch(stream, &self.kernels[*i], &loaded.functions[*i], places)?;
                }
                (Work::Own, Step::Extern(step)) => {
                    let Layout { workspace, bytes, .. } = places.layout;
                    let address = places.room + workspace as u64;
                    let workspace = Workspace { address, bytes: bytes - workspace };
                    // SAFETY: as for kernels.
                    unsafe {
                        externs::queue(stream, step, &|id| self.address(places, id), workspace)
                    }?;
                }
                (Work::Call(call), Step::Extern(step)) => {
                    self.call(stream, call, step, places, device)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn launch(
        &self,
        stream: &Stream,
        kernel: &Emitted,
        function: &Function,
        places: &Places<'_>,
    ) -> Result<()> {
        let mut arguments: SmallVec<[Argument<'_>; 8]> = SmallVec::new();
        for buffer in &kernel.buffers {
            arguments.push(Argument::Pointer(self.address(places, *buffer)));
        }
        if !kernel.numbers.is_empty() {
            arguments.push(Argument::Numbers(&kernel.numbers));
        }
        let shape = &kernel.shape;
        let in_room = |at: usize| Argument::Pointer(places.room + at as u64);
        if shape.scratch_bytes != 0 {
            arguments.push(in_room(places.layout.scratch));
        }
        if kernel.fails {
            arguments.push(in_room(places.layout.status));
        }
        let launch = Launch {
            blocks: [shape.blocks, 1, 1],
            threads: [shape.threads, 1, 1],
            shared_bytes: shape.shared_bytes,
        };
        // SAFETY: the arguments are what the kernel was emitted for. Operands are held while it is
        // queued; their memory, and the room, serve others on this stream only after it.
        unsafe { function.launch(stream, launch, &arguments) }.map_err(driver)
    }

    fn address(&self, places: &Places<'_>, id: BufferId) -> u64 {
        match &self.schedule.buffer(id).kind {
            BufferKind::Input(i) => places.inputs[*i as usize],
            BufferKind::Parameter(i) => places.parameters[*i as usize],
            BufferKind::Output(o) => places.outputs[*o as usize],
            BufferKind::Arena { offset } => places.room + *offset as u64,
            BufferKind::Within { output, offset } => {
                places.outputs[*output as usize] + *offset as u64
            }
            BufferKind::Constant(_) => {
                let found = places.constants.iter().find(|(of, _)| *of == id.0);
                found.map_or(0, |(_, memory)| memory.address())
            }
        }
    }

    /// Calls an operator on tensors over the memory of its operands, and copies what it gives to where
    /// the schedule wants it.
    fn call(
        &self,
        stream: &Stream,
        call: &Call,
        step: &Extern,
        places: &Places<'_>,
        device: Device,
    ) -> Result<()> {
        let Extern::Op { args, inputs, outputs, unread, .. } = step else { return Ok(()) };
        let given =
            inputs.iter().map(|v| self.tensor(v, places, device)).collect::<Result<Vec<_>>>()?;
        let Some(results) = (call.run)(args, &given)? else { return Ok(()) };
        ensure_compile!(
            results.len() == outputs.len(),
            "{} results, {} expected",
            results.len(),
            outputs.len()
        );
        for (i, (result, out)) in results.iter().zip(outputs).enumerate() {
            ensure_compile!(
                result.sizes() == &out.sizes[..] && result.dtype() == out.dtype,
                "the kernel returned {}{:?} where its Meta kernel said {}{:?}",
                result.dtype(),
                result.sizes(),
                out.dtype,
                out.sizes
            );
            if unread >> i & 1 == 1 {
                continue;
            }
            let there = result.resolved()?;
            let there = match there.device() == device {
                true => there,
                false => there.to_device(device)?,
            };
            let _held = there.read()?;
            let begin = self.address(places, out.buffer);
            let to = Strided {
                address: begin.wrapping_add_signed(out.offset * out.dtype.size() as i64),
                dtype: out.dtype,
                sizes: &out.sizes,
                strides: &out.strides,
            };
            let from = Strided { address: there.device_address()?, strides: there.strides(), ..to };
            // SAFETY: the place is this step's own; the result is held while the copy is queued.
            unsafe { copies::copy(stream, to, from) }.map_err(program)?;
        }
        Ok(())
    }

    /// A tensor over an operand's memory, which is lent to it: the operand itself may be held for
    /// writing. Kernels of this crate keep no tensor.
    fn tensor(&self, view: &BufferView, places: &Places<'_>, device: Device) -> Result<Tensor> {
        let size = view.dtype.size();
        let begin = self.address(places, view.buffer);
        let first = begin.wrapping_add_signed(view.offset * size as i64);
        let bytes = layout::storage_bytes(size, &view.sizes, &view.strides, 0);
        let memory = DeviceMemory::lent(gpu(device)?, first, bytes);
        let storage = Storage::elsewhere(bytes, Box::new(memory))?;
        Ok(Tensor::build(storage, view.dtype, device, &view.sizes, &view.strides, 0))
    }

    /// Waits for the work, and reads what its kernels have found wrong.
    fn failure(&self, stream: &Stream, places: &Places<'_>) -> Result<Option<Failure>> {
        let mut status = [0u8; STATUS_BYTES];
        let from = places.room + places.layout.status as u64;
        // SAFETY: there is room for it, and the stream is waited for.
        unsafe { stream.to_host(status.as_mut_ptr(), from, STATUS_BYTES) }.map_err(driver)?;
        stream.synchronize().map_err(driver)?;
        let (kind, rest) = status.split_at(4);
        let (site, rest) = rest.split_at(4);
        let (index, size) = rest.split_at(8);
        let word = |b: &[u8]| b.try_into().map_or(0, u32::from_le_bytes);
        let long = |b: &[u8]| b.try_into().map_or(0, i64::from_le_bytes);
        let site = Some(word(site)).filter(|s| (*s as usize) < self.schedule.sites.len());
        Ok(match word(kind) {
            0 => None,
            1 => Some(Failure { site, index: Some((long(index), long(size))) }),
            _ => Some(Failure { site, index: None }),
        })
    }

    /// The program and its constants on the stream's device.
    fn loaded(&self, stream: &Stream, named: Device) -> Result<Arc<Loaded>> {
        let device = stream.device();
        let mut all = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = all.get(&device.ordinal()) {
            return Ok(there.clone());
        }
        let names: Vec<&str> = self.kernels.iter().map(|k| k.name.as_str()).collect();
        let functions = match names.is_empty() {
            true => Arc::new([]),
            false => programs::functions(device, &self.text, &names).map_err(program)?,
        };
        let mut constants = Vec::new();
        for (i, buffer) in self.schedule.buffers.iter().enumerate() {
            if let BufferKind::Constant(bytes) = &buffer.kind {
                let place = memory(named, stream, bytes.len())?;
                // SAFETY: there is room; pageable memory has been read when this returns.
                unsafe { stream.to_device(place.address(), bytes.as_ptr(), bytes.len()) }
                    .map_err(driver)?;
                constants.push((i as u32, place));
            }
        }
        if !constants.is_empty() {
            // other streams may use them from now on
            stream.synchronize().map_err(driver)?;
        }
        let loaded = Arc::new(Loaded { functions, stream: stream.id(), constants });
        Ok(all.entry(device.ordinal()).or_insert(loaded).clone())
    }
}

/// Whether a step has to be queued at each run: what it does may differ, or is not this crate's.
fn is_made_anew(work: &Work, step: &Step) -> bool {
    let (Work::Call(call), Step::Extern(Extern::Op { op, args, .. })) = (work, step) else {
        return false;
    };
    let effects = op.effects(args, &[]);
    !call.own || effects.has(Effects::RANDOM) || effects.has(Effects::EFFECT)
}

/// So many bytes of a device, unset, for work on the current stream.
fn bytes_on(device: Device, bytes: usize) -> Result<Tensor> {
    let one = Dims::from_slice(&[1]);
    Tensor::allocate(DType::U8, device, Dims::from_slice(&[bytes as i64]), one)
}
