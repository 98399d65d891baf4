//! Numbers at the margins, eager and compiled, against PyTorch's.

use straightline::dispatch::{Value, operator};
use straightline::ops::aten;
use straightline::{DType, Result, Scalar, Tensor, compile};

/// What the function gives eagerly and compiled, called twice.
fn both(f: impl Fn(&Tensor) -> Result<Tensor> + Send + Sync + 'static, x: &Tensor) -> [Tensor; 3] {
    let eager = f(x).unwrap();
    let compiled = compile(f);
    [eager, compiled.call(x).unwrap(), compiled.call(x).unwrap()]
}

fn numbers(t: &Tensor) -> Vec<f64> {
    t.to_dtype(DType::F64).unwrap().to_vec().unwrap()
}

/// PyTorch's rule, in wide integers: a negative amount, or one that reaches all bits, leaves
/// nothing of a number but its sign.
fn shifted(x: i64, by: i64, bits: u32, signed: bool, left: bool) -> i64 {
    let inside = (0..i64::from(bits)).contains(&by);
    let wide = match (left, inside) {
        (true, true) => i128::from(x) << by,
        (true, false) => 0,
        (false, true) => i128::from(x) >> by,
        (false, false) => i128::from(x) >> 127,
    };
    let kept = wide & ((1i128 << bits) - 1);
    let negative = signed && kept >> (bits - 1) == 1;
    (kept - if negative { 1i128 << bits } else { 0 }) as i64
}

#[test]
fn shifts_by_any_amount() {
    for dtype in [DType::U8, DType::I8, DType::I16, DType::I32, DType::I64] {
        let (bits, signed) = (dtype.size() as u32 * 8, dtype != DType::U8);
        let values = [0, 1, 100, 127, 128, 200, 255, -1, -100, -128, i64::MAX, i64::MIN];
        let mut amounts = vec![-128, -9, -1, 0, 1, 6, 127];
        amounts.extend((3..=6).flat_map(|p| [(1 << p) - 1, 1 << p, (1 << p) + 1]));
        let n = values.len() * amounts.len();
        let x: Vec<i64> = (0..n).map(|i| values[i / amounts.len()]).collect();
        let by: Vec<i64> = (0..n).map(|i| amounts[i % amounts.len()]).collect();
        let make = |v: &[i64]| Tensor::from_vec(v.to_vec(), -1).unwrap().to_dtype(dtype).unwrap();
        let (x, by) = (make(&x), make(&by));
        for left in [false, true] {
            let want: Vec<f64> = (numbers(&x).iter().zip(numbers(&by)))
                .map(|(x, by)| shifted(*x as i64, by as i64, bits, signed, left) as f64)
                .collect();
            // i64 does not fit f64 to the last bit, but these powers of two and their neighbours do
            // for the shorter ones
            let close = |t: &Tensor| numbers(t) == want;
            let amounts = by.clone();
            let f = move |x: &Tensor| match left {
                true => aten::bitwise_left_shift_tensor(x, &amounts),
                false => aten::bitwise_right_shift_tensor(x, &amounts),
            };
            for (i, got) in both(f, &x).iter().enumerate() {
                if dtype == DType::I64 {
                    let want: Vec<i64> = (x.to_vec::<i64>().unwrap().iter())
                        .zip(by.to_vec::<i64>().unwrap())
                        .map(|(x, by)| shifted(*x, by, bits, signed, left))
                        .collect();
                    assert_eq!(got.to_vec::<i64>().unwrap(), want, "left: {left}, {i}");
                } else {
                    assert!(close(got), "{dtype}, left: {left}, {i}: {got}, want {want:?}");
                }
            }
        }
        // by a number
        for n in amounts.iter().copied().filter(|n| signed || *n >= 0) {
            let f = move |x: &Tensor| aten::bitwise_right_shift_tensor_scalar(x, n.into());
            let want: Vec<f64> = (numbers(&x).iter())
                .map(|x| shifted(*x as i64, n, bits, signed, false) as f64)
                .collect();
            for got in both(f, &x) {
                if dtype != DType::I64 {
                    assert_eq!(numbers(&got), want, "{dtype} >> {n}");
                }
            }
        }
    }
}

/// `out, mean, rstd` of a group norm, one after another.
fn group_norm(
    x: &Tensor,
    affine: Option<(&Tensor, &Tensor)>,
    groups: i64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (n, c) = (x.sizes()[0], x.sizes()[1]);
    let (w, b) = affine.unzip();
    aten::native_group_norm(x, w, b, n, c, x.numel() / (n * c), groups, 1e-5)
}

#[test]
fn group_norms_of_large_and_of_few_elements() {
    // the sum of squares does not fit f32, as in PyTorch: nothing is left of the differences, and
    // none is infinite
    let mut large = vec![1e30f32; 24];
    large[0] = -1e30;
    let large = Tensor::from_slice(&large, &[2, 4, 3]).unwrap();
    for got in both(|x| Ok(group_norm(x, None, 2)?.0), &large) {
        assert!(numbers(&got).iter().all(|x| *x == 0.0), "{got}");
    }
    for got in both(|x| Ok(group_norm(x, None, 2)?.2), &large) {
        assert_eq!(numbers(&got)[0], 0.0);
    }
    // one element for each group: PyTorch's own numbers
    let one = Tensor::from_slice(&[3.7f32, 1e3], &[1, 2]).unwrap();
    for got in both(|x| Ok(group_norm(x, None, 2)?.0), &one) {
        assert_eq!(numbers(&got), [0.0, 0.0]);
    }
    let (w, b) =
        (Tensor::from_vec([2f32, 3.0], 2).unwrap(), Tensor::from_vec([0f32, 1.0], 2).unwrap());
    let [eager, first, again] = both(move |x| Ok(group_norm(x, Some((&w, &b)), 2)?.0), &one);
    assert_eq!(numbers(&eager), numbers(&first));
    assert_eq!(numbers(&eager), numbers(&again));
}

#[test]
fn results_begin_where_eager_ones_do() {
    let z = Tensor::from_vec(
        [num_complex::Complex::new(1f32, 2.0), num_complex::Complex::new(3.0, 4.0)],
        -1,
    );
    let z = z.unwrap();
    type F = fn(&Tensor) -> Result<Tensor>;
    let all: [(F, i64); 6] = [
        (aten::imag, 1),
        (aten::real, 0),
        (|z| aten::imag(&z.slice(0, 1, 2, 1)?), 3),
        (|z| aten::imag(&z.mul(z)?), 1),
        (|z| aten::view_as_real(&z.mul(z)?.slice(0, 1, 2, 1)?), 2),
        (|z| aten::real(&z.mul(z)?.slice(0, 1, 2, 1)?), 2),
    ];
    for (i, (f, offset)) in all.into_iter().enumerate() {
        for t in both(f, &z) {
            assert_eq!((i, t.storage_offset()), (i, offset));
        }
    }
}

/// A boxed call.
fn call(op: &str, stack: Vec<Value>) -> Result<Tensor> {
    let mut stack = stack;
    operator(op)?.call_boxed(&mut stack)?;
    Ok(stack[0].as_tensor().expect("one result").clone())
}

/// `op(x, number)` eagerly and compiled, all elements as they are printed, or the error without the
/// operands.
fn with_number(op: &'static str, dtype: DType, number: f64, alpha: Option<f64>) -> String {
    let f = move |x: &Tensor| {
        let (x, s) = (Value::Tensor(x.clone()), Value::Double(number));
        let stack = match op {
            "aten::add.Tensor" => vec![x.clone(), x, s],
            "aten::hardtanh" => vec![x, Value::Double(-number), s],
            "aten::elu" => vec![x, s, Value::Int(1), Value::Int(1)],
            "aten::softplus" => vec![x, s, Value::Int(20)],
            "aten::lerp.Scalar" => vec![x.clone(), x, s],
            "aten::addcmul" => vec![x.clone(), x.clone(), x, s],
            _ if op.contains("add.") || op.contains("sub") => {
                vec![x, s, Value::Double(alpha.unwrap_or(1.0))]
            }
            _ => vec![x, s],
        };
        call(op, stack)
    };
    // anew for each call, which may write it
    let x = || {
        let x = Tensor::from_vec([1.5f64, -2.0, 60000.0], 3).unwrap();
        x.to_dtype(dtype).unwrap()
    };
    let show = |r: Result<Tensor>| match r {
        Ok(t) => format!("{:?}", numbers(&t)),
        Err(e) => e.kind().to_string(),
    };
    let eager = show(f(&x()));
    let compiled = compile(f);
    for again in 0..2 {
        assert_eq!(show(compiled.call(&x())), eager, "{op} {dtype} {number}, call {again}");
    }
    eager
}

#[test]
fn numbers_beside_halves_are_rounded_where_pytorch_rounds_them() {
    use DType::{BF16, F16, F32};
    let results = [
        ("aten::rsub.Scalar", F16, 1e5, "[inf, inf, inf]"),
        ("aten::sub.Scalar", F16, 65520.0, "[-inf, -inf, -inf]"),
        ("aten::rsub.Scalar", BF16, 1e5, "[99840.0, 99840.0, 39936.0]"),
        ("aten::mul.Scalar", F16, 1e-9, "[0.0, -0.0, 6.002187728881836e-5]"),
        (
            "aten::div.Scalar",
            F16,
            1e5,
            "[1.5020370483398438e-5, -2.002716064453125e-5, 0.60009765625]",
        ),
        ("aten::mul.Scalar", BF16, 1e5, "[149504.0, -199680.0, 6006243328.0]"),
        (
            "aten::div.Scalar",
            BF16,
            1e5,
            "[1.5020370483398438e-5, -2.002716064453125e-5, 0.59765625]",
        ),
        ("aten::mul_.Scalar", F16, 1e-9, "[0.0, -0.0, 6.002187728881836e-5]"),
        ("aten::remainder.Scalar", F16, 1e5, "[1.5, inf, 60000.0]"),
        ("aten::mul.Scalar", F32, 1e300, "[inf, -inf, inf]"),
    ];
    for (op, dtype, number, want) in results {
        assert_eq!(with_number(op, dtype, number, None), want, "{op} {dtype} {number}");
    }
    let alpha = with_number("aten::rsub.Scalar", BF16, 1.0, Some(1e5));
    assert_eq!(alpha, "[-149504.0, 199680.0, -5972688896.0]");
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    use DType::{BF16, F16, F32, I8};
    for (op, dtype, number) in [
        ("aten::pow.Tensor_Scalar", F16, 1e5),
        ("aten::clamp_max", F16, 1e5),
        ("aten::clamp_min", F16, 1e5),
        ("aten::clamp_max", F32, 1e39),
        ("aten::hardtanh", F16, 1e5),
        ("aten::add.Tensor", F16, 1e5),
        ("aten::add.Tensor", F32, 1e300),
        ("aten::leaky_relu", F16, 1e39),
        ("aten::leaky_relu", F32, 1e300),
        ("aten::elu", BF16, 1e39),
        ("aten::celu", BF16, 1e39),
        ("aten::softplus", F32, 1e300),
        ("aten::lerp.Scalar", F16, 1e39),
        ("aten::addcmul", BF16, 1e39),
        ("aten::hardshrink", F16, 1e5),
    ] {
        let text = with_number(op, dtype, number, None);
        assert!(text.contains("without overflow"), "{op} {dtype} {number}: {text}");
    }
    let wide = call(
        "aten::pow.Tensor_Scalar",
        vec![Value::Tensor(Tensor::from_vec([5i8], 1).unwrap()), Value::Int(300)],
    );
    assert!(wide.unwrap_err().to_string().contains("without overflow"), "{I8}");
}

#[test]
fn a_gradient_without_a_row_for_each_index_is_refused_when_captured() {
    let grad = Tensor::from_slice(&[1f32; 24], &[2, 3, 4]).unwrap();
    let indices = Tensor::from_slice(&[0i64; 12], &[12]).unwrap();
    let f = move |g: &Tensor| aten::embedding_dense_backward(g, &indices, 5, -1, false);
    let eager = f(&grad).unwrap_err();
    let compiled = compile(f).call(&grad).unwrap_err();
    assert_eq!(compiled.kind().to_string(), eager.kind().to_string());
}

#[test]
fn complex_normal_numbers_are_drawn_as_eagerly_in_every_layout() {
    crate::support::alone(
        "values::complex_normal_numbers_are_drawn_as_eagerly_in_every_layout",
        || {
            let z = Tensor::with(DType::C64).zeros([3, 2, 4]).unwrap();
            for x in [z.clone(), z.transpose(0, 2).unwrap()] {
                let f = |x: &Tensor| aten::randn_like(x, None, None, None, None, None);
                let compiled = compile(f);
                let drawn = |run: &dyn Fn() -> Result<Tensor>| {
                    straightline::manual_seed(3);
                    let t = aten::view_as_real(&run().unwrap()).unwrap();
                    (
                        numbers(&t),
                        aten::rand(&[2], None, None, None, None).unwrap().to_vec::<f32>().unwrap(),
                    )
                };
                let eager = drawn(&|| f(&x));
                for _ in 0..2 {
                    assert_eq!(drawn(&|| compiled.call(&x)), eager);
                }
            }
        },
    );
}

#[test]
fn a_mask_of_numbers_is_refused_for_repeated_elements_too() {
    let x = Tensor::from_vec([1f32, 2.0], 2).unwrap();
    let repeated = x.expand(&[3, 2]).unwrap();
    let f = |x: &Tensor| aten::masked_fill_scalar_(x, x, 1.into());
    assert!(f(&repeated).unwrap_err().to_string().contains("boolean masks"));
    assert!(compile(f).call(&repeated).unwrap_err().to_string().contains("boolean masks"));
}

#[test]
fn a_tensor_conjugated_twice_is_a_view_of_it() {
    let z = Tensor::with(DType::C64).zeros([4]).unwrap();
    for t in both(|z| aten::_conj(&aten::_conj(&z.slice(0, 1, 3, 1)?)?), &z) {
        assert!(t.shares_storage_with(&z));
        assert_eq!(t.storage_offset(), 1);
    }
}

/// PyTorch computes a reduction in the dtype of its `out`.
#[test]
fn a_mean_of_halves_into_a_wide_out_is_not_rounded_to_halves() {
    let x = Tensor::from_slice(&[-8.4765625f64, -1.765625, -4.32421875], &[3]).unwrap();
    let x = x.to_dtype(DType::F16).unwrap();
    let f = |x: &Tensor| aten::mean_out(x, Some(&[0]), false, None, &Tensor::zeros([0; 0])?);
    for mean in both(f, &x) {
        assert_eq!(numbers(&mean), [f64::from((-14.56640625 / 3.0) as f32)]);
    }
}

#[test]
fn the_softmax_of_one_number_is_that_of_a_row_of_one() {
    for x in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 3.0] {
        let number = Tensor::from_slice(&[x], &[] as &[i64]).unwrap();
        for y in both(|x| x.softmax(0), &number) {
            assert_eq!(numbers(&y)[0].is_nan(), !x.is_finite(), "{x}");
        }
        for y in both(|x| x.log_softmax(0), &number) {
            assert_eq!(numbers(&y)[0].is_nan(), !x.is_finite(), "{x}");
        }
    }
}

#[test]
fn a_number_of_another_dtype_fills_where_the_mask_is() {
    let mask = Tensor::from_slice(&[true, false, true], &[3]).unwrap();
    for dtype in [DType::I16, DType::F64, DType::C64] {
        let x = Tensor::arange(3).unwrap().to_dtype(dtype).unwrap();
        let value = Tensor::from_slice(&[-6.25f32], &[] as &[i64]).unwrap();
        let mask = mask.clone();
        let f = move |x: &Tensor| {
            let y = x.copied()?;
            aten::masked_fill_tensor_(&y, &mask, &value)?;
            aten::real(&y)
        };
        let filled = if dtype == DType::I16 { -6.0 } else { -6.25 };
        for y in both(f, &x) {
            assert_eq!(numbers(&y), [filled, 1.0, filled], "{dtype}");
        }
    }
}

#[test]
fn powers_of_half_numbers_round_once() {
    // PyTorch: 273 squared does not fit f16, its inverse does
    let x = Tensor::from_vec(vec![273f32, 300.0], 2).unwrap().to_dtype(DType::F16).unwrap();
    for got in both(|x| aten::pow_tensor_scalar(x, (-2).into()), &x) {
        let want = [1.341_104_5e-5, 1.108_646_4e-5];
        assert!(numbers(&got).iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-8), "{got}");
    }
}

#[test]
fn gradients_round_in_what_their_operands_promote_to() {
    // PyTorch computes in f16, which a number of f32 does not change, and returns the dtype of the
    // input
    let x =
        Tensor::from_slice(&[0.5f32, 1.661, 1.0], [3, 1]).unwrap().to_dtype(DType::F16).unwrap();
    let [eager, first, again] =
        both(|g| aten::mish_backward(g, &Tensor::full([0i64; 0], 0.3)?), &x);
    assert_eq!(eager.dtype(), DType::F32);
    assert_eq!(numbers(&eager), numbers(&first));
    assert_eq!(numbers(&eager), numbers(&again));
    let target = Tensor::from_vec(vec![-4.3f32, -2.4], 2).unwrap();
    let halves = Tensor::from_vec(vec![8.0f32, 8.0], 2).unwrap().to_dtype(DType::F16).unwrap();
    let [eager, first, _] = both(move |x| aten::soft_margin_loss(x, &target, 2), &halves);
    assert!(numbers(&eager)[0].is_finite());
    assert_eq!(numbers(&eager), numbers(&first));
    // and integers wrap around there
    let small = Tensor::from_vec(vec![2u8], 1).unwrap().expand([3]).unwrap();
    let wide = Tensor::full([0i64; 0], 97).unwrap();
    let f = move |g: &Tensor| aten::smooth_l1_loss_backward(g, &wide, &small, 2, 1.0);
    let [eager, first, _] =
        both(f, &Tensor::from_vec(vec![2u8], 1).unwrap().view(&[0i64; 0]).unwrap());
    assert_eq!(numbers(&eager), numbers(&first));
}

#[test]
fn complex_sums_into_integers_convert_first() {
    let z = Tensor::from_slice(&[1.5f32, 0.0, 1.5, 0.0], [2, 2]).unwrap();
    let z = aten::view_as_complex(&z).unwrap();
    let f = |z: &Tensor| {
        let out = Tensor::zeros([0i64; 0])?.to_dtype(DType::I64)?;
        aten::sum_int_list_out(z, Some(&[0]), false, None, &out)?;
        Ok(out)
    };
    let [eager, first, again] = both(f, &z);
    assert_eq!(numbers(&eager), numbers(&first));
    assert_eq!(numbers(&eager), numbers(&again));
}

#[test]
fn truth_values_are_no_range() {
    // PyTorch: "arange_cpu" not implemented for 'Bool'
    let bools = Tensor::zeros([5]).unwrap().to_dtype(DType::Bool).unwrap();
    let fill = |x: &Tensor| aten::arange_start_out(0.5.into(), 4.into(), 0.75.into(), x);
    for e in [fill(&bools), compile(fill).call(&bools)] {
        assert!(e.unwrap_err().to_string().contains("not implemented for 'Bool'"));
    }
}

#[test]
fn a_signal_is_not_made_of_no_frequencies() {
    let none = Tensor::zeros([0, 2]).unwrap().to_dtype(DType::C64).unwrap();
    assert!(aten::_fft_c2r(&none, &[0], 0, 2).is_err());
    assert_eq!(aten::_fft_c2r(&none, &[0], 0, 0).unwrap().shape(), [0, 2]);
    let narrow = Tensor::zeros([2, 0]).unwrap().to_dtype(DType::C64).unwrap();
    assert_eq!(aten::_fft_c2r(&narrow, &[0], 0, 2).unwrap().shape(), [2, 0]);
}

#[test]
fn a_loss_of_no_known_reduction_replays_without_the_dispatcher() {
    let x = Tensor::from_vec(vec![0.1f64, 0.2], 2).unwrap();
    let f = compile(|x: &Tensor| aten::binary_cross_entropy(x, x, None, -1));
    f.call(&x).unwrap();
    let entered = straightline::dispatch::call_count();
    f.call(&x).unwrap();
    assert_eq!(straightline::dispatch::call_count(), entered);
}

#[test]
fn numbers_count_for_less_than_tensors() {
    type F = fn(&Tensor) -> Result<Tensor>;
    let all: [F; 8] = [
        |x| aten::logaddexp2(x, &Tensor::wrapped_number(1.0)?),
        |x| aten::hypot(&x.to_dtype(DType::F32)?, &Tensor::wrapped_number(1.5)?),
        |x| aten::copysign_tensor(x, &Tensor::wrapped_number(-1.0)?),
        |x| aten::gcd(&x.to_dtype(DType::U8)?, &Tensor::wrapped_number(6)?),
        |x| aten::where_self(&x.gt(0)?, &x.to_dtype(DType::C64)?, &Tensor::wrapped_number(0.5)?),
        |x| aten::add_tensor(&x.to_dtype(DType::C64)?, &Tensor::wrapped_number(0.5)?, 1.into()),
        |x| aten::hypot_(&x.to_dtype(DType::F16)?, &Tensor::wrapped_number(1.5)?),
        |x| {
            let out = Tensor::zeros([0])?;
            let number = Tensor::wrapped_number(-1.75)?;
            aten::floor_divide_out(&x.to_dtype(DType::U8)?, &number, &out)
        },
    ];
    for x in
        [Tensor::from_vec(vec![1i64, 4], 2), Tensor::from_vec(vec![4i64], 1).unwrap().squeeze()]
    {
        for (i, f) in all.into_iter().enumerate() {
            let [eager, first, again] = both(f, x.as_ref().unwrap());
            assert_eq!((i, first.dtype()), (i, eager.dtype()));
            let shown = |t: &Tensor| (i, format!("{t}"));
            assert_eq!([shown(&first), shown(&again)], [shown(&eager), shown(&eager)]);
        }
    }
}

#[test]
fn products_of_halves_are_rounded_after_the_scale_and_the_addend() -> Result<()> {
    for dtype in [DType::F16, DType::BF16] {
        let full = |sizes: &[i64], x: f64| Tensor::with(dtype).full(sizes, x);
        let (c, a, v) = (full(&[2, 2], 1.0)?, full(&[2, 2], 300.0)?, full(&[2], 300.0)?);
        let (b3, c3) = (full(&[2, 2, 2], 300.0)?, full(&[2, 2, 2], 1.0)?);
        let (one, tenth, none) = (Scalar::Int(1), Scalar::Float(0.1), Scalar::Int(0));
        for alpha in [tenth, none] {
            same_eager_and_compiled(
                move |t: &[Tensor; 5]| aten::addmm(&t[0], &t[1], &t[1], one, alpha),
                [&c, &a, &v, &b3, &c3],
            )?;
            same_eager_and_compiled(
                move |t: &[Tensor; 5]| aten::addmv(&t[2], &t[1], &t[2], one, alpha),
                [&c, &a, &v, &b3, &c3],
            )?;
            same_eager_and_compiled(
                move |t: &[Tensor; 5]| aten::baddbmm(&t[4], &t[3], &t[3], one, alpha),
                [&c, &a, &v, &b3, &c3],
            )?;
            same_eager_and_compiled(
                move |t: &[Tensor; 5]| aten::addbmm(&t[0], &t[3], &t[3], one, alpha),
                [&c, &a, &v, &b3, &c3],
            )?;
        }
        // 180000 - 60000 of f16 fits, 180000 does not
        let bias = full(&[2], -60000.0)?;
        same_eager_and_compiled(
            |t: &[Tensor; 5]| aten::linear(&t[1], &t[1], Some(&t[2])),
            [&c, &a, &bias, &b3, &c3],
        )?;
    }
    Ok(())
}

/// Bit for bit, and at a second call.
fn same_eager_and_compiled(
    f: impl Fn(&[Tensor; 5]) -> Result<Tensor> + Send + Sync + 'static,
    on: [&Tensor; 5],
) -> Result<()> {
    let on = on.map(Clone::clone);
    let eager = f(&on)?;
    let f = compile(f);
    for _ in 0..2 {
        let compiled = f.call(&on)?;
        assert_eq!(numbers(&compiled), numbers(&eager));
    }
    Ok(())
}

/// Of zeros of either sign `fmax` and `fmin` give the first, of `bf16` the second (PyTorch 2.15).
#[test]
fn fmax_of_zeros_of_either_sign() {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        let of = |v: [f32; 4]| Tensor::from_slice(&v, [4]).unwrap().to_dtype(dtype).unwrap();
        let (a, b) = (of([0.0, -0.0, f32::NAN, 1.0]), of([-0.0, 0.0, 2.0, f32::NAN]));
        let first = dtype != DType::BF16;
        for f in [aten::fmax, aten::fmin] as [fn(&Tensor, &Tensor) -> Result<Tensor>; 2] {
            let compiled = compile(move |(a, b): &(Tensor, Tensor)| f(a, b));
            for y in [f(&a, &b).unwrap(), compiled.call((&a, &b)).unwrap()] {
                let y = y.to_dtype(DType::F32).unwrap().to_vec::<f32>().unwrap();
                let signs = [y[0].is_sign_negative(), y[1].is_sign_negative()];
                assert_eq!(signs, [!first, first], "{dtype}");
                assert_eq!(y[2..], [2.0, 1.0], "{dtype}");
            }
        }
    }
}
