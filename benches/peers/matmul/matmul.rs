//! Matrix products against crate `gemm`, one thread: `cargo bench --manifest-path
//! benches/peers/matmul/Cargo.toml`.
//!
//! The crate is a baseline only: nothing but this file uses it, and it always takes the best
//! instruction set of the machine, whatever `STRAIGHTLINE_ISA` says.
//!
//! Group `NN` has a row-major right factor, `NT` the layout of a linear layer's weight. `gemm` is
//! the crate, `ours` what an eager operator runs, `packed` what a compiled plan runs with a
//! constant weight.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::time::Duration;
use straightline_catalog::DType;
use straightline_runtime::cpu::kernels::matmul::{
    Epilogue, MatMut, MatRef, PackedB, Scaling, gemm, matmul_packed,
};
use straightline_runtime::cpu::threads;

const SHAPES: [(usize, usize, usize); 15] = [
    (1, 256, 256),
    (8, 256, 256),
    (16, 64, 192),
    (16, 64, 64),
    (16, 64, 256),
    (16, 256, 64),
    (16, 64, 600),
    (64, 1024, 1024),
    (128, 384, 384),
    (128, 1536, 384),
    (256, 256, 256),
    (16, 1024, 1024),
    (64, 4096, 1024),
    (256, 2048, 2048),
    (1024, 1024, 1024),
];

fn matmul(c: &mut Criterion) {
    threads::set_num_threads(1);
    for layout in ["NN", "NT"] {
        let mut group = c.benchmark_group(layout);
        group
            .measurement_time(Duration::from_millis(700))
            .warm_up_time(Duration::from_millis(200))
            .sample_size(30);
        for (m, k, n) in SHAPES {
            let a = vec![0.5f32; m * k];
            let b = vec![0.25f32; k * n];
            let mut out = vec![0.0f32; m * n];
            let a_view = MatRef::row_major(a.as_ptr().cast(), m, k);
            let out_view = MatMut::row_major(out.as_mut_ptr().cast(), m, n);
            let b_view = match layout {
                "NN" => MatRef::row_major(b.as_ptr().cast(), k, n),
                _ => MatRef::row_major(b.as_ptr().cast(), n, k).t(),
            };
            let (row, col) = (b_view.row_stride, b_view.col_stride);
            // SAFETY: `b` covers its view.
            let packed = unsafe { PackedB::pack(DType::F32, k, n, b_view.ptr, row, col) }
                .expect("f32 is a float type");
            group.throughput(Throughput::Elements((m * k * n) as u64));
            let id = |name| BenchmarkId::new(name, format!("{m}x{k}x{n}"));
            group.bench_function(id("gemm"), |bench| {
                // SAFETY: the vectors cover the sizes.
                bench.iter(|| unsafe {
                    ::gemm::gemm::<f32>(
                        m,
                        n,
                        k,
                        out_view.ptr.cast(),
                        1,
                        n as isize,
                        false,
                        a_view.ptr.cast(),
                        1,
                        k as isize,
                        b_view.ptr.cast(),
                        col,
                        row,
                        0.0,
                        1.0,
                        false,
                        false,
                        false,
                        ::gemm::Parallelism::None,
                    )
                });
            });
            group.bench_function(id("ours"), |bench| {
                // SAFETY: as above.
                bench.iter(|| unsafe {
                    gemm(DType::F32, a_view, b_view, out_view, Scaling::default())
                });
            });
            group.bench_function(id("packed"), |bench| {
                // SAFETY: as above.
                bench.iter(|| unsafe {
                    let (x, y) = (a_view.ptr, out_view.ptr);
                    matmul_packed(
                        m,
                        x,
                        k as isize,
                        &packed,
                        y,
                        n as isize,
                        Epilogue::default(),
                    )
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, matmul);
criterion_main!(benches);
