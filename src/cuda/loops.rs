//! Operators as small schedules: one call, rewritten, scheduled and compiled to CUDA.
//!
//! What a call needs is prepared once for each signature (operator, arguments, sizes, strides and
//! dtypes of operands); the program is one for all signatures that differ in numbers only, since these
//! are arguments of its kernels.

use super::copy::{driver, program};
use super::steps::externs;
use crate::default_dtype::default_dtype;
use crate::dispatch::{OperatorHandle, Value, meta};
use crate::error::{Error, Result};
use crate::modes::tracer::to_arg;
use crate::ops::aten;
use crate::tensor::on_device::gpu;
use crate::tensor::{Tensor, access};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use straightline_catalog::{Arg, Device, DeviceType, Dims, Op, TensorMeta, layout};
use straightline_cuda::copies::{self, Strided};
use straightline_cuda::driver::{Argument, DeviceMemory, Function, Launch, Stream};
use straightline_cuda::emit::{self, Emitted, Numbers};
use straightline_cuda::products::Workspace;
use straightline_cuda::programs;
use straightline_passes::ir::graph::{Graph, ValueRef};
use straightline_passes::rewrite::{RewriteOptions, rewrite};
use straightline_passes::schedule::loops::{
    BufferId, BufferKind, OutputBinding, Schedule, Step, ViewSource,
};
use straightline_passes::schedule::{ScheduleOptions, schedule};

/// A call without its tensors.
struct Prepared {
    schedule: Schedule,
    /// Where in its memory each result begins.
    offsets: Vec<i64>,
    text: String,
    kernels: Vec<Emitted>,
    /// On each device that has run it.
    loaded: Mutex<HashMap<u32, Arc<Loaded>>>,
}

/// A program on a device.
struct Loaded {
    functions: Arc<[Function]>,
    /// By buffer.
    constants: Vec<(u32, DeviceMemory)>,
}

/// So many signatures are kept.
const KEPT: usize = 4096;

/// Runs a functional operator by loops; `None` if it has none.
pub(super) fn run(op: OperatorHandle, args: &[Value]) -> Result<Option<Vec<Value>>> {
    let Some(known) = op.op() else { return Ok(None) };
    let Some(device) = one_device(op, args)? else { return Ok(None) };
    let mut tensors: Vec<Tensor> = Vec::new();
    let mut operand = |t: &Tensor| {
        let there = match t.device().is_cpu() {
            true => t.to_device(device)?,
            false => t.clone(),
        };
        tensors.push(there);
        Ok(tensors.len() as u32 - 1)
    };
    let mut given = Vec::new();
    for v in args {
        // what a graph has no argument for has no loops
        match to_arg(op.name(), v, &mut operand) {
            Ok(arg) => given.push(arg),
            Err(_) => return Ok(None),
        }
    }
    if tensors.iter().any(|t| t.has_math_bits() || t.kind_without_memory().is_some()) {
        return Ok(None);
    }
    if let Some(results) = super::steps::run(known, &given, &tensors)? {
        return Ok(Some(results));
    }
    let Some(prepared) = prepared(op, known, args, &given, &tensors)? else { return Ok(None) };
    let stream = gpu(device)?.current_stream();
    let results = prepared.launch(&stream, device, &tensors)?;
    Ok(results.map(|all| all.into_iter().map(Value::Tensor).collect()))
}

/// The GPU of a call: operands on the CPU may only be numbers, as in PyTorch.
fn one_device(op: OperatorHandle, args: &[Value]) -> Result<Option<Device>> {
    let named = args.iter().find_map(|v| match v {
        Value::Device(d) => Some(*d),
        _ => None,
    });
    if named.is_some_and(|d| d.kind != DeviceType::Cuda) {
        return Ok(None);
    }
    let tensors = || args.iter().flat_map(Value::tensors);
    let first = tensors().map(Tensor::device).find(|d| !d.is_cpu());
    let Some(device) = named.or(first) else { return Ok(None) };
    let device = crate::tensor::on_device::numbered(device);
    let apart = |t: &&Tensor| t.device() != device && !(t.device().is_cpu() && t.dim() == 0);
    // of a tensor on another device a factory may take the sizes
    if named.is_some() && tensors().any(|t| t.device() != device) {
        return Ok(None);
    }
    // indices may be on the CPU
    let index = |v: &&Value| matches!(v, Value::OptionalTensorList(_));
    let other = (args.iter().filter(|v| !index(v)).flat_map(Value::tensors))
        .chain(args.iter().filter(index).flat_map(Value::tensors).filter(|t| !t.device().is_cpu()))
        .find(apart);
    match other {
        Some(t) => Err(Error::runtime(format!(
            "{}: expected all tensors to be on the same device, but found at least two devices, {device} and {}",
            op.name(),
            t.device()
        ))),
        None => Ok(Some(device)),
    }
}

fn prepared(
    op: OperatorHandle,
    known: Op,
    args: &[Value],
    given: &[Arg<u32>],
    tensors: &[Tensor],
) -> Result<Option<Arc<Prepared>>> {
    type Known = HashMap<String, Option<Arc<Prepared>>>;
    static ALL: OnceLock<Mutex<Known>> = OnceLock::new();
    let all = ALL.get_or_init(Mutex::default);
    let lock = || all.lock().unwrap_or_else(PoisonError::into_inner);
    let shapes: Vec<_> = tensors
        .iter()
        .map(|t| (t.dtype(), t.sizes(), t.strides(), t.is_wrapped_number()))
        .collect();
    let signature = format!("{known} {given:?} {shapes:?} {}", default_dtype());
    if let Some(found) = lock().get(&signature) {
        return Ok(found.clone());
    }
    let made = prepare(op, known, args, given, tensors)?.map(Arc::new);
    let mut all = lock();
    if all.len() >= KEPT {
        all.clear();
    }
    all.insert(signature, made.clone());
    Ok(made)
}

fn prepare(
    op: OperatorHandle,
    known: Op,
    args: &[Value],
    given: &[Arg<u32>],
    tensors: &[Tensor],
) -> Result<Option<Prepared>> {
    // what it refuses, or can not know without data, is for the CPU to say
    let Ok((results, _)) = meta::run(op, args) else { return Ok(None) };
    // the graph is of values: where they are is known here
    let on_cpu = |t: &Tensor| TensorMeta { device: Device::CPU, ..t.meta() };
    let Some(metas) = (results.iter())
        .map(|v| v.as_tensor().map(on_cpu))
        .collect::<Option<SmallVec<[TensorMeta; 1]>>>()
    else {
        return Ok(None);
    };
    let offsets = results.iter().filter_map(Value::as_tensor).map(Tensor::storage_offset).collect();
    let mut graph = Graph::new();
    let inputs: Vec<ValueRef> = (tensors.iter().enumerate())
        .map(|(i, t)| graph.input(&format!("x{i}"), on_cpu(t)))
        .collect();
    let call_args = (given.iter())
        .map(|a| match a {
            Arg::Device(_) => Arg::Device(Device::CPU),
            a => a.map(|i| inputs[*i as usize]),
        })
        .collect();
    let count = metas.len() as u32;
    let call = graph.complete_call(known, call_args, metas);
    let outputs: Vec<ValueRef> =
        (0..count).map(|index| ValueRef { node: call.node, index }).collect();
    graph.set_outputs(&outputs);
    let Ok((graph, _)) = rewrite(&graph, &RewriteOptions::default()) else { return Ok(None) };
    let options = ScheduleOptions::default();
    let Ok(schedule) = schedule(&graph, &options) else { return Ok(None) };
    let runs = |step: &Step| match step {
        Step::Kernel(_) => true,
        Step::Extern(step) => externs::serves(step),
    };
    if !schedule.steps.iter().all(runs) {
        return Ok(None);
    }
    let Ok(program) = emit::program(&schedule, Numbers::Arguments) else { return Ok(None) };
    Ok(Some(Prepared {
        schedule,
        offsets,
        text: program.text,
        kernels: program.kernels,
        loaded: Mutex::default(),
    }))
}

/// A tensor of a type, with room for its elements before the first one.
fn fresh_tensor(device: Device, m: &TensorMeta, offset: i64) -> Result<Tensor> {
    if offset == 0 {
        return Tensor::allocate(m.dtype, device, m.sizes.clone(), m.strides.clone());
    }
    let extent = layout::storage_extent(&m.sizes, &m.strides, offset);
    let row =
        Tensor::allocate(m.dtype, device, Dims::from_slice(&[extent]), Dims::from_slice(&[1]))?;
    aten::as_strided(&row, &m.sizes, &m.strides, Some(offset))
}

/// What a kernel writes if it fails: whether, where, and the index.
const STATUS_BYTES: usize = 16;

impl Prepared {
    /// Queues the kernels; `None` if one of them has failed, whose error the CPU knows.
    fn launch(
        &self,
        stream: &Stream,
        device: Device,
        tensors: &[Tensor],
    ) -> Result<Option<Vec<Tensor>>> {
        let mut wanted: Vec<(u32, &TensorMeta, i64)> = (self.schedule.outputs.iter())
            .zip(&self.offsets)
            .filter_map(|(output, offset)| match output {
                OutputBinding::Fresh { index, meta } => Some((*index, meta, *offset)),
                OutputBinding::View { .. } => None,
            })
            .collect();
        wanted.sort_by_key(|(index, ..)| *index);
        let fresh = (wanted.into_iter())
            .map(|(_, meta, offset)| fresh_tensor(device, meta, offset))
            .collect::<Result<Vec<Tensor>>>()?;
        let operands: Vec<&Tensor> = tensors.iter().collect();
        let _held = access::read(&operands)?;
        let memory = |bytes: usize| {
            DeviceMemory::new(stream, bytes).map_err(|e| Error::runtime(format!("`{device}`: {e}")))
        };
        // nothing is taken for a call that needs nothing
        let room = |bytes: usize| (bytes != 0).then(|| memory(bytes)).transpose();
        let at = |room: &Option<DeviceMemory>| room.as_ref().map_or(0, DeviceMemory::address);
        let arena = room(self.schedule.arena_bytes)?;
        let loaded = self.loaded(stream, &memory)?;
        let fails = self.kernels.iter().any(|k| k.fails);
        let status = room(if fails { STATUS_BYTES } else { 0 })?;
        if fails {
            // SAFETY: the memory was just allocated for this stream.
            unsafe { stream.fill(at(&status), 0, STATUS_BYTES) }.map_err(driver)?;
        }
        let address = |id: BufferId| -> Result<u64> {
            Ok(match &self.schedule.buffer(id).kind {
                BufferKind::Input(i) | BufferKind::Parameter(i) => {
                    tensors[*i as usize].device_address()?
                }
                BufferKind::Output(o) => fresh[*o as usize].device_address()?,
                BufferKind::Arena { offset } => at(&arena) + *offset as u64,
                BufferKind::Within { output, offset } => {
                    fresh[*output as usize].device_address()? + *offset as u64
                }
                BufferKind::Constant(_) => {
                    let found = loaded.constants.iter().find(|(of, _)| *of == id.0);
                    found.map_or(0, |(_, memory)| memory.address())
                }
            })
        };
        let addresses: Vec<u64> = (0..self.schedule.buffers.len() as u32)
            .map(|i| address(BufferId(i)))
            .collect::<Result<_>>()?;
        let address_of = |id: BufferId| addresses[id.0 as usize];
        let mut kernels = self.kernels.iter().zip(loaded.functions.iter());
        for step in &self.schedule.steps {
            if let Step::Extern(step) = step {
                let bytes = externs::workspace_bytes(stream.device(), step, &address_of)?;
                let space = room(bytes)?;
                let workspace = Workspace { address: at(&space), bytes };
                // SAFETY: operands are held, results are this call's own, as for kernels below.
                unsafe { externs::queue(stream, step, &address_of, workspace) }?;
                continue;
            }
            let Some((kernel, function)) = kernels.next() else { continue };
            let mut arguments: SmallVec<[Argument<'_>; 8]> = SmallVec::new();
            for buffer in &kernel.buffers {
                arguments.push(Argument::Pointer(address(*buffer)?));
            }
            if !kernel.numbers.is_empty() {
                arguments.push(Argument::Numbers(&kernel.numbers));
            }
            let shape = &kernel.shape;
            let scratch = room(shape.scratch_bytes as usize)?;
            arguments.extend(scratch.as_ref().map(|s| Argument::Pointer(s.address())));
            if kernel.fails {
                arguments.push(Argument::Pointer(at(&status)));
            }
            let launch = Launch {
                blocks: [shape.blocks, 1, 1],
                threads: [shape.threads, 1, 1],
                shared_bytes: shape.shared_bytes,
            };
            // SAFETY: the arguments are what the kernel was emitted for. Operands are held while it is
            // queued; their memory, and that of this call, serves others on this stream only after it.
            unsafe { function.launch(stream, launch, &arguments) }.map_err(driver)?;
        }
        if fails {
            let mut word = [0u8; 4];
            // SAFETY: there is room for it, and the stream is waited for.
            unsafe { stream.to_host(word.as_mut_ptr(), at(&status), word.len()) }
                .map_err(driver)?;
            stream.synchronize().map_err(driver)?;
            if word != [0; 4] {
                return Ok(None);
            }
        }
        self.results(stream, device, tensors, &fresh).map(Some)
    }

    fn results(
        &self,
        stream: &Stream,
        device: Device,
        tensors: &[Tensor],
        fresh: &[Tensor],
    ) -> Result<Vec<Tensor>> {
        let of = |(output, offset): (&OutputBinding, &i64)| match output {
            OutputBinding::Fresh { index, .. } => Ok(fresh[*index as usize].clone()),
            // a functional operator's result is nobody else's
            OutputBinding::View { of, meta, offset: begin } => {
                let source = match of {
                    ViewSource::Input(i) | ViewSource::Parameter(i) => &tensors[*i as usize],
                    ViewSource::Output(o) => &fresh[*o as usize],
                };
                let strides = layout::preserved_strides(&meta.sizes, &meta.strides);
                let result =
                    fresh_tensor(device, &TensorMeta { strides, ..meta.clone() }, *offset)?;
                let size = meta.dtype.size() as i64;
                let from = Strided {
                    address: source.device_address()?.wrapping_add_signed(begin * size),
                    dtype: meta.dtype,
                    sizes: &meta.sizes,
                    strides: &meta.strides,
                };
                let to = Strided {
                    address: result.device_address()?,
                    strides: result.strides(),
                    ..from
                };
                // SAFETY: the view lies in its source, and the result is fresh.
                unsafe { copies::copy(stream, to, from) }.map_err(program)?;
                Ok(result)
            }
        };
        self.schedule.outputs.iter().zip(&self.offsets).map(of).collect()
    }

    /// The program and its constants on the stream's device.
    fn loaded(
        &self,
        stream: &Stream,
        memory: &dyn Fn(usize) -> Result<DeviceMemory>,
    ) -> Result<Arc<Loaded>> {
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
                let place = memory(bytes.len())?;
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
        let loaded = Arc::new(Loaded { functions, constants });
        Ok(all.entry(device.ordinal()).or_insert(loaded).clone())
    }
}
