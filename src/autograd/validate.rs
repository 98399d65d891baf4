//! Whether gradients fit what they are gradients of: those that a pass begins with, that nodes give
//! and that hooks make.

use super::error::AutogradError;
use super::graph;
use super::mode::GradGuard;
use super::view;
use crate::error::Result;
use crate::ops::aten;
use crate::ops::shape::combine;
use crate::tensor::Tensor;
use crate::tensor::node::{Edge, Node, OutputMeta};
use std::sync::Arc;

/// What a hook makes of a gradient.
pub(super) fn apply_hook(
    grad: &mut Option<Tensor>,
    hook: impl FnOnce(Option<&Tensor>) -> Result<Option<Tensor>>,
) -> Result<()> {
    let Some(new) = hook(grad.as_ref())? else { return Ok(()) };
    if let Some(old) = grad {
        let changed = |what, before: String, after: String| {
            Err(AutogradError::Hook { what, before, after }.into())
        };
        if old.sizes() != new.sizes() {
            return changed("size", format!("{:?}", old.sizes()), format!("{:?}", new.sizes()));
        }
        if old.dtype() != new.dtype() {
            return changed("type", old.dtype().to_string(), new.dtype().to_string());
        }
        if old.device() != new.device() {
            return changed("device", old.device().to_string(), new.device().to_string());
        }
    }
    *grad = Some(new);
    Ok(())
}

/// What the hook of a node made of all gradients.
pub(super) fn as_many(
    old: &[Option<Tensor>],
    new: Vec<Option<Tensor>>,
) -> Result<Vec<Option<Tensor>>> {
    match new.len() == old.len() {
        true => Ok(new),
        false => Err(AutogradError::HookCount { expected: old.len(), got: new.len() }.into()),
    }
}

/// Makes gradients fit what they are gradients of: sums over what was broadcast, conversions.
pub(super) fn validate(node: &Arc<Node>, given: &mut Vec<Option<Tensor>>) -> Result<()> {
    let name = || node.function.name().to_string();
    if given.len() > node.edges.len() {
        if given[node.edges.len()..].iter().any(Option::is_some) {
            return Err(AutogradError::GradientCount {
                node: name(),
                expected: node.edges.len(),
                got: given.len(),
            }
            .into());
        }
        given.truncate(node.edges.len());
    }
    if given.len() < node.edges.len() {
        if node.function.leaf().is_some() {
            return Ok(());
        }
        return Err(AutogradError::GradientCount {
            node: name(),
            expected: node.edges.len(),
            got: given.len(),
        }
        .into());
    }
    for (index, (edge, grad)) in node.edges.iter().zip(given).enumerate() {
        let (Some(edge), Some(g)) = (edge, &grad) else { continue };
        let Some(meta) = graph::meta_of(edge) else { continue };
        if let Some(fitted) = fit(&meta, g).map_err(|what| match what {
            Misfit::Is(what) => {
                crate::Error::from(AutogradError::InvalidGradient { node: name(), index, what })
            }
            Misfit::Error(e) => e,
        })? {
            *grad = Some(fitted);
        }
    }
    Ok(())
}

enum Misfit {
    Is(String),
    Error(crate::Error),
}

impl From<crate::Error> for Misfit {
    fn from(e: crate::Error) -> Misfit {
        Misfit::Error(e)
    }
}

/// The gradient as one of a tensor like `meta`; `None` where it is one.
fn fit(meta: &OutputMeta, grad: &Tensor) -> std::result::Result<Option<Tensor>, Misfit> {
    let mut fitted: Option<Tensor> = None;
    let real = grad.dtype().is_complex() && !meta.dtype.is_complex();
    if real {
        fitted = Some(aten::real(grad)?);
    }
    let now = fitted.as_ref().unwrap_or(grad);
    if now.sizes() != meta.sizes.as_slice() {
        if !combine::expands_to(&meta.sizes, now.sizes()) {
            return Err(Misfit::Is(format!(
                "got {:?} but expected shape compatible with {:?}",
                grad.sizes(),
                meta.sizes.as_slice()
            )));
        }
        fitted = Some(combine::sum_to(now, &meta.sizes)?);
    }
    let now = fitted.as_ref().unwrap_or(grad);
    if now.dtype() != meta.dtype {
        fitted = Some(aten::_to_copy(now, Some(meta.dtype), None, None, None, false, None)?);
    }
    let now = fitted.as_ref().unwrap_or(grad);
    if now.device() != meta.device {
        if now.dim() == 0 {
            return Ok(Some(aten::_to_copy(
                now,
                None,
                None,
                Some(meta.device),
                None,
                false,
                None,
            )?));
        }
        return Err(Misfit::Is(format!(
            "expected device {} but got {}",
            meta.device,
            now.device()
        )));
    }
    Ok(fitted)
}

/// A gradient of these sizes, where it is one of what was broadcast from them.
pub(crate) fn fitted(grad: Tensor, sizes: &[i64]) -> Result<Tensor> {
    match grad.sizes() != sizes && combine::expands_to(sizes, grad.sizes()) {
        true => combine::sum_to(&grad, sizes),
        false => Ok(grad),
    }
}

/// The roots of a pass, and the gradients that it begins with.
pub(crate) fn roots<T>(
    outputs: &[T],
    grads: &[Option<Tensor>],
    root: impl Fn(usize, &T, Option<&Tensor>) -> Result<(Edge, Option<Tensor>)>,
) -> Result<Vec<(Edge, Option<Tensor>)>> {
    if !grads.is_empty() && grads.len() != outputs.len() {
        let (outputs, grads) = (outputs.len(), grads.len());
        return Err(AutogradError::GradCount { outputs, grads }.into());
    }
    let each = |(index, t): (usize, &T)| root(index, t, grads.get(index).and_then(Option::as_ref));
    outputs.iter().enumerate().map(each).collect()
}

/// A gradient that is given for an output like `meta`.
pub(crate) fn first_grad(index: usize, meta: &OutputMeta, grad: &Tensor) -> Result<Tensor> {
    if grad.sizes() != meta.sizes.as_slice() {
        let (grad, output) = (grad.sizes().to_vec(), meta.sizes.to_vec());
        return Err(AutogradError::GradShape { index, grad, output }.into());
    }
    if grad.dtype().is_complex() != meta.dtype.is_complex() {
        let (grad, output) = (grad.dtype().torch_name(), meta.dtype.torch_name());
        return Err(AutogradError::GradDType { index, grad, output }.into());
    }
    let fitted = fit(meta, grad).map_err(|m| match m {
        Misfit::Error(e) => e,
        Misfit::Is(what) => crate::Error::runtime(what),
    })?;
    Ok(fitted.unwrap_or_else(|| grad.clone()))
}

/// An output as a root, with its gradient, or with the one that a number begins with.
pub(crate) fn root(
    index: usize,
    output: &Tensor,
    grad: Option<&Tensor>,
) -> Result<(Edge, Option<Tensor>)> {
    let grad = match grad {
        Some(g) => first_grad(index, &OutputMeta::of(output), g)?,
        None if !output.requires_grad() => return Err(AutogradError::NoHistory { index }.into()),
        None => {
            if output.numel() != 1 {
                let sizes = output.sizes().to_vec();
                return Err(AutogradError::NotScalar { sizes }.into());
            }
            if output.dtype().is_complex() {
                let dtype = output.dtype().torch_name();
                return Err(AutogradError::NotReal { dtype }.into());
            }
            let _grad = GradGuard::set(false);
            aten::ones_like(output, None, None, None, None, None)?
        }
    };
    match view::gradient_edge(output)? {
        Some(edge) => Ok((edge, Some(grad))),
        None => Err(AutogradError::NoHistory { index }.into()),
    }
}
