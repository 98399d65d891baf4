//! Kernels whose stages go over the rows of many columns: sums over leading dimensions, and what is
//! normalised by them.
//!
//! Lanes run along the columns. Results of reductions are in memory, one for each column, and a
//! strip takes several rows at once into them: it reads each result once for that many rows, which
//! it reads from end to end as they lie. The order in which the elements of a column are taken in is
//! that of the loops in Cranelift.

use super::dtypes::fold_of;
use super::ir::{Body, Format, Inst};
use super::stage::{Run, code, in_place_only, lowered};
use super::translate::Translate;
use super::vectors::{Vectors, Width};
use super::{ColumnStage, Columns, Stream, Strip};
use crate::cpu::jit::analyse::StageFacts;
use crate::cpu::jit::sizes::{Axis, Kernel, Op, Sizes, Stage};
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::Vectorize;

/// Fewer columns stay with Cranelift, whose loops have no calls.
const MIN_COLUMNS: i64 = 64;
/// How many rows a strip may take at once.
const ROWS: [i64; 3] = [8, 4, 2];
/// The most instructions of several rows.
const MAX_ROWS_BODY: usize = 60;

/// The strips of a kernel that goes over columns; `None` if it does not qualify.
pub(in crate::cpu::jit) fn columns_of(
    kernel: &Kernel,
    facts: &[StageFacts],
    sizes: &Sizes,
    vectors: Vectors,
) -> Option<Columns> {
    let axis = kernel.grid.last()?;
    let several = kernel.stages.iter().any(|s| !s.axes.is_empty());
    if kernel.vectorize != Vectorize::Grid
        || !several
        || !kernel.scratch.is_empty()
        || sizes.hint(axis.extent) < MIN_COLUMNS
    {
        return None;
    }
    let stages = (0..kernel.stages.len())
        .map(|s| stage(kernel, s, &facts[s], axis, sizes, vectors))
        .collect::<Option<_>>()?;
    Some(Columns { stages })
}

fn stage(
    kernel: &Kernel,
    s: usize,
    facts: &StageFacts,
    axis: &Axis,
    sizes: &Sizes,
    vectors: Vectors,
) -> Option<ColumnStage> {
    let stage = &kernel.stages[s];
    if facts.scalar_only || !facts.parts.is_empty() || !in_place_only(stage) {
        return None;
    }
    // results lie in memory as they are in lanes, and those of truth have 32 bits there
    let of_truth = facts.reduces.iter().any(|r| stage.body[*r].dtype == DType::Bool);
    let width = Translate::new(kernel, s, facts, axis.id, vectors, None).body.width;
    if of_truth && width == Width::W64 {
        return None;
    }
    let rows = |n: i64| {
        let mut t = Translate::new(kernel, s, facts, axis.id, vectors, None);
        t.rows(n)?;
        (n == 1 || t.body.insts.len() <= MAX_ROWS_BODY).then_some(())?;
        Some((n, code(t, Run::along(axis, sizes))?))
    };
    let count = stage.axes.last().map_or(1, |a| sizes.hint(a.extent));
    let several = ROWS.into_iter().filter(|n| *n <= count).find_map(rows);
    let passes = several.into_iter().chain([rows(1)?]).collect();
    let ends = match facts.reduces.is_empty() {
        true => None,
        false => {
            let end = |blocks| end(stage, facts, (axis, sizes), (vectors, width), blocks);
            Some([false, true].map(end))
        }
    };
    let ends = match ends {
        None => None,
        Some([Some(begin), Some(add)]) => Some([begin, add]),
        Some(_) => return None,
    };
    Some(ColumnStage { passes, ends })
}

/// A strip over the results of a stage: sets them to what they begin with, or (`blocks`) takes the
/// results of a block into them.
fn end(
    stage: &Stage,
    facts: &StageFacts,
    (axis, sizes): (&Axis, &Sizes),
    (vectors, width): (Vectors, Width),
    blocks: bool,
) -> Option<Strip> {
    let mut body = Body::new(vectors, width);
    let mut streams = Vec::new();
    for (k, &r) in facts.reduces.iter().enumerate() {
        let inst = &stage.body[r];
        let Op::Reduce(op, _) = inst.op else {
            return None;
        };
        let fold = fold_of(op, inst.dtype)?;
        let to = streams.len() as u32;
        streams.push(Stream::Total(k));
        let value = if blocks {
            streams.push(Stream::Part(k));
            let total = body.push(Inst::Load(to, Format::Lanes));
            let part = body.push(Inst::Load(to + 1, Format::Lanes));
            body.folded(fold, total, part)
        } else {
            body.bits_const(fold.start)
        };
        body.push(Inst::Store(to, Format::Lanes, value));
    }
    body.streams = streams.len() as u32;
    let code = lowered(&body, Run::along(axis, sizes))?;
    let params = Vec::new();
    Some(Strip { code, number: 0, streams, params, turned: None, folds: 0, chains: 1 })
}
