//! The functions that make a backward pass, and its options.

use super::batches::{self, PassOf};
use super::edge::GradTarget;
use super::engine;
use super::error::AutogradError;
use super::validate;
use super::view;
use crate::dispatch::{DispatchKey, TlsKeySets};
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
    /// Whether each of `grad_outputs` has a first dimension that counts gradients: all of them are
    /// computed at once, as by [`vmap`](crate::func::vmap), and the results have that dimension.
    ///
    /// ```
    /// use straightline::{autograd::{GradOptions, grad_with}, eye, tensor};
    /// let x = tensor([1.0, 2.0])?.requires_grad_(true)?;
    /// let options = GradOptions {
    ///     grad_outputs: vec![Some(eye(2)?)],
    ///     is_grads_batched: true,
    ///     ..GradOptions::default()
    /// };
    /// let jacobian = grad_with(&[x.mul(&x)?], &[x], &options)?.remove(0).unwrap();
    /// assert_eq!(jacobian.to_vec2::<f32>()?, [[2.0, 0.0], [0.0, 4.0]]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub is_grads_batched: bool,
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
    let grads = grad_with::<Tensor, Tensor>(outputs, inputs, &GradOptions::default())?;
    let given = |(index, g): (usize, Option<Tensor>)| {
        g.ok_or_else(|| AutogradError::Unused { index }.into())
    };
    grads.into_iter().enumerate().map(given).collect()
}

/// [`grad`] with options. Outputs and inputs may be tensors or [`GradientEdge`](super::GradientEdge)s;
/// an output that is an edge needs a gradient to begin with.
///
/// # Errors
///
/// As [`grad`].
///
/// ```
/// use straightline::{autograd::{GradOptions, grad_with}, tensor};
/// let x = tensor([1.0, 2.0])?.requires_grad_(true)?;
/// let other = tensor([1.0])?.requires_grad_(true)?;
/// let options = GradOptions { allow_unused: Some(true), ..GradOptions::default() };
/// let grads = grad_with(&[x.sum()?], &[x, other], &options)?;
/// assert!(grads[0].is_some() && grads[1].is_none());
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn grad_with<'t, O, I>(
    outputs: &'t [O],
    inputs: &'t [I],
    options: &GradOptions,
) -> Result<Vec<Option<Tensor>>>
where
    &'t O: Into<GradTarget>,
    &'t I: Into<GradTarget>,
{
    if inputs.is_empty() {
        return Err(AutogradError::NoInputs { what: "grad()" }.into());
    }
    if options.materialize_grads && options.allow_unused == Some(false) {
        return Err(AutogradError::Contradiction.into());
    }
    let allow_unused = options.allow_unused.unwrap_or(options.materialize_grads);
    let outputs: Vec<GradTarget> = outputs.iter().map(Into::into).collect();
    let inputs: Vec<GradTarget> = inputs.iter().map(Into::into).collect();
    let each = inputs.iter().enumerate().map(|(index, t)| t.as_input(index));
    let edges = each.collect::<Result<Vec<Edge>>>()?;
    let pass = |grads: &[Option<Tensor>]| {
        let task = engine::Task {
            roots: validate::roots(&outputs, grads, |index, t, g| t.as_root(index, g))?,
            inputs: Some(&edges),
            accumulate: false,
            keep_graph: options.retain_graph.unwrap_or(options.create_graph),
            create_graph: options.create_graph,
            leaf_hooks: true,
        };
        engine::run(&task)
    };
    let mut grads = match options.is_grads_batched {
        false => pass(&options.grad_outputs)?,
        true => batched(&outputs, &options.grad_outputs, &pass)?,
    };
    for (index, (grad, input)) in grads.iter_mut().zip(&inputs).enumerate() {
        if grad.is_none() {
            if !allow_unused {
                return Err(AutogradError::Unused { index }.into());
            }
            if options.materialize_grads {
                *grad = Some(input.zeros()?);
            }
        }
    }
    Ok(grads)
}

/// A pass for each gradient of a batch.
fn batched(
    outputs: &[GradTarget],
    grads: &[Option<Tensor>],
    pass: PassOf<'_>,
) -> Result<Vec<Option<Tensor>>> {
    for (index, (output, grad)) in outputs.iter().zip(grads).enumerate() {
        let Some(grad) = grad else { continue };
        let output = output.sizes();
        if grad.sizes().split_first().is_none_or(|(_, rest)| rest != output) {
            let grad = grad.sizes().to_vec();
            return Err(AutogradError::BatchedGradShape { index, grad, output }.into());
        }
    }
    batches::run(grads, pass)
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
    let included = TlsKeySets::current().included;
    if included.has(DispatchKey::FuncTorchDynamicLayerFrontMode) {
        return Err(AutogradError::InsideTransform.into());
    }
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
        roots: validate::roots(outputs, grads, validate::root)?,
        inputs: edges.as_deref(),
        accumulate: true,
        keep_graph: options.retain_graph.unwrap_or(options.create_graph),
        create_graph: options.create_graph,
        leaf_hooks: true,
    };
    engine::run(&task).map(drop)
}
