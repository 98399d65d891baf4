//! What calls the operators of a schedule on a GPU, and the graphs that calls of higher order are given.
//!
//! These become programs of their own. A predicate is waited for and read by the host, which then queues the
//! chosen graph on the same stream. (So do XLA's conditional and while thunks, and the code that PyTorch's
//! Inductor writes for `cond`.) A loop's graph may itself be launched as a CUDA graph, since what it carries lies
//! in the same two places in turn.

use super::devices;
use super::externs::{UNSET, kernel_of, reads_memory, to_stack};
use super::failure;
use crate::cuda::copy_elements;
use crate::cuda::program::{Call, Making, Operands, Program, truth};
use crate::deterministic::schedules_of_gpu;
use crate::dispatch::{Value, handle_of};
use crate::error::{Error, Result};
use crate::modes::functionalize;
use crate::ops::aten;
use crate::tensor::{Tensor, on_device};
use smallvec::SmallVec;
use straightline_catalog::{
    Arg, DType, Device, Dims, MemoryFormat, Op, Subgraph, TensorMeta, layout,
};
use straightline_passes::ir::control::Control;
use straightline_passes::ir::graph::Graph;
use straightline_passes::schedule::loops::{
    BufferKind, Extern, OutputBinding, Schedule, Step, ViewSource,
};
use straightline_passes::schedule::schedule;

/// What calls the operators of a schedule. Their kernels work on tensors and allocate their results. One from
/// outside might keep or write what it is given, so it gets copies.
pub(super) fn calls(
    schedule: &Schedule,
    device: Device,
) -> Result<impl Fn(Op) -> Result<Option<Call>>> {
    Ok(move |name: Op| match bodies(schedule, name, device)? {
        bodies if bodies.is_empty() => operator(name, device).map(Some),
        bodies => {
            let run = move |args: &[Arg<u32>], tensors: &[Tensor]| {
                of_higher_order(name, &bodies, args, tensors, device).map(Some)
            };
            Ok(Some(Call { run: Box::new(run), own: false }))
        }
    })
}

fn operator(name: Op, device: Device) -> Result<Call> {
    let op = handle_of(name)?;
    let derived = functionalize::derived(op);
    let (kernel, keys) = kernel_of(op, derived.as_ref(), devices::key(device))?;
    let own = kernel.is_own() && derived.is_none();
    let unset = own && op.tags().contains(&UNSET);
    let call = move |args: &[Arg<u32>], tensors: &[Tensor]| -> Result<Option<Vec<Tensor>>> {
        if unset {
            return Ok(None);
        }
        let given = tensors.iter().map(|t| match own {
            true if reads_memory(name) => aten::contiguous(t, MemoryFormat::Contiguous),
            true => Ok(t.clone()),
            false => aten::clone(t, None),
        });
        let given = given.collect::<Result<Vec<_>>>()?;
        let mut operand = |i: &u32| given[*i as usize].clone();
        let mut stack = to_stack(args, name.schema(), &mut operand);
        match &derived {
            Some(d) => stack = d.run(&kernel, keys, std::mem::take(&mut stack))?,
            None => kernel.call_boxed(op, keys, &mut stack)?,
        }
        Ok(Some(stack.iter().flat_map(Value::tensors).cloned().collect()))
    };
    Ok(Call { run: Box::new(call), own })
}

/// A graph with its program.
struct Body {
    graph: Subgraph,
    program: Program,
    inputs: Vec<TensorMeta>,
    /// The buffers that a run allocates, in order: elements, and how many.
    fresh: Vec<(DType, usize)>,
}

/// The graphs that calls of an operator in a schedule are given; none for most operators.
fn bodies(of: &Schedule, op: Op, device: Device) -> Result<Vec<Body>> {
    let mut all: Vec<Body> = Vec::new();
    for step in &of.steps {
        let Step::Extern(Extern::Op { op: called, args, .. }) = step else { continue };
        for arg in args.iter().filter(|_| *called == op) {
            if let Arg::Graph(graph) = arg
                && !all.iter().any(|known| known.graph.is_same(graph))
            {
                all.push(Body::new(graph, device)?);
            }
        }
    }
    Ok(all)
}

impl Body {
    /// Compiles a graph, which has been rewritten with the one around it.
    fn new(of: &Subgraph, device: Device) -> Result<Body> {
        let failed = |e: &dyn std::fmt::Display| Error::compile(e.to_string());
        let graph = of.get::<Graph>().ok_or_else(|| failed(&"a graph of another kind"))?;
        let schedule = schedule(graph, &schedules_of_gpu()).map_err(|e| failed(&e))?;
        let mut fresh: Vec<(DType, usize)> = Vec::new();
        for b in &schedule.buffers {
            if let BufferKind::Output(i) = b.kind {
                let i = i as usize;
                fresh.resize(fresh.len().max(i + 1), (DType::U8, 0));
                fresh[i] = (b.dtype, b.len);
            }
        }
        let call = calls(&schedule, device)?;
        let making = Making::Compiled { tune: None };
        let program = Program::new(schedule.clone(), making, &call).map_err(|e| failed(&e))?;
        let inputs = graph.inputs().iter().map(|n| graph.meta((*n).into()).clone()).collect();
        Ok(Body { graph: of.clone(), program, inputs, fresh })
    }

    /// Runs it on tensors of the GPU. The results may lie in the memory of operands.
    fn run(&self, operands: &[Tensor], device: Device) -> Result<Vec<Tensor>> {
        ensure_compile!(
            operands.len() == self.inputs.len(),
            "{} operands for a graph of {}",
            operands.len(),
            self.inputs.len()
        );
        let pairs = operands.iter().zip(&self.inputs);
        let given = pairs.map(|(t, meta)| laid_out(t, meta)).collect::<Result<Vec<_>>>()?;
        let fresh =
            self.fresh.iter().map(|(dtype, len)| memory(device, *dtype, &[*len as i64], &[1]));
        let fresh = fresh.collect::<Result<Vec<_>>>()?;
        let inputs: SmallVec<[&Tensor; 8]> = given.iter().collect();
        let all = Operands { inputs: &inputs, parameters: &[], outputs: &fresh };
        let schedule = self.program.schedule();
        let done = self.program.run(device, all);
        if !matches!(done, Ok(None)) {
            let Some(graph) = self.graph.get::<Graph>() else {
                return Err(Error::compile("a graph of another kind"));
            };
            match done {
                Ok(None) => {}
                Ok(Some(found)) => return Err(failure::on_gpu(schedule, graph, found)),
                Err(stopped) => return Err(failure::stopped(schedule, graph, stopped)),
            }
        }
        let result = |output: &OutputBinding| match output {
            OutputBinding::Fresh { index, meta } => Ok(part(&fresh[*index as usize], meta, 0)),
            OutputBinding::View { of: ViewSource::Input(i), meta, offset } => {
                Ok(part(&given[*i as usize], meta, *offset))
            }
            OutputBinding::View { of: ViewSource::Output(i), meta, offset } => {
                Ok(part(&fresh[*i as usize], meta, *offset))
            }
            OutputBinding::View { of: ViewSource::Parameter(_), .. } => {
                Err(Error::compile("a parameter in a graph without any"))
            }
        };
        schedule.outputs.iter().map(result).collect()
    }
}

/// Fresh memory of the GPU.
fn memory(device: Device, dtype: DType, sizes: &[i64], strides: &[i64]) -> Result<Tensor> {
    let bytes = layout::storage_bytes(dtype.size(), sizes, strides, 0);
    let storage = on_device::allocate(device, bytes)?;
    Ok(Tensor::build(storage, dtype, device, sizes, strides, 0))
}

/// Elements of a tensor's memory, from one on.
fn part(of: &Tensor, meta: &TensorMeta, offset: i64) -> Tensor {
    view(of, &meta.sizes, &meta.strides, offset)
}

fn view(of: &Tensor, sizes: &[i64], strides: &[i64], offset: i64) -> Tensor {
    let begin = of.storage_offset() + offset;
    Tensor::build(of.storage().clone(), of.dtype(), of.device(), sizes, strides, begin)
}

/// The index of a tensor along its first dimension.
fn slice(of: &Tensor, at: i64) -> Tensor {
    view(of, &of.sizes()[1..], &of.strides()[1..], at * of.strides()[0])
}

/// Copies elements.
fn copy(to: &Tensor, from: &Tensor) -> Result<()> {
    // SAFETY: `to` is fresh memory, which nobody else has, of the same sizes and dtype.
    unsafe { copy_elements(to, from) }
}

/// An operand in the strides that a program reads.
fn laid_out(t: &Tensor, meta: &TensorMeta) -> Result<Tensor> {
    let same = |(n, (a, b)): (&i64, (&i64, &i64))| *n == 1 || a == b;
    ensure_compile!(
        t.sizes() == &meta.sizes[..] && t.dtype() == meta.dtype,
        "an operand {}{:?} where a graph takes {}{:?}",
        t.dtype(),
        t.sizes(),
        meta.dtype,
        meta.sizes
    );
    let mut all = t.sizes().iter().zip(t.strides().iter().zip(&meta.strides));
    if t.numel() == 0 || all.all(same) {
        return Ok(t.clone());
    }
    // of elements that repeat, each is written once
    let sizes = layout::once(&meta.sizes, &meta.strides);
    ensure_compile!(
        !layout::may_overlap(&sizes, &meta.strides),
        "an operand with strides {:?}, which overlap",
        meta.strides
    );
    let fresh = memory(t.device(), t.dtype(), &meta.sizes, &meta.strides)?;
    copy(&view(&fresh, &sizes, &meta.strides, 0), &view(t, &sizes, t.strides(), 0))?;
    Ok(fresh)
}

/// Makes a call that is given graphs.
fn of_higher_order(
    op: Op,
    bodies: &[Body],
    args: &[Arg<u32>],
    tensors: &[Tensor],
    device: Device,
) -> Result<Vec<Tensor>> {
    let graphs = args.iter().filter_map(|a| match a {
        Arg::Graph(g) => Some(bodies.iter().find(|known| known.graph.is_same(g))),
        _ => None,
    });
    let graphs: Option<SmallVec<[&Body; 2]>> = graphs.collect();
    let those = |all: &[u32]| all.iter().map(|i| tensors[*i as usize].clone()).collect::<Vec<_>>();
    match (Control::read(op, args), graphs.as_deref()) {
        (Some(Control::Cond { pred, operands, .. }), Some([yes, no])) => {
            let chosen = if truth(&tensors[pred as usize])? { yes } else { no };
            chosen.run(&those(&operands), device)
        }
        (Some(Control::While { carried, additional, .. }), Some([cond, body])) => {
            let additional = those(&additional);
            let mut now = those(&carried);
            loop {
                let given = [&now[..], &additional].concat();
                let again = cond.run(&given, device)?;
                let Some(again) = again.first() else {
                    return Err(Error::compile("a loop without a predicate"));
                };
                if !truth(again)? {
                    return Ok(now);
                }
                now = body.run(&given, device)?;
            }
        }
        (Some(Control::Scan { carried, xs, additional, reverse, .. }), Some([body])) => {
            scan(body, those(&carried), [those(&xs), those(&additional)], reverse, device)
        }
        _ => Err(Error::compile(format!("{op} is called with other graphs"))),
    }
}

fn scan(
    body: &Body,
    mut now: Vec<Tensor>,
    [xs, additional]: [Vec<Tensor>; 2],
    reverse: bool,
    device: Device,
) -> Result<Vec<Tensor>> {
    let Some(count) = xs.first().and_then(|x| x.sizes().first().copied()) else {
        return Err(Error::compile("nothing to scan"));
    };
    let carried = now.len();
    let stacked = |output: &OutputBinding| {
        let (OutputBinding::Fresh { meta, .. } | OutputBinding::View { meta, .. }) = output;
        let mut sizes = Dims::from_slice(&[count]);
        sizes.extend_from_slice(&meta.sizes);
        memory(device, meta.dtype, &sizes, &layout::contiguous_strides(&sizes))
    };
    let outputs = body.program.schedule().outputs.iter().skip(carried);
    let ys = outputs.map(stacked).collect::<Result<Vec<_>>>()?;
    for step in 0..count {
        let at = if reverse { count - 1 - step } else { step };
        let slices = xs.iter().map(|x| slice(x, at));
        let given: Vec<Tensor> =
            now.iter().cloned().chain(slices).chain(additional.iter().cloned()).collect();
        let mut results = body.run(&given, device)?;
        ensure_compile!(results.len() == carried + ys.len(), "a scan of other results");
        for (y, result) in ys.iter().zip(results.drain(carried..)) {
            copy(&slice(y, at), &result)?;
        }
        now = results;
    }
    now.extend(ys);
    Ok(now)
}
