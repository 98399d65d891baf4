use super::*;
use crate::driver::DeviceMemory;
use crate::testing::{Array, FLOATS, Gpu, assert_close, eighths, gpu, rounded};

/// How an operand of `rows` x `cols` matrices lies.
#[derive(Clone, Copy, Debug)]
enum Lies {
    Rows,
    Columns,
    /// Every second element of rows with a gap.
    Gaps,
    /// The one matrix for all of the batch.
    Shared,
}

fn strides(lies: Lies, [rows, cols]: [i64; 2]) -> [i64; 3] {
    match lies {
        Lies::Rows => [rows * cols, cols, 1],
        Lies::Columns => [rows * cols, 1, rows],
        Lies::Gaps => [rows * (2 * cols + 1), 2 * cols + 1, 2],
        Lies::Shared => [0, cols, 1],
    }
}

struct Case {
    dtype: DType,
    batch: i64,
    sizes: [i64; 3],
    lie: [Lies; 3],
    /// Bias and residual.
    with: [bool; 2],
    activation: Activation,
}

impl Case {
    fn plain(dtype: DType, batch: i64, sizes: [i64; 3], lie: [Lies; 3]) -> Case {
        Case { dtype, batch, sizes, lie, with: [false; 2], activation: Activation::None }
    }

    /// Each of the operands with its numbers on the host, each result, and what it should be.
    fn check(&self, gpu: &Gpu, options: Options, workspace: bool) -> bool {
        let ([m, n, k], dtype) = (self.sizes, self.dtype);
        let shapes = [[m, k], [k, n], [m, n]];
        let mut seed = 0;
        let mut operand = |strides: [i64; 3], [rows, cols]: [i64; 2]| {
            seed += 1;
            let last = [self.batch - 1, rows - 1, cols - 1].into_iter().zip(strides);
            let len = last.map(|(i, s)| i.max(0) * s).sum::<i64>() + 1;
            let host = eighths(len, seed);
            (gpu.put(dtype, &host), host, strides)
        };
        let [a, b, c] = [0, 1, 2].map(|i| operand(strides(self.lie[i], shapes[i]), shapes[i]));
        let bias = operand([0, 0, 1], [1, n]);
        let residual = operand(strides(self.lie[2], shapes[2]), shapes[2]);
        let matrices =
            |of: &(Array, Vec<f64>, [i64; 3])| Matrices { address: of.0.address(), strides: of.2 };
        let p = Product {
            dtype,
            batch: self.batch,
            sizes: self.sizes,
            a: matrices(&a),
            b: matrices(&b),
            c: matrices(&c),
            then: Epilogue {
                bias: self.with[0].then(|| Vector { address: bias.0.address(), stride: 1 }),
                activation: self.activation,
                residual: self.with[1].then(|| matrices(&residual)),
            },
        };
        let device = gpu.stream.device();
        let by_blas = blaslt::plan(device, &p, options).unwrap().is_some() && workspace;
        let wanted = workspace_bytes(device, &p, options).unwrap();
        let memory = DeviceMemory::new(&gpu.stream, wanted.max(1)).unwrap();
        let bytes = if workspace { wanted } else { 0 };
        let room = Workspace { address: memory.address(), bytes };
        // SAFETY: the matrices and the workspace are there until the results are read below.
        unsafe { product(&gpu.stream, &p, options, room) }.unwrap();
        let mut want = c.1.iter().map(|x| rounded(dtype, *x)).collect::<Vec<f64>>();
        let at = |s: [i64; 3], z: i64, i: i64, j: i64| (z * s[0] + i * s[1] + j * s[2]) as usize;
        for (z, i, j) in
            (0..self.batch).flat_map(|z| (0..m).flat_map(move |i| (0..n).map(move |j| (z, i, j))))
        {
            let mut sum: f64 = (0..k).map(|x| a.1[at(a.2, z, i, x)] * b.1[at(b.2, z, x, j)]).sum();
            if self.with[0] {
                sum += bias.1[j as usize];
            }
            let mut v = match self.activation {
                Activation::None => sum,
                Activation::Relu => rounded(dtype, sum).max(0.0),
                Activation::GeluTanh => {
                    let x = rounded(dtype, sum);
                    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
                    0.5 * x * (1.0 + inner.tanh())
                }
                Activation::Silu => {
                    let x = rounded(dtype, sum);
                    x / (1.0 + (-x).exp())
                }
                _ => unreachable!("no case has it"),
            };
            if self.with[1] {
                v = rounded(dtype, v) + residual.1[at(residual.2, z, i, j)];
            }
            want[at(c.2, z, i, j)] = rounded(dtype, v);
        }
        let what = format!(
            "{dtype} {:?} x {} {:?} {:?} {:?} by cuBLASLt: {by_blas}",
            self.sizes, self.batch, self.lie, self.with, self.activation
        );
        let smooth = !matches!(self.activation, Activation::None | Activation::Relu);
        let tolerance = match dtype {
            DType::F64 if smooth => 1e-13,
            DType::F32 if smooth => 1e-5,
            DType::F16 => 2e-3,
            DType::BF16 => 1.6e-2,
            _ => 0.0,
        };
        assert_close(&gpu.get(&c.0), &want, tolerance, &what);
        by_blas
    }
}

#[test]
fn layouts_of_all_kinds_give_the_same_products() {
    let Some(gpu) = gpu() else { return };
    use Lies::*;
    let mut by_blas = 0;
    for lie in [
        [Rows, Rows, Rows],
        [Columns, Rows, Rows],
        [Rows, Columns, Rows],
        [Columns, Columns, Columns],
        [Rows, Shared, Rows],
        [Gaps, Rows, Rows],
        [Rows, Rows, Gaps],
    ] {
        for dtype in FLOATS {
            for (batch, sizes) in [(1, [5, 3, 7]), (3, [2, 70, 17])] {
                let case = Case::plain(dtype, batch, sizes, lie);
                by_blas += u32::from(case.check(&gpu, Options::default(), true));
                assert!(!case.check(&gpu, Options::default(), false));
            }
        }
    }
    let there = crate::availability().cublas_lt.is_here();
    assert_eq!(by_blas, if there { 5 * 4 * 2 } else { 0 });
}

#[test]
fn what_follows_is_the_same_wherever_it_is_computed() {
    let Some(gpu) = gpu() else { return };
    use Activation::*;
    for dtype in FLOATS {
        for activation in [None, Relu, GeluTanh, Silu] {
            for with in [[true, false], [false, true], [true, true]] {
                for lie in [[Lies::Rows; 3], [Lies::Rows, Lies::Rows, Lies::Columns]] {
                    let case = Case { with, activation, ..Case::plain(dtype, 2, [3, 5, 4], lie) };
                    for options in [Options::default(), Options { relu: true, tf32: false }] {
                        case.check(&gpu, options, true);
                    }
                    case.check(&gpu, Options::default(), false);
                }
            }
        }
    }
}

#[test]
fn tiles_that_are_not_full_one_element_and_none() {
    let Some(gpu) = gpu() else { return };
    for sizes in [[1, 1, 1], [65, 64, 16], [1, 130, 3], [3, 2, 0], [0, 4, 2], [4, 0, 2]] {
        let case = Case::plain(DType::F32, 1, sizes, [Lies::Rows; 3]);
        case.check(&gpu, Options::default(), true);
        case.check(&gpu, Options::default(), false);
    }
    Case::plain(DType::F32, 0, [2, 2, 2], [Lies::Rows; 3]).check(&gpu, Options::default(), true);
}

#[test]
fn f32_is_rounded_to_tf32_only_where_it_may_be() {
    let Some(gpu) = gpu() else { return };
    let exact = 1.0 + 2f64.powi(-15);
    let of = |options: Options| {
        let [a, b, c] = [[exact], [1.0], [0.0]].map(|x| gpu.put(DType::F32, &x));
        let [a_at, b_at, c_at] =
            [&a, &b, &c].map(|x| Matrices { address: x.address(), strides: [1; 3] });
        let then = Epilogue::default();
        let p =
            Product { dtype: DType::F32, batch: 1, sizes: [1; 3], a: a_at, b: b_at, c: c_at, then };
        let bytes = workspace_bytes(gpu.stream.device(), &p, options).unwrap();
        let memory = DeviceMemory::new(&gpu.stream, bytes.max(1)).unwrap();
        let room = Workspace { address: memory.address(), bytes };
        // SAFETY: all of it is there until the result is read.
        unsafe { product(&gpu.stream, &p, options, room) }.unwrap();
        gpu.get(&c)[0]
    };
    assert_eq!(of(Options::default()), exact);
    if crate::availability().cublas_lt.is_here() {
        assert_eq!(of(Options { tf32: true, relu: false }), 1.0);
    }
}

#[test]
fn nan_passes_through_relu() {
    let Some(gpu) = gpu() else { return };
    let [a, b, c] = [[f64::NAN], [1.0], [0.0]].map(|x| gpu.put(DType::F32, &x));
    let [a, b, c_at] = [&a, &b, &c].map(|x| Matrices { address: x.address(), strides: [1; 3] });
    let then = Epilogue { activation: Activation::Relu, ..Epilogue::default() };
    let p = Product { dtype: DType::F32, batch: 1, sizes: [1; 3], a, b, c: c_at, then };
    let bytes = workspace_bytes(gpu.stream.device(), &p, Options::default()).unwrap();
    let memory = DeviceMemory::new(&gpu.stream, bytes.max(1)).unwrap();
    let room = Workspace { address: memory.address(), bytes };
    // SAFETY: all of it is there until the result is read.
    unsafe { product(&gpu.stream, &p, Options::default(), room) }.unwrap();
    assert!(gpu.get(&c)[0].is_nan());
}

#[test]
fn what_is_no_product_is_refused() {
    let Some(gpu) = gpu() else { return };
    let none = Matrices { address: 0, strides: [0; 3] };
    let then = Epilogue::default();
    let p =
        Product { dtype: DType::Bool, batch: 1, sizes: [1; 3], a: none, b: none, c: none, then };
    let device = gpu.stream.device();
    let of = |p: &Product| workspace_bytes(device, p, Options::default());
    assert_eq!(of(&p), Err(ProductError::DType { dtype: DType::Bool }));
    let backwards = Product { dtype: DType::F32, sizes: [1, -1, 1], ..p };
    assert_eq!(of(&backwards), Err(ProductError::Sizes { batch: 1, sizes: [1, -1, 1] }));
}

#[test]
fn products_of_integers_wrap() {
    let Some(gpu) = gpu() else { return };
    // the bits of bytes are what they are, and those of `f64` are longs
    let of = |dtype: DType, as_bits: DType, a: &[f64], b: &[f64]| {
        let (a, b, c) = (gpu.put(as_bits, a), gpu.put(as_bits, b), gpu.put(as_bits, &[0.0]));
        let at = |x: &Array| Matrices { address: x.address(), strides: [0, 1, 1] };
        let then = Epilogue::default();
        let (a, b, c_at) = (at(&a), at(&b), at(&c));
        let p = Product { dtype, batch: 1, sizes: [1, 1, 2], a, b, c: c_at, then };
        // SAFETY: all of it is there until the result is read.
        unsafe { product(&gpu.stream, &p, Options::default(), Workspace::default()) }.unwrap();
        gpu.get(&c)[0]
    };
    let long = |n: i64| f64::from_bits(n.cast_unsigned());
    let got = of(DType::I64, DType::F64, &[long(i64::MAX), long(3)], &[long(2), long(-5)]);
    assert_eq!(got.to_bits().cast_signed(), i64::MAX.wrapping_mul(2).wrapping_sub(15));
    let int = |n: i32| f64::from(f32::from_bits(n.cast_unsigned()));
    let got = of(DType::I32, DType::F32, &[int(1 << 20), int(7)], &[int(1 << 12), int(6)]);
    assert_eq!((got as f32).to_bits(), 42);
}

#[test]
fn what_is_added_may_be_what_is_written() {
    let Some(gpu) = gpu() else { return };
    for activation in [Activation::None, Activation::Relu, Activation::GeluTanh, Activation::Silu] {
        let [a, b, c] = [[2.0], [3.0], [10.0]].map(|x| gpu.put(DType::F32, &x));
        let [a, b, c_at] = [&a, &b, &c].map(|x| Matrices { address: x.address(), strides: [1; 3] });
        let then = Epilogue { activation, residual: Some(c_at), ..Epilogue::default() };
        let p = Product { dtype: DType::F32, batch: 1, sizes: [1; 3], a, b, c: c_at, then };
        let bytes = workspace_bytes(gpu.stream.device(), &p, Options::default()).unwrap();
        let memory = DeviceMemory::new(&gpu.stream, bytes.max(1)).unwrap();
        let room = Workspace { address: memory.address(), bytes };
        // SAFETY: all of it is there until the result is read.
        unsafe { product(&gpu.stream, &p, Options::default(), room) }.unwrap();
        let of_six = match activation {
            Activation::Silu => 6.0 / (1.0 + (-6.0f64).exp()),
            _ => 6.0,
        };
        assert_close(&gpu.get(&c), &[10.0 + of_six], 1e-6, &format!("{activation:?}"));
    }
}
