//! Guards on everything but the arguments: closed-over tensors, what the function asked, operators
//! used.

use super::traced::Surroundings;
use crate::are_deterministic_algorithms_enabled;
use crate::dispatch::{DispatchKey, DispatchKeySet, OperatorHandle, fallback_epochs, generation};
use crate::modes::autocast;
use crate::modes::functionalize::Owner;
use crate::modes::outside::Asked;
use crate::tensor::access::{self, Overlap};
use crate::tensor::history::Wants;
use crate::tensor::{Held, Tensor};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use straightline_catalog::TensorMeta;
use straightline_catalog::{DType, default_dtype};

/// What was true of a closed-over tensor.
#[derive(Debug)]
pub(super) struct Closed {
    tensor: Held,
    meta: TensorMeta,
    offset: i64,
    /// By identity; the tensor keeps all storages that it ever had.
    storage: usize,
    wants: Wants,
    dual: bool,
    /// The smallest number of handles seen, not counting those of plans. With one less, the
    /// function's state may have another tensor now in place of this one.
    handles: AtomicUsize,
}

impl Closed {
    pub(super) fn of(t: &Tensor) -> Closed {
        Closed {
            tensor: Held::new(t.clone()),
            meta: t.meta(),
            offset: t.offset(),
            storage: t.storage().id(),
            wants: t.wants(),
            dual: t.has_tangent(),
            handles: AtomicUsize::new(t.outside_handles()),
        }
    }

    #[inline]
    pub(super) fn holds(&self) -> bool {
        !self.given_up()
            && self.tensor.wants() == self.wants
            && self.tensor.has_tangent() == self.dual
            && (!self.tensor.is_reshaped() || self.lies_as_before())
    }

    /// Whether a handle has been dropped since.
    #[inline]
    pub(super) fn given_up(&self) -> bool {
        self.tensor.outside_handles() < self.handles.load(Ordering::Relaxed)
    }

    /// Resets the expected number of handles, because the function has been seen to use this tensor
    /// still.
    pub(super) fn accept(&self) {
        let now = self.tensor.outside_handles();
        self.handles.fetch_min(now, Ordering::Relaxed);
    }

    #[cold]
    pub(super) fn lies_as_before(&self) -> bool {
        let t = &self.tensor;
        t.storage().id() == self.storage
            && t.offset() == self.offset
            && t.meta() == self.meta
            && t.wants() == self.wants
    }

    /// Another tensor has been seen in place of this one.
    pub(super) fn retire(&self) {
        self.handles.store(usize::MAX, Ordering::Relaxed);
    }

    pub(super) fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    pub(super) fn is_of(&self, t: &Tensor) -> bool {
        self.tensor.same_handle(t)
    }

    /// Why it does not hold.
    pub(super) fn miss(&self) -> Option<String> {
        let t = &self.tensor;
        if !self.lies_as_before() {
            if t.wants() != self.wants {
                let now = t.requires_grad();
                return Some(match now == self.wants.any() {
                    true => "a closed-over view's base has another requires_grad now".into(),
                    false => format!("a closed-over tensor has requires_grad={now} now"),
                });
            }
            return Some(match t.storage().id() == self.storage {
                true => format!("a closed-over tensor has sizes {:?} now", t.sizes()),
                false => format!("a closed-over {}{:?} has other memory now", t.dtype(), t.sizes()),
            });
        }
        self.given_up().then(|| {
            format!(
                "a handle to the closed-over {}{:?} was dropped: another tensor may be in its place",
                t.dtype(),
                t.sizes()
            )
        })
    }
}

/// What the function asked, with the answer that it got.
#[derive(Debug)]
pub(super) enum Answer {
    Offset(usize, Option<i64>, i64),
    Lie(Owner, Owner, Option<i64>),
    Other(Asked),
}

/// How many bytes one begins after the other, if they overlap.
fn lie(a: &Tensor, b: &Tensor) -> Option<i64> {
    let meet = access::overlap(a, b) != Overlap::None;
    meet.then(|| b.byte_offset() - a.byte_offset())
}

/// The tensor, among these arguments or closed over.
fn tensor<'a>(owner: &'a Owner, inputs: &[&'a Tensor]) -> Option<&'a Tensor> {
    match owner {
        Owner::Input(i) => inputs.get(*i).copied(),
        Owner::Tensor(t) => Some(t),
        Owner::Merged(_) => None,
    }
}

/// Where an input begins in its storage, or that modulo a number.
fn begins(input: &Tensor, by: Option<i64>) -> i64 {
    match by {
        Some(by) => input.offset().rem_euclid(by),
        None => input.offset(),
    }
}

impl Answer {
    pub(super) fn new(asked: &Asked, inputs: &[&Tensor]) -> Answer {
        match asked {
            Asked::Offset(i, by) => Answer::Offset(*i, *by, begins(inputs[*i], *by)),
            Asked::Lie { a, b } => {
                let pair = tensor(a, inputs).zip(tensor(b, inputs));
                Answer::Lie(a.clone(), b.clone(), pair.and_then(|(a, b)| lie(a, b)))
            }
            other => Answer::Other(other.clone()),
        }
    }

    pub(super) fn holds(&self, inputs: &[&Tensor]) -> bool {
        let pair = |a, b| tensor(a, inputs).zip(tensor(b, inputs));
        match self {
            Answer::Offset(i, by, then) => begins(inputs[*i], *by) == *then,
            Answer::Lie(a, b, then) => pair(a, b).is_some_and(|(a, b)| lie(a, b) == *then),
            Answer::Other(Asked::Shared { a, b, yes }) => {
                pair(a, b).is_some_and(|(a, b)| a.storage().same(b.storage()) == *yes)
            }
            Answer::Other(Asked::Same { a, b, yes }) => {
                pair(a, b).is_some_and(|(a, b)| a.same_handle(b) == *yes)
            }
            Answer::Other(Asked::Threads(n)) => {
                straightline_runtime::cpu::threads::num_threads() == *n
            }
            Answer::Other(Asked::Flag(flag, then, _)) => flag.load(Ordering::Relaxed) == *then,
            Answer::Other(Asked::Autocast(low)) => autocast::low_precisions() == *low,
            Answer::Other(Asked::Registrations(then)) => generation(Ordering::Acquire) == *then,
            Answer::Other(Asked::Kernels(op, keys)) => op.kernel_keys() == *keys,
            Answer::Other(Asked::Served(op, key, yes)) => op.serves(*key) == *yes,
            Answer::Other(Asked::Ends(i, bytes)) => {
                let t = inputs[*i];
                let begins = t.byte_offset();
                (t.storage().bytes() as i64) - begins < *bytes
            }
            Answer::Other(Asked::Offset(..) | Asked::Lie { .. }) => true,
        }
    }

    /// The question whose answer differs.
    pub(super) fn miss(&self, inputs: &[&Tensor]) -> String {
        let name = |owner: &Owner| match owner {
            Owner::Input(i) => format!("input {i}"),
            _ => "a closed-over tensor".to_string(),
        };
        match self {
            Answer::Offset(i, None, then) => format!(
                "input {i} begins at element {} of its storage, was {then}, and the function asks for it",
                inputs[*i].offset()
            ),
            Answer::Offset(i, Some(by), then) => format!(
                "input {i} begins at element {} of its storage, and the function views {by} elements as one: the remainder was {then}",
                inputs[*i].offset()
            ),
            Answer::Lie(a, b, _) => format!(
                "{} and {} lie otherwise to each other, and a call was refused for how they lay",
                name(a),
                name(b)
            ),
            Answer::Other(Asked::Shared { a, b, yes }) => format!(
                "{} and {} {} their storage, and the function asks for it",
                name(a),
                name(b),
                if *yes { "no longer share" } else { "share" }
            ),
            Answer::Other(Asked::Same { a, b, yes }) => format!(
                "{} and {} are {}, and the function asks for it",
                name(a),
                name(b),
                if *yes { "no longer one tensor" } else { "one tensor" }
            ),
            Answer::Other(Asked::Threads(n)) => {
                format!(
                    "kernels use another number of threads than {n}, and the function asks for it"
                )
            }
            Answer::Other(Asked::Flag(_, then, texts)) => {
                format!("{}, and the function asks for it", texts[usize::from(!then)])
            }
            Answer::Other(Asked::Autocast(_)) => {
                "autocast has another low precision, and the function asks for it".into()
            }
            Answer::Other(Asked::Registrations(_)) => {
                "something was registered, and the function asks for an operator that there was not"
                    .into()
            }
            Answer::Other(Asked::Kernels(op, _) | Asked::Served(op, ..)) => {
                format!("`{}` has other kernels, and the function asks for them", op.name())
            }
            Answer::Other(Asked::Ends(i, _)) => {
                format!(
                    "there is memory behind input {i} that there was not, into which it grows or is viewed"
                )
            }
            Answer::Other(Asked::Offset(..) | Asked::Lie { .. }) => String::new(),
        }
    }
}

/// The operators that the calls of the function went through, as they were registered then.
#[derive(Debug)]
pub(super) struct Operators {
    used: Vec<(OperatorHandle, u64)>,
    /// The fallbacks of the keys that these calls may have reached.
    fallbacks: Vec<(DispatchKey, u64)>,
    /// The process's default dtype, which operators ask for as they promote.
    default_dtype: DType,
    /// Whether the process asks for deterministic algorithms.
    deterministic: bool,
    /// The registrations and the settings of the process when they were last looked at.
    seen: AtomicU64,
}

impl Operators {
    pub(super) fn new(surroundings: &Surroundings) -> Operators {
        Operators {
            used: surroundings.operators.clone(),
            fallbacks: surroundings.fallbacks.clone(),
            default_dtype: surroundings.default_dtype.unwrap_or_else(default_dtype),
            deterministic: are_deterministic_algorithms_enabled(),
            // matches no generation, so the first call looks
            seen: AtomicU64::new(0),
        }
    }

    /// Whether they are unchanged. One load, unless something has been registered since.
    #[inline]
    pub(super) fn hold(&self) -> bool {
        generation(Ordering::Relaxed) == self.seen.load(Ordering::Relaxed) || self.look()
    }

    #[cold]
    fn look(&self) -> bool {
        // Acquire: what these registrations have changed is seen
        let now = generation(Ordering::Acquire);
        let holds = self.other_default().is_none()
            && self.other_determinism().is_none()
            && self.changed().is_none();
        if holds {
            self.seen.store(now, Ordering::Relaxed);
        }
        holds
    }

    /// The default dtype, if it is another one now, and what it was.
    pub(super) fn other_default(&self) -> Option<(DType, DType)> {
        let now = default_dtype();
        (now != self.default_dtype).then_some((now, self.default_dtype))
    }

    /// Whether deterministic algorithms are asked for, if they were not, or the other way round.
    pub(super) fn other_determinism(&self) -> Option<bool> {
        let now = are_deterministic_algorithms_enabled();
        (now != self.deterministic).then_some(now)
    }

    /// One that has changed since.
    pub(super) fn changed(&self) -> Option<OperatorHandle> {
        let changed = |(op, epoch): &&(OperatorHandle, u64)| op.epoch() != *epoch;
        let changed = self.used.iter().find(changed).map(|(op, _)| *op);
        changed.or_else(|| self.served_otherwise())
    }

    /// One that another fallback serves.
    fn served_otherwise(&self) -> Option<OperatorHandle> {
        let keys = self.fallbacks.iter().map(|(key, _)| *key);
        let keys = keys.fold(DispatchKeySet::EMPTY, |keys, key| keys.add(key));
        let now = fallback_epochs(keys);
        let changed = self
            .fallbacks
            .iter()
            .filter(|(key, epoch)| now.iter().any(|(k, e)| k == key && e != epoch));
        let served = |key: DispatchKey| {
            let mut used = self.used.iter().map(|(op, _)| *op);
            used.find(|op| !op.registers(key))
        };
        changed.into_iter().find_map(|(key, _)| served(*key))
    }
}
