//! What a strip asks the memory for before it is needed.
//!
//! A kernel that goes over each of its rows several times, as a softmax does, waits for a row where it
//! reads it first, while the arithmetic of the others needs no memory. So the pass with the most
//! arithmetic asks for what the next row will read, which the processor would not do by itself.

use super::Stream;
use super::dtypes::format;
use super::ir::Inst;
use super::lower::MAX_STREAMS;
use super::translate::Translate;
use crate::cpu::jit::analyse::StageFacts;
use crate::cpu::jit::sizes::{Index, Kernel, Op, Sizes};
use straightline_passes::schedule::loops::{Mem, Vectorize};

/// Bytes of a row for which it is worth it: shorter ones are asked for by the processor, longer ones
/// would be gone before they are used.
const ROW: std::ops::RangeInclusive<i64> = 1 << 10..=64 << 10;
/// Bytes of all rows, from which on they are not in the second cache already.
const ROWS: i64 = 1 << 20;

/// The stage that asks, if any does: the one with the most arithmetic.
pub(in crate::cpu::jit) fn busiest(
    kernel: &Kernel,
    facts: &[StageFacts],
    sizes: &Sizes,
) -> Option<usize> {
    let passes = || (0..kernel.stages.len()).filter(move |s| kernel.stages[*s].axes.len() == 1);
    let row = |s: usize| {
        let widest = kernel.stages[s].body.iter().map(|i| i.dtype.size() as i64).max();
        sizes.hint(kernel.stages[s].axes[0].extent) * widest.unwrap_or(1)
    };
    let s = passes().max_by_key(|s| facts[*s].cost)?;
    let rows: i64 = kernel.grid.iter().map(|a| sizes.hint(a.extent)).product();
    let asks = kernel.vectorize == Vectorize::Stage
        && passes().count() > 1
        && passes().all(|other| row(other) == row(s))
        && ROW.contains(&row(s))
        && rows > 1
        && rows * row(s) > ROWS;
    asks.then_some(s)
}

impl Translate<'_> {
    /// Asks for what the stage, which is stage `s`, will load for the next row.
    pub(super) fn ask(&mut self, kernel: &Kernel, s: usize) {
        let Some(rows) = kernel.grid.iter().rev().find(|a| !a.extent.is(1)) else {
            return;
        };
        let writes = |mem: Mem| {
            let stores = |op: &Op| matches!(op, Op::Store { mem: m, .. } if *m == mem);
            kernel.stages.iter().any(|s| s.body.iter().any(|i| stores(&i.op)))
        };
        // an operand along the row, at another place in each
        let runs = |mem: Mem, index: &Index| {
            let inner = kernel.stages[s].axes.last().and_then(|a| index.term(a.id));
            matches!(mem, Mem::Buffer(_))
                && index.dynamic.is_empty()
                && inner.is_some_and(|n| n.is(1))
                && index.term(rows.id).is_some()
                && !writes(mem)
        };
        let mut asked: Vec<(Mem, &Index)> = Vec::new();
        for (i, inst) in kernel.stages[s].body.iter().enumerate() {
            if let Op::Load { mem, index } = &inst.op
                && runs(*mem, index)
                && !asked.contains(&(*mem, index))
                && self.streams.len() < MAX_STREAMS
            {
                asked.push((*mem, index));
                let stream = self.open(Stream::Access { inst: i, row: 1 });
                self.body.push(Inst::Ask(stream, format(inst.dtype)));
            }
        }
    }
}
