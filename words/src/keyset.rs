//! A set of dispatch keys in one word: 16 backend bits below, the functionalities above.
//!
//! A per-backend key is the pair of a functionality bit and a backend bit, so a set is a cross
//! product: `{CPU, AutogradCUDA}` also contains `CUDA` and `AutogradCPU`.

use crate::DeviceType;
use crate::key::{BackendComponent, DispatchKey, NUM_FUNCTIONALITIES};
use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, BitXor, Sub};

/// A set of runtime dispatch keys.
///
/// ```
/// use straightline_words::{DispatchKey, DispatchKeySet};
///
/// let ks = DispatchKeySet::from(DispatchKey::CPU) | DispatchKeySet::from(DispatchKey::AutogradCPU);
/// assert_eq!(ks.to_string(), "DispatchKeySet(CPU, AutogradCPU)");
/// assert_eq!(ks.highest_priority_key(), DispatchKey::AutogradCPU);
/// assert_eq!((ks - DispatchKeySet::from(DispatchKey::AutogradCPU)).highest_priority_key(), DispatchKey::CPU);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct DispatchKeySet(u64);

const BACKEND_BITS: u32 = 16;
const BACKENDS: u64 = 0xffff;
const FULL: u64 = (1 << (BACKEND_BITS as usize + NUM_FUNCTIONALITIES - 1)) - 1;

/// The bit of [`DispatchKeySet::RECORDS`], above all keys.
const RECORDS: u64 = 1 << 62;
const _: () = assert!(FULL & RECORDS == 0);

/// Slots in an operator's table: the runtime keys and `Undefined`.
pub const NUM_RUNTIME_ENTRIES: usize = 137;

/// Where the slots of a functionality start, and the backends that select among them. Padded so
/// that any index below 64 is in bounds.
const SLOTS: [(u16, u16); 64] = {
    let mut out = [(0u16, 0u16); 64];
    let mut offset = 0u16;
    let mut v = 0;
    while v < NUM_FUNCTIONALITIES {
        let per_backend = DispatchKey::ALL[v].is_per_backend_functionality();
        out[v] = (offset, if per_backend { 0xffff } else { 0 });
        offset += if per_backend { BACKEND_BITS as u16 } else { 1 };
        v += 1;
    }
    assert!(offset as usize == NUM_RUNTIME_ENTRIES);
    out
};

#[inline]
const fn functionality_bit(key: DispatchKey) -> u64 {
    match key.value() {
        0 => 0,
        v => 1 << (BACKEND_BITS - 1 + v as u32),
    }
}

#[inline]
const fn raw(key: DispatchKey) -> u64 {
    // aliases and the two placeholders at the ends are no functionality
    let f = key.functionality();
    if f.value() as usize >= NUM_FUNCTIONALITIES {
        return 0;
    }
    functionality_bit(f) | backend_bit(key.backend())
}

#[inline]
const fn backend_bit(b: BackendComponent) -> u64 {
    match b as u32 {
        0 => 0,
        n => 1 << (n - 1),
    }
}

impl DispatchKeySet {
    /// The empty set, which an undefined tensor carries.
    pub const EMPTY: DispatchKeySet = DispatchKeySet(0);
    /// Every functionality on every backend.
    pub const FULL: DispatchKeySet = DispatchKeySet(FULL);
    /// All backend bits and no functionality.
    pub const ALL_BACKENDS: DispatchKeySet = DispatchKeySet(BACKENDS);

    /// The autograd functionalities, without backend bits.
    pub const AUTOGRAD: DispatchKeySet = DispatchKeySet::of(&[
        DispatchKey::AutogradFunctionality,
        DispatchKey::AutogradOther,
        DispatchKey::AutogradNestedTensor,
    ]);
    /// [`DispatchKeySet::AUTOGRAD`] and `ADInplaceOrView`.
    pub const AUTOGRAD_AND_AD_INPLACE_OR_VIEW: DispatchKeySet = DispatchKeySet(
        DispatchKeySet::AUTOGRAD.0 | DispatchKeySet::of(&[DispatchKey::ADInplaceOrView]).0,
    );
    /// The ten autocast keys.
    pub const AUTOCAST: DispatchKeySet = DispatchKeySet::of(&[
        DispatchKey::AutocastCPU,
        DispatchKey::AutocastMTIA,
        DispatchKey::AutocastMAIA,
        DispatchKey::AutocastXPU,
        DispatchKey::AutocastIPU,
        DispatchKey::AutocastHPU,
        DispatchKey::AutocastXLA,
        DispatchKey::AutocastMPS,
        DispatchKey::AutocastCUDA,
        DispatchKey::AutocastPrivateUse1,
    ]);
    /// What every thread includes by default.
    pub const DEFAULT_INCLUDED: DispatchKeySet =
        DispatchKeySet::of(&[DispatchKey::BackendSelect, DispatchKey::ADInplaceOrView]);
    /// What every thread excludes by default.
    pub const DEFAULT_EXCLUDED: DispatchKeySet = DispatchKeySet::AUTOCAST;
    /// The keys of the Python-like dispatch modes.
    pub const PYTHON: DispatchKeySet =
        DispatchKeySet::of(&[DispatchKey::Python, DispatchKey::PythonTLSSnapshot]);
    /// The keys of the function transforms.
    pub const FUNCTORCH_TRANSFORMS: DispatchKeySet = DispatchKeySet::of(&[
        DispatchKey::FuncTorchBatched,
        DispatchKey::FuncTorchVmapMode,
        DispatchKey::Batched,
        DispatchKey::VmapMode,
        DispatchKey::FuncTorchGradWrapper,
    ]);
    /// The backends whose autograd key is `AutogradOther`.
    pub const AUTOGRAD_OTHER_BACKENDS: DispatchKeySet = DispatchKeySet(
        DispatchKeySet::of(&[
            DispatchKey::FPGA,
            DispatchKey::Vulkan,
            DispatchKey::Metal,
            DispatchKey::CustomRNGKeyId,
            DispatchKey::MkldnnCPU,
            DispatchKey::Quantized,
            DispatchKey::Sparse,
            DispatchKey::SparseCsr,
        ])
        .0 | BACKENDS,
    );
    /// The per-backend functionalities that hold data, on every backend.
    pub const BACKEND_FUNCTIONALITIES: DispatchKeySet = DispatchKeySet(
        DispatchKeySet::of(&[
            DispatchKey::Dense,
            DispatchKey::Quantized,
            DispatchKey::Sparse,
            DispatchKey::SparseCsr,
        ])
        .0 | BACKENDS,
    );
    /// What an autograd kernel redispatches to: everything below the lowest autograd key.
    pub const AFTER_AUTOGRAD: DispatchKeySet =
        DispatchKeySet::full_after(DispatchKey::AutogradOther);
    /// What an `ADInplaceOrView` kernel redispatches to.
    pub const AFTER_AD_INPLACE_OR_VIEW: DispatchKeySet =
        DispatchKeySet::full_after(DispatchKey::ADInplaceOrView);
    /// What a `Functionalize` kernel redispatches to.
    pub const AFTER_FUNCTIONALIZE: DispatchKeySet =
        DispatchKeySet::full_after(DispatchKey::Functionalize);

    /// Not a key: the mark, in the set of a call, that an operand has a gradient or may get one, or has a
    /// tangent.
    /// Autograd kernels that have nothing to do without it are passed by where it is missing.
    /// Tensors show no mark in their key sets, and no table has a slot for it.
    pub const RECORDS: DispatchKeySet = DispatchKeySet(RECORDS);

    /// Whether the set has the mark [`DispatchKeySet::RECORDS`].
    #[inline]
    pub const fn records(self) -> bool {
        self.0 & RECORDS != 0
    }

    /// [`DispatchKeySet::from_raw`] that keeps the mark [`DispatchKeySet::RECORDS`].
    #[inline]
    pub const fn from_marked(bits: u64) -> DispatchKeySet {
        DispatchKeySet(bits & (FULL | RECORDS))
    }

    /// The keys alone.
    #[must_use]
    #[inline]
    pub const fn unmarked(self) -> DispatchKeySet {
        DispatchKeySet(self.0 & FULL)
    }

    /// The union of some keys. Aliases and `Undefined` add nothing.
    #[inline]
    pub const fn of(keys: &[DispatchKey]) -> DispatchKeySet {
        let mut out = 0;
        let mut i = 0;
        while i < keys.len() {
            out |= raw(keys[i]);
            i += 1;
        }
        DispatchKeySet(out)
    }

    /// The set with these bits; meaningless bits are dropped.
    #[inline]
    pub const fn from_raw(bits: u64) -> DispatchKeySet {
        DispatchKeySet(bits & FULL)
    }

    /// The bits: backends in 0-15, functionalities from 16.
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Everything strictly below `key`'s functionality, every backend, and always
    /// `PythonDispatcher`, so that a redispatch can be intercepted once more.
    #[inline]
    pub const fn full_after(key: DispatchKey) -> DispatchKeySet {
        let f = functionality_bit(key.functionality());
        let below = if f == 0 { 0 } else { f - 1 };
        DispatchKeySet(below | BACKENDS | functionality_bit(DispatchKey::PythonDispatcher))
    }

    /// The set that a dense tensor of this backend and no other property carries: the dense key,
    /// `ADInplaceOrView` and autograd, and its autocast key.
    #[inline]
    pub const fn for_dense_tensor(backend: BackendComponent) -> DispatchKeySet {
        let autocast = match DispatchKey::autocast_of(backend) {
            Some(k) => raw(k),
            None => 0,
        };
        DispatchKeySet(
            raw(DispatchKey::Dense.on_backend(backend))
                | DispatchKeySet::autograd_related(backend).0
                | autocast,
        )
    }

    /// [`DispatchKeySet::for_dense_tensor`] of a device.
    #[inline]
    pub const fn for_device(device: DeviceType) -> DispatchKeySet {
        DispatchKeySet::for_dense_tensor(BackendComponent::of(device))
    }

    /// The autograd keys that a tensor of this backend carries.
    #[inline]
    pub const fn autograd_related(backend: BackendComponent) -> DispatchKeySet {
        DispatchKeySet::of(&[DispatchKey::ADInplaceOrView, DispatchKey::autograd_of(backend)])
    }

    /// Whether the set is empty.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all bits of `key` are present. `Undefined` and aliases are in no set.
    #[inline]
    pub const fn has(self, key: DispatchKey) -> bool {
        let k = raw(key);
        k != 0 && self.0 & k == k
    }

    /// Whether a key of `other` is present. `other` must not mix backend bits with per-backend
    /// functionalities, for which the question has no single answer.
    #[inline]
    pub fn has_any(self, other: DispatchKeySet) -> bool {
        debug_assert!(
            other.0 & BACKENDS == 0
                || other.0
                    & DispatchKeySet::of(&[
                        DispatchKey::Dense,
                        DispatchKey::Quantized,
                        DispatchKey::Sparse,
                        DispatchKey::SparseCsr,
                        DispatchKey::NestedTensor,
                        DispatchKey::AutogradFunctionality,
                    ])
                    .0
                    == 0,
            "has_any of {other:?}, which mixes backends and per-backend functionalities"
        );
        self.0 & other.0 != 0
    }

    /// Whether the set contains all of `other`.
    #[inline]
    pub const fn is_superset(self, other: DispatchKeySet) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether a backend bit is present.
    #[inline]
    pub const fn has_backend(self, backend: BackendComponent) -> bool {
        self.0 & backend_bit(backend) != 0
    }

    /// The set and one more key.
    #[must_use]
    #[inline]
    pub const fn add(self, key: DispatchKey) -> DispatchKeySet {
        DispatchKeySet(self.0 | raw(key))
    }

    /// The set without the functionality of `key`; every backend bit stays.
    #[must_use]
    #[inline]
    pub const fn remove(self, key: DispatchKey) -> DispatchKeySet {
        DispatchKeySet(self.0 & !(raw(key) & !BACKENDS))
    }

    /// The set without a backend; the one way to clear a backend bit.
    #[must_use]
    #[inline]
    pub const fn remove_backend(self, backend: BackendComponent) -> DispatchKeySet {
        DispatchKeySet(self.0 & !backend_bit(backend))
    }

    /// The highest functionality, `Undefined` if there is none.
    #[inline]
    pub const fn highest_functionality(self) -> DispatchKey {
        DispatchKey::ALL[self.functionality_index()]
    }

    #[inline]
    const fn functionality_index(self) -> usize {
        (u64::BITS - (self.0 >> BACKEND_BITS).leading_zeros()) as usize
    }

    /// The highest backend, `Invalid` if there is none.
    #[inline]
    pub const fn highest_backend(self) -> BackendComponent {
        BackendComponent::from_bit_width(u64::BITS - (self.0 & BACKENDS).leading_zeros())
    }

    /// The bit of the highest backend, 0 (the CPU's) if there is none.
    #[inline]
    pub const fn highest_backend_bit(self) -> usize {
        ((self.0 & BACKENDS) | 1).ilog2() as usize
    }

    /// The key that a call with this set dispatches to.
    #[inline]
    pub const fn highest_priority_key(self) -> DispatchKey {
        self.highest_functionality().on_backend(self.highest_backend())
    }

    /// The slot of the highest key in an operator's table. A per-backend functionality without a
    /// backend lands on the CPU slot.
    #[inline]
    pub const fn table_index(self) -> usize {
        let (offset, mask) = SLOTS[self.functionality_index() & 63];
        let backend = (self.0 & mask as u64) >> 1;
        offset as usize + (u64::BITS - backend.leading_zeros()) as usize
    }

    /// The keys, ascending. A per-backend functionality without backends yields nothing, and
    /// neither do backends alone.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = DispatchKey> {
        DispatchKey::ALL[1..NUM_FUNCTIONALITIES]
            .iter()
            .copied()
            .filter(move |f| self.0 & functionality_bit(*f) != 0)
            .flat_map(move |f| {
                let per_backend = f.is_per_backend_functionality();
                let backends = BackendComponent::ALL
                    .into_iter()
                    .filter(move |b| per_backend && self.has_backend(*b))
                    .map(move |b| f.on_backend(b));
                backends.chain((!per_backend).then_some(f))
            })
    }
}

impl From<DispatchKey> for DispatchKeySet {
    #[inline]
    fn from(key: DispatchKey) -> Self {
        DispatchKeySet(raw(key))
    }
}

impl FromIterator<DispatchKey> for DispatchKeySet {
    #[inline]
    fn from_iter<I: IntoIterator<Item = DispatchKey>>(keys: I) -> Self {
        keys.into_iter().fold(DispatchKeySet::EMPTY, DispatchKeySet::add)
    }
}

impl BitOr for DispatchKeySet {
    type Output = DispatchKeySet;
    #[inline]
    fn bitor(self, other: DispatchKeySet) -> DispatchKeySet {
        DispatchKeySet(self.0 | other.0)
    }
}

impl BitOrAssign for DispatchKeySet {
    #[inline]
    fn bitor_assign(&mut self, other: DispatchKeySet) {
        self.0 |= other.0;
    }
}

impl BitAnd for DispatchKeySet {
    type Output = DispatchKeySet;
    #[inline]
    fn bitand(self, other: DispatchKeySet) -> DispatchKeySet {
        DispatchKeySet(self.0 & other.0)
    }
}

impl BitXor for DispatchKeySet {
    type Output = DispatchKeySet;
    #[inline]
    fn bitxor(self, other: DispatchKeySet) -> DispatchKeySet {
        DispatchKeySet(self.0 ^ other.0)
    }
}

impl Sub for DispatchKeySet {
    type Output = DispatchKeySet;
    /// Clears the functionalities of `other`; every backend bit of `self` stays.
    #[inline]
    fn sub(self, other: DispatchKeySet) -> DispatchKeySet {
        DispatchKeySet(self.0 & !(other.0 & !BACKENDS))
    }
}

impl fmt::Display for DispatchKeySet {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DispatchKeySet(")?;
        for (i, k) in self.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{k}")?;
        }
        f.write_str(")")
    }
}

impl fmt::Debug for DispatchKeySet {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
