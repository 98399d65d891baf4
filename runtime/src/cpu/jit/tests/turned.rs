//! Operands that are transposed beside others, which strips read from tiles.

use super::strips::strips;
use super::*;
use crate::cpu::math::isa;

const DTYPES: [DType; 9] = [
    DType::F32,
    DType::F64,
    DType::BF16,
    DType::F16,
    DType::I64,
    DType::I32,
    DType::I16,
    DType::U8,
    DType::Bool,
];

fn some(seed: u64, d: DType, n: i64) -> Vec<Scalar> {
    let mut rng = Rng(seed);
    let mut one = || match d {
        DType::Bool => Scalar::Bool(rng.below(2) == 1),
        _ => Scalar::Int(rng.below(90) as i64 - 40).cast(d),
    };
    (0..n).map(|_| one()).collect()
}

fn check(c: &Case) {
    c.check(0.0);
    c.check_same();
    if isa().bits() > 128 {
        assert_eq!(strips(c), 1, "{:#?}", c.schedule);
    }
}

/// `out[b, i, j] = x[b, j, i] * y[b, i, j] + r[i] + c[j]`
fn transposed(d: DType, batch: i64, m: i64, n: i64) -> Case {
    let mut c = Case::new(&[batch, m, n], Vectorize::Grid);
    let all = batch * m * n;
    let (x, y) = (c.input(d, some(1, d, all + 1)), c.input(d, some(2, d, all)));
    let (r, s) = (c.input(d, some(3, d, m)), c.input(d, some(4, d, n)));
    let out = c.output(d, all as usize);
    let own = || terms(&[(0, m * n), (1, n), (2, 1)]);
    let binary = |op, a, b| inst(d, Op::Binary(op, Val(a), Val(b)));
    c.stage(
        3,
        &[],
        vec![
            load(d, x, at(1, &[(0, m * n), (2, m), (1, 1)])),
            load(d, y, own()),
            load(d, r, terms(&[(1, 1)])),
            load(d, s, terms(&[(2, 1)])),
            binary(BinaryOp::Mul, 0, 1),
            binary(BinaryOp::Add, 4, 2),
            binary(BinaryOp::Add, 5, 3),
            store(d, out, own(), 6),
        ],
    );
    c
}

#[test]
fn a_transposed_operand_of_every_dtype() {
    for d in DTYPES {
        for (m, n) in [(16, 16), (17, 40), (33, 300), (100, 64), (65, 129), (130, 17)] {
            check(&transposed(d, 1, m, n));
        }
    }
    for d in [DType::F32, DType::BF16, DType::U8] {
        // rows that are cut into ranges, and several matrices
        check(&transposed(d, 1, 20, 8500));
        check(&transposed(d, 3, 70, 50));
    }
}

#[test]
fn all_operands_transposed() {
    for d in DTYPES {
        let (m, n) = (70, 170);
        let mut c = Case::new(&[m, n], Vectorize::Grid);
        let inputs = [1, 2, 3].map(|k| c.input(d, some(k, d, m * n)));
        let out = c.output(d, (m * n) as usize);
        let across = || terms(&[(0, 1), (1, m)]);
        let mut body: Vec<Inst> = inputs.iter().map(|x| load(d, *x, across())).collect();
        body.push(inst(d, Op::Binary(BinaryOp::Add, Val(0), Val(1))));
        body.push(inst(d, Op::Binary(BinaryOp::Mul, Val(3), Val(2))));
        body.push(store(d, out, terms(&[(0, n), (1, 1)]), 4));
        c.stage(2, &[], body);
        check(&c);
    }
}

#[test]
fn elements_of_several_lengths_transposed() {
    let (m, n) = (50, 90);
    let mut c = Case::new(&[m, n], Vectorize::Grid);
    let x = c.input(DType::F32, some(1, DType::F32, m * n));
    let t = c.input(DType::Bool, some(2, DType::Bool, m * n));
    let h = c.input(DType::BF16, some(3, DType::BF16, m * n));
    let out = c.output(DType::F32, (m * n) as usize);
    let across = || terms(&[(0, 1), (1, m)]);
    c.stage(
        2,
        &[],
        vec![
            load(DType::F32, x, across()),
            load(DType::Bool, t, across()),
            load(DType::BF16, h, across()),
            inst(DType::F32, Op::Cast(Val(2))),
            inst(DType::F32, Op::Select(Val(1), Val(0), Val(3))),
            inst(DType::F32, Op::Unary(UnaryOp::GeluErf, Val(4))),
            store(DType::F32, out, terms(&[(0, n), (1, 1)]), 5),
        ],
    );
    check(&c);
}

#[test]
fn what_is_transposed_along_another_axis() {
    // out[i, j, k] = x[k, j, i] + y[i, j, k]; out[i, j, k] = x[i, k, j]
    let (a, b, n) = (20, 18, 37);
    for (strides, d) in [([1, a, a * b], DType::F32), ([b * n, 1, b], DType::BF16)] {
        let mut c = Case::new(&[a, b, n], Vectorize::Grid);
        let (x, y) = (c.input(d, some(1, d, a * b * n)), c.input(d, some(2, d, a * b * n)));
        let out = c.output(d, (a * b * n) as usize);
        let own = || terms(&[(0, b * n), (1, n), (2, 1)]);
        c.stage(
            3,
            &[],
            vec![
                load(d, x, terms(&[(0, strides[0]), (1, strides[1]), (2, strides[2])])),
                load(d, y, own()),
                inst(d, Op::Binary(BinaryOp::Add, Val(0), Val(1))),
                store(d, out, own(), 2),
            ],
        );
        check(&c);
    }
}

#[test]
fn positions_beside_a_transposed_operand() {
    let (m, n) = (40, 300);
    let d = DType::F32;
    let mut c = Case::new(&[m, n], Vectorize::Grid);
    let x = c.input(d, some(1, d, m * n));
    let out = c.output(d, (m * n) as usize);
    let i = DType::I64;
    c.stage(
        2,
        &[],
        vec![
            load(d, x, terms(&[(0, 1), (1, m)])),
            inst(i, Op::AxisIndex(AxisId(0))),
            inst(i, Op::AxisIndex(AxisId(1))),
            inst(DType::Bool, Op::Compare(CompareOp::Le, Val(2), Val(1))),
            inst(d, Op::Const(Scalar::Float(0.0))),
            inst(d, Op::Select(Val(3), Val(0), Val(4))),
            store(d, out, terms(&[(0, n), (1, 1)]), 5),
        ],
    );
    check(&c);
}
