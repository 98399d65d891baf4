//! A kernel of each class, eager and compiled, with what it does in a second: elements, and
//! multiplications of products, attention and convolutions.
//!
//! `cargo bench --bench kernels -- softmax`; `STRAIGHTLINE_ISA=avx2` chooses other instructions. The
//! suite of `straightline bench` has whole programs.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::sync::Arc;
use straightline::ops::aten;
use straightline::{Ints, Result, Tensor, TensorTree, compile, manual_seed, randint, randn};

fn random(sizes: impl Ints) -> Tensor {
    randn(sizes).expect("a tensor")
}

/// Times `f` eagerly and compiled.
fn kernel<I, O, F>(c: &mut Criterion, name: &str, work: u64, inputs: I, f: F)
where
    I: TensorTree + Send + Sync + 'static,
    O: TensorTree + 'static,
    F: Fn(&I) -> Result<O> + Send + Sync + 'static,
{
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Elements(work));
    let f = Arc::new(f);
    let same = Arc::clone(&f);
    let compiled = compile(move |inputs: &I| same(inputs));
    group.bench_function("eager", |b| b.iter(|| f(black_box(&inputs))));
    compiled.call(&inputs).expect("a function that compiles");
    group.bench_function("compiled", |b| b.iter(|| compiled.call(black_box(&inputs))));
    group.finish();
}

fn pointwise_and_rows(c: &mut Criterion) {
    let inputs = (random([1 << 18]), random([1 << 18]));
    kernel(c, "pointwise/add", 1 << 18, inputs.clone(), |(x, y): &(Tensor, Tensor)| x.add(y));
    kernel(c, "pointwise/gelu(x + y)", 1 << 18, inputs, |(x, y): &(Tensor, Tensor)| {
        x.add(y)?.gelu()
    });
    let x = random([1024, 1024]);
    kernel(c, "row/softmax", 1 << 20, x.clone(), |x: &Tensor| x.softmax(-1));
    kernel(c, "row/layer_norm", 1 << 20, x.clone(), |x: &Tensor| x.layer_norm([1024]));
    kernel(c, "reduction/sum of rows", 1 << 20, x.clone(), |x: &Tensor| x.sum_dim([1]));
    kernel(c, "reduction/sum of columns", 1 << 20, x, |x: &Tensor| x.sum_dim([0]));
}

fn products(c: &mut Criterion) {
    for [m, k, n] in [[1, 1024, 1024], [64, 1024, 1024], [512, 512, 512]] {
        let inputs = (random([m, k]), random([k, n]));
        let name = format!("product/{m}x{k}x{n}");
        kernel(c, &name, (m * k * n) as u64, inputs, |(a, b): &(Tensor, Tensor)| a.matmul(b));
    }
    let [q, k, v] = [(); 3].map(|()| random([1, 12, 128, 64]));
    let work = 12 * 128 * 128 * 128;
    kernel(c, "attention/128", work, (q, k, v), |(q, k, v): &(Tensor, Tensor, Tensor)| {
        q.scaled_dot_product_attention(k, v)
    });
    let inputs = (random([1, 64, 56, 56]), random([64, 64, 3, 3]));
    let work = 64 * 64 * 9 * 56 * 56;
    kernel(c, "convolution/3x3", work, inputs, |(x, w): &(Tensor, Tensor)| {
        aten::conv2d(x, w, None, &[1, 1], &[1, 1], &[1, 1], 1)
    });
}

fn positions(c: &mut Criterion) {
    let rows = randint(0, 4096, [1024]).expect("positions");
    let table = random([4096, 256]);
    let inputs = (table.clone(), rows.clone());
    kernel(c, "gather/index_select", 1024 * 256, inputs, |(t, i): &(Tensor, Tensor)| {
        t.index_select(0, i)
    });
    let everywhere = randint(0, 4096, [1024, 256]).expect("positions");
    let inputs = (table, everywhere, random([1024, 256]));
    kernel(c, "scatter/scatter_add", 1024 * 256, inputs, |(t, i, x): &(Tensor, Tensor, Tensor)| {
        t.scatter_add(0, i, x)
    });
    kernel(c, "sort/rows of 1024", 1 << 18, random([256, 1024]), |x: &Tensor| x.sort(-1, false));
}

fn kernels(c: &mut Criterion) {
    manual_seed(0);
    pointwise_and_rows(c);
    products(c);
    positions(c);
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = kernels
}
criterion_main!(benches);
