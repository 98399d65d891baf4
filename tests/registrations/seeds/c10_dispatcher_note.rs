//! The note on the c10 dispatcher, section by section; its exercises are in `exercises`.

use super::support::*;
use straightline::dispatch::{
    AutogradFormula, DispatchKey as K, DispatchKeySet, ExcludeGuard, IncludeGuard, Kernel, Library,
    TlsKeySets, Value, capture, custom_op, dump,
};
use straightline::ops::aten;
use straightline::{DeviceType, Result, Scalar, Tensor, library, library_impl};

/// 1.4: "The highest-priority key in the union wins", where single dispatch looks at the first
/// argument only.
#[test]
fn section_1_4_multiple_dispatch() {
    let _turn = turn();
    let log = Log::default();
    let mut lib = Library::new("note_1_4").unwrap();
    let add = lib.def("add(Tensor x, Tensor y) -> Tensor").unwrap();
    for (key, name) in
        [(K::CPU, "cpu_add"), (K::CUDA, "cuda_add"), (K::SparseCPU, "sparse_dense_add")]
    {
        lib.impl_at("add", key, answers(&log, name)).unwrap();
    }
    let sparse = Tensor::opaque((), &[2], straightline::DType::F32, straightline::Device::CPU)
        .keys(K::SparseCPU.into())
        .build()
        .unwrap();
    let (cpu, cuda) = (on(DeviceType::Cpu), on(DeviceType::Cuda));
    let run = |x: &Tensor, y: &Tensor| {
        add.call_boxed(&mut vec![x.into(), y.into()]).unwrap();
        log.take()[0].split(' ').next().unwrap().to_string()
    };
    assert_eq!(run(&cpu, &cpu), "cpu_add");
    assert_eq!(run(&cpu, &cuda), "cuda_add");
    assert_eq!(run(&cuda, &cpu), "cuda_add");
    assert_eq!(run(&cpu, &sparse), "sparse_dense_add");
    assert_eq!(run(&sparse, &cpu), "sparse_dense_add");
    // "the CUDA key is active, if any argument is on CUDA": the backend and the functionality are
    // chosen apart, and no argument need be what they make together
    let error = message(add.call_boxed(&mut vec![(&sparse).into(), cuda.into()]));
    assert!(error.contains("from the 'SparseCUDA' backend"), "{error}");
}

/// 1.5 to 1.7: "Adding a new operator adds a row; adding a new feature adds a column. Neither
/// requires touching the other."
#[test]
fn section_1_7_two_axes() {
    let _turn = turn();
    let log = Log::default();
    let mut lib = Library::new("note_1_7").unwrap();
    let old = lib.def("old(Tensor x) -> Tensor").unwrap();
    lib.impl_at("old", K::CPU, answers(&log, "old")).unwrap();
    let before = dump(old);
    // a column
    let mut column = Library::fallbacks(K::TESTING_ONLY_GenericMode).unwrap();
    column.fallback(passes_on(&log, "feature", K::TESTING_ONLY_GenericMode)).unwrap();
    assert_eq!(dump(old), before);
    // a row, which the feature serves at once
    let new = lib.def("new(Tensor x) -> Tensor").unwrap();
    lib.impl_at("new", K::CPU, answers(&log, "new")).unwrap();
    let _on = IncludeGuard::new(K::TESTING_ONLY_GenericMode);
    for (op, name) in [(old, "old"), (new, "new")] {
        op.call_boxed(&mut vec![on(DeviceType::Cpu).into()]).unwrap();
        let lines = log.take();
        assert!(lines[0].starts_with("feature") && lines[1].starts_with(name), "{lines:?}");
    }
}

/// 2.3: the note's order, which is c10's but for two keys.
#[test]
fn section_2_3_priorities() {
    let note = [
        K::FuncTorchDynamicLayerFrontMode,
        K::FuncTorchGradWrapper,
        K::FuncTorchVmapMode,
        K::Python,
        K::Functionalize,
        K::AutogradFunctionality,
        K::BackendSelect,
        K::Dense,
    ];
    let c10 = [
        K::FuncTorchDynamicLayerFrontMode,
        K::FuncTorchGradWrapper,
        K::FuncTorchVmapMode,
        K::AutogradFunctionality,
        K::Functionalize,
        K::Python,
        K::BackendSelect,
        K::Dense,
    ];
    assert!(c10.iter().rev().is_sorted());
    // Python and Functionalize are below autograd, so they see what autograd has taken apart
    assert!(!note.iter().rev().is_sorted());
    assert!(K::Python < K::Functionalize && K::Functionalize < K::AutogradFunctionality);
    // "They do not appear as bits in a runtime DispatchKeySet"
    assert!(DispatchKeySet::from(K::CompositeImplicitAutograd).is_empty());
}

/// 2.4: the four components of the key set of a call.
#[test]
fn section_2_4_the_key_set_of_a_call() {
    let _turn = turn();
    let add = op("aten::add.Tensor");
    let x = on(DeviceType::Cuda);
    let arguments = add.argument_keys(&[(&x).into(), (&x).into(), 1i64.into()]);
    // c10 puts AutogradCUDA on every normal tensor; in the note it needs requires_grad=True
    assert!(arguments.has(K::AutogradCUDA) && !x.requires_grad());
    // "global: always-on keys" is the thread's default include set, not a set of its own
    let thread = TlsKeySets::current();
    assert_eq!(thread.included.to_string(), "DispatchKeySet(BackendSelect, ADInplaceOrView)");
    let call = (arguments | thread.included) - thread.excluded;
    assert_eq!(
        call.to_string(),
        "DispatchKeySet(CUDA, BackendSelect, ADInplaceOrView, AutogradCUDA)"
    );
    // "TLS exclude: after an Autograd kernel has run"
    let _after = ExcludeGuard::below_autograd();
    let call = (arguments | thread.included) - TlsKeySets::current().excluded;
    assert_eq!(call.to_string(), "DispatchKeySet(CUDA, BackendSelect, ADInplaceOrView)");
}

/// 3.2: "If the cell is null, the dispatcher advances to the next key." It does not: an empty cell
/// is an error, and only an explicit fallthrough is skipped, by a mask, before the look-up.
#[test]
fn section_3_2_an_empty_cell() {
    let _turn = turn();
    let log = Log::default();
    let key = K::TESTING_ONLY_GenericMode;
    let mut lib = Library::new("note_3_2").unwrap();
    let f = lib.def("f(Tensor x) -> Tensor").unwrap();
    lib.impl_at("f", K::CPU, answers(&log, "cpu")).unwrap();
    let x: Value = on(DeviceType::Cpu).into();
    let _on = IncludeGuard::new(key);
    let error = message(f.call_boxed(&mut vec![x.clone()]));
    assert!(error.contains("from the 'TESTING_ONLY_GenericMode' backend"), "{error}");
    // the note's reading, said explicitly
    lib.impl_at("f", key, Kernel::fallthrough()).unwrap();
    f.call_boxed(&mut vec![x]).unwrap();
    assert!(log.take()[0].starts_with("cpu "));
}

/// 3.3: exact, fallback, catch-all. In c10 a composite beats the fallback of a backend's key.
#[test]
fn section_3_3_three_registration_slots() {
    let _turn = turn();
    let log = Log::default();
    let mut lib = Library::new("note_3_3").unwrap();
    let f = lib.def("f(Tensor x) -> Tensor").unwrap();
    let x: Value = on(DeviceType::PrivateUse1).into();
    let run = || {
        f.call_boxed(&mut vec![x.clone()]).unwrap();
        let lines = log.take();
        lines[0].split(' ').next().unwrap().to_string()
    };
    let mut fallback = Library::fallbacks(K::PrivateUse1).unwrap();
    fallback.fallback(answers(&log, "fallback")).unwrap();
    assert_eq!(row(f, K::PrivateUse1).unwrap(), "[backend fallback]");
    assert_eq!(run(), "fallback");
    {
        // the note: "Backend fallback: Middle. Catch-all: Lowest". That was so until about 1.7
        let mut catch_all = Library::fragment("note_3_3").unwrap();
        catch_all.impl_("f", answers(&log, "composite")).unwrap();
        assert_eq!(row(f, K::PrivateUse1).unwrap(), "[math kernel]");
        assert_eq!(run(), "composite");
        // the note's order is to be had: the fallback's kernel, registered for the operator
        let mut exact = Library::implementation("note_3_3", K::PrivateUse1).unwrap();
        exact.impl_("f", answers(&log, "exact")).unwrap();
        assert_eq!(run(), "exact");
    }
    assert_eq!(run(), "fallback");
    // where the composite aliases do not reach, fallbacks serve whatever else there is: "every
    // operator will be intercepted"
    let mut column = Library::fallbacks(K::TESTING_ONLY_GenericMode).unwrap();
    column.fallback(passes_on(&log, "profiler", K::TESTING_ONLY_GenericMode)).unwrap();
    let _on = IncludeGuard::new(K::TESTING_ONLY_GenericMode);
    assert_eq!(run(), "profiler");
}

fn add_scaled(a: &Tensor, b: &Tensor, s: f64) -> Result<Tensor> {
    a.add(b)?.mul(s)
}

/// 4.1 and 4.4: `TORCH_LIBRARY(myops, m)` and its three blocks of kernels.
#[test]
fn section_4_4_registering_a_custom_op() {
    let _turn = turn();
    let log = Log::default();
    let defined = library!(myops, |m| {
        m.def("add_scaled(Tensor a, Tensor b, float s) -> Tensor")?;
        Ok(())
    })
    .unwrap();
    let cpu = library_impl!(myops, CPU, |m| {
        m.impl_("add_scaled", add_scaled)?;
        Ok(())
    })
    .unwrap();
    let noted = log.clone();
    let cuda = library_impl!(myops, CUDA, |m| {
        m.impl_("add_scaled", move |a: &Tensor, _: &Tensor, _: f64| {
            noted.push("add_scaled_cuda");
            Ok(a.clone())
        })?;
        Ok(())
    })
    .unwrap();
    let typed = op("myops::add_scaled").typed::<(&Tensor, &Tensor, f64), Tensor>().unwrap();
    let noted = log.clone();
    let autograd = library_impl!(myops, Autograd, |m| {
        m.impl_("add_scaled", move |keys: DispatchKeySet, a: &Tensor, b: &Tensor, s: f64| {
            noted.push("AddScaledBackward");
            typed.redispatch(keys & DispatchKeySet::AFTER_AUTOGRAD, (a, b, s))
        })?;
        Ok(())
    })
    .unwrap();
    let x = Tensor::from_vec([1f32, 2.0], 2).unwrap();
    assert_eq!(typed.call((&x, &x, 0.5)).unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0]);
    let y = on(DeviceType::Cuda);
    typed.call((&y, &y, 0.5)).unwrap();
    assert_eq!(log.take(), ["AddScaledBackward", "AddScaledBackward", "add_scaled_cuda"]);
    let text = dump(op("myops::add_scaled"));
    let keys: Vec<&str> = text.lines().skip(4).map(|l| l.split(": ").next().unwrap()).collect();
    assert_eq!(keys, ["CPU", "CUDA", "Autograd[alias]"]);
    // "if a kernel is registered in a library that is loaded after the dispatcher has processed
    // some calls, the dispatch table must be updated": it is, and when the library goes too
    drop(autograd);
    typed.call((&y, &y, 0.5)).unwrap();
    assert_eq!(log.take(), ["add_scaled_cuda"]);
    drop((defined, cpu, cuda));
    assert!(straightline::dispatch::operator("myops::add_scaled").is_err());
}

/// 4.4: the backward of the same operator: `g * s` for both, nothing for `s`.
#[test]
fn section_4_4_its_backward() {
    let _turn = turn();
    let mut op =
        custom_op("note_4_4::add_scaled", add_scaled).args(["a", "b", "s"]).register().unwrap();
    op.register_autograd(
        |context, grads| {
            let Some(Value::Double(s)) = context.values.first() else {
                return Ok(vec![None; 3]);
            };
            let g = grads[0].as_ref().map(|g| g.mul(*s)).transpose()?;
            Ok(vec![g.clone(), g, None])
        },
        |context, inputs, _| {
            context.values.push(inputs[2].clone());
            Ok(())
        },
    )
    .unwrap();
    let formula: AutogradFormula = op.autograd_formula().unwrap();
    let x = Tensor::from_vec([1f32, 2.0], 2).unwrap();
    let inputs: Vec<Value> = vec![(&x).into(), (&x).into(), 0.5.into()];
    let grads = formula.gradients(&inputs, &[(&x).into()], &[Some(x.clone())]).unwrap();
    assert_eq!(grads[1].as_ref().unwrap().to_vec::<f32>().unwrap(), [0.5, 1.0]);
    assert!(grads[2].is_none());
}

/// 4.3 and 5.3: every typed kernel has a boxed form, and a boxed one serves typed callers.
#[test]
fn section_5_3_adapters() {
    let _turn = turn();
    let mut lib = Library::new("note_5_3").unwrap();
    let f =
        lib.def("f(Tensor x, Tensor? y, int[] n, Scalar s, bool b) -> (Tensor, float)").unwrap();
    lib.impl_at("f", K::CPU, |x: &Tensor, y: Option<&Tensor>, n: &[i64], s: Scalar, b: bool| {
        let sum = n.iter().sum::<i64>() as f64
            + s.as_f64()
            + f64::from(u8::from(b))
            + y.map_or(0.0, |y| y.numel() as f64);
        Ok((x.clone(), sum))
    })
    .unwrap();
    assert!(dump(f).contains("-> (Tensor _0, float _1) [ boxed unboxed ]"), "{}", dump(f));
    let x = on(DeviceType::Cpu);
    // "pops n IValues, casts each, calls the unboxed function, pushes the result back", and leaves
    // what is below
    let mut stack = vec![
        "below".into(),
        (&x).into(),
        Value::None,
        vec![1i64, 2].into(),
        0.5.into(),
        true.into(),
    ];
    f.call_boxed(&mut stack).unwrap();
    assert!(
        matches!(&stack[..], [Value::String(_), Value::Tensor(t), Value::Double(4.5)] if t.is_same(&x))
    );
    let typed =
        f.typed::<(&Tensor, Option<&Tensor>, &[i64], Scalar, bool), (Tensor, f64)>().unwrap();
    assert_eq!(typed.call((&x, Some(&x), &[1], Scalar::Int(1), false)).unwrap().1, 4.0);
    lib.impl_at(
        "f",
        K::CPU,
        Kernel::boxed(|op, _, stack| {
            let args = arguments(op, stack);
            stack.extend([args[0].clone(), Value::Double(args.len() as f64)]);
            Ok(())
        }),
    )
    .unwrap();
    assert_eq!(typed.call((&x, None, &[], Scalar::Int(1), false)).unwrap().1, 5.0);
}

/// 6.2: "The autograd kernel must call redispatch with all autograd keys removed. Failure to do so
/// causes infinite recursion."
#[test]
fn section_6_2_the_invariant_of_autograd() {
    let _turn = turn();
    let mut lib = Library::new("note_6_2").unwrap();
    let f = lib.def("f(Tensor x) -> int").unwrap().typed::<(&Tensor,), i64>().unwrap();
    lib.impl_at("f", K::CUDA, |_: &Tensor| Ok(0i64)).unwrap();
    let fuel = std::sync::atomic::AtomicI64::new(5);
    lib.impl_at("f", K::Autograd, move |keys: DispatchKeySet, x: &Tensor| {
        match fuel.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) {
            // the same set leads to the same kernel
            1.. => Ok(1 + f.redispatch(keys, (x,))?),
            _ => f.redispatch(keys & DispatchKeySet::AFTER_AUTOGRAD, (x,)),
        }
    })
    .unwrap();
    assert_eq!(f.call((&on(DeviceType::Cuda),)).unwrap(), 5);
    // all autograd keys, since removing AutogradCUDA alone would leave AutogradOther and
    // AutogradNestedTensor
    assert!(DispatchKeySet::full_after(K::AutogradCUDA).has(K::AutogradOther));
    assert!(!DispatchKeySet::AFTER_AUTOGRAD.has_any(DispatchKeySet::AUTOGRAD));
}

/// 7: `torch.add(x, y)` on CUDA in seven steps, with the dispatcher's part of each.
#[test]
fn section_7_torch_add_on_cuda() {
    let _turn = turn();
    let log = Log::default();
    let add = op("aten::add.Tensor").typed::<(&Tensor, &Tensor, Scalar), Tensor>().unwrap();
    let noted = log.clone();
    let mut autograd = Library::implementation("aten", K::AutogradCUDA).unwrap();
    autograd
        .impl_("add.Tensor", move |keys: DispatchKeySet, x: &Tensor, y: &Tensor, alpha: Scalar| {
            noted.push(format!("step 4: VariableType::add_Tensor, given {keys}"));
            // AutoNonVariableTypeMode in the note; today's guard excludes every autograd key
            // and ADInplaceOrView
            let _guard = ExcludeGuard::below_ad_inplace_or_view();
            let rest = keys & DispatchKeySet::AFTER_AUTOGRAD;
            noted.push(format!("step 5: redispatch to {}", rest.highest_priority_key()));
            let result = add.redispatch(rest, (x, y, alpha))?;
            noted.push("step 7: set_history");
            Ok(result)
        })
        .unwrap();
    let noted = log.clone();
    let mut cuda = Library::implementation("aten", K::CUDA).unwrap();
    cuda.impl_("add.Tensor", move |x: &Tensor, _: &Tensor, _: Scalar| {
        noted.push(format!(
            "step 6: at::native::add_cuda, autograd excluded: {}",
            TlsKeySets::current().excluded.has(K::AutogradFunctionality)
        ));
        Ok(x.clone())
    })
    .unwrap();
    let (x, y) = (on(DeviceType::Cuda), on(DeviceType::Cuda));
    aten::add_tensor(&x, &y, Scalar::Int(1)).unwrap();
    assert_eq!(
        log.take(),
        [
            "step 4: VariableType::add_Tensor, given DispatchKeySet(CUDA, AutogradCUDA)",
            "step 5: redispatch to CUDA",
            "step 6: at::native::add_cuda, autograd excluded: true",
            "step 7: set_history",
        ]
    );
}

/// 8.1 and 8.2: a direct call skips what lies between; a redispatch and a guarded call do not.
#[test]
fn section_8_redispatch() {
    let _turn = turn();
    let log = Log::default();
    let mut lib = Library::new("note_8").unwrap();
    let f = lib.def("f(Tensor x, int how) -> Tensor").unwrap();
    let typed = f.typed::<(&Tensor, i64), Tensor>().unwrap();
    lib.impl_at("f", K::CUDA, answers(&log, "CUDA")).unwrap();
    let between = K::FuncTorchDynamicLayerBackMode;
    lib.impl_at("f", between, passes_on(&log, "Profiler", between)).unwrap();
    let noted = log.clone();
    lib.impl_at(
        "f",
        K::AutogradCUDA,
        move |keys: DispatchKeySet, x: &Tensor, how: i64| match how {
            0 => {
                noted.push("direct");
                f.kernel_for(K::CUDA)?.call_boxed(
                    f,
                    K::CUDA.into(),
                    &mut vec![x.into(), how.into()],
                )?;
                Ok(x.clone())
            }
            1 => typed.redispatch(keys & DispatchKeySet::AFTER_AUTOGRAD, (x, how)),
            _ => {
                let _guard = ExcludeGuard::below_autograd();
                typed.call((x, how))
            }
        },
    )
    .unwrap();
    let _on = IncludeGuard::new(K::FuncTorchDynamicLayerBackMode);
    let x = on(DeviceType::Cuda);
    let run = |how| {
        typed.call((&x, how)).unwrap();
        let lines = log.take();
        lines.iter().map(|l| l.split(' ').next().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(run(0), ["direct", "CUDA"]);
    assert_eq!(run(1), ["Profiler", "CUDA"]);
    assert_eq!(run(2), ["Profiler", "CUDA"]);
    // "redispatch is equivalent to removing the current key": it takes the set as it is, whatever
    // kernel it comes from and whatever the thread excludes
    let _off = ExcludeGuard::new(K::FuncTorchDynamicLayerBackMode);
    let (_, lines) = capture(|| {
        typed
            .redispatch(DispatchKeySet::of(&[K::CUDA, K::FuncTorchDynamicLayerBackMode]), (&x, 1))
            .unwrap()
    });
    assert_eq!(lines[0], " [redispatch] op=[note_8::f], key=[FuncTorchDynamicLayerBackMode]");
}
