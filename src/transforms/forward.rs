//! Directional derivatives.
//!
//! The gradient for a cotangent `u` is linear in `u`, and its derivative with respect to `u`, for
//! a tangent, is the directional derivative: what is differentiable twice needs no rules of its
//! own for it.

use super::error::TransformError;
use super::gradient::{Recording, depends, gradients};
use super::structure::{Structure, leaves, rebuilt};
use crate::autograd::{GradOptions, grad_with};
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;

/// A function's result at a point, and its derivative there in the direction of `tangents`.
///
/// # Errors
///
/// Tangents of other sizes or dtypes than the primals; what [`vjp`](super::vjp) refuses; an
/// operator that cannot be differentiated twice.
///
/// ```
/// use straightline::{Tensor, func::jvp, tensor};
/// let x = tensor([1.0, 2.0])?;
/// let (y, dy) = jvp(|x: &Tensor| x.mul(x), &x, &tensor([1.0, 10.0])?)?;
/// assert_eq!((y.to_vec::<f32>()?, dy.to_vec::<f32>()?), (vec![1.0, 4.0], vec![2.0, 40.0]));
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn jvp<A, R, F>(f: F, primals: &A, tangents: &A) -> Result<(R, R)>
where
    A: Structure,
    R: Structure,
    F: Fn(&A) -> Result<R>,
{
    check(primals, tangents)?;
    let recording = Recording::begin()?;
    let layer = recording.layer().clone();
    let variables = recording.variables(primals, "jvp")?;
    let outputs = f(&variables)?;
    let all = leaves(&outputs);
    let zeros = |t: &Tensor| aten::zeros_like(t, None, None, None, None, None);
    // a cotangent for each result that depends on the primals
    let differentiable: Vec<Tensor> = all.iter().filter(|t| depends(t, &layer)).cloned().collect();
    let dummies: Vec<Tensor> = (differentiable.iter())
        .map(|t| recording.variable(&recording.unwrapped(&zeros(t)?), "jvp"))
        .collect::<Result<_>>()?;
    let pulled = match differentiable.is_empty() {
        true => Vec::new(),
        false => {
            let options = GradOptions {
                grad_outputs: dummies.iter().cloned().map(Some).collect(),
                create_graph: true,
                allow_unused: Some(true),
                ..GradOptions::default()
            };
            grad_with(&differentiable, &leaves(&variables), &options)?
        }
    };
    let (pulled, directions) = (pulled.into_iter().zip(leaves(tangents)))
        .filter_map(|(g, t)| g.filter(|g| depends(g, &layer)).map(|g| (g, Some(t))))
        .unzip();
    let pushed = gradients(pulled, directions, &dummies)?;
    let mut pushed = pushed.iter().map(|t| recording.unwrapped(t));
    let mut result = Vec::new();
    for t in &all {
        result.push(match depends(t, &layer) {
            true => pushed.next(),
            false => None,
        });
    }
    let values = outputs.map(&mut |t| Ok(recording.unwrapped(t)))?;
    drop(recording);
    let each = |(given, value): (Option<Tensor>, &Tensor)| given.map_or_else(|| zeros(value), Ok);
    let derivative = result.into_iter().zip(&leaves(&values)).map(each).collect::<Result<_>>()?;
    let derivative = rebuilt(&values, derivative)?;
    Ok((values, derivative))
}

fn check<A: Structure>(primals: &A, tangents: &A) -> Result<()> {
    let (primals, tangents) = (leaves(primals), leaves(tangents));
    let refuse = |what: String| {
        Err(TransformError::Mismatch { api: "jvp(f, primals, tangents)", what }.into())
    };
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
