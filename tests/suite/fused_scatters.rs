//! Operators that write where indices say are kernels of their own making, together with what
//! computes their operands.

use straightline::ops::aten;
use straightline::{DType, Result, Scalar, Tensor, compile, tensor};

const DTYPES: [DType; 9] = [
    DType::F32,
    DType::F64,
    DType::F16,
    DType::BF16,
    DType::I64,
    DType::I32,
    DType::I16,
    DType::U8,
    DType::Bool,
];

/// Numbers whose sums round in every dtype, NaN and zeros of both signs among them if it has them.
fn input(sizes: &[i64], dtype: DType) -> Tensor {
    let n: i64 = sizes.iter().product();
    let odd = [f32::NAN, -0.0, 0.0, f32::INFINITY];
    let data: Vec<f32> = (0..n as usize)
        .map(|i| match i % 29 {
            7 if dtype.is_floating() => odd[i / 29 % odd.len()],
            _ if dtype.is_floating() => (i * 7 % 23) as f32 * 0.37 - 3.0,
            _ => (i * 7 % 23) as f32,
        })
        .collect();
    let x = Tensor::from_slice(&data, sizes).unwrap();
    x.to_dtype(dtype).unwrap()
}

/// Positions below `n`, some of them several times.
fn positions(sizes: &[i64], n: i64) -> Tensor {
    let numel: i64 = sizes.iter().product();
    let data: Vec<i64> = (0..numel).map(|i| (i * i + 3 * i) % n).collect();
    Tensor::from_slice(&data, sizes).unwrap()
}

fn at(v: &[i64], sizes: &[i64]) -> Tensor {
    Tensor::from_slice(v, sizes).unwrap()
}

fn bits(t: &Tensor) -> Vec<u64> {
    let all = t.to_dtype(DType::F64).unwrap().to_vec::<f64>().unwrap();
    let canonical = |x: &f64| if x.is_nan() { f64::NAN } else { *x };
    all.iter().map(canonical).map(f64::to_bits).collect()
}

type Operands = (Tensor, Tensor, Tensor);

/// Kernels alone, at most `most`, and eager's result to the bit.
fn kernels(
    most: usize,
    what: &str,
    operands: &Operands,
    f: impl Fn(&Operands) -> Result<Tensor> + Clone + Send + Sync + 'static,
) {
    let what = &format!("{what} of {}", operands.0.dtype());
    let want = f(operands).unwrap();
    let c = compile(f);
    let lowered = c.trace(operands).unwrap().lower().unwrap();
    let plan = lowered.schedule();
    let n = plan.kernels().count();
    assert_eq!(plan.steps.len(), n, "{what} calls a runtime kernel:\n{plan}");
    assert!(n <= most, "{what} is more than {most} kernels:\n{plan}");
    for _ in 0..2 {
        let got = c.call(operands).unwrap();
        assert_eq!(got.dtype(), want.dtype(), "{what}");
        assert_eq!(got.sizes(), want.sizes(), "{what}");
        assert_eq!(got.strides(), want.strides(), "{what}");
        assert_eq!(bits(&got), bits(&want), "{what}\n{plan}");
    }
}

#[test]
fn scatters_along_each_dimension() {
    for dtype in DTYPES {
        // halves are summed in f32, and converted in a kernel after that
        let wide = if dtype.is_half() { 2 } else { 1 };
        for (sizes, index, src, dim) in [
            (&[4, 5, 9][..], &[6, 5, 9][..], &[6, 5, 9][..], 0),
            (&[4, 5, 9], &[4, 8, 9], &[4, 9, 11], 1),
            (&[4, 5, 9], &[4, 5, 40], &[4, 5, 40], -1),
            (&[4, 5, 9], &[3, 2, 7], &[4, 5, 7], 1),
            (&[30], &[17], &[20], 0),
        ] {
            let n = sizes[if dim < 0 { 2 } else { dim as usize }];
            let x = (input(sizes, dtype), positions(index, n), input(src, dtype));
            kernels(1, "scatter", &x, move |(x, i, y)| aten::scatter_src(x, dim, i, y));
            kernels(1, "scatter of a number", &x, move |(x, i, _)| {
                aten::scatter_value(x, dim, i, 3.into())
            });
            for reduce in ["add", "multiply"] {
                kernels(1, reduce, &x, move |(x, i, y)| aten::scatter_reduce(x, dim, i, y, reduce));
                kernels(1, reduce, &x, move |(x, i, _)| {
                    aten::scatter_value_reduce(x, dim, i, 2.into(), reduce)
                });
            }
            kernels(wide, "scatter_add", &x, move |(x, i, y)| aten::scatter_add(x, dim, i, y));
            for reduce in ["sum", "prod", "amin", "amax"] {
                for keeps in [true, false] {
                    kernels(1, reduce, &x, move |(x, i, y)| {
                        aten::scatter_reduce_two(x, dim, i, y, reduce, keeps)
                    });
                }
            }
            if dtype != DType::Bool {
                kernels(3, "mean", &x, move |(x, i, y)| {
                    aten::scatter_reduce_two(x, dim, i, y, "mean", false)
                });
            }
        }
    }
}

#[test]
fn slices() {
    for dtype in DTYPES {
        for (sizes, dim, n) in [(&[5, 3, 20][..], 0, 9), (&[5, 3, 20], 1, 4), (&[5, 3, 20], 2, 33)]
        {
            let mut from = sizes.to_vec();
            from[dim as usize] = n;
            let i = positions(&[n], sizes[dim as usize]);
            let x = (input(sizes, dtype), i, input(&from, dtype));
            for alpha in [1, 3] {
                kernels(1, "index_add", &x, move |(x, i, y)| {
                    aten::index_add(x, dim, i, y, alpha.into())
                });
            }
            kernels(1, "index_copy", &x, move |(x, i, y)| aten::index_copy(x, dim, i, y));
            kernels(1, "index_fill", &x, move |(x, i, _)| {
                aten::index_fill_int_scalar(x, dim, &aten::neg(i)?, 2.into())
            });
            for reduce in ["prod", "amin", "amax"] {
                kernels(1, reduce, &x, move |(x, i, y)| {
                    aten::index_reduce(x, dim, i, y, reduce, false)
                });
            }
            if dtype != DType::Bool {
                kernels(3, "mean", &x, move |(x, i, y)| {
                    aten::index_reduce(x, dim, i, y, "mean", true)
                });
            }
        }
    }
}

#[test]
fn assignments_by_indices() {
    for dtype in DTYPES {
        for accumulate in [false, true] {
            let x = input(&[5, 6, 7], dtype);
            let rows = at(&[4, -5, 4, 0], &[4]);
            let y = (x.clone(), rows.clone(), input(&[4, 6, 7], dtype));
            kernels(1, "rows", &y, move |(x, i, v)| {
                aten::index_put(x, &[Some(i.clone())], v, accumulate)
            });
            let y = (x.clone(), rows.clone(), input(&[6, 7], dtype));
            kernels(1, "the same row", &y, move |(x, i, v)| {
                aten::index_put(x, &[Some(i.clone())], v, accumulate)
            });
            let y = (x.clone(), at(&[1, -1, 1, 0, 2, 5], &[3, 2]), input(&[5, 3, 2, 7], dtype));
            kernels(1, "a matrix of indices", &y, move |(x, i, v)| {
                aten::index_put(x, &[None, Some(i.clone())], v, accumulate)
            });
            let y = (x.clone(), at(&[1, -1, 1], &[3, 1]), input(&[3, 4], dtype));
            let columns = rows.clone();
            kernels(1, "neighbours", &y, move |(x, i, v)| {
                let places = [None, Some(i.clone()), Some(columns.clone())];
                aten::index_put(x, &places, v, accumulate)
            });
            let y = (x.clone(), at(&[1, -1, 1], &[3, 1]), input(&[3, 4, 6], dtype));
            let columns = rows.clone();
            kernels(1, "apart", &y, move |(x, i, v)| {
                let places = [Some(i.clone()), None, Some(columns.clone())];
                aten::index_put(x, &places, v, accumulate)
            });
            let x = aten::permute(&x, &[2, 0, 1]).unwrap();
            let y = (x, rows, input(&[4, 5, 6], dtype));
            kernels(1, "permuted", &y, move |(x, i, v)| {
                aten::index_put(x, &[Some(i.clone())], v, accumulate)
            });
        }
    }
}

#[test]
fn gradients_of_embeddings() {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        for padding in [-1, 2] {
            let x = (input(&[3, 5, 20], dtype), positions(&[3, 5], 6), input(&[1], dtype));
            kernels(2, "embedding_dense_backward", &x, move |(g, i, _)| {
                aten::embedding_dense_backward(g, i, 6, padding, false)
            });
            kernels(2, "with indices beyond the table", &x, move |(g, i, _)| {
                let i = aten::sub_scalar(i, 1.into(), 1.into())?;
                aten::embedding_dense_backward(g, &i, 3, padding, false)
            });
        }
    }
}

#[test]
fn corners() {
    let x = input(&[5, 6], DType::F32);
    let none = (x.clone(), at(&[], &[0, 6]), input(&[2, 6], DType::F32));
    kernels(1, "an empty index", &none, |(x, i, y)| aten::scatter_add(x, 0, i, y));
    let none = (x.clone(), at(&[], &[0]), input(&[0, 6], DType::F32));
    kernels(1, "an empty vector", &none, |(x, i, y)| aten::index_add(x, 0, i, y, 1.into()));
    kernels(1, "an empty vector", &none, |(x, i, y)| {
        aten::index_put(x, &[Some(i.clone())], y, true)
    });
    let one = (input(&[], DType::F32), at(&[0], &[]), input(&[], DType::F32));
    kernels(1, "numbers", &one, |(x, i, y)| aten::scatter_add(x, 0, i, y));
    kernels(1, "numbers", &one, |(x, i, y)| aten::index_add(x, 0, i, y, 2.into()));
    kernels(1, "numbers", &one, |(x, i, y)| aten::index_copy(x, 0, i, y));
    let row = (x.clone(), at(&[3], &[]), input(&[6], DType::F32));
    kernels(1, "one row", &row, |(x, i, y)| aten::index_put(x, &[Some(i.clone())], y, true));
    let spread = (x.clone(), positions(&[8, 1], 5), input(&[1, 6], DType::F32));
    kernels(1, "expanded operands", &spread, |(x, i, y)| {
        let i = aten::expand(i, &[8, 6], false)?;
        aten::scatter_add(x, 0, &i, &aten::expand(y, &[8, 6], false)?)
    });
    let small = (x.clone(), at(&[3, 1, 3], &[3]), input(&[3, 6], DType::F32));
    kernels(1, "indices of 32 bits", &small, |(x, i, y)| {
        let i = aten::to_dtype(i, DType::I32, false, false, None)?;
        aten::index_add(x, 0, &i, y, 1.into())
    });
    kernels(1, "into itself", &small, |(x, i, _)| {
        let rows = aten::index_select(x, 0, i)?;
        aten::index_add(x, 0, i, &rows, 1.into())
    });
    // in place, through a view
    kernels(2, "a write through a view", &small, |(x, i, y)| {
        let z = aten::clone(x, None)?;
        aten::index_add_(&aten::t(&z)?, 1, i, &aten::t(y)?, 1.into())?;
        Ok(z)
    });
}

/// The operators that end in one kernel.
fn together(
    f: impl Fn(&Operands) -> Result<Tensor> + Clone + Send + Sync + 'static,
    x: &Operands,
) -> String {
    let c = compile(f);
    let lowered = c.trace(x).unwrap().lower().unwrap();
    let plan = lowered.schedule();
    let all: Vec<String> = plan
        .kernels()
        .map(|k| k.ops.iter().map(|op| op.name()).collect::<Vec<_>>().join(" "))
        .collect();
    all.join(", ")
}

#[test]
fn producers_share_the_kernel() {
    let x = (input(&[40, 24], DType::F32), positions(&[50], 20), input(&[50, 24], DType::F32));
    let f = |(x, i, y): &Operands| {
        let (x, i) = (aten::neg(x)?, aten::mul_scalar(i, 2.into())?);
        aten::index_add(&x, 0, &i, &aten::gelu(y, "none")?, 1.into())
    };
    kernels(1, "producers", &x, f);
    assert_eq!(together(f, &x), "aten::neg aten::mul.Scalar aten::gelu aten::index_add");
    let f = |(x, i, y): &Operands| {
        let rows = aten::tanh(&aten::index_select(y, 0, i)?)?;
        aten::index_put(x, &[Some(i.clone())], &rows, true)
    };
    kernels(1, "a gather and a scatter", &x, f);
    assert_eq!(together(f, &x), "aten::index_select aten::tanh aten::index_put");
}

#[test]
fn readers_share_the_kernel() {
    for dtype in DTYPES {
        for (sizes, index, dim) in [
            (&[4, 5, 40][..], &[4, 5, 70][..], -1),
            (&[4, 5, 40], &[4, 9, 40], 1),
            (&[7, 40], &[9, 40], 0),
        ] {
            let n = sizes[if dim < 0 { 2 } else { dim as usize }];
            let x = (input(sizes, dtype), positions(index, n), input(index, dtype));
            kernels(1, "a reader", &x, move |(x, i, y)| {
                aten::scatter_src(x, dim, i, y)?.add(x)?.mul(x)
            });
            kernels(1, "two readers", &x, move |(x, i, y)| {
                let z = aten::scatter_reduce_two(x, dim, i, y, "amax", true)?;
                z.mul(z.add(x)?)
            });
            kernels(2, "a reader of another point", &x, move |(x, i, y)| {
                let z = aten::scatter_src(x, dim, i, y)?;
                z.flip([0])?.add(x)
            });
        }
    }
    let x = (input(&[40, 24], DType::F32), positions(&[50], 40), input(&[50, 24], DType::F32));
    let f = |(x, i, y): &Operands| aten::index_add(x, 0, i, y, 1.into())?.relu()?.mul(x);
    kernels(1, "index_add", &x, f);
    assert_eq!(together(f, &x), "aten::index_add aten::relu aten::mul.Tensor");
}

#[test]
fn what_threads_share() {
    let x = |sizes: &[i64]| input(sizes, DType::F32);
    let rows = (x(&[700, 768]), positions(&[300], 700), x(&[300, 768]));
    kernels(1, "rows", &rows, |(x, i, y)| {
        aten::index_add(x, 0, i, &aten::gelu(y, "none")?, 1.into())
    });
    let rows = (x(&[300, 7, 50]), positions(&[400], 300), x(&[400, 7, 50]));
    kernels(1, "rows of two dimensions", &rows, |(x, i, y)| aten::index_copy(x, 0, i, y));
    let columns = (x(&[700, 300]), positions(&[700, 400], 300), x(&[700, 400]));
    kernels(1, "columns", &columns, |(x, i, y)| aten::scatter_add(x, 1, i, y));
    let all = (x(&[90_000]), positions(&[70_000], 90_000), x(&[70_000]));
    kernels(2, "one dimension", &all, |(x, i, y)| aten::scatter_add(x, 0, i, y));
}

#[test]
fn positions_outside_are_errors_in_compiled_code() {
    type Put = fn(&Operands) -> Result<Tensor>;
    let matrix: Put = |(x, i, y)| aten::scatter_add(x, 0, i, y);
    let rows: Put = |(x, i, y)| aten::index_add(x, 0, i, y, 1.into());
    let copied: Put = |(x, i, y)| aten::index_copy(x, 0, i, y);
    let filled: Put = |(x, i, _)| aten::index_fill_int_scalar(x, 0, i, 1.into());
    let put: Put = |(x, i, y)| aten::index_put(x, &[Some(i.clone())], y, false);
    let outside = [
        ("scatter_add", matrix, &[2, 6][..], [0, 4], [-1, 5]),
        ("index_add", rows, &[2][..], [0, 4], [-1, 5]),
        ("index_copy", copied, &[2][..], [0, 4], [-1, 5]),
        ("index_fill", filled, &[2][..], [-5, 4], [-6, 5]),
        ("index_put", put, &[2][..], [-5, 4], [-6, 5]),
    ];
    for (what, f, sizes, good, bad) in outside {
        let c = compile(f);
        let call = |i: i64| {
            let index = Tensor::with(DType::I64).full(sizes, Scalar::Int(i)).unwrap();
            let x = (input(&[5, 6], DType::F32), index, input(&[2, 6], DType::F32));
            (f(&x), c.call(&x))
        };
        for i in good {
            let (eager, compiled) = call(i);
            assert_eq!(bits(&eager.unwrap()), bits(&compiled.unwrap()), "{what} at {i}");
        }
        for i in bad {
            let (eager, compiled) = call(i);
            let (e, c) = (eager.unwrap_err().to_string(), compiled.unwrap_err().to_string());
            for said in [&e, &c] {
                assert!(said.contains(&format!("index {i} is out of")), "{what} at {i}: {said}");
            }
        }
    }
}

#[test]
fn of_zeros_of_either_sign_the_one_that_is_there_stays() {
    let zeros = |v: [f32; 2]| Tensor::from_slice(&v, &[2]).unwrap();
    let x = (zeros([0.0, -0.0]), at(&[0, 1], &[2]), zeros([-0.0, 0.0]));
    for reduce in ["amax", "amin"] {
        let f = move |(x, i, y): &Operands| aten::scatter_reduce_two(x, 0, i, y, reduce, true);
        // as PyTorch has it
        assert_eq!(bits(&f(&x).unwrap()), bits(&x.0), "{reduce}");
        kernels(1, reduce, &x, f);
    }
}

#[test]
fn one_index_for_two_dimensions_is_scattered_by() -> Result<()> {
    let at = tensor([2i64, 0])?;
    for sizes in [[3, 3, 3, 3], [3, 3, 4, 3], [4, 3, 3, 5]] {
        let (x, rows) = (Tensor::randn(sizes)?, Tensor::randn([2, sizes[0], sizes[2]])?);
        for accumulate in [false, true] {
            let (at, rows) = (Some(at.clone()), rows.clone());
            let put = move |x: &Tensor| {
                aten::index_put(x, &[None, at.clone(), None, at.clone()], &rows, accumulate)
            };
            let compiled = compile(put.clone());
            for _ in 0..2 {
                let (got, want) = (compiled.call(&x)?, put(&x)?);
                assert_eq!(got.to_vec::<f32>()?, want.to_vec::<f32>()?);
            }
        }
    }
    Ok(())
}
