//! The header of the dispatch keys: an older one, so what changed until PyTorch 2.15 is said where
//! it did.

use straightline::dispatch::{
    BackendComponent as B, DispatchKey as K, DispatchKeySet, NUM_RUNTIME_ENTRIES,
};

/// "The only situation when backend ordering is meaningful is when the backend participates in
/// multiple dispatch with another backend".
#[test]
fn the_order_of_backends() {
    let header =
        "CPU CUDA HIP XLA MPS IPU XPU HPU VE Lazy Meta MTIA PrivateUse1 PrivateUse2 PrivateUse3";
    let names: Vec<String> = B::ALL.iter().map(|b| format!("{b:?}")).collect();
    // every backend of the header is there; ORT became MAIA, and Meta is now the last, so that one
    // Meta argument makes a call a dry run
    let known: Vec<&String> =
        names.iter().filter(|n| header.split(' ').any(|h| h == **n)).collect();
    assert_eq!(known.len(), header.split(' ').count());
    assert_eq!(
        names.join(" "),
        "CPU CUDA HIP XLA MPS IPU XPU HPU VE Lazy MTIA MAIA PrivateUse1 PrivateUse2 PrivateUse3 Meta"
    );
    assert!(B::CUDA > B::CPU);
    // "private use keys should have higher precedence than all built-in keys", Meta apart
    for b in B::ALL.iter().filter(|b| **b < B::PrivateUse1) {
        assert!(B::PrivateUse1 > *b);
    }
    assert_eq!(B::Invalid as u8, 0);
    assert_eq!(B::Meta as u8, 16);
}

/// (1) to (5) of the note on the classification of keys: which have a bit, and which a slot.
#[test]
fn five_categories() {
    let has_bit = |k: K| !DispatchKeySet::from(k).is_empty();
    // backends and functionalities that cannot be customised: a bit and a slot
    for key in
        [K::FPGA, K::Vulkan, K::Metal, K::CustomRNGKeyId, K::MkldnnCPU, K::Functionalize, K::Tracer]
    {
        assert!(has_bit(key) && key.is_runtime() && !key.is_per_backend_functionality(), "{key}");
        assert_eq!(DispatchKeySet::from(key).highest_backend(), B::Invalid);
    }
    // functionalities that exist per backend: a bit and no slot of their own
    let per_backend = [
        K::Dense,
        K::Quantized,
        K::Sparse,
        K::SparseCsr,
        K::NestedTensor,
        K::AutogradFunctionality,
    ];
    for key in per_backend {
        assert!(has_bit(key) && key.is_per_backend_functionality() && !key.is_runtime(), "{key}");
    }
    let all = K::ALL.iter().filter(|k| k.is_per_backend_functionality()).count();
    assert_eq!(all, per_backend.len());
    // their instances: a slot and no bit of their own
    for key in [K::CPU, K::SparseCUDA, K::AutogradMeta] {
        assert!(key.is_runtime() && !key.is_per_backend_functionality(), "{key}");
        let (functionality, backend) = (key.functionality(), key.backend());
        assert_eq!(functionality.on_backend(backend), key);
        let together = DispatchKeySet::from(key);
        assert!(together.has(functionality) && together.has_backend(backend));
    }
    // aliases: neither
    for key in [K::Autograd, K::CompositeImplicitAutograd, K::CompositeExplicitAutograd] {
        assert!(key.is_alias() && !key.is_runtime() && !has_bit(key), "{key}");
    }
    // "the full cross product of backends x functionalities that are per-backend"
    assert_eq!(NUM_RUNTIME_ENTRIES, 47 + per_backend.len() * (B::ALL.len() - 1));
    assert_eq!(K::runtime_keys().count(), NUM_RUNTIME_ENTRIES - 1);
}

/// "Undefined exists to give us a nullopt element"; CatchAll is another name of it.
#[test]
fn undefined_is_no_key() {
    assert_eq!(K::Undefined as u8, 0);
    assert_eq!(K::CATCH_ALL, K::Undefined);
    assert!(DispatchKeySet::from(K::Undefined).is_empty());
    assert_eq!(DispatchKeySet::EMPTY.highest_priority_key(), K::Undefined);
    assert_eq!(DispatchKeySet::EMPTY.table_index(), 0);
}

/// "Higher bit indexes get handled by dispatching first": the order of the enum is the order of the
/// calls.
#[test]
fn the_order_of_functionalities() {
    // the header's list, low to high, in today's names: ORT and Named are gone, SparseCsrCPU and
    // SparseCsrCUDA became one per-backend functionality
    let order = [
        K::Dense,
        K::FPGA,
        K::Vulkan,
        K::Metal,
        K::Quantized,
        K::CustomRNGKeyId,
        K::MkldnnCPU,
        K::Sparse,
        K::SparseCsr,
        K::NestedTensor,
        K::BackendSelect,
        K::Python,
        K::FuncTorchDynamicLayerBackMode,
        K::Functionalize,
        K::Conjugate,
        K::Negative,
        K::ZeroTensor,
        K::ADInplaceOrView,
        K::AutogradOther,
        K::AutogradFunctionality,
        K::AutogradNestedTensor,
    ];
    assert!(order.is_sorted());
    for pair in order.windows(2) {
        let both = DispatchKeySet::of(pair).remove_backend(B::CPU);
        assert_eq!(both.highest_functionality(), pair[1]);
    }
    assert!("ORT".parse::<K>().is_err() && "Named".parse::<K>().is_err());
    // the header has Fake above Python; today it is right below
    assert_eq!(K::Python as u8, K::Fake as u8 + 1);
    // "sparse multi-dispatches with the corresponding dense tensors, and must be handled before
    // them"
    let mixed = DispatchKeySet::from(K::CPU) | K::SparseCPU.into();
    assert_eq!(mixed.highest_priority_key(), K::SparseCPU);
    // "this key should be directly after ADInplaceOrView and all of the autograd keys" once was:
    // what runs after autograd, below it
    assert!(K::FuncTorchDynamicLayerBackMode < K::ADInplaceOrView);
    // "Autograd ... We process Autograd before XLA. This key has higher priority"
    assert!(DispatchKeySet::of(&[K::XLA, K::AutogradXLA]).highest_priority_key() == K::AutogradXLA);
}

/// "the bottom ~12 bits": 16 today, and the functionalities above them.
#[test]
fn bits() {
    assert_eq!(DispatchKeySet::from(K::CPU).raw(), 0x10001);
    assert_eq!(DispatchKeySet::from(K::CUDA).raw(), 0x10002);
    assert_eq!(DispatchKeySet::from(K::Dense).raw(), 0x10000);
    assert_eq!(DispatchKeySet::from(K::AutogradCPU).raw(), 0x10_0000_0001);
    // "when we encounter a functionality bit that is known to be customizeable per-backend, then we
    // also look at the lower BackendComponent bits and take the highest"
    let set = DispatchKeySet::of(&[K::CPU, K::AutogradCUDA]);
    assert_eq!(set.highest_priority_key(), K::AutogradCUDA);
    assert_eq!((set - K::AutogradCPU.into()).highest_priority_key(), K::CUDA);
}

/// "All other in-tree backends share the AutogradOther key."
#[test]
fn autograd_of_backends() {
    for b in [B::CPU, B::CUDA, B::XLA, B::Lazy, B::MPS, B::PrivateUse1, B::Meta] {
        let own = K::AutogradFunctionality.on_backend(b);
        assert!(DispatchKeySet::autograd_related(b).has(own), "{b:?}");
        assert!(own.is_included_in(K::Autograd));
    }
    assert!(DispatchKeySet::autograd_related(B::HIP).has(K::AutogradOther));
    // "Autograd is now an alias key which by default maps to all backend-specific autograd keys"
    assert_eq!(K::Autograd.expansion().iter().count(), 18);
    // and the backends behind AutogradOther are those without one
    let behind = K::AutogradOther.backends_behind_autograd();
    assert!(behind.has(K::FPGA) && behind.has(K::SparseCPU) && behind.has(K::QuantizedCUDA));
    assert!(!behind.has(K::CPU));
}
