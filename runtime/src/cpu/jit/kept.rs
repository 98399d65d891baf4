//! Rows that a kernel keeps between its passes, in the memory of its result.
//!
//! What a pass computes and a later one needs again, the exponentials of a softmax say, is in a row of
//! scratch. Where the last pass that reads it writes a row of a result as long, the elements can lie
//! there from the beginning: the kernel touches fewer lines, and the memory gets those of the result
//! ready while there is still arithmetic to do.

use super::sizes::{Index, Kernel, Op, Program, Size};
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::{AxisId, BufferId, Mem, Vectorize};

/// Moves the rows of a program's kernels that can be moved.
pub(super) fn in_results(program: &mut Program<'_>) {
    let schedule = program.schedule;
    let dtype = |id| schedule.buffer(id).dtype;
    program.kernels_mut().for_each(|kernel| in_results_of(kernel, &dtype));
}

/// Moves the rows of a kernel; `dtype` is that of a buffer.
fn in_results_of(kernel: &mut Kernel, dtype: &dyn Fn(BufferId) -> DType) {
    for row in 0..kernel.scratch.len() {
        if let Some((mem, index, axis)) = result_for(kernel, row, dtype) {
            put(kernel, row, mem, &index, axis);
        }
    }
}

/// The result that a row can lie in: its memory, the element of a pass along an axis.
fn result_for(
    kernel: &Kernel,
    row: usize,
    dtype: &dyn Fn(BufferId) -> DType,
) -> Option<(Mem, Index, AxisId)> {
    if kernel.vectorize != Vectorize::Stage {
        return None;
    }
    let scratch = &kernel.scratch[row];
    let here = Mem::Scratch(row as u32);
    // the stages that write and read it, each from end to end
    let (mut written, mut read) = (Vec::new(), Vec::new());
    for (s, stage) in kernel.stages.iter().enumerate() {
        for (i, inst) in stage.body.iter().enumerate() {
            let (Op::Load { mem, index }
            | Op::Store { mem, index, .. }
            | Op::Update { mem, index, .. }) = &inst.op
            else {
                continue;
            };
            if *mem != here {
                continue;
            }
            let [axis] = stage.axes.as_slice() else { return None };
            let whole = axis.extent == scratch.len
                && index.base.is(0)
                && index.dynamic.is_empty()
                && index.terms.as_slice() == [(axis.id, Size::Fixed(1))];
            match &inst.op {
                _ if !whole => return None,
                Op::Load { .. } => read.push((s, i)),
                Op::Store { .. } => written.push(s),
                _ => return None,
            }
        }
    }
    let (&[first], Some(&(last, at))) = (written.as_slice(), read.last()) else { return None };
    if read[0].0 <= first {
        return None;
    }
    // the result of the last of them
    let inner = kernel.stages[last].axes[0].id;
    let result = kernel.stages[last].body.iter().enumerate().find_map(|(i, inst)| match &inst.op {
        Op::Store { mem: mem @ Mem::Buffer(b), index, .. }
            if i > at && dtype(*b) == scratch.dtype =>
        {
            Some((*mem, index))
        }
        _ => None,
    });
    let (mem, index) = result?;
    let mut rows = kernel.grid.iter().filter(|a| !a.extent.is(1)).peekable();
    let apart = rows.peek().is_some() && rows.all(|a| index.term(a.id).is_some());
    let accesses = |s: usize| {
        kernel.stages[s].body.iter().filter_map(|i| match &i.op {
            Op::Load { mem, index } => Some((*mem, index, false)),
            Op::Store { mem, index, .. } | Op::Update { mem, index, .. } => {
                Some((*mem, index, true))
            }
            _ => None,
        })
    };
    let alone =
        (0..kernel.stages.len()).flat_map(accesses).filter(|(m, ..)| *m == mem).count() == 1;
    // An operand may lie where the result does, if an element is read in the stage that writes it and
    // nowhere else: none that has a place in each row may be read once this one is written.
    let same = |index: &Index| {
        index.dynamic.is_empty() && kernel.grid.iter().all(|a| index.term(a.id).is_none())
    };
    let none = (first + 1..kernel.stages.len())
        .flat_map(accesses)
        .all(|(m, index, stores)| stores || matches!(m, Mem::Scratch(_)) || same(index));
    let moves = index.dynamic.is_empty() && index.term(inner).is_some_and(|n| n.is(1));
    (apart && alone && none && moves).then(|| (mem, index.clone(), inner))
}

/// Makes the accesses of a row those of `mem`, where `index` is the element along `axis`.
fn put(kernel: &mut Kernel, row: usize, to: Mem, at: &Index, axis: AxisId) {
    kernel.scratch[row].len = Size::Fixed(0);
    for stage in &mut kernel.stages {
        let own = stage.axes.first().map(|a| a.id);
        for inst in &mut stage.body {
            if let Op::Load { mem, index } | Op::Store { mem, index, .. } = &mut inst.op
                && *mem == Mem::Scratch(row as u32)
            {
                *mem = to;
                index.clone_from(at);
                for term in &mut index.terms {
                    if term.0 == axis {
                        term.0 = own.expect("a pass over the row");
                    }
                }
            }
        }
    }
}
