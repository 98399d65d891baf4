//! Convolutions of f32 with 3x3 kernels and stride 1 by Winograd's algorithm F(2x2, 3x3): squares
//! of 2x2 outputs for 16 multiplications where the sum written out takes 36. Where larger errors are
//! allowed, also by F(4x4, 3x3): 36 multiplications in place of 144.
//!
//! An output square is `Aᵀ [(G g Gᵀ) ⊙ (Bᵀ d B)] A`, with `g` the kernel and `d` the 4x4 (or 6x6)
//! inputs that the square sees. Over all channels the middle is 16 (or 36) matrix products, one for
//! each place of that square: rows are squares, columns output channels, steps input channels. They go through the
//! microkernels of products, a block of squares at a time, whose transformed inputs stay in the
//! second cache. The vectors of both transforms run over 16 channels, so that the arithmetic needs
//! no shuffles; the planes of the input and of the output are turned around on the way.
//!
//! **Numerics.** The order of all operations is fixed: the bits depend neither on the instruction
//! set (with FMA) nor on blocks and threads, and weights that were transformed before give the same
//! bits as those that are transformed during the call. The error is that of sums written out, as
//! long as the inputs of one square are of one magnitude: it is relative to the largest of them.
//! That of F(4x4), whose transforms have factors up to 8 and down to 1/24, is some ten times as
//! large. An infinity or a NaN would spread over its square, and so would an overflow of the transform: an
//! image with an output that is not finite is computed again by the direct kernel.

mod shape;
mod squares;
#[cfg(test)]
mod tests;
mod transform;

use super::split::{Finish, Shared, each, scratch};
use crate::cpu::kernels::matmul::single::PanelProduct;
use crate::cpu::threads;
pub(super) use shape::Shape;
use shape::{Block, Blocks, CHANNELS, Taps, Work};
use squares::{Four, Two};
use std::sync::atomic::{AtomicBool, Ordering};
use transform::{Inputs, Outputs, Weights};

/// Runs the transform of 2x2 outputs, or its like for 4x4.
macro_rules! by_squares {
    ($shape:expr, $task:expr) => {
        match $shape.edge {
            2 => $task.run(),
            _ => $task.by(Four).run(),
        }
    };
}

/// Where the transformed weights come from.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// They are transformed during the call.
    Taps(Taps),
    /// They were before ([`Transformed::source`]).
    Ready(*const f32),
}
// SAFETY: they are read only.
unsafe impl Sync for Source {}

/// Weights in the form that the products take: panel by panel, in each the 16 places, in each the
/// input channels.
pub(super) struct Transformed {
    data: Vec<Line>,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; 16]);

impl Transformed {
    /// Transforms a weight.
    ///
    /// # Safety
    ///
    /// The weight has the shape's sizes.
    pub(super) unsafe fn new(shape: &Shape, taps: Taps) -> Transformed {
        let len = shape.transformed(shape.columns()).div_ceil(16);
        let mut data = vec![Line([0.0; 16]); len];
        // SAFETY: the caller's contract.
        unsafe { transform_all(shape, taps, Shared(data.as_mut_ptr().cast())) };
        Transformed { data }
    }

    pub(super) fn source(&self) -> Source {
        Source::Ready(self.data.as_ptr().cast())
    }
}

/// # Safety
///
/// The weight has the shape's sizes, and `to` room for all of its transform.
unsafe fn transform_all(shape: &Shape, taps: Taps, to: Shared<f32>) {
    let width = PanelProduct::width().max(CHANNELS);
    let parts = shape.columns() / width;
    each(parts, shape.transformed(shape.columns()) * 4, &|i| {
        let task = Weights {
            inputs: shape.inputs,
            outputs: shape.outputs,
            taps,
            columns: (i * width, (i + 1) * width),
            panel: PanelProduct::width(),
            place: shape.place(),
            to: to.at(i * shape.transformed(width)),
            of: Two,
        };
        // SAFETY: the caller's contract; each call writes panels of its own.
        unsafe { by_squares!(shape, task) }
    });
}

/// Computes the convolution, without a bias. `finish` is called for each run of outputs that has
/// been written. Returns the images with outputs that are not finite.
///
/// # Safety
///
/// The operands have the shape's sizes; nobody else uses the output meanwhile.
pub(super) unsafe fn run(
    shape: &Shape,
    input: Shared<f32>,
    source: Source,
    output: Shared<f32>,
    finish: Option<Finish<'_>>,
) -> Vec<usize> {
    let blocks = Blocks::new(shape);
    let spread: Vec<AtomicBool> = (0..shape.batch).map(|_| AtomicBool::new(false)).collect();
    let go = |source: Source| {
        let source = &source;
        let chunks = shape.columns().div_ceil(shape.chunk());
        // few blocks: the threads share each of them, and transform its inputs twice
        let threads = if threads::in_parallel() { 1 } else { threads::num_threads() };
        let shares = if blocks.count() >= 2 * threads { 1 } else { threads.min(chunks) };
        let positions = shape.batch * shape.output_plane();
        each(blocks.count() * shares, positions * shape.inputs * shape.outputs * 4, &|i| {
            let (block, share) = (blocks.at(i / shares), i % shares);
            let part = (chunks * share / shares, chunks * (share + 1) / shares);
            // SAFETY: the caller's contract; each call writes outputs of its own.
            unsafe { one(shape, &block, part, (input, *source, output), finish, &spread) };
        });
    };
    match source {
        // (in a single block each chunk is used once, and transformed where it is used)
        Source::Taps(taps) if blocks.count() > 1 => {
            let len = shape.transformed(shape.columns());
            scratch(len, |to: *mut f32| {
                // SAFETY: the caller's contract.
                unsafe { transform_all(shape, taps, Shared(to)) };
                go(Source::Ready(to));
            });
        }
        _ => go(source),
    }
    (0..shape.batch).filter(|n| spread[*n].load(Ordering::Relaxed)).collect()
}

/// One block: the chunks `begin..end` of its outputs.
///
/// # Safety
///
/// As [`run`]; nobody else is given this block and these chunks.
unsafe fn one(
    shape: &Shape,
    block: &Block,
    (begin, end): (usize, usize),
    (input, source, output): (Shared<f32>, Source, Shared<f32>),
    finish: Option<Finish<'_>>,
    spread: &[AtomicBool],
) {
    let chunk = shape.chunk();
    let panel = PanelProduct::width();
    let work = Work::new(shape, block, chunk, matches!(source, Source::Taps(_)));
    let edge = shape.edge;
    let (top, left) = (edge * block.rows.0, edge * block.cols.0);
    let height = (edge * block.rows.1).min(shape.output[0]) - top;
    let width = (edge * block.cols.1).min(shape.output[1]) - left;
    let done = |image: usize, (first, last): (usize, usize), finite: bool| {
        if !finite {
            spread[image].store(true, Ordering::Relaxed);
        }
        let Some(finish) = finish else { return };
        for channel in first..last {
            if width == shape.output[1] {
                finish(image, channel, (top * width, height * width));
            } else {
                for y in top..top + height {
                    finish(image, channel, (y * shape.output[1] + left, width));
                }
            }
        }
    };
    scratch(work.len, |seen: *mut f32| {
        let [sums, planes, own] = work.at.map(|at| seen.wrapping_add(at));
        let input = input.at(0).cast_const();
        let task = Inputs { shape, block, work: &work, input, planes, to: seen, of: Two };
        // SAFETY: the caller's contract; the scratch has the sizes of the work.
        unsafe { by_squares!(shape, task) };
        for column in (begin * chunk..shape.columns().min(end * chunk)).step_by(chunk) {
            let columns = chunk.min(shape.columns() - column);
            let weights = match source {
                Source::Ready(all) => all.wrapping_add(shape.transformed(column)),
                Source::Taps(taps) => {
                    let task = Weights {
                        inputs: shape.inputs,
                        outputs: shape.outputs,
                        taps,
                        columns: (column, column + columns),
                        panel,
                        place: shape.place(),
                        to: own,
                        of: Two,
                    };
                    // SAFETY: as above.
                    unsafe { by_squares!(shape, task) };
                    own.cast_const()
                }
            };
            for place in 0..shape.places() {
                for p in 0..columns / panel {
                    let product = PanelProduct {
                        rows: block.squares(),
                        k: shape.inputs,
                        a: seen.wrapping_add(place * work.seen[1]),
                        a_row: work.seen[0],
                        b: weights.wrapping_add((p * shape.places() + place) * shape.place()),
                        c: sums.wrapping_add(place * work.sums[1] + p * panel),
                        c_row: work.sums[0],
                    };
                    // SAFETY: as above.
                    unsafe { product.run() };
                }
            }
            let task = Outputs {
                shape,
                block,
                work: &work,
                from: sums,
                channels: (column, columns.min(shape.outputs.saturating_sub(column))),
                planes,
                output: output.at(0),
                done: &done,
                of: Two,
            };
            // SAFETY: as above.
            unsafe { by_squares!(shape, task) };
        }
    });
}
