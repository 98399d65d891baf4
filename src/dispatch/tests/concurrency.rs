//! Registration while other threads dispatch.

use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use straightline_catalog::key::DispatchKey as K;

#[test]
fn calls_go_on_while_kernels_come_and_go() {
    let mut lib = Library::new("t_threads").unwrap();
    let op = lib.def("f(Tensor x) -> int").unwrap();
    lib.impl_at("f", K::CPU, |_: &Tensor| Ok(0i64)).unwrap();
    let typed = op.typed::<(&'static Tensor,), i64>().unwrap();
    let stop = AtomicBool::new(false);
    let calls = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let x = cpu();
                while !stop.load(Ordering::Relaxed) {
                    // the kernel, its override, the autograd layer over either, never an error
                    let got = typed.call((&x,)).unwrap();
                    assert!([0, 1, 100, 101].contains(&got), "{got}");
                    let mut stack = vec![(&x).into()];
                    op.call_boxed(&mut stack).unwrap();
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // set even if a registration fails, or the scope would wait forever
        let _stop = SetOnDrop(&stop);
        let mut round = 0;
        // both sides get to run, no matter how the machine schedules them
        while round < 60 || calls.load(Ordering::Relaxed) < 100 {
            let mut late = Library::implementation("t_threads", K::Undefined).unwrap();
            late.impl_at("f", K::CPU, |_: &Tensor| Ok(1i64)).unwrap();
            late.impl_at("f", K::AutogradCPU, move |keys: DispatchKeySet, x: &Tensor| {
                Ok(100 + typed.redispatch(keys & DispatchKeySet::AFTER_AUTOGRAD, (x,))?)
            })
            .unwrap();
            if round % 2 == 0 {
                late.impl_at("f", K::AutogradCPU, Kernel::fallthrough()).unwrap();
            }
            std::thread::yield_now();
            round += 1;
            // workers that failed make no more calls; the scope reports them
            if round > 100_000 {
                break;
            }
        }
    });
}

/// Runs `call` on three threads while `change` runs here, until both have had their share.
fn while_changing(mut change: impl FnMut(usize), call: impl Fn() + Sync) {
    let stop = AtomicBool::new(false);
    let calls = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    call();
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _stop = SetOnDrop(&stop);
        let mut round = 0;
        while round < 20 || (calls.load(Ordering::Relaxed) < 100 && round < 100_000) {
            change(round);
            std::thread::yield_now();
            round += 1;
        }
    });
}

#[test]
fn calls_move_up_before_the_lower_kernel_goes() {
    let mut lib = Library::new("t_threads_up").unwrap();
    let op = lib.def("f(Tensor x) -> int").unwrap();
    let typed = op.typed::<(&'static Tensor,), i64>().unwrap();
    let lower = || {
        let mut lib = Library::implementation("t_threads_up", K::CPU).unwrap();
        lib.impl_("f", |_: &Tensor| Ok(0i64)).unwrap();
        lib
    };
    let upper = || {
        let mut lib = Library::implementation("t_threads_up", K::AutogradCPU).unwrap();
        lib.impl_("f", |_: &Tensor| Ok(9i64)).unwrap();
        lib
    };
    let mut low = Some(lower());
    while_changing(
        |_| {
            let high = upper();
            low = None; // from here on only the upper kernel serves
            low = Some(lower());
            drop(high);
        },
        || {
            let x = cpu();
            let got = typed.call((&x,)).unwrap();
            assert!([0, 9].contains(&got), "{got}");
            let mut stack = vec![(&x).into()];
            op.call_boxed(&mut stack).unwrap();
            assert!([0, 9].contains(&int(&stack)));
        },
    );
}

#[test]
fn fallbacks_come_and_go() {
    let _turn = turn();
    let key = K::TESTING_ONLY_GenericWrapper;
    let mut lib = Library::new("t_threads_fallback").unwrap();
    let op = lib.def("f(Tensor x) -> int").unwrap();
    lib.impl_at("f", K::CPU, |_: &Tensor| Ok(0i64)).unwrap();
    let typed = op.typed::<(&'static Tensor,), i64>().unwrap();
    let legal = |got: crate::Result<i64>| match got {
        // fallen through to the CPU kernel, or the fallback
        Ok(n) => assert!([0, 7].contains(&n), "{n}"),
        // neither exists
        Err(e) => assert!(e.to_string().contains("f"), "{e}"),
    };
    while_changing(
        |round| {
            let mut lib = Library::fallbacks(key).unwrap();
            let kernel = if round % 2 == 0 { says(7) } else { Kernel::fallthrough() };
            lib.fallback(kernel).unwrap();
        },
        || {
            let x = cpu();
            let _key = IncludeGuard::new(key);
            legal(typed.call((&x,)));
            let mut stack = vec![(&x).into()];
            legal(op.call_boxed(&mut stack).map(|()| int(&stack)));
        },
    );
}

#[test]
fn whole_libraries_come_and_go() {
    while_changing(
        |round| {
            let mut lib = Library::new("t_threads_library").unwrap();
            let n = round as i64;
            lib.def("f(Tensor x) -> int").unwrap();
            lib.impl_at("f", K::CPU, move |_: &Tensor| Ok(n)).unwrap();
            lib.impl_at("f", K::AutogradCPU, says(-1)).unwrap();
        },
        || {
            // a handle outlives its library: it then finds no kernel, and no freed memory
            let Ok(op) = operator("t_threads_library::f") else {
                return;
            };
            for _ in 0..5 {
                let x = cpu();
                let mut stack = vec![(&x).into()];
                match op.call_boxed(&mut stack) {
                    Ok(()) => assert!(int(&stack) >= -1),
                    Err(e) => {
                        assert!(e.to_string().contains("t_threads_library::f"), "{e}");
                    }
                }
            }
        },
    );
}

/// As if another thread had dropped it.
#[test]
fn a_kernel_that_outlives_its_library_is_told() {
    let own: Arc<Mutex<Option<Library>>> = Arc::default();
    let mut lib = Library::new("t_threads_gone").unwrap();
    let op = lib.def("f(Tensor x) -> int").unwrap();
    let library = Arc::downgrade(&own);
    let kernel = Kernel::boxed(move |op, _, stack| {
        assert_eq!(op.arity().unwrap(), 1);
        if let Some(own) = library.upgrade() {
            drop(own.lock().unwrap().take());
        }
        stack.truncate(stack.len() - op.arity()?);
        stack.push(Value::Int(1));
        Ok(())
    });
    lib.impl_at("f", K::CPU, kernel).unwrap();
    *own.lock().unwrap() = Some(lib);
    let mut stack = vec![(&cpu()).into()];
    let message = message(op.call_boxed(&mut stack));
    assert!(message.contains("t_threads_gone::f"), "{message}");
    assert!(message.contains("the operator is gone"), "{message}");
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
