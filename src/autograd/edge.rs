//! Places in the graph, which stand for tensors in a backward pass.

use super::error::AutogradError;
use super::grad_fn::GradFn;
use super::leaf;
use super::validate;
use super::view;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::tensor::node::{Edge, OutputMeta};

/// Where a tensor's gradient arrives: the node that the tensor came out of, and which of its
/// outputs the tensor was. It stands for the tensor in [`grad_with`](super::grad_with), keeps the
/// graph and not the tensor's elements, and goes on meaning the same value when the tensor is
/// written.
///
/// ```
/// use straightline::autograd::{GradOptions, get_gradient_edge, grad_with};
/// use straightline::tensor;
/// let x = tensor([1.0, 2.0])?.requires_grad_(true)?;
/// let y = x.neg()?;
/// let edge = get_gradient_edge(&y)?;
/// assert_eq!((edge.node.name(), edge.output_nr), ("NegBackward0", 0));
/// y.mul_(10)?;
/// // of the value before the write
/// let grads = grad_with(&[y.sum()?], &[edge], &GradOptions::default())?;
/// assert_eq!(grads[0].as_ref().unwrap().to_vec::<f32>()?, [10.0, 10.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct GradientEdge {
    /// The node; of a leaf, the one that accumulates its gradient.
    pub node: GradFn,
    /// Which of its outputs.
    pub output_nr: u32,
}

/// The edge that stands for a tensor.
///
/// # Errors
///
/// The tensor wants no gradient.
///
/// ```
/// use straightline::{autograd::get_gradient_edge, tensor};
/// let x = tensor([1.0])?.requires_grad_(true)?;
/// assert_eq!(get_gradient_edge(&x)?.node.name(), "torch::autograd::AccumulateGrad");
/// assert!(get_gradient_edge(&tensor([1.0])?).is_err());
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn get_gradient_edge(t: &Tensor) -> Result<GradientEdge> {
    match view::gradient_edge(t)? {
        Some(edge) => {
            Ok(GradientEdge { node: GradFn(leaf::node_of(&edge)), output_nr: edge.nr })
        }
        None => Err(AutogradError::Setting(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients".into(),
        )
        .into()),
    }
}

/// What gradients are computed of, and with respect to: tensors, or the edges that stand for them.
/// A list of both is one of these.
///
/// ```
/// use straightline::autograd::{GradOptions, GradTarget, get_gradient_edge, grad_with};
/// use straightline::tensor;
/// let x = tensor([1.0])?.requires_grad_(true)?;
/// let y = x.mul(2)?;
/// let inputs: [GradTarget; 2] = [(&x).into(), get_gradient_edge(&y)?.into()];
/// let grads = grad_with(&[y.mul(3)?.sum()?], &inputs, &GradOptions::default())?;
/// let grads: Vec<f32> = grads.iter().flatten().map(|g| g.item()).collect::<Result<_, _>>()?;
/// assert_eq!(grads, [6.0, 3.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug)]
pub enum GradTarget {
    /// A tensor.
    Tensor(Tensor),
    /// An edge.
    Edge(GradientEdge),
}

macro_rules! targets {
    ($($from:ty, |$value:ident| $target:expr;)*) => {$(
        impl From<$from> for GradTarget {
            fn from($value: $from) -> GradTarget {
                $target
            }
        }
    )*};
}

targets! {
    Tensor, |t| GradTarget::Tensor(t);
    &Tensor, |t| GradTarget::Tensor(t.clone());
    GradientEdge, |e| GradTarget::Edge(e);
    &GradientEdge, |e| GradTarget::Edge(e.clone());
    &GradTarget, |t| t.clone();
}

impl GradTarget {
    /// What it was like, unless that has no gradient.
    fn meta(&self) -> Option<OutputMeta> {
        match self {
            GradTarget::Tensor(t) => Some(OutputMeta::of(t)),
            GradTarget::Edge(e) => e.node.0.outputs.get(e.output_nr as usize)?.clone(),
        }
    }

    /// The sizes of its gradient.
    pub(super) fn sizes(&self) -> Vec<i64> {
        self.meta().map(|m| m.sizes.to_vec()).unwrap_or_default()
    }

    /// Zeros like it.
    pub(super) fn zeros(&self) -> Result<Tensor> {
        match self {
            GradTarget::Tensor(t) => aten::zeros_like(t, None, None, None, None, None),
            GradTarget::Edge(_) => {
                let meta = self.meta();
                let (dtype, device) = (meta.as_ref().map(|m| m.dtype), meta.map(|m| m.device));
                aten::zeros(&self.sizes(), dtype, None, device, None)
            }
        }
    }

    fn edge(e: &GradientEdge) -> Edge {
        Edge::new(e.node.0.clone(), e.output_nr)
    }

    /// The edge at which a wanted gradient arrives.
    pub(super) fn as_input(&self, index: usize) -> Result<Edge> {
        let found = match self {
            GradTarget::Tensor(t) => view::gradient_edge(t)?,
            GradTarget::Edge(e) => self.meta().map(|_| GradTarget::edge(e)),
        };
        found.ok_or_else(|| AutogradError::InputWithoutGrad { index }.into())
    }

    /// The edge at which a pass begins, and the gradient that it begins with.
    pub(super) fn as_root(
        &self,
        index: usize,
        grad: Option<&Tensor>,
    ) -> Result<(Edge, Option<Tensor>)> {
        match self {
            GradTarget::Tensor(t) => validate::root(index, t, grad),
            GradTarget::Edge(e) => {
                let Some(grad) = grad else {
                    return Err(AutogradError::EdgeWithoutGrad { index }.into());
                };
                let Some(meta) = self.meta() else {
                    return Err(AutogradError::NoHistory { index }.into());
                };
                Ok((GradTarget::edge(e), Some(validate::first_grad(index, &meta, grad)?)))
            }
        }
    }
}
