//! Operators from outside: custom ones with a formula of their own, and those that have none.
//!
//! An operator that has a kernel for a backend and none for autograd is computed all the same; its
//! node fails in the backward pass and names it. c10 only warns there and gives no gradient.

use super::anomaly;
use super::error::AutogradError;
use super::forward::Pushed;
use super::graph;
use super::saved::{SavedTensor, Slot, Slots};
use super::view;
use crate::dispatch::{
    AutogradFormula, BelowAutograd, DispatchKeySet, OpContext, OperatorHandle, Stack, Value,
    grad_enabled, line,
};
use crate::error::Result;
use crate::tensor::Tensor;
use crate::tensor::node::{Edge, Edges, Function, Node, next_sequence};
use std::sync::Arc;

/// The autograd kernel of such operators.
pub(crate) fn record(
    op: OperatorHandle,
    keys: DispatchKeySet,
    stack: &mut Stack,
    formula: Option<AutogradFormula>,
) -> Result<()> {
    let below = |stack: &mut Stack| {
        let _below = BelowAutograd::enter();
        op.redispatch_boxed(keys & DispatchKeySet::AFTER_AUTOGRAD, stack)
    };
    let count = op.arity()?;
    let base = stack.len().saturating_sub(count);
    let wants = |v: &Value| v.tensors().any(Tensor::requires_grad);
    let inputs: Vec<Value> = stack[base..].to_vec();
    let recording = grad_enabled() && inputs.iter().any(wants);
    let pushed = Pushed::of(&inputs)?;
    if !recording && pushed.is_none() {
        return below(stack);
    }
    let written: Vec<Tensor> = match op.schema() {
        Some(schema) => (schema.args.iter().zip(&inputs))
            .filter(|(a, _)| a.is_write())
            .flat_map(|(_, v)| v.tensors().cloned().collect::<Vec<_>>())
            .collect(),
        None => Vec::new(),
    };
    for t in written.iter().filter(|_| recording) {
        view::check_write(t)?;
    }
    // a formula gives one gradient for each argument; without one, each tensor is an operand
    let mut edges = Edges::new();
    for v in &inputs {
        match (v, &formula) {
            (Value::Tensor(t), _) => edges.push(view::gradient_edge(t)?),
            (_, Some(_)) => edges.push(None),
            (v, None) => {
                for t in v.tensors() {
                    edges.push(view::gradient_edge(t)?);
                }
            }
        }
    }
    below(stack)?;
    let outputs: Vec<Tensor> = stack[base..].iter().flat_map(Value::tensors).cloned().collect();
    let without = formula.is_none();
    if without && pushed.is_some() && outputs.iter().any(graph::is_differentiable) {
        let op = op.name().to_string();
        return Err(AutogradError::ForwardNotImplemented { op }.into());
    }
    let metas = graph::metas(outputs.iter());
    let name = op.op().map(|op| op.name());
    let mut slots = None;
    let node: Arc<Node> = match formula {
        Some(formula) => {
            let function = ByFormula::new(op, formula, &inputs, &stack[base..], &outputs)?;
            slots = Some(function.slots.clone());
            let node = Node::new(next_sequence(), edges, metas, name, line(), function);
            anomaly::noted(node)
        }
        None => {
            let function = NoFormula(op.name().to_string());
            let node = Node::new(next_sequence(), edges, metas, name, line(), function);
            anomaly::noted(node)
        }
    };
    let attach = |t: &Tensor| recording && graph::is_differentiable(t);
    for (nr, t) in outputs.iter().enumerate() {
        if !attach(t) {
            continue;
        }
        if written.iter().any(|w| w.same_handle(t)) {
            view::rebase_output(t, node.clone(), nr as u32)?;
        } else if !inputs.iter().flat_map(Value::tensors).any(|i| i.same_handle(t)) {
            graph::set_edge(t, Edge::new(node.clone(), nr as u32));
        }
    }
    for t in written.iter().filter(|w| !outputs.iter().any(|o| o.same_handle(w))) {
        if attach(t) {
            view::rebase_output(t, node.clone(), 0)?;
        }
    }
    if let Some(pushed) = pushed {
        pushed.through(&node, &outputs, &written)?;
        if let Some(slots) = slots {
            slots.keep_tangents(&outputs);
        }
    }
    Ok(())
}

/// An operator whose gradient nobody knows.
struct NoFormula(String);

impl Function for NoFormula {
    fn name(&self) -> &str {
        "NotImplemented"
    }

    fn apply(
        &self,
        node: &Arc<Node>,
        _grads: Vec<Option<Tensor>>,
        _wanted: &dyn Fn(usize) -> bool,
        _keep: bool,
    ) -> Result<Vec<Option<Tensor>>> {
        let made = Some(graph::made(node));
        Err(AutogradError::NoKernel { op: self.0.clone(), made }.into())
    }
}

struct ByFormula {
    name: String,
    formula: AutogradFormula,
    values: Vec<Value>,
    slots: Arc<Slots>,
}

impl ByFormula {
    fn new(
        op: OperatorHandle,
        formula: AutogradFormula,
        inputs: &[Value],
        results: &[Value],
        outputs: &[Tensor],
    ) -> Result<ByFormula> {
        let mut context = OpContext::default();
        {
            let _grad = super::mode::GradGuard::set(false);
            formula.set_up(&mut context, inputs, results)?;
        }
        let slot = |t: &Tensor| {
            let output = outputs.iter().position(|o| o.same_handle(t));
            match output.filter(|_| graph::is_differentiable(t)) {
                Some(nr) => SavedTensor::result(t, nr as u32).map(Slot::Checked),
                None if inputs.iter().flat_map(Value::tensors).any(|i| i.same_handle(t)) => {
                    SavedTensor::operand(t, false).map(Slot::Checked)
                }
                None => Ok(Slot::Constant(graph::cut(t))),
            }
        };
        let slots = context.saved.iter().map(slot).collect::<Result<Vec<_>>>()?;
        let of = op.name().to_string();
        let of = of.replace("::", "_").replace('.', "_");
        Ok(ByFormula {
            name: format!("GeneratedBackwardFor_{of}_defaultBackward"),
            formula,
            values: context.values,
            slots: Arc::new(Slots::new(slots)),
        })
    }
}

impl Function for ByFormula {
    fn name(&self) -> &str {
        &self.name
    }

    fn apply(
        &self,
        node: &Arc<Node>,
        grads: Vec<Option<Tensor>>,
        _wanted: &dyn Fn(usize) -> bool,
        _keep: bool,
    ) -> Result<Vec<Option<Tensor>>> {
        let saved = self.slots.unpack(node)?;
        let context = OpContext { saved, values: self.values.clone() };
        self.formula.gradients_of(&context, &grads, node.edges.len())
    }

    fn release(&self) {
        self.slots.release();
    }
}
