//! What the dispatcher costs: calls whose kernels do nothing, one whole small operator,
//! registration.
//!
//! `cargo bench --bench dispatch`. The same rows for PyTorch's dispatcher:
//! `benches/peers/dispatch.sh`.

use criterion::{BenchmarkId, Criterion, Throughput};
use std::hint::black_box;
use std::process::Command;
use std::sync::Barrier;
use std::time::{Duration, Instant};
use straightline::Tensor;
use straightline::dispatch::{
    Args, DispatchKey as K, DispatchKeySet, IncludeGuard, Kernel, Library, OperatorHandle, Ret,
    Stack, TypedHandle, Value, operator,
};

type Two = (&'static Tensor, &'static Tensor);

fn tensor() -> Tensor {
    Tensor::from_slice(&[1f32], [1]).expect("a tensor")
}

/// Defines an operator of the namespace `bench` with a CPU kernel.
fn define<M>(
    lib: &mut Library,
    schema: &str,
    kernel: impl straightline::dispatch::IntoKernel<M>,
) -> OperatorHandle {
    let op = lib.def(schema).expect("a schema");
    lib.impl_at(&op.name().to_string(), K::CPU, kernel).expect("a kernel that fits");
    op
}

fn typed<A: Args + 'static, R: Ret>(op: OperatorHandle) -> TypedHandle<A, R> {
    op.typed().expect("the types of the schema")
}

fn empty_kernel(c: &mut Criterion) {
    let mut lib = Library::fragment("bench").expect("a namespace");
    let op =
        define(&mut lib, "nothing(Tensor a, Tensor b) -> int", |_: &Tensor, _: &Tensor| Ok(0i64));
    let nothing = typed::<Two, i64>(op);
    let x = tensor();

    let mut group = c.benchmark_group("dispatch/empty");
    group.bench_function("unboxed", |b| {
        b.iter(|| nothing.call((black_box(&x), black_box(&x))));
    });
    let keys = DispatchKeySet::from(K::CPU);
    group.bench_function("redispatch", |b| {
        b.iter(|| nothing.redispatch(black_box(keys), (black_box(&x), black_box(&x))));
    });
    let mut stack = Stack::new();
    group.bench_function("boxed", |b| {
        b.iter(|| {
            stack.clear();
            stack.push(Value::from(&x));
            stack.push(Value::from(&x));
            op.call_boxed(&mut stack)
        });
    });
    group.finish();
}

/// Keys above CPU, lowest first.
const ABOVE: [K; 5] = [
    K::ADInplaceOrView,
    K::AutogradCPU,
    K::Tracer,
    K::TESTING_ONLY_GenericWrapper,
    K::TESTING_ONLY_GenericMode,
];

fn interposed_keys(c: &mut Criterion) {
    let mut lib = Library::fragment("bench").expect("a namespace");
    let x = tensor();
    let mut group = c.benchmark_group("dispatch/interposed");
    for count in [1, 2, 5] {
        let keys = &ABOVE[..count];
        let schema = |kind: &str| format!("{kind}_{count}(Tensor a, Tensor b) -> int");
        let kernel = |_: &Tensor, _: &Tensor| Ok(0i64);

        let op = define(&mut lib, &schema("typed"), kernel);
        let call = typed::<Two, i64>(op);
        for key in keys {
            let below = DispatchKeySet::full_after(*key);
            let layer = move |keys: DispatchKeySet, a: &Tensor, b: &Tensor| {
                call.redispatch(keys & below, (a, b))
            };
            lib.impl_at(&op.name().to_string(), *key, layer).expect("a kernel that fits");
        }
        let boxed = define(&mut lib, &schema("boxed"), kernel);
        for key in keys {
            let below = DispatchKeySet::full_after(*key);
            let layer =
                Kernel::boxed(move |op, keys, stack| op.redispatch_boxed(keys & below, stack));
            lib.impl_at(&boxed.name().to_string(), *key, layer).expect("a boxed kernel fits all");
        }

        let _keys = IncludeGuard::new(DispatchKeySet::of(keys));
        group.bench_function(BenchmarkId::new("unboxed", count), |b| {
            b.iter(|| call.call((black_box(&x), black_box(&x))));
        });
        let mut stack = Stack::new();
        group.bench_function(BenchmarkId::new("boxed", count), |b| {
            b.iter(|| {
                stack.clear();
                stack.push(Value::from(&x));
                stack.push(Value::from(&x));
                boxed.call_boxed(&mut stack)
            });
        });
    }
    group.finish();
}

fn key_sets(c: &mut Criterion) {
    let mut lib = Library::fragment("bench").expect("a namespace");
    let x = tensor();
    let mut group = c.benchmark_group("dispatch/tensors");

    let one = define(&mut lib, "one(Tensor a) -> int", |_: &Tensor| Ok(0i64));
    let one = typed::<(&'static Tensor,), i64>(one);
    group.bench_function("1", |b| b.iter(|| one.call((black_box(&x),))));

    let two = define(&mut lib, "two(Tensor a, Tensor b) -> int", |_: &Tensor, _: &Tensor| Ok(0i64));
    let two = typed::<Two, i64>(two);
    group.bench_function("2", |b| {
        b.iter(|| two.call((black_box(&x), black_box(&x))));
    });

    type Eight = (
        &'static Tensor,
        &'static Tensor,
        &'static Tensor,
        &'static Tensor,
        &'static Tensor,
        &'static Tensor,
        &'static Tensor,
        &'static Tensor,
    );
    let eight = define(
        &mut lib,
        "eight(Tensor a, Tensor b, Tensor c, Tensor d, Tensor e, Tensor f, Tensor g, Tensor h) -> int",
        |_: &Tensor,
         _: &Tensor,
         _: &Tensor,
         _: &Tensor,
         _: &Tensor,
         _: &Tensor,
         _: &Tensor,
         _: &Tensor| Ok(0i64),
    );
    let eight = typed::<Eight, i64>(eight);
    group.bench_function("8", |b| {
        b.iter(|| {
            let x = black_box(&x);
            eight.call((x, x, x, x, x, x, x, x))
        });
    });

    let list = define(&mut lib, "list(Tensor[] xs) -> int", |_: &[Tensor]| Ok(0i64));
    let list = typed::<(&'static [Tensor],), i64>(list);
    let xs: Vec<Tensor> = (0..8).map(|_| tensor()).collect();
    group.bench_function("list of 8", |b| b.iter(|| list.call((black_box(&xs),))));
    group.finish();
}

fn whole_operator(c: &mut Criterion) {
    let mut group = c.benchmark_group("dispatch/add");
    for n in [1, 16] {
        let x = Tensor::from_vec(vec![1f32; n], -1).expect("a tensor");
        let y = Tensor::from_vec(vec![2f32; n], -1).expect("a tensor");
        group.bench_function(BenchmarkId::new("elements", n), |b| {
            b.iter(|| black_box(&x).add(black_box(&y)));
        });
    }
    let x = tensor();
    let y = tensor();
    group.bench_function("in place, 1 element", |b| {
        b.iter(|| black_box(&x).add_(black_box(&y)));
    });
    group.finish();
}

/// The same calls on several threads at once: each has tensors of its own, the operator is shared.
fn threads(c: &mut Criterion) {
    const CALLS: u64 = 20_000;
    let mut lib = Library::fragment("bench").expect("a namespace");
    let op =
        define(&mut lib, "shared(Tensor a, Tensor b) -> int", |_: &Tensor, _: &Tensor| Ok(0i64));
    let shared = typed::<Two, i64>(op);

    let mut group = c.benchmark_group("dispatch/threads");
    group.sample_size(20);
    for threads in [1, 2, 4] {
        let run = |work: &(dyn Fn(&Tensor) + Sync), rounds: u64| -> Duration {
            let start = Barrier::new(threads);
            let one = || {
                let x = tensor();
                start.wait();
                let begin = Instant::now();
                for _ in 0..rounds * CALLS {
                    work(&x);
                }
                (begin, Instant::now())
            };
            std::thread::scope(|scope| {
                let handles: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
                let spans: Vec<_> =
                    handles.into_iter().map(|h| h.join().expect("no kernel panics")).collect();
                let first = spans.iter().map(|s| s.0).min().expect("a thread");
                let last = spans.iter().map(|s| s.1).max().expect("a thread");
                last - first
            })
        };
        group.throughput(Throughput::Elements(CALLS * threads as u64));
        group.bench_function(BenchmarkId::new("empty", threads), |b| {
            b.iter_custom(|rounds| {
                run(&|x| drop(black_box(shared.call((black_box(x), x)))), rounds)
            });
        });
        group.bench_function(BenchmarkId::new("add", threads), |b| {
            b.iter_custom(|rounds| run(&|x| drop(black_box(black_box(x).add(x))), rounds));
        });
    }
    group.finish();
}

fn registration(c: &mut Criterion) {
    let mut group = c.benchmark_group("dispatch/registration");
    group.sample_size(10).measurement_time(Duration::from_secs(2));
    let names: Vec<String> = (0..3000).map(|i| format!("operator_{i}")).collect();
    let mut round = 0;
    group.bench_function("3000 operators, 3 kernels each", |b| {
        b.iter_custom(|rounds| {
            let mut total = Duration::ZERO;
            for _ in 0..rounds {
                round += 1;
                let mut lib = Library::new(&format!("bench_{round}")).expect("a fresh namespace");
                let begin = Instant::now();
                for name in &names {
                    let schema = format!("{name}(Tensor a, Tensor b, *, Scalar alpha=1) -> Tensor");
                    lib.def(&schema).expect("a schema");
                    for key in [K::CPU, K::CUDA, K::AutogradCPU] {
                        lib.impl_at(
                            name,
                            key,
                            |a: &Tensor, _: &Tensor, _: straightline::Scalar| Ok(a.clone()),
                        )
                        .expect("a kernel that fits");
                    }
                }
                total += begin.elapsed();
            }
            total
        });
    });
    group.bench_function("first use in a fresh process", |b| {
        let exe = std::env::current_exe().expect("this program");
        b.iter_custom(|rounds| {
            (0..rounds)
                .map(|_| {
                    let out = Command::new(&exe).env(FIRST_USE, "1").output();
                    let out = out.expect("this program runs");
                    let nanos = String::from_utf8_lossy(&out.stdout).trim().parse();
                    Duration::from_nanos(nanos.expect("a number"))
                })
                .sum()
        });
    });
    group.finish();

    let count = straightline::dispatch::all_operators().len();
    let bytes = OperatorHandle::TABLE_BYTES;
    println!(
        "dispatch/table memory: {bytes} bytes per operator, {} KiB for {count} operators",
        bytes * count / 1024
    );
}

/// Makes this program print how long the first look at an operator takes, in nanoseconds.
const FIRST_USE: &str = "STRAIGHTLINE_BENCH_FIRST_USE";

fn main() {
    if std::env::var_os(FIRST_USE).is_some() {
        let begin = Instant::now();
        operator("aten::add.Tensor").expect("an operator of the crate");
        println!("{}", begin.elapsed().as_nanos());
        return;
    }
    let mut c = Criterion::default().configure_from_args();
    empty_kernel(&mut c);
    interposed_keys(&mut c);
    key_sets(&mut c);
    whole_operator(&mut c);
    threads(&mut c);
    registration(&mut c);
    c.final_summary();
}
