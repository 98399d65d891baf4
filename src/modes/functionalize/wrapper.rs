//! Wrapper tensors: what the captured function holds instead of values.

use super::below;
use super::leaves;
use super::lifted;
use super::storage::{Chain, FunctionalStorage, Layout, Update, ViewStep, lock, replay};
use crate::dispatch::{DispatchKey, DispatchKeySet, grad_enabled};
use crate::error::{Error, Result};
use crate::modes::{outside, tracer};
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::tensor::history::Kind;
use crate::tensor::storage::Storage;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use straightline_catalog::TensorMeta;
use straightline_catalog::{DType, Op, layout};

/// What a wrapper carries.
struct Wrapper {
    behind: Mutex<Arc<Behind>>,
    /// Whether it has received new memory since it was made, for example by growing.
    grown: AtomicBool,
}

/// Where a wrapper's value comes from. A change of its shape puts another one in place.
pub(super) struct Behind {
    pub(super) storage: Arc<FunctionalStorage>,
    pub(super) chain: Chain,
    /// The capture that made it, and the graph in it.
    capture: Option<u64>,
    pub(super) scope: Option<u64>,
    current: Mutex<Option<Current>>,
}

/// The value as of a generation of the storage.
struct Current {
    value: Tensor,
    generation: u64,
}

fn wrapper(t: &Tensor) -> Option<&Wrapper> {
    t.extra().and_then(|e| e.downcast_ref::<Wrapper>())
}

/// The error for a stand-in that is used outside its capture.
pub(crate) fn used_elsewhere(t: &Tensor) -> Option<Error> {
    wrapper_of(t).map(|w| outside::used_elsewhere(t, w.capture))
}

/// What is behind a wrapper.
pub(super) fn wrapper_of(t: &Tensor) -> Option<Arc<Behind>> {
    wrapper(t).map(|w| lock(&w.behind).clone())
}

/// The source of a value; `value` is the current one.
pub(super) fn behind(
    storage: Arc<FunctionalStorage>,
    chain: Chain,
    value: Option<Tensor>,
) -> Behind {
    let generation = storage.generation();
    Behind {
        storage,
        chain,
        capture: tracer::current(),
        scope: tracer::scope(),
        current: Mutex::new(value.map(|value| Current { value, generation })),
    }
}

/// Moves a wrapper to the place of a view of its memory.
pub(super) fn take_place(t: &Tensor, view: &Tensor) -> Result<()> {
    let (Some(to), Some(from)) = (wrapper(t), wrapper_of(view)) else {
        return Err(Error::compile("the shape of a tensor changes that is not functional"));
    };
    lifted::check_write(t)?;
    t.set_geometry(view.sizes(), view.strides(), view.offset())?;
    *lock(&to.behind) = from;
    Ok(())
}

/// Gives a wrapper the memory and the place of another one.
pub(super) fn take_memory(t: &Tensor, of: &Tensor) -> Result<()> {
    let (Some(to), Some(from)) = (wrapper(t), wrapper_of(of)) else {
        return Err(Error::compile("a tensor that is not functional is given other memory"));
    };
    lifted::check_write(t)?;
    let storage = of.storage().clone();
    t.replace_geometry(storage, of.sizes(), of.strides(), of.offset())?;
    *lock(&to.behind) = from;
    Ok(())
}

/// Puts other memory behind a wrapper.
pub(super) fn grow(t: &Tensor, behind: Behind) {
    if let Some(w) = wrapper(t) {
        *lock(&w.behind) = Arc::new(behind);
        w.grown.store(true, Ordering::Relaxed);
    }
}

/// A wrapper of a value that stands for no tensor from outside.
pub(crate) fn wrap_value(value: &Tensor) -> Tensor {
    wrap(value, 0)
}

/// Whether the tensor is a wrapper.
pub(crate) fn is_wrapper(t: &Tensor) -> bool {
    wrapper(t).is_some()
}

/// A wrapper of `storage` with this layout; its value is computed when it is needed, unless given.
pub(super) fn build(
    storage: Arc<FunctionalStorage>,
    chain: Chain,
    like: &Tensor,
    layout: &Layout,
    value: Option<Tensor>,
) -> Tensor {
    build_view(storage, chain, like, layout, value, None)
}

/// [`build`]; for gradients a view of `of`, if that is given.
pub(super) fn build_view(
    storage: Arc<FunctionalStorage>,
    chain: Chain,
    like: &Tensor,
    layout: &Layout,
    value: Option<Tensor>,
    of: Option<(&Tensor, Kind)>,
) -> Tensor {
    let stand_in = storage.stand_in.clone();
    let wrapper = Wrapper {
        behind: Mutex::new(Arc::new(behind(storage, chain, value))),
        grown: AtomicBool::new(false),
    };
    let keys = DispatchKeySet::for_device(like.device().kind) | DispatchKey::Functionalize.into();
    let t = Tensor::build_with(
        stand_in,
        layout.dtype,
        like.device(),
        &layout.sizes,
        &layout.strides,
        layout.offset,
        keys,
        Some(Arc::new(wrapper)),
    );
    let t = if like.is_wrapped_number() { t.into_wrapped_number() } else { t };
    let t = match of {
        Some((of, kind)) => {
            let t = t.into_view_of(of, kind, grad_enabled());
            t.set_view_version(t.writes());
            t
        }
        None => t,
    };
    outside::made(&t);
    t
}

/// A wrapper that is a base of its own, which begins at this element of its memory.
pub(super) fn wrap(value: &Tensor, offset: i64) -> Tensor {
    let layout = Layout { offset, ..Layout::of(value) };
    let size = value.dtype().size();
    let bytes = layout::storage_bytes(size, value.sizes(), value.strides(), offset);
    let stand_in = Storage::without_data(bytes);
    let storage = FunctionalStorage::new(value.clone(), layout.clone(), stand_in, None);
    let storage = Arc::new(storage);
    build(storage, Vec::new(), value, &layout, Some(value.clone()))
}

/// The wrapper that stands for a tensor: itself, or that of a tensor from outside.
pub(super) fn wrapped(t: &Tensor) -> Result<Tensor> {
    match wrapper_of(t) {
        Some(w) if w.capture.is_some() && w.capture == tracer::current() => match w.scope {
            scope if scope == tracer::scope() => Ok(t.clone()),
            Some(around) if tracer::is_around(around) => lifted::lifted(t),
            _ => Err(lifted::left_behind(t)),
        },
        Some(w) => Err(outside::used_elsewhere(t, w.capture)),
        // not seen before: a tensor that the function closes over
        None if tracer::in_subgraph() => lifted::lifted(t),
        None => leaves::wrap_closed_over(t),
    }
}

/// The tensor, or the wrapper of one that was made from data while capturing.
pub(crate) fn made_inside(t: &Tensor) -> Result<Tensor> {
    if !is_wrapper(t) && t.made_during_capture().is_some() { wrapped(t) } else { Ok(t.clone()) }
}

/// The functional value of what the captured function holds, with all writes up to now.
pub(crate) fn unwrap(t: &Tensor) -> Result<Tensor> {
    let t = wrapped(t)?;
    let w = wrapper_of(&t).expect("`wrapped` gives wrappers");
    {
        let current = lock(&w.current);
        match &*current {
            Some(c) if c.generation == w.storage.generation() => return Ok(c.value.clone()),
            _ => {}
        }
    }
    w.sync()
}

impl Behind {
    /// Brings the value up to the storage's generation: applies what is queued, replays the views.
    fn sync(&self) -> Result<Tensor> {
        let _guard = below();
        let (base, generation) = self.storage.apply_updates()?;
        let value = replay(&self.chain, &base)?;
        *lock(&self.current) = Some(Current { value: value.clone(), generation });
        Ok(value)
    }
}

/// A value in another dtype. Complex numbers are converted by `copy`, whose kernel moves elements;
/// that of `_to_copy` calls other operators, which a replay must not.
pub(super) fn in_dtype(new: Tensor, dtype: DType) -> Result<Tensor> {
    if new.dtype() == dtype {
        return Ok(new);
    }
    if dtype.is_complex() || new.dtype().is_complex() {
        let strides = layout::contiguous_strides(new.sizes());
        let device = Some(new.device());
        let like = aten::empty_strided(new.sizes(), &strides, Some(dtype), None, device, None)?;
        return aten::copy(&like, &new, false);
    }
    aten::_to_copy(&new, Some(dtype), None, None, None, false, None)
}

/// Gives a wrapper a new value: cast to its dtype, queued at its storage and applied at once.
pub(super) fn replace(t: &Tensor, new: Tensor) -> Result<()> {
    let w = wrapper_of(t)
        .ok_or_else(|| Error::compile("a write to a tensor that is not functional"))?;
    lifted::check_write(t)?;
    let new = in_dtype(new, t.dtype())?;
    ensure_shape!(
        new.sizes() == t.sizes(),
        "output with shape {:?} doesn't match the broadcast shape {:?}",
        t.sizes(),
        new.sizes()
    );
    w.storage.commit_update(Update { new, chain: w.chain.clone(), layout: Layout::of(t) });
    w.sync().map(drop)
}

/// Whether a wrapper's memory has become longer.
pub(super) fn has_grown(t: &Tensor) -> bool {
    wrapper(t).is_some_and(|w| w.grown.load(Ordering::Relaxed))
}

/// Whether the memory behind a wrapper has been written.
pub(crate) fn is_written(t: &Tensor) -> bool {
    wrapper(t).is_some_and(|w| {
        w.grown.load(Ordering::Relaxed) || lock(&w.behind).storage.generation() > 0
    })
}

/// Whether a wrapper covers all of a memory that the function itself made.
pub(super) fn is_made(t: &Tensor) -> bool {
    wrapper_of(t).is_some_and(|w| w.chain.is_empty() && w.storage.real.is_none())
}

/// Where a result lies.
pub(crate) struct Place {
    /// Identifies a memory that the function made or was given.
    pub(crate) memory: usize,
    /// The storage of a tensor from outside that it lies in, by its identity.
    pub(crate) real: Option<usize>,
    /// Dtype, sizes, strides and device.
    pub(crate) meta: TensorMeta,
    pub(crate) bits: Bits,
    /// The first element's position in the storage, in bytes.
    pub(crate) at: i64,
}

/// How the values at the end of a chain differ from those in memory: by which math bits.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(crate) struct Bits {
    pub(crate) conj: bool,
    pub(crate) neg: bool,
}

impl Bits {
    fn of(chain: &[Arc<ViewStep>]) -> Bits {
        // twice is not at all
        let odd = |op: Op| chain.iter().filter(|step| step.is(op)).count() % 2 == 1;
        Bits { conj: odd(Op::_conj), neg: odd(Op::_neg_view) }
    }

    pub(crate) fn any(self) -> bool {
        self.conj || self.neg
    }
}

/// The math bits that an eager tensor would have here; none of what is no wrapper.
pub(crate) fn bits(t: &Tensor) -> Bits {
    wrapper_of(t).map_or(Bits::default(), |w| Bits::of(&w.chain))
}

/// Where a wrapper lies.
pub(crate) fn place(t: &Tensor) -> Option<Place> {
    let w = wrapper_of(t)?;
    Some(Place {
        memory: Arc::as_ptr(&w.storage) as usize,
        real: w.storage.real,
        meta: t.meta(),
        bits: Bits::of(&w.chain),
        at: t.byte_offset(),
    })
}

/// The value of all the memory that a wrapper lies in, the geometry that it has there, and how many
/// bytes it begins behind the wrapper's first element; nothing of a value that has math bits.
pub(crate) fn whole_memory(t: &Tensor) -> Result<Option<(Tensor, TensorMeta, i64)>> {
    let Some(w) = wrapper_of(t) else {
        return Err(Error::compile("a tensor that is not functional"));
    };
    let of = &w.storage.layout;
    let Some(place) = place(t).filter(|p| !p.bits.any()) else {
        return Ok(None);
    };
    let meta = TensorMeta {
        dtype: of.dtype,
        sizes: of.sizes.clone(),
        strides: of.strides.clone(),
        device: t.device(),
    };
    let behind = of.bytes().start - place.at;
    let _guard = below();
    let (base, _) = w.storage.apply_updates()?;
    Ok(Some((base, meta, behind)))
}

/// Whether two tensors lie in one memory, wrappers or not.
pub(crate) fn share_memory(a: &Tensor, b: &Tensor) -> bool {
    match (wrapper_of(a), wrapper_of(b)) {
        (Some(x), Some(y)) => {
            Arc::ptr_eq(&x.storage, &y.storage)
                || x.storage.real.is_some() && x.storage.real == y.storage.real
        }
        (Some(w), None) => w.storage.real == Some(b.storage().id()),
        (None, Some(w)) => w.storage.real == Some(a.storage().id()),
        (None, None) => a.storage().same(b.storage()),
    }
}

/// Whether all elements of `b` are elements of `a`, as far as their layouts show: `a` fills a range
/// of the same memory that `b` lies in.
pub(crate) fn covers(a: &Tensor, b: &Tensor) -> bool {
    let (Some(wa), Some(wb)) = (wrapper_of(a), wrapper_of(b)) else {
        return false;
    };
    let (la, lb) = (Layout::of(a), Layout::of(b));
    let (ra, rb) = (la.bytes(), lb.bytes());
    Arc::ptr_eq(&wa.storage, &wb.storage)
        && (la == lb || (la.is_dense() && ra.start <= rb.start && rb.end <= ra.end))
}

/// The value of the base that a wrapper views, and the position of its first element in bytes.
pub(crate) fn whole_base(t: &Tensor) -> Result<(Tensor, i64)> {
    let w = wrapper_of(t).ok_or_else(|| Error::compile("a result that is not functional"))?;
    let _guard = below();
    let (base, _) = w.storage.apply_updates()?;
    Ok((base, w.storage.layout.bytes().start))
}
