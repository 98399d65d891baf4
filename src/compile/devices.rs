//! Where a compiled function runs: on the CPU or on one GPU, as its tensors are. A function on several
//! devices is refused by name before code is generated.

use super::traced::Traced;
use crate::dispatch::{BackendComponent, DispatchKey};
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use straightline_catalog::{Device, DeviceType, TensorMeta};
use straightline_passes::ir::control;
use straightline_passes::ir::graph::{Graph, NodeKind};

/// Whether code is made for a device.
pub(super) fn is_served(device: Device) -> bool {
    device.is_cpu() || cfg!(feature = "cuda") && device.kind == DeviceType::Cuda
}

/// The error of what is on a device that there is no code for.
pub(super) fn elsewhere(what: &str, device: Device) -> Error {
    Error::device(format!(
        "compile() makes code for {}, and {what} is on `{device}`: move it with `to_device(Device::CPU)`, or call \
         the function without `compile()`",
        if cfg!(feature = "cuda") { "the CPU and for CUDA" } else { "the CPU" }
    ))
}

/// The error of a function on tensors of a device that there is no code for.
#[cfg(not(feature = "cuda"))]
pub(super) fn none_for(device: Device) -> Error {
    elsewhere("what the function works on", device)
}

/// The key of its kernels.
pub(super) fn key(device: Device) -> DispatchKey {
    DispatchKey::Dense.on_backend(BackendComponent::of(device.kind))
}

fn several(what: &str, device: Device, one: Device) -> Error {
    Error::device(format!(
        "compile() makes code for one device, here `{one}`, and {what} is on `{device}`: move it before the call, or \
         call the function without `compile()`"
    ))
}

/// The arguments of the call.
pub(super) fn check_inputs(inputs: &[&Tensor]) -> Result<()> {
    match inputs.iter().enumerate().find(|(_, t)| !is_served(t.device())) {
        Some((i, t)) => Err(elsewhere(&format!("input {i} ({t:?})"), t.device())),
        None => Ok(()),
    }
}

/// The device that a captured function runs on. With a GPU, what is on the CPU may only be numbers, as
/// in eager calls. Numbers that the function leaves there are waited for.
pub(super) fn of(traced: &Traced) -> Result<Device> {
    let mut one = Device::CPU;
    let graph = &traced.graph;
    each_result(graph, &mut |what, meta| match meta.device {
        d if !is_served(d) => Err(elsewhere(&what(), d)),
        d if d.is_cpu() || one == d => Ok(()),
        d if one.is_cpu() => {
            one = d;
            Ok(())
        }
        d => Err(several(&what(), d, one)),
    })?;
    if one.is_cpu() {
        return Ok(one);
    }
    each_result(graph, &mut |what, meta| match meta.device.is_cpu() && !meta.sizes.is_empty() {
        true => Err(several(&what(), meta.device, one)),
        false => Ok(()),
    })?;
    Ok(one)
}

/// A description, and the type of a value.
type Seen<'a> = dyn FnMut(&dyn Fn() -> String, &TensorMeta) -> Result<()> + 'a;

/// Looks at each value of a graph, and of the graphs that its calls are given.
fn each_result(graph: &Graph, see: &mut Seen<'_>) -> Result<()> {
    for id in graph.topological() {
        let node = graph.node(id);
        let what = || match &node.kind {
            NodeKind::Call(call) => {
                let line = node
                    .provenance
                    .location
                    .as_ref()
                    .map_or(String::new(), |at| format!(" ({at})"));
                format!("the result of `{}`{line}", call.op)
            }
            NodeKind::Parameter => {
                let name = node.name.as_deref().unwrap_or("one");
                format!("a tensor that the function closes over (`{name}`)")
            }
            _ => format!("`{}`", node.name.as_deref().unwrap_or("an input")),
        };
        for meta in &node.results {
            see(&what, meta)?;
        }
        let NodeKind::Call(call) = &node.kind else { continue };
        for (_, body) in control::subgraphs(call.op, &call.args) {
            each_result(body, see)?;
        }
    }
    Ok(())
}
