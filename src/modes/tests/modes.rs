//! The stack of modes and what its members see.

use super::*;
use crate::dispatch::{
    DispatchError, DispatchKey, ExcludeGuard, IncludeGuard, Library, Value, operator,
};
use crate::error::ErrorKind;
use crate::modes::{ModeError, reentrant_dispatch, register_rule};
use crate::ops::aten;
use std::panic::{AssertUnwindSafe, catch_unwind};
use straightline_catalog::{DType, Device, Scalar};

#[test]
fn composites_arrive_as_pytorch_decomposes_them() {
    let (x, w, b) = (ones(&[2, 3]), ones(&[4, 3]), ones(&[4]));
    assert_eq!(
        seen(|| aten::linear(&x, &w, Some(&b))),
        ["aten::t(f32[4,3])", "aten::addmm(f32[4], f32[2,3], f32[3,4])"]
    );
    assert_eq!(
        seen(|| aten::linear(&x, &w, None)),
        ["aten::t(f32[4,3])", "aten::mm(f32[2,3], f32[3,4])"]
    );
    assert_eq!(seen(|| aten::softmax_int(&x, -1, None)), ["aten::_softmax(f32[2,3], -1, false)"]);
    assert_eq!(
        seen(|| aten::layer_norm(&x, &[3], None, None, 1e-5, true)),
        ["aten::native_layer_norm(f32[2,3], [3], None, None, 1e-5)"]
    );
    // autograd is what takes composites apart, so below it they arrive whole
    let _below = ExcludeGuard::below_autograd();
    let log = log();
    let _mode = pushed("", &log);
    aten::linear(&x, &w, Some(&b)).unwrap();
    assert_eq!(taken(&log), [" aten::linear(f32[2,3], f32[4,3], f32[4])"]);
}

#[test]
fn in_place_views_and_factories_are_calls_like_others() {
    let x = ones(&[2, 3]);
    assert_eq!(seen(|| x.t()), ["aten::t(f32[2,3])"]);
    assert_eq!(
        seen(|| x.reshape(&[3, 2])?.mul_(2)),
        ["aten::view(f32[2,3], [3, 2])", "aten::mul_.Scalar(f32[3,2], 2)"]
    );
    assert_eq!(
        seen(|| aten::add_tensor(&x, &x, Scalar::Int(2))),
        ["aten::add.Tensor(f32[2,3], f32[2,3], alpha=2)"]
    );
    assert_eq!(
        seen(|| aten::sum_dim_int_list(&x, Some(&[1]), true, None)),
        ["aten::sum.dim_IntList(f32[2,3], [1], true)"]
    );
    assert_eq!(seen(|| aten::cat(&[x.clone(), x.clone()], 0)), ["aten::cat([f32[2,3], f32[2,3]])"]);
    assert_eq!(
        seen(|| aten::zeros(&[2, 2], None, None, Some(Device::CPU), None)),
        ["aten::zeros([2, 2], device=cpu)"]
    );
    assert_eq!(seen(|| x.to_dtype(DType::F64)), ["aten::_to_copy(f32[2,3], dtype=f64)"]);
}

#[test]
fn an_in_place_call_gives_back_the_tensor_it_was_given() {
    let log = log();
    let _mode = pushed("", &log);
    let x = ones(&[2]);
    assert!(x.add_(1).unwrap().is_same(&x));
    assert_eq!(x.to_vec::<f32>().unwrap(), [2.0, 2.0]);
}

#[test]
fn the_innermost_mode_comes_first_and_calls_the_next() {
    let log = log();
    let x = ones(&[2]);
    let outer = pushed("outer", &log);
    let inner = pushed("inner", &log);
    x.relu().unwrap();
    assert_eq!(taken(&log), ["inner aten::relu(f32[2])", "outer aten::relu(f32[2])"]);
    drop(inner);
    x.relu().unwrap();
    assert_eq!(taken(&log), ["outer aten::relu(f32[2])"]);
    drop(outer);
    x.relu().unwrap();
    assert!(taken(&log).is_empty());
    assert_clean();
}

#[test]
fn guards_dropped_in_any_order_take_off_their_own_mode() {
    let log = log();
    let x = ones(&[2]);
    let a = pushed("a", &log);
    let b = pushed("b", &log);
    let c = pushed("c", &log);
    drop(b);
    x.relu().unwrap();
    assert_eq!(taken(&log), ["c aten::relu(f32[2])", "a aten::relu(f32[2])"]);
    drop(a);
    x.relu().unwrap();
    assert_eq!(taken(&log), ["c aten::relu(f32[2])"]);
    drop(c);
    assert_clean();
}

#[test]
fn a_guard_dropped_by_its_own_handler_ends_the_mode() {
    let slot: Rc<RefCell<Option<ModeGuard>>> = Rc::default();
    let own = slot.clone();
    let guard = push_mode(from_fn(move |call| {
        own.take();
        Ok(call.forward()?.into())
    }));
    slot.replace(Some(guard));
    let x = ones(&[1]);
    x.relu().unwrap();
    assert!(slot.borrow().is_none());
    assert_clean();
    x.relu().unwrap();
}

#[test]
fn a_mode_pushed_by_a_handler_may_outlive_it() {
    let log = log();
    let kept: Rc<RefCell<Vec<ModeGuard>>> = Rc::default();
    let (own, lines) = (kept.clone(), log.clone());
    let guard = push_mode(from_fn(move |call| {
        if own.borrow().is_empty() {
            let late = pushed("late", &lines);
            own.borrow_mut().push(late);
        }
        Ok(call.forward()?.into())
    }));
    let x = ones(&[1]);
    x.relu().unwrap();
    assert_eq!(taken(&log), ["late aten::relu(f32[1])"]);
    drop(guard);
    x.abs().unwrap();
    assert_eq!(taken(&log), ["late aten::abs(f32[1])"]);
    kept.borrow_mut().clear();
    assert_clean();
}

#[test]
fn a_handler_runs_below_everything_above_python() {
    let keys: Rc<RefCell<Vec<TlsKeySets>>> = Rc::default();
    let noting = || {
        let keys = keys.clone();
        from_fn(move |call: Call<'_>| {
            keys.borrow_mut().push(TlsKeySets::current());
            Ok(call.forward()?.into())
        })
    };
    let _outer = push_mode(noting());
    let _inner = push_mode(noting());
    ones(&[1]).relu().unwrap();
    let keys = keys.borrow();
    let excluded: Vec<DispatchKey> = keys[0].excluded.iter().collect();
    for key in [
        DispatchKey::FuncTorchDynamicLayerBackMode,
        DispatchKey::Functionalize,
        DispatchKey::ADInplaceOrView,
        DispatchKey::AutogradOther,
        DispatchKey::Tracer,
        DispatchKey::AutocastCPU,
        DispatchKey::PythonTLSSnapshot,
        DispatchKey::PreDispatch,
    ] {
        assert!(excluded.contains(&key), "{key}");
    }
    for key in [DispatchKey::PythonDispatcher, DispatchKey::Python, DispatchKey::BackendSelect] {
        assert!(!excluded.contains(&key), "{key}");
    }
    // with two modes the inner one's handler still runs with the Python key included
    assert!(keys[0].included.has(DispatchKey::Python));
    assert!(!keys[1].included.has(DispatchKey::Python));
}

#[test]
fn modes_work_below_functionalize_and_autograd() {
    let mut lib = Library::new("modes_order").unwrap();
    lib.def("probe(Tensor x) -> Tensor").unwrap();
    let order = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    for key in [
        DispatchKey::AutocastCPU,
        DispatchKey::AutogradCPU,
        DispatchKey::ADInplaceOrView,
        DispatchKey::BackendSelect,
        DispatchKey::CPU,
    ] {
        let order = order.clone();
        let kernel = move |keys: DispatchKeySet, x: &Tensor| -> Result<Tensor> {
            order.lock().unwrap().push(key.to_string());
            if key == DispatchKey::CPU {
                return Ok(x.clone());
            }
            operator("modes_order::probe")?
                .typed::<(&'static Tensor,), Tensor>()?
                .redispatch(keys & DispatchKeySet::full_after(key), (x,))
        };
        lib.impl_at("probe", key, kernel).unwrap();
    }
    let seen = order.clone();
    let _mode = push_mode(from_fn(move |call| {
        seen.lock().unwrap().push("mode".into());
        Ok(call.forward()?.into())
    }));
    let _autocast = {
        let now = TlsKeySets::current();
        crate::dispatch::ForceKeySetGuard::new(TlsKeySets {
            excluded: now.excluded.remove(DispatchKey::AutocastCPU),
            ..now
        })
    };
    operator("modes_order::probe")
        .unwrap()
        .typed::<(&'static Tensor,), Tensor>()
        .unwrap()
        .call((&ones(&[1]),))
        .unwrap();
    assert_eq!(
        *order.lock().unwrap(),
        ["AutocastCPU", "AutogradCPU", "ADInplaceOrView", "mode", "BackendSelect", "CPU"]
    );
}

#[test]
fn a_mode_redirects() {
    let _mode = push_mode(from_fn(|call| {
        Ok(match call.is("aten::relu") {
            true => call.redirect("aten::neg")?.into(),
            false => call.forward()?.into(),
        })
    }));
    assert_eq!(ones(&[1]).relu().unwrap().to_vec::<f32>().unwrap(), [-1.0]);
}

#[test]
fn a_mode_changes_arguments() {
    let _mode = push_mode(from_fn(|mut call: Call<'_>| {
        if call.is("aten::add.Tensor") {
            call.set_arg("alpha", 10i64)?;
            assert!(matches!(call.arg("alpha"), Some(Value::Int(10))));
        }
        if call.is("aten::mul.Tensor") {
            call.args_mut()[1] = Value::Tensor(ones(&[1]).add(4)?);
        }
        Ok(call.forward()?.into())
    }));
    let x = ones(&[1]);
    assert_eq!((&x + &x).to_vec::<f32>().unwrap(), [11.0]);
    assert_eq!((&x * &x).to_vec::<f32>().unwrap(), [5.0]);
}

#[test]
fn an_argument_that_is_not_there_is_named() {
    let _mode = push_mode(from_fn(|mut call: Call<'_>| {
        call.set_arg("beta", 1i64)?;
        Ok(call.forward()?.into())
    }));
    let e = ones(&[1]).relu().unwrap_err();
    let ErrorKind::Mode(ModeError::NoArgument { op, name, known }) = e.kind() else {
        panic!("{e}");
    };
    assert_eq!((op.as_str(), name.as_str()), ("aten::relu", "beta"));
    assert_eq!(*known, ["self"]);
}

#[test]
fn a_mode_answers_a_call_itself() {
    let _mode = push_mode(from_fn(|_: Call<'_>| Ok(ones(&[3]).into())));
    assert_eq!(ones(&[1]).relu().unwrap().sizes(), [3]);
}

#[test]
fn answers_that_cannot_be_the_operators_are_refused() {
    let x = ones(&[1]);
    for values in [vec![], vec![Value::Int(1)], vec![Value::from(&x), Value::from(&x)]] {
        let _mode = push_mode(from_fn(move |_: Call<'_>| Ok(values.clone().into())));
        let e = x.relu().unwrap_err();
        let returns = matches!(e.kind(), ErrorKind::Dispatch(DispatchError::Returns { .. }));
        assert!(returns, "{e}");
    }
    assert_clean();
}

#[test]
fn errors_and_panics_in_handlers_leave_the_thread_as_it_was() {
    let x = ones(&[1]);
    let log = log();
    let outer = pushed("outer", &log);
    let failing = push_mode(from_fn(|call: Call<'_>| match call.is("aten::relu") {
        true => Err(crate::Error::runtime("no")),
        false => Ok(call.forward()?.into()),
    }));
    assert!(x.relu().is_err());
    x.abs().unwrap();
    assert_eq!(taken(&log), ["outer aten::abs(f32[1])"]);
    drop(failing);
    let panicking = push_mode(from_fn(|_: Call<'_>| -> Result<Outcome> { panic!("handler") }));
    let before = TlsKeySets::current();
    assert!(catch_unwind(AssertUnwindSafe(|| x.relu())).is_err());
    assert_eq!(TlsKeySets::current(), before);
    drop(panicking);
    x.abs().unwrap();
    assert_eq!(taken(&log), ["outer aten::abs(f32[1])"]);
    drop(outer);
    assert_clean();
}

#[test]
fn a_panic_in_the_kernel_below_restores_too() {
    let mut lib = Library::new("modes_panic").unwrap();
    lib.def("boom(Tensor x) -> Tensor").unwrap();
    lib.impl_at("boom", DispatchKey::CPU, |_x: &Tensor| -> Result<Tensor> { panic!("kernel") })
        .unwrap();
    let log = log();
    let guard = pushed("m", &log);
    let boom = operator("modes_panic::boom").unwrap();
    let call = || boom.call_boxed(&mut vec![Value::Tensor(ones(&[1]))]);
    assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
    ones(&[1]).relu().unwrap();
    assert_eq!(taken(&log).len(), 2);
    drop(guard);
    assert_clean();
}

#[test]
fn threads_have_stacks_of_their_own() {
    let log = log();
    let _mode = pushed("here", &log);
    std::thread::spawn(|| {
        assert_clean();
        let there = super::log();
        let _mode = pushed("there", &there);
        ones(&[1]).relu().unwrap();
        assert_eq!(taken(&there), ["there aten::relu(f32[1])"]);
    })
    .join()
    .unwrap();
    assert!(taken(&log).is_empty());
}

#[test]
fn all_declining_is_an_error_that_lists_them() {
    let _mode = push_mode(declining());
    let e = ones(&[1]).relu().unwrap_err();
    let ErrorKind::Mode(ModeError::AllDeclined { op, handlers }) = e.kind() else {
        panic!("{e}");
    };
    assert_eq!(op, "aten::relu");
    assert_eq!(*handlers, ["mode `from_fn`"]);
    // c10's own words
    let text = e.to_string();
    let words = "Multiple dispatch failed for 'aten::relu'; all handlers returned NotImplemented:\n\n  - mode `from_fn`";
    assert!(text.contains(words), "{text}");
}

#[test]
fn pre_dispatch_modes_see_composites_whole_and_decline_to_see_their_parts() {
    let log = log();
    let (x, w) = (ones(&[2, 3]), ones(&[4, 3]));
    let outer = pre_pushed("outer", &log);
    let inner = pre_pushed("inner", &log);
    let post = pushed("post", &log);
    aten::linear(&x, &w, None).unwrap();
    assert_eq!(
        taken(&log),
        [
            "inner aten::linear(f32[2,3], f32[4,3])",
            "outer aten::linear(f32[2,3], f32[4,3])",
            "post aten::t(f32[4,3])",
            "post aten::mm(f32[2,3], f32[3,4])",
        ]
    );
    drop((outer, inner, post));
    let lines = log.clone();
    let declines = push_pre_dispatch_mode(from_fn(move |call| {
        lines.borrow_mut().push(call.op().name().to_string());
        Ok(match call.is("aten::linear") {
            true => Outcome::NotImplemented,
            false => call.forward()?.into(),
        })
    }));
    aten::linear(&x, &w, None).unwrap();
    assert_eq!(taken(&log), ["aten::linear", "aten::t", "aten::matmul"]);
    drop(declines);
    assert_clean();
}

#[test]
fn reentrant_dispatch_takes_a_handler_back_to_the_callers_keys() {
    let log = log();
    let lines = log.clone();
    let _pre = pre_pushed("pre", &log);
    let _mode = push_mode(from_fn(move |call: Call<'_>| {
        lines.borrow_mut().push(format!("mode {}", call.op().name()));
        let _again = reentrant_dispatch()?;
        // a composite now comes apart at autograd, and the pre-dispatch mode sees it whole
        let (x, w) = (ones(&[1, 1]), ones(&[1, 1]));
        aten::linear(&x, &w, None)?;
        drop(_again);
        Ok(call.forward()?.into())
    }));
    ones(&[1]).relu().unwrap();
    let seen = taken(&log);
    assert_eq!(seen[..2], ["pre aten::relu(f32[1])", "mode aten::relu"]);
    assert!(reentrant_dispatch().is_err());
}

#[test]
fn the_key_without_a_handler_is_passed_through() {
    let _python = IncludeGuard::new(DispatchKeySet::PYTHON);
    assert_eq!(ones(&[1]).relu().unwrap().to_vec::<f32>().unwrap(), [1.0]);
}

#[test]
fn a_composite_can_be_taken_apart_under_the_mode() {
    let (x, w) = (ones(&[2, 3]), ones(&[4, 3]));
    let _below = ExcludeGuard::below_autograd();
    let log = log();
    let lines = log.clone();
    let _mode = push_mode(from_fn(move |call: Call<'_>| {
        lines.borrow_mut().push(call.op().name().to_string());
        Ok(match call.decompose() {
            Some(done) => done?.into(),
            None => call.forward()?.into(),
        })
    }));
    aten::linear(&x, &w, None).unwrap();
    assert_eq!(taken(&log), ["aten::linear", "aten::t", "aten::matmul", "aten::mm"]);
}

#[test]
fn rules_of_an_operator_for_a_mode() {
    struct Named;
    impl DispatchMode for Named {
        fn dispatch(&self, call: Call<'_>) -> Result<Outcome> {
            Ok(call.forward()?.into())
        }
    }
    // pushed by itself or shared, it is the same mode
    let _mode = push_mode(Rc::new(Named));
    let x = ones(&[1]);
    let rule =
        register_rule("aten::relu", |_: &Named, call| Ok(call.redirect("aten::neg")?.into()))
            .unwrap();
    assert_eq!(x.relu().unwrap().to_vec::<f32>().unwrap(), [-1.0]);
    let newer = register_rule("aten::relu", |_: &Named, _| Ok(ones(&[7]).into())).unwrap();
    assert_eq!(x.relu().unwrap().sizes(), [7]);
    drop(newer);
    assert_eq!(x.relu().unwrap().to_vec::<f32>().unwrap(), [-1.0]);
    drop(rule);
    assert_eq!(x.relu().unwrap().to_vec::<f32>().unwrap(), [1.0]);
    assert!(register_rule("aten::nothing", |_: &Named, _| Ok(Outcome::NotImplemented)).is_err());
}

#[test]
fn without_a_mode_a_call_enters_the_dispatcher_as_often_as_before() {
    let x = ones(&[1]);
    let count = || {
        let before = crate::dispatch::call_count();
        x.relu().unwrap();
        crate::dispatch::call_count() - before
    };
    let plain = count();
    let guard = push_mode(declining());
    drop(guard);
    assert_eq!(count(), plain);
    assert_eq!(plain, 1);
}

#[test]
fn guards_of_key_sets_take_a_modes_keys_with_them_unless_dropped_in_order() {
    let log = log();
    let x = ones(&[1]);
    let keys = IncludeGuard::new(DispatchKey::FuncTorchVmapMode);
    let mode = pushed("m", &log);
    drop(keys);
    // c10's rule: the whole set is restored
    x.relu().unwrap();
    assert!(taken(&log).is_empty());
    // the next mode brings the keys back, for all of them
    let next = pushed("n", &log);
    x.relu().unwrap();
    assert_eq!(taken(&log).len(), 2);
    drop((mode, next));
    assert_clean();
}
