//! What functions of the user's keep, and how they are batched.

use super::error::AutogradError;
use crate::error::Result;
use crate::tensor::Tensor;
use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

/// What a [`Function`](super::Function) keeps between its two halves.
#[derive(Default)]
pub struct Context {
    pub(crate) to_save: Vec<Tensor>,
    pub(crate) dirty: Vec<Tensor>,
    pub(crate) no_gradient: Vec<Tensor>,
    pub(crate) keeps_none: bool,
    pub(crate) wanted: Vec<bool>,
    pub(crate) values: Vec<Arc<dyn Any + Send + Sync>>,
    saved: Mutex<Option<Vec<Tensor>>>,
    node: Mutex<Option<String>>,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("to_save", &self.to_save.len()).finish_non_exhaustive()
    }
}

impl Context {
    /// Keeps tensors for the backward pass, in place of those of an earlier call. Inputs and
    /// results are checked for writes until then; anything else becomes a constant of the
    /// gradient.
    pub fn save(&mut self, tensors: &[&Tensor]) {
        self.to_save = tensors.iter().map(|t| (*t).clone()).collect();
    }

    /// The tensors that were kept.
    ///
    /// # Errors
    ///
    /// A backward pass has freed them.
    pub fn saved(&self) -> Result<Vec<Tensor>> {
        let saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        let node = || {
            let node = self.node.lock().unwrap_or_else(PoisonError::into_inner);
            node.clone().unwrap_or_default()
        };
        saved.clone().ok_or_else(|| AutogradError::Twice { node: node(), made: None }.into())
    }

    /// Keeps anything else; [`Context::value`] gives it back.
    pub fn keep(&mut self, value: impl Any + Send + Sync) {
        self.values.push(Arc::new(value));
    }

    /// The first kept value of a type.
    pub fn value<T: Any>(&self) -> Option<&T> {
        self.values.iter().find_map(|v| v.downcast_ref())
    }

    /// Says that inputs were written in place. They must be returned.
    pub fn mark_dirty(&mut self, tensors: &[&Tensor]) {
        self.dirty = tensors.iter().map(|t| (*t).clone()).collect();
    }

    /// Says that results have no gradient.
    pub fn mark_non_differentiable(&mut self, tensors: &[&Tensor]) {
        self.no_gradient = tensors.iter().map(|t| (*t).clone()).collect();
    }

    /// Whether `backward` is given zeros for results that no gradient arrives at (as it is unless
    /// this is called with `false`), or `None`.
    pub fn set_materialize_grads(&mut self, on: bool) {
        self.keeps_none = !on;
    }

    /// For each input, whether it wanted a gradient when the function was called.
    pub fn needs_input_grad(&self) -> &[bool] {
        &self.wanted
    }

    /// Of a call with inputs that want gradients, or do not.
    pub(crate) fn wanting(wanted: Vec<bool>) -> Context {
        Context { wanted, ..Context::default() }
    }

    /// What the other half of a function sees, with these for the tensors that were kept.
    pub(crate) fn with_saved(&self, saved: Vec<Tensor>) -> Context {
        Context {
            keeps_none: self.keeps_none,
            wanted: self.wanted.clone(),
            values: self.values.clone(),
            saved: Mutex::new(Some(saved)),
            ..Context::default()
        }
    }

    /// The tensors at hand from now on; `None` when they are freed.
    pub(super) fn set_saved(&self, saved: Option<Vec<Tensor>>) {
        let before = std::mem::replace(
            &mut *self.saved.lock().unwrap_or_else(PoisonError::into_inner),
            saved,
        );
        drop(before);
    }

    /// The node that errors name.
    pub(super) fn set_node(&self, name: &str) {
        *self.node.lock().unwrap_or_else(PoisonError::into_inner) = Some(name.to_string());
    }
}

/// How [`vmap`](crate::func::vmap) batches a [`Function`](super::Function).
///
/// ```
/// use straightline::autograd::VmapRule;
/// assert_eq!(VmapRule::default(), VmapRule::None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum VmapRule {
    /// `forward` runs on the batch, and the operators that it calls are batched. Where something
    /// outside of the `vmap` differentiates, which would not see the function's own gradient, that is an
    /// error.
    #[default]
    None,
    /// `forward`, `backward` and `jvp` are batched themselves (PyTorch's `generate_vmap_rule`).
    Generated,
    /// [`Function::vmap`](super::Function::vmap).
    Own,
}

/// The batch that [`Function::vmap`](super::Function::vmap) is called for.
///
/// ```
/// use straightline::{autograd::VmapInfo, func::Randomness};
/// let info = VmapInfo { batch_size: 3, randomness: Randomness::Error };
/// assert_eq!(info.batch_size, 3);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VmapInfo {
    /// How many samples there are.
    pub batch_size: i64,
    /// What the `vmap` does with random operators.
    pub randomness: Randomness,
}

/// What [`vmap`](crate::func::vmap) does with operators that draw random numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Randomness {
    /// They are errors.
    #[default]
    Error,
    /// Each sample gets its own numbers.
    Different,
    /// All samples get the same numbers.
    Same,
}
