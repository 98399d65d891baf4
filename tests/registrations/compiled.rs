//! Kernels that are registered, replaced and taken back under a plan.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use straightline::dispatch::{
    DispatchError, DispatchKey, DispatchKeySet, ExcludeGuard, IncludeGuard, Kernel, Library,
    call_count, operator,
};
use straightline::ops::aten;
use straightline::{CompileEvent, Compiled, Error, ErrorKind, Result, Tensor, TensorTree, compile};

fn vec(x: &[f32]) -> Tensor {
    Tensor::from_slice(x, [x.len() as i64]).unwrap()
}

fn values(t: &Tensor) -> Vec<f32> {
    t.to_vec::<f32>().unwrap()
}

fn over(op: &str, times: i64) -> Library {
    let mut lib = Library::implementation("aten", DispatchKey::CPU).unwrap();
    lib.impl_(op, move |x: &Tensor| x.mul(times)).unwrap();
    lib
}

fn outdated<I: TensorTree, O: TensorTree>(f: &Compiled<I, O>) -> Vec<String> {
    let operator = |e: CompileEvent| match e {
        CompileEvent::Outdated { operator, .. } => Some(operator),
        _ => None,
    };
    f.events().into_iter().filter_map(operator).collect()
}

#[test]
fn a_kernel_over_one_of_ours_is_called_and_may_go_again() {
    let f = compile(|x: &Tensor| aten::hardswish(x)?.add(1));
    let x = vec(&[5.0]);
    assert_eq!(values(&f.call(&x).unwrap()), [6.0]);
    let lib = over("hardswish", 100);
    assert_eq!(values(&f.eager(&x).unwrap()), [501.0]);
    assert_eq!(values(&f.call(&x).unwrap()), [501.0]);
    assert_eq!(values(&f.call(&x).unwrap()), [501.0]);
    assert_eq!(outdated(&f), ["aten::hardswish"]);
    assert!(f.explain().to_string().contains("hardswish"));
    // one on top of it
    let other = over("hardswish", 1000);
    assert_eq!(values(&f.call(&x).unwrap()), [5001.0]);
    drop(other);
    assert_eq!(values(&f.call(&x).unwrap()), [501.0]);
    drop(lib);
    assert_eq!(values(&f.call(&x).unwrap()), [6.0]);
    assert_eq!(outdated(&f).len(), 4);
    // and it was there before
    let _lib = over("hardswish", 100);
    let f = compile(|x: &Tensor| aten::hardswish(x)?.add(1));
    assert_eq!(values(&f.call(&x).unwrap()), [501.0]);
    assert_eq!(values(&f.call(&x).unwrap()), [501.0]);
}

#[test]
fn a_kernel_that_writes_is_called_too() {
    let f = compile(|x: &Tensor| {
        let y = x.copied()?;
        aten::hardsigmoid_(&y)?;
        y.add(1)
    });
    let x = vec(&[30.0]);
    assert_eq!(values(&f.call(&x).unwrap()), [2.0]);
    let mut lib = Library::implementation("aten", DispatchKey::CPU).unwrap();
    lib.impl_("hardsigmoid_", |x: &Tensor| x.fill_(7)).unwrap();
    assert_eq!(values(&f.eager(&x).unwrap()), [8.0]);
    assert_eq!(values(&f.call(&x).unwrap()), [8.0]);
    assert_eq!(values(&x), [30.0]);
}

/// What eager execution would call decides: its kernels of other operators call none of these.
#[test]
fn operators_that_rewriting_makes_are_ours() {
    let f = compile(|x: &Tensor| aten::celu(x, 1.0.into()));
    let direct = compile(|x: &Tensor| x.expm1());
    let x = vec(&[-1.0]);
    let (celu, expm1) = (values(&f.call(&x).unwrap()), values(&direct.call(&x).unwrap()));
    let lib = over("expm1", 100);
    assert_eq!(values(&f.eager(&x).unwrap()), celu);
    assert_eq!(values(&f.call(&x).unwrap()), celu);
    assert_eq!(values(&direct.eager(&x).unwrap()), [-100.0]);
    assert_eq!(values(&direct.call(&x).unwrap()), [-100.0]);
    // compiled while the kernel is there
    let f = compile(|x: &Tensor| aten::celu(x, 1.0.into()));
    assert_eq!(values(&f.call(&x).unwrap()), celu);
    drop(lib);
    assert_eq!(values(&direct.call(&x).unwrap()), expm1);
}

#[test]
fn a_composite_takes_the_kernels_of_its_parts_and_may_be_replaced() {
    // log_sigmoid is log_sigmoid_forward's first result
    let f = compile(|x: &Tensor| aten::log_sigmoid(x));
    let x = vec(&[1.0]);
    let ours = values(&f.call(&x).unwrap());
    let mut parts = Library::implementation("aten", DispatchKey::CPU).unwrap();
    parts
        .impl_("log_sigmoid_forward", |x: &Tensor| -> Result<(Tensor, Tensor)> {
            Ok((x.mul(10)?, x.copied()?))
        })
        .unwrap();
    assert_eq!(values(&f.eager(&x).unwrap()), [10.0]);
    assert_eq!(values(&f.call(&x).unwrap()), [10.0]);
    // the composite itself, at a backend key
    let whole = over("log_sigmoid", 20);
    assert_eq!(values(&f.eager(&x).unwrap()), [20.0]);
    assert_eq!(values(&f.call(&x).unwrap()), [20.0]);
    drop((whole, parts));
    assert_eq!(values(&f.call(&x).unwrap()), ours);
    // and for all backends
    let mut lib = Library::implementation("aten", DispatchKey::CompositeImplicitAutograd).unwrap();
    lib.impl_("log_sigmoid", |x: &Tensor| x.mul(30)).unwrap();
    assert_eq!(values(&f.eager(&x).unwrap()), [30.0]);
    assert_eq!(values(&f.call(&x).unwrap()), [30.0]);
}

#[test]
fn a_view_with_a_kernel_of_somebody_else_is_refused() {
    let f = compile(|x: &Tensor| aten::movedim_int(x, 0, 0)?.neg());
    let x = vec(&[1.0, 2.0]);
    f.call(&x).unwrap();
    let f = compile(|x: &Tensor| aten::unfold(x, 0, 1, 1)?.neg());
    let mut lib = Library::implementation("aten", DispatchKey::CPU).unwrap();
    lib.impl_("unfold", |x: &Tensor, _: i64, _: i64, _: i64| x.unsqueeze(1)).unwrap();
    let e = f.call(&x).unwrap_err();
    assert!(
        matches!(e.kind(), ErrorKind::NotCaptured { .. }) && e.to_string().contains("aten::unfold"),
        "{e}"
    );
    assert!(e.location().is_some_and(|at| at.file().ends_with("compiled.rs")), "{e}");
    drop(lib);
    assert_eq!(values(&f.call(&x).unwrap()), [-1.0, -2.0]);
}

#[test]
fn an_operator_of_ones_own_is_replaced_and_dropped() {
    let mut lib = Library::new("t_replaced").unwrap();
    lib.def("f(Tensor x) -> Tensor").unwrap();
    lib.impl_at("f", DispatchKey::Meta, |x: &Tensor| {
        aten::empty_like(x, None, None, None, None, None)
    })
    .unwrap();
    let kernel = |times: i64| {
        let mut lib = Library::implementation("t_replaced", DispatchKey::CPU).unwrap();
        lib.impl_("f", move |x: &Tensor| x.mul(times)).unwrap();
        lib
    };
    let first = kernel(2);
    let f = compile(|x: &Tensor| {
        let mut stack = vec![x.clone().into()];
        operator("t_replaced::f")?.call_boxed(&mut stack)?;
        stack[0].as_tensor().cloned().ok_or_else(|| unreachable!())
    });
    let x = vec(&[1.0]);
    assert_eq!(values(&f.call(&x).unwrap()), [2.0]);
    let second = kernel(3);
    assert_eq!(values(&f.call(&x).unwrap()), [3.0]);
    drop(first);
    drop(second);
    assert!(f.eager(&x).is_err() && f.call(&x).is_err());
    let _third = kernel(4);
    assert_eq!(values(&f.call(&x).unwrap()), [4.0]);
    drop(lib);
    assert!(f.eager(&x).is_err() && f.call(&x).is_err());
    assert!(outdated(&f).iter().all(|op| op == "t_replaced::f"));
}

#[test]
fn what_is_not_used_changes_nothing() {
    let f = compile(|x: &Tensor| x.neg());
    let x = vec(&[1.0]);
    f.call(&x).unwrap();
    for i in 0..3 {
        let mut lib = Library::new(&format!("t_unused_{i}")).unwrap();
        lib.def("f(Tensor x) -> Tensor").unwrap();
        assert_eq!(values(&f.call(&x).unwrap()), [-1.0]);
        let _lib = over("digamma", 3);
        assert_eq!(values(&f.call(&x).unwrap()), [-1.0]);
    }
    assert_eq!(f.variants(), 1);
    assert!(outdated(&f).is_empty());
    let before = call_count();
    f.call(&x).unwrap();
    assert_eq!(call_count(), before);
}

#[test]
fn a_fallback_serves_operators_that_the_plan_uses() {
    // no kernel of ours is at this key, and the thread includes it
    let key = DispatchKey::TESTING_ONLY_GenericWrapper;
    let f = compile(|x: &Tensor| x.neg());
    let x = vec(&[1.0]);
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = calls.clone();
    let fall = |library: &mut Library| {
        library
            .fallback(Kernel::boxed(move |op, keys, stack| {
                seen.fetch_add(1, Ordering::Relaxed);
                let below = DispatchKeySet::full_after(key);
                op.redispatch_boxed(keys & below, stack)?;
                let _off = ExcludeGuard::new(key);
                // what the fallback does is part of the program
                let t = stack.pop().and_then(|v| v.as_tensor().cloned());
                let t = t.ok_or_else(|| Error::new(ErrorKind::Runtime("no tensor".into())))?;
                stack.push(t.mul(2)?.into());
                Ok(())
            }))
            .map(drop)
    };
    let mut library = Library::fallbacks(key).unwrap();
    fall(&mut library).unwrap();
    let _on = IncludeGuard::new(key);
    assert_eq!(values(&f.eager(&x).unwrap()), [-2.0]);
    assert_eq!(values(&f.call(&x).unwrap()), [-2.0]);
    drop(library);
    let mut library = Library::fallbacks(key).unwrap();
    library
        .fallback(Kernel::boxed(move |op, keys, stack| {
            let _off = ExcludeGuard::new(key);
            let below = DispatchKeySet::full_after(key);
            op.redispatch_boxed(keys & below, stack)
        }))
        .unwrap();
    assert_eq!(values(&f.call(&x).unwrap()), [-1.0]);
}

/// Results are those of one registration or the other, and of the last one afterwards.
#[test]
fn threads_register_while_others_replay() {
    let mut lib = Library::new("t_registering").unwrap();
    lib.def("f(Tensor x) -> Tensor").unwrap();
    lib.impl_at("f", DispatchKey::CPU, |x: &Tensor| x.mul(2)).unwrap();
    lib.impl_at("f", DispatchKey::Meta, |x: &Tensor| {
        aten::empty_like(x, None, None, None, None, None)
    })
    .unwrap();
    let f = Arc::new(compile(|x: &Tensor| {
        let mut stack = vec![x.clone().into()];
        operator("t_registering::f")?.call_boxed(&mut stack)?;
        stack[0].as_tensor().cloned().ok_or_else(|| unreachable!())
    }));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let x = vec(&[1.0]);
                while !stop.load(Ordering::Relaxed) {
                    let y = values(&f.call(&x).unwrap())[0];
                    assert!(y == 2.0 || y == 3.0, "{y}");
                }
            });
        }
        for _ in 0..20 {
            let mut over = Library::implementation("t_registering", DispatchKey::CPU).unwrap();
            over.impl_("f", |x: &Tensor| x.mul(3)).unwrap();
            assert_eq!(values(&f.call(vec(&[1.0])).unwrap()), [3.0]);
            drop(over);
            assert_eq!(values(&f.call(vec(&[1.0])).unwrap()), [2.0]);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(values(&f.call(vec(&[1.0])).unwrap()), [2.0]);
}

#[test]
fn a_kernel_over_a_functional_operator_is_not_that_of_the_one_that_writes() {
    let mut lib = Library::implementation("aten", DispatchKey::CPU).unwrap();
    lib.impl_("hardsigmoid", |x: &Tensor| x.mul(100)).unwrap();
    let f = compile(aten::hardsigmoid_);
    for compiled in [false, true, true] {
        let x = vec(&[0.0, 3.0]);
        match compiled {
            true => f.call(&x),
            false => f.eager(&x),
        }
        .unwrap();
        assert_eq!(values(&x), [0.5, 1.0]);
    }
}

#[test]
fn nothing_is_registered_by_a_captured_function() {
    let f = compile(|x: &Tensor| {
        let mut lib = Library::implementation("aten", DispatchKey::CPU)?;
        lib.impl_("hardtanh", |x: &Tensor, _: straightline::Scalar, _: straightline::Scalar| {
            x.neg()
        })?;
        aten::hardtanh(x, (-1).into(), 1.into())
    });
    let e = f.call(&vec(&[2.0])).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::NotCaptured { .. }), "{e}");
}

/// One class and one text eagerly and compiled; one that is defined again is to be looked up again.
#[test]
fn an_operator_whose_library_was_dropped_is_gone() {
    let define = |by: i64| {
        let mut lib = Library::new("dropped").unwrap();
        lib.def("f(Tensor x) -> Tensor").unwrap();
        let kernel = move |x: &Tensor| x.add(by);
        lib.impl_at("f", DispatchKey::CompositeExplicitAutograd, kernel).unwrap();
        lib
    };
    let lib = define(1);
    let h = operator("dropped::f").unwrap();
    let h = h.typed::<(&Tensor,), Tensor>().unwrap();
    let f = compile(move |x: &Tensor| h.call((x,)));
    let x = Tensor::from_vec([1f32], 1).unwrap();
    let value = |t: Result<Tensor>| t.unwrap().item::<f32>().unwrap();
    assert_eq!((value(f.eager(&x)), value(f.call(&x))), (2.0, 2.0));
    drop(lib);
    for e in [f.eager(&x).unwrap_err(), f.call(&x).unwrap_err()] {
        assert!(e.to_string().contains("its library was dropped"), "{e}");
        let gone =
            |e: &DispatchError| matches!(e, DispatchError::Gone { op } if op == "dropped::f");
        assert!(matches!(e.kind(), ErrorKind::Dispatch(d) if gone(d)), "{e}");
    }
    let _again = define(10);
    assert!(f.eager(&x).is_err() && f.call(&x).is_err());
    let h = operator("dropped::f").unwrap();
    let h = h.typed::<(&Tensor,), Tensor>().unwrap();
    let again = compile(move |x: &Tensor| h.call((x,)));
    assert_eq!((value(again.eager(&x)), value(again.call(&x))), (11.0, 11.0));
}

#[test]
fn what_the_function_asks_of_the_registry_is_guarded() {
    let x = vec(&[1.0]);
    // an operator that there is not, and then is, and then is not
    let f = compile(|x: &Tensor| x.add(operator("t_asked::late").is_ok() as i64));
    let both = |expected: &[f32]| {
        assert_eq!(values(&f.eager(&x).unwrap()), expected);
        assert_eq!(values(&f.call(&x).unwrap()), expected);
        assert_eq!(values(&f.call(&x).unwrap()), expected);
    };
    both(&[1.0]);
    let mut lib = Library::new("t_asked").unwrap();
    lib.def("late(Tensor x) -> Tensor").unwrap();
    both(&[2.0]);
    drop(lib);
    both(&[1.0]);
    // a kernel
    let key = DispatchKey::PrivateUse3;
    let f = compile(move |x: &Tensor| {
        let op = operator("aten::hardshrink")?;
        x.add(i64::from(op.has_kernel(key)) + 2 * i64::from(op.has_computed_kernel(key)))
    });
    let both = |expected: &[f32]| {
        assert_eq!(values(&f.eager(&x).unwrap()), expected);
        assert_eq!(values(&f.call(&x).unwrap()), expected);
    };
    both(&[1.0]);
    let mut lib = Library::implementation("aten", key).unwrap();
    lib.impl_("hardshrink", |x: &Tensor, _: straightline::Scalar| x.neg()).unwrap();
    both(&[4.0]);
    drop(lib);
    both(&[1.0]);
}

#[test]
fn how_many_calls_there_have_been_is_refused() {
    let f = compile(|x: &Tensor| {
        let before = call_count();
        let y = x.add(1)?;
        y.add((call_count() - before) as i64)
    });
    let e = f.call(&vec(&[1.0])).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::NotCaptured { .. }), "{e}");
    assert!(e.to_string().contains("call_count()"), "{e}");
    assert!(e.location().is_some(), "{e}");
}
