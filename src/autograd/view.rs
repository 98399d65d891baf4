//! Where a tensor's gradient goes; gradients of views and of writes through them.
//!
//! A view's node follows from its base: when the memory has been written since the view was made,
//! the view's values are those of the base as it is now, so its node is the view's operator on
//! that. A write through a view makes the base come out of [`CopySlices`], which gives the
//! gradient of the written part to the operator that wrote, and the rest to what the base was.

use super::error::AutogradError;
use super::graph;
use super::leaf;
use crate::dispatch::grad_enabled;
use crate::error::Result;
use crate::modes::outside;
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::tensor::history::{Creation, Kind};
use crate::tensor::node::{Edge, Edges, Function, Node, OutputMeta, next_sequence};
use smallvec::smallvec;
use std::sync::{Arc, Mutex, PoisonError};
use straightline_catalog::{DType, Dims, MemoryFormat};

/// One step from a base to a view.
#[derive(Clone)]
struct Step {
    kind: Kind,
    sizes: Dims,
    strides: Dims,
    /// From the beginning of what it is a view of.
    offset: i64,
    dtype: DType,
}

impl Step {
    fn of(view: &Tensor) -> Step {
        let base_offset = view.base().map_or(0, |b| match view.view_kind() {
            Kind::Strided => b.offset(),
            _ => 0,
        });
        Step {
            kind: view.view_kind(),
            sizes: Dims::from_slice(view.sizes()),
            strides: Dims::from_slice(view.strides()),
            offset: view.offset() - base_offset,
            dtype: view.dtype(),
        }
    }

    /// The view of another base. Records, as far as that is on.
    fn take(&self, base: &Tensor) -> Result<Tensor> {
        match self.kind {
            Kind::Strided => {
                let offset = base.offset() + self.offset;
                aten::as_strided(base, &self.sizes, &self.strides, Some(offset))
            }
            Kind::Real => aten::view_as_real(base),
            Kind::Complex => aten::view_as_complex(base),
            Kind::Conj => aten::_conj(base),
            Kind::Neg => aten::_neg_view(base),
            Kind::DType => aten::view_dtype(base, self.dtype),
        }
    }
}

/// The view of a tensor that is laid out as the base of `view`, as that is one of its base. Records,
/// as far as that is on.
pub(crate) fn taken(view: &Tensor, base: &Tensor) -> Result<Tensor> {
    Step::of(view).take(base)
}

/// The tensor at the end of the chain of bases, and the steps from it.
fn path(view: &Tensor) -> (Tensor, Vec<Step>) {
    let (mut at, mut steps) = (view, Vec::new());
    while let Some(base) = at.base() {
        steps.push(Step::of(at));
        at = base;
    }
    steps.reverse();
    (at.clone(), steps)
}

/// The same view of another tensor, which is laid out as the end of the view's chain of bases.
pub(crate) fn taken_again(view: &Tensor, base: &Tensor) -> Result<Tensor> {
    path(view).1.iter().try_fold(base.clone(), |at, step| step.take(&at))
}

/// Why a function is not compiled that uses such a tensor.
const COMPUTED: &str = "it closes over a tensor that was computed from others which want gradients: pass it as an argument";

/// Where the gradient of a tensor goes; nowhere if it wants none.
#[inline]
pub(crate) fn gradient_edge(t: &Tensor) -> Result<Option<Edge>> {
    if !t.requires_grad() {
        return Ok(None);
    }
    match grad_fn(t)? {
        Some(edge) => {
            outside::check_history(t, COMPUTED)?;
            Ok(Some(edge))
        }
        None => Ok(Some(Edge::leaf(t.clone()))),
    }
}

/// The node that a tensor came out of; of a view made anew where its memory was written since.
pub(crate) fn grad_fn(t: &Tensor) -> Result<Option<Edge>> {
    let Some(base) = t.base() else { return Ok(t.own_grad_fn()) };
    let version = t.writes();
    if t.view_version() == version || !base.requires_grad() {
        return Ok(t.own_grad_fn());
    }
    if t.creation() != Creation::Default {
        return Err(refused(t, true));
    }
    let edge = {
        let _grad = super::mode::GradGuard::set(true);
        let _above = crate::dispatch::AboveAutograd::enter();
        let again = Step::of(t).take(base)?;
        again.own_grad_fn()
    };
    match edge {
        Some(edge) => {
            graph::set_edge(t, edge.clone());
            t.set_view_version(version);
            Ok(Some(edge))
        }
        None => Ok(None),
    }
}

/// Whether an operator that records may write a tensor.
pub(crate) fn check_write(t: &Tensor) -> Result<()> {
    check_write_by(t, false)
}

pub(crate) fn check_write_by(t: &Tensor, dirty: bool) -> Result<()> {
    if !grad_enabled() {
        return Ok(());
    }
    if t.base().is_some() && t.creation() != Creation::Default {
        return Err(refused(t, false));
    }
    if outside::stands_for_computed(t.base().unwrap_or(t)) {
        return Err(outside::leave_eager(
            "it writes an argument that was computed from others which want gradients",
        ));
    }
    if let Some(base) = t.base()
        && t.requires_grad()
        && base.is_leaf()
        && base.requires_grad()
    {
        return Err(AutogradError::Leaf { view: true, dirty }.into());
    }
    if t.requires_grad() && t.is_leaf() && !t.base().is_some_and(Tensor::requires_grad) {
        return Err(AutogradError::Leaf { view: false, dirty }.into());
    }
    Ok(())
}

/// The error of writing a view that must not be written.
#[cold]
fn refused(t: &Tensor, indirect: bool) -> crate::Error {
    let how = match indirect {
        true => "and its base or another view of its base has been modified inplace",
        false => "and is being modified inplace",
    };
    let edge = t.own_grad_fn();
    let header = match (edge, t.creation()) {
        (Some(e), _) => format!("Output {} of {} is a view {how}.", e.nr, graph::forward_name(&leaf::node_of(&e))),
        (None, Creation::Inference) => format!(
            "A view was created in inference mode {}.",
            how.replace("inplace", "inplace in normal mode")
        ),
        (None, _) => "A view was created in no_grad mode and is being modified inplace with grad mode enabled."
            .to_string(),
    };
    let both = |mode: &str| {
        format!(
            " Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both \
             the view and the inplace either both inside the {mode} block (if you don't want the inplace to be tracked) or both \
             outside (if you want the inplace to be tracked)."
        )
    };
    let body = match t.creation() {
        Creation::NoGrad => both("no_grad"),
        Creation::Inference => both("inference_mode"),
        Creation::Function => {
            " This view was created inside a custom Function (or because an input was returned as-is) and the autograd logic to \
             handle view+inplace would override the custom backward associated with the custom Function, leading to incorrect \
             gradients. This behavior is forbidden. You can fix this by cloning the output of the custom Function."
                .to_string()
        }
        Creation::Several | Creation::Default => {
            " This view is the output of a function that returns multiple views. Such functions do not allow the output views \
             to be modified inplace. You should replace the inplace operation by an out-of-place one."
                .to_string()
        }
    };
    AutogradError::View(header + &body).into()
}

/// Why a function is not compiled that does so to a tensor that it was given.
const WRITTEN: &str = "it writes values that want gradients into a tensor from outside";

/// A tensor has been written by a call that recorded `node`, whose first edge leads to what the
/// tensor was.
pub(crate) fn rebase(t: &Tensor, node: Arc<Node>) -> Result<()> {
    rebase_output(t, node, 0)
}

/// The same of output `nr` of the node; of a view only where that is the only one.
pub(crate) fn rebase_output(t: &Tensor, node: Arc<Node>, nr: u32) -> Result<()> {
    let before = t.own_grad_fn();
    outside::check_history(t.base().unwrap_or(t), WRITTEN)?;
    if t.base().is_none() {
        graph::set_edge(t, Edge::new(node, nr));
        retain_again(t, before);
        return Ok(());
    }
    let (base, steps) = path(t);
    let base_before = base.own_grad_fn();
    let mut edges: Edges = smallvec![gradient_edge(&base)?];
    edges.extend(node.edges.iter().skip(1).cloned());
    let (op, line) = (node.op, node.line);
    let function = CopySlices {
        base: OutputMeta::of(&base),
        base_strides: Dims::from_slice(base.strides()),
        steps,
        function: Mutex::new(Some(node)),
    };
    let outputs = smallvec![Some(OutputMeta::of(&base))];
    let copy: Arc<Node> = Arc::new(Node::new(next_sequence(), edges, outputs, op, line, function));
    graph::set_edge(&base, Edge::new(copy, 0));
    retain_again(&base, base_before);
    // the view's node follows from the base when it is asked for
    t.mark_requires_grad(true);
    let version = t.writes();
    t.set_view_version(version.wrapping_sub(1));
    grad_fn(t)?;
    retain_again(t, before);
    Ok(())
}

/// A tensor that keeps its gradient keeps that of its new value from now on.
fn retain_again(t: &Tensor, before: Option<Edge>) {
    let (retains, cell, edge) = {
        let mut state = t.history();
        let edge = state.grad_fn().cloned();
        let Some(rest) = &mut state.rest else { return };
        (rest.retains, rest.grad.clone(), edge)
    };
    if let (true, Some(edge)) = (retains, edge) {
        let before = before.map(|before| leaf::node_of(&before));
        if let Some(mut hooks) = before.as_ref().and_then(|before| before.hooks()) {
            hooks.retained.retain(|(_, kept)| !Arc::ptr_eq(kept, &cell));
        }
        leaf::node_of(&edge).hooks_mut().retained.push((edge.nr, cell));
    }
}

/// The gradient of a base that was written through a view.
struct CopySlices {
    base: OutputMeta,
    base_strides: Dims,
    steps: Vec<Step>,
    /// What was computed and written.
    function: Mutex<Option<Arc<Node>>>,
}

impl CopySlices {
    /// A copy of a gradient, in memory of the kind of `like`, that is laid out as the base, so that
    /// the steps mean the same in it; and the part of it that was written.
    fn laid_out(&self, grad: &Tensor, like: &Tensor) -> Result<(Tensor, Tensor)> {
        let (sizes, dtype) = (&self.base.sizes, Some(grad.dtype()));
        // gaps do no harm: a sample of a batch may have some
        let mut dims = sizes.iter().zip(&self.base_strides);
        let fresh = match dims.all(|(size, stride)| *size < 2 || *stride != 0) {
            true => {
                aten::new_empty_strided(like, sizes, &self.base_strides, dtype, None, None, None)?
            }
            false => aten::new_empty(like, sizes, dtype, None, None, None)?,
        };
        let result = aten::copy_(&fresh, grad, false)?;
        let mut slice = result.clone();
        for step in &self.steps {
            slice = step.take(&slice)?;
        }
        Ok((result, slice))
    }

    fn function(&self) -> Option<Arc<Node>> {
        self.function.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Function for CopySlices {
    fn name(&self) -> &str {
        "torch::autograd::CopySlices"
    }

    fn apply(
        &self,
        node: &Arc<Node>,
        grads: Vec<Option<Tensor>>,
        wanted: &dyn Fn(usize) -> bool,
        keep: bool,
    ) -> Result<Vec<Option<Tensor>>> {
        let none = || std::iter::repeat_with(|| None).take(node.edges.len()).collect();
        let Some(grad) = grads.into_iter().next().flatten() else { return Ok(none()) };
        let Some(function) = self.function() else { return Err(graph::twice(node)) };
        let (mut result, mut slice) = self.laid_out(&grad, &grad)?;
        let inner = aten::clone(&slice, Some(MemoryFormat::Contiguous))?;
        let wanted_inside = |i: usize| i == 0 || wanted(i);
        let mut given =
            function.function.apply(&function, vec![Some(inner)], &wanted_inside, keep)?;
        let first = if given.is_empty() { None } else { given[0].take() };
        match first {
            Some(g) => match aten::copy_(&slice, &g, false) {
                Ok(_) => {}
                // a gradient that is batched although what arrived is not
                Err(_) => {
                    (result, slice) = self.laid_out(&grad, &g)?;
                    aten::copy_(&slice, &g, false)?;
                }
            },
            None => drop(aten::zero_(&slice)?),
        }
        let rest = given.into_iter().skip(1);
        Ok(std::iter::once(Some(result)).chain(rest).collect())
    }

    fn release(&self) {
        let gone = self.function.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(gone);
    }
}
