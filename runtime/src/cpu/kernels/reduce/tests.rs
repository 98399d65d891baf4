//! Reductions against element-by-element references.

use super::super::testing::{Data, contiguous_strides, same};
use super::super::*;
use straightline_passes::ir::{DType, Scalar};
use straightline_passes::schedule::loops::ReduceOp;

/// Sizes, strides, and which dimensions are reduced.
fn cases() -> Vec<(Vec<i64>, Vec<i64>, Vec<usize>)> {
    let c = |sizes: &[i64], strides: &[i64], dims: &[usize]| {
        (sizes.to_vec(), strides.to_vec(), dims.to_vec())
    };
    vec![
        c(&[], &[], &[]),
        c(&[1], &[1], &[0]),
        c(&[7], &[1], &[0]),
        c(&[7], &[3], &[0]),
        c(&[1001], &[1], &[0]),
        c(&[10_000], &[2], &[0]),
        c(&[3, 5], &[5, 1], &[0]),
        c(&[3, 5], &[5, 1], &[1]),
        c(&[3, 5], &[5, 1], &[0, 1]),
        c(&[3, 5], &[5, 1], &[]),
        c(&[40, 300], &[300, 1], &[0]),
        c(&[40, 300], &[300, 1], &[1]),
        c(&[40, 300], &[1, 40], &[0]),
        c(&[40, 300], &[1, 40], &[1]),
        c(&[4, 6, 8], &[48, 8, 1], &[0, 2]),
        c(&[4, 6, 8], &[48, 8, 1], &[1]),
        c(&[4, 6, 8], &[1, 4, 24], &[0, 1]),
        c(&[4, 6, 8], &[0, 2, 12], &[2]),
        c(&[4, 6, 8], &[0, 2, 12], &[0]),
        c(&[4, 0, 8], &[8, 8, 1], &[2]),
        c(&[90, 110], &[110, 1], &[0]),
        c(&[2, 200_000], &[200_000, 1], &[1]),
        c(&[200_000, 2], &[2, 1], &[0]),
        c(&[600, 700], &[700, 1], &[0, 1]),
    ]
}

fn reduced(sizes: &[i64], dims: &[usize]) -> Vec<i64> {
    let mut out = sizes.to_vec();
    for &d in dims {
        out[d] = 1;
    }
    out
}

/// For each output the linear indices of its inputs.
fn groups(sizes: &[i64], dims: &[usize]) -> Vec<Vec<usize>> {
    let out_sizes = reduced(sizes, dims);
    let out_strides = contiguous_strides(&out_sizes);
    let mut groups = vec![Vec::new(); out_sizes.iter().product::<i64>() as usize];
    for i in 0..sizes.iter().product::<i64>() as usize {
        let (mut rest, mut at) = (i, 0);
        for d in (0..sizes.len()).rev() {
            let x = rest % sizes[d] as usize;
            rest /= sizes[d] as usize;
            if !dims.contains(&d) {
                at += x * out_strides[d] as usize;
            }
        }
        groups[at].push(i);
    }
    groups
}

fn reference(op: ReduceOp, dtype: DType, xs: &[Scalar]) -> Scalar {
    let float = dtype.is_floating();
    match op {
        ReduceOp::Any => Scalar::Bool(xs.iter().any(|x| x.as_bool())),
        ReduceOp::All => Scalar::Bool(xs.iter().all(|x| x.as_bool())),
        ReduceOp::Sum if float => Scalar::Float(xs.iter().map(|x| x.as_f64()).sum()),
        ReduceOp::Prod if float => Scalar::Float(xs.iter().map(|x| x.as_f64()).product()),
        ReduceOp::Sum => Scalar::Int(xs.iter().fold(0i64, |a, x| a.wrapping_add(x.as_i64()))),
        ReduceOp::Prod => Scalar::Int(xs.iter().fold(1i64, |a, x| a.wrapping_mul(x.as_i64()))),
        ReduceOp::Max | ReduceOp::Min => xs
            .iter()
            .copied()
            .reduce(|a, b| {
                let (x, y) = (a.as_f64(), b.as_f64());
                let better = if op == ReduceOp::Max { y > x } else { y < x };
                if x.is_nan() || !(better || y.is_nan()) { a } else { b }
            })
            .unwrap(),
    }
}

#[test]
fn every_operation_dtype_and_geometry() {
    for op in
        [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min, ReduceOp::Any, ReduceOp::All]
    {
        for dtype in DType::ALL {
            let out_dtype = match op {
                ReduceOp::Any | ReduceOp::All => DType::Bool,
                ReduceOp::Max | ReduceOp::Min => dtype,
                _ if dtype.is_floating() => dtype,
                _ => DType::I64,
            };
            for (sizes, strides, dims) in cases() {
                let large = sizes.iter().product::<i64>() > 20_000;
                if large && !matches!(dtype, DType::F32 | DType::I64 | DType::BF16) {
                    continue;
                }
                let mut a = Data::new(dtype, &sizes, &strides).fill(11);
                if dtype.is_floating() {
                    // keep sums comparable: one NaN at most, no infinities
                    for i in 0..a.numel() {
                        let x = a.get(i).as_f64();
                        if !x.is_finite() && i % 7 != 3 {
                            a.set(i, Scalar::Float(0.25));
                        } else if x.is_infinite() {
                            a.set(i, Scalar::Float(1.25));
                        }
                    }
                }
                let out_sizes = reduced(&sizes, &dims);
                let mut out = Data::contiguous(out_dtype, &out_sizes);
                reduce(op, out.out(), a.input()).unwrap();
                for (o, group) in groups(&sizes, &dims).iter().enumerate() {
                    let xs: Vec<Scalar> = group.iter().map(|&i| a.get(i)).collect();
                    let want = reference(op, dtype, &xs).cast(out_dtype);
                    let got = out.get(o);
                    let exact =
                        !dtype.is_floating() || !matches!(op, ReduceOp::Sum | ReduceOp::Prod);
                    let close = || {
                        let scale = match op {
                            ReduceOp::Sum => {
                                xs.iter().map(|x| x.as_f64().abs()).sum::<f64>().sqrt().max(1.0)
                            }
                            _ => want.as_f64().abs(),
                        };
                        let eps = match dtype {
                            DType::F64 => 1e-14,
                            DType::F32 => 2e-6,
                            DType::F16 => 2e-3,
                            _ => 1e-2,
                        };
                        let (g, w) = (got.as_f64(), want.as_f64());
                        // a product overflows or underflows where the type does
                        (g - w).abs() <= eps * scale.max(w.abs())
                            || g.is_infinite()
                            || w.abs() < 1e-30
                    };
                    let ok = if exact {
                        got == want || same(got, want)
                    } else {
                        same(got, want) || close()
                    };
                    assert!(
                        ok,
                        "{op:?} {dtype} {sizes:?} {strides:?} {dims:?} [{o}]: {got}, not {want}"
                    );
                }
            }
        }
    }
}

#[test]
fn nothing_to_reduce() {
    let a = Data::contiguous(DType::F32, &[3, 0]);
    let mut out = Data::contiguous(DType::F32, &[3, 1]);
    reduce(ReduceOp::Sum, out.out(), a.input()).unwrap();
    assert!(out.values().iter().all(|x| x.as_f64() == 0.0));
    reduce(ReduceOp::Prod, out.out(), a.input()).unwrap();
    assert!(out.values().iter().all(|x| x.as_f64() == 1.0));
    let e = reduce(ReduceOp::Max, out.out(), a.input());
    assert_eq!(e, Err(KernelError::EmptyReduction { op: "max".into() }));
    let mut index = Data::contiguous(DType::I64, &[3, 1]);
    assert!(arg_reduce(true, index.out(), a.input(), 1).is_err());
}

#[test]
fn a_long_sum_stays_accurate() {
    let n = 1 << 22;
    let mut a = Data::contiguous(DType::F32, &[n]);
    for i in 0..n as usize {
        a.set(i, Scalar::Float(0.1));
    }
    let mut out = Data::contiguous(DType::F32, &[1]);
    reduce(ReduceOp::Sum, out.out(), a.input()).unwrap();
    let want = f64::from(0.1f32) * n as f64;
    assert!((out.get(0).as_f64() / want - 1.0).abs() < 1e-6, "{} {want}", out.get(0));
    // sums of a dtype other than the input's
    let mut ones = Data::contiguous(DType::Bool, &[1000]);
    for i in 0..1000 {
        ones.set(i, Scalar::Bool(i % 3 == 0));
    }
    for dtype in [DType::I64, DType::F32, DType::F64] {
        let mut out = Data::contiguous(dtype, &[1]);
        reduce(ReduceOp::Sum, out.out(), ones.input()).unwrap();
        assert_eq!(out.get(0).as_f64(), 334.0);
    }
}

#[test]
fn places_of_extremes() {
    for dtype in DType::ALL {
        for (sizes, strides, _) in cases() {
            if sizes.iter().product::<i64>() > 20_000 {
                continue;
            }
            for dim in 0..sizes.len() {
                if sizes[dim] == 0 {
                    continue;
                }
                for max in [true, false] {
                    let a = Data::new(dtype, &sizes, &strides).fill(5);
                    let out_sizes = reduced(&sizes, &[dim]);
                    let mut index = Data::contiguous(DType::I64, &out_sizes);
                    let mut value = Data::contiguous(dtype, &out_sizes);
                    extreme_with_index(max, Some(value.out()), index.out(), a.input(), dim)
                        .unwrap();
                    for (o, group) in groups(&sizes, &[dim]).iter().enumerate() {
                        let xs: Vec<f64> = group.iter().map(|&i| a.get(i).as_f64()).collect();
                        let mut best = 0;
                        for (i, &x) in xs.iter().enumerate() {
                            let better = if max { x > xs[best] } else { x < xs[best] };
                            if !xs[best].is_nan() && (better || x.is_nan()) {
                                best = i;
                            }
                        }
                        assert_eq!(
                            index.get(o),
                            Scalar::Int(best as i64),
                            "{dtype} {sizes:?} {dim} {max}"
                        );
                        assert!(same(value.get(o), a.get(group[best])));
                    }
                }
            }
        }
    }
}

#[test]
fn variances() {
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        for (sizes, strides, dims) in cases() {
            if sizes.contains(&0) || sizes.iter().product::<i64>() > 20_000 {
                continue;
            }
            let mut a = Data::new(dtype, &sizes, &strides).fill(5);
            for i in 0..a.numel() {
                a.set(i, Scalar::Float(100.0 + (i * 7919 % 101) as f64 / 25.0).cast(dtype));
            }
            for correction in [0.0, 1.0] {
                let out_sizes = reduced(&sizes, &dims);
                let mut var = Data::contiguous(dtype, &out_sizes);
                let mut mean = Data::contiguous(dtype, &out_sizes);
                var_mean(var.out(), Some(mean.out()), a.input(), correction).unwrap();
                for (o, group) in groups(&sizes, &dims).iter().enumerate() {
                    let xs: Vec<f64> = group.iter().map(|&i| a.get(i).as_f64()).collect();
                    let n = xs.len() as f64;
                    let m = xs.iter().sum::<f64>() / n;
                    let v = xs.iter().map(|x| (x - m) * (x - m)).sum::<f64>()
                        / (n - correction).max(0.0);
                    let eps = if dtype == DType::BF16 { 1e-2 } else { 2e-5 };
                    assert!(
                        (mean.get(o).as_f64() - m).abs() <= eps * m,
                        "{dtype} {sizes:?} {dims:?}"
                    );
                    let got = var.get(o).as_f64();
                    assert!(
                        got.is_nan() && v.is_nan() || (got - v).abs() <= eps * v.max(0.1),
                        "{dtype} {sizes:?} {dims:?} {correction}: {got}, not {v}"
                    );
                }
            }
        }
    }
}

/// `cargo test --release -p straightline-runtime reduce::tests::speed -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn speed() {
    let n = 4096i64;
    let x = vec![0.5f32; (n * n) as usize];
    let mut y = vec![0f32; n as usize];
    for (kept, name) in [([1, n], "columns"), ([n, 1], "rows"), ([1, 1], "all")] {
        let mut best = f64::MAX;
        for _ in 0..30 {
            let a = Strided {
                ptr: x.as_ptr().cast::<u8>().cast_mut(),
                dtype: DType::F32,
                sizes: &[n, n],
                strides: &[n, 1],
            };
            let out = Strided {
                ptr: y.as_mut_ptr().cast(),
                dtype: DType::F32,
                sizes: &kept,
                strides: &[kept[1], 1],
            };
            let begin = std::time::Instant::now();
            // SAFETY: the elements of the vectors.
            let (out, a) = unsafe { (Out::new(out), In::new(a)) };
            reduce(ReduceOp::Sum, out, a).unwrap();
            best = best.min(begin.elapsed().as_secs_f64());
        }
        let bytes = (n * n * 4) as f64;
        println!("{name}: {:.2} ms, {:.1} GB/s", best * 1e3, bytes / best * 1e-9);
    }
}
