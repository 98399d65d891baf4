//! Kernels that go over the rows of many columns, against the interpreter and against Cranelift's
//! loops.

use super::strips::strips;
use super::*;
use crate::cpu::math::isa;

const F: DType = DType::F32;

/// All stages have strips, or none has.
fn expect_columns(c: &Case, want: bool) {
    let want = want && isa().bits() > 128;
    assert_eq!(strips(c) > 0, want, "{:#?}", c.schedule);
}

fn numbers(seed: u64, d: DType, n: i64) -> Vec<Scalar> {
    let mut rng = Rng(seed);
    (0..n).map(|_| rng.element(d)).collect()
}

/// Small multiples of a quarter, whose sums are exact in any order.
fn exact(seed: u64, d: DType, n: i64) -> Vec<Scalar> {
    let mut rng = Rng(seed);
    (0..n).map(|_| Scalar::Float(rng.below(9) as f64 * 0.25 - 1.0).cast(d)).collect()
}

fn carry(d: DType, stage: u32, value: u32) -> Inst {
    inst(d, Op::Carry { stage, value: Val(value) })
}

/// `out[b, j] = reduce_i x[b, i, j]`, which begins 3 elements after the buffer does.
fn reduced(op: ReduceOp, d: DType, [batch, m, n]: [i64; 3], values: Vec<Scalar>) -> Case {
    let mut c = Case::new(&[batch, n], Vectorize::Grid);
    let x = c.input(d, values);
    let y = c.output(d, (batch * n) as usize);
    let index = at(3, &[(0, m * n), (1, 1), (2, n)]);
    c.stage(2, &[m], vec![load(d, x, index), inst(d, Op::Reduce(op, Val(0)))]);
    c.stage(3, &[], vec![carry(d, 0, 1), store(d, y, terms(&[(0, n), (1, 1)]), 0)]);
    c
}

#[test]
fn every_reduction_of_columns() {
    for n in [63, 64, 65, 79, 100, 128, 1000] {
        for m in [1, 2, 3, 7, 8, 9, 17, 40] {
            for op in [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min] {
                let c = reduced(op, F, [2, m, n], exact(n as u64, F, 2 * m * n + 3));
                c.check(0.0);
                expect_columns(&c, n >= 64);
                let c = reduced(op, F, [2, m, n], numbers(n as u64, F, 2 * m * n + 3));
                c.check_same();
            }
            let c = reduced(ReduceOp::Prod, F, [1, m, n], numbers(n as u64, F, m * n + 3));
            c.check_same();
            expect_columns(&c, n >= 64);
        }
    }
}

#[test]
fn columns_that_are_cut_for_threads() {
    for n in [8192, 8193, 12300] {
        let c = reduced(ReduceOp::Sum, F, [1, 5, n], exact(1, F, 5 * n + 3));
        c.check(0.0);
        expect_columns(&c, true);
    }
}

#[test]
fn long_columns_are_added_up_in_the_blocks_of_cranelift() {
    for m in [255, 256, 300, 1000, 5000] {
        let c = reduced(ReduceOp::Sum, F, [1, m, 67], numbers(m as u64, F, m * 67 + 3));
        c.check_same();
        expect_columns(&c, true);
        let c = reduced(ReduceOp::Sum, F, [1, m, 67], exact(m as u64, F, m * 67 + 3));
        c.check(0.0);
    }
}

/// A softmax over the leading dimension.
fn softmax(m: i64, n: i64) -> Case {
    let mut c = Case::new(&[n], Vectorize::Grid);
    let mut rng = Rng(9);
    let x = (0..m * n).map(|_| Scalar::Float(rng.below(4000) as f64 * 0.01 - 20.0).cast(F));
    let x = c.input(F, x.collect());
    let y = c.output(F, (m * n) as usize);
    let at = |axis: u32| terms(&[(0, 1), (axis, n)]);
    let sub = inst(F, Op::Binary(BinaryOp::Sub, Val(0), Val(1)));
    let exp = inst(F, Op::Unary(UnaryOp::Exp, Val(2)));
    c.stage(1, &[m], vec![load(F, x, at(1)), inst(F, Op::Reduce(ReduceOp::Max, Val(0)))]);
    let sum = inst(F, Op::Reduce(ReduceOp::Sum, Val(3)));
    c.stage(2, &[m], vec![load(F, x, at(2)), carry(F, 0, 1), sub.clone(), exp.clone(), sum]);
    c.stage(
        3,
        &[m],
        vec![
            load(F, x, at(3)),
            carry(F, 0, 1),
            sub,
            exp,
            carry(F, 1, 4),
            inst(F, Op::Binary(BinaryOp::Div, Val(3), Val(4))),
            store(F, y, at(3), 5),
        ],
    );
    c
}

#[test]
fn stages_after_one_another() {
    for (m, n) in [(1, 64), (3, 100), (20, 129), (300, 70), (1030, 200), (2, 9000)] {
        let c = softmax(m, n);
        c.check(2e-6);
        c.check_same();
        expect_columns(&c, true);
    }
}

#[test]
fn several_axes_two_reductions_and_a_factor_of_each_row() {
    // out[j] = sum_{a, b} x[a, b, j] * w[b] and the largest x[a, b, j]
    let (a, b) = (3, 11);
    for n in [64, 90] {
        let mut c = Case::new(&[n], Vectorize::Grid);
        let x = c.input(F, exact(1, F, a * b * n));
        let w = c.input(F, exact(2, F, b));
        let y = c.output(F, n as usize);
        let z = c.output(F, n as usize);
        c.stage(
            1,
            &[a, b],
            vec![
                load(F, x, terms(&[(0, 1), (1, b * n), (2, n)])),
                load(F, w, terms(&[(2, 1)])),
                inst(F, Op::Binary(BinaryOp::Mul, Val(0), Val(1))),
                inst(F, Op::Reduce(ReduceOp::Sum, Val(2))),
                inst(F, Op::Reduce(ReduceOp::Max, Val(0))),
            ],
        );
        let to = || terms(&[(0, 1)]);
        c.stage(
            3,
            &[],
            vec![carry(F, 0, 3), store(F, y, to(), 0), carry(F, 0, 4), store(F, z, to(), 2)],
        );
        c.check(0.0);
        c.check_same();
        expect_columns(&c, true);
    }
}

#[test]
fn a_nan_in_any_row_is_the_extreme_of_its_column() {
    for op in [ReduceOp::Max, ReduceOp::Min] {
        for at in 0..19 {
            let mut x = exact(3, F, 19 * 70 + 3);
            x[3 + at * 70 + 66] = Scalar::Float(f64::NAN);
            let c = reduced(op, F, [1, 19, 70], x);
            c.check(0.0);
        }
    }
}

#[test]
fn no_rows_leave_what_reductions_begin_with() {
    for op in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max] {
        reduced(op, F, [1, 0, 80], numbers(1, F, 3)).check(0.0);
    }
}

#[test]
fn truth_values_of_columns() {
    let b = DType::Bool;
    for n in [64, 79, 130] {
        for (m, op) in [1, 2, 9, 40].into_iter().zip([ReduceOp::Any, ReduceOp::All].repeat(2)) {
            let mut c = Case::new(&[n], Vectorize::Grid);
            // all of a column that has no zero, any of one that has something else
            let mut rng = Rng(m as u64);
            let values = (0..m * n).map(|k| {
                let zero = rng.below(m as u64 + 1) == 0 && k % 3 == 0;
                Scalar::Float(if zero == (op == ReduceOp::All) { 0.0 } else { -2.5 }).cast(F)
            });
            let x = c.input(F, values.collect());
            let y = c.output(b, n as usize);
            let index = terms(&[(0, 1), (1, n)]);
            let body =
                vec![load(F, x, index), inst(b, Op::Cast(Val(0))), inst(b, Op::Reduce(op, Val(1)))];
            c.stage(1, &[m], body);
            c.stage(2, &[], vec![carry(b, 0, 2), store(b, y, terms(&[(0, 1)]), 0)]);
            c.check(0.0);
            c.check_same();
            expect_columns(&c, true);
        }
    }
}
