//! Errors of a replay, with the text that eager code would give.
//!
//! A plan knows which call of the captured function a failure belongs to: the operator, its
//! operands, the user's line. A check in a loop fails with two numbers; the functions that turn
//! them into errors are those of the eager kernels.

use crate::error::{Error, ErrorKind, Operand};
use crate::ops::index;
use crate::ops::index::backward;
use crate::ops::nn::class_loss;
use straightline_catalog::{Arg, TensorMeta};
use straightline_passes::ir::graph::{EagerCall, Graph, NodeId, NodeKind, SourceLine};
use straightline_passes::schedule::loops::{Schedule, Site};
use straightline_runtime::cpu::kernels::KernelError;
use straightline_runtime::plan::{Panicked, PlanError};

/// The error of a run of this schedule, which was made of this graph.
#[cold]
pub(super) fn error(schedule: &Schedule, graph: &Graph, e: PlanError) -> Error {
    let site = |site: Option<u32>| schedule.sites.get(site? as usize);
    match e {
        PlanError::IndexOutOfRange { site: at, index, size, .. } => {
            let e = KernelError::IndexOutOfRange { index, size };
            match site(at) {
                Some(site) => of_site(index_error(&site.call, e), site),
                None => e.into(),
            }
        }
        PlanError::ZeroDivision { site: at, .. } => {
            let e = KernelError::DivisionByZero.into();
            match site(at) {
                Some(site) => of_site(e, site),
                None => e,
            }
        }
        PlanError::Extern { error, site: at, op, step } => {
            let own = |e: Box<dyn std::error::Error + Send + Sync>| match e.downcast::<Error>() {
                Ok(e) => *e,
                Err(e) => match e.downcast::<Panicked>() {
                    Ok(panic) => ErrorKind::Panic(panic.0).into(),
                    Err(e) => Error::compile(format!("{op} failed (step {step}): {e}")),
                },
            };
            // the plan made the error for this run, so this is the only handle
            let e = match std::sync::Arc::try_unwrap(error) {
                Ok(e) => own(e),
                Err(e) => Error::compile(format!("{op} failed (step {step}): {e}")),
            };
            match site(at) {
                Some(site) => of_site(e, site),
                None => e,
            }
        }
        PlanError::OutOfMemory(e) => out_of_memory(graph, None, e.into()),
        e => Error::compile(e.to_string()),
    }
}

/// The error of a kernel on a GPU.
#[cfg(feature = "cuda")]
#[cold]
pub(super) fn on_gpu(
    schedule: &Schedule,
    graph: &Graph,
    found: crate::cuda::program::Failure,
) -> Error {
    let crate::cuda::program::Failure { site, index } = found;
    let (step, kernel) = (0, String::new());
    let e = match index {
        Some((index, size)) => PlanError::IndexOutOfRange { step, kernel, index, size, site },
        None => PlanError::ZeroDivision { step, kernel, site },
    };
    error(schedule, graph, e)
}

/// The error of a run on a GPU that was stopped.
#[cfg(feature = "cuda")]
#[cold]
pub(super) fn stopped(
    schedule: &Schedule,
    graph: &Graph,
    found: crate::cuda::program::Stopped,
) -> Error {
    let crate::cuda::program::Stopped { error, site } = found;
    match site.and_then(|site| schedule.sites.get(site as usize)) {
        Some(site) => of_site(error, site),
        None => out_of_memory(graph, None, error),
    }
}

/// Names the call that memory was wanted for: the one that makes the value, or for the memory of
/// all intermediate values the first of those with the largest result. Other errors stay as they
/// are.
#[cold]
pub(super) fn out_of_memory(graph: &Graph, made_by: Option<NodeId>, e: Error) -> Error {
    if !matches!(e.kind(), ErrorKind::Memory(_) | ErrorKind::DeviceMemory { .. }) {
        return e;
    }
    let is_call = |id: &NodeId| matches!(graph.node(*id).kind, NodeKind::Call(_));
    let bytes = |id: &NodeId| {
        let results = graph.node(*id).results.iter();
        results.map(TensorMeta::storage_bytes).max()
    };
    let largest = || {
        let calls = graph.topological().into_iter().filter(is_call);
        calls.rev().max_by_key(bytes)
    };
    let node = made_by.filter(is_call).or_else(largest);
    let site = node.and_then(|id| {
        Some(Site {
            call: graph.eager_call(id)?,
            location: graph.node(id).provenance.location.clone(),
        })
    });
    match site {
        Some(site) => of_site(e, &site),
        None => e,
    }
}

/// Names the call in an error.
fn of_site(e: Error, site: &Site) -> Error {
    // a call within a graph that this one is given has been named, with its own line
    let given_graphs = site.call.args.iter().any(|a| matches!(a, Arg::Graph(_)));
    if given_graphs && e.location().is_some() {
        return e;
    }
    let operands = site.call.operands.iter().map(|m| Operand {
        dtype: m.dtype,
        sizes: m.sizes.clone(),
        device: m.device,
    });
    let e = e.with_operands(site.call.op.to_string(), operands);
    match &site.location {
        Some(SourceLine::Caller(at)) => e.with_location(at),
        Some(SourceLine::Text(line)) => e.with_source_line(line),
        None => e,
    }
}

/// The error of an operator's eager kernel for an index that is out of range.
fn index_error(call: &EagerCall, e: KernelError) -> Error {
    let base = call.op.base();
    let base = base.strip_suffix('_').unwrap_or(base);
    let rank = call.operands.first().map_or(0, |m| m.sizes.len());
    let dim = || {
        let at = call.op.schema().arg_index("dim")?;
        let dim = call.args.get(at).and_then(Arg::as_int)?;
        usize::try_from(dim.rem_euclid(rank.max(1) as i64)).ok()
    };
    match base {
        "gather" | "scatter" | "scatter_add" | "scatter_reduce" => {
            index::out_of_bounds(dim().unwrap_or(0))(e)
        }
        "index_select" => index::select_out_of_bounds(dim().unwrap_or(0), rank)(e),
        "one_hot" => match e {
            KernelError::IndexOutOfRange { index, .. } => backward::no_class(index),
            e => e.into(),
        },
        _ if base.starts_with("nll_loss") => class_loss::out_of_bounds(e),
        _ => e.into(),
    }
}
