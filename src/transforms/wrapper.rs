//! Tensors as a layer sees them: what a function that is differentiated or batched is given.

use super::layer::Layer;
use crate::dispatch::{DispatchKey, DispatchKeySet};
use crate::error::Result;
use crate::tensor::Tensor;
use crate::tensor::history::Kind;
use crate::tensor::storage::Storage;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use straightline_catalog::{Dims, layout};

/// A tensor with a history of its own, which is that of its layer.
struct Tracked {
    value: Tensor,
    layer: u64,
    level: usize,
    alive: Arc<AtomicBool>,
}

/// Several samples that pass for one.
struct Batched {
    value: Tensor,
    /// The dimension of `value` that counts the samples.
    bdim: usize,
    layer: u64,
    level: usize,
}

/// What wrappers keep of the keys of what is inside.
const KEPT: DispatchKeySet = DispatchKeySet::of(&[DispatchKey::Conjugate, DispatchKey::Negative]);

fn build<P: Send + Sync + 'static>(
    value: &Tensor,
    (sizes, strides, offset): (&[i64], &[i64], i64),
    key: DispatchKey,
    payload: P,
) -> Tensor {
    let keys = DispatchKeySet::for_device(value.device().kind).add(key) | (value.key_set() & KEPT);
    let bytes = layout::storage_bytes(value.dtype().size(), sizes, strides, offset);
    let storage = Storage::without_data(bytes);
    let (dtype, device) = (value.dtype(), value.device());
    let payload = Arc::new(payload);
    let t = Tensor::build_with(storage, dtype, device, sizes, strides, offset, keys, Some(payload));
    if value.is_wrapped_number() { t.into_wrapped_number() } else { t }
}

/// Whether something outside differentiates what is inside of a wrapper, of which the wrapper says
/// nothing.
pub(super) fn is_differentiated_outside(t: &Tensor) -> bool {
    inside(t).any(|t| t.requires_grad() || t.has_tangent())
}

fn next_inside(t: &Tensor) -> Option<&Tensor> {
    match t.payload::<Batched>() {
        Some(p) => Some(&p.value),
        None => t.payload::<Tracked>().map(|p| &p.value),
    }
}

/// What is inside of a wrapper, and what is inside of that.
fn inside(t: &Tensor) -> impl Iterator<Item = &Tensor> {
    std::iter::successors(next_inside(t), |t| next_inside(t))
}

/// Whether a tensor is batched at each layer that the other one is batched at.
pub(super) fn holds(t: &Tensor, other: &Tensor) -> bool {
    fn layers(t: &Tensor) -> Vec<u64> {
        let all = std::iter::once(t).chain(inside(t));
        all.filter_map(|t| t.payload::<Batched>()).map(|p| p.layer).collect()
    }
    let wanted = layers(other);
    wanted.is_empty() || {
        let has = layers(t);
        wanted.iter().all(|l| has.contains(l))
    }
}

/// A tensor as a `Grad` layer sees it.
pub(super) fn tracked(value: &Tensor, layer: &Layer) -> Tensor {
    let payload = Tracked {
        value: value.clone(),
        layer: layer.id,
        level: layer.level,
        alive: layer.alive.clone(),
    };
    let shape = (value.sizes(), value.strides(), value.offset());
    build(value, shape, DispatchKey::FuncTorchGradWrapper, payload)
}

/// The same of a view of what the wrapper `of` has inside.
pub(super) fn tracked_view(
    value: &Tensor,
    of: &Tensor,
    kind: Option<Kind>,
    layer: &Layer,
) -> Tensor {
    let t = tracked(value, layer).placed_in(of, value.offset());
    match kind {
        Some(kind) => t.into_view_of(of, kind, crate::autograd::is_grad_enabled()),
        None => t,
    }
}

/// What is inside of a layer's own wrapper.
pub(super) fn value_of<'t>(t: &'t Tensor, layer: &Layer) -> Option<&'t Tensor> {
    t.payload::<Tracked>().filter(|p| p.layer == layer.id).map(|p| &p.value)
}

/// A tensor as the layers below see it.
pub(super) fn unwrapped(t: &Tensor, layer: &Layer) -> Tensor {
    value_of(t, layer).unwrap_or(t).clone()
}

/// The wrapper as its value is after a write.
pub(super) fn refresh(t: &Tensor, layer: &Layer) -> Result<()> {
    let Some(value) = value_of(t, layer) else { return Ok(()) };
    t.set_geometry(value.sizes(), value.strides(), value.offset())?;
    // counts as a version
    t.storage().write().map(drop)
}

/// What a wrapper whose layer has ended stands for.
pub(super) fn outlived(t: &Tensor) -> Option<Tensor> {
    let mut inside = None;
    let mut at = t;
    while let Some(p) = at.payload::<Tracked>().filter(|p| !p.alive.load(Ordering::Acquire)) {
        at = &p.value;
        inside = Some(at);
    }
    inside.cloned()
}

/// A tensor whose dimension `bdim` counts the samples of a `Vmap` layer.
pub(super) fn batched(value: &Tensor, bdim: usize, layer: &Layer) -> Tensor {
    let without = |dims: &[i64]| {
        let mut dims = Dims::from_slice(dims);
        dims.remove(bdim);
        dims
    };
    let payload = Batched { value: value.clone(), bdim, layer: layer.id, level: layer.level };
    let (sizes, strides) = (without(value.sizes()), without(value.strides()));
    build(value, (&sizes, &strides, value.offset()), DispatchKey::FuncTorchBatched, payload)
}

/// The value and the dimension of the samples, if a tensor is one of the layer's own.
pub(super) fn samples_of<'t>(t: &'t Tensor, layer: &Layer) -> Option<(&'t Tensor, usize)> {
    t.payload::<Batched>().filter(|p| p.layer == layer.id).map(|p| (&p.value, p.bdim))
}

/// A wrapper as PyTorch prints it, with what is inside.
pub(super) fn describe(t: &Tensor) -> Option<(String, &Tensor)> {
    if let Some(p) = t.payload::<Tracked>() {
        return Some((format!("GradTrackingTensor(lvl={}, value=", p.level), &p.value));
    }
    let p = t.payload::<Batched>()?;
    Some((format!("BatchedTensor(lvl={}, bdim={}, value=", p.level, p.bdim), &p.value))
}
