//! Operands that are transposed beside the others of their kernel: which ones a tile is turned of.

use super::Turned;
use crate::cpu::jit::analyse::StageFacts;
use crate::cpu::jit::sizes::{Axis, Index, Kernel, Op, Sizes};
use straightline_passes::schedule::loops::{Mem, Vectorize};

/// Bytes of a tile's column, which is a part of a row of the operand: a line of the cache.
const COLUMN: i64 = 64;
/// Bytes of all tiles.
const TILES: i64 = 16 << 10;
/// Columns of a tile are a multiple of this, and so many at least.
const STEP: i64 = 64;
/// Shorter axes have no tiles.
const MIN_EXTENT: i64 = 16;

/// The transposed operands of a kernel of one stage, if it has any.
pub(super) fn turned(
    kernel: &Kernel,
    facts: &StageFacts,
    lanes: &Axis,
    sizes: &Sizes,
) -> Option<Turned> {
    let [stage] = kernel.stages.as_slice() else {
        return None;
    };
    let long = |axis: &Axis| sizes.hint(axis.extent) >= MIN_EXTENT;
    if kernel.vectorize != Vectorize::Grid
        || !stage.axes.is_empty()
        || !kernel.scratch.is_empty()
        || !long(lanes)
    {
        return None;
    }
    let written = |mem: Mem| {
        let writes = |op: &Op| match op {
            Op::Store { mem: m, .. } | Op::Update { mem: m, .. } => *m == mem,
            _ => false,
        };
        stage.body.iter().any(|i| writes(&i.op))
    };
    // the axis that an operand runs along in memory, where it does not along the lanes
    let across = |mem: Mem, index: &Index| {
        let apart = index.term(lanes.id).is_some_and(|n| !n.is(0) && !n.is(1) && !n.is(-1));
        if !apart || !index.dynamic.is_empty() || written(mem) {
            return None;
        }
        kernel.grid.iter().find(|a| long(a) && index.term(a.id).is_some_and(|n| n.is(1)))
    };
    let mut loads = Vec::new();
    let mut axis = None;
    for (i, inst) in stage.body.iter().enumerate() {
        if let Op::Load { mem, index } = &inst.op
            && !facts.invariant[i]
            && let Some(a) = across(*mem, index)
            && *axis.get_or_insert(a.id) == a.id
        {
            loads.push((i, inst.dtype.size() as i64));
        }
    }
    let rows = COLUMN / loads.iter().map(|l| l.1).max()?;
    let all: i64 = loads.iter().map(|l| l.1 * rows).sum();
    let columns = (TILES / all / STEP).max(1) * STEP;
    Some(Turned { axis: axis?, rows, columns, loads })
}
