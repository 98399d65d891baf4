//! Functions of parameters.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use std::collections::BTreeMap;

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
