//! What must be true of a call for a variant to serve it.

use super::surroundings::{Answer, Closed, Operators};
use super::tape;
use super::traced::{GradUse, LeafUse, Surroundings, Traced};
use crate::dispatch::{DispatchKeySet, OperatorHandle, TlsKeySets};
use crate::modes::autocast;
use crate::modes::functionalize::{InputSlot, Owner};
use crate::tensor::Tensor;
use crate::tensor::access::{self, Overlap};
use crate::tensor::history::Wants;
use std::fmt;
use std::ops::Range;
use straightline_catalog::TensorMeta;
use straightline_catalog::layout;

/// Everything that capture assumed.
#[derive(Debug)]
pub(super) struct Guards {
    inputs: Vec<InputGuard>,
    /// Nothing but the inputs, the thread and the operators is guarded.
    plain: bool,
    tls: TlsKeySets,
    /// The low precisions, if autocast was on.
    autocast: u64,
    /// How the memory that is written overlaps with other memory.
    aliases: Vec<AliasGuard>,
    /// An argument and how many bytes its storage must have from its first element on, for merged
    /// memory.
    reaches: Vec<(usize, Range<i64>)>,
    /// The closed-over tensors: their shapes and memory, which may change in place, and which
    /// handles refer to them.
    closed: Vec<Closed>,
    /// How many arguments the function has; the other inputs are `.grad`s.
    own: usize,
    /// `.grad` of tensors that the function reads it of, and their hooks.
    grads: Vec<GradUse>,
    /// The questions that the function asked.
    answers: Vec<Answer>,
    operators: Operators,
}

/// The overlap of an argument and another tensor, one of which is written.
#[derive(Clone, Debug)]
struct AliasGuard {
    argument: usize,
    other: Owner,
    /// In one storage, `other` this many bytes after the argument; otherwise they do not overlap.
    distance: Option<i64>,
    /// The bytes of the argument's storage that the function reaches, from its first element on, if
    /// they exceed the argument: a view reaches beside it, or it grows.
    reach: Option<Range<i64>>,
}

impl AliasGuard {
    fn other<'a>(&'a self, inputs: &[&'a Tensor]) -> Option<&'a Tensor> {
        match &self.other {
            Owner::Input(i) => inputs.get(*i).copied(),
            Owner::Tensor(t) => Some(t),
            Owner::Merged(_) => None,
        }
    }

    #[inline]
    fn holds(&self, inputs: &[&Tensor]) -> bool {
        let (a, Some(b)) = (inputs[self.argument], self.other(inputs)) else {
            return true;
        };
        let shared = a.storage().same(b.storage());
        match (self.distance, &self.reach) {
            (Some(d), _) => shared && b.byte_offset() - a.byte_offset() == d,
            (None, None) => !shared || access::overlap(a, b) == Overlap::None,
            (None, Some(reach)) => {
                let bytes =
                    layout::reached_bytes(b.dtype().size(), b.sizes(), b.strides(), b.offset());
                let (begin, end) = (a.byte_offset() + reach.start, a.byte_offset() + reach.end);
                !shared || bytes.is_empty() || bytes.end <= begin || end <= bytes.start
            }
        }
    }
}

/// The alias guards of a captured function, `reaches` of whose arguments are more than the
/// arguments. What comes after its `own` arguments lies alone.
fn alias_guards(
    inputs: &[&Tensor],
    own: usize,
    leaves: &[LeafUse],
    reaches: &[(usize, Range<i64>)],
) -> Vec<AliasGuard> {
    let mut out = Vec::new();
    let alone = |owner: &Owner| matches!(owner, Owner::Input(i) if *i >= own);
    for (argument, reach) in reaches {
        let itself = |l: &LeafUse| match l.owner {
            Owner::Input(i) => i == *argument,
            Owner::Merged(_) => true,
            Owner::Tensor(_) => false,
        };
        for other in leaves.iter().filter(|l| !l.merged && !itself(l)) {
            out.push(AliasGuard {
                argument: *argument,
                other: other.owner.clone(),
                distance: None,
                reach: Some(reach.clone()),
            });
        }
    }
    for (i, a) in leaves.iter().enumerate() {
        let Owner::Input(argument) = a.owner else {
            continue;
        };
        for (k, b) in leaves.iter().enumerate() {
            // each pair of arguments once
            let seen = matches!(b.owner, Owner::Input(_)) && k <= i;
            // merged for reading only: memory beside one of them was reached
            let matters = a.written || b.written || (a.merged && b.merged);
            let apart = alone(&a.owner) || alone(&b.owner);
            if seen || !matters || apart || matches!(b.owner, Owner::Merged(_)) {
                continue;
            }
            let mut guard =
                AliasGuard { argument, other: b.owner.clone(), distance: None, reach: None };
            let (t, Some(other)) = (inputs[argument], guard.other(inputs)) else {
                continue;
            };
            if a.merged && b.merged && t.storage().same(other.storage()) {
                guard.distance = Some(other.byte_offset() - t.byte_offset());
            }
            out.push(guard);
        }
    }
    out
}

#[derive(Clone, Debug, PartialEq)]
struct InputGuard {
    meta: TensorMeta,
    keys: DispatchKeySet,
    /// The sizes say what the strides are.
    dense: bool,
    wants: Wants,
    dual: bool,
    /// It wants no gradient and has no tangent.
    idle: bool,
    wrapped_number: bool,
}

impl InputGuard {
    /// `f32[4, 8]`.
    fn shape(&self) -> String {
        format!("{}{:?}", self.meta.dtype, self.meta.sizes.as_slice())
    }

    fn of(t: &Tensor) -> InputGuard {
        InputGuard {
            meta: t.meta(),
            keys: t.key_set(),
            dense: t.is_contiguous() && t.sizes().iter().all(|n| *n > 1),
            wants: t.wants(),
            dual: t.has_tangent(),
            idle: !t.wants().any() && !t.has_tangent(),
            wrapped_number: t.is_wrapped_number(),
        }
    }

    #[inline(always)]
    fn holds(&self, t: &Tensor) -> bool {
        self.keys == t.key_set()
            && self.meta.dtype == t.dtype()
            && self.meta.device == t.device()
            && self.wrapped_number == t.is_wrapped_number()
            && match self.dense {
                true => t.is_dense_of(&self.meta.sizes),
                false => t.lies_as(&self.meta.sizes, &self.meta.strides),
            }
            && ((self.idle && t.takes_no_part())
                || (self.wants == t.wants() && self.dual == t.has_tangent()))
    }
}

/// Why a variant did not serve a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardMiss {
    /// The variant.
    pub variant: usize,
    /// A sentence that says what differs.
    pub reason: String,
}

impl fmt::Display for GuardMiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "variant {} does not fit: {}", self.variant, self.reason)
    }
}

impl Guards {
    /// The guards of a captured function; `traced` is `None` if it runs eagerly.
    pub(super) fn new(inputs: &[&Tensor], tls: TlsKeySets, traced: Option<&Traced>) -> Guards {
        let asked = traced.map_or(&[][..], |t| &t.surroundings.asked);
        let mut closed: Vec<Closed> = Vec::new();
        for t in traced.iter().flat_map(|t| t.closed_over()) {
            if !closed.iter().any(|c| c.is_of(t)) {
                closed.push(Closed::of(t));
            }
        }
        let reaches = |slot: &InputSlot| match slot {
            InputSlot::Argument(_) => None,
            InputSlot::Merged { argument, start, meta } => {
                let bytes = meta.numel() * meta.dtype.size() as i64;
                Some((*argument, *start..*start + bytes))
            }
        };
        let reaches: Vec<_> =
            traced.map_or(Vec::new(), |t| t.slots.iter().filter_map(reaches).collect());
        let grads = traced.map_or(Vec::new(), |t| t.grads.clone());
        let bound = tape::bound(&grads, inputs).unwrap_or_default();
        let (own, all) = (inputs.len(), tape::extended(inputs, &bound));
        let inputs = &all[..];
        let aliases = traced.map_or(Vec::new(), |t| alias_guards(inputs, own, &t.leaves, &reaches));
        let autocast = autocast::fingerprint(tls);
        Guards {
            own,
            inputs: inputs.iter().map(|t| InputGuard::of(t)).collect(),
            plain: autocast == 0
                && aliases.is_empty()
                && reaches.is_empty()
                && closed.is_empty()
                && grads.is_empty()
                && asked.is_empty(),
            tls,
            autocast,
            aliases,
            reaches,
            closed,
            grads,
            answers: asked.iter().map(|a| Answer::new(a, inputs)).collect(),
            operators: Operators::new(traced.map_or(&Surroundings::default(), |t| &t.surroundings)),
        }
    }

    /// Of each input, as `f32[4, 8]`.
    pub(super) fn shapes(&self) -> Vec<String> {
        self.inputs.iter().map(InputGuard::shape).collect()
    }

    /// Whether the variant serves these inputs on this thread. (Not inlined: as part of this crate
    /// it does not depend on how the caller's is built.)
    pub(super) fn hold(&self, inputs: &[&Tensor], tls: TlsKeySets) -> bool {
        match !self.plain && tape::binds(&self.grads) {
            false => self.hold_for(inputs, tls),
            true => self.with_bound(inputs, |all| self.hold_for(all, tls)).unwrap_or(false),
        }
    }

    #[inline(always)]
    fn hold_for(&self, inputs: &[&Tensor], tls: TlsKeySets) -> bool {
        self.inputs.len() == inputs.len()
            && self.tls == tls
            && self.inputs.iter().zip(inputs).all(|(g, t)| g.holds(t))
            && (self.plain || self.others_hold(inputs, tls))
            && self.operators.hold()
    }

    fn others_hold(&self, inputs: &[&Tensor], tls: TlsKeySets) -> bool {
        (self.autocast == 0 || self.autocast == autocast::fingerprint(tls))
            && self.aliases.iter().all(|g| g.holds(inputs))
            && self.unreachable(inputs).is_none()
            && self.closed.iter().all(Closed::holds)
            && self.grads.iter().all(|g| tape::misses(g, inputs).is_none())
            && self.answers.iter().all(|a| a.holds(inputs))
    }

    /// Whether the variant fails to serve these inputs only because handles to closed-over tensors
    /// have been dropped.
    pub(super) fn hold_but_for_handles(&self, inputs: &[&Tensor], tls: TlsKeySets) -> bool {
        let hold = |inputs: &[&Tensor]| {
            self.inputs.len() == inputs.len()
                && self.tls == tls
                && self.autocast == autocast::fingerprint(tls)
                && self.inputs.iter().zip(inputs).all(|(g, t)| g.holds(t))
                && self.aliases.iter().all(|g| g.holds(inputs))
                && self.unreachable(inputs).is_none()
                && self.closed.iter().any(Closed::given_up)
                && self.closed.iter().all(Closed::lies_as_before)
                && self.grads.iter().all(|g| tape::misses(g, inputs).is_none())
                && self.answers.iter().all(|a| a.holds(inputs))
                && self.operators.hold()
        };
        self.with_bound(inputs, hold).unwrap_or(false)
    }

    /// What holds of the arguments with the `.grad`s that a call uses; `None` where one of these is
    /// missing, or lies where others do.
    fn with_bound<R>(&self, inputs: &[&Tensor], f: impl FnOnce(&[&Tensor]) -> R) -> Option<R> {
        if self.own != inputs.len() {
            return None;
        }
        let bound = tape::bound(&self.grads, inputs)?;
        let closed = self.closed.iter().map(Closed::tensor);
        let alone = tape::are_alone(&bound, inputs, closed);
        alone.then(|| f(&tape::extended(inputs, &bound)))
    }

    /// Records that the closed-over tensors are still in use.
    pub(super) fn accept_handles(&self) {
        self.closed.iter().for_each(Closed::accept);
    }

    /// Records that the function no longer uses the tensors whose handles have been dropped.
    pub(super) fn retire(&self) {
        let gone = self.closed.iter().filter(|c| c.given_up());
        gone.for_each(Closed::retire);
    }

    /// An operator that the variant uses and that has other registrations now.
    pub(super) fn outdated(&self) -> Option<OperatorHandle> {
        self.operators.changed()
    }

    /// An argument whose storage does not have the bytes that the function reaches.
    fn unreachable(&self, inputs: &[&Tensor]) -> Option<usize> {
        let missing = |(i, bytes): &&(usize, Range<i64>)| {
            let (t, at) = (inputs[*i], inputs[*i].byte_offset());
            at + bytes.start < 0 || at + bytes.end > t.storage().bytes() as i64
        };
        self.reaches.iter().find(missing).map(|(i, _)| *i)
    }

    /// Why the guards do not hold.
    pub(super) fn explain_miss(&self, inputs: &[&Tensor], tls: TlsKeySets) -> String {
        if self.own != inputs.len() {
            return format!("{} tensor inputs, was {}", inputs.len(), self.own);
        }
        self.with_bound(inputs, |all| self.explain(all, tls)).unwrap_or_else(|| {
            "`.grad` of a tensor is missing, or is in use elsewhere, and the function reads it"
                .into()
        })
    }

    fn explain(&self, inputs: &[&Tensor], tls: TlsKeySets) -> String {
        if self.tls != tls {
            return format!(
                "the thread's dispatch keys are +{} -{}, were +{} -{}",
                tls.included, tls.excluded, self.tls.included, self.tls.excluded
            );
        }
        if let Some((now, then)) = self.operators.other_default() {
            return format!("the default dtype is {now}, was {then}");
        }
        if let Some(now) = self.operators.other_determinism() {
            return match now {
                true => "deterministic algorithms are asked for, and were not",
                false => "deterministic algorithms are not asked for, and were",
            }
            .to_string();
        }
        if let Some(op) = self.outdated() {
            return format!("the operator `{}` is registered otherwise now", op.name());
        }
        if let Some(why) = self.closed.iter().find_map(Closed::miss) {
            return why;
        }
        if self.autocast != autocast::fingerprint(tls) {
            return "autocast has another low precision".to_string();
        }
        for (i, (g, t)) in self.inputs.iter().zip(inputs).enumerate() {
            let now = InputGuard::of(t);
            if g.keys != now.keys {
                return format!("input {i} has keys {}, had {}", now.keys, g.keys);
            }
            if g.meta.dtype != now.meta.dtype {
                return format!("input {i} is {}, was {}", now.meta.dtype, g.meta.dtype);
            }
            if g.meta.device != now.meta.device {
                return format!("input {i} is on {}, was on {}", now.meta.device, g.meta.device);
            }
            if g.meta.sizes != now.meta.sizes {
                return format!(
                    "input {i} has sizes {:?}, had {:?}",
                    now.meta.sizes.as_slice(),
                    g.meta.sizes.as_slice()
                );
            }
            if g.meta.strides != now.meta.strides {
                return format!(
                    "input {i} has strides {:?}, had {:?}",
                    now.meta.strides.as_slice(),
                    g.meta.strides.as_slice()
                );
            }
            if g.wants != now.wants {
                let (now, was) = (now.wants.any(), g.wants.any());
                return match now == was {
                    true => format!("input {i} is a view, whose base has another requires_grad"),
                    false => format!("input {i} has requires_grad={now}, was {was}"),
                };
            }
            if g.wrapped_number != now.wrapped_number {
                return format!("input {i} stands for a bare number, or did");
            }
        }
        if let Some(g) = self.aliases.iter().find(|g| !g.holds(inputs)) {
            let other = match &g.other {
                Owner::Input(i) => format!("input {i}"),
                _ => "a closed-over tensor".into(),
            };
            return match g.distance {
                None => format!(
                    "input {} shares its memory with {other}, and one of them is written",
                    g.argument
                ),
                Some(_) => format!(
                    "input {} and {other} lie in memory otherwise than before, and one of them is \
                     written",
                    g.argument
                ),
            };
        }
        if let Some(why) = self.grads.iter().find_map(|g| tape::misses(g, inputs)) {
            return why.to_string();
        }
        if let Some(answer) = self.answers.iter().find(|a| !a.holds(inputs)) {
            return answer.miss(inputs);
        }
        match self.unreachable(inputs) {
            Some(i) => format!("the storage of input {i} lacks memory that the function reaches"),
            None => "nothing differs".into(),
        }
    }
}

impl fmt::Display for Guards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, g) in self.inputs.iter().enumerate() {
            writeln!(
                f,
                "  input {i}: {} strides {:?} on {}",
                g.shape(),
                g.meta.strides.as_slice(),
                g.meta.device,
            )?;
        }
        for g in &self.aliases {
            let other = match &g.other {
                Owner::Input(i) => format!("input {i}"),
                Owner::Tensor(t) => format!("the closed-over {}{:?}", t.dtype(), t.sizes()),
                Owner::Merged(_) => continue,
            };
            match g.distance {
                None => {
                    let what = match g.reach {
                        Some(_) => "what is reached beside ",
                        None => "",
                    };
                    writeln!(f, "  {what}input {} does not overlap {other}", g.argument)?;
                }
                Some(d) => writeln!(f, "  input {} has {other} {d} bytes further on", g.argument)?,
            }
        }
        let TlsKeySets { included, excluded } = self.tls;
        let (own, without) = (DispatchKeySet::DEFAULT_INCLUDED, DispatchKeySet::DEFAULT_EXCLUDED);
        match (included, excluded) == (own, without) {
            true => Ok(()),
            false => writeln!(f, "  thread: included {included}, excluded {excluded}"),
        }
    }
}
