//! What must hold after any registrations, and the rules of masks and of composites at autograd
//! keys as tables. The numbers are sections of the facts about c10 that the dispatcher was built
//! from.

use super::*;
use proptest::prelude::*;
use straightline_catalog::key::DispatchKey as K;

const CIA: K = K::CompositeImplicitAutograd;
const CEA: K = K::CompositeExplicitAutograd;
const CEANF: K = K::CompositeExplicitAutogradNonFunctional;

fn set(keys: &[K]) -> DispatchKeySet {
    DispatchKeySet::of(keys)
}

fn some_key() -> impl Strategy<Value = K> {
    let often = vec![
        CIA,
        CEA,
        CEANF,
        K::Autograd,
        K::CPU,
        K::CUDA,
        K::SparseCPU,
        K::AutogradCPU,
        K::AutogradOther,
        K::BackendSelect,
        K::ADInplaceOrView,
    ];
    let any: Vec<K> = K::runtime_keys().collect();
    prop_oneof![
        1 => prop::sample::select(often),
        1 => prop::sample::select(any),
    ]
}

/// 3.2: what a fallthrough takes out of a call. Fallthroughs, the keys of the call, what is left.
#[test]
fn masks() {
    let _turn = turn();
    let rows: &[(&[K], &[K], &str)] = &[
        // of one backend: only its calls skip the key
        (&[K::AutogradCPU], &[K::CPU, K::AutogradCPU], "(CPU)"),
        (&[K::AutogradCPU], &[K::CUDA, K::AutogradCUDA], "(CUDA, AutogradCUDA)"),
        // the highest backend of the call decides for all of it
        (
            &[K::AutogradCPU],
            &[K::CPU, K::CUDA, K::AutogradCPU],
            "(CPU, CUDA, AutogradCPU, AutogradCUDA)",
        ),
        (&[K::AutogradCUDA], &[K::CPU, K::CUDA, K::AutogradCPU], "(CPU, CUDA)"),
        // dense and sparse: the dense kernel with a dense set
        (&[K::SparseCPU], &[K::CPU, K::SparseCPU], "(CPU)"),
        (&[K::SparseCPU], &[K::SparseMeta], "(SparseMeta)"),
        // nothing is left: the slot of `Undefined`
        (&[K::CPU], &[K::CPU], "()"),
        // without a backend the CPU's entry serves
        (&[K::AutogradCPU], &[K::AutogradFunctionality], "()"),
        (&[K::AutogradCUDA, K::Tracer], &[K::Tracer, K::FPGA], "(FPGA)"),
        // of a key that is not per backend: all calls
        (&[K::FPGA], &[K::FPGA, K::CPU], "(CPU)"),
        (&[K::FPGA], &[K::FPGA, K::Meta], "(Meta)"),
        (&[K::Conjugate, K::AutogradMeta], &[K::Meta, K::Conjugate, K::AutogradMeta], "(Meta)"),
        // an alias is a fallthrough at each of its keys
        (&[K::Autograd], &[K::HIP, K::AutogradHIP, K::AutogradOther], "(HIP)"),
    ];
    for (falls, call, left) in rows {
        let mut lib = Library::new("t_mask_rows").unwrap();
        let op = lib.def("f(Tensor x) -> int").unwrap();
        // kernels at the autograd keys, so that their fallbacks do not count
        if !falls.contains(&K::Autograd) {
            lib.impl_at("f", K::Autograd, says(0)).unwrap();
        }
        for key in *falls {
            lib.impl_at("f", *key, Kernel::fallthrough()).unwrap();
        }
        let got = op.masked(set(call)).to_string();
        assert_eq!(got, format!("DispatchKeySet{left}"), "{falls:?} and {call:?}");
    }
}

/// 3.2: a kernel sees the set that is left, and every other key of a plain tensor is passed by.
#[test]
fn a_kernel_receives_the_masked_set() {
    let _turn = turn();
    let mut lib = Library::new("t_masked_set").unwrap();
    let op = lib.def("f(Tensor x) -> int").unwrap();
    let keys = |keys: DispatchKeySet, _: &Tensor| Ok(keys.raw() as i64);
    lib.impl_at("f", K::AutogradCPU, keys).unwrap();
    let mut stack = vec![cpu().into()];
    op.call_boxed(&mut stack).unwrap();
    let seen = DispatchKeySet::from_raw(int(&stack) as u64);
    assert_eq!(seen, set(&[K::CPU, K::AutogradCPU]));
}

/// 5.1: `has_backend_kernel`, which decides whether a composite serves an autograd key.
#[test]
fn composites_at_autograd_keys() {
    use BackendComponent as B;
    let rule = |slot: K, registered: &[K]| rule_for(slot, |k| registered.contains(&k), false).1;
    for b in B::ALL {
        let [dense, sparse, quantized, nested, autograd] =
            [K::Dense, K::Sparse, K::Quantized, K::NestedTensor, K::AutogradFunctionality]
                .map(|f| f.on_backend(b));
        // a kernel for the backend takes the composite away, but for three backends
        let exempt = matches!(b, B::HIP | B::VE | B::MTIA);
        let with_kernel = if exempt { Provenance::Math } else { Provenance::Missing };
        for (registered, want) in [
            (&[CIA][..], Provenance::Math),
            (&[CIA, dense], with_kernel),
            (&[CIA, sparse], Provenance::Math),
            (&[CIA, quantized], Provenance::Math),
            (&[CIA, nested], Provenance::Math),
            (&[CIA, CEANF], Provenance::Math),
            (&[CIA, CEA], Provenance::Missing),
            (&[CEA], Provenance::Missing),
            (&[CIA, CEA, K::Autograd], Provenance::Autograd),
            (&[CIA, K::Autograd], Provenance::Math),
        ] {
            assert_eq!(rule(autograd, registered), want, "{autograd}: {registered:?}");
        }
        // only kernels of backends that are dense, with a key of their own, leave this one alone
        for (registered, want) in [
            (&[CIA, dense][..], Provenance::Math),
            (&[CIA, nested], Provenance::Math),
            (&[CIA, sparse], Provenance::AmbiguousAutogradOther),
            (&[CIA, quantized], Provenance::AmbiguousAutogradOther),
            (&[CIA, CEA, sparse], Provenance::AmbiguousAutogradOther),
            (&[sparse, K::Autograd], Provenance::Autograd),
            (&[CIA, sparse, K::AutogradOther], Provenance::Kernel),
        ] {
            assert_eq!(rule(K::AutogradOther, registered), want, "{registered:?}");
        }
        let nested_autograd = |registered: &[K]| rule(K::AutogradNestedTensor, registered);
        assert_eq!(nested_autograd(&[CIA, nested]), Provenance::Missing);
        assert_eq!(nested_autograd(&[CIA, dense]), Provenance::Math);
        // a composite that takes nested tensors' gradients away takes nested tensors as well
        assert_eq!(rule(nested, &[CIA, CEA]), Provenance::Missing);
        assert_eq!(rule(nested, &[CIA, CEANF]), Provenance::Math);
    }
}

/// 5.3: the slot of calls without any functionality.
#[test]
fn the_undefined_slot() {
    let rule = |registered: &[K], fallback| {
        rule_for(K::Undefined, |k| registered.contains(&k), fallback).0
    };
    for (registered, want) in [
        (&[][..], None),
        (&[K::CPU, K::Autograd], None),
        (&[K::CompositeImplicitAutogradNestedTensor], None),
        (&[CIA], Some(CIA)),
        (&[CIA, CEA], Some(CEA)),
        (&[CIA, CEA, CEANF], Some(CEANF)),
    ] {
        assert_eq!(rule(registered, true), want, "{registered:?}");
    }
    // keys without a slot are served by nothing
    for key in [K::Dense, K::StartOfDenseBackends, CIA, K::EndOfFunctionalityKeys] {
        assert_eq!(rule_for(key, |_| true, true).1, Provenance::Missing, "{key:?}");
    }
}

/// 5.4: fallbacks reach the operators that are there, and leave them as they were.
#[test]
fn fallbacks_come_and_go() {
    let _turn = turn();
    let key = K::TESTING_ONLY_GenericWrapper;
    let mut lib = Library::new("t_come_and_go").unwrap();
    let before = lib.def("before(Tensor x) -> int").unwrap();
    let table = dump_table(before);
    for (kernel, name) in [(says(4), "one"), (Kernel::fallthrough(), "two")] {
        let masked = kernel.is_fallthrough();
        let mut fallback = Library::fallbacks(key).unwrap();
        fallback.fallback(kernel).unwrap();
        let after = lib.def(&format!("{name}(Tensor x) -> int")).unwrap();
        for op in [before, after] {
            assert_eq!(op.masked(key.into()).has(key), !masked);
            assert!(dump_table(op).contains("TESTING_ONLY_GenericWrapper: "));
        }
        drop(fallback);
        for op in [before, after] {
            assert!(op.masked(key.into()).has(key));
            assert_eq!(dump_table(op), table);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// 14 (1), (4): after any registrations and removals, in any order, the operator is as if only
    /// what is left had been registered.
    #[test]
    fn only_what_is_left_counts(steps in prop::collection::vec((some_key(), any::<bool>(), any::<prop::sample::Index>()), 1..14)) {
        let _turn = turn();
        let mut lib = Library::new("t_left").unwrap();
        let op = lib.def("f(Tensor x) -> int").unwrap();
        let fresh = lib.def("g(Tensor x) -> int").unwrap();
        let site = |b: &mut Library, i: usize| { b.at("left.rs", i as u32); };
        let mut live: Vec<(usize, K, bool, Library)> = Vec::new();
        for (i, (key, falls, which)) in steps.into_iter().enumerate() {
            let before = (dump(op), dump_table(op));
            let kernel = || if falls { Kernel::fallthrough() } else { says(i as i64) };
            let mut block = Library::fragment("t_left").unwrap();
            site(&mut block, i);
            block.impl_at("f", key, kernel()).unwrap();
            drop(block);
            prop_assert_eq!(&(dump(op), dump_table(op)), &before);
            if i % 3 == 2 && !live.is_empty() {
                live.remove(which.index(live.len()));
            } else {
                let mut block = Library::fragment("t_left").unwrap();
                site(&mut block, i);
                block.impl_at("f", key, kernel()).unwrap();
                live.push((i, key, falls, block));
            }
        }
        let mut again = Library::fragment("t_left").unwrap();
        for (i, key, falls, _) in &live {
            site(&mut again, *i);
            let kernel = if *falls { Kernel::fallthrough() } else { says(*i as i64) };
            again.impl_at("g", *key, kernel).unwrap();
        }
        prop_assert_eq!(dump_table(op), dump_table(fresh));
        for key in K::runtime_keys() {
            prop_assert_eq!(op.masked(key.into()), fresh.masked(key.into()), "{}", key);
            prop_assert_eq!(op.has_computed_kernel(key), fresh.has_computed_kernel(key), "{}", key);
        }
    }

    /// 14 (2), (3): a kernel is called for the highest key of a set in which nothing is masked.
    #[test]
    fn calls_have_no_masked_key(falls in prop::collection::vec(some_key(), 0..6), bits: u64, included: u64, excluded: u64) {
        let _turn = turn();
        let mut lib = Library::new("t_unmasked").unwrap();
        let op = lib.def("f(Tensor x) -> int").unwrap();
        for slot in K::runtime_keys() {
            let kernel = Kernel::boxed(move |_, keys, stack| {
                assert_eq!(keys.highest_priority_key(), slot);
                stack.clear();
                stack.push(Value::Int(keys.raw() as i64));
                Ok(())
            });
            lib.impl_at("f", slot, kernel).unwrap();
        }
        for key in &falls {
            lib.impl_at("f", *key, Kernel::fallthrough()).unwrap();
        }
        // a set as tensors have it: a functionality per backend comes with a backend
        let call = DispatchKeySet::from_raw(bits) | DispatchKeySet::from(K::CPU);
        let keys = TlsKeySets {
            included: DispatchKeySet::from_raw(included),
            excluded: DispatchKeySet::from_raw(excluded),
        };
        let mut stack = vec![with_keys(call).into()];
        let done = {
            let _tls = ForceKeySetGuard::new(keys);
            op.call_boxed(&mut stack)
        };
        let full = (call | keys.included) - keys.excluded;
        match done {
            Ok(()) => {
                let seen = DispatchKeySet::from_raw(int(&stack) as u64);
                prop_assert_eq!(seen, op.masked(full));
                prop_assert_eq!(seen, op.masked(seen));
            }
            // all functionalities are masked or excluded
            Err(_) => prop_assert_eq!(op.masked(full).highest_priority_key(), K::Undefined),
        }
    }

    /// 14 (5): a redispatch reads neither the thread's sets nor the masks.
    #[test]
    fn redispatch_is_a_lookup(bits: u64, included: u64, excluded: u64) {
        let mut lib = Library::new("t_lookup").unwrap();
        let op = lib.def("f(Tensor x) -> int").unwrap();
        for slot in K::runtime_keys() {
            lib.impl_at("f", slot, says(slot as i64)).unwrap();
        }
        lib.impl_at("f", CIA, says(0)).unwrap();
        let keys = DispatchKeySet::from_raw(bits);
        let _tls = ForceKeySetGuard::new(TlsKeySets {
            included: DispatchKeySet::from_raw(included),
            excluded: DispatchKeySet::from_raw(excluded),
        });
        let mut stack = vec![Value::None];
        op.redispatch_boxed(keys, &mut stack).unwrap();
        let mut want = keys.highest_priority_key();
        if !want.is_runtime() && want != K::Undefined {
            // a functionality without a backend lands on the CPU's slot
            want = keys.highest_functionality().on_backend(BackendComponent::CPU);
        }
        prop_assert_eq!(int(&stack), want as i64);
    }
}
