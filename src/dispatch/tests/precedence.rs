//! The table against the rules: the observed consequences as data, and a second implementation of
//! the rules on random registrations.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use straightline_catalog::key::DispatchKey as K;

const CIA: K = K::CompositeImplicitAutograd;
const CEA: K = K::CompositeExplicitAutograd;
const CEANF: K = K::CompositeExplicitAutogradNonFunctional;
const CIANT: K = K::CompositeImplicitAutogradNestedTensor;
const AG: K = K::Autograd;
const FTBD: K = K::FuncTorchBatchedDecomposition;

/// The labels of a table dump, by key.
fn labels(op: OperatorHandle) -> HashMap<String, String> {
    dump_table(op)
        .lines()
        .map(|line| {
            let (key, rest) = line.split_once(": ").unwrap();
            let label = rest.rsplit_once('[').unwrap().1.trim_end_matches(']');
            (key.to_string(), label.to_string())
        })
        .collect()
}

/// What is registered, and the label of some slots then.
type Row<'a> = (&'a [K], &'a [(K, &'a str)]);

#[test]
fn observed_consequences() {
    let _turn = turn();
    let math = "math kernel";
    let backend = "default backend kernel";
    let fallback = "backend fallback";
    let none = "missing";
    let rows: &[Row<'_>] = &[
        (
            &[K::CPU],
            &[
                (K::CPU, "kernel"),
                (K::CUDA, none),
                (K::Meta, fallback),
                (K::AutogradCPU, fallback),
                (K::Undefined, none),
                (K::AutogradNestedTensor, none),
            ],
        ),
        (
            &[CIA],
            &[
                (K::CPU, math),
                (K::Meta, math),
                (K::NestedTensorCPU, math),
                (K::AutogradCPU, math),
                (K::AutogradOther, math),
                (K::AutogradNestedTensor, math),
                (K::Undefined, math),
                (K::Conjugate, fallback),
                (K::TESTING_ONLY_GenericMode, none),
            ],
        ),
        (
            &[K::CPU, CIA],
            &[
                (K::CPU, "kernel"),
                (K::AutogradCPU, fallback),
                (K::CUDA, math),
                (K::AutogradCUDA, math),
                (K::Undefined, math),
            ],
        ),
        (&[CIA, AG], &[(K::AutogradCPU, math), (K::CPU, math)]),
        (
            &[K::CPU, CIA, AG],
            &[
                (K::AutogradCPU, "autograd kernel"),
                (K::AutogradCUDA, math),
                (K::AutogradOther, math),
            ],
        ),
        (
            &[CEA, AG],
            &[
                (K::CPU, backend),
                (K::AutogradCPU, "autograd kernel"),
                (K::AutogradNestedTensor, "autograd kernel"),
                (K::NestedTensorCPU, none),
                (K::Undefined, backend),
            ],
        ),
        (
            &[CIA, CEA],
            &[
                (K::CPU, backend),
                (K::Undefined, backend),
                (K::AutogradCPU, fallback),
                (K::NestedTensorCPU, none),
                (K::AutogradNestedTensor, none),
            ],
        ),
        (
            &[CIA, K::NestedTensorCPU],
            &[
                (K::NestedTensorCPU, "kernel"),
                (K::NestedTensorCUDA, math),
                (K::AutogradNestedTensor, none),
            ],
        ),
        (
            &[CIANT, K::NestedTensorCPU],
            &[
                (K::NestedTensorCPU, "kernel"),
                (K::AutogradNestedTensor, "nested kernel"),
                (K::Undefined, none),
            ],
        ),
        (
            &[K::SparseCPU, CIA],
            &[(K::AutogradOther, "ambiguous autogradother"), (K::AutogradCPU, math)],
        ),
        (&[K::QuantizedCPU, CIA, AG], &[(K::AutogradOther, "ambiguous autogradother")]),
        (&[K::FPGA, CIA, CEA], &[(K::AutogradOther, "ambiguous autogradother")]),
        (&[K::FPGA, CIA, K::AutogradOther], &[(K::AutogradOther, "kernel")]),
        (&[K::HIP, CIA], &[(K::HIP, "kernel"), (K::AutogradHIP, math)]),
        (&[K::VE, CIA], &[(K::AutogradVE, math)]),
        (&[K::MTIA, CIA], &[(K::AutogradMTIA, math)]),
        (
            &[AG, K::AutogradCPU],
            &[
                (K::AutogradCPU, "kernel"),
                (K::AutogradCUDA, "autograd kernel"),
                (K::AutogradOther, "autograd kernel"),
                (K::AutogradNestedTensor, "autograd kernel"),
            ],
        ),
        (
            &[CIA, CEANF],
            &[
                (K::CPU, backend),
                (K::XLA, math),
                (K::Lazy, math),
                (K::SparseCPU, math),
                (K::AutogradCPU, math),
            ],
        ),
        (
            &[CEANF],
            &[(K::XLA, none), (K::Lazy, none), (K::CPU, backend), (K::SparseCsrCPU, backend)],
        ),
        (&[CEA, CEANF], &[(K::XLA, backend), (K::CPU, backend)]),
        (&[FTBD], &[(K::FuncTorchBatched, "batched kernel")]),
        (&[FTBD, K::FuncTorchBatched], &[(K::FuncTorchBatched, "kernel")]),
    ];
    for (registered, slots) in rows {
        // both orders: c10's own table is stale in one of them for some rows
        for reversed in [false, true] {
            let mut lib = Library::new("t_rows").unwrap();
            let op = lib.def("f(Tensor x) -> int").unwrap();
            let mut keys = registered.to_vec();
            if reversed {
                keys.reverse();
            }
            for key in &keys {
                lib.impl_at("f", *key, says(*key as i64)).unwrap();
            }
            let labels = labels(op);
            for (slot, want) in *slots {
                let got = labels.get(slot.name()).map_or("missing", String::as_str);
                assert_eq!(got, *want, "{keys:?} at {slot}");
            }
        }
    }
}

#[test]
fn composites_beat_fallbacks() {
    let _turn = turn();
    let mut fallback = Library::fallbacks(K::PrivateUse1).unwrap();
    fallback.fallback(says(-1)).unwrap();
    let mut lib = Library::new("t_fallbacks").unwrap();
    let op = lib.def("f(Tensor x) -> int").unwrap();
    lib.impl_("f", says(1)).unwrap();
    let other = lib.def("g(Tensor x) -> int").unwrap();
    let run = |op: OperatorHandle| {
        let mut stack = vec![tensor(&[K::PrivateUse1]).into()];
        op.call_boxed(&mut stack).map(|()| int(&stack))
    };
    assert_eq!(run(op).unwrap(), 1);
    assert_eq!(run(other).unwrap(), -1);
    drop(fallback);
    assert!(message(run(other)).contains("Could not run 't_fallbacks::g'"));
}

/// The rules written down a second time, straight from their list.
fn model(registered: &[K], slot: K) -> Option<K> {
    let has = |k: K| registered.contains(&k);
    let undefined = slot == K::Undefined;
    if !undefined && has(slot) {
        return Some(slot);
    }
    for alias in [CEANF, CEA] {
        if has(alias) && slot.is_included_in(alias) {
            return Some(alias);
        }
    }
    if has(CIANT) && slot.is_included_in(CIANT) {
        return Some(CIANT);
    }
    if has(CIA) && slot.is_included_in(CIA) {
        let backends = slot.backends_behind_autograd();
        let direct = registered.iter().any(|k| k.is_runtime() && backends.has(*k));
        if slot == K::AutogradOther && direct {
            return None;
        }
        if !direct && !has(CEA) {
            return Some(CIA);
        }
    }
    if has(AG) && slot.is_included_in(AG) {
        return Some(AG);
    }
    (has(FTBD) && slot == K::FuncTorchBatched).then_some(FTBD)
}

fn some_key() -> impl Strategy<Value = K> {
    let aliases = vec![CIA, CEA, CEANF, CIANT, AG, FTBD];
    let near = vec![
        K::CPU,
        K::CUDA,
        K::HIP,
        K::MTIA,
        K::XLA,
        K::Meta,
        K::SparseCPU,
        K::QuantizedCPU,
        K::NestedTensorCPU,
        K::FPGA,
        K::AutogradCPU,
        K::AutogradOther,
        K::AutogradNestedTensor,
        K::FuncTorchBatched,
        K::Conjugate,
    ];
    let any: Vec<K> = K::runtime_keys().collect();
    prop_oneof![
        3 => prop::sample::select(aliases),
        3 => prop::sample::select(near),
        1 => prop::sample::select(any),
    ]
}

/// Keys whose fallback is one of our modes.
const MODES: [K; 14] = [
    K::FuncTorchDynamicLayerFrontMode,
    K::FuncTorchDynamicLayerBackMode,
    K::FuncTorchGradWrapper,
    K::FuncTorchBatched,
    K::Functionalize,
    K::Tracer,
    K::Fake,
    K::Python,
    K::PythonTLSSnapshot,
    K::PreDispatch,
    K::PythonDispatcher,
    K::Conjugate,
    K::Negative,
    K::ZeroTensor,
];

/// Keys whose fallback is for calls that record.
fn records(key: K) -> bool {
    matches!(key.functionality(), K::AutogradFunctionality | K::AutogradOther)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The table that calls use is the pure function of what is registered, whatever the order, and
    /// dropping a block puts everything back.
    #[test]
    fn the_table_is_a_pure_function(first in prop::collection::vec(some_key(), 0..5),
                                    second in prop::collection::vec(some_key(), 0..5)) {
        let _turn = turn();
        let mut lib = Library::new("t_pure").unwrap();
        let op = lib.def("f(Tensor x) -> int").unwrap();
        for key in &first {
            lib.impl_at("f", *key, says(*key as i64)).unwrap();
        }
        let before = (dump(op), dump_table(op));
        let check = |registered: &[K]| {
            for slot in std::iter::once(K::Undefined).chain(K::runtime_keys()) {
                let mut stack = vec![Value::None];
                let got = op
                    .redispatch_boxed(slot.into(), &mut stack)
                    .map(|()| int(&stack));
                match model(registered, slot) {
                    Some(key) => assert_eq!(got.unwrap(), key as i64, "{registered:?} at {slot}"),
                    None if MODES.contains(&slot) || records(slot) => {}
                    None => assert!(got.is_err(), "{registered:?} at {slot}"),
                }
            }
        };
        check(&first);
        let mut more = Library::fragment("t_pure").unwrap();
        for key in &second {
            more.impl_at("f", *key, says(*key as i64)).unwrap();
        }
        let all: Vec<K> = first.iter().chain(&second).copied().collect();
        check(&all);
        drop(more);
        check(&first);
        prop_assert_eq!((dump(op), dump_table(op)), before);
    }

    /// A key is masked exactly where its slot holds a fallthrough.
    #[test]
    fn masks_follow_fallthroughs(keys in prop::collection::vec(some_key(), 0..8), bits: u64) {
        let _turn = turn();
        let mut lib = Library::new("t_masks").unwrap();
        let op = lib.def("f(Tensor x) -> int").unwrap();
        for (i, key) in keys.iter().enumerate() {
            let kernel = if i % 2 == 0 { Kernel::fallthrough() } else { says(0) };
            lib.impl_at("f", *key, kernel).unwrap();
        }
        let table = dump_table(op);
        let falls = |key: K| table.lines().any(|l| l.starts_with(&format!("{key}: fallthrough")));
        for key in K::runtime_keys().filter(|k| !records(*k)) {
            prop_assert_eq!(op.masked(key.into()).has(key), !falls(key), "{}", key);
        }
        // the backend that decides is the highest one of the call
        let call = DispatchKeySet::from_raw(bits);
        let backend = call.highest_backend();
        if backend != BackendComponent::Invalid {
            for f in op.masked(call).iter().map(K::functionality) {
                prop_assert!(!falls(f.on_backend(backend)));
            }
        }
    }
}
