//! What a call costs beside its arithmetic: eager operators on one element, compiled calls.

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use straightline::{Tensor, compile};

fn overhead(c: &mut Criterion) {
    let x = Tensor::from_vec([1f32], 1).expect("a tensor");
    let y = Tensor::from_vec([2f32], 1).expect("a tensor");
    c.bench_function("eager add, one element", |b| {
        b.iter(|| black_box(&x).add(black_box(&y)));
    });
    let m = Tensor::from_slice(&[0f32; 32], [4, 8]).expect("a tensor");
    c.bench_function("eager transpose", |b| {
        b.iter(|| black_box(&m).transpose(0, 1));
    });
    let f = compile(|(a, b, c): &(Tensor, Tensor, Tensor)| a.add(b)?.add(c));
    let inputs = (x.clone(), y.clone(), x.clone());
    c.bench_function("compiled call, three inputs", |b| {
        b.iter(|| f.call(black_box(&inputs)));
    });
    c.bench_function("compile one fused kernel", |b| {
        b.iter(|| {
            let f = compile(|x: &Tensor| x.exp()?.add(1)?.log());
            f.call(black_box(&x))
        });
    });
}

criterion_group!(benches, overhead);
criterion_main!(benches);
