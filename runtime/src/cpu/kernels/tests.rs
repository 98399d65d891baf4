//! Pointwise kernels and copies against element-by-element references.

use super::testing::{Data, layouts, same};
use super::*;
use straightline_passes::ir::{DType, Scalar};
use straightline_passes::schedule::loops::{BinaryOp, CompareOp, UnaryOp};

const UNARY: [UnaryOp; 40] = {
    use UnaryOp::*;
    [
        Neg, Abs, Sign, Sqrt, Rsqrt, Reciprocal, Exp, Exp2, Expm1, Log, Log2, Log10, Log1p, Sin,
        Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Asinh, Acosh, Atanh, Tanh, Sigmoid, Erf, Erfc,
        Floor, Ceil, Round, Trunc, IsNan, IsInf, LogicalNot, BitwiseNot, Relu, GeluErf, GeluTanh,
        Silu,
    ]
};

const BINARY: [BinaryOp; 20] = {
    use BinaryOp::*;
    [
        Add, Sub, Mul, Div, FloorDiv, TruncDiv, Fmod, Remainder, Pow, Atan2, Maximum, Minimum,
        BitwiseAnd, BitwiseOr, BitwiseXor, LogicalAnd, LogicalOr, LogicalXor, ShiftLeft,
        ShiftRight,
    ]
};

const COMPARE: [CompareOp; 6] = {
    use CompareOp::*;
    [Eq, Ne, Lt, Le, Gt, Ge]
};

/// One element through the kernel: what layouts are compared with.
fn one_unary(op: UnaryOp, out: DType, a: DType, x: Scalar) -> Scalar {
    let (mut o, mut i) = (Data::contiguous(out, &[1]), Data::contiguous(a, &[1]));
    i.set(0, x);
    unary(op, o.out(), i.input()).unwrap();
    o.get(0)
}

fn one_binary(op: BinaryOp, dtype: DType, x: Scalar, y: Scalar) -> Result<Scalar, KernelError> {
    let mut o = Data::contiguous(dtype, &[1]);
    let (mut a, mut b) = (o.clone(), o.clone());
    a.set(0, x);
    b.set(0, y);
    binary(op, o.out(), a.input(), b.input()).map(|()| o.get(0))
}

/// Bytes between the elements of an output must stay.
fn gaps_untouched(out: &Data) {
    let mut is_element = vec![false; out.bytes.len()];
    for i in 0..out.numel() {
        let at = out.offset(i);
        is_element[at..at + out.dtype.size()].fill(true);
    }
    for (byte, element) in out.bytes.iter().zip(is_element) {
        assert!(element || *byte == 0x5a, "a write outside of the output");
    }
}

#[test]
fn unary_agrees_with_itself_in_every_layout() {
    for op in UNARY {
        for dtype in DType::ALL {
            let out_dtype = match op {
                UnaryOp::IsNan | UnaryOp::IsInf | UnaryOp::LogicalNot => DType::Bool,
                _ => dtype,
            };
            let mut probe =
                (Data::contiguous(out_dtype, &[1]), Data::contiguous(dtype, &[1]).fill(1));
            if let Err(e) = unary(op, probe.0.out(), probe.1.input()) {
                assert!(matches!(e, KernelError::UnsupportedDType { .. }));
                continue;
            }
            for (sizes, out_strides, ins) in layouts() {
                if sizes.iter().product::<i64>() > 2000 && dtype != DType::F32 {
                    continue;
                }
                for strides in &ins {
                    let a = Data::new(dtype, &sizes, strides).fill(3);
                    let mut out = Data::new(out_dtype, &sizes, &out_strides);
                    unary(op, out.out(), a.input()).unwrap();
                    gaps_untouched(&out);
                    let step = (out.numel() / 97).max(1);
                    for i in (0..out.numel()).step_by(step) {
                        let want = one_unary(op, out_dtype, dtype, a.get(i));
                        assert!(
                            same(out.get(i), want),
                            "{op:?} {dtype} {sizes:?} {strides:?} [{i}]: {} for {}, not {want}",
                            out.get(i),
                            a.get(i)
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn binary_agrees_with_itself_in_every_layout() {
    for op in BINARY {
        for dtype in DType::ALL {
            if matches!(
                one_binary(op, dtype, 3.into(), 2.into()),
                Err(KernelError::UnsupportedDType { .. })
            ) {
                continue;
            }
            for (sizes, out_strides, ins) in layouts() {
                if sizes.iter().product::<i64>() > 2000 && dtype != DType::F32 {
                    continue;
                }
                for swap in [false, true] {
                    let (sa, sb) = if swap { (&ins[1], &ins[0]) } else { (&ins[0], &ins[1]) };
                    let a = Data::new(dtype, &sizes, sa).fill(3);
                    let mut b = Data::new(dtype, &sizes, sb).fill(4);
                    if !dtype.is_floating() && dtype != DType::Bool {
                        for i in 0..b.numel() {
                            if b.get(i).as_i64() == 0 {
                                b.set(i, 2.into());
                            }
                        }
                    }
                    let mut out = Data::new(dtype, &sizes, &out_strides);
                    binary(op, out.out(), a.input(), b.input()).unwrap();
                    gaps_untouched(&out);
                    let step = (out.numel() / 97).max(1);
                    for i in (0..out.numel()).step_by(step) {
                        let want = one_binary(op, dtype, a.get(i), b.get(i)).unwrap();
                        assert!(
                            same(out.get(i), want),
                            "{op:?} {dtype} {sizes:?} {sa:?} {sb:?} [{i}]"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn float_values_are_those_of_the_standard_library() {
    let xs = [
        0.0,
        -0.0,
        1.5,
        -1.5,
        2.5,
        -2.5,
        0.3,
        -7.25,
        4.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        let round = |x: f64| Scalar::Float(x).cast(dtype);
        let exact = |x: f64| round(if dtype == DType::F64 { x } else { f64::from(x as f32) });
        for x in xs.map(|x| round(x).as_f64()) {
            for (op, want) in [
                (UnaryOp::Neg, -x),
                (UnaryOp::Abs, x.abs()),
                (UnaryOp::Sqrt, x.sqrt()),
                (UnaryOp::Reciprocal, 1.0 / x),
                (UnaryOp::Floor, x.floor()),
                (UnaryOp::Ceil, x.ceil()),
                (UnaryOp::Round, x.round_ties_even()),
                (UnaryOp::Trunc, x.trunc()),
                (UnaryOp::Relu, if x.is_nan() { x } else { x.max(0.0) }),
            ] {
                let got = one_unary(op, dtype, dtype, x.into());
                assert!(
                    same(got, exact(want)) || want == 0.0 && got.as_f64() == 0.0,
                    "{op:?}({x}) = {got} as {dtype}"
                );
            }
            for y in xs.map(|y| round(y).as_f64()) {
                let nan = x.is_nan() || y.is_nan();
                for (op, want) in [
                    (BinaryOp::Add, x + y),
                    (BinaryOp::Sub, x - y),
                    (BinaryOp::Mul, x * y),
                    (BinaryOp::Div, x / y),
                    (BinaryOp::Fmod, x % y),
                    (BinaryOp::Maximum, if nan { f64::NAN } else { x.max(y) }),
                    (BinaryOp::Minimum, if nan { f64::NAN } else { x.min(y) }),
                ] {
                    let got = one_binary(op, dtype, x.into(), y.into()).unwrap();
                    let zeros = want == 0.0 && got.as_f64() == 0.0;
                    assert!(
                        same(got, exact(want)) || zeros,
                        "{op:?}({x}, {y}) = {got} as {dtype}, not {want}"
                    );
                }
            }
        }
    }
    for (op, x, y, want) in [
        (BinaryOp::FloorDiv, 7.0, 2.0, 3.0),
        (BinaryOp::FloorDiv, -7.0, 2.0, -4.0),
        (BinaryOp::FloorDiv, 7.0, -2.0, -4.0),
        (BinaryOp::FloorDiv, 1.0, 0.0, f64::INFINITY),
        (BinaryOp::FloorDiv, -0.0, 3.0, -0.0),
        (BinaryOp::FloorDiv, 1.0, f64::INFINITY, 0.0),
        (BinaryOp::FloorDiv, -1.0, f64::INFINITY, -1.0),
        (BinaryOp::TruncDiv, -7.0, 2.0, -3.0),
        (BinaryOp::Remainder, -7.0, 2.0, 1.0),
        (BinaryOp::Remainder, 7.0, -2.0, -1.0),
        (BinaryOp::Pow, 2.0, 10.0, 1024.0),
        (BinaryOp::Pow, f64::NAN, 0.0, 1.0),
    ] {
        let got = one_binary(op, DType::F32, x.into(), y.into()).unwrap();
        assert!(same(got, want.into()), "{op:?}({x}, {y}) = {got}, not {want}");
    }
}

#[test]
fn integers_wrap_and_divide_as_pytorch_does() {
    let big = i64::MIN;
    for (op, dtype, x, y, want) in [
        (BinaryOp::Add, DType::I8, 100, 100, -56),
        (BinaryOp::Mul, DType::U8, 20, 20, 144),
        (BinaryOp::Sub, DType::U8, 3, 5, 254),
        (BinaryOp::FloorDiv, DType::I32, -7, 2, -4),
        (BinaryOp::FloorDiv, DType::I64, big, -1, big),
        (BinaryOp::TruncDiv, DType::I32, -7, 2, -3),
        (BinaryOp::Remainder, DType::I16, -7, 3, 2),
        (BinaryOp::Remainder, DType::I16, 7, -3, -2),
        (BinaryOp::Fmod, DType::I16, -7, 3, -1),
        (BinaryOp::Pow, DType::I64, 3, 13, 1_594_323),
        (BinaryOp::Pow, DType::I64, 2, -1, 0),
        (BinaryOp::Pow, DType::I64, -1, -3, -1),
        (BinaryOp::Pow, DType::U8, 3, 7, 2187 % 256),
        (BinaryOp::ShiftLeft, DType::I32, 1, 31, i64::from(i32::MIN)),
        (BinaryOp::ShiftLeft, DType::I32, 1, 32, 0),
        (BinaryOp::ShiftRight, DType::I32, -8, 1, -4),
        (BinaryOp::ShiftRight, DType::I32, -8, 99, -1),
        (BinaryOp::BitwiseXor, DType::U8, 0xf0, 0x3c, 0xcc),
    ] {
        assert_eq!(
            one_binary(op, dtype, x.into(), y.into()),
            Ok(Scalar::Int(want)),
            "{op:?} {dtype} {x} {y}"
        );
    }
    for op in [BinaryOp::FloorDiv, BinaryOp::TruncDiv, BinaryOp::Fmod, BinaryOp::Remainder] {
        for n in [1, 40, 1000] {
            let a = Data::contiguous(DType::I32, &[n]).fill(1);
            let mut b = a.clone();
            for i in 0..n as usize {
                b.set(i, 3.into());
            }
            b.set(n as usize - 1, 0.into());
            let mut out = a.clone();
            let r = binary(op, out.out(), a.input(), b.input());
            assert_eq!(r, Err(KernelError::DivisionByZero), "{op:?} {n}");
        }
    }
    assert_eq!(one_unary(UnaryOp::Abs, DType::I8, DType::I8, (-128).into()), Scalar::Int(-128));
    assert_eq!(one_unary(UnaryOp::Sign, DType::I64, DType::I64, (-3).into()), Scalar::Int(-1));
    assert_eq!(one_unary(UnaryOp::BitwiseNot, DType::U8, DType::U8, 1.into()), Scalar::Int(254));
}

#[test]
fn comparisons() {
    for op in COMPARE {
        for dtype in DType::ALL {
            for (sizes, out_strides, ins) in layouts() {
                let a = Data::new(dtype, &sizes, &ins[0]).fill(3);
                let b = Data::new(dtype, &sizes, &ins[1]).fill(4);
                let mut out = Data::new(DType::Bool, &sizes, &out_strides);
                compare(op, out.out(), a.input(), b.input()).unwrap();
                gaps_untouched(&out);
                for i in (0..out.numel()).step_by((out.numel() / 97).max(1)) {
                    let (x, y) = (a.get(i).as_f64(), b.get(i).as_f64());
                    let want = match op {
                        CompareOp::Eq => x == y,
                        CompareOp::Ne => x != y,
                        CompareOp::Lt => x < y,
                        CompareOp::Le => x <= y,
                        CompareOp::Gt => x > y,
                        CompareOp::Ge => x >= y,
                    };
                    assert_eq!(out.get(i), Scalar::Bool(want), "{x} {op:?} {y}");
                }
            }
        }
    }
}

#[test]
fn selection() {
    for dtype in DType::ALL {
        for (sizes, out_strides, ins) in layouts() {
            let c = Data::new(DType::Bool, &sizes, &ins[1]).fill(9);
            let a = Data::new(dtype, &sizes, &ins[0]).fill(3);
            let b = Data::new(dtype, &sizes, &ins[1]).fill(4);
            let mut out = Data::new(dtype, &sizes, &out_strides);
            select(out.out(), c.input(), a.input(), b.input()).unwrap();
            gaps_untouched(&out);
            for i in 0..out.numel() {
                let want = if c.get(i).as_bool() { a.get(i) } else { b.get(i) };
                assert!(same(out.get(i), want));
            }
        }
    }
}

#[test]
fn copies_convert_and_transpose() {
    for from in DType::ALL {
        for to in DType::ALL {
            for (sizes, out_strides, ins) in layouts() {
                if sizes.iter().product::<i64>() > 2000 && from != to {
                    continue;
                }
                for strides in &ins {
                    let a = Data::new(from, &sizes, strides).fill(5);
                    let mut out = Data::new(to, &sizes, &out_strides);
                    copy(out.out(), a.input()).unwrap();
                    gaps_untouched(&out);
                    for i in 0..out.numel() {
                        let mut x = a.get(i);
                        if to.is_half() {
                            x = x.cast(DType::F32);
                        }
                        assert!(
                            same(out.get(i), x.cast(to)),
                            "{from} to {to}: {} from {}",
                            out.get(i),
                            a.get(i)
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn fills() {
    for dtype in DType::ALL {
        for (sizes, out_strides, _) in layouts() {
            for value in
                [Scalar::Float(-2.5), Scalar::Int(300), Scalar::Bool(true), Scalar::Float(f64::NAN)]
            {
                let mut out = Data::new(dtype, &sizes, &out_strides);
                fill(out.out(), value);
                gaps_untouched(&out);
                assert!(
                    out.values().iter().all(|&x| same(x, value.cast(dtype))),
                    "{value} as {dtype}"
                );
            }
        }
    }
}

#[test]
fn in_place() {
    for dtype in [DType::F32, DType::I32, DType::BF16] {
        let before = Data::contiguous(dtype, &[1000]).fill(7);
        let mut after = before.clone();
        let out = after.out();
        let (a, b) = (out.as_input(), out.as_input());
        binary(BinaryOp::Add, out, a, b).unwrap();
        for i in 0..1000 {
            let x = before.get(i);
            assert!(same(after.get(i), one_binary(BinaryOp::Add, dtype, x, x).unwrap()));
        }
    }
}
