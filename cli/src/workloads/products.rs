//! W10: products of two matrices, in `f32` and in `bfloat16`.

use super::data::uniform;
use super::program::function;
use super::workload::{Agreement, SUMS, Workload};
use straightline::{DType, Tensor};

/// Rows, inner size and columns.
const SIZES: [[i64; 3]; 6] = [
    [1, 256, 256],
    [1, 1024, 4096],
    [8, 256, 256],
    [64, 1024, 1024],
    [256, 256, 256],
    [1024, 1024, 1024],
];
/// One rounding to `bfloat16`.
const BF16: Agreement = Agreement::Within(8e-3);

fn product([m, k, n]: [i64; 3], dtype: DType) -> Workload {
    let sizes = format!("{m}x{k}x{n}");
    let (suffix, agreement) = if dtype == DType::BF16 { ("_bf16", BF16) } else { ("", SUMS) };
    Workload::new(format!("w10.mm_{sizes}{suffix}"), agreement, move |_| {
        let data = |which: &str, of: [i64; 2]| {
            uniform(&format!("w10.{sizes}.{which}"), &of, 1.0, 0.0)?.to_dtype(dtype)
        };
        function((data("a", [m, k])?, data("b", [k, n])?), |(a, b): &(Tensor, Tensor)| a.matmul(b))
    })
}

pub(super) fn workloads() -> Vec<Workload> {
    let mut suite: Vec<Workload> = SIZES.iter().map(|s| product(*s, DType::F32)).collect();
    for n in [256, 1024] {
        suite.push(product([n, n, n], DType::BF16));
    }
    suite
}
