//! What sparse, quantized and nested tensors are made of: dense parts, and what is no tensor.
//!
//! `compile()` takes such a tensor apart as it does a wrapper tensor: the parts are what a graph
//! takes, all else is structure.

use crate::dispatch::{DispatchKey, DispatchKeySet};
use crate::ops::nested::Nested;
use crate::ops::quantized::{Quantized, Quantizer};
use crate::ops::sparse::{Coo, Csr};
use crate::tensor::Tensor;

/// A tensor that is made of dense parts has one of these keys.
pub(crate) const KINDS: DispatchKeySet = DispatchKeySet::of(&[
    DispatchKey::Sparse,
    DispatchKey::SparseCsr,
    DispatchKey::Quantized,
    DispatchKey::NestedTensor,
]);

/// Whether a tensor is made of dense parts that are known here.
pub(crate) fn has_parts(t: &Tensor) -> bool {
    !(t.key_set() & KINDS).is_empty() && parts(t).is_some()
}

/// The dense tensors inside, always as many and in the same order for one structure.
pub(crate) fn parts(t: &Tensor) -> Option<Vec<&Tensor>> {
    if let Some(c) = t.payload::<Coo>() {
        Some(c.parts().into())
    } else if let Some(c) = t.payload::<Csr>() {
        Some(c.parts().into())
    } else if let Some(q) = t.payload::<Quantized>() {
        Some(match q.quantizer() {
            Quantizer::PerTensor { .. } => vec![q.ints()],
            Quantizer::PerChannel { scales, zero_points, .. } => {
                vec![q.ints(), scales, zero_points]
            }
        })
    } else {
        t.payload::<Nested>().map(|n| n.components().iter().collect())
    }
}

/// The same tensor made of other parts: stand-ins, or what was computed for them.
pub(crate) fn with_parts(t: &Tensor, parts: Vec<Tensor>) -> Tensor {
    let mut parts = parts.into_iter();
    let mut next = || parts.next().unwrap_or_else(|| t.clone());
    if let Some(c) = t.payload::<Coo>() {
        t.with_payload(c.with_parts([next(), next()]))
    } else if t.payload::<Csr>().is_some() {
        t.with_payload(Csr::of_parts([next(), next(), next()]))
    } else if let Some(q) = t.payload::<Quantized>() {
        let ints = next();
        let quantizer = match q.quantizer() {
            Quantizer::PerChannel { axis, .. } => {
                Quantizer::PerChannel { scales: next(), zero_points: next(), axis: *axis }
            }
            per_tensor => per_tensor.clone(),
        };
        t.with_payload(Quantized::of_parts(ints, quantizer))
    } else {
        t.with_payload(Nested::of_components(parts.collect()))
    }
}

/// In what two tensors differ besides their parts.
pub(crate) fn difference(new: &Tensor, old: &Tensor) -> Option<String> {
    let describe = |t: &Tensor| match t.kind_without_memory() {
        Some((kind, _)) => kind,
        None => "a plain tensor",
    };
    let (now, was) = (describe(new), describe(old));
    if now != was {
        return Some(format!("{now}, was {was}"));
    }
    let (Some(a), Some(b)) = (parts(new), parts(old)) else {
        return None;
    };
    let coalesced = |t: &Tensor| t.payload::<Coo>().map(Coo::is_coalesced);
    let scheme = |t: &Tensor| match t.payload::<Quantized>().map(Quantized::quantizer) {
        Some(Quantizer::PerTensor { scale, zero_point }) => Some((scale.to_bits(), *zero_point)),
        Some(Quantizer::PerChannel { axis, .. }) => Some((0, *axis as i64)),
        None => None,
    };
    let what = if new.sizes() != old.sizes() || new.dtype() != old.dtype() {
        "other sizes or another dtype"
    } else if a.len() != b.len() {
        "another number of components"
    } else if coalesced(new) != coalesced(old) {
        "coordinates that are coalesced where they were not, or the other way round"
    } else if scheme(new) != scheme(old) {
        "another scale or zero point"
    } else {
        return None;
    };
    Some(format!("{now} with {what}"))
}
