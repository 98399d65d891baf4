//! The tangents of views, and of tensors that are written.
//!
//! A view of a dual tensor has a view of its tangent, so that a write through either is seen by
//! both. A view that was made before its base got a tangent finds it there when somebody asks, and
//! a write of a dual value through a view gives the base a tangent of zeros first.

use super::super::batches;
use super::super::error::AutogradError;
use super::super::mode::GradGuard;
use super::super::view;
use crate::dispatch::{forward_enabled, set_forward_enabled};
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::tensor::tangent::Level;
use std::marker::PhantomData;
use std::sync::Arc;

/// Whether operators of this thread carry tangents on, until it is dropped.
pub(crate) struct Carrying {
    before: bool,
    on_this_thread: PhantomData<*const ()>,
}

impl Carrying {
    pub(crate) fn set(on: bool) -> Carrying {
        Carrying { before: set_forward_enabled(on), on_this_thread: PhantomData }
    }
}

impl Drop for Carrying {
    fn drop(&mut self) {
        set_forward_enabled(self.before);
    }
}

/// The tangent of a tensor, and its level.
pub(crate) fn of(t: &Tensor) -> Result<Option<(Tensor, Arc<Level>)>> {
    if !t.may_be_dual() || !forward_enabled() {
        return Ok(None);
    }
    if let Some(own) = t.own_tangent() {
        return Ok(Some(own));
    }
    let Some(base) = t.base().filter(|_| !t.is_apart()) else { return Ok(None) };
    // a base may be a view in another sense than by strides
    let Some((tangent, level)) = of(base)? else { return Ok(None) };
    let _rest = Carrying::set(false);
    let _grad = GradGuard::set(true);
    let laid = laid_out(tangent.clone(), base)?;
    if !laid.same_handle(&tangent) {
        // the base has the one that the view lies in, so that both see what is written
        base.set_tangent(laid.clone(), &level);
    }
    let own = view::taken(t, &laid)?;
    t.set_tangent(own.clone(), &level);
    Ok(Some((own, level)))
}

/// Whether two tensors of the same sizes have their elements at the same distances.
fn same_layout(a: &Tensor, b: &Tensor) -> bool {
    let mut dims = a.sizes().iter().zip(a.strides()).zip(b.strides());
    dims.all(|((size, a), b)| *size < 2 || a == b)
}

/// Whether each element has a place of its own, as far as strides tell.
fn has_room(t: &Tensor) -> bool {
    t.sizes().iter().zip(t.strides()).all(|(size, stride)| *size < 2 || *stride != 0)
}

/// A tangent laid out as its primal, so that views of both are taken in the same way.
pub(super) fn laid_out(tangent: Tensor, primal: &Tensor) -> Result<Tensor> {
    if same_layout(&tangent, primal) || !has_room(primal) || !strided(primal) || !strided(&tangent)
    {
        return Ok(tangent);
    }
    let fresh = empty_as(&tangent, primal)?;
    aten::copy_(&fresh, &tangent, false)
}

/// A tangent that stands for the conjugate or the negation of its memory where its primal does, so
/// that operators that read the memory give the tangent of what they give.
pub(super) fn with_bits_of(tangent: Tensor, primal: &Tensor) -> Result<Tensor> {
    let mut tangent = tangent;
    if tangent.is_conj() != primal.is_conj() {
        tangent = match primal.is_conj() {
            true => aten::_conj(&aten::resolve_conj(&aten::_conj(&tangent)?)?)?,
            false => aten::resolve_conj(&tangent)?,
        };
    }
    if tangent.is_neg() != primal.is_neg() {
        tangent = match primal.is_neg() {
            true => aten::_neg_view(&aten::resolve_neg(&aten::_neg_view(&tangent)?)?)?,
            false => aten::resolve_neg(&tangent)?,
        };
    }
    Ok(tangent)
}

/// Room for the tangent of a tensor, of the kind that `like` is: a batch if that is one.
fn empty_as(like: &Tensor, primal: &Tensor) -> Result<Tensor> {
    let (sizes, strides) = (primal.sizes(), primal.strides());
    let dtype = Some(primal.dtype());
    match has_room(primal) && strided(primal) {
        true => aten::new_empty_strided(like, sizes, strides, dtype, None, None, None),
        false => aten::new_empty(like, sizes, dtype, None, None, None),
    }
}

fn strided(t: &Tensor) -> bool {
    t.layout() == straightline_catalog::Layout::Strided
}

/// Gives what was written its new tangent: an old one is written as well, since views share it.
pub(super) fn write(t: &Tensor, new: Tensor, level: &Arc<Level>) -> Result<()> {
    if let Some((old, of)) = of_written(t)? {
        if !has_room(&old) {
            t.set_tangent(new, level);
            return Ok(());
        }
        let old = match !old.is_zerotensor() && batches::holds(&old, &new) {
            true => old,
            false => moved(&old, &new, &of)?,
        };
        aten::copy_(&old, &new, false)?;
        return Ok(());
    }
    let Some(base) = t.base() else {
        t.set_tangent(own(laid_out(new.clone(), t)?, &new)?, level);
        return Ok(());
    };
    if t.is_apart() {
        let whole = base.sizes() == t.sizes() && same_layout(base, t);
        if !whole {
            return Err(AutogradError::ForwardView.into());
        }
        t.set_tangent(own(laid_out(new.clone(), t)?, &new)?, level);
        return Ok(());
    }
    begin_with_zeros(base, &new, level)?;
    match of_written(t)? {
        Some((part, _)) => aten::copy_(&part, &new, false).map(drop),
        None => Err(AutogradError::ForwardView.into()),
    }
}

/// A tangent in memory that takes what `like` is: samples, where the old memory has none. All tangents
/// that lie in the old memory move with it.
fn moved(old: &Tensor, like: &Tensor, level: &Level) -> Result<Tensor> {
    let mut root = old;
    while let Some(base) = root.base() {
        root = base;
    }
    let fresh = empty_as(like, root)?;
    let fresh = match root.is_zerotensor() {
        true => aten::zero_(&fresh)?,
        false => aten::copy_(&fresh, root, false)?,
    };
    let again = |t: &Tensor| match t.shares_storage_with(root) {
        true => view::taken_again(t, &fresh).map(Some),
        false => Ok(None),
    };
    let new = view::taken_again(old, &fresh)?;
    level.replace_each(&|t| match t.same_handle(old) {
        true => Ok(Some(new.clone())),
        false => again(t),
    })?;
    Ok(new)
}

/// Gives the base of a view that is written a tangent of zeros, if it has none.
fn begin_with_zeros(base: &Tensor, like: &Tensor, level: &Arc<Level>) -> Result<()> {
    if of_written(base)?.is_some() {
        return Ok(());
    }
    match base.base().filter(|_| !base.is_apart()) {
        Some(of) => begin_with_zeros(of, like, level),
        None => {
            base.set_tangent(aten::zero_(&empty_as(like, base)?)?, level);
            Ok(())
        }
    }
}

/// As [`of`], while tangents are not carried on.
pub(crate) fn of_written(t: &Tensor) -> Result<Option<(Tensor, Arc<Level>)>> {
    let _on = Carrying::set(true);
    of(t)
}

/// A tensor that is not the other one.
fn own(t: Tensor, other: &Tensor) -> Result<Tensor> {
    match t.same_handle(other) {
        true => aten::clone(&t, None),
        false => Ok(t),
    }
}
