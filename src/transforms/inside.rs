//! What forward mode asks of the layers: where a tangent of a batched tensor belongs.

use super::layer::{self, Layer};
use super::map::moved;
use super::wrapper;
use crate::dispatch::TlsKeySets;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use std::rc::Rc;

/// The layer whose batch a tensor is, if it runs.
fn layer_of(t: &Tensor) -> Option<Rc<Layer>> {
    layer::find(&|l| wrapper::samples_of(t, l).is_some())
}

/// What is inside of a batched tensor, with a tangent of the same kind: one for each sample.
pub(super) fn inside_batches(
    t: &Tensor,
    tangent: Option<&Tensor>,
) -> Result<Option<(Tensor, Option<Tensor>)>> {
    let Some(layer) = layer_of(t) else { return Ok(None) };
    let Some((value, bdim)) = wrapper::samples_of(t, &layer) else { return Ok(None) };
    let Some(tangent) = tangent else { return Ok(Some((value.clone(), None))) };
    let keys = TlsKeySets::current();
    let tangent = layer::below(&layer, keys, || match wrapper::samples_of(tangent, &layer) {
        Some((inside, at)) => moved(inside, at, bdim),
        None => {
            let mut sizes = tangent.sizes().to_vec();
            sizes.insert(bdim, value.sizes()[bdim]);
            let all = aten::expand(&aten::unsqueeze(tangent, bdim as i64)?, &sizes, false)?;
            aten::clone(&all, None)
        }
    })?;
    Ok(Some((value.clone(), Some(tangent))))
}

/// A tensor that the samples share, as one for each of them, if the other one is a batch.
pub(super) fn batched_like(t: &Tensor, other: &Tensor) -> Result<Option<Tensor>> {
    let Some(layer) = layer_of(other) else { return Ok(None) };
    if wrapper::samples_of(t, &layer).is_some() {
        return Ok(None);
    }
    let Some((value, bdim)) = wrapper::samples_of(other, &layer) else { return Ok(None) };
    let size = value.sizes()[bdim];
    let all = layer::below(&layer, TlsKeySets::current(), || {
        let mut sizes = t.sizes().to_vec();
        sizes.insert(0, size);
        aten::expand(&aten::unsqueeze(t, 0)?, &sizes, false)
    })?;
    Ok(Some(wrapper::batched(&all, 0, &layer)))
}

/// What was found inside of a batched tensor, as a batch.
pub(super) fn batched_as(t: &Tensor, inside: &Tensor) -> Result<Tensor> {
    let Some(layer) = layer_of(t) else { return Ok(inside.clone()) };
    let bdim = wrapper::samples_of(t, &layer).map_or(0, |(_, bdim)| bdim);
    Ok(wrapper::batched(inside, bdim, &layer))
}
