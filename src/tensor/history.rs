//! What a tensor knows about gradients: whether it wants one, which node made it, of what it is a
//! view. c10 calls it `AutogradMeta`.
//!
//! Whether a tensor takes part is a bit beside its dispatch keys, so that a call without gradients
//! learns that from the word that it reads anyway. The rest lies behind a lock, of which only calls
//! that record take notice.

use super::node::{Edge, Node};
use super::tangent::Slot;
use super::{Tensor, TensorImpl};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use straightline_catalog::DispatchKeySet;

/// In what a tensor takes part: it wants a gradient.
pub(super) const WANTS: u8 = 1;
/// It has a tangent, or had one.
pub(super) const DUAL: u8 = 2;

/// Why a view must not be written while gradients are recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Creation {
    /// It may be.
    Default,
    /// It is one of several that one operator gave.
    Several,
    /// It was made while nothing was recorded.
    NoGrad,
    /// It was made in inference mode.
    Inference,
    /// It came out of a function whose gradient is the user's.
    Function,
}

/// How a view follows from its base.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    /// By sizes, strides and an offset.
    Strided,
    Real,
    Complex,
    Conj,
    Neg,
    /// The bytes as another dtype.
    DType,
}

/// Who asks for a gradient of a tensor: a view's base does so for the view, whose history is another
/// one then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wants {
    own: bool,
    base: bool,
}

impl Wants {
    pub(crate) fn any(self) -> bool {
        self.own || self.base
    }
}

/// The part of a tensor that says that it is a view.
pub(super) struct View {
    pub(super) base: Option<Tensor>,
    pub(super) kind: Kind,
    pub(super) creation: AtomicU8,
    /// The version of the storage at which the node was the right one.
    pub(super) version: AtomicU64,
    /// The base's tangent is none of the view's: it came out of `make_dual` or `unpack_dual`.
    pub(super) apart: AtomicBool,
}

/// See the module.
#[derive(Default)]
pub(super) struct History(Mutex<State>);

/// What lies behind the lock.
#[derive(Default)]
pub(crate) struct State {
    /// The node that the tensor came out of, and as which output.
    grad_fn: Option<Edge>,
    pub(crate) rest: Option<Box<Rest>>,
}

type LeafHook = Arc<dyn Fn(Option<&Tensor>) -> crate::Result<Option<Tensor>> + Send + Sync>;
type PostAccumulate = Arc<dyn Fn(&Tensor) -> crate::Result<()> + Send + Sync>;

/// What few tensors have.
#[derive(Default)]
pub(crate) struct Rest {
    /// The gradient; shared with the hook that retains it.
    pub(crate) grad: Arc<Mutex<Option<Tensor>>>,
    pub(crate) accumulator: Option<Weak<Node>>,
    /// Of a leaf.
    pub(crate) hooks: Vec<(u64, LeafHook)>,
    pub(crate) after: Vec<(u64, PostAccumulate)>,
    /// A tensor that is no leaf keeps its gradient.
    pub(crate) retains: bool,
    /// The tangent, while its level lasts.
    pub(crate) tangent: Option<Arc<Slot>>,
}

impl State {
    pub(crate) fn grad_fn(&self) -> Option<&Edge> {
        self.grad_fn.as_ref()
    }

    pub(crate) fn rest(&mut self) -> &mut Rest {
        self.rest.get_or_insert_default()
    }
}

impl View {
    #[inline(always)]
    pub(super) fn none() -> View {
        View {
            base: None,
            kind: Kind::Strided,
            creation: AtomicU8::new(0),
            version: AtomicU64::new(0),
            apart: AtomicBool::new(false),
        }
    }
}

impl Tensor {
    fn inner(&self) -> &TensorImpl {
        &self.0
    }

    /// The keys that the tensor gives to a call: with the mark of those that record.
    #[inline(always)]
    pub(crate) fn call_keys(&self) -> DispatchKeySet {
        let keys = self.0.keys.marked();
        match &self.0.view.base {
            None => keys,
            Some(base) => keys | base.mark(),
        }
    }

    /// The mark of a tensor that records, or whose base does.
    #[inline(never)]
    fn mark(&self) -> DispatchKeySet {
        self.call_keys() & DispatchKeySet::RECORDS
    }

    /// Whether gradients are computed for this tensor: it is a leaf that asks for one
    /// ([`Tensor::requires_grad_`]), or was computed from one.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0, 2.0])?.requires_grad_(true)?;
    /// assert!(x.requires_grad() && x.mul(2)?.requires_grad());
    /// assert!(!x.detach()?.requires_grad());
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[inline]
    pub fn requires_grad(&self) -> bool {
        self.0.takes_part.load(Ordering::Relaxed) & WANTS != 0
            || self.0.view.base.as_ref().is_some_and(Tensor::requires_grad)
    }

    /// [`Tensor::requires_grad`], and because of what.
    #[inline]
    pub(crate) fn wants(&self) -> Wants {
        Wants {
            own: self.0.takes_part.load(Ordering::Relaxed) & WANTS != 0,
            base: self.0.view.base.as_ref().is_some_and(Tensor::requires_grad),
        }
    }

    /// Whether neither it nor a base takes part in anything: it wants no gradient and has no
    /// tangent.
    #[inline(always)]
    pub(crate) fn takes_no_part(&self) -> bool {
        self.0.takes_part.load(Ordering::Relaxed) == 0 && self.0.view.base.is_none()
    }

    /// Sets whether the tensor itself takes part.
    pub(crate) fn mark_requires_grad(&self, on: bool) {
        self.take_part(WANTS, on);
    }

    /// Whether the tensor itself, or its base, may have a tangent.
    #[inline]
    pub(crate) fn may_be_dual(&self) -> bool {
        self.may_have_tangent() || self.0.view.base.as_ref().is_some_and(Tensor::may_be_dual)
    }

    /// Whether the tensor itself may have one.
    #[inline]
    pub(super) fn may_have_tangent(&self) -> bool {
        self.0.takes_part.load(Ordering::Relaxed) & DUAL != 0
    }

    pub(super) fn mark_dual(&self, on: bool) {
        self.take_part(DUAL, on);
    }

    fn take_part(&self, why: u8, on: bool) {
        let before = match on {
            true => self.0.takes_part.fetch_or(why, Ordering::Relaxed),
            false => self.0.takes_part.fetch_and(!why, Ordering::Relaxed),
        };
        let others = before & !why != 0;
        self.0.keys.mark(on || others);
    }

    /// Whether the tensor is a leaf that wants a gradient, and no view.
    #[inline(always)]
    pub(crate) fn is_plain_leaf(&self) -> bool {
        self.0.takes_part.load(Ordering::Relaxed) & WANTS != 0
            && self.0.view.base.is_none()
            && !self.0.computed.load(Ordering::Acquire)
    }

    /// The node that the tensor itself came out of. That there is none is known without the lock.
    pub(crate) fn own_grad_fn(&self) -> Option<Edge> {
        match self.0.computed.load(Ordering::Acquire) {
            true => self.history().grad_fn.clone(),
            false => None,
        }
    }

    /// Sets the node that the tensor came out of, and gives the one before: to be dropped where no
    /// lock is held, since a chain may end there.
    pub(crate) fn put_grad_fn(&self, edge: Option<Edge>) -> Option<Edge> {
        let mut state = self.history();
        self.0.computed.store(edge.is_some(), Ordering::Release);
        std::mem::replace(&mut state.grad_fn, edge)
    }

    /// [`Tensor::put_grad_fn`] and the mark, of a tensor that most likely nobody else knows yet.
    #[inline]
    pub(crate) fn come_from(&mut self, edge: Edge) {
        let before = match self.0.get_mut() {
            Some(inner) => {
                *inner.takes_part.get_mut() |= WANTS;
                inner.keys.mark_mut();
                *inner.computed.get_mut() = true;
                let state = inner.history.0.get_mut().unwrap_or_else(PoisonError::into_inner);
                state.grad_fn.replace(edge)
            }
            None => {
                self.mark_requires_grad(true);
                self.put_grad_fn(Some(edge))
            }
        };
        drop(before);
    }

    pub(crate) fn history(&self) -> MutexGuard<'_, State> {
        self.0.history.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tensor that this one is a view of: the one that owns the memory, unless something other
    /// than strides lies between. `None` for what is no view as gradients see it, such as the
    /// result of `detach`.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0, 2.0, 3.0])?;
    /// let v = x.i(1..)?;
    /// assert!(v.base().is_some_and(|b| b.is_same(&x)));
    /// assert!(x.base().is_none() && x.detach()?.base().is_none());
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[inline]
    pub fn base(&self) -> Option<&Tensor> {
        self.0.view.base.as_ref()
    }

    pub(crate) fn view_kind(&self) -> Kind {
        self.0.view.kind
    }

    pub(crate) fn creation(&self) -> Creation {
        match self.0.view.creation.load(Ordering::Relaxed) {
            1 => Creation::Several,
            2 => Creation::NoGrad,
            3 => Creation::Inference,
            4 => Creation::Function,
            _ => Creation::Default,
        }
    }

    /// Whether the view has nothing to do with the tangent of its base.
    pub(crate) fn is_apart(&self) -> bool {
        self.0.view.apart.load(Ordering::Relaxed)
    }

    /// Says so.
    pub(crate) fn set_apart(&self) {
        self.0.view.apart.store(true, Ordering::Relaxed);
    }

    pub(crate) fn set_creation(&self, creation: Creation) {
        self.0.view.creation.store(creation as u8, Ordering::Relaxed);
    }

    /// The version of the storage at which the view's node was the right one.
    pub(crate) fn view_version(&self) -> u64 {
        self.0.view.version.load(Ordering::Relaxed)
    }

    pub(crate) fn set_view_version(&self, version: u64) {
        self.0.view.version.store(version, Ordering::Relaxed);
    }

    /// [`Tensor::version`] for internal use.
    pub(crate) fn writes(&self) -> u64 {
        self.storage().version()
    }

    /// Another tensor over the same storage, as a view that gradients flow through. `recording` is
    /// grad mode.
    #[inline]
    pub(crate) fn view_with(
        &self,
        recording: bool,
        sizes: impl AsRef<[i64]>,
        strides: impl AsRef<[i64]>,
        offset: i64,
    ) -> Tensor {
        self.with_geometry(sizes, strides, offset).into_view_of(self, Kind::Strided, recording)
    }

    /// The same tensor, fresh from a view operator, as a view of another one.
    #[inline]
    pub(crate) fn into_view_of(mut self, of: &Tensor, kind: Kind, recording: bool) -> Tensor {
        let base = match of.base() {
            Some(base) if kind == Kind::Strided && of.view_kind() == Kind::Strided => base,
            _ => of,
        };
        let creation = match (of.creation(), recording) {
            (Creation::Default, true) => Creation::Default,
            (Creation::Default, false) => Creation::NoGrad,
            (of, _) => of,
        };
        let version = of.writes();
        let apart = of.is_apart();
        self.become_view(View {
            base: Some(base.clone()),
            kind,
            creation: AtomicU8::new(creation as u8),
            version: AtomicU64::new(version),
            apart: AtomicBool::new(apart),
        });
        self
    }

    /// The same tensor, fresh from an operator, without the base that a view operator gave it.
    #[inline]
    pub(crate) fn into_no_view(mut self) -> Tensor {
        self.lose_base();
        self
    }

    /// [`Tensor::into_no_view`] where it lies.
    #[inline]
    pub(crate) fn lose_base(&mut self) {
        if self.base().is_some() {
            self.become_view(View::none());
        }
    }

    #[inline]
    fn become_view(&mut self, view: View) {
        if self.0.get_mut().is_none() {
            // somebody else knows it: it is what it is
            *self = self.with_keys(self.inner().keys.get());
        }
        if let Some(inner) = self.0.get_mut() {
            inner.view = view;
        }
    }
}
