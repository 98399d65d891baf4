//! Strips against the interpreter and against Cranelift's loops.

use super::*;
use crate::cpu::math::isa;

const F: DType = DType::F32;

/// The number of strips that the kernel's stages got.
pub(super) fn strips(c: &Case) -> usize {
    let options = PlanOptions { keep_asm: true, ..PlanOptions::default() };
    let plan = Plan::compile(c.schedule.clone(), &options).expect("compiles");
    plan.asm().expect("kept").matches("; strip_").count()
}

fn expect_strips(c: &Case, want: usize) {
    let want = if isa().bits() > 128 { want } else { 0 };
    assert_eq!(strips(c), want, "{:#?}", c.schedule);
}

/// The shortest rows of a stage that strips take.
pub(super) fn shortest() -> i64 {
    if isa().bits() == 512 { 10 } else { 12 }
}

fn numbers(seed: u64, n: i64) -> Vec<Scalar> {
    let mut rng = Rng(seed);
    (0..n).map(|_| rng.element(F)).collect()
}

fn unary(op: UnaryOp, v: u32) -> Inst {
    let dtype = match op {
        UnaryOp::IsNan | UnaryOp::IsInf => DType::Bool,
        _ => F,
    };
    inst(dtype, Op::Unary(op, Val(v)))
}

fn binary(op: BinaryOp, a: u32, b: u32) -> Inst {
    inst(F, Op::Binary(op, Val(a), Val(b)))
}

fn constant(v: f64) -> Inst {
    inst(F, Op::Const(Scalar::Float(v)))
}

fn carry(stage: u32, value: u32) -> Inst {
    let value = Val(value);
    inst(F, Op::Carry { stage, value })
}

#[test]
fn every_length_of_a_pointwise_strip() {
    for n in (0..=70).chain([128, 129, 1000, 8192, 8193, 12300]) {
        let mut c = Case::new(&[n], Vectorize::Grid);
        let x = c.input(F, numbers(n as u64, n));
        let y = c.input(F, numbers(n as u64 + 1, n));
        let out = c.output(F, n as usize);
        let i = || terms(&[(0, 1)]);
        c.stage(
            1,
            &[],
            vec![
                load(F, x, i()),
                load(F, y, i()),
                constant(0.5),
                inst(F, Op::Fma(Val(0), Val(2), Val(1))),
                unary(UnaryOp::GeluErf, 3),
                unary(UnaryOp::Relu, 1),
                binary(BinaryOp::Maximum, 4, 5),
                inst(DType::Bool, Op::Compare(CompareOp::Ge, Val(0), Val(1))),
                inst(F, Op::Select(Val(7), Val(6), Val(0))),
                store(F, out, i(), 8),
            ],
        );
        c.check(0.0);
        c.check_same();
        expect_strips(&c, usize::from(n >= 16));
    }
}

#[test]
fn short_bodies_are_repeated() {
    for n in [16, 31, 32, 63, 64, 100, 255, 257, 4097] {
        let mut c = Case::new(&[3, n], Vectorize::Grid);
        let x = c.input(F, numbers(n as u64, 3 * n));
        let b = c.input(F, numbers(7, n));
        let r = c.input(F, numbers(8, 3));
        let out = c.output(F, 3 * n as usize);
        c.stage(
            2,
            &[],
            vec![
                load(F, x, terms(&[(0, n), (1, 1)])),
                load(F, b, terms(&[(1, 1)])),
                load(F, r, terms(&[(0, 1)])),
                binary(BinaryOp::Add, 0, 1),
                binary(BinaryOp::Mul, 3, 2),
                store(F, out, terms(&[(0, n), (1, 1)]), 4),
            ],
        );
        c.check(0.0);
        c.check_same();
        expect_strips(&c, 1);
    }
}

#[test]
fn every_function_gives_the_bits_of_the_narrow_code() {
    use UnaryOp::*;
    let special = [
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::MIN_POSITIVE,
        1e-42,
        -1e-42,
        f32::MAX,
        f32::MIN,
        88.7,
        -87.4,
        -103.9,
        127.5,
        -149.0,
        0.5,
        2.5,
        -3.5,
    ];
    let mut rng = Rng(5);
    let mut values: Vec<Scalar> = special.iter().map(|&x| Scalar::Float(x.into())).collect();
    // all exponents, random fractions
    values.extend((0..2000).map(|_| {
        let x = f32::from_bits(rng.next() as u32);
        Scalar::Float(x.into())
    }));
    values.extend((0..2000).map(|k| Scalar::Float(k as f64 * 0.05 - 50.0).cast(F)));
    let n = values.len() as i64;
    for op in [
        Neg, Abs, Sign, Sqrt, Rsqrt, Reciprocal, Exp, Exp2, Expm1, Log, Log2, Log10, Log1p, Asin,
        Acos, Atan, Sinh, Cosh, Asinh, Acosh, Atanh, Tanh, Sigmoid, Erf, Erfc, Floor, Ceil, Round,
        Trunc, Relu, GeluErf, GeluTanh, Silu, Sin, Cos, Tan,
    ] {
        let mut c = Case::new(&[n], Vectorize::Grid);
        let x = c.input(F, values.clone());
        let out = c.output(F, n as usize);
        c.stage(
            1,
            &[],
            vec![load(F, x, terms(&[(0, 1)])), unary(op, 0), store(F, out, terms(&[(0, 1)]), 1)],
        );
        c.check(0.0);
        c.check_same();
        expect_strips(&c, 1);
    }
}

#[test]
fn truth_values_and_comparisons() {
    use CompareOp::*;
    let n = 500;
    for op in [Eq, Ne, Lt, Le, Gt, Ge] {
        let mut c = Case::new(&[n], Vectorize::Grid);
        let x = c.input(F, numbers(1, n));
        let y = c.input(F, numbers(2, n));
        let out = c.output(F, n as usize);
        let truth = |op, a, b| inst(DType::Bool, Op::Binary(op, Val(a), Val(b)));
        c.stage(
            1,
            &[],
            vec![
                load(F, x, terms(&[(0, 1)])),
                load(F, y, terms(&[(0, 1)])),
                inst(DType::Bool, Op::Compare(op, Val(0), Val(1))),
                unary(UnaryOp::IsNan, 0),
                unary(UnaryOp::IsInf, 1),
                truth(BinaryOp::LogicalOr, 3, 4),
                truth(BinaryOp::LogicalXor, 5, 2),
                inst(DType::Bool, Op::Unary(UnaryOp::LogicalNot, Val(6))),
                truth(BinaryOp::LogicalAnd, 7, 2),
                inst(F, Op::Cast(Val(8))),
                inst(DType::Bool, Op::Cast(Val(0))),
                inst(F, Op::Select(Val(10), Val(9), Val(1))),
                binary(BinaryOp::TruncDiv, 11, 1),
                binary(BinaryOp::Minimum, 12, 0),
                store(F, out, terms(&[(0, 1)]), 13),
            ],
        );
        c.check(0.0);
        c.check_same();
        expect_strips(&c, 1);
    }
}

#[test]
fn what_does_not_qualify_runs_as_before() {
    let n = 100;
    let case = |body: &dyn Fn(u32, u32) -> Vec<Inst>| {
        let mut c = Case::new(&[n], Vectorize::Grid);
        let x = c.input(F, numbers(3, 2 * n));
        let out = c.output(F, 2 * n as usize);
        let body = body(x, out);
        c.stage(1, &[], body);
        c.check(0.0);
        expect_strips(&c, 0);
    };
    let one = || terms(&[(0, 1)]);
    // a stride of what is written, an integer that needs not fit
    case(&|x, o| vec![load(F, x, one()), store(F, o, at(198, &[(0, -2)]), 0)]);
    case(&|x, o| {
        vec![
            load(F, x, one()),
            inst(DType::I64, Op::AxisIndex(AxisId(0))),
            inst(DType::I64, Op::Const(Scalar::Int(1 << 40))),
            inst(DType::I64, Op::Binary(BinaryOp::Add, Val(1), Val(2))),
            inst(F, Op::Cast(Val(3))),
            binary(BinaryOp::Add, 0, 4),
            store(F, o, one(), 5),
        ]
    });
}

/// The part of a matrix below a diagonal, and the column's number besides.
fn triangle(d: DType, m: i64, n: i64, diagonal: i64) -> Case {
    let mut c = Case::new(&[m, n], Vectorize::Grid);
    let mut rng = Rng(n as u64);
    let x = c.input(d, (0..m * n).map(|_| rng.element(d)).collect());
    let out = c.output(d, (m * n) as usize);
    let (i, place) = (DType::I64, || terms(&[(0, n), (1, 1)]));
    c.stage(
        2,
        &[],
        vec![
            inst(i, Op::AxisIndex(AxisId(1))),
            inst(i, Op::AxisIndex(AxisId(0))),
            inst(i, Op::Const(Scalar::Int(diagonal))),
            inst(i, Op::Binary(BinaryOp::Add, Val(1), Val(2))),
            inst(DType::Bool, Op::Compare(CompareOp::Le, Val(0), Val(3))),
            load(d, x, place()),
            inst(d, Op::Const(Scalar::Int(0).cast(d))),
            inst(d, Op::Select(Val(4), Val(5), Val(6))),
            store(d, out, place(), 7),
        ],
    );
    c
}

#[test]
fn positions_are_lanes() {
    for n in (16..=70).chain([1000, 8193]) {
        for d in [F, DType::F64, DType::I64, DType::I32, DType::BF16, DType::F16, DType::U8] {
            let c = triangle(d, 3, n, n / 2);
            c.check(0.0);
            c.check_same();
            // AVX2 has no positions in the rest of a row of short elements
            if isa().bits() == 512 || d.size() >= 4 {
                expect_strips(&c, 1);
            }
        }
    }
}

#[test]
fn truth_is_counted_in_short_lanes() {
    for n in (12..=70).chain([255, 1000, 20000]) {
        let m = 5;
        let mut c = Case::new(&[m], Vectorize::Stage);
        let (x, y) = (c.input(F, numbers(n as u64, m * n)), c.input(F, numbers(3, m * n)));
        let out = c.output(DType::I64, m as usize);
        let row = || terms(&[(0, n), (1, 1)]);
        let (i, count) = (DType::I64, Val(3));
        c.stage(
            1,
            &[n],
            vec![
                load(F, x, row()),
                load(F, y, row()),
                inst(DType::Bool, Op::Compare(CompareOp::Lt, Val(0), Val(1))),
                inst(i, Op::Cast(Val(2))),
                inst(i, Op::Reduce(ReduceOp::Sum, count)),
            ],
        );
        let total = inst(i, Op::Carry { stage: 0, value: Val(4) });
        c.stage(2, &[], vec![total, store(i, out, terms(&[(0, 1)]), 0)]);
        c.check(0.0);
        c.check_same();
        let is_short = isa().bits() > 128;
        assert_eq!(strips(&c) > 0, is_short, "{n}");
    }
}

#[test]
fn sums_of_narrow_numbers_that_wrap() {
    // neither operand is negative, their sum is
    for d in [DType::I8, DType::I16] {
        let (m, n) = (5, 300);
        let most = if d == DType::I8 { 120 } else { 32_000 };
        let mut c = Case::new(&[m], Vectorize::Stage);
        let x = c.input(d, (0..m * n).map(|i| Scalar::Int(most - i % 9).cast(d)).collect());
        let out = c.output(DType::I64, m as usize);
        c.stage(
            1,
            &[n],
            vec![
                load(d, x, terms(&[(0, n), (1, 1)])),
                inst(d, Op::Const(Scalar::Int(0).cast(d))),
                inst(d, Op::Binary(BinaryOp::Maximum, Val(0), Val(1))),
                inst(d, Op::Binary(BinaryOp::Add, Val(2), Val(2))),
                inst(DType::I64, Op::Cast(Val(3))),
                inst(DType::I64, Op::Reduce(ReduceOp::Sum, Val(4))),
            ],
        );
        let total = inst(DType::I64, Op::Carry { stage: 0, value: Val(5) });
        c.stage(2, &[], vec![total, store(DType::I64, out, terms(&[(0, 1)]), 0)]);
        c.check(0.0);
        c.check_same();
    }
}

#[test]
fn numbers_of_half_types_are_moved_as_they_are() {
    // of a NaN every bit stays
    let bits = [0x7f81u16, 0x7fff, 0xffc1, 0x0001, 0x8000, 0x7c01, 0xfc00, 0x3c00];
    for d in [DType::BF16, DType::F16] {
        let n = 100;
        let mut c = Case::new(&[n], Vectorize::Grid);
        let values = (0..n as usize).map(|i| match d {
            DType::BF16 => Scalar::Float(half::bf16::from_bits(bits[i % 8]).to_f64()),
            _ => Scalar::Float(half::f16::from_bits(bits[i % 8]).to_f64()),
        });
        let x = c.input(d, values.collect());
        let out = c.output(d, n as usize);
        c.stage(1, &[], vec![load(d, x, terms(&[(0, 1)])), store(d, out, terms(&[(0, 1)]), 0)]);
        c.check(0.0);
        expect_strips(&c, 1);
    }
}

#[test]
fn functions_of_two_operands_without_a_vector_form() {
    let n = 300;
    for op in [BinaryOp::Pow, BinaryOp::Fmod, BinaryOp::Remainder] {
        for d in [F, DType::F64] {
            let mut rng = Rng(9);
            let mut c = Case::new(&[n], Vectorize::Grid);
            let x = c.input(d, (0..n).map(|_| rng.element(d)).collect());
            let y = c.input(d, (0..n).map(|_| rng.element(d)).collect());
            let out = c.output(d, n as usize);
            let one = || terms(&[(0, 1)]);
            c.stage(
                1,
                &[],
                vec![
                    load(d, x, one()),
                    load(d, y, one()),
                    // something that lives over the calls
                    inst(d, Op::Binary(BinaryOp::Mul, Val(0), Val(1))),
                    inst(d, Op::Binary(op, Val(0), Val(1))),
                    inst(d, Op::Binary(op, Val(1), Val(3))),
                    inst(d, Op::Binary(BinaryOp::Add, Val(2), Val(4))),
                    store(d, out, one(), 5),
                ],
            );
            c.check(0.0);
            c.check_same();
            expect_strips(&c, 1);
        }
    }
}

/// A softmax over rows whose exponentials are kept in a scratch row.
fn softmax(m: i64, n: i64, x: Vec<Scalar>) -> Case {
    let mut c = Case::new(&[m], Vectorize::Stage);
    let x = c.input(F, x);
    let out = c.output(F, (m * n) as usize);
    c.kernel().scratch.push(Scratch { dtype: F, len: n });
    let row = |axis: u32| terms(&[(0, n), (axis, 1)]);
    let scratch = Mem::Scratch(0);
    c.stage(1, &[n], vec![load(F, x, row(1)), inst(F, Op::Reduce(ReduceOp::Max, Val(0)))]);
    c.stage(
        2,
        &[n],
        vec![
            load(F, x, row(2)),
            carry(0, 1),
            binary(BinaryOp::Sub, 0, 1),
            unary(UnaryOp::Exp, 2),
            inst(F, Op::Store { mem: scratch, index: terms(&[(2, 1)]), value: Val(3) }),
            inst(F, Op::Reduce(ReduceOp::Sum, Val(3))),
        ],
    );
    c.stage(
        3,
        &[n],
        vec![
            inst(F, Op::Load { mem: scratch, index: terms(&[(3, 1)]) }),
            carry(1, 5),
            binary(BinaryOp::Div, 0, 1),
            store(F, out, row(3), 2),
        ],
    );
    c
}

#[test]
fn softmax_rows_of_every_length() {
    for n in (1..=70).chain([255, 1000, 20000]) {
        let mut rng = Rng(n as u64);
        let x = (0..3 * n)
            .map(|_| Scalar::Float(rng.below(4000) as f64 * 0.01 - 20.0).cast(F))
            .collect();
        let c = softmax(3, n, x);
        c.check(2e-6);
        expect_strips(&c, if n >= shortest() { 3 } else { 0 });
    }
}

#[test]
fn extremes_see_a_nan_in_any_lane() {
    for n in [16, 37, 64, 130] {
        for at in 0..n {
            for op in [ReduceOp::Max, ReduceOp::Min] {
                let mut x: Vec<Scalar> = (0..n).map(|k| Scalar::Float(k as f64)).collect();
                x[at as usize] = Scalar::Float(f64::NAN);
                let mut c = Case::new(&[1], Vectorize::Stage);
                let x = c.input(F, x);
                let out = c.output(F, 1);
                let reduce = inst(F, Op::Reduce(op, Val(0)));
                c.stage(1, &[n], vec![load(F, x, terms(&[(1, 1)])), reduce]);
                c.stage(2, &[], vec![carry(0, 1), store(F, out, terms(&[]), 0)]);
                c.check(0.0);
            }
        }
    }
}

#[test]
fn sums_of_long_rows_stay_accurate() {
    // a tenth has an error in f32 that a single chain of additions would let grow
    let n = 1_000_003;
    let mut c = Case::new(&[1], Vectorize::Stage);
    let x = c.input(F, vec![Scalar::Float(0.1).cast(F); n as usize]);
    let out = c.output(F, 1);
    let sum = inst(F, Op::Reduce(ReduceOp::Sum, Val(0)));
    c.stage(1, &[n], vec![load(F, x, terms(&[(1, 1)])), sum]);
    c.stage(2, &[], vec![carry(0, 1), store(F, out, terms(&[]), 0)]);
    let got = c.compiled().expect("runs")[out as usize][0].as_f64();
    let want = f64::from(0.1f32) * n as f64;
    // a strip has more chains than 128-bit code, each of them shorter
    let bound = if strips(&c) > 0 { 1e-6 } else { 1e-5 };
    assert!((got / want - 1.0).abs() < bound, "{got} for {want}");
    expect_strips(&c, 1);
}

#[test]
fn values_that_go_to_the_stack_come_back() {
    // 45 values are alive at once
    let (n, many) = (83, 45u32);
    let mut c = Case::new(&[n], Vectorize::Grid);
    let x = c.input(F, numbers(11, n));
    let y = c.input(F, numbers(12, n));
    let out = c.output(F, n as usize);
    let mut body = vec![load(F, x, terms(&[(0, 1)])), load(F, y, terms(&[(0, 1)]))];
    for k in 0..many {
        body.push(constant(f64::from(k) * 0.25 - 3.0));
        let at = body.len() as u32 - 1;
        body.push(inst(F, Op::Fma(Val(0), Val(at), Val(1))));
    }
    let value = |k: u32| Val(3 + 2 * k);
    let mut sum = value(many - 1);
    for k in 0..many {
        body.push(inst(F, Op::Fma(value(k), value(many - 1 - k), sum)));
        sum = Val(body.len() as u32 - 1);
    }
    body.push(store(F, out, terms(&[(0, 1)]), sum.0));
    c.stage(1, &[], body);
    c.check(0.0);
    c.check_same();
    expect_strips(&c, 1);
}

#[test]
fn truth_values_that_are_more_than_registers() {
    // 18 of them are alive at once, besides parameters of the row
    let (rows, n, many) = (3, 45, 18u32);
    let mut c = Case::new(&[rows, n], Vectorize::Grid);
    let x = c.input(F, numbers(21, rows * n));
    let y = c.input(F, numbers(22, n));
    let r = c.input(F, numbers(23, rows));
    let out = c.output(F, (rows * n) as usize);
    let at = || terms(&[(0, n), (1, 1)]);
    let mut body = vec![
        load(F, x, at()),
        load(F, y, terms(&[(1, 1)])),
        load(F, r, terms(&[(0, 1)])),
        binary(BinaryOp::Mul, 1, 2),
    ];
    let mut truths = Vec::new();
    for k in 0..many {
        body.push(constant(f64::from(k) * 0.2 - 1.7));
        let bound = Val(body.len() as u32 - 1);
        let (op, of) = match k % 3 {
            0 => (CompareOp::Lt, Val(0)),
            1 => (CompareOp::Ge, Val(3)),
            _ => (CompareOp::Ne, Val(1)),
        };
        body.push(inst(DType::Bool, Op::Compare(op, of, bound)));
        truths.push(Val(body.len() as u32 - 1));
    }
    // the last ones are read first
    let mut value = Val(3);
    while let Some(truth) = truths.pop() {
        let negated = inst(DType::Bool, Op::Unary(UnaryOp::LogicalNot, truth));
        body.push(negated);
        let not = Val(body.len() as u32 - 1);
        body.push(inst(F, Op::Fma(value, Val(2), Val(0))));
        let other = Val(body.len() as u32 - 1);
        body.push(inst(F, Op::Select(not, value, other)));
        value = Val(body.len() as u32 - 1);
    }
    body.push(store(F, out, at(), value.0));
    c.stage(2, &[], body);
    c.check(0.0);
    c.check_same();
    // AVX-512 has seven mask registers, and Cranelift's loop runs
    expect_strips(&c, usize::from(isa().bits() == 256));
}

#[test]
fn as_many_streams_as_there_are_registers() {
    for streams in 2..=12u32 {
        let n = 75;
        let mut c = Case::new(&[4, n], Vectorize::Grid);
        let mut body = Vec::new();
        for k in 1..streams {
            let x = c.input(F, numbers(u64::from(k), 4 * n));
            body.push(load(F, x, terms(&[(0, n), (1, 1)])));
            if k > 1 {
                let last = body.len() as u32 - 1;
                let sum = if k == 2 { 0 } else { last - 1 };
                body.push(binary(BinaryOp::Add, sum, last));
            }
        }
        let out = c.output(F, 4 * n as usize);
        let last = body.len() as u32 - 1;
        body.push(store(F, out, terms(&[(0, n), (1, 1)]), last));
        c.stage(2, &[], body);
        c.check(0.0);
        c.check_same();
        expect_strips(&c, usize::from(streams <= 10));
    }
}

/// `out[i, j] = x[..] * y[i, j]`, where neighbours in a row of `x` lie apart.
#[test]
fn elements_that_are_not_neighbours() {
    for d in [F, DType::I32, DType::F64, DType::I64] {
        for n in [16, 17, 63, 100, 129] {
            for stride in [-1, 2, -7, 1000] {
                let rows = 2;
                let reach = (n - 1) * i64::abs(stride) + 1;
                let base = if stride < 0 { reach - 1 } else { 0 };
                let mut rng = Rng(n as u64);
                let mut some = |n: i64| -> Vec<Scalar> {
                    (0..n).map(|_| Scalar::Int(rng.below(90) as i64 - 40).cast(d)).collect()
                };
                let mut c = Case::new(&[rows, n], Vectorize::Grid);
                let (x, y) = (some(rows * reach), some(rows * n));
                let (x, y) = (c.input(d, x), c.input(d, y));
                let out = c.output(d, (rows * n) as usize);
                let own = || terms(&[(0, n), (1, 1)]);
                c.stage(
                    2,
                    &[],
                    vec![
                        load(d, x, at(base, &[(0, reach), (1, stride)])),
                        load(d, y, own()),
                        inst(d, Op::Binary(BinaryOp::Mul, Val(0), Val(1))),
                        store(d, out, own(), 2),
                    ],
                );
                c.check(0.0);
                c.check_same();
                expect_strips(&c, 1);
            }
        }
    }
}
