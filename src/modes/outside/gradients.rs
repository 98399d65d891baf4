//! What a captured function does to `.grad` of tensors from outside, and what it does with gradients
//! that no replay repeats.

use super::with;
use crate::error::{Error, ErrorKind};
use crate::modes::functionalize::{self, Owner};
use crate::modes::tracer;
use crate::tensor::{Held, Tensor};
use std::sync::PoisonError;

/// A tensor from outside whose `.grad` the function has read or set.
pub(crate) struct Touched {
    /// The tensor as the function has it: itself, or the stand-in of an argument.
    tensor: Held,
    /// The tensor itself.
    pub(crate) real: Tensor,
    /// How a call finds it.
    pub(crate) owner: Owner,
    /// Its `.grad` when the function began.
    pub(crate) before: Option<Tensor>,
    /// The function has read it before it set another one.
    pub(crate) read: bool,
    /// It has only been met so far.
    met: bool,
    /// The hooks that it had.
    pub(crate) hooks: Vec<u64>,
    /// Which argument its `.grad` is, where it is one, and what stands for it.
    pub(crate) bound: Option<(usize, Held)>,
}

impl Touched {
    /// The `.grad` that is an argument.
    pub(crate) fn argument(&self) -> Option<(usize, &Tensor)> {
        self.bound.as_ref().map(|(index, _)| *index).zip(self.before.as_ref())
    }
}

/// What became of one.
pub(crate) struct Gradient {
    pub(crate) touched: Touched,
    /// Its `.grad` when the function ended, if it is another one.
    pub(crate) after: Option<Option<Tensor>>,
}

/// `.grad` of a tensor, as it is.
pub(crate) fn grad_of(t: &Tensor) -> Option<Tensor> {
    let cell = t.history().rest.as_ref()?.grad.clone();
    let grad = cell.lock().unwrap_or_else(PoisonError::into_inner);
    grad.clone()
}

/// Sets it.
pub(crate) fn put_grad(t: &Tensor, grad: Option<Tensor>) {
    if grad.is_none() && t.history().rest.is_none() {
        return;
    }
    let cell = t.history().rest().grad.clone();
    let before = {
        let mut now = cell.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *now, grad)
    };
    drop(before);
}

/// From now on each `.grad` that the function reads is one more argument, after this many: a call
/// uses what there is then.
pub(crate) fn bind_gradients(arguments: usize) {
    with(|w| w.bind_after = Some(arguments));
}

/// Makes a `.grad` an argument, if nothing else has it or its memory.
fn bind(t: &Tensor, before: Option<&Tensor>) -> Option<(usize, Held)> {
    let before = before?;
    let after = with(|w| {
        let others = w.touched.iter().filter(|g| g.bound.is_some()).count();
        w.bind_after.map(|n| n + others)
    })??;
    let plain = !before.requires_grad()
        && before.kind_without_memory().is_none()
        && !before.is_fake()
        && !before.has_math_bits()
        && before.storage().is_unshared()
        && functionalize::leaves().iter().all(|leaf| !leaf.real.same_handle(before));
    if !plain {
        return None;
    }
    let stand_in = functionalize::wrap_argument(before, after).ok()?;
    put_grad(t, Some(stand_in.clone()));
    Some((after, Held::new(stand_in)))
}

/// The hooks of a leaf, by number.
pub(crate) fn hooks_of(t: &Tensor) -> Vec<u64> {
    let state = t.history();
    let Some(rest) = &state.rest else { return Vec::new() };
    let after = rest.after.iter().map(|(id, _)| *id);
    rest.hooks.iter().map(|(id, _)| *id).chain(after).collect()
}

/// The function is about to read `.grad` of a tensor, or to replace it.
#[inline]
pub(crate) fn touches_grad(t: &Tensor, replaces: bool) {
    if tracer::current().is_some() {
        touch(t, replaces, false);
    }
}

/// A backward pass of the function comes to a leaf, whose hooks run.
#[inline]
pub(crate) fn meets_leaf(t: &Tensor) {
    if tracer::current().is_some() {
        touch(t, true, true);
    }
}

#[cold]
fn touch(t: &Tensor, replaces: bool, met: bool) {
    let free = met && hooks_of(t).is_empty();
    if tracer::in_subgraph() && !free && functionalize::is_outside(t) {
        super::refuse(
            "the use of `.grad`, or `backward()`, inside of a branch or loop",
            "a call may take another branch: compute gradients around it, or return them from it (`autograd::grad`)",
            None,
        );
        return;
    }
    let known = with(|w| match w.touched.iter_mut().find(|g| g.tensor.same_handle(t)) {
        Some(known) => {
            let begins = known.met && !met;
            if begins {
                (known.met, known.read) = (false, !replaces);
            }
            Some((begins && !replaces).then(|| known.before.clone()))
        }
        None => None,
    });
    if let Some(Some(reads)) = &known {
        if let Some(before) = reads {
            let bound = bind(t, before.as_ref());
            with(|w| {
                let known = w.touched.iter_mut().find(|g| g.tensor.same_handle(t));
                known.map(|known| known.bound = bound)
            });
        }
        return;
    }
    let known = known.map(|known| known.is_some());
    if known != Some(false) || !functionalize::is_outside(t) {
        return;
    }
    let (real, owner) = match functionalize::is_wrapper(t) {
        false => (t.clone(), Owner::Tensor(Held::new(t.clone()))),
        true => match functionalize::original(t) {
            Some(found) => found,
            None => return,
        },
    };
    let before = grad_of(&real);
    if functionalize::is_wrapper(t) {
        put_grad(t, before.clone());
    }
    let hooks = hooks_of(&real);
    let bound = match replaces {
        true => None,
        false => bind(t, before.as_ref()),
    };
    let (tensor, read) = (Held::new(t.clone()), !replaces);
    let touched = Touched { tensor, real, owner, before, read, met, hooks, bound };
    with(|w| w.touched.push(touched));
}

/// What the function has done to `.grad` of tensors from outside, which is undone.
pub(crate) fn take_gradients() -> Vec<Gradient> {
    let touched = with(|w| std::mem::take(&mut w.touched)).unwrap_or_default();
    let gradient = |touched: Touched| {
        let now = grad_of(&touched.tensor);
        touched.put_back();
        let same = match (&now, &touched.before) {
            (None, None) => true,
            (Some(a), Some(b)) => {
                a.same_handle(b) || touched.bound.as_ref().is_some_and(|(_, s)| a.same_handle(s))
            }
            _ => false,
        };
        Gradient { touched, after: (!same).then_some(now) }
    };
    touched.into_iter().map(gradient).collect()
}

impl Touched {
    pub(super) fn put_back(&self) {
        match functionalize::is_wrapper(&self.tensor) {
            true => put_grad(&self.tensor, None),
            false => put_grad(&self.tensor, self.before.clone()),
        }
    }
}

/// The function does something with gradients that a compiled call cannot do: it runs eagerly.
#[cold]
pub(crate) fn leave_eager(why: &str) -> Error {
    with(|w| w.eager.get_or_insert_with(|| why.to_string()).len());
    Error::new(ErrorKind::NotCaptured { what: "gradients here".into(), why: why.to_string() })
}

/// [`leave_eager`] where this thread captures a function and the tensor was there before.
#[inline]
pub(crate) fn check_history(t: &Tensor, why: &str) -> crate::error::Result<()> {
    match tracer::current() {
        Some(_) if functionalize::is_outside(t) => Err(leave_eager(why)),
        _ => Ok(()),
    }
}

/// [`leave_eager`] in a branch or the body of a loop: its gradient is that of its calls, and no more of
/// the tape is kept.
#[inline]
pub(crate) fn check_in_subgraph(what: &str) -> crate::error::Result<()> {
    match tracer::in_subgraph() {
        false => Ok(()),
        true => Err(leave_eager(&format!("{what} in a branch or loop"))),
    }
}

/// Why the function has to run eagerly, if it has.
pub(crate) fn left_eager() -> Option<String> {
    with(|w| w.eager.take()).flatten()
}

/// Whether a stand-in stands for an argument that was computed from others which want gradients.
pub(crate) fn stands_for_computed(t: &Tensor) -> bool {
    if tracer::current().is_none() || !functionalize::is_wrapper(t) {
        return false;
    }
    let computed = |t: &Tensor| t.base().is_some() || t.own_grad_fn().is_some();
    functionalize::original(t).is_some_and(|(real, _)| real.requires_grad() && computed(&real))
}
