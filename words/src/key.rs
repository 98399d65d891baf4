//! Dispatch keys: every backend and every cross-cutting feature that an operator call can visit.
//!
//! The numbering is c10's (PyTorch 2.15). Keys below 48 are functionalities; a higher one runs
//! earlier. Six functionalities exist once per backend and own a block of keys each; six alias keys
//! have a meaning only at registration, where they stand for many runtime keys.

use crate::DeviceType;
use std::fmt;

macro_rules! dispatch_keys {
    ($($name:ident,)*) => {
        /// One key of the dispatcher.
        #[allow(missing_docs, non_camel_case_types, clippy::upper_case_acronyms)] // the names are c10's
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum DispatchKey { $($name,)* }

        impl DispatchKey {
            /// Every key, placeholders and aliases included; the position is the key's number.
            pub const ALL: &'static [DispatchKey] = &[$(DispatchKey::$name,)*];

            const NAMES: &'static [&'static str] = &[$(stringify!($name),)*];
        }
    };
}

dispatch_keys! {
    // functionalities
    Undefined, Dense, FPGA, Vulkan, Metal, Quantized, CustomRNGKeyId, MkldnnCPU, Sparse,
    SparseCsr, NestedTensor, BackendSelect, Fake, Python, FuncTorchDynamicLayerBackMode,
    Functionalize, Conjugate, Negative, ZeroTensor, ADInplaceOrView, AutogradOther,
    AutogradFunctionality, AutogradNestedTensor, Tracer, AutocastCPU, AutocastMTIA, AutocastMAIA,
    AutocastXPU, AutocastIPU, AutocastHPU, AutocastXLA, AutocastMPS, AutocastCUDA,
    AutocastPrivateUse1, FuncTorchBatched, BatchedNestedTensor, FuncTorchVmapMode, Batched,
    VmapMode, FuncTorchGradWrapper, DeferredInit, PythonTLSSnapshot,
    FuncTorchDynamicLayerFrontMode, TESTING_ONLY_GenericWrapper, TESTING_ONLY_GenericMode,
    PreDispatch, PythonDispatcher, EndOfFunctionalityKeys,
    // Dense on each backend
    StartOfDenseBackends, CPU, CUDA, HIP, XLA, MPS, IPU, XPU, HPU, VE, Lazy, MTIA, MAIA,
    PrivateUse1, PrivateUse2, PrivateUse3, Meta,
    // Quantized on each backend
    StartOfQuantizedBackends, QuantizedCPU, QuantizedCUDA, QuantizedHIP, QuantizedXLA,
    QuantizedMPS, QuantizedIPU, QuantizedXPU, QuantizedHPU, QuantizedVE, QuantizedLazy,
    QuantizedMTIA, QuantizedMAIA, QuantizedPrivateUse1, QuantizedPrivateUse2,
    QuantizedPrivateUse3, QuantizedMeta,
    // Sparse on each backend
    StartOfSparseBackends, SparseCPU, SparseCUDA, SparseHIP, SparseXLA, SparseMPS, SparseIPU,
    SparseXPU, SparseHPU, SparseVE, SparseLazy, SparseMTIA, SparseMAIA, SparsePrivateUse1,
    SparsePrivateUse2, SparsePrivateUse3, SparseMeta,
    // SparseCsr on each backend
    StartOfSparseCsrBackends, SparseCsrCPU, SparseCsrCUDA, SparseCsrHIP, SparseCsrXLA,
    SparseCsrMPS, SparseCsrIPU, SparseCsrXPU, SparseCsrHPU, SparseCsrVE, SparseCsrLazy,
    SparseCsrMTIA, SparseCsrMAIA, SparseCsrPrivateUse1, SparseCsrPrivateUse2,
    SparseCsrPrivateUse3, SparseCsrMeta,
    // NestedTensor on each backend
    StartOfNestedTensorBackends, NestedTensorCPU, NestedTensorCUDA, NestedTensorHIP,
    NestedTensorXLA, NestedTensorMPS, NestedTensorIPU, NestedTensorXPU, NestedTensorHPU,
    NestedTensorVE, NestedTensorLazy, NestedTensorMTIA, NestedTensorMAIA, NestedTensorPrivateUse1,
    NestedTensorPrivateUse2, NestedTensorPrivateUse3, NestedTensorMeta,
    // Autograd on each backend
    StartOfAutogradBackends, AutogradCPU, AutogradCUDA, AutogradHIP, AutogradXLA, AutogradMPS,
    AutogradIPU, AutogradXPU, AutogradHPU, AutogradVE, AutogradLazy, AutogradMTIA, AutogradMAIA,
    AutogradPrivateUse1, AutogradPrivateUse2, AutogradPrivateUse3, AutogradMeta,
    // aliases
    Autograd, CompositeImplicitAutograd, FuncTorchBatchedDecomposition,
    CompositeImplicitAutogradNestedTensor, CompositeExplicitAutograd,
    CompositeExplicitAutogradNonFunctional,
}

/// The backend half of a key, in priority order: Meta beats every other.
#[allow(missing_docs, clippy::upper_case_acronyms)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum BackendComponent {
    Invalid,
    CPU,
    CUDA,
    HIP,
    XLA,
    MPS,
    IPU,
    XPU,
    HPU,
    VE,
    Lazy,
    MTIA,
    MAIA,
    PrivateUse1,
    PrivateUse2,
    PrivateUse3,
    Meta,
}

impl BackendComponent {
    /// The backends, without `Invalid`.
    pub const ALL: [BackendComponent; 16] = [
        BackendComponent::CPU,
        BackendComponent::CUDA,
        BackendComponent::HIP,
        BackendComponent::XLA,
        BackendComponent::MPS,
        BackendComponent::IPU,
        BackendComponent::XPU,
        BackendComponent::HPU,
        BackendComponent::VE,
        BackendComponent::Lazy,
        BackendComponent::MTIA,
        BackendComponent::MAIA,
        BackendComponent::PrivateUse1,
        BackendComponent::PrivateUse2,
        BackendComponent::PrivateUse3,
        BackendComponent::Meta,
    ];

    /// The backend of a device.
    #[inline]
    pub const fn of(device: DeviceType) -> BackendComponent {
        BackendComponent::ALL[device as usize]
    }

    #[inline]
    pub(crate) const fn from_bit_width(width: u32) -> BackendComponent {
        match width {
            0 => BackendComponent::Invalid,
            n => BackendComponent::ALL[n as usize - 1],
        }
    }
}

/// The number of functionalities, `Undefined` included.
pub(crate) const NUM_FUNCTIONALITIES: usize = 47;

/// The functionalities that exist once per backend, with the placeholder that opens their block.
const BLOCKS: [(DispatchKey, DispatchKey); 6] = [
    (DispatchKey::Dense, DispatchKey::StartOfDenseBackends),
    (DispatchKey::Quantized, DispatchKey::StartOfQuantizedBackends),
    (DispatchKey::Sparse, DispatchKey::StartOfSparseBackends),
    (DispatchKey::SparseCsr, DispatchKey::StartOfSparseCsrBackends),
    (DispatchKey::NestedTensor, DispatchKey::StartOfNestedTensorBackends),
    (DispatchKey::AutogradFunctionality, DispatchKey::StartOfAutogradBackends),
];

impl DispatchKey {
    /// The old name of [`DispatchKey::Undefined`] at registration.
    pub const CATCH_ALL: DispatchKey = DispatchKey::Undefined;
    /// The old name of [`DispatchKey::AutocastCUDA`].
    pub const AUTOCAST: DispatchKey = DispatchKey::AutocastCUDA;
    /// The old name of [`DispatchKey::CompositeExplicitAutograd`].
    pub const DEFAULT_BACKEND: DispatchKey = DispatchKey::CompositeExplicitAutograd;

    /// The key's number.
    #[inline]
    pub const fn value(self) -> u8 {
        self as u8
    }

    /// The block that a per-backend key belongs to: `(functionality, start)`.
    #[inline]
    const fn block(self) -> Option<(DispatchKey, DispatchKey)> {
        let mut i = 0;
        while i < BLOCKS.len() {
            let start = BLOCKS[i].1 as u8;
            if self as u8 >= start && self as u8 <= start + 16 {
                return Some(BLOCKS[i]);
            }
            i += 1;
        }
        None
    }

    /// The functionality of a runtime key: a per-backend key maps to its building block, an alias
    /// to `Undefined`, any other key to itself.
    #[inline]
    pub const fn functionality(self) -> DispatchKey {
        if self.is_alias() {
            return DispatchKey::Undefined;
        }
        match self.block() {
            Some((functionality, _)) => functionality,
            None => self,
        }
    }

    /// The backend of a per-backend key, `Invalid` for any other.
    #[inline]
    pub const fn backend(self) -> BackendComponent {
        match self.block() {
            Some((_, start)) => BackendComponent::from_bit_width((self as u8 - start as u8) as u32),
            None => BackendComponent::Invalid,
        }
    }

    /// Whether this is a building block, which has one key per backend and none of its own.
    #[inline]
    pub const fn is_per_backend_functionality(self) -> bool {
        self.block_start().is_some()
    }

    #[inline]
    const fn block_start(self) -> Option<DispatchKey> {
        let mut i = 0;
        while i < BLOCKS.len() {
            if BLOCKS[i].0 as u8 == self as u8 {
                return Some(BLOCKS[i].1);
            }
            i += 1;
        }
        None
    }

    /// The key of a functionality on a backend: `Sparse` and `CUDA` make `SparseCUDA`. A
    /// functionality that is not per-backend stays itself; without a backend the placeholder that
    /// prints `Undefined` results.
    #[inline]
    pub const fn on_backend(self, backend: BackendComponent) -> DispatchKey {
        match self.block_start() {
            Some(start) => DispatchKey::ALL[start as usize + backend as usize],
            None => self,
        }
    }

    /// Whether the key has a meaning only at registration.
    #[inline]
    pub const fn is_alias(self) -> bool {
        self as u8 >= DispatchKey::Autograd as u8
    }

    /// Whether the key has a slot in an operator's table (`Undefined` has one too, and is not
    /// counted here).
    #[inline]
    pub const fn is_runtime(self) -> bool {
        let v = self as u8;
        if v == 0 || self.is_alias() {
            return false;
        }
        match self.block() {
            Some((_, start)) => v != start as u8,
            None => v < NUM_FUNCTIONALITIES as u8 && !self.is_per_backend_functionality(),
        }
    }

    /// The keys with a slot in an operator's table, ascending, without `Undefined`: 136 of them.
    #[inline]
    pub fn runtime_keys() -> impl Iterator<Item = DispatchKey> {
        DispatchKey::ALL.iter().copied().filter(|k| k.is_runtime())
    }

    /// The printed name. Placeholders print as an undefined key of their block.
    #[inline]
    pub const fn name(self) -> &'static str {
        match self {
            DispatchKey::StartOfDenseBackends => "Undefined",
            DispatchKey::StartOfQuantizedBackends => "QuantizedUndefined",
            DispatchKey::StartOfSparseBackends => "SparseUndefined",
            DispatchKey::StartOfSparseCsrBackends => "SparseCsrUndefined",
            DispatchKey::StartOfNestedTensorBackends => "NestedTensorUndefined",
            DispatchKey::StartOfAutogradBackends => "AutogradUndefined",
            _ => DispatchKey::NAMES[self as usize],
        }
    }

    /// The dense key of a device.
    #[inline]
    pub const fn dense(device: DeviceType) -> DispatchKey {
        DispatchKey::Dense.on_backend(BackendComponent::of(device))
    }

    /// The autograd key that tensors of a backend carry: `AutogradOther` for HIP, VE and anything
    /// that is not a backend.
    #[inline]
    pub const fn autograd_of(backend: BackendComponent) -> DispatchKey {
        match backend {
            BackendComponent::Invalid | BackendComponent::HIP | BackendComponent::VE => {
                DispatchKey::AutogradOther
            }
            b => DispatchKey::AutogradFunctionality.on_backend(b),
        }
    }

    /// The autocast key that tensors of a backend carry, if it has one.
    #[inline]
    pub const fn autocast_of(backend: BackendComponent) -> Option<DispatchKey> {
        Some(match backend {
            BackendComponent::CPU => DispatchKey::AutocastCPU,
            BackendComponent::MTIA => DispatchKey::AutocastMTIA,
            BackendComponent::MAIA => DispatchKey::AutocastMAIA,
            BackendComponent::XPU => DispatchKey::AutocastXPU,
            BackendComponent::IPU => DispatchKey::AutocastIPU,
            BackendComponent::HPU => DispatchKey::AutocastHPU,
            BackendComponent::CUDA => DispatchKey::AutocastCUDA,
            BackendComponent::XLA => DispatchKey::AutocastXLA,
            BackendComponent::PrivateUse1 => DispatchKey::AutocastPrivateUse1,
            BackendComponent::MPS => DispatchKey::AutocastMPS,
            _ => return None,
        })
    }

    /// Whether the name is one that [`str::parse`] accepts. The table is c10's, which leaves out
    /// many per-backend keys that print.
    #[inline]
    fn is_parseable(self) -> bool {
        use BackendComponent as B;
        let backend = self.backend();
        let of = |list: &[B]| list.contains(&backend);
        match self.functionality() {
            _ if self.is_alias() => true,
            _ if self.value() < NUM_FUNCTIONALITIES as u8 => true,
            DispatchKey::Dense => backend != B::Invalid,
            DispatchKey::Quantized => of(&[B::CPU, B::CUDA, B::XPU, B::PrivateUse1]),
            DispatchKey::Sparse | DispatchKey::SparseCsr => {
                of(&[B::CPU, B::CUDA, B::HIP, B::MPS, B::XPU, B::VE, B::PrivateUse1, B::Meta])
            }
            DispatchKey::NestedTensor => {
                of(&[B::CPU, B::CUDA, B::XPU, B::HPU, B::PrivateUse1, B::Meta])
            }
            DispatchKey::AutogradFunctionality => {
                !of(&[B::Invalid, B::HIP, B::VE, B::MTIA, B::MAIA])
            }
            _ => false,
        }
    }
}

impl fmt::Display for DispatchKey {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is not a dispatch key, or one of the keys that print but do not parse.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseKeyError(pub String);

impl fmt::Display for ParseKeyError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "could not parse dispatch key: {}", self.0)
    }
}

impl std::error::Error for ParseKeyError {}

impl std::str::FromStr for DispatchKey {
    type Err = ParseKeyError;

    #[inline]
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        DispatchKey::ALL
            .iter()
            .copied()
            .find(|k| k.is_parseable() && k.name() == s)
            .ok_or_else(|| ParseKeyError(s.to_string()))
    }
}
