//! Tensors without elements in memory of any kind, and attributes at the ends of what numbers hold:
//! compiled code does what eager code does.

use straightline::dispatch::{Value, call_count, operator};
use straightline::ops::aten;
use straightline::{DType, Result, Scalar, Tensor, compile};

/// A tensor with these sizes and strides, over no more memory than it needs.
fn strided(sizes: &[i64], strides: &[i64], dtype: DType) -> Tensor {
    let base = aten::zeros(&[0], Some(dtype), None, None, None).unwrap();
    aten::as_strided(&base, sizes, strides, Some(0)).unwrap()
}

/// Calls an operator by its name, with tensors first.
fn call(op: &str, tensors: &[&Tensor], rest: &[Value]) -> Result<Vec<Tensor>> {
    let mut stack: Vec<Value> = tensors.iter().map(|t| Value::Tensor((*t).clone())).collect();
    stack.extend(rest.iter().cloned());
    operator(op)?.call_boxed(&mut stack)?;
    Ok(stack.iter().flat_map(Value::tensors).cloned().collect())
}

/// The call eagerly, and compiled and replayed: both fail, or both give the same.
fn both(op: &'static str, tensors: &[&Tensor], rest: &[Value]) {
    let eager = call(op, tensors, rest);
    let rest: Vec<Value> = rest.to_vec();
    let said = format!("{op} {rest:?}");
    let f = compile(move |ts: &Vec<Tensor>| call(op, &ts.iter().collect::<Vec<_>>(), &rest));
    let inputs: Vec<Tensor> = tensors.iter().map(|t| (*t).clone()).collect();
    let first = f.call(&inputs);
    let entered = call_count();
    let compiled = f.call(&inputs);
    match (&eager, &first) {
        (Err(_), Err(_)) => return,
        (Ok(_), Ok(_)) => assert_eq!(call_count(), entered, "{said}"),
        _ => panic!("{said}: eager {eager:?}, compiled {first:?}"),
    }
    for (e, c) in eager.unwrap().iter().zip(&compiled.unwrap()) {
        let shape = |t: &Tensor| (t.dtype(), t.sizes().to_vec());
        assert_eq!(shape(e), shape(c), "{said}");
        let numbers = |t: &Tensor| t.to_dtype(DType::F64)?.to_vec::<f64>();
        if !e.dtype().is_complex() {
            // as text, since NaN is NaN here
            let [e, c] = [e, c].map(|t| format!("{:?}", numbers(t).unwrap()));
            assert_eq!(e, c, "{said}");
        }
    }
}

#[test]
fn writes_to_tensors_without_elements_touch_nothing() {
    let geometries: [(&[i64], &[i64]); 8] = [
        (&[64, 0, 3], &[2, 0, 0]),
        (&[4, 0, 3], &[2, 0, 0]),
        (&[4, 0, 3], &[0, 1, 0]),
        (&[4, 0, 1, 3], &[3, 0, 1, 0]),
        (&[2, 1, 0], &[0, 1, 0]),
        (&[0, 1000], &[0, 0]),
        (&[1000, 0], &[7, 0]),
        (&[3, 0], &[1 << 40, 5]),
    ];
    for (sizes, strides) in geometries {
        for dtype in [DType::F32, DType::F64, DType::I64, DType::C128, DType::Bool] {
            let x = strided(sizes, strides, dtype);
            let two = [Value::Int(2)];
            both("aten::mul_.Scalar", &[&x], &two);
            both("aten::fill_.Scalar", &[&x], &two);
            both("aten::zero_", &[&x], &[]);
            both("aten::div_.Tensor", &[&x, &x], &[]);
            both("aten::copy_", &[&x, &x], &[Value::Bool(false)]);
            both("aten::mul.Tensor", &[&x, &x], &[]);
            both("aten::clone", &[&x], &[Value::None]);
            if dtype != DType::C128 {
                let random = [Value::Double(0.5), Value::None];
                both("aten::bernoulli_.float", &[&x], &random);
            }
        }
    }
}

/// Channels without elements: sums over them are zero, whatever lies where their elements would.
#[test]
fn sums_over_channels_without_elements_read_nothing() {
    let base = Tensor::full([64], 77.0).unwrap();
    let view =
        |sizes: &[i64], strides: &[i64]| aten::as_strided(&base, sizes, strides, Some(0)).unwrap();
    let (v, g) = (view(&[3, 0], &[1, 1]), view(&[3, 1], &[1, 1]));
    let (_, norms) = aten::_weight_norm_interface(&v, &g, 0).unwrap();
    assert_eq!(norms.to_vec::<f32>().unwrap(), [0.0; 3]);
    both("aten::_weight_norm_interface", &[&v, &g], &[Value::Int(0)]);

    let (x, c) = (view(&[1, 6, 0, 4], &[24, 4, 4, 1]), view(&[6], &[1]));
    let zeros = Tensor::full([6], 0.0).unwrap();
    let stack = [&x, &x, &c, &c, &c, &zeros, &c].map(|t| Value::Tensor(t.clone()));
    let rest = [Value::Bool(true), Value::Double(1e-5), Value::BoolList(vec![true; 3])];
    let all = call("aten::native_batch_norm_backward", &[], &[&stack[..], &rest].concat());
    assert_eq!(all.unwrap()[2].to_vec::<f32>().unwrap(), [0.0; 6]);
}

fn counted(sizes: &[i64]) -> Tensor {
    let n: i64 = sizes.iter().product();
    let x = Tensor::with(DType::F32).arange(1..n + 1).unwrap();
    x.reshape(sizes).unwrap()
}

/// Integers at the ends, and a little before them.
const ENDS: [i64; 9] = [
    i64::MIN,
    i64::MIN + 1,
    i64::MIN + 5,
    -1 << 40,
    1 << 40,
    1 << 62,
    i64::MAX - 5,
    i64::MAX - 1,
    i64::MAX,
];

#[test]
fn diagonals_and_steps_at_the_ends_of_integers() {
    let x = counted(&[3, 4]);
    let ints = |v: &[i64]| Value::IntList(v.to_vec());
    for n in ENDS {
        let k = Value::Int(n);
        for op in ["aten::tril", "aten::triu"] {
            both(op, &[&x], std::slice::from_ref(&k));
        }
        let dims = [k.clone(), Value::Int(0), Value::Int(1)];
        both("aten::diagonal", &[&x], &dims);
        both("aten::diagonal_copy", &[&x], &dims);
        for (start, end, step) in [(0, i64::MAX, n), (n, i64::MAX, 1), (0, n, 1), (n, n, n)] {
            let range = [Value::Int(1), start.into(), end.into(), step.into()];
            both("aten::slice.Tensor", &[&x], &range);
            let mut scatter = range.to_vec();
            let part = call("aten::slice.Tensor", &[&x], &range);
            if let Ok(part) = part {
                both("aten::slice_scatter", &[&x, &part[0]], &scatter);
                scatter[0] = Value::Int(n);
                both("aten::slice_scatter", &[&x, &part[0]], &scatter);
            }
        }
        let range = [0, 1, 4, n].map(Value::Int);
        let sizes = [&[ints(&[3, 4])][..], &range].concat();
        both("aten::slice_backward", &[&counted(&[1, 4])], &sizes);
        both("aten::select.int", &[&x], &[Value::Int(0), k.clone()]);
        both("aten::unfold", &[&x], &[Value::Int(1), Value::Int(4), k.clone()]);
        both("aten::unfold", &[&x], &[Value::Int(1), k.clone(), Value::Int(1)]);
        both("aten::roll", &[&x], &[ints(&[n]), ints(&[1])]);
        both("aten::narrow", &[&x], &[Value::Int(1), k.clone(), Value::Int(1)]);
        both("aten::constant_pad_nd", &[&x], &[ints(&[n, i64::MAX]), Value::Int(0)]);
        both("aten::constant_pad_nd", &[&x], &[ints(&[n, 1]), Value::Int(0)]);
        both("aten::squeeze.dim", &[&x], std::slice::from_ref(&k));
        both("aten::softmax.int", &[&x], &[k.clone(), Value::None]);
        both("aten::cumsum", &[&x], &[k.clone(), Value::None]);
        both("aten::flip", &[&x], &[ints(&[n])]);
        both("aten::split.Tensor", &[&x], &[k.clone(), Value::Int(1)]);
        both("aten::as_strided", &[&x], &[ints(&[1]), ints(&[n]), Value::Int(0)]);
        both("aten::as_strided", &[&x], &[ints(&[2]), ints(&[1]), k.clone()]);
    }
}

#[test]
fn windows_far_larger_than_the_input() {
    let x = counted(&[1, 2, 3, 4]);
    let ints = |v: &[i64]| Value::IntList(v.to_vec());
    let large = i64::from(i32::MAX);
    let (zero, one) = (ints(&[0]), ints(&[1]));
    let pools = [
        (vec![large], vec![large], 0),
        (vec![1, large], vec![1, large], 0),
        (vec![large, 1], vec![1, 1], 0),
        (vec![large - 1], vec![large], large / 2),
        (vec![large - 1], vec![large / 2], large / 2),
    ];
    for (kernel, stride, pad) in pools {
        let (kernel, stride, pad) = (ints(&kernel), ints(&stride), ints(&[pad]));
        let rest = [kernel.clone(), stride.clone(), pad.clone(), one.clone(), Value::Bool(true)];
        both("aten::max_pool2d_with_indices", &[&x], &rest);
        both("aten::max_pool2d", &[&x], &rest);
        let rest = [kernel, stride, pad, Value::Bool(true), Value::Bool(true), Value::None];
        both("aten::avg_pool2d", &[&x], &rest);
    }
    let rest = [ints(&[2]), ints(&[large]), zero, ints(&[large]), Value::Bool(true)];
    both("aten::max_pool2d", &[&x], &rest);
    let all = call(
        "aten::max_pool2d",
        &[&x],
        &[ints(&[large]), ints(&[large]), ints(&[0]), one, Value::Bool(true)],
    );
    assert_eq!(all.unwrap()[0].to_vec::<f32>().unwrap(), [12.0, 24.0]);
}

/// The derivative of a running product of integers is one of floats where there is no zero, and of
/// integers where there is: its dtype depends on the data, which a function that is being captured
/// does not have.
#[test]
fn the_gradient_of_a_running_product_of_integers_needs_data() {
    let x = Tensor::from_vec([1i64, 2, 3], 3).unwrap();
    let product = aten::cumprod(&x, 0, None).unwrap();
    let f = compile(move |x: &Tensor| aten::cumprod_backward(x, x, 0, &product));
    let e = f.call(&x).unwrap_err().to_string();
    assert!(e.contains("item"), "{e}");
    let wide = aten::mul_scalar(&x, Scalar::Float(1.0)).unwrap();
    both("aten::cumprod_backward", &[&wide, &wide], &[Value::Int(0), Value::Tensor(wide.clone())]);
}

#[test]
fn what_a_dtype_does_not_hold_is_refused_both_ways() {
    let of = |dtype| Tensor::ones([3]).unwrap().to_dtype(dtype).unwrap();
    let (f, byte, truth, long) = (of(DType::F32), of(DType::U8), of(DType::Bool), of(DType::I64));
    for (x, number) in [(&f, 1e308), (&byte, -1.0)] {
        for pad in [[1, 1], [0, 1], [0, 0]] {
            let rest = [Value::IntList(pad.to_vec()), Value::Double(number)];
            both("aten::constant_pad_nd", &[x], &rest);
        }
    }
    for op in ["aten::__ilshift__.Scalar", "aten::__irshift__.Scalar"] {
        both(op, &[&truth], &[Value::Int(1)]);
        both(op, &[&byte], &[Value::Int(1)]);
    }
    for op in ["aten::__ilshift__.Tensor", "aten::__irshift__.Tensor"] {
        both(op, &[&truth, &long], &[]);
    }
    both("aten::polygamma_", &[&long], &[Value::Int(2)]);
    both("aten::polygamma_", &[&f], &[Value::Int(2)]);
    both("aten::mvlgamma_", &[&long], &[Value::Int(1)]);
}

/// `alpha` times a number: both are elements of the result's dtype, and so is the product. The
/// values are PyTorch's.
#[test]
fn numbers_with_a_factor_are_rounded_as_elements() {
    let zeros = |dtype| Tensor::zeros([2]).unwrap().to_dtype(dtype).unwrap();
    let f = f64::from;
    let cases: [(DType, Value, Value, f64); 9] = [
        (DType::F32, Value::Int(3), Value::Int(1 << 62), f(3.0 * 2f32.powi(62))),
        (DType::F32, Value::Double(-1e308), Value::Int(0), f64::NAN),
        (DType::F64, Value::Double(-1e308), Value::Int(0), 0.0),
        (DType::F32, Value::Int(16777217), Value::Int(3), 50331648.0),
        (DType::F64, Value::Int(16777217), Value::Int(3), 50331651.0),
        (DType::F16, Value::Int(70000), Value::Double(0.5), f64::INFINITY),
        (DType::F16, Value::Double(257.3), Value::Double(3.7), 951.5),
        (DType::BF16, Value::Double(257.3), Value::Double(3.7), 956.0),
        (DType::I64, Value::Int(3), Value::Int(1 << 62), -(2f64.powi(62))),
    ];
    for (dtype, number, alpha, want) in cases {
        let x = &zeros(dtype);
        let rest = [number, alpha];
        both("aten::add.Scalar", &[x], &rest);
        both("aten::sub.Scalar", &[x], &rest);
        let got = &call("aten::add.Scalar", &[x], &rest).unwrap()[0];
        let got = got.to_dtype(DType::F64).unwrap().to_vec::<f64>().unwrap()[0];
        assert!(got == want || got.is_nan() && want.is_nan(), "{rest:?}: {got}, not {want}");
    }
}

#[test]
fn transforms_of_nothing_are_zero() {
    let x = &Tensor::zeros([0, 3, 2]).unwrap();
    for dims in [vec![0], vec![2, 0]] {
        let rest = [Value::IntList(dims), Value::Int(0), Value::Bool(true)];
        // memory that held something else
        drop(Tensor::full([1, 3, 2, 2], 7.5).unwrap());
        both("aten::_fft_r2c", &[x], &rest);
        let got = &call("aten::_fft_r2c", &[x], &rest).unwrap()[0];
        let parts = aten::view_as_real(got).unwrap().to_vec::<f32>().unwrap();
        assert!(!parts.is_empty() && parts.iter().all(|p| *p == 0.0), "{parts:?}");
    }
}

#[test]
fn extreme_integers_are_errors() {
    const MAX: i64 = i64::MAX;
    let x = &Tensor::ones([3, 3]).unwrap();
    let ints = |v: &[i64]| Value::IntList(v.to_vec());
    let refused = |op, tensors: &[&Tensor], rest: &[Value]| {
        let e = call(op, tensors, rest).expect_err(op);
        assert!(!e.to_string().is_empty());
    };
    let sizes = [ints(&[4, 0, MAX - 1]), Value::Int(0)];
    refused("aten::split_with_sizes", &[x], &sizes);
    refused("aten::unsafe_split_with_sizes", &[x], &sizes);
    refused("aten::replication_pad1d", &[x], &[ints(&[-MAX, MAX - 1])]);
    let mask = Value::BoolList(vec![true; 3]);
    let pairs = [ints(&[MAX, MAX]), ints(&[1, 1]), ints(&[0, 0]), mask];
    refused("aten::_slow_conv2d_backward.output_mask", &[x, x, x], &pairs);
    let out = Value::Tensor(Tensor::zeros([0]).unwrap());
    let mut stack = vec![Value::Int(0), Value::Int(MAX), out];
    operator("aten::eye.m_out").unwrap().call_boxed(&mut stack).unwrap();
    // 8 TB
    refused("aten::multinomial", &[x], &[Value::Int(1 << 40), Value::Bool(true), Value::None]);
}
