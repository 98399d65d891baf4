//! A stage as a strip, if it qualifies: values are of one width (truth values of any), accesses run
//! along the vectorised axis with unit stride or stay where they are, or read elements as long as
//! lanes that lie apart.

use super::Strip;
use super::ir::{Body, Inst};
use super::lower::{MAX_STREAMS, Shape, lower, lower_pairs};
use super::pairs::paired;
use super::translate::Translate;
use super::turned::turned;
use super::vectors::Vectors;
use crate::cpu::jit::analyse::StageFacts;
use crate::cpu::jit::nest::LONG_ROW;
use crate::cpu::jit::sizes::{Axis, Kernel, Op, Sizes, Stage};
use straightline_passes::schedule::loops::Vectorize;

/// Shorter rows stay with Cranelift.
const MIN_EXTENT: i64 = 16;
/// And those of a stage's own axis, whose loops in Cranelift begin and end for each of them.
const fn min_stage(vectors: Vectors) -> i64 {
    match vectors {
        Vectors::Zmm => 10,
        Vectors::Ymm => 12,
    }
}
/// And shorter parts of rows.
const MIN_PART: i64 = 32;
/// How many vectors a step may have.
const UNROLL: [u32; 4] = [8, 4, 2, 1];
/// The most of a step with a sum.
const LONGEST: u32 = 4;
/// Bodies of so many instructions have steps of one vector, or of two whose instructions alternate.
const LONG: usize = 25;
/// Longer bodies stay with Cranelift.
const MAX_BODY: usize = 1500;

/// A stage's innermost loop as a strip, which `asks` for what other passes will need; `None` if the
/// stage does not qualify.
pub(crate) fn strip_of(
    kernel: &Kernel,
    s: usize,
    facts: &StageFacts,
    sizes: &Sizes,
    vectors: Vectors,
    asks: bool,
) -> Option<Strip> {
    let stage = &kernel.stages[s];
    let axis = match kernel.vectorize {
        Vectorize::Grid if kernel.stages.len() == 1 && stage.axes.is_empty() => {
            kernel.grid.last()?
        }
        Vectorize::Stage => stage.axes.last()?,
        _ => return None,
    };
    let long = kernel.vectorize == Vectorize::Stage || sizes.hint(axis.extent) >= MIN_EXTENT;
    if !long || !in_loops(stage, facts, axis, sizes, vectors) {
        return None;
    }
    let turned = turned(kernel, facts, axis, sizes);
    let new = || {
        let mut t = Translate::new(kernel, s, facts, axis.id, vectors, Some(sizes));
        t.turned.clone_from(&turned);
        t
    };
    let run = match &turned {
        // the columns of a tile, or what is left of a row
        Some(t) => Run { hint: sizes.hint(axis.extent).min(t.columns), exact: None },
        None => Run::along(axis, sizes),
    };
    let narrow = || {
        let mut t = new();
        t.narrow(sizes.hint(axis.extent))?;
        t.stage()?;
        code(t, run)
    };
    narrow().or_else(|| {
        let mut t = new();
        t.stage()?;
        if asks {
            t.ask(kernel, s);
        }
        code(t, run)
    })
}

/// A part of the lane axis of a kernel of one stage as a strip.
pub(crate) fn part_strip(
    kernel: &Kernel,
    facts: &StageFacts,
    part: usize,
    sizes: &Sizes,
    vectors: Vectors,
) -> Option<Strip> {
    let ([stage], part) = (kernel.stages.as_slice(), &facts.parts[part]) else {
        return None;
    };
    let axis = kernel.grid.last()?;
    if kernel.vectorize != Vectorize::Grid
        || !stage.axes.is_empty()
        || part.end - part.begin < MIN_PART
        || axis.extent.fixed()? > LONG_ROW
        || !in_place_only(stage)
    {
        return None;
    }
    let length = part.end - part.begin;
    let run = Run { hint: length, exact: Some(length) };
    let translated = |narrow: bool| {
        let mut t = Translate::of_part(kernel, facts, axis.id, vectors, sizes, part);
        if narrow {
            t.narrow(length)?;
        }
        t.stage()?;
        code(t, run)
    };
    translated(true).or_else(|| translated(false))
}

/// Whether a stage's loop over `axis` has the form that strips have.
pub(super) fn in_loops(
    stage: &Stage,
    facts: &StageFacts,
    axis: &Axis,
    sizes: &Sizes,
    vectors: Vectors,
) -> bool {
    // positions are counted in lanes
    let counts = |n: i64| n < i64::from(i32::MAX);
    let finds = stage.body.iter().any(|i| matches!(i.op, Op::ArgReduce { .. }));
    sizes.hint(axis.extent) >= min_stage(vectors)
        && facts.parts.is_empty()
        && in_place_only(stage)
        && (!finds || sizes.ask(axis.extent, counts))
}

/// The strip of a translated stage.
pub(super) fn code(mut t: Translate<'_>, run: Run) -> Option<Strip> {
    complete(&mut t)?;
    let code = lowered(&t.body, run)?;
    Some(strip(t, code))
}

/// Completes the body of a translated stage, if it can be a strip.
pub(super) fn complete(t: &mut Translate<'_>) -> Option<()> {
    let Translate { body, streams, params, .. } = t;
    if body.unsupported
        || body.insts.len() > MAX_BODY
        || !body.insts.iter().any(Inst::is_effect)
        || streams.len() > MAX_STREAMS
    {
        return None;
    }
    body.streams = streams.len() as u32;
    body.params = params.len() as u32;
    Some(())
}

/// The strip that has this code.
pub(super) fn strip(t: Translate<'_>, code: Vec<u8>) -> Strip {
    let Translate { body, streams, params, turned, .. } = t;
    Strip {
        code,
        number: 0,
        streams,
        params,
        turned,
        folds: body.folds.len(),
        chains: i64::from(LONGEST * body.lanes()),
    }
}

/// How many elements a strip goes over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// About so many.
    hint: i64,
    /// So many, or a part of them that is a multiple of every step.
    exact: Option<i64>,
}

impl Run {
    /// Those along an axis.
    pub(super) fn along(axis: &Axis, sizes: &Sizes) -> Run {
        Run { hint: sizes.hint(axis.extent), exact: axis.extent.fixed() }
    }
}

/// The code of a body.
pub(super) fn lowered(body: &Body, run: Run) -> Option<Vec<u8>> {
    if length(body) >= LONG && run.hint >= 2 * i64::from(body.lanes()) {
        let pair = paired(body);
        let code = pair.and_then(|p| lower_pairs(body, Some(&p), shape(body, run, 2)).ok());
        if code.is_some() {
            return code;
        }
    }
    // fewer copies where there are not enough registers
    steps(body, run).find_map(|u| lowered_by(body, run, u))
}

/// The instructions of a body; what only asks the memory does not make it long.
fn length(body: &Body) -> usize {
    body.insts.iter().filter(|i| !matches!(i, Inst::Ask(..))).count()
}

/// The numbers of vectors that a step of a body may have, the best first.
pub(super) fn steps(body: &Body, run: Run) -> impl Iterator<Item = u32> + use<> {
    let wish = match length(body) {
        0..=10 if body.vectors == Vectors::Zmm && body.finds_extremes() => 8,
        0..=10 => LONGEST,
        11..LONG => 2,
        _ => 1,
    };
    let lanes = i64::from(body.lanes());
    let fits = move |u: &u32| *u == 1 || *u <= wish && run.hint >= lanes * i64::from(*u);
    UNROLL.into_iter().filter(fits)
}

/// The code of a body in steps of so many vectors; `None` if there are not enough registers.
pub(super) fn lowered_by(body: &Body, run: Run, unroll: u32) -> Option<Vec<u8>> {
    lower(body, shape(body, run, unroll)).ok()
}

/// The loops of steps of so many vectors.
fn shape(body: &Body, run: Run, unroll: u32) -> Shape {
    let lanes = i64::from(body.lanes());
    Shape {
        unroll,
        single: run.exact.is_none_or(|n| n / lanes % i64::from(unroll) != 0),
        tail: run.exact.is_none_or(|n| n % lanes != 0),
    }
}

/// Whether memory that the stage both reads and writes is read only at the element that is written.
pub(super) fn in_place_only(stage: &Stage) -> bool {
    let accesses = |store: bool| {
        stage.body.iter().filter_map(move |i| match &i.op {
            Op::Store { mem, index, .. } if store => Some((*mem, index)),
            Op::Load { mem, index } if !store => Some((*mem, index)),
            _ => None,
        })
    };
    accesses(true).all(|(mem, to)| {
        accesses(false).all(|(m, from)| m != mem || from == to)
            && accesses(true).filter(|(m, _)| *m == mem).count() == 1
    })
}
