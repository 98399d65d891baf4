use super::*;
use crate::dispatch::{DispatchKey, Kernel, Library, Stack, TypedOp, capture, operator};
use crate::tensor::Tensor;
use std::sync::Mutex;

type Log = Arc<Mutex<Vec<String>>>;

fn log() -> Log {
    Log::default()
}

fn lines(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.lock().unwrap())
}

/// Notes starts and ends of names that contain `of`.
fn noting(log: &Log, of: &'static str) -> Observer {
    let (at_start, at_end) = (log.clone(), log.clone());
    Observer::new(
        move |f| {
            if f.name().contains(of) {
                at_start.lock().unwrap().push(format!("> {}", f.name()));
            }
            7u8
        },
        move |f, context: u8| {
            assert_eq!(context, 7);
            if f.name().contains(of) {
                let sizes = (f.inputs().len(), f.outputs().len());
                at_end.lock().unwrap().push(format!("< {} {sizes:?}", f.name()));
            }
        },
    )
}

fn x() -> Tensor {
    Tensor::from_vec([1f32, 2.0], 2).unwrap()
}

fn library(ns: &str) -> Library {
    let mut lib = Library::new(ns).unwrap();
    lib.def("twice(Tensor x, int n=1) -> Tensor").unwrap();
    lib.impl_at("twice", DispatchKey::CPU, |x: &Tensor, _n: i64| x.add(x)).unwrap();
    lib
}

#[test]
fn calls_are_seen_and_redispatches_are_not() {
    let _lib = library("record_a");
    static TWICE: TypedOp<(&'static Tensor, i64), Tensor> = TypedOp::new("record_a::twice", "");
    let seen = log();
    let _on = noting(&seen, "record_a").on_this_thread();
    TWICE.call((&x(), 1)).unwrap();
    assert_eq!(lines(&seen), ["> record_a::twice", "< record_a::twice (0, 0)"]);
    TWICE.redispatch(DispatchKey::CPU.into(), (&x(), 1)).unwrap();
    assert_eq!(lines(&seen), [""; 0]);
    let op = operator("record_a::twice").unwrap();
    let mut stack: Stack = vec![Value::Tensor(x()), Value::Int(1)];
    op.call_boxed(&mut stack).unwrap();
    assert_eq!(lines(&seen).len(), 2);
    let mut stack: Stack = vec![Value::Tensor(x()), Value::Int(1)];
    op.redispatch_boxed(DispatchKey::CPU.into(), &mut stack).unwrap();
    op.call_boxed_for_key(DispatchKey::CPU, &mut vec![Value::Tensor(x()), Value::Int(1)]).unwrap();
    assert_eq!(lines(&seen), [""; 0]);
}

#[test]
fn arguments_and_returns_are_boxed_for_who_wants_them() {
    let _lib = library("record_b");
    let op = operator("record_b::twice").unwrap();
    let typed = op.typed::<(&'static Tensor, i64), Tensor>().unwrap();
    let seen = log();
    {
        let _on = noting(&seen, "record_b").needs_inputs(true).needs_outputs(true).on_this_thread();
        let out = typed.call((&x(), 1)).unwrap();
        assert_eq!(out.to_vec::<f32>().unwrap(), [2.0, 4.0]);
        // what lies below the arguments on the stack is not theirs
        let mut stack: Stack = vec![Value::Bool(true), Value::Tensor(x()), Value::Int(1)];
        op.call_boxed(&mut stack).unwrap();
        assert_eq!(stack.len(), 2);
    }
    typed.call((&x(), 1)).unwrap();
    let both = ["> record_b::twice", "< record_b::twice (2, 1)"];
    assert_eq!(lines(&seen), [both, both].concat());
}

#[test]
fn nested_calls_nest_and_a_failing_call_ends() {
    let mut lib = Library::new("record_c").unwrap();
    lib.def("inner(Tensor x) -> Tensor").unwrap();
    lib.def("outer(Tensor x) -> Tensor").unwrap();
    lib.impl_at("inner", DispatchKey::CPU, |_x: &Tensor| -> crate::Result<Tensor> {
        Err(crate::Error::runtime("no"))
    })
    .unwrap();
    lib.impl_at(
        "outer",
        DispatchKey::CPU,
        Kernel::boxed(|_, _, stack| operator("record_c::inner")?.call_boxed(stack)),
    )
    .unwrap();
    let seen = log();
    let _on = noting(&seen, "record_c").needs_outputs(true).on_this_thread();
    let mut stack: Stack = vec![Value::Tensor(x())];
    assert!(operator("record_c::outer").unwrap().call_boxed(&mut stack).is_err());
    assert_eq!(
        lines(&seen),
        [
            "> record_c::outer",
            "> record_c::inner",
            "< record_c::inner (0, 0)",
            "< record_c::outer (0, 0)"
        ]
    );
}

#[test]
fn a_global_observer_reaches_threads_that_run_already() {
    let _lib = library("record_d");
    let typed =
        operator("record_d::twice").unwrap().typed::<(&'static Tensor, i64), Tensor>().unwrap();
    let seen = log();
    let (go, wait) = std::sync::mpsc::channel();
    let (done, back) = std::sync::mpsc::channel();
    let worker = std::thread::spawn(move || {
        while wait.recv().is_ok() {
            typed.call((&x(), 1)).unwrap();
            done.send(thread_id()).unwrap();
        }
    });
    go.send(()).unwrap();
    let worker_id = back.recv().unwrap();
    assert_eq!(lines(&seen), [""; 0]);
    {
        let _on = noting(&seen, "record_d").everywhere();
        go.send(()).unwrap();
        back.recv().unwrap();
        typed.call((&x(), 1)).unwrap();
        assert_eq!(lines(&seen).len(), 4);
    }
    go.send(()).unwrap();
    back.recv().unwrap();
    assert_eq!(lines(&seen), [""; 0]);
    assert_ne!(worker_id, thread_id());
    drop(go);
    worker.join().unwrap();
}

#[test]
fn several_observers_scopes_and_switching_off() {
    let (a, b) = (log(), log());
    let only_users = noting(&a, "record_e").scopes(&[RecordScope::UserScope]);
    let _a = only_users.on_this_thread();
    let b_on = noting(&b, "record_e").scopes(&[RecordScope::BackwardFunction]).on_this_thread();
    drop(record_function("record_e user"));
    drop(record_scope(RecordScope::BackwardFunction, "record_e back", 3));
    assert_eq!(lines(&a), ["> record_e user", "< record_e user (0, 0)"]);
    assert_eq!(lines(&b), ["> record_e back", "< record_e back (0, 0)"]);
    drop(b_on);
    {
        let _off = DisableRecordGuard::new();
        drop(record_function("record_e user"));
    }
    assert_eq!(lines(&a), [""; 0]);
    drop(record_function("record_e user"));
    assert_eq!(lines(&a).len(), 2);
    assert_eq!(lines(&b), [""; 0]);
}

#[test]
fn an_observer_may_call_operators() {
    let calls = Arc::new(AtomicU64::new(0));
    let count = calls.clone();
    let _on = Observer::new(
        move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            x().exp().unwrap();
        },
        |_, ()| {
            x().exp().unwrap();
        },
    )
    .on_this_thread();
    x().exp().unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[test]
fn the_profilers_own_operators_are_not_observed() {
    let name = |n: &str| OperatorName::new(n, "");
    assert!(!is_observed(&name("aten::size")));
    assert!(!is_observed(&name("profiler::_record_function_enter_new")));
    assert!(is_observed(&name("aten::sizes")));
    let mut lib = Library::new("profiler").unwrap();
    lib.def("_record_function_exit(Tensor x) -> ()").unwrap();
    lib.impl_at("_record_function_exit", DispatchKey::CPU, |_: &Tensor| Ok(())).unwrap();
    let seen = log();
    let _on = noting(&seen, "profiler").on_this_thread();
    let op = operator("profiler::_record_function_exit").unwrap();
    op.call_boxed(&mut vec![Value::Tensor(x())]).unwrap();
    assert_eq!(lines(&seen), [""; 0]);
}

#[test]
fn sampling_shows_a_part() {
    let count = |p: f64| {
        let seen = log();
        let _on = noting(&seen, "record_f").sampling(p).on_this_thread();
        for _ in 0..1000 {
            drop(record_function("record_f"));
        }
        lines(&seen).len() / 2
    };
    assert_eq!(count(0.0), 0);
    assert_eq!(count(1.0), 1000);
    // 500 +- 9 standard deviations
    assert!((350..650).contains(&count(0.5)));
}

#[test]
fn tracing_and_observing_do_not_disturb_each_other() {
    let seen = log();
    let (_, trace) = capture(|| {
        let on = noting(&seen, "exp").on_this_thread();
        x().exp().unwrap();
        drop(on);
        x().exp().unwrap();
    });
    assert_eq!(lines(&seen).len(), 2);
    assert_eq!(trace.iter().filter(|l| l.contains("[call]")).count(), 2);
    assert!(!tls::is_slow());
}
