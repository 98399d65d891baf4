//! Tensors that several threads read and write: calls wait for each other, and none is lost.

use std::sync::{Barrier, OnceLock};
use std::time::Duration;
use straightline::dispatch::{DispatchKey, Library, TypedOp};
use straightline::{
    BusyReason, CompileEvent, Compiled, Error, ErrorKind, Result, Tensor, borrows_wait, compile,
    try_borrows,
};

const CALLS: usize = 500;

fn zeros(n: usize) -> Tensor {
    Tensor::from_vec(vec![0f64; n], -1).unwrap()
}

fn reason(e: &Error) -> BusyReason {
    match e.kind() {
        ErrorKind::Busy(busy) => busy.reason,
        _ => panic!("{e}"),
    }
}

#[test]
fn four_threads_call_one_function_that_writes_a_shared_tensor() {
    let total = zeros(8);
    let sum = total.clone();
    let f = compile(move |x: &Tensor| {
        sum.add_(x)?;
        sum.mul(2)
    });
    std::thread::scope(|scope| {
        for thread in 1..=4 {
            let f = &f;
            scope.spawn(move || {
                let x = Tensor::from_vec(vec![f64::from(thread); 8], -1).unwrap();
                for _ in 0..CALLS {
                    let twice = f.call(&x).unwrap().to_vec::<f64>().unwrap();
                    assert!(twice.iter().all(|v| *v == twice[0] && v % 2.0 == 0.0));
                }
            });
        }
    });
    assert_eq!(total.to_vec::<f64>().unwrap(), [10.0 * CALLS as f64; 8]);
}

#[test]
fn weights_change_in_place_while_three_threads_read_them() {
    let w = zeros(64);
    let used = w.clone();
    let f = compile(move |x: &Tensor| x.add(&used)?.sub(x));
    let whole = |seen: Vec<f64>| assert!(seen.iter().all(|v| *v == seen[0]), "half of a write");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..CALLS {
                w.add_(1).unwrap();
            }
        });
        for reader in 0..3 {
            let (f, w, whole) = (&f, &w, &whole);
            scope.spawn(move || {
                let x = zeros(64);
                for _ in 0..CALLS {
                    whole(match reader {
                        0 => w.to_vec::<f64>().unwrap(),
                        1 => (w + w).to_vec::<f64>().unwrap(),
                        _ => f.call(&x).unwrap().to_vec::<f64>().unwrap(),
                    });
                }
            });
        }
    });
    assert_eq!(w.to_vec::<f64>().unwrap(), [CALLS as f64; 64]);
}

/// Each function writes what the other one reads.
#[test]
fn functions_that_want_the_same_tensors_in_another_order() {
    let (a, b) = (zeros(4), zeros(4));
    let step = |to: &Tensor, from: &Tensor| {
        let (to, from) = (to.clone(), from.clone());
        compile(move |one: &Tensor| {
            to.add_(one)?;
            to.sub(&from)
        })
    };
    let (f, g) = (step(&a, &b), step(&b, &a));
    let swap = compile(|(a, b): &(Tensor, Tensor)| {
        let old = a.copied()?;
        a.copy_(b)?;
        b.copy_(&old)
    });
    std::thread::scope(|scope| {
        for f in [&f, &g] {
            scope.spawn(move || {
                let one = Tensor::from_vec(vec![1f64; 4], -1).unwrap();
                for _ in 0..CALLS {
                    f.call(&one).unwrap();
                }
            });
        }
        for pair in [(a.clone(), b.clone()), (b.clone(), a.clone())] {
            let swap = &swap;
            scope.spawn(move || {
                for _ in 0..CALLS {
                    swap.call(&pair).unwrap();
                }
            });
        }
    });
    let sum = (&a + &b).to_vec::<f64>().unwrap();
    assert_eq!(sum, [2.0 * CALLS as f64; 4]);
}

/// The tensor that the kernels of `threads::write` write.
static WRITTEN: OnceLock<Tensor> = OnceLock::new();
static WRITE: TypedOp<(&Tensor,), Tensor> = TypedOp::new("threads::write", "");
/// The two tensors that the kernels of `threads::other` write, and where two calls of it meet.
static PAIR: OnceLock<[Tensor; 2]> = OnceLock::new();
static MEET: Barrier = Barrier::new(2);
static OTHER: TypedOp<(&Tensor, i64), Tensor> = TypedOp::new("threads::other", "");

fn same_shape(x: &Tensor) -> Result<Tensor> {
    Tensor::with((x.dtype(), x.device())).empty(x.sizes())
}

/// A compiled function holds what it reads while the kernel of an operator of the user's runs.
#[test]
fn a_kernel_that_would_wait_for_its_own_caller_gets_an_error() {
    let mut lib = Library::new("threads").unwrap();
    lib.def("write(Tensor x) -> Tensor").unwrap();
    lib.impl_at("write", DispatchKey::Meta, same_shape).unwrap();
    lib.impl_at("write", DispatchKey::CPU, |x: &Tensor| {
        WRITTEN.get_or_init(|| zeros(4)).add_(1)?;
        x.add(0)
    })
    .unwrap();
    let w = WRITTEN.get_or_init(|| zeros(4));
    let f = compile(|x: &Tensor| WRITE.call((x,)));
    let e = f.call(w).unwrap_err();
    assert!(e.to_string().contains("stack of this thread"), "{e}");
    f.call(&zeros(4)).unwrap();
    assert_eq!(w.to_vec::<f64>().unwrap(), [1.0; 4]);

    // two of them, each with the other's tensor: one is told, and goes back
    lib.def("other(Tensor x, int which) -> Tensor").unwrap();
    let meta = |x: &Tensor, _: i64| same_shape(x);
    lib.impl_at("other", DispatchKey::Meta, meta).unwrap();
    lib.impl_at("other", DispatchKey::CPU, |x: &Tensor, which: i64| {
        MEET.wait();
        PAIR.get_or_init(|| [zeros(4), zeros(4)])[which as usize].add_(1)?;
        x.add(0)
    })
    .unwrap();
    let pair = PAIR.get_or_init(|| [zeros(4), zeros(4)]);
    let f = [1, 0].map(|which| compile(move |x: &Tensor| OTHER.call((x, which))));
    let results = std::thread::scope(|scope| {
        let call = |i: usize| {
            let f = &f[i];
            scope.spawn(move || f.call(&pair[i]))
        };
        let calls = [call(0), call(1)];
        calls.map(|c| c.join().unwrap())
    });
    let refused: Vec<&Error> = results.iter().filter_map(|r| r.as_ref().err()).collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].to_string().contains("neither would ever go on"), "{}", refused[0]);
}

#[test]
fn those_who_do_not_want_to_wait_say_so() {
    let x = zeros(1 << 20);
    let busy = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            for _ in 0..40 {
                x.add_(1).unwrap();
            }
        });
        let _scope = try_borrows();
        let mut busy = 0;
        while !other.is_finished() {
            match x.add_(0) {
                Ok(_) => {}
                Err(e) => {
                    assert_eq!(reason(&e), BusyReason::OtherThread);
                    busy += 1;
                }
            }
        }
        busy
    });
    let _scope = borrows_wait(Duration::from_secs(60));
    let first = x.narrow(0, 0, 1).unwrap().to_vec::<f64>().unwrap();
    assert_eq!(first, [40.0], "refused {busy} times");
}

#[test]
fn a_function_that_joins_a_thread_which_calls_it_comes_to_an_end() {
    static ITSELF: OnceLock<Compiled<Tensor, Tensor>> = OnceLock::new();
    let count = |sizes: i64| Tensor::ones([sizes]).unwrap();
    let f = ITSELF.get_or_init(|| {
        compile(move |x: &Tensor| {
            if x.numel() == 2 {
                return x.add(1);
            }
            let call = move || ITSELF.get().unwrap().call(count(2)).unwrap().numel();
            let n = std::thread::scope(|s| s.spawn(call).join().unwrap());
            // events are at hand meanwhile
            assert!(ITSELF.get().unwrap().events().len() <= 1);
            x.mul(n as i64)
        })
    });
    assert_eq!(f.call(count(3)).unwrap().to_vec::<f32>().unwrap(), [2.0; 3]);
    assert_eq!(f.call(count(2)).unwrap().to_vec::<f32>().unwrap(), [2.0; 2]);
    let awaited = |e: &CompileEvent| matches!(e, CompileEvent::Awaited { .. });
    assert_eq!((f.variants(), f.events().iter().filter(|e| awaited(e)).count()), (2, 1));
}
