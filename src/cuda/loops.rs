//! Operators as small schedules: one call, rewritten, scheduled and compiled to CUDA.
//!
//! What a call needs is prepared once for each signature (operator, arguments, sizes, strides and
//! dtypes of operands); the program is one for all signatures that differ in numbers only, since these
//! are arguments of its kernels.

use super::copy::{self, program};
use super::program::{Making, Operands, Program};
use super::signature::{Kept, Signature};
use super::ways::Way;
use crate::deterministic::schedules_of_gpu;
use crate::dispatch::{OperatorHandle, Value, meta};
use crate::error::{Error, Result};
use crate::modes::tracer::to_arg;
use crate::ops::aten;
use crate::tensor::on_device::gpu;
use crate::tensor::{Tensor, access};
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use straightline_catalog::{Arg, Device, DeviceType, Dims, Op, TensorMeta, layout};
use straightline_cuda::copies::{self, Strided};
use straightline_cuda::driver::Stream;
use straightline_passes::ir::graph::{Graph, ValueRef};
use straightline_passes::rewrite::{RewriteOptions, rewrite};
use straightline_passes::schedule::loops::{OutputBinding, ViewSource};
use straightline_passes::schedule::schedule;

/// A call without its tensors.
struct Prepared {
    program: Program,
    /// What results look like, and where in its memory each begins.
    wanted: Vec<(TensorMeta, i64)>,
}

/// So many signatures are kept.
const KEPT: usize = 4096;

/// Runs a functional operator by loops, or by a kernel for its tensors; `None` if it has neither.
pub(super) fn run(op: OperatorHandle, args: &[Value]) -> Result<Option<(Vec<Value>, Way)>> {
    let Some(known) = op.op() else { return Ok(None) };
    let Some(device) = one_device(args)? else { return Ok(None) };
    let mut tensors: SmallVec<[Tensor; 4]> = SmallVec::new();
    for t in args.iter().flat_map(Value::tensors) {
        tensors.push(if t.device().is_cpu() { copy::there(t, device)? } else { t.clone() });
    }
    if tensors.iter().any(|t| t.has_math_bits() || t.kind_without_memory().is_some()) {
        return Ok(None);
    }
    let Some(prepared) = prepared(op, known, args, &tensors)? else { return Ok(None) };
    let stream = gpu(device)?.current_stream();
    let results = prepared.launch(&stream, device, &tensors)?;
    Ok(results.map(|all| (all.into_iter().map(Value::Tensor).collect(), Way::Loops)))
}

/// The GPU of a call: operands on the CPU may only be numbers, as in PyTorch.
fn one_device(args: &[Value]) -> Result<Option<Device>> {
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
            "expected all tensors to be on the same device, but found at least two devices, {device} and {}",
            t.device()
        ))),
        None => Ok(Some(device)),
    }
}

fn prepared(
    op: OperatorHandle,
    known: Op,
    args: &[Value],
    tensors: &[Tensor],
) -> Result<Option<Arc<Prepared>>> {
    static ALL: OnceLock<Mutex<Kept<Option<Arc<Prepared>>>>> = OnceLock::new();
    let all = ALL.get_or_init(|| Mutex::new(Kept::new(KEPT)));
    let lock = || all.lock().unwrap_or_else(PoisonError::into_inner);
    // what a graph has no argument for has no loops
    let Some(signature) = Signature::new(known, args, tensors) else { return Ok(None) };
    let found = lock().get(&signature);
    if let Some(found) = found {
        return Ok(found);
    }
    let made = prepare(op, known, args, tensors)?.map(Arc::new);
    lock().insert(signature, made.clone());
    Ok(made)
}

fn prepare(
    op: OperatorHandle,
    known: Op,
    args: &[Value],
    tensors: &[Tensor],
) -> Result<Option<Prepared>> {
    let mut next = 0u32..;
    let mut operand = |_: &Tensor| Ok(next.next().unwrap_or_default());
    let given = args.iter().map(|v| to_arg(op.name(), v, &mut operand));
    let Ok(given) = given.collect::<Result<Vec<Arg<u32>>>>() else { return Ok(None) };
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
    let offsets = results.iter().filter_map(Value::as_tensor).map(Tensor::storage_offset);
    let wanted = metas.iter().cloned().zip(offsets).collect();
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
    let Ok(schedule) = schedule(&graph, &schedules_of_gpu()) else { return Ok(None) };
    // an operator that has no loops is called by name, not by its parts
    match Program::new(schedule, Making::Eager, &|_| Ok(None)) {
        Ok(program) => Ok(Some(Prepared { program, wanted })),
        Err(_) => Ok(None),
    }
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

/// Whether a type says where elements of these sizes lie, each at a place of its own.
fn lays_out(wanted: &TensorMeta, sizes: &[i64]) -> bool {
    wanted.sizes[..] == *sizes && !layout::repeats(sizes, &wanted.strides)
}

/// A fresh result as it is to lie in memory: a schedule leaves no gaps, as a few operators do.
fn relaid(stream: &Stream, t: &Tensor, wanted: &TensorMeta, offset: i64) -> Result<Tensor> {
    if t.strides() == &wanted.strides[..] || !lays_out(wanted, t.sizes()) {
        return Ok(t.clone());
    }
    let result = fresh_tensor(t.device(), wanted, offset)?;
    let from = Strided {
        address: t.device_address()?,
        dtype: t.dtype(),
        sizes: t.sizes(),
        strides: t.strides(),
    };
    let to = Strided { address: result.device_address()?, strides: result.strides(), ..from };
    // SAFETY: both are fresh, and no element of the result is another's.
    unsafe { copies::copy(stream, to, from) }.map_err(program)?;
    Ok(result)
}

impl Prepared {
    /// Queues the kernels; `None` if one of them has failed, whose error the CPU knows.
    fn launch(
        &self,
        stream: &Stream,
        device: Device,
        tensors: &[Tensor],
    ) -> Result<Option<Vec<Tensor>>> {
        let mut wanted: Vec<(u32, &TensorMeta, i64)> = (self.program.schedule().outputs.iter())
            .zip(&self.wanted)
            .filter_map(|(output, (_, offset))| match output {
                OutputBinding::Fresh { index, meta } => Some((*index, meta, *offset)),
                OutputBinding::View { .. } => None,
            })
            .collect();
        wanted.sort_by_key(|(index, ..)| *index);
        let fresh = (wanted.into_iter())
            .map(|(_, meta, offset)| fresh_tensor(device, meta, offset))
            .collect::<Result<Vec<Tensor>>>()?;
        let inputs: Vec<&Tensor> = tensors.iter().collect();
        let _held = access::read(&inputs)?;
        let operands = Operands { inputs: &inputs, parameters: &[], outputs: &fresh };
        if self.program.run(device, operands)?.is_some() {
            return Ok(None);
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
        let of = |(output, (wanted, offset)): (&OutputBinding, &(TensorMeta, i64))| match output {
            OutputBinding::Fresh { index, .. } => {
                relaid(stream, &fresh[*index as usize], wanted, *offset)
            }
            // a functional operator's result is nobody else's
            OutputBinding::View { of, meta, offset: begin } => {
                let source = match of {
                    ViewSource::Input(i) | ViewSource::Parameter(i) => &tensors[*i as usize],
                    ViewSource::Output(o) => &fresh[*o as usize],
                };
                let strides = match lays_out(wanted, &meta.sizes) {
                    true => wanted.strides.clone(),
                    false => layout::preserved_strides(&meta.sizes, &meta.strides),
                };
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
        self.program.schedule().outputs.iter().zip(&self.wanted).map(of).collect()
    }
}
