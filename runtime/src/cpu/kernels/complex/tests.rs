use super::super::{binary, compare, copy, fill, reduce, unary};
use super::*;
use straightline_passes::ir::Scalar;
use straightline_passes::schedule::loops::ReduceOp;

type C = Complex<f64>;

fn view<'a, T>(data: &mut [T], dtype: DType, sizes: &'a [i64], strides: &'a [i64]) -> Strided<'a> {
    Strided { ptr: data.as_mut_ptr().cast(), dtype, sizes, strides }
}

fn written<'a, T>(
    data: &'a mut [T],
    dtype: DType,
    sizes: &'a [i64],
    strides: &'a [i64],
) -> Out<'a> {
    // SAFETY: the elements are borrowed for as long as the operand lives.
    unsafe { Out::new(view(data, dtype, sizes, strides)) }
}

fn input<'a, T>(data: &'a mut [T], dtype: DType, sizes: &'a [i64], strides: &'a [i64]) -> In<'a> {
    // SAFETY: as for `out`.
    unsafe { In::new(view(data, dtype, sizes, strides)) }
}

fn size(x: C) -> f64 {
    x.re.hypot(x.im)
}

fn one(op: UnaryOp, x: C) -> C {
    let (mut a, mut out) = ([x], [C::new(0.0, 0.0)]);
    unary(op, written(&mut out, DType::C128, &[1], &[1]), input(&mut a, DType::C128, &[1], &[1]))
        .unwrap();
    out[0]
}

#[test]
fn functions_are_their_inverses() {
    use UnaryOp::*;
    for (f, g) in [
        (Asin, Sin),
        (Acos, Cos),
        (Atan, Tan),
        (Asinh, Sinh),
        (Acosh, Cosh),
        (Atanh, Tanh),
        (Log, Exp),
        (Log1p, Expm1),
    ] {
        for re in [-3.0, -0.4, -1e-9, 0.2, 0.9, 2.5] {
            for im in [-2.0, -0.3, 1e-7, 0.8, 5.0] {
                let x = C::new(re, im);
                let y = one(g, one(f, x));
                assert!(size(x - y) < 1e-9 * size(x).max(1e-6), "{f:?} {x} {y}");
            }
        }
    }
    assert_eq!(one(Tanh, C::new(800.0, 1.0)).re, 1.0);
}

#[test]
fn copies_go_part_by_part() {
    let mut c = [Complex::new(1.5f32, -2.0), Complex::new(0.0, 3.0)];
    let mut wide = [C::new(0.0, 0.0); 2];
    let mut ints = [0i32; 2];
    let mut truths = [7u8; 2];
    copy(written(&mut wide, DType::C128, &[2], &[1]), input(&mut c, DType::C64, &[2], &[1]))
        .unwrap();
    copy(written(&mut ints, DType::I32, &[2], &[1]), input(&mut c, DType::C64, &[2], &[1]))
        .unwrap();
    copy(written(&mut truths, DType::Bool, &[2], &[1]), input(&mut c, DType::C64, &[2], &[1]))
        .unwrap();
    assert_eq!(wide, [C::new(1.5, -2.0), C::new(0.0, 3.0)]);
    assert_eq!((ints, truths), ([1, 0], [1, 1]));
    copy(written(&mut wide, DType::C128, &[2], &[1]), input(&mut ints, DType::I32, &[2], &[1]))
        .unwrap();
    fill(written(&mut c, DType::C64, &[2], &[1]), Scalar::Complex(1.0, 2.0));
    assert_eq!(wide, [C::new(1.0, 0.0), C::new(0.0, 0.0)]);
    assert_eq!(c, [Complex::new(1.0, 2.0); 2]);
}

#[test]
fn reductions_and_arithmetic() {
    let mut a: Vec<C> = (0..600).map(|i| C::new(f64::from(i), 1.0)).collect();
    let mut sums = [C::new(0.0, 0.0); 3];
    reduce(
        ReduceOp::Sum,
        written(&mut sums, DType::C128, &[1, 3], &[3, 1]),
        input(&mut a, DType::C128, &[200, 3], &[3, 1]),
    )
    .unwrap();
    assert_eq!(sums[1], C::new(59900.0, 200.0));
    let (mut x, mut y) = ([C::new(1.0, 2.0)], [C::new(3.0, -1.0)]);
    let mut out = [C::new(0.0, 0.0)];
    let shape = (&[1][..], &[1][..]);
    let mut run = |op| {
        binary(
            op,
            written(&mut out, DType::C128, shape.0, shape.1),
            input(&mut x, DType::C128, shape.0, shape.1),
            input(&mut y, DType::C128, shape.0, shape.1),
        )
        .map(|()| out[0])
    };
    assert_eq!(run(BinaryOp::Mul).unwrap(), C::new(5.0, 5.0));
    assert!(size(run(BinaryOp::Div).unwrap() - C::new(0.1, 0.7)) < 1e-15);
    assert!(run(BinaryOp::Maximum).is_err());
    let mut truth = [0u8];
    assert!(
        compare(
            CompareOp::Lt,
            written(&mut truth, DType::Bool, shape.0, shape.1),
            input(&mut x, DType::C128, shape.0, shape.1),
            input(&mut y, DType::C128, shape.0, shape.1),
        )
        .is_err()
    );
}

/// `special_values.tsv` has what PyTorch 2.15 gives in complex128: function, argument, result. NaN
/// stands for any.
#[test]
fn zeros_infinities_and_nan_give_what_pytorch_gives() {
    use UnaryOp::*;
    let ops = [
        Sqrt, Sin, Cos, Tan, Sinh, Cosh, Tanh, Exp, Log, Asin, Acos, Atan, Asinh, Acosh, Atanh,
        Rsqrt, Expm1, Log2, Log10, Log1p, Sigmoid,
    ];
    let name = |op: UnaryOp| format!("{op:?}").to_lowercase();
    let same = |a: f64, b: f64| {
        a.is_nan() && b.is_nan() || a == b || (a - b).abs() <= 1e-12 * b.abs() + 1e-290
    };
    let mut seen = 0;
    for line in include_str!("special_values.tsv").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let n: Vec<f64> = fields[1..].iter().map(|x| x.parse().unwrap()).collect();
        let op = *ops.iter().find(|op| name(**op) == fields[0]).unwrap();
        let r = one(op, C::new(n[0], n[1]));
        assert!(same(r.re, n[2]) && same(r.im, n[3]), "{line}: {r}");
        seen += 1;
    }
    assert_eq!(seen, ops.len() * 64);
}
