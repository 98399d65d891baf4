//! Lists of positions are known when code is generated, so the range of the lane axis is split
//! where their pattern changes.
//!
//! A list is a constant of `i64`s or truth values that a stage reads along its lane axis: the
//! positions of a pad, the places where it is filled. Between two cuts such a list is the position
//! itself but for a shift, or one number. So a load by a shifted list runs through neighbours, a
//! selection by one truth value is one of its operands, and what nothing needs any more is not
//! computed. A long part of a row that is no longer than a unit's
//! is a strip where strips are to be had.

use super::JitError;
use super::analyse::{KernelFacts, Known, Part, StageFacts, operands};
use super::lanes::LANES;
use super::nest::{Invariant, Nest};
use super::sizes::{Axis, Index, Kernel, Op, Program, Size, Stage};
use super::x86::Strip;
use cranelift_codegen::ir::{InstBuilder, Value};
use straightline_passes::ir::{DType, Scalar};
use straightline_passes::schedule::loops::{AxisId, BinaryOp, BufferKind, Mem, Vectorize};

/// Shorter ranges are not worth code of their own; they go together.
const SHORT: i64 = 8;
/// A cut is made only where some range is as long as this.
const LONG: i64 = 16;
/// More ranges than this are too much code.
const MAX_PARTS: usize = 6;
/// And so are more instructions than this in all of them.
const MAX_CODE: usize = 600;

/// The numbers of each instruction that reads a list along the axis.
fn lists(
    program: &Program<'_>,
    stage: &Stage,
    (axis, extent): (AxisId, i64),
) -> Vec<Option<Vec<i64>>> {
    let begins = |index: &Index| {
        let plain = index.dynamic.is_empty() && index.terms[..] == [(axis, Size::Fixed(1))];
        index.base.fixed().filter(|base| plain && *base >= 0)
    };
    let read = |op: &Op, dtype: DType| {
        let Op::Load { mem: Mem::Buffer(id), index } = op else {
            return None;
        };
        let BufferKind::Constant(bytes) = program.kind(*id) else {
            return None;
        };
        // the same in every schedule that the code serves
        program.place(*id)[0].fixed()?;
        let base = begins(index)?;
        let range = base as usize..(base + extent) as usize;
        match dtype {
            DType::I64 => {
                let (words, _) = bytes.as_chunks::<8>();
                let words = words.get(range)?;
                Some(words.iter().map(|w| i64::from_le_bytes(*w)).collect())
            }
            DType::Bool => Some(bytes.get(range)?.iter().map(|b| i64::from(*b)).collect()),
            _ => None,
        }
    };
    (stage.body.iter()).map(|i| read(&i.op, i.dtype)).collect()
}

/// The distance between neighbours in `begin..end`, where it is the same everywhere, and 0 or 1.
fn step(list: &[i64], begin: usize, end: usize) -> Option<i64> {
    let part = &list[begin..end];
    let Some([a, b]) = part.get(..2) else {
        return Some(0);
    };
    let step = b.wrapping_sub(*a);
    let even = part.windows(2).all(|w| w[1].wrapping_sub(w[0]) == step);
    (even && matches!(step, 0 | 1)).then_some(step)
}

/// Where to cut `0..extent`.
fn cuts(lists: &[&Vec<i64>], extent: usize) -> Vec<(usize, usize)> {
    let mut out: Vec<(usize, usize)> = Vec::new();
    let mut begin = 0;
    while begin < extent {
        let mut end = begin + 1;
        // both a shift and one number fit a pair: the first pair decides
        let steps: Vec<Option<i64>> =
            (lists.iter()).map(|l| l.get(begin + 1).map(|b| b.wrapping_sub(l[begin]))).collect();
        let goes_on = |at: usize| {
            (lists.iter().zip(&steps))
                .all(|(l, s)| matches!(s, Some(0 | 1)) && Some(l[at].wrapping_sub(l[at - 1])) == *s)
        };
        while end < extent && goes_on(end) {
            end += 1;
        }
        let short = |p: (usize, usize)| p.1 - p.0 < SHORT as usize;
        match out.last_mut() {
            Some(last) if short(*last) && short((begin, end)) => last.1 = end,
            _ => out.push((begin, end)),
        }
        begin = end;
    }
    out
}

/// Whether an instruction does something beside giving a value.
fn acts(op: &Op, dtype: DType) -> bool {
    match op {
        Op::Store { .. }
        | Op::Update { .. }
        | Op::Reduce(..)
        | Op::ArgReduce { .. }
        | Op::CheckIndex { .. } => true,
        Op::Binary(BinaryOp::FloorDiv | BinaryOp::TruncDiv, ..)
        | Op::Binary(BinaryOp::Fmod | BinaryOp::Remainder, ..) => !dtype.is_floating(),
        _ => false,
    }
}

fn part(
    stage: &Stage,
    facts: &StageFacts,
    lists: &[Option<Vec<i64>>],
    (begin, end): (usize, usize),
) -> Part {
    let n = stage.body.len();
    // lists of positions are known to addresses only
    let mut elsewhere = vec![false; n];
    for inst in &stage.body {
        let index = match &inst.op {
            Op::Load { index, .. } | Op::Store { index, .. } | Op::Update { index, .. } => {
                Some(index)
            }
            _ => None,
        };
        for v in operands(&inst.op) {
            let addresses = index.is_some_and(|i| i.dynamic.iter().any(|d| d.0 == v));
            let stored = matches!(inst.op,
                Op::Store { value, .. } | Op::Update { value, .. } if value == v);
            elsewhere[v.0 as usize] |= !addresses || stored;
        }
    }
    let mut known: Vec<Option<Known>> = vec![None; n];
    for (i, inst) in stage.body.iter().enumerate() {
        if facts.invariant[i] {
            continue;
        }
        known[i] = match (&lists[i], &inst.op) {
            (Some(list), _) if inst.dtype == DType::Bool => (step(list, begin, end) == Some(0))
                .then(|| Known::Same(Scalar::Bool(list[begin] != 0))),
            (Some(list), _) if !elsewhere[i] => match step(list, begin, end) {
                Some(0) => Some(Known::Same(Scalar::Int(list[begin]))),
                Some(_) => Some(Known::Shift(list[begin] - begin as i64)),
                None => None,
            },
            (_, Op::Select(c, a, b)) => match known[c.0 as usize] {
                Some(Known::Same(Scalar::Bool(c))) => Some(Known::Value(if c { *a } else { *b })),
                _ => None,
            },
            _ => None,
        };
    }
    let mut needed = vec![false; n];
    for (i, inst) in stage.body.iter().enumerate().rev() {
        needed[i] |= acts(&inst.op, inst.dtype);
        if !needed[i] {
            continue;
        }
        match known[i] {
            Some(Known::Value(v)) => needed[v.0 as usize] = true,
            Some(_) => {}
            None => {
                for v in operands(&inst.op) {
                    needed[v.0 as usize] = true;
                }
            }
        }
    }
    Part { begin: begin as i64, end: end as i64, known, needed, strip: None }
}

impl KernelFacts {
    /// Finds the parts of each lane axis; none where a kernel reads no list along it.
    pub(crate) fn cut(&mut self, program: &Program<'_>, kernel: &Kernel) {
        match kernel.vectorize {
            Vectorize::None => {}
            Vectorize::Grid => {
                if let Some(axis) = kernel.grid.last() {
                    let all: Vec<usize> = (0..kernel.stages.len()).collect();
                    self.cut_stages(program, kernel, *axis, &all);
                }
            }
            Vectorize::Stage => {
                for s in 0..kernel.stages.len() {
                    if let Some(axis) = kernel.stages[s].axes.last() {
                        self.cut_stages(program, kernel, *axis, &[s]);
                    }
                }
            }
        }
    }

    fn cut_stages(&mut self, program: &Program<'_>, kernel: &Kernel, axis: Axis, stages: &[usize]) {
        // a list along an axis that varies would be another constant
        let Some(extent) = axis.extent.fixed() else {
            return;
        };
        if extent < LONG || stages.iter().any(|s| self.stages[*s].scalar_only) {
            return;
        }
        let found: Vec<Vec<Option<Vec<i64>>>> = (stages.iter())
            .map(|s| lists(program, &kernel.stages[*s], (axis.id, extent)))
            .collect();
        let all: Vec<&Vec<i64>> = found.iter().flatten().flatten().collect();
        if all.is_empty() {
            return;
        }
        let cuts = cuts(&all, extent as usize);
        let code: usize = stages.iter().map(|s| kernel.stages[*s].body.len()).sum();
        let longest = cuts.iter().map(|c| c.1 - c.0).max().unwrap_or(0);
        if cuts.len() > MAX_PARTS || cuts.len() * code > MAX_CODE || longest < LONG as usize {
            return;
        }
        for (s, lists) in stages.iter().zip(&found) {
            let parts = (cuts.iter())
                .map(|c| part(&kernel.stages[*s], &self.stages[*s], lists, *c))
                .collect();
            self.stages[*s].parts = parts;
        }
    }
}

impl<'k> Nest<'_, '_, '_, 'k> {
    /// The parts of the lane axis of stage `s`, all of it if it has none: number, begin, end.
    pub(crate) fn lane_parts(&self, s: usize, extent: Size) -> Vec<(Option<usize>, Size, Size)> {
        let parts = &self.facts.stages[s].parts;
        if parts.is_empty() {
            return vec![(None, Size::Fixed(0), extent)];
        }
        (parts.iter().enumerate())
            .map(|(i, p)| (Some(i), Size::Fixed(p.begin), Size::Fixed(p.end)))
            .collect()
    }

    /// The strip of the part that is being emitted.
    pub(crate) fn part_strip(&self) -> Option<&'k Strip> {
        self.facts.stages[0].parts[self.part?].strip.as_ref()
    }

    /// A strip over `len` elements of the lane axis from one on.
    pub(crate) fn strip_along(
        &mut self,
        strip: &'k Strip,
        begin: Value,
        len: Value,
        invariants: &[Option<Invariant>],
    ) -> Result<(), JitError> {
        let saved = self.address.clone();
        self.enter(self.lane_axis.expect("a grid kernel"), begin);
        self.call_strip(strip, 0, invariants, len)?;
        self.address = saved;
        Ok(())
    }

    /// Each part of the lane axis as far as it is in the range `begin..end`.
    pub(crate) fn range_parts(
        &mut self,
        (begin, end): (Value, Value),
        extent: Size,
        u: i64,
        invariants: &[Vec<Option<Invariant>>],
    ) -> Result<(), JitError> {
        for (part, from, to) in self.lane_parts(0, extent) {
            self.part = part;
            let (from, to) = (self.e.size(from), self.e.size(to));
            let from = self.e.b.ins().smax(begin, from);
            let to = self.e.b.ins().smin(end, to);
            // where the range does not reach, the length is negative and no loop runs
            let len = self.e.b.ins().isub(to, from);
            let main = self.e.b.ins().band_imm_s(len, -u * LANES);
            let main = self.e.b.ins().iadd(from, main);
            self.groups(from, main, u, true, invariants)?;
            let rest = self.e.b.ins().smax(from, main);
            self.groups(rest, to, 1, false, invariants)?;
        }
        self.part = None;
        Ok(())
    }
}
