//! Which kernel fills a slot of an operator's table: one pure function of what is registered.

use super::dispatcher::Fallbacks;
use std::collections::HashMap;
use std::sync::LazyLock;
use straightline_catalog::key::{BackendComponent, DispatchKey};
use straightline_catalog::keyset::{DispatchKeySet, NUM_RUNTIME_ENTRIES};

/// The rule that chose the content of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Provenance {
    /// A kernel registered at exactly this key.
    Kernel,
    /// `CompositeExplicitAutogradNonFunctional` or `CompositeExplicitAutograd`.
    DefaultBackend,
    /// `CompositeImplicitAutogradNestedTensor`.
    Nested,
    /// `AutogradOther` of a composite that has a kernel for one of the backends behind that key:
    /// neither would be right for all of them, so calls raise an error.
    AmbiguousAutogradOther,
    /// `CompositeImplicitAutograd`.
    Math,
    /// The alias `Autograd`.
    Autograd,
    /// `FuncTorchBatchedDecomposition`.
    Batched,
    /// The key's fallback, which serves every operator.
    Fallback,
    /// Nothing; calls raise an error.
    Missing,
}

impl Provenance {
    /// The words of [`dump_table`](super::dump_table).
    pub fn label(self) -> &'static str {
        match self {
            Provenance::Kernel => "kernel",
            Provenance::DefaultBackend => "default backend kernel",
            Provenance::Nested => "nested kernel",
            Provenance::AmbiguousAutogradOther => "ambiguous autogradother",
            Provenance::Math => "math kernel",
            Provenance::Autograd => "autograd kernel",
            Provenance::Batched => "batched kernel",
            Provenance::Fallback => "backend fallback",
            Provenance::Missing => "missing",
        }
    }
}

/// What the rules ask about a slot, worked out once.
pub(super) struct Slot {
    pub(super) key: DispatchKey,
    pub(super) backend: BackendComponent,
    /// The mask of an operator whose calls skip this key.
    pub(super) skipped: DispatchKeySet,
    in_ceanf: bool,
    in_cea: bool,
    in_ciant: bool,
    in_cia: bool,
    in_autograd: bool,
    behind_autograd: Vec<DispatchKey>,
}

/// The slots in table order; the first is `Undefined`.
pub(super) static SLOTS: LazyLock<Vec<Slot>> = LazyLock::new(|| {
    let mut slots: Vec<Slot> = std::iter::once(DispatchKey::Undefined)
        .chain(DispatchKey::runtime_keys())
        .map(|key| Slot {
            key,
            backend: key.backend(),
            skipped: DispatchKeySet::FULL.remove(key),
            in_ceanf: key.is_included_in(DispatchKey::CompositeExplicitAutogradNonFunctional),
            in_cea: key.is_included_in(DispatchKey::CompositeExplicitAutograd),
            in_ciant: key.is_included_in(DispatchKey::CompositeImplicitAutogradNestedTensor),
            in_cia: key.is_included_in(DispatchKey::CompositeImplicitAutograd),
            in_autograd: key.is_included_in(DispatchKey::Autograd),
            behind_autograd: key.backends_behind_autograd().iter().collect(),
        })
        .collect();
    slots.sort_by_key(|s| DispatchKeySet::from(s.key).table_index());
    assert_eq!(slots.len(), NUM_RUNTIME_ENTRIES);
    slots
});

/// The keys at which an operator has kernels, aliases included: one bit for each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Registered([u64; DispatchKey::ALL.len().div_ceil(64)]);

impl Registered {
    pub(super) fn of<'a>(keys: impl IntoIterator<Item = &'a DispatchKey>) -> Registered {
        let mut bits = Registered::default();
        for key in keys {
            bits.0[*key as usize / 64] |= 1 << (*key as usize % 64);
        }
        bits
    }

    fn has(&self, key: DispatchKey) -> bool {
        self.0[key as usize / 64] >> (key as usize % 64) & 1 != 0
    }
}

/// What serves each slot: the key of a registration (`None` for a fallback, or where an error is
/// due) and the rule that chose it.
pub(super) type Layout = [(Option<DispatchKey>, Provenance); NUM_RUNTIME_ENTRIES];

/// Layouts by what is registered. The rules are a pure function of that and of which keys have
/// fallbacks, and thousands of operators share a few dozen sets of keys.
#[derive(Default)]
pub(super) struct Layouts(HashMap<Registered, Box<Layout>>);

impl Layouts {
    /// How many are kept; a cache that grows beyond this is cleared.
    const KEPT: usize = 1024;

    /// Computes a layout.
    pub(super) fn work_out(registered: Registered, fallbacks: &Fallbacks) -> Layout {
        std::array::from_fn(|i| SLOTS[i].serve(|k| registered.has(k), fallbacks[i].is_some()))
    }

    /// The layout of an operator. `fallbacks` are the same at each call, until [`Layouts::forget`].
    pub(super) fn of(&mut self, registered: Registered, fallbacks: &Fallbacks) -> &Layout {
        if self.0.len() >= Layouts::KEPT && !self.0.contains_key(&registered) {
            self.0.clear();
        }
        self.0
            .entry(registered)
            .or_insert_with(|| Box::new(Layouts::work_out(registered, fallbacks)))
    }

    /// Clears the cache, because the set of keys with fallbacks has changed.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

impl Slot {
    /// The registration that serves the slot, and the rule that chose it.
    fn serve(
        &self,
        has: impl Fn(DispatchKey) -> bool,
        has_fallback: bool,
    ) -> (Option<DispatchKey>, Provenance) {
        use DispatchKey as K;
        let undefined = self.key == K::Undefined;
        if !undefined && has(self.key) {
            return (Some(self.key), Provenance::Kernel);
        }
        for (reached, alias) in [
            (self.in_ceanf, K::CompositeExplicitAutogradNonFunctional),
            (self.in_cea, K::CompositeExplicitAutograd),
        ] {
            if reached && has(alias) {
                return (Some(alias), Provenance::DefaultBackend);
            }
        }
        if self.in_ciant && has(K::CompositeImplicitAutogradNestedTensor) {
            let alias = K::CompositeImplicitAutogradNestedTensor;
            return (Some(alias), Provenance::Nested);
        }
        if self.in_cia && has(K::CompositeImplicitAutograd) {
            let direct = self.behind_autograd.iter().any(|b| has(*b));
            if self.key == K::AutogradOther && direct {
                return (None, Provenance::AmbiguousAutogradOther);
            }
            if !direct && !has(K::CompositeExplicitAutograd) {
                return (Some(K::CompositeImplicitAutograd), Provenance::Math);
            }
        }
        if self.in_autograd && has(K::Autograd) {
            return (Some(K::Autograd), Provenance::Autograd);
        }
        if self.key == K::FuncTorchBatched && has(K::FuncTorchBatchedDecomposition) {
            return (Some(K::FuncTorchBatchedDecomposition), Provenance::Batched);
        }
        if has_fallback && !undefined {
            return (None, Provenance::Fallback);
        }
        (None, Provenance::Missing)
    }
}

/// The rules alone: which registration of an operator serves a call at `slot`, given the keys that
/// have a kernel (`registered`, aliases included) and whether the slot's key has a fallback.
///
/// The tables of all operators are made by this function; nothing else goes into them. `slot` is
/// `Undefined` or a runtime key; other keys have no slot and nothing serves them.
///
/// ```
/// use straightline::dispatch::{DispatchKey as K, Provenance, rule_for};
///
/// // a composite, and a kernel of its own for one backend
/// let registered = |key| matches!(key, K::CompositeImplicitAutograd | K::CPU);
/// let composite = Some(K::CompositeImplicitAutograd);
/// assert_eq!(rule_for(K::CPU, registered, false), (Some(K::CPU), Provenance::Kernel));
/// assert_eq!(rule_for(K::CUDA, registered, false), (composite, Provenance::Math));
/// assert_eq!(rule_for(K::AutogradCUDA, registered, true), (composite, Provenance::Math));
/// // the kernel takes the composite away from the autograd key above it
/// assert_eq!(rule_for(K::AutogradCPU, registered, true), (None, Provenance::Fallback));
/// ```
pub fn rule_for(
    slot: DispatchKey,
    registered: impl Fn(DispatchKey) -> bool,
    has_fallback: bool,
) -> (Option<DispatchKey>, Provenance) {
    let found = &SLOTS[DispatchKeySet::from(slot).table_index()];
    if found.key == slot {
        found.serve(registered, has_fallback)
    } else {
        (None, Provenance::Missing)
    }
}
