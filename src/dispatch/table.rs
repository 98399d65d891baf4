//! Which kernel fills a slot of an operator's table: one pure function of what is registered.

use super::key::DispatchKey;
use super::keyset::{DispatchKeySet, NUM_RUNTIME_ENTRIES};
use super::operator::Record;
use std::sync::LazyLock;

/// Why a slot holds what it holds; the words are those of the dump.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Provenance {
    Kernel,
    DefaultBackend,
    Nested,
    AmbiguousAutogradOther,
    Math,
    Autograd,
    Batched,
    Fallback,
    Missing,
}

impl Provenance {
    pub(super) fn label(self) -> &'static str {
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

/// The active kernel of an operator at each key, aliases included.
pub(super) struct Active([Option<&'static Record>; DispatchKey::ALL.len()]);

impl Active {
    pub(super) fn new(kernels: impl Iterator<Item = (DispatchKey, &'static Record)>) -> Active {
        let mut out = [None; DispatchKey::ALL.len()];
        for (key, record) in kernels {
            out[key as usize] = Some(record);
        }
        Active(out)
    }

    fn at(&self, key: DispatchKey) -> Option<&'static Record> {
        self.0[key as usize]
    }

    /// The kernel of a slot and the rule that chose it; `None` where an error is due.
    pub(super) fn resolve(
        &self,
        slot: &Slot,
        fallback: Option<&'static Record>,
    ) -> (Option<&'static Record>, Provenance) {
        let undefined = slot.key == DispatchKey::Undefined;
        if !undefined && let Some(k) = self.at(slot.key) {
            return (Some(k), Provenance::Kernel);
        }
        if slot.in_ceanf
            && let Some(k) = self.at(DispatchKey::CompositeExplicitAutogradNonFunctional)
        {
            return (Some(k), Provenance::DefaultBackend);
        }
        let cea = self.at(DispatchKey::CompositeExplicitAutograd);
        if slot.in_cea
            && let Some(k) = cea
        {
            return (Some(k), Provenance::DefaultBackend);
        }
        if slot.in_ciant
            && let Some(k) = self.at(DispatchKey::CompositeImplicitAutogradNestedTensor)
        {
            return (Some(k), Provenance::Nested);
        }
        if slot.in_cia
            && let Some(k) = self.at(DispatchKey::CompositeImplicitAutograd)
        {
            let direct = slot.behind_autograd.iter().any(|b| self.at(*b).is_some());
            if slot.key == DispatchKey::AutogradOther && direct {
                return (None, Provenance::AmbiguousAutogradOther);
            }
            if !direct && cea.is_none() {
                return (Some(k), Provenance::Math);
            }
        }
        if slot.in_autograd
            && let Some(k) = self.at(DispatchKey::Autograd)
        {
            return (Some(k), Provenance::Autograd);
        }
        if slot.key == DispatchKey::FuncTorchBatched
            && let Some(k) = self.at(DispatchKey::FuncTorchBatchedDecomposition)
        {
            return (Some(k), Provenance::Batched);
        }
        match fallback {
            Some(k) if !undefined => (Some(k), Provenance::Fallback),
            _ => (None, Provenance::Missing),
        }
    }
}
