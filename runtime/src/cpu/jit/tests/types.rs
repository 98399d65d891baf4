//! Strips on values of all dtypes, against the interpreter and against Cranelift's loops.

use super::strips::strips;
use super::*;
use crate::cpu::math::isa;

/// Elements of the dtypes that strips hold, narrow ones converted.
const DTYPES: [DType; 9] = [
    DType::F32,
    DType::F64,
    DType::F16,
    DType::BF16,
    DType::I64,
    DType::I32,
    DType::I16,
    DType::I8,
    DType::U8,
];

fn integral(d: DType) -> bool {
    d.is_integral() && d != DType::Bool
}

/// Both emitters and the interpreter agree, and there are so many strips on AVX-512 and AVX2.
fn check(c: &Case, strips_512: usize, strips_256: usize) {
    c.check(0.0);
    let want = match isa().bits() {
        512 => strips_512,
        256 => strips_256,
        _ => 0,
    };
    assert_eq!(strips(c), want, "{:#?}", c.schedule);
}

fn numbers(seed: u64, d: DType, n: i64) -> Vec<Scalar> {
    let mut rng = Rng(seed);
    (0..n).map(|_| rng.element(d)).collect()
}

fn bools(seed: u64, n: i64) -> Vec<Scalar> {
    let mut rng = Rng(seed);
    (0..n).map(|_| Scalar::Bool(rng.below(2) == 1)).collect()
}

/// A kernel over `n` elements of `inputs`, which begin after so many others; its results, which do
/// as well, are the last values of the body.
fn pointwise(n: i64, base: i64, inputs: &[DType], ops: Vec<Inst>, results: usize) -> Case {
    let mut c = Case::new(&[n], Vectorize::Grid);
    let at = || at(base, &[(0, 1)]);
    let mut body = Vec::new();
    for (k, &d) in inputs.iter().enumerate() {
        let values = match d {
            DType::Bool => bools(k as u64, n + base),
            _ => numbers(k as u64 + n as u64, d, n + base),
        };
        let x = c.input(d, values);
        body.push(load(d, x, at()));
    }
    body.extend(ops);
    let last = body.len();
    for v in last - results..last {
        let d = body[v].dtype;
        let y = c.output(d, (n + base) as usize);
        body.push(store(d, y, at(), v as u32));
    }
    c.stage(1, &[], body);
    c
}

fn binary(d: DType, op: BinaryOp, a: u32, b: u32) -> Inst {
    inst(d, Op::Binary(op, Val(a), Val(b)))
}

#[test]
fn every_length_of_every_dtype() {
    for d in DTYPES {
        for n in (16..=70).chain([127, 128, 129, 1000, 8193]) {
            let three = inst(d, Op::Const(Scalar::Int(3)));
            let ops = vec![three, binary(d, BinaryOp::Add, 0, 1), binary(d, BinaryOp::Mul, 3, 2)];
            check(&pointwise(n, n % 4, &[d, d], ops, 1), 1, 1);
        }
    }
}

#[test]
fn every_operation_on_integers() {
    use BinaryOp as B;
    use UnaryOp as U;
    for d in DTYPES.into_iter().filter(|d| integral(*d)) {
        for op in [
            B::Add,
            B::Sub,
            B::Mul,
            B::Maximum,
            B::Minimum,
            B::BitwiseAnd,
            B::BitwiseOr,
            B::BitwiseXor,
            B::ShiftLeft,
            B::ShiftRight,
        ] {
            let c = pointwise(133, 1, &[d, d], vec![binary(d, op, 0, 1)], 1);
            // AVX2 shifts no signs into 64 bits
            check(&c, 1, usize::from(d != DType::I64 || op != B::ShiftRight));
        }
        // distances that are too long, and negative ones
        for op in [B::ShiftLeft, B::ShiftRight] {
            for distance in [-1, 0, 1, 7, 8, 15, 16, 31, 32, 63, 64, 100] {
                let by = inst(d, Op::Const(Scalar::Int(distance)));
                let c = pointwise(40, 0, &[d], vec![by, binary(d, op, 0, 1)], 1);
                check(&c, 1, usize::from(d != DType::I64 || op != B::ShiftRight));
            }
        }
        for op in [U::Neg, U::Abs, U::Sign, U::Relu, U::BitwiseNot, U::LogicalNot] {
            let to = if op == U::LogicalNot { DType::Bool } else { d };
            check(&pointwise(133, 1, &[d], vec![inst(to, Op::Unary(op, Val(0)))], 1), 1, 1);
        }
    }
}

#[test]
fn comparisons_and_choices_of_every_dtype() {
    use CompareOp::*;
    for d in DTYPES {
        for op in [Eq, Ne, Lt, Le, Gt, Ge] {
            for n in [37, 64, 150] {
                // the truth values are stored, and others are loaded to choose by
                let ops = vec![
                    inst(DType::Bool, Op::Compare(op, Val(0), Val(1))),
                    inst(DType::Bool, Op::Binary(BinaryOp::LogicalXor, Val(2), Val(3))),
                    inst(d, Op::Select(Val(4), Val(0), Val(1))),
                    inst(DType::Bool, Op::Compare(op, Val(5), Val(1))),
                    inst(d, Op::Select(Val(2), Val(5), Val(0))),
                ];
                check(&pointwise(n, 1, &[d, d, DType::Bool], ops, 2), 1, 1);
            }
        }
    }
}

#[test]
fn operations_on_truth_values() {
    use BinaryOp as B;
    let b = DType::Bool;
    for n in [16, 37, 64, 150] {
        for op in [B::LogicalAnd, B::LogicalOr, B::LogicalXor, B::BitwiseAnd, B::Maximum] {
            check(&pointwise(n, 3, &[b, b], vec![binary(b, op, 0, 1)], 1), 1, 1);
        }
        use CompareOp::*;
        for op in [Eq, Ne, Lt, Le, Gt, Ge] {
            let ops = vec![
                inst(b, Op::Compare(op, Val(0), Val(1))),
                inst(b, Op::Unary(UnaryOp::LogicalNot, Val(0))),
                inst(b, Op::Select(Val(3), Val(4), Val(1))),
            ];
            check(&pointwise(n, 0, &[b, b, b], ops, 3), 1, 1);
        }
    }
}

#[test]
fn casts_between_dtypes_of_one_width() {
    let all = DTYPES.into_iter().chain([DType::Bool]);
    for from in all.clone() {
        for to in all.clone() {
            let c = pointwise(77, 1, &[from], vec![inst(to, Op::Cast(Val(0)))], 1);
            c.check(0.0);
            let long = |d: DType| d.size() == 8;
            let bool = from == DType::Bool || to == DType::Bool;
            let floats = (from.is_floating(), to.is_floating());
            // a float beyond the integers becomes another number than in the machine
            let made = bool || long(from) == long(to) && floats != (true, false);
            // short integers are read into long lanes
            let made = made || long(to) && from.is_integral();
            let widens = from != to && long(from) && floats == (false, true);
            let want = |bits| usize::from(made && (bits == 512 || !widens || bool));
            let want = if isa().bits() > 128 { want(isa().bits()) } else { 0 };
            assert_eq!(strips(&c), want, "{from} to {to}");
        }
    }
}

#[test]
fn all_half_precision_values_in_and_out() {
    for d in [DType::F16, DType::BF16] {
        let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        let one = || terms(&[(0, 1)]);
        let mut c = Case::new(&[65536], Vectorize::Grid);
        let x = c.input(d, from_bytes(&all, d));
        let (y, z) = (c.output(DType::F32, 65536), c.output(d, 65536));
        let halved = inst(d, Op::Binary(BinaryOp::Mul, Val(0), Val(3)));
        c.stage(
            1,
            &[],
            vec![
                load(d, x, one()),
                inst(DType::F32, Op::Cast(Val(0))),
                store(DType::F32, y, one(), 1),
                inst(d, Op::Const(Scalar::Float(0.37))),
                halved,
                store(d, z, one(), 4),
            ],
        );
        check(&c, 1, 1);
    }
}

#[test]
fn floats_are_rounded_to_halves() {
    // every exponent, and fractions about the middle between two neighbours
    for d in [DType::F16, DType::BF16] {
        let mut rng = Rng(8);
        let mut values: Vec<Scalar> = Vec::new();
        for high in 0..=u16::MAX {
            let low = rng.pick(&[0u32, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0x1000, 0x0fff, 0x1001]);
            let x = f32::from_bits(u32::from(high) << 16 | low);
            values.push(Scalar::Float(x.into()));
        }
        let n = values.len() as i64 - 3;
        values.truncate(n as usize);
        let mut c = Case::new(&[n], Vectorize::Grid);
        let x = c.input(DType::F32, values);
        let y = c.output(d, n as usize);
        let one = || terms(&[(0, 1)]);
        let cast = inst(d, Op::Cast(Val(0)));
        c.stage(1, &[], vec![load(DType::F32, x, one()), cast, store(d, y, one(), 1)]);
        check(&c, 1, 1);
    }
}

#[test]
fn functions_of_doubles_and_halves() {
    use UnaryOp::*;
    for d in [DType::F64, DType::F16, DType::BF16] {
        let mut made = 0;
        for op in [
            Neg, Abs, Sign, Sqrt, Rsqrt, Reciprocal, Exp, Exp2, Expm1, Log, Log2, Log10, Log1p,
            Asin, Acos, Atan, Sinh, Cosh, Asinh, Acosh, Atanh, Tanh, Sigmoid, Erf, Erfc, Floor,
            Ceil, Round, Trunc, Relu, GeluErf, GeluTanh, Silu, Sin,
        ] {
            let c = pointwise(203, 1, &[d], vec![inst(d, Op::Unary(op, Val(0)))], 1);
            c.check(0.0);
            c.check_same();
            made += strips(&c);
        }
        if isa().bits() > 128 {
            assert!(made >= 30, "{made} strips of functions on {d}");
        }
        for op in [IsNan, IsInf, LogicalNot] {
            let c = pointwise(203, 1, &[d], vec![inst(DType::Bool, Op::Unary(op, Val(0)))], 1);
            check(&c, 1, 1);
        }
        let fma = inst(d, Op::Fma(Val(0), Val(1), Val(2)));
        check(&pointwise(203, 1, &[d; 3], vec![fma], 1), 1, 1);
        for op in [BinaryOp::Div, BinaryOp::TruncDiv, BinaryOp::Maximum, BinaryOp::Minimum] {
            check(&pointwise(203, 1, &[d; 2], vec![binary(d, op, 0, 1)], 1), 1, 1);
        }
    }
}

#[test]
fn what_does_not_change_along_a_row() {
    // out[i, j] = t[i] ? x[i, j] + r[i] : r[i]
    for d in DTYPES {
        for n in [16, 45] {
            let rows = 3;
            let mut c = Case::new(&[rows, n], Vectorize::Grid);
            let x = c.input(d, numbers(1, d, rows * n));
            let r = c.input(d, numbers(2, d, rows));
            let t = c.input(DType::Bool, bools(3, rows));
            let y = c.output(d, (rows * n) as usize);
            let all = || terms(&[(0, n), (1, 1)]);
            c.stage(
                2,
                &[],
                vec![
                    load(d, x, all()),
                    load(d, r, terms(&[(0, 1)])),
                    load(DType::Bool, t, terms(&[(0, 1)])),
                    binary(d, BinaryOp::Add, 0, 1),
                    inst(d, Op::Select(Val(2), Val(3), Val(1))),
                    store(d, y, all(), 4),
                ],
            );
            check(&c, 1, 1);
        }
    }
}

/// Small numbers, whose sums and products are exact in any order.
fn exact(seed: u64, d: DType, n: i64) -> Vec<Scalar> {
    let mut rng = Rng(seed);
    (0..n).map(|_| Scalar::Int(rng.below(7) as i64 - 3).cast(d)).collect()
}

/// `out[i] = reduce_j x[i, j]`, or over the leading dimension.
fn reduced(op: ReduceOp, d: DType, m: i64, n: i64, leading: bool, x: Vec<Scalar>) -> Case {
    let (grid, vectorize, index) = match leading {
        true => (n, Vectorize::Grid, at(1, &[(0, 1), (1, n)])),
        false => (m, Vectorize::Stage, at(1, &[(0, n), (1, 1)])),
    };
    let mut c = Case::new(&[grid], vectorize);
    let x = c.input(d, x);
    let y = c.output(d, grid as usize);
    let reduce = inst(d, Op::Reduce(op, Val(0)));
    c.stage(1, &[if leading { m } else { n }], vec![load(d, x, index), reduce]);
    let carry = inst(d, Op::Carry { stage: 0, value: Val(1) });
    c.stage(2, &[], vec![carry, store(d, y, terms(&[(0, 1)]), 0)]);
    c
}

#[test]
fn reductions_of_every_dtype() {
    use ReduceOp::*;
    for d in DTYPES {
        for op in [Sum, Prod, Max, Min] {
            for (m, n) in [(5, 16), (9, 67), (3, 130), (17, 1001)] {
                for leading in [false, true] {
                    let narrow = d.is_half() || d == DType::F32;
                    let size = m * n + 1;
                    let x = match (op, narrow) {
                        (Prod, true) => vec![Scalar::Float(-1.0); size as usize],
                        (Prod, false) if d == DType::F64 => {
                            vec![Scalar::Float(-1.0); size as usize]
                        }
                        (Sum, _) if d.is_floating() => exact(4, d, size),
                        _ => numbers(n as u64, d, size),
                    };
                    let c = reduced(op, d, m, n, leading, x);
                    c.check(0.0);
                    let made = match leading {
                        true => n >= 64,
                        false => isa().bits() == 512 || d != DType::I64 || op != Prod,
                    };
                    let made = made && isa().bits() > 128;
                    assert_eq!(strips(&c) > 0, made, "{op:?} of {d}, leading {leading}");
                }
            }
        }
    }
}

#[test]
fn long_sums_of_doubles() {
    let n = 300_007;
    for leading in [false, true] {
        let (m, n) = if leading { (n / 64, 64) } else { (1, n) };
        let x = vec![Scalar::Float(0.1); (m * n + 1) as usize];
        let c = reduced(ReduceOp::Sum, DType::F64, m, n, leading, x);
        let got = c.compiled().expect("runs");
        let want = 0.1 * if leading { m } else { n } as f64;
        assert!(got[1].iter().all(|x| (x.as_f64() / want - 1.0).abs() < 1e-13), "{got:?}");
    }
}
