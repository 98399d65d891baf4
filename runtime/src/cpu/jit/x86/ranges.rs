//! Which 64-bit integers of a stage fit into 32 bits: positions along axes, truth values that are
//! counted, narrow integers. A stage whose other values have 32 bits has them in lanes as long.

use crate::cpu::jit::analyse::StageFacts;
use crate::cpu::jit::sizes::{Axis, Kernel, Op, Size, Sizes, Stage};
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::{BinaryOp, ReduceOp, Val};

/// What an extent that varies is bound by, where it is.
const BOUND: i64 = 1 << 24;

type Range = (i64, i64);

/// The dtypes of a stage's instructions as a strip has them in lanes: 64-bit integers as 32-bit ones
/// where all that varies fits into these.
pub(super) fn lane_dtypes(
    kernel: &Kernel,
    stage: &Stage,
    facts: &StageFacts,
    sizes: &Sizes,
) -> Vec<DType> {
    let axes = || kernel.grid.iter().chain(&stage.axes);
    let bound = |extent: Size| match extent.fixed() {
        Some(n) => Some(n),
        None => sizes.ask(extent, |n| n <= BOUND).then_some(BOUND),
    };
    let mut ranges: Vec<Option<Range>> = Vec::new();
    for inst in &stage.body {
        let of = |v: Val| ranges[v.0 as usize];
        let range = match &inst.op {
            Op::AxisIndex(a) => axes()
                .find(|axis| axis.id == *a)
                .and_then(|axis| bound(axis.extent))
                .map(|n| (0, (n - 1).max(0))),
            Op::Const(c) if inst.dtype.is_integral() => {
                c.number.fixed().map(|n| c.kind.join(n).as_i64()).map(|n| (n, n))
            }
            Op::Cast(v) => of(*v).filter(|_| inst.dtype == DType::I64),
            Op::Select(_, a, b) => of(*a).zip(of(*b)).map(|(x, y)| (x.0.min(y.0), x.1.max(y.1))),
            Op::Binary(op, a, b) => of(*a).zip(of(*b)).and_then(|(x, y)| binary(*op, x, y)),
            Op::Reduce(ReduceOp::Sum, v) => sum(of(*v), stage.axes.last(), bound),
            _ => None,
        };
        // what leaves the range of its dtype wraps, and may be anything in it
        let all = of_dtype(inst.dtype);
        let (least, most) = all.unwrap_or((i32::MIN.into(), i32::MAX.into()));
        ranges.push(range.filter(|(lo, hi)| *lo >= least && *hi <= most).or(all));
    }
    let lane = |i: usize| match (stage.body[i].dtype, ranges[i]) {
        (DType::I64, Some(_)) => DType::I32,
        (dtype, _) => dtype,
    };
    let lanes: Vec<DType> = (0..ranges.len()).map(lane).collect();
    let stays = |i: usize| {
        !facts.invariant[i] && lanes[i].size() == 8
            || matches!(stage.body[i].op, Op::ArgReduce { .. })
    };
    match (0..lanes.len()).any(stays) {
        true => stage.body.iter().map(|i| i.dtype).collect(),
        false => lanes,
    }
}

fn of_dtype(dtype: DType) -> Option<Range> {
    Some(match dtype {
        DType::Bool => (0, 1),
        DType::U8 => (0, 255),
        DType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DType::I16 => (i16::MIN.into(), i16::MAX.into()),
        DType::I32 => (i32::MIN.into(), i32::MAX.into()),
        _ => return None,
    })
}

fn binary(op: BinaryOp, x: Range, y: Range) -> Option<Range> {
    let ends = |f: fn(i64, i64) -> Option<i64>| {
        let all = [f(x.0, y.0)?, f(x.0, y.1)?, f(x.1, y.0)?, f(x.1, y.1)?];
        Some((*all.iter().min()?, *all.iter().max()?))
    };
    match op {
        BinaryOp::Add => ends(i64::checked_add),
        BinaryOp::Sub => ends(i64::checked_sub),
        BinaryOp::Mul => ends(i64::checked_mul),
        BinaryOp::Maximum => Some((x.0.max(y.0), x.1.max(y.1))),
        BinaryOp::Minimum => Some((x.0.min(y.0), x.1.min(y.1))),
        _ => None,
    }
}

/// The sum along the innermost axis, as a strip returns it in 32 bits without a sign.
fn sum(
    of: Option<Range>,
    axis: Option<&Axis>,
    bound: impl Fn(Size) -> Option<i64>,
) -> Option<Range> {
    let (lo, hi) = of?;
    let n = bound(axis?.extent)?;
    let most = hi.checked_mul(n)?;
    (lo >= 0).then_some((0, most))
}
