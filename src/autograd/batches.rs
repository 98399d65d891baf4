//! What gradients and tangents ask of function transforms, which are a later room: that fills in
//! [`Batches`] when it registers its kernels.

use crate::dispatch::ensure_built_in;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use std::sync::OnceLock;

/// The gradients that a pass ends with.
type Ends = Result<Vec<Option<Tensor>>>;

/// A pass as a function of the gradients that it begins with.
pub(crate) type PassOf<'a> = &'a dyn Fn(&[Option<Tensor>]) -> Ends;

/// A tensor and its tangent, if that was asked for.
type Half = (Tensor, Option<Tensor>);

/// What is known of batches, and of the transforms that a thread is in.
pub(crate) struct Batches {
    /// Runs a pass for all gradients of a batch at once.
    pub(crate) run: fn(&[Option<Tensor>], PassOf<'_>) -> Ends,
    /// Whether the thread is in a transform.
    pub(crate) is_running: fn() -> bool,
    /// What is inside of a batched tensor, with a tangent of the same kind: one for each sample.
    pub(crate) inside: fn(&Tensor, Option<&Tensor>) -> Result<Option<Half>>,
    /// A tensor that the samples share, as one for each of them, if the other one is a batch.
    pub(crate) like: fn(&Tensor, &Tensor) -> Result<Option<Tensor>>,
    /// Whether the memory of a tensor has a place for each sample of the other one.
    pub(crate) holds: fn(&Tensor, &Tensor) -> bool,
    /// What was found inside of a batched tensor, as a batch.
    pub(crate) batched: fn(&Tensor, &Tensor) -> Result<Tensor>,
}

static BATCHES: OnceLock<Batches> = OnceLock::new();

/// Sets what is known of batches, once.
pub(crate) fn set_batches(batches: Batches) {
    // a second one would be the same
    let _ = BATCHES.set(batches);
}

/// What is known. A transform may run before the thread has called any operator, so the first one to
/// ask starts the registrations.
fn known() -> Option<&'static Batches> {
    ensure_built_in();
    BATCHES.get()
}

/// Runs a pass for all gradients of a batch at once.
pub(super) fn run(grads: &[Option<Tensor>], pass: PassOf<'_>) -> Ends {
    match known() {
        Some(batches) => (batches.run)(grads, pass),
        None => Err(Error::not_implemented("is_grads_batched without vmap")),
    }
}

/// Whether the thread is in a transform.
pub(super) fn is_transforming() -> bool {
    known().is_some_and(|b| (b.is_running)())
}

/// What is inside of a batched tensor, with a tangent of the same kind.
pub(super) fn inside_batches(t: &Tensor, tangent: Option<&Tensor>) -> Result<Option<Half>> {
    known().map_or(Ok(None), |b| (b.inside)(t, tangent))
}

/// A tensor that the samples share, as one for each of them, if the other one is a batch.
pub(super) fn batched_like(t: &Tensor, other: &Tensor) -> Result<Option<Tensor>> {
    known().map_or(Ok(None), |b| (b.like)(t, other))
}

/// Whether the memory of a tensor has a place for each sample of the other one.
pub(super) fn holds(t: &Tensor, other: &Tensor) -> bool {
    known().is_none_or(|b| (b.holds)(t, other))
}

/// What was found inside of a batched tensor, as a batch.
pub(super) fn batched_as(t: &Tensor, inside: &Tensor) -> Result<Tensor> {
    known().map_or_else(|| Ok(inside.clone()), |b| (b.batched)(t, inside))
}
