//! Checks that a schedule is well formed: what emitters may rely on.

mod bounds;
mod scatter;

use super::in_place::writes_over;
use super::loops::*;
use crate::ir::{DType, layout};
use bounds::{check, loaded};
use std::collections::HashMap;

/// A rule of the loop IR that a schedule breaks.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("step {step}: {what}")]
pub struct ScheduleViolation {
    /// The step.
    pub step: usize,
    /// The rule and where it is broken.
    pub what: String,
}

/// Checks every index, operand, dtype and arena range of a schedule.
pub fn verify_schedule(s: &Schedule) -> Result<(), ScheduleViolation> {
    for (step, st) in s.steps.iter().enumerate() {
        let result = match st {
            Step::Kernel(k) => verify_kernel(s, k),
            Step::Extern(e) => verify_extern(s, e),
        };
        result.map_err(|what| ScheduleViolation { step, what })?;
    }
    verify_places(s)
}

fn verify_kernel(s: &Schedule, k: &Kernel) -> Result<(), String> {
    let mut extents: HashMap<AxisId, i64> = HashMap::new();
    for a in &k.grid {
        check(extents.insert(a.id, a.extent).is_none(), || format!("axis {} twice", a.id.0))?;
    }
    for (n, stage) in k.stages.iter().enumerate() {
        let mut visible: HashMap<AxisId, i64> = k.grid.iter().map(|a| (a.id, a.extent)).collect();
        for a in &stage.axes {
            check(extents.insert(a.id, a.extent).is_none(), || format!("axis {} twice", a.id.0))?;
            visible.insert(a.id, a.extent);
        }
        check(visible.values().all(|e| *e > 0), || format!("stage {n}: an axis without points"))?;
        for (i, inst) in stage.body.iter().enumerate() {
            verify_inst(s, k, n, &visible, i, inst).map_err(|e| format!("stage {n}, %{i}: {e}"))?;
        }
    }
    scatter::verify(s, k)
}

fn operands(op: &Op) -> Vec<Val> {
    match op {
        Op::Load { index, .. } => index.dynamic.iter().map(|d| d.0).collect(),
        Op::Const(_) | Op::AxisIndex(_) | Op::Carry { .. } => Vec::new(),
        Op::Cast(a)
        | Op::Unary(_, a)
        | Op::CheckIndex { index: a, .. }
        | Op::Reduce(_, a)
        | Op::ArgReduce { value: a, .. } => vec![*a],
        Op::Binary(_, a, b) | Op::Compare(_, a, b) => vec![*a, *b],
        Op::Fma(a, b, c) | Op::Select(a, b, c) => vec![*a, *b, *c],
        Op::Store { index, value, .. } | Op::Update { index, value, .. } => {
            let mut all: Vec<Val> = index.dynamic.iter().map(|d| d.0).collect();
            all.push(*value);
            all
        }
    }
}

fn verify_inst(
    s: &Schedule,
    k: &Kernel,
    n: usize,
    axes: &HashMap<AxisId, i64>,
    at: usize,
    inst: &Inst,
) -> Result<(), String> {
    let body = &k.stages[n].body;
    for v in operands(&inst.op) {
        check((v.0 as usize) < at, || format!("uses %{} before it is made", v.0))?;
        let made = &body[v.0 as usize].op;
        check(
            !matches!(
                made,
                Op::Reduce(..) | Op::ArgReduce { .. } | Op::Store { .. } | Op::Update { .. }
            ),
            || format!("%{} is no value of this stage", v.0),
        )?;
    }
    let dtype = |v: Val| body[v.0 as usize].dtype;
    let same = |vs: &[Val], want: DType| {
        check(vs.iter().all(|v| dtype(*v) == want), || {
            format!("operands of {:?} are not {want}", inst.op)
        })
    };
    match &inst.op {
        Op::Load { mem, index } | Op::Store { mem, index, .. } | Op::Update { mem, index, .. } => {
            let (len, held) = match mem {
                Mem::Buffer(b) => {
                    let b = s.buffers.get(b.0 as usize).ok_or("no such buffer")?;
                    (b.len as i64, b.dtype)
                }
                Mem::Scratch(i) => {
                    let row = k.scratch.get(*i as usize).ok_or("no such scratch row")?;
                    (row.len, row.dtype)
                }
            };
            check(held == inst.dtype, || format!("memory holds {held}"))?;
            for (axis, stride) in &index.terms {
                check(axes.contains_key(axis), || format!("axis {} is not here", axis.0))?;
                check(*stride != 0, || "zero stride".to_string())?;
            }
            let (mut lo, mut hi) = index.range(|a| axes[&a]);
            let mut reached = true;
            for (val, stride) in &index.dynamic {
                let (from, to) = loaded(s, &body[val.0 as usize].op)
                    .ok_or_else(|| format!("index %{} is not checked", val.0))?;
                // no index passes the check of a dimension without elements
                reached &= from <= to;
                lo += (stride * from).min(stride * to);
                hi += (stride * from).max(stride * to);
            }
            check(!reached || (lo >= 0 && hi < len), || {
                format!("index range {lo}..={hi} outside of {len} elements")
            })?;
            if let Op::Update { op, .. } = &inst.op {
                use ReduceOp::{Max, Min, Prod, Sum};
                check(matches!(op, Sum | Prod | Max | Min), || format!("no update by {op:?}"))?;
            }
            if let Op::Store { value, mem, .. } | Op::Update { value, mem, .. } = &inst.op {
                same(&[*value], inst.dtype)?;
                if let Mem::Buffer(b) = mem {
                    let kind = &s.buffers[b.0 as usize].kind;
                    check(
                        matches!(
                            kind,
                            BufferKind::Output(_)
                                | BufferKind::Arena { .. }
                                | BufferKind::Within { .. }
                        ),
                        || "store to memory that is only read".to_string(),
                    )?;
                }
            }
            Ok(())
        }
        Op::Const(_) | Op::Cast(_) => Ok(()),
        Op::AxisIndex(a) => {
            check(axes.contains_key(a) && inst.dtype == DType::I64, || "axis value".to_string())
        }
        Op::Unary(UnaryOp::IsNan | UnaryOp::IsInf | UnaryOp::LogicalNot, _) => {
            check(inst.dtype == DType::Bool, || "result is not bool".to_string())
        }
        Op::Unary(_, a) => same(&[*a], inst.dtype),
        Op::Binary(op, a, b) => {
            let logical =
                matches!(op, BinaryOp::LogicalAnd | BinaryOp::LogicalOr | BinaryOp::LogicalXor);
            check(!logical || inst.dtype == DType::Bool, || {
                "logical operation on numbers".to_string()
            })?;
            same(&[*a, *b], inst.dtype)
        }
        Op::Fma(a, b, c) => same(&[*a, *b, *c], inst.dtype),
        Op::Compare(_, a, b) => {
            check(inst.dtype == DType::Bool, || "result is not bool".to_string())?;
            same(&[*b], dtype(*a))
        }
        Op::Select(c, a, b) => {
            same(&[*c], DType::Bool)?;
            same(&[*a, *b], inst.dtype)
        }
        Op::CheckIndex { index, .. } => same(&[*index], DType::I64),
        Op::Reduce(_, a) => same(&[*a], inst.dtype),
        Op::ArgReduce { .. } => check(inst.dtype == DType::I64, || "result is not i64".into()),
        Op::Carry { stage, value } => {
            check((*stage as usize) < n, || format!("stage {stage} is not earlier"))?;
            let made = k.stages[*stage as usize]
                .body
                .get(value.0 as usize)
                .ok_or("no such instruction")?;
            check(
                matches!(made.op, Op::Reduce(..) | Op::ArgReduce { .. })
                    && made.dtype == inst.dtype,
                || "carries something else than a reduction".to_string(),
            )
        }
    }
}

fn verify_view(s: &Schedule, v: &BufferView) -> Result<(), String> {
    let b = s.buffers.get(v.buffer.0 as usize).ok_or("no such buffer")?;
    check(b.dtype == v.dtype, || format!("buffer holds {}", b.dtype))?;
    check(v.sizes.len() == v.strides.len(), || "ranks differ".into())?;
    let reach = layout::reach(&v.sizes, &v.strides, v.offset);
    let inside =
        reach.as_ref().is_some_and(|r| r.is_empty() || (r.start >= 0 && r.end <= b.len as i64));
    check(inside, || format!("view {reach:?} outside of {} elements", b.len))
}

fn verify_extern(s: &Schedule, e: &Extern) -> Result<(), String> {
    match e {
        Extern::Matmul(m) => {
            for v in [Some(&m.a), Some(&m.b), Some(&m.out), m.bias.as_ref(), m.residual.as_ref()]
                .into_iter()
                .flatten()
            {
                verify_view(s, v)?;
            }
            let r = m.out.sizes.len();
            let overlap = layout::may_overlap(&m.out.sizes, &m.out.strides);
            check(!overlap, || "elements of the product overlap".to_string())?;
            let like = |v: &BufferView| v.sizes == m.out.sizes;
            check(m.residual.as_ref().is_none_or(like), || {
                "sizes of the residual do not fit".to_string()
            })?;
            check(
                r >= 2
                    && m.a.sizes.len() == r
                    && m.b.sizes.len() == r
                    && m.a.sizes[..r - 1] == m.out.sizes[..r - 1]
                    && m.b.sizes[..r - 2] == m.out.sizes[..r - 2]
                    && m.b.sizes[r - 1] == m.out.sizes[r - 1]
                    && m.a.sizes[r - 1] == m.b.sizes[r - 2],
                || "sizes of the product do not fit".to_string(),
            )
        }
        Extern::Convolution(c) => verify_convolution(s, c),
        Extern::Op { inputs, outputs, .. } => {
            inputs.iter().chain(outputs).try_for_each(|v| verify_view(s, v))
        }
    }
}

/// The kernel relies on all of it.
fn verify_convolution(s: &Schedule, c: &Convolution) -> Result<(), String> {
    let floats = matches!(c.out.dtype, DType::F32 | DType::F64);
    check(floats, || format!("convolutions of {} are no steps", c.out.dtype))?;
    let dense = |v: &BufferView| layout::is_contiguous(&v.sizes, &v.strides);
    for v in c.reads().chain([&c.out]) {
        verify_view(s, v)?;
        check(dense(v) && v.dtype == c.out.dtype, || {
            format!("{v} is not dense, or of another dtype")
        })?;
    }
    let (x, w, y) = (&c.input.sizes, &c.weight.sizes, &c.out.sizes);
    let rank = x.len();
    check((3..=5).contains(&rank) && w.len() == rank && y.len() == rank, || "ranks differ".into())?;
    let numbers = [&c.stride, &c.padding, &c.dilation];
    check(numbers.iter().all(|n| n.len() == rank - 2), || "numbers are missing".into())?;
    let fits = (0..rank - 2).all(|d| {
        let (stride, padding, dilation) = (c.stride[d], c.padding[d], c.dilation[d]);
        let reach = (w[d + 2] - 1).checked_mul(dilation).zip(padding.checked_mul(2));
        let room = reach.and_then(|(reach, around)| {
            x[d + 2].checked_add(around)?.checked_sub(reach)?.checked_sub(1)
        });
        stride > 0
            && padding >= 0
            && dilation > 0
            && w[d + 2] > 0
            && room.is_some_and(|room| room >= 0 && y[d + 2] == room / stride + 1)
    });
    let groups = c.groups;
    check(
        fits && groups > 0
            && y[0] == x[0]
            && y[1] == w[0]
            && w[0] % groups == 0
            && w[1].checked_mul(groups) == Some(x[1]),
        || "sizes of the convolution do not fit".into(),
    )?;
    let per_channel = |v: &BufferView| v.sizes[..] == [y[1]];
    check(c.bias.as_ref().is_none_or(per_channel), || "sizes of the bias do not fit".into())?;
    let follow = c.follow.iter().all(|f| match f {
        Follow::Scale(v) | Follow::Shift(v) => per_channel(v),
        Follow::Add(v) => v.sizes == *y,
        Follow::Activation(_) => true,
    });
    check(follow, || "sizes of what follows do not fit".into())
}

fn verify_places(s: &Schedule) -> Result<(), ScheduleViolation> {
    // (first step, last step, from, to) of each buffer in the arena
    let mut spans: HashMap<BufferId, (usize, usize)> = HashMap::new();
    for (i, step) in s.steps.iter().enumerate() {
        for b in step.buffers() {
            spans.entry(b).or_insert((i, i)).1 = i;
        }
    }
    let mut blocks: Vec<(Option<u32>, BufferId, usize, usize, usize, usize)> = Vec::new();
    // what a kernel computes element by element may lie where it reads
    let over = |new: BufferId, old: BufferId, step: usize| match &s.steps[step] {
        Step::Kernel(k) => writes_over(k, &|b| b == new, &|b| b == old),
        Step::Extern(_) => false,
    };
    for (id, (first, last)) in spans {
        let b = s.buffer(id);
        let bytes = |b: &Buffer| b.len * b.dtype.size();
        let host = |o: u32| s.buffers.iter().find(|b| b.kind == BufferKind::Output(o));
        let (pool, offset, room, last) = match b.kind {
            BufferKind::Arena { offset } => (None, offset, s.arena_bytes, last),
            BufferKind::Within { output, offset } => {
                (Some(output), offset, host(output).map_or(0, bytes), last)
            }
            // the result stays
            BufferKind::Output(o) => (Some(o), 0, bytes(b), usize::MAX),
            _ => continue,
        };
        let end = offset + bytes(b);
        let fits = offset % 64 == 0 && end <= room;
        let clash = blocks.iter().any(|&(of, other, begun, ended, from, to)| {
            let elsewhere = of != pool || end <= from || to <= offset;
            let apart = elsewhere || ended < first || last < begun;
            let same = (from, to) == (offset, end);
            let follows = same && ended == first && over(id, other, first);
            let precedes = same && last == begun && over(other, id, begun);
            !(apart || follows || precedes)
        });
        if !fits || clash {
            let what = format!("range {offset}..{end} of `{}` is not free", b.name);
            return Err(ScheduleViolation { step: first, what });
        }
        blocks.push((pool, id, first, last, offset, end));
    }
    Ok(())
}
