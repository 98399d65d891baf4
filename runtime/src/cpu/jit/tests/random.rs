//! Random bodies over random shapes.

use super::*;

const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

/// Builds a pointwise kernel: loads of random dtypes and strides, a random body, stores of a few
/// results.
fn pointwise(seed: u64) -> Case {
    let mut rng = Rng(seed);
    let rank = 1 + rng.below(3) as usize;
    let extents: Vec<i64> =
        (0..rank).map(|_| rng.pick(&[1, 2, 3, 4, 5, 8, 11, 16, 17, 34])).collect();
    let vectorize = rng.pick(&[Vectorize::Grid, Vectorize::Grid, Vectorize::Grid, Vectorize::None]);
    let mut c = Case::new(&extents, vectorize);
    let mut body: Vec<Inst> = Vec::new();
    for _ in 0..1 + rng.below(3) {
        let d = rng.pick(&DType::ALL);
        // each axis: contiguous order, broadcast, or every second element; axes in random order
        let mut order: Vec<usize> = (0..rank).collect();
        for i in (1..rank).rev() {
            order.swap(i, rng.below(i as u64 + 1) as usize);
        }
        if rng.below(2) == 0 {
            order = (0..rank).collect();
        }
        let base = rng.below(3) as i64;
        let (mut stride, mut t) = (1, Vec::new());
        for &a in order.iter().rev() {
            match rng.below(6) {
                0 => {}
                1 => {
                    t.push((a as u32, stride * 2));
                    stride *= extents[a] * 2;
                }
                _ => {
                    t.push((a as u32, stride));
                    stride *= extents[a];
                }
            }
        }
        let values = (0..base + stride).map(|_| rng.element(d)).collect();
        let b = c.input(d, values);
        body.push(load(d, b, at(base, &t)));
    }
    for _ in 0..2 + rng.below(12) {
        let next = random_inst(&mut rng, &mut body, rank as u32);
        body.push(next);
    }
    let mut stride = 1;
    let mut t = Vec::new();
    for a in (0..rank).rev() {
        t.push((a as u32, stride));
        stride *= extents[a];
    }
    let results = body.len();
    for k in 0..1 + rng.below(2) as usize {
        let v = results - 1 - k.min(results - 1);
        let d = body[v].dtype;
        let y = c.output(d, stride as usize);
        body.push(store(d, y, terms(&t), v as u32));
    }
    c.stage(rank as u32, &[], body);
    c
}

pub(super) fn random_inst(rng: &mut Rng, body: &mut Vec<Inst>, rank: u32) -> Inst {
    use BinaryOp as B;
    use UnaryOp as U;
    let any = |rng: &mut Rng, body: &[Inst]| rng.below(body.len() as u64) as usize;
    let v = any(rng, body);
    let d = body[v].dtype;
    let val = Val(v as u32);
    // another value of the same dtype: an existing one, else a cast of any
    let same = |rng: &mut Rng, body: &mut Vec<Inst>| {
        let found: Vec<usize> = (0..body.len()).filter(|&i| body[i].dtype == d).collect();
        if found.len() > 1 && rng.below(3) != 0 {
            return Val(rng.pick(&found) as u32);
        }
        let from = any(rng, body);
        body.push(inst(d, Op::Cast(Val(from as u32))));
        Val(body.len() as u32 - 1)
    };
    match rng.below(9) {
        0 => inst(rng.pick(&DType::ALL), Op::Cast(val)),
        1 => inst(d, Op::Const(rng.element(d))),
        2 => inst(DType::I64, Op::AxisIndex(AxisId(rng.below(rank.into()) as u32))),
        3 => {
            let w = same(rng, body);
            use CompareOp::*;
            inst(DType::Bool, Op::Compare(rng.pick(&[Eq, Ne, Lt, Le, Gt, Ge]), val, w))
        }
        4 => {
            let w = same(rng, body);
            let from = any(rng, body);
            body.push(inst(DType::Bool, Op::Cast(Val(from as u32))));
            inst(d, Op::Select(Val(body.len() as u32 - 1), val, w))
        }
        5 | 6 => {
            let w = same(rng, body);
            let op = if d == DType::Bool {
                rng.pick(&[B::LogicalAnd, B::LogicalOr, B::LogicalXor, B::BitwiseAnd, B::Maximum])
            } else if d.is_floating() {
                rng.pick(&[
                    B::Add,
                    B::Sub,
                    B::Mul,
                    B::Div,
                    B::FloorDiv,
                    B::TruncDiv,
                    B::Fmod,
                    B::Remainder,
                    B::Maximum,
                    B::Minimum,
                    B::Pow,
                ])
            } else {
                rng.pick(&[
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
                    B::FloorDiv,
                    B::Remainder,
                    B::TruncDiv,
                    B::Fmod,
                ])
            };
            inst(d, Op::Binary(op, val, w))
        }
        7 if FLOATS.contains(&d) && rng.below(2) == 0 => {
            let (w, x) = (same(rng, body), same(rng, body));
            inst(d, Op::Fma(val, w, x))
        }
        _ => {
            let op = if d == DType::Bool {
                U::LogicalNot
            } else if d.is_floating() {
                rng.pick(&[
                    U::Neg,
                    U::Abs,
                    U::Sign,
                    U::Sqrt,
                    U::Rsqrt,
                    U::Reciprocal,
                    U::Exp,
                    U::Log,
                    U::Tanh,
                    U::Sigmoid,
                    U::Floor,
                    U::Ceil,
                    U::Round,
                    U::Trunc,
                    U::Relu,
                    U::IsNan,
                    U::IsInf,
                    U::LogicalNot,
                    U::GeluErf,
                    U::Silu,
                    U::Sin,
                ])
            } else {
                rng.pick(&[U::Neg, U::Abs, U::Sign, U::Relu, U::BitwiseNot, U::LogicalNot])
            };
            let result = match op {
                U::IsNan | U::IsInf | U::LogicalNot => DType::Bool,
                _ => d,
            };
            inst(result, Op::Unary(op, val))
        }
    }
}

/// The number of kernels in a default run of the test. `KERNELS=100000 SEED=7` sets another number
/// and seed.
pub(super) const KERNELS: u64 = 192;

pub(super) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |v| v.parse().expect("a number"))
}

#[test]
fn random_pointwise_kernels() {
    let first = number("SEED", 0);
    let failed: Vec<u64> = (first..first + number("KERNELS", KERNELS))
        .filter(|&seed| std::panic::catch_unwind(|| pointwise(seed).check(0.0)).is_err())
        .collect();
    assert!(failed.is_empty(), "seeds that fail: {failed:?}");
}
