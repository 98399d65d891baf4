//! The eight exercises of the note on the c10 dispatcher. Each shows the note's own answer and what
//! c10 does, where the two differ.

use super::support::*;
use straightline::dispatch::{
    DispatchKey as K, DispatchKeySet, IncludeGuard, Kernel, Library, capture,
};
use straightline::ops::aten;
use straightline::{DeviceType, Result, Scalar, Tensor, library, library_impl};

/// B backends and F features, any of which may be active: how many registrations?
#[test]
fn exercise_1_the_type_hierarchy_problem() {
    let _turn = turn();
    let backends = [
        (K::CPU, DeviceType::Cpu),
        (K::CUDA, DeviceType::Cuda),
        (K::XLA, DeviceType::Xla),
        (K::PrivateUse1, DeviceType::PrivateUse1),
    ];
    // functionalities that nothing else uses, low to high
    let features =
        [K::Batched, K::DeferredInit, K::TESTING_ONLY_GenericWrapper, K::TESTING_ONLY_GenericMode];
    let operators = ["one", "two", "three"];
    let log = Log::default();
    let mut registrations = 0;

    let mut lib = Library::new("ex1").unwrap();
    for name in operators {
        lib.def(&format!("{name}(Tensor x) -> Tensor")).unwrap();
        for (key, _) in backends {
            lib.impl_at(name, key, answers(&log, key.name())).unwrap();
            registrations += 1;
        }
    }
    let mut fallbacks = Vec::new();
    for key in features {
        let mut wild = Library::fallbacks(key).unwrap();
        wild.fallback(passes_on(&log, key.name(), key)).unwrap();
        fallbacks.push(wild);
        registrations += 1;
    }
    // B for each operator, and F once for all
    let (n, b, f) = (operators.len(), backends.len(), features.len());
    assert_eq!(registrations, n * b + f);
    for name in operators {
        assert_eq!(op(&format!("ex1::{name}")).registered_keys().len(), b);
    }

    // and that serves every backend under every subset of features: what took B * 2^F types
    let mut combinations = 0;
    for (key, device) in backends {
        for subset in 0..1 << f {
            let chosen: Vec<K> =
                (0..f).filter(|i| subset & (1 << i) != 0).map(|i| features[i]).collect();
            let _on = IncludeGuard::new(DispatchKeySet::of(&chosen));
            for name in operators {
                let x = on(device);
                op(&format!("ex1::{name}")).call_boxed(&mut vec![x.into()]).unwrap();
                let visited: Vec<String> =
                    (log.take().iter()).map(|l| l.split(' ').next().unwrap().to_string()).collect();
                let mut want: Vec<&str> = chosen.iter().rev().map(|k| k.name()).collect();
                want.push(key.name());
                assert_eq!(visited, want);
            }
            combinations += 1;
        }
    }
    assert_eq!(combinations, b * (1 << f));
}

/// The note's toy of a key set, in Rust.
mod toy {
    #[allow(clippy::upper_case_acronyms, reason = "the note's names")]
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(super) enum Key {
        CPU = 1,
        CUDA = 2,
        BackendSelect = 5,
        AutogradCPU = 10,
        AutogradCUDA = 11,
    }

    const ALL: [Key; 5] =
        [Key::CPU, Key::CUDA, Key::BackendSelect, Key::AutogradCPU, Key::AutogradCUDA];

    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(super) struct Set(u64);

    impl Set {
        pub(super) fn of(keys: &[Key]) -> Set {
            Set(keys.iter().fold(0, |bits, k| bits | 1 << *k as u64))
        }

        pub(super) fn union(self, other: Set) -> Set {
            Set(self.0 | other.0)
        }

        pub(super) fn exclude(self, other: Set) -> Set {
            Set(self.0 & !other.0)
        }

        pub(super) fn highest(self) -> Option<Key> {
            let msb = self.0.checked_ilog2()?;
            ALL.into_iter().find(|k| *k as u32 == msb)
        }
    }

    impl std::fmt::Display for Set {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            let names: Vec<String> = (ALL.iter())
                .filter(|k| self.0 & (1 << **k as u64) != 0)
                .map(|k| format!("{k:?}"))
                .collect();
            write!(f, "DispatchKeySet({{{}}})", names.join(", "))
        }
    }
}

/// After the autograd kernel has run, which key is the highest?
#[test]
fn exercise_2_keyset_subtraction_for_redispatch() {
    let _turn = turn();
    // the toy: 2.5's output, then the exercise's
    use toy::{Key, Set};
    let keyset = Set::of(&[Key::BackendSelect]).union(Set::of(&[Key::AutogradCUDA, Key::CUDA]));
    assert_eq!(keyset.to_string(), "DispatchKeySet({CUDA, BackendSelect, AutogradCUDA})");
    assert_eq!(keyset.highest(), Some(Key::AutogradCUDA));
    let reduced = keyset.exclude(Set::of(&[Key::AutogradCUDA, Key::AutogradCPU]));
    assert_eq!(reduced.to_string(), "DispatchKeySet({CUDA, BackendSelect})");
    assert_eq!(reduced.highest(), Some(Key::BackendSelect));

    // c10: the same keys, and the same answer
    let keyset = DispatchKeySet::of(&[K::AutogradCUDA, K::CUDA, K::BackendSelect]);
    assert_eq!(keyset.to_string(), "DispatchKeySet(CUDA, BackendSelect, AutogradCUDA)");
    assert_eq!(keyset.highest_priority_key(), K::AutogradCUDA);
    let reduced = keyset & DispatchKeySet::AFTER_AUTOGRAD;
    assert_eq!(reduced.to_string(), "DispatchKeySet(CUDA, BackendSelect)");
    assert_eq!(reduced.highest_priority_key(), K::BackendSelect);
    // "BackendSelect is a fallthrough for add, so it skips to CUDA": by a mask, before the look-up
    let masked = op("aten::add.Tensor").masked(reduced);
    assert_eq!(masked.highest_priority_key(), K::CUDA);

    // where c10's sets are not the toy's: a difference takes functionalities away and leaves
    // backends, so that removing AutogradCPU removes autograd of CUDA too, and CUDA stays CUDA
    let minus = keyset - DispatchKeySet::from(K::AutogradCPU);
    assert_eq!(minus, reduced);
    assert_eq!(minus.highest_backend(), K::CUDA.backend());
}

/// A composite, a CUDA kernel that comes later, a CUDA tensor: what runs?
#[test]
fn exercise_3_registration_precedence() {
    let _turn = turn();
    let log = Log::default();
    let mut aten_cuda = Library::implementation("aten", K::CUDA).unwrap();
    aten_cuda
        .impl_("add.Tensor", answers(&log, "add"))
        .unwrap()
        .impl_("mul.Tensor", answers(&log, "mul"))
        .unwrap();
    let mut lib = Library::new("ex3").unwrap();
    let special = lib.def("special_op(Tensor x) -> Tensor").unwrap();
    let noted = log.clone();
    lib.impl_("special_op", move |x: &Tensor| {
        noted.push("composite");
        aten::mul_tensor(&aten::add_tensor(x, x, Scalar::Int(1))?, x)
    })
    .unwrap();
    let x = on(DeviceType::Cuda);
    let run = || -> Vec<String> {
        special.call_boxed(&mut vec![(&x).into()]).unwrap();
        let lines = log.take();
        (lines.iter()).map(|l| l.split(' ').next().unwrap().to_string()).collect()
    };

    // without a CUDA kernel both readings agree: the composite is what the autograd key finds, and
    // its parts are dispatched one by one
    assert_eq!(row(special, K::AutogradCUDA).unwrap(), "[math kernel]");
    assert_eq!(run(), ["composite", "add", "mul"]);

    // with one, c10: it takes the composite away from AutogradCUDA, where the autograd fallback is
    // left. The composite does not run at all
    let mut cuda = Library::implementation("ex3", K::CUDA).unwrap();
    cuda.impl_("special_op", answers(&log, "cuda")).unwrap();
    assert_eq!(row(special, K::AutogradCUDA).unwrap(), "[backend fallback]");
    assert_eq!(row(special, K::CUDA).unwrap(), "[kernel]");
    assert_eq!(row(special, K::CPU).unwrap(), "[math kernel]");
    assert_eq!(row(special, K::AutogradCPU).unwrap(), "[math kernel]");
    assert_eq!(run(), ["cuda"]);

    // the note: "AutogradCUDA fires: the autograd wrapper ... calls redispatch excluding autograd
    // keys. CUDA fires". That is what happens when there is such a wrapper
    let mut autograd = Library::implementation("ex3", K::Autograd).unwrap();
    let noted = log.clone();
    let typed = special.typed::<(&Tensor,), Tensor>().unwrap();
    autograd
        .impl_("special_op", move |keys: DispatchKeySet, x: &Tensor| {
            noted.push("AutogradCUDA");
            typed.redispatch(keys & DispatchKeySet::AFTER_AUTOGRAD, (x,))
        })
        .unwrap();
    assert_eq!(row(special, K::AutogradCUDA).unwrap(), "[autograd kernel]");
    assert_eq!(run(), ["AutogradCUDA", "cuda"]);
    // and on the CPU, which has no kernel of its own, the composite still wins over it
    assert_eq!(row(special, K::AutogradCPU).unwrap(), "[math kernel]");
}

fn add_scaled(a: &Tensor, b: &Tensor, s: f64) -> Result<Tensor> {
    a.add(b)?.mul(s)
}

/// Is `float` in a schema a double in code, and when is a wrong type found?
#[test]
fn exercise_4_schema_mismatch() {
    let _turn = turn();
    const SCHEMA: &str = "add_scaled(Tensor a, Tensor b, float s) -> Tensor";
    let lib = library!(ex4, |m| {
        m.def(SCHEMA)?;
        Ok(())
    })
    .unwrap();
    // `float` is f64
    let cpu = library_impl!(ex4, CPU, |m| {
        m.impl_("add_scaled", add_scaled)?;
        Ok(())
    })
    .unwrap();

    // an int64 where a Tensor is expected: at registration, with both signatures and both places.
    // (The note has C++ refuse it when it compiles; c10 and we compare the schema when kernel or
    // definition arrives, whichever is later. A type that stands for no schema type at all, such as
    // f32, does not compile here either.)
    let line = line!() + 2;
    let error = message(library_impl!(ex4, CUDA, |m| {
        m.impl_("add_scaled", |a: &Tensor, _b: i64, _s: f64| Ok(a.clone()))?;
        Ok(())
    }));
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(
        lines[0],
        "Inferred operator schema for a kernel function doesn't match the expected function schema."
    );
    assert_eq!(lines[1], "  operator: ex4::add_scaled");
    assert_eq!(lines[2], format!("  expected schema: ex4::{SCHEMA}"));
    assert!(lines[3].starts_with("    registered at tests/registrations/seeds/exercises.rs:"));
    assert_eq!(lines[4], "  inferred schema: (Tensor _0, int _1, float _2) -> Tensor _0");
    assert_eq!(
        lines[5],
        format!("    registered at tests/registrations/seeds/exercises.rs:{line}")
    );
    assert_eq!(lines[6], "  reason: Type mismatch in argument 2: Tensor vs int");
    // nothing of it stayed
    assert!(!op("ex4::add_scaled").has_kernel(K::CUDA));

    // the same with the definition last
    let early = library_impl!(ex4, CPU, |m| {
        m.impl_("late", |a: &Tensor| Ok(a.clone()))?;
        Ok(())
    })
    .unwrap();
    let mut more = Library::fragment("ex4").unwrap();
    let error = message(more.def("late(Tensor a, Tensor b) -> Tensor"));
    assert!(error.contains("reason: The number of arguments is different. 2 vs 1."), "{error}");
    let error = message(straightline::dispatch::operator("ex4::late"));
    assert!(
        error.contains(
            "Could not find schema for ex4::late. but we found an implementation; did you forget to def() the operator?"
        ),
        "{error}"
    );

    // and a caller with wrong types is told what the right ones are, and where they come from
    let error = message(op("ex4::add_scaled").typed::<(&Tensor, &Tensor, i64), Tensor>());
    for want in [
        "Tried to access or call an operator with a wrong signature.\n  operator: ex4::add_scaled\n",
        "  accessed/called as: (Tensor _0, Tensor _1, int _2) -> Tensor _0\n",
        "registered at tests/registrations/seeds/exercises.rs:",
    ] {
        assert!(error.contains(want), "{error}");
    }
    drop((lib, cpu, early));
}

/// How often are values boxed on the way through a boxed fallback?
#[test]
fn exercise_5_ivalue_round_trip() {
    let _turn = turn();
    let mut lib = Library::new("ex5").unwrap();
    let add = lib.def("add(Tensor x, Tensor y, Scalar alpha) -> int").unwrap();
    let add = add.typed::<(&Tensor, &Tensor, Scalar), i64>().unwrap();
    lib.impl_at("add", K::CUDA, |_: &Tensor, _: &Tensor, _: Scalar| Ok(1i64)).unwrap();
    lib.impl_at(
        "add",
        K::AutogradCUDA,
        move |keys: DispatchKeySet, x: &Tensor, y: &Tensor, alpha: Scalar| {
            add.redispatch(keys & DispatchKeySet::AFTER_AUTOGRAD, (x, y, alpha))
        },
    )
    .unwrap();
    let (x, y) = (on(DeviceType::Cuda), on(DeviceType::Cuda));
    let call = || {
        add.call((&x, &y, Scalar::Int(2))).unwrap();
    };
    // typed caller to typed kernel to typed kernel: no value is boxed, nothing is allocated
    call();
    assert_eq!(allocations(call), 0);

    // "Profiler" above autograd, as a boxed fallback: the arguments are boxed once, on the way in,
    // and unboxed once, for the autograd kernel
    let log = Log::default();
    let quiet = |key: K| {
        Kernel::boxed(move |op, keys, stack| {
            op.redispatch_boxed(keys & DispatchKeySet::full_after(key), stack)
        })
    };
    let mut profiler = Library::fallbacks(K::TESTING_ONLY_GenericMode).unwrap();
    profiler.fallback(quiet(K::TESTING_ONLY_GenericMode)).unwrap();
    let one = IncludeGuard::new(K::TESTING_ONLY_GenericMode);
    let (_, lines) = capture(call);
    assert_eq!(
        lines,
        [
            " [call] op=[ex5::add], key=[TESTING_ONLY_GenericMode]",
            "  [redispatchBoxed] op=[ex5::add], key=[AutogradCUDA]",
            "   [redispatch] op=[ex5::add], key=[CUDA]",
        ]
    );
    let with_one = allocations(call);
    assert!(with_one > 0);

    // a second boxed fallback finds the values on the stack already: no more boxing
    let mut second = Library::fallbacks(K::TESTING_ONLY_GenericWrapper).unwrap();
    second.fallback(quiet(K::TESTING_ONLY_GenericWrapper)).unwrap();
    let two = IncludeGuard::new(K::TESTING_ONLY_GenericWrapper);
    let (_, lines) = capture(call);
    assert_eq!(lines.len(), 4);
    assert_eq!(allocations(call), with_one);
    drop((one, two, log));
}

/// When is a composite implicit, and when explicit?
#[test]
fn exercise_6_composite_implicit_vs_composite_explicit() {
    let _turn = turn();
    let log = Log::default();
    let mut lib = Library::new("ex6").unwrap();

    // implicit: autograd sees the parts. The note would have norm and addmm so; c10 has linear,
    // matmul, dropout, reshape
    let implicit = lib.def("implicit(Tensor x) -> Tensor").unwrap();
    lib.impl_("implicit", answers(&log, "composite")).unwrap();
    for key in [K::CPU, K::CUDA, K::AutogradCPU, K::AutogradCUDA, K::NestedTensorCPU] {
        assert_eq!(row(implicit, key).unwrap(), "[math kernel]", "{key}");
    }
    for name in ["aten::linear", "aten::reshape"] {
        assert!(op(name).has_kernel(K::CompositeImplicitAutograd), "{name}");
        assert_eq!(row(op(name), K::AutogradCPU).unwrap(), "[math kernel]");
    }

    // explicit: the same kernel for all backends, and a gradient formula of its own
    let explicit = lib.def("explicit(Tensor x) -> Tensor").unwrap();
    lib.impl_at("explicit", K::CompositeExplicitAutograd, answers(&log, "composite")).unwrap();
    lib.impl_at("explicit", K::Autograd, passes_on(&log, "formula", K::AutogradOther)).unwrap();
    for key in [K::CPU, K::CUDA, K::XLA, K::SparseCPU] {
        assert_eq!(row(explicit, key).unwrap(), "[default backend kernel]", "{key}");
    }
    for key in [K::AutogradCPU, K::AutogradCUDA] {
        assert_eq!(row(explicit, key).unwrap(), "[autograd kernel]", "{key}");
    }
    assert_eq!(row(explicit, K::NestedTensorCPU), None);
    let x = on(DeviceType::Cuda);
    implicit.call_boxed(&mut vec![(&x).into()]).unwrap();
    assert_eq!(log.take(), ["composite DispatchKeySet(CUDA, AutogradCUDA)"]);
    explicit.call_boxed(&mut vec![(&x).into()]).unwrap();
    assert_eq!(
        log.take(),
        ["formula DispatchKeySet(CUDA, AutogradCUDA)", "composite DispatchKeySet(CUDA)"]
    );

    // 6.5: "an explicit backend registration overrides the composite cell for that specific key".
    // addmm in c10 is no composite at all
    let mut cuda = Library::implementation("ex6", K::CUDA).unwrap();
    cuda.impl_("implicit", answers(&log, "cuda")).unwrap();
    assert_eq!(row(implicit, K::CUDA).unwrap(), "[kernel]");
    assert_eq!(row(implicit, K::CPU).unwrap(), "[math kernel]");
    assert!(!op("aten::addmm").has_kernel(K::CompositeImplicitAutograd));

    // both at once: explicit shadows implicit everywhere, NestedTensor included
    lib.impl_at("implicit", K::CompositeExplicitAutograd, answers(&log, "both")).unwrap();
    assert_eq!(row(implicit, K::CPU).unwrap(), "[default backend kernel]");
    assert_eq!(row(implicit, K::NestedTensorCPU), None);
}

/// `zeros(4, 8, device="cuda")`: no tensor argument says where.
#[test]
fn exercise_7_tracing_torch_zeros_on_cuda() {
    let _turn = turn();
    let log = Log::default();
    let mut cuda = Library::implementation("aten", K::CUDA).unwrap();
    let noted = log.clone();
    cuda.impl_(
        "zeros",
        move |keys: DispatchKeySet,
              size: &[i64],
              _: Option<straightline::DType>,
              _: Option<straightline::Layout>,
              _: Option<straightline::Device>,
              _: Option<bool>| {
            noted.push(keys.to_string());
            Ok(sized(DeviceType::Cuda, size))
        },
    )
    .unwrap();
    let device = straightline::Device::new(DeviceType::Cuda);
    let zeros = || aten::zeros(&[4, 8], None, None, Some(device), None);
    let (out, lines) = capture(zeros);
    assert_eq!(out.unwrap().sizes(), [4, 8]);
    // BackendSelect comes first, a real kernel here, and redispatches to exactly {CUDA}
    assert_eq!(
        lines,
        [
            " [call] op=[aten::zeros], key=[BackendSelect]",
            "  [redispatch] op=[aten::zeros], key=[CUDA]",
        ]
    );
    assert_eq!(log.take(), ["DispatchKeySet(CUDA)"]);
    assert_eq!(row(op("aten::zeros"), K::BackendSelect).unwrap(), "[kernel]");
    // the keys of the thread are all there is: the note's "global" set is the default include set
    assert_eq!(
        op("aten::zeros").masked(DispatchKeySet::DEFAULT_INCLUDED).to_string(),
        "DispatchKeySet(BackendSelect)"
    );
    // for add it is a fallthrough
    assert_eq!(row(op("aten::add.Tensor"), K::BackendSelect).unwrap(), "[backend fallback]");
    let of_add = op("aten::add.Tensor").masked(DispatchKeySet::DEFAULT_INCLUDED);
    assert!(!of_add.has(K::BackendSelect));
}

/// A profiler between autograd and the backend, and neither knows of it.
#[test]
fn exercise_8_composing_two_cross_cutting_keys() {
    let _turn = turn();
    let log = Log::default();
    let add = op("aten::add.Tensor");
    let mut autograd = Library::implementation("aten", K::AutogradCUDA).unwrap();
    let noted = log.clone();
    let typed = add.typed::<(&Tensor, &Tensor, Scalar), Tensor>().unwrap();
    autograd
        .impl_("add.Tensor", move |keys: DispatchKeySet, x: &Tensor, y: &Tensor, alpha: Scalar| {
            noted.push(format!("VariableType::add_Tensor {keys}"));
            typed.redispatch(keys & DispatchKeySet::AFTER_AUTOGRAD, (x, y, alpha))
        })
        .unwrap();
    let mut cuda = Library::implementation("aten", K::CUDA).unwrap();
    let noted = log.clone();
    cuda.impl_("add.Tensor", move |keys: DispatchKeySet, x: &Tensor, _: &Tensor, _: Scalar| {
        noted.push(format!("at::native::add_cuda {keys}"));
        Ok(x.clone())
    })
    .unwrap();
    let (x, y) = (on(DeviceType::Cuda), on(DeviceType::Cuda));
    aten::add_tensor(&x, &y, Scalar::Int(1)).unwrap();
    let without = [
        "VariableType::add_Tensor DispatchKeySet(CUDA, AutogradCUDA)",
        "at::native::add_cuda DispatchKeySet(CUDA)",
    ];
    assert_eq!(log.take(), without);

    // `FuncTorchDynamicLayerBackMode` is a key between the two; its fallback is for transforms
    let between = K::FuncTorchDynamicLayerBackMode;
    let mut profiler = Library::implementation("aten", between).unwrap();
    profiler.impl_("add.Tensor", passes_on(&log, "profiler_fallback", between)).unwrap();
    {
        let _profiling = IncludeGuard::new(K::FuncTorchDynamicLayerBackMode);
        let (_, lines) = capture(|| aten::add_tensor(&x, &y, Scalar::Int(1)).unwrap());
        assert_eq!(
            log.take(),
            [
                "VariableType::add_Tensor DispatchKeySet(CUDA, FuncTorchDynamicLayerBackMode, AutogradCUDA)",
                "profiler_fallback DispatchKeySet(CUDA, FuncTorchDynamicLayerBackMode)",
                "at::native::add_cuda DispatchKeySet(CUDA)",
            ]
        );
        assert_eq!(
            lines,
            [
                " [call] op=[aten::add.Tensor], key=[AutogradCUDA]",
                "  [redispatch] op=[aten::add.Tensor], key=[FuncTorchDynamicLayerBackMode]",
                "   [redispatchBoxed] op=[aten::add.Tensor], key=[CUDA]",
            ]
        );
    }
    // a tensor may carry the key as well
    let keys = x.key_set().add(K::FuncTorchDynamicLayerBackMode);
    let marked = Tensor::opaque((), &[2], x.dtype(), x.device()).keys(keys).build().unwrap();
    aten::add_tensor(&marked, &y, Scalar::Int(1)).unwrap();
    assert_eq!(log.take().len(), 3);
    // neither kernel was touched
    aten::add_tensor(&x, &y, Scalar::Int(1)).unwrap();
    assert_eq!(log.take(), without);
}
