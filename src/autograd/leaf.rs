//! Leaves: tensors that were not computed, whose gradients are kept.

use super::error::AutogradError;
use crate::dispatch::grad_enabled;
use crate::error::Result;
use crate::modes::outside;
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::tensor::node::{AT_ONCE, Edge, Edges, End, Function, Node, OutputMeta};
use smallvec::smallvec;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use straightline_catalog::{MemoryFormat, Scalar, layout};

/// Adds gradients to that of a leaf.
struct AccumulateGrad {
    leaf: Tensor,
    /// Several threads may arrive at once.
    one_at_a_time: Mutex<()>,
}

/// The node of a leaf, made on demand; the graph holds it, and the leaf only knows it.
fn accumulator(t: &Tensor) -> Arc<Node> {
    let mut state = t.history();
    let rest = state.rest();
    if let Some(node) = rest.accumulator.as_ref().and_then(Weak::upgrade) {
        return node;
    }
    let function = AccumulateGrad { leaf: t.clone(), one_at_a_time: Mutex::new(()) };
    let outputs = smallvec![Some(OutputMeta::of(t))];
    let node: Arc<Node> = Arc::new(Node::new(AT_ONCE, Edges::new(), outputs, None, None, function));
    rest.accumulator = Some(Arc::downgrade(&node));
    node
}

/// The node that an edge leads to.
pub(crate) fn node_of(edge: &Edge) -> Arc<Node> {
    match &edge.end {
        End::Node(node) => node.clone(),
        End::Leaf(t) => accumulator(t),
    }
}

/// Forgets the node, because the tensor is another one now.
pub(crate) fn forget_accumulator(t: &Tensor) {
    if let Some(rest) = &mut t.history().rest {
        rest.accumulator = None;
    }
}

/// Whether a gradient is laid out as its leaf's are.
fn fits_layout(leaf: &Tensor, grad: &Tensor) -> bool {
    match layout::is_non_overlapping_and_dense(leaf.sizes(), leaf.strides()) {
        true => grad.strides() == leaf.strides(),
        false => grad.is_contiguous(),
    }
}

/// A copy of a gradient in its leaf's layout.
fn laid_out(leaf: &Tensor, grad: &Tensor) -> Result<Tensor> {
    if layout::is_non_overlapping_and_dense(leaf.sizes(), leaf.strides())
        && grad.sizes() == leaf.sizes()
    {
        let strides = leaf.strides();
        let copy = aten::new_empty_strided(grad, grad.sizes(), strides, None, None, None, None)?;
        return aten::copy_(&copy, grad, false);
    }
    aten::clone(grad, Some(MemoryFormat::Contiguous))
}

impl Function for AccumulateGrad {
    fn name(&self) -> &str {
        "torch::autograd::AccumulateGrad"
    }

    fn apply(
        &self,
        _node: &Arc<Node>,
        mut grads: Vec<Option<Tensor>>,
        _wanted: &dyn Fn(usize) -> bool,
        _keep: bool,
    ) -> Result<Vec<Option<Tensor>>> {
        let _one = self.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
        let leaf = &self.leaf;
        if outside::stands_for_computed(leaf) {
            return Err(outside::leave_eager(
                "a backward pass inside goes on through an argument that was computed from others",
            ));
        }
        let after = leaf.history().rest().after.clone();
        if let Some(new) = grads.pop().flatten() {
            let recording = grad_enabled();
            match grad(leaf) {
                None if recording => set_grad(leaf, Some(laid_out(leaf, &new)?)),
                None => {
                    let stolen = new.has_memory_alone() && fits_layout(leaf, &new);
                    let kept = if stolen { super::graph::cut(&new) } else { laid_out(leaf, &new)? };
                    set_grad(leaf, Some(kept));
                }
                Some(old) if recording || !can_add_in_place(&old, &new) => {
                    set_grad(leaf, Some(aten::add_tensor(&old, &new, Scalar::Int(1))?));
                }
                Some(old) => {
                    aten::add_tensor_(&old, &new, Scalar::Int(1))?;
                }
            }
        }
        for (_, hook) in after {
            hook(leaf)?;
        }
        Ok(Vec::new())
    }

    fn leaf(&self) -> Option<&Tensor> {
        Some(&self.leaf)
    }
}

/// Tensors without plain memory are added out of place.
fn can_add_in_place(old: &Tensor, new: &Tensor) -> bool {
    old.layout() == new.layout() && old.sizes() == new.sizes() && !old.is_zerotensor()
}

/// The gradient that has been accumulated.
pub(crate) fn grad(t: &Tensor) -> Option<Tensor> {
    outside::touches_grad(t, false);
    let cell = t.history().rest.as_ref()?.grad.clone();
    let grad = cell.lock().unwrap_or_else(PoisonError::into_inner);
    grad.clone()
}

pub(crate) fn set_grad(t: &Tensor, grad: Option<Tensor>) {
    outside::touches_grad(t, true);
    outside::put_grad(t, grad);
}

/// The checks of assigning a gradient.
pub(crate) fn assign_grad(t: &Tensor, grad: Option<&Tensor>) -> Result<()> {
    if let Some(g) = grad {
        let refuse = |what: String| Err(AutogradError::Setting(what).into());
        if g.same_handle(t) {
            return refuse("can't assign Variable as its own grad".into());
        }
        if g.sizes() != t.sizes() {
            return refuse(format!(
                "attempting to assign a gradient of size '{:?}' to a tensor of size '{:?}'. Please ensure that the gradient \
                 and the tensor are the same size",
                g.sizes(),
                t.sizes()
            ));
        }
        if g.dtype() != t.dtype() {
            return refuse(format!(
                "attempting to assign a gradient with dtype '{}' to a tensor with grad_dtype '{}'. The gradient must match \
                 the tensor's grad_dtype (defaults to the tensor's dtype)",
                g.dtype(),
                t.dtype()
            ));
        }
        if g.device() != t.device() {
            return refuse(format!(
                "attempting to assign a gradient with device type '{}' to a tensor with device type '{}'. Please ensure \
                 that the gradient and the tensor are on the same device",
                g.device(),
                t.device()
            ));
        }
    }
    set_grad(t, grad.cloned());
    Ok(())
}
