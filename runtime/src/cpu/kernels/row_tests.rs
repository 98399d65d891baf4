//! Row kernels against references in `f64`.

use super::testing::{Data, contiguous_strides};
use super::*;
use straightline_passes::ir::{DType, Scalar};
use straightline_passes::schedule::loops::ReduceOp;

const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-13,
        DType::F32 => 3e-6,
        DType::F16 => 2e-3,
        _ => 1.6e-2,
    }
}

fn finite(dtype: DType, sizes: &[i64], strides: &[i64]) -> Data {
    let mut a = Data::new(dtype, sizes, strides).fill(3);
    for i in 0..a.numel() {
        if !a.get(i).as_f64().is_finite() {
            a.set(i, Scalar::Float(0.5));
        }
    }
    a
}

/// The linear indices of each row along `dim`.
fn rows(sizes: &[i64], dim: usize) -> Vec<Vec<usize>> {
    let strides = contiguous_strides(sizes);
    let (n, step) = (sizes[dim] as usize, strides[dim] as usize);
    (0..sizes.iter().product::<i64>() as usize)
        .filter(|i| i / step % n == 0)
        .map(|i| (0..n).map(|k| i + k * step).collect())
        .collect()
}

#[test]
fn softmax_along_each_dimension() {
    for dtype in FLOATS {
        for (sizes, strides) in [
            (vec![1], vec![1]),
            (vec![37], vec![2]),
            (vec![3, 1000], vec![1000, 1]),
            (vec![5, 16], vec![1, 5]),
            (vec![2, 3, 4], vec![12, 4, 1]),
            (vec![3, 70, 50], vec![3500, 50, 1]),
        ] {
            for dim in 0..sizes.len() {
                for log in [false, true] {
                    let a = finite(dtype, &sizes, &strides);
                    let mut out = Data::contiguous(dtype, &sizes);
                    softmax(out.out(), a.input(), dim, log).unwrap();
                    for row in rows(&sizes, dim) {
                        let xs: Vec<f64> = row.iter().map(|&i| a.get(i).as_f64()).collect();
                        let max = xs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                        let sum: f64 = xs.iter().map(|x| (x - max).exp()).sum();
                        for (&i, x) in row.iter().zip(&xs) {
                            let want = if log { x - max - sum.ln() } else { (x - max).exp() / sum };
                            let got = out.get(i).as_f64();
                            assert!(
                                (got - want).abs()
                                    <= tolerance(dtype)
                                        * want.abs().max(if log { 1.0 } else { 0.01 }),
                                "{dtype} {sizes:?} {dim}: {got}, not {want}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn softmax_of_infinities() {
    let mut a = Data::contiguous(DType::F32, &[2, 5]);
    for (i, x) in [0.0, f64::NEG_INFINITY, 1.0, f64::NEG_INFINITY, 0.5].into_iter().enumerate() {
        a.set(i, x.into());
        a.set(5 + i, f64::NEG_INFINITY.into());
    }
    let mut out = Data::contiguous(DType::F32, &[2, 5]);
    softmax(out.out(), a.input(), 1, false).unwrap();
    assert_eq!(out.get(1), Scalar::Float(0.0));
    let sum: f64 = (0..5).map(|i| out.get(i).as_f64()).sum();
    assert!((sum - 1.0).abs() < 1e-6);
    assert!((5..10).all(|i| out.get(i).as_f64().is_nan()));
}

#[test]
fn layer_norm_rows() {
    for dtype in FLOATS {
        for (m, n) in [(1, 1), (3, 7), (4, 64), (2, 1001)] {
            for strides in [vec![n, 1], vec![1, m]] {
                for factors in [false, true] {
                    let a = finite(dtype, &[m, n], &strides);
                    let w = finite(dtype, &[n], &[1]);
                    let b = finite(dtype, &[n], &[2]);
                    let mut out = Data::contiguous(dtype, &[m, n]);
                    let mut mean = Data::contiguous(dtype.opmath(), &[m]);
                    let mut rstd = Data::contiguous(dtype.opmath(), &[m]);
                    let statistics =
                        RowStatistics { mean: Some(mean.out()), rstd: Some(rstd.out()) };
                    let (ws, bs) = (factors.then(|| w.input()), factors.then(|| b.input()));
                    layer_norm(out.out(), statistics, a.input(), ws, bs, 1e-5).unwrap();
                    for (r, row) in rows(&[m, n], 1).into_iter().enumerate() {
                        let xs: Vec<f64> = row.iter().map(|&i| a.get(i).as_f64()).collect();
                        let centre = xs.iter().sum::<f64>() / n as f64;
                        let var = xs.iter().map(|x| (x - centre).powi(2)).sum::<f64>() / n as f64;
                        let scale = 1.0 / (var + 1e-5).sqrt();
                        assert!((mean.get(r).as_f64() - centre).abs() < 1e-5);
                        assert!((rstd.get(r).as_f64() / scale - 1.0).abs() < 1e-4);
                        for (k, (&i, x)) in row.iter().zip(&xs).enumerate() {
                            let mut want = (x - centre) * scale;
                            if factors {
                                want = want * w.get(k).as_f64() + b.get(k).as_f64();
                            }
                            let got = out.get(i).as_f64();
                            assert!(
                                (got - want).abs() <= 2.0 * tolerance(dtype) * want.abs().max(1.0),
                                "{dtype} {m}x{n}: {got}, not {want}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn running_sums_and_products() {
    for dtype in DType::ALL {
        let out_dtype = if dtype.is_floating() { dtype } else { DType::I64 };
        for (sizes, strides) in [
            (vec![], vec![]),
            (vec![600], vec![1]),
            (vec![4, 9], vec![1, 4]),
            (vec![90, 101], vec![101, 1]),
            (vec![2, 0], vec![1, 1]),
        ] {
            for dim in 0..sizes.len().max(1) {
                for op in [ReduceOp::Sum, ReduceOp::Prod] {
                    if op == ReduceOp::Prod && sizes.iter().product::<i64>() > 1000 {
                        // long products leave the range of the half types
                        continue;
                    }
                    let a = finite(dtype, &sizes, &strides);
                    let mut out = Data::contiguous(out_dtype, &sizes);
                    cumulative(op, out.out(), a.input(), dim).unwrap();
                    if sizes.is_empty() {
                        assert_eq!(out.get(0).as_f64(), a.get(0).as_f64());
                        continue;
                    }
                    if sizes.contains(&0) {
                        continue;
                    }
                    for row in rows(&sizes, dim) {
                        let (mut float, mut int) = (0.0, 0i64);
                        if op == ReduceOp::Prod {
                            (float, int) = (1.0, 1);
                        }
                        for i in row {
                            let x = a.get(i);
                            if op == ReduceOp::Sum {
                                float += x.as_f64();
                                int = int.wrapping_add(x.as_i64());
                            } else {
                                float *= x.as_f64();
                                int = int.wrapping_mul(x.as_i64());
                            }
                            if dtype.is_floating() {
                                let want = Scalar::Float(float).cast(out_dtype).as_f64();
                                assert!(
                                    (out.get(i).as_f64() - want).abs()
                                        <= tolerance(dtype) * want.abs().max(1e-30),
                                    "{op:?} {dtype}"
                                );
                            } else {
                                assert_eq!(out.get(i), Scalar::Int(int), "{op:?} {dtype}");
                            }
                        }
                    }
                }
            }
        }
    }
}
