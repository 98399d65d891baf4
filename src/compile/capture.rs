//! Capture: the function runs once on stand-ins, and the tracer records what is dispatched.

use super::flat;
use super::stages::{Mutation, OutputSource, Traced};
use super::tree::TensorTree;
use crate::dispatch::{DispatchKey, DispatchKeySet, IncludeGuard, TlsKeySets, operator};
use crate::error::{Error, Result};
use crate::modes::{functionalize, tracer};
use crate::tensor::Tensor;
use straightline_passes::ir::MemoryFormat;
use straightline_passes::ir::graph::{Graph, NodeKind, ValueRef};
use straightline_passes::ir::schema::FunctionSchema;

/// What capture gives: the graph with its surroundings, and the structure of the result.
pub(super) struct Captured<O> {
    pub(super) traced: Traced,
    /// The function's result; its tensors are stand-ins to be replaced.
    pub(super) output: O,
    pub(super) tls: TlsKeySets,
}

/// Ends the capture however the function ends, by a panic too.
struct Scope;

impl Drop for Scope {
    fn drop(&mut self) {
        tracer::stop();
        functionalize::take_leaves();
    }
}

/// Captures `f` for inputs of these shapes.
pub(super) fn capture<I: TensorTree, O: TensorTree>(
    f: &dyn Fn(&I) -> Result<O>,
    inputs: &I,
) -> Result<Captured<O>> {
    let tls = TlsKeySets::current();
    tracer::start()?;
    let scope = Scope;
    let mut failed = None;
    let stand_ins = flat::map(inputs, &mut |t| {
        functionalize::wrap_leaf(t, true).unwrap_or_else(|e| {
            failed.get_or_insert(e);
            t.clone()
        })
    });
    if let Some(e) = failed {
        return Err(e);
    }
    let output = {
        let _on = IncludeGuard::new(DispatchKeySet::of(&[
            DispatchKey::Functionalize,
            DispatchKey::Tracer,
        ]));
        f(&stand_ins)?
    };
    let mut given = Vec::new();
    flat::visit(&stand_ins, &mut |t| given.push(t.clone()));
    let traced = finish(&given, &output, inputs)?;
    drop(scope);
    Ok(Captured {
        traced,
        output,
        tls,
    })
}

/// Sets the graph's outputs: results of the function, then new values of written leaves.
fn finish<I: TensorTree, O: TensorTree>(
    stand_ins: &[Tensor],
    output: &O,
    inputs: &I,
) -> Result<Traced> {
    let _on = IncludeGuard::new(DispatchKeySet::of(&[
        DispatchKey::Functionalize,
        DispatchKey::Tracer,
    ]));
    let mut results = Vec::new();
    flat::visit(output, &mut |t| results.push(t.clone()));
    let mut values: Vec<ValueRef> = Vec::new();
    let mut outputs = Vec::new();
    for t in &results {
        outputs.push(match identity(stand_ins, t) {
            Some(source) => source,
            None => {
                values.push(functional_value(t)?);
                OutputSource::Value(values.len() - 1)
            }
        });
    }
    let leaves = functionalize::leaves();
    let mut mutations = Vec::new();
    let (mut input_at, mut parameter_at) = (0, 0);
    let mut parameters = Vec::new();
    for leaf in &leaves {
        let at = if leaf.input {
            input_at += 1;
            input_at - 1
        } else {
            parameters.push(leaf.real.clone());
            parameter_at += 1;
            parameter_at - 1
        };
        if functionalize::is_written(&leaf.wrapper) && !leaf.made_inside {
            values.push(functional_value(&leaf.wrapper)?);
            mutations.push(Mutation {
                input: leaf.input,
                index: at,
                output: values.len() - 1,
            });
        }
    }
    check_aliases(&leaves)?;
    let mut recording = tracer::stop()
        .ok_or_else(|| Error::compile("the function being captured ended its own capture"))?;
    recording.graph.set_outputs(&values);
    let roots = values.iter().map(|v| root(&recording.graph, *v)).collect();
    recording.graph.eliminate_dead_code();
    let mut shapes = Vec::new();
    flat::visit(inputs, &mut |t| shapes.push(t.meta()));
    Ok(Traced {
        graph: recording.graph,
        inputs: shapes,
        parameters,
        outputs,
        mutations,
        roots,
    })
}

/// A result that is an argument or a closed-over tensor itself, handed through.
fn identity(stand_ins: &[Tensor], t: &Tensor) -> Option<OutputSource> {
    if let Some(i) = stand_ins.iter().position(|s| s.is_same(t)) {
        return Some(OutputSource::Input(i));
    }
    match functionalize::find_leaf(t) {
        Some(leaf) if leaf.made_inside => None,
        Some(leaf) => Some(OutputSource::Tensor(leaf.real)),
        None if functionalize::is_wrapper(t) => None,
        None if t.made_during_capture().is_some() => None,
        None => Some(OutputSource::Tensor(t.clone())),
    }
}

/// The graph value of a result; a copy where the result is a leaf that must not be handed out.
fn functional_value(t: &Tensor) -> Result<ValueRef> {
    let inner = functionalize::unwrap(t)?;
    let value = tracer::value_of(&inner)?;
    let is_leaf = tracer::with_recording(|r| {
        Ok(matches!(
            r.graph.node(value.node).kind,
            NodeKind::Parameter | NodeKind::Input
        ))
    })?;
    if !is_leaf {
        return Ok(value);
    }
    let _below = crate::dispatch::ExcludeGuard::new(DispatchKey::Functionalize);
    tracer::value_of(&crate::ops::aten::clone(
        &inner,
        Some(MemoryFormat::Preserve),
    )?)
}

/// Two leaves in one memory, one of them written: the functional program cannot tell.
fn check_aliases(leaves: &[functionalize::Leaf]) -> Result<()> {
    for (i, a) in leaves.iter().enumerate() {
        if a.made_inside || !functionalize::is_written(&a.wrapper) {
            continue;
        }
        let other = leaves
            .iter()
            .enumerate()
            .find(|(j, b)| *j != i && a.real.shares_storage_with(&b.real));
        if let Some((j, _)) = other {
            return Err(Error::compile(format!(
                "the function writes a tensor ({:?}) whose memory is also reached through another \
                 argument or closed-over tensor ({:?}): pass one of them only, and take views of it \
                 inside the function",
                a.real, leaves[j].real
            )));
        }
    }
    Ok(())
}

/// The value whose memory a value shares: views lead back to what they view.
fn root(graph: &Graph, mut v: ValueRef) -> ValueRef {
    loop {
        let NodeKind::Call(call) = &graph.node(v.node).kind else {
            return v;
        };
        if !is_view(&call.op) {
            return v;
        }
        match graph.operands(v.node).first() {
            Some(of) => v = *of,
            None => return v,
        }
    }
}

/// Whether the operator's result is a view, as its schema says. `_unsafe_view` promises none, since
/// its operand is not used again, and is one all the same.
fn is_view(op: &str) -> bool {
    op == "aten::_unsafe_view"
        || operator(op).is_ok_and(|op| op.schema().is_some_and(FunctionSchema::is_view))
}
