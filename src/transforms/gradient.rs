//! Gradients of functions.

use super::error::TransformError;
use super::layer::{self, Kind, Layer};
use super::structure::{Structure, leaves, rebuilt};
use super::wrapper;
use crate::autograd::{
    GradGuard, GradOptions, Recorded, grad_with, is_grad_enabled, is_inference_mode,
};
use crate::dispatch::forward_enabled;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use std::marker::PhantomData;
use std::rc::Rc;

/// A `Grad` layer, within which calls are recorded.
pub(super) struct Recording {
    pub(super) entered: layer::Entered,
    _mode: GradGuard,
    _recorded: Option<Recorded>,
}

impl Recording {
    pub(super) fn begin() -> Result<Recording> {
        let (outer, forward) = (is_grad_enabled(), forward_enabled());
        let (inference, recorded) = (is_inference_mode(), Recorded::enter());
        let entered = layer::enter(Kind::Grad { outer, forward, inference });
        Ok(Recording { entered, _mode: GradGuard::set(true), _recorded: recorded })
    }

    pub(super) fn layer(&self) -> &Rc<Layer> {
        &self.entered.layer
    }

    /// A tensor as a variable of the layer.
    pub(super) fn variable(&self, t: &Tensor, api: &'static str) -> Result<Tensor> {
        if !(t.dtype().is_floating() || t.dtype().is_complex()) {
            return Err(TransformError::NotFloating { api, dtype: t.dtype() }.into());
        }
        let outlived = wrapper::outlived(t);
        let v = wrapper::tracked(outlived.as_ref().unwrap_or(t), self.layer());
        v.mark_requires_grad(true);
        Ok(v)
    }

    /// A structure as variables of the layer.
    pub(super) fn variables<A: Structure>(&self, a: &A, api: &'static str) -> Result<A> {
        a.map(&mut |t| self.variable(t, api))
    }

    pub(super) fn unwrapped(&self, t: &Tensor) -> Tensor {
        wrapper::unwrapped(t, self.layer())
    }
}

/// Whether a result depends on the variables of a layer.
pub(super) fn depends(t: &Tensor, layer: &Layer) -> bool {
    wrapper::value_of(t, layer).is_some() && t.requires_grad()
}

fn zeros_like(t: &Tensor) -> Result<Tensor> {
    aten::zeros_like(t, None, None, None, None, None)
}

/// The gradients of results with respect to variables, recorded themselves; zeros where a result
/// does not depend on a variable.
pub(super) fn gradients(
    outputs: Vec<Tensor>,
    cotangents: Vec<Option<Tensor>>,
    variables: &[Tensor],
) -> Result<Vec<Tensor>> {
    if variables.is_empty() {
        return Ok(Vec::new());
    }
    let given = match outputs.is_empty() {
        true => vec![None; variables.len()],
        false => {
            let options = GradOptions {
                grad_outputs: cotangents,
                retain_graph: Some(true),
                create_graph: true,
                allow_unused: Some(true),
                ..GradOptions::default()
            };
            grad_with(&outputs, variables, &options)?
        }
    };
    let each = |(g, v): (Option<Tensor>, &Tensor)| g.map_or_else(|| zeros_like(v), Ok);
    given.into_iter().zip(variables).map(each).collect()
}

/// The gradient of a function whose result is a number, as a function of the same arguments. It has
/// the structure of the argument; what the function closes over is constant.
///
/// # Errors
///
/// The result has dimensions; an argument is not floating-point; the function fails or writes
/// a tensor that it closes over.
///
/// ```
/// use straightline::{Tensor, func::grad, tensor};
/// let f = |x: &Tensor| x.mul(x)?.mul(x);
/// assert_eq!(grad(grad(f))(&tensor(2.0)?)?.item::<f32>()?, 12.0);
/// // the inner derivative is of `y` alone
/// let confusing = |x: &Tensor| x.mul(grad(|y: &Tensor| x.add(y))(&tensor(1.0)?)?);
/// assert_eq!(grad(confusing)(&tensor(2.0)?)?.item::<f32>()?, 1.0);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn grad<A, F>(f: F) -> impl Fn(&A) -> Result<A>
where
    A: Structure,
    F: Fn(&A) -> Result<Tensor>,
{
    move |a| differentiate(|a| Ok((f(a)?, ())), a, "grad").map(|(g, ..)| g)
}

/// [`grad`] with the value: `(gradient, value)`.
///
/// # Errors
///
/// As [`grad`].
///
/// ```
/// use straightline::{Tensor, func::grad_and_value, tensor};
/// let (g, y) = grad_and_value(|x: &Tensor| x.mul(x)?.sum())(&tensor([1.0, 2.0])?)?;
/// assert_eq!((g.to_vec::<f32>()?, y.item::<f32>()?), (vec![2.0, 4.0], 5.0));
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn grad_and_value<A, F>(f: F) -> impl Fn(&A) -> Result<(A, Tensor)>
where
    A: Structure,
    F: Fn(&A) -> Result<Tensor>,
{
    move |a| differentiate(|a| Ok((f(a)?, ())), a, "grad_and_value").map(|(g, y, ())| (g, y))
}

/// [`grad_and_value`] of a function that has more results, which are not differentiated:
/// `(gradient, value, the others)`.
///
/// # Errors
///
/// As [`grad`].
///
/// ```
/// use straightline::{Tensor, func::grad_with_aux, tensor};
/// let f = |x: &Tensor| { let y = x.exp()?; Ok((y.sum()?, y)) };
/// let (g, _, y) = grad_with_aux(f)(&tensor([0.0, 1.0])?)?;
/// assert_eq!(g.to_vec::<f32>()?, y.to_vec::<f32>()?);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn grad_with_aux<A, X, F>(f: F) -> impl Fn(&A) -> Result<(A, Tensor, X)>
where
    A: Structure,
    X: Structure,
    F: Fn(&A) -> Result<(Tensor, X)>,
{
    move |a| differentiate(&f, a, "grad_and_value")
}

fn differentiate<A: Structure, X: Structure>(
    f: impl Fn(&A) -> Result<(Tensor, X)>,
    a: &A,
    api: &'static str,
) -> Result<(A, Tensor, X)> {
    let recording = Recording::begin()?;
    let variables = recording.variables(a, api)?;
    let (value, aux) = f(&variables)?;
    if value.dim() != 0 {
        return Err(TransformError::NotScalar { api, dims: value.dim() }.into());
    }
    let outputs = match depends(&value, recording.layer()) {
        true => vec![value.clone()],
        false => Vec::new(),
    };
    let all = gradients(outputs, Vec::new(), &leaves(&variables))?;
    let all = all.iter().map(|g| recording.unwrapped(g)).collect();
    let aux = aux.map(&mut |t| Ok(recording.unwrapped(t)))?;
    Ok((rebuilt(a, all)?, recording.unwrapped(&value), aux))
}

/// A function's gradients at a point for any cotangent; [`vjp`] makes it.
pub struct Vjp<A, R> {
    outputs: R,
    variables: A,
    layer: Rc<Layer>,
    types: PhantomData<fn(&R) -> A>,
}

impl<A: Structure, R: Structure> std::fmt::Debug for Vjp<A, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vjp").finish_non_exhaustive()
    }
}

impl<A: Structure, R: Structure> Vjp<A, R> {
    /// The gradients for a cotangent, which has the structure and the sizes of the function's
    /// result. May be called again.
    ///
    /// # Errors
    ///
    /// The cotangent does not fit the result; an operator has no derivative.
    pub fn call(&self, cotangent: &R) -> Result<A> {
        let (outputs, cotangents) = (leaves(&self.outputs), leaves(cotangent));
        if outputs.len() != cotangents.len() {
            let what = format!(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function: {} \
                 tensors for {}",
                cotangents.len(),
                outputs.len()
            );
            return Err(TransformError::Mismatch { api: "vjp", what }.into());
        }
        let pairs = outputs.into_iter().zip(cotangents);
        let (outputs, cotangents) =
            pairs.filter(|(t, _)| depends(t, &self.layer)).map(|(t, c)| (t, Some(c))).unzip();
        let given = gradients(outputs, cotangents, &leaves(&self.variables))?;
        let inside = |g: &Tensor| match wrapper::outlived(g) {
            Some(inside) => inside,
            None => wrapper::unwrapped(g, &self.layer),
        };
        rebuilt(&self.variables, given.iter().map(inside).collect())
    }
}

/// A function's result at a point, and what gives its gradients there for cotangents.
///
/// # Errors
///
/// An argument or a result is not floating-point; the function fails or writes a tensor that it
/// closes over.
///
/// ```
/// use straightline::{Tensor, func::vjp, tensor};
/// let (y, pull) = vjp(|x: &Tensor| x.sin(), &tensor([0.0, 1.0])?)?;
/// assert_eq!(y.sizes(), [2]);
/// assert_eq!(pull.call(&tensor([2.0, 0.0])?)?.to_vec::<f32>()?, [2.0, 0.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn vjp<A, R, F>(f: F, a: &A) -> Result<(R, Vjp<A, R>)>
where
    A: Structure,
    R: Structure,
    F: Fn(&A) -> Result<R>,
{
    vjp_with_aux(|a: &A| Ok((f(a)?, ())), a).map(|(y, pull, ())| (y, pull))
}

/// [`vjp`] of a function that has more results, which are not differentiated: `(value, what pulls back, the
/// others)`.
///
/// # Errors
///
/// As [`vjp`].
///
/// ```
/// use straightline::{Tensor, func::vjp_with_aux, tensor};
/// let f = |x: &Tensor| { let y = x.exp()?; Ok((y.mul(2)?, y)) };
/// let (_, pull, aux) = vjp_with_aux(f, &tensor([0.0, 0.0])?)?;
/// assert_eq!(pull.call(&tensor([1.0, 3.0])?)?.to_vec::<f32>()?, [2.0, 6.0]);
/// assert_eq!(aux.to_vec::<f32>()?, [1.0, 1.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn vjp_with_aux<A, R, X, F>(f: F, a: &A) -> Result<(R, Vjp<A, R>, X)>
where
    A: Structure,
    R: Structure,
    X: Structure,
    F: Fn(&A) -> Result<(R, X)>,
{
    let recording = Recording::begin()?;
    let variables = recording.variables(a, "vjp")?;
    let (outputs, aux) = f(&variables)?;
    for t in leaves(&outputs) {
        if !(t.dtype().is_floating() || t.dtype().is_complex()) {
            let what = format!(
                "All outputs of f must be floating-point or complex Tensors, got Tensor with dtype {}",
                t.dtype()
            );
            return Err(TransformError::Mismatch { api: "vjp(f, *primals)", what }.into());
        }
    }
    let values = outputs.map(&mut |t| Ok(recording.unwrapped(t)))?;
    let aux = aux.map(&mut |t| Ok(recording.unwrapped(t)))?;
    let layer = recording.layer().clone();
    Ok((values, Vjp { outputs, variables, layer, types: PhantomData }, aux))
}
