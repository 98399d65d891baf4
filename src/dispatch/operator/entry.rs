//! What the dispatcher keeps of one operator: schema, kernels, table and masks.

use super::definition::Definition;
use super::record::{AMBIGUOUS, MISSING, Record};
use crate::dispatch::dispatcher::Fallbacks;
use crate::dispatch::error::{MissingKernel, Site};
use crate::dispatch::kernel::Signature;
use crate::dispatch::record;
use crate::dispatch::slots::{RETRIES, Slots, Standing};
use crate::dispatch::table::{Layouts, Provenance, Registered, SLOTS};
use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::yield_now;
use straightline_catalog::key::{BackendComponent, DispatchKey};
use straightline_catalog::keyset::{DispatchKeySet, NUM_RUNTIME_ENTRIES};
use straightline_catalog::schema::OperatorName;

/// The kernels of an operator, newest first at each key.
pub(in crate::dispatch) type Kernels = BTreeMap<DispatchKey, Vec<&'static Record>>;

pub(super) type Table = Slots<Record, NUM_RUNTIME_ENTRIES, 16>;

pub(in crate::dispatch) struct OperatorEntry {
    slots: Table,
    definition: AtomicPtr<Definition>,
    pub(super) name: OperatorName,
    /// The keys of kernels that only calls that record go to, in addition to the masks.
    recording: AtomicU64,
    /// Counts the changes made by registrations.
    epoch: AtomicU64,
    /// Whether calls are shown to observers.
    pub(super) observed: bool,
    /// The types of the typed kernels, fixed by the first kernel or handle.
    signature: OnceLock<(Signature, Site)>,
    kernels: Mutex<Kernels>,
    /// Makes the error for a missing kernel in place of the dispatcher.
    pub(super) report: Mutex<Option<Report>>,
}

/// Makes the error of a call that found no kernel.
pub(super) type Report = Arc<dyn Fn(&MissingKernel) -> crate::Error + Send + Sync>;

impl OperatorEntry {
    pub(in crate::dispatch) fn new(name: OperatorName) -> &'static OperatorEntry {
        Box::leak(Box::new(OperatorEntry {
            slots: Slots::new(*MISSING, DispatchKeySet::FULL.raw()),
            definition: AtomicPtr::new(ptr::null_mut()),
            recording: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            observed: record::is_observed(&name),
            name,
            signature: OnceLock::new(),
            kernels: Mutex::default(),
            report: Mutex::default(),
        }))
    }

    pub(in crate::dispatch) fn kernels(&self) -> MutexGuard<'_, Kernels> {
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::dispatch) fn definition(&self) -> Option<&'static Definition> {
        // SAFETY: null, or a definition that was leaked.
        unsafe { self.definition.load(Ordering::Acquire).as_ref() }
    }

    pub(in crate::dispatch) fn set_definition(&self, definition: Option<&'static Definition>) {
        let p = definition.map_or(ptr::null_mut(), |d| ptr::from_ref(d).cast_mut());
        self.definition.store(p, Ordering::Release);
    }

    pub(in crate::dispatch) fn is_unused(&self) -> bool {
        self.definition().is_none() && self.kernels().is_empty()
    }

    /// Stores a signature, or returns the stored one if it differs.
    pub(in crate::dispatch) fn pin(
        &self,
        signature: &Signature,
        site: Site,
    ) -> Option<&(Signature, Site)> {
        let kept = self.signature.get_or_init(|| (signature.clone(), site));
        (kept.0.id != signature.id).then_some(kept)
    }

    /// How often registrations have changed the operator.
    pub(in crate::dispatch) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// A registration has changed the operator, and its table is up to date.
    pub(in crate::dispatch) fn changed(&self) {
        self.epoch.fetch_add(1, Ordering::Release);
    }

    /// Recomputes the table and the masks from the registrations.
    pub(in crate::dispatch) fn recompute(&self, fallbacks: &Fallbacks, layouts: &mut Layouts) {
        let kernels = self.kernels();
        let layout = layouts.of(Registered::of(kernels.keys()), fallbacks);
        let mut active = [*MISSING; DispatchKey::ALL.len()];
        for (key, list) in kernels.iter() {
            active[*key as usize] = list[0];
        }
        drop(kernels);
        let mut mask = DispatchKeySet::FULL;
        let mut by_backend = [DispatchKeySet::FULL; BackendComponent::ALL.len()];
        let mut records = [*MISSING; NUM_RUNTIME_ENTRIES];
        let mut recording = 0;
        for (i, (key, why)) in layout.iter().enumerate() {
            records[i] = match (key, why) {
                (Some(key), _) => active[*key as usize],
                (None, Provenance::Fallback) => fallbacks[i].unwrap_or(*MISSING),
                (None, Provenance::AmbiguousAutogradOther) => *AMBIGUOUS,
                (None, _) => continue,
            };
            let kernel = &records[i].kernel;
            if kernel.is_fallthrough() || kernel.only_records() {
                let slot = &SLOTS[i];
                if kernel.only_records() {
                    recording |= DispatchKeySet::FULL.raw() & !slot.skipped.raw();
                }
                let skipping = match slot.backend {
                    BackendComponent::Invalid => &mut mask,
                    b => &mut by_backend[b as usize - 1],
                };
                *skipping = *skipping & slot.skipped;
            }
        }
        self.recording.store(recording, Ordering::Release);
        self.slots.publish(&records, &by_backend.map(|b| (b & mask).raw()));
    }

    /// The set without the keys that this operator falls through.
    #[inline]
    pub(in crate::dispatch) fn masked(&self, keys: DispatchKeySet) -> DispatchKeySet {
        match keys.records() {
            true => {
                let mask = self.slots.mask(|| keys.highest_backend_bit());
                keys & DispatchKeySet::from_raw(mask | self.recording.load(Ordering::Acquire))
            }
            false => self.masked_silent(keys),
        }
    }

    /// [`OperatorEntry::masked`] of a call that records nothing.
    #[inline]
    pub(super) fn masked_silent(&self, keys: DispatchKeySet) -> DispatchKeySet {
        let mask = self.slots.mask(|| keys.highest_backend_bit());
        keys & DispatchKeySet::from_raw(mask)
    }

    #[inline]
    pub(super) fn lookup(&self, keys: DispatchKeySet) -> &'static Record {
        self.slots.occupant(keys.table_index())
    }

    /// What a call with these keys runs if the first look-up found no kernel; `keys` are those
    /// before masking.
    #[cold]
    #[inline(never)]
    pub(super) fn look_again(&self, keys: DispatchKeySet) -> (DispatchKeySet, &'static Record) {
        let look = || {
            self.slots.settle(|_| {
                let keys = self.masked(keys);
                (keys, self.lookup(keys))
            })
        };
        let mut found = look();
        for _ in 0..RETRIES {
            // a mask and a cell of different registrations
            if found.1.standing != Standing::Recording || keys.records() {
                break;
            }
            yield_now();
            found = look();
        }
        found
    }
}
