//! Index kernels against references.

use super::testing::{Data, contiguous_strides, same};
use super::*;
use straightline_passes::ir::{DType, Scalar};

fn indices(dtype: DType, sizes: &[i64], strides: &[i64], below: i64) -> Data {
    let mut index = Data::new(dtype, sizes, strides);
    for i in 0..index.numel() {
        index.set(i, Scalar::Int((i as i64 * 7 + 3) % below));
    }
    index
}

/// The coordinates of a linear index.
fn coordinates(sizes: &[i64], mut i: usize) -> Vec<usize> {
    let mut c = vec![0; sizes.len()];
    for d in (0..sizes.len()).rev() {
        c[d] = i % sizes[d] as usize;
        i /= sizes[d] as usize;
    }
    c
}

fn linear(sizes: &[i64], c: &[usize]) -> usize {
    c.iter().zip(contiguous_strides(sizes)).map(|(&x, s)| x * s as usize).sum()
}

#[test]
fn selected_slices() {
    for dtype in [DType::F32, DType::BF16, DType::Bool, DType::I64] {
        for (sizes, strides) in [
            (vec![9], vec![2]),
            (vec![9, 5], vec![5, 1]),
            (vec![5, 9, 3], vec![1, 5, 45]),
            (vec![300, 64], vec![64, 1]),
        ] {
            for dim in 0..sizes.len() {
                for index_dtype in [DType::I64, DType::I32] {
                    let a = Data::new(dtype, &sizes, &strides).fill(2);
                    let mut index = indices(index_dtype, &[13], &[2], sizes[dim]);
                    let mut out_sizes = sizes.clone();
                    out_sizes[dim] = 13;
                    let mut out = Data::contiguous(dtype, &out_sizes);
                    index_select(out.out(), a.input(), dim, index.input()).unwrap();
                    for i in 0..out.numel() {
                        let mut c = coordinates(&out_sizes, i);
                        c[dim] = index.get(c[dim]).as_i64() as usize;
                        assert!(
                            same(out.get(i), a.get(linear(&sizes, &c))),
                            "{dtype} {sizes:?} {dim}"
                        );
                    }
                    for bad in [-1, sizes[dim]] {
                        index.set(12, bad.into());
                        let r = index_select(out.out(), a.input(), dim, index.input());
                        assert_eq!(
                            r,
                            Err(KernelError::IndexOutOfRange { index: bad, size: sizes[dim] })
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn gathered_and_scattered_elements() {
    for dtype in [DType::F32, DType::F16, DType::U8, DType::I64] {
        for (sizes, index_sizes) in
            [(vec![9], vec![20]), (vec![4, 6], vec![3, 5]), (vec![3, 4, 5], vec![3, 4, 5])]
        {
            for dim in 0..sizes.len() {
                let mut index_sizes: Vec<i64> = index_sizes.clone();
                for d in 0..sizes.len() {
                    if d != dim {
                        index_sizes[d] = index_sizes[d].min(sizes[d]);
                    }
                }
                let a = Data::contiguous(dtype, &sizes).fill(2);
                let mut index = indices(
                    DType::I64,
                    &index_sizes,
                    &contiguous_strides(&index_sizes),
                    sizes[dim],
                );
                let mut out = Data::contiguous(dtype, &index_sizes);
                gather(out.out(), a.input(), dim, index.input()).unwrap();
                let place = |i: usize| {
                    let mut c = coordinates(&index_sizes, i);
                    c[dim] = index.get(i).as_i64() as usize;
                    linear(&sizes, &c)
                };
                for i in 0..out.numel() {
                    assert!(same(out.get(i), a.get(place(i))));
                }
                for op in [
                    ScatterOp::Replace,
                    ScatterOp::Add,
                    ScatterOp::Multiply,
                    ScatterOp::Max,
                    ScatterOp::Min,
                ] {
                    let mut src = Data::contiguous(dtype, &index_sizes);
                    for i in 0..src.numel() {
                        src.set(i, Scalar::Int(i as i64 % 5).cast(dtype));
                    }
                    let mut target = Data::contiguous(dtype, &sizes);
                    for i in 0..target.numel() {
                        target.set(i, Scalar::Int(2).cast(dtype));
                    }
                    let mut want: Vec<Scalar> = target.values();
                    for i in 0..src.numel() {
                        let (w, x) = (&mut want[place(i)], src.get(i));
                        let r = match op {
                            ScatterOp::Replace => x.as_f64(),
                            ScatterOp::Add => w.as_f64() + x.as_f64(),
                            ScatterOp::Multiply => w.as_f64() * x.as_f64(),
                            ScatterOp::Max => w.as_f64().max(x.as_f64()),
                            ScatterOp::Min => w.as_f64().min(x.as_f64()),
                        };
                        *w = Scalar::Float(r).cast(dtype);
                    }
                    let index = index.clone();
                    scatter(op, target.out(), dim, index.input(), src.input()).unwrap();
                    assert_eq!(target.values(), want, "{op:?} {dtype} {sizes:?} {dim}");
                }
                let last = index.numel() - 1;
                index.set(last, (-1).into());
                let r = gather(out.out(), a.input(), dim, index.input());
                assert!(matches!(r, Err(KernelError::IndexOutOfRange { index: -1, .. })));
            }
        }
    }
}

#[test]
fn triangles() {
    for dtype in [DType::F32, DType::F16, DType::I64, DType::Bool] {
        for (sizes, strides) in
            [(vec![3, 5], vec![5, 1]), (vec![5, 3], vec![1, 5]), (vec![2, 4, 4], vec![1, 2, 8])]
        {
            for diagonal in [-7, -1, 0, 1, 3, i64::MAX, i64::MIN] {
                for which in [Triangle::Lower, Triangle::Upper] {
                    let a = Data::new(dtype, &sizes, &strides).fill(8);
                    let mut out = Data::contiguous(dtype, &sizes);
                    triangle(which, out.out(), a.input(), diagonal).unwrap();
                    let r = sizes.len();
                    for i in 0..out.numel() {
                        let c = coordinates(&sizes, i);
                        let above = c[r - 1] as i128 - c[r - 2] as i128;
                        let kept = match which {
                            Triangle::Lower => above <= diagonal.into(),
                            Triangle::Upper => above >= diagonal.into(),
                        };
                        let want = if kept { a.get(i) } else { Scalar::Int(0).cast(dtype) };
                        assert!(same(out.get(i), want), "{which:?} {diagonal} {c:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn ranges() {
    for dtype in DType::ALL {
        for n in [0, 1, 5, 1000] {
            let mut out = Data::new(dtype, &[n], &[2]);
            let (start, step) = if dtype.is_floating() {
                (Scalar::Float(-1.5), Scalar::Float(0.25))
            } else {
                (Scalar::Int(3), Scalar::Int(-1))
            };
            arange(out.out(), start, step).unwrap();
            for i in 0..n as usize {
                let x = start.as_f64() + step.as_f64() * i as f64;
                let want =
                    if dtype.is_floating() { Scalar::Float(x) } else { Scalar::Int(x as i64) };
                assert!(same(out.get(i), want.cast(dtype)), "{dtype} {i}");
            }
        }
    }
}
