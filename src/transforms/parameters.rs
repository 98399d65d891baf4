//! Functions of parameters.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use std::collections::BTreeMap;

/// Calls a model with parameters that are given with the call: a function of both, which the
/// transforms take.
///
/// # Errors
///
/// Those of the model.
///
/// ```
/// use straightline::{Tensor, func::{functional_call, grad}, tensor};
/// use std::collections::BTreeMap;
/// type Parameters = BTreeMap<String, Tensor>;
/// let model = |p: &Parameters, x: &Tensor| p["w"].mul(x)?.sum();
/// let parameters = BTreeMap::from([("w".to_string(), tensor([1.0, 2.0])?)]);
/// let x = tensor([3.0, 4.0])?;
/// let g = grad(|p: &Parameters| functional_call(model, p, &x))(&parameters)?;
/// assert_eq!(g["w"].to_vec::<f32>()?, [3.0, 4.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn functional_call<P: ?Sized, X: ?Sized, R>(
    model: impl Fn(&P, &X) -> Result<R>,
    parameters: &P,
    x: &X,
) -> Result<R> {
    model(parameters, x)
}

/// The parameters of several models of one shape, stacked along a new first dimension, which
/// [`vmap`](super::vmap) takes apart: an ensemble.
///
/// # Errors
///
/// There are no models, or they have other parameters than the first.
///
/// ```
/// use straightline::{func::stack_parameters, tensor};
/// use std::collections::BTreeMap;
/// let model = |w: f64| Ok::<_, straightline::Error>(BTreeMap::from([("w".to_string(), tensor([w, w])?)]));
/// let all = stack_parameters(&[model(1.0)?, model(2.0)?, model(3.0)?])?;
/// assert_eq!(all["w"].sizes(), [3, 2]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn stack_parameters(models: &[BTreeMap<String, Tensor>]) -> Result<BTreeMap<String, Tensor>> {
    let Some(first) = models.first() else {
        return Err(crate::Error::value("stack_parameters: Expected at least one model, got 0."));
    };
    if models.iter().any(|m| !m.keys().eq(first.keys())) {
        return Err(crate::Error::value(
            "stack_parameters: Expected all models to have the same parameters.",
        ));
    }
    let stacked = |name: &String| {
        let all: Vec<Tensor> = models.iter().filter_map(|m| m.get(name).cloned()).collect();
        Ok((name.clone(), aten::stack(&all, 0)?))
    };
    first.keys().map(stacked).collect()
}
