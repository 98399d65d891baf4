//! Schedules on a GPU: kernels, products and calls of operators, queued one after another, or recorded
//! and queued as graphs.
//!
//! What a run needs of memory beside its operands is one block, its *room*: the arena, what kernels
//! have for themselves, the status and where random numbers begin, the numbers of operands that are on the
//! CPU, and a workspace for products and convolutions.
//!
//! | file | what |
//! |---|---|
//! | `queue` | queues steps |
//! | `recording` | makes graphs of runs of steps |
//! | `recorded` | the graphs that there are, by addresses, and their memory |
//! | `draws` | random numbers of graphs |
//! | `parts` | products and convolutions that no kernel computes, by operators |

pub(super) mod draws;
mod parts;
mod queue;
mod recorded;
mod recording;

use super::copy::{driver, program};
use super::externs;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use crate::tensor::on_device::{gpu, memory};
pub(super) use recorded::forget_pools;
use recorded::{Recorded, Turn};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use straightline_catalog::{Arg, DType, Device, Dims, Effects, Op};
use straightline_cuda::allocator::StreamId;
use straightline_cuda::driver::{DeviceMemory, Function, Stream};
use straightline_cuda::emit::{self, EmitError, Emitted, Machine, Numbers, STATUS_BYTES};
use straightline_cuda::programs;
use straightline_cuda::tune::{self, TuneError};
use straightline_passes::schedule::loops::{BufferKind, Extern, Schedule, Step};

/// What calls an operator.
pub(crate) struct Call {
    /// Given the arguments, in which tensors are numbers, and the tensors. Without results they are to
    /// be left as they are.
    pub(crate) run: Operator,
    /// Whether it is a kernel of this crate, which does the same at each call as far as the host is
    /// concerned, unless it waits for the device.
    pub(crate) own: bool,
}

type Operator = Box<dyn Fn(&[Arg<u32>], &[Tensor]) -> Result<Option<Vec<Tensor>>> + Send + Sync>;

/// How a program is made.
#[derive(Clone, Copy)]
pub(crate) enum Making<'a> {
    /// For one operator: its steps are queued each time.
    Eager,
    /// For a function: runs of several steps become one launch where that can be.
    Compiled {
        /// Where kernels are measured, to find out which are the quickest.
        tune: Option<&'a Stream>,
    },
}

/// Why a schedule can not run on a GPU.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unsupported {
    /// A step that there is nothing for.
    #[error("there is nothing that computes `{0}` in compiled code on a GPU")]
    Step(String),
    /// Loops without a CUDA form.
    #[error(transparent)]
    Loops(#[from] EmitError),
    /// Kernels that can not be measured.
    #[error(transparent)]
    Tune(#[from] TuneError),
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
    /// The same where there is no kernel for it: operators.
    Parts,
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

/// A run that has failed.
pub(crate) struct Stopped {
    pub(crate) error: Error,
    /// The call that it belongs to, among the schedule's sites, if it is one's.
    pub(crate) site: Option<u32>,
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Stopped {
        Stopped { error, site: None }
    }
}

impl From<Stopped> for Error {
    fn from(stopped: Stopped) -> Error {
        stopped.error
    }
}

/// Behind the status: the seed and the offset of what a graph draws.
const STATE_OFFSET: usize = 32;
const STATE_BYTES: usize = 16;
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
#[derive(Clone)]
struct Places<'a> {
    inputs: SmallVec<[u64; 8]>,
    parameters: SmallVec<[u64; 8]>,
    outputs: SmallVec<[u64; 8]>,
    room: u64,
    layout: Layout,
    constants: &'a [(u32, DeviceMemory)],
}

impl Places<'_> {
    /// Puts what is in the room there: the addresses of numbers on the CPU were relative to it.
    fn settle(&mut self, room: u64, operands: Operands<'_>) {
        self.room = room;
        let Operands { inputs, parameters, outputs } = operands;
        let all = inputs.iter().chain(parameters).copied().chain(outputs);
        let of = self.inputs.iter_mut().chain(&mut self.parameters).chain(&mut self.outputs);
        for (_, place) in all.zip(of).filter(|(t, _)| t.device().is_cpu()) {
            *place += room;
        }
    }

    /// Where kernels write what they have found wrong.
    fn status(&self) -> u64 {
        self.room + self.layout.status as u64
    }

    /// Where graphs find the begin of their random numbers.
    fn state(&self) -> u64 {
        self.status() + STATE_OFFSET as u64
    }
}

impl Program {
    /// A program for a schedule; `call` gives what calls an operator, if that is possible.
    pub(crate) fn new(
        schedule: Schedule,
        making: Making<'_>,
        call: &dyn Fn(Op) -> Result<Option<Call>>,
    ) -> std::result::Result<Program, Unsupported> {
        let record = matches!(making, Making::Compiled { .. });
        let mut work = Vec::new();
        let mut kernels = 0;
        for step in &schedule.steps {
            work.push(match step {
                Step::Kernel(_) => {
                    kernels += 1;
                    Work::Kernel(kernels - 1)
                }
                Step::Extern(step) if externs::serves(step) => Work::Own,
                // who makes no calls tries something else for the whole operator
                Step::Extern(Extern::Matmul(_)) if record => Work::Parts,
                Step::Extern(Extern::Convolution(_)) if record => Work::Parts,
                Step::Extern(Extern::Matmul(_)) => return Err(Unsupported::Step("matmul".into())),
                Step::Extern(Extern::Convolution(_)) => {
                    return Err(Unsupported::Step("convolution".into()));
                }
                Step::Extern(Extern::Op { op, .. }) => {
                    let found = call(*op).map_err(Unsupported::Call)?;
                    Work::Call(found.ok_or_else(|| Unsupported::Step(op.to_string()))?)
                }
            });
        }
        let emit::Program { text, kernels } = match making {
            Making::Compiled { tune: Some(stream) } => {
                tune::program(stream, &schedule, Numbers::Arguments)?
            }
            _ => emit::program(&schedule, Numbers::Arguments, Machine::present())?,
        };
        let scratch = kernels.iter().map(|k| k.shape.scratch_bytes).max().unwrap_or(0) as usize;
        let fails = kernels.iter().any(|k| k.fails);
        let anew = work.iter().zip(&schedule.steps).map(|(work, step)| is_made_anew(work, step));
        let recorded = Recorded::new(record, anew.collect());
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
    pub(crate) fn run(
        &self,
        device: Device,
        operands: Operands<'_>,
    ) -> std::result::Result<Option<Failure>, Stopped> {
        let stream = gpu(device)?.current_stream();
        let loaded = self.loaded(&stream, device)?;
        if loaded.stream != stream.id() {
            loaded.constants.iter().for_each(|(_, memory)| memory.record_stream(&stream));
        }
        let mut places = self.places(operands, &loaded.constants)?;
        let found = match self.recorded.turn(&stream, &places) {
            Turn::Replay(found) => Some(found),
            Turn::Record(key) => self.record(&stream, key, &loaded, (&places, operands), device),
            Turn::Queue => None,
        };
        // the numbers, the work and the status of one run follow one another
        let held = found.as_ref().and_then(|found| found.hold());
        let graphs = found.as_ref().filter(|_| held.is_some());
        let room = match graphs {
            Some(found) => {
                places.layout = found.layout;
                found.room.clone()
            }
            None => {
                places.layout = self.with_workspace(&stream, &places)?;
                let bytes = places.layout.bytes;
                if bytes == 0 { None } else { Some(bytes_on(device, bytes)?) }
            }
        };
        places.settle(room.as_ref().map_or(Ok(0), Tensor::device_address)?, operands);
        put_numbers(&stream, operands, &places)?;
        let run = queue::Run { stream: &stream, device, loaded: &loaded, places: &places };
        match graphs {
            Some(found) => self.replay(found, run)?,
            None => self.queue(run, 0..self.work.len())?,
        }
        let failed = if self.fails { self.failure(&stream, &places)? } else { None };
        if failed.is_none() {
            take_numbers(&stream, operands, &places)?;
        }
        Ok(failed)
    }

    /// The addresses of a run before its room is known: numbers on the CPU have places in it.
    fn places<'a>(
        &self,
        operands: Operands<'_>,
        constants: &'a [(u32, DeviceMemory)],
    ) -> Result<Places<'a>> {
        let Operands { inputs, parameters, outputs } = operands;
        let all = inputs.iter().chain(parameters).copied().chain(outputs);
        let layout = self.layout(all.filter(|t| t.device().is_cpu()).count());
        let mut at = layout.numbers as u64;
        let mut address = |t: &Tensor| {
            if t.device().is_cpu() {
                at += NUMBER_BYTES as u64;
                return Ok(at - NUMBER_BYTES as u64);
            }
            t.device_address()
        };
        Ok(Places {
            inputs: inputs.iter().map(|t| address(t)).collect::<Result<_>>()?,
            parameters: parameters.iter().map(|t| address(t)).collect::<Result<_>>()?,
            outputs: outputs.iter().map(&mut address).collect::<Result<_>>()?,
            room: 0,
            layout,
            constants,
        })
    }

    fn layout(&self, numbers: usize) -> Layout {
        let up = |n: usize| n.next_multiple_of(ALIGNMENT);
        let scratch = up(self.schedule.arena_bytes);
        let status = scratch + up(self.scratch);
        let draws = self.work.iter().any(|work| matches!(work, Work::Call(_)));
        let behind = status + if self.fails || draws { ALIGNMENT } else { 0 };
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

    /// Waits for the work, and reads what its kernels have found wrong.
    fn failure(&self, stream: &Stream, places: &Places<'_>) -> Result<Option<Failure>> {
        let mut status = [0u8; STATUS_BYTES];
        let from = places.status();
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

/// Writes the numbers that are on the CPU to their places.
fn put_numbers(stream: &Stream, operands: Operands<'_>, places: &Places<'_>) -> Result<()> {
    let read = operands.inputs.iter().chain(operands.parameters);
    for (t, place) in read.zip(places.inputs.iter().chain(&places.parameters)) {
        if t.device().is_cpu() {
            let (from, bytes) = (t.data_ptr()?, t.dtype().size());
            // SAFETY: a number has that many bytes, which have been read when this returns.
            unsafe { stream.to_device(*place, from, bytes) }.map_err(driver)?;
        }
    }
    Ok(())
}

/// Reads those that were computed, for which it waits.
fn take_numbers(stream: &Stream, operands: Operands<'_>, places: &Places<'_>) -> Result<()> {
    let mut wait = false;
    for (t, place) in operands.outputs.iter().zip(&places.outputs) {
        if t.device().is_cpu() {
            let (to, bytes) = (t.data_ptr()?, t.dtype().size());
            // SAFETY: a number has that many bytes, and the stream is waited for.
            unsafe { stream.to_host(to, *place, bytes) }.map_err(driver)?;
            wait = true;
        }
    }
    if wait { stream.synchronize().map_err(driver) } else { Ok(()) }
}

/// Whether a step has to be queued at each run: what it does may differ, or is not this crate's.
fn is_made_anew(work: &Work, step: &Step) -> bool {
    let (Work::Call(call), Step::Extern(Extern::Op { op, args, .. })) = (work, step) else {
        return false;
    };
    !call.own || op.effects(args, &[]).has(Effects::EFFECT)
}

/// Waits for a truth value, the first element of a tensor.
pub(crate) fn truth(t: &Tensor) -> Result<bool> {
    let stream = gpu(t.device())?.current_stream();
    let mut byte = 0u8;
    // SAFETY: there is room for it, and the stream is waited for.
    unsafe { stream.to_host(&mut byte, t.device_address()?, 1) }.map_err(driver)?;
    stream.synchronize().map_err(driver)?;
    Ok(byte != 0)
}

/// So many bytes of a device, unset, for work on the current stream.
fn bytes_on(device: Device, bytes: usize) -> Result<Tensor> {
    let one = Dims::from_slice(&[1]);
    Tensor::allocate(DType::U8, device, Dims::from_slice(&[bytes as i64]), one)
}
