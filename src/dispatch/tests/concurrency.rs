//! Registration while other threads dispatch.

use super::super::key::DispatchKey as K;
use super::*;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn calls_go_on_while_kernels_come_and_go() {
    let mut lib = Library::new("t_threads").unwrap();
    let op = lib.def("f(Tensor x) -> int").unwrap();
    lib.impl_at("f", K::CPU, |_: &Tensor| Ok(0i64)).unwrap();
    let typed = op.typed::<(&'static Tensor,), i64>().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let x = cpu();
                    let mut calls = 0;
                    while !stop.load(Ordering::Relaxed) {
                        // the kernel, its override, the autograd layer over either, never an error
                        let got = typed.call((&x,)).unwrap();
                        assert!([0, 1, 100, 101].contains(&got), "{got}");
                        let mut stack = vec![(&x).into()];
                        op.call_boxed(&mut stack).unwrap();
                        calls += 1;
                    }
                    calls
                })
            })
            .collect();
        for round in 0..60 {
            let mut late = Library::implementation("t_threads", K::Undefined).unwrap();
            late.impl_at("f", K::CPU, |_: &Tensor| Ok(1i64)).unwrap();
            late.impl_at(
                "f",
                K::AutogradCPU,
                move |keys: DispatchKeySet, x: &Tensor| {
                    Ok(100 + typed.redispatch(keys & DispatchKeySet::AFTER_AUTOGRAD, (x,))?)
                },
            )
            .unwrap();
            if round % 2 == 0 {
                late.impl_at("f", K::AutogradCPU, Kernel::fallthrough())
                    .unwrap();
            }
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        let calls: i32 = workers.into_iter().map(|w| w.join().unwrap()).sum();
        assert!(calls > 0);
    });
}
