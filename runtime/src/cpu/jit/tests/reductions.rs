//! Kernels with reductions.

use super::*;

/// Small multiples of a quarter: sums and products are exact in any order.
fn exact(rng: &mut Rng, d: DType, n: usize) -> Vec<Scalar> {
    (0..n).map(|_| Scalar::Float(rng.below(9) as f64 * 0.25 - 1.0).cast(d)).collect()
}

/// `out[i] = reduce_j x[i, j]`, or over the leading dimension.
fn rows(op: ReduceOp, d: DType, m: i64, n: i64, leading: bool) -> Case {
    let mut rng = Rng((m * 1000 + n) as u64);
    let values = exact(&mut rng, d, (m * n) as usize);
    let (grid, vectorize, index) = if leading {
        (n, Vectorize::Grid, terms(&[(0, 1), (1, n)]))
    } else {
        (m, Vectorize::Stage, terms(&[(0, n), (1, 1)]))
    };
    let reduced = if leading { m } else { n };
    let mut c = Case::new(&[grid], vectorize);
    let x = c.input(d, values);
    let y = c.output(d, grid as usize);
    c.stage(1, &[reduced], vec![load(d, x, index), inst(d, Op::Reduce(op, Val(0)))]);
    c.stage(
        2,
        &[],
        vec![inst(d, Op::Carry { stage: 0, value: Val(1) }), store(d, y, terms(&[(0, 1)]), 0)],
    );
    c
}

#[test]
fn rows_and_columns_of_every_length() {
    for n in [0, 1, 3, 4, 5, 8, 17, 64, 67, 1000] {
        for leading in [false, true] {
            rows(ReduceOp::Sum, DType::F32, 3, n, leading).check(0.0);
            rows(ReduceOp::Max, DType::F32, 5, n, leading).check(0.0);
        }
    }
}

#[test]
fn every_reduction_of_every_dtype() {
    use ReduceOp::*;
    for d in DType::ALL {
        let ops: &[ReduceOp] =
            if d == DType::Bool { &[Any, All, Max, Min] } else { &[Sum, Max, Min] };
        for &op in ops {
            for (leading, n) in [(false, 19), (true, 19), (false, 3), (true, 40)] {
                rows(op, d, 7, n, leading).check(0.0);
            }
        }
    }
    for d in [DType::F64, DType::I64, DType::I32] {
        rows(Prod, d, 4, 9, false).check(1e-12);
    }
}

#[test]
fn extremes_propagate_nan() {
    for op in [ReduceOp::Max, ReduceOp::Min] {
        for at in [0, 5, 16, 18] {
            let mut c = rows(op, DType::F32, 2, 19, false);
            c.memory[0][19 + at] = Scalar::Float(f64::NAN);
            c.check(0.0);
            let Scalar::Float(v) = c.compiled().expect("runs")[1][1] else { panic!("a float") };
            assert!(v.is_nan());
        }
    }
}

/// softmax over rows: max, sum of exp, quotient, with the row kept in scratch.
fn softmax(m: i64, n: i64, d: DType, scratch: bool) -> Case {
    let mut rng = Rng((m + n) as u64);
    let mut c = Case::new(&[m], Vectorize::Stage);
    let values = exact(&mut rng, d, (m * n) as usize);
    let x = c.input(d, values);
    let y = c.output(d, (m * n) as usize);
    let row = |axis: u32| terms(&[(0, n), (axis, 1)]);
    if scratch {
        c.kernel().scratch.push(Scratch { dtype: d, len: n });
    }
    let kept = |axis: u32| Op::Load { mem: Mem::Scratch(0), index: terms(&[(axis, 1)]) };
    c.stage(1, &[n], vec![load(d, x, row(1)), inst(d, Op::Reduce(ReduceOp::Max, Val(0)))]);
    let carry = |stage, value| inst(d, Op::Carry { stage, value: Val(value) });
    let mut second = vec![
        load(d, x, row(2)),
        carry(0, 1),
        inst(d, Op::Binary(BinaryOp::Sub, Val(0), Val(1))),
        inst(d, Op::Unary(UnaryOp::Exp, Val(2))),
        inst(d, Op::Reduce(ReduceOp::Sum, Val(3))),
    ];
    if scratch {
        second.push(inst(
            d,
            Op::Store { mem: Mem::Scratch(0), index: terms(&[(2, 1)]), value: Val(3) },
        ));
    }
    c.stage(2, &[n], second);
    let third = if scratch {
        vec![
            inst(d, kept(3)),
            carry(1, 4),
            inst(d, Op::Binary(BinaryOp::Div, Val(0), Val(1))),
            store(d, y, row(3), 2),
        ]
    } else {
        vec![
            load(d, x, row(3)),
            carry(0, 1),
            inst(d, Op::Binary(BinaryOp::Sub, Val(0), Val(1))),
            inst(d, Op::Unary(UnaryOp::Exp, Val(2))),
            carry(1, 4),
            inst(d, Op::Binary(BinaryOp::Div, Val(3), Val(4))),
            store(d, y, row(3), 5),
        ]
    };
    c.stage(3, &[n], third);
    c
}

#[test]
fn softmax_in_one_kernel() {
    for d in [DType::F32, DType::F64] {
        for (m, n) in [(1, 1), (3, 7), (5, 64), (2, 130), (3, 700), (1, 9000)] {
            softmax(m, n, d, false).check(1e-6);
            softmax(m, n, d, true).check(1e-6);
        }
    }
}

#[test]
fn a_nan_reaches_its_row() {
    let n = 300;
    for at in [0, 15, 16, 100, 127, 128, 255, 299] {
        let mut c = softmax(2, n, DType::F32, true);
        c.memory[0][at] = Scalar::Float(f64::NAN);
        let y = &c.compiled().expect("runs")[1];
        let nan = |y: &Scalar| y.as_f64().is_nan();
        assert!(y[..n as usize].iter().all(nan), "{at}");
        assert!(!y[n as usize..].iter().any(nan), "{at}");
    }
}

#[test]
fn grid_kernels_keep_scratch_per_lane() {
    // per column: scratch[k] = x[k, j]; out[j] = sum_k scratch[rows - 1 - k] * k
    let (m, n) = (6, 27);
    let d = DType::F32;
    let mut c = Case::new(&[n], Vectorize::Grid);
    let mut rng = Rng(11);
    let values = exact(&mut rng, d, (m * n) as usize);
    let x = c.input(d, values);
    let y = c.output(d, n as usize);
    c.kernel().scratch.push(Scratch { dtype: d, len: m });
    c.stage(
        1,
        &[m],
        vec![
            load(d, x, terms(&[(0, 1), (1, n)])),
            inst(d, Op::Store { mem: Mem::Scratch(0), index: terms(&[(1, 1)]), value: Val(0) }),
        ],
    );
    c.stage(
        2,
        &[m],
        vec![
            inst(d, Op::Load { mem: Mem::Scratch(0), index: at(m - 1, &[(2, -1)]) }),
            inst(DType::I64, Op::AxisIndex(AxisId(2))),
            inst(d, Op::Cast(Val(1))),
            inst(d, Op::Binary(BinaryOp::Mul, Val(0), Val(2))),
            inst(d, Op::Reduce(ReduceOp::Sum, Val(3))),
        ],
    );
    c.stage(
        3,
        &[],
        vec![inst(d, Op::Carry { stage: 1, value: Val(4) }), store(d, y, terms(&[(0, 1)]), 0)],
    );
    c.check(0.0);
}

#[test]
fn several_stage_axes_and_two_reductions_at_once() {
    for vectorize in [Vectorize::Stage, Vectorize::Grid, Vectorize::None] {
        let (g, a, b) = (9, 3, 21);
        let d = DType::F32;
        let mut c = Case::new(&[g], vectorize);
        let mut rng = Rng(2);
        let values = exact(&mut rng, d, (g * a * b) as usize);
        let x = c.input(d, values);
        let y = c.output(d, g as usize);
        let z = c.output(d, g as usize);
        c.stage(
            1,
            &[a, b],
            vec![
                load(d, x, terms(&[(0, a * b), (1, b), (2, 1)])),
                inst(d, Op::Reduce(ReduceOp::Sum, Val(0))),
                inst(d, Op::Reduce(ReduceOp::Min, Val(0))),
            ],
        );
        let carry = |v| inst(d, Op::Carry { stage: 0, value: Val(v) });
        c.stage(
            3,
            &[],
            vec![
                carry(1),
                store(d, y, terms(&[(0, 1)]), 0),
                carry(2),
                store(d, z, terms(&[(0, 1)]), 2),
            ],
        );
        c.check(0.0);
    }
}

#[test]
fn arg_reductions_take_the_first_and_prefer_nan() {
    for vectorize in [Vectorize::Stage, Vectorize::Grid, Vectorize::None] {
        for max in [true, false] {
            for (d, nan) in [(DType::F32, true), (DType::F64, false), (DType::I32, false)] {
                let (m, n) = (11, 13);
                let mut c = Case::new(&[m], vectorize);
                let mut rng = Rng(5);
                let mut values = exact(&mut rng, d, (m * n) as usize);
                if nan {
                    for k in [14, 40, 45] {
                        values[k] = Scalar::Float(f64::NAN);
                    }
                }
                let x = c.input(d, values);
                let y = c.output(DType::I64, m as usize);
                let i = DType::I64;
                c.stage(
                    1,
                    &[n],
                    vec![
                        load(d, x, terms(&[(0, n), (1, 1)])),
                        inst(i, Op::ArgReduce { max, value: Val(0) }),
                    ],
                );
                c.stage(
                    2,
                    &[],
                    vec![
                        inst(i, Op::Carry { stage: 0, value: Val(1) }),
                        store(i, y, terms(&[(0, 1)]), 0),
                    ],
                );
                c.check(0.0);
            }
        }
    }
}

#[test]
fn large_kernels_run_on_the_thread_pool() {
    let c = softmax(300, 257, DType::F32, true);
    c.check(1e-6);
    let c = rows(ReduceOp::Sum, DType::F32, 40, 9001, true);
    c.check(0.0);
}

#[test]
fn long_sums_keep_their_precision() {
    // the same number many times over is the worst case: one chain of additions would be off by 1 %
    let n = 1_000_003;
    for (leading, m) in [(false, 1), (true, 5)] {
        let (rows_, cols) = if leading { (n, m) } else { (m, n) };
        let mut c = rows(ReduceOp::Sum, DType::F32, rows_, cols, leading);
        c.memory[0] = vec![Scalar::Float(0.1f32.into()); (n * m) as usize];
        let got = c.compiled().expect("runs");
        let want = f64::from(0.1f32) * n as f64;
        for v in &got[1] {
            let relative = (v.as_f64() - want).abs() / want;
            assert!(relative < 1e-5, "{relative} off");
        }
    }
}
