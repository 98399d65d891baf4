//! Kernels whose first stage reduces rows, one for each grid point, and whose other stages are a pass
//! each over its results: sums and extremes over the last dimensions.
//!
//! A strip takes several rows at once. What it reads then comes from several places of the memory,
//! and it does not wait at each page's beginning for lines that nothing has asked for before; short
//! rows share a call. Each row has accumulators of its own, as many as it has alone: its result does
//! not depend on the rows that it is taken with.

use super::stage::{Run, complete, in_loops, lowered_by, steps, strip};
use super::translate::Translate;
use super::vectors::Vectors;
use super::{Rows, Strip};
use crate::cpu::jit::analyse::StageFacts;
use crate::cpu::jit::sizes::{Kernel, Sizes};
use straightline_passes::schedule::loops::Vectorize;

/// How many rows a strip may take at once.
const ROWS: [i64; 2] = [4, 2];
/// Rows of so many elements are long. Vectors of 256 bits take long rows one after the other: the
/// memory of a Zen 5 gives 4096 rows of 4096 `f32` in 1.5 ms so, two at once in 1.9, four in 2.3.
/// (In vectors of 512 bits it is 1.3, 1.2 and 1.4; a Sapphire Rapids is quicker with four.)
const LONG: i64 = 1024;
/// The most instructions of several rows.
const MAX_BODY: usize = 60;
/// The most instructions of the other stages, which are generated for each of the rows.
const MAX_REST: usize = 30;

/// The strips of a kernel that reduces rows: of its first stage for one row, and for several;
/// `None` if it does not qualify.
pub(in crate::cpu::jit) fn rows_of(
    kernel: &Kernel,
    facts: &[StageFacts],
    sizes: &Sizes,
    vectors: Vectors,
) -> Option<(Strip, Rows)> {
    let (stage, rest) = kernel.stages.split_first()?;
    let inner = stage.axes.last()?;
    let mut long = kernel.grid.iter().filter(|a| !a.extent.is(1));
    let (Some(rows), None) = (long.next(), long.next()) else {
        return None;
    };
    let rest_length: usize = rest.iter().map(|s| s.body.len()).sum();
    if kernel.vectorize != Vectorize::Stage
        || !kernel.scratch.is_empty()
        || rest.iter().any(|s| !s.axes.is_empty())
        || rest_length > MAX_REST
        || facts[0].reduces.is_empty()
        || (vectors == Vectors::Ymm && sizes.hint(inner.extent) >= LONG)
        || !in_loops(stage, &facts[0], inner, sizes, vectors)
    {
        return None;
    }
    let translate = || Translate::new(kernel, 0, &facts[0], inner.id, vectors, Some(sizes));
    let mut one = translate();
    one.stage()?;
    complete(&mut one)?;
    // each of four rows has four accumulators at most
    let run = Run::along(inner, sizes);
    let (u, code) = steps(&one.body, run)
        .filter(|u| *u <= 4)
        .find_map(|u| Some((u, lowered_by(&one.body, run, u)?)))?;
    let rows = ROWS.into_iter().filter(|n| *n <= sizes.hint(rows.extent)).find_map(|n| {
        let mut several = translate();
        several.grid_rows(n, rows.id)?;
        complete(&mut several)?;
        if several.body.insts.len() > MAX_BODY {
            return None;
        }
        let code = lowered_by(&several.body, run, u)?;
        Some(Rows { count: n, strip: strip(several, code) })
    })?;
    Some((strip(one, code), rows))
}
