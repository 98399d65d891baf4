//! Compiled code runs on the CPU: tensors on other devices are refused by name before code is
//! generated.

use super::traced::Traced;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use straightline_catalog::Device;
use straightline_passes::ir::control;
use straightline_passes::ir::graph::{Graph, NodeKind};

fn elsewhere(what: &str, device: Device) -> Error {
    Error::device(format!(
        "compile() makes code for the CPU, and {what} is on `{device}`: move it with `to_device(Device::CPU)`, or call \
         the function without `compile()`"
    ))
}

/// The arguments of the call.
pub(super) fn check_inputs(inputs: &[&Tensor]) -> Result<()> {
    match inputs.iter().enumerate().find(|(_, t)| !t.device().is_cpu()) {
        Some((i, t)) => Err(elsewhere(&format!("input {i} ({t:?})"), t.device())),
        None => Ok(()),
    }
}

/// What the function closes over and what it makes.
pub(super) fn check_captured(traced: &Traced) -> Result<()> {
    if let Some(t) = traced.parameters.iter().find(|t| !t.device().is_cpu()) {
        let what = format!("a tensor that the function closes over ({t:?})");
        return Err(elsewhere(&what, t.device()));
    }
    check_graph(&traced.graph)
}

/// What a graph makes, and the graphs that its calls are given.
fn check_graph(graph: &Graph) -> Result<()> {
    for id in graph.topological() {
        let node = graph.node(id);
        let NodeKind::Call(call) = &node.kind else { continue };
        if let Some(device) = node.results.iter().map(|m| m.device).find(|d| !d.is_cpu()) {
            return Err(elsewhere(&format!("the result of `{}`", call.op), device));
        }
        for (_, body) in control::subgraphs(call.op, &call.args) {
            check_graph(body)?;
        }
    }
    Ok(())
}
