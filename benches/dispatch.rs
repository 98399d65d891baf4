//! What a call through the dispatcher costs when the kernel does nothing.

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use straightline::Tensor;
use straightline::dispatch::{
    DispatchKey, DispatchKeySet, Library, Stack, TypedOp, Value, operator,
};

type Binary = (&'static Tensor, &'static Tensor);

static NOTHING: TypedOp<Binary, i64> = TypedOp::new("bench::nothing", "");

fn empty_kernel(c: &mut Criterion) {
    let mut lib = Library::new("bench").expect("a fresh namespace");
    lib.def("nothing(Tensor a, Tensor b) -> int")
        .expect("a schema");
    lib.impl_at("nothing", DispatchKey::CPU, |_: &Tensor, _: &Tensor| {
        Ok(0i64)
    })
    .expect("a kernel that fits");
    let x = Tensor::from_slice(&[1f32], &[1]).expect("a tensor");
    let handle = operator("bench::nothing").expect("just defined");

    let mut group = c.benchmark_group("dispatch/empty");
    group.bench_function("unboxed", |b| {
        b.iter(|| NOTHING.call((black_box(&x), black_box(&x))));
    });
    let keys = DispatchKeySet::from(DispatchKey::CPU);
    group.bench_function("redispatch", |b| {
        b.iter(|| NOTHING.redispatch(black_box(keys), (black_box(&x), black_box(&x))));
    });
    let mut stack = Stack::new();
    group.bench_function("boxed", |b| {
        b.iter(|| {
            stack.clear();
            stack.push(Value::from(&x));
            stack.push(Value::from(&x));
            handle.call_boxed(&mut stack)
        });
    });
    group.finish();
}

criterion_group!(benches, empty_kernel);
criterion_main!(benches);
