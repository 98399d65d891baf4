//! Registration while other threads dispatch.

use super::super::key::DispatchKey as K;
use super::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

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
        // set even if a registration fails, or the scope would wait for ever
        let _stop = SetOnDrop(&stop);
        let mut round = 0;
        // both sides get to run, however the machine schedules them
        while round < 60 || calls.load(Ordering::Relaxed) < 100 {
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
            round += 1;
            // workers that failed make no more calls; the scope reports them
            if round > 100_000 {
                break;
            }
        }
    });
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
