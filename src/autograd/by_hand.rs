//! Operators whose gradients are no formulas.

use super::error::AutogradError;
use super::forward;
use super::graph;
use super::leaf;
use super::view;
use crate::dispatch::{
    BelowAutograd, DispatchKeySet, Kernel, OperatorHandle, Stack, Value, grad_enabled, line,
};
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::tensor::node::{Edges, Function, Node, OutputMeta, next_sequence};
use smallvec::smallvec;
use std::sync::Arc;
use straightline_catalog::{DType, Device, Op};

/// The kernels, by operator.
pub(super) fn kernels() -> Vec<(Op, Kernel)> {
    let mut all = vec![
        (Op::copy_, Kernel::boxed(copy_)),
        (Op::detach, Kernel::boxed(below)),
        (Op::detach_, Kernel::boxed(detach_)),
    ];
    for op in [Op::resize_, Op::resize_as_] {
        all.push((op, Kernel::boxed(resize)));
    }
    all.push((Op::set__source_Tensor, Kernel::boxed(set_)));
    all
}

/// The call below the autograd keys.
fn below(op: OperatorHandle, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
    let _below = BelowAutograd::enter();
    op.redispatch_boxed(keys & DispatchKeySet::AFTER_AUTOGRAD, stack)
}

/// An argument of the call on the stack.
fn tensor(op: OperatorHandle, stack: &Stack, at: usize) -> Result<Tensor> {
    let base = stack.len().saturating_sub(op.arity()?);
    match stack.get(base + at) {
        Some(Value::Tensor(t)) => Ok(t.clone()),
        _ => Err(crate::Error::runtime(format!("`{}` needs a tensor", op.name()))),
    }
}

/// The gradient of a copy: that of the source is what arrives, the old values get none.
struct CopyBackwards {
    dtype: DType,
    device: Device,
}

impl Function for CopyBackwards {
    fn name(&self) -> &str {
        "torch::autograd::CopyBackwards"
    }

    fn apply(
        &self,
        _node: &Arc<Node>,
        mut grads: Vec<Option<Tensor>>,
        wanted: &dyn Fn(usize) -> bool,
        _keep: bool,
    ) -> Result<Vec<Option<Tensor>>> {
        let Some(grad) = grads.pop().flatten() else { return Ok(vec![None, None]) };
        let old = match wanted(0) {
            true => Some(aten::zeros_like(&grad, None, None, None, None, None)?),
            false => None,
        };
        let source = match wanted(1) {
            true => {
                let real = grad.dtype().is_complex() && !self.dtype.is_complex();
                let grad = if real { aten::real(&grad)? } else { grad };
                let (dtype, device) = (Some(self.dtype), Some(self.device));
                match grad.dtype() == self.dtype && grad.device() == self.device {
                    true => Some(grad),
                    false => Some(aten::_to_copy(&grad, dtype, None, device, None, false, None)?),
                }
            }
            false => None,
        };
        Ok(vec![old, source])
    }
}

fn copy_(op: OperatorHandle, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
    let (to, from) = (tensor(op, stack, 0)?, tensor(op, stack, 1)?);
    let records = grad_enabled()
        && graph::is_differentiable(&to)
        && (to.requires_grad() || (from.requires_grad() && graph::is_differentiable(&from)));
    let pushed = forward::copied(&to, &from)?;
    if !records {
        below(op, keys, stack)?;
        return forward::write_copied(&to, pushed);
    }
    view::check_write(&to)?;
    let edges: Edges = smallvec![view::gradient_edge(&to)?, view::gradient_edge(&from)?];
    below(op, keys, stack)?;
    let function = CopyBackwards { dtype: from.dtype(), device: from.device() };
    let outputs = smallvec![Some(OutputMeta::of(&to))];
    let name = op.op().map(Op::name);
    let node = Node::new(next_sequence(), edges, outputs, name, line(), function);
    view::rebase(&to, super::anomaly::noted(node))?;
    forward::write_copied(&to, pushed)
}

/// Cuts a tensor from its history.
fn detach_(op: OperatorHandle, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
    let t = tensor(op, stack, 0)?;
    if t.base().is_some() {
        return Err(AutogradError::View(
            "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for training, and \
             gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence detach_() cannot be called on \
             these gradients. To fix this error, please refer to the Optimizer.zero_grad() function in torch/optim/optimizer.py as \
             a solution."
                .into(),
        )
        .into());
    }
    let before = t.put_grad_fn(None);
    t.mark_requires_grad(false);
    t.drop_tangent();
    drop(before);
    below(op, keys, stack)
}

fn resize(op: OperatorHandle, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
    let t = tensor(op, stack, 0)?;
    if t.requires_grad() {
        return Err(
            AutogradError::Setting("cannot resize variables that require grad".into()).into()
        );
    }
    if forward::tangent_of(&t)?.is_some() {
        let what = "cannot resize variables that has a forward grad";
        return Err(AutogradError::Setting(what.into()).into());
    }
    below(op, keys, stack)
}

fn set_(op: OperatorHandle, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
    let t = tensor(op, stack, 0)?;
    if grad_enabled() && t.requires_grad() {
        view::check_write(&t)?;
    }
    below(op, keys, stack)?;
    leaf::forget_accumulator(&t);
    Ok(())
}
