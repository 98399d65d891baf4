//! Directional derivatives.
//!
//! A `jvp` is a layer whose variables are dual tensors: their tangents go through the operators by
//! the forward formulas of `src/autograd/forward`, on wrappers that know nothing of the tangents
//! outside.

use super::error::TransformError;
use super::gradient::{Recording, depends, gradients};
use super::layer::{self, Kind, Layer};
use super::structure::{Structure, leaves, rebuilt};
use super::wrapper;
use crate::autograd::{
    self, Carrying, GradOptions, Recorded, enter_jvp, grad_with, is_inference_mode, leave_jvp,
    make_variable,
};
use crate::dispatch::forward_enabled;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::tensor::tangent::Level;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

/// A `Jvp` layer, within which calls carry tangents on.
struct Pushing {
    entered: layer::Entered,
    level: Arc<Level>,
    _carrying: Carrying,
    _recorded: Option<Recorded>,
}

impl Pushing {
    fn begin() -> Pushing {
        let (inference, recorded) = (is_inference_mode(), Recorded::enter());
        let entered = layer::enter(Kind::Jvp { forward: forward_enabled(), inference });
        let carrying = Carrying::set(true);
        Pushing { entered, level: enter_jvp(), _carrying: carrying, _recorded: recorded }
    }

    fn layer(&self) -> &Rc<Layer> {
        &self.entered.layer
    }

    fn variable(&self, primal: &Tensor, tangent: &Tensor) -> Result<Tensor> {
        let wrapped = |t: &Tensor| {
            let outlived = wrapper::outlived(t);
            wrapper::tracked(outlived.as_ref().unwrap_or(t), self.layer())
        };
        let variable = wrapped(primal);
        make_variable(&variable, &wrapped(tangent), &self.level)?;
        Ok(variable)
    }
}

impl Drop for Pushing {
    fn drop(&mut self) {
        leave_jvp(&self.level);
    }
}

/// How [`jvp_with`] pushes.
///
/// ```
/// use straightline::func::JvpOptions;
/// assert!(!JvpOptions::default().strict);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct JvpOptions {
    /// A result that does not depend on the primals is an error; otherwise its derivative is zero.
    pub strict: bool,
}

/// A function's result at a point, and its derivative there in the direction of `tangents`, in one
/// run of the function: forward mode.
///
/// # Errors
///
/// Tangents of other sizes than the primals; primals without derivatives; the function's own errors; an
/// operator that tangents do not go through.
///
/// ```
/// use straightline::{Tensor, func::jvp, tensor};
/// let (x, t) = (tensor([1.0, 2.0])?, tensor([1.0, 10.0])?);
/// let (y, dy) = jvp(|x: &Tensor| x.mul(x), &x, &t)?;
/// assert_eq!((y.to_vec::<f32>()?, dy.to_vec::<f32>()?), (vec![1.0, 4.0], vec![2.0, 40.0]));
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn jvp<A, R, F>(f: F, primals: &A, tangents: &A) -> Result<(R, R)>
where
    A: Structure,
    R: Structure,
    F: Fn(&A) -> Result<R>,
{
    jvp_with(f, primals, tangents, &JvpOptions::default())
}

/// [`jvp`] with options.
///
/// # Errors
///
/// As [`jvp`]; a constant result, if `strict`.
///
/// ```
/// use straightline::{Tensor, func::{JvpOptions, jvp_with}, tensor};
/// let (x, t) = (tensor([1.0])?, tensor([1.0])?);
/// let constant = |_: &Tensor| tensor([3.0]);
/// let strict = jvp_with(constant, &x, &t, &JvpOptions { strict: true });
/// assert!(strict.unwrap_err().to_string().contains("independent of the inputs"));
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn jvp_with<A, R, F>(f: F, primals: &A, tangents: &A, options: &JvpOptions) -> Result<(R, R)>
where
    A: Structure,
    R: Structure,
    F: Fn(&A) -> Result<R>,
{
    let f = |a: &A| Ok((f(a)?, ()));
    pushed(f, primals, tangents, options).map(|(y, dy, ())| (y, dy))
}

/// [`jvp_with`] of a function that has more results, which are not differentiated: `(value, derivative,
/// the others)`.
///
/// # Errors
///
/// As [`jvp_with`].
///
/// ```
/// use straightline::{Tensor, func::{JvpOptions, jvp_with_aux}, tensor};
/// let f = |x: &Tensor| { let y = x.exp()?; Ok((y.mul(2)?, y)) };
/// let (x, t) = (tensor([0.0, 0.0])?, tensor([1.0, 3.0])?);
/// let (_, dy, aux) = jvp_with_aux(f, &x, &t, &JvpOptions::default())?;
/// assert_eq!((dy.to_vec::<f32>()?, aux.to_vec::<f32>()?), (vec![2.0, 6.0], vec![1.0, 1.0]));
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn jvp_with_aux<A, R, X, F>(
    f: F,
    primals: &A,
    tangents: &A,
    options: &JvpOptions,
) -> Result<(R, R, X)>
where
    A: Structure,
    R: Structure,
    X: Structure,
    F: Fn(&A) -> Result<(R, X)>,
{
    pushed(f, primals, tangents, options)
}

fn pushed<A: Structure, R: Structure, X: Structure>(
    f: impl Fn(&A) -> Result<(R, X)>,
    primals: &A,
    tangents: &A,
    options: &JvpOptions,
) -> Result<(R, R, X)> {
    check(primals, tangents, "jvp(f, primals, tangents)")?;
    let pushing = Pushing::begin();
    let mut directions = leaves(tangents).into_iter();
    let variables = primals.map(&mut |p| match directions.next() {
        Some(t) => pushing.variable(p, &t),
        None => Ok(p.clone()),
    })?;
    let (outputs, aux) = f(&variables)?;
    let layer = pushing.layer().clone();
    let mut pushed = Vec::new();
    for t in leaves(&outputs) {
        let tangent = match wrapper::value_of(&t, &layer) {
            Some(_) => autograd::tangent_of(&t)?,
            None => None,
        };
        if tangent.is_none() && options.strict {
            let what = "The output of f is independent of the inputs. This is not allowed with strict=True.";
            let api = "jvp(f, primals, tangents, strict=True)";
            return Err(TransformError::Mismatch { api, what: what.into() }.into());
        }
        pushed.push(tangent.map(|t| wrapper::unwrapped(&t, &layer)));
    }
    let values = outputs.map(&mut |t| Ok(wrapper::unwrapped(t, &layer)))?;
    let aux = aux.map(&mut |t| Ok(wrapper::unwrapped(t, &layer)))?;
    drop(pushing);
    let derivative = rebuilt(&values, or_zeros(pushed, &leaves(&values))?)?;
    Ok((values, derivative, aux))
}

fn zeros_like(t: &Tensor) -> Result<Tensor> {
    aten::zeros_like(t, None, None, None, None, None)
}

fn or_zeros(given: Vec<Option<Tensor>>, like: &[Tensor]) -> Result<Vec<Tensor>> {
    let each =
        |(given, like): (Option<Tensor>, &Tensor)| given.map_or_else(|| zeros_like(like), Ok);
    given.into_iter().zip(like).map(each).collect()
}

/// A function's derivative at a point, as a linear function of directions; [`linearize`] makes it.
pub struct Linearized<A, R> {
    /// The gradients for cotangents that are variables, those variables, and which tensor of the
    /// argument each gradient is of.
    pulled: Vec<(usize, Tensor)>,
    cotangents: Vec<Tensor>,
    depends: Vec<bool>,
    values: R,
    primals: A,
    layer: Rc<Layer>,
    types: PhantomData<fn(&A) -> R>,
}

impl<A: Structure, R: Structure> std::fmt::Debug for Linearized<A, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Linearized").finish_non_exhaustive()
    }
}

impl<A: Structure, R: Structure> Linearized<A, R> {
    /// The derivative in a direction, which has the structure and the sizes of the argument. May be
    /// called again; the function is not.
    ///
    /// # Errors
    ///
    /// The direction does not fit the argument; an operator's gradient has no derivative.
    ///
    /// ```
    /// use straightline::{Tensor, func::linearize, tensor};
    /// let (_, push) = linearize(|x: &Tensor| x.mul(x), &tensor([1.0, 2.0])?)?;
    /// for scale in [1.0, 3.0] {
    ///     let dy = push.call(&tensor([scale, scale])?)?;
    ///     assert_eq!(dy.to_vec::<f32>()?, [2.0 * scale as f32, 4.0 * scale as f32]);
    /// }
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn call(&self, tangents: &A) -> Result<R> {
        check(&self.primals, tangents, "linearize(f, *primals)")?;
        let all = leaves(tangents);
        let directions = self.pulled.iter().map(|(i, _)| Some(all[*i].clone())).collect();
        let outputs = self.pulled.iter().map(|(_, g)| g.clone()).collect();
        let pushed = gradients(outputs, directions, &self.cotangents)?;
        let inside = |g: &Tensor| match wrapper::outlived(g) {
            Some(inside) => inside,
            None => wrapper::unwrapped(g, &self.layer),
        };
        let mut pushed = pushed.iter().map(inside);
        let each = |depends: &bool| if *depends { pushed.next() } else { None };
        let given = self.depends.iter().map(each).collect();
        rebuilt(&self.values, or_zeros(given, &leaves(&self.values))?)
    }
}

/// A function's result at a point, and its derivative there as a function of the direction, which
/// does not run the function again. One [`jvp`] is cheaper; this is for many at the same point.
///
/// # Errors
///
/// What [`vjp`](super::vjp) refuses; an operator that cannot be differentiated twice.
///
/// ```
/// use straightline::{Tensor, func::linearize, tensor};
/// let (y, push) = linearize(|x: &Tensor| x.exp(), &tensor([0.0, 1.0])?)?;
/// let dy = push.call(&tensor([1.0, 0.0])?)?;
/// assert_eq!((y.sizes(), dy.to_vec::<f32>()?), (&[2][..], vec![1.0, 0.0]));
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn linearize<A, R, F>(f: F, primals: &A) -> Result<(R, Linearized<A, R>)>
where
    A: Structure,
    R: Structure,
    F: Fn(&A) -> Result<R>,
{
    let recording = Recording::begin()?;
    let layer = recording.layer().clone();
    let variables = recording.variables(primals, "linearize")?;
    let outputs = f(&variables)?;
    let all = leaves(&outputs);
    let depends_on: Vec<bool> = all.iter().map(|t| depends(t, &layer)).collect();
    // a cotangent for each result that depends on the primals
    let differentiable: Vec<Tensor> = all.iter().filter(|t| depends(t, &layer)).cloned().collect();
    let cotangents: Vec<Tensor> = (differentiable.iter())
        .map(|t| recording.variable(&recording.unwrapped(&zeros_like(t)?), "linearize"))
        .collect::<Result<_>>()?;
    let pulled = match differentiable.is_empty() {
        true => Vec::new(),
        false => {
            let options = GradOptions {
                grad_outputs: cotangents.iter().cloned().map(Some).collect(),
                create_graph: true,
                allow_unused: Some(true),
                ..GradOptions::default()
            };
            grad_with(&differentiable, &leaves(&variables), &options)?
        }
    };
    let pulled = (pulled.into_iter().enumerate())
        .filter_map(|(i, g)| g.filter(|g| depends(g, &layer)).map(|g| (i, g)))
        .collect();
    let values = outputs.map(&mut |t| Ok(recording.unwrapped(t)))?;
    drop(recording);
    let primals = primals.map(&mut |t| Ok(t.clone()))?;
    let linearized = Linearized {
        pulled,
        cotangents,
        depends: depends_on,
        values: values.map(&mut |t| Ok(t.clone()))?,
        primals,
        layer,
        types: PhantomData,
    };
    Ok((values, linearized))
}

fn check<A: Structure>(primals: &A, tangents: &A, api: &'static str) -> Result<()> {
    let (primals, tangents) = (leaves(primals), leaves(tangents));
    let refuse = |what: String| Err(TransformError::Mismatch { api, what }.into());
    if primals.len() != tangents.len() {
        return refuse(format!(
            "Expected primals and tangents to have the same python structure: {} tensors for {}",
            tangents.len(),
            primals.len()
        ));
    }
    for (p, t) in primals.iter().zip(&tangents) {
        if p.sizes() != t.sizes() {
            return refuse(format!(
                "a tangent has the sizes {:?}, and its primal {:?}",
                t.sizes(),
                p.sizes()
            ));
        }
    }
    Ok(())
}
