//! Strips on lanes of 8 and 16 bits, against the interpreter and against Cranelift's loops.

use super::*;
use crate::cpu::math::isa;

/// Whether a strip of the kernel goes over its elements by so many vectors of lanes of so many bytes.
fn goes_by(c: &Case, vectors: i32, lane: i32) -> bool {
    let options = PlanOptions { keep_asm: true, ..PlanOptions::default() };
    let plan = Plan::compile(c.schedule.clone(), &options).expect("compiles");
    let step = vectors * isa().bits() as i32 / 8 / lane;
    // add rax, step
    let step: String = step.to_le_bytes().iter().map(|b| format!("{b:02x}")).collect();
    plan.asm().expect("kept").replace('\n', "").contains(&format!("4881c0{step}"))
}

fn some(seed: u64, d: DType, n: i64) -> Vec<Scalar> {
    let mut rng = Rng(seed);
    let mut one = || match d {
        DType::Bool => Scalar::Bool(rng.below(2) == 1),
        _ => rng.element(d),
    };
    (0..n).map(|_| one()).collect()
}

/// `out[i + base] = ops(inputs[i + base] ...)`: the last value of the body.
fn pointwise(n: i64, base: i64, inputs: &[DType], ops: Vec<Inst>) -> Case {
    let mut c = Case::new(&[n], Vectorize::Grid);
    let at = || at(base, &[(0, 1)]);
    let mut body = Vec::new();
    for (k, &d) in inputs.iter().enumerate() {
        let x = c.input(d, some(k as u64 + n as u64, d, n + base));
        body.push(load(d, x, at()));
    }
    body.extend(ops);
    let last = body.len() - 1;
    let d = body[last].dtype;
    let out = c.output(d, (n + base) as usize);
    body.push(store(d, out, at(), last as u32));
    c.stage(1, &[], body);
    c
}

fn check(c: &Case, lane: i32) {
    c.check(0.0);
    c.check_same();
    if isa().bits() > 128 {
        assert!((1..=4).any(|u| goes_by(c, u, lane)), "{:#?}", c.schedule);
    }
}

const NARROW: [DType; 6] = [DType::U8, DType::I8, DType::Bool, DType::I16, DType::BF16, DType::F16];

#[test]
fn elements_are_moved_in_lanes_of_their_length() {
    for d in NARROW {
        for n in (64..=200).chain([255, 256, 257, 1000, 8193]) {
            check(&pointwise(n, n % 5, &[d], vec![]), d.size() as i32);
        }
        for n in 16..64 {
            let c = pointwise(n, 0, &[d], vec![]);
            c.check(0.0);
            c.check_same();
        }
    }
}

#[test]
fn arithmetic_wraps_at_the_width_of_the_lanes() {
    use BinaryOp as B;
    use UnaryOp as U;
    for d in [DType::U8, DType::I8, DType::I16] {
        let lane = d.size() as i32;
        for op in [
            B::Add,
            B::Sub,
            B::Mul,
            B::Maximum,
            B::Minimum,
            B::BitwiseAnd,
            B::BitwiseOr,
            B::BitwiseXor,
        ] {
            for n in [64, 131, 1000] {
                let all = inst(d, Op::Binary(op, Val(0), Val(1)));
                let (low, high) = (all.clone(), inst(d, Op::Binary(op, Val(2), Val(2))));
                check(&pointwise(n, 1, &[d, d], vec![low, high]), lane);
            }
        }
        for op in [U::Neg, U::Abs, U::Sign, U::Relu, U::BitwiseNot] {
            check(&pointwise(133, 1, &[d], vec![inst(d, Op::Unary(op, Val(0)))]), lane);
        }
    }
    // every product of two bytes
    for d in [DType::U8, DType::I8] {
        let byte = |n: i64| Scalar::Int(n).cast(d);
        let n = 1 << 16;
        let mut c = Case::new(&[n], Vectorize::Grid);
        let x = c.input(d, (0..n).map(|i| byte(i & 255)).collect());
        let y = c.input(d, (0..n).map(|i| byte(i >> 8)).collect());
        let one = || terms(&[(0, 1)]);
        let mut body = vec![load(d, x, one()), load(d, y, one())];
        for op in [B::Mul, B::Maximum, B::Minimum] {
            let out = c.output(d, n as usize);
            let at = body.len() as u32;
            body.push(inst(d, Op::Binary(op, Val(0), Val(1))));
            body.push(store(d, out, one(), at));
        }
        for op in [CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge, CompareOp::Eq] {
            let out = c.output(DType::Bool, n as usize);
            let at = body.len() as u32;
            body.push(inst(DType::Bool, Op::Compare(op, Val(0), Val(1))));
            body.push(store(DType::Bool, out, one(), at));
        }
        c.stage(1, &[], body);
        check(&c, 1);
    }
}

#[test]
fn narrow_elements_are_compared_and_chosen() {
    use CompareOp::*;
    for d in [DType::U8, DType::I8] {
        for op in [Eq, Ne, Lt, Le, Gt, Ge] {
            let ops = vec![
                inst(DType::Bool, Op::Compare(op, Val(0), Val(1))),
                inst(DType::Bool, Op::Binary(BinaryOp::LogicalXor, Val(2), Val(3))),
                inst(DType::Bool, Op::Unary(UnaryOp::LogicalNot, Val(4))),
                inst(d, Op::Select(Val(5), Val(0), Val(1))),
                inst(DType::Bool, Op::Compare(op, Val(6), Val(1))),
            ];
            check(&pointwise(300, 1, &[d, d, DType::Bool], ops.clone()), 1);
            check(&pointwise(300, 1, &[d, d, DType::Bool], ops[..4].to_vec()), 1);
        }
        // a number that is not negative is no truth value in memory
        let zero = inst(d, Op::Const(Scalar::Int(0)));
        let more = inst(DType::Bool, Op::Compare(Gt, Val(0), Val(1)));
        check(&pointwise(300, 0, &[d], vec![zero, more]), 1);
        for to in [DType::U8, DType::I8, DType::Bool] {
            check(&pointwise(300, 0, &[d], vec![inst(to, Op::Cast(Val(0)))]), 1);
            check(&pointwise(300, 0, &[DType::Bool], vec![inst(to, Op::Cast(Val(0)))]), 1);
        }
    }
    for d in [DType::BF16, DType::F16] {
        for n in [-0.5, 0.0, f64::NAN, f64::INFINITY] {
            let (x, y) = (inst(d, Op::Const(Scalar::Float(n))), inst(d, Op::Cast(Val(0))));
            check(&pointwise(300, 0, &[d], vec![y, x]), 2);
        }
        // what is computed has longer lanes
        for op in [UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Exp] {
            let c = pointwise(300, 0, &[d], vec![inst(d, Op::Unary(op, Val(0)))]);
            c.check(0.0);
            c.check_same();
        }
        let other = if d == DType::F16 { DType::BF16 } else { DType::F16 };
        for to in [other, DType::I16, DType::Bool] {
            for (from, to) in [(d, to), (to, d)] {
                let c = pointwise(300, 0, &[from], vec![inst(to, Op::Cast(Val(0)))]);
                c.check(0.0);
                c.check_same();
            }
        }
    }
}

#[test]
fn numbers_of_a_row_in_narrow_lanes() {
    // out[i, j] = t[i] ? x[i, j] + r[i] : r[i], or the same without a sum
    for d in NARROW {
        for n in [64, 77, 200] {
            let rows = 3;
            let mut c = Case::new(&[rows, n], Vectorize::Grid);
            let x = c.input(d, some(1, d, rows * n));
            let r = c.input(d, some(2, d, rows));
            let t = c.input(DType::Bool, some(3, DType::Bool, rows));
            let out = c.output(d, (rows * n) as usize);
            let all = || terms(&[(0, n), (1, 1)]);
            let sum = match d.is_half() {
                true => inst(d, Op::Cast(Val(0))),
                false => inst(d, Op::Binary(BinaryOp::Add, Val(0), Val(1))),
            };
            c.stage(
                2,
                &[],
                vec![
                    load(d, x, all()),
                    load(d, r, terms(&[(0, 1)])),
                    load(DType::Bool, t, terms(&[(0, 1)])),
                    sum,
                    inst(d, Op::Select(Val(2), Val(3), Val(1))),
                    store(d, out, all(), 4),
                ],
            );
            match d.is_half() {
                // the number of a row is a float
                true => c.check(0.0),
                false => check(&c, d.size() as i32),
            }
        }
    }
}
