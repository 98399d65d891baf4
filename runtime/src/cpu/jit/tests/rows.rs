//! Several rows that are reduced at once.

use super::*;
use crate::cpu::math::isa;

/// How many kernels take several rows at once.
fn several(c: &Case) -> usize {
    let options = PlanOptions { keep_asm: true, ..PlanOptions::default() };
    let plan = Plan::compile(c.schedule.clone(), &options).expect("compiles");
    plan.asm().expect("kept").matches("; rows_").count()
}

fn expect_several(c: &Case, want: bool) {
    let want = usize::from(want && isa().bits() > 128);
    assert_eq!(several(c), want, "{:#?}", c.schedule);
}

fn numbers(d: DType, seed: u64, n: i64) -> Vec<Scalar> {
    let mut rng = Rng(seed);
    (0..n).map(|_| Scalar::Float(rng.below(4000) as f64 * 0.013 - 20.0).cast(d)).collect()
}

/// `out[i] = 3 + reduce_j x[i, j]` of rows that lie `apart` elements from each other.
fn reduced(op: ReduceOp, d: DType, [m, n]: [i64; 2], x: Vec<Scalar>) -> Case {
    let apart = x.len() as i64 / m;
    let mut c = Case::new(&[m], Vectorize::Stage);
    let x = c.input(d, x);
    let out = c.output(d, m as usize);
    let row = terms(&[(0, apart), (1, 1)]);
    c.stage(1, &[n], vec![load(d, x, row), inst(d, Op::Reduce(op, Val(0)))]);
    let body = vec![
        inst(d, Op::Carry { stage: 0, value: Val(1) }),
        inst(d, Op::Const(Scalar::Int(3))),
        inst(d, Op::Binary(BinaryOp::Add, Val(0), Val(1))),
        store(d, out, terms(&[(0, 1)]), 2),
    ];
    c.stage(2, &[], body);
    c
}

#[test]
fn a_row_does_not_depend_on_the_rows_it_is_taken_with() {
    for n in [12, 15, 16, 37, 64, 100, 130, 1000, 4096, 20_000] {
        let most = if n > 1000 { 5 } else { 9 };
        for m in [1, 2, 3, 4, most] {
            let x = numbers(F32, (n * m) as u64, m * n);
            let c = reduced(ReduceOp::Sum, F32, [m, n], x.clone());
            c.check(3e-5);
            // vectors of 256 bits take long rows one after the other
            expect_several(&c, m > 1 && (n < 1024 || isa().bits() == 512));
            let all = c.compiled().expect("runs");
            for row in 0..m as usize {
                let own = x[row * n as usize..(row + 1) * n as usize].to_vec();
                let alone = reduced(ReduceOp::Sum, F32, [1, n], own).compiled().expect("runs");
                assert_eq!(all[1][row], alone[1][0]);
            }
        }
    }
}

const F32: DType = DType::F32;

#[test]
fn rows_of_every_dtype() {
    use ReduceOp::{Max, Min, Prod, Sum};
    for d in [F32, DType::F64, DType::I64, DType::I32, DType::I16, DType::U8, DType::BF16] {
        for op in [Sum, Max, Min, Prod] {
            // halves are summed as `f32`, and products would go beyond what they hold
            if matches!(op, Sum | Prod) && (d.is_half() || op == Prod && d.is_floating()) {
                continue;
            }
            for n in [13, 16, 50, 129] {
                let c = reduced(op, d, [7, n], numbers(d, n as u64, 7 * (n + 3)));
                c.check(if d == F32 { 3e-5 } else { 1e-12 });
                let product = op == Prod && d == DType::I64 && isa().bits() == 256;
                expect_several(&c, !product);
            }
        }
    }
}

#[test]
fn a_nan_stays_in_its_row() {
    let (m, n) = (6, 70);
    for at in 0..m * n {
        let mut x = numbers(F32, 3, m * n);
        x[at as usize] = Scalar::Float(f64::NAN);
        reduced(ReduceOp::Max, F32, [m, n], x).check(0.0);
    }
}

#[test]
fn several_reductions_of_several_operands() {
    // a row of `x` with a vector that all rows share, and a sum that is not one of rows
    for (m, n, deep) in [(11, 48, 3), (8, 33, 1), (2, 500, 2)] {
        let mut c = Case::new(&[m], Vectorize::Stage);
        let x = c.input(F32, numbers(F32, 1, m * n * deep));
        let w = c.input(F32, numbers(F32, 2, n));
        let bias = c.input(F32, numbers(F32, 3, m));
        let out = c.output(F32, 2 * m as usize);
        c.stage(
            1,
            &[deep, n],
            vec![
                load(F32, x, terms(&[(0, n), (1, m * n), (2, 1)])),
                load(F32, w, terms(&[(2, 1)])),
                inst(F32, Op::Unary(UnaryOp::Abs, Val(1))),
                inst(F32, Op::Binary(BinaryOp::Mul, Val(0), Val(2))),
                inst(F32, Op::Reduce(ReduceOp::Sum, Val(3))),
                inst(F32, Op::Reduce(ReduceOp::Max, Val(0))),
            ],
        );
        c.stage(
            3,
            &[],
            vec![
                inst(F32, Op::Carry { stage: 0, value: Val(4) }),
                load(F32, bias, terms(&[(0, 1)])),
                inst(F32, Op::Binary(BinaryOp::Add, Val(0), Val(1))),
                store(F32, out, terms(&[(0, 2)]), 2),
            ],
        );
        c.stage(
            3,
            &[],
            vec![
                inst(F32, Op::Carry { stage: 0, value: Val(5) }),
                store(F32, out, at(1, &[(0, 2)]), 0),
            ],
        );
        c.check(3e-5);
        // a row has eight accumulators, and AVX2 sixteen registers
        expect_several(&c, isa().bits() == 512);
    }
}

#[test]
fn rows_that_are_not_reduced_alone() {
    // a factor of each row, a stage that writes, and rows of a grid of two axes
    let (m, n) = (8, 40);
    let factor = {
        let mut c = Case::new(&[m], Vectorize::Stage);
        let x = c.input(F32, numbers(F32, 1, m * n));
        let r = c.input(F32, numbers(F32, 2, m));
        let out = c.output(F32, m as usize);
        c.stage(
            1,
            &[n],
            vec![
                load(F32, x, terms(&[(0, n), (1, 1)])),
                load(F32, r, terms(&[(0, 1)])),
                inst(F32, Op::Binary(BinaryOp::Mul, Val(0), Val(1))),
                inst(F32, Op::Reduce(ReduceOp::Sum, Val(2))),
            ],
        );
        let carry = inst(F32, Op::Carry { stage: 0, value: Val(3) });
        c.stage(2, &[], vec![carry, store(F32, out, terms(&[(0, 1)]), 0)]);
        c
    };
    let grid = {
        let mut c = Case::new(&[3, m], Vectorize::Stage);
        let x = c.input(F32, numbers(F32, 1, 3 * m * (n + 1)));
        let out = c.output(F32, 3 * m as usize);
        let row = terms(&[(0, m * (n + 1)), (1, n), (2, 1)]);
        c.stage(2, &[n], vec![load(F32, x, row), inst(F32, Op::Reduce(ReduceOp::Sum, Val(0)))]);
        let carry = inst(F32, Op::Carry { stage: 0, value: Val(1) });
        c.stage(3, &[], vec![carry, store(F32, out, terms(&[(0, m), (1, 1)]), 0)]);
        c
    };
    for c in [factor, grid] {
        c.check(3e-5);
        expect_several(&c, false);
    }
}

/// The positions of the first extremes of rows, and whether any (all) of the truth values beside
/// them hold.
fn found(d: DType, max: bool, [m, deep, n]: [i64; 3], x: Vec<Scalar>) -> Case {
    let (b, i) = (DType::Bool, DType::I64);
    let mut c = Case::new(&[m], Vectorize::Stage);
    let x = c.input(d, x);
    let place = c.output(i, m as usize);
    let value = c.output(d, m as usize);
    let truth = c.output(b, m as usize);
    let op = if max { ReduceOp::Max } else { ReduceOp::Min };
    let gathered = if max { ReduceOp::Any } else { ReduceOp::All };
    c.stage(
        1,
        &[deep, n],
        vec![
            load(d, x, terms(&[(0, deep * n), (1, n), (2, 1)])),
            inst(i, Op::ArgReduce { max, value: Val(0) }),
            inst(d, Op::Reduce(op, Val(0))),
            inst(b, Op::Cast(Val(0))),
            inst(b, Op::Reduce(gathered, Val(3))),
        ],
    );
    let carry = |d: DType, v: u32| inst(d, Op::Carry { stage: 0, value: Val(v) });
    let body = vec![
        carry(i, 1),
        store(i, place, terms(&[(0, 1)]), 0),
        carry(d, 2),
        store(d, value, terms(&[(0, 1)]), 2),
        carry(b, 4),
        store(b, truth, terms(&[(0, 1)]), 4),
    ];
    c.stage(3, &[], body);
    c
}

/// How many strips of rows there are, alone or several.
fn alone(c: &Case) -> usize {
    super::strips::strips(c)
}

#[test]
fn the_first_of_equal_extremes_is_found() {
    for d in [F32, DType::F64, DType::I64, DType::I32, DType::I8, DType::U8, DType::F16] {
        for n in [12, 16, 37, 64, 130, 700] {
            for max in [true, false] {
                let (m, deep) = (5, 1 + n % 3);
                let mut rng = Rng(n as u64);
                // few numbers, so that most extremes are there several times
                let mut x: Vec<Scalar> = (0..m * deep * n)
                    .map(|_| Scalar::Float(rng.below(5) as f64 - 1.0).cast(d))
                    .collect();
                let (row, all) = ((deep * n) as usize, x.len());
                if d.is_floating() {
                    // a row with NaN twice, and one in which nothing is beyond where a search begins
                    let nan = Scalar::Float(f64::NAN);
                    (x[row + row / 2], x[2 * row - 1]) = (nan, nan);
                    let end = if max { f64::NEG_INFINITY } else { f64::INFINITY };
                    x[all - row..].fill(Scalar::Float(end));
                } else {
                    x[all - row..].fill(Scalar::Int(0).cast(d));
                }
                let c = found(d, max, [m, deep, n], x);
                c.check(0.0);
                c.check_same();
                assert_eq!(alone(&c), usize::from(isa().bits() > 128), "{:#?}", c.schedule);
            }
        }
    }
}

#[test]
fn an_extreme_is_found_in_every_place() {
    let n = 83;
    for at in 0..n {
        let mut x = numbers(F32, 9, 2 * n);
        x[at as usize] = Scalar::Float(50.0);
        x[(2 * n - 1 - at) as usize] = Scalar::Float(-50.0);
        for max in [true, false] {
            found(F32, max, [2, 1, n], x.clone()).check(0.0);
        }
    }
}
