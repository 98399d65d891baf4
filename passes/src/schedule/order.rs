//! The axes of a kernel: their order, merging neighbours, cutting long sums, and which of them
//! vectors run along.

use super::Target;
use super::cost::instruction;
use super::emit::Emitted;
use super::index::extent_in;
use super::loops::*;
use smallvec::SmallVec;
use std::collections::HashMap;

/// The innermost loop of a sum is no longer than this: its partial sum is added to an outer
/// accumulator, which keeps rounding errors near those of pairwise summation.
pub(crate) const SUM_BLOCK: i64 = 4096;

/// The buffers that a kernel reads.
pub(crate) fn loads(e: &Emitted) -> impl Iterator<Item = u32> + '_ {
    e.stages.iter().flat_map(|s| &s.body).filter_map(|i| match i.op {
        Op::Load { mem: Mem::Buffer(b), .. } => Some(b.0),
        _ => None,
    })
}

/// The buffers that a kernel writes.
pub(crate) fn stores(e: &Emitted) -> impl Iterator<Item = u32> + '_ {
    e.stages.iter().flat_map(|s| &s.body).filter_map(|i| match i.op {
        Op::Store { mem: Mem::Buffer(b), .. } | Op::Update { mem: Mem::Buffer(b), .. } => Some(b.0),
        _ => None,
    })
}

fn indices(stage: &Stage) -> impl Iterator<Item = (&Index, bool)> {
    stage.body.iter().filter_map(|i| match &i.op {
        Op::Load { index, .. } => Some((index, false)),
        Op::Store { index, .. } | Op::Update { index, .. } => Some((index, true)),
        _ => None,
    })
}

fn indices_mut(stage: &mut Stage) -> impl Iterator<Item = &mut Index> {
    stage.body.iter_mut().filter_map(|i| match &mut i.op {
        Op::Load { index, .. } | Op::Store { index, .. } | Op::Update { index, .. } => Some(index),
        _ => None,
    })
}

/// Roughly how far apart neighbours along an axis are read or written; listed positions count as
/// close.
fn apart(stage: &Stage, index: &Index, axis: AxisId) -> i64 {
    let listed = |(v, stride): &(Val, i64)| match &stage.body[v.0 as usize].op {
        Op::Load { index, .. } if index.stride(axis) != 0 => *stride,
        _ => 0,
    };
    index.stride(axis) + index.dynamic.iter().map(listed).sum::<i64>()
}

/// Whether an instruction's meaning depends on the order in which the points of its stage come.
fn in_order(op: &Op) -> bool {
    op.scatters() || matches!(op, Op::ArgReduce { .. })
}

fn counts(stage: &Stage, axis: AxisId) -> bool {
    stage.body.iter().any(|i| matches!(i.op, Op::AxisIndex(a) if a == axis))
}

/// Outermost first by how far apart neighbours lie in memory; what is written decides first.
fn sort_axes(axes: &mut [Axis], stages: &[&Stage]) {
    let reach = |axis: AxisId| {
        let (mut write, mut read) = (0, 0);
        for s in stages {
            for (index, store) in indices(s) {
                let stride = apart(s, index, axis).abs();
                if store {
                    write = stride.max(write);
                } else {
                    read = stride.max(read);
                }
            }
        }
        (write, read)
    };
    axes.sort_by_key(|a| std::cmp::Reverse(reach(a.id)));
}

/// Merges an axis with the next inner one if every index treats the two as one.
fn merge_axes(axes: &mut Vec<Axis>, stages: &mut [Stage]) {
    let mut i = 0;
    while i + 1 < axes.len() {
        let (outer, inner) = (axes[i], axes[i + 1]);
        let fits = stages.iter().all(|s| {
            !counts(s, outer.id)
                && !counts(s, inner.id)
                && indices(s)
                    .all(|(ix, _)| ix.stride(outer.id) == ix.stride(inner.id) * inner.extent)
        });
        if !fits {
            i += 1;
            continue;
        }
        for s in stages.iter_mut() {
            for ix in indices_mut(s) {
                ix.terms.retain(|t| t.0 != outer.id);
            }
        }
        axes[i] = Axis { id: inner.id, extent: outer.extent * inner.extent };
        axes.remove(i + 1);
        i = i.saturating_sub(1);
    }
}

fn cut_long_sum(stage: &mut Stage, next: &mut u32) {
    let sums = stage
        .body
        .iter()
        .any(|i| matches!(i.op, Op::Reduce(ReduceOp::Sum, _)) && i.dtype.is_floating());
    let Some(axis) = stage.axes.last().copied() else {
        return;
    };
    if !sums || axis.extent <= SUM_BLOCK || counts(stage, axis.id) {
        return;
    }
    let Some(inner) = (64..=SUM_BLOCK).rev().find(|d| axis.extent % d == 0) else {
        return;
    };
    let outer = AxisId(*next);
    *next += 1;
    for ix in indices_mut(stage) {
        let stride = ix.stride(axis.id);
        if stride != 0 {
            let mut more = Index::default();
            more.terms.push((outer, stride * inner));
            ix.add_scaled(&more, 1);
        }
    }
    let last = stage.axes.len() - 1;
    stage.axes[last] = Axis { id: axis.id, extent: inner };
    let extent = axis.extent / inner;
    stage.axes.insert(last, Axis { id: outer, extent });
}

/// How many memory accesses do not run along the axis with unit stride.
fn misfits(stages: &[Stage], axis: &dyn Fn(&Stage) -> Option<AxisId>) -> usize {
    let mut bad = 0;
    for s in stages {
        let Some(axis) = axis(s) else { continue };
        bad += indices(s).filter(|(ix, _)| !matches!(apart(s, ix, axis), 0 | 1)).count();
    }
    bad
}

fn vectorize(grid: &[Axis], stages: &[Stage]) -> Vectorize {
    let inner = grid.last().copied();
    if stages.iter().all(|s| s.axes.is_empty()) {
        return match inner {
            Some(_) => Vectorize::Grid,
            None => Vectorize::None,
        };
    }
    let Some(inner) = inner else {
        return Vectorize::Stage;
    };
    let along_stage = misfits(stages, &|s| s.axes.last().map(|a| a.id));
    let along_grid = misfits(stages, &|s| (!s.axes.is_empty()).then_some(inner.id));
    match along_grid < along_stage {
        true => Vectorize::Grid,
        false => Vectorize::Stage,
    }
}

/// A stage whose points all are grid points of a kernel of their own, if none of them reduces.
pub(crate) fn spread(grid: &[Axis], stage: &Stage) -> Option<(Vec<Axis>, Stage, Vectorize)> {
    let reduces = |i: &Inst| matches!(i.op, Op::Reduce(..) | Op::ArgReduce { .. });
    if stage.body.iter().any(reduces) {
        return None;
    }
    let mut grid: Vec<Axis> = grid.iter().chain(&stage.axes).copied().collect();
    let mut stages = [Stage { axes: SmallVec::new(), body: stage.body.clone() }];
    sort_axes(&mut grid, &[&stages[0]]);
    merge_axes(&mut grid, &mut stages);
    renumber(&mut grid, &mut stages);
    let along = vectorize(&grid, &stages);
    let [stage] = stages;
    Some((grid, stage, along))
}

/// Numbers axes in order: the grid, then the stages.
fn renumber(grid: &mut [Axis], stages: &mut [Stage]) {
    let mut names = HashMap::new();
    let all = grid.iter_mut().chain(stages.iter_mut().flat_map(|s| s.axes.iter_mut()));
    for (next, axis) in (0..).zip(all) {
        names.insert(axis.id, AxisId(next));
        axis.id = AxisId(next);
    }
    for s in stages {
        for inst in &mut s.body {
            match &mut inst.op {
                Op::Load { index, .. } | Op::Store { index, .. } | Op::Update { index, .. } => {
                    for t in &mut index.terms {
                        t.0 = names[&t.0];
                    }
                    index.terms.sort_unstable_by_key(|t| t.0);
                }
                Op::AxisIndex(a) => *a = names[a],
                _ => {}
            }
        }
    }
}

/// The finished loop nest: grid, stages, and what vectors run along.
pub(crate) fn finish(e: Emitted, target: Target) -> Kernel {
    let Emitted { mut grid, mut stages, scratch, .. } = e;
    let mut next = 1 << 20;
    {
        let all: Vec<&Stage> = stages.iter().collect();
        sort_axes(&mut grid, &all);
    }
    merge_axes(&mut grid, &mut stages);
    for stage in &mut stages {
        let mut axes: Vec<Axis> = stage.axes.to_vec();
        let ordered = stage.body.iter().any(|i| in_order(&i.op));
        if !ordered {
            sort_axes(&mut axes, &[stage]);
        }
        merge_axes(&mut axes, std::slice::from_mut(stage));
        stage.axes = SmallVec::from_vec(axes);
        // threads of a GPU add few elements each
        if !ordered && target == Target::Cpu {
            cut_long_sum(stage, &mut next);
        }
    }
    renumber(&mut grid, &mut stages);
    let work_per_point = stages
        .iter()
        .map(|s| {
            let points: i64 = s.axes.iter().map(|a| extent_in(&s.axes, a.id)).product();
            s.body.iter().map(|i| u64::from(instruction(&i.op))).sum::<u64>() * points as u64
        })
        .sum();
    Kernel {
        name: String::new(),
        vectorize: vectorize(&grid, &stages),
        grid: SmallVec::from_vec(grid),
        stages,
        scratch,
        work_per_point,
        in_any_order: false,
        ops: Vec::new(),
    }
}
