//! Which elements of a row stay in the registers of the thread that computes them, from one stage to the
//! next.

use super::types::Held;
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::{Axis, AxisId, BufferId, Index, Kernel, Mem, Op, Stage};

/// What a thread keeps.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Kept {
    /// The scratch rows that are kept, by row.
    pub(super) rows: Vec<bool>,
    /// The elements of buffers.
    pub(super) loads: Vec<Loaded>,
}

/// Elements that several stages load.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Loaded {
    pub(super) buffer: BufferId,
    pub(super) dtype: DType,
    /// With the axes of stages by their place.
    index: Index,
    /// The stage that loads them first, which the others follow.
    pub(super) first: usize,
}

/// A row element's index with the axes of its stage by their place.
fn by_place(index: &Index, axes: &[Axis]) -> Index {
    let place = |id: AxisId| match axes.iter().position(|a| a.id == id) {
        Some(at) => AxisId(u32::MAX - at as u32),
        None => id,
    };
    let mut index = index.clone();
    index.terms.iter_mut().for_each(|(axis, _)| *axis = place(*axis));
    index.terms.sort_unstable();
    index
}

/// Whether the index of an element is its place in the stage.
fn is_straight(index: &Index, axes: &[Axis]) -> bool {
    let mut step = 1;
    let mut all = index.base == 0 && index.dynamic.is_empty();
    for axis in axes.iter().rev() {
        all &= axis.extent == 1 || index.stride(axis.id) == step;
        step *= axis.extent;
    }
    all && index.terms.iter().all(|(id, _)| axes.iter().any(|a| a.id == *id))
}

impl Kept {
    /// What can be kept of a kernel whose stages' elements all are computed by the thread that their place
    /// in a row names; stages without axes are computed by any.
    pub(super) fn of(kernel: &Kernel) -> Kept {
        let long = || kernel.stages.iter().enumerate().filter(|(_, s)| !s.axes.is_empty());
        let extents = |s: &Stage| s.axes.iter().map(|a| a.extent).collect::<Vec<_>>();
        let mut shapes = long().map(|(_, s)| extents(s));
        let first = shapes.next();
        if shapes.any(|s| Some(s) != first) {
            return Kept { rows: vec![false; kernel.scratch.len()], loads: Vec::new() };
        }
        let row = |r: usize| {
            kernel.stages.iter().all(|s| {
                s.body.iter().all(|inst| match &inst.op {
                    Op::Load { mem: Mem::Scratch(of), index }
                    | Op::Store { mem: Mem::Scratch(of), index, .. }
                        if *of as usize == r =>
                    {
                        !s.axes.is_empty() && is_straight(index, &s.axes)
                    }
                    Op::Update { mem: Mem::Scratch(of), .. } => *of as usize != r,
                    _ => true,
                })
            })
        };
        let rows = (0..kernel.scratch.len()).map(row).collect();
        let stored = |b: BufferId| {
            kernel.stages.iter().flat_map(|s| &s.body).any(|i| match i.op {
                Op::Store { mem, .. } | Op::Update { mem, .. } => mem == Mem::Buffer(b),
                _ => false,
            })
        };
        let mut seen: Vec<(Loaded, bool)> = Vec::new();
        for (at, stage) in long() {
            for inst in &stage.body {
                let Op::Load { mem: Mem::Buffer(b), index } = &inst.op else { continue };
                let moves = stage.axes.last().is_some_and(|a| index.stride(a.id) != 0);
                if !index.dynamic.is_empty() || !moves || stored(*b) {
                    continue;
                }
                let index = by_place(index, &stage.axes);
                let new = Loaded { buffer: *b, dtype: inst.dtype, index, first: at };
                let same = |l: &&mut (Loaded, bool)| l.0.buffer == *b && l.0.index == new.index;
                match seen.iter_mut().find(same) {
                    Some((l, again)) => *again |= l.first != at,
                    None => seen.push((new, false)),
                }
            }
        }
        let loads = seen.into_iter().filter(|(_, again)| *again).map(|(l, _)| l).collect();
        Kept { rows, loads }
    }

    /// Without the elements of buffers.
    pub(super) fn rows_alone(self) -> Kept {
        Kept { loads: Vec::new(), ..self }
    }

    /// The registers that so many elements of each take.
    pub(super) fn registers(&self, kernel: &Kernel, elements: i64) -> i64 {
        let words = |bytes: i64| bytes.div_euclid(4).max(1);
        let rows = kernel.scratch.iter().zip(&self.rows).filter(|(_, kept)| **kept);
        let wide =
            |d: DType| if matches!(Held::of(d), Some(Held::F64 | Held::I64)) { 2 } else { 1 };
        let rows: i64 = rows.map(|(s, _)| elements * wide(s.dtype)).sum();
        rows + self.loads.iter().map(|l| words(elements * l.dtype.size() as i64)).sum::<i64>()
    }

    /// Which of the kept elements a stage's load is of.
    pub(super) fn load(&self, buffer: BufferId, index: &Index, axes: &[Axis]) -> Option<usize> {
        if self.loads.is_empty() || !index.dynamic.is_empty() {
            return None;
        }
        let index = by_place(index, axes);
        self.loads.iter().position(|l| l.buffer == buffer && l.index == index)
    }
}
