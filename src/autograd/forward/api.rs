//! Dual tensors as users see them.

use super::super::batches;
use super::super::error::AutogradError;
use super::super::graph::is_differentiable;
use super::tangent::{self, Carrying, laid_out, with_bits_of};
use crate::dispatch::count_levels;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::tensor::tangent::Level;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::Arc;

thread_local! {
    /// The level that dual tensors are made in.
    static LEVEL: RefCell<Option<Arc<Level>>> = const { RefCell::new(None) };
    /// How many `jvp`s run.
    static JVPS: Cell<u32> = const { Cell::new(0) };
}

/// A level of dual tensors, until it is dropped; [`dual_level`] is one for a closure.
///
/// ```
/// use straightline::{autograd::forward_ad::{DualLevel, make_dual, unpack_dual}, tensor};
/// let level = DualLevel::enter()?;
/// let y = make_dual(tensor([3.0])?, tensor([1.0])?)?.mul(2)?;
/// assert_eq!(unpack_dual(&y)?.tangent.unwrap().to_vec::<f32>()?, [2.0]);
/// drop(level);
/// assert!(unpack_dual(&y)?.tangent.is_none());
/// # Ok::<(), straightline::Error>(())
/// ```
#[must_use = "the level ends where its guard is dropped"]
pub struct DualLevel {
    level: Arc<Level>,
    on_this_thread: PhantomData<*const ()>,
}

impl std::fmt::Debug for DualLevel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DualLevel").finish_non_exhaustive()
    }
}

impl DualLevel {
    /// Begins a level on this thread.
    ///
    /// # Errors
    ///
    /// There is one already, or a [`jvp`](crate::func::jvp) runs, which has one of its own
    /// ([`AutogradError::NestedForward`]).
    ///
    /// ```
    /// use straightline::autograd::forward_ad::DualLevel;
    /// let _level = DualLevel::enter()?;
    /// assert!(DualLevel::enter().is_err());
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn enter() -> Result<DualLevel> {
        let nested = LEVEL.with_borrow(Option::is_some) || JVPS.get() > 0;
        if nested {
            return Err(AutogradError::NestedForward.into());
        }
        let level = begin();
        LEVEL.set(Some(level.clone()));
        Ok(DualLevel { level, on_this_thread: PhantomData })
    }
}

impl Drop for DualLevel {
    fn drop(&mut self) {
        let _ = LEVEL.try_with(|l| l.replace(None));
        end(&self.level);
    }
}

/// Runs `f` with a level of dual tensors: what [`make_dual`] makes in it carries its tangent through
/// operators, until the level ends. `no_grad` does not stop that, `inference_mode` does.
///
/// # Errors
///
/// As [`DualLevel::enter`], and those of `f`.
///
/// ```
/// use straightline::{autograd::forward_ad::{dual_level, make_dual, unpack_dual}, tensor};
/// let slope = dual_level(|| {
///     let x = make_dual(tensor([1.0, 2.0])?, tensor([10.0, 20.0])?)?;
///     Ok(unpack_dual(x.mul(&x)?)?.tangent.unwrap())
/// })?;
/// assert_eq!(slope.to_vec::<f32>()?, [20.0, 80.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn dual_level<R>(f: impl FnOnce() -> Result<R>) -> Result<R> {
    let _level = DualLevel::enter()?;
    f()
}

/// A view of `primal` that has a tangent. Gradients flow through it to `primal`, and through what is
/// computed of the tangent to `tangent`.
///
/// A tangent that is laid out as the primal is kept as it is, and a write of the dual tensor writes
/// it; another one is copied.
///
/// # Errors
///
/// There is no [`dual_level`]; numbers that have no derivatives; other sizes; `primal` has a
/// tangent already.
///
/// ```
/// use straightline::{autograd::forward_ad::{dual_level, make_dual, unpack_dual}, tensor};
/// let (x, t) = (tensor([1.0, 2.0])?, tensor([0.5, 0.25])?);
/// assert!(make_dual(&x, &t).is_err());
/// dual_level(|| {
///     let d = make_dual(&x, &t)?;
///     assert!(d.base().is_some_and(|b| b.is_same(&x)));
///     assert!(unpack_dual(&d)?.tangent.is_some_and(|u| u.is_same(&t)));
///     assert!(unpack_dual(&x)?.tangent.is_none());
///     Ok(())
/// })?;
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn make_dual(primal: impl AsRef<Tensor>, tangent: impl AsRef<Tensor>) -> Result<Tensor> {
    let (primal, tangent) = (primal.as_ref(), tangent.as_ref());
    let Some(level) = LEVEL.with_borrow(Option::clone) else {
        return Err(AutogradError::NoDualLevel.into());
    };
    check(primal, tangent)?;
    let batched = batches::batched_like(primal, tangent)?;
    let primal = batched.as_ref().unwrap_or(primal);
    if tangent::of(primal)?.is_some() {
        return Err(AutogradError::AlreadyDual.into());
    }
    let dual = apart(primal)?;
    let _rest = Carrying::set(false);
    put(&dual, tangent, &level)?;
    Ok(dual)
}

/// What a tangent has to be.
fn check(primal: &Tensor, tangent: &Tensor) -> Result<()> {
    for (what, t) in [("primal", primal), ("tangent", tangent)] {
        if !is_differentiable(t) {
            let dtype = t.dtype().torch_name();
            return Err(AutogradError::DualDType { what, dtype }.into());
        }
    }
    if primal.sizes() != tangent.sizes() {
        return Err(AutogradError::TangentSize {
            tensor: primal.sizes().to_vec(),
            tangent: tangent.sizes().to_vec(),
        }
        .into());
    }
    Ok(())
}

/// A tangent as given to a tensor that has none; of a batched one, to what is inside.
fn put(dual: &Tensor, tangent: &Tensor, level: &Arc<Level>) -> Result<()> {
    match batches::inside_batches(dual, Some(tangent))? {
        Some((inside, Some(tangent))) => put(&inside, &tangent, level),
        _ => {
            let tangent = with_bits_of(tangent.clone(), dual)?;
            dual.set_tangent(laid_out(tangent, dual)?, level);
            Ok(())
        }
    }
}

/// A view of a tensor without its tangent.
fn apart(t: &Tensor) -> Result<Tensor> {
    let _rest = Carrying::set(false);
    let view = aten::alias(t)?;
    let mut inside = view.clone();
    inside.set_apart();
    while let Some((deeper, _)) = batches::inside_batches(&inside, None)? {
        deeper.set_apart();
        inside = deeper;
    }
    Ok(view)
}

/// What [`unpack_dual`] gives.
#[derive(Clone, Debug)]
pub struct Unpacked {
    /// A view of the tensor that has no tangent.
    pub primal: Tensor,
    /// The tangent, if the tensor has one.
    pub tangent: Option<Tensor>,
}

/// The two halves of a dual tensor; of a tensor without a tangent, or outside of a level, the tensor
/// and none.
///
/// # Errors
///
/// Those of views.
///
/// ```
/// use straightline::{autograd::forward_ad::{dual_level, make_dual, unpack_dual}, tensor};
/// dual_level(|| {
///     let y = make_dual(tensor([1.0])?, tensor([3.0])?)?.exp()?;
///     let halves = unpack_dual(&y)?;
///     assert!(halves.tangent.is_some() && unpack_dual(&halves.primal)?.tangent.is_none());
///     Ok(())
/// })?;
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn unpack_dual(dual: impl AsRef<Tensor>) -> Result<Unpacked> {
    let dual = dual.as_ref();
    if LEVEL.with_borrow(Option::is_none) {
        return Ok(Unpacked { primal: dual.clone(), tangent: None });
    }
    let tangent = found(dual)?;
    Ok(Unpacked { primal: apart(dual)?, tangent })
}

/// The tangent of a tensor; of a batched one that of what is inside.
fn found(t: &Tensor) -> Result<Option<Tensor>> {
    match batches::inside_batches(t, None)? {
        Some((inside, _)) => match found(&inside)? {
            Some(tangent) => batches::batched_as(t, &tangent).map(Some),
            None => Ok(None),
        },
        None => Ok(tangent::of(t)?.map(|(tangent, _)| tangent)),
    }
}

/// A new level, which all threads count.
fn begin() -> Arc<Level> {
    count_levels(true);
    Arc::new(Level::default())
}

/// Ends it and lets its tangents go.
fn end(level: &Level) {
    if level.end() {
        count_levels(false);
    }
}

/// The level of a `jvp`, whose variables are the only dual tensors in it.
pub(crate) fn enter_jvp() -> Arc<Level> {
    JVPS.set(JVPS.get() + 1);
    begin()
}

/// The end of it.
pub(crate) fn leave_jvp(level: &Level) {
    let _ = JVPS.try_with(|n| n.set(n.get().saturating_sub(1)));
    end(level);
}

/// Makes a fresh tensor a variable of a `jvp`.
pub(crate) fn make_variable(t: &Tensor, tangent: &Tensor, level: &Arc<Level>) -> Result<()> {
    check(t, tangent)?;
    t.set_tangent(tangent.clone(), level);
    Ok(())
}

/// The tangent that a `jvp` has given a result.
pub(crate) fn tangent_of(t: &Tensor) -> Result<Option<Tensor>> {
    Ok(tangent::of_written(t)?.map(|(tangent, _)| tangent))
}
