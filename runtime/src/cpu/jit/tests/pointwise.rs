//! Kernels without reductions.

use super::*;

fn numbers(rng: &mut Rng, d: DType, n: usize) -> Vec<Scalar> {
    (0..n).map(|_| rng.element(d)).collect()
}

#[test]
fn every_extent_around_the_vector_sizes() {
    for n in [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 100, 8192, 8193, 20000] {
        let mut c = Case::new(&[n], Vectorize::Grid);
        let mut rng = Rng(n as u64);
        let x = numbers(&mut rng, DType::F32, n as usize);
        let x = c.input(DType::F32, x);
        let y = c.output(DType::F32, n as usize);
        let f = |op| inst(DType::F32, op);
        c.stage(
            1,
            &[],
            vec![
                load(DType::F32, x, terms(&[(0, 1)])),
                f(Op::Const(Scalar::Float(1.5))),
                f(Op::Binary(BinaryOp::Mul, Val(0), Val(1))),
                f(Op::Unary(UnaryOp::Relu, Val(2))),
                store(DType::F32, y, terms(&[(0, 1)]), 3),
            ],
        );
        c.check(0.0);
    }
}

#[test]
fn broadcast_strided_transposed_and_offset_operands() {
    // out[i, j] = a[j, i] * b[i] - c[2 j + 3] + d[j]
    for (m, n) in [(3, 5), (4, 8), (7, 19), (1, 16), (16, 1), (2, 9000)] {
        let mut c = Case::new(&[m, n], Vectorize::Grid);
        let mut rng = Rng((m * 100 + n) as u64);
        let d = DType::F64;
        let mut buf = |c: &mut Case, len: i64| {
            let v = numbers(&mut rng, d, len as usize);
            c.input(d, v)
        };
        let a = buf(&mut c, m * n);
        let b = buf(&mut c, m);
        let s = buf(&mut c, 2 * n + 3);
        let r = buf(&mut c, n);
        let y = c.output(d, (m * n) as usize);
        c.stage(
            2,
            &[],
            vec![
                load(d, a, terms(&[(0, 1), (1, m)])),
                load(d, b, terms(&[(0, 1)])),
                load(d, s, at(3, &[(1, 2)])),
                load(d, r, terms(&[(1, 1)])),
                inst(d, Op::Fma(Val(0), Val(1), Val(3))),
                inst(d, Op::Binary(BinaryOp::Sub, Val(4), Val(2))),
                store(d, y, terms(&[(0, n), (1, 1)]), 5),
            ],
        );
        c.check(0.0);
    }
}

#[test]
fn every_dtype_is_loaded_converted_and_stored() {
    for from in DType::ALL {
        for to in DType::ALL {
            let n = 37;
            let mut c = Case::new(&[n], Vectorize::Grid);
            let mut rng = Rng(from as u64 * 16 + to as u64);
            let x = numbers(&mut rng, from, n as usize);
            let x = c.input(from, x);
            let y = c.output(to, n as usize);
            c.stage(
                1,
                &[],
                vec![
                    load(from, x, terms(&[(0, 1)])),
                    inst(to, Op::Cast(Val(0))),
                    store(to, y, terms(&[(0, 1)]), 1),
                ],
            );
            c.check(0.0);
        }
    }
}

#[test]
fn all_half_precision_values_survive_a_round_trip() {
    for d in [DType::F16, DType::BF16] {
        let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        let mut c = Case::new(&[65536], Vectorize::Grid);
        let x = c.input(d, from_bytes(&all, d));
        let y = c.output(DType::F32, 65536);
        let z = c.output(d, 65536);
        c.stage(
            1,
            &[],
            vec![
                load(d, x, terms(&[(0, 1)])),
                inst(DType::F32, Op::Cast(Val(0))),
                store(DType::F32, y, terms(&[(0, 1)]), 1),
                inst(d, Op::Cast(Val(1))),
                store(d, z, terms(&[(0, 1)]), 3),
            ],
        );
        c.check(0.0);
    }
}

#[test]
fn every_math_function_in_both_widths() {
    use UnaryOp::*;
    for d in [DType::F32, DType::F64] {
        for op in [
            Neg, Abs, Sign, Sqrt, Rsqrt, Reciprocal, Exp, Exp2, Expm1, Log, Log2, Log10, Log1p,
            Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Asinh, Acosh, Atanh, Tanh, Sigmoid, Erf,
            Erfc, Floor, Ceil, Round, Trunc, Relu, GeluErf, GeluTanh, Silu,
        ] {
            let n = 61;
            let mut c = Case::new(&[n], Vectorize::Grid);
            let mut rng = Rng(7);
            let mut x = numbers(&mut rng, d, n as usize);
            // large arguments take the slow path of the trigonometric functions
            x[5] = Scalar::Float(1e7);
            x[40] = Scalar::Float(-3e30).cast(d);
            let x = c.input(d, x);
            let y = c.output(d, n as usize);
            c.stage(
                1,
                &[],
                vec![
                    load(d, x, terms(&[(0, 1)])),
                    inst(d, Op::Unary(op, Val(0))),
                    store(d, y, terms(&[(0, 1)]), 1),
                ],
            );
            c.check(0.0);
        }
    }
}

#[test]
fn gather_checks_its_index() {
    // out[i, j] = table[index[i], j]
    let run = |indices: &[i64], wrap: bool| {
        let (rows, width) = (6, 11);
        let m = indices.len() as i64;
        let mut c = Case::new(&[m, width], Vectorize::Grid);
        let mut rng = Rng(3);
        let table = numbers(&mut rng, DType::F32, (rows * width) as usize);
        let table = c.input(DType::F32, table);
        let ix = c.input(DType::I64, indices.iter().map(|&i| Scalar::Int(i)).collect());
        let y = c.output(DType::F32, (m * width) as usize);
        let mut row = terms(&[(1, 1)]);
        row.dynamic.push((Val(1), width));
        c.stage(
            2,
            &[],
            vec![
                load(DType::I64, ix, terms(&[(0, 1)])),
                inst(DType::I64, Op::CheckIndex { index: Val(0), size: rows, wrap }),
                load(DType::F32, table, row),
                store(DType::F32, y, terms(&[(0, width), (1, 1)]), 2),
            ],
        );
        c
    };
    run(&[0, 5, -1, -6, 3], true).check(0.0);
    run(&[0, 5, 3], false).check(0.0);
    for (bad, wrap) in [
        (6, true),
        (-7, true),
        (i64::MAX, true),
        (i64::MIN, true),
        (-1, false),
        (6, false),
        (i64::MIN, false),
    ] {
        let c = run(&[0, 1, bad], wrap);
        match c.compiled() {
            Err(PlanError::IndexOutOfRange { step: 0, index, size: 6, .. }) => {
                assert_eq!(index, bad)
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_index_that_differs_per_lane_gathers() {
    // out[i] = x[(i * 7) % n]
    let n = 29i64;
    let mut c = Case::new(&[n], Vectorize::Grid);
    let mut rng = Rng(4);
    let x = numbers(&mut rng, DType::I16, n as usize);
    let x = c.input(DType::I16, x);
    let y = c.output(DType::I16, n as usize);
    let i = DType::I64;
    let mut gathered = at(0, &[]);
    gathered.dynamic.push((Val(5), 1));
    c.stage(
        1,
        &[],
        vec![
            inst(i, Op::AxisIndex(AxisId(0))),
            inst(i, Op::Const(Scalar::Int(7))),
            inst(i, Op::Binary(BinaryOp::Mul, Val(0), Val(1))),
            inst(i, Op::Const(Scalar::Int(n))),
            inst(i, Op::Binary(BinaryOp::Remainder, Val(2), Val(3))),
            inst(i, Op::CheckIndex { index: Val(4), size: n, wrap: false }),
            load(DType::I16, x, gathered),
            store(DType::I16, y, terms(&[(0, 1)]), 6),
        ],
    );
    c.check(0.0);
}

#[test]
fn integer_division_by_zero_is_an_error() {
    for (op, d) in [(BinaryOp::FloorDiv, DType::I32), (BinaryOp::Remainder, DType::U8)] {
        let mut c = Case::new(&[9], Vectorize::Grid);
        let x = c.input(d, vec![Scalar::Int(5); 9]);
        let mut divisors = vec![Scalar::Int(2); 9];
        divisors[6] = Scalar::Int(0);
        let z = c.input(d, divisors);
        let y = c.output(d, 9);
        c.stage(
            1,
            &[],
            vec![
                load(d, x, terms(&[(0, 1)])),
                load(d, z, terms(&[(0, 1)])),
                inst(d, Op::Binary(op, Val(0), Val(1))),
                store(d, y, terms(&[(0, 1)]), 2),
            ],
        );
        let error = c.compiled().expect_err("divides by zero").to_string();
        assert!(error.starts_with("ZeroDivisionError"), "{error}");
    }
}

#[test]
fn a_constant_buffer_is_read_in_place() {
    let mut c = Case::new(&[10], Vectorize::Grid);
    let k = c.constant(DType::F32, (0..10).map(|i| Scalar::Float(i.into())).collect());
    let y = c.output(DType::F32, 10);
    c.stage(
        1,
        &[],
        vec![load(DType::F32, k, at(9, &[(0, -1)])), store(DType::F32, y, terms(&[(0, 1)]), 0)],
    );
    c.check(0.0);
}
