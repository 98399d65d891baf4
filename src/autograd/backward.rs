//! The functions that make a backward pass, and its options.

use super::engine;
use super::error::AutogradError;
use super::view;
use crate::error::Result;
use crate::tensor::Tensor;
use crate::tensor::node::Edge;

/// How a backward pass is made.
///
/// ```
/// use straightline::{autograd::BackwardOptions, tensor};
/// let x = tensor([2.0])?.requires_grad_(true)?;
/// let y = x.mul(&x)?.sum()?;
/// let again = BackwardOptions { retain_graph: Some(true), ..BackwardOptions::default() };
/// y.backward_with(None, &again)?;
/// y.backward()?;
/// assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [8.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct BackwardOptions {
    /// Whether what was saved is kept for another pass; as `create_graph` if not said.
    pub retain_graph: Option<bool>,
    /// Whether the pass is recorded itself, so that gradients can be differentiated.
    pub create_graph: bool,
    /// The tensors whose gradients are accumulated; all leaves if not said.
    pub inputs: Option<Vec<Tensor>>,
}

/// How gradients are computed by [`grad_with`].
///
/// ```
/// use straightline::{autograd::{GradOptions, grad_with}, tensor};
/// let x = tensor([3.0])?.requires_grad_(true)?;
/// let options = GradOptions { create_graph: true, ..GradOptions::default() };
/// let first = grad_with(&[x.mul(&x)?.mul(&x)?.sum()?], &[x.clone()], &options)?;
/// let second = grad_with(&[first[0].clone().unwrap()], &[x], &GradOptions::default())?;
/// assert_eq!(second[0].as_ref().unwrap().to_vec::<f32>()?, [18.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct GradOptions {
    /// The gradients of the outputs; ones of scalars if not said. An empty list says nothing.
    pub grad_outputs: Vec<Option<Tensor>>,
    /// As in [`BackwardOptions`].
    pub retain_graph: Option<bool>,
    /// As in [`BackwardOptions`].
    pub create_graph: bool,
    /// Whether inputs that the outputs do not depend on give `None` instead of an error.
    pub allow_unused: Option<bool>,
    /// Whether they give zeros.
    pub materialize_grads: bool,
}

/// The gradients of outputs, which are scalars, with respect to inputs. `.grad` of leaves stays as
/// it is.
///
/// # Errors
///
/// An output is no scalar or does not depend on any input that wants a gradient; an input wants
/// none or was not used; what was saved is gone or was written.
///
/// ```
/// use straightline::{autograd, tensor};
/// let x = tensor([1.0, 2.0])?.requires_grad_(true)?;
/// let y = x.mul(&x)?.sum()?;
/// let grads = autograd::grad(&[y], &[x])?;
/// assert_eq!(grads[0].to_vec::<f32>()?, [2.0, 4.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn grad(outputs: &[Tensor], inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let grads = grad_with(outputs, inputs, &GradOptions::default())?;
    let given = |(index, g): (usize, Option<Tensor>)| {
        g.ok_or_else(|| AutogradError::Unused { index }.into())
    };
    grads.into_iter().enumerate().map(given).collect()
}

/// [`grad`] with options.
///
/// # Errors
///
/// As [`grad`].
pub fn grad_with(
    outputs: &[Tensor],
    inputs: &[Tensor],
    options: &GradOptions,
) -> Result<Vec<Option<Tensor>>> {
    if inputs.is_empty() {
        return Err(AutogradError::NoInputs { what: "grad()" }.into());
    }
    if options.materialize_grads && options.allow_unused == Some(false) {
        return Err(AutogradError::Contradiction.into());
    }
    let allow_unused = options.allow_unused.unwrap_or(options.materialize_grads);
    let roots = engine::roots(outputs, &options.grad_outputs)?;
    let edges = edges_of(inputs)?;
    let task = engine::Task {
        roots,
        inputs: Some(&edges),
        accumulate: false,
        keep_graph: options.retain_graph.unwrap_or(options.create_graph),
        create_graph: options.create_graph,
        leaf_hooks: true,
    };
    let mut grads = engine::run(&task)?;
    for (index, (grad, input)) in grads.iter_mut().zip(inputs).enumerate() {
        if grad.is_none() {
            if !allow_unused {
                return Err(AutogradError::Unused { index }.into());
            }
            if options.materialize_grads {
                *grad = Some(crate::ops::aten::zeros_like(input, None, None, None, None, None)?);
            }
        }
    }
    Ok(grads)
}

fn edges_of(inputs: &[Tensor]) -> Result<Vec<Edge>> {
    let edge = |(index, t): (usize, &Tensor)| {
        view::gradient_edge(t)?.ok_or_else(|| AutogradError::InputWithoutGrad { index }.into())
    };
    inputs.iter().enumerate().map(edge).collect()
}

/// Adds the gradients of outputs to `.grad` of the leaves: [`Tensor::backward`] of several tensors
/// at once. `grads` are the gradients of the outputs, one each, or none at all.
///
/// # Errors
///
/// As [`grad`].
///
/// ```
/// use straightline::{autograd::{BackwardOptions, backward}, tensor};
/// let x = tensor([1.0])?.requires_grad_(true)?;
/// backward(&[x.mul(2)?, x.mul(3)?], &[], &BackwardOptions::default())?;
/// assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [5.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn backward(
    outputs: &[Tensor],
    grads: &[Option<Tensor>],
    options: &BackwardOptions,
) -> Result<()> {
    if outputs.is_empty() {
        return Ok(());
    }
    let edges = match &options.inputs {
        Some(inputs) if inputs.is_empty() => {
            return Err(AutogradError::NoInputs { what: "backward()" }.into());
        }
        Some(inputs) => {
            for t in inputs {
                if !t.is_leaf() {
                    t.retain_grad()?;
                }
            }
            Some(edges_of(inputs)?)
        }
        None => None,
    };
    let task = engine::Task {
        roots: engine::roots(outputs, grads)?,
        inputs: edges.as_deref(),
        accumulate: true,
        keep_graph: options.retain_graph.unwrap_or(options.create_graph),
        create_graph: options.create_graph,
        leaf_hooks: true,
    };
    engine::run(&task).map(drop)
}
