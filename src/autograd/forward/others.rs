//! Tangents through what has no rule: copies, operators from outside, functions of the user's.

use super::super::error::AutogradError;
use super::super::graph;
use super::by_gradient::through;
use super::refusal::explained;
use super::tangent::{self, Carrying};
use crate::dispatch::Value;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::tensor::node::Node;
use crate::tensor::tangent::Level;
use std::sync::Arc;

/// What a copy gives its target: the tangent, and the level.
type Copied = Option<(Tensor, Arc<Level>)>;

/// The tangent that `to` has after it became a copy of `from`.
pub(crate) fn copied(to: &Tensor, from: &Tensor) -> Result<Copied> {
    if !(to.may_be_dual() || from.may_be_dual()) || !graph::is_differentiable(to) {
        return Ok(None);
    }
    let source = match graph::is_differentiable(from) {
        true => tangent::of(from)?,
        false => None,
    };
    let _rest = Carrying::set(false);
    if let Some((tangent, level)) = source {
        let real = tangent.dtype().is_complex() && !to.dtype().is_complex();
        let tangent = if real { aten::real(&tangent)? } else { tangent };
        let tangent = match tangent.sizes() == to.sizes() {
            true => tangent,
            false => aten::expand(&tangent, to.sizes(), false)?,
        };
        // in memory of its own
        let dtype = Some(to.dtype());
        let own = match tangent.dtype() == to.dtype() {
            true => aten::clone(&tangent, None)?,
            false => aten::_to_copy(&tangent, dtype, None, None, None, false, None)?,
        };
        return Ok(Some((own, level)));
    }
    match tangent::of_written(to)? {
        Some((old, level)) => {
            let zeros = aten::zeros_like(&old, None, None, None, None, None)?;
            Ok(Some((zeros, level)))
        }
        None => Ok(None),
    }
}

/// Gives it that tangent.
pub(crate) fn write_copied(to: &Tensor, copied: Copied) -> Result<()> {
    let Some((tangent, level)) = copied else { return Ok(()) };
    let _rest = Carrying::set(false);
    tangent::write(to, tangent, &level)
}

/// The tangents of a call's arguments, tensor by tensor, if there are any.
pub(crate) struct Pushed {
    /// For each argument its tensors' tangents.
    tangents: Vec<Vec<Option<Tensor>>>,
    level: Arc<Level>,
}

impl Pushed {
    pub(crate) fn of(inputs: &[Value]) -> Result<Option<Pushed>> {
        let mut level = None;
        let mut tangents = Vec::new();
        for value in inputs {
            let mut all = Vec::new();
            for t in value.tensors() {
                let found = tangent::of(t)?;
                all.push(found.map(|(tangent, of)| {
                    level.get_or_insert(of);
                    tangent
                }));
            }
            tangents.push(all);
        }
        Ok(level.map(|level| Pushed { tangents, level }))
    }

    /// Gives results their tangents: by the derivative of the node's gradients, one for each
    /// argument.
    pub(crate) fn through(
        self,
        node: &Arc<Node>,
        outputs: &[Tensor],
        written: &[Tensor],
    ) -> Result<()> {
        let _rest = Carrying::set(false);
        let one = |t: &Tensor| graph::is_differentiable(t).then(|| t.clone());
        let places: Vec<Option<Tensor>> = outputs.iter().map(one).collect();
        if places.iter().all(Option::is_none) {
            return Ok(());
        }
        let pull = |grads: &[Option<Tensor>]| {
            let given = node.function.apply(node, grads.to_vec(), &|_| true, true)?;
            let pairs = given.into_iter().zip(&self.tangents);
            Ok(pairs.filter_map(|(g, all)| Some((g?, all.first().cloned().flatten()?))).collect())
        };
        let op = node.op.unwrap_or(node.function.name());
        let found = through(&places, &pull).map_err(|e| explained(e, op))?;
        for (t, tangent) in outputs.iter().zip(found) {
            if !graph::is_differentiable(t) {
                continue;
            }
            let tangent = match tangent {
                Some(tangent) => tangent,
                None => aten::zeros_like(t, None, None, None, None, None)?,
            };
            match written.iter().any(|w| w.same_handle(t)) {
                true => tangent::write(t, tangent, &self.level)?,
                false => t.set_tangent(tangent, &self.level),
            }
        }
        Ok(())
    }
}

/// The tangents of the inputs of a function of the user's.
pub(crate) struct Duals {
    pub(crate) tangents: Vec<Option<Tensor>>,
    level: Arc<Level>,
}

impl Duals {
    pub(crate) fn of(inputs: &[Tensor]) -> Result<Option<Duals>> {
        let mut level = None;
        let mut tangents = Vec::with_capacity(inputs.len());
        for t in inputs {
            tangents.push(tangent::of(t)?.map(|(tangent, of)| {
                level.get_or_insert(of);
                tangent
            }));
        }
        Ok(level.map(|level| Duals { tangents, level }))
    }

    /// Gives the results what the function's rule gave for them.
    pub(crate) fn give(
        &self,
        given: Vec<Option<Tensor>>,
        outputs: &[Tensor],
        dirty: &[bool],
        differentiable: &[bool],
    ) -> Result<()> {
        let refuse = |what: String| Err(AutogradError::Setting(what).into());
        if given.len() != outputs.len() {
            return refuse(format!(
                "a custom Function's jvp gave {} tangents for {} results",
                given.len(),
                outputs.len()
            ));
        }
        let _rest = Carrying::set(false);
        for (nr, (t, tangent)) in outputs.iter().zip(given).enumerate() {
            if !differentiable[nr] {
                continue;
            }
            let is_old = |new: &Tensor| self.tangents.iter().flatten().any(|o| o.same_handle(new));
            if dirty[nr] {
                let Some(new) = tangent else { continue };
                if tangent::of_written(t)?.is_some() && !is_old(&new) {
                    return refuse(
                        "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is \
                         modifying an input inplace, then the jvp function must modify the corresponding gradient inplace."
                            .into(),
                    );
                }
                if !is_old(&new) {
                    tangent::write(t, new, &self.level)?;
                }
                continue;
            }
            let shares =
                |new: &Tensor| self.tangents.iter().flatten().any(|o| o.shares_storage_with(new));
            let tangent = match tangent {
                Some(new) if t.base().is_some() && !shares(&new) => {
                    return refuse(
                        "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view."
                            .into(),
                    );
                }
                Some(new) if new.sizes() != t.sizes() => {
                    return Err(AutogradError::TangentSize {
                        tensor: t.sizes().to_vec(),
                        tangent: new.sizes().to_vec(),
                    }
                    .into());
                }
                Some(new) if is_old(&new) && t.base().is_none() => aten::clone(&new, None)?,
                Some(new) => new,
                None => aten::zeros_like(t, None, None, None, None, None)?,
            };
            t.set_tangent(tangent, &self.level);
        }
        Ok(())
    }
}
