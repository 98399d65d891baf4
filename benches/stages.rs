//! What each stage of a compiled function costs: capture, rewriting, scheduling, code generation,
//! and then a call. Of two functions: a chain of operators on almost nothing, and a layer of a
//! network.
//!
//! `cargo bench --bench stages`

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use straightline::{Compiled, Result, Tensor, compile, manual_seed, randn};
use straightline_passes::rewrite::{RewriteOptions, rewrite};
use straightline_passes::schedule::{ScheduleOptions, schedule};

fn chain((x, y): &(Tensor, Tensor)) -> Result<Tensor> {
    let mut x = x.clone();
    for _ in 0..20 {
        x = x.mul(y)?.add(1)?;
    }
    Ok(x)
}

/// `layer_norm(x + w2 gelu(w1 x))`, width 64.
fn layer(w1: &Tensor, w2: &Tensor, x: &Tensor) -> Result<Tensor> {
    let y = x.linear(w1, None)?.gelu()?.linear(w2, None)?;
    x.add(&y)?.layer_norm([64])
}

fn each_stage<I>(c: &mut Criterion, name: &str, f: &Compiled<I, Tensor>, inputs: &I)
where
    I: straightline::TensorTree + 'static,
{
    let mut group = c.benchmark_group(format!("stages/{name}"));
    group.bench_function("capture", |b| b.iter(|| f.trace(black_box(inputs))));
    let traced = f.trace(inputs).expect("a function that can be captured");
    let options = RewriteOptions::default();
    group.bench_function("rewrite", |b| b.iter(|| rewrite(black_box(traced.graph()), &options)));
    let lowered = traced.lower().expect("a graph that can be lowered");
    let options = ScheduleOptions::default();
    group.bench_function("schedule", |b| b.iter(|| schedule(black_box(lowered.graph()), &options)));
    group.bench_function("codegen", |b| b.iter(|| black_box(&lowered).compile()));
    f.call(inputs).expect("a function that compiles");
    group.bench_function("replay", |b| b.iter(|| f.call(black_box(inputs))));
    group.finish();
}

fn stages(c: &mut Criterion) {
    manual_seed(0);
    let random = |sizes: [i64; 2]| randn(sizes).expect("a tensor");
    let inputs = (random([1, 16]), random([1, 16]));
    each_stage(c, "chain of 40", &compile(chain), &inputs);
    let (w1, w2) = (random([256, 64]), random([64, 256]));
    let f = compile(move |x: &Tensor| layer(&w1, &w2, x));
    each_stage(c, "layer", &f, &random([8, 64]));
}

/// The least that compiling and calling cost.
fn overhead(c: &mut Criterion) {
    let x = Tensor::from_vec([1f32], 1).expect("a tensor");
    let f = compile(|(a, b, c): &(Tensor, Tensor, Tensor)| a.add(b)?.add(c));
    let inputs = (x.clone(), x.clone(), x.clone());
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

criterion_group!(benches, stages, overhead);
criterion_main!(benches);
