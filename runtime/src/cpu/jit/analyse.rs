//! Analysis of a kernel before emission: invariant values, address shapes, unrolling.

use super::sizes::{Axis, Index, Kernel, Op, Size, Sizes, Stage};
use smallvec::SmallVec;
use straightline_passes::ir::{DType, Scalar};
use straightline_passes::schedule::loops::{self, AxisId, Mem, Val, Vectorize};

/// Where a set of accesses points: one address is kept for all accesses that differ in their
/// constant only.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AddressKey {
    pub(crate) mem: Mem,
    pub(crate) terms: SmallVec<[(AxisId, Size); 4]>,
}

/// The form of a value in a part of the lane axis.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Known {
    /// The position along the lane axis, so much later.
    Shift(i64),
    /// This number.
    Same(Scalar),
    /// The same as another value.
    Value(Val),
}

/// A part of the lane axis, as one stage sees it.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) begin: i64,
    pub(crate) end: i64,
    /// Per instruction.
    pub(crate) known: Vec<Option<Known>>,
    /// Whether an instruction is needed in this part.
    pub(crate) needed: Vec<bool>,
    /// It as a strip.
    pub(crate) strip: Option<super::x86::Strip>,
}

/// What is known about a stage.
#[derive(Debug, Default)]
pub(crate) struct StageFacts {
    /// Does not change inside the loop(s) that the stage's body is in: computed once before them,
    /// as a scalar.
    pub(crate) invariant: Vec<bool>,
    /// Invariant, and an operand of something that is not.
    pub(crate) broadcast: Vec<bool>,
    /// The address key of each load and store.
    pub(crate) key: Vec<Option<usize>>,
    /// The reductions.
    pub(crate) reduces: Vec<usize>,
    /// Must run lane by lane.
    pub(crate) scalar_only: bool,
    /// A rough count of instructions per element.
    pub(crate) cost: u32,
    /// Some value has 64-bit lanes.
    pub(crate) wide: bool,
    /// The lane axis cut where listed numbers break; empty where none are read along it.
    pub(crate) parts: Vec<Part>,
    /// The innermost loop in vectors wider than Cranelift's.
    pub(crate) strip: Option<super::x86::Strip>,
}

/// What is known about a kernel.
#[derive(Debug, Default)]
pub(crate) struct KernelFacts {
    pub(crate) keys: Vec<AddressKey>,
    pub(crate) stages: Vec<StageFacts>,
    /// The strips that its stages are made of, if the kernel goes over columns.
    pub(crate) columns: Option<super::x86::Columns>,
    /// The strip of the first stage for several rows, if the kernel reduces rows.
    pub(crate) rows: Option<super::x86::Rows>,
    /// The strips by their numbers.
    pub(crate) functions: Vec<super::memory::FuncId>,
}

/// The values an operation reads, index operands included.
pub(crate) fn operands<N, C>(op: &loops::Op<N, C>) -> SmallVec<[Val; 4]> {
    use loops::Op;
    let mut out = SmallVec::new();
    let index = |i: &loops::Index<N>, out: &mut SmallVec<[Val; 4]>| {
        out.extend(i.dynamic.iter().map(|d| d.0));
    };
    match op {
        Op::Load { index: i, .. } => index(i, &mut out),
        Op::Const(_) | Op::AxisIndex(_) | Op::Carry { .. } => {}
        Op::Cast(a) | Op::Unary(_, a) | Op::Reduce(_, a) => out.push(*a),
        Op::CheckIndex { index, .. } => out.push(*index),
        Op::ArgReduce { value, .. } => out.push(*value),
        Op::Binary(_, a, b) | Op::Compare(_, a, b) => out.extend([*a, *b]),
        Op::Fma(a, b, c) | Op::Select(a, b, c) => out.extend([*a, *b, *c]),
        Op::Store { index: i, value, .. } | Op::Update { index: i, value, .. } => {
            out.push(*value);
            index(i, &mut out);
        }
    }
    out
}

/// Constants that are worth a register (more of them are loaded at each use).
const HOISTED_CONSTANTS: usize = 6;

impl KernelFacts {
    /// The strip that reads transposed operands from tiles, if the kernel has one.
    pub(crate) fn turned(&self) -> Option<(&super::x86::Strip, &super::x86::Turned)> {
        let strip = self.stages.first()?.strip.as_ref()?;
        Some((strip, strip.turned.as_ref()?))
    }

    /// How many values of an outer axis of a grid kernel are numbered: units of transposed operands
    /// have several.
    pub(crate) fn numbered(&self, axis: &Axis, sizes: &Sizes) -> Size {
        match self.turned() {
            Some((_, t)) if t.axis == axis.id => {
                sizes.of(|n, rows| (n + rows - 1) / rows, axis.extent, Size::Fixed(t.rows))
            }
            _ => axis.extent,
        }
    }

    pub(crate) fn of(kernel: &Kernel) -> KernelFacts {
        let mut facts = KernelFacts::default();
        for stage in &kernel.stages {
            let f = facts.stage(kernel, stage);
            facts.stages.push(f);
        }
        facts
    }

    fn key(&mut self, mem: Mem, index: &Index) -> usize {
        let key = AddressKey { mem, terms: index.terms.clone() };
        match self.keys.iter().position(|k| *k == key) {
            Some(i) => i,
            None => {
                self.keys.push(key);
                self.keys.len() - 1
            }
        }
    }

    fn stage(&mut self, kernel: &Kernel, stage: &Stage) -> StageFacts {
        let grid = kernel.vectorize == Vectorize::Grid;
        let mut inner: SmallVec<[AxisId; 4]> = SmallVec::new();
        if grid {
            inner.extend(kernel.grid.last().map(|a| a.id));
            inner.extend(stage.axes.iter().map(|a| a.id));
        } else {
            inner.extend(stage.axes.last().map(|a| a.id));
        }
        let stores = |s: &Stage| -> Vec<Mem> {
            s.body
                .iter()
                .filter_map(|i| match &i.op {
                    Op::Store { mem, .. } | Op::Update { mem, .. } => Some(*mem),
                    _ => None,
                })
                .collect()
        };
        // in a grid kernel invariant values are computed before every stage
        let written: Vec<Mem> =
            if grid { kernel.stages.iter().flat_map(stores).collect() } else { stores(stage) };
        let constants = stage.body.iter().filter(|i| matches!(i.op, Op::Const(_))).count();
        let mut f = StageFacts::default();
        for (i, inst) in stage.body.iter().enumerate() {
            let ops = operands(&inst.op);
            let all = ops.iter().all(|v| f.invariant[v.0 as usize]);
            let invariant = !inner.is_empty()
                && match &inst.op {
                    Op::Const(c) => constants <= HOISTED_CONSTANTS || c.number.fixed().is_none(),
                    Op::Load { mem, index } => {
                        all && !written.contains(mem)
                            && !(grid && matches!(mem, Mem::Scratch(_)))
                            && inner.iter().all(|a| index.term(*a).is_none())
                    }
                    Op::AxisIndex(a) => !inner.contains(a),
                    Op::Carry { .. } => !grid,
                    Op::Store { .. }
                    | Op::Update { .. }
                    | Op::Reduce(..)
                    | Op::ArgReduce { .. } => false,
                    _ => all,
                };
            f.invariant.push(invariant);
            f.broadcast.push(false);
            if !invariant {
                for v in &ops {
                    if f.invariant[v.0 as usize] {
                        f.broadcast[v.0 as usize] = true;
                    }
                }
                f.cost += cost(&inst.op, inst.dtype);
                f.wide |= inst.dtype.size() == 8;
            }
            f.key.push(match &inst.op {
                Op::Load { mem, index }
                | Op::Store { mem, index, .. }
                | Op::Update { mem, index, .. } => Some(self.key(*mem, index)),
                _ => None,
            });
            match &inst.op {
                Op::Reduce(..) => f.reduces.push(i),
                Op::ArgReduce { .. } => {
                    f.reduces.push(i);
                    f.scalar_only |= !grid;
                }
                _ => {}
            }
        }
        f.scalar_only |= kernel.vectorize == Vectorize::None;
        f
    }
}

/// A rough number of instructions, for the choice of unrolling.
fn cost(op: &Op, dtype: DType) -> u32 {
    let base = match op {
        // a call of a built function is about as many instructions as its work, and as much again
        Op::Unary(u, _) if u.cost() > 6 => 2 * u.cost(),
        Op::Binary(b, ..) if b.cost() > 6 => 2 * b.cost(),
        Op::Unary(u, _) => u.cost().div_ceil(2),
        Op::Binary(b, ..) => b.cost().div_ceil(2),
        Op::CheckIndex { .. } => 10,
        Op::Const(_) => 0,
        _ => 1,
    };
    if dtype.is_half() { base + 6 } else { base }
}

/// How many times a body of four lanes is repeated in one iteration over `extent` elements.
pub(crate) fn unroll(cost: u32, wide: bool, extent: i64) -> i64 {
    let max: i64 = match (cost, wide) {
        (0..=6, false) => 4,
        (0..=6, true) | (7..=14, false) => 2,
        _ => 1,
    };
    // a shorter unroll that leaves no vector over beats a longer one on short rows
    let lanes = super::lanes::LANES;
    let mut best = 1;
    for u in [2, 4] {
        if u <= max && extent >= u * lanes && (extent >= 64 * u || extent % (u * lanes) < lanes) {
            best = u;
        }
    }
    best
}
