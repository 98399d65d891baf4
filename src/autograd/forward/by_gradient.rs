//! Operators without a forward formula: the derivative of the gradient.
//!
//! The gradient for a cotangent `u` is linear in `u`, and its derivative with respect to `u`, for a
//! tangent, is the tangent of the result. So an operator whose gradient can be differentiated
//! needs no formula of its own here, although one that has is cheaper.

use super::super::backward::{GradOptions, grad_with};
use super::super::error::AutogradError;
use super::super::mode::GradGuard;
use crate::dispatch::grad_enabled;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

/// Gradients, each with the tangent of what it is the gradient of.
pub(crate) type Pulled = Vec<(Tensor, Tensor)>;

/// The tangents of results, of which `pull` gives gradients for cotangents. A gradient that does not
/// depend on the cotangents, and is not zero, is refused.
pub(crate) fn through(
    results: &[Option<Tensor>],
    pull: &dyn Fn(&[Option<Tensor>]) -> Result<Pulled>,
) -> Result<Vec<Option<Tensor>>> {
    let create_graph = grad_enabled();
    let (dummies, pulled) = pulled_by(results, pull, Scalar::Int(0))?;
    let mut outputs = Vec::new();
    let mut directions = Vec::new();
    let mut constant = false;
    for (g, t) in pulled {
        match g.requires_grad() {
            true => {
                directions.push(Some(fit(&t, &g)?));
                outputs.push(g);
            }
            false => constant = true,
        }
    }
    if constant {
        // zero for all cotangents, or computed by what records nothing
        let (_, again) = pulled_by(results, pull, Scalar::Int(1))?;
        for (g, _) in again.iter().filter(|(g, _)| !g.requires_grad()) {
            if !is_zero(g)? {
                return Err(AutogradError::NoKernel { op: String::new(), made: None }.into());
            }
        }
    }
    let inputs: Vec<Tensor> = dummies.iter().flatten().cloned().collect();
    if outputs.is_empty() || inputs.is_empty() {
        return Ok(results.iter().map(|_| None).collect());
    }
    let options = GradOptions {
        grad_outputs: directions,
        create_graph,
        allow_unused: Some(true),
        ..GradOptions::default()
    };
    let mut found = grad_with(&outputs, &inputs, &options)?.into_iter();
    Ok(dummies.iter().map(|u| u.as_ref().and_then(|_| found.next().flatten())).collect())
}

/// Cotangents that are variables with this value, and what they are pulled back to.
fn pulled_by(
    results: &[Option<Tensor>],
    pull: &dyn Fn(&[Option<Tensor>]) -> Result<Pulled>,
    value: Scalar,
) -> Result<(Vec<Option<Tensor>>, Pulled)> {
    let _grad = GradGuard::set(true);
    let cotangent = |t: &Option<Tensor>| match t {
        Some(t) => {
            let u = aten::full_like(t, value, None, None, None, None, None)?;
            u.mark_requires_grad(true);
            Ok(Some(u))
        }
        None => Ok(None),
    };
    let cotangents: Vec<Option<Tensor>> = results.iter().map(cotangent).collect::<Result<_>>()?;
    let pulled = pull(&cotangents)?;
    Ok((cotangents, pulled))
}

/// Whether a gradient for ones, which does not depend on them, is zero, as far as one can see.
fn is_zero(g: &Tensor) -> Result<bool> {
    if g.is_zerotensor() {
        return Ok(true);
    }
    let readable = g.extra().is_none() && g.device().is_cpu();
    if !readable || crate::modes::tracer::current().is_some() {
        return Ok(false);
    }
    let _grad = GradGuard::set(false);
    Ok(aten::count_nonzero(g, None)?.item::<i64>()? == 0)
}

/// A tangent of the sizes and the dtype of a gradient that is not yet summed and converted.
fn fit(t: &Tensor, g: &Tensor) -> Result<Tensor> {
    let t = match t.sizes() == g.sizes() {
        true => t.clone(),
        false => aten::expand(t, g.sizes(), false)?,
    };
    if t.dtype() == g.dtype() {
        return Ok(t);
    }
    let t = match t.dtype().is_complex() && !g.dtype().is_complex() {
        true => aten::real(&t)?,
        false => t,
    };
    aten::_to_copy(&t, Some(g.dtype()), None, None, None, false, None)
}
