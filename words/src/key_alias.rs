//! What the alias keys stand for, and which backends are behind an autograd key.
//!
//! All of it is read off PyTorch 2.15, oddities included: three backends (HIP, VE, MTIA) are
//! behind no autograd key, so a kernel for one of them never displaces a composite there.

use crate::key::{BackendComponent, DispatchKey};
use crate::keyset::DispatchKeySet;

const STANDALONE: DispatchKeySet = DispatchKeySet::of(&[
    DispatchKey::FPGA,
    DispatchKey::Vulkan,
    DispatchKey::Metal,
    DispatchKey::CustomRNGKeyId,
    DispatchKey::MkldnnCPU,
]);

impl DispatchKey {
    /// The runtime keys that a registration at this key fills: the expansion of an alias, the key
    /// itself otherwise. `Undefined`, which the composite aliases fill too, is no member of a set;
    /// see [`DispatchKey::fills_undefined`].
    #[inline]
    pub fn expansion(self) -> DispatchKeySet {
        let dense_like = DispatchKeySet::BACKEND_FUNCTIONALITIES | STANDALONE;
        let autograd = DispatchKeySet::AUTOGRAD | DispatchKeySet::ALL_BACKENDS;
        let nested = DispatchKeySet::from(DispatchKey::NestedTensor);
        match self {
            DispatchKey::Autograd => autograd,
            DispatchKey::CompositeImplicitAutograd => dense_like | nested | autograd,
            DispatchKey::CompositeExplicitAutograd => dense_like,
            DispatchKey::CompositeExplicitAutogradNonFunctional => dense_like
                .remove(DispatchKey::Sparse)
                .remove_backend(BackendComponent::XLA)
                .remove_backend(BackendComponent::Lazy),
            DispatchKey::CompositeImplicitAutogradNestedTensor => {
                nested
                    | DispatchKeySet::ALL_BACKENDS
                    | DispatchKeySet::from(DispatchKey::AutogradNestedTensor)
            }
            DispatchKey::FuncTorchBatchedDecomposition => DispatchKey::FuncTorchBatched.into(),
            key => key.into(),
        }
    }

    /// Whether a registration at this key also serves calls that have no functionality at all.
    #[inline]
    pub const fn fills_undefined(self) -> bool {
        matches!(
            self,
            DispatchKey::CompositeImplicitAutograd
                | DispatchKey::CompositeExplicitAutograd
                | DispatchKey::CompositeExplicitAutogradNonFunctional
        )
    }

    /// Whether a registration at `alias` fills this key.
    #[inline]
    pub fn is_included_in(self, alias: DispatchKey) -> bool {
        if self == DispatchKey::Undefined {
            return alias.fills_undefined();
        }
        alias.expansion().has(self)
    }

    /// The backends whose direct kernels displace a composite at this autograd key.
    #[inline]
    pub fn backends_behind_autograd(self) -> DispatchKeySet {
        use BackendComponent as B;
        match self {
            DispatchKey::AutogradOther => DispatchKeySet::AUTOGRAD_OTHER_BACKENDS,
            DispatchKey::AutogradNestedTensor => {
                DispatchKeySet::from(DispatchKey::NestedTensor) | DispatchKeySet::ALL_BACKENDS
            }
            key if key.functionality() == DispatchKey::AutogradFunctionality => {
                match key.backend() {
                    B::Invalid | B::HIP | B::VE | B::MTIA => DispatchKeySet::EMPTY,
                    b => DispatchKey::Dense.on_backend(b).into(),
                }
            }
            _ => DispatchKeySet::EMPTY,
        }
    }

    /// Whether the key holds data on a backend: dense, quantized or sparse on any backend, or one
    /// of the standalone backends.
    #[inline]
    pub fn is_backend(self) -> bool {
        self.is_runtime()
            && (DispatchKeySet::AUTOGRAD_OTHER_BACKENDS | DispatchKeySet::from(DispatchKey::Dense))
                .has(self)
    }
}
