//! Keys, aliases and key sets against the tables of c10.

use crate::key::{BackendComponent as B, DispatchKey as K};
use crate::keyset::{DispatchKeySet as S, NUM_RUNTIME_ENTRIES};
use proptest::prelude::*;

fn s(keys: &[K]) -> S {
    S::of(keys)
}

#[test]
fn numbers() {
    for (key, value) in [
        (K::Undefined, 0),
        (K::Dense, 1),
        (K::Python, 13),
        (K::Functionalize, 15),
        (K::ADInplaceOrView, 19),
        (K::AutogradOther, 20),
        (K::AutogradFunctionality, 21),
        (K::AutocastCUDA, 32),
        (K::FuncTorchBatched, 34),
        (K::PythonDispatcher, 46),
        (K::EndOfFunctionalityKeys, 47),
        (K::StartOfDenseBackends, 48),
        (K::CPU, 49),
        (K::Meta, 64),
        (K::QuantizedCPU, 66),
        (K::SparseMeta, 98),
        (K::SparseCsrCPU, 100),
        (K::NestedTensorMeta, 132),
        (K::AutogradCPU, 134),
        (K::AutogradMeta, 149),
        (K::Autograd, 150),
        (K::CompositeExplicitAutogradNonFunctional, 155),
    ] {
        assert_eq!(key.value(), value, "{key}");
        assert_eq!(K::ALL[value as usize], key);
    }
    assert_eq!(K::ALL.len(), 156);
    assert_eq!(K::runtime_keys().count(), NUM_RUNTIME_ENTRIES - 1);
}

#[test]
fn halves_of_a_key() {
    for (key, functionality, backend) in [
        (K::CPU, K::Dense, B::CPU),
        (K::SparseCUDA, K::Sparse, B::CUDA),
        (K::AutogradMeta, K::AutogradFunctionality, B::Meta),
        (K::FPGA, K::FPGA, B::Invalid),
        (K::Tracer, K::Tracer, B::Invalid),
        (K::CompositeImplicitAutograd, K::Undefined, B::Invalid),
    ] {
        assert_eq!((key.functionality(), key.backend()), (functionality, backend));
    }
    for key in K::runtime_keys() {
        assert_eq!(key.functionality().on_backend(key.backend()), key);
    }
}

#[test]
fn names_print_and_some_parse() {
    assert_eq!(K::StartOfDenseBackends.to_string(), "Undefined");
    assert_eq!(K::StartOfSparseCsrBackends.to_string(), "SparseCsrUndefined");
    assert_eq!(K::TESTING_ONLY_GenericMode.to_string(), "TESTING_ONLY_GenericMode");
    for name in [
        "Undefined",
        "CPU",
        "Meta",
        "VE",
        "QuantizedXPU",
        "SparseHIP",
        "SparseCsrMeta",
        "NestedTensorHPU",
        "AutogradLazy",
        "AutogradPrivateUse3",
        "PythonDispatcher",
        "Dense",
        "Autograd",
        "CompositeImplicitAutograd",
        "AutogradFunctionality",
    ] {
        assert_eq!(name.parse::<K>().unwrap().to_string(), name);
    }
    for name in [
        "AutogradHIP",
        "AutogradMTIA",
        "AutogradVE",
        "AutogradMAIA",
        "QuantizedMeta",
        "SparseXLA",
        "NestedTensorHIP",
        "StartOfDenseBackends",
        "EndOfFunctionalityKeys",
        "cpu",
        "",
    ] {
        assert_eq!(
            name.parse::<K>().unwrap_err().to_string(),
            format!("could not parse dispatch key: {name}")
        );
    }
}

#[test]
fn alias_expansions_have_the_counts_of_c10() {
    for (alias, count, undefined) in [
        (K::Autograd, 18, false),
        (K::CompositeImplicitAutograd, 103, true),
        (K::CompositeExplicitAutograd, 69, true),
        (K::CompositeExplicitAutogradNonFunctional, 47, true),
        (K::CompositeImplicitAutogradNestedTensor, 17, false),
        (K::FuncTorchBatchedDecomposition, 1, false),
    ] {
        assert_eq!(alias.expansion().iter().count(), count, "{alias}");
        assert_eq!(K::Undefined.is_included_in(alias), undefined, "{alias}");
        assert!(S::from(alias).is_empty());
        assert!(alias.expansion().iter().all(|k| k.is_runtime()));
    }
    let ceanf = K::CompositeExplicitAutogradNonFunctional;
    for (key, want) in [
        (K::CPU, true),
        (K::XLA, false),
        (K::QuantizedLazy, false),
        (K::SparseCPU, false),
        (K::SparseCsrCPU, true),
        (K::FPGA, true),
        (K::NestedTensorCPU, false),
        (K::AutogradCPU, false),
    ] {
        assert_eq!(key.is_included_in(ceanf), want, "{key}");
    }
    assert!(K::Dense.is_included_in(K::CompositeImplicitAutograd));
    assert!(!K::Functionalize.is_included_in(K::CompositeImplicitAutograd));
}

#[test]
fn backends_behind_autograd_keys() {
    assert_eq!(K::AutogradCPU.backends_behind_autograd(), s(&[K::CPU]));
    assert_eq!(K::AutogradMAIA.backends_behind_autograd(), s(&[K::MAIA]));
    for empty in [K::AutogradHIP, K::AutogradVE, K::AutogradMTIA, K::CPU, K::Tracer] {
        assert!(empty.backends_behind_autograd().is_empty(), "{empty}");
    }
    assert_eq!(K::AutogradOther.backends_behind_autograd().raw(), 0x1feffff);
    assert_eq!(K::AutogradNestedTensor.backends_behind_autograd().iter().count(), 16);
    let backends: Vec<K> = K::runtime_keys().filter(|k| k.is_backend()).collect();
    assert_eq!(backends.len(), 4 * 16 + 5);
    assert!(!K::NestedTensorCPU.is_backend());
}

#[test]
fn raw_constants() {
    for (set, raw) in [
        (S::FULL, 0x3fffffffffffffff),
        (s(&[K::CPU]), 0x10001),
        (s(&[K::CUDA]), 0x10002),
        (s(&[K::Meta]), 0x18000),
        (s(&[K::Dense]), 0x10000),
        (s(&[K::FPGA]), 0x20000),
        (s(&[K::SparseCPU]), 0x800001),
        (s(&[K::AutogradCPU]), 0x1000000001),
        (s(&[K::PythonDispatcher]), 0x2000000000000000),
        (S::DEFAULT_INCLUDED, 0x404000000),
        (S::DEFAULT_EXCLUDED, 0x1ff8000000000),
        (S::AFTER_AUTOGRAD, 0x20000007ffffffff),
        (S::AFTER_AD_INPLACE_OR_VIEW, 0x20000003ffffffff),
        (S::full_after(K::Functionalize), 0x200000003fffffff),
        (S::full_after(K::Python), 0x200000000fffffff),
        (S::full_after(K::CPU), 0x200000000000ffff),
        (S::full_after(K::AutogradCPU), 0x2000000fffffffff),
        (S::AUTOGRAD_OTHER_BACKENDS, 0x1feffff),
    ] {
        assert_eq!(set.raw(), raw, "{set}: {:#x} is not {raw:#x}", set.raw());
    }
    assert!(S::full_after(K::AutogradCPU).has(K::AutogradOther));
    assert_eq!(S::AFTER_FUNCTIONALIZE.remove(K::ADInplaceOrView), S::AFTER_FUNCTIONALIZE);
}

#[test]
fn table_indices() {
    for (key, index) in [
        (K::Undefined, 0),
        (K::CPU, 1),
        (K::Meta, 16),
        (K::FPGA, 17),
        (K::Metal, 19),
        (K::QuantizedCPU, 20),
        (K::CustomRNGKeyId, 36),
        (K::MkldnnCPU, 37),
        (K::SparseCPU, 38),
        (K::SparseCsrCPU, 54),
        (K::NestedTensorMeta, 85),
        (K::BackendSelect, 86),
        (K::Python, 88),
        (K::Functionalize, 90),
        (K::ADInplaceOrView, 94),
        (K::AutogradOther, 95),
        (K::AutogradCPU, 96),
        (K::AutogradMeta, 111),
        (K::AutogradNestedTensor, 112),
        (K::Tracer, 113),
        (K::AutocastCPU, 114),
        (K::AutocastPrivateUse1, 123),
        (K::FuncTorchBatched, 124),
        (K::FuncTorchVmapMode, 126),
        (K::PythonTLSSnapshot, 131),
        (K::PreDispatch, 135),
        (K::PythonDispatcher, 136),
    ] {
        assert_eq!(S::from(key).table_index(), index, "{key}");
    }
    // every runtime key has a slot of its own
    let mut seen = [false; NUM_RUNTIME_ENTRIES];
    seen[0] = true;
    for key in K::runtime_keys() {
        assert!(!std::mem::replace(&mut seen[S::from(key).table_index()], true), "{key}");
    }
    assert!(seen.iter().all(|x| *x));
    // no backend: the CPU slot; backends only: the Undefined slot
    assert_eq!(s(&[K::Sparse]).table_index(), 38);
    assert_eq!(S::ALL_BACKENDS.table_index(), 0);
}

#[test]
fn a_set_is_a_cross_product() {
    let ks = s(&[K::CPU, K::AutogradCUDA]);
    assert!(ks.has(K::CUDA) && ks.has(K::AutogradCPU));
    assert_eq!(ks.to_string(), "DispatchKeySet(CPU, CUDA, AutogradCPU, AutogradCUDA)");
    assert_eq!(ks.remove(K::CUDA).to_string(), "DispatchKeySet(AutogradCPU, AutogradCUDA)");
    assert_eq!(ks.remove_backend(B::CUDA), s(&[K::CPU, K::AutogradCPU]));
    assert_eq!(S::EMPTY.to_string(), "DispatchKeySet()");
    assert_eq!((ks - s(&[K::CUDA])).raw() & 0xffff, ks.raw() & 0xffff);
    assert_eq!(ks ^ ks, S::EMPTY);
    assert!(ks.has_any(s(&[K::Dense])) && !ks.has_any(s(&[K::Sparse])));
    assert!(!ks.has(K::Undefined) && !ks.has(K::Autograd));
}

#[test]
fn highest_keys() {
    for (set, functionality, backend, key) in [
        (s(&[K::CPU, K::Meta]), K::Dense, B::Meta, "Meta"),
        (s(&[K::SparseCPU, K::Meta]), K::Sparse, B::Meta, "SparseMeta"),
        (s(&[K::CPU, K::AutogradCPU]), K::AutogradFunctionality, B::CPU, "AutogradCPU"),
        (s(&[K::Sparse]), K::Sparse, B::Invalid, "SparseUndefined"),
        (s(&[K::CPU, K::Tracer]), K::Tracer, B::CPU, "Tracer"),
        (S::EMPTY, K::Undefined, B::Invalid, "Undefined"),
        (S::ALL_BACKENDS, K::Undefined, B::Meta, "Undefined"),
    ] {
        assert_eq!(set.highest_functionality(), functionality);
        assert_eq!(set.highest_backend(), backend);
        assert_eq!(set.highest_priority_key().to_string(), key);
    }
}

#[test]
fn sets_that_tensors_carry() {
    assert_eq!(
        S::for_dense_tensor(B::CPU).to_string(),
        "DispatchKeySet(CPU, ADInplaceOrView, AutogradCPU, AutocastCPU)"
    );
    assert_eq!(
        S::for_dense_tensor(B::Meta).to_string(),
        "DispatchKeySet(Meta, ADInplaceOrView, AutogradMeta)"
    );
    assert_eq!(S::autograd_related(B::HIP), s(&[K::ADInplaceOrView, K::AutogradOther]));
}

proptest! {
    #[test]
    fn iteration_ascends_and_rebuilds(bits: u64) {
        let ks = S::from_raw(bits);
        let keys: Vec<K> = ks.iter().collect();
        let ascending = keys
            .windows(2)
            .all(|w| (w[0].functionality(), w[0]) < (w[1].functionality(), w[1]));
        prop_assert!(ascending);
        prop_assert!(keys.iter().all(|k| ks.has(*k)));
        prop_assert!(ks.is_superset(keys.iter().copied().collect()));
        if let Some(last) = keys.last() {
            // a functionality without backends may still sit above the last printed key
            if ks.highest_backend() != B::Invalid {
                prop_assert_eq!(ks.highest_priority_key(), *last);
                prop_assert_eq!(ks.table_index(), S::from(*last).table_index());
            }
        }
    }

    #[test]
    fn difference_keeps_backends(a: u64, b: u64) {
        let (a, b) = (S::from_raw(a), S::from_raw(b));
        prop_assert_eq!((a - b).raw() & 0xffff, a.raw() & 0xffff);
        prop_assert_eq!((a - b).raw() >> 16, (a.raw() & !b.raw()) >> 16);
    }
}
